# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from fedqa.errors import ModelError
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.encoding import tokenised
from fedqa.models.retriever import Pooling, Retriever, retriever
from fedqa.models.tagging import tags_of

BACKBONE = load_backbone("tiny", seed=3)
QUESTIONS = tokenised(BACKBONE.tokenizer, ["who pays?", "what is covered by the policy in winter?"], 48)
SENTENCES = tokenised(BACKBONE.tokenizer, ["the insurer pays", "snow", "rain and hail are covered, and storms"], 48)


def towers(pooling: Pooling = "mean", *, normalise: bool = True, backbone: Backbone = BACKBONE) -> Retriever:
    module = retriever(backbone, question_pooling=pooling, normalise=normalise, scale=20.0).module.eval()
    assert isinstance(module, Retriever)
    return module


def states(text: str) -> torch.Tensor:
    encoded = BACKBONE.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        found: torch.Tensor = BACKBONE.encoder(**encoded).last_hidden_state[0]
    return found


def test_both_towers_start_from_the_same_weights_and_share_none() -> None:
    model = towers()
    pairs = list(zip(model.query.parameters(), model.sentence.parameters(), strict=True))
    assert all(torch.equal(one, other) for one, other in pairs)
    assert all(one.data_ptr() != other.data_ptr() for one, other in pairs)


def test_a_parameter_has_the_tags_of_the_backbone_and_of_its_tower() -> None:
    tagged = retriever(BACKBONE, question_pooling="mean", normalise=True, scale=20.0)
    assert len(tagged.tags) == 2 * len(BACKBONE.tags)
    for name, tags in BACKBONE.tags.items():
        assert tagged.tags[f"query.{name}"] == tags | {"tower.query"}
        assert tagged.tags[f"sentence.{name}"] == tags | {"tower.sentence"}


@pytest.mark.parametrize("normalise", [True, False])
def test_a_sentence_is_the_mean_of_its_states_and_a_question_what_was_asked_for(normalise: bool) -> None:
    question, sentence = states("who pays?"), states("the insurer pays")
    expected = {"cls": question[0], "mean": question.mean(dim=0), "sentence": sentence.mean(dim=0)}
    if normalise:
        expected = {name: vector / vector.norm() for name, vector in expected.items()}
    cls, mean = towers("cls", normalise=normalise), towers("mean", normalise=normalise)
    assert torch.allclose(cls.question_vectors(QUESTIONS[:1])[0], expected["cls"], atol=1e-6)
    assert torch.allclose(mean.question_vectors(QUESTIONS[:1])[0], expected["mean"], atol=1e-6)
    for model in (cls, mean):
        assert torch.allclose(model.sentence_vectors(SENTENCES[:1])[0], expected["sentence"], atol=1e-6)


def test_a_score_is_the_scaled_cosine_or_the_plain_dot_product() -> None:
    questions, sentences = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [-1.0, 0.5]])
    assert towers().scores(questions, sentences).tolist() == [[20 * 11.0, 0.0]]
    assert towers(normalise=False).scores(questions, sentences).tolist() == [[11.0, 0.0]]


def test_each_question_can_be_scored_with_vectors_of_its_own() -> None:
    questions = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    own = torch.tensor([[[3.0, 4.0], [1.0, 0.0]], [[5.0, 6.0], [7.0, 8.0]]])
    assert towers(normalise=False).scores(questions, own).tolist() == [[11.0, 1.0], [6.0, 8.0]]


def test_calling_the_model_scores_every_question_with_every_sentence() -> None:
    model = towers()
    expected = 20 * model.question_vectors(QUESTIONS) @ model.sentence_vectors(SENTENCES).T
    assert torch.allclose(model(QUESTIONS, SENTENCES), expected, atol=1e-5)


def test_a_vector_does_not_depend_on_the_texts_beside_it() -> None:
    model = towers()
    alone = torch.cat([model.sentence_vectors([sentence]) for sentence in SENTENCES])
    assert torch.allclose(model.sentence_vectors(SENTENCES), alone, atol=1e-6)
    assert model.sentence_vectors([]).shape == (0, 32)


def test_layers_below_a_trunk_are_no_part_of_the_model_and_change_no_vector() -> None:
    cut = towers(backbone=frozen_below(BACKBONE, 1))
    assert sum(p.numel() for p in cut.parameters()) < sum(p.numel() for p in towers().parameters()) / 2
    assert torch.allclose(cut.question_vectors(QUESTIONS), towers().question_vectors(QUESTIONS), atol=1e-5)
    assert torch.allclose(cut.sentence_vectors(SENTENCES), towers().sentence_vectors(SENTENCES), atol=1e-5)


def test_the_sentence_tower_is_frozen_only_if_all_of_it_is() -> None:
    model = towers()
    assert not model.sentences_frozen
    model.sentence.requires_grad_(False)
    assert model.sentences_frozen
    next(model.sentence.parameters()).requires_grad_(True)
    assert not model.sentences_frozen


def test_the_digest_changes_with_the_sentence_tower_alone() -> None:
    model = towers()
    before = model.sentence_digest()
    assert before == towers().sentence_digest()
    with torch.no_grad():
        next(model.query.parameters()).add_(1)
        assert model.sentence_digest() == before
        next(model.sentence.parameters())[0, 0] += 1e-3
    assert model.sentence_digest() != before


def test_an_encoder_decoder_is_refused() -> None:
    config = T5Config(vocab_size=50, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    with torch.random.fork_rng(devices=[]):
        encoder = T5ForConditionalGeneration(config)
    backbone = Backbone("my-t5", encoder, BACKBONE.tokenizer, tags_of(encoder))
    with pytest.raises(ModelError, match="retrieve needs an encoder, but 'my-t5' is an encoder-decoder"):
        retriever(backbone, question_pooling="mean", normalise=True, scale=1.0)
