# SPDX-License-Identifier: Apache-2.0
"""From a file's name and bytes to its text, or to a sentence for the person who uploads it."""

import random

import pytest
from intake_files import Draw, docx, paragraph, pdf

from fedqa.data.door import usable_text
from fedqa.intake import Extracted, IntakeError, Limits, extract, safe_name

LEAFLET = "# Fasting\n\nSix hours.\n"


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("fasting_times.txt", b"Six hours.", Extracted("fasting times", "Six hours.", "text")),
        ("fasting.md", LEAFLET.encode(), Extracted("Fasting", "Fasting\nSix hours.", "markdown")),
        ("a.html", b"<title>Fasting</title><p>Six hours.", Extracted("Fasting", "Six hours.", "html")),
        ("fasting.pdf", pdf([[Draw(60, 700, "Six hours.")]]), Extracted("fasting", "Six hours.", "pdf")),
        ("fasting.docx", docx(paragraph("Six hours.")), Extracted("fasting", "Six hours.", "docx")),
    ],
)
def test_every_kind_comes_out_with_a_title_and_a_text_that_the_door_takes(
    name: str, content: bytes, found: Extracted
) -> None:
    assert extract(name, content) == found
    assert usable_text(found.text) == found.text


def test_the_content_decides_and_the_note_says_so() -> None:
    found = extract("../holiday.jpg.docx", pdf([[Draw(60, 700, "Six hours.")]]))
    assert (found.title, found.kind) == ("holiday.jpg", "pdf")
    assert found.notes == ("The name says Word (.docx), the content is PDF; it was read as PDF.",)


def test_a_file_that_is_too_large_is_refused_before_it_is_read() -> None:
    message = (
        r"'big\.pdf' cannot be taken in: it has 100\.0 MB; at most 20 MB are taken; split it, or make its pictures"
    )
    with pytest.raises(IntakeError, match=message):
        extract("big.pdf", b"%PDF-" + bytes(100_000_000))
    with pytest.raises(IntakeError, match=r"it has 0\.0 MB; at most 1e-06 MB are taken"):
        extract("a.txt", b"ab", Limits(file_bytes=1))


@pytest.mark.parametrize("content", [b"", b" \r\n\t"])
def test_an_empty_file_is_refused(content: bytes) -> None:
    with pytest.raises(
        IntakeError, match=r"'a\.txt' cannot be taken in: it is empty; check that it was saved completely"
    ):
        extract("a.txt", content)


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("app.html", b"<html><script>render()</script></html>", "open the page in a browser, print it to a PDF"),
        ("empty.docx", docx("<w:p/>"), "check that it is the right file"),
        ("comment.md", b"<!-- only a comment -->", "check that it is the right file"),
    ],
)
def test_a_file_without_any_text_is_refused_with_a_remedy(name: str, content: bytes, remedy: str) -> None:
    with pytest.raises(IntakeError, match=f"'{name}' cannot be taken in: no text was found in it; {remedy}"):
        extract(name, content)


def test_a_text_that_is_longer_than_a_document_may_be_is_refused() -> None:
    with pytest.raises(IntakeError, match=r"its text has 1,200 characters; at most 1,000 are taken; split it"):
        extract("a.html", b"<p>" + b"x" * 1_200, Limits(characters=1_000))


def test_a_message_shows_the_safe_name_and_nothing_of_the_machine() -> None:
    with pytest.raises(IntakeError) as refused:
        extract("/srv/../secret/\x1b]0;evil\x07<b>.pdf", b"%PDF-1.7 broken")
    message = str(refused.value)
    assert message.startswith("']0;evil _b_.pdf' cannot be taken in: it is damaged")
    assert not any(word in message for word in ("/", "Traceback", "pypdf", "Error"))
    assert refused.value.__cause__ is None


def test_characters_that_were_lost_are_noted() -> None:
    notes = extract("a.txt", "caf\ufffd au lait".encode()).notes
    assert notes == ("Some characters could not be read; they are shown as “\ufffd”.",)


def test_the_title_is_one_line_of_a_bounded_length() -> None:
    found = extract("a.html", b"<h1>" + b"very <br> long " * 100 + b"</h1><p>Text.")
    assert len(found.title) <= 300
    assert "\n" not in found.title


def damaged(content: bytes, seed: int) -> bytes:
    """The bytes with some of them changed, or cut off."""
    chance = random.Random(seed)
    changed = bytearray(content)
    for _ in range(20):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed) // 2, len(changed))])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("content", [pdf([[Draw(60, 700, "Six hours.")]]), docx(paragraph("Six hours."))])
def test_a_damaged_file_is_read_or_refused(content: bytes, seed: int) -> None:
    try:
        extract("a", damaged(content, seed))
    except IntakeError as refused:
        assert refused.reason and refused.remedy


def test_safe_name_is_for_everybody_who_shows_or_stores_a_name() -> None:
    assert safe_name("..\\..\\a\x00b.txt") == "a_b.txt"
