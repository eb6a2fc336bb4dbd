# SPDX-License-Identifier: Apache-2.0
"""What the paragraphs of a DOCX are: headings and list items by their styles, and the numbers that Word would print."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HEADING = re.compile(r"heading \d|title|subtitle", re.IGNORECASE)
_CONTENTS = re.compile(r"toc( \d| heading)|table of figures", re.IGNORECASE)
_LONGEST_CHAIN = 20  # styles based on one another
_LEVELS = 9
_ROMAN = ((100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


def value(element: Element | None, path: str) -> str | None:
    """The `w:val` of a child, such as `pPr/pStyle`; "" where it stands without a value."""
    found = element.find("/".join(W + step for step in path.split("/"))) if element is not None else None
    return None if found is None else found.get(f"{W}val", "")


def is_on(element: Element | None, path: str) -> bool:
    """Is a switch such as `vanish` there and not turned off?"""
    return value(element, path) not in (None, "0", "false", "off")


@dataclass(frozen=True)
class Styles:
    """The paragraph and character styles of a document by their ids."""

    elements: dict[str, Element]

    def is_heading(self, paragraph: Element) -> bool:
        level = value(paragraph, "pPr/outlineLvl")
        chain = self._chain(value(paragraph, "pPr/pStyle"))
        levels = [level, *(value(style, "pPr/outlineLvl") for style in chain)]
        named = any(_HEADING.fullmatch(value(style, "name") or "") for style in chain)
        return named or next((found for found in levels if found is not None), "9") in "012345678"

    def is_contents(self, paragraph: Element) -> bool:
        """A line of a table of contents, which says nothing that its headings do not say."""
        return any(_CONTENTS.fullmatch(value(s, "name") or "") for s in self._chain(value(paragraph, "pPr/pStyle")))

    def is_title(self, paragraph: Element) -> bool:
        chain = self._chain(value(paragraph, "pPr/pStyle"))
        return any((value(style, "name") or "").lower() in ("title", "heading 1") for style in chain)

    def hides(self, run: Element) -> bool:
        if run.find(f"{W}rPr/{W}vanish") is not None:
            return is_on(run, "rPr/vanish")
        return any(is_on(style, "rPr/vanish") for style in self._chain(value(run, "rPr/rStyle")))

    def numbering(self, paragraph: Element) -> tuple[str, int] | None:
        """The list a paragraph belongs to and its level there."""
        for place in (paragraph, *self._chain(value(paragraph, "pPr/pStyle"))):
            number = value(place, "pPr/numPr/numId")
            if number is not None:
                level = value(place, "pPr/numPr/ilvl") or "0"
                return None if number == "0" else (number, min(int(level), _LEVELS - 1) if level.isdecimal() else 0)
        return None

    def _chain(self, id: str | None) -> list[Element]:
        """A style and those it is based on."""
        chain: list[Element] = []
        while id in self.elements and len(chain) < _LONGEST_CHAIN:
            assert id is not None
            chain.append(self.elements[id])
            id = value(chain[-1], "basedOn")
        return chain


def styles_of(root: Element | None) -> Styles:
    found = [] if root is None else root.findall(f"{W}style")
    return Styles({style.get(f"{W}styleId", ""): style for style in found})


@dataclass
class Numbering:
    """Counts the items of every list in the order in which they are met."""

    lists: dict[str, str]  # the list's id: the id of its definition
    restarts: dict[str, dict[int, int]]  # list: level: the number it begins again with
    levels: dict[tuple[str, int], tuple[str, str, int]]  # definition and level: format, pattern, first number
    counts: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def marker(self, number: str, level: int) -> str:
        """The marker of the next item: a dash for any bullet, else what Word prints, such as "2.1" or "(b)"."""
        definition = self.lists.get(number, "")
        style, pattern, first = self.levels.get((definition, level), ("bullet", "", 1))
        counts = self.counts[definition]
        for begun, start in self.restarts.pop(number, {}).items():
            counts[begun] = start - 1
        counts[level] = counts.get(level, first - 1) + 1
        for deeper in [other for other in counts if other > level]:
            del counts[deeper]
        if style in ("bullet", "none"):
            return "-" if style == "bullet" else ""
        return re.sub(r"%([1-9])", lambda m: self._printed(definition, int(m[1]) - 1), pattern)

    def _printed(self, definition: str, level: int) -> str:
        style, _, first = self.levels.get((definition, level), ("decimal", "", 1))
        return _printed(self.counts[definition].get(level, first), style)


def numbering_of(root: Element | None) -> Numbering:
    numbering = Numbering({}, {}, {})
    if root is None:
        return numbering
    for definition in root.findall(f"{W}abstractNum"):
        id = definition.get(f"{W}abstractNumId", "")
        for level in definition.findall(f"{W}lvl"):
            style, pattern = value(level, "numFmt") or "decimal", value(level, "lvlText") or ""
            numbering.levels[id, _number(level.get(f"{W}ilvl"))] = (style, pattern, _number(value(level, "start"), 1))
    for number in root.findall(f"{W}num"):
        id = number.get(f"{W}numId", "")
        numbering.lists[id] = value(number, "abstractNumId") or ""
        begun = {_number(o.get(f"{W}ilvl")): value(o, "startOverride") for o in number.findall(f"{W}lvlOverride")}
        numbering.restarts[id] = {level: _number(start, 1) for level, start in begun.items() if start is not None}
    return numbering


def _number(text: str | None, otherwise: int = 0) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,6}", text) else otherwise


def _printed(count: int, style: str) -> str:
    if style.endswith("Letter") and 0 < count < 1_000:
        letters = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        return letters.upper() if style.startswith("upper") else letters
    if style.endswith("Roman") and 0 < count < 400:
        return _roman(count).upper() if style.startswith("upper") else _roman(count)
    return str(count)


def _roman(count: int) -> str:
    letters = ""
    for worth, letter in _ROMAN:
        letters += letter * (count // worth)
        count %= worth
    return letters
