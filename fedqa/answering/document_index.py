# SPDX-License-Identifier: Apache-2.0
"""Documents that come and go, cut into pieces (passages or sentences) and kept in an index as an encoder sees them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedqa.answering.entry_store import Vectors
from fedqa.answering.vector_index import Candidate, Entry, IndexedDocument, VectorIndex
from fedqa.data.passages import Passage
from fedqa.data.records import Document

_PIECES = 16  # encoded at a time: others get their turn in between
_NO_WIDTH = 1  # of the index where there are no vectors


@dataclass(frozen=True)
class Encoder:
    """What makes pieces of a document, and vectors of pieces and of questions."""

    digest: str  # of all that the vectors depend on
    width: int  # 0: it makes no vectors, and words alone find
    scale: float  # times a dot product is a score
    cut: Callable[[Document], Sequence[Passage]]
    texts: Callable[[Sequence[str]], Vectors]
    question: Callable[[str], Vectors]  # [1, width]


class DocumentIndex:
    """One thread at a time may change it; any number may ask it meanwhile."""

    def __init__(self, folder: Path, encoder: Encoder, turn: AbstractContextManager[object]) -> None:
        """The index for this encoder, below the folder; `turn` is held while the encoder works."""
        self.folder, self.encoder, self._turn = folder / encoder.digest[:16], encoder, turn
        self._index = VectorIndex.open(self.folder, encoder.width or _NO_WIDTH, encoder.digest)

    def close(self) -> None:
        self._index.close()

    def ids(self) -> set[str]:
        """The documents that are here."""
        return self._index.documents()

    def remove(self, ids: Iterable[str]) -> None:
        for id in ids:
            self._index.remove(id)

    def add(self, documents: Iterable[Document]) -> int:
        """Take in documents, all or none; nothing is encoded that is here in the same form. How many were new."""
        entries = {document.id: [_entry(piece) for piece in self.encoder.cut(document)] for document in documents}
        missing = {id: some for id, some in entries.items() if not self._index.holds(id, some)}
        vectors = self._vectors([entry.text for some in missing.values() for entry in some])
        return self._index.add_all(_with_vectors(missing, vectors)) if missing else 0

    def tend(self) -> None:
        """Make what searching profits from in a large index; may take minutes, and searching goes on."""
        self._index.tend()

    def candidates(self, question: str, k: int) -> list[Candidate]:
        """The pieces that vectors or words find, in any order; without vectors all dot products are 0."""
        if self.encoder.width:
            with self._turn:
                vector = self.encoder.question(question)
            return self._index.candidates(vector, question, k)
        return self._index.candidates(np.zeros((1, _NO_WIDTH), dtype=np.float32), question, k)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        if not self.encoder.width:
            return np.zeros((len(texts), _NO_WIDTH), dtype=np.float32)
        made = [np.zeros((0, self.encoder.width), dtype=np.float32)]
        for start in range(0, len(texts), _PIECES):
            with self._turn:
                made.append(self.encoder.texts(texts[start : start + _PIECES]))
        return np.concatenate(made)


def _with_vectors(entries: dict[str, list[Entry]], vectors: Vectors) -> Iterator[IndexedDocument]:
    start = 0
    for id, some in entries.items():
        yield IndexedDocument(id, some, vectors[start : start + len(some)])
        start += len(some)


def _entry(piece: Passage) -> Entry:
    return Entry(piece.id, piece.text, piece.start, piece.end)
