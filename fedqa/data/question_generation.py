# SPDX-License-Identifier: Apache-2.0
"""The other way round: sentences, and the questions that they answer, which are to be written.

Read from the files of `squad_sentences`. A sentence is an example's text; its answers are all questions asked about it,
so that none of them is wrong. The sentence itself is what splits go by.
"""

from pathlib import Path

from fedqa.data import squad_sentences
from fedqa.data.door import Door
from fedqa.data.records import Collection, Example, Span


def read(path: Path, *, part: squad_sentences.Part = "both", topics: int = 10, encoding: str = "utf-8") -> Collection:
    """Topics are the keys, as in `squad_sentences`; an example has the id of the first question about its sentence."""
    asked = squad_sentences.read(path, part=part, topics=topics, encoding=encoding)
    texts = {document.id: document.text for document in asked.documents}
    by_sentence: dict[Span, list[Example]] = {}
    for example in asked.examples:
        by_sentence.setdefault(example.evidence[0], []).append(example)
    door = Door()
    for one in asked.quarantine:
        door.leave_out(one.place, one.reason, one.remedy)
    for span, examples in by_sentence.items():
        sentence, first = texts[span.document][span.start : span.end], examples[0]
        with door.record(first.id):
            questions = tuple(example.question for example in examples)
            door.example(Example(first.id, sentence, answers=questions, key=first.key))
    return door.collection(str(path))
