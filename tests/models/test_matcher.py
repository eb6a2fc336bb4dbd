# SPDX-License-Identifier: Apache-2.0
import math

import pytest
import torch

from fedqa.errors import ConfigError
from fedqa.models.backbones import load_backbone
from fedqa.models.encoding import Framing, tokenised
from fedqa.models.matcher import Interaction, Keywords, Matcher, Pairs, Scorer

BACKBONE = load_backbone("tiny", seed=3)
QUESTIONS = tokenised(BACKBONE.tokenizer, ["who pays?", "what is covered by the policy in winter?"], 48)
PASSAGES = tokenised(BACKBONE.tokenizer, ["the insurer pays", "snow", "rain and hail are covered, and storms"], 48)
ALL = torch.ones(2, 3, dtype=torch.bool)


def matcher(interaction: Interaction, *, biased: bool = False, seed: int = 0) -> Matcher:
    framing = Framing(BACKBONE.tokenizer, segments=True)
    generator = torch.Generator().manual_seed(seed)
    return Matcher(BACKBONE.fresh(), framing, interaction, scale=20.0, biased=biased, generator=generator).eval()


def own_parameters(model: Matcher) -> set[str]:
    return {name for name, _ in model.named_parameters() if not name.startswith("encoder.")}


def test_each_interaction_has_the_parameters_it_uses_and_no_others() -> None:
    assert own_parameters(matcher("dual")) == {"log_scale"}
    assert own_parameters(matcher("dual", biased=True)) == {"log_scale", "bias"}
    assert own_parameters(matcher("cross", biased=True)) == {"cross.weight", "cross.bias"}
    assert own_parameters(matcher("residual")) == {"log_scale", "cross.weight", "cross.bias"}


def test_a_dual_score_is_the_scaled_cosine_of_mean_states() -> None:
    model = matcher("dual")
    encoded = BACKBONE.tokenizer("who pays?", return_tensors="pt")
    mean = BACKBONE.encoder(**encoded).last_hidden_state[0].mean(dim=0)
    vector = model.vectors(QUESTIONS[:1])[0]
    assert torch.allclose(vector, mean / mean.norm(), atol=1e-6)
    cosines = model.vectors(QUESTIONS) @ model.vectors(PASSAGES).T
    assert torch.allclose(model(QUESTIONS, PASSAGES, ALL), 20 * cosines, atol=1e-5)


def test_the_bias_moves_the_point_where_a_score_is_zero() -> None:
    plain, biased = matcher("dual"), matcher("dual", biased=True)
    assert torch.allclose(biased(QUESTIONS, PASSAGES, ALL), plain(QUESTIONS, PASSAGES, ALL) - 20 * 0.5, atol=1e-5)


def test_a_vector_does_not_depend_on_the_texts_beside_it() -> None:
    model = matcher("dual")
    together = model.vectors(PASSAGES)
    alone = torch.cat([model.vectors([passage]) for passage in PASSAGES])
    assert torch.allclose(together, alone, atol=1e-6)


def test_a_cross_score_reads_the_first_state_of_the_pair() -> None:
    model = matcher("cross")
    encoded = BACKBONE.tokenizer("who pays?", "snow", return_tensors="pt")
    first = BACKBONE.encoder(**encoded).last_hidden_state[0, 0]
    assert model.cross is not None
    expected = (first @ model.cross.weight[0] + model.cross.bias[0]).item()
    assert model(QUESTIONS, PASSAGES, ALL)[0, 1].item() == pytest.approx(expected, abs=1e-6)


def test_pairs_that_are_not_wanted_are_not_read() -> None:
    model = matcher("cross")
    wanted = torch.tensor([[True, False, False], [False, False, True]])
    scores, complete = model(QUESTIONS, PASSAGES, wanted), model(QUESTIONS, PASSAGES, ALL)
    assert torch.allclose(scores[wanted], complete[wanted], atol=1e-6)
    assert (scores[~wanted] == 0).all()


def test_residual_starts_exactly_at_the_dual_score_and_can_leave_it() -> None:
    model = matcher("residual")
    scores = model(QUESTIONS, PASSAGES, ALL)
    assert torch.equal(scores, matcher("dual")(QUESTIONS, PASSAGES, ALL))
    scores[0, 0].backward()
    assert model.cross is not None and model.cross.weight.grad is not None
    assert model.cross.weight.grad.abs().sum() > 0


def test_the_head_depends_on_its_seed_and_not_on_global_state() -> None:
    state = torch.get_rng_state()
    first, same, other = (matcher("cross", seed=seed).cross for seed in (1, 1, 2))
    assert torch.equal(state, torch.get_rng_state())
    assert first is not None and same is not None and other is not None
    assert torch.equal(first.weight, same.weight) and not torch.equal(first.weight, other.weight)


@pytest.mark.parametrize("interaction", ["dual", "cross", "residual"])
def test_a_total_is_the_score_of_each_pair_by_cosine_and_reading(interaction: Interaction) -> None:
    model = matcher(interaction)
    pairs = [(question, passage) for question in QUESTIONS for passage in PASSAGES]
    with torch.no_grad():
        cosines = (model.vectors(QUESTIONS) @ model.vectors(PASSAGES).T).flatten()
        total = model.total(Pairs(pairs, cosines=lambda: cosines, keywords=lambda: torch.full((6,), torch.nan)))
        assert torch.allclose(total, model(QUESTIONS, PASSAGES, ALL).flatten(), atol=1e-5)


def test_a_matcher_is_a_scorer_that_says_whether_it_reads_pairs() -> None:
    assert isinstance(matcher("dual"), Scorer)
    assert [matcher(interaction).reads for interaction in ("dual", "cross", "residual")] == [False, True, True]


def test_keywords_are_a_scorer_without_parameters_that_takes_keyword_scores_as_they_are() -> None:
    model, found = Keywords(), torch.tensor([2.0, 0.5])
    assert isinstance(model, Scorer) and not model.reads
    assert list(model.parameters()) == []
    assert model.vectors(PASSAGES).shape == (3, 0)
    pairs = [(QUESTIONS[0], PASSAGES[0]), (QUESTIONS[0], PASSAGES[1])]
    assert torch.equal(model.total(Pairs(pairs, cosines=lambda: torch.zeros(2), keywords=lambda: found)), found)


def test_keywords_cannot_be_trained() -> None:
    with pytest.raises(ConfigError, match=r"'bm25' has nothing to train; use method 'zero_shot', or another inter"):
        Keywords()(QUESTIONS, PASSAGES, ALL)


def test_no_text_gives_no_vector() -> None:
    assert matcher("dual").vectors([]).shape == (0, 32)


def test_the_scale_starts_where_it_was_set() -> None:
    scale = matcher("dual").log_scale
    assert scale is not None and scale.item() == pytest.approx(math.log(20))
