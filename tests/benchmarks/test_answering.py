# SPDX-License-Identifier: Apache-2.0
from collections import Counter

import numpy as np
import pytest
from rich.console import Console

from benchmarks.answering import WIDTH, Report, World, measured, recall_of


def test_made_up_sentences_have_frequent_words_and_topics() -> None:
    made = World.of(1000).drawn(1000, mean_length=18)
    counts = Counter(word for text in made.texts for word in text.split())
    total = sum(counts.values())
    assert 17 < total / 1000 < 19
    assert 0.05 < counts.most_common(1)[0][1] / total < 0.2 and len(counts) > 2000
    assert made.vectors.shape == (1000, WIDTH) and np.linalg.norm(made.vectors, axis=1) == pytest.approx(1, abs=1e-5)
    # 5 topics: a fifth of all pairs share one, and have a cosine of 1 / (1 + 1.2 ** 2) = 0.41
    cosines = (made.vectors @ made.vectors.T)[np.triu_indices(1000, 1)]
    same = cosines[cosines > 0.25]
    assert same.mean() == pytest.approx(0.41, abs=0.02) and len(same) / len(cosines) == pytest.approx(0.2, abs=0.02)


def test_the_same_seed_makes_the_same_sentences() -> None:
    assert World.of(50, seed=3).drawn(50, 9).texts == World.of(50, seed=3).drawn(50, 9).texts


def test_documents_hold_all_sentences_once() -> None:
    documents = list(World.of(25).drawn(25, 9).documents())
    assert [len(document.entries) for document in documents] == [10, 10, 5]
    assert [entry.id for document in documents for entry in document.entries] == [str(i) for i in range(25)]


def test_recall_is_the_mean_share_found() -> None:
    assert recall_of([{1, 2}, {3, 9}], [{1, 2}, {3, 4}]) == 0.75


def test_the_tables_show_medians_and_quantiles() -> None:
    report = Report()
    report.search("by vector", [0.001, 0.002, 0.003], 0.5)
    report.steps.append(("opening", [0.25]))
    console = Console(width=100)
    with console.capture() as capture:
        console.print(*report.tables(1000, 3))
    text = capture.get()
    # the 95 % quantile of 1, 2, 3 lies nine tenths of the way from 2 to 3
    assert "2.00" in text and "2.90" in text and "0.500" in text and "0.2500" in text


def test_everything_is_measured_and_exact_search_finds_all() -> None:
    report = measured(sentences=3000, questions=12)
    searches = {name: recall for name, _, recall in report.searches}
    assert searches["fedqa: exact"] == searches["faiss flat"] == 1
    assert (searches["fedqa: approximate"] or 0) > 0.9
    assert "encoding a question" in searches and "bm25s" in searches
    assert {"fedqa: adding a document", "fedqa: removing a document"} <= {name for name, _ in report.steps}
