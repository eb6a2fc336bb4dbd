# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
import torch
from ir_measures import RR, Qrel, R, ScoredDoc

from fedqa.config import course_of, sample_alliance
from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.errors import ConfigError, DataError, ModelError
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.retriever import Retriever
from fedqa.runs import build, read_silo, run_setting
from fedqa.skills import make_skill
from fedqa.skills.retrieve import Retrieve, RetrieveOptions
from fedqa.skills.retrieve_features import Batch, RetrieveFeatures
from fedqa.skills.skill import Skill
from fedqa.training import Epochs

TOPICS = ["snow", "hail", "fire", "theft", "flood", "glass", "travel", "pets", "bikes", "phones", "jewels", "gardens"]
SAME = "Ask the office."
METRICS = {"mrr10", "r1", "r20", "r100", "p_mrr10", "p_r1", "p_r20", "p_r100"}


@cache
def backbone(spec: str = "tiny") -> Backbone:
    return load_backbone(spec, seed=1)


def asked(id: str, text: str, document: Document, sentence: str, split: Split) -> Example:
    start = document.text.index(sentence)
    return Example(id, text, (Span(document.id, start, start + 3),), split=split)


@cache
def collection() -> Collection:
    """Four documents of three passages: a clause on a topic each, with a sentence that stands in all of them."""
    clauses = [f"The clause on {topic} pays up to {i + 2} pounds." for i, topic in enumerate(TOPICS)]
    documents = tuple(
        Document(f"d{k}", "\n\n".join(f"{clause} {SAME}" for clause in clauses[3 * k : 3 * k + 3])) for k in range(4)
    )
    examples = []
    for i, topic in enumerate(TOPICS):
        document = documents[i // 3]
        examples.append(asked(f"a{i}", f"How much for {topic}?", document, clauses[i], "train"))
        if i % 3 == 0:
            examples.append(asked(f"b{i}", f"What does the clause on {topic} pay?", document, clauses[i], "dev"))
            examples.append(asked(f"c{i}", f"Is there money for {topic}?", document, clauses[i], "test"))
    examples.append(Example("none", "Who is the king?", split="train"))
    return Collection(documents, tuple(examples))


def prepared(data: Collection | None = None, **options: Any) -> tuple[Retrieve, RetrieveFeatures]:
    skill = Retrieve(RetrieveOptions(**options))
    return skill, skill.prepare(data or collection(), backbone(), seed=0)


def built(skill: Retrieve, *, frozen: bool = False) -> Retriever:
    module = skill.build(backbone(), seed=0).module
    assert isinstance(module, Retriever)
    module.sentence.requires_grad_(not frozen)
    return module


def drawn(
    skill: Retrieve, model: torch.nn.Module, features: RetrieveFeatures, received: Any = None, **draws: Any
) -> Epochs:
    vectors = {} if received is None else {"negatives": torch.as_tensor(received, dtype=torch.float32)}
    return skill.drawn(model, features, draws, vectors)


def first(epochs: Epochs, size: int = 4, seed: int = 0) -> Batch:
    batch, _ = next(iter(epochs.epoch(size, np.random.default_rng(seed))))
    assert isinstance(batch, Batch)
    return batch


def train(skill: Retrieve, model: torch.nn.Module, data: Epochs, *, epochs: int, rate: float) -> list[float]:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=rate)
    rng, losses = np.random.default_rng(0), []
    model.train()
    for _ in range(epochs):
        for batch, _ in data.epoch(4, rng):
            loss = skill.loss(model, batch)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())
    return losses


def test_retrieve_is_a_skill() -> None:
    skill: Skill = Retrieve()
    assert (skill.name, skill.higher_is_better) == ("retrieve", "mrr10")
    assert isinstance(make_skill("retrieve", {"form": "hybrid"}, "here"), Retrieve)


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "sparse"}, r"unknown form of retrieve 'sparse'.*known: bm25, dense, hybrid"),
        ({"question_pooling": "max"}, r"unknown question_pooling of retrieve 'max'.*known: cls, mean"),
        ({"max_question": 7}, "retrieve: max_question must be at least 8, got 7"),
        ({"max_sentence": 0}, "retrieve: max_sentence must be at least 8, got 0"),
        ({"scale": float("nan")}, "retrieve: scale must be above 0, got nan"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_is_accepted(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RetrieveOptions(**options)


def test_texts_longer_than_the_models_positions_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"of 513 tokens does not fit into the 512 positions of 'tiny'; lower it"):
        prepared(max_sentence=513)
    prepared(max_sentence=513, form="bm25")


def test_options_for_draws_are_checked_with_their_place() -> None:
    skill = Retrieve()
    skill.check_draws({}, "stage 'warm'")
    skill.check_draws({"sources": ["index", "random"], "count": 4}, "stage 'warm'")
    with pytest.raises(ConfigError, match=r"unknown key 'source' in stage 'warm'; did you mean 'sources'"):
        skill.check_draws({"source": ["index"]}, "stage 'warm'")
    with pytest.raises(ConfigError, match=r"^stage 'warm': unknown source of negatives 'indx'"):
        skill.check_draws({"sources": ["indx"]}, "stage 'warm'")


# Features


def test_every_sentence_stands_once_with_all_its_places_and_exact_offsets() -> None:
    _, features = prepared()
    assert len(features.sentences) == 13  # twelve clauses and the one that stands everywhere
    texts = {document.id: document.text for document in collection().documents}
    for sentence in features.sentences:
        assert all(texts[p.document][p.start : p.end] == sentence.text for p in sentence.places)
    (same,) = (sentence for sentence in features.sentences if sentence.text == SAME)
    assert len(same.places) == 12 and same.id == "d0#0.1"


def test_a_document_of_one_sentence_is_one_sentence() -> None:
    data = Collection((Document("x", " No mark "), Document("y", "Other")), (
        Example("q", "Which?", (Span("x", 1, 3),), split="train"),
    ))  # fmt: skip
    _, features = prepared(data)
    assert [(s.text, s.places[0].start) for s in features.sentences] == [("No mark", 1), ("Other", 0)]


def test_gold_is_every_sentence_that_the_evidence_overlaps() -> None:
    document = Document("x", "One is here. Two is here. Three is here.\n\nFour is here.")
    across = Example("q", "Which?", (Span("x", 5, 15), Span("x", 43, 44)), split="train")
    whole = Example("r", "What?", (Span("x", 13, 25),), split="dev")
    _, features = prepared(Collection((document,), (across, whole)))
    assert [features.sentences[i].text for i in features.splits["train"][0].gold] == [
        "One is here.",
        "Two is here.",
        "Four is here.",
    ]
    assert features.splits["train"][0].gold_passages == (0, 1)
    assert features.splits["dev"][0].gold == (1,)


def test_sentences_of_the_same_words_as_gold_are_relevant_and_so_are_their_passages() -> None:
    documents = (Document("x", "Two here. Five here."), Document("y", "two here!"), Document("z", "Two here."))
    example = Example("q", "Which?", (Span("x", 0, 3),), split="train")
    _, features = prepared(Collection(documents, (example,)))
    (one,) = features.splits["train"]
    assert [sentence.text for sentence in features.sentences] == ["Two here.", "Five here.", "two here!"]
    assert (one.gold, one.relevant) == ((0,), {0, 2})
    assert (one.gold_passages, one.relevant_passages) == ((0,), {0, 1, 2})


def test_only_questions_with_evidence_take_part() -> None:
    _, features = prepared()
    assert (features.n_train, features.n_batches(5)) == (12, 3)
    assert features.questions("dev") == ("b0", "b3", "b6", "b9")


def test_nothing_to_train_on_is_an_error() -> None:
    with pytest.raises(DataError, match="0 training questions with evidence and 13 sentences, where it needs one and"):
        prepared(replace(collection(), examples=()))


# Batches


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("in_batch", [False, True])
def test_a_batch_has_one_gold_a_row_and_nothing_relevant_among_the_negatives(frozen: bool, in_batch: bool) -> None:
    skill, features = prepared()
    epochs = drawn(skill, built(skill, frozen=frozen), features, sources=("random", "gold"), count=2, in_batch=in_batch)
    for batch, n in epochs.epoch(5, np.random.default_rng(3)):
        assert len(batch.questions) == n and batch.gold.sum(dim=1).tolist() == [1] * n
        assert not (batch.gold & batch.negatives).any()
        if in_batch:  # each has one relevant sentence: all others of the batch are its negatives
            assert (batch.gold | batch.negatives).all()
        else:
            assert batch.negatives.sum(dim=1).tolist() == [2] * n
        assert isinstance(batch.sentences, torch.Tensor) is frozen


def test_what_is_gold_for_one_question_is_no_in_batch_negative_of_another_it_answers_too() -> None:
    document = Document("x", "One is here. Two is here. Three is here.")
    both = Example("q", "Which two?", (Span("x", 0, 20),), split="train")
    one = Example("r", "Which?", (Span("x", 14, 20),), split="train")
    skill, features = prepared(Collection((document,), (both, one)))
    for seed in range(10):
        batch = first(drawn(skill, built(skill), features, sources=("random",), count=3), 2, seed)
        assert isinstance(batch.sentences, list)
        columns = [_position(features, tokens) for tokens in batch.sentences]
        row = next(i for i, q in enumerate(batch.questions) if np.array_equal(q, features.splits["train"][0].tokens))
        negative = {column for column, yes in zip(columns, batch.negatives[row], strict=True) if yes}
        assert negative == {2}  # never 0 or 1, which both answer it


def _position(features: RetrieveFeatures, tokens: np.ndarray) -> int:
    return next(i for i, own in enumerate(features.tokens) if np.array_equal(own, tokens))


def test_an_epoch_has_every_question_once_in_an_order_of_its_generator() -> None:
    skill, features = prepared()
    epochs = drawn(skill, built(skill), features)
    runs = [[n for _, n in epochs.epoch(5, np.random.default_rng(seed))] for seed in (0, 0, 1)]
    assert runs[0] == [5, 5, 2] == runs[1]
    same, other = (first(epochs, 12, seed) for seed in (0, 1))
    assert {tuple(q) for q in same.questions} == {tuple(q) for q in other.questions}
    assert [tuple(q) for q in same.questions] != [tuple(q) for q in other.questions]


def test_features_by_themselves_give_keyword_and_gold_negatives() -> None:
    skill, features = prepared()
    batch, n = next(iter(features.epoch(3, np.random.default_rng(0))))
    assert n == 3 and batch.received is None
    assert skill.loss(built(skill), batch).isfinite()


def test_dynamic_negatives_follow_the_model_from_batch_to_batch() -> None:
    skill, features = prepared()
    model = built(skill, frozen=True)
    epochs = drawn(skill, model, features, sources=("dynamic",), count=1, in_batch=False)
    batches = epochs.epoch(12, np.random.default_rng(0))
    before, _ = next(iter(batches))
    vectors = torch.from_numpy(features.vectors(model))
    assert isinstance(before.sentences, torch.Tensor)
    for turn in (before, _turned(model, epochs)):
        with torch.no_grad():
            nearness = model.question_vectors(turn.questions) @ vectors.T
        for row, tokens in enumerate(turn.questions):
            (own,) = (q for q in features.splits["train"] if np.array_equal(q.tokens, tokens))
            nearness[row, list(own.relevant)] = -torch.inf
            chosen = turn.sentences[turn.negatives[row]]
            assert torch.equal(chosen, vectors[nearness[row].argmax()].unsqueeze(0))


def _turned(model: Retriever, epochs: Epochs) -> Batch:
    """A batch after the query tower has changed."""
    with torch.no_grad():
        for parameter in model.query.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * 0.2)
    return first(epochs, 12)


# Loss and learning


def test_the_loss_is_the_mean_over_questions_of_the_contrastive_loss() -> None:
    # With vectors given, scores are s+ and s- of each question: -log e^s+ / (e^s+ + sum e^s-)
    skill, features = prepared(normalise=False)
    model = built(skill)
    vectors = torch.randn(3, 32, generator=torch.Generator().manual_seed(0)) / 5
    own = torch.randn(2, 2, 32, generator=torch.Generator().manual_seed(1)) / 5
    questions = [question.tokens for question in features.splits["train"][:2]]
    with torch.no_grad():
        table = model.question_vectors(questions) @ vectors.T
        given = [model.question_vectors(questions)[i] @ own[i].T for i in (0, 1)]
    first_loss = -torch.log(table[0, 0].exp() / (table[0].exp().sum() + given[0].exp().sum()))
    # The second has no negative in column 0, and its second vector is padding.
    second_loss = -torch.log(table[1, 1].exp() / (table[1, 1:].exp().sum() + given[1][0].exp()))
    batch = Batch(
        questions,
        vectors,
        gold=torch.tensor([[True, False, False], [False, True, False]]),
        negatives=torch.tensor([[False, True, True], [False, False, True]]),
        received=own,
        counted=torch.tensor([[True, True], [True, False]]),
    )
    assert skill.loss(model, batch).item() == pytest.approx((first_loss + second_loss).item() / 2, rel=1e-5)


def test_received_vectors_count_in_the_loss_and_padding_does_not() -> None:
    skill, features = prepared()
    model = built(skill, frozen=True)
    towards = features.vectors(model)[[question.gold[0] - 1 for question in features.splits["train"]]][:, None]
    padding = np.zeros_like(towards)
    options = {"sources": ("fed",), "count": 3, "in_batch": False}
    one, padded, none = (
        skill.loss(model, first(drawn(skill, model, features, given, **options), 12)).item()
        for given in (towards, np.concatenate([padding, towards, padding], axis=1), padding)
    )
    assert one == pytest.approx(padded) and one > 0.1
    assert none == 0.0  # nothing to be set against


@pytest.mark.parametrize("sources", [("bm25", "gold"), ("index", "random"), ("dynamic",), ("fed", "dynamic")])
def test_vectors_encoded_once_give_the_loss_and_gradient_of_encoding_them_each_time(sources: tuple[str, ...]) -> None:
    skill, features = prepared()
    received = np.random.default_rng(5).normal(size=(12, 4, 32)).astype(np.float32)
    values = []
    for recompute in (False, True):
        model = built(skill, frozen=True)
        batch = first(drawn(skill, model, features, received, sources=sources, count=4), 6, seed=2)
        if recompute:
            assert isinstance(batch.sentences, torch.Tensor)
            table = torch.from_numpy(features.vectors(model))
            positions = [int((table == row).all(dim=1).nonzero()[0]) for row in batch.sentences]
            batch = replace(batch, sentences=[features.tokens[i] for i in positions])
        loss = skill.loss(model, batch)
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.query.parameters() if p.grad is not None])
        values.append((loss.item(), gradient))
    assert values[0][0] == pytest.approx(values[1][0], abs=1e-6)
    assert torch.allclose(values[0][1], values[1][1], atol=1e-6)


def test_the_gradient_reaches_both_towers_or_the_query_tower_alone_where_sentences_are_frozen() -> None:
    skill, features = prepared()
    for frozen in (False, True):
        model = built(skill, frozen=frozen)
        skill.loss(model, first(drawn(skill, model, features))).backward()
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.query.parameters())
        assert any(p.grad is not None for p in model.sentence.parameters()) is not frozen


def test_a_frozen_sentence_tower_is_not_used_in_training_once_its_vectors_are_known() -> None:
    skill, features = prepared()
    model = built(skill, frozen=True)
    epochs = drawn(skill, model, features, sources=("dynamic", "bm25"), count=4)
    model.sentence.forward = None  # type: ignore[assignment]
    train(skill, model, epochs, epochs=1, rate=1e-3)


@pytest.mark.parametrize(
    ("sources", "frozen"),
    [(("bm25", "gold"), False), (("index",), False), (("dynamic",), True)],
)
def test_a_tiny_model_learns_its_questions_by_heart(sources: tuple[str, ...], frozen: bool) -> None:
    data = collection()
    tested = tuple(replace(e, id=f"t{e.id}", split="test") for e in data.examples if e.split == "train" and e.evidence)
    learnt = tuple(e for e in data.examples if e.split == "train")
    skill, features = prepared(replace(data, examples=(*learnt, *tested)), max_sentence=24)
    model = built(skill, frozen=frozen)
    losses = train(skill, model, drawn(skill, model, features, sources=sources, count=4), epochs=25, rate=3e-3)
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) / 2
    assert skill.score(model, features, "test")["mrr10"].mean() > 0.9  # by chance (1 + 1/2 + ... + 1/10) / 13 = 0.23


def test_keywords_have_nothing_to_train() -> None:
    skill, features = prepared(form="bm25")
    model = skill.build(backbone(), seed=0).module
    assert list(model.parameters()) == []
    with pytest.raises(ConfigError, match=r"form 'bm25' has nothing to train; use method 'zero_shot', or another form"):
        drawn(skill, model, features)


def test_training_and_scoring_leave_global_generators_alone() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].tolist()
    skill, features = prepared()
    model = built(skill)
    train(skill, model, drawn(skill, model, features, sources=("random", "index"), count=2), epochs=1, rate=1e-3)
    skill.score(model, features, "test")
    assert torch.equal(state, torch.get_rng_state())
    assert np.random.get_state()[1].tolist() == numpy_state


# Scores


def many(n: int = 130) -> Collection:
    """Passages of two sentences, so that cut-offs matter; every tenth sentence is asked for."""
    words = np.random.default_rng(0).integers(0, 40, size=(2 * n, 4))
    sentences = [f"W{' w'.join(map(str, row))} number {i}." for i, row in enumerate(words)]
    documents = tuple(Document(f"d{i}", f"{sentences[2 * i]} {sentences[2 * i + 1]}") for i in range(n))
    examples = [asked("a0", "What?", documents[0], sentences[0], "train")]
    for i in range(0, 2 * n, 10):
        text = f"what is w{' w'.join(map(str, words[i][:2]))} of case {i}?"
        examples.append(asked(f"t{i}", text, documents[i // 2], sentences[i], "test"))
    return Collection(documents, tuple(examples))


@pytest.mark.parametrize("form", ["dense", "bm25", "hybrid"])
def test_scores_agree_with_ir_measures_over_all_sentences_and_passages(form: str) -> None:
    skill, features = prepared(many(), form=form)
    model = skill.build(backbone(), seed=0).module
    scores = skill.score(model, features, "test")
    assert set(scores) == METRICS and all(values.shape == (26,) for values in scores.values())
    for n, question in enumerate(features.splits["test"]):
        (values,) = skill._table(model, features, [question.text], [question.tokens])
        best: dict[str, float] = {}
        for sentence, value in zip(features.sentences, values, strict=True):
            best[sentence.places[0].document] = max(float(value), best.get(sentence.places[0].document, -np.inf))
        sentences = {sentence.id: float(value) for sentence, value in zip(features.sentences, values, strict=True)}
        gold = features.sentences[question.gold[0]].places[0]
        for prefix, ranked, right in (("", sentences, gold.id), ("p_", best, gold.document)):
            order = sorted(ranked, key=lambda id: (ranked[id], id), reverse=True)
            run = [ScoredDoc("q", id, float(len(order) - place)) for place, id in enumerate(order)]
            expected = ir_measures.calc_aggregate([RR @ 10, R @ 1, R @ 20, R @ 100], [Qrel("q", right, 1)], run)
            for name, measure in {"mrr10": RR @ 10, "r1": R @ 1, "r20": R @ 20, "r100": R @ 100}.items():
                assert scores[prefix + name][n] == pytest.approx(expected[measure]), (question.id, prefix + name)


def test_with_one_gold_sentence_passages_are_found_at_least_as_often_as_sentences() -> None:
    skill, features = prepared(many())
    scores = skill.score(built(skill), features, "test")
    for name in ("mrr10", "r1", "r20", "r100"):
        assert (scores[f"p_{name}"] >= scores[name]).all()


def test_a_copy_of_gold_elsewhere_is_neither_right_nor_wrong() -> None:
    # "two here!" has gold's words, scores the same by keywords and would tie with it: it is left out, its passage too.
    documents = (Document("x", "Two here. Five there."), Document("y", "two here!"), Document("z", "Six there."))
    train = Example("q", "Which are here?", (Span("x", 10, 12),), split="train")
    tested = Example("r", "Two here?", (Span("x", 0, 3),), split="test")
    skill, features = prepared(Collection(documents, (train, tested)), form="bm25")
    scores = skill.score(skill.build(backbone(), seed=0).module, features, "test")
    assert scores["r1"].tolist() == scores["p_r1"].tolist() == [1.0]


def test_sentences_are_encoded_once_for_dev_and_test_of_a_model() -> None:
    skill, features = prepared()
    model = built(skill)
    skill.score(model, features, "dev")
    kept = features.vectors(model)
    with torch.no_grad():
        next(model.query.parameters()).mul_(2)
    skill.score(model, features, "test")
    assert features.vectors(model) is kept
    with torch.no_grad():
        next(model.sentence.parameters()).mul_(2)
    assert not np.allclose(features.vectors(model), kept)


def test_keyword_scores_put_the_clause_that_names_the_topic_first() -> None:
    skill, features = prepared(form="bm25")
    scores = skill.score(skill.build(backbone(), seed=0).module, features, "dev")
    assert scores["r1"].tolist() == scores["p_r1"].tolist() == [1.0] * 4


def test_fusion_adds_reciprocal_ranks_and_keywords_count_only_where_a_word_is_shared() -> None:
    skill, features = prepared(form="hybrid")
    model = built(skill)
    dense = Retrieve().rank(model, features, "pets office", 13)
    ranks = {sentence.id: place for place, (sentence, _) in enumerate(dense, start=1)}
    keywords = [features.sentences[i] for i in features.index.top("pets office", 2)]
    for sentence, score in skill.rank(model, features, "pets office", 13):
        expected = 1 / (60 + ranks[sentence.id])
        if sentence in keywords:  # only the two sentences with "pets" and with "office"
            expected += 1 / (61 + keywords.index(sentence))
        assert score == pytest.approx(expected)


@pytest.mark.parametrize("form", ["dense", "bm25", "hybrid"])
def test_a_split_without_questions_scores_nothing(form: str) -> None:
    data = collection()
    skill, features = prepared(replace(data, examples=tuple(e for e in data.examples if e.split != "dev")), form=form)
    scores = skill.score(skill.build(backbone(), seed=0).module, features, "dev")
    assert {name: values.shape for name, values in scores.items()} == dict.fromkeys(METRICS, (0,))


@pytest.mark.parametrize("form", ["dense", "hybrid"])
def test_a_diverged_model_is_an_error_and_not_a_score(form: str) -> None:
    skill, features = prepared(form=form)
    model = built(skill)
    next(model.query.parameters()).data.fill_(torch.nan)
    with pytest.raises(ModelError, match="diverged"):
        skill.score(model, features, "test")


def test_scoring_keeps_the_mode_the_model_was_in() -> None:
    skill, features = prepared()
    model = built(skill)
    for mode in (True, False):
        model.train(mode)
        skill.score(model, features, "test")
        assert model.training is mode


def test_a_trunk_changes_no_score() -> None:
    skill, features = prepared()
    whole = skill.score(built(skill), features, "test")
    cut = frozen_below(backbone(), 1)
    lower = skill.score(skill.build(cut, seed=0).module, skill.prepare(collection(), cut, seed=0), "test")
    assert {name: values.tolist() for name, values in lower.items()} == {n: v.tolist() for n, v in whole.items()}


# Asking


def test_asking_ranks_all_sentences_best_first() -> None:
    skill, features = prepared()
    ranked = skill.rank(built(skill), features, "What of snow?", 99)
    assert len(ranked) == 13 == len({sentence.id for sentence, _ in ranked})
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)


def test_vectors_at_hand_give_the_same_ranking_without_encoding_sentences_again() -> None:
    skill, features = prepared()
    model = built(skill)
    vectors = skill.sentence_vectors(model, features)
    assert vectors.shape == (13, 32)
    expected = skill.rank(model, features, "snow?", 3)
    model.sentence.forward = None  # type: ignore[assignment]
    assert skill.rank(model, features, "snow?", 3, vectors=vectors) == expected


def test_keywords_rank_without_vectors() -> None:
    skill, features = prepared(form="bm25")
    model = skill.build(backbone(), seed=0).module
    assert skill.sentence_vectors(model, features).shape == (13, 0)
    assert skill.rank(model, features, "about pets", 1)[0][0].text == "The clause on pets pays up to 9 pounds."
    assert len(skill.rank(model, features, "", 5)) == 5


# Whole runs


@pytest.mark.parametrize(
    ("method", "form"), [("zero_shot", "dense"), ("zero_shot", "bm25"), ("zero_shot", "hybrid"), ("fedavg", "dense")]
)
def test_a_run_on_two_sample_silos_scores_all_metrics(method: str, form: str, tmp_path: Path) -> None:
    alliance = sample_alliance(
        method,
        model="tiny",
        rounds=1,
        skills={"retrieve": {"form": form, "max_sentence": 24, "max_question": 12}},
    )
    silos = tuple(replace(entry, skill="retrieve", limit=8) for entry in alliance.silo[:2])
    course = course_of(replace(alliance, silo=silos))
    data = {entry.name: read_silo(entry.name, entry.silo_data(), Path(), 13) for entry in silos}
    result = run_setting(build(course, data, tmp_path), processes=1)
    assert result["refused"] == []
    for silo in data:
        scores = result["silos"][silo]["personal"]["test"]
        assert set(scores) == METRICS
        assert scores["r1"] <= scores["r20"] <= scores["r100"]
