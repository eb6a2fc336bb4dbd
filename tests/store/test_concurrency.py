# SPDX-License-Identifier: Apache-2.0
"""Many writers at once, in threads and processes, and writers that are killed."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedqa.store import Correction, Store, StoreError

WRITER = Path(__file__).parent / "writer.py"


def start_writer(where: str | Path, name: str, *, threads: int, changes: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), str(where), name, str(threads), str(changes)]
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    )


def check_whole(store: Store) -> None:
    """Numbers without a gap, and every document and example told of exactly once."""
    history = store.history(limit=1_000_000, newest_first=False)
    assert [change.number for change in history] == list(range(1, store.version + 1))
    told = Counter((change.what, change.which) for change in history)
    assert set(told.values()) <= {1}
    collection = store.collection()
    assert {("document added", document.id) for document in collection.documents} <= set(told)
    assert {("example annotated", example.id) for example in collection.examples} <= set(told)


def test_fifty_threads_lose_and_double_nothing(store: Store) -> None:
    def work(k: int) -> list[str]:
        made = []
        for number in range(4):
            document = store.add_document(f"Text {number} of {k}.", "", source="", who=f"thread {k}")
            correction = Correction(f"Which of {k}, {number}?", f"thread {k}", document.id, 0, 4, "Text")
            made.append(store.correct(correction).example.id)
            assert store.document(document.id).document == document
        return made

    with ThreadPoolExecutor(50) as pool:
        made = [id for ids in pool.map(work, range(50)) for id in ids]
    collection = store.collection()
    assert sorted(example.id for example in collection.examples) == sorted(made)
    assert len(set(made)) == len(collection.documents) == 200
    assert store.version == 400
    check_whole(store)


def test_fifty_writers_in_five_processes_that_open_a_new_store_together_lose_and_double_nothing(
    where: str | Path,
) -> None:
    writers = [start_writer(where, f"p{k}-", threads=10, changes=2) for k in range(5)]
    outputs = [writer.communicate(timeout=120) for writer in writers]
    assert [problems for _, problems in outputs] == [""] * 5
    made = [id for output, _ in outputs for id in output.split()]
    with Store.open(where) as store:
        assert sorted(example.id for example in store.collection().examples) == sorted(made)
        assert len(set(made)) == 100
        assert store.version == 200
        check_whole(store)


def test_the_same_text_added_by_many_at_once_is_one_document(store: Store) -> None:
    with ThreadPoolExecutor(20) as pool:
        added = list(pool.map(lambda k: store.add_document("Six hours.", "", source="", who=f"t{k}"), range(20)))
    assert len({document.id for document in added}) == 1
    assert store.version == 1


def test_of_many_answers_given_to_one_question_at_once_one_stands_and_the_history_has_all(store: Store) -> None:
    document = store.add_document("0123456789", "", source="", who="Ada")

    def correct(k: int) -> str:
        return store.correct(Correction("Which digit?", "Ada", document.id, k, k + 1, str(k))).example.id

    with ThreadPoolExecutor(10) as pool:
        made = list(pool.map(correct, range(10)))
    (standing,) = store.collection().examples
    newest = store.verified("which  digit")
    assert newest and newest.example == standing
    history = store.history()
    assert history[0].which == standing.id
    assert {change.which for change in history if change.what == "example annotated"} == set(made)
    superseded = {change.which for change in history if change.what == "example superseded"}
    assert superseded == set(made) - {standing.id}


def test_who_follows_the_history_while_others_write_misses_nothing(where: str | Path) -> None:
    writers = [start_writer(where, f"p{k}-", threads=3, changes=6) for k in range(2)]
    seen: list[int] = []
    with Store.open(where) as store:
        while len(seen) < 72:
            after = seen[-1] if seen else 0
            seen += [change.number for change in store.history(since=after, newest_first=False)]
            assert all(writer.poll() in (None, 0) for writer in writers)
    assert seen == list(range(1, 73))
    assert [writer.communicate(timeout=60)[1] for writer in writers] == ["", ""]


def test_killing_a_writer_loses_nothing_that_it_was_told_is_kept(where: str | Path) -> None:
    drawn = random.Random(7)
    acknowledged: list[str] = []
    for life in range(3):
        writer = start_writer(where, f"life{life}-", threads=3, changes=0)
        assert writer.stdout
        acknowledged.append(writer.stdout.readline().strip())  # it has begun
        time.sleep(drawn.uniform(0.02, 0.4))
        writer.send_signal(signal.SIGKILL)
        output, _ = writer.communicate(timeout=60)
        whole_lines = output.splitlines(keepends=True)
        acknowledged += [line.strip() for line in whole_lines if line.endswith("\n")]
    with Store.open(where) as store:
        kept = {example.id for example in store.collection().examples}
        assert len(acknowledged) > 6
        assert set(acknowledged) <= kept
        check_whole(store)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_must_open_the_store_itself(store: Store) -> None:
    def child() -> None:
        with pytest.raises(
            StoreError, match=r"was opened in process \d+ and is used in \d+; open it anew after a fork"
        ):
            store.all_documents()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0
