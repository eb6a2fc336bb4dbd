# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows before a run: what would leave the silos, and whether their data are fit for it."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedqa.checkup import Checkup, Diagnosis
from fedqa.console_tables import NONE, plain_table
from fedqa.data.doctor import Findings
from fedqa.data.records import SPLITS
from fedqa.evaluation.report_text import stage_facts
from fedqa.evaluation.words import count, duration, plural, size
from fedqa.federation.course import Course
from fedqa.inspection import Part, Preview, StagePreview

_FOUND = ("documents", "examples", *SPLITS, "no answer", "left out", "asked twice", "leaks", "an epoch")


def show_preview(console: Console, found: Preview, course: Course) -> None:
    """What would leave a silo, stage by stage."""
    size_of = f"{plural(len(found.silos), 'silo')}, {plural(found.rounds, 'round')}"
    console.print(Text(f"{found.name}: {found.method} on {found.model}, {size_of}", style="bold"))
    console.print(Text(f"course {found.fingerprint}", style="dim"), soft_wrap=True)
    if not found.stages:
        console.print("\nNothing is trained and nothing leaves a silo but its scores.")
        return
    for stage, plan in zip(found.stages, course.stages, strict=True):
        console.print()
        console.print(parts_table(stage))
        described = [(label, "; ".join(lines)) for label, lines in stage_facts(course, plan)[1:]]
        console.print(_facts([("A silo's round", _cost(stage)), *described]))
        for warning in stage.warnings:
            console.print(Text(f"Warning: {warning}", style="bold yellow"))
    console.print()
    more = " and what the channels carry" if any(stage.channels for stage in found.stages) else ""
    console.print(_facts([("The whole course", f"{size(found.bytes_up)} up, {size(found.bytes_down)} down{more}")]))


def _cost(stage: StagePreview) -> str:
    if not stage.asked:
        return "silos are asked for nothing in a round: the coordinator trains on what it was sent"
    return f"{size(stage.bytes_up)} up, {size(stage.bytes_down)} down, {plural(stage.asked, 'silo')} a round"


def _facts(facts: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=19, style="dim")
    table.add_column()
    for label, text in facts:
        table.add_row(label, text)
    return table


def parts_table(stage: StagePreview) -> Table:
    """Parameters by kind and by what happens to them."""
    several = len({part.skill for part in stage.parts}) > 1
    rows = []
    for part in _joined(stage.parts):
        group = f"{part.group} ({part.skill})" if several else part.group
        leaves = size(part.parameters * 4) if part.mode == "shared" else NONE
        style = {"shared": "bold", "private": "green"}.get(part.mode, "dim")
        rows.append([Text(text, style) for text in (group, part.mode, count(part.parameters), leaves)])
    title = f"Stage {stage.name}, {plural(stage.rounds, 'round')}"
    return plain_table(title, ["parameters", "mode"], ["count", "leaves"], rows)


def _joined(parts: Iterable[Part]) -> list[Part]:
    """Neighbouring layers of the same mode as one: enc.0 to enc.5."""
    joined: list[Part] = []
    for part in parts:
        stack, _, layer = part.group.partition(".")
        before = joined[-1] if joined else None
        if before and layer.isdigit() and before.group.startswith(f"{stack}.") and before.mode == part.mode:
            first = before.group.partition(" to ")[0]
            joined[-1] = Part(part.skill, f"{first} to {part.group}", part.mode, before.parameters + part.parameters)
        else:
            joined.append(part)
    return joined


def show_diagnosis(console: Console, found: Diagnosis) -> None:
    """Findings by silo, then advice, then what would stop the training."""
    console.print(findings_table(found))
    advice = Table.grid(padding=(0, 1))
    for checkup in found.checkups:
        for piece in checkup.findings.advice if checkup.findings else ():
            advice.add_row(Text(checkup.silo, style="bold"), f"{piece.warning} {piece.remedy}")
    console.print(advice)
    if found.bytes_up or found.bytes_down:
        console.print(f"A silo's round: {size(found.bytes_up)} up, {size(found.bytes_down)} down")
    for problem in _problems(found):
        console.print(Text(f"Stops the training: {problem}", style="bold red"))
    if found.can_train:
        console.print(Text("Nothing would stop the training.", style="green"))


def _problems(found: Diagnosis) -> Iterator[str]:
    yield from (checkup.problem for checkup in found.checkups if checkup.problem)
    if found.problem:
        yield found.problem


def findings_table(found: Diagnosis) -> Table:
    rows = [
        (checkup.silo, *(_found(checkup, checkup.findings) if checkup.findings else [NONE] * len(_FOUND)))
        for checkup in found.checkups
    ]
    caption = "leaks: questions, or near copies, in more than one split. an epoch: estimated, on one core"
    return plain_table("What the silos hold", ["silo"], _FOUND, rows, caption=caption)


def _found(checkup: Checkup, findings: Findings) -> list[str]:
    counts = (
        findings.documents,
        findings.examples,
        *(findings.splits[split] for split in SPLITS),
        round(findings.share_unanswerable * findings.examples),
        sum(findings.quarantine.values()),
        len(findings.duplicate_questions),
        len(findings.shared_questions) + len(findings.near_duplicates),
    )
    epoch = duration(checkup.epoch_seconds) if checkup.epoch_seconds is not None else NONE
    return [*map(count, counts), epoch]
