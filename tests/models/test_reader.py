# SPDX-License-Identifier: Apache-2.0
import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, DistilBertConfig, RobertaConfig, T5Config, T5ForConditionalGeneration

from fedqa.answering.loaded import whole
from fedqa.errors import ModelError
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.patches import Patch, patched
from fedqa.models.reader import IMPOSSIBLE, LEVEL, PACE, Reader, Row, _Nearness, _Part, reader
from fedqa.models.tagging import layers_of


@cache
def backbone(spec: str = "tiny") -> Backbone:
    return load_backbone(spec, seed=1)


def model(of: Backbone | None = None, max_answer: int = 4) -> Reader:
    module = reader(of or backbone(), max_answer=max_answer).module.eval()
    assert isinstance(module, Reader)
    return module


def trained(of: Backbone | None = None) -> Reader:
    """A model whose head says something."""
    module = model(of)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in (module.ends.weight, module.none.weight, module.lengths, module.known):
            parameter.normal_(0.0, 0.01, generator=generator)
    return module


def row(question: str, *sentences: str) -> Row:
    parts = [ids(sentence) for sentence in sentences]
    numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return Row(ids(question), np.concatenate(parts), numbers)


def ids(text: str) -> np.ndarray:
    return np.array(backbone().tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)


ROWS = [
    row("Who pays?", "The bank pays.", "You do not.", "Nobody else does either."),
    row("When does the gate open on a Sunday in May?", "At noon."),
    row("Why?", "Because."),
]


def scores(module: Reader, rows: list[Row]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The spans [tokens, lengths] and no answer of each row, in order."""
    found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    with torch.no_grad():
        for group in module(rows):
            for i, number in enumerate(group.rows):
                found[number] = group.spans[i, : len(rows[number].text)], group.none[i]
    return [found[number] for number in range(len(rows))]


def assert_same(one: Reader, other: Reader) -> None:
    for (spans, none), (others, another) in zip(scores(one, ROWS), scores(other, ROWS), strict=True):
        assert torch.allclose(spans, others, atol=1e-3) and torch.allclose(none, another, atol=1e-3)


def test_nearness_is_the_mean_over_the_question_of_the_nearest_token_in_a_sentence() -> None:
    question = _Part(torch.tensor([[[2.0, 0.0], [0.0, 1.0], [9.0, 9.0]]]), torch.tensor([[True, True, False]]))
    text = _Part(torch.tensor([[[1.0, 0.0], [0.0, 3.0], [1.0, 0.0]]]), torch.tensor([[True, True, True]]))
    near = _Nearness.of(question, text, [np.array([4, 4, 5])])
    # First sentence: 1 and 1. Second: 1 for the first token of the question, 0 for the second; padding counts nothing.
    assert near.sentences.tolist() == [[1.0, 1.0, 0.5]]
    assert near.tokens.tolist() == [[1.0, 1.0, 1.0]]


def test_a_span_has_the_scores_of_its_ends_and_of_its_length_and_ends_in_the_text() -> None:
    module = model(max_answer=2)
    with torch.no_grad():
        module.lengths.copy_(torch.tensor([0.0, 3.0]) / PACE)
    spans = module._spans(torch.tensor([[1.0, 2.0]]), torch.tensor([[10.0, 20.0]]))
    assert spans[0, :, 0].tolist() == [11.0, 22.0]
    assert spans[0, 0, 1].item() == pytest.approx(1 + 20 + 3)
    assert spans[0, 1, 1] < IMPOSSIBLE / 2


def test_an_untrained_model_scores_sentences_alone() -> None:
    (spans, none), *_ = scores(model(), ROWS)
    of_first = spans[:3, 0]
    assert none == pytest.approx(LEVEL) and torch.allclose(of_first, of_first[:1].expand(3))


def test_the_embedded_model_points_to_the_right_sentence_before_any_training() -> None:
    tokenizer = backbone("embedded").tokenizer
    assert len(tokenizer) == len(backbone().tokenizer)
    told = row(
        "How long are visitors allowed to stay?",
        "The car park is behind the main building.",
        "Visits last at most forty minutes.",
        "Flowers are not allowed in intensive care.",
    )
    ((spans, _),) = scores(model(backbone("embedded")), [told])
    assert told.sentences[int(spans[:, 0].argmax())] == 1


def test_scores_do_not_depend_on_what_is_read_together() -> None:
    module = trained()
    for alone, (spans, none) in zip(ROWS, scores(module, ROWS), strict=True):
        ((own, own_none),) = scores(module, [alone])
        assert torch.allclose(own, spans, atol=1e-3) and torch.allclose(own_none, none, atol=1e-3)


def test_no_span_lies_outside_its_text() -> None:
    for group in trained()(ROWS):
        for i, number in enumerate(group.rows):
            length = len(ROWS[number].text)
            starts = torch.arange(group.spans.shape[1]).unsqueeze(1)
            inside = starts + torch.arange(4) < length
            assert (group.spans[i][inside] > IMPOSSIBLE / 2).all()
            assert (group.spans[i][~inside] < IMPOSSIBLE / 2).all()


def test_a_question_without_a_token_is_read_like_any_other() -> None:
    empty = ROWS[0]._replace(question=np.zeros(0, dtype=np.int64))
    ((spans, none),) = scores(trained(), [empty])
    assert torch.isfinite(spans).all() and torch.isfinite(none)


def test_above_a_frozen_trunk_the_scores_are_those_of_the_whole_encoder() -> None:
    parts = trained(frozen_below(backbone(), 1))
    assert parts.n_states == 2  # of the trunk, and of the layer above it
    assert_same(parts, whole(copy.deepcopy(parts)))  # type: ignore[arg-type]


@pytest.mark.parametrize("site", ["layer_parallel", "sublayer_serial", "stack_serial"])
def test_the_states_that_the_head_sees_are_those_that_patches_made(site: Any) -> None:
    of = patched(backbone(), [Patch(site=site, width=4)], seed=0)
    module = trained(of)
    before = scores(module, ROWS)
    with torch.no_grad():
        for name, parameter in module.encoder.named_parameters():
            if "patch" in of.tags[name]:
                parameter.normal_(0.0, 0.5, generator=torch.Generator().manual_seed(3))
    entered: list[torch.Tensor] = []
    layers = layers_of(module.encoder)
    assert layers is not None
    layers[-1].register_forward_pre_hook(lambda _, args, kwargs: entered.append(args[0]), with_kwargs=True)
    (group,) = module.framing.padded([one[:2] for one in ROWS])
    states = module._states(group.inputs)
    assert torch.equal(states[-2], entered[0])
    assert torch.equal(states[-1], module.encoder(**group.inputs).last_hidden_state)
    assert any(not torch.allclose(a, b, atol=1e-2) for (a, _), (b, _) in zip(before, scores(module, ROWS), strict=True))


@pytest.mark.parametrize(
    "config",
    [
        DistilBertConfig(vocab_size=30522, dim=8, hidden_dim=8, n_heads=2, n_layers=1),
        RobertaConfig(vocab_size=30522, hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1),
    ],
    ids=lambda config: config.model_type,
)
def test_encoders_without_segments_read_too(config: Any, tmp_path: Path) -> None:
    AutoModel.from_config(config).save_pretrained(tmp_path)
    backbone().tokenizer.save_pretrained(tmp_path)
    module = model(load_backbone(str(tmp_path)))
    assert module.n_states == 2
    sum(group.spans[:, 0, 0].sum() + group.none.sum() for group in module(ROWS)).backward()  # type: ignore[union-attr]
    assert all(torch.isfinite(spans).all() for spans, _ in scores(module, ROWS))


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    config = T5Config(vocab_size=30522, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    backbone().tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"read needs an encoder, but .* is an encoder-decoder; try 'embedded'"):
        reader(load_backbone(str(tmp_path)), max_answer=4)


def test_all_that_is_new_is_the_head() -> None:
    tagged = reader(backbone(), max_answer=4)
    new = {name for name, tags in tagged.tags.items() if "head" in tags}
    assert new == {name for name in tagged.tags if not name.startswith("encoder.")}
    assert len(new) == 7
