# SPDX-License-Identifier: Apache-2.0
"""Keyword search over one silo's texts: BM25 as in Lucene, the same order on every machine."""

import re
from collections.abc import Collection, Sequence

import bm25s
import numpy as np
import numpy.typing as npt


class KeywordIndex:
    """The texts in the order given; their positions are what `scores` and `top` speak of."""

    def __init__(self, texts: Sequence[str]) -> None:
        words = [_words(text) for text in texts]
        self._n = len(texts)
        self._bm25: bm25s.BM25 | None = None
        if any(words):  # bm25s cannot index texts that are all without words
            self._bm25 = bm25s.BM25(backend="numpy")
            self._bm25.index(words, show_progress=False)

    def scores(self, query: str) -> npt.NDArray[np.float32]:
        """One score per text, zero where no word is shared."""
        words = _words(query)
        if self._bm25 is None or not words:
            return np.zeros(self._n, dtype=np.float32)
        return np.asarray(self._bm25.get_scores(words), dtype=np.float32)

    def top(self, query: str, k: int, leave_out: Collection[int] = ()) -> list[int]:
        """The best `k` positions besides those left out, ties in the order of the texts."""
        order = np.argsort(-self.scores(query), kind="stable")[: k + len(leave_out)]
        return [i for i in order.tolist() if i not in leave_out][:k]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
