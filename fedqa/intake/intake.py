# SPDX-License-Identifier: Apache-2.0
"""The one function the rest of the project needs: a file's name and bytes in, its text out."""

from dataclasses import replace

from fedqa.data.door import shorten, usable_title
from fedqa.intake.kinds import kind_of
from fedqa.intake.names import safe_name, title_from
from fedqa.intake.records import DEFAULT_LIMITS, Extracted, IntakeError, Limits, check_length
from fedqa.intake.sandbox import read_apart

_UNREADABLE = "Some characters could not be read; they are shown as “\N{REPLACEMENT CHARACTER}”."
_NO_TEXT = {
    "pdf": "have its text recognised (OCR, for example with ocrmypdf) and upload the result",
    "html": "open the page in a browser, print it to a PDF and upload that",
}


def extract(name: str, content: bytes, limits: Limits = DEFAULT_LIMITS) -> Extracted:
    """The text of an uploaded file. Raises an IntakeError whose message is for the person who uploads it."""
    try:
        return _checked(_read(name, content, limits), name, limits)
    except IntakeError as refused:
        shown = shorten(safe_name(name))
        raise IntakeError(f"{shown!r} cannot be taken in: {refused.reason}", refused.remedy) from None


def _read(name: str, content: bytes, limits: Limits) -> Extracted:
    if len(content) > limits.file_bytes:
        size = f"{len(content) / 1e6:,.1f} MB; at most {limits.file_bytes / 1e6:,g} MB are taken"
        raise IntakeError(f"it has {size}", "split it, or make its pictures smaller")
    if not content.strip():
        raise IntakeError("it is empty", "check that it was saved completely")
    kind, notes = kind_of(name, content)
    found = read_apart(kind, content, limits)
    return replace(found, notes=(*notes, *found.notes))


def _checked(found: Extracted, name: str, limits: Limits) -> Extracted:
    if not found.text.strip():
        remedy = _NO_TEXT.get(found.kind, "check that it is the right file and that it was saved completely")
        raise IntakeError("no text was found in it", remedy)
    check_length(len(found.text), limits)
    notes = (*found.notes, _UNREADABLE) if "\N{REPLACEMENT CHARACTER}" in found.text else found.notes
    return replace(found, title=usable_title(found.title or title_from(name)), notes=notes)
