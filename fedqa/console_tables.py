# SPDX-License-Identifier: Apache-2.0
"""Tables and texts for a terminal: what came out of a run, what left a silo, what is known."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedqa.answering.answers import Answer
from fedqa.data.records import Collection
from fedqa.evaluation.metrics import micro
from fedqa.evaluation.report_tables import MACRO, MICRO, WORST, ScoreRow, labels, score_tables
from fedqa.evaluation.run_scores import POINTS, Estimate, Run, macro_score, worst_score
from fedqa.evaluation.words import count, duration, metric_name, number, plural, shortened, size
from fedqa.federation.ledger import Row as LedgerRow
from fedqa.rescoring import Rescored

NONE = "\N{EN DASH}"
TIMES = " \N{MULTIPLICATION SIGN} "


Row = Sequence[str | Text]


def plain_table(
    title: str, names: Sequence[str], numbers: Sequence[str], rows: Iterable[Row], *, caption: str = ""
) -> Table:
    """Columns of text on the left, of numbers, right-aligned, on the right. An empty row is a gap.

    In a narrow terminal headers are folded first and texts next; numbers and the names in front stay whole.
    """
    filled = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    table = Table(title=title, caption=caption or None, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.title_style, table.caption_style, table.title_justify, table.caption_justify = "bold", "dim", "left", "left"
    table.min_width = max(len(title), len(caption))  # neither is to be wrapped
    for position, name in enumerate([*names, *numbers]):
        is_number = position >= len(names)
        longest = max((row[position].cell_len for row in filled if row), default=0)
        table.add_column(
            name,
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=longest if is_number else None,
            no_wrap=not position or (is_number and len(name) <= longest),
        )
    for row in filled:
        table.add_row(*row)
    return table


# -- results -----------------------------------------------------------------------------------------------------


def result_tables(run: Run) -> list[Table]:
    """Test scores by silo: the deciding metric with 95 % intervals, and the other metrics of the best model."""
    tables = score_tables(run)
    if not tables:
        return []
    main, others = tables[0], tables[1:]
    what = f"{run.course.method} on {run.course.model}, {plural(len(run.records), 'round')}"
    rows: list[Row] = []
    for row in main.rows:
        if row.name == MACRO:
            rows.append(())
        points = [_with_interval(row.cells.get(point)) for point in POINTS]
        extra = [_score_of(other.rows, row) for other in others]
        rows.append((row.name, count(row.questions) if row.questions else "", *points, *extra))
    return [
        plain_table(
            f"{main.metric} on test questions: {what}",
            ["silo"],
            ["asked", *POINTS, *(f"best {other.metric}" for other in others)],
            rows,
            caption="± is a 95 % interval. best: whichever did best on the silo's own dev questions",
        )
    ]


def _score_of(rows: Sequence[ScoreRow], main: ScoreRow) -> str:
    """The best model's score, with the number of questions where it is another than that of the metric that decides."""
    found = next((row for row in rows if row.name == main.name and "best" in row.cells), None)
    if found is None:
        return NONE
    fewer = f" of {count(found.questions)}" if found.questions != main.questions else ""
    return number(found.cells["best"].mean) + fewer


def _with_interval(estimate: Estimate | None) -> Text:
    if estimate is None:
        return Text(NONE)
    text = Text(number(estimate.mean))
    if estimate.low is None or estimate.high is None:
        return text.append(" " * 7)
    # Intervals end at 0 and 1, so the wider side is the one to tell.
    half = max(estimate.mean - estimate.low, estimate.high - estimate.mean)
    return text.append(f" ±{number(half)}", style="dim")


def comparison_table(runs: Sequence[Run]) -> Table:
    """Methods as rows; the score of each silo's best model, of all together and the worst; the best bold."""
    silos = list(dict.fromkeys(silo for run in runs for silo in run.deciding))
    metrics = {metric for run in runs for metric in run.deciding.values()}
    metric = metric_name(metrics.pop()) if len(metrics) == 1 else "Score"
    scores = [_standing(run, silos) for run in runs]
    highest = [max((v for v in column if v is not None), default=None) for column in zip(*scores, strict=True)]
    rows: list[Row] = []
    for run, label, values in zip(runs, labels(runs), scores, strict=True):
        cells = [_highlighted(value, value == top) for value, top in zip(values, highest, strict=True)]
        rows.append((label, *cells, size(run.result["bytes_up"]), duration(run.result["seconds"])))
    return plain_table(
        f"{metric} on test questions, of the model each silo would serve",
        ["method"],
        [*silos, MACRO, MICRO, WORST, "bytes up", "time"],
        rows,
        caption="A silo serves whichever model did best on its own dev questions. The highest are bold.",
    )


def _standing(run: Run, silos: Sequence[str]) -> list[float | None]:
    summaries = run.summaries("best", "test", run.deciding)
    means = [summaries[silo].mean if silo in summaries else None for silo in silos]
    rolled: list[float | None] = [None, None, None]
    if summaries:
        rolled = [macro_score(summaries).mean, micro(summaries.values()).mean, worst_score(summaries).mean]
    return [round(value, 3) if value is not None else None for value in (*means, *rolled)]


def _highlighted(value: float | None, best: bool) -> Text:
    return Text(NONE) if value is None else Text(number(value), style="bold green" if best else "")


def quarantine_table(collections: Mapping[str, Collection]) -> Table | None:
    """What was left out of the silos' data, with an example of each; None if nothing was."""
    left = {silo: collection.quarantine for silo, collection in collections.items() if collection.quarantine}
    rows = [(silo, some[0].place, some[0].reason, some[0].remedy, count(len(some))) for silo, some in left.items()]
    return (
        plain_table("Records left out", ["silo", "first at", "reason", "remedy"], ["records"], rows) if rows else None
    )


def rescored_lines(rescored: Rescored) -> list[Text]:
    if not rescored.differences:
        return [Text("The scores agree with result.json.", style="green")]
    lines = [Text(f"{plural(len(rescored.differences), 'score')} differ from result.json:", style="bold red")]
    for difference in rescored.differences:
        then, now = (number(v) if v is not None else "none" for v in (difference.then, difference.now))
        lines.append(Text(f"  {difference.silo} {difference.score}: {then} then, {now} now"))
    lines.append(Text("Have the silos' data changed since, or the versions in environment.json?"))
    return lines


# -- answers -----------------------------------------------------------------------------------------------------


def show_answers(console: Console, answers: Sequence[Answer]) -> None:
    """Each answer with its evidence emphasised in the passage, and in that the exact words."""
    for position, answer in enumerate(answers, start=1):
        head = Text(f"{position}. {answer.title or answer.document}", style="bold")
        console.print(head.append(f"  confidence {number(answer.confidence)}", style="not bold dim"))
        if answer.answer != answer.evidence:
            console.print(Padding(Text(_one_line(answer.answer), style="bold green"), (0, 0, 0, 3)))
        console.print(Padding(_marked(answer), (0, 0, 0, 3)))


def _marked(answer: Answer) -> Text:
    begin = answer.start - max(0, answer.passage.find(answer.evidence))  # of the passage, in the document
    cuts = (begin, answer.start, answer.answer_start, answer.answer_end, answer.end, begin + len(answer.passage))
    styles = ("", "green", "bold green", "green", "")
    pieces = zip(cuts, cuts[1:], styles, strict=False)
    return Text.assemble(*((_one_line(answer.passage[a - begin : b - begin]), style) for a, b, style in pieces))


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


# -- what left a silo, and what is known --------------------------------------------------------------------------


def ledger_table(silo: str, messages: Sequence[LedgerRow]) -> Table:
    rows = [
        (m.time[:19].replace("T", " "), m.kind, _shapes(m.tensors), m.digest[:12], str(m.round or NONE), size(m.bytes))
        for m in messages
    ]
    return plain_table(
        f"All that left {silo}",
        ["time (UTC)", "kind", "tensors", "digest"],
        ["round", "bytes"],
        rows,
        caption=f"{plural(len(rows), 'message')}, {size(sum(message.bytes for message in messages))} in all",
    )


def _shapes(tensors: str) -> str:
    shapes: dict[str, list[int]] = json.loads(tensors)
    return ", ".join(f"{name} {TIMES.join(map(count, shape))}" for name, shape in shapes.items()) or "none"


@dataclass(frozen=True)
class Known:
    """Something that can be named in an alliance file: a line about it, and its options with their defaults."""

    name: str
    summary: str
    options: Mapping[str, object]


def known_table(title: str, known: Iterable[Known]) -> Table:
    return plain_table(title, ["name", "what it is"], [], [(Text(e.name, style="bold"), e.summary) for e in known])


def options_table(entry: Known) -> Table:
    values = {name: "not set" if value is None else json.dumps(value) for name, value in _flat(entry.options)}
    rows = [(name, shortened(value, 60)) for name, value in values.items()]
    return plain_table(f"{entry.name}: {entry.summary}", ["option", "default"], [], rows)


def _flat(options: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Options one by one; those that are a table of their own with its name before theirs."""
    for name, value in options.items():
        if is_dataclass(value):
            yield from _flat({field.name: getattr(value, field.name) for field in fields(value)}, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
