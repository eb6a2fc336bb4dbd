# SPDX-License-Identifier: Apache-2.0
"""Who answers at a silo's desk: its models of each skill it has a run of, and the embedded one where it has none."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from fedqa.answering.document_index import Encoder
from fedqa.answering.loaded import UNTRAINED, Loaded, finder_of, loaded_run, reads_pairs, untrained
from fedqa.answering.pipeline import Models
from fedqa.errors import ConfigError
from fedqa.settings import Settings
from fedqa.training import one_thread

_DONE_BY = {"retrieve": "found", "match": "matched", "read": "read"}


@dataclass(frozen=True)
class Staff:
    """The models of a desk."""

    finder: Encoder
    models: Models
    words: str  # which they are, for people
    digest: str  # of all of them


def load_staff(settings: Settings) -> Staff:
    """The models that [runs] names. One whose training has not ended yet is done without."""
    runs = {skill: run for skill, run in settings.answering.items() if not to_come(run, settings)}
    with one_thread():  # as in `turns.py`: several lose much where the cores are busy
        return staff_of({skill: _checked(skill, run, settings) for skill, run in runs.items()})


def staff_of(by_skill: Mapping[str, Loaded]) -> Staff:
    """Sentences are found by `retrieve`, else passages by `match`, else by the embedded model."""
    retrieve, match, read = (by_skill.get(skill) for skill in ("retrieve", "match", "read"))
    finder = retrieve or match or untrained()
    again = match if match and (retrieve or reads_pairs(match)) else None
    every = [one for one in (finder, again, read) if one]
    return Staff(
        finder=finder_of(finder),
        models=Models(match=again, read=read, points=None if retrieve else finder),
        words=_words(by_skill),
        digest=blake3(" ".join(one.digest for one in every).encode()).hexdigest(),
    )


def stamp(settings: Settings) -> tuple[int, ...]:
    """Changes when a training of one of the runs ends."""
    return tuple(ended_at(run) for run in settings.answering.values())


def ended_at(run: Path) -> int:
    """Changes when a training ends in this folder; 0 before the first has."""
    try:
        return (run / "result.json").stat().st_mtime_ns
    except OSError:
        return 0


def to_come(run: Path, settings: Settings) -> bool:
    """A run that is not there is a mistake, unless it may be trained from the page."""
    return settings.training is not None and not ended_at(run)


def _checked(skill: str, run: Path, settings: Settings) -> Loaded:
    loaded = loaded_run(run, settings.name)
    if loaded.skill.name != skill:
        raise ConfigError(
            f"{settings.path}: [runs] {skill} = {str(run)!r} is a run in which {settings.name!r} learnt "
            f"{loaded.skill.name!r}; name it by that skill, or give another run"
        )
    return loaded


def _words(by_skill: Mapping[str, Loaded]) -> str:
    if not by_skill:
        return UNTRAINED
    words = [one.words for one in by_skill.values()]
    return words[0] if len(words) == 1 else "; ".join(f"{_DONE_BY[s]} by {one.words}" for s, one in by_skill.items())
