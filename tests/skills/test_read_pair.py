# SPDX-License-Identifier: Apache-2.0
"""The skill `read` on the encoder of a pair: it reads as it does without one, and its parameters are the pair's."""

import numpy as np
import pytest
import torch
from pair_toys import texts_silo, tiny, trained

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.models.text_pair import pair_of
from fedqa.skills import mlm
from fedqa.skills.read import Read
from fedqa.skills.read_features import ReadOptions

SMALL = {"window": 32, "overlap": 16, "max_answer": 8}
PLAIN, PAIRED = ReadOptions(**SMALL), ReadOptions(**SMALL, pair=True)  # type: ignore[arg-type]


def silo() -> Collection:
    """Where each animal sat, to be found in its text."""
    examples = []
    for number, document in enumerate(texts_silo().documents):
        start = document.text.index("in the ") + len("in the ")
        span = Span(document.id, start, document.text.index(" .", start))
        place = document.text[span.start : span.end]
        split = texts_silo().examples[number].split
        examples.append(Example(f"q{number}", f"Where was animal {number}?", (span,), (place,), split=split))
    return Collection(texts_silo().documents, tuple(examples))


def test_it_trains_to_the_same_bits_as_without_a_pair() -> None:
    plain, paired = (Read(options) for options in (PLAIN, PAIRED))
    features = plain.prepare(silo(), tiny(), 0)
    one, other = (trained(skill, features, epochs=2, rate=1e-3)[0] for skill in (plain, paired))
    without = {name.removeprefix("encoder."): value for name, value in one.named_parameters()}
    withal = {name.removeprefix("pair.encoder."): value for name, value in other.named_parameters()}
    assert len(without) < len(withal)
    assert all(torch.equal(value, withal[name]) for name, value in without.items())
    scores = [skill.score(module, features, "test") for skill, module in ((plain, one), (paired, other))]
    assert all(np.array_equal(scores[0][metric], scores[1][metric]) for metric in scores[0])


def test_its_encoder_is_the_pairs_and_has_one_name() -> None:
    tagged = Read(PAIRED).build(tiny(), 0)
    pair = pair_of(tagged.module)
    assert tagged.module.encoder is pair.encoder
    assert not any(name.startswith("encoder.") for name in tagged.tags)
    heads = {name for name, tags in tagged.tags.items() if "head" in tags}
    assert heads == {name for name in tagged.tags if not name.startswith("pair.")}
    assert {"ends.weight", "none.bias", "lengths", "known", "log_scale"} <= heads


def test_what_is_learnt_of_hidden_words_reaches_the_reader() -> None:
    skill = Read(PAIRED)
    module = skill.build(tiny(), 0).module
    pair = pair_of(module)
    features = skill.prepare(silo(), tiny(), 0)
    before = skill.predict(module, features, "dev")[0].odds
    ids, mask = mlm.framed(pair.framing, [text.ids for text in features.texts[:4]])
    mlm.loss_of(pair, ids, mask, np.random.default_rng(0)).backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in pair.encoder.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    assert skill.predict(module, features, "dev")[0].odds != before


def test_the_seed_draws_the_decoder() -> None:
    one, same, other = (dict(Read(PAIRED).build(tiny(), seed).module.named_parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    different = {name for name in one if not torch.equal(one[name], other[name])}
    assert different and all(name.startswith("pair.decoder.") for name in different)


@pytest.mark.parametrize("options", [PLAIN, PAIRED])
def test_a_document_is_read_either_way(options: ReadOptions) -> None:
    document = Document("d", "The cat sat in the barn.")
    example = Example("q", "Where?", (Span("d", 19, 23),), ("barn",), split="train")
    skill = Read(options)
    features = skill.prepare(Collection((document,), (example,)), tiny(), 0)
    module = skill.build(tiny(), 0).module
    (found,) = skill.find(module, tiny().tokenizer, "Where?", [document.text], 1)
    assert document.text[found.start : found.end]
    assert features.n_train == 1
