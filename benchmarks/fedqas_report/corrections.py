# SPDX-License-Identifier: Apache-2.0
"""The part of the FedQAS report on corrections: are they learned, do they help elsewhere, and what is forgotten?

Three measures after every round. *Corrected*: the questions that were corrected so far. *Next*: those that people will
ask after this round, of which none has been trained on. *Old*: the silo's test questions. What corrections did is the
difference, question by question, to as many rounds in which nothing was corrected.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from benchmarks.fedqas_corrections import ALONE, NOTHING, SOME, TOGETHER, TRAINED_ON, WAYS, Followed, Way
from benchmarks.study.charts import Curve, line_chart
from benchmarks.study.page import Block, Cell, Grid, Note, Row, Section
from benchmarks.study.statistics import Cells, Pair, Versus, compare, overall
from benchmarks.study.tables import MARKS, difference_cell, estimate_cell
from benchmarks.study.wording import verdict
from fedqa.evaluation.charts import Chart, Look
from fedqa.evaluation.report import Tile
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.run_scores import POINTS
from fedqa.evaluation.words import DASH, duration, listed, plural, signed

Measure = Literal["corrected", "next", "old"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
TITLES: Mapping[Measure, str] = {
    "corrected": "corrected so far",
    "next": "next questions",
    "old": "old questions",
}
MEANT: Mapping[Measure, str] = {
    "corrected": "learned?",
    "next": "does it help before they are corrected?",
    "old": "forgotten?",
}
POINT = "personal"  # the silo's own model after the round, which is asked every check
SAID = {"personal": "the silo's own model", "received": "the model as shared", "best": "the model that answers"}
LABELS = {"all": "all", "some": f"{SOME} : 1", "none": "new"}
LOOKS: Mapping[str, Look] = {"all": "received", "some": "personal", "none": "best"}
MADE = (
    "A correction is a question that the model that answered got wrong, with the answer its people gave. Every round "
    "has the same number of steps: on all of the silo's examples, on some old ones for each new one, or on new ones "
    "alone. Federated: other silos train too, on what they have always had; in the shared mean a silo counts by its "
    "examples, so one that trains on new ones alone counts for little."
)
EFFECT = (
    "What corrections did: the difference to as many rounds in which nothing was corrected, on the same questions. "
    "Corrected: after the last round. Next: each batch just before it was corrected, without the first. Old: after the "
    "last round."
)
STATES = "What the silo's page says of the corrections after the last round, of all seeds together."


@dataclass(frozen=True)
class Corrected:
    """What was followed, by way."""

    by_way: Mapping[str, Sequence[Followed]]

    @classmethod
    def of(cls, followed: Sequence[Followed]) -> "Corrected":
        names = [way.name for way in WAYS if any(one.way == way.name for one in followed)]
        return cls({name: [one for one in followed if one.way == name] for name in names})

    @property
    def ways(self) -> list[Way]:
        return [way for way in WAYS if way.name in self.by_way]

    @property
    def rounds(self) -> int:
        return max(len(one.corrected) for some in self.by_way.values() for one in some)

    @property
    def seeds(self) -> list[int]:
        return sorted({one.seed for some in self.by_way.values() for one in some})

    def cells(self, way: str, measure: Measure, number: int, point: str = POINT) -> Cells:
        """After a round; empty where there is nothing to measure."""
        return _cells((one, values(one, measure, number, point)) for one in self.by_way[way])


def values(followed: Followed, measure: Measure, number: int, point: str) -> np.ndarray:
    """F1 after a round of the questions that a measure is of. Round 0 is before any correction."""
    scored = followed.scores[point][number]
    return np.asarray(
        scored.test if measure == "old" else [scored.stream[i] for i in places(followed, measure, number)]
    )


def places(followed: Followed, measure: Measure, number: int) -> list[int]:
    """Which questions of the stream are measured after a round."""
    if measure == "corrected":
        return [place for batch in followed.corrected[:number] for place in batch]
    return (
        list(range(number * followed.batch, (number + 1) * followed.batch)) if number < len(followed.corrected) else []
    )


def _cells(found: Iterable[tuple[Followed, np.ndarray]]) -> Cells:
    return {(one.seed, one.silo): array for one, array in found if len(array)}


# -- what corrections did ----------------------------------------------------------------------------------------


def effects(found: Corrected, point: str = POINT) -> dict[Measure, dict[str, Versus]]:
    """Each way against nothing corrected, which is left out where it was not run."""
    return {measure: compare(_pairs(found, measure, point)) for measure in MEASURES}


def _pairs(found: Corrected, measure: Measure, point: str) -> dict[str, Pair]:
    pairs = {}
    for way in found.ways:
        without = Way(way.together, "all", corrects=False).name
        if way.corrects and without in found.by_way:
            controls = {one.seed: one for one in found.by_way[without]}
            both = [(one, controls[one.seed]) for one in found.by_way[way.name] if one.seed in controls]
            ours = _cells((one, _asked(one, one, measure, point)) for one, _ in both)
            theirs = _cells((one, _asked(one, control, measure, point)) for one, control in both)
            pairs[way.name] = (ours, theirs)
    return pairs


def _asked(one: Followed, answering: Followed, measure: Measure, point: str) -> np.ndarray:
    """How the second answered, when all was over, the questions that were corrected (or next, or old) for the first."""
    last, scores = len(one.corrected), answering.scores[point]
    if measure == "old":
        return np.asarray(scores[last].test)
    if measure == "corrected":
        return np.asarray([scores[last].stream[place] for place in places(one, measure, last)])
    return np.asarray([scores[n].stream[place] for n in range(1, last) for place in places(one, measure, n)])


# -- the page ----------------------------------------------------------------------------------------------------


def corrections_sections(followed: Sequence[Followed]) -> list[Section]:
    if not followed:
        return []
    found = Corrected.of(followed)
    drawn = [chart for together in (True, False) if (chart := _chart(found, together))]
    by_round = [_by_round(found, measure) for measure in MEASURES]
    did = [_effects(found, point, folded=point != POINT) for point in (POINT, *(p for p in POINTS if p != POINT))]
    blocks: list[Block] = [
        *drawn,
        *by_round,
        *(grid for grid in did if grid.rows),
        _states(found),
        _costs(found),
        *(Note(text) for text in (MADE, EFFECT, STATES, MARKS)),
    ]
    return [Section("corrections", "Corrections, round after round", blocks, short="corrections")]


def _chart(found: Corrected, together: bool) -> Chart | None:
    ways = [way for way in found.ways if way.together is together]
    if not ways:
        return None
    order: tuple[Measure, ...] = ("old", "next", "corrected")  # the first has all the curves that a legend names
    panels = {TITLES[m]: [curve for way in ways if (curve := _curve(found, way, m)).points] for m in order}
    kind = TOGETHER if together else ALONE
    caption = (
        f"{kind.capitalize()}: F1 of {SAID[POINT]} by round of corrections, with 95 % intervals. It is trained on all "
        f"examples, on {SOME} old ones for each new one ({SOME} : 1), on new ones only, or nothing is corrected "
        "(none). Next: the questions that are corrected after the round. Old: the silo's test questions."
    )
    ticks = [str(number) for number in range(found.rounds + 1)]
    shown = {title: curves for title, curves in panels.items() if curves}
    return line_chart(f"corrections-{kind}", shown, caption=caption, x="round of corrections", y="F1", ticks=ticks)


def _curve(found: Corrected, way: Way, measure: Measure) -> Curve:
    at = {number: found.cells(way.name, measure, number) for number in range(found.rounds + 1)}
    points = [(number, overall(cells)) for number, cells in at.items() if cells]
    if not way.corrects:
        return Curve("none", "quiet", points)
    return Curve(LABELS[way.old], LOOKS[way.old], points)


def _by_round(found: Corrected, measure: Measure) -> Grid:
    columns = [Cell("Round"), *(Cell(str(number)) for number in range(found.rounds + 1))]
    rows = []
    for name in found.by_way:
        cells = [found.cells(name, measure, number) for number in range(found.rounds + 1)]
        if any(cells):
            rows.append(Row(Cell(name), [estimate_cell(overall(of)) if of else Cell(DASH) for of in cells]))
    return Grid(f"F1, {TITLES[measure]} ({MEANT[measure]}), {SAID[POINT]}", columns, rows)


def _effects(found: Corrected, point: str, *, folded: bool) -> Grid:
    of = effects(found, point)
    names = dict.fromkeys(name for versus in of.values() for name in versus)
    rows = [Row(Cell(n), [difference_cell(of[m][n]) if n in of[m] else Cell(DASH) for m in MEASURES]) for n in names]
    columns = [Cell(""), *(Cell(MEANT[measure], [TITLES[measure]]) for measure in MEASURES)]
    return Grid(f"F1 minus that of {NOTHING}, {SAID[point]}", columns, rows, folded)


def _states(found: Corrected) -> Grid:
    shown = ("learned", "forgotten", "not yet")
    rows = []
    for way in found.ways:
        if way.corrects:
            told = [_count(found, way.name, state) for state in shown]
            rows.append(Row(Cell(way.name), [Cell(str(n)) for n in (_made(found, way.name), *told)]))
    names = ("Corrections", "Learned", "Forgotten again", "Not learned yet")
    return Grid("What became of the corrections", [Cell(""), *map(Cell, names)], rows)


def _made(found: Corrected, way: str) -> int:
    return sum(len(batch) for one in found.by_way[way] for batch in one.corrected)


def _count(found: Corrected, way: str, state: str) -> int:
    """Of the corrections of all seeds, how many are in this state after the last round."""
    return sum(one.states[-1].get(state, 0) for one in found.by_way[way])


def _costs(found: Corrected) -> Grid:
    rows = []
    for name, some in found.by_way.items():
        seconds = [one.seconds for one in some]
        each = [one.seconds / one.rounds for one in some]
        told = (str(some[0].rounds), duration(sum(seconds) / len(some)), duration(sum(each) / len(some)))
        rows.append(Row(Cell(name), [Cell(text) for text in told]))
    columns = [Cell(""), Cell("Rounds"), Cell("CPU time"), Cell("CPU time a round")]
    return Grid("Corrections: what it cost, mean over seeds", columns, rows)


# -- in words ----------------------------------------------------------------------------------------------------


def corrections_lead(followed: Sequence[Followed]) -> list[str]:
    """How many are learned where silos train together; alone, and all else, is in the tables."""
    if not followed:
        return []
    found = Corrected.of(followed)
    ways = [way for way in found.ways if way.together and way.corrects]
    told = [f"{TRAINED_ON[way.old]} {_count(found, way.name, 'learned')} of {_made(found, way.name)}" for way in ways]
    silos = listed(sorted({one.silo for one in followed}))
    begun = f"Of what people in {silos} corrected in {plural(found.rounds, 'round')}, so many are right in the end"
    return [f"{begun}, by what is trained on: {listed(told)}."] if told else []


def corrections_tiles(followed: Sequence[Followed]) -> list[Tile]:
    """Of what a run does unless its alliance says otherwise: it goes on with all examples, old and new."""
    if not followed:
        return []
    of, name = effects(Corrected.of(followed)), Way(together=True, old="all").name
    return [
        Tile(f"{TITLES[m]}: F1", signed(of[m][name].bootstrap.difference), _tile_note(of[m][name]))
        for m in ("corrected", "old")
        if name in of[m]
    ]


def _tile_note(versus: Versus) -> str:
    return f"{interval(versus.bootstrap)}, {verdict(versus)}"
