# SPDX-License-Identifier: Apache-2.0
"""The last step of an answer: the exact words of a passage, by a model of the skill `read`."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedqa.answering.loaded import Loaded
from fedqa.skills.read import Read


@dataclass(frozen=True)
class Reading:
    """Characters `start` to `end` of a text, and their log-odds against the text not answering."""

    start: int
    end: int
    odds: float


def read_in(loaded: Loaded, question: str, texts: Sequence[str]) -> list[Reading]:
    """The best answer in each text, in the order of the texts; all of a text that has nothing to read."""
    assert isinstance(loaded.skill, Read)
    spans = loaded.skill.find(loaded.model, loaded.tokenizer, question, texts, len(texts))
    found = {span.text_index: Reading(span.start, span.end, span.odds) for span in spans}
    least = min((reading.odds for reading in found.values()), default=0.0)
    return [found.get(i, Reading(0, len(text), least)) for i, text in enumerate(texts)]
