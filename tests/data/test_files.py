# SPDX-License-Identifier: Apache-2.0
"""Finding, decoding and parsing files."""

from pathlib import Path

import pytest

from fedqa.data.door import Refused
from fedqa.data.files import (
    decode,
    find_files,
    json_lines,
    lines,
    parse_json,
    parse_line,
    parse_split,
    read_json,
    read_text,
    split_of,
)
from fedqa.errors import ConfigError, DataError


def written(folder: Path, data: bytes, name: str = "x.json") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_latin_1_file_is_told_by_byte_offset_and_line_and_can_be_read_with_the_option(tmp_path: Path) -> None:
    path = written(tmp_path, "one\ncafé".encode("latin-1"))
    with pytest.raises(DataError, match=r"not utf-8: byte 0xe9 at offset 7 \(line 2\); pass encoding = \"latin-1\""):
        read_text(path, "utf-8")
    assert read_text(path, "latin-1") == "one\ncafé"


def test_the_offset_of_a_bad_byte_counts_the_byte_order_mark() -> None:
    with pytest.raises(DataError, match="0xe9 at offset 4"):
        decode(b"\xef\xbb\xbfa\xe9", "utf-8", "x")


def test_utf_16_is_recognised() -> None:
    with pytest.raises(DataError, match='pass encoding = "utf-16"'):
        decode("text".encode("utf-16"), "utf-8", "x")
    assert decode("text".encode("utf-16"), "utf-16", "x") == "text"


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    assert read_json(written(tmp_path, b'\xef\xbb\xbf{"a": 1}'), "utf-8") == {"a": 1}


def test_an_unknown_encoding_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="unknown encoding 'utf-ate' for x"):
        decode(b"a", "utf-ate", "x")


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.json is empty; check that it was written completely"):
        read_text(written(tmp_path, b" \r\n"), "utf-8")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read: Is a directory"):
        read_text(tmp_path, "utf-8")


def test_broken_json_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.json is not JSON: Expecting ',' delimiter at line 3, column 1"):
        read_json(written(tmp_path, b'{"a": 1\n\n"b": 2}'), "utf-8")


def test_nan_is_no_json_and_is_told_with_its_line_even_if_a_string_says_nan_too() -> None:
    with pytest.raises(ValueError, match="NaN at line 2, column 7 is no JSON number, write null"):
        parse_json('{"a NaN \\" NaN": 1,\n "b": NaN}')
    with pytest.raises(ValueError, match="-Infinity at column 2"):
        parse_json("[-Infinity]")


@pytest.mark.parametrize("depth", [960, 980, 1_000, 100_000])
def test_deeply_nested_json_is_refused_and_nothing_breaks(depth: int) -> None:
    try:
        parse_json("[" * depth + "]" * depth)
    except ValueError as problem:
        assert "nested too deeply" in str(problem)


def test_a_bad_json_line_is_refused_and_names_the_column() -> None:
    with pytest.raises(Refused, match=r"the line is not JSON: .* at column 2"):
        parse_line("{a}")


def test_json_lines_are_numbered_as_in_the_file_and_blank_ones_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, b"1\r\n\r\n2\n")
    assert list(json_lines(path, "utf-8")) == [(1, "1"), (3, "2")]


def test_only_line_ends_end_lines() -> None:
    assert lines("a\u2028b\r\nc\rd\n") == ["a\u2028b", "c", "d", ""]


def test_files_of_a_folder_come_sorted_and_hidden_ones_not_at_all(tmp_path: Path) -> None:
    for name in ("b.json", "a.JSON", ".hidden.json", "c.txt"):
        written(tmp_path, b"1", name)
    (tmp_path / "folder.json").mkdir()
    assert [path.name for path in find_files(tmp_path, ".json")] == ["a.JSON", "b.json"]


def test_a_folder_without_such_files_is_an_error_that_tells_what_is_there(tmp_path: Path) -> None:
    written(tmp_path, b"1", "data.xlsx")
    with pytest.raises(DataError, match=r"holds no file that ends in .csv or .tsv \(found: data.xlsx\)"):
        find_files(tmp_path, ".csv", ".tsv")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train-v2.0.json", "train"),
        ("tatqa_dataset_test_gold.json", "test"),
        ("Validation.csv", "dev"),
        ("contest.csv", None),
        ("train_test.csv", None),
    ],
)
def test_a_files_name_may_tell_its_split(name: str, split: str | None) -> None:
    assert split_of(Path(name)) == split


def test_a_records_split_is_one_of_the_known_words() -> None:
    assert parse_split("Validation") == "dev"
    assert parse_split("") is None
    with pytest.raises(Refused, match="unknown split 'fold 3'"):
        parse_split("fold 3")
