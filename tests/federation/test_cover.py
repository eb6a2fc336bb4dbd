# SPDX-License-Identifier: Apache-2.0
"""Cover questions: what they are made of, and what a silo sends."""

import json
from dataclasses import replace

import numpy as np
import pytest
from toys import toy_collection, toy_course, with_stage

from fedqa.data.records import Collection, Document, Example, Quarantined, Span
from fedqa.data.sample import SAMPLE_SILOS, sample_silo
from fedqa.data.splits import split
from fedqa.errors import ConfigError
from fedqa.federation.channels import CHANNELS
from fedqa.federation.course import Choice, Mixing, Participation
from fedqa.federation.cover import COVERS, Topics, covered, covers, public_topics
from fedqa.federation.messages import Exchange

WORDS = ("loan", "rate", "ward", "nurse", "court", "judge")
WEIGHTS = np.array([[0.5, 0.5, 0, 0, 0, 0], [0, 0, 0.5, 0.5, 0, 0], [0, 0, 0, 0, 0.5, 0.5]])


def by_known_words(text: str) -> np.ndarray:
    """Three topics of two words each; a text about nothing has a third of each."""
    known = [WORDS.index(word) // 2 for word in text.lower().strip("?").split() if word in WORDS]
    return np.bincount(known, minlength=3) / len(known) if known else np.full(3, 1 / 3)


TOPICS = Topics(WORDS, WEIGHTS, by_known_words)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_topics_that_a_text_has_little_of_are_unrelated() -> None:
    assert TOPICS.unrelated("what rate has a loan?") == [1, 2]
    assert TOPICS.unrelated("rate of the court") == [1]
    assert TOPICS.unrelated("rate of rate of rate of court") == [1, 2]  # a quarter is below a third
    assert TOPICS.unrelated("whence?") == [0, 1, 2]


def test_covers_are_as_long_as_the_question_and_of_one_other_topic_each() -> None:
    found = covers("what rate has a loan?", 6, rng(), topics=TOPICS)
    assert len(set(found)) == 6
    for cover in found:
        words = cover.removesuffix("?").split()
        assert cover.endswith("?") and len(words) == 5
        assert set(words) <= {"ward", "nurse"} or set(words) <= {"court", "judge"}


def test_covers_start_and_end_as_the_question_does() -> None:
    for question, first, last in (("What loan?", str.isupper, "?"), ("tell a rate.", str.islower, ".")):
        for cover in covers(question, 3, rng(), topics=TOPICS):
            assert first(cover[0]) and cover[-1] == last


def test_a_question_is_not_its_own_cover() -> None:
    # about nothing known, so that every topic can be drawn: five words are left for five covers
    topics = replace(TOPICS, mixture=lambda text: np.full(3, 1 / 3))
    assert set(covers("ward", 5, rng(), topics=topics)) == set(WORDS) - {"ward"}


def test_an_empty_question_has_covers_of_one_word() -> None:
    assert all(cover in WORDS for cover in covers("", 2, rng(), topics=TOPICS))


def test_covers_are_the_same_for_the_same_seed() -> None:
    question = "How much can a court make my landlord pay?"
    assert covers(question, 3, rng(4)) == covers(question, 3, rng(4))
    assert covers(question, 3, rng(4)) != covers(question, 3, rng(5))


def test_public_topics_are_distributions_over_many_words() -> None:
    topics = public_topics()
    assert topics.weights.shape == (8, len(topics.words))
    assert len(topics.words) > 1000
    assert topics.weights.sum(axis=1).tolist() == pytest.approx([1] * 8)
    assert np.all(topics.weights > 0)


def test_covers_of_sample_questions_are_about_something_else() -> None:
    topics = public_topics()
    elsewhere, overlaps = [], []
    for name in SAMPLE_SILOS:
        for example in sample_silo(name).examples[:20]:
            own = int(topics.mixture(example.question).argmax())
            for cover in covers(example.question, 3, rng(2)):
                assert len(cover.split()) == len(example.question.split())
                elsewhere.append(int(topics.mixture(cover).argmax()) != own)
                overlaps.append(bool(set(cover.lower().split()) & set(example.question.lower().split())))
    assert np.mean(elsewhere) > 0.97  # drawn words may by chance look like another topic's
    assert np.mean(overlaps) < 0.2


# -- what a silo sends -------------------------------------------------------------------------------------------

DOCUMENTS = (Document("d1", "A court makes a landlord pay.", "Deposits"), Document("d2", "Four weeks."))
EXAMPLES = (
    Example("deposit/1", "Who makes a landlord pay?", (Span("d1", 2, 7),), ("court",), split="train", key="law"),
    Example("notice/1", "How long is notice?", (Span("d2", 0, 10),), ("Four weeks",), split="train", about="d2"),
    Example("notice/2", "What is unknown?", split="train", about="d2"),
    Example("notice/3", "Is this for choosing?", (Span("d2", 0, 4),), ("Four",), split="dev"),
    Example("notice/4", "Is this for testing?", (Span("d2", 0, 4),), ("Four",), split="test"),
)
COLLECTION = Collection(DOCUMENTS, EXAMPLES, (Quarantined("notes.md:3", "'Private matter' has no answer", "add one"),))


def apart_from_question(example: Example) -> Example:
    return replace(example, id="", question="")


def test_each_training_question_is_sent_with_three_covers_that_differ_in_nothing_else() -> None:
    sent = covered(COLLECTION)
    for example in EXAMPLES[:3]:
        alike = [one for one in sent.examples if apart_from_question(one) == apart_from_question(example)]
        assert len(alike) == 1 + COVERS
        assert [one.question for one in alike].count(example.question) == 1
        assert len({len(one.question.split()) for one in alike}) == 1
    assert len(sent.examples) == 3 * (1 + COVERS)


def test_documents_are_sent_and_questions_for_dev_and_test_and_quarantine_stay() -> None:
    sent = covered(COLLECTION)
    assert sent.documents == DOCUMENTS
    assert sent.quarantine == ()
    assert {example.split for example in sent.examples} == {"train"}


def test_ids_and_places_do_not_tell_which_question_is_real() -> None:
    real, places = {example.question for example in EXAMPLES}, []
    for seed in range(30):
        collection = replace(COLLECTION, examples=(*EXAMPLES, Example(f"x{seed}", "Other?", split="dev")))
        sent = covered(collection).examples
        assert [example.id for example in sent] == [str(number) for number in range(1, 13)]
        places += [number for number, example in enumerate(sent) if example.question in real]
    # 90 places among 12, evenly drawn: mean 5.5, with a deviation of sqrt(143 / 12 / 90) = 0.36
    assert len(set(places)) == 12
    assert abs(np.mean(places) - 5.5) < 4 * 0.36


def test_a_question_that_is_asked_twice_has_the_same_covers_twice() -> None:
    again = replace(EXAMPLES[0], id="deposit/2", evidence=(Span("d2", 0, 4),), answers=("Four",))
    sent = covered(replace(COLLECTION, examples=(*EXAMPLES, again)))
    questions = [{one.question for one in sent.examples if one.answers == e.answers} for e in (EXAMPLES[0], again)]
    assert questions[0] == questions[1]
    assert len(questions[0]) == 1 + COVERS


def questions_of(collection: Collection) -> set[str]:
    return {example.question for example in covered(collection).examples}


def test_a_silo_that_is_asked_again_sends_the_same() -> None:
    assert covered(COLLECTION) == covered(COLLECTION)


def test_covers_do_not_change_with_the_splits_of_a_course() -> None:
    other = tuple(replace(example, split="train") for example in EXAMPLES)
    assert questions_of(COLLECTION) < questions_of(replace(COLLECTION, examples=other))


def test_covers_cannot_be_drawn_again_from_what_was_sent() -> None:
    """They depend on a question that stays in the silo."""
    other = (*EXAMPLES[:4], replace(EXAMPLES[4], question="Is that for testing?"))
    common = questions_of(COLLECTION) & questions_of(replace(COLLECTION, examples=other))
    assert common == {example.question for example in EXAMPLES[:3]}


def test_a_silo_without_training_examples_sends_its_documents_alone() -> None:
    assert covered(replace(COLLECTION, examples=EXAMPLES[3:])) == Collection(DOCUMENTS, ())


# -- the channel -------------------------------------------------------------------------------------------------


class AtHome:
    name = "law"
    collection = COLLECTION


def test_the_bytes_hold_real_questions_among_covers_and_nothing_that_stays() -> None:
    tensors = CHANNELS["covered_examples"].answer(AtHome(), Exchange("course", 1, "covered_examples", "collect"))
    CHANNELS["covered_examples"].check(tensors)
    data = bytes(tensors["examples"].numpy())
    for example in EXAMPLES[:3]:
        assert data.count(example.question.encode()) == 1
    staying = ["choosing", "testing", "Private matter", *(example.id for example in EXAMPLES)]
    assert [text for text in staying if text.encode() in data] == []
    assert len(json.loads(data)["examples"]) == 12


def test_a_whole_sample_silo_sends_no_question_of_dev_or_test() -> None:
    collection = split(sample_silo("law"), seed=1)
    sent = covered(collection)
    data = json.dumps([example.question for example in sent.examples])
    assert not [e for e in collection.examples if e.split != "train" and json.dumps(e.question)[1:-1] in data]
    train = [example.question for example in collection.of_split("train")]
    assert len(sent.examples) == 4 * len(train)
    assert {example.question for example in sent.examples} > set(train)


def test_pooling_covered_examples_goes_with_one_model_and_no_quorum() -> None:
    course = with_stage(toy_course("central"), channels=("covered_examples",))
    for changes in ({"mixing": Mixing(Choice("identity"))}, {"participation": Participation(quorum=2)}):
        with pytest.raises(ConfigError, match="pools all examples"):
            with_stage(course, **changes)


def test_toys_are_covered_like_any_collection() -> None:
    assert len(covered(toy_collection(5, 1)).examples) == 20
