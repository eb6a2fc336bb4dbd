# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, DistilBertConfig, RobertaConfig, T5Config, T5ForConditionalGeneration

from fedqa.answering.assistant import Assistant
from fedqa.config import Project, project_of, sample_alliance
from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.errors import ConfigError, DataError, ModelError
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.runs import build, read_silo
from fedqa.runs import train as run
from fedqa.skills.bm25 import KeywordIndex
from fedqa.skills.match import KINDS, LossName, Match, MatchFeatures, MatchOptions
from fedqa.skills.skill import Skill

TOPICS = ["snow", "hail", "fire", "theft", "flood", "glass", "travel", "pets", "bikes", "phones", "jewels", "gardens"]
ENCODING = ("dual", "cross", "residual")  # those that train the backbone
ALIGNING = ("esim", "re2")  # those that read pairs over its word vectors
LOSSES: tuple[LossName, ...] = ("hinge", "cross_entropy", "listwise")


@cache
def backbone(spec: str = "tiny") -> Backbone:
    return load_backbone(spec, seed=1)


def question(id: str, text: str, document: int, split: Split) -> Example:
    return Example(id, text, (Span(f"d{document}", 0, 3),), split=split)


@cache
def collection() -> Collection:
    """Twelve one-passage documents; on each a question for training, on every third also one for dev and test."""
    documents = tuple(
        Document(f"d{i}", f"The clause on {topic} pays up to {i + 2} pounds.") for i, topic in enumerate(TOPICS)
    )
    examples = [question(f"a{i}", f"How much for {topic}?", i, "train") for i, topic in enumerate(TOPICS)]
    for i in range(0, len(TOPICS), 3):
        examples.append(question(f"b{i}", f"What does the clause on {TOPICS[i]} pay?", i, "dev"))
        examples.append(question(f"c{i}", f"Is there money for {TOPICS[i]}?", i, "test"))
    examples.append(Example("none", "Who is the king?", split="train"))
    return Collection(documents, tuple(examples))


def prepared(data: Collection | None = None, **options: Any) -> tuple[Match, MatchFeatures]:
    skill = Match(MatchOptions(**options))
    return skill, skill.prepare(data or collection(), backbone(), seed=0)


def train(skill: Match, model: torch.nn.Module, features: MatchFeatures, *, epochs: int, rate: float) -> list[float]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    rng, losses = np.random.default_rng(0), []
    model.train()
    for _ in range(epochs):
        for batch, _ in features.epoch(4, rng):
            loss = skill.loss(model, batch)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())
    return losses


@pytest.fixture
def seeded() -> Iterator[None]:
    """Dropout draws from torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def test_match_is_a_skill() -> None:
    skill: Skill = Match()
    assert (skill.name, skill.higher_is_better) == ("match", "map")


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"interaction": "double"},
            r"unknown interaction of match 'double'.*known: bm25, cross, dual, esim, re2, residual",
        ),
        ({"loss": "list"}, r"unknown loss of match 'list'; did you mean 'listwise'"),
        ({"negatives": 0}, "negatives must be at least 1, got 0"),
        ({"train_negatives": 0}, "train_negatives must be at least 1, got 0"),
        ({"train_negatives": 6}, r"drawn from negatives, so at most 5, got 6 \(or raise negatives\)"),
        ({"candidates": -1}, "candidates must be at least 1, got -1"),
        ({"max_question": 7}, "max_question must be at least 8, got 7"),
        ({"margin": 0.0}, r"margin must be above 0, got 0\.0"),
        ({"scale": float("nan")}, "scale must be above 0, got nan"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_is_accepted(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MatchOptions(**options)


def test_texts_longer_than_the_models_positions_are_refused() -> None:
    Match(MatchOptions(max_passage=512)).prepare(collection(), backbone(), seed=0)
    with pytest.raises(ConfigError, match=r"560 tokens .* into the 512 positions of 'tiny'; lower max_passage"):
        Match(MatchOptions(interaction="cross", max_passage=512)).prepare(collection(), backbone(), seed=0)
    for interaction in (*ALIGNING, "bm25"):  # which have no positions
        Match(MatchOptions(interaction=interaction, max_passage=2000)).prepare(collection(), backbone(), seed=0)


# Features


def test_only_questions_with_evidence_take_part() -> None:
    _, features = prepared()
    assert features.n_train == 12
    assert features.questions("dev") == ("b0", "b3", "b6", "b9")
    assert features.questions("test") == ("c0", "c3", "c6", "c9")


def test_each_question_has_the_asked_number_of_passages_that_are_not_gold() -> None:
    _, features = prepared(negatives=4, candidates=3)
    for split, count in (("train", 4), ("dev", 3), ("test", 3)):
        for one in features.splits[split]:
            assert len(one.others) == len(set(one.others)) == count
            assert not one.relevant.intersection(one.others)


def test_a_copy_of_a_gold_passage_is_never_a_candidate() -> None:
    data = collection()
    twin = Document("twin", data.documents[0].text)
    _, features = prepared(replace(data, documents=(*data.documents, twin)), negatives=12, candidates=12)
    (asked,) = (one for one in features.splits["train"] if one.id == "a0")
    assert (asked.gold, asked.relevant) == ((0,), {0, 12})
    assert set(asked.others) == set(range(1, 12))


def test_preparing_twice_gives_the_same_lists() -> None:
    lists = [[one.others for one in prepared()[1].splits["test"]] for _ in range(2)]
    assert lists[0] == lists[1]


def test_nothing_to_train_on_is_an_error() -> None:
    data = collection()
    asked = tuple(example for example in data.examples if example.split == "test")
    with pytest.raises(DataError, match=r"0 training questions with evidence and 12 passages"):
        prepared(replace(data, examples=asked))


def test_a_single_passage_is_nothing_to_choose_from() -> None:
    data = collection()
    with pytest.raises(DataError, match=r"1 training questions with evidence and 1 passages"):
        prepared(Collection(data.documents[:1], data.examples[:1]))


# Epochs


@pytest.mark.parametrize("size", [1, 5, 12, 100])
def test_an_epoch_holds_every_question_once(size: int) -> None:
    _, features = prepared()
    batches = list(features.epoch(size, np.random.default_rng(3)))
    assert len(batches) == features.n_batches(size)
    assert sum(n for _, n in batches) == features.n_train
    seen = sorted(tuple(tokens) for batch, _ in batches for tokens in batch.questions)
    assert seen == sorted(tuple(one.tokens) for one in features.splits["train"])


def test_the_order_depends_on_the_generator_alone() -> None:
    _, features = prepared()

    def order(seed: int) -> list[tuple[int, ...]]:
        batches = features.epoch(2, np.random.default_rng(seed))
        return [tuple(tokens) for batch, _ in batches for tokens in (*batch.questions, *batch.passages)]

    assert order(1) == order(1) != order(2)


def test_the_batches_of_an_epoch_need_little_padding() -> None:
    words = "word " * 200
    documents = tuple(Document(f"d{i}", f"{i} {words[: 5 * (i + 1)]}") for i in range(64))
    examples = tuple(question(f"a{i}", f"number {i}?", i, "train") for i in range(64))
    _, features = prepared(Collection(documents, examples), negatives=1, train_negatives=1, in_batch=False)
    batches = features.epoch(4, np.random.default_rng(0))
    drawn = [np.mean([len(tokens) for tokens in batch.passages]) for batch, _ in batches]
    assert max(drawn) - min(drawn) > 20  # sorted: some batches are long throughout, some short
    assert drawn != sorted(drawn)  # and then shuffled


def test_a_batch_without_in_batch_negatives_holds_each_questions_own() -> None:
    _, features = prepared(in_batch=False, train_negatives=3)
    for batch, n in features.epoch(4, np.random.default_rng(0)):
        assert batch.gold.shape == batch.negatives.shape == (n, len(batch.passages))
        assert batch.gold.sum(dim=1).tolist() == [1] * n
        assert batch.negatives.sum(dim=1).tolist() == [3] * n
        assert not (batch.gold & batch.negatives).any()


def test_in_batch_negatives_are_all_passages_that_are_not_relevant_to_the_question() -> None:
    data = collection()
    # Both of the first two questions have both of the first two passages for gold.
    both = (Span("d0", 0, 3), Span("d1", 0, 3))
    examples = tuple(replace(e, evidence=both) if e.id in ("a0", "a1") else e for e in data.examples)
    _, features = prepared(replace(data, examples=examples))
    (batch, n) = next(iter(features.epoch(12, np.random.default_rng(0))))
    assert n == 12
    left_out = len(batch.passages) - (batch.gold | batch.negatives).sum(dim=1)
    relevant = {tuple(one.tokens): one.relevant for one in features.splits["train"]}
    present = [i for i, tokens in enumerate(features.tokens) if any(np.array_equal(tokens, p) for p in batch.passages)]
    expected = [len(relevant[tuple(q)].intersection(present)) - 1 for q in batch.questions]
    assert left_out.tolist() == expected
    assert batch.gold.sum(dim=1).tolist() == [1] * 12


def test_in_batch_negatives_are_for_dual_and_listwise_only() -> None:
    for options in ({"interaction": "cross"}, {"interaction": "esim"}, {"interaction": "re2"}, {"loss": "hinge"}):
        _, features = prepared(train_negatives=1, **options)
        batch, n = next(iter(features.epoch(4, np.random.default_rng(0))))
        assert batch.negatives.sum().item() == n


def test_a_question_with_several_gold_passages_uses_each_in_time() -> None:
    data = collection()
    examples = (replace(data.examples[0], evidence=(Span("d0", 0, 3), Span("d1", 0, 3))),)
    _, features = prepared(replace(data, examples=examples))
    rng, drawn = np.random.default_rng(0), set()
    for _ in range(20):
        ((batch, _),) = features.epoch(4, rng)
        drawn.add(tuple(batch.passages[int(batch.gold[0].int().argmax())]))
    assert drawn == {tuple(features.tokens[0]), tuple(features.tokens[1])}


# Model


@pytest.mark.parametrize("interaction", ENCODING)
def test_the_head_is_tagged_and_the_backbone_keeps_its_tags(interaction: str) -> None:
    model = Match(MatchOptions(interaction=interaction, loss="cross_entropy")).build(backbone(), seed=0)
    heads = {name for name, tags in model.tags.items() if "head" in tags}
    assert heads == {name for name in model.tags if not name.startswith("encoder.")} != set()
    assert model.tags["encoder.embeddings.word_embeddings.weight"] == {"embeddings", "words"}


def test_building_twice_gives_the_same_weights_and_leaves_the_backbone_alone() -> None:
    skill, before = Match(MatchOptions(interaction="cross")), backbone().fingerprint()
    first, again, other = (skill.build(backbone(), seed).module for seed in (1, 1, 2))
    for (name, a), (_, b), (_, c) in zip(*(m.named_parameters() for m in (first, again, other)), strict=True):
        assert torch.equal(a, b), name
        assert torch.equal(a, c) == (name != "cross.weight"), name
    next(first.parameters()).data.zero_()
    assert load_backbone("tiny", seed=1).fingerprint() == before


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_heads": 2, "num_layers": 1}
    T5ForConditionalGeneration(T5Config(vocab_size=30522, **sizes)).save_pretrained(tmp_path)
    backbone().tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"match needs an encoder, but .* is an encoder-decoder"):
        Match().build(load_backbone(str(tmp_path)), seed=0)
    for interaction in (*ALIGNING, "bm25"):  # word vectors, or nothing, are to be had from any model
        skill, other = Match(MatchOptions(interaction=interaction)), load_backbone(str(tmp_path))
        features, model = skill.prepare(collection(), other, seed=0), skill.build(other, seed=0)
        assert skill.score(model.module, features, "test")["map"].shape == (4,)
        assert all("words" in tags or tags == {"head"} for tags in model.tags.values())


@pytest.mark.parametrize("interaction", [*ENCODING, *ALIGNING])
@pytest.mark.parametrize(
    "config",
    [
        DistilBertConfig(vocab_size=30522, dim=8, hidden_dim=8, n_heads=2, n_layers=1),
        RobertaConfig(vocab_size=30522, hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1),
    ],
    ids=lambda config: config.model_type,
)
def test_encoders_without_segments_match_too(config: Any, interaction: str, tmp_path: Path) -> None:
    AutoModel.from_config(config).save_pretrained(tmp_path)
    backbone().tokenizer.save_pretrained(tmp_path)
    skill, other = Match(MatchOptions(interaction=interaction)), load_backbone(str(tmp_path))
    features, model = skill.prepare(collection(), other, seed=0), skill.build(other, seed=0).module
    batch, _ = next(iter(features.epoch(4, np.random.default_rng(0))))
    skill.loss(model, batch).backward()
    assert skill.score(model, features, "test")["map"].shape == (4,)


# Loss and learning


def test_a_loss_is_the_chosen_function_of_the_scores() -> None:
    # cosine scores s of gold and one negative: with listwise the loss is log(1 + exp(s- - s+))
    skill, features = prepared(train_negatives=1, in_batch=False)
    model = skill.build(backbone(), seed=0).module.eval()
    batch, _ = next(iter(features.epoch(1, np.random.default_rng(0))))
    scores = model(batch.questions, batch.passages, batch.gold | batch.negatives)
    apart = (scores[batch.negatives] - scores[batch.gold]).item()
    assert skill.loss(model, batch).item() == pytest.approx(np.log1p(np.exp(apart)), rel=1e-5)
    for loss, expected in (("hinge", max(0.0, 2.0 + apart)), ("listwise", np.log1p(np.exp(apart)))):
        other = Match(replace(skill.options, loss=loss, margin=2.0))
        assert other.loss(model, batch).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("interaction", ENCODING)
def test_every_interaction_that_trains_the_backbone_learns_with_every_loss(interaction: str, loss: LossName) -> None:
    skill, features = prepared(interaction=interaction, loss=loss, max_passage=24)
    model = skill.build(backbone(), seed=0).module
    losses = train(skill, model, features, epochs=8, rate=3e-3)
    assert np.isfinite(losses).all()
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


def test_a_tiny_model_learns_to_match_topics_in_words_it_saw_with_other_topics() -> None:
    forms = ["How much for {}?", "What does the clause on {} pay?", "Is there money for {}?", "{}: how many pounds?"]
    examples = tuple(
        question(f"{i}-{k}", form.format(topic), i, "test" if (i + k) % 4 == 0 else "train")
        for i, topic in enumerate(TOPICS)
        for k, form in enumerate(forms)
    )
    skill, features = prepared(Collection(collection().documents, examples))
    model = skill.build(backbone(), seed=0).module
    before = skill.score(model, features, "test")["map"].mean()
    train(skill, model, features, epochs=15, rate=3e-3)
    after = skill.score(model, features, "test")["map"].mean()
    assert after > max(0.9, before)  # by chance: (1 + 1/2 + ... + 1/6) / 6 = 0.41


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("interaction", ALIGNING)
def test_an_aligner_learns_eight_questions_by_heart_with_every_loss(interaction: str, loss: LossName) -> None:
    data = collection()
    asked = tuple(replace(e, split=split) for e in data.examples[:8] for split in ("train", "test"))
    renamed = tuple(replace(e, id=f"{e.id}-{e.split}") for e in asked)
    skill, features = prepared(replace(data, examples=renamed), interaction=interaction, loss=loss)
    model = skill.build(backbone(), seed=0).module
    before = model.get_parameter("words.weight").clone()
    losses = train(skill, model, features, epochs=40, rate=1e-3)
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) / 2
    assert skill.score(model, features, "test")["p1"].tolist() == [1.0] * 8  # by chance: 1/6 each
    assert torch.equal(model.get_parameter("words.weight"), before)


def test_keywords_have_nothing_to_train() -> None:
    skill, features = prepared(interaction="bm25")
    batch, _ = next(iter(features.epoch(4, np.random.default_rng(0))))
    with pytest.raises(ConfigError, match=r"interaction 'bm25' has nothing to train; use method 'zero_shot'"):
        skill.loss(skill.build(backbone(), seed=0).module, batch)


def test_training_and_scoring_without_dropout_leave_global_generators_alone() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].tolist()
    skill, features = prepared(interaction="residual")
    model = skill.build(backbone(), seed=0).module
    train(skill, model, features, epochs=1, rate=1e-3)
    skill.score(model, features, "test")
    assert torch.equal(state, torch.get_rng_state())
    assert np.random.get_state()[1].tolist() == numpy_state


# Scores


@pytest.mark.parametrize("interaction", KINDS)
def test_scores_are_one_value_per_question_and_metric(interaction: str) -> None:
    skill, features = prepared(interaction=interaction)
    scores = skill.score(skill.build(backbone(), seed=0).module, features, "test")
    assert set(scores) == {"map", "mrr", "p1"}
    assert all(values.shape == (4,) and (values >= 0).all() and (values <= 1).all() for values in scores.values())


def test_with_one_gold_passage_the_average_precision_is_the_reciprocal_rank() -> None:
    skill, features = prepared()
    model = skill.build(backbone(), seed=0).module
    scores = skill.score(model, features, "dev")
    assert scores["map"] == pytest.approx(scores["mrr"])
    # Rank by hand: one more than the number of candidates that score higher than gold.
    for value, one in zip(scores["mrr"], features.splits["dev"], strict=True):
        tokens = [features.tokens[i] for i in (*one.gold, *one.others)]
        row = model.eval()([one.tokens], tokens, torch.ones(1, len(tokens), dtype=torch.bool))[0]
        assert value == pytest.approx(1 / (1 + (row[1:] > row[0]).sum().item()))


def test_keyword_scores_are_those_of_the_index() -> None:
    skill, features = prepared(interaction="bm25", candidates=11)
    index = KeywordIndex([document.text for document in collection().documents])
    scores = skill.score(skill.build(backbone(), seed=0).module, features, "dev")
    # Each dev question names its topic, which is in the gold passage alone: keywords put that one first.
    assert [index.top(f"What does the clause on {TOPICS[i]} pay?", 1) for i in (0, 3, 6, 9)] == [[0], [3], [6], [9]]
    assert scores["p1"].tolist() == [1.0] * 4


@pytest.mark.parametrize("interaction", KINDS)
def test_a_split_without_questions_scores_nothing(interaction: str) -> None:
    data = collection()
    examples = tuple(e for e in data.examples if e.split != "dev")
    skill, features = prepared(replace(data, examples=examples), interaction=interaction)
    scores = skill.score(skill.build(backbone(), seed=0).module, features, "dev")
    assert {name: values.shape for name, values in scores.items()} == {"map": (0,), "mrr": (0,), "p1": (0,)}


def test_more_than_ten_gold_passages_are_ranked_as_ten() -> None:
    data = collection()
    everywhere = tuple(Span(document.id, 0, 3) for document in data.documents[:11])
    asked = Example("many", "What does everybody pay?", everywhere, split="test")
    skill, features = prepared(replace(data, examples=(data.examples[0], asked)))
    (one,) = features.splits["test"]
    assert (len(one.gold), one.others) == (11, (11,))
    # Ten gold passages and one other: at the worst, the other stands first and gold at ranks 2 to 11.
    (value,) = skill.score(skill.build(backbone(), seed=0).module, features, "test")["map"]
    assert value >= sum(k / (k + 1) for k in range(1, 11)) / 10 - 1e-9


def test_scoring_keeps_the_mode_the_model_was_in() -> None:
    skill, features = prepared()
    model = skill.build(backbone(), seed=0).module
    for mode in (True, False):
        model.train(mode)
        skill.score(model, features, "test")
        assert model.training is mode


def test_a_diverged_model_is_an_error_and_not_a_score() -> None:
    skill, features = prepared()
    model = skill.build(backbone(), seed=0).module
    model.log_scale.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="diverged"):
        skill.score(model, features, "test")


def test_the_embedded_model_starts_as_a_good_matcher_with_dual_and_residual() -> None:
    values = []
    for interaction in ("dual", "residual"):
        skill = Match(MatchOptions(interaction=interaction))
        features = skill.prepare(collection(), backbone("embedded"), seed=0)
        values.append(skill.score(skill.build(backbone("embedded"), seed=0).module, features, "test")["map"])
    assert values[0].mean() == 1.0
    assert values[1].tolist() == values[0].tolist()


# Asking


def test_asking_ranks_all_passages_by_the_dual_score() -> None:
    skill = Match()
    features = skill.prepare(collection(), backbone("embedded"), seed=0)
    model = skill.build(backbone("embedded"), seed=0).module
    ranked = skill.rank(model, features, "My bicycle is gone, what do I get?", 12)
    assert ranked[0][0].id == "d8#0"  # bikes, without a word in common
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
    assert len(ranked) == 12


def test_vectors_at_hand_give_the_same_ranking_without_encoding_passages_again() -> None:
    skill, features = prepared()
    model = skill.build(backbone(), seed=0).module
    vectors = skill.passage_vectors(model, features)
    assert vectors.shape == (12, 32) and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert skill.rank(model, features, "snow?", 3) == skill.rank(model, features, "snow?", 3, vectors=vectors)
    turned = skill.rank(model, features, "snow?", 12, vectors=-vectors)
    assert [p.id for p, _ in turned] == [p.id for p, _ in reversed(skill.rank(model, features, "snow?", 12))]


@pytest.mark.parametrize("interaction", ["cross", "residual", *ALIGNING])
def test_models_that_read_pairs_rerank_fifty_passages(interaction: str) -> None:
    documents = tuple(Document(f"d{i}", f"entry {i} about {'snow' if i == 77 else 'rain'}") for i in range(80))
    data = Collection(documents, (question("a", "entry 3", 3, "train"),))
    skill, features = prepared(data, interaction=interaction)
    ranked = skill.rank(skill.build(backbone(), seed=0).module, features, "where is snow", 100)
    assert len(ranked) == 50
    assert "d77#0" in {passage.id for passage, _ in ranked}


@pytest.mark.parametrize("interaction", ALIGNING)
def test_without_vectors_the_fifty_are_the_best_by_keywords(interaction: str) -> None:
    # "snow" is in every third passage: those 27 come first, then the others in their order.
    documents = tuple(Document(f"d{i}", f"entry {i} about {'rain' if i % 3 else 'snow'}") for i in range(80))
    skill, features = prepared(Collection(documents, (question("a", "entry 3", 3, "train"),)), interaction=interaction)
    ranked = skill.rank(skill.build(backbone(), seed=0).module, features, "snow", 100)
    best = [*range(0, 80, 3), *[i for i in range(80) if i % 3][:23]]
    assert {passage.id for passage, _ in ranked} == {f"d{i}#0" for i in best}
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)


@pytest.mark.parametrize("asked", ["What does the clause on pets pay?", "hail or fire", "pounds", "nothing known", ""])
def test_keywords_rank_all_passages_as_the_index_does(asked: str) -> None:
    skill, features = prepared(interaction="bm25")
    ranked = skill.rank(skill.build(backbone(), seed=0).module, features, asked, 12)
    order = features.index.top(asked, 12)
    assert [passage for passage, _ in ranked] == [features.passages[i] for i in order]
    assert [score for _, score in ranked] == features.index.scores(asked)[order].tolist()


@pytest.mark.parametrize("interaction", [*ALIGNING, "bm25"])
def test_models_without_vectors_have_empty_ones_that_change_nothing(interaction: str) -> None:
    skill, features = prepared(interaction=interaction)
    model = skill.build(backbone(), seed=0).module
    vectors = skill.passage_vectors(model, features)
    assert vectors.shape == (12, 0)
    assert skill.rank(model, features, "snow?", 3) == skill.rank(model, features, "snow?", 3, vectors=vectors)


@pytest.mark.parametrize("interaction", [*ENCODING, *ALIGNING])
def test_any_texts_can_be_scored_for_a_question(interaction: str) -> None:
    skill, features = prepared(interaction=interaction)
    model = skill.build(backbone(), seed=0).module
    every = dict(skill.rank(model, features, "fire or flood?", 12))
    texts = [passage.text for passage in features.passages]
    expected = [every[passage] for passage in features.passages]
    assert skill.scores_of(model, features, "fire or flood?", texts).tolist() == pytest.approx(expected, abs=1e-5)
    assert skill.scores_of(model, features, "fire?", []).shape == (0,)


def test_keywords_score_texts_among_themselves() -> None:
    skill, features = prepared(interaction="bm25")
    model, texts = skill.build(backbone(), seed=0).module, ["Nothing here.", "It pays for fire.", "Fire, or smoke?"]
    scores = skill.scores_of(model, features, "Is smoke covered?", texts)
    assert scores.tolist() == KeywordIndex(texts).scores("Is smoke covered?").tolist()
    assert scores.argmax() == 2 and scores[:2].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("interaction", KINDS)
def test_a_question_of_no_words_still_gets_a_ranking(interaction: str) -> None:
    skill, features = prepared(interaction=interaction)
    assert len(skill.rank(skill.build(backbone(), seed=0).module, features, "", 5)) == 5


# Whole runs


def project(method: str, interaction: str) -> Project:
    """Two organisations of the sample alliance, with eight questions each."""
    options = {"match": {"interaction": interaction, "max_passage": 24, "max_question": 12}}
    settings = {"model": "tiny", "rounds": 2, "skills": options, "local": {"learning_rate": 1e-3}}
    alliance = sample_alliance(method, **settings)
    made = project_of(replace(alliance, silo=alliance.silo[:2]))
    return replace(made, data={name: replace(entry, limit=8) for name, entry in made.data.items()})


@pytest.mark.parametrize(
    ("method", "interaction"),
    [("zero_shot", "bm25"), ("zero_shot", "esim"), ("isolated", "esim"), ("isolated", "re2"), ("fedavg", "re2")],
)
def test_a_run_trains_scores_and_answers(method: str, interaction: str, tmp_path: Path) -> None:
    result = run(project(method, interaction), tmp_path / "run", processes=1)
    assert result["refused"] == []
    assert set(result["silos"]["hospital"]["personal"]["test"]) == {"map", "mrr", "p1"}
    assert (result["bytes_up"] > 1_000_000) is (method == "fedavg")  # what always goes up is a few counts and scores
    found = Assistant.open(tmp_path / "run", "hospital").nearest("When may visitors come?", 2)
    assert len(found) == 2 and all(answer.evidence in answer.passage for answer in found)


@pytest.mark.parametrize("method", ["isolated", "fedavg"])
def test_all_of_an_aligner_is_trained_but_its_words(method: str, tmp_path: Path) -> None:
    made = project(method, "esim")
    collections = {name: read_silo(name, data, made.folder, 13) for name, data in made.data.items()}
    setting = build(made.course, collections, tmp_path)
    layout = setting.workshop.bench(setting.silos[0].skill, 0).model.layout
    assert [entry.name for entry in layout.frozen] == ["words.weight"]


def test_a_course_that_would_train_keywords_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='a model without parameters cannot be trained; take method = "zero_shot"'):
        run(project("isolated", "bm25"), tmp_path / "run", processes=1)
