# SPDX-License-Identifier: Apache-2.0
"""The pair of encoder and decoder: both halves from one encoder, causal, told apart by tags, and how it writes."""

import copy
import math
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel, T5Config, T5Model

from fedqa.errors import ModelError
from fedqa.federation.sharing import Rule, compile_layout, matches
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.pair_writing import Writing, repeating, written
from fedqa.models.patches import Patch, patched
from fedqa.models.tagging import layers_of, tags_of
from fedqa.models.text_pair import Paired, TextPair, Vocabulary, WordHead, pair_of, tagged_pair, text_pair
from fedqa.skills import make_skill

WRITERS = ("classify", "generate", "mlm", "denoise")


@cache
def tiny() -> Backbone:
    return load_backbone("tiny")


def pair(seed: int = 0, backbone: Backbone | None = None) -> TextPair:
    return text_pair(backbone or tiny(), seed).eval()


def some_ids(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(1000, 9000, (rows, length), generator=torch.Generator().manual_seed(seed))


def test_shapes_are_those_of_the_contract() -> None:
    module, ids = pair(), some_ids(2, 7)
    mask = torch.ones(2, 7, dtype=torch.long)
    states = module.encode(ids, mask)
    written = module.decode(some_ids(2, 5), states, mask)
    assert (states.shape, written.shape) == ((2, 7, 32), (2, 5, 32))
    assert module.fill(states).shape == (2, 7, 30522)
    assert module.write(written).shape == (2, 5, 30522)


def test_the_encoder_is_the_backbones_and_the_decoder_starts_as_its_layers() -> None:
    module, ids = pair(), some_ids(2, 7)
    mask = torch.ones(2, 7, dtype=torch.long)
    assert torch.equal(module.encode(ids, mask), tiny().encoder(input_ids=ids, attention_mask=mask)[0])
    given = dict((layers_of(tiny().encoder) or nn.ModuleList())[1].named_parameters())
    made = dict(module.decoder[1].named_parameters())
    assert torch.equal(made["own.query.weight"], given["attention.self.query.weight"])
    assert torch.equal(made["outer.bias"], given["output.dense.bias"])


def test_the_seed_draws_what_reads_the_encoder_and_nothing_else() -> None:
    one, same, other = (dict(pair(seed).named_parameters()) for seed in (3, 3, 4))
    assert all(torch.equal(one[name], same[name]) for name in one)
    different = {name for name in one if not torch.equal(one[name], other[name])}
    assert different == {
        f"decoder.{k}.source.{part}.weight" for k in (0, 1) for part in ("query", "key", "value", "out")
    }


def test_the_decoder_sees_no_later_word_and_no_masked_place() -> None:
    module, ids = pair(), some_ids(2, 6)
    memory = torch.randn(2, 4, 32, generator=torch.Generator().manual_seed(1))
    later, mask = ids.clone(), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    later[:, 4:] += 7
    states = module.decode(ids, memory, mask)
    assert torch.allclose(module.decode(later, memory, mask)[:, :4], states[:, :4], atol=1e-6)
    changed = memory.clone()
    changed[0, 3] += 5
    assert torch.equal(module.decode(ids, changed, mask), states)
    assert not torch.allclose(module.decode(ids, changed, None)[0], states[0], atol=1e-3)
    whole = torch.ones(2, 4, dtype=torch.long)
    assert torch.equal(module.decode(ids, memory, None), module.decode(ids, memory, whole))


def test_a_word_head_starts_with_the_states_at_one_scale() -> None:
    words = torch.tensor([[3.0, -3, 3, -3], [-1, 1, 1, -1]])  # of lengths 6 and 2, so 4 on average
    states = torch.stack([5 * words[0], 0.1 * words[1]])
    scores = WordHead(words)(states) @ words.T
    # a state of length 15 / 4 in the direction of the word, whatever length it had
    assert torch.allclose(scores, torch.tensor([[15 / 4 * 6, 0], [0, 15 / 4 * 2]]), atol=1e-4)


def test_the_embedded_models_words_are_found_again_by_the_head_that_fills() -> None:
    backbone = load_backbone("embedded:2")
    text = backbone.tokenizer(["The church beside the main building was built in 1888."], return_tensors="pt")
    module = pair(backbone=backbone)
    with torch.inference_mode():
        found = module.fill(module.encode(text["input_ids"], text["attention_mask"])).argmax(dim=-1)
    assert torch.equal(found, text["input_ids"])


def test_the_vocabulary_tells_words_stops_and_numbers() -> None:
    vocabulary, tokenizer = Vocabulary.of(tiny()), tiny().tokenizer
    ids = tokenizer.convert_tokens_to_ids(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", ".", "?", "1888", "##5"]
    )
    assert vocabulary.special[ids].tolist() == [True] * 5 + [False] * 5
    assert vocabulary.special.sum() == 5
    assert vocabulary.stops[ids].tolist() == [False] * 6 + [True, True, False, False]
    assert vocabulary.digits[ids].tolist() == [False] * 8 + [True, True]
    assert (vocabulary.start, vocabulary.end, vocabulary.mask) == (ids[2], ids[3], ids[4])


# -- parts -------------------------------------------------------------------------------------------------------


def test_tags_tell_encoder_decoder_fill_head_and_task_head() -> None:
    tagged = make_skill("classify", {}, "test").build(tiny(), 0)
    parts = {
        "enc|embeddings|pooler": "pair.encoder.",
        "dec": ("pair.decoder.", "pair.spelling."),
        "lm_head": "pair.filling.",
    }
    for selector, prefix in {**parts, "head": "head."}.items():
        found = {name for name, tags in tagged.tags.items() if matches(selector, tags)}
        assert found == {name for name in tagged.tags if name.startswith(prefix)}
        assert found
    norms = {name for name, tags in tagged.tags.items() if "norm" in tags}
    assert {"pair.decoder.0.source.norm.weight", "pair.spelling.norm.bias", "pair.filling.norm.bias"} <= norms
    assert not any("dense" in name or "query" in name for name in norms)


ENCODER_ONLY: Rule = (("embeddings", "frozen"), ("enc", "shared"), ("*", "private"))
ALL_BUT_HEAD: Rule = (("embeddings", "frozen"), ("head", "private"), ("*", "shared"))
MASKED_WORDS: Rule = (("embeddings|dec|head", "frozen"), ("*", "shared"))


@pytest.mark.parametrize("rule", [ENCODER_ONLY, ALL_BUT_HEAD, MASKED_WORDS])
def test_all_skills_with_a_pair_agree_on_what_travels_and_where_it_starts(rule: Rule) -> None:
    options: Mapping[str, dict[str, object]] = {**{name: {} for name in WRITERS}, "read": {"pair": True}}
    models = [make_skill(name, table, "test").build(tiny(), 7) for name, table in options.items()]
    layouts = [compile_layout(model, rule) for model in models]
    assert len({layout.fingerprint for layout in layouts}) == 1 and layouts[0].n_shared
    values = [dict(model.module.named_parameters()) for model in models]
    for entry in layouts[0].shared:
        assert all(torch.equal(values[0][entry.name], other[entry.name]) for other in values)


def test_the_pair_of_a_model_is_found_or_missed_in_words() -> None:
    module = Paired(pair())
    assert pair_of(module) is module.pair
    with pytest.raises(ModelError, match="a Linear holds no pair of encoder and decoder; take one of the skills"):
        pair_of(nn.Linear(1, 1))


def test_a_copy_of_a_model_has_its_own_parameters() -> None:
    module = Paired(pair())
    again = copy.deepcopy(module)
    with torch.no_grad():
        again.pair.spelling.dense.weight.fill_(1.0)
    assert not module.pair.spelling.dense.weight.any()


# -- other backbones ---------------------------------------------------------------------------------------------


def test_frozen_layers_change_nothing_but_what_is_trained() -> None:
    whole, upper = pair(), pair(backbone=frozen_below(tiny(), 1))
    ids, mask = some_ids(2, 7), torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    states = whole.encode(ids, mask)
    for again in (True, False):
        assert torch.allclose(upper.encode(ids, mask, again=again)[mask == 1], states[mask == 1], atol=1e-5)
    assert torch.allclose(upper.write(upper.decode(ids, states, mask)), whole.write(whole.decode(ids, states, mask)))
    assert not any("embeddings" in name or "encoder.layer.1" in name for name, _ in upper.named_parameters())
    assert len(upper.decoder) == 2


def test_a_text_that_is_not_read_again_is_not_kept() -> None:
    backbone = frozen_below(tiny(), 1)
    assert backbone.trunk is not None
    module, ids = pair(backbone=backbone), some_ids(2, 7)
    mask = torch.ones(2, 7, dtype=torch.long)
    module.encode(ids, mask, again=False)
    assert not backbone.trunk._states
    module.encode(ids, mask)
    assert len(backbone.trunk._states) == 2


def test_patches_stand_in_the_encoder_alone() -> None:
    backbone = patched(tiny(), [Patch("patch")], seed=0)
    tagged = tagged_pair(Paired(text_pair(backbone, 0)), backbone)
    found = [name for name, tags in tagged.tags.items() if "patch" in tags]
    assert found and all(name.startswith("pair.encoder.patch.") for name in found)


def other_backbone(kind: str) -> Backbone:
    sizes = {"vocab_size": 30522, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        if kind == "roberta":
            model = RobertaModel(
                RobertaConfig(**sizes, intermediate_size=64, max_position_embeddings=40, pad_token_id=1)
            )
        else:
            model = DistilBertModel(
                DistilBertConfig(
                    vocab_size=30522, dim=32, n_layers=1, n_heads=2, hidden_dim=64, max_position_embeddings=40
                )
            )
    return Backbone(kind, model.eval(), tiny().tokenizer, tags_of(model))


@pytest.mark.parametrize(("kind", "first"), [("roberta", 2), ("distilbert", 0)])
def test_encoders_of_other_families_count_positions_their_own_way(kind: str, first: int) -> None:
    module, ids = pair(backbone=other_backbone(kind)), some_ids(2, 6)
    assert (module.first_position, module.positions) == (first, 40 - first)
    states = module.encode(ids, torch.ones_like(ids))
    assert module.decode(ids, states, None).shape == (2, 6, 32)


def test_what_cannot_be_a_pair_is_an_error_in_words() -> None:
    config = T5Config(vocab_size=30522, d_model=16, d_ff=16, d_kv=8, num_layers=1, num_heads=2)
    both = Backbone("t5", T5Model(config), tiny().tokenizer, {})
    with pytest.raises(ModelError, match="a pair is made of an encoder, but 't5' is an encoder-decoder already"):
        text_pair(both, 0)
    bare = load_backbone("tiny").tokenizer
    bare.mask_token = None
    with pytest.raises(ModelError, match="the tokenizer of 'tiny' has no mask token, which a pair needs"):
        text_pair(Backbone("tiny", tiny().encoder, bare, tiny().tags), 0)


# -- writing -----------------------------------------------------------------------------------------------------


def loud_pair() -> TextPair:
    """A pair whose scores are far apart, so that no two texts are about equally likely."""
    module = pair(5)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(8)
        module.spelling.dense.weight.normal_(0.0, 0.5, generator=generator)
    return module


def greedy(module: TextPair, memory: Tensor, mask: Tensor, steps: int) -> list[list[int]]:
    """One beam, by hand and without keeping anything."""
    never = torch.from_numpy(module.vocabulary.special.copy())
    never[module.vocabulary.end] = False
    ids = torch.full((len(memory), 1), module.vocabulary.start)
    for _ in range(steps):
        scores = module.write(module.decode(ids, memory, mask)[:, -1]).masked_fill(never, -math.inf)
        ids = torch.cat([ids, scores.argmax(dim=1, keepdim=True)], dim=1)
    rows: list[list[int]] = ids[:, 1:].tolist()
    return [row[: row.index(102)] if 102 in row else row for row in rows]


@torch.inference_mode()
def test_writing_step_by_step_is_the_same_as_looking_at_all_each_time() -> None:
    module, mask = loud_pair(), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    memory = torch.randn(3, 4, 32, generator=torch.Generator().manual_seed(2))
    found = written(module, memory, mask, Writing(longest=9, shortest=0, beams=1, no_repeat=0))
    assert [[step.index for step in best.steps] for best, *_ in found] == greedy(module, memory, mask, 9)


@torch.inference_mode()
def test_no_run_of_three_is_written_twice_and_no_special_token() -> None:
    module = pair(5)
    memory = torch.randn(4, 3, 32, generator=torch.Generator().manual_seed(2))
    for size in (1, 3):
        for best, *_ in written(module, memory, None, Writing(longest=20, shortest=15, beams=2, no_repeat=size)):
            ids = [step.index for step in best.steps]
            runs = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
            assert len(runs) == len(set(runs)) >= 15 - size
            assert not module.vocabulary.special[ids].any()
    free = written(module, memory, None, Writing(longest=20, beams=1, no_repeat=0))
    assert any(len({step.index for step in best.steps}) < len(best.steps) - 3 for best, *_ in free)


def test_what_would_repeat_a_run_is_known() -> None:
    row = [1, 2, 3, 1, 2, 4, 1, 2]
    assert list(repeating(row, 3)) == [3, 4]
    assert list(repeating(row, 2)) == [3, 4]
    assert list(repeating([*row, 1], 2)) == [2, 2, 2]
    assert list(repeating([*row, 9], 2)) == list(repeating([*row, 9], 3)) == []
    assert sorted(set(repeating(row, 1))) == [1, 2, 3, 4]
    assert list(repeating(row, 0)) == list(repeating([1, 2], 3)) == list(repeating([], 3)) == []


class EndsSoon(TextPair):
    """Writes word 2000 or the end: with probabilities 0.6 and 0.4 at first, then 0.3 and 0.7."""

    @classmethod
    def of(cls, module: TextPair) -> "EndsSoon":
        module.__class__ = cls
        assert isinstance(module, cls)
        return module

    def write(self, states: Tensor) -> Tensor:
        first = torch.isclose(states[:, 0], torch.tensor(0.0))
        scores = torch.full((len(states), self.vocabulary.size), -math.inf)
        scores[:, self.vocabulary.end] = torch.where(first, math.log(0.4), math.log(0.7))
        scores[:, 2000] = torch.where(first, math.log(0.6), math.log(0.3))
        return scores

    def decoded(self, ids: Tensor, reads: object, mask: Tensor, kept: object = None) -> Tensor:  # type: ignore[override]
        return torch.where(ids == self.vocabulary.start, 0.0, 1.0).unsqueeze(-1).expand(-1, -1, 32)


def test_the_penalty_on_length_ranks_by_a_power_of_the_length() -> None:
    module, memory = EndsSoon.of(pair()), torch.zeros(1, 2, 32)

    def texts(penalty: float) -> list[tuple[int, float]]:
        (found,) = written(module, memory, None, Writing(longest=4, shortest=0, beams=2, no_repeat=0, penalty=penalty))
        return [(len(one.steps), one.score) for one in found]

    # The end at once has probability 0.4 in one step; the word, then the end, 0.6 * 0.7 = 0.42 in two.
    for penalty in (0.0, 1.0, 2.0):
        expected = {0: math.log(0.4), 1: math.log(0.42) / 2**penalty}
        assert dict(texts(penalty)) == pytest.approx(expected)
    assert [length for length, _ in texts(0.0)] == [1, 0]
    short = written(module, memory, None, Writing(longest=4, shortest=1, beams=2, no_repeat=0))
    assert min(len(one.steps) for one in short[0]) == 1


def test_a_batch_is_written_as_its_texts_are_alone() -> None:
    module, texts = loud_pair(), [np.arange(1000, 1000 + n) for n in (3, 9, 5)]
    writing = Writing(longest=8, beams=2)

    def write(*some: np.ndarray) -> list[list[int]]:
        with torch.inference_mode():
            found = written(module, *module.read(some), writing)
        return [[step.index for step in best.steps] for best, *_ in found]

    assert write(*texts) == [row for text in texts for row in write(text)]
