# SPDX-License-Identifier: Apache-2.0
"""A query cut into the few kinds of tokens on which SQLite, PostgreSQL and our parser agree.

Two parsers may read one text in two ways, and a guard that reads it otherwise than the database guards nothing. So
there are no comments, no strings with prefixes, dollars or escapes, and no keywords beyond ASCII; what is run later is
put together from these tokens alone. On tokens it can also be decided, without knowing any grammar, which functions a
query calls.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from fedqa.databases.functions import FUNCTIONS, words
from fedqa.databases.records import QueryRefused

Dialect = Literal["sqlite", "postgres"]

MAX_CHARACTERS = 20_000
MAX_TOKENS = 3_000
MAX_DEPTH = 30  # parentheses inside parentheses
MAX_CONCATENATIONS = 8  # each may double a text

_TOKEN = re.compile(
    r"""
      (?P<space> [ \t\r\n]+ )
    | (?P<comment> -- | /\* )
    | (?P<string> '(?: [^'] | '' )*+' )
    | (?P<name> "(?: [^"] | "" )++" )
    | (?P<number> (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE] [+-]? [0-9]{1,3} )? (?! [\w.] ) )
    | (?P<word> [^\W\d]\w* )
    | (?P<sign> <> | != | == | <= | >= | \|\| | :: | [-+*/%=<>(),.;] )
    """,
    re.VERBOSE,
)
_UNUSABLE = re.compile(r"[\x00\ud800-\udfff]")

# What may stand before a parenthesis without being a function: keywords, and types where one is expected.
_KEYWORDS = words(
    "all and any as between by distinct else except exists filter from group having ilike in intersect is join like",
    "limit materialized not offset on or over select some then union using when where",
)
_BEFORE_TYPES = words("as :: character")
_TYPES = words("char character decimal numeric varchar varying")
# What PostgreSQL takes for a function although no parenthesis follows.
_SESSION = words("current_catalog current_role current_schema current_user session_user system_user user")


class Token(NamedTuple):
    kind: str
    text: str


_NOTHING = Token("", "")


def tokens_of(sql: str, dialect: Dialect) -> list[Token]:
    """The tokens of what looks like one SELECT and calls listed functions only. Raises QueryRefused for all else."""
    if len(sql) > MAX_CHARACTERS:
        raise QueryRefused("it is too long", f"write at most {MAX_CHARACTERS:,} characters")
    if _UNUSABLE.search(sql):
        raise QueryRefused("it holds a NUL or half of a surrogate pair", "write it as plain text")
    tokens = list(_cut(sql, dialect))
    if tokens and tokens[-1].text == ";":
        tokens.pop()
    _check_form([token.text for token in tokens])
    for before, token, after in zip([_NOTHING, *tokens], tokens, [*tokens[1:], _NOTHING], strict=False):
        _check_call(before, token, after, dialect)
    return tokens


def joined(tokens: Sequence[Token]) -> str:
    """One statement again, with spaces as people set them: columns without a name are called by its text."""
    pairs = zip([_NOTHING, *tokens], tokens, strict=False)
    return "".join(token.text if _is_close(before, token) else f" {token.text}" for before, token in pairs).lstrip()


def _is_close(before: Token, token: Token) -> bool:
    """Whether no space is needed between two tokens, and none is usual. They must not become another token."""
    if token.text == "(":
        return before.kind == "word" and before.text.lower() in FUNCTIONS["sqlite"] | FUNCTIONS["postgres"] | _TYPES
    in_name = "." in (before.text, token.text) and {before.kind, token.kind} <= {"word", "name", "sign"}
    return before.text == "(" or token.text in (")", ",") or in_name


def _cut(sql: str, dialect: Dialect) -> Iterator[Token]:
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if not found or not found.lastgroup:
            reason = f"at character {at + 1} stands what no plain query needs"
            raise QueryRefused(reason, "use words, numbers, 'texts', \"names\" and the usual signs only")
        if found.lastgroup == "comment":
            raise QueryRefused(f"a comment begins at character {at + 1}", "write it without comments")
        if found.lastgroup != "space":
            yield _plain(found.lastgroup, found[0], dialect)
        at = found.end()


def _plain(kind: str, text: str, dialect: Dialect) -> Token:
    """A word beyond ASCII as a quoted name: parsers differ in what its lower case is, and so in what is a keyword."""
    if kind != "word" or text.isascii():
        return Token(kind, text)
    name = re.sub("[A-Z]", lambda letter: letter[0].lower(), text) if dialect == "postgres" else text
    return Token("name", f'"{name}"')


def _check_form(texts: list[str]) -> None:
    first = next((text.lower() for text in texts if text != "("), "")
    if first not in ("select", "with"):
        raise QueryRefused("it does not begin with SELECT or WITH", "ask for data with one SELECT")
    if ";" in texts:
        raise QueryRefused("there is a second statement behind a semicolon", "write one statement")
    if len(texts) > MAX_TOKENS or _depth(texts) > MAX_DEPTH:
        limits = f"at most {MAX_TOKENS:,} words and signs, and {MAX_DEPTH} parentheses inside each other"
        raise QueryRefused("it is too long or too deeply nested", f"write {limits}")
    if texts.count("||") > MAX_CONCATENATIONS:
        raise QueryRefused("it puts too many texts together", f"use || at most {MAX_CONCATENATIONS} times")


def _depth(texts: list[str]) -> int:
    deepest = depth = 0
    for text in texts:
        depth += (text == "(") - (text == ")")
        deepest = max(deepest, depth)
    return deepest


def _check_call(before: Token, token: Token, after: Token, dialect: Dialect) -> None:
    """A name before a parenthesis must be a keyword, a type or a listed function, and no word a session's secret."""
    bare = token.kind == "word" and before.text != "."
    name = token.text.lower()
    if token.kind in ("word", "name") and after.text == "(":
        is_type = name in _TYPES and before.text.lower() in _BEFORE_TYPES
        if not bare or not (is_type or name in FUNCTIONS[dialect] | _KEYWORDS):
            listed = ", ".join(sorted(FUNCTIONS[dialect]))
            raise QueryRefused("it calls a function that is not listed", f"use only {listed}")
    elif dialect == "postgres" and bare and name in _SESSION:
        raise QueryRefused("it asks who is connected, and to what", "ask for what the tables hold")
