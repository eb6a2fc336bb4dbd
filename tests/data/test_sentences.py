# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.data.passages import passages
from fedqa.data.records import Document
from fedqa.data.sentences import sentences, sentences_of


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("No mark at the end", ["No mark at the end"]),
        ('He said "Go." She went.', ['He said "Go."', "She went."]),
        ("Dr. Lee sees Mr. Kay. At once.", ["Dr. Lee sees Mr. Kay.", "At once."]),
        ("J. K. Roe wrote it.", ["J. K. Roe wrote it."]),
        ("Open till 5 p.m. on Fridays. Closed else.", ["Open till 5 p.m. on Fridays.", "Closed else."]),
        ("Pack fruit, e.g. Apples. Eat.", ["Pack fruit, e.g. Apples.", "Eat."]),
        ("See No. 5 first. No. Not that.", ["See No. 5 first.", "No.", "Not that."]),
        ("It costs 3.50 euros. Cheap.", ["It costs 3.50 euros.", "Cheap."]),
        ("Really?! Yes… Perhaps.", ["Really?!", "Yes…", "Perhaps."]),
        ("これは文です。次の文！終わり", ["これは文です。", "次の文！", "終わり"]),  # noqa: RUF001
        ("  Spaces  around.\n\nLines. ", ["Spaces  around.", "Lines."]),
        ("Visits\nFrom two to six.", ["Visits", "From two to six."]),
        ("Bring:\n- your card\n- a list of drugs", ["Bring:", "- your card", "- a list of drugs"]),
        ("Patients\nmay go home.", ["Patients\nmay go home."]),
        ("A card,\nID or pass.", ["A card,\nID or pass."]),
        (f"{'Long words ' * 7}at\nNoon.", [f"{'Long words ' * 7}at\nNoon."]),
        (" \n ", []),
        ("", []),
    ],
)
def test_sentences_are_cut_where_people_would(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


def test_nothing_but_white_space_is_lost() -> None:
    text = 'A fee (see Art. 7) is due. "Why?" Because! i.e. now … 100%.  End'
    assert "".join("".join(cut(text)).split()) == "".join(text.split())


def test_sentences_of_a_passage_have_offsets_into_the_document() -> None:
    document = Document("d", "A heading\n\n First one.  Second one! \n\nLast")
    found = [sentence for passage in passages(document) for sentence in sentences_of(passage)]
    assert [(s.id, s.text) for s in found] == [
        ("d#0.0", "A heading"),
        ("d#1.0", "First one."),
        ("d#1.1", "Second one!"),
        ("d#2.0", "Last"),
    ]
    assert all(document.text[s.start : s.end] == s.text and s.document == "d" for s in found)
