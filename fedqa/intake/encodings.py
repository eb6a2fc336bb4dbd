# SPDX-License-Identifier: Apache-2.0
"""Bytes to text without guessing: a byte order mark, a declaration, UTF-8, or an error that says what to do.

A wrong guess would turn letters into others and nobody would notice until an answer is wrong, so bytes that are neither
UTF-8 nor what the file declares are refused.
"""

import codecs

from fedqa.intake.records import IntakeError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like the mark of UTF-16, so it is tried first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What a page may declare. Python knows other codecs too, some of which are no character encodings.
_DECLARABLE = {
    *("utf-8", "ascii", "cp866", "cp874", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic"),
    *(f"cp{number}" for number in range(1250, 1259)),
    *(f"iso8859-{number}" for number in range(1, 17)),
    *("gb2312", "gbk", "gb18030", "big5", "big5hkscs", "euc_jp", "iso2022_jp", "shift_jis", "cp932", "euc_kr", "cp949"),
}
_AS_BROWSERS_DO = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "gb2312": "gbk"}
_HEAD = 4_096
_REMEDY = "save it as UTF-8 (in most editors: Save as, Encoding: UTF-8) and upload it again"


def decode(content: bytes, declared: str = "") -> tuple[str, tuple[str, ...]]:
    """The text, and notes where the file said one thing about itself and another was true."""
    encoding, content, notes = _encoding(content, declared)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as problem:
        raise IntakeError(_misfit(encoding, content, problem.start), _REMEDY) from None
    if "\0" in text:
        raise IntakeError("it holds NUL characters, so it is not a text", _REMEDY)
    return text, notes


def marked(content: bytes) -> bool:
    """Does a byte order mark or the pattern of its bytes tell how it is encoded?"""
    return content.startswith(tuple(mark for mark, _ in _MARKS)) or bool(_unmarked_utf16(content))


def _encoding(content: bytes, declared: str) -> tuple[str, bytes, tuple[str, ...]]:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return encoding, content[len(mark) :], ()
    wide = _unmarked_utf16(content)
    if wide:
        return wide, content, ("The file has no byte order mark; it was read as UTF-16.",)
    declared = _known(declared)
    if declared in ("", "utf-8"):
        return "utf-8", content, ()
    # Nearly no text in another encoding is valid UTF-8 by chance, but many pages declare the wrong one.
    if not content.isascii() and _is_utf8(content):
        return "utf-8", content, (f"The file declares the encoding {declared} but is UTF-8; it was read as UTF-8.",)
    return declared, content, ()


def _known(declared: str) -> str:
    if not declared:
        return ""
    try:
        name = codecs.lookup(declared).name
    except (LookupError, ValueError):
        name = ""
    if name.startswith(("utf-16", "utf-32")):
        return "utf-8"  # a declaration that could be read as ASCII is not in UTF-16
    if name not in _DECLARABLE:
        raise IntakeError(f"it declares the encoding {declared[:40]!r}, which is unknown here", _REMEDY)
    return _AS_BROWSERS_DO.get(name, name)


def _unmarked_utf16(content: bytes) -> str:
    """Text in Latin letters has a NUL in every second byte: the first of each pair, or the second."""
    head = content[:_HEAD]
    first, second = head[::2].count(0), head[1::2].count(0)
    half = len(head) / 2
    if first + second < 0.4 * half or not half:
        return ""
    if first < 0.02 * half:
        return "utf-16-le"
    return "utf-16-be" if second < 0.02 * half else ""


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _misfit(encoding: str, content: bytes, offset: int) -> str:
    line = content.count(b"\n", 0, offset) + 1
    return f"it is not {encoding.upper()}: byte 0x{content[offset]:02x} in line {line} does not fit"
