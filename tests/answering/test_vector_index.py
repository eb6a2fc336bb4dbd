# SPDX-License-Identifier: Apache-2.0
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from fedqa.answering import dense_search, vector_index
from fedqa.answering.vector_index import Entry, Hit, IndexedDocument, VectorIndex, fused
from fedqa.errors import ConfigError, DataError
from fedqa.skills.bm25 import KeywordIndex

WIDTH = 4


def opened(folder: Path, width: int = WIDTH, **options: int) -> VectorIndex:
    return VectorIndex.open(folder, width, "encoder-a", **options)


def entries(document: str, *texts: str) -> list[Entry]:
    return [Entry(f"{document}#{i}", text, 10 * i, 10 * i + len(text)) for i, text in enumerate(texts)]


def rows(*values: tuple[float, ...]) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def found(hits: list[Hit]) -> list[str]:
    return [hit.entry for hit in hits]


def drawn(n: int, width: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def filled(index: VectorIndex, vectors: np.ndarray, each: int) -> None:
    """Documents d0, d1, ... of `each` entries; the text of row i is `text i`."""
    documents = []
    for start in range(0, len(vectors), each):
        part = vectors[start : start + each]
        texts = [Entry(str(start + i), f"text {start + i}", i, i + 1) for i in range(len(part))]
        documents.append(IndexedDocument(f"d{start // each}", texts, part))
    index.add_all(documents)


X, Y, Z = (1.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 1.0, 0)


def test_an_entry_is_found_by_its_vector_with_its_place(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        assert index.add("a", entries("a", "first", "second"), rows(X, Y))
        hits = index.search(rows((0.5, 0.25, 0, 0)), 1)
        assert hits == [[Hit("a#0", "a", 0, 5, 0.5)]]


def test_what_was_added_is_there_after_opening_again(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "first"), rows(X))
        index.add("b", entries("b", "second"), rows(Y))
    with opened(tmp_path) as index:
        assert found(index.search(rows((1, 2, 0, 0)), 5)[0]) == ["b#0", "a#0"]
        assert index.facts().documents == index.facts().entries == 2


@pytest.mark.parametrize("segment_rows", [7, 1000])
def test_exact_search_is_that_of_numpy(tmp_path: Path, segment_rows: int) -> None:
    vectors, questions = drawn(300, 16, 0), drawn(70, 16, 1)  # 70 questions: more than one block of 64
    with opened(tmp_path, 16, segment_rows=segment_rows) as index:
        filled(index, vectors, 5)
        for number in (3, 17, 18, 59):
            index.remove(f"d{number}")
        scores = questions @ vectors.T
        for number in (3, 17, 18, 59):
            scores[:, 5 * number : 5 * number + 5] = -np.inf
        expected = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        hits = index.search(questions, 10)
        assert [found(row) for row in hits] == [[str(i) for i in row] for row in expected.tolist()]
        assert [[hit.score for hit in row] for row in hits] == [
            pytest.approx(scores[i, row].tolist(), abs=1e-6) for i, row in enumerate(expected)
        ]


def test_of_equal_scores_the_older_entry_comes_first(tmp_path: Path) -> None:
    with opened(tmp_path, segment_rows=3) as index:
        for name in "abcdefgh":
            index.add(name, entries(name, "same"), rows(X))
        assert found(index.search(rows(X), 5)[0]) == ["a#0", "b#0", "c#0", "d#0", "e#0"]


def test_a_removed_document_is_not_found_by_vector_nor_by_word(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "cat"), rows(X))
        index.add("b", entries("b", "cat dog"), rows(Y))
        assert found(index.search_words(["cat"], 5)[0]) == ["a#0", "b#0"]
        assert index.remove("a") and not index.remove("a")
        assert found(index.search(rows(X), 5)[0]) == ["b#0"]
        assert found(index.search_words(["cat"], 5)[0]) == ["b#0"]
    with opened(tmp_path) as index:
        assert found(index.search(rows(X), 5)[0]) == found(index.search_words(["cat"], 5)[0]) == ["b#0"]


def test_a_document_added_again_replaces_the_one_before(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "old", "older"), rows(X, Y))
        index.add("a", [Entry("new", "new", 3, 6)], rows(Z))
        assert index.search(rows(X), 5) == [[Hit("new", "a", 3, 6, 0.0)]]
        assert index.search_words(["old older"], 5) == [[]]


def test_adding_the_same_again_changes_nothing(tmp_path: Path) -> None:
    def content() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}

    with opened(tmp_path) as index:
        assert index.add("a", entries("a", "text"), rows(X))
        before = content()
        assert not index.add("a", entries("a", "text"), rows(X))
        assert content() == before
        assert index.add("a", entries("a", "text"), rows(Y))  # another vector is another content
        assert index.add("a", entries("a", "texts"), rows(Y))


def test_what_is_held_need_not_be_encoded_again(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "text"), rows(X))
        assert index.holds("a", entries("a", "text"))
        assert not index.holds("a", entries("a", "other"))
        assert not index.holds("b", entries("a", "text"))


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        assert index.search(rows(X, Y), 3) == [[], []]
        assert index.search(rows(X), 3, questions=["cat"], hybrid=True) == [[]]
        assert index.search(np.empty((0, WIDTH), dtype=np.float32), 3) == []
        assert index.add_all([]) == 0 and index.tend() == ()
        assert index.facts().entries == 0


def test_an_index_emptied_again_finds_nothing_and_can_be_filled(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "cat"), rows(X))
        index.remove("a")
        assert index.search(rows(X), 3, questions=["cat"], hybrid=True) == [[]]
        assert (index.facts().segments, list(tmp_path.glob("vectors-*"))) == (0, [])
        index.add("a", entries("a", "cat"), rows(X))
        assert found(index.search(rows(X), 3)[0]) == ["a#0"]


def test_a_document_without_entries_is_known_and_found_by_nothing(tmp_path: Path) -> None:
    none = np.empty((0, WIDTH), dtype=np.float32)
    with opened(tmp_path) as index:
        assert index.add("empty", [], none) and index.holds("empty", [])
        index.add_all([IndexedDocument("bare", [], none), IndexedDocument("a", entries("a", "cat"), rows(X))])
        assert found(index.search(rows(X), 3)[0]) == ["a#0"]
        assert index.add("empty", entries("e", "now"), rows(Y))
        assert found(index.search(rows(Y), 1)[0]) == ["e#0"]
        assert index.remove("empty") and index.remove("bare") and index.facts().documents == 1


def test_k_larger_than_the_index_gives_all(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "x", "y", "z"), rows(X, Y, Z))
        assert found(index.search(rows((3, 2, 1, 0)), 1000)[0]) == ["a#0", "a#1", "a#2"]


def test_texts_and_ids_may_be_of_any_script(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("ordner/Ärzte 🩺", [Entry("satz-é", "Größe 身長 naïve", 0, 15)], rows(X))
    with opened(tmp_path) as index:
        hit = index.search(rows(X), 1, questions=["größe"], hybrid=True)[0][0]
        assert (hit.entry, hit.document) == ("satz-é", "ordner/Ärzte 🩺")
        assert found(index.search_words(["身長"], 1)[0]) == ["satz-é"]
        assert index.holds("ordner/Ärzte 🩺", [Entry("satz-é", "Größe 身長 naïve", 0, 15)])


def test_hybrid_search_adds_the_reciprocals_of_ranks(tmp_path: Path) -> None:
    # By vector: a, b, c. By word: only c and b have "dog", c shorter, so c, b. With 60 + rank:
    # a 1/61 = 0.016393; b 1/62 + 1/62 = 0.032258; c 1/63 + 1/61 = 0.032266.
    with opened(tmp_path) as index:
        index.add("a", entries("a", "a cat"), rows((3, 0, 0, 0)))
        index.add("b", entries("b", "the dog and the cat"), rows((2, 0, 0, 0)))
        index.add("c", entries("c", "dog"), rows(X))
        hits = index.search(rows(X), 3, questions=["Dog?"], hybrid=True)[0]
        assert found(hits) == ["c#0", "b#0", "a#0"]
        assert [hit.score for hit in hits] == pytest.approx([1 / 63 + 1 / 61, 2 / 62, 1 / 61])
        assert found(index.search(rows(X), 3, questions=["Dog?"])[0]) == ["a#0", "b#0", "c#0"]


def test_fusion_breaks_ties_by_age() -> None:
    first = dense_search.Ranked(np.array([7, 3]), np.array([9.0, 8.0], dtype=np.float32))
    second = dense_search.Ranked(np.array([3, 7]), np.array([2.0, 1.0], dtype=np.float32))
    assert fused([first, second], 2).numbers.tolist() == [3, 7]


TEXTS = [
    "the cat sat on the mat",
    "a dog and a cat",
    "dogs bark",
    "the law of the land",
    "the cat",
    "...",
    "a mat for the dog",
    "land law",
]


def test_keyword_scores_of_bulk_and_recent_are_those_of_one_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "KEYWORDS_ABOVE", 3)
    # The average length is the bulk's until it is made anew: here 18 / 4 words in both halves, so nothing differs.
    halves = TEXTS[:4], ["the cat", "a mat for the dog and the land law", "land law cat and dog", "the dog"]
    assert [sum(len(text.split()) for text in half) for half in halves] == [18, 18]
    with opened(tmp_path) as index:
        for i, text in enumerate(halves[0]):
            index.add(f"{i}", [Entry(f"{i}", text, 0, 1)], rows(X))
        assert index.tend() == ("keywords",) and index.facts().keywords == 4
        for i, text in enumerate(halves[1], start=4):
            index.add(f"{i}", [Entry(f"{i}", text, 0, 1)], rows(X))
        scored = {hit.entry: hit.score for hit in index.search_words(["The cat, the law"], 10)[0]}
    whole = KeywordIndex([*halves[0], *halves[1]]).scores("The cat, the law")
    assert scored == pytest.approx({str(i): value for i, value in enumerate(whole.tolist()) if value}, rel=1e-5)


@pytest.mark.parametrize("above", [3, 100])
def test_keyword_scores_without_recent_entries_are_those_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: int
) -> None:
    monkeypatch.setattr(vector_index, "KEYWORDS_ABOVE", above)
    with opened(tmp_path) as index:
        for i, text in enumerate(TEXTS):
            index.add(f"{i}", [Entry(f"{i}", text, 0, 1)], rows(X))
        assert index.tend() == (("keywords",) if above == 3 else ())
        for question in ("the cat and the law", "dog dog mat", "unheard", ""):
            scored = {hit.entry: hit.score for hit in index.search_words([question], 10)[0]}
            whole = KeywordIndex(TEXTS).scores(question).tolist()
            assert scored == pytest.approx({str(i): value for i, value in enumerate(whole) if value}, rel=1e-5)


def test_a_keyword_index_is_used_after_opening_again_without_removed_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "KEYWORDS_ABOVE", 3)
    with opened(tmp_path) as index:
        for i, text in enumerate(TEXTS):
            index.add(f"{i}", [Entry(f"{i}", text, 0, 1)], rows(X))
        index.tend()
        index.remove("4")
        index.add("new", entries("new", "cat"), rows(X))
    with opened(tmp_path) as index:
        assert found(index.search_words(["cat"], 9)[0]) == ["new#0", "1", "0"]
        assert index.facts().due == ()  # of 8 entries in it one is gone and one is new
        index.add("newer", entries("newer", "a", "b"), rows(X, X))
        assert index.facts().due == ("keywords",)  # 3 new ones are more than a quarter of 8
        index.tend()
        assert (index.facts().keywords, index.facts().due) == (10, ())
        assert len(list(tmp_path.glob("keywords-*"))) == 1


def clustered(n: int, width: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((12, width))
    vectors = centres[rng.integers(0, 12, n)] + 0.7 * rng.standard_normal((n, width))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def recall(index: VectorIndex, vectors: np.ndarray, questions: np.ndarray) -> float:
    truth = np.argsort(-(questions @ vectors.T), axis=1)[:, :10].tolist()
    hits = index.search(questions, 10)
    return float(
        np.mean([len({str(i) for i in row} & set(found(got))) / 10 for row, got in zip(truth, hits, strict=True)])
    )


def test_a_large_index_is_searched_approximately_with_the_recall_it_says(tmp_path: Path) -> None:
    vectors, questions = clustered(2000, 32, 0), clustered(100, 32, 1)
    with opened(tmp_path, 32, approximate_above=1500, segment_rows=600) as index:
        filled(index, vectors, 10)
        assert index.facts().due == ("approximate",) and index.facts().recall is None
        assert index.tend(questions[:50]) == ("approximate",)
        facts = index.facts()
        assert facts.approximate == 2000 and facts.due == ()
        assert facts.recall is not None and facts.lists is not None
        assert facts.recall >= 0.95 and facts.lists < 31  # 2000 // 64 lists in all: it is not the exact search
        measured = recall(index, vectors, questions[50:])
        assert measured > 0.85
    with opened(tmp_path, 32, approximate_above=1500) as index:
        assert recall(index, vectors, questions[50:]) == measured
        assert index.facts() == facts


def test_an_approximate_structure_measures_itself_on_entries_if_there_are_no_questions(tmp_path: Path) -> None:
    with opened(tmp_path, 32, approximate_above=1500) as index:
        filled(index, clustered(1600, 32, 0), 10)
        index.tend()
        assert (index.facts().recall or 0) >= 0.95


def test_what_came_after_the_approximate_structure_is_found_and_what_went_is_not(tmp_path: Path) -> None:
    vectors, late = clustered(1600, 32, 0), clustered(40, 32, 5)
    with opened(tmp_path, 32, approximate_above=1500) as index:
        filled(index, vectors, 10)
        index.tend()
        made = [path.name for path in tmp_path.glob("approximate-*")]
        index.add("late", [Entry(f"late {i}", "", 0, 0) for i in range(40)], late)
        assert [row[0].entry for row in index.search(late, 1)] == [f"late {i}" for i in range(40)]
        own = index.search(vectors[:10], 1)
        assert [row[0].entry for row in own] == [str(i) for i in range(10)]
        assert own[0][0].score == pytest.approx(1, abs=1e-6)  # exact, not of one byte a number
        index.remove("d0")
        assert not {hit.document for row in index.search(vectors[:10], 10) for hit in row} & {"d0"}
        assert index.tend() == () and [path.name for path in tmp_path.glob("approximate-*")] == made


def test_exact_search_steps_in_where_the_candidates_are_gone_or_too_few(tmp_path: Path) -> None:
    vectors = np.concatenate([clustered(1600, 32, 0), np.repeat(drawn(1, 32, 7), 100, axis=0)])
    with opened(tmp_path, 32, approximate_above=1500) as index:
        filled(index, vectors, 100)
        index.tend()
        index.remove("d16")  # the hundred rows alike: all candidates of a question of that vector
        scores = vectors[1600] @ vectors[:1600].T
        expected = [str(i) for i in np.argsort(-scores, kind="stable")]
        assert found(index.search(vectors[1600:1601], 5)[0]) == expected[:5]
        assert found(index.search(vectors[1600:1601], 500)[0]) == expected[:500]


def test_an_approximate_structure_is_made_anew_after_growth_or_loss(tmp_path: Path) -> None:
    vectors = clustered(2400, 32, 0)
    with opened(tmp_path, 32, approximate_above=900) as index:
        filled(index, vectors[:1000], 100)
        index.tend()
        index.add("grown", [Entry(str(i), "", 0, 0) for i in range(500)], vectors[:500])
        assert index.facts().due == ()  # 500 is not more than half of 1000
        index.add("over", [Entry("over", "", 0, 0)], vectors[:1])
        assert index.facts().due == ("approximate",)
        index.tend()
        assert index.facts().approximate == 1501
        index.remove("grown")
        assert index.facts().due == ()  # 500 of 1501 is less than a third
        index.remove("d0")
        assert index.facts().due == ("approximate",)


def test_segments_are_copied_when_a_third_is_dead_and_keep_their_ids(tmp_path: Path) -> None:
    vectors = drawn(40, WIDTH, 0)
    with opened(tmp_path, segment_rows=20) as index:
        filled(index, vectors, 2)
        files = sorted(path.name for path in tmp_path.glob("vectors-*"))
        for number in (0, 4, 8):
            index.remove(f"d{number}")
        assert (index.facts().dead, sorted(path.name for path in tmp_path.glob("vectors-*"))) == (6, files)
        index.remove("d9")  # 8 of 20
        assert (index.facts().dead, index.facts().entries, index.facts().segments) == (0, 32, 2)
        left = [i for i in range(40) if i // 2 not in (0, 4, 8, 9)]
        for state in (index, opened(tmp_path)):
            assert [row[0].entry for row in state.search(vectors[left], 1)] == [str(i) for i in left]
        index.add("more", entries("more", "x", "y"), rows(X, Y))
        assert found(index.search(rows(X), 40)[0]).count("more#0") == 1
        assert max(path.stat().st_size for path in tmp_path.glob("vectors-*")) == 20 * WIDTH * 4


def test_small_segments_are_copied_together(tmp_path: Path) -> None:
    vectors = drawn(40, WIDTH, 0)
    with opened(tmp_path, segment_rows=10) as index:
        filled(index, vectors, 1)
        assert index.facts().segments == 4
        gone = [i for i in range(40) if i % 4]
        for number in gone:
            index.remove(f"d{number}")
        assert index.facts().segments <= 2 and index.facts().entries == 10
        left = list(range(0, 40, 4))
        assert [row[0].entry for row in index.search(vectors[left], 1)] == [str(i) for i in left]
        assert sorted(found(index.search(rows(X), 40)[0]), key=int) == [str(i) for i in left]


def test_a_document_larger_than_a_segment_stays_together(tmp_path: Path) -> None:
    vectors = drawn(50, WIDTH, 0)
    with opened(tmp_path, segment_rows=10) as index:
        filled(index, vectors, 25)
        assert [row[0].entry for row in index.search(vectors, 1)] == [str(i) for i in range(50)]
        assert index.facts().segments == 2


def _files(folder: Path) -> dict[str, int]:
    """All but SQLite's, with the times that they were last written."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("entries.sqlite"))
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in paths}


def test_adding_to_a_large_index_writes_to_one_segment_only(tmp_path: Path) -> None:
    with opened(tmp_path, segment_rows=10) as index:
        filled(index, drawn(95, WIDTH, 0), 5)
        before = _files(tmp_path)
        index.add("new", entries("new", "x"), rows(X))
        after = _files(tmp_path)
        assert set(after) == set(before) and len(before) == 11  # ten segments and the lock
        assert [name for name in after if after[name] != before[name]] == ["vectors-000009.f32"]


def test_opening_and_searching_make_nothing_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "KEYWORDS_ABOVE", 100)
    with opened(tmp_path, 32, approximate_above=1000) as index:
        filled(index, clustered(1100, 32, 0), 10)
        assert index.tend() == ("approximate", "keywords")
    before = _files(tmp_path)
    with opened(tmp_path, 32, approximate_above=1000) as index:
        question = clustered(1, 32, 3)
        assert len(index.search(question, 3, questions=["text 7"], hybrid=True)[0]) == 3
        assert index.tend() == ()
        assert index._keywords.recent == 0
    assert {name: at for name, at in _files(tmp_path).items() if name != "writer.lock"} == {
        name: at for name, at in before.items() if name != "writer.lock"
    }


def test_another_encoder_or_width_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(DataError, match=r"width 4 by the encoder 'encoder-a'.*'encoder-b'.*delete this one, and add"):
        VectorIndex.open(tmp_path, WIDTH, "encoder-b")
    with pytest.raises(DataError, match="opened for width 5"):
        VectorIndex.open(tmp_path, 5, "encoder-a")


def test_an_index_is_opened_for_whatever_encoder_it_was_made(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as index:
        index.add("a", entries("a", "first", "second"), rows(X, Y))
    with VectorIndex.existing(tmp_path / "a") as index:
        assert (index.facts().width, index.facts().encoder) == (WIDTH, "encoder-a")
        assert found(index.search_words(["second"], 1)[0]) == ["a#1"]
    with pytest.raises(DataError, match=r"there is no index in .*nowhere that can be read"):
        VectorIndex.existing(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("keywords_above", [0, 2000])
def test_rare_words_say_more_than_common_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keywords_above: int
) -> None:
    monkeypatch.setattr(vector_index, "KEYWORDS_ABOVE", keywords_above)
    with opened(tmp_path) as index:
        index.add("a", entries("a", "red apple", "red pear"), rows(X, Y))
        index.tend()
        index.add("b", entries("b", "green pear"), rows(Z))
        # log(1 + (3 - n + 0.5) / (n + 0.5)) of 3 entries, of which n have the word
        expected = {"red": math.log(1.6), "apple": math.log(8 / 3), "kiwi": math.log(8)}
        assert index.rarities("Red apple, kiwi?") == pytest.approx(expected)


def test_only_one_may_write_and_others_may_read(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.add("a", entries("a", "cat"), rows(X))
    assert found(second.search(rows(X), 1, questions=["cat"], hybrid=True)[0]) == ["a#0"]
    with pytest.raises(DataError, match=f"being written by process {os.getpid()}.*close the index there"):
        second.add("b", entries("b", "dog"), rows(Y))
    first.remove("a")
    assert second.search(rows(X), 1) == [[]]
    first.close()
    second.add("b", entries("b", "dog"), rows(Y))
    second.close()


def test_readers_see_a_whole_document_or_none_while_one_writes(tmp_path: Path) -> None:
    # Two forms of a document, each of three entries with one marker; a mixture would show two markers.
    with opened(tmp_path, segment_rows=4) as writer, opened(tmp_path) as reader:
        writer.add("d", [Entry(f"even {i}", "even", i, i) for i in range(3)], rows(X, X, X))
        stop, seen, problems = threading.Event(), set(), []

        def read() -> None:
            while not stop.is_set():
                names = [hit.entry.split()[0] for hit in reader.search(rows(X), 10)[0]]
                seen.add(names[0])
                if len(names) != 3 or len(set(names)) != 1:
                    problems.append(names)

        thread = threading.Thread(target=read)
        thread.start()
        for turn in range(30):
            mark = ("odd", "even")[turn % 2]
            writer.add("d", [Entry(f"{mark} {i}", mark, i, i) for i in range(3)], rows(X, X, X))
        stop.set()
        thread.join()
        assert problems == [] and seen


def test_wrong_input_is_refused_with_its_place(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        with pytest.raises(DataError, match=r"document 'a': vectors must have the shape \[n, 4\].*got \[1, 3\]"):
            index.add("a", entries("a", "x"), np.zeros((1, 3), dtype=np.float32))
        with pytest.raises(DataError, match="document 'a' has 2 entries and 1 vectors"):
            index.add("a", entries("a", "x", "y"), rows(X))
        with pytest.raises(DataError, match="document 'a': a vector holds NaN"):
            index.add("a", entries("a", "x"), rows((np.nan, 0, 0, 0)))
        with pytest.raises(DataError, match=r"questions: vectors must have the shape"):
            index.search(np.zeros(4, dtype=np.float32), 1)
        with pytest.raises(DataError, match="document 'a' comes twice"):
            index.add_all([IndexedDocument("a", entries("a", "x"), rows(X))] * 2)
        with pytest.raises(ConfigError, match="k must be at least 1 entry, got 0"):
            index.search(rows(X), 0)
        with pytest.raises(ConfigError, match="text of each of the 2 questions, got 1"):
            index.search(rows(X, Y), 1, questions=["one"], hybrid=True)
        with pytest.raises(ConfigError, match="got none"):
            index.search(rows(X), 1, hybrid=True)
        assert index.facts().documents == 0
    with pytest.raises(ConfigError, match="width of an index must be at least 1, got 0"):
        opened(tmp_path / "other", 0)


def test_a_failed_change_leaves_all_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "cat"), rows(X))
        twice = [Entry("b", "dog", 0, 1), Entry("b", None, 0, 1)]  # type: ignore[arg-type]
        with pytest.raises(sqlite3.IntegrityError):
            index.add_all([IndexedDocument("a", entries("a", "new"), rows(Y)), IndexedDocument("b", twice, rows(X, Y))])
        assert found(index.search(rows(X), 5)[0]) == ["a#0"] and index.holds("a", entries("a", "cat"))
        index.add("b", entries("b", "dog"), rows(Z))
        assert index.search(rows(Z), 1)[0][0].score == 1


def test_a_damaged_index_says_so(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "cat"), rows(X))
    (path,) = tmp_path.glob("vectors-*")
    path.write_bytes(b"short")
    with opened(tmp_path) as index, pytest.raises(DataError, match=r"damaged \(vectors-000000.*delete this one"):
        index.search(rows(X), 1)
    path.unlink()
    with opened(tmp_path) as index, pytest.raises(DataError, match="damaged"):
        index.search(rows(X), 1)
    (tmp_path / "entries.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(DataError, match="damaged"):
        opened(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with sqlite3.connect(tmp_path / "entries.sqlite") as db:
        db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(DataError, match="has format 9, and this fedqa reads 1"):
        opened(tmp_path)


def test_an_index_is_not_used_across_a_fork(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index._store._process = -1  # as a child would find it
        with pytest.raises(DataError, match="open it anew after a fork"):
            index.search(rows(X), 1)
        with pytest.raises(DataError, match="open it anew after a fork"):
            index.add("a", entries("a", "cat"), rows(X))


def test_files_left_by_a_killed_process_are_cleared_by_the_next_writer(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.add("a", entries("a", "cat"), rows(X))
    (tmp_path / "vectors-000077.f32").write_bytes(b"left")
    (tmp_path / "draft-keywords").mkdir()
    (tmp_path / "keywords-000066").mkdir()
    with opened(tmp_path) as index:
        index.remove("none")
        assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("entries.sqlite")) == [
            "vectors-000000.f32",
            "writer.lock",
        ]


# Adds, replaces and removes documents for ever, says each change before ("?") and after it is made ("!").
_CHANGES = """
import sys
from pathlib import Path
import numpy as np
from fedqa.answering import vector_index
from fedqa.answering.vector_index import Entry, VectorIndex

vector_index.KEYWORDS_ABOVE = 20
rng = np.random.default_rng(int(sys.argv[2]))
index = VectorIndex.open(Path(sys.argv[1]), 4, "encoder-a", segment_rows=12, approximate_above=10**9)
while True:
    name, form = f"d{rng.integers(12)}", int(rng.integers(0, 5))  # form 0: removed
    print("?", name, form, flush=True)
    if form:
        size = 1 + form
        vectors = np.full((size, 4), form, dtype=np.float32)
        index.add(name, [Entry(f"{name} {form} {i}", f"word{form}", i, form) for i in range(size)], vectors)
    else:
        index.remove(name)
    print("!", name, form, flush=True)
    if rng.random() < 0.1:
        index.tend()
"""


def _killed(folder: Path, seed: int, rng: np.random.Generator) -> list[tuple[str, str, int]]:
    """What a process said that was killed at some moment after a number of changes."""
    command = [sys.executable, "-c", _CHANGES, str(folder), str(seed)]
    root = Path(vector_index.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(int(rng.integers(1, 80)))]
        time.sleep(float(rng.uniform(0, 0.02)))
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL, "it ended by itself"
    said = [line.split() for line in lines if line.endswith("\n")]
    return [(mark, name, int(form)) for mark, name, form in said]


def _forms(index: VectorIndex) -> dict[str, int]:
    """The form that each document has, which all that is known of it must agree on."""
    forms: dict[str, set[tuple[int, int]]] = {}
    hits = index.search(np.full((1, 4), 0.25, dtype=np.float32), 1000)[0]
    for hit in hits:
        name, form, _ = hit.entry.split()
        assert (hit.document, hit.end, hit.score) == (name, int(form), float(form))  # 4 numbers times a quarter
        forms.setdefault(name, set()).add((int(form), hit.start))
    for form in range(1, 5):
        by_word = {hit.entry for hit in index.search_words([f"word{form}"], 1000)[0]}
        assert by_word == {hit.entry for hit in hits if hit.end == form}
    for name, parts in forms.items():
        (form,) = {form for form, _ in parts}
        assert parts == {(form, i) for i in range(1 + form)}, f"{name} is not whole"
    return {name: form for name, parts in forms.items() for form, _ in parts}


def test_an_index_survives_kill_9_at_any_moment(tmp_path: Path) -> None:
    expected: dict[str, int] = {}
    rng, changes = np.random.default_rng(0), 0
    for seed in range(6):
        said = _killed(tmp_path, seed, rng)
        done = [change for change in said if change[0] == "!"]
        changes += len(done)
        for _, name, form in done:
            expected[name] = form
        before = {name: form for name, form in expected.items() if form}
        after = dict(before)
        if said[-1][0] == "?":  # it was killed in the middle of a change, which may or may not have been made
            after = {name: form for name, form in (expected | {said[-1][1]: said[-1][2]}).items() if form}
        with opened(tmp_path, segment_rows=12) as index:
            forms = _forms(index)
            assert forms in (before, after)
            expected = forms
            assert index.add("check", [Entry("check 1 0", "word1", 0, 1)], np.ones((1, 4), dtype=np.float32))
            assert index.remove("check")
            assert _forms(index) == forms
    assert changes > 20


# -- candidates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tended", [False, True])
def test_candidates_have_both_scores_whichever_found_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tended: bool
) -> None:
    texts = ["red house", "blue house", "green car", "yellow tree", "blue sea"]
    vectors = rows(X, Y, (0.6, 0.8, 0, 0), Z, (0, 0, 0.6, 0.8))
    monkeypatch.setattr(vector_index, "KEYWORDS_ABOVE", 2)
    with opened(tmp_path) as index:
        index.add("gone", entries("gone", "blue whale"), rows(X))
        index.add("a", entries("a", *texts[:3]), vectors[:3])
        if tended:
            index.tend()
        index.add("b", entries("b", *texts[3:]), vectors[3:])
        index.remove("gone")
        both = {one.entry: one for one in index.candidates(rows((1, 0.1, 0, 0)), "blue sea", 2)}
        # By vectors the two nearest of a, by words the two with a word of the question: five texts, one in none.
        assert set(both) == {"a#0", "a#2", "a#1", "b#1"}
        assert {name: one.dot for name, one in both.items()} == pytest.approx(
            {"a#0": 1.0, "a#2": 0.68, "a#1": 0.1, "b#1": 0.0}
        )
        by_words = {hit.entry: hit.score for hit in index.search_words(["blue sea"], 9)[0]}
        assert {name: one.words for name, one in both.items() if one.words} == pytest.approx(by_words)
        assert (both["b#1"].document, both["b#1"].start, both["b#1"].end) == ("b", 10, 18)
        with pytest.raises(ConfigError, match="k must be at least 1 entry, got 0"):
            index.candidates(rows(X), "blue", 0)
