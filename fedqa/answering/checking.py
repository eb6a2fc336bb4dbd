# SPDX-License-Identifier: Apache-2.0
"""Is what is answered what people here have said the answer is?"""

from fedqa.answering.answers import Answer
from fedqa.data.records import Example
from fedqa.evaluation.spans import exact_match


def is_right(example: Example, answer: Answer | None) -> bool:
    """Right is the place that people chose: its very words, or the sentence that holds them where no model reads.

    None is the answer that the documents hold none. If people said so of one document only, another may answer.
    """
    if answer is None:
        return not example.evidence
    if not example.evidence:
        return bool(example.about) and answer.document != example.about
    place = (answer.answer_start, answer.answer_end)
    there = any(s.document == answer.document and s.start < place[1] and place[0] < s.end for s in example.evidence)
    is_sentence = place == (answer.start, answer.end)
    return there and (is_sentence or exact_match(answer.answer, example.answers) == 1)
