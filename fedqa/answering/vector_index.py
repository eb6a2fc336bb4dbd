# SPDX-License-Identifier: Apache-2.0
"""A silo's sentences or passages, kept on its disk to be found by a question's vector, by its words, or by both.

Documents are added and removed one by one at a cost that does not grow with the index, and each change is on the disk
when the call returns. Search is exact. For large indexes `tend` makes what searching profits from, an approximate
structure for vectors and an index of keywords; both cover what was there when they were made, and what
came later is searched beside them, so that results are complete at every moment. Nothing leaves the silo.

    with VectorIndex.open(folder, width=384, encoder=fingerprint) as index:
        if not index.holds("leave-policy", entries):
            index.add("leave-policy", entries, vectors)
        hits = index.search(question_vectors, k=10, questions=questions, hybrid=True)

The first change makes this process the index's only writer until `close`; other processes go on reading. The vectors of
a removed document stay in a file, and its words in the keyword index, until these are next copied or made anew.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from fedqa.answering import dense_search
from fedqa.answering.dense_search import Approximate, Ranked
from fedqa.answering.entry_store import Derived, Entry, EntryStore, Moment, Numbers, Vectors, digest, made_for
from fedqa.answering.entry_writer import SEGMENT_ROWS, EntryWriter, IndexedDocument
from fedqa.answering.keyword_store import KeywordStore, words, write_bulk
from fedqa.errors import ConfigError, DataError

__all__ = ["Candidate", "Entry", "Facts", "Hit", "IndexedDocument", "VectorIndex"]

APPROXIMATE_ABOVE = 200_000  # entries; below, exact search takes at most some 30 ms
KEYWORDS_ABOVE = 2_000  # entries; below, lists of words are made in a moment
FUSION = 60  # an entry's part in a hybrid score is 1 / (FUSION + rank)
HYBRID_DEPTH = 100  # ranks of each kind that are fused, at least
_GROWTH = {"approximate": 0.5, "keywords": 0.25}  # share of new entries above which it is made anew
_REMOVED = 1 / 3  # the same for removed ones


@dataclass(frozen=True)
class Hit:
    """An entry that was found: characters `start` to `end` of its document."""

    entry: str
    document: str
    start: int
    end: int
    score: float  # the dot product; for words BM25; for both the sum of 1 / (60 + rank)


@dataclass(frozen=True)
class Candidate:
    """An entry that vectors or words found, with the scores of both."""

    entry: str
    document: str
    start: int
    end: int
    dot: float
    words: float  # BM25; 0 where no word is shared


@dataclass(frozen=True)
class Facts:
    """What the index consists of."""

    width: int
    encoder: str
    documents: int
    entries: int
    dead: int  # rows of removed entries in the vector files
    segments: int
    approximate: int  # entries in the approximate structure; 0: there is none
    recall: float | None  # of the approximate search at 10, measured when it was made
    lists: int | None  # of the approximate structure that are looked through for a question
    keywords: int  # entries in the keyword index; 0: there is none
    due: tuple[str, ...]  # what `tend` would make


class VectorIndex:
    """See the module's text. One object may be used by several threads, which take turns."""

    def __init__(self, store: EntryStore, encoder: str, *, approximate_above: int, segment_rows: int) -> None:
        self._store, self._encoder = store, encoder
        self._above = {"approximate": approximate_above, "keywords": KEYWORDS_ABOVE}
        self._segment_rows = segment_rows
        self._writer: EntryWriter | None = None
        self._tending = threading.Lock()
        self._keywords = KeywordStore()
        self._approximate: tuple[Path, Approximate] | None = None

    @classmethod
    def open(
        cls,
        folder: Path,
        width: int,
        encoder: str,
        *,
        approximate_above: int = APPROXIMATE_ABOVE,
        segment_rows: int = SEGMENT_ROWS,
    ) -> "VectorIndex":
        """The index in a folder, made if there is none; `encoder` is a fingerprint of what makes the vectors."""
        if width < 1:
            raise ConfigError(f"the width of an index must be at least 1, got {width}")
        store = EntryStore(folder, width, encoder)
        return cls(store, encoder, approximate_above=approximate_above, segment_rows=segment_rows)

    @classmethod
    def existing(cls, folder: Path) -> "VectorIndex":
        """The index in a folder, for whatever encoder it was made; raises DataError if there is none."""
        return cls.open(folder, *made_for(folder))

    def close(self) -> None:
        """Let others write; there is nothing to save."""
        self._store.close()
        if self._writer:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> "VectorIndex":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- changing --------------------------------------------------------------------------------------------------

    def documents(self) -> set[str]:
        """The ids of all documents that are here."""
        return self._store.documents()

    def holds(self, document: str, entries: Sequence[Entry]) -> bool:
        """Is the document here with exactly these entries? Then they need not be encoded again."""
        known = self._store.digests(document)
        return known is not None and known[0] == digest(entries)

    def add(self, document: str, entries: Sequence[Entry], vectors: Vectors) -> bool:
        """Add a document or replace the one of that id; False if it was here in this very form."""
        return self.add_all([IndexedDocument(document, entries, vectors)]) == 1

    def add_all(self, documents: Iterable[IndexedDocument]) -> int:
        """Add many documents at once, all or none, much faster than one by one; how many were new or changed."""
        checked = [self._checked_document(document) for document in documents]
        ids = [document.id for document in checked]
        if len(set(ids)) < len(ids):
            double = next(id_ for i, id_ in enumerate(ids) if id_ in ids[:i])
            raise DataError(f"document {double!r} comes twice in one call; give each id once")
        return self._writing().add(checked)

    def remove(self, document: str) -> bool:
        """Remove a document; False if there is none of that id."""
        return self._writing().remove(document)

    def _writing(self) -> EntryWriter:
        with self._store.turn:
            if self._writer is None:
                self._writer = EntryWriter(self._store, self._segment_rows)
            return self._writer

    def _checked_document(self, document: IndexedDocument) -> IndexedDocument:
        place = f"document {document.id!r}"
        vectors = self._checked(document.vectors, place)
        if len(vectors) != len(document.entries):
            raise DataError(
                f"{place} has {len(document.entries)} entries and {len(vectors)} vectors; give one vector an entry"
            )
        return IndexedDocument(document.id, document.entries, vectors)

    def _checked(self, vectors: Vectors, place: str) -> Vectors:
        checked = np.ascontiguousarray(vectors, dtype=np.float32)
        if checked.ndim != 2 or checked.shape[1] != self._store.width:
            raise DataError(
                f"{place}: vectors must have the shape [n, {self._store.width}] of this index, got "
                f"{list(checked.shape)}; encode with the model that the index was opened for"
            )
        if not np.isfinite(checked).all():
            raise DataError(f"{place}: a vector holds NaN or infinity; look for the text that the model fails on")
        return checked

    # -- searching -------------------------------------------------------------------------------------------------

    def search(
        self, vectors: Vectors, k: int, *, questions: Sequence[str] | None = None, hybrid: bool = False
    ) -> list[list[Hit]]:
        """The best `k` entries for each question vector; `hybrid` also ranks by the words of `questions`."""
        vectors = self._checked(vectors, "questions")
        _check_k(k)
        if hybrid and (questions is None or len(questions) != len(vectors)):
            got = "none" if questions is None else str(len(questions))
            raise ConfigError(f"hybrid search needs the text of each of the {len(vectors)} questions, got {got}")
        texts = questions if hybrid else None
        return self._store.read(lambda moment: self._search(moment, vectors, texts, k))

    def search_words(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        """The best `k` of the entries that share words with each question."""
        _check_k(k)
        return self._store.read(lambda moment: self._hits(self._by_words(moment, questions, k)))

    def rarities(self, question: str) -> dict[str, float]:
        """For each word of a question, how much it says that an entry has it."""

        def rarities(moment: Moment) -> dict[str, float]:
            self._refresh_keywords(moment)
            return {word: self._keywords.rarity(word) for word in words(question)}

        return self._store.read(rarities)

    def candidates(self, vector: Vectors, question: str, k: int) -> list[Candidate]:
        """The best `k` entries by one question's vector, [1, width], and the best `k` by its words, in any order."""
        vector = self._checked(vector, "question")
        _check_k(k)
        return self._store.read(lambda moment: self._candidates(moment, vector, question, k))

    def _candidates(self, moment: Moment, vector: Vectors, question: str, k: int) -> list[Candidate]:
        (near,), (worded,) = self._by_vectors(moment, vector, k), self._by_words(moment, [question], k)
        numbers, vectors = moment.vectors_of(np.union1d(near.numbers, worded.numbers))
        dots, words_ = (vectors @ vector[0]).tolist(), self._keywords.scores_of(question, numbers).tolist()
        places = self._store.places(numbers.tolist())
        found = zip((places[n] for n in numbers.tolist()), dots, words_, strict=True)
        return [Candidate(at.entry, at.document, at.start, at.end, dot, word) for at, dot, word in found]

    def _search(self, moment: Moment, vectors: Vectors, questions: Sequence[str] | None, k: int) -> list[list[Hit]]:
        if questions is None:
            return self._hits(self._by_vectors(moment, vectors, k))
        depth = max(k, HYBRID_DEPTH)
        both = zip(self._by_vectors(moment, vectors, depth), self._by_words(moment, questions, depth), strict=True)
        return self._hits([fused(pair, k) for pair in both])

    def _by_vectors(self, moment: Moment, vectors: Vectors, k: int) -> list[Ranked]:
        derived = self._store.derived("approximate")
        if derived is None:
            return dense_search.exact(moment, vectors, k)
        if self._approximate is None or self._approximate[0] != derived.path:
            self._approximate = derived.path, Approximate.read(derived)
        return self._approximate[1].top(moment, vectors, k)

    def _by_words(self, moment: Moment, questions: Sequence[str], k: int) -> list[Ranked]:
        self._refresh_keywords(moment)
        return [self._keywords.top(question, k) for question in questions]

    def _refresh_keywords(self, moment: Moment) -> None:
        self._keywords.refresh(moment, self._store.derived("keywords"), self._store.texts)

    def _hits(self, rankings: Sequence[Ranked]) -> list[list[Hit]]:
        places = self._store.places({number for ranked in rankings for number in ranked.numbers.tolist()})
        hits = []
        for ranked in rankings:
            found = [
                (places[n], score) for n, score in zip(ranked.numbers.tolist(), ranked.scores.tolist(), strict=True)
            ]
            hits.append([Hit(at.entry, at.document, at.start, at.end, score) for at, score in found])
        return hits

    # -- tending ---------------------------------------------------------------------------------------------------

    def tend(self, questions: Vectors | None = None) -> tuple[str, ...]:
        """Make what is due of "approximate" and "keywords", which may take minutes; searching goes on meanwhile.

        `questions` are vectors of real questions to measure the approximate search's recall on. Entries stand in for
        them if there are none, which flatters it where questions lie apart from the texts.
        """
        questions = None if questions is None else self._checked(questions, "questions")
        with self._tending:
            writer, due = self._writing(), self.facts().due
            if "approximate" in due:
                self._make_approximate(writer, questions)
            if "keywords" in due:
                self._make_keywords(writer)
            return due

    def _make_approximate(self, writer: EntryWriter, questions: Vectors | None) -> None:
        made, recall = dense_search.build(self._store.read(lambda moment: moment), questions)
        draft, about = writer.draft("approximate"), {"recall": recall, "lists": made.lists}
        made.write(draft)
        writer.adopt("approximate", draft, last=made.last, rows=made.rows, about=about)

    def _make_keywords(self, writer: EntryWriter) -> None:
        entries = self._store.read(lambda _: list(self._store.texts(-1)))
        numbers, texts = zip(*entries, strict=True)
        if any(words(text) for text in texts):  # bm25s cannot index texts that are all without words
            draft = writer.draft("keywords")
            about = write_bulk(draft, numbers, texts)
            writer.adopt("keywords", draft, last=numbers[-1], rows=len(numbers), about=about)

    def facts(self) -> Facts:
        """What the index consists of now."""
        return self._store.read(self._facts)

    def _facts(self, moment: Moment) -> Facts:
        documents, rows, dead = self._store.counts()
        approximate, keywords = self._store.derived("approximate"), self._store.derived("keywords")
        live = moment.live()
        derived = {"approximate": approximate, "keywords": keywords}
        return Facts(
            width=moment.width,
            encoder=self._encoder,
            documents=documents,
            entries=rows - dead,
            dead=dead,
            segments=len(moment.segments),
            approximate=approximate.rows if approximate else 0,
            recall=approximate.about["recall"] if approximate else None,
            lists=int(approximate.about["lists"]) if approximate else None,
            keywords=keywords.rows if keywords else 0,
            due=tuple(kind for kind, one in derived.items() if _is_due(one, live, self._above[kind], _GROWTH[kind])),
        )


def fused(rankings: Iterable[Ranked], k: int) -> Ranked:
    """The best `k` by reciprocal rank fusion; among equals the older entry comes first."""
    scores: dict[int, float] = {}
    for ranked in rankings:
        for rank, number in enumerate(ranked.numbers.tolist(), start=1):
            scores[number] = scores.get(number, 0.0) + 1 / (FUSION + rank)
    order = sorted(scores, key=lambda number: (-scores[number], number))[:k]
    return Ranked(np.array(order, dtype=np.int64), np.array([scores[number] for number in order], dtype=np.float32))


def _is_due(derived: Derived | None, live: Numbers, above: int, growth: float) -> bool:
    if derived is None or len(live) <= above:
        return len(live) > above
    old = int(np.searchsorted(live, derived.last, side="right"))
    return len(live) - old > growth * derived.rows or derived.rows - old > _REMOVED * derived.rows


def _check_k(k: int) -> None:
    if k < 1:
        raise ConfigError(f"k must be at least 1 entry, got {k}")
