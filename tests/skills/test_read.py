# SPDX-License-Identifier: Apache-2.0
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fedqa.config import Alliance, course_of
from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.errors import ConfigError, DataError, ModelError
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.models.reader import IMPOSSIBLE, Reader, SpanScores
from fedqa.runs import build, run_setting
from fedqa.skills import read as read_module
from fedqa.skills.read import Read, ReadSpan, _losses, _read, _Window
from fedqa.skills.read_features import ReadFeatures, ReadOptions
from fedqa.skills.skill import Skill
from fedqa.skills.windows import Extent, token_texts, windows
from fedqa.tables import from_table

PLACES = ("gate", "library", "market", "museum", "station", "theatre", "pool", "garden", "harbour", "tower")
SMALL: dict[str, Any] = {"window": 24, "overlap": 8, "max_answer": 4}


@cache
def backbone() -> Backbone:
    return load_backbone("tiny", seed=1)


def example(id: str, document: Document, question: str, *answers: str, split: Split = "train") -> Example:
    spans = tuple(Span(document.id, at := document.text.index(answer), at + len(answer)) for answer in answers)
    return Example(id, question, spans, answers, split=split, about=document.id)


@cache
def collection() -> Collection:
    """A document for each place; when it opens is told, and whether it has a lift is not."""
    documents, examples = [], []
    for i, place in enumerate(PLACES):
        text = f"Doors of the {place}.\n\nThe {place} opens at {i + 2} each day. It was built in {1900 + i} by hand."
        documents.append(Document(f"d{i}", text))
        split: Split = "train" if i < 6 else "dev" if i < 8 else "test"
        examples.append(example(f"open{i}", documents[-1], f"When does the {place} open?", f"{i + 2}", split=split))
        examples.append(
            example(f"built{i}", documents[-1], f"When was it built, the {place}?", f"{1900 + i}", split=split)
        )
        examples.append(example(f"lift{i}", documents[-1], f"Is there a lift in the {place}?", split=split))
    return Collection(tuple(documents), tuple(examples))


def prepared(data: Collection | None = None, **options: Any) -> tuple[Read, ReadFeatures]:
    skill = Read(ReadOptions(**{**SMALL, **options}))
    return skill, skill.prepare(data or collection(), backbone(), seed=0)


def one(text: str, question: str, *answers: str, **options: Any) -> tuple[Read, ReadFeatures]:
    document = Document("d", text)
    return prepared(Collection((document,), (example("e", document, question, *answers),)), **options)


@pytest.fixture
def seeded() -> Iterator[None]:
    """Dropout draws from torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def test_read_is_a_skill() -> None:
    skill: Skill = Read()
    assert (skill.name, skill.higher_is_better, skill.right) == ("read", "f1", "em")


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 8}, "read: window must be at least 16, got 8"),
        ({"max_question": 2}, "read: max_question must be at least 8, got 2"),
        ({"max_answer": 0}, "read: max_answer must be at least 1, got 0"),
        ({"overlap": 3}, r"overlap must be from max_answer = 4, .* to below window = 24, got 3"),
        ({"overlap": 24}, r"to below window = 24, got 24"),
        ({"no_answer": -1.0}, r"no_answer must be a number from 0, got -1\.0"),
        ({"no_answer": float("nan")}, "no_answer must be a number from 0, got nan"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_is_accepted(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ReadOptions(**{**SMALL, **options})


def test_windows_longer_than_the_models_positions_are_refused() -> None:
    prepared(window=413, max_question=96)  # and three special tokens: 512
    with pytest.raises(
        ConfigError, match=r"513 tokens of max_question, window .* 512 positions of 'tiny'; lower window"
    ):
        prepared(window=414, max_question=96)


def test_draws_are_not_known() -> None:
    with pytest.raises(ConfigError, match="stage: read has no options for drawing examples, got 'count'"):
        Read().check_draws({"count": 3}, "stage")


# Windows


@pytest.mark.parametrize("length", range(60))
def test_windows_hold_every_token_and_every_span_up_to_the_overlap(length: int) -> None:
    found = list(windows(length, size=10, overlap=4))
    assert all(len(extent) <= 10 for extent in found) and len(found) == max(
        0, math.ceil((length - 4) / 6) or length > 0
    )
    for start in range(length):
        for end in range(start + 1, min(start + 4, length) + 1):
            assert any(Extent(start, end) in extent for extent in found)


@pytest.mark.parametrize(
    "text",
    [
        "Two  spaces,\tand\na\u00a0hard one.",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 came at 7\u202fam \u2014 caf\u00e9 or cafe\u0301?",
        "\u5317\u4eac\u5927\u5b66\u3002\u0645\u0631\u062d\u0628\u0627 \u041f\u0440\u0438\u0432\u0435\u0442",
    ],
)
def test_every_token_knows_its_place_in_the_text(text: str) -> None:
    tokenizer = backbone().tokenizer
    (told,) = token_texts(tokenizer, [text])
    parts = [text[start:end] for start, end in zip(told.starts, told.ends, strict=True)]
    assert all(part and part == part.strip() for part in parts)
    for part, id in zip(parts, told.ids, strict=True):
        written = tokenizer.convert_ids_to_tokens(int(id)).removeprefix("##")
        assert id == tokenizer.unk_token_id or len(written) <= len(part)
    whole = told.tokens(0, len(text))
    assert whole == Extent(0, len(told)) and told.characters(whole) == (0, len(text))


def test_a_space_before_a_word_is_no_part_of_it() -> None:
    words = {"<pad>": 0, "a": 1, "b": 2, "\u0120b": 3, "\u0120": 4}
    tokenizer = Tokenizer(models.BPE(words, [("\u0120", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")
    (told,) = token_texts(fast, ["a b"])
    assert told.ids.tolist() == [1, 3] and told.characters(Extent(1, 2)) == (2, 3)
    assert told.tokens(2, 3) == Extent(1, 2)


def test_a_heading_and_each_sentence_have_a_number() -> None:
    (told,) = token_texts(backbone().tokenizer, ["Visits\n\nCome at noon. Leave at one."])
    assert told.sentences.tolist() == [0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_a_tokenizer_that_knows_no_places_is_refused() -> None:
    with pytest.raises(ModelError, match=r"SimpleNamespace does not tell where .*; take a model with a tokenizer.json"):
        token_texts(SimpleNamespace(is_fast=False), ["a"])  # type: ignore[arg-type]


# Features


@pytest.mark.parametrize("answer", ["Noon", "at  seven", "end"])
def test_a_gold_span_is_exactly_its_words_wherever_it_stands(answer: str) -> None:
    text = "Noon is when  it opens, at  seven we reach the end"  # the first word, two spaces inside, the last word
    _, features = one(text, "When?", answer)
    (question,) = features.splits["train"]
    ((gold,),) = question.gold
    start, end = features.texts[0].characters(gold)
    assert text[start:end] == answer and question.accepted == (answer,)


def test_of_an_answer_that_is_too_long_the_beginning_is_learnt() -> None:
    _, features = one("It is open on all seven days.", "When?", "open on all seven days")
    assert features.splits["train"][0].gold == ((Extent(2, 6),),)


def test_all_gold_spans_of_a_question_are_kept() -> None:
    _, features = one("At noon or at midnight.", "When?", "noon", "midnight")
    assert features.splits["train"][0].gold == ((Extent(1, 2), Extent(4, 5)),)
    assert features.splits["train"][0].accepted == ("noon", "midnight")


def test_what_several_people_answered_to_one_question_is_one_question() -> None:
    document = Document("d", "At noon or at midnight.")
    asked = [
        example("a", document, "When?"),
        example("b", document, "when", "noon"),
        example("c", document, "When?", "midnight"),
    ]
    (question,) = prepared(Collection((document,), tuple(asked)))[1].splits["train"]
    assert (question.id, question.accepted) == ("a", ("noon", "midnight"))
    assert question.gold == ((Extent(1, 2), Extent(4, 5)),)


def test_without_answers_the_words_of_the_evidence_are_accepted() -> None:
    data = Collection((Document("d", "Ask the porter."),), (Example("e", "Who?", (Span("d", 4, 14),), split="train"),))
    assert prepared(data)[1].splits["train"][0].accepted == ("the porter",)


def test_of_a_long_question_the_end_is_read() -> None:
    _, features = one("Noon.", "I came on foot and had to wait. When do you open?", "Noon", max_question=8)
    expected = backbone().tokenizer("to wait. When do you open?", add_special_tokens=False)["input_ids"]
    assert features.splits["train"][0].tokens.tolist() == expected


def test_a_question_that_nobody_placed_is_read_where_its_words_are() -> None:
    placed = replace(
        collection(), examples=(*collection().examples, Example("x", "A lift in the museum?", split="dev"))
    )
    question = prepared(placed)[1].splits["dev"][-1]
    assert question.id == "x" and question.texts == (PLACES.index("museum"),) and question.accepted == ()


def test_questions_to_a_database_are_left_out() -> None:
    asked = Example("sql", "How many?", sql="select 1", split="train")
    _, features = prepared(replace(collection(), examples=(*collection().examples, asked)))
    assert "sql" not in features.questions("train") and features.n_train == 18


def test_nothing_to_train_on_is_an_error() -> None:
    data = replace(collection(), examples=tuple(e for e in collection().examples if e.split != "train"))
    with pytest.raises(DataError, match=r"none of 12 examples is a training question about one of 10 documents"):
        prepared(data)


def test_an_example_in_no_split_is_an_error() -> None:
    data = replace(collection(), examples=(replace(collection().examples[0], split=None),))
    with pytest.raises(DataError, match=r"'open0' is in no split; give the collection to fedqa.data.splits.split"):
        prepared(data)


def long_text(answer_at: int, length: int = 200) -> str:
    return " ".join("answer" if i == answer_at else "word" for i in range(length))


@pytest.mark.parametrize("answer_at", [0, 15, 16, 23, 24, 40, 199])
def test_an_epoch_draws_whole_answers_and_windows_without_any_part_of_one(answer_at: int) -> None:
    text = long_text(answer_at)
    _, features = one(text, "What?", "answer", no_answer=2.0)
    ((targets, count),) = features.epoch(4, np.random.default_rng(0))
    first, *others = targets
    (gold,) = first.gold
    assert count == 1 and len(others) == 2 and len(gold) == 1
    answer = backbone().tokenizer.convert_tokens_to_ids("answer")
    assert first.row.text[gold.start] == answer
    assert all(not other.gold and answer not in other.row.text for other in others)


def test_a_window_that_cuts_an_answer_is_neither_right_nor_wrong() -> None:
    text = " ".join(["word"] * 14 + ["one", "two", "three", "four"] + ["word"] * 40)
    _, features = one(text, "What?", "one two three four", window=16, overlap=4, no_answer=100.0)
    ((targets, _),) = features.epoch(4, np.random.default_rng(0))
    assert [len(target.gold) for target in targets] == [1, 0, 0, 0]  # of six windows, the first cuts it
    assert [extent for _, extent in features.windows(features.splits["train"][0])][:2] == [
        Extent(0, 16),
        Extent(12, 28),
    ]


def test_an_epoch_has_every_question_once_and_one_window_of_an_unanswerable_one() -> None:
    _, features = prepared(window=200, overlap=8)
    batches = list(features.epoch(5, np.random.default_rng(0)))
    assert [count for _, count in batches] == [5, 5, 5, 3] and features.n_batches(5) == 4
    assert Counter(len(target.gold) for targets, _ in batches for target in targets) == {1: 12, 0: 6}


# Loss


def test_the_loss_is_by_the_share_of_all_gold_spans_among_spans_and_no_answer() -> None:
    spans = torch.tensor([[[0.0, 1.0], [2.0, IMPOSSIBLE]], [[0.0, 1.0], [2.0, IMPOSSIBLE]]])
    scores = SpanScores([0, 1], spans, torch.tensor([0.0, 0.0]))
    total = 1 + math.e + math.e**2 + 1
    found = _losses(scores, [(Extent(0, 2), Extent(1, 2)), ()]).tolist()
    assert found == pytest.approx([math.log(total / (math.e + math.e**2)), math.log(total / 1)])


def trained(skill: Read, features: ReadFeatures, epochs: int = 30) -> Reader:
    model = skill.build(backbone(), seed=0).module.train()
    optimiser, rng = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True), np.random.default_rng(0)
    for _ in range(epochs):
        for batch, _ in features.epoch(6, rng):
            skill.loss(model, batch).backward()
            optimiser.step()
            optimiser.zero_grad()
    assert isinstance(model, Reader)
    return model


@cache
def learnt() -> tuple[Read, ReadFeatures, Reader]:
    skill, features = prepared()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return skill, features, trained(skill, features)


def test_a_tiny_model_learns_to_read_what_it_was_shown() -> None:
    skill, features, model = learnt()
    shown = replace(features, splits={**features.splits, "dev": features.splits["train"]})
    found = skill.predict(model, shown, "dev")
    right = [
        one.answer == question.accepted[0]
        for one, question in zip(found, shown.splits["dev"], strict=True)
        if question.accepted
    ]
    assert np.mean(right) > 0.9  # by chance: one of more than fifty spans


# Scores


def test_scores_have_a_value_for_each_question_and_f1_is_never_below_em() -> None:
    skill, features, model = learnt()
    for split in ("dev", "test", "check"):
        scores = skill.score(model, features, split)
        assert {len(values) for values in scores.values()} == {len(features.questions(split))}
        assert (scores["f1"] >= scores["em"]).all()
        refused = scores["refused"].astype(bool)
        unanswerable = np.array([not question.accepted for question in features.splits[split]], dtype=bool)
        assert (scores["no_answer"].astype(bool) == (refused == unanswerable)).all()


def test_test_questions_have_no_say_in_the_threshold() -> None:
    skill, features, model = learnt()
    other = replace(features, splits={**features.splits, "test": features.splits["train"]}, kept=type(features.kept)())
    assert skill.threshold(model, other) == skill.threshold(model, features)


def test_the_threshold_follows_the_model_and_dev_is_read_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    skill, features = prepared()
    model = skill.build(backbone(), seed=0).module
    read: list[Split] = []
    whole = Read.predict
    monkeypatch.setattr(
        Read, "predict", lambda self, model, features, split: read.append(split) or whole(self, model, features, split)
    )
    skill.score(model, features, "dev")
    skill.score(model, features, "test")
    assert read == ["dev", "test"]
    with torch.no_grad():
        next(iter(model.parameters())).add_(1.0)
    skill.score(model, features, "test")
    assert read == ["dev", "test", "dev", "test"]


def test_without_dev_questions_the_threshold_is_zero() -> None:
    skill, features, model = learnt()
    assert (
        skill.threshold(model, replace(features, splits={**features.splits, "dev": ()}, kept=type(features.kept)()))
        == 0
    )


def test_an_answer_is_characters_of_the_document_and_not_too_long() -> None:
    skill, features, model = learnt()
    for one, question in zip(skill.predict(model, features, "test"), features.splits["test"], strict=True):
        assert one.answer and one.answer in features.documents[question.texts[0]].text
        (told,) = token_texts(backbone().tokenizer, [one.answer])
        assert len(told) <= SMALL["max_answer"]


def test_windows_are_read_a_few_at_a_time_however_long_a_document_is(monkeypatch: pytest.MonkeyPatch) -> None:
    skill, features = one(long_text(0, 2000), "What?", "answer")
    model = skill.build(backbone(), seed=0).module
    monkeypatch.setattr(read_module, "_AT_ONCE", 4)
    taken: list[int] = []
    every = (_Window(0, 0, extent) for extent in windows(2000, 24, 8))
    counted = (taken.append(1) or window for window in every)
    found = _read(model, counted, [features.splits["train"][0].tokens], features.texts)
    next(found)
    assert len(taken) == 4
    assert 1 + sum(1 for _ in found) == len(taken) == math.ceil((2000 - 8) / 16)


# Somebody's question


def test_the_best_span_of_each_text_best_text_first() -> None:
    skill, _, model = learnt()
    texts = [document.text for document in collection().documents[:4]]
    found = skill.find(model, backbone().tokenizer, "When does the market open?", texts, k=4)
    assert sorted(span.text_index for span in found) == [0, 1, 2, 3]
    assert [span.odds for span in found] == sorted((span.odds for span in found), reverse=True)
    assert found[0].odds == pytest.approx(found[0].score - found[0].null_score)
    assert skill.find(model, backbone().tokenizer, "When does the market open?", texts, k=2) == found[:2]
    assert all(0 <= span.start < span.end <= len(texts[span.text_index]) for span in found)


def test_a_text_is_read_like_a_document() -> None:
    skill, features, model = learnt()
    for one, question, asked in zip(
        skill.predict(model, features, "test"), features.splits["test"], collection().of_split("test"), strict=True
    ):
        text = features.documents[question.texts[0]].text
        (span,) = skill.find(model, features.tokenizer, asked.question, [text], k=1)
        assert isinstance(span, ReadSpan) and text[span.start : span.end] == one.answer
        assert span.odds == pytest.approx(one.odds, abs=1e-3)


def test_a_text_without_words_has_no_span() -> None:
    skill, _, model = learnt()
    assert [
        span.text_index for span in skill.find(model, backbone().tokenizer, "When?", ["", "At noon.", " "], k=5)
    ] == [1]
    assert skill.find(model, backbone().tokenizer, "When?", [], k=5) == []


# In a federation


@pytest.mark.parametrize(
    "settings", [{"method": "fedqas"}, {"method": "fedmatch"}, {"method": "fedqas", "freeze_layers": 1}], ids=str
)
def test_silos_learn_to_read_together(settings: dict[str, Any], tmp_path: Path) -> None:
    silos = [{"name": name, "skill": "read", "data": {"sample": "law"}} for name in ("one", "two")]
    table = {"name": "readers", "silo": silos, "model": "tiny", "rounds": 1, "skills": {"read": SMALL}, **settings}
    course = course_of(from_table(Alliance, table, "here"))
    setting = build(course, {"one": collection(), "two": collection()}, tmp_path)
    result = run_setting(setting, processes=1)
    assert not result["refused"]
    assert set(result["macro"]["best"]["test"]) == {"f1", "em", "no_answer", "refused"}
