# SPDX-License-Identifier: Apache-2.0
"""The questions of a collection with their gold passages, for every skill that ranks passages."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedqa.data.passages import Passage, passage_of
from fedqa.data.records import Example, Split
from fedqa.data.splits import normalise
from fedqa.errors import DataError


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question and the positions of its gold passages.

    `relevant` also holds the passages whose text is that of a gold one: they are not wrong answers.
    """

    id: str
    text: str
    split: Split
    gold: tuple[int, ...]
    relevant: frozenset[int]


def judged_questions(examples: Iterable[Example], passages: Sequence[Passage]) -> list[JudgedQuestion]:
    """The questions with evidence, in order. Examples that ask the same are one question with all their gold."""
    finder = _GoldFinder(passages)
    first: dict[tuple[Split, str], Example] = {}
    gold: dict[tuple[Split, str], set[int]] = defaultdict(set)
    for example in examples:
        key = (_split(example), normalise(example.question))
        found = finder.gold(example)
        if found:
            first.setdefault(key, example)
            gold[key] |= found
    return [
        JudgedQuestion(example.id, example.question, key[0], tuple(sorted(gold[key])), finder.alike(gold[key]))
        for key, example in first.items()
    ]


def _split(example: Example) -> Split:
    if example.split is None:
        raise DataError(f"the example {example.id!r} is in no split; give the collection to fedqa.data.splits.split")
    return example.split


class _GoldFinder:
    def __init__(self, passages: Sequence[Passage]) -> None:
        self._position = {passage.id: i for i, passage in enumerate(passages)}
        self._by_document: dict[str, list[Passage]] = defaultdict(list)
        self._by_text: dict[str, set[int]] = defaultdict(set)
        self._text = [normalise(passage.text) for passage in passages]
        for i, passage in enumerate(passages):
            self._by_document[passage.document].append(passage)
            self._by_text[self._text[i]].add(i)

    def gold(self, example: Example) -> set[int]:
        found = (passage_of(span, self._by_document[span.document]) for span in example.evidence)
        return {self._position[passage.id] for passages in found for passage in passages}

    def alike(self, positions: Iterable[int]) -> frozenset[int]:
        return frozenset(i for position in positions for i in self._by_text[self._text[position]])
