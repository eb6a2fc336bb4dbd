# SPDX-License-Identifier: Apache-2.0
"""Which questions are drawn, and which are for training, for choosing and for testing.

Draws are by a keyed hash of the question, so they depend on the seed alone and not on the order of files. A question
is never in two splits, however often it is asked.
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from fedqa.data.records import SPLITS, Collection, Document, Example, Split
from fedqa.errors import ConfigError, DataError

_MEANINGFUL = "#%&*@"  # punctuation that is part of a word, as in C#
_FILLED_FIRST: tuple[Split, ...] = ("train", "test", "dev")  # when questions are few
CHECK = "check/"  # before the id of an example, names its check
_OTHERS = 10  # documents kept for each question drawn, besides those it needs


def normalise(question: str) -> str:
    """What makes two questions the same: case, white space and punctuation at the end do not count."""
    folded = " ".join(question.casefold().split())
    end = len(folded)
    while end and _closes(folded[end - 1]):
        end -= 1
    return folded[:end] or folded


def rank(seed: int, text: str) -> bytes:
    """A place in a random order that depends on nothing but seed and text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=str(seed).encode(), digest_size=16).digest()


def by_question(examples: Iterable[Example]) -> dict[str, list[Example]]:
    """Examples that ask the same, together."""
    groups: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        groups[normalise(example.question)].append(example)
    return groups


def limited(collection: Collection, n: int, seed: int) -> Collection:
    """Draw n questions, with all examples that ask them.

    Of the documents, those the examples rest on are kept, and of the others up to ten for each question.
    """
    if n < 1:
        raise ConfigError(f"a limit must be at least 1 question, got {n}")
    drawn = set(sorted(by_question(collection.examples), key=lambda question: rank(seed, question))[:n])
    examples = tuple(example for example in collection.examples if normalise(example.question) in drawn)
    needed = {id for example in examples for id in example.documents}
    others = (document.id for document in collection.documents if document.id not in needed)
    kept = needed.union(sorted(others, key=lambda id: rank(seed, id))[: _OTHERS * n])
    return replace(collection, documents=_only(collection.documents, kept), examples=examples)


def split(collection: Collection, seed: int, shares: tuple[float, float, float] = (0.7, 0.1, 0.2)) -> Collection:
    """Give every example a split, by question; `shares` are those of train, dev and test.

    A source that has all three splits keeps them. Otherwise all are assigned anew, answerable and unanswerable
    questions each in these shares; what is to be checked after each round is there to be learnt, so it is trained on.
    """
    _check_shares(shares)
    if {example.split for example in collection.examples}.issuperset(SPLITS):
        return replace(collection, examples=_completed(collection.examples))
    groups = by_question(collection.examples)
    splits: dict[str, Split] = {question: "train" for question, group in groups.items() if _checked(group)}
    for answerable in (True, False):
        questions = [
            question
            for question, group in groups.items()
            if _answerable(group) is answerable and question not in splits
        ]
        splits |= _assigned(questions, seed, shares)
    examples = (replace(example, split=splits[normalise(example.question)]) for example in collection.examples)
    return replace(collection, examples=tuple(examples))


def check_disjoint(collection: Collection) -> None:
    """Raise DataError if a question is in two splits."""
    shared = shared_questions(collection.examples)
    if shared:
        first = shared[0][0].id
        raise DataError(
            f"questions in more than one split: {len(shared)}, among them that of example {first!r}; "
            "remove their splits or one of the copies, so that no test question was trained on"
        )


def with_checks(collection: Collection) -> Collection:
    """The same, and a copy of every example that is to be checked after each round, in a split of its own."""
    checks = (replace(e, id=CHECK + e.id, split="check", check=False) for e in collection.examples if e.check)
    return replace(collection, examples=(*collection.examples, *checks))


def replayed(collection: Collection, known: Container[str], share: int, seed: int) -> Collection:
    """Of the training examples, those that are new and, of those `known` from before, `share` for each new one.

    Training on new examples alone forgets the old; training on all of them again takes longer each time. What is to be
    checked has up to half of the places, since it must not be forgotten. With a share of 0, or nothing new, or nothing
    known, all are kept.
    """
    train = list(collection.of_split("train"))
    new = {example.id for example in train if example.id not in known}
    if not share or not new or len(new) == len(train):
        return collection
    places = share * len(new)
    old = sorted((example for example in train if example.id not in new), key=lambda example: rank(seed, example.id))
    first = [example.id for example in old if example.check][: places // 2]
    rest = [example.id for example in old if example.id not in first]
    kept = new.union([*first, *rest][:places])
    examples = tuple(e for e in collection.examples if e.split != "train" or e.id in kept)
    return replace(collection, examples=examples)


def shared_questions(examples: Iterable[Example]) -> list[list[Example]]:
    """The questions that are in more than one split, each with all its examples."""
    groups = by_question(example for example in examples if example.split)
    return [group for group in groups.values() if len({example.split for example in group}) > 1]


def _closes(character: str) -> bool:
    punctuation = unicodedata.category(character).startswith("P") and character not in _MEANINGFUL
    return punctuation or character == " "


def _answerable(group: Sequence[Example]) -> bool:
    return any(example.answerable for example in group)


def _checked(group: Sequence[Example]) -> bool:
    return any(example.check for example in group)


def _completed(examples: Sequence[Example]) -> tuple[Example, ...]:
    """Examples without a split go where their question is already, else to train: what is to be tested is chosen."""
    known = {normalise(example.question): example.split for example in examples if example.split}
    return tuple(
        example if example.split else replace(example, split=known.get(normalise(example.question), "train"))
        for example in examples
    )


def _assigned(questions: Sequence[str], seed: int, shares: Sequence[float]) -> dict[str, Split]:
    counts = split_counts(len(questions), shares)
    order = sorted(questions, key=lambda question: rank(seed, question))
    splits = [split for split in SPLITS for _ in range(counts[split])]
    return dict(zip(order, splits, strict=True))


def split_counts(n: int, shares: Sequence[float]) -> dict[Split, int]:
    """How many of n questions go where: by largest remainder, and none empty while there are questions enough."""
    exact = {split: n * share for split, share in zip(SPLITS, shares, strict=True)}
    counts = {split: int(exact[split]) for split in SPLITS}
    by_remainder = sorted(_FILLED_FIRST, key=lambda split: counts[split] - exact[split])
    for split in by_remainder[: n - sum(counts.values())]:
        counts[split] += 1
    for split in _FILLED_FIRST[:n]:
        if counts[split] == 0 and exact[split] > 0:
            counts[max(_FILLED_FIRST, key=lambda other: counts[other])] -= 1
            counts[split] = 1
    return counts


def _check_shares(shares: Sequence[float]) -> None:
    if len(shares) != len(SPLITS) or any(not share >= 0 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        raise ConfigError(f"the shares of train, dev and test must be three numbers that sum to 1, got {shares!r}")


def _only(documents: Sequence[Document], ids: set[str]) -> tuple[Document, ...]:
    return tuple(document for document in documents if document.id in ids)
