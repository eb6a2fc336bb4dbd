# SPDX-License-Identifier: Apache-2.0
"""What a new user gets wrong: each time one clear paragraph with a remedy on stderr, exit code 2, no traceback."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from toy_alliance import ALLIANCE, rows, write_alliance, write_csv
from typer.testing import CliRunner, Result

from fedqa.cli import app


def fedqa(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def train(alliance: Path, out: str = "run", *words: str) -> Result:
    return fedqa("train", alliance, "--out", alliance.parent / out, "--processes", "1", *words)


def refused(result: Result, message: str) -> None:
    """The command ended with this message (a regular expression) and nothing on stdout."""
    assert result.exit_code == 2, result.output
    assert re.search(message, result.stderr, re.DOTALL), result.stderr
    assert result.stderr.count("fedqa: ") == 1
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


WRONG_FILES = {
    "an unknown method": (
        'method = "fedavg"',
        'method = "fedavrg"',
        r"unknown method 'fedavrg'; did you mean 'fedavg'\? \(known: atc, central, cover_query",
    ),
    "an unknown key": ("rounds = 2", "round = 2", r"unknown key 'round' in .*alliance.toml; did you mean 'rounds'\?"),
    "an unknown local key": ("batch = 4", "batchsize = 4", r"unknown key 'batchsize' in .*local.*did you mean 'batch'"),
    "an unknown method option": (
        "[local]",
        "[method_options]\nproximal_weight = 0.1\n[local]",
        r"unknown key 'proximal_weight' in \[method_options\] of method 'fedavg'.*known: combiner, .*quorum",
    ),
    "an unknown skill option": (
        "[local]",
        "[skills.match]\nnegative = 3\n[local]",
        r"unknown key 'negative' in \[skills.match\]; did you mean 'negatives'\?",
    ),
    "options of a skill nobody has": ("[local]", "[skills.read]\n[local]", r"\[skills.read\].*no silo has.*match"),
    "an unknown skill": ('name = "north"', 'name = "north"\nskill = "mach"', r"unknown skill 'mach'.*'match'"),
    "an unknown silo key": (
        'name = "north"',
        'name = "north"\nlimits = 3',
        r"unknown key 'limits'.*did you mean 'limit'",
    ),
    "a misspelt format": ('"csv", path = "north', '"cvs", path = "north', r"silo 'north': unknown format 'cvs'.*'csv'"),
    "an unknown option of a format": (
        'path = "north.csv"',
        'path = "north.csv", seperator = ";"',
        r"silo 'north': unknown key 'seperator' in the options of the format 'csv'",
    ),
    "a missing path": ("north.csv", "nroth.csv", r"silo 'north': there is no file.*nroth.csv.*correct the path"),
    "data without a path": (', path = "north.csv"', "", r"data of silo 'north'.*both format and path"),
    "an unknown sample": (
        'format = "csv", path = "north.csv"',
        'sample = "hostpital"',
        r"unknown sample silo 'hostpital'; did you mean 'hospital'",
    ),
    "the same name twice": ('name = "south"', 'name = "north"', r"silo names must differ, north stands more than once"),
    "a name that cannot be a folder": ('name = "south"', 'name = "../south"', r"silo name '../south' cannot be used"),
    "bad TOML": ("rounds = 2", "rounds = = 2", r"alliance.toml is not valid TOML: .*line 4"),
    "a text for a number": ("rounds = 2", 'rounds = "two"', r"rounds must be a whole number, got 'two'"),
    "a number for a text": ('model = "tiny"', "model = 3", r"model must be a text, got 3"),
    "a list for a table": ("[local]\nbatch = 4", "local = [4]", r"local must be a table, got \[4\]"),
    "no rounds": ("rounds = 2", "rounds = 0", r'rounds must be at least 1, got 0 \(use method = "zero_shot"'),
    "a batch of nothing": ("batch = 4", "batch = 0", r"\[local\] batch must be at least 1, got 0"),
    "a limit of nothing": (
        'name = "north"',
        'name = "north"\nlimit = 0',
        r"'north'.*limit must be at least 1 question",
    ),
    "a model folder that does not exist": (
        '"tiny"',
        '"models/mine"',
        r"model 'models/mine' is not to be had: .*give 'embedded'.*or a folder",
    ),
    "too many layers": ('"tiny"', '"embedded:9"', r"model 'embedded:9'.*layers 1 to 6"),
    "a quorum nobody can reach": (
        "[local]",
        "[method_options]\nquorum = 3\n[local]",
        r"quorum of 3 cannot be reached, only 2 are asked",
    ),
}


@pytest.mark.parametrize("what", WRONG_FILES)
def test_wrong_alliance_file(what: str, tmp_path: Path) -> None:
    old, new, message = WRONG_FILES[what]
    assert old in ALLIANCE
    alliance = write_alliance(tmp_path, ALLIANCE.replace(old, new, 1))
    refused(train(alliance), message)
    assert not (tmp_path / "run" / "course.toml").exists()  # so the mended file can be given the same --out


def test_an_alliance_without_silos(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path, ALLIANCE[: ALLIANCE.index("[[silo]]")])
    refused(train(alliance), r"alliance.toml names no silo; add a \[\[silo\]\] with name and data")


def test_an_alliance_file_that_does_not_exist(tmp_path: Path) -> None:
    refused(train(tmp_path / "allaince.toml"), r"there is no file .*allaince.toml; `fedqa demo` needs none")


def test_a_folder_for_an_alliance_file(tmp_path: Path) -> None:
    refused(train(tmp_path), r"is a folder; give the alliance file in it")


def test_an_alliance_file_in_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "alliance.toml"
    path.write_bytes('name = "Köln"'.encode("latin-1"))
    refused(train(path), r"is not UTF-8 text \(byte 9\); save it as UTF-8")


# -- data --------------------------------------------------------------------------------------------------------


def test_a_latin_1_file_is_named_with_its_first_bad_byte(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    (tmp_path / "north.csv").write_bytes("question,answer\nWo?,Köln\n".encode("latin-1"))
    refused(train(alliance), r"silo 'north': .*north.csv is not utf-8: byte 0xf6 .*line 2.*encoding = \"latin-1\"")


def test_the_encoding_that_the_message_asks_for_mends_it(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path, ALLIANCE.replace('"north.csv"', '"north.csv", encoding = "latin-1"'))
    text = (tmp_path / "north.csv").read_text(encoding="utf-8").replace("Northam", "Nörtham")
    (tmp_path / "north.csv").write_bytes(text.encode("latin-1"))
    assert train(alliance).exit_code == 0


def test_an_offset_that_does_not_match_is_quarantined_and_the_run_goes_on(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    spans = [(question, context, context, "0") for question, context in rows("Northam")]
    spans[3] = (*spans[3][:3], "7")
    write_csv(tmp_path / "north.csv", spans, ("question", "context", "answer", "answer_start"))
    result = train(alliance)
    assert result.exit_code == 0
    assert re.search(r"Records left out.*north.*north.csv:5.*answer_start 7 points", result.stderr, re.DOTALL)
    quarantine = (tmp_path / "run" / "silos" / "north" / "quarantine.tsv").read_text(encoding="utf-8")
    assert quarantine.splitlines()[1].startswith("north.csv:5\tanswer_start 7 points to")
    assert not (tmp_path / "run" / "silos" / "south" / "quarantine.tsv").exists()


def test_an_empty_silo(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    write_csv(tmp_path / "north.csv", [])
    refused(train(alliance), r"silo 'north': .*north.csv holds no usable question.*it is empty: check the path")


def test_an_empty_file(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    (tmp_path / "north.csv").write_bytes(b"")
    refused(train(alliance), r"silo 'north': .*north.csv is empty; check that it was written completely")


def test_a_column_of_another_name(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    write_csv(tmp_path / "north.csv", rows("Northam"), ("frage", "answer"))
    refused(train(alliance), r"has no column 'question'.*columns found: 'frage', 'answer'.*question = \"…\"")


def test_a_silo_without_anything_to_train_on(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    write_csv(tmp_path / "north.csv", [("Why?", "Because.")])
    refused(train(alliance), r"silo 'north': match has nothing to train on: 1 training questions .* 1 passages")


def test_a_silo_with_one_example_trains_and_has_no_scores(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    table = [("Why?", "Because.", "1"), ("Why?", "Therefore.", "0")]
    write_csv(tmp_path / "north.csv", table, ("question", "answer", "label"))
    result = train(alliance, "run", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["silos"]["north"] == {}
    assert "map" in found["silos"]["south"]["best"]["test"]
    for command in (["evaluate"], ["report"]):
        assert fedqa(*command, tmp_path / "run").exit_code == 0
    asked = fedqa("ask", tmp_path / "run", "north", "Why?", "--json")
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["answered"] is True  # nothing to learn silence from


def test_a_question_in_two_splits(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    table = [(*pair, ("train", "dev", "test")[i % 3]) for i, pair in enumerate(rows("Northam"))]
    table.append((table[0][0], table[0][1], "test"))
    write_csv(tmp_path / "north.csv", table, ("question", "answer", "split"))
    refused(train(alliance), r"silo 'north': questions in more than one split: 1")


# -- the command line --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["rounds", "=3", ""])
def test_a_change_that_is_no_key_and_value(change: str, tmp_path: Path) -> None:
    result = train(write_alliance(tmp_path), "run", "--set", change)
    refused(result, r"--set takes key=value, such as --set rounds=5")


def test_a_change_of_an_unknown_key(tmp_path: Path) -> None:
    refused(train(write_alliance(tmp_path), "run", "--set", "local.epoch=3"), r"unknown key 'epoch'.*'epochs'")


def test_a_change_inside_what_is_no_table(tmp_path: Path) -> None:
    refused(train(write_alliance(tmp_path), "run", "--set", "rounds.x=3"), r"--set rounds.x: 'rounds' is not a table")


def test_a_change_of_the_wrong_type(tmp_path: Path) -> None:
    refused(
        train(write_alliance(tmp_path), "run", "--set", "rounds=many"), r"rounds must be a whole number, got 'many'"
    )


def test_an_out_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(train(write_alliance(tmp_path), "file/run"), r"file/run.*: Not a directory; name a place")


def test_doctor_of_data_needs_a_format(tmp_path: Path) -> None:
    refused(
        fedqa("doctor", write_csv(tmp_path / "a.csv", rows("A"))), r"say with --format what .*a.csv is \(known: agnews"
    )


@pytest.mark.parametrize("command", ["methods", "skills", "formats"])
def test_a_name_nobody_knows(command: str) -> None:
    refused(fedqa(command, "fedsnow"), rf"unknown {command[:-1]} 'fedsnow'.*known: ")


def test_a_benchmark_nobody_knows() -> None:
    refused(fedqa("bench", "speeed"), r"unknown benchmark 'speeed'.*known: .*engine")


# -- runs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    alliance = write_alliance(tmp_path_factory.mktemp("alliance"))
    assert train(alliance, "run", "--set", "rounds=1").exit_code == 0
    return alliance.parent / "run"


def on_a_run(folder: Path, silo: str, out: Path) -> dict[str, list[str | Path]]:
    return {
        "evaluate": ["evaluate", folder],
        "report": ["report", folder],
        "ask": ["ask", folder, silo, "Why?"],
        "export": ["export", folder, silo, out],
        "ledger": ["ledger", folder, silo],
    }


@pytest.mark.parametrize("command", ["ask", "ledger", "export"])
def test_a_silo_that_is_not_in_the_run(command: str, run: Path, tmp_path: Path) -> None:
    words = on_a_run(run, "nroth", tmp_path / "out")[command]
    refused(fedqa(*words), r"unknown silo 'nroth' in .*run; did you mean 'north'\? \(known: north, south\)")


@pytest.mark.parametrize("command", ["evaluate", "report", "ask", "ledger", "export"])
def test_a_run_that_does_not_exist(command: str, tmp_path: Path) -> None:
    words = on_a_run(tmp_path / "rnu", "north", tmp_path / "out")[command]
    refused(fedqa(*words), r"rnu (does not exist|is not a run folder).*`fedqa train --out`")


@pytest.mark.parametrize("command", ["evaluate", "report", "ask", "export"])
def test_a_run_that_has_not_ended(command: str, run: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "run"
    unfinished.mkdir()
    (unfinished / "course.toml").write_text((run / "course.toml").read_text())
    words = on_a_run(unfinished, "north", tmp_path / "out")[command]
    refused(fedqa(*words), r"the run has not ended; continue it with `fedqa train --resume`")


def test_a_ledger_before_anything_left(run: Path, tmp_path: Path) -> None:
    (tmp_path / "course.toml").write_text((run / "course.toml").read_text())
    refused(fedqa("ledger", tmp_path, "north"), r"ledger.sqlite is missing: nothing has left 'north' yet")


def test_an_out_that_holds_a_run(run: Path) -> None:
    alliance = run.parent / "alliance.toml"
    refused(
        train(alliance, "run", "--set", "rounds=1"), r"run holds a run already; continue it with --resume, or choose"
    )


def test_resuming_another_course(run: Path) -> None:
    other = train(run.parent / "alliance.toml", "run", "--resume", "--set", "rounds=1", "--set", "seed=5")
    refused(other, r"run holds a run of another course; choose another")


def test_an_export_into_a_folder_in_use(run: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(fedqa("export", run, "north", tmp_path), r"is not empty; name a new folder")


def test_an_empty_question_and_no_answers(run: Path) -> None:
    refused(fedqa("ask", run, "north", " "), r"the question is empty; ask something, in quotation marks")
    refused(fedqa("ask", run, "north", "Why?", "-k", "0"), r"k must be at least 1 answer, got 0")


# -- in a shell --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "nowhere.toml", "--out", "run"], "fedqa: there is no file nowhere.toml"),
        (["trian"], "No such command 'trian'"),
        (["train", "nowhere.toml"], "Missing option '--out'"),
    ],
)
def test_in_a_shell_too_there_is_no_traceback(words: list[str], message: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "fedqa.cli", *words]
    result = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(root)}, capture_output=True, text=True)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
