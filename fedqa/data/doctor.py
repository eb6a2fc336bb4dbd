# SPDX-License-Identifier: Apache-2.0
"""What a silo should know about its data before it joins: duplicates, leaks between splits, what was left out."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from fedqa.data.passages import passages
from fedqa.data.records import SPLITS, Collection, Example
from fedqa.data.splits import by_question, shared_questions

NEAR = 0.8  # overlap of words and word pairs (Jaccard) from which two questions are near-duplicates
MAX_COMPARISONS = 500_000
LONG_PASSAGE = 350  # words; about what a model of 512 tokens reads at once
FEW_QUESTIONS = 50

_VALUE = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_NUMBER = re.compile(r"\d(?:[\d,]*\d)?")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")  # a Han or Kana sign is a word

Groups = tuple[tuple[str, ...], ...]  # ids that belong together


@dataclass(frozen=True)
class Lengths:
    """Words: median, 90th and 99th percentile (nearest rank) and the longest."""

    median: int
    p90: int
    p99: int
    longest: int


@dataclass(frozen=True)
class Advice:
    """Something that costs quality or makes scores too good, and what to do about it."""

    warning: str
    remedy: str


@dataclass(frozen=True)
class Findings:
    """The examination of one collection. Examples and documents are named by id, never by text."""

    documents: int
    examples: int
    splits: Mapping[str, int]  # examples of train, dev, test and, as "none", of no split
    quarantine: Mapping[str, int]  # records left out, by reason with the values blanked out; most frequent first
    duplicate_questions: Groups  # examples that ask the same
    duplicate_documents: Groups  # documents of the same text
    shared_questions: Groups  # examples that ask the same in different splits
    near_duplicates: Groups  # pairs of examples in different splits that ask nearly the same
    near_duplicates_complete: bool  # False if the search ended at MAX_COMPARISONS
    revealing: tuple[str, ...]  # examples whose question contains the answer
    words: Mapping[str, Lengths]  # of the question, answer and passage
    long_passages: int  # over LONG_PASSAGE words
    share_unanswerable: float

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What to mend, the gravest first; empty if all is well."""
        return tuple(Advice(warning, remedy) for warning, remedy in _advice(self))


def examine(collection: Collection) -> Findings:
    """Look through a collection; nothing is changed."""
    examples = collection.examples
    near, complete = _near_duplicates(examples)
    lengths = _word_counts(collection)
    return Findings(
        documents=len(collection.documents),
        examples=len(examples),
        splits={name: sum((e.split or "none") == name for e in examples) for name in (*SPLITS, "none")},
        quarantine=dict(Counter(_kind(record.reason) for record in collection.quarantine).most_common()),
        duplicate_questions=_repeated((e.id for e in group) for group in by_question(examples).values()),
        duplicate_documents=_same_text(collection),
        shared_questions=_repeated((e.id for e in group) for group in shared_questions(examples)),
        near_duplicates=near,
        near_duplicates_complete=complete,
        revealing=tuple(example.id for example in examples if _reveals(example)),
        words={name: _lengths(counts) for name, counts in lengths.items() if counts},
        long_passages=sum(count > LONG_PASSAGE for count in lengths["passage"]),
        share_unanswerable=sum(not (e.answerable or e.answers) for e in examples) / max(1, len(examples)),
    )


def _advice(found: Findings) -> Iterator[tuple[str, str]]:
    yield from _advice_on_amount(found)
    yield from _advice_on_leaks(found)
    yield from _advice_on_texts(found)


def _advice_on_amount(found: Findings) -> Iterator[tuple[str, str]]:
    if not found.examples:
        yield "There is no question.", "Add questions with answers: documents alone can be searched, not learned from."
    elif found.examples < FEW_QUESTIONS:
        remedy = f"Add questions until there are {FEW_QUESTIONS} or more; scores on so few say little."
        yield f"There {_many(found.examples, 'is only one question', 'are only {} questions')}.", remedy
    empty = [split for split in SPLITS if not found.splits[split]]
    if empty and found.splits["none"] < found.examples:
        yield f"No question is in {' or '.join(empty)}.", "Add some, or leave the splits out to have them assigned."
    left_out = sum(found.quarantine.values())
    if left_out:
        often = next(iter(found.quarantine))
        warning = _many(left_out, "One record was left out", "{} records were left out")
        yield f"{warning}, most often: {often}.", "The quarantine names the place of each and what mends it."
    if found.share_unanswerable > 0.5:
        remedy = "Check how answers are written, or add answerable questions: the model would learn to say nothing."
        yield f"{found.share_unanswerable:.0%} of the questions have no answer.", remedy


def _advice_on_leaks(found: Findings) -> Iterator[tuple[str, str]]:
    if found.shared_questions:
        warning = _many(len(found.shared_questions), "One question stands", "{} questions stand")
        remedy = "Remove the copies, or the splits to have them assigned anew."
        yield f"{warning} in more than one split{_such_as(found.shared_questions)}.", remedy
    if found.near_duplicates:
        warning = _many(len(found.near_duplicates), "One pair of questions is", "{} pairs of questions are")
        more = "" if found.near_duplicates_complete else "; there may be more, not all were compared"
        remedy = "Move both into one split where the one gives the other away."
        yield f"{warning} nearly alike but in different splits{_such_as(found.near_duplicates)}{more}.", remedy
    if found.revealing:
        warning = _many(len(found.revealing), "One question contains its answer", "{} questions contain their answer")
        yield f"{warning}{_such_as((found.revealing,))}.", "Ask without the words of the answer."


def _advice_on_texts(found: Findings) -> Iterator[tuple[str, str]]:
    if found.duplicate_questions:
        warning = _many(len(found.duplicate_questions), "One question is", "{} questions are")
        remedy = "Remove copies that were not meant; those that stay are kept in one split."
        yield f"{warning} asked more than once{_such_as(found.duplicate_questions)}.", remedy
    if found.duplicate_documents:
        warning = _many(len(found.duplicate_documents), "One document exists", "{} documents exist")
        remedy = "Keep one of each: a search cannot tell which is meant."
        yield f"{warning} more than once{_such_as(found.duplicate_documents)}.", remedy
    if found.long_passages:
        warning = _many(found.long_passages, "One passage has", "{} passages have")
        remedy = "Put blank lines between their paragraphs: models read about so much at once."
        yield f"{warning} more than {LONG_PASSAGE} words.", remedy


def _many(count: int, one: str, many: str) -> str:
    return one if count == 1 else many.format(f"{count:,}")


def _such_as(groups: Groups) -> str:
    return f" (such as {', '.join(groups[0][:2])})"


def _kind(reason: str) -> str:
    """A reason without its values, so that reasons can be counted and told to others."""
    return _NUMBER.sub("N", _VALUE.sub("…", reason))


def _repeated(groups: Iterable[Iterable[str]]) -> Groups:
    return tuple(ids for ids in map(tuple, groups) if len(ids) > 1)


def _same_text(collection: Collection) -> Groups:
    groups: dict[str, list[str]] = defaultdict(list)
    for document in collection.documents:
        groups[document.text].append(document.id)
    return _repeated(groups.values())


def _word_counts(collection: Collection) -> dict[str, list[int]]:
    texts = {
        "question": [example.question for example in collection.examples],
        "answer": [answer for example in collection.examples for answer in example.answers],
        "passage": [passage.text for document in collection.documents for passage in passages(document)],
    }
    return {name: [len(_WORD.findall(text)) for text in some] for name, some in texts.items()}


def _lengths(counts: Sequence[int]) -> Lengths:
    ordered = sorted(counts)
    median, p90, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.9, 0.99))
    return Lengths(median, p90, p99, ordered[-1])


def _reveals(example: Example) -> bool:
    question = f" {' '.join(_words(example.question))} "
    answers = (" ".join(_words(answer)) for answer in example.answers)
    # Shorter answers, such as yes, no or a digit, stand in questions by chance.
    return any(len(answer) > 3 and f" {answer} " in question for answer in answers)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _near_duplicates(examples: Sequence[Example]) -> tuple[Groups, bool]:
    """Pairs of nearly the same question in different splits, and whether the search went to its end."""
    groups = list(by_question(example for example in examples if example.split).values())
    shingles = [_shingles(group[0].question) for group in groups]
    candidates = _candidates(shingles)
    near = [(i, j) for i, j in islice(candidates, MAX_COMPARISONS) if _overlap(shingles[i], shingles[j]) >= NEAR]
    pairs = (_in_different_splits(groups[i], groups[j]) for i, j in near)
    return tuple(pair for pair in pairs if pair), next(candidates, None) is None


def _candidates(shingles: Sequence[frozenset[str]]) -> Iterator[tuple[int, int]]:
    """Pairs that may overlap by NEAR: they share one of their rarest shingles, so only those are looked up."""
    frequency = Counter(shingle for some in shingles for shingle in some)
    seen: dict[str, list[int]] = defaultdict(list)
    for j, some in enumerate(shingles):
        ordered = sorted(some, key=lambda shingle: (frequency[shingle], shingle))
        rarest = ordered[: len(some) - math.ceil(NEAR * len(some)) + 1]
        for i in sorted({i for shingle in rarest for i in seen[shingle]}):
            yield i, j
        for shingle in rarest:
            seen[shingle].append(j)


def _shingles(question: str) -> frozenset[str]:
    words = _words(question)
    return frozenset(words).union(f"{first} {second}" for first, second in pairwise(words))


def _overlap(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a else 0.0


def _in_different_splits(a: Sequence[Example], b: Sequence[Example]) -> tuple[str, ...]:
    """The first two examples in different splits; empty if there are none."""
    return next(((x.id, y.id) for x in a for y in b if x.split != y.split), ())
