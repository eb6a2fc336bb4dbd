# SPDX-License-Identifier: Apache-2.0
"""Characters as people see them: nothing invisible, and the same letter is always the same character."""

import re
import unicodedata

# Invisible: soft hyphens, zero-width spaces, marks of writing direction, and tags that spell hidden text. The joiners
# U+200C and U+200D stay: emoji and several scripts need them.
_INVISIBLE = [0xAD, 0x180E, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x2070), 0xFEFF]
_INVISIBLE += [*range(0xFFF9, 0xFFFD), *range(0xE0000, 0xE0080)]
_SPACES = [0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]
_LINE_ENDS = [0x0B, 0x0C, 0x85, 0x2028, 0x2029]
_CONTROLS = [*range(0x01, 0x09), *range(0x0E, 0x20), *range(0x7F, 0x85), *range(0x86, 0xA0)]
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_TABLE: dict[int, str | None] = {
    **dict.fromkeys(_INVISIBLE),
    **dict.fromkeys([*_SPACES, *_CONTROLS], " "),
    **dict.fromkeys(_LINE_ENDS, "\n"),
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
    **_LIGATURES,
}
_RAISED = str.maketrans("0123456789+-()n\N{MINUS SIGN}", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ⁻")
_RAISABLE = re.compile(r"[0-9+\-()n\N{MINUS SIGN}]{1,6}")


def clean(text: str) -> str:
    """The text without invisible characters, ligatures and odd spaces; every line end is LF."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_TABLE)
    return unicodedata.normalize("NFC", text)


def raised(text: str) -> str:
    """A superscript that stays one in plain text: 10 to the 6 is not 106."""
    return text.translate(_RAISED) if _RAISABLE.fullmatch(text) else text
