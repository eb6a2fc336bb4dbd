# SPDX-License-Identifier: Apache-2.0
"""HTML: what a reader would see of a page, and nothing else of it.

Scripts, styles, comments, forms' controls, navigation and text that the page itself hides are left out. Rules of style
sheets are not followed: what a page folds away until it is clicked (answers to frequent questions, say) is kept.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree  # type: ignore[import-untyped]

from fedqa.data.door import fold
from fedqa.intake.blocks import Block, Shape, compose, item, looks_like_heading, row
from fedqa.intake.characters import clean, raised
from fedqa.intake.encodings import decode
from fedqa.intake.records import Extracted, IntakeError, Limits

_LEFT_OUT = {
    *("script", "style", "noscript", "template", "head", "title", "svg", "canvas", "iframe", "frameset", "noframes"),
    *("object", "applet", "audio", "video", "select", "option", "datalist", "button", "textarea", "progress", "meter"),
    *("nav", "rt", "rp"),
}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6", "dt", "caption", "legend", "summary"}
_BLOCKS = _HEADINGS | {
    *("html", "body", "address", "article", "aside", "blockquote", "center", "dd", "details", "dialog", "dir", "div"),
    *("dl", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "li", "main", "menu", "ol"),
    *("p", "pre", "section", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
}
_LISTS = {"ul", "ol", "menu", "dir"}
_HIDING = re.compile(r"(?:^|;)(?:display:none|visibility:(?:hidden|collapse))(?:!important)?(?:;|$)")
_META = re.compile(rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_PARAGRAPH_BREAK = re.compile(r"\n\s*\n")
_HEAD = 4_096
_WIDEST_SPAN = 100  # columns or rows that one cell may cover
_ENOUGH = 200  # characters in the main part of a page for the rest to be left out


def read(content: bytes, limits: Limits) -> Extracted:
    """The text of a page."""
    text, notes = decode(content, declared_encoding(content))
    title, blocks, more = page(text)
    return Extracted(title, compose(blocks), "html", (*notes, *more))


def declared_encoding(content: bytes) -> str:
    """The encoding that a page names in its own first lines, or nothing."""
    head = _COMMENT.sub(b"", content[:_HEAD])
    found = _META.search(head) or _XML.search(head)
    return found[1].decode("ascii") if found else ""


def page(text: str) -> tuple[str, list[Block], tuple[str, ...]]:
    """Title, blocks and notes of a page."""
    root = _tree(text)
    if root is None:
        return "", [], ()
    walk = _Walk()
    main = _main_part(root)
    blocks = walk.blocks(root if main is None else main)
    notes = ["Only the page's main part was taken."] if main is not None else []
    notes += ["Text that the page hides was left out."] if walk.hid_text else []
    return _title(root), blocks, tuple(notes)


def _tree(text: str) -> etree._Element | None:
    # With `huge_tree` elements may be 2048 deep instead of 256, which pages that never close their tags do reach.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    if not text.strip():
        return None
    root = etree.fromstring(text.encode(), parser)
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        raise IntakeError("its elements are nested too deeply", "save the page as plain text or PDF")
    return root


def _title(root: etree._Element) -> str:
    for element in (*root.iter("h1"), *root.iter("title")):
        title = fold(clean("".join(element.itertext())))
        if title and not _is_hidden(element):
            return title
    return ""


def _main_part(root: etree._Element) -> etree._Element | None:
    found = [element for element in root.iter("main") if not _is_hidden(element)]
    if len(found) == 1 and len(fold("".join(found[0].itertext()))) >= _ENOUGH:
        return found[0]
    return None


def _is_hidden(element: etree._Element) -> bool:
    style = re.sub(r"/\*.*?\*/|\s+", "", element.get("style") or "", flags=re.DOTALL).lower()
    closed = element.tag == "dialog" and element.get("open") is None
    return element.get("hidden") is not None or closed or bool(_HIDING.search(style))


@dataclass
class _List:
    """A list that is open: the number of its next item, or None if it has bullets."""

    number: int | None
    group: int


@dataclass
class _Walk:
    """One walk through a tree in reading order. No recursion: pages may be nested as deeply as they like."""

    found: list[Block] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)  # the text of the block that is open
    lists: list[_List] = field(default_factory=list)
    marker: str = ""
    preformatted: int = 0
    groups: int = 0
    hid_text: bool = False

    def blocks(self, root: etree._Element) -> list[Block]:
        walker = etree.iterwalk(root, events=("start", "end"))
        skipped = False
        for event, element in walker:
            if not isinstance(element.tag, str):
                continue
            if event == "start":
                skipped = self._is_read_at_once(element)
                if skipped:
                    walker.skip_subtree()
                else:
                    self._enter(element)
                continue
            if not skipped:
                self._leave(element)
            skipped = False  # the end of a skipped element comes right after its start
            if element is not root:
                self._add(element.tail)
        self._flush()
        return self.found

    def _is_read_at_once(self, element: etree._Element) -> bool:
        """Left out or read as a whole; either way there is no need to go into it."""
        if _is_hidden(element):
            self.hid_text = self.hid_text or bool("".join(element.itertext()).strip())
            return True
        if element.tag == "table" and _is_data(element):
            self._flush()
            self._rows(element)
            return True
        return element.tag in _LEFT_OUT

    def _enter(self, element: etree._Element) -> None:
        tag = element.tag
        if tag in _BLOCKS:
            self._flush()
        if tag in _LISTS:
            self.groups += not self.lists  # a list inside another belongs to it
            self.lists.append(_List(_start(element) if tag == "ol" else None, self.groups))
        elif tag == "li":
            self.marker = self._next_marker()
        elif tag == "pre":
            self.preformatted += 1
        elif tag == "br":
            self.inline.append("\n")
        if tag == "sup":
            self.inline.append(raised((element.text or "").strip()))
        else:
            self._add(element.text)

    def _leave(self, element: etree._Element) -> None:
        tag = element.tag
        if tag in _BLOCKS:
            self._flush("heading" if tag in _HEADINGS or _is_bold(element) else "paragraph")
        if tag in _LISTS:
            self.lists.pop()
        elif tag == "pre":
            self.preformatted -= 1

    def _next_marker(self) -> str:
        if not self.lists or self.lists[-1].number is None:
            return "-"
        self.lists[-1].number += 1
        return f"{self.lists[-1].number - 1}."

    def _add(self, text: str | None) -> None:
        if text:
            self.inline.append(text if self.preformatted else re.sub(r"\s+", " ", text))

    def _flush(self, shape: Shape = "paragraph") -> None:
        """Close the block that is open. Two line breaks in a row separate paragraphs, as many pages do it."""
        text, self.inline = clean("".join(self.inline)), []
        paragraphs = [text] if self.preformatted else _PARAGRAPH_BREAK.split(text)
        for paragraph in paragraphs:
            lines = [line.rstrip() if self.preformatted else fold(line) for line in paragraph.split("\n")]
            kept = "\n".join(line for line in lines if line.strip())
            if kept:
                self._emit(kept, shape)

    def _emit(self, text: str, shape: Shape) -> None:
        if self.lists:
            marker, self.marker = self.marker, ""
            self.found.append(item(text, self.lists[-1].group, marker=marker, depth=len(self.lists) - 1))
        else:
            self.found.append(Block(shape, text))

    def _rows(self, table: etree._Element) -> None:
        self.groups += 1
        self.found += [Block("heading", _text(caption)) for caption in table.iter("caption")]
        for k, (cells, is_header) in enumerate(_cells(table)):
            self.found.append(row(cells, self.groups, header=is_header and k == 0))


def _is_bold(element: etree._Element) -> bool:
    """A short paragraph that is bold as a whole, which many use for a heading."""
    if element.tag not in ("p", "div") or len(element) != 1 or element[0].tag not in ("b", "strong"):
        return False
    around = (element.text or "") + (element[0].tail or "")
    return not around.strip() and looks_like_heading("".join(element.itertext()))


def _start(element: etree._Element) -> int:
    value = element.get("start") or "1"
    return int(value) if re.fullmatch(r"-?\d{1,6}", value) else 1


def _is_data(table: etree._Element) -> bool:
    """Rows and columns, or only a means of layout? Those hold whole parts of a page in their cells."""
    parts = table.iterdescendants("table", "h1", "h2", "h3", "h4", "ul", "ol")
    if table.get("role") in ("presentation", "none") or next(parts, None) is not None:
        return False
    return max((len(_cells_of(line)) for line in table.iter("tr")), default=0) > 1


def _cells_of(line: etree._Element) -> list[etree._Element]:
    return [cell for cell in line if cell.tag in ("td", "th")]


def _cells(table: etree._Element) -> Iterator[tuple[list[str], bool]]:
    """The cells of each row as text, and whether they are all headings. One that covers rows stands in each of them."""
    lasting: dict[int, tuple[int, str]] = {}  # column: rows that are left to cover, text
    for line in table.iter("tr"):
        if not _is_hidden(line):
            yield _row_cells(line, lasting), all(cell.tag == "th" for cell in _cells_of(line))


def _row_cells(line: etree._Element, lasting: dict[int, tuple[int, str]]) -> list[str]:
    cells: list[str] = []
    column = 0
    for cell in _cells_of(line):
        column = _fill(cells, lasting, column)
        text = "" if _is_hidden(cell) else _text(cell)
        cells.append(text)
        if _span(cell, "rowspan") > 1:
            lasting[column] = (_span(cell, "rowspan") - 1, text)
        column += _span(cell, "colspan")
    _fill(cells, lasting, column)
    return cells


def _fill(cells: list[str], lasting: dict[int, tuple[int, str]], column: int) -> int:
    """Add the cells from above that cover this column and the next ones; the first column that is free."""
    while column in lasting:
        left, text = lasting.pop(column)
        cells.append(text)
        if left > 1:
            lasting[column] = (left - 1, text)
        column += 1
    return column


def _span(cell: etree._Element, name: str) -> int:
    value = cell.get(name) or "1"
    return min(max(int(value), 1), _WIDEST_SPAN) if re.fullmatch(r"\d{1,9}", value) else 1


def _text(element: etree._Element) -> str:
    return fold(" ".join(block.text for block in _Walk().blocks(element)))
