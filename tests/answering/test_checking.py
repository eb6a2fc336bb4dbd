# SPDX-License-Identifier: Apache-2.0
"""When an answer is what people have said it is."""

from fedqa.answering.answers import Answer
from fedqa.answering.checking import is_right
from fedqa.data.records import Example, Span

TEXT = "Visit us. The ward opens at two. It closes at six."
SENTENCE = (10, 32)  # The ward opens at two.
AT_TWO = Example("e", "When does it open?", (Span("d", 28, 31),), ("two",), check=True)
NOWHERE = Example("e", "Is there a pool?", check=True)
NOT_HERE = Example("e", "Is there a pool?", about="d", check=True)


def answer(start: int, end: int, document: str = "d") -> Answer:
    passage, evidence = TEXT, TEXT[slice(*SENTENCE)]
    return Answer(document, "", passage, evidence, *SENTENCE, 1.0, 0.9, TEXT[start:end], start, end)


def test_read_words_are_right_if_they_are_the_ones_that_people_chose() -> None:
    assert is_right(AT_TWO, answer(28, 31)) and is_right(AT_TWO, answer(28, 32))  # "two." has the same words
    assert not is_right(AT_TWO, answer(25, 31))  # "at two"
    assert not is_right(AT_TWO, answer(14, 18))  # "ward"
    assert not is_right(AT_TWO, answer(28, 31, "another"))  # the same words elsewhere say something else


def test_where_no_model_reads_the_sentence_answers() -> None:
    assert is_right(AT_TWO, answer(*SENTENCE))
    assert not is_right(AT_TWO, answer(*SENTENCE, "another"))


def test_no_answer_is_right_where_people_said_that_there_is_none() -> None:
    assert is_right(NOWHERE, None) and is_right(NOT_HERE, None) and not is_right(AT_TWO, None)
    assert not is_right(NOWHERE, answer(*SENTENCE)) and not is_right(NOT_HERE, answer(*SENTENCE))
    assert is_right(NOT_HERE, answer(*SENTENCE, "another"))
