# SPDX-License-Identifier: Apache-2.0
"""The reader of sentence and question lines, on toys and on the public set."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedqa.data.formats import read_format
from fedqa.data.passages import passages
from fedqa.data.records import Collection, Span
from fedqa.data.sentences import sentences_of
from fedqa.data.squad_sentences import plain, read
from fedqa.errors import ConfigError, DataError

LINES = [  # three sentences, the first one asked about three times
    ("the cat -lrb- a tom -rrb- sat . ", "who sat ?"),
    ("the cat -lrb- a tom -rrb- sat . ", "what did the cat do ?"),
    ("`` go , '' he said . ", "what did he say ?"),
    ("the cat -lrb- a tom -rrb- sat . ", "was it a tom ?"),
    ("it rained in 1848 . ", "when did it rain ?"),
]


def written(folder: Path, lines: Sequence[tuple[str, str]] = LINES, part: str = "dev") -> Path:
    for side, column in (("src", 0), ("tgt", 1)):
        text = "".join(line[column] + "\n" for line in lines)
        (folder / f"{side}-{part}.txt").write_text(text, encoding="utf-8")
    return folder


def texts(collection: Collection) -> dict[str, str]:
    """What the evidence of each question says."""
    by_id = {document.id: document.text for document in collection.documents}
    spans = {example.id: example.evidence[0] for example in collection.examples}
    return {id: by_id[span.document][span.start : span.end] for id, span in spans.items()}


def test_lines_become_documents_of_sentences_and_questions_with_exact_evidence(tmp_path: Path) -> None:
    found = read(written(tmp_path), part="dev", sentences_per_document=2, topics=1)
    assert [(document.id, document.text) for document in found.documents] == [
        ("dev-01-0001", 'The cat (a tom) sat. "go," he said.'),
        ("dev-01-0002", "It rained in 1848."),
    ]
    assert found.examples[0].question == "who sat?"
    assert found.examples[0].evidence == (Span("dev-01-0001", 0, 20),)
    assert texts(found) == {
        "dev-1": "The cat (a tom) sat.",
        "dev-2": "The cat (a tom) sat.",
        "dev-4": "The cat (a tom) sat.",
        "dev-3": '"go," he said.',
        "dev-5": "It rained in 1848.",
    }
    assert all(example.split is None and example.about == example.evidence[0].document for example in found.examples)


def test_what_is_read_as_a_sentence_is_found_again_as_one(tmp_path: Path) -> None:
    found = read(written(tmp_path), part="dev", topics=1)
    (document,) = found.documents
    cut = [sentence.text for passage in passages(document) for sentence in sentences_of(passage)]
    assert cut == ["The cat (a tom) sat.", '"go," he said.', "It rained in 1848."]


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("a -lsb- b -rsb- -lcb- c -rcb- .", "a [b] {c}."),
        ("he said `` no ! ''", 'he said "no!"'),
        ("the ` best ' one", "the 'best ' one"),  # a single closing quote may be an apostrophe
        ("  two   spaces ", "two spaces"),
        ("-rrb- first", ") first"),
        ("last -lrb-", "last ("),
    ],
)
def test_tokens_are_put_back_together(tokens: str, text: str) -> None:
    assert plain(tokens) == text


def test_topics_are_blocks_of_equal_numbers_of_questions_and_documents_stay_inside_them(tmp_path: Path) -> None:
    found = read(written(tmp_path), part="dev", topics=2)
    # Five lines in two blocks: lines 1 and 2, lines 3 to 5; the sentence of line 4 stands in both.
    assert Counter(example.key for example in found.examples) == {"dev-01": 2, "dev-02": 3}
    assert [document.text for document in found.documents] == [
        "The cat (a tom) sat.",
        '"go," he said. The cat (a tom) sat. It rained in 1848.',
    ]
    assert all(example.about.startswith(example.key) for example in found.examples)


def test_more_topics_than_lines_are_no_problem(tmp_path: Path) -> None:
    assert len({example.key for example in read(written(tmp_path), part="dev", topics=9).examples}) == 5


def test_the_part_chooses_the_files(tmp_path: Path) -> None:
    written(tmp_path)
    written(tmp_path, LINES[:2], "test")
    counts = {part: len(read(tmp_path, part=part).examples) for part in ("dev", "test", "both")}
    assert counts == {"dev": 5, "test": 2, "both": 7}


def test_an_empty_line_is_left_out_with_its_place(tmp_path: Path) -> None:
    lines = [*LINES[:2], (" ", "what is missing ?"), ("it is here .", ""), ("the end .", "which end \0 ?")]
    found = read(written(tmp_path, lines), part="dev", topics=1)
    assert [(left.place, left.reason) for left in found.quarantine] == [
        ("src-dev.txt:3", "the text is empty"),
        ("tgt-dev.txt:4", "the question is empty"),
        ("tgt-dev.txt:5", "the question holds a NUL character at character 10"),
    ]
    assert [example.id for example in found.examples] == ["dev-1", "dev-2"]
    assert [document.text for document in found.documents] == ["The cat (a tom) sat."]


def test_files_of_different_lengths_are_an_error(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "tgt-dev.txt").write_text("who ?\n")
    with pytest.raises(DataError, match=r"src-dev.txt has 5 lines and tgt-dev.txt 1: line by line they belong"):
        read(tmp_path, part="dev")


def test_a_missing_file_and_a_file_in_place_of_the_folder_are_errors(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(DataError, match=r"src-test.txt cannot be read"):
        read(tmp_path, part="test")
    with pytest.raises(DataError, match=r"is not a folder; name the one that holds src-dev.txt and tgt-dev.txt"):
        read(tmp_path / "src-dev.txt", part="dev")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "train"}, "unknown value 'train'"),
        ({"topics": 0}, "topics must be at least 1, got 0"),
        ({"sentences_per_document": 0}, "sentences_per_document must be at least 1, got 0"),
    ],
)
def test_a_wrong_option_is_an_error(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_format("squad_sentences", written(tmp_path), options)


def test_the_public_set_is_read_whole(public_data: Callable[[str], Path]) -> None:
    found = read(public_data("squad_sentences"))
    assert (len(found.examples), found.quarantine) == (22_447, ())
    assert len({example.key for example in found.examples}) == 20
    cut = {s.id: s for d in found.documents for p in passages(d) for s in sentences_of(p)}
    exact = {Span(s.document, s.start, s.end) for s in cut.values()}
    spans = {example.evidence[0] for example in found.examples}
    assert len(spans & exact) > 0.98 * len(spans)
