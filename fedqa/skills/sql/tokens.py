# SPDX-License-Identifier: Apache-2.0
"""SQL cut into tokens, and tokens written as SQL again."""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Kind = Literal["name", "number", "text", "mark"]

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<number>\d+(?:\.\d+)?(?![\w.]))
    |(?P<name>`[^`]*`|\w+)
    |(?P<mark><>|<=|>=|!=|==|\|\||[^\s])""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """`text` is a name as written, a number, the content of a string, or a mark such as `<=`."""

    kind: Kind
    text: str


def tokens(sql: str) -> list[Token]:
    """The tokens of a statement, without the semicolon at its end."""
    found = list(_tokens(sql))
    while found and found[-1] == Token("mark", ";"):
        found.pop()
    return found


def _tokens(sql: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(sql):
        kind, text = match.lastgroup, match[0]
        if kind == "text":
            yield Token("text", text[1:-1].replace(text[0] * 2, text[0]))
        elif kind == "name":
            yield Token("name", text.strip("`"))
        elif kind == "number":
            yield Token("number", text)
        elif kind == "mark":
            yield Token("mark", text)


def is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None


def quoted(text: str) -> str:
    """A string of SQL. Double quotes only around an apostrophe: doubling it would change the text for a comparison."""
    if "'" in text and '"' not in text:
        return f'"{text}"'
    return "'" + text.replace("'", "''") + "'"


def joined(words: Iterable[str]) -> str:
    """Words of SQL with the spaces that belong between them; one that ends in `(` is glued to the next."""
    written = ""
    for word in filter(None, words):
        tight = not written or written[-1] in "(." or word[0] in ").,"
        written += word if tight else f" {word}"
    return written
