# SPDX-License-Identifier: Apache-2.0
"""The pointer: what it reads, how it scores given steps, and that writing step by step is the same as all at once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import RobertaConfig, RobertaModel, T5Config, T5ForConditionalGeneration

from fedqa.errors import ConfigError, ModelError
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.decoder import Kept
from fedqa.models.encoding import tokenised
from fedqa.models.pointer import END, Pointer, _Stepper, item_vectors, pointer
from fedqa.models.search import ITEM, PIECE, SPAN, SYMBOL, Allowed, Search, Step
from fedqa.models.seq2seq import Items, Seq2Seq, Source, cross_entropy, padded_targets, steps_tensor, target_of
from fedqa.models.tagged import TaggedModel
from fedqa.models.tagging import tags_of

SYMBOLS, SPANS = 5, 3


@pytest.fixture(scope="module")
def tiny() -> Backbone:
    return load_backbone("tiny")


def built(backbone: Backbone, **changes: Any) -> TaggedModel:
    sizes = {"symbols": SYMBOLS, "item_kinds": 2, "longest_span": SPANS, "decoder_layers": 2}
    return pointer(backbone, **{**sizes, "dropout": 0.0, "train_encoder": False, "seed": 0, **changes})


def model(backbone: Backbone, **changes: Any) -> Pointer:
    module = built(backbone, **changes).module
    assert isinstance(module, Pointer)
    return module.eval()


def items(backbone: Backbone, *texts: str) -> Items:
    return Items(item_vectors(backbone, tokenised(backbone.tokenizer, texts, 16)), (0,) * len(texts))


def source(backbone: Backbone, text: str, known: Items | None) -> Source:
    (tokens,) = tokenised(backbone.tokenizer, [text], 16)
    return Source(tokens, np.stack([np.arange(len(tokens))] * 2, axis=1), known)


def sources(backbone: Backbone) -> list[Source]:
    """Two that share their items, one with others, one without any."""
    known = items(backbone, "city name", "state area", "population")
    return [
        source(backbone, "how big is texas", known),
        source(backbone, "which is the largest city of all", known),
        source(backbone, "who", items(backbone, "name")),
        source(backbone, "a b", None),
    ]


TARGETS = [
    target_of([Step(SYMBOL, 1), Step(ITEM, 2), Step(SPAN, 1 * SPANS + 2), Step(PIECE, 2000), END]),  # "big is texas"
    target_of([Step(ITEM, 0), Step(PIECE, 7), Step(SYMBOL, 3), END]),
    target_of([Step(SPAN, 0), END]),
    target_of([Step(PIECE, 5), Step(PIECE, 6), END]),
]


def test_it_is_an_encoder_decoder(tiny: Backbone) -> None:
    assert isinstance(model(tiny), Seq2Seq)


def test_step_by_step_is_the_same_as_all_at_once(tiny: Backbone) -> None:
    pointing = model(tiny)
    memory = pointing.encode(sources(tiny))
    reading = pointing.reading(memory)
    steps = padded_targets(TARGETS, memory.text.device).clamp(min=0)
    whole, kept = pointing.states(memory, steps, reading), Kept()
    parts = [pointing.states(memory, steps[:, i : i + 1], reading, kept) for i in range(steps.shape[1])]
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-5)


def test_a_source_is_scored_the_same_whatever_its_company(tiny: Backbone) -> None:
    pointing, given = model(tiny), sources(tiny)
    together = cross_entropy(pointing.logits(pointing.encode(given), TARGETS))
    alone = [
        cross_entropy(pointing.logits(pointing.encode([one]), [target])).item()
        for one, target in zip(given, TARGETS, strict=True)
    ]
    steps = [len(target) for target in TARGETS]
    assert together.item() == pytest.approx(float(np.average(alone, weights=steps)), rel=1e-5)


def test_the_chances_of_all_that_can_be_written_sum_to_one(tiny: Backbone) -> None:
    pointing = model(tiny)
    memory = pointing.encode(sources(tiny)[:1])  # 5 symbols and "a piece", 3 items, 4 words in spans of 1 to 3
    logits = pointing.logits(memory, [target_of([END])])
    possible = torch.softmax(logits.classes[0, 0], dim=-1) > 0
    assert int(possible.sum()) == SYMBOLS + 1 + 3 + (4 + 3 + 2)
    assert logits.classes.shape[-1] == SYMBOLS + 1 + 3 + 4 * SPANS


def test_each_kind_of_step_has_its_class(tiny: Backbone) -> None:
    pointing = model(tiny)
    logits = pointing.logits(pointing.encode(sources(tiny)[:1]), TARGETS[:1])
    # a symbol is its own class, a piece the one behind them, items and spans follow
    assert logits.gold[0].tolist() == [1, SYMBOLS + 1 + 2, SYMBOLS + 1 + 3 + 5, SYMBOLS, 0]
    assert logits.gold_pieces is not None and logits.gold_pieces.tolist() == [2000]
    assert logits.pieces is not None and logits.pieces.shape == (1, len(tiny.tokenizer))


def test_training_finds_what_to_copy(tiny: Backbone) -> None:
    pointing = model(tiny)
    given = sources(tiny)[:3]
    spans, last = Step(SPAN, 2 * SPANS + 1), Step(SPAN, 4 * SPANS)  # "is texas", and "city"
    wanted = [(Step(SYMBOL, 1), Step(ITEM, 2), spans), (Step(ITEM, 0), last), (Step(SPAN, 0),)]
    targets = [target_of([*steps, END]) for steps in wanted]
    optimiser = torch.optim.Adam(pointing.parameters(), lr=3e-3)
    for _ in range(120):
        loss = cross_entropy(pointing.logits(pointing.encode(given), targets))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    assert loss.item() < 0.05
    for beams in (1, 3):
        written = pointing.write(pointing.encode(given), Search(10, beams))
        assert [row[0].steps for row in written] == wanted
        assert all(row[0].score > -0.1 for row in written)


# -- links between words and items


KINDS = 2


def linked(backbone: Backbone) -> list[Source]:
    """The same sources: two words of the first mean the third item, one of them the first too; the second has none."""
    links = np.array([[1, 2, 2, 1], [2, 2, 0, 0]])
    given = sources(backbone)
    return [replace(given[0], links=links), replace(given[1], links=links[:0]), *given[2:]]


def scores(pointing: Pointer, given: list[Source]) -> Tensor:
    return pointing.logits(pointing.encode(given), TARGETS).classes


def test_without_links_a_model_that_knows_of_them_is_exactly_the_one_that_does_not(tiny: Backbone) -> None:
    plain, knowing = model(tiny), model(tiny, link_kinds=KINDS)
    none = [replace(one, links=np.zeros((0, 4), dtype=np.int64)) for one in sources(tiny)]
    expected = scores(plain, sources(tiny))
    assert torch.equal(scores(knowing, sources(tiny)), expected)
    assert torch.equal(scores(knowing, none), expected)
    assert torch.equal(scores(plain, linked(tiny)), expected)  # nor does the other look at them
    written = [one.write(one.encode(none), Search(6, 2)) for one in (plain, knowing)]
    assert written[0] == written[1]


def test_a_link_changes_the_scores_of_its_own_source_alone(tiny: Backbone) -> None:
    knowing = model(tiny, link_kinds=KINDS)
    changed = (scores(knowing, linked(tiny)) != scores(knowing, sources(tiny))).flatten(start_dim=1).any(dim=1)
    assert changed.tolist() == [True, False, False, False]


def test_links_add_to_the_first_and_the_last_word_and_a_share_of_the_item_to_all(tiny: Backbone) -> None:
    knowing = model(tiny, link_kinds=KINDS)
    linking = knowing.linking
    assert linking is not None
    before = knowing.encode(sources(tiny))
    known = torch.tensor([[2.0], [0.0], [4.0]]).expand(3, before.text.shape[-1])
    before = replace(before, text=torch.zeros_like(before.text), items=known.unsqueeze(0).repeat(3, 1, 1))
    with torch.no_grad():
        for part, value in ((linking.first, 1.0), (linking.last, 10.0), (linking.share, 0.5)):
            part.fill_(value)
        after = linking(before, torch.tensor([[0, 1, 2, 2, 1], [0, 2, 2, 0, 0]]))
    # Tokens: start, how, big, is, texas, end. "big is" is linked to the third item (4), "is" to the first (2).
    assert after.text[0, :6, 0].tolist() == [0, 0, 1 + 0.5 * 4, 10 + 0.5 * 4 + 1 + 10 + 0.5 * 2, 0, 0]
    assert not after.text[1:].any()
    assert after.flags[0].tolist() == [[1, 0], [0, 0], [0, 1]]
    assert not after.flags[1:].any()


def test_in_training_some_sources_go_without_their_links(tiny: Backbone) -> None:
    knowing = model(tiny, link_kinds=KINDS, dropout=0.5)
    assert knowing.linking is not None
    links = torch.tensor([[row, word, word, 0, 1] for row in range(100) for word in (0, 1)])
    memory = knowing.encode(sources(tiny)[:1] * 100)
    assert knowing.linking(memory, links).flags[:, 0, 1].all()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        after = knowing.linking.train()(memory, links)
    changed = (after.text[:, 1:3] != memory.text[:, 1:3]).any(dim=2)  # the tokens of both words
    assert torch.equal(changed[:, 0], changed[:, 1])
    assert 30 < int(changed[:, 0].sum()) < 70


def test_items_of_one_kind_share_their_words(tiny: Backbone) -> None:
    knowing = model(tiny, link_kinds=KINDS)
    assert knowing.linking is not None
    before = knowing.encode(sources(tiny)[:1])
    both = knowing.linking(before, torch.tensor([[0, 1, 1, 0, 1], [0, 1, 1, 2, 1]])).text[0, 2]  # "big"
    half = 0.5 * (before.items[0, 0] + before.items[0, 2]) / 2
    assert torch.allclose(both - before.text[0, 2], half, atol=1e-6)


def test_with_links_too_step_by_step_and_company_make_no_difference(tiny: Backbone) -> None:
    knowing, given = model(tiny, link_kinds=KINDS), linked(tiny)
    with torch.no_grad():
        for number, part in enumerate((knowing.linking.first, knowing.linking.item)):  # type: ignore[union-attr]
            part.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(number))
    memory = knowing.encode(given)
    reading, steps = knowing.reading(memory), padded_targets(TARGETS, memory.text.device).clamp(min=0)
    whole, kept = knowing.states(memory, steps, reading), Kept()
    parts = [knowing.states(memory, steps[:, i : i + 1], reading, kept) for i in range(steps.shape[1])]
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-5)
    alone = knowing.write(knowing.encode(given[:1]), Search(6, 3))[0]
    together = knowing.write(memory, Search(6, 3))[0]
    assert [one.steps for one in alone] == [one.steps for one in together]


def test_gradients_reach_what_is_learnt_of_links_and_it_travels_with_the_head(tiny: Backbone) -> None:
    tagged = built(tiny, link_kinds=KINDS)
    own = {name: parameter for name, parameter in tagged.module.named_parameters() if name.startswith("linking.")}
    assert set(own) == {"linking.first", "linking.last", "linking.item", "linking.share"}
    assert all(tagged.tags[name] == {"head"} for name in own)
    assert isinstance(tagged.module, Pointer)
    cross_entropy(tagged.module.logits(tagged.module.encode(linked(tiny)), TARGETS)).backward()
    assert all(parameter.grad is not None and bool(parameter.grad.any(dim=1).all()) for parameter in own.values())
    assert not [name for name in built(tiny).tags if name.startswith("linking.")]


# -- rules


@pytest.mark.parametrize("piece_bias", [-3.0, 0.0, 3.0])  # none is spelled, some are, all are
@pytest.mark.parametrize("k", [1, 3, 8])
def test_the_likeliest_steps_are_those_of_all_that_can_be_written(tiny: Backbone, k: int, piece_bias: float) -> None:
    pointing, given = model(tiny), sources(tiny)
    with torch.no_grad():
        pointing.bias[SYMBOLS] = piece_bias
        pointing.spelling.weight *= 8  # so that some pieces are likely
        memory = pointing.encode(given)
        logits = pointing.logits(memory, [target_of([END])] * len(given))
        likely = logits.classes[:, 0].log_softmax(dim=-1)
        states = pointing.states(
            memory, steps_tensor([END] * len(given), END, memory.text.device), pointing.reading(memory)
        )
        spelled = pointing._piece_scores(states[:, 0]).log_softmax(dim=-1) + likely[:, SYMBOLS : SYMBOLS + 1]
        likely[:, SYMBOLS] = -torch.inf
        expected = torch.cat([likely, spelled], dim=1).topk(k, dim=-1).values
        found = _Stepper(pointing, memory).likely([None] * len(given), k, None)
    for row, steps in enumerate(found):
        known = [one.score for one in steps]
        certain = min(k, int((expected[row] > np.log(1e-3)).sum()))
        assert known[:certain] == pytest.approx(expected[row, :certain].tolist(), abs=1e-5)


class OnlyItems:
    """Two items, then the end."""

    def __init__(self, written: int = 0) -> None:
        self._written = written

    def allowed(self) -> Allowed:
        symbols = np.zeros(SYMBOLS, dtype=bool)
        symbols[0] = self._written == 2
        return Allowed(symbols, np.array([False, True, False]) & (self._written < 2), pieces=False, spans=False)

    def after(self, step: Step) -> "OnlyItems":
        return OnlyItems(self._written + 1)


def test_nothing_is_written_that_a_rule_forbids(tiny: Backbone) -> None:
    pointing = model(tiny)
    memory = pointing.encode(sources(tiny)[:2])
    for written in pointing.write(memory, Search(9, beams=2), [OnlyItems(), OnlyItems()]):
        assert [one.steps for one in written] == [(Step(ITEM, 1), Step(ITEM, 1))]


def test_smoothing_is_over_what_can_be(tiny: Backbone) -> None:
    pointing = model(tiny)
    logits = pointing.logits(pointing.encode(sources(tiny)[:1]), [target_of([Step(SYMBOL, 1)])])
    likely = torch.log_softmax(logits.classes[0, 0], dim=-1)
    possible = likely[likely > -1e6]
    expected = -0.9 * likely[1] - 0.1 * possible.mean()
    assert cross_entropy(logits, 0.1).item() == pytest.approx(expected.item(), rel=1e-6)


# -- what is trained, and tags -----------------------------------------------------------------------------------


def test_the_encoder_is_no_part_of_it_unless_it_is_trained(tiny: Backbone) -> None:
    frozen, trained = built(tiny), built(tiny, train_encoder=True)
    assert not any(name.startswith("encoder.") for name in frozen.tags)
    assert {"words", "enc.0", "enc.1"} < set().union(*trained.tags.values())
    assert set(frozen.tags) < set(trained.tags)
    given = sources(tiny)
    losses = [cross_entropy(m.logits(m.encode(given), TARGETS)) for m in (model(tiny), model(tiny, train_encoder=True))]
    assert torch.allclose(*losses, atol=1e-5)  # before training it makes no difference


def test_layers_and_head_are_told_apart(tiny: Backbone) -> None:
    tags = built(tiny).tags
    assert tags["decoder.0.own.query.weight"] == {"dec.0"}
    assert tags["decoder.1.source.norm.bias"] == {"dec.1", "norm"}
    assert tags["symbols.weight"] == {"head"}
    assert tags["norm.weight"] == {"head", "norm"}
    assert tags["spelling.weight"] == {"head", "lm_head"}


def test_above_a_trunk_the_states_are_those_of_the_whole(tiny: Backbone) -> None:
    upper = frozen_below(tiny, 1)
    cut, whole = model(upper, train_encoder=True), model(tiny, train_encoder=True)
    assert torch.allclose(*(m.encode([source(tiny, "how big is texas", None)]).text for m in (cut, whole)), atol=1e-5)
    assert torch.allclose(
        item_vectors(upper, tokenised(tiny.tokenizer, ["city name"], 9)),
        item_vectors(tiny, tokenised(tiny.tokenizer, ["city name"], 9)),
        atol=1e-5,
    )


def test_the_same_seed_gives_the_same_weights(tiny: Backbone) -> None:
    one, same, other = (built(tiny, seed=seed).module.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["symbols.weight"], other["symbols.weight"])


def test_building_leaves_the_global_generator_alone(tiny: Backbone) -> None:
    before: Tensor = torch.get_rng_state()
    built(tiny)
    assert torch.equal(before, torch.get_rng_state())


def test_other_encoders_of_the_form_of_bert_will_do(tiny: Backbone) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    encoder = RobertaModel(RobertaConfig(vocab_size=30522, max_position_embeddings=40, type_vocab_size=1, **sizes))
    backbone = Backbone("roberta", encoder.eval(), tiny.tokenizer, tags_of(encoder))
    pointing = model(backbone)
    assert pointing._position_table.shape == (38, 8)  # two of its positions are for padding
    loss = cross_entropy(pointing.logits(pointing.encode([source(tiny, "how big", None)]), [TARGETS[3]]))
    assert torch.isfinite(loss)


@pytest.mark.parametrize("layers", [0, 3])
def test_a_decoder_has_as_many_layers_as_there_are(tiny: Backbone, layers: int) -> None:
    with pytest.raises(ConfigError, match=f"decoder_layers must be 1 to 2 for 'tiny', got {layers}"):
        built(tiny, decoder_layers=layers)


def test_an_encoder_decoder_is_refused(tiny: Backbone) -> None:
    config = T5Config(vocab_size=50, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    with pytest.raises(ModelError, match="'t5' is an encoder-decoder already"):
        built(replace(tiny, spec="t5", encoder=T5ForConditionalGeneration(config)))
