# SPDX-License-Identifier: Apache-2.0
"""The text of PDFs in good paragraphs, and PDFs that mean harm."""

import shutil
import subprocess
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from intake_files import Draw, page_object, pdf, pdf_of, stream, wrapped
from pypdf import PdfReader, PdfWriter

from fedqa.data.passages import passages
from fedqa.data.records import Document
from fedqa.intake.pdf import read
from fedqa.intake.records import Extracted, IntakeError, Limits

HOSPITAL = "Larkmoor General Hospital, Endoscopy Unit"
FIRST = (
    "A gastroscopy is an examination of the upper part of your digestive system. A thin, flexible tube with a camera "
    "is passed through your mouth into your stomach so that the doctor can see the lining directly."
)
FASTING = (
    "Do not eat anything for six hours before the examination. You may drink small amounts of clear water until two "
    "hours before it. If you take blood-thinning medication such as warfarin, telephone the unit."
)
AFTER = (
    "You will rest in the recovery area for about thirty minutes. If you were given a sedative you must not drive, "
    "operate machinery or sign important documents for twenty-four hours, and a responsible adult must stay"
)
OVERNIGHT = "with you overnight."
HOME = "Most people go home the same day. Some have a mild sore throat, which usually settles within two days."


def divided(text: str, word: str, left: str) -> str:
    """The text as a program writes it that divides a word at the end of a line."""
    return text.replace(word, f"{left}-\n{word.removeprefix(left)}")


def lines(text: str, y: float, x: float = 60) -> list[Draw]:
    """A paragraph set line by line, broken after 80 characters and where the text says so."""
    drawn: list[Draw] = []
    for part in text.split("\n"):
        drawn += wrapped(part, y - 14 * len(drawn), x=x)
    return drawn


def edges(page: int) -> list[Draw]:
    return [Draw(60, 800, HOSPITAL, 9), Draw(260, 30, f"Page {page} of 2", 9)]


def leaflet() -> bytes:
    one = [
        *edges(1),
        Draw(60, 760, "Having a gastroscopy", 20, "F2"),
        *lines(FIRST, 725),
        Draw(60, 660, "Before your appointment", 14, "F2"),
        *lines(FASTING, 635),
        Draw(60, 565, "Please bring with you:"),
        Draw(70, 545, "•"),
        *lines("this letter and a list of all the medicines that you are taking now, with their", 545, x=82),
        Draw(82, 531, "doses;"),
        Draw(70, 517, "•"),
        Draw(82, 517, "your reading glasses."),
        Draw(60, 480, "Fasting times", 11, "F2"),
        *(Draw(x, y, text) for y, row in ((460, ("Food or drink", "Stop before")), (440, ("Solid food", "6 hours")))
          for x, text in zip((60, 200), row, strict=True)),
        Draw(60, 420, "Clear water"),
        Draw(200, 420, "2 hours"),
        Draw(60, 380, "After the examination", 14, "F2"),
        *lines(AFTER, 355),
    ]  # fmt: skip
    two = [*edges(2), Draw(60, 760, OVERNIGHT), *lines(HOME, 735)]
    return pdf([one, two], "Microsoft Word - leaflet.doc")


def test_a_leaflet_of_two_pages_comes_out_in_good_paragraphs() -> None:
    assert read(leaflet(), Limits()) == Extracted(
        "Having a gastroscopy",  # a program's file name is no title
        f"Having a gastroscopy\n{FIRST}\n\n"
        f"Before your appointment\n{FASTING}\n\n"
        "Please bring with you:\n"
        "- this letter and a list of all the medicines that you are taking now, with their doses;\n"
        "- your reading glasses.\n\n"
        "Fasting times\nFood or drink | Stop before\nSolid food | 6 hours\nClear water | 2 hours\n\n"
        f"After the examination\n{AFTER} {OVERNIGHT}\n\n"
        f"{HOME}",
        "pdf",
        (f"Repeated at the edges of pages and left out: “{HOSPITAL}”, “Page # of #”.",),
    )


def test_words_that_were_divided_at_line_ends_are_whole_again() -> None:
    text = divided(divided(FASTING, "medication", "medi"), "examination", "exami")
    assert read(pdf([lines(text, 700)]), Limits()).text == FASTING
    kept = FASTING.replace("blood-thinning", "blood-\nthinning") + " Blood-thinning tablets are in the list."
    assert read(pdf([lines(kept, 700)]), Limits()).text == kept.replace("-\n", "-")


def test_a_title_that_its_author_gave_is_taken() -> None:
    assert read(pdf([[Draw(60, 700, "Some text.")]], "Visiting hours"), Limits()).title == "Visiting hours"


def test_columns_are_read_one_after_the_other() -> None:
    left, right = (
        lines("The left column of\nthe page comes first.", 700),
        lines("The right one is\nread after it.", 700, x=320),
    )
    assert (
        read(pdf([[*left, *right]]), Limits()).text
        == "The left column of the page comes first.\n\nThe right one is read after it."
    )


def test_a_page_that_lies_on_its_side_is_read_and_a_stamp_across_a_page_is_not() -> None:
    turned = b"BT /F1 11 Tf 0 1 -1 0 300 100 Tm (Lying on its side) Tj 0 1 -1 0 314 100 Tm (and two lines long.) Tj ET"
    stamp = b" BT /F1 60 Tf 0.7 0.7 -0.7 0.7 100 100 Tm (DRAFT) Tj ET"
    content = pdf_of({**skeleton(), 10: page_object(11), 11: stream(turned + stamp)})
    assert read(content, Limits()).text == "Lying on its side and two lines long."


def test_a_table_of_contents_is_left_out() -> None:
    contents = [Draw(60, 700 - 20 * k, f"Chapter {k} . . . . . . . . . . . {k + 3}") for k in range(4)]
    found = read(pdf([[*contents, Draw(60, 500, "The text.")]]), Limits())
    assert (found.text, found.notes) == ("The text.", ("The table of contents was left out.",))


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_a_pdf_that_a_browser_made_comes_out_in_good_paragraphs(tmp_path: Path) -> None:
    page = f"""<!doctype html><meta charset=utf-8><title>Having a gastroscopy</title>
    <style>@page{{size:A5}} body{{font:12pt/1.4 serif;text-align:justify}} td{{padding:2px 9px}}</style>
    <h1>Having a gastroscopy</h1><p>{FIRST}<h2>Before your appointment</h2><p>{FASTING}
    <ol><li>First come to the desk.<li>Then wait until your name is called by the nurse on duty in the blue room.</ol>
    <table><tr><th>Food<th>Remark<tr><td>Solid<td>Six hours before the examination you must have stopped eating
    all that is solid<tr><td>Water<td>Two hours</table>
    <h2>After the examination</h2><p>{AFTER} {OVERNIGHT}<p>{HOME}<p>{FIRST}<p>{FASTING}"""
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    target = tmp_path / "page.pdf"
    subprocess.run([*command, f"--print-to-pdf={target}", str(tmp_path / "page.html")], capture_output=True, timeout=50)
    if not target.exists():
        pytest.skip("chromium does not run here")
    found = read(target.read_bytes(), Limits())
    assert len(PdfReader(target).pages) == 2
    assert found.title == "Having a gastroscopy"
    assert found.text == (
        f"Having a gastroscopy\n{FIRST}\n\nBefore your appointment\n{FASTING}\n\n"
        "1. First come to the desk.\n2. Then wait until your name is called by the nurse on duty in the blue room.\n\n"
        "Food | Remark\n"
        "Solid | Six hours before the examination you must have stopped eating all that is solid\nWater | Two hours\n\n"
        f"After the examination\n{AFTER} {OVERNIGHT}\n\n{HOME}\n\n{FIRST}\n\n{FASTING}"
    )
    assert all(passage.text.count("\n") < 4 for passage in passages(Document("d", found.text)))


def skeleton(kids: str = "[10 0 R]", count: int = 1) -> dict[int, bytes]:
    """A catalog, a page tree and two fonts."""
    return {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: f"<< /Type /Pages /Count {count} /Kids {kids} >>".encode(),
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        4: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
    }


def test_scanned_pages_without_text_are_refused_with_the_remedy() -> None:
    remedy = r"no text, only pictures \(a scan\?\); have its text recognised \(OCR, for example with ocrmypdf\)"
    with pytest.raises(IntakeError, match=f"its 3 pages hold {remedy}"):
        read(pdf([[], [], []]), Limits())
    with pytest.raises(IntakeError, match=f"its one page holds {remedy}"):
        read(pdf([[]]), Limits())


def test_single_pages_without_text_are_noted() -> None:
    found = read(pdf([[Draw(60, 700, "Text.")], [], [Draw(60, 600, "More.")], []]), Limits())
    assert (found.text, found.notes) == ("Text.\n\nMore.", ("No text was found on pages 2, 4 (pictures or scans?).",))


def test_a_damaged_page_is_noted_and_the_others_are_read() -> None:
    deep = stream(b"BT /F1 11 Tf " + b"[" * 100_000 + b"(x) Tj ET")
    objects = {**skeleton("[10 0 R 12 0 R]", 2), 10: page_object(11), 11: deep, 12: page_object(13)}
    objects[13] = stream(b"BT /F1 11 Tf 60 700 Td (Fine.) Tj ET")
    found = read(pdf_of(objects), Limits())
    assert (found.text, found.notes) == ("Fine.", ("Damaged and left out: page 1.",))


def test_thousands_of_pages_are_refused() -> None:
    objects = {**skeleton(f"[{'10 0 R ' * 5_000}]", 5_000), 10: page_object(11), 11: stream(b"")}
    with pytest.raises(IntakeError, match="it has 5,000 pages; at most 1,000 are taken; split it into several files"):
        read(pdf_of(objects), Limits())


def test_more_text_than_a_document_may_have_is_refused_while_reading() -> None:
    with pytest.raises(IntakeError, match="its text has 60 characters; at most 50 are taken"):
        read(pdf([[Draw(60, 700, "x" * 30)]] * 5), Limits(characters=50))


def test_a_stream_that_would_unpack_to_gigabytes_is_refused() -> None:
    packed = zlib.compress(zlib.compress(b"(x) Tj " * 4_000_000, 9), 9)  # 28 MB in less than a kilobyte
    objects = {**skeleton(), 10: page_object(11), 11: stream(packed, b"/Filter [/FlateDecode /FlateDecode]")}
    with pytest.raises(
        IntakeError, match="it would unpack to far more than a document of its size holds; open it, print"
    ):
        read(pdf_of(objects), Limits(unpacked_bytes=20_000_000))


@pytest.mark.parametrize("kids", ["[2 0 R]", "[10 0 R 2 0 R 2 0 R]"])
def test_a_page_tree_that_contains_itself_comes_to_an_end(kids: str) -> None:
    objects = {**skeleton(kids), 10: page_object(11), 11: stream(b"BT /F1 11 Tf 60 700 Td (Fine.) Tj ET")}
    try:
        assert read(pdf_of(objects), Limits()).text.startswith("Fine.")
    except Exception as refused:
        assert not isinstance(refused, MemoryError)


def test_forms_that_draw_one_another_come_to_an_end() -> None:
    objects = {**skeleton(), 10: page_object(11).replace(b"/Font", b"/XObject << /X0 20 0 R >> /Font")}
    objects[11] = stream(b"BT /F1 11 Tf 60 700 Td (Fine.) Tj ET /X0 Do")
    for k in range(12):  # each draws the next one ten times
        resources = b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X0 %d 0 R >> >>" % (
            21 + k
        )
        objects[20 + k] = stream(b"/X0 Do " * 10, resources)
    objects[32] = stream(b"", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9]")
    assert read(pdf_of(objects), Limits()).text == "Fine."


def test_scripts_attachments_and_annotations_are_neither_run_nor_read() -> None:
    objects = {**skeleton(), 10: page_object(11), 11: stream(b"BT /F1 11 Tf 60 700 Td (Fine.) Tj ET")}
    objects[1] = (
        b"<< /Type /Catalog /Pages 2 0 R /OpenAction 20 0 R /Names << /JavaScript << /Names [(a) 20 0 R] >> >> >>"
    )
    objects[20] = b"<< /S /JavaScript /JS (app.alert\\('bad'\\)) >>"
    objects[10] = page_object(11).replace(b"/Contents", b"/AA << /O 20 0 R >> /Annots [21 0 R] /Contents")
    objects[21] = b"<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /Contents (bad) /A << /S /Launch /F (bad.exe) >> >>"
    assert read(pdf_of(objects), Limits()) == Extracted("", "Fine.", "pdf")


def encrypted(password: str) -> bytes:
    writer = PdfWriter(clone_from=BytesIO(pdf([[Draw(60, 700, "Not for everybody.")]])))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    buffer = BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def test_a_pdf_that_asks_for_a_password_is_refused_and_one_that_everybody_can_open_is_read() -> None:
    with pytest.raises(
        IntakeError, match="it is protected by a password or encrypted; upload a copy without protection"
    ):
        read(encrypted("secret"), Limits())
    assert read(encrypted(""), Limits()).text == "Not for everybody."


def test_an_encryption_that_is_unknown_is_refused() -> None:
    objects = {**skeleton(), 10: page_object(11), 11: stream(b""), 12: b"<< /Filter /Own /V 9 /R 9 >>"}
    with pytest.raises(IntakeError, match="it is protected by a password or encrypted"):
        read(pdf_of(objects, b"/Encrypt 12 0 R"), Limits())


def test_fonts_that_do_not_tell_their_letters_are_refused() -> None:
    objects = {**skeleton(), 10: page_object(11), 11: stream(b"BT /F9 11 Tf 60 700 Td (unknown font) Tj ET")}
    with pytest.raises(
        IntakeError, match="its fonts do not tell which letters they draw; open it, print it to a new PDF"
    ):
        read(pdf_of(objects), Limits())
