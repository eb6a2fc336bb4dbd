# SPDX-License-Identifier: Apache-2.0
"""Bytes become the text their writer saw, or are refused with a remedy."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedqa.intake.encodings import decode
from fedqa.intake.records import IntakeError

TEXT = "Überweisung an Frau Żak: 40 €\nnächste Zeile"


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
    ],
)
def test_utf8_and_whatever_a_byte_order_mark_says_are_read_without_a_note(content: bytes) -> None:
    assert decode(content) == (TEXT, ())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_recognised_and_noted(encoding: str) -> None:
    assert decode(TEXT.encode(encoding)) == (
        TEXT,
        ("The file has no byte order mark; it was read as UTF-16.",),
    )


def test_a_declared_encoding_is_followed_as_browsers_do() -> None:
    assert decode("naïve “quotes” 5 €".encode("cp1252"), "ISO-8859-1") == ("naïve “quotes” 5 €", ())
    assert decode("Żółć".encode("cp1250"), "windows-1250") == ("Żółć", ())
    assert decode("日本語".encode("shift_jis"), "Shift_JIS") == ("日本語", ())


def test_utf8_that_declares_something_else_is_read_as_utf8_and_noted() -> None:
    text, notes = decode("café".encode(), "windows-1252")
    assert text == "café"  # and not "cafÃ©"
    assert notes == ("The file declares the encoding cp1252 but is UTF-8; it was read as UTF-8.",)


def test_bytes_that_are_not_utf8_are_refused_with_their_line_and_a_remedy() -> None:
    with pytest.raises(IntakeError, match=r"it is not UTF-8: byte 0xe9 in line 2 does not fit; save it as UTF-8"):
        decode("one\ncafé".encode("latin-1"))


def test_bytes_that_are_not_what_the_file_declares_are_refused() -> None:
    with pytest.raises(IntakeError, match="it is not SHIFT_JIS: byte 0xff in line 1"):
        decode(b"\xff\xff\xff", "shift_jis")


def test_half_a_character_of_utf16_is_refused() -> None:
    with pytest.raises(IntakeError, match="it is not UTF-16-LE"):
        decode(codecs.BOM_UTF16_LE + b"a\0b")


def test_nul_characters_are_refused() -> None:
    with pytest.raises(IntakeError, match="it holds NUL characters, so it is not a text"):
        decode(b"some text\0and more text without any NUL in it")


@pytest.mark.parametrize("declared", ["utf-7", "rot13", "zlib", "unicode_escape", "idna", "x-made-up"])
def test_codecs_that_are_no_encodings_of_pages_are_refused(declared: str) -> None:
    with pytest.raises(IntakeError, match=rf"it declares the encoding '{declared}', which is unknown here"):
        decode(b"plain", declared)


def test_a_page_that_calls_itself_utf16_in_plain_ascii_is_utf8() -> None:
    assert decode("é".encode(), "utf-16") == ("é", ())


@settings(derandomize=True, database=None, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(content: bytes) -> None:
    try:
        text, _ = decode(content)
    except IntakeError:
        return
    assert "\0" not in text
