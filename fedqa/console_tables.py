# SPDX-License-Identifier: Apache-2.0
"""Tables and texts for a terminal: what came out of a run, what left a silo, what is known."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedqa.answering.assistant import Answer
from fedqa.data.records import Collection
from fedqa.evaluation.report_tables import MACRO, WORST, ScoreRow, labels, score_tables
from fedqa.evaluation.run_scores import POINTS, Estimate, Run, macro_score, worst_score
from fedqa.evaluation.words import count, duration, metric_name, number, plural, shortened, size
from fedqa.federation.ledger import Row
from fedqa.rescoring import Rescored

NONE = "\N{EN DASH}"
TIMES = " \N{MULTIPLICATION SIGN} "


# -- results -----------------------------------------------------------------------------------------------------


def plain_table(title: str, names: Sequence[str], numbers: Sequence[str], *, caption: str = "") -> Table:
    """Columns of text on the left, of numbers, right-aligned, on the right."""
    table = Table(title=title, caption=caption or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.title_style, table.caption_style, table.caption_justify = "bold", "dim", "left"
    for name in names:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def result_tables(run: Run) -> list[Table]:
    """Test scores by silo: the deciding metric with 95 % intervals, and the other metrics of the best model."""
    tables = score_tables(run)
    if not tables:
        return []
    main, others = tables[0], tables[1:]
    what = f"{run.course.method} on {run.course.model}, {plural(len(run.records), 'round')}"
    table = plain_table(
        f"{main.metric} on test questions: {what}",
        ["silo"],
        ["questions", *POINTS, *(f"best {other.metric}" for other in others)],
        caption="± is a 95 % interval. best: whichever did best on the silo's own dev questions",
    )
    for row in main.rows:
        if row.name == MACRO:
            table.add_row()
        extra = [_score_of(other.rows, row.name) for other in others]
        questions = count(row.questions) if row.questions else ""
        table.add_row(row.name, questions, *(_with_interval(row.cells.get(point)) for point in POINTS), *extra)
    return [table]


def _score_of(rows: Sequence[ScoreRow], name: str) -> str:
    found = next((row.cells["best"] for row in rows if row.name == name and "best" in row.cells), None)
    return number(found.mean) if found else NONE


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
    """Methods as rows; the score of each silo's best model, the mean of silos and the worst; the best bold."""
    silos = list(dict.fromkeys(silo for run in runs for silo in run.deciding))
    metrics = {metric for run in runs for metric in run.deciding.values()}
    metric = metric_name(metrics.pop()) if len(metrics) == 1 else "Score"
    table = plain_table(
        f"{metric} on test questions, of the model each silo would serve",
        ["method"],
        [*silos, MACRO, WORST, "bytes up", "time"],
        caption="Bold is the highest of its column. A silo serves whichever model did best on its own dev questions.",
    )
    rows = [_standing(run, silos) for run in runs]
    highest = [max((v for v in column if v is not None), default=None) for column in zip(*rows, strict=True)]
    for run, label, row in zip(runs, labels(runs), rows, strict=True):
        cells = [_highlighted(value, value == top) for value, top in zip(row, highest, strict=True)]
        result = run.result
        table.add_row(label, *cells, size(result["bytes_up"]), duration(result["seconds"]))
    return table


def _standing(run: Run, silos: Sequence[str]) -> list[float | None]:
    summaries = run.summaries("best", "test", run.deciding)
    means = [summaries[silo].mean if silo in summaries else None for silo in silos]
    rolled = [macro_score(summaries).mean, worst_score(summaries).mean] if summaries else [None, None]
    return [round(value, 3) if value is not None else None for value in (*means, *rolled)]


def _highlighted(value: float | None, best: bool) -> Text:
    return Text(NONE) if value is None else Text(number(value), style="bold green" if best else "")


def quarantine_table(collections: Mapping[str, Collection]) -> Table | None:
    """What was left out of the silos' data, with an example of each; None if nothing was."""
    left = {silo: collection.quarantine for silo, collection in collections.items() if collection.quarantine}
    if not left:
        return None
    table = plain_table("Records left out", ["silo", "first at", "reason", "remedy"], [])
    table.add_column("records", justify="right")
    for silo, records in left.items():
        first = records[0]
        table.add_row(silo, first.place, first.reason, first.remedy, count(len(records)))
    return table


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
    """Each answer with its evidence emphasised in the passage."""
    for position, answer in enumerate(answers, start=1):
        head = Text(f"{position}. {answer.title or answer.document}", style="bold")
        console.print(head.append(f"  confidence {number(answer.confidence)}", style="not bold dim"))
        body = Text(_one_line(answer.passage))
        body.highlight_words([_one_line(answer.evidence)], "bold green")
        console.print(Padding(body, (0, 0, 0, 3)))


def _one_line(text: str) -> str:
    return " ".join(text.split())


# -- what left a silo, and what is known --------------------------------------------------------------------------


def ledger_table(silo: str, rows: Sequence[Row]) -> Table:
    total = sum(row.bytes for row in rows)
    caption = f"{plural(len(rows), 'message')}, {size(total)} in all"
    table = plain_table(
        f"All that left {silo}", ["time (UTC)", "kind", "tensors", "digest"], ["round", "bytes"], caption=caption
    )
    for row in rows:
        when = row.time[:19].replace("T", " ")
        table.add_row(when, row.kind, _shapes(row.tensors), row.digest[:12], str(row.round or NONE), size(row.bytes))
    return table


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
    table = plain_table(title, ["name", "what it is"], [])
    for entry in known:
        table.add_row(Text(entry.name, style="bold"), entry.summary)
    return table


def options_table(entry: Known) -> Table:
    table = plain_table(f"{entry.name}: {entry.summary}", ["option", "default"], [])
    for name, value in entry.options.items():
        table.add_row(name, shortened("none" if value is None else repr(value), 60))
    return table
