# SPDX-License-Identifier: Apache-2.0
"""The reader of AG's News, on toys and on the public set."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data.agnews import read, text_of
from fedqa.data.formats import read_format
from fedqa.errors import DataError

ROWS = '"2","Cup final","Rovers won\\2-1."\n"1","Talks ""fail"" (AP)","AP - No deal, he said."\n'


def written(folder: Path, rows: str = ROWS, names: str = "World\nSports\n") -> Path:
    (folder / "train.csv").write_text(rows, encoding="utf-8")
    if names:
        (folder / "classes.txt").write_text(names, encoding="utf-8")
    return folder


def test_rows_become_texts_with_a_class(tmp_path: Path) -> None:
    one, other = read(written(tmp_path)).examples
    assert (one.id, one.question, one.answers) == ("train-1", "Cup final. Rovers won 2-1.", ("Sports",))
    assert (other.question, other.answers) == ('Talks "fail" (AP) AP - No deal, he said.', ("World",))
    assert (one.key, one.split, one.evidence, one.about) == ("Sports", "train", (), "")


def test_without_names_a_class_is_its_number(tmp_path: Path) -> None:
    assert [one.answers for one in read(written(tmp_path, names="") / "train.csv").examples] == [("2",), ("1",)]


@pytest.mark.parametrize(
    ("title", "description", "text"),
    [
        ("It #39;s here", "For  #36;10 million.", "It's here. For $10 million."),
        ("Apple Inc.", "Apple &lt;AAPL.O&gt; rose", "Apple Inc. Apple <AAPL.O> rose"),
        ("X", 'Y &lt;A HREF="http://q"&gt;SPLS.O&lt;/A&gt; z', "X. Y SPLS.O z"),
        ("Sony #146;s  #147;player #148;", "", "Sony\u2019s \u201cplayer\u201d."),
        ("", "alone", "alone"),
    ],
)
def test_what_the_files_lost_is_put_back(title: str, description: str, text: str) -> None:
    assert text_of(title, description) == text


def test_bad_rows_are_left_out_with_a_reason(tmp_path: Path) -> None:
    rows = '"3","a","b"\n"x","a","b"\n"1","a"\n\n"1",""," "\n"1","a"b","c"\n"1","good","row"\n'
    found = read(written(tmp_path, rows))
    assert [one.question for one in found.examples] == ["good. row"]
    reasons = [(one.place, one.reason, one.remedy) for one in found.quarantine]
    assert reasons[0] == ("train.csv:1", "the class is '3'", "write 1 to 2")
    assert reasons[1] == ("train.csv:2", "the class is 'x'", "write 1 to 2")
    assert reasons[2] == ("train.csv:3", "the row has 2 fields", "write class, title and description")
    assert reasons[3][:2] == ("train.csv:5", "the question is empty")
    assert reasons[4][0] == "train.csv:6" and "cannot be read" in reasons[4][1]
    with pytest.raises(DataError, match="holds no usable question; one record was left out"):
        read(written(tmp_path, '"0","a","b"\n', names=""))


def test_the_public_set_is_read_whole(public_data: Callable[[str], Path]) -> None:
    found = read_format("agnews", public_data("agnews"), {})
    assert (len(found.examples), len(found.documents), found.quarantine) == (7600, 0, ())
    assert Counter(one.answers for one in found.examples) == {
        (name,): 1900 for name in ("World", "Sports", "Business", "Sci/Tech")
    }
    assert not any(" #39;" in one.question or "&lt;" in one.question for one in found.examples)
