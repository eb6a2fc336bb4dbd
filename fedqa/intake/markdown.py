# SPDX-License-Identifier: Apache-2.0
"""Markdown: read by its own rules and then as the page it describes, so that HTML in it is neither kept nor shown."""

import re

from markdown_it import MarkdownIt

from fedqa.data.door import fold
from fedqa.intake.blocks import compose
from fedqa.intake.characters import clean
from fedqa.intake.encodings import decode
from fedqa.intake.html import page
from fedqa.intake.records import Extracted, Limits

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.{0,20000}?)\n(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_TITLE = re.compile(r"^title:[ \t]*[\"']?(.+?)[\"']?[ \t]*$", re.MULTILINE)
# HTML is recognised only in order to leave it out: nothing is displayed, and what `page` returns is text.
_MARKDOWN = MarkdownIt("commonmark", {"html": True, "maxNesting": 100}).enable(["table", "strikethrough"])
_MARKDOWN.validateLink = lambda url: True  # type: ignore[method-assign]  # of a link only its words are kept


def read(content: bytes, limits: Limits) -> Extracted:
    """The text of Markdown, with tables."""
    text, notes = decode(content)
    text = clean(text)
    title = ""
    front = _FRONT_MATTER.match(text)
    if front:
        named = _TITLE.search(front[1])
        title = fold(named[1]) if named else ""
        text = text[front.end() :]
    found, blocks, more = page(_MARKDOWN.render(text))
    return Extracted(title or found, compose(blocks), "markdown", (*notes, *more))
