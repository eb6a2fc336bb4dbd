# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.data.passages import passages
from fedqa.data.records import Document, Example, Span
from fedqa.errors import DataError
from fedqa.skills.questions import JudgedQuestion, judged_questions

#          0123456789        offsets: "First one." 0-10, "Second." 12-19, "Third." 21-27
DOCUMENT = Document("d", "First one.\n\nSecond.\n\nThird.")
TWIN = Document("t", "second")
PASSAGES = [*passages(DOCUMENT), *passages(TWIN)]  # positions 0, 1, 2 and 3


def example(id: str, question: str, *spans: tuple[int, int]) -> Example:
    return Example(id, question, tuple(Span("d", *span) for span in spans), split="train")


def test_gold_is_every_passage_that_the_evidence_overlaps() -> None:
    (question,) = judged_questions([example("e", "Which?", (6, 14))], PASSAGES)
    assert question.gold == (0, 1)


def test_examples_that_ask_the_same_are_one_question_with_all_their_gold() -> None:
    examples = [example("e1", "Which one?", (0, 5)), example("e2", "which  ONE", (21, 27))]
    assert judged_questions(examples, PASSAGES) == [
        JudgedQuestion("e1", "Which one?", "train", gold=(0, 2), relevant=frozenset({0, 2}))
    ]


def test_a_passage_with_the_text_of_a_gold_one_is_relevant_though_not_gold() -> None:
    (question,) = judged_questions([example("e", "Which?", (12, 19))], PASSAGES)
    assert (question.gold, question.relevant) == ((1,), {1, 3})


def test_a_question_without_evidence_takes_no_part() -> None:
    assert judged_questions([example("e", "Which?")], PASSAGES) == []


def test_an_example_without_a_split_is_an_error() -> None:
    with pytest.raises(DataError, match=r"'e' is in no split; give the collection to fedqa\.data\.splits\.split"):
        judged_questions([Example("e", "Which?")], PASSAGES)
