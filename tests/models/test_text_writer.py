# SPDX-License-Identifier: Apache-2.0
"""A pretrained encoder-decoder as it is, here a small random T5 and BART with the embedded model's tokenizer."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedModel, T5Config, T5ForConditionalGeneration

from fedqa.errors import ModelError
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.models.encoding import tokenised
from fedqa.models.search import PIECE, Search, Step
from fedqa.models.seq2seq import Seq2Seq, Source, cross_entropy, target_of
from fedqa.models.tagging import tags_of
from fedqa.models.text_writer import TextWriter, text_writer

SPECIAL = {"pad_token_id": 0, "eos_token_id": 102, "decoder_start_token_id": 101}
NO_WORDS = np.zeros((0, 2), dtype=np.int64)


def t5() -> PreTrainedModel:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 2}
    return T5ForConditionalGeneration(T5Config(vocab_size=30522, dropout_rate=0.0, **sizes, **SPECIAL))


def bart() -> PreTrainedModel:
    sizes = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in (("layers", 2), ("ffn_dim", 32))}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return BartForConditionalGeneration(
        BartConfig(vocab_size=30522, d_model=16, max_position_embeddings=64, dropout=0.0, **sizes, **heads, **SPECIAL)
    )


@pytest.fixture(scope="module", params=[t5, bart], ids=["t5", "bart"])
def backbone(request: pytest.FixtureRequest) -> Backbone:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: PreTrainedModel = request.param().eval()
    return Backbone("small", model, load_backbone("tiny").tokenizer, tags_of(model))


def writer(backbone: Backbone) -> TextWriter:
    module = text_writer(backbone).module
    assert isinstance(module, TextWriter) and isinstance(module, Seq2Seq)
    return module.eval()


def sources(backbone: Backbone) -> list[Source]:
    texts = ["how big is texas ; city : name", "which", "all the cities"]
    return [Source(tokens, NO_WORDS) for tokens in tokenised(backbone.tokenizer, texts, 32)]


TARGETS = [target_of(Step(PIECE, id) for id in (*ids, 102)) for ids in ([2000, 7, 8], [9], [2000, 11])]


def test_a_source_is_scored_the_same_whatever_its_company(backbone: Backbone) -> None:
    module, given = writer(backbone), sources(backbone)
    together = cross_entropy(module.logits(module.encode(given), TARGETS))
    alone = [
        cross_entropy(module.logits(module.encode([one]), [target])).item()
        for one, target in zip(given, TARGETS, strict=True)
    ]
    assert together.item() == pytest.approx(np.average(alone, weights=[len(target) for target in TARGETS]), rel=1e-5)


def test_scores_are_those_of_the_model_itself(backbone: Backbone) -> None:
    module, (first, *_) = writer(backbone), sources(backbone)
    ids = torch.tensor([[101, *first.tokens.tolist(), 102]])  # as the tokenizer frames a text
    gold = torch.from_numpy(TARGETS[0][:, 1]).unsqueeze(0)
    expected = module.model(input_ids=ids, labels=gold).loss
    found = cross_entropy(module.logits(module.encode([first]), TARGETS[:1]))
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
def test_what_it_writes_step_by_step_has_the_score_it_has_as_a_whole(backbone: Backbone, beams: int) -> None:
    module, given = writer(backbone), sources(backbone)
    for one, rows in zip(given, module.write(module.encode(given), Search(6, beams)), strict=True):
        for written in rows:
            ended = [] if len(written.steps) == 6 else [Step(PIECE, 102)]
            target = target_of([*written.steps, *ended])
            likely = -cross_entropy(module.logits(module.encode([one]), [target])).item()
            assert written.score == pytest.approx(likely, abs=1e-5)


def test_one_beam_takes_the_likeliest_piece_each_time(backbone: Backbone) -> None:
    module, given = writer(backbone), sources(backbone)
    memory = module.encode(given)
    (first, *_) = module.write(memory, Search(3))
    target = target_of(first[0].steps)
    best = module.logits(module.encode(given[:1]), [target]).classes[0].argmax(dim=-1)
    assert best.tolist() == target[:, 1].tolist()


def test_layers_of_both_halves_and_the_output_are_tagged(backbone: Backbone) -> None:
    tags = set().union(*text_writer(backbone).tags.values())
    assert {"enc.0", "enc.1", "dec.0", "dec.1", "embeddings", "words", "norm"} <= tags


def test_it_knows_no_rules(backbone: Backbone) -> None:
    module = writer(backbone)
    with pytest.raises(ModelError, match="knows no grammar"):
        module.write(module.encode(sources(backbone)), Search(), [])


def test_an_encoder_is_refused(backbone: Backbone) -> None:
    tiny = load_backbone("tiny")
    with pytest.raises(ModelError, match="'tiny' is no encoder-decoder"):
        text_writer(replace(tiny))
