# SPDX-License-Identifier: Apache-2.0
"""The MedQuAD reader, on toys, hostile files and the real archive."""

import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data import medquad
from fedqa.data.records import Collection
from fedqa.errors import ConfigError, DataError


def xml(*pairs: tuple[str, str], head: str = "") -> str:
    body = "".join(f"<QAPair><Question>{q}</Question><Answer>{a}</Answer></QAPair>" for q, a in pairs)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>{head}<Document><Focus>Gout</Focus><QAPairs>{body}</QAPairs></Document>'
    )


TREE = {
    "5_NIDDK_QA/1.xml": xml(("What is gout ?", "A\n\n  form of <b>arthritis</b>."), ("Who gets it ?", "")),
    "6_NINDS_QA/1.xml": xml(("What is pain ?", "A signal.")),
    "10_MPlus_ADAM_QA/1.xml": xml(("What is rest ?", "")),
}


def folder(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    return path


def archive(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path / "medquad.zip", "w", zipfile.ZIP_DEFLATED) as target:
        for name, text in files.items():
            target.writestr(name, text)
    return path / "medquad.zip"


def reasons(collection: Collection) -> list[tuple[str, str]]:
    return [(left_out.place, left_out.reason) for left_out in collection.quarantine]


def test_pairs_become_examples_with_the_institute_as_key_and_the_answer_on_one_line(tmp_path: Path) -> None:
    found = medquad.read(archive(tmp_path, TREE))
    assert [(e.id, e.question, e.answers, e.key) for e in found.examples] == [
        ("NIDDK-1-1", "What is gout ?", ("A form of arthritis.",), "NIDDK"),
        ("NINDS-1-1", "What is pain ?", ("A signal.",), "NINDS"),
    ]
    assert found.documents[0].title == "Gout"


def test_pairs_without_an_answer_are_counted_once_for_each_folder(tmp_path: Path) -> None:
    assert reasons(medquad.read(archive(tmp_path, TREE))) == [
        ("10_MPlus_ADAM_QA", "question-answer pairs without answer text: 1"),
        ("5_NIDDK_QA", "question-answer pairs without answer text: 1"),
    ]


def test_zip_folder_and_folder_with_the_zip_are_the_same(tmp_path: Path) -> None:
    unpacked, packed = tmp_path / "a", tmp_path / "b"
    packed.mkdir()
    expected = medquad.read(archive(packed, TREE | {"__MACOSX/5_NIDDK_QA/._1.xml": "junk", "readme.txt": "…"}))
    assert medquad.read(folder(unpacked, TREE | {".git/1.xml": "junk"})) == expected
    assert medquad.read(packed) == expected
    assert [example.key for example in medquad.read(unpacked / "6_NINDS_QA").examples] == ["NINDS"]


@pytest.mark.parametrize("site", ["NINDS", "ninds", "6_NINDS", "6_"])
def test_sites_are_kept_by_institute_or_folder(tmp_path: Path, site: str) -> None:
    found = medquad.read(archive(tmp_path, TREE), sites=(site,))
    assert [example.key for example in found.examples] == ["NINDS"]
    assert found.quarantine == ()


def test_an_unknown_site_is_an_error_that_lists_those_there(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown site 'NINSD' .*did you mean 'NINDS'.*\(known: MPlus_ADAM, NIDDK, NINDS"
    ):
        medquad.read(archive(tmp_path, TREE), sites=("NINSD",))


def test_sites_without_any_answer_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no usable question.*question-answer pairs without answer text: 1"):
        medquad.read(archive(tmp_path, TREE), sites=("10_",))


ENTITIES = '<!DOCTYPE d [<!ENTITY a "boom"><!ENTITY b "&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (xml(("What ?", "&b;"), head=ENTITIES), "the XML declares a document type or entities"),
        (xml(("What ?", "x"), head='<!DOCTYPE d SYSTEM "file:///etc/passwd">'), "the XML declares a document type"),
        ("<Document><QAPair>", "the file is not XML: no element found: line 1"),
        ("<html/>", "the file's <html> holds no <QAPair>"),
        ("<a>" * 100_000 + "</a>" * 100_000, "the file's <a> holds no <QAPair>"),
        (xml(("", "An answer.")), "the question is empty"),
        (" " * (4 * 2**20 + 1), "the file has 4,194,305 bytes; at most 4,194,304 are read"),
    ],
)
def test_a_bad_or_hostile_file_is_left_out_alone(tmp_path: Path, text: str, reason: str) -> None:
    files = {"6_NINDS_QA/1.xml": TREE["6_NINDS_QA/1.xml"], "6_NINDS_QA/2.xml": text}
    for path in (archive(tmp_path, files), folder(tmp_path / "tree", files)):
        found = medquad.read(path)
        ((place, told),) = reasons(found)
        assert "6_NINDS_QA/2.xml" in place and told.startswith(reason)
        assert len(found.examples) == 1


def test_a_file_in_another_encoding_is_left_out_unless_it_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path, {"6_NINDS_QA/1.xml": TREE["6_NINDS_QA/1.xml"]})
    (path / "6_NINDS_QA" / "2.xml").write_bytes(xml(("Où ?", "Ici.")).encode("latin-1"))
    ((_, reason),) = reasons(medquad.read(path))
    assert "is not utf-8: byte 0xf9" in reason and 'pass encoding = "latin-1"' in reason
    assert len(medquad.read(path, encoding="latin-1").examples) == 2


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(medquad, "MAX_ARCHIVE", 100)
    with pytest.raises(DataError, match="bytes; at most 100 are read: check where it comes from"):
        medquad.read(archive(tmp_path, TREE))


def test_what_is_no_zip_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"not a zip")
    with pytest.raises(DataError, match="is not a readable zip file"):
        medquad.read(tmp_path / "x.zip")


def test_a_damaged_member_is_left_out(tmp_path: Path) -> None:
    path = archive(tmp_path, TREE)
    data = path.read_bytes()
    start = data.index(b"6_NINDS_QA/1.xml") + len("6_NINDS_QA/1.xml")
    path.write_bytes(data[:start] + b"\xff" * 20 + data[start + 20 :])
    assert ("6_NINDS_QA/1.xml", "the file cannot be unpacked") in [
        (p, r.split(":")[0]) for p, r in reasons(medquad.read(path))
    ]


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds neither .xml files nor one .zip file"):
        medquad.read(tmp_path)


def test_medquad_is_read_whole(public_data: Callable[[str], Path]) -> None:
    found = medquad.read(public_data("medquad/medquad.zip"))
    without = [int(r.reason.split()[-1]) for r in found.quarantine if "without answer text" in r.reason]
    assert sum(without) == 47_441 - 16_407
    # 48 of the 16,407 pairs repeat another of the same institute word for word.
    pairs = Counter(example.key for example in found.examples for _ in example.evidence)
    assert sum(pairs.values()) == 16_407 - 48
    published = dict(GHR=5430, GARD=5389, NIDDK=1192, NINDS=1088, SeniorHealth=769, CancerGov=729, NHLBI=559, CDC=270)
    published["MPlus_Health_Topics"] = 981
    assert set(pairs) == set(published)
    assert all(0 <= published[institute] - pairs[institute] < 50 for institute in published)
