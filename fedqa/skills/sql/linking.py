# SPDX-License-Identifier: Apache-2.0
"""Which words of a question name a table or a column, and which are values that stand in a column.

Names need the schema alone, values what a database holds. Words are compared without case and without the ending of a
plural: "Ward managers" means the value 'ward manager'. Numbers are values only where a column holds them as texts: as
numbers they are mostly compared, and would stand in any column.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fedqa.databases.contents import Contents
from fedqa.skills.sql.numbers import number_said
from fedqa.skills.sql.question import LONGEST_SPAN, Question
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.words import Words, related, says_something, stems, stems_of

NAME_PART, NAME, VALUE_PART, VALUE, HOLDING = range(5)  # the last: a table one of whose columns holds the value
LINKS = 5  # kinds of them

_LONGEST_LINK = 6  # words
_LEAST_LETTERS = 4  # of a word that is compared with parts of values


class Link(NamedTuple):
    """The words of a question from `first` to `last`, and an item of the schema."""

    first: int
    last: int
    item: int
    kind: int


class Linker:
    """Finds links to one schema; without contents, only those by name."""

    def __init__(self, schema: SchemaItems, contents: Contents | None = None) -> None:
        self._schema = schema
        self._names: dict[Words, list[int]] = {}
        self._name_words: dict[str, set[int]] = {}
        self._values: dict[Words, dict[int, list[str]]] = {}  # by item, as the database writes them
        self._value_words: dict[str, set[int]] = {}
        self._like: dict[str, tuple[int, ...]] = {}  # what `_named_like` found: few words, asked often
        for i, item in enumerate(schema.items):
            self._add_name(i, item.column or item.table)
        for place, texts in (contents.texts if contents else {}).items():
            item_at = schema.find(*place)
            if item_at is not None:
                self._add_values(item_at, texts)

    def links(self, question: Question) -> list[Link]:
        """All links of a question, in the order of its words."""
        words = stems_of(question.words)
        return sorted({*self._by_name(words), *self._by_value(words)})

    def spelled(self, text: str, item: int) -> str | None:
        """The one value of a column that a text means, as the database writes it; None if there is none, or several."""
        found = self._values.get(stems(text), {}).get(item, [])
        small = [value for value in found if value.lower() == text.lower()]
        same = [value for value in found if value == text] or small or found
        return same[0] if len(same) == 1 else None

    def span(self, question: Question, value: str, item: int) -> int | None:
        """The first span of a question that means a value of a column, and no other."""
        wanted = stems(value)
        for first, last, key in _spans(stems_of(question.words)):
            span = first * LONGEST_SPAN + last - first
            if key == wanted and self.spelled(question.said(span), item) == value:
                return span
        return None

    def number_span(self, question: Question, number: str) -> int | None:
        """The first span of a question that says a number otherwise than in plain digits."""
        for first, last, _ in _spans(stems_of(question.words)):
            span = first * LONGEST_SPAN + last - first
            if number_said(question.said(span)) == number:
                return span
        return None

    def _add_name(self, item: int, name: str) -> None:
        key = stems(name)
        self._names.setdefault(key, []).append(item)
        for word in filter(says_something, key):
            self._name_words.setdefault(word, set()).add(item)

    def _add_values(self, item: int, texts: Iterable[str]) -> None:
        for text in texts:
            key = stems(text)
            self._values.setdefault(key, {}).setdefault(item, []).append(text)
            for word in filter(says_something, key):
                self._value_words.setdefault(word, set()).add(item)

    def _by_name(self, words: Words) -> Iterator[Link]:
        for first, last, key in _spans(words):
            yield from (Link(first, last, item, NAME) for item in self._names.get(key, ()))
        for at, word in enumerate(words):
            yield from (Link(at, at, item, NAME_PART) for item in self._named_like(word))

    def _named_like(self, word: str) -> tuple[int, ...]:
        """The items in whose names, of which it is not the whole, there is a word like this."""
        if word not in self._like:
            found = {item for name, items in self._name_words.items() if related(word, name) for item in items}
            self._like[word] = tuple(sorted(found.difference(self._names.get((word,), ()))))
        return self._like[word]

    def _by_value(self, words: Words) -> Iterator[Link]:
        whole = [(first, last, key) for first, last, key in _spans(words) if key in self._values and _counts(key)]
        longest = [one for one in whole if not any(_inside(one, other) for other in whole)]
        linked = {
            (at, item) for first, last, key in longest for at in range(first, last + 1) for item in self._values[key]
        }
        for first, last, key in longest:
            yield from self._held(first, last, VALUE, self._values[key])
        for at, word in enumerate(words):
            items = self._value_words.get(word, ()) if len(word) >= _LEAST_LETTERS else ()
            yield from self._held(at, at, VALUE_PART, (item for item in items if (at, item) not in linked))

    def _held(self, first: int, last: int, kind: int, items: Iterable[int]) -> Iterator[Link]:
        """Links to columns and, where the value is a whole one, to their tables."""
        for item in items:
            yield Link(first, last, item, kind)
            if kind == VALUE:
                yield Link(first, last, self._schema.table_of(item), HOLDING)


def _spans(words: Words) -> Iterator[tuple[int, int, Words]]:
    """First, last and stems of all runs of words that begin and end with one that is no mark."""
    for first, word in enumerate(words):
        for last in range(first, min(first + _LONGEST_LINK, len(words)) if word else first):
            if words[last]:
                yield first, last, tuple(filter(None, words[first : last + 1]))


def _counts(key: Words) -> bool:
    """Whether it is more than chance that words are a value: `in` and single letters stand in questions of any kind."""
    return any(map(says_something, key))


def _inside(one: tuple[int, int, Words], other: tuple[int, int, Words]) -> bool:
    return other[0] <= one[0] and one[1] <= other[1] and one[:2] != other[:2]
