# SPDX-License-Identifier: Apache-2.0
"""What a file is: by its content first, by its name where that leaves it open."""

import pytest

from fedqa.intake.kinds import kind_of
from fedqa.intake.records import IntakeError, Kind


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.pdf", b"%PDF-1.4\n", "pdf"),
        ("a.pdf", b"junk that some mailers put first\n%PDF-1.4\n", "pdf"),
        ("a.docx", b"PK\x03\x04", "docx"),
        ("a.html", b"<p>only a paragraph", "html"),
        ("a", b"  <!-- saved --> \n<!DOCTYPE HTML><p>x", "html"),
        ("a", '\ufeff<html lang="en">'.encode("utf-16-le"), "html"),
        ("a.xhtml", b'<?xml version="1.0"?><html>', "html"),
        ("a.md", b"# Title", "markdown"),
        ("a.txt", b"How the header %PDF-1.4 is built", "text"),
        ("a", b"plain", "text"),
        ("table.csv", b"a,b\n1,2", "text"),
    ],
)
def test_name_and_content_agree_and_nothing_is_noted(name: str, content: bytes, kind: Kind) -> None:
    assert kind_of(name, content) == (kind, ())


@pytest.mark.parametrize(
    ("name", "content", "kind", "note"),
    [
        ("letter.docx", b"%PDF-1.4\n", "pdf", "The name says Word (.docx), the content is PDF; it was read as PDF."),
        ("a.txt", b"<html><body>x", "html", "The name says plain text, the content is HTML; it was read as HTML."),
        ("a.pdf", b"plain", "text", "The name says PDF, the content is plain text; it was read as plain text."),
        (
            "a.pdf",
            b"PK\x03\x04",
            "docx",
            "The name says PDF, the content is Word (.docx); it was read as Word (.docx).",
        ),
        ("a.html", b"no tag here", "text", "The name says HTML, the content is plain text; it was read as plain text."),
    ],
)
def test_the_content_decides_against_the_name_and_that_is_noted(
    name: str, content: bytes, kind: Kind, note: str
) -> None:
    assert kind_of(name, content) == (kind, (note,))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1",
            "it is an old or password-protected Office file; accepted are .* save it as .docx",
        ),
        (b"\x89PNG\r\n", r"it is a picture; accepted are plain text, .*; have its text recognised \(OCR\)"),
        (b"{\\rtf1 x}", "it is an RTF file"),
        (b"\x1f\x8b\x08", "it is a packed file; .*; unpack it"),
        (b"%!PS-Adobe", "it is a PostScript file"),
        (b"\x7fELF\x00\x01\x02\x00", "it is neither text nor a document known here"),
        (b"<?xml version='1.0'?><rows/>", "it is XML data"),
        (b"<svg onload=alert(1)>", "it is XML data"),
    ],
)
def test_other_files_are_refused_by_what_they_are(content: bytes, message: str) -> None:
    with pytest.raises(IntakeError, match=message):
        kind_of("leaflet.pdf", content)
