# SPDX-License-Identifier: Apache-2.0
"""The skill `parse`: features from a silo's schema and pairs, training on a toy, and what can be asked of it."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_database import SECRET, write_database
from transformers import T5Config, T5ForConditionalGeneration

from fedqa.data.records import Collection, Document, Example, Split
from fedqa.errors import ConfigError, DataError
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.models.patches import Patch, patched
from fedqa.models.tagging import tags_of
from fedqa.skills import make_skill
from fedqa.skills.parse import Parse, ParseFeatures, ParseOptions
from fedqa.skills.sql.linking import HOLDING, VALUE
from fedqa.training import Adam, Local, Term, fit

SCHEMA = Document("towns", " | city : city_name , population , state_name | state : state_name , area")
COLUMNS = {"big": "population", "where": "state_name"}
CITIES = ("austin", "dallas", "boston", "denver", "miami", "reno", "tampa", "omaha")


@cache
def tiny() -> Backbone:
    return load_backbone("tiny")


def pair(word: str, city: str, split: Split | None = "train") -> Example:
    sql = f"SELECT {COLUMNS[word]} FROM city WHERE city_name = '{city}'"
    return Example(f"{word}-{city}", f"{word} is {city} ?", sql=sql, split=split, about="towns")


def silo() -> Collection:
    train = [pair(word, city) for word in COLUMNS for city in CITIES[:6]]
    held: list[Example] = [pair(word, city, "dev") for word in COLUMNS for city in CITIES[6:7]]
    held += [pair(word, city, "test") for word in COLUMNS for city in CITIES[7:]]
    return Collection((SCHEMA,), (*train, *held))


def prepared(collection: Collection, **options: object) -> tuple[Parse, ParseFeatures]:
    skill = make_skill("parse", options, "test")
    assert isinstance(skill, Parse)
    return skill, skill.prepare(collection, tiny(), 0)


@cache
def trained() -> tuple[Parse, ParseFeatures, torch.nn.Module]:
    skill, features = prepared(silo(), dropout=0.0, decoder_layers=1)
    module = skill.build(tiny(), 0).module
    parameters = list(module.parameters())
    optimiser, local = Adam(parameters), Local(epochs=80, batch=6, learning_rate=3e-3, weight_decay=0.0)
    optimiser.start(local, None, 0)
    rng = np.random.default_rng(0)
    fit(
        lambda batch: skill.loss(module, batch),
        parameters,
        optimiser,
        data=features,
        local=local,
        terms=[Term("task")],
        rng=rng,
    )
    return skill, features, module


def test_it_learns_to_copy_cities_it_has_never_seen() -> None:
    skill, features, module = trained()
    assert skill.predict(module, features, "test") == [example.sql for example in silo().of_split("test")]
    assert skill.score(module, features, "test")["em"].tolist() == [1, 1]
    assert skill.score(module, features, "check")["em"].tolist() == []
    assert (skill.higher_is_better, skill.right) == ("em", "em")


def test_a_question_is_answered_by_sql_and_others_can_be_chosen() -> None:
    skill, features, module = trained()
    best, *others = skill.candidates(module, features, "big is reno ?", beams=4)
    assert best.sql == "SELECT population FROM city WHERE city_name = 'reno'"
    assert others and all(other.score < best.score for other in others)
    assert len({one.sql for one in (best, *others)}) == 1 + len(others)

    def last(candidates: list[str]) -> int:
        assert candidates[0] == best.sql
        return len(candidates) - 1

    assert skill.parse(module, features, "big is reno ?") == best.sql
    assert skill.parse(module, features, "big is reno ?", choose=last) == others[-1].sql


def test_bound_by_the_grammar_it_writes_the_same_where_that_is_sql() -> None:
    skill, features, module = trained()
    bound = Parse(replace(skill.options, constrained=True))
    assert bound.predict(module, features, "test") == skill.predict(module, features, "test")


def test_an_untrained_model_writes_sql_if_it_must() -> None:
    skill, features = prepared(silo(), constrained=True, max_steps=60)
    module = skill.build(tiny(), 0).module
    for sql in skill.predict(module, features, "dev"):
        assert sql.startswith("SELECT")


# -- features ----------------------------------------------------------------------------------------------------


def test_splits_keep_their_order_and_checks_are_a_split_of_their_own() -> None:
    check = replace(pair("big", "reno"), id="check/x", split="check")
    _, features = prepared(replace(silo(), examples=(*silo().examples, check)))
    assert features.n_train == 12
    assert features.questions("dev") == ("big-tampa", "where-tampa")
    assert features.questions("check") == ("check/x",)
    assert features.n_batches(5) == 3


def test_an_epoch_has_every_training_question_once() -> None:
    _, features = prepared(silo())
    batches = list(features.epoch(5, np.random.default_rng(1)))
    assert [n for _, n in batches] == [len(batch.sources) for batch, _ in batches]
    assert sorted(n for _, n in batches) == [2, 5, 5]
    seen = {id(source) for batch, _ in batches for source in batch.sources}
    assert seen == {id(one.source) for one in features.splits["train"]}


def test_in_a_pool_of_silos_batches_are_of_one_schema_where_possible() -> None:
    other = Document("1/law", " | court : court_name")
    examples = [
        Example(f"law-{i}", "which courts ?", sql="SELECT court_name FROM court", split="train", about="1/law")
        for i in range(6)
    ]
    both = replace(silo(), documents=(SCHEMA, other), examples=(*silo().examples, *examples))
    _, features = prepared(both)
    groups = [
        {id(source.items) for source in batch.sources} for batch, _ in features.epoch(6, np.random.default_rng(0))
    ]
    assert [len(group) for group in groups] == [1, 1, 1]
    with pytest.raises(ConfigError, match="there are 2 schemas; name one of 1/law, towns"):
        Parse().candidates(Parse().build(tiny(), 0).module, features, "which ?")


def test_a_silo_with_one_document_needs_no_word_about_it() -> None:
    plain = [replace(example, about="") for example in silo().examples]
    _, features = prepared(replace(silo(), examples=tuple(plain)))
    assert features.n_train == 12


def test_examples_without_sql_are_passed_over() -> None:
    other = Example("x", "who are you ?", split="train")
    _, features = prepared(replace(silo(), examples=(*silo().examples, other)))
    assert features.n_train == 12


def test_sql_that_is_too_long_is_not_trained_on_but_still_tested() -> None:
    long = " AND ".join(["population > 1"] * 30)
    examples = [
        replace(pair("big", "reno", split), id=split, sql=f"SELECT state_name FROM city WHERE {long}")
        for split in ("train", "test")
    ]
    _, features = prepared(replace(silo(), examples=(*silo().examples, *examples)), max_steps=40)
    assert (features.n_train, features.n_too_long) == (12, 1)
    assert features.longest == 10
    assert "test" in features.questions("test")


def test_a_long_question_is_cut_at_a_word() -> None:
    example = replace(pair("big", "reno"), question="antidisestablishmentarianism " * 9)
    skill, features = prepared(replace(silo(), examples=(*silo().examples, example)), max_question=16)
    source = features.splits["train"][-1].source
    n_pieces = len(tiny().tokenizer("antidisestablishmentarianism", add_special_tokens=False)["input_ids"])
    assert len(source.words) == 14 // n_pieces
    assert len(source.tokens) == len(source.words) * n_pieces
    assert skill.candidates(skill.build(tiny(), 0).module, features, "", beams=1)  # nor must there be any word


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ((pair("big", "reno", "test"),), "parse has nothing to train on: of 0 training questions"),
        ((pair("big", "reno", None),), "'big-reno' is in no split"),
        ((replace(pair("big", "reno"), about="elsewhere"),), "'big-reno' is about 0 documents.*field `about`"),
    ],
)
def test_examples_that_cannot_be_used_are_refused(examples: Sequence[Example], message: str) -> None:
    with pytest.raises(DataError, match=message):
        prepared(Collection((SCHEMA,), tuple(examples)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 0}, "beams must be at least 1, got 0"),
        ({"max_question": 7}, "max_question must be at least 8, got 7"),
        ({"max_steps": 1}, "max_steps must be from 8 to 512, got 1"),
        ({"dropout": 1.0}, "dropout must be from 0 to below 1, got 1.0"),
        ({"smoothing": -0.1}, "smoothing must be from 0 to below 1, got -0.1"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_skill("parse", options, "test")


def test_it_draws_nothing() -> None:
    with pytest.raises(ConfigError, match="stage 'x': parse has no options for drawing examples, got 'count'"):
        Parse().check_draws({"count": 3}, "stage 'x'")


def test_patches_need_an_encoder_that_is_trained() -> None:
    with_patch = patched(tiny(), [Patch("patch", width=4)], seed=0)
    with pytest.raises(ConfigError, match="set train_encoder = true"):
        Parse().build(with_patch, 0)
    tags = Parse(ParseOptions(train_encoder=True)).build(with_patch, 0).tags
    assert any("patch" in own for own in tags.values())


# -- encoder-decoders --------------------------------------------------------------------------------------------


@cache
def small_t5() -> Backbone:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_heads": 2, "num_layers": 1, "num_decoder_layers": 1}
    special = {"pad_token_id": 0, "eos_token_id": 102, "decoder_start_token_id": 101}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = T5ForConditionalGeneration(T5Config(vocab_size=30522, **sizes, **special)).eval()
    return Backbone("small-t5", model, tiny().tokenizer, tags_of(model))


def test_an_encoder_decoder_reads_question_and_schema_and_writes_plain_text() -> None:
    skill = Parse(ParseOptions(max_steps=40))
    features = skill.prepare(silo(), small_t5(), 0)
    first = features.splits["train"][0]
    assert small_t5().tokenizer.decode(first.source.tokens) == (
        "big is austin? ; structured knowledge : | city : city _ name, population, state _ name | state : state _ "
        "name, area"
    )
    assert first.target is not None
    assert small_t5().tokenizer.decode(first.target[:, 1]) == (
        "select population from city where city _ name = ' austin ' [SEP]"
    )
    module = skill.build(small_t5(), 0).module
    (batch, _), *_ = features.epoch(4, np.random.default_rng(0))
    assert torch.isfinite(skill.loss(module, batch))
    assert len(skill.predict(module, features, "dev")) == 2


def test_plain_text_knows_no_grammar() -> None:
    with pytest.raises(ConfigError, match=r"constrained goes with an encoder .* 'small-t5' writes plain text"):
        Parse(ParseOptions(constrained=True)).prepare(silo(), small_t5(), 0)


# -- a database, and questions that are invented -----------------------------------------------------------------


def test_with_a_database_what_sql_finds_is_scored_too(tmp_path: Path) -> None:
    skill, features, module = trained()
    where = write_database(tmp_path / "towns.sqlite")
    scores = skill.score(module, replace(features, database=str(where)), "test")
    assert {metric: values.tolist() for metric, values in scores.items()} == {"em": [1, 1], "ex": [1, 1]}
    assert list(skill.score(module, features, "test")) == ["em"]


def test_invented_questions_are_trained_on_beside_the_silos_own() -> None:
    _, plain = prepared(silo())
    _, features = prepared(silo(), synthetic=20)
    assert features.n_train == plain.n_train + 20
    assert [name for name in features.questions("train") if name.startswith("invented/towns/")] == [
        f"invented/towns/{i}" for i in range(20)
    ]
    for split in ("dev", "test"):
        assert features.questions(split) == plain.questions(split)
    _, again = prepared(silo(), synthetic=20)
    assert [one.sql for one in again.splits["train"]] == [one.sql for one in features.splits["train"]]
    asked = next(one for one in features.splits["train"] if one.id.startswith("invented/"))
    held = Example("held", asked.text.upper(), sql="SELECT area FROM state", split="test", about="towns")
    _, less = prepared(replace(silo(), examples=(*silo().examples, held)), synthetic=20)
    assert less.n_train == features.n_train - 1  # what is tested is not trained on
    with pytest.raises(ConfigError, match="synthetic must be at least 0, got -1"):
        ParseOptions(synthetic=-1)


def test_guided_by_a_database_it_writes_what_can_be_run(tmp_path: Path) -> None:
    skill, features, module = trained()
    guided = Parse(replace(skill.options, guided=True, beams=4))
    where = str(write_database(tmp_path / "towns.sqlite"))
    assert guided.predict(module, replace(features, database=where), "test") == skill.predict(module, features, "test")
    with closing(sqlite3.connect(where)) as connection:
        connection.execute("ALTER TABLE city DROP COLUMN population")
        connection.commit()
    first, second = guided.predict(module, replace(features, database=where), "test")
    assert "population" not in first and second == skill.predict(module, features, "test")[1]
    for nowhere in ("", str(tmp_path / "gone.sqlite")):
        alone = guided.predict(module, replace(features, database=nowhere), "test")
        assert alone == skill.predict(module, features, "test")


# -- links between questions, the schema and the database --------------------------------------------------------


def linked_kinds(features: ParseFeatures) -> set[int]:
    links = features.splits["train"][0].source.links  # of "big is austin ?"
    assert links is not None
    return set(links[:, 3].tolist())


def test_links_are_looked_up_in_the_database_where_there_is_one(tmp_path: Path) -> None:
    where = str(write_database(tmp_path / "towns.sqlite"))
    skill, plain = prepared(silo())
    known = skill.prepare(silo(), tiny(), 0, database=where)
    assert (plain.database, known.database) == ("", where)
    assert linked_kinds(plain) == set()
    assert linked_kinds(known) == {VALUE, HOLDING}
    with pytest.raises(ConfigError, match=r"there is no database .*gone.sqlite"):
        skill.prepare(silo(), tiny(), 0, database=str(tmp_path / "gone.sqlite"))


def test_without_links_nothing_is_looked_up_and_the_model_has_no_part_for_them(tmp_path: Path) -> None:
    skill = Parse(ParseOptions(links=False, synthetic=5))
    features = skill.prepare(silo(), tiny(), 0, database=str(write_database(tmp_path / "towns.sqlite")))
    assert all(one.source.links is None for asked in features.splits.values() for one in asked)
    names, others = (set(Parse(ParseOptions(links=links)).build(tiny(), 0).tags) for links in (False, True))
    assert others - names == {f"linking.{part}" for part in ("first", "last", "item", "share")}


def test_invented_questions_ask_for_what_the_database_holds(tmp_path: Path) -> None:
    where = str(write_database(tmp_path / "towns.sqlite"))
    features = Parse(ParseOptions(synthetic=60)).prepare(silo(), tiny(), 0, database=where)
    invented = [one for one in features.splits["train"] if one.id.startswith("invented/")]
    assert any(f"'{SECRET}'" in one.sql for one in invented)
    assert not any(SECRET in one.id for one in invented)


def test_a_value_is_written_as_the_database_that_is_asked_spells_it(tmp_path: Path) -> None:
    skill, features, module = trained()
    where = tmp_path / "capitals.sqlite"
    with closing(sqlite3.connect(write_database(where))) as connection:
        connection.execute("UPDATE city SET city_name = 'RENO' WHERE city_name = 'reno'")
        connection.commit()
    asking = skill.with_database(features, str(where))
    assert (features.database, asking.database) == ("", str(where))
    assert skill.parse(module, features, "big is reno ?").endswith("city_name = 'reno'")
    assert skill.parse(module, asking, "big is reno ?").endswith("city_name = 'RENO'")


def test_an_encoder_decoder_is_told_no_links(tmp_path: Path) -> None:
    skill, where = Parse(ParseOptions(max_steps=40)), str(write_database(tmp_path / "towns.sqlite"))
    plain, known = (skill.prepare(silo(), small_t5(), 0, database=database) for database in ("", where))
    for one, other in zip(plain.splits["train"], known.splits["train"], strict=True):
        assert one.source.tokens.tolist() == other.source.tokens.tolist() and other.source.links is None
