# SPDX-License-Identifier: Apache-2.0
"""The registry of formats, and that no file breaks a reader."""

from pathlib import Path

import pytest

from fedqa.data.formats import FORMATS, read_format
from fedqa.errors import ConfigError, FedQAError


def test_every_format_is_registered_by_its_name_with_a_summary_on_one_line() -> None:
    assert all(name == format.name and 0 < len(format.summary) < 90 for name, format in FORMATS.items())
    assert all("encoding" in format.options for name, format in FORMATS.items() if name != "store")  # no text file


def test_an_unknown_format_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown format 'squat'; did you mean 'squad'\? \(known: agnews, csv, ins"):
        read_format("squat", Path("x"), {})


def test_a_missing_path_is_told_as_written_and_as_looked_for() -> None:
    with pytest.raises(
        ConfigError, match=r"no file or folder 'gone/x.json' to read as squad \(looked for /.*/gone/x.json"
    ):
        read_format("squad", Path("gone/x.json"), {})


def test_an_unknown_option_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown key 'site' in the options of the format 'medquad'.*known: encoding, sites"
    ):
        read_format("medquad", tmp_path, {"site": ["CDC"]})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("medquad", {"sites": "CDC"}, "sites must be a list, got 'CDC'"),
        ("csv", {"question": 3}, "question must be a text, got 3"),
        ("notes", {"encoding": None}, "encoding must be a text, got None"),
    ],
)
def test_an_option_of_the_wrong_kind_is_an_error(
    tmp_path: Path, name: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_format(name, tmp_path, options)


def test_options_reach_the_reader(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("Frage;answer\nOù?;Ici.\n".encode("latin-1"))
    options = {"question": "Frage", "delimiter": ";", "encoding": "latin-1"}
    assert read_format("csv", tmp_path / "x.csv", options).examples[0].question == "Où?"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "data", [b"", b"\0\1\2\xff", b"{}", b"[]", b"null", b"[[[[1", b"\xef\xbb\xbf", b'"' * 99, b"PK\3\4"]
)
def test_no_file_breaks_a_reader(tmp_path: Path, name: str, data: bytes) -> None:
    """Whatever the file holds, the error is one for people."""
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(FedQAError):
        read_format(name, tmp_path / "file", {})


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_folder_is_an_error_for_people(tmp_path: Path, name: str) -> None:
    with pytest.raises(FedQAError):
        read_format(name, tmp_path, {})


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("depth", [900, 950, 970, 990])
def test_deep_nesting_breaks_no_reader(tmp_path: Path, name: str, depth: int) -> None:
    (tmp_path / "file").write_text('{"data": [' + "[" * depth + "]" * depth + "]}")
    with pytest.raises(FedQAError):
        read_format(name, tmp_path / "file", {})
