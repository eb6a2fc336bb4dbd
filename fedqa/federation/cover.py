# SPDX-License-Identifier: Apache-2.0
"""Cover questions: a silo hides each real question among invented ones about something else (CoverQuery).

Covers are words drawn from the topics of a public corpus, as many as the question has, with its evidence and answer.
This is a baseline from before federated training, and hides little: the documents are sent in clear, drawn words are
no sentences, and whoever compares a question with its evidence can guess which one is real.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from fedqa.data.records import Collection
from fedqa.data.sample import SAMPLE_SILOS, sample_silo
from fedqa.data.splits import normalise
from fedqa.seeds import generator

COVERS = 3  # for each question
_TOPICS = 8  # of the public corpus

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Topics:
    """Topics as distributions over words."""

    words: Sequence[str]
    weights: Numbers  # [topics, words], each row sums to 1
    mixture: Callable[[str], Numbers]  # how much of each topic is in a text: [topics], sums to 1

    def unrelated(self, text: str) -> list[int]:
        """The topics a text has no more of than a text about nothing would; there is always one."""
        mixture = self.mixture(text)
        few: list[int] = np.flatnonzero(mixture <= 1 / len(mixture) + 1e-9).tolist()
        return few


@cache
def public_topics() -> Topics:
    """The topics of the documents that come with the package, found by latent Dirichlet allocation."""
    # Imported here: it takes a second, and every course imports this file.
    from sklearn.decomposition import LatentDirichletAllocation  # type: ignore[import-untyped]
    from sklearn.feature_extraction.text import CountVectorizer  # type: ignore[import-untyped]

    texts = [f"{document.title} {document.text}" for name in SAMPLE_SILOS for document in sample_silo(name).documents]
    # Words of one document make no topic, and those of every third ("days") belong to all.
    counter = CountVectorizer(stop_words="english", token_pattern="[a-z]{3,}", min_df=2, max_df=0.3)
    # A flat prior over topics: with a sharp one, so few documents keep to the topic they first fell into.
    model = LatentDirichletAllocation(_TOPICS, doc_topic_prior=1.0, max_iter=100, random_state=0)
    model.fit(counter.fit_transform(texts))
    return Topics(
        words=counter.get_feature_names_out().tolist(),
        weights=model.components_ / model.components_.sum(axis=1, keepdims=True),
        mixture=lambda text: np.asarray(model.transform(counter.transform([text]))[0], dtype=np.float64),
    )


def covers(question: str, m: int, rng: np.random.Generator, *, topics: Topics | None = None) -> list[str]:
    """`m` different texts of as many words as the question, each from one topic that is not among the question's."""
    topics = topics or public_topics()
    unrelated, length = topics.unrelated(question), max(1, len(question.split()))
    found: dict[str, None] = {}
    while len(found) < m:
        topic = int(rng.choice(unrelated))
        cover = _dressed(rng.choice(topics.words, length, p=topics.weights[topic]).tolist(), question)
        if cover != question:
            found[cover] = None
    return list(found)


def _dressed(words: Sequence[str], question: str) -> str:
    """Words with the question's capital and its mark at the end, which would tell it from them at a glance."""
    text = " ".join(words)
    text = text[0].upper() + text[1:] if question[:1].isupper() else text
    return text + question[-1] if question.endswith(("?", ".", "!")) else text


def covered(collection: Collection) -> Collection:
    """What a silo sends: all documents, and its training examples among covers, in random order with new ids.

    Questions for dev and test, and what was left out of the data, stay.
    """
    secret = _secret(collection)
    examples = [
        replace(example, question=question)
        for example in collection.of_split("train")
        for question in (example.question, *_own_covers(example.question, secret))
    ]
    order = generator(secret, "order").permutation(len(examples))
    numbered = (replace(examples[i], id=str(number)) for number, i in enumerate(order, start=1))
    return Collection(collection.documents, tuple(numbered))


def _own_covers(question: str, secret: int) -> list[str]:
    # A question has the same covers wherever it stands: with others, it would be the one text that comes twice.
    return covers(question, COVERS, generator(secret, "covers", normalise(question)))


def _secret(collection: Collection) -> int:
    """A seed that only this silo can know: of all its questions, also those it does not send, and their ids.

    With the course's seed, which the coordinator knows, it could draw the covers of each text again and see which
    one has the others for covers. Splits do not count: they differ from course to course, and covers must not.
    """
    asked = sorted((example.id, example.question) for example in collection.examples)
    return int.from_bytes(hashlib.sha256(json.dumps(asked).encode()).digest(), "big")
