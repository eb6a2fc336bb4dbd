# SPDX-License-Identifier: Apache-2.0
"""What the tables of a report hold: scores by silo, methods side by side, refusals, and who counted how much."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedqa.evaluation.metrics import Summary, micro
from fedqa.evaluation.run_scores import (
    POINTS,
    Estimate,
    Evidence,
    Metrics,
    Run,
    best_of_both,
    differences,
    evidence_of,
    gain,
    macro_gain,
    macro_score,
    personal_and_received,
    score,
    t_test_of,
    worst_score,
)
from fedqa.evaluation.significance import Comparison, holm
from fedqa.evaluation.words import listed, metric_name, why_refused
from fedqa.federation.course import POOL, Stage
from fedqa.federation.messages import Point
from fedqa.federation.mixing import ALL
from fedqa.federation.run_folder import RoundRecord

MACRO, MICRO, WORST = "Mean of silos", "All questions", "Worst silo"


# -- scores ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreRow:
    """A silo or a roll-up; a point without a score has no cell. `gain` is personal minus received."""

    name: str
    questions: int
    cells: Mapping[Point, Estimate] = field(default_factory=dict)
    gain: Estimate | None = None
    metric: str = ""
    rolled_up: bool = False


@dataclass(frozen=True)
class ScoreTable:
    """Test scores in one metric, or in each silo's own."""

    metric: str
    rows: Sequence[ScoreRow]
    own: Comparison | None  # personal against received, over all questions alike
    mixed: bool = False  # silos are scored by different metrics

    def row(self, name: str) -> ScoreRow:
        return next(row for row in self.rows if row.name == name)

    @property
    def headline(self) -> ScoreRow:
        """The mean of silos; of a single silo, its own row."""
        return self.row(MACRO) if len(self.rows) > 1 else self.rows[0]


def score_tables(run: Run) -> list[ScoreTable]:
    """First the table of the metrics that decide, then one for every other metric; none if nothing was scored."""
    by_metric: dict[str, dict[str, str]] = {}
    for silo, metrics in run.reported.items():
        for metric in metrics:
            by_metric.setdefault(metric, {})[silo] = metric
    others = [chosen for chosen in by_metric.values() if chosen != run.deciding]
    tables = [score_table(run, chosen) for chosen in (run.deciding, *others)]
    return [table for table in tables if table.rows]


def score_table(run: Run, metrics: Metrics) -> ScoreTable:
    by_point = {point: run.summaries(point, "test", metrics) for point in POINTS}
    pairs = personal_and_received(run, metrics)
    gains = differences(pairs)
    names = dict.fromkeys(silo for summaries in by_point.values() for silo in summaries)
    rows = [_silo_row(silo, metrics[silo], by_point, gains.get(silo)) for silo in names]
    if len(rows) > 1:
        rows += _rollup_rows(by_point, gains if set(gains) == set(names) else {})
    kinds = list(dict.fromkeys(metrics.values()))
    label = metric_name(kinds[0]) if len(kinds) == 1 else "score"
    return ScoreTable(label, rows, t_test_of(pairs), mixed=len(kinds) > 1)


def _silo_row(
    silo: str, metric: str, by_point: Mapping[Point, Mapping[str, Summary]], change: Summary | None
) -> ScoreRow:
    found = {point: summaries[silo] for point, summaries in by_point.items() if silo in summaries}
    cells = {point: score(summary) for point, summary in found.items()}
    n = max(summary.n for summary in found.values())
    return ScoreRow(silo, n, cells, gain(change) if change else _plain_gain(cells), metric_name(metric))


def _rollup_rows(by_point: Mapping[Point, Mapping[str, Summary]], gains: Mapping[str, Summary]) -> list[ScoreRow]:
    scored = {point: summaries for point, summaries in by_point.items() if summaries}
    n = max(micro(summaries.values()).n for summaries in scored.values())
    means = {point: macro_score(summaries) for point, summaries in scored.items()}
    pooled = {point: score(micro(summaries.values())) for point, summaries in scored.items()}
    lowest = {point: worst_score(summaries) for point, summaries in scored.items()}
    return [
        ScoreRow(MACRO, n, means, macro_gain(gains) if gains else _plain_gain(means), rolled_up=True),
        ScoreRow(MICRO, n, pooled, gain(micro(gains.values())) if gains else _plain_gain(pooled), rolled_up=True),
        ScoreRow(WORST, 0, lowest, rolled_up=True),
    ]


def _plain_gain(cells: Mapping[Point, Estimate]) -> Estimate | None:
    if "personal" not in cells or "received" not in cells:
        return None
    return Estimate(cells["personal"].mean - cells["received"].mean)


# -- methods side by side ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """A run among others. `tests` are against the reference, `holm` corrects the bootstrap's p for their number."""

    label: str
    run: Run
    macro: Estimate | None
    worst: Estimate | None
    tests: Evidence | None
    holm: float | None
    is_reference: bool
    is_this: bool


def standings(run: Run, others: Sequence[Run]) -> list[Standing]:
    """This run, then the others; all are tested against the first of the others."""
    if not others:
        return []
    runs, reference = [run, *others], others[0]
    pairs = [None if other is reference else best_of_both(other, reference) for other in runs]
    tests = [evidence_of(pair, run.course.seed) if pair else None for pair in pairs]
    corrected = iter(holm([test.bootstrap.p for test in tests if test]))
    corrections = [next(corrected) if test else None for test in tests]
    return [
        _standing(other, label, test, correction, reference=other is reference, this=other is run)
        for other, label, test, correction in zip(runs, labels(runs), tests, corrections, strict=True)
    ]


def _standing(
    run: Run, label: str, tests: Evidence | None, correction: float | None, *, reference: bool, this: bool
) -> Standing:
    summaries = run.summaries("best", "test", run.deciding)
    return Standing(
        label=label,
        run=run,
        macro=macro_score(summaries) if summaries else None,
        worst=worst_score(summaries) if summaries else None,
        tests=tests,
        holm=correction,
        is_reference=reference,
        is_this=this,
    )


def labels(runs: Sequence[Run]) -> list[str]:
    """The methods' names; where two are alike, with the folders'."""
    methods = Counter(run.course.method for run in runs)
    return [
        run.course.method if methods[run.course.method] == 1 else f"{run.course.method} ({run.folder.name})"
        for run in runs
    ]


# -- refusals ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    when: str
    silo: str
    code: str
    why: str


def refusals(run: Run) -> list[Refused]:
    last = run.course.rounds
    return [
        Refused(str(number) if number <= last else "after the last", silo, code, why_refused(code))
        for number, silo, code in run.result["refused"]
    ]


# -- weights -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A silo's part in a stage. `weight` is the mean over the rounds that counted, with its range."""

    silo: str
    examples: int | None
    asked: int
    accepted: int
    weight: float | None
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class WeightTable:
    """Who counted how much in a stage; `matrix`, by recipient and sender, where silos have models of their own."""

    stage: str
    notes: Sequence[str]
    parts: Sequence[Part]
    matrix: Mapping[str, Mapping[str, float]]

    @property
    def weighted(self) -> bool:
        return any(part.weight is not None for part in self.parts)


def weight_tables(run: Run) -> list[WeightTable]:
    rounds: dict[int, list[RoundRecord]] = {index: [] for index in range(len(run.course.stages))}
    for record in run.records:
        rounds[run.course.stage_of(record.round)].append(record)
    return [_weight_table(run.course.stages[index], records) for index, records in rounds.items() if records]


def _weight_table(stage: Stage, records: Sequence[RoundRecord]) -> WeightTable:
    counted = [record for record in records if not record.void]
    mixed = sent_anything(records)
    recipients = dict.fromkeys(recipient for record in counted for recipient in record.weights)
    one_model = mixed and list(recipients) == [ALL]
    senders = dict.fromkeys(silo for record in records for silo in record.asked)
    own_models = [recipient for recipient in recipients if mixed and recipient != ALL]
    return WeightTable(
        stage=stage.name,
        notes=_notes(records),
        parts=[_part(silo, records, counted if one_model else []) for silo in senders],
        matrix={r: {silo: _mean(_weights(r, silo, counted)) for silo in senders} for r in own_models},
    )


def _notes(records: Sequence[RoundRecord]) -> list[str]:
    """Why there may be no weights, and in which rounds they did not matter."""
    notes = []
    if any(POOL in record.asked for record in records):
        notes.append("All examples were pooled at the coordinator, which trained alone: nothing was mixed.")
    elif accepted_anything(records) and not sent_anything(records):
        notes.append("Nothing was sent, so nothing was mixed.")
    void = [str(record.round) for record in records if record.void]
    if void:
        rounds = f"round {void[0]}" if len(void) == 1 else f"rounds {listed(void)}"
        notes.append(f"Too few updates were accepted in {rounds}, so nothing was changed there.")
    return notes


def _part(silo: str, records: Sequence[RoundRecord], counted: Sequence[RoundRecord]) -> Part:
    accepted = [record.accepted[silo] for record in records if silo in record.accepted]
    weights = _weights(ALL, silo, counted)
    return Part(
        silo=silo,
        examples=accepted[-1].n_examples if accepted else None,
        asked=sum(silo in record.asked for record in records),
        accepted=len(accepted),
        weight=_mean(weights) if weights else None,
        low=min(weights, default=0.0),
        high=max(weights, default=0.0),
    )


def _weights(recipient: str, sender: str, counted: Sequence[RoundRecord]) -> list[float]:
    """A sender that was not accepted in a round had no weight in it: so the means of all senders sum to one."""
    return [record.weights.get(recipient, {}).get(sender, 0.0) for record in counted]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def accepted_anything(records: Sequence[RoundRecord]) -> bool:
    return any(record.accepted for record in records)


def sent_anything(records: Sequence[RoundRecord]) -> bool:
    """Did an update ever change a shared parameter? Where all is private, updates are empty and of length zero."""
    return any(accepted.norm > 0 for record in records for accepted in record.accepted.values())
