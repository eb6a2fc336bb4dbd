# SPDX-License-Identifier: Apache-2.0
"""Every command from end to end, on runs of the model `tiny`."""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from toy_alliance import ALLIANCE, rows, write_alliance, write_csv
from toy_silo import write_silo
from typer.testing import CliRunner, Result

from fedqa import __version__
from fedqa.cli import app, benchmark
from fedqa.config import load_project
from fedqa.errors import ConfigError
from fedqa.methods import METHODS

ROOT = Path(__file__).parents[1]
COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands if command.callback)


def fedqa(*words: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def document(*words: str | Path, code: int = 0) -> Any:
    """The one JSON document that is all of stdout."""
    return json.loads(fedqa(*words, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def alliance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_alliance(tmp_path_factory.mktemp("alliance"))


@pytest.fixture(scope="module")
def trained(alliance: Path) -> Result:
    return fedqa("train", alliance, "--out", alliance.parent / "run")


@pytest.fixture(scope="module")
def run(alliance: Path, trained: Result) -> Path:
    return alliance.parent / "run"


# -- help --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_screen(command: str) -> None:
    words = [command, "--help"] if command else ["--help"]
    lines = CliRunner().invoke(app, words).stdout.splitlines()  # 80 columns wide
    assert 5 < len(lines) <= (24 if command else 30)  # the list of commands has a line for each
    assert not any("..." in line for line in lines[1:])  # no sentence is cut


def test_help_does_not_wait_for_the_models() -> None:
    code = "import sys; from fedqa.cli import app; app(['-h'], standalone_mode=False); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_what_loads_no_model_does_not_wait_for_transformers() -> None:
    code = "import sys, fedqa.methods, fedqa.runs, fedqa.inspection; sys.exit('transformers' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_version() -> None:
    assert fedqa("--version").stdout == f"fedqa {__version__}\n"


# -- train -------------------------------------------------------------------------------------------------------


def test_train_shows_rounds_on_stderr_and_scores_on_stdout(trained: Result, run: Path) -> None:
    assert re.search(r"round 1/2  2 accepted  loss \d\.\d{3} → \d\.\d{3}  dev MAP received 0\.\d{3}", trained.stderr)
    assert "round 2/2" in trained.stderr
    assert "MAP on test questions: fedavg on tiny, 2 rounds" in trained.stdout
    for name in ("north", "south", "Mean of silos", "All questions", "Worst silo"):
        assert re.search(rf"{name} .*0\.\d{{3}} ±0\.\d{{3}}", trained.stdout)
    assert (run / "report" / "report.html").exists() and (run / "report" / "report.md").exists()


def test_the_result_has_the_fields_of_the_design(alliance: Path, tmp_path: Path) -> None:
    result = document("train", alliance, "--out", tmp_path / "run", "--set", "rounds=1", "--processes", "1")
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert len(result["course"]) == 64
    assert (result["method"], result["seed"], result["rounds"]) == ("fedavg", 13, 1)
    assert result["seconds"] > 0 and result["bytes_up"] > 0 and result["bytes_down"] > 0
    assert set(result["silos"]) == {"north", "south"}
    for table in (*result["silos"].values(), result["macro"], result["micro"], result["worst"]):
        for point in ("received", "personal", "best"):
            for split in ("dev", "test"):
                assert all(0 <= value <= 1 for value in table[point][split].values())
                assert set(table[point][split]) == {"map", "mrr", "p1"}


def test_the_course_that_a_run_writes_can_be_trained_itself(run: Path, tmp_path: Path) -> None:
    again = document("train", run / "course.toml", "--out", tmp_path / "again", "--processes", "1")
    assert again["silos"] == json.loads((run / "result.json").read_text())["silos"]


def test_resuming_a_finished_run_changes_nothing(run: Path, alliance: Path) -> None:
    before = (run / "result.json").read_bytes()
    assert document("train", alliance, "--out", run, "--resume") == json.loads(before)
    assert (run / "result.json").read_bytes() == before


def test_an_interrupted_run_says_how_to_go_on_and_ends_with_the_same_result(alliance: Path, tmp_path: Path) -> None:
    """Interrupted by Ctrl-C as soon as the second of many rounds is written down."""
    out = tmp_path / "a run"
    words = ["train", str(alliance), "--out", str(out), "--set", "rounds=40", "--processes", "1"]
    command = [sys.executable, "-m", "fedqa.cli", *words]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_heeds_ctrl_c,
    ) as process:
        while process.poll() is None and not _lines(out / "rounds.jsonl") > 1:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    remedy = f"fedqa: interrupted; go on with: fedqa train {alliance} --out '{out}' --set rounds=40 --resume"
    assert stderr.splitlines()[-1] == remedy
    resumed = document(*words, "--resume")
    whole = document(*words[:3], tmp_path / "whole", *words[4:])
    assert resumed["silos"] == whole["silos"]


def test_ctrl_c_is_heeded_even_where_python_drops_it() -> None:
    """A finaliser raises nothing, so that a signal which meets one would be lost."""
    code = """
import signal, sys, time
from fedqa import cli

class Unlucky:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@cli.app.command()
def work():
    Unlucky()
    time.sleep(10)
    print("went on")

sys.argv = ["fedqa", "work"]
cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=_heeds_ctrl_c
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fedqa: interrupted\n")


def _heeds_ctrl_c() -> None:
    """A job in the background ignores it, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_the_sample_alliance_needs_no_file(tmp_path: Path) -> None:
    found = document("inspect", "sample", "--set", "model=tiny", "--set", "method=fedprox")
    assert found["silos"] == ["hospital", "insurer", "bank", "law", "biomedical"]
    assert found["method"] == "fedprox"


# -- before a run ------------------------------------------------------------------------------------------------


def test_inspect_shows_what_leaves_and_what_it_costs(alliance: Path) -> None:
    text = fedqa("inspect", alliance, "--set", "method=fedbn").stdout
    course = load_project(alliance, ["method=fedbn"]).course
    assert f"course {course.fingerprint}" in text
    for words in ("words", "frozen", "enc.0 to enc.1", "shared", "norm", "private", "The whole course"):
        assert words in text
    assert "a silo counts by its training examples" in text
    assert "Warning" not in text


def test_inspect_warns(alliance: Path) -> None:
    text = fedqa("inspect", alliance, "--set", "method_options.train_embeddings=true").stdout
    assert "gives the silo's vocabulary away" in " ".join(text.split())
    text = fedqa("inspect", alliance, "--set", "method=central").stdout
    assert "every silo sends all its documents and examples, in clear" in " ".join(text.split())


def test_inspect_reads_no_data(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    (tmp_path / "north.csv").unlink()
    assert fedqa("inspect", alliance, "--set", "method=zero_shot").stdout.endswith(
        "nothing leaves a silo but its scores.\n"
    )
    assert document("inspect", alliance)["stages"][0]["bytes_up"] > 0


def test_doctor_of_an_alliance(alliance: Path) -> None:
    result = fedqa("doctor", alliance)
    assert "Nothing would stop the training." in result.stdout
    assert "There are only 20 questions." in result.stdout
    assert re.search(r"north +20 +20 +14 +2 +4 +0 +0 +0 +\d+ +\d+\.\d\Ws", result.stdout)
    assert "examining north" in result.stderr


def test_doctor_finds_what_would_stop_a_training(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    (tmp_path / "north.csv").unlink()
    write_csv(tmp_path / "south.csv", [("Why?", "Because.")])
    found = document("doctor", alliance, code=1)
    assert found["can_train"] is False
    north, south = found["checkups"]
    assert "silo 'north': there is no file" in north["problem"] and "findings" not in north
    assert "nothing to train on" in south["problem"] and south["findings"]["examples"] == 1
    text = fedqa("doctor", alliance, code=1).stdout
    assert text.count("Stops the training: ") == 2


def test_doctor_of_one_file(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "asked.csv", [*rows("Northam"), rows("Northam")[0]], ("frage", "answer"))
    words = ["doctor", file, "--format", "csv", "--option", "question=frage", "--set", "model=tiny"]
    (checkup,) = document(*words)["checkups"]
    assert checkup["findings"]["examples"] == 20  # the same question and answer again is no new one
    assert checkup["epoch_seconds"] > 0


def test_doctor_says_what_a_missing_model_would_stop(alliance: Path) -> None:
    assert "Stops the training: model 'nowhere'" in fedqa("doctor", alliance, "--set", "model=nowhere", code=1).stdout


# -- what is known -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["methods", "skills", "formats", "models"])
def test_what_is_known_is_a_line_each(command: str) -> None:
    known = document(command)
    text = fedqa(command).stdout
    for entry in known:
        assert set(entry) == {"name", "summary", "options"}
        assert re.search(rf"{re.escape(entry['name'])} +{re.escape(entry['summary'][:30])}", text)


def test_the_options_of_one_method() -> None:
    assert [entry["name"] for entry in document("methods")] == list(METHODS)
    assert document("methods", "fedprox")["options"]["proximal_weight"] == 0.01
    assert re.search(r"proximal_weight +0\.01", fedqa("methods", "fedprox").stdout)


def test_options_that_are_a_table_of_their_own_are_shown_with_its_name() -> None:
    assert document("methods", "atc")["options"]["probe"]["least"] == 3
    assert re.search(r"probe\.least +3", fedqa("methods", "atc").stdout)


# -- a finished run ----------------------------------------------------------------------------------------------


def test_evaluate_agrees_with_the_result(run: Path) -> None:
    found = document("evaluate", run)
    written = json.loads((run / "result.json").read_text())
    assert found["agrees"] is True and found["differences"] == []
    assert {part: found[part] for part in ("silos", "macro", "intervals")} == {
        part: written[part] for part in ("silos", "macro", "intervals")
    }
    text = fedqa("evaluate", run).stdout
    assert "The scores agree with result.json." in text
    assert "Mean of silos" in text


def test_evaluate_finds_a_result_that_was_altered(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    course = (copy / "course.toml").read_text().replace('path = "../', f'path = "{run.parent}/')
    (copy / "course.toml").write_text(course)
    result = json.loads((copy / "result.json").read_text())
    result["silos"]["south"]["best"]["test"]["map"] += 0.1
    (copy / "result.json").write_text(json.dumps(result))
    assert "south best/test/map: " in fedqa("evaluate", copy, code=1).stdout
    (difference,) = document("evaluate", copy, code=1)["differences"]
    assert (difference["silo"], difference["score"]) == ("south", "best/test/map")
    assert difference["then"] - difference["now"] == pytest.approx(0.1)


def test_report_against_another_run(run: Path, alliance: Path, tmp_path: Path) -> None:
    fedqa("train", alliance, "--out", tmp_path / "alone", "--set", "method=isolated", "--processes", "1")
    written = Path(fedqa("report", run, "--against", tmp_path / "alone").stdout.strip())
    assert written == run / "report" / "report.html"
    assert "isolated" in written.read_text()


def test_ask_prints_answers_with_evidence(run: Path) -> None:
    found = document("ask", run, "north", "When does the gate open in Northam?", "-k", "2")
    assert found["question"] == "When does the gate open in Northam?"
    answers = found["answers" if found["answered"] else "nearest"]
    assert len(answers) == 2
    for answer in answers:
        assert answer["evidence"] in answer["passage"]
        assert answer["answer"] == answer["evidence"]  # nobody has learnt to read exact words here
        assert 0 <= answer["confidence"] <= 1
    text = fedqa("ask", run, "north", "When does the gate open in Northam?").stdout
    assert answers[0]["evidence"] in text and "confidence 0." in text


def test_ledger_lists_what_left_the_silo(run: Path) -> None:
    found = document("ledger", run, "north")
    assert found["intact"] is True
    assert [row["kind"] for row in found["rows"]] == ["update", "update", "report"]
    assert [row["round"] for row in found["rows"]] == [1, 2, 0]
    text = fedqa("ledger", run, "north").stdout
    assert "3 messages" in text and "The rows form an unbroken chain." in text


def test_an_altered_ledger_shows(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    with sqlite3.connect(copy / "silos" / "north" / "ledger.sqlite") as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("UPDATE ledger SET bytes = 1 WHERE rowid = 2")
    connection.close()
    assert "Row 2 does not fit those before it" in fedqa("ledger", copy, "north", code=1).stdout
    assert document("ledger", copy, "north", code=1)["first_broken"] == 2


def test_export_says_where_the_model_card_is(run: Path, tmp_path: Path) -> None:
    text = fedqa("export", run, "south", tmp_path / "model").stdout
    assert text == f"{tmp_path / 'model' / 'README.md'} says how to load it\n"


# -- a silo's own page -------------------------------------------------------------------------------------------


def test_documents_are_managed_without_the_page(tmp_path: Path) -> None:
    silo = write_silo(tmp_path).path
    (tmp_path / "rules.txt").write_text("Dogs must wait outside.")
    (added,) = document("documents", silo, "add", tmp_path / "rules.txt")
    assert added["title"] == "rules"
    assert fedqa("documents", silo, "list").stdout.startswith(added["document"])
    assert document("documents", silo, "list", "cats") == []
    assert fedqa("documents", silo, "remove", added["document"]).stdout == f"removed {added['document']}  rules\n"
    assert "there is no document" in fedqa("documents", silo, "remove", added["document"], code=1).stdout


def test_managing_documents_does_not_wait_for_the_models(tmp_path: Path) -> None:
    words = ["documents", str(write_silo(tmp_path).path), "list"]
    code = (
        f"import sys; from fedqa.cli import app; app({words}, standalone_mode=False); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_a_silos_page_that_cannot_be_served(tmp_path: Path) -> None:
    silo = write_silo(tmp_path).path
    assert "unknown action 'ad'; did you mean 'add'?" in fedqa("documents", silo, "ad", code=2).stderr
    assert "there is no file" in fedqa("serve", tmp_path / "none.toml", code=2).stderr


# -- benchmarks and examples -------------------------------------------------------------------------------------


def test_a_benchmark_is_a_module_with_a_main(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "measurements"
    folder.mkdir()
    (folder / "speed.py").write_text("def main(quick):\n    print('quick' if quick else 'slow')\n")
    (folder / "_shared.py").write_text("")
    benchmark("speed", folder).main(quick=True)
    assert capsys.readouterr().out == "quick\n"
    with pytest.raises(ConfigError, match=r"unknown benchmark 'sped'; did you mean 'speed'\? \(known: speed\)"):
        benchmark("sped", folder)
    with pytest.raises(ConfigError, match="part of the project's source, not of the installed package"):
        benchmark("speed", tmp_path / "nothing")


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.stem)
def test_examples_are_sound(path: Path) -> None:
    found = document("inspect", path, "--set", "model=tiny")
    assert found["rounds"] > 0


def test_the_example_with_tables_trains(tmp_path: Path) -> None:
    changes = ["--set", "model=tiny", "--set", "rounds=1"]
    result = fedqa(
        "train", ROOT / "examples" / "helpdesk.toml", "--out", tmp_path / "run", "--processes", "1", *changes
    )
    assert "left out" not in result.stderr
    assert "library" in result.stdout and "swimming" in result.stdout


def test_the_alliance_of_these_tests_is_the_one_in_their_text(alliance: Path) -> None:
    assert alliance.read_text() == ALLIANCE
