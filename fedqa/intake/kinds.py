# SPDX-License-Identifier: Apache-2.0
"""What kind of file it is: its content decides, its name only where the content leaves it open."""

import re

from fedqa.intake.encodings import marked
from fedqa.intake.names import extension
from fedqa.intake.records import ACCEPTED, IntakeError, Kind

_BY_NAME: dict[str, Kind] = {
    **dict.fromkeys(("txt", "text", "log"), "text"),
    **dict.fromkeys(("md", "markdown", "mkd"), "markdown"),
    **dict.fromkeys(("html", "htm", "xhtml", "xht"), "html"),
    "pdf": "pdf",
    "docx": "docx",
    "docm": "docx",
}
_WORDS: dict[Kind, str] = {
    "text": "plain text",
    "markdown": "Markdown",
    "html": "HTML",
    "pdf": "PDF",
    "docx": "Word (.docx)",
}
_AS_PDF = "save it as PDF or .docx and upload that"
_RECOGNISE = "have its text recognised (OCR) and upload the result as PDF or text"
_OTHERS: tuple[tuple[bytes, str, str], ...] = (  # how they begin, what they are, the remedy
    (b"\xd0\xcf\x11\xe0", "an old or password-protected Office file", "save it as .docx without a password"),
    (b"{\\rtf", "an RTF file", _AS_PDF),
    (b"\x89PNG", "a picture", _RECOGNISE),
    (b"\xff\xd8\xff", "a picture", _RECOGNISE),
    (b"GIF8", "a picture", _RECOGNISE),
    (b"II*\0", "a picture", _RECOGNISE),
    (b"MM\0*", "a picture", _RECOGNISE),
    (b"%!PS", "a PostScript file", _AS_PDF),
    (b"\x1f\x8b", "a packed file", "unpack it and upload the documents in it"),
    (b"7z\xbc\xaf", "a packed file", "unpack it and upload the documents in it"),
    (b"Rar!", "a packed file", "unpack it and upload the documents in it"),
)
_HEAD = 4_096
_BEFORE_HTML = re.compile(r"(?:\s+|<!--.*?-->|<\?xml[^>]*\?>)*", re.DOTALL)
_HTML = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]*>|<!--", re.IGNORECASE)


def kind_of(name: str, content: bytes) -> tuple[Kind, tuple[str, ...]]:
    """The kind, and a note if the name says another."""
    named = _BY_NAME.get(extension(name))
    kind = _by_content(content, named)
    if named in (None, kind):
        return kind, ()
    return kind, (f"The name says {_WORDS[named]}, the content is {_WORDS[kind]}; it was read as {_WORDS[kind]}.",)


def _by_content(content: bytes, named: Kind | None) -> Kind:
    start = content[:_HEAD].lstrip()
    if start.startswith(b"%PDF-") or (named == "pdf" and b"%PDF-" in content[:_HEAD]):
        return "pdf"
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "docx"
    for begin, what, remedy in _OTHERS:
        if start.startswith(begin):
            raise IntakeError(f"it is {what}; {ACCEPTED}", remedy)
    return _by_text(content, named)


def _by_text(content: bytes, named: Kind | None) -> Kind:
    if b"\0" in content[:_HEAD] and not marked(content):
        raise IntakeError(f"it is neither text nor a document known here; {ACCEPTED}", _AS_PDF)
    # HTML's own words are ASCII, so dropping NULs reads UTF-16 well enough to tell.
    head = content[:_HEAD].replace(b"\0", b"").decode("utf-8", "ignore").lstrip("\ufeff")
    begin = _BEFORE_HTML.match(head)
    assert begin  # it matches nothing at least
    if _HTML.match(head, begin.end()) or (named == "html" and _TAG.search(head)):
        return "html"
    if head.lstrip().startswith(("<?xml", "<svg")):
        raise IntakeError(f"it is XML data; {ACCEPTED}", _AS_PDF)
    return "markdown" if named == "markdown" else "text"
