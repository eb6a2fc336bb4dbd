# SPDX-License-Identifier: Apache-2.0
"""Word documents: the body in its order with lists and tables, as it reads when all tracked changes are accepted.

Headers, footers, comments, hidden text and tables of contents are left out; footnotes follow at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from fedqa.data.door import fold
from fedqa.intake.blocks import Block, compose, item, looks_like_heading, row
from fedqa.intake.characters import clean, raised
from fedqa.intake.docx_styles import Numbering, Styles, W, is_on, numbering_of, styles_of, value
from fedqa.intake.package import Package, other_kind
from fedqa.intake.records import Extracted, Limits

_ALTERNATIVE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_DELETED = {f"{W}del", f"{W}moveFrom"}
_LEFT_OUT = _DELETED | {_ALTERNATIVE, f"{W}instrText", f"{W}delText", f"{W}pPr", f"{W}rPr", f"{W}sdtPr", f"{W}tbl"}
_AS_TEXT = {f"{W}tab": " ", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-"}
_CHANGES = "The document has tracked changes; it was read as if all of them were accepted."
_SEPARATORS = ("separator", "continuationSeparator", "continuationNotice")  # footnotes that are only lines


def read(content: bytes, limits: Limits) -> Extracted:
    """The text of a DOCX."""
    package = Package(content, limits)
    name = package.related("", "officeDocument")
    root = package.part(name)
    if root is None or root.tag != f"{W}document":
        raise other_kind(package)
    styles, numbering, notes = (
        package.part(package.related(name, kind)) for kind in ("styles", "numbering", "footnotes")
    )
    reader = _Reader(styles_of(styles), numbering_of(numbering))
    blocks = [*reader.blocks(root), *_footnotes(notes, reader)]
    title = reader.title or _property(package.part(package.related("", "core-properties")))
    changed = any(next(root.iter(tag), None) is not None for tag in (f"{W}ins", *_DELETED))
    return Extracted(title, compose(blocks), "docx", (_CHANGES,) if changed else ())


def _property(core: Element | None) -> str:
    found = core.find(_TITLE) if core is not None else None
    return fold(clean(found.text or "")) if found is not None else ""


def _footnotes(root: Element | None, reader: "_Reader") -> Iterator[Block]:
    for note in () if root is None else root.findall(f"{W}footnote"):
        text = fold(" ".join(block.text for block in reader.blocks(note)))
        if text and note.get(f"{W}type") not in _SEPARATORS:
            yield Block("paragraph", f"[{note.get(f'{W}id')}] {text}")


@dataclass
class _Reader:
    styles: Styles
    numbering: Numbering
    title: str = ""  # the first that is styled as one
    groups: int = 0

    def blocks(self, parent: Element) -> Iterator[Block]:
        """Paragraphs and tables in order, inside content controls and insertions too."""
        for element in parent:
            if element.tag == f"{W}p":
                yield from self._paragraph(element)
            elif element.tag == f"{W}tbl":
                yield from self._table(element)
            elif element.tag not in _LEFT_OUT:
                yield from self.blocks(element)

    def _paragraph(self, paragraph: Element) -> Iterator[Block]:
        inner: list[Element] = []  # text boxes, read after the paragraph they hang on
        lines = clean("".join(self._text(paragraph, inner))).split("\n")
        text = "\n".join(fold(line) for line in lines if line.strip())
        if text and not self.styles.is_contents(paragraph):
            yield self._block(paragraph, text)
        for box in inner:
            yield from self.blocks(box)

    def _block(self, paragraph: Element, text: str) -> Block:
        listed = self.styles.numbering(paragraph)
        marker = self.numbering.marker(*listed) if listed else ""
        if self.styles.is_heading(paragraph) or (not listed and _is_bold(paragraph) and looks_like_heading(text)):
            if not self.title and self.styles.is_title(paragraph):
                self.title = fold(text)
            numbered = marker and marker != "-"
            return Block("heading", f"{marker} {text}" if numbered else text)
        if listed:
            return item(text, marker=marker, depth=listed[1])
        return Block("paragraph", text)

    def _text(self, parent: Element, boxes: list[Element]) -> Iterator[str]:
        for element in parent:
            if element.tag in _LEFT_OUT or (element.tag == f"{W}r" and self.styles.hides(element)):
                continue
            if element.tag in (f"{W}t", _MATH):
                up = value(parent, "rPr/vertAlign") == "superscript"
                yield raised(element.text or "") if up else element.text or ""
            elif element.tag == f"{W}footnoteReference":
                yield f"[{element.get(f'{W}id')}]"
            elif element.tag == f"{W}txbxContent":
                boxes.append(element)
            elif element.tag in _AS_TEXT:
                yield _AS_TEXT[element.tag]
            else:
                yield from self._text(element, boxes)

    def _table(self, table: Element) -> Iterator[Block]:
        rows = [line for line in _children(table, f"{W}tr") if line.find(f"{W}trPr/{W}del") is None]
        if max((len(_children(line, f"{W}tc")) for line in rows), default=0) < 2:
            yield from (block for line in rows for cell in _children(line, f"{W}tc") for block in self.blocks(cell))
            return
        self.groups += 1
        above: list[str] = []
        for k, line in enumerate(rows):
            above = self._cells(line, above)
            yield row(above, self.groups, header=k == 0)

    def _cells(self, line: Element, above: list[str]) -> list[str]:
        """The cells of a row as text. A cell that goes on from the row above has that row's text."""
        cells: list[str] = []
        for cell in _children(line, f"{W}tc"):
            merged = value(cell, "tcPr/vMerge") in ("", "continue") and len(cells) < len(above)
            text = fold(" ".join(block.text for block in self.blocks(cell)))
            cells.append(above[len(cells)] if merged else text)
        return cells


def _is_bold(paragraph: Element) -> bool:
    """Bold as a whole, which many use for a heading."""
    runs = [run for run in paragraph.iter(f"{W}r") if run.findtext(f"{W}t", "").strip()]
    return all(is_on(run, "rPr/b") for run in runs)


def _children(parent: Element, tag: str) -> list[Element]:
    """Those of this tag, inside content controls too."""
    found = []
    for element in parent:
        if element.tag == tag:
            found.append(element)
        elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}ins", f"{W}customXml"):
            found += _children(element, tag)
    return found
