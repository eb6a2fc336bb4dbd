# SPDX-License-Identifier: Apache-2.0
import io
import os
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from toys import toy_course

from fedqa.answering.answers import Answer
from fedqa.console import RunWatcher, make_console, round_line
from fedqa.console_plans import parts_table
from fedqa.console_tables import Known, comparison_table, options_table, quarantine_table, result_tables, show_answers
from fedqa.data.records import Collection, Quarantined
from fedqa.evaluation.run_scores import Run
from fedqa.federation.run_folder import Accepted, RoundRecord
from fedqa.inspection import Part, StagePreview


def accepted(first: float, last: float) -> Accepted:
    return Accepted(1.0, 0.0, 10, 10, 3, first, last, max(first, last), min(first, last))


def record(number: int, **changes: Any) -> RoundRecord:
    values: dict[str, Any] = {
        "round": number,
        "stage": "train",
        "asked": ("ash", "birch"),
        "accepted": {"ash": accepted(1.0, 0.5), "birch": accepted(2.0, 1.0)},
        "refused": (),
        "void": False,
        "weights": {},
        "metrics": {
            "ash": {"received/dev/map": (4, 0.5, 0.0), "personal/dev/map": (4, 0.6, 0.0), "personal/dev/p1": (4, 0, 0)},
            "birch": {"received/dev/map": (2, 0.7, 0.0), "personal/dev/map": (2, 0.9, 0.0)},
        },
        "bytes_up": 2_500_000,
        "bytes_down": 0,
        "seconds": 1.25,
    }
    return RoundRecord(**{**values, **changes})


def plain(text: object) -> str:
    return str(text).replace("\u202f", " ")


def printed(*renderables: Any) -> str:
    """As a pipe gets it."""
    with redirect_stdout(io.StringIO()) as text:
        for renderable in renderables:
            make_console().print(renderable)
    return plain(text.getvalue())


# -- a round in a line -------------------------------------------------------------------------------------------


def test_a_round_is_a_line_with_means_over_silos() -> None:
    line = plain(round_line(record(3), 12))
    assert line == (
        "round  3/12  2 accepted  loss 1.500 → 0.750  dev MAP received 0.600, personal 0.750  1.2 s  2.5 MB up"
    )


def test_refused_silos_are_named_with_their_code() -> None:
    line = plain(round_line(record(1, accepted={"ash": accepted(1, 1)}, refused=(("birch", "late"),)), 1))
    assert "1 accepted  birch refused: late  loss 1.000" in line


def test_a_round_below_the_quorum_says_so() -> None:
    line = plain(round_line(record(1, accepted={}, metrics={}, void=True), 1))
    assert line == "round 1/1  0 accepted  below the quorum: nothing changed  1.2 s  2.5 MB up"


def test_silos_without_dev_questions_do_not_count() -> None:
    metrics = {"ash": {"received/dev/map": (0, 0.0, 0.0)}, "birch": {"received/dev/f1": (3, 0.5, 0.0)}}
    assert "dev F1 received 0.500  " in plain(round_line(record(1, metrics=metrics), 1))


# -- while a run goes on -----------------------------------------------------------------------------------------


def watch(console: Console, silos: list[str]) -> str:
    with RunWatcher(console) as watcher:
        watcher.say("reading ash")
        watcher.round_begins(1, 2, "train", silos)
        watcher.silo_works(silos[0], 0, 0)
        watcher.silo_works(silos[0], 3, 4)
        watcher.silo_works("someone else", 1, 1)
        watcher.silo_answered(silos[0])
        watcher.round_ends(record(1))
        watcher.round_begins(2, 2, "train", silos)
        watcher.silo_works(silos[1], 4, 4)
        watcher.round_ends(record(2))
        watcher.scoring_begins(silos)
    assert isinstance(console.file, io.StringIO)
    return plain(console.file.getvalue())


def test_without_a_terminal_there_are_plain_lines_alone() -> None:
    lines = watch(Console(file=io.StringIO(), width=120), ["ash", "birch"]).splitlines()
    assert [line.partition("  ")[0] for line in lines] == ["reading ash", "round 1/2", "round 2/2", "scoring"]


def test_in_a_terminal_there_is_a_bar_for_the_rounds_and_one_for_each_silo() -> None:
    text = watch(Console(file=io.StringIO(), width=120, force_terminal=True), ["ash", "birch"])
    for words in ("round 1/2 (train)", "  ash", "  birch", "waiting", "done", "scoring"):
        assert words in text


def test_of_many_silos_only_those_at_work_have_a_bar() -> None:
    silos = [f"silo{number}" for number in range(40)]
    console = Console(file=io.StringIO(), width=120, height=60, force_terminal=True)
    with RunWatcher(console) as watcher:
        watcher.round_begins(1, 1, "train", silos)
        time.sleep(0.11)  # bars are drawn ten times a second
        watcher.silo_works("silo7", 1, 2)
        watcher.silo_answered("silo7")
    assert isinstance(console.file, io.StringIO)
    assert "silo7" in console.file.getvalue() and "silo8" not in console.file.getvalue()


def test_a_course_without_rounds_is_scored() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with RunWatcher(console) as watcher:
        watcher.scoring_begins(["ash"])
        watcher.silo_answered("ash")
    assert isinstance(console.file, io.StringIO)
    assert "scoring" in console.file.getvalue()


def test_what_is_piped_is_wide_enough_for_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert make_console().width == 120
    monkeypatch.setitem(os.environ, "COLUMNS", "90")
    assert make_console().width == 90


# -- tables ------------------------------------------------------------------------------------------------------


def scores(value: float) -> dict[str, Any]:
    return {point: {"test": {"fit": value}} for point in ("received", "personal", "best")}


def run(method: str, means: Mapping[str, float], bytes_up: int = 1_000) -> Run:
    course = toy_course(method, sizes=dict.fromkeys(means, 4))
    questions = {silo: {p: {"test": {"fit": 5}} for p in ("received", "personal", "best")} for silo in means}
    result = {
        "silos": {silo: scores(mean) for silo, mean in means.items()},
        "questions": questions,
        "intervals": {},
        "bytes_up": bytes_up,
        "seconds": 12.0,
        "refused": [],
    }
    return Run(Path(method), course, {}, [], result, {})


def test_the_best_of_every_column_is_bold() -> None:
    table = comparison_table(
        [run("fedavg", {"ash": 0.5, "birch": 0.75}), run("isolated", {"ash": 0.625, "birch": 0.25})]
    )
    cells = [list(column.cells) for column in table.columns]
    names = [column.header for column in table.columns]
    assert names == ["method", "ash", "birch", "Mean of silos", "All questions", "Worst silo", "bytes up", "time"]
    bold = {name: [bool(cell.style) for cell in column] for name, column in zip(names[1:6], cells[1:6], strict=True)}
    assert bold == {
        "ash": [False, True],
        "birch": [True, False],
        "Mean of silos": [True, False],  # 0.625 against 0.4375
        "All questions": [True, False],  # as many in both silos
        "Worst silo": [True, False],  # 0.5 against 0.25
    }
    assert [plain(cell) for cell in cells[3]] == ["0.625", "0.438"]
    assert [plain(column[0]) for column in cells[6:]] == ["1.0 kB", "12.0 s"]


def test_results_have_roll_ups_and_the_other_metrics() -> None:
    text = printed(*result_tables(run("fedavg", {"ash": 0.5, "birch": 0.75})))
    assert "fit on test questions: fedavg on toy" in text
    assert text.count("0.625") == 6  # mean of silos and all questions, at three points


def test_a_metric_of_fewer_questions_says_of_how_many() -> None:
    made = run("fedavg", {"ash": 0.5})
    for part, value in (("silos", 0.25), ("questions", 3)):
        made.result[part]["ash"]["best"]["test"]["other"] = value
    assert "0.250 of 3" in printed(*result_tables(made))


def test_nothing_scored_is_no_table() -> None:
    unscored = replace(run("fedavg", {"ash": 0.5}), result={"silos": {"ash": {}}})
    assert result_tables(unscored) == []


def test_quarantine_shows_the_first_of_each_silo() -> None:
    left = (Quarantined("a.csv:3", "the question is empty", "write it"), Quarantined("a.csv:9", "x", "y"))
    table = quarantine_table({"ash": Collection((), (), left), "birch": Collection((), ())})
    assert table is not None
    assert "a.csv:3" in (text := printed(table)) and "birch" not in text and " 2" in text
    assert quarantine_table({"birch": Collection((), ())}) is None


def test_neighbouring_layers_of_one_mode_are_one_line() -> None:
    parts = (
        Part("match", "enc.0", "frozen", 10),
        Part("match", "enc.1", "shared", 10),
        Part("match", "enc.2", "shared", 10),
        Part("match", "head", "private", 1),
    )
    text = printed(parts_table(StagePreview("train", 2, 3, parts, 0, 0, (), ())))
    assert "enc.0 " in text
    assert "enc.1 to enc.2" in text and "80 B" in text  # 20 parameters of four bytes


def test_texts_of_people_are_never_markup() -> None:
    answer = Answer(
        "d", "[bold]Title[/]", "Press [enter]. Then :smile: wait.", "Press [enter].", 0, 14, 1.0, 0.5, "[enter]", 6, 13
    )
    with redirect_stdout(io.StringIO()) as shown:
        show_answers(make_console(), [answer])
    text = shown.getvalue()
    assert "[bold]Title[/]" in text and "Press [enter]. Then :smile: wait." in text
    assert text.splitlines()[1].strip() == "[enter]"  # the exact words, before the passage they stand in
    assert "[x]" in printed(options_table(Known("a", "b", {"[x]": None})))


def test_in_a_narrow_terminal_names_and_numbers_stay_whole() -> None:
    runs = [run(method, {"biomedical": 0.5, "hospital": 0.75}) for method in ("fedavg", "isolated")]
    console = Console(file=io.StringIO(), width=60)
    console.print(comparison_table(runs))
    assert isinstance(console.file, io.StringIO)
    text = plain(console.file.getvalue())
    assert "isolated" in text and text.count("0.750") == 2 and "12.0 s" in text and "…" not in text
    assert max(map(len, text.splitlines())) <= 60
