# SPDX-License-Identifier: Apache-2.0
"""PDF: the text of its pages in paragraphs. Nothing in it is run or followed: no script, link, form or attachment."""

import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO

from pypdf import Configuration, PageObject, PasswordType, PdfReader, apply_configuration, mult
from pypdf.errors import DependencyError, LimitReachedError

from fedqa.data.door import fold
from fedqa.intake.blocks import Block, compose
from fedqa.intake.characters import clean
from fedqa.intake.pdf_lines import document_lines
from fedqa.intake.pdf_pieces import Piece, Printed, placed, printed_lines
from fedqa.intake.records import Extracted, IntakeError, Limits, check_length
from fedqa.intake.reflow import reflow

_PRINT_AGAIN = "open it, print it to a new PDF and upload that"
_RECOGNISE = "have its text recognised (OCR, for example with ocrmypdf) and upload the result"
_NO_TITLE = re.compile(
    r"microsoft|untitled|document\s*\d*$|slide \d|.*\.(?:docx?|pdf|indd|pptx?|qxd|odt|tex|html?)$", re.I
)
_UNKNOWN = re.compile("[\N{REPLACEMENT CHARACTER}\ue000-\uf000\uf100-\uf8ff]")


def read(content: bytes, limits: Limits) -> Extracted:
    """The text of a PDF."""
    try:
        with apply_configuration(_configuration(limits)):
            reader = _opened(content)
            pages, unreadable = _pages(reader, limits)
            title = _title(reader)
    except LimitReachedError:
        raise IntakeError("it would unpack to far more than a document of its size holds", _PRINT_AGAIN) from None
    without = [number for number, page in enumerate(pages, start=1) if not page and number not in unreadable]
    if len(without) == len(pages):
        count = "its one page holds" if len(pages) == 1 else f"its {len(pages)} pages hold"
        raise IntakeError(f"{count} no text, only pictures (a scan?)", _RECOGNISE)
    _check_legible("".join(line.text for page in pages for line in page))
    lines, notes = document_lines(pages)
    blocks = list(reflow(lines))
    notes += _left_out(without, unreadable)
    return Extracted(title or _first_heading(blocks), compose(blocks), "pdf", tuple(notes))


def _configuration(limits: Limits) -> Configuration:
    largest = limits.unpacked_bytes
    return Configuration(
        maximum_declared_stream_length=largest,
        array_based_stream_maximum_output_length=largest,
        lzw_maximum_output_length=largest,
        run_length_maximum_output_length=largest,
        zlib_maximum_output_length=largest,
        brotli_maximum_output_length=largest,
        stream_decoding_work_maximum_length=3 * largest,
        page_tree_maximum_entries=10 * limits.pages,
        jbig2dec_binary=None,  # pictures are not read, and no other program is started
        disable_legacy_handling=True,
    )


def _opened(content: bytes) -> PdfReader:
    try:
        reader = PdfReader(BytesIO(content))
        locked = reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED
    except (DependencyError, NotImplementedError):
        locked = True
    if locked:
        raise IntakeError("it is protected by a password or encrypted", "upload a copy without protection")
    return reader


def _pages(reader: PdfReader, limits: Limits) -> tuple[list[list[Printed]], list[int]]:
    """The lines of each page, and the numbers of pages that cannot be read."""
    count = len(reader.pages)
    if count > limits.pages:
        raise IntakeError(f"it has {count:,} pages; at most {limits.pages:,} are taken", "split it into several files")
    pages: list[list[Printed]] = []
    unreadable: list[int] = []
    characters = 0
    for number, page in enumerate(reader.pages, start=1):
        try:
            pages.append(printed_lines(_pieces(page), number))
        except (MemoryError, LimitReachedError):
            raise
        except Exception:  # pypdf raises nearly anything on damaged pages; the others may be fine
            pages.append([])
            unreadable.append(number)
        characters += sum(len(line.text) for line in pages[-1])
        check_length(characters, limits)
    return pages, unreadable


def _pieces(page: PageObject) -> list[Piece]:
    pieces: list[Piece] = []

    def add(
        text: str, page_matrix: list[float], text_matrix: list[float], font: Mapping[str, object] | None, size: float
    ) -> None:
        name = str(font.get("/BaseFont", "")) if font else ""
        pieces.append(placed(text, mult(text_matrix, page_matrix), size, name))

    page.extract_text(visitor_text=add)
    return pieces


def _title(reader: PdfReader) -> str:
    """The title that its author gave it, not the file name that a program put there."""
    try:
        title = fold(clean(str(reader.metadata.get("/Title", "")))) if reader.metadata else ""
    except Exception:  # damaged metadata is no reason to refuse the pages
        return ""
    return "" if _NO_TITLE.match(title) else title


def _first_heading(blocks: Sequence[Block]) -> str:
    return next((fold(block.text) for block in blocks[:3] if block.shape == "heading"), "")


def _left_out(without: Sequence[int], unreadable: Sequence[int]) -> Iterator[str]:
    if without:
        yield f"No text was found on {_numbers(without)} (pictures or scans?)."
    if unreadable:
        yield f"Damaged and left out: {_numbers(unreadable)}."


def _numbers(pages: Sequence[int]) -> str:
    shown = ", ".join(map(str, pages[:10])) + (" and more" if len(pages) > 10 else "")
    return f"page {shown}" if len(pages) == 1 else f"pages {shown}"


def _check_legible(text: str) -> None:
    """Fonts may hide which letters they draw. Then what comes out is not what is seen, and no text at all is better."""
    unknown = len(_UNKNOWN.findall(text))
    if unknown > 0.05 * len(text):
        raise IntakeError("its fonts do not tell which letters they draw", f"{_PRINT_AGAIN}, or {_RECOGNISE}")
