# SPDX-License-Identifier: Apache-2.0
"""What left a silo, and what a course would make leave it, in words for people who train no models."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from fedqa.evaluation.words import count, listed, plural, size
from fedqa.federation.channels import CHANNELS
from fedqa.federation.ledger import Row
from fedqa.federation.sharing import Mode
from fedqa.inspection import Preview, StagePreview

NO_TEXT = "no text, no question, no answer"

KINDS = {  # what a message of this kind says, and what is not in it
    "update": (
        "how the shared part of the model changed",
        "With it go the number of examples and steps, the training loss and mean scores: " + NO_TEXT + ".",
    ),
    "report": ("mean scores", f"How well the models do on the silo's own questions, as means: {NO_TEXT}."),
    "refusal": ("a refusal", f"One code word that says why nothing was done: {NO_TEXT}."),
    "examples": (
        "all documents and examples, in clear",
        "The texts themselves: whoever received this message can read them.",
    ),
    "covered_examples": (
        "all documents in clear, and the questions among invented ones",
        "The texts themselves: whoever received this message can read them.",
    ),
    "fed_negative": (
        "vectors of questions, and of sentences near to other silos' questions, with noise",
        "Numbers that a model made of text. Much can be read from them by whoever has the model, hence the noise.",
    ),
    "probe": (
        "this silo's part of a sum over silos, hidden by masks",
        "Numbers that a model made of mixtures of texts. The message alone is noise; all silos know the sum.",
    ),
    "representations": (
        "what this silo's model makes of texts that all silos made together",
        f"A few numbers for each of these texts, which are nobody's: {NO_TEXT}.",
    ),
}
IN_CLEAR = frozenset({"examples", "covered_examples"})

_UNITS = ((1_000_000_000, "billion"), (1_000_000, "million"))
_TAGS = {
    "words": "word table",
    "embeddings": "position tables",
    "norm": "normalisation",
    "pooler": "pooler",
    "head": "answering head",
    "lm_head": "word head",
    "patch": "private patch",
    "adapter": "adapter",
    "other": "other parts",
}
_LAYER = re.compile(r"(enc|dec)\.(\d+)")


def amount(n: int) -> str:
    """A number of numbers that can be said aloud: 1.3 million."""
    for unit, name in _UNITS:
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return count(n)


def numbers(n: int) -> str:
    return f"{amount(n)} number" if n == 1 else f"{amount(n)} numbers"


# -- what left -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """A row of the ledger in words. `when`, `what` and `much` together are a sentence."""

    when: str
    what: str
    much: str
    meaning: str  # what is in it and what is not
    in_clear: bool  # whether text left

    @property
    def sentence(self) -> str:
        return f"{self.when}: {self.what}, {self.much}"


def said(row: Row) -> Said:
    what, meaning = KINDS.get(row.kind, (f"a message of the kind “{row.kind}”", "This kind has no words here."))
    n = _numbers_in(row)
    if row.kind == "update" and not n:
        what = "nothing of the model, only counts, losses and mean scores"
    tells = [numbers(n)] if n and row.kind not in IN_CLEAR else []
    when = f"Round {row.round}" if row.round else "After a stage"
    return Said(when, what, ", ".join([*tells, size(row.bytes)]), meaning, row.kind in IN_CLEAR)


def _numbers_in(row: Row) -> int:
    """How many numbers the tensors of a message hold; a row that was tampered with may not say."""
    try:
        return sum(prod(shape) for shape in json.loads(row.tensors).values())
    except (ValueError, TypeError, AttributeError):
        return 0


# -- what would leave ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StageSaid:
    """A stage of a course: what leaves this silo in a round of it, what stays, and what to think about."""

    title: str
    leaves: Sequence[str]
    stays: Sequence[str]
    warnings: Sequence[str]
    bytes_up: int


def course_said(preview: Preview) -> list[StageSaid]:
    return [_stage_said(position, stage) for position, stage in enumerate(preview.stages, start=1)]


def _stage_said(position: int, stage: StagePreview) -> StageSaid:
    return StageSaid(
        title=f"Stage {position}, {stage.name}: {plural(stage.rounds, 'round')}",
        leaves=list(_leaves(stage)),
        stays=list(_stays(stage)),
        warnings=stage.warnings,
        bytes_up=stage.bytes_up,
    )


def _leaves(stage: StagePreview) -> Iterator[str]:
    for name, _ in stage.channels:
        what, meaning = KINDS.get(name, (CHANNELS[name].summary, ""))
        yield f"{what[:1].upper()}{what[1:]}. {meaning}".strip()
    if not stage.asked:
        return
    parts, n = _of_mode(stage, "shared")
    if n:
        yield f"In every round, how {numbers(n)} of the model changed ({parts}): {size(stage.bytes_up)}."
    yield f"In every round, the number of examples and steps, the training loss and mean scores: {NO_TEXT}."


def _stays(stage: StagePreview) -> Iterator[str]:
    if not any(name in IN_CLEAR for name, _ in stage.channels):
        yield "All documents, questions and answers."
    private, n_private = _of_mode(stage, "private")
    if n_private:
        yield f"The silo's own part of the model: {numbers(n_private)} ({private}), trained here and never sent."
    frozen, n_frozen = _of_mode(stage, "frozen")
    if n_frozen:
        yield f"What nobody changes: {numbers(n_frozen)} ({frozen}), the same for all and never sent."


def _of_mode(stage: StagePreview, mode: Mode) -> tuple[str, int]:
    """The parts treated so, in words, and how many numbers they hold; of the largest where skills differ."""
    sizes: dict[str, Counter[str]] = {}
    for part in stage.parts:
        if part.mode == mode:
            sizes.setdefault(part.skill, Counter())[part.group] += part.parameters
    largest = max(sizes.values(), key=lambda found: found.total(), default=Counter())
    return listed(list(_named(list(largest)))), largest.total()


def _named(groups: Sequence[str]) -> Iterator[str]:
    """Parts in words; layers that follow one another as one."""
    layers = sorted(int(found[2]) for group in groups if (found := _LAYER.fullmatch(group)))
    for group in groups:
        if not _LAYER.fullmatch(group):
            yield _TAGS.get(group, group.replace(".", " "))
    for first, last in _runs(layers):
        between = "and" if last == first + 1 else "to"
        yield f"layer {first + 1}" if first == last else f"layers {first + 1} {between} {last + 1}"


def _runs(layers: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for i, layer in enumerate(layers):
        if i + 1 == len(layers) or layers[i + 1] > layer + 1:
            yield layers[start], layer
            start = i + 1
