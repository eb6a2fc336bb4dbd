# SPDX-License-Identifier: Apache-2.0
"""What must hold of every method, whatever it is: each test runs over all that `METHODS` knows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from toys import (
    SIZES,
    ToySkill,
    differing,
    left_behind,
    toy_collection,
    toy_coordinator,
    toy_course,
    toy_data,
    toy_model,
    toy_run,
    toy_setting,
    with_stage,
)

from fedqa.config import project_of, sample_alliance
from fedqa.data.records import Collection, Document
from fedqa.engines.local import InProcess
from fedqa.federation import probe, wire
from fedqa.federation.channels import CHANNELS
from fedqa.federation.coordinator import Coordinator
from fedqa.federation.course import Choice, Course, Evaluation, Mixing, Participation, SiloPlan, Stage
from fedqa.federation.engine import Engine, Silent
from fedqa.federation.masking import fixed
from fedqa.federation.messages import Envelope, Request, Update
from fedqa.federation.mixing import ALL
from fedqa.federation.sharing import Rule, compile_layout
from fedqa.federation.silo_state import SiloState
from fedqa.federation.weighers import WEIGHERS, Matrix, normalised
from fedqa.files import read_tensors, write_tensors
from fedqa.methods import METHODS
from fedqa.models.tagged import TaggedModel
from fedqa.runs import build, pool, read_silo
from fedqa.seeds import generator
from fedqa.training import Adam, Local, Term, fit

FROZEN_WORDS: Rule = (("embeddings|pooler", "frozen"), ("*", "shared"))
ALL_METHODS = list(METHODS)
TRAINING = [name for name in METHODS if toy_course(name).stages]
FEDERATED = [name for name in TRAINING if not any(stage.channels for stage in toy_course(name).stages)]
# A stage's extra terms, server optimiser and second model are what sets a method apart from plain training.
PLAIN: dict[str, Any] = {"objective": (Term("task"),), "mixing": Mixing(), "replica": None}


def unscored(course: Course) -> Course:
    return replace(course, evaluation=Evaluation(every=0))


def last_stage(course: Course) -> Course:
    """A course of the last stage alone: where silos first train alone, what sets the method apart comes after."""
    return replace(course, stages=course.stages[-1:])


def assert_close(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float = 2e-5) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        apart = float((tensor.double() - other[name].double()).abs().max()) if tensor.numel() else 0.0
        assert apart <= tolerance, (name, apart)


def kept(coordinator: Coordinator, silo: str, kind: str) -> dict[str, Tensor]:
    """The newest model of a kind on a silo's disk."""
    return SiloState(coordinator.folder.silo(silo) / "state").newest(kind, 0, 10**6)


def shared_model(coordinator: Coordinator) -> Tensor:
    return coordinator._weights[ALL]


# -- 1. the order of silos ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL_METHODS)
def test_the_order_of_silos_in_a_course_does_not_matter(method: str, tmp_path: Path) -> None:
    course = toy_course(method, rounds=2)
    turned = replace(course, silos=course.silos[::-1])
    one, there = toy_run(course, tmp_path / "one")
    other, back = toy_run(turned, tmp_path / "other")
    assert_close(left_behind(one), left_behind(other))
    assert there.scores.keys() == back.scores.keys()


@pytest.mark.parametrize(
    "options", [{"combiner": "median"}, {"combiner": "trimmed_mean"}, {"combiner": "krum"}, {"sample": 2}], ids=str
)
def test_the_order_of_silos_does_not_matter_for_combiners_and_draws(options: dict[str, Any], tmp_path: Path) -> None:
    course = unscored(toy_course("fedavg", rounds=2, **options))
    one, _ = toy_run(course, tmp_path / "one")
    other, _ = toy_run(replace(course, silos=course.silos[::-1]), tmp_path / "other")
    assert_close(left_behind(one), left_behind(other))


# -- 2. identity mixing is training alone ------------------------------------------------------------------------


def by_identity(course: Course) -> Course:
    return with_stage(course, sharing=FROZEN_WORDS, mixing=Mixing(Choice("identity")))


def test_identity_mixing_of_everything_equals_training_alone_bit_for_bit(tmp_path: Path) -> None:
    course = toy_course("isolated")
    alone, _ = toy_run(course, tmp_path / "alone")
    mixed, _ = toy_run(by_identity(course), tmp_path / "mixed")
    for silo in SIZES:
        for kind in ("personal", "stage"):
            assert not differing(kept(alone, silo, kind), kept(mixed, silo, kind))
        assert torch.equal(flat(kept(alone, silo, "stage")), mixed._weights[silo])


def flat(model: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in in_model_order(model).values()])


def in_model_order(model: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: model[name] for name, _ in toy_model().module.named_parameters() if name in model}


@pytest.mark.parametrize("keep_optimiser", [False, True])
def test_training_alone_equals_a_loop_written_by_hand(keep_optimiser: bool, tmp_path: Path) -> None:
    local = Local(batch=4, learning_rate=0.02, schedule="linear", keep_optimiser=keep_optimiser)
    course = unscored(toy_course("isolated", local=local))
    alone, _ = toy_run(course, tmp_path)
    for silo, collection in toy_data().items():
        by_hand = {name: p.detach() for name, p in trained_by_hand(silo, collection, course).items()}
        assert not differing(kept(alone, silo, "stage"), by_hand)


def trained_by_hand(silo: str, collection: Collection, course: Course) -> dict[str, Tensor]:
    """Round after round with `fit`, on a model of its own; a round's change is rounded as an update is."""
    module, skill, local = toy_model(3).module, ToySkill(), course.stages[0].local
    features = skill.prepare(collection, None, 0)
    module.words.weight.requires_grad_(False)
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    steps, adam = features.n_batches(local.batch), Adam(list(trained.values()))
    for number in range(1, course.rounds + 1):
        before = {name: p.detach().clone() for name, p in trained.items()}
        fit(
            lambda batch: skill.loss(module, batch),
            list(trained.values()),
            adam if local.keep_optimiser else Adam(list(trained.values())),
            data=features,
            local=local,
            terms=(Term("task"),),
            rng=generator(course.seed, "train", number, silo, "main"),
            first_step=(number - 1) * steps,
            horizon=course.rounds * steps,
        )
        for name, p in trained.items():
            p.data = before[name] + (p.detach() - before[name])
    return trained


# -- 3. one silo with all the data is central training -----------------------------------------------------------


def on_one_silo(course: Course) -> Course:
    return replace(course, silos=(SiloPlan(min(SIZES), "toy"),))


def is_plain(method: str) -> bool:
    """A method of one stage that trains what central training trains; patches and further stages change that."""
    stages = toy_course(method).stages
    trained = {name for name, p in toy_model().module.named_parameters() if not name.startswith("words")}
    layouts = [compile_layout(toy_model(), stage.sharing) for stage in stages]
    return len(stages) == 1 and {e.name for e in layouts[0].private + layouts[0].shared} == trained


@pytest.mark.parametrize("method", [name for name in FEDERATED if is_plain(name)])
def test_one_silo_with_all_examples_equals_central_training_bit_for_bit(method: str, tmp_path: Path) -> None:
    data = {min(SIZES): pool(list(toy_data().values()))}
    course = with_stage(on_one_silo(toy_course(method)), **PLAIN)
    single, _ = toy_run(course, tmp_path / "single", data)
    central, _ = toy_run(toy_course("central"), tmp_path / "central")
    own = kept(single, min(SIZES), "stage")
    assert torch.equal(flat(own), shared_model(central))
    for silo in SIZES:
        assert not differing(own, kept(central, silo, "stage"))


def test_central_training_of_one_silo_equals_fedavg_of_that_silo(tmp_path: Path) -> None:
    courses = [on_one_silo(toy_course(method)) for method in ("fedavg", "central")]
    (fedavg, fed_outcome), (central, central_outcome) = (toy_run(c, tmp_path / c.method) for c in courses)
    assert torch.equal(shared_model(fedavg), shared_model(central))
    received = {key: value for key, value in fed_outcome.scores["ash"].items() if key.startswith("received")}
    assert received == {k: v for k, v in central_outcome.scores["ash"].items() if k.startswith("received")}


# -- 4. weight zero means absent ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotBirch:
    one_row: ClassVar[bool] = True

    def share(self, update: Update) -> float:
        return 0.0 if update.silo == "birch" else float(update.n_examples)


@dataclass(frozen=True)
class NotBirchInRows:
    one_row: ClassVar[bool] = False

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        row = [NotBirch().share(update) for update in updates]
        return normalised(np.array([row for _ in recipients]))


@pytest.mark.parametrize("weigher", [NotBirch, NotBirchInRows])
@pytest.mark.parametrize("method", FEDERATED)
def test_a_silo_of_weight_zero_might_as_well_be_absent(
    method: str, weigher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WEIGHERS, "not_birch", weigher)
    course = unscored(last_stage(toy_course(method, rounds=2)))
    mixing = replace(course.stages[0].mixing, weigher=Choice("not_birch"))
    course = with_stage(course, mixing=mixing)
    present, _ = toy_run(course, tmp_path / "present")
    absent, _ = toy_run(course.without("birch"), tmp_path / "absent")
    of_others = {name: t for name, t in left_behind(present).items() if "birch" not in name}
    assert not differing(of_others, left_behind(absent))


# -- 5. special cases of one another -----------------------------------------------------------------------------


def test_fedprox_of_weight_zero_equals_fedavg_bit_for_bit(tmp_path: Path) -> None:
    fedprox, _ = toy_run(toy_course("fedprox", proximal_weight=0.0), tmp_path / "fedprox")
    fedavg, _ = toy_run(toy_course("fedavg"), tmp_path / "fedavg")
    assert not differing(left_behind(fedprox), left_behind(fedavg))


def test_a_proximal_weight_above_zero_makes_a_difference(tmp_path: Path) -> None:
    fedprox, _ = toy_run(unscored(toy_course("fedprox", proximal_weight=1.0)), tmp_path / "fedprox")
    fedavg, _ = toy_run(unscored(toy_course("fedavg")), tmp_path / "fedavg")
    assert not torch.equal(shared_model(fedprox), shared_model(fedavg))


def test_the_shared_model_of_ditto_is_that_of_fedavg_bit_for_bit(tmp_path: Path) -> None:
    ditto, ditto_outcome = toy_run(toy_course("ditto"), tmp_path / "ditto")
    fedavg, outcome = toy_run(toy_course("fedavg"), tmp_path / "fedavg")
    assert torch.equal(shared_model(ditto), shared_model(fedavg))
    for silo in SIZES:
        assert not differing(kept(ditto, silo, "stage"), kept(fedavg, silo, "stage"))
        assert differing(kept(ditto, silo, "personal"), kept(fedavg, silo, "personal"))
        assert ditto_outcome.scores[silo]["received/test/fit"] == outcome.scores[silo]["received/test/fit"]


SMALL_PROBE = {"probe": {"items": 6, "length": 6}, "clusters": 2, "neighbours": 2}


def of_both(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> list[str]:
    """Names of tensors that both runs left and that are not the same bits."""
    return [name for name in differing(one, other) if name in one and name in other]


def test_a_contrastive_term_of_weight_zero_equals_training_without_it_bit_for_bit(tmp_path: Path) -> None:
    course = toy_course("atc", contrast_weight=0.0, **SMALL_PROBE)
    without = replace(course.stages[1], objective=(Term("task"),), channels=(), channel_options={})
    weightless, _ = toy_run(course, tmp_path / "weightless")
    plain, _ = toy_run(replace(course, stages=(course.stages[0], without)), tmp_path / "plain")
    assert not of_both(left_behind(weightless), left_behind(plain))
    assert not differing(weightless._weights, plain._weights)


def test_a_contrastive_term_above_zero_makes_a_difference(tmp_path: Path) -> None:
    with_it, _ = toy_run(unscored(toy_course("atc", contrast_weight=1.0, **SMALL_PROBE)), tmp_path / "one")
    without, _ = toy_run(unscored(toy_course("atc", contrast_weight=0.0, **SMALL_PROBE)), tmp_path / "other")
    assert any(not torch.equal(with_it._weights[silo], without._weights[silo]) for silo in SIZES)


def test_a_probe_set_of_masked_sums_trains_the_models_that_one_of_parts_in_clear_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody may see costs nothing: masks cancel to the last bit, and so does all that is learnt with the set."""
    monkeypatch.setattr(SiloState, "secret", lambda state: 7)  # what silos draw is the same in both runs
    course = toy_course("atc", **SMALL_PROBE)
    hidden, hidden_outcome = toy_run(course, tmp_path / "hidden")
    monkeypatch.setattr(probe, "masked", lambda numbers, *keys: fixed(numbers))
    clear, clear_outcome = toy_run(course, tmp_path / "clear")
    assert not differing(left_behind(hidden), left_behind(clear))
    assert not differing(hidden._weights, clear._weights)
    assert hidden_outcome.scores == clear_outcome.scores


def test_with_all_silos_as_neighbours_atc_is_fedavg_of_the_encoder(tmp_path: Path) -> None:
    """The last stage alone, so that both start from the loaded model."""
    options = {**SMALL_PROBE, "neighbours": len(SIZES), "assign": False}
    atc, _ = toy_run(unscored(toy_course("atc", **options)), tmp_path / "atc")
    fedavg, _ = toy_run(unscored(toy_course("fedavg", part="encoder")), tmp_path / "fedavg")
    assert_close(atc._weights, dict.fromkeys(SIZES, shared_model(fedavg)))
    for silo in SIZES:
        assert_close(
            {"head.weight": kept(atc, silo, "stage")["head.weight"]},
            {"head.weight": kept(fedavg, silo, "stage")["head.weight"]},
        )


def test_one_cluster_is_one_model_by_size_in_assigned_rounds(tmp_path: Path) -> None:
    course = unscored(toy_course("atc", clusters=1, contrast=False))
    one_model = replace(course.stages[0], mixing=Mixing(Choice("size")))
    clustered, _ = toy_run(course, tmp_path / "clustered")
    averaged, _ = toy_run(replace(course, stages=(one_model, *course.stages[1:])), tmp_path / "averaged")
    for silo in SIZES:
        first = [SiloState(run.folder.silo(silo) / "state").newest("stage", 1, 2) for run in (clustered, averaged)]
        assert_close(*first)
    assert_close(clustered._weights, averaged._weights)


# -- 6. identical silos ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", FEDERATED)
def test_three_identical_silos_give_what_one_gives(method: str, tmp_path: Path) -> None:
    names = ("ash", "birch", "cedar")
    data = {name: toy_collection(9, seed=1) for name in names}
    local = Local(batch=9, learning_rate=0.02)  # one step over all examples: their order does not count
    three = unscored(toy_course(method, sizes=dict.fromkeys(names, 9), local=local))
    one = unscored(toy_course(method, sizes={"ash": 9}, local=local))
    together, _ = toy_run(three, tmp_path / "three", data)
    alone, _ = toy_run(one, tmp_path / "one", data)
    of_ash = {
        name: t for name, t in left_behind(together).items() if not {"birch", "cedar"}.intersection(name.split("/"))
    }
    assert_close(of_ash, left_behind(alone))


# -- 7. groups ---------------------------------------------------------------------------------------------------


def in_groups(course: Course, groups: Mapping[str, str]) -> Course:
    silos = tuple(replace(silo, group=groups[silo.name]) for silo in course.silos)
    return replace(with_stage(course, mixing=Mixing(Choice("groups"))), silos=silos)


def test_one_group_of_all_equals_weights_by_size(tmp_path: Path) -> None:
    course = unscored(toy_course("fedavg"))
    grouped, _ = toy_run(in_groups(course, dict.fromkeys(SIZES, "all")), tmp_path / "grouped")
    sized, _ = toy_run(course, tmp_path / "sized")
    assert_close(grouped._weights, dict.fromkeys(SIZES, shared_model(sized)))


def test_groups_of_one_equal_identity_bit_for_bit(tmp_path: Path) -> None:
    course = unscored(toy_course("fedavg"))
    grouped, _ = toy_run(in_groups(course, {name: name for name in SIZES}), tmp_path / "grouped")
    alone, _ = toy_run(by_identity(course), tmp_path / "alone")
    assert not differing(left_behind(grouped), left_behind(alone))


def test_two_groups_equal_two_courses(tmp_path: Path) -> None:
    course = unscored(toy_course("fedavg"))
    groups = {"ash": "hard", "birch": "hard", "cedar": "soft", "dogwood": "soft"}
    grouped, _ = toy_run(in_groups(course, groups), tmp_path / "grouped")
    for names in (("ash", "birch"), ("cedar", "dogwood")):
        part = replace(course, silos=tuple(SiloPlan(name, "toy") for name in names))
        apart, _ = toy_run(part, tmp_path / names[0])
        assert_close({n: grouped._weights[n] for n in names}, dict.fromkeys(names, shared_model(apart)))


# -- 8. what leaves a silo ---------------------------------------------------------------------------------------

PLANTED = 1234.5678
SECRET = "Xanthippe-7321"


@dataclass
class Overheard:
    """An engine that keeps every byte that goes to a silo or leaves it."""

    inner: Engine
    up: list[tuple[str, bytes]] = field(default_factory=list)
    down: list[tuple[str, bytes]] = field(default_factory=list)

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        self.down += [(silo, b"".join(wire.encode(request))) for silo, request in requests.items()]
        for envelope in self.inner.ask(requests, timeout_s):
            assert not isinstance(envelope.content, bytes)
            self.up.append((envelope.silo, b"".join(wire.encode(envelope.content))))
            yield envelope

    def said(self) -> bytes:
        return b"".join(data for _, data in self.up)


class PlantedSkill(ToySkill):
    """Every parameter that the first stage keeps private starts at a number that is easy to know again."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def build(self, backbone: object, seed: int) -> TaggedModel:
        model = toy_model(seed)
        parameters = dict(model.module.named_parameters())
        for entry in compile_layout(model, self._rule).private:
            parameters[entry.name].data.fill_(PLANTED)
        return model


def overheard_run(
    course: Course, folder: Path, data: Mapping[str, Collection] | None = None, skill: ToySkill | None = None
) -> tuple[Coordinator, Overheard]:
    setting = toy_setting(course, folder, data, skill)
    engine = Overheard(InProcess(setting.silos))
    coordinator = toy_coordinator(setting, engine)
    coordinator.run()
    InProcess(setting.silos).close()
    return coordinator, engine


def patterns(tensors: Mapping[str, Tensor]) -> set[bytes]:
    """The four bytes of each float32 value but zero, which says nothing."""
    values = [np.frombuffer(t.numpy().tobytes(), dtype="V4") for t in tensors.values() if t.dtype == torch.float32]
    return {value.tobytes() for array in values for value in array} - {bytes(4)}


def private_values(coordinator: Coordinator, stage: Stage) -> dict[str, Tensor]:
    """All that silos kept to themselves: private parameters, a second model, moments, and personal models of these."""
    own = {entry.name for entry in compile_layout(toy_model(), stage.sharing).private}
    tensors = {name: t for name, t in left_behind(coordinator).items() if not name.startswith("coordinator/")}
    personal = own if stage.replica is None else {name for name, _ in toy_model().module.named_parameters()}
    return {n: t for n, t in tensors.items() if "/round-" in n or ("/personal-" in n and n.split("/")[-1] in personal)}


def private_changes(coordinator: Coordinator) -> dict[str, Tensor]:
    """What two rounds changed of private parameters that started at the planted number."""
    changes = {}
    for silo in SIZES:
        state = SiloState(coordinator.folder.silo(silo) / "state")
        first, second = ({n: t for n, t in state.newest("round", r, r + 1).items() if n[:4] == "main"} for r in (1, 2))
        changes |= {f"{silo}/1/{name}": tensor - PLANTED for name, tensor in first.items()}
        changes |= {f"{silo}/2/{name}": second[name] - tensor for name, tensor in first.items()}
    return changes


@pytest.mark.parametrize("learning_rate", [0.0, 0.02])
@pytest.mark.parametrize("method", FEDERATED)
def test_private_parameters_are_in_no_message(method: str, learning_rate: float, tmp_path: Path) -> None:
    local = Local(batch=4, learning_rate=learning_rate, keep_optimiser=True)
    course = last_stage(toy_course(method, rounds=2, local=local))
    coordinator, engine = overheard_run(course, tmp_path, skill=PlantedSkill(course.stages[0].sharing))
    private, said = private_values(coordinator, course.stages[0]) | private_changes(coordinator), engine.said()
    assert len(engine.up) == 3 * len(SIZES)
    assert np.float32(PLANTED).tobytes() not in said
    assert private  # at least the moments
    assert not [value for value in patterns(private) if value in said]


def test_this_suite_would_see_a_private_parameter_that_leaves(tmp_path: Path) -> None:
    course = toy_course("fedper", rounds=1, local=Local(learning_rate=0.0))
    leaky = with_stage(course, sharing=FROZEN_WORDS)
    coordinator, engine = overheard_run(leaky, tmp_path, skill=PlantedSkill(course.stages[0].sharing))
    down = b"".join(data for _, data in engine.down)
    assert np.float32(PLANTED).tobytes() in down
    assert patterns(kept(coordinator, "ash", "personal")) & {down[i : i + 4] for i in range(len(down))}


def test_a_planted_second_model_is_in_no_message(tmp_path: Path) -> None:
    course = toy_course("ditto", rounds=2, local=Local(batch=4, learning_rate=0.0))
    setting = toy_setting(course, tmp_path)
    engine = Overheard(InProcess(setting.silos))

    class Planting(Silent):
        def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None:
            for path in tmp_path.glob("silos/*/state/round-*.safetensors"):
                planted = {n: torch.full_like(t, PLANTED) for n, t in read_tensors(path).items()}
                write_tensors(path, planted)

    coordinator = replace(toy_coordinator(setting, engine), watcher=Planting())
    coordinator.run()
    values = torch.cat([t.reshape(-1) for t in kept(coordinator, "ash", "personal").values()])
    assert torch.all(values == np.float32(PLANTED))
    assert np.float32(PLANTED).tobytes() not in engine.said()


def with_secrets(data: Mapping[str, Collection]) -> dict[str, Collection]:
    """The same examples, every title, question, answer and id carrying a text that is easy to know again."""
    secret = {}
    for silo, collection in data.items():
        documents = tuple(replace(d, title=f"{SECRET} {silo}") for d in collection.documents)
        examples = tuple(
            replace(e, question=f"{SECRET}? {e.question}", answers=(SECRET,), id=f"{SECRET}/{e.id}")
            for e in collection.examples
        )
        secret[silo] = Collection(documents, examples)
    return secret


@pytest.mark.parametrize("method", ALL_METHODS)
def test_texts_of_a_silo_leave_it_only_through_the_examples_channel(method: str, tmp_path: Path) -> None:
    course = toy_course(method, rounds=1)
    opened = [name for stage in course.stages for name in stage.channels if CHANNELS[name].pools]
    _, engine = overheard_run(course, tmp_path, with_secrets(toy_data()))
    telling = [(silo, wire.decode(data, 1 << 30)) for silo, data in engine.up if SECRET.encode() in data]
    assert [(silo, m.channel) for silo, m in telling] == [(s, name) for s in SIZES for name in opened]
    for silo in toy_setting(course, tmp_path).silos:
        kinds = [row.kind for row in silo.ledger.rows()]
        assert [kind for kind in kinds if kind in CHANNELS and CHANNELS[kind].pools] == opened
        assert (SECRET in "".join(map(str, silo.ledger.rows()))) is False
        silo.ledger.close()


@pytest.mark.parametrize("method", ["fedavg", "central"])
def test_a_document_leaves_a_real_silo_only_through_the_examples_channel(method: str, tmp_path: Path) -> None:
    setting, engine = sample_setting(method, tmp_path, SECRET)
    toy_coordinator(setting, engine).run()
    InProcess(setting.silos).close()
    telling = [wire.decode(data, 1 << 30) for _, data in engine.up if SECRET.encode() in data]
    assert [getattr(message, "channel", "") for message in telling] == ["examples"] * (2 if method == "central" else 0)


def sample_setting(method: str, folder: Path, secret: str = "") -> tuple[Any, Overheard]:
    """Two organisations of the sample alliance with a tiny real model; `secret` stands in each of their documents."""
    small = {"match": {"max_passage": 24, "max_question": 12}}
    alliance = sample_alliance(method, model="tiny", rounds=2, skills=small, local={"learning_rate": 1e-3})
    project = project_of(replace(alliance, silo=alliance.silo[:2]))
    collections = {}
    for name, entry in project.data.items():
        read = read_silo(name, replace(entry, limit=8), Path(), 13)
        documents = tuple(Document(d.id, f"{d.text} {secret}", d.title) for d in read.documents)
        collections[name] = replace(read, documents=documents)
    setting = build(project.course, collections, folder)
    return setting, Overheard(InProcess(setting.silos))


def test_identity_mixing_equals_training_alone_with_a_real_model(tmp_path: Path) -> None:
    states = []
    for name, change in (("alone", False), ("mixed", True)):
        setting, _ = sample_setting("isolated", tmp_path / name)
        course = by_identity(setting.course) if change else setting.course
        collections = {silo.name: silo.collection for silo in setting.silos}
        setting = build(course, collections, tmp_path / name)
        coordinator = toy_coordinator(setting)
        coordinator.run()
        InProcess(setting.silos).close()
        states.append({silo: kept(coordinator, silo, "personal") for silo in collections})
    for silo, alone in states[0].items():
        assert alone
        assert not differing(alone, states[1][silo])


# -- 9. broken off and continued ---------------------------------------------------------------------------------


class BreaksOff(Silent):
    """Ends the run in the middle of a silo's work in one round, or at the end of a stage."""

    def __init__(self, at: int | None = None, *, at_the_end: bool = False) -> None:
        self._at, self._at_the_end, self._now, self._calls = at, at_the_end, 0, 0

    def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None:
        self._now = number

    def silo_works(self, silo: str, done: int, total: int) -> None:
        self._calls += self._now == self._at
        if self._calls == 4:
            raise KeyboardInterrupt

    def scoring_begins(self, silos: Sequence[str]) -> None:
        if self._at_the_end:
            raise KeyboardInterrupt


def in_pieces(course: Course, folder: Path) -> tuple[Coordinator, Any]:
    """Broken off in every round and at the end of every stage, each time continued by a process that knows nothing."""
    for index, stage in enumerate(course.stages):
        first = course.first_round(index)
        breaks = [BreaksOff(number) for number in range(first, first + stage.rounds)]
        for watcher in (*breaks, BreaksOff(at_the_end=True)):
            with pytest.raises(KeyboardInterrupt):
                watched_run(course, folder, watcher)
    return watched_run(course, folder, BreaksOff())


def watched_run(course: Course, folder: Path, watcher: Silent) -> tuple[Coordinator, Any]:
    setting = toy_setting(course, folder)
    coordinator = replace(toy_coordinator(setting, InProcess(setting.silos, watcher)), watcher=watcher)
    try:
        return coordinator, coordinator.run()
    finally:
        InProcess(setting.silos).close()
        coordinator._close_pool()


KEEPING = Local(batch=4, learning_rate=0.02, keep_optimiser=True, schedule="linear", warmup=0.2)
PIECES: list[tuple[str, dict[str, Any]]] = [
    *((method, {}) for method in ALL_METHODS),
    *((method, {"local": KEEPING}) for method in TRAINING),
    *(("fedopt", {"optimiser": optimiser}) for optimiser in ("adam", "yogi", "damped")),
    *((method, {"sample": 2}) for method in ("fedavg", "fedper", "ditto")),
    *(("atc", {"neighbours": 2, "clusters": 2, **options}) for options in ({"local": KEEPING}, {"sample": 3})),
    ("percfl", {"mean_below": 10.0}),
]


def name_of(method: str, options: dict[str, Any]) -> str:
    return "-".join([method, *(value if isinstance(value, str) else key for key, value in options.items())])


@pytest.mark.parametrize(("method", "options"), PIECES, ids=[name_of(*piece) for piece in PIECES])
def test_a_run_broken_off_in_every_round_ends_with_the_same_bits(
    method: str, options: dict[str, Any], tmp_path: Path
) -> None:
    course = toy_course(method, rounds=2, **options)
    whole, outcome = toy_run(course, tmp_path / "whole")
    pieces, outcome_in_pieces = in_pieces(course, tmp_path / "pieces")
    assert not differing(left_behind(whole), left_behind(pieces))
    assert outcome.scores == outcome_in_pieces.scores
    untimed = {"seconds": 0.0, "bytes_up": 0, "bytes_down": 0}  # what was sent twice is counted twice
    records = [replace(record, **untimed) for record in whole.folder.records()]
    assert [replace(record, **untimed) for record in pieces.folder.records()] == records


def test_a_course_of_two_stages_broken_off_in_every_round_ends_with_the_same_bits(tmp_path: Path) -> None:
    # In the second stage the encoder is frozen at what the first made of it, which differs from silo to silo.
    first = toy_course("fedper", rounds=2).stages[0]
    first = replace(first, mixing=Mixing(Choice("identity")))
    second = replace(first, name="heads", rounds=2, sharing=(("head", "private"), ("*", "frozen")), mixing=Mixing())
    third = replace(second, name="all", sharing=(("embeddings", "frozen"), ("*", "private")))
    course = replace(toy_course("fedper"), stages=(first, second, third))
    whole, outcome = toy_run(course, tmp_path / "whole")
    pieces, outcome_in_pieces = in_pieces(course, tmp_path / "pieces")
    assert not differing(left_behind(whole), left_behind(pieces))
    assert outcome.scores == outcome_in_pieces.scores


# -- 10. the bytes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL_METHODS)
def test_counted_bytes_are_those_of_the_ledger_and_of_the_wire(method: str, tmp_path: Path) -> None:
    course = toy_course(method, rounds=2)
    setting = toy_setting(course, tmp_path)
    engine = Overheard(InProcess(setting.silos))
    coordinator = toy_coordinator(setting, engine)
    outcome = coordinator.run()
    rows = [row for silo in setting.silos for row in silo.ledger.rows()]
    InProcess(setting.silos).close()
    records = coordinator.folder.records()
    for record in records:
        if record.round == 1 or record.stage == records[record.round - 2].stage:
            assert record.bytes_up == sum(row.bytes for row in rows if row.round == record.round)
    # Reports belong to no round: those of the last stage are in the outcome, others in the next stage's first record.
    assert sum(r.bytes_up for r in records) + outcome.bytes_up == sum(row.bytes for row in rows)
    assert sum(r.bytes_up for r in records) + outcome.bytes_up == sum(len(data) for _, data in engine.up)
    assert sum(r.bytes_down for r in records) + outcome.bytes_down == sum(len(data) for _, data in engine.down)


@pytest.mark.parametrize("method", FEDERATED)
def test_an_update_carries_four_bytes_a_shared_parameter_and_a_short_header(method: str, tmp_path: Path) -> None:
    course = unscored(last_stage(toy_course(method, rounds=1)))
    _, engine = overheard_run(course, tmp_path)
    n_shared = compile_layout(toy_model(), course.stages[0].sharing).n_shared
    updates = [data for _, data in engine.up if isinstance(wire.decode(data, 1 << 20), Update)]
    assert len(updates) == len(SIZES)
    for data in updates:
        header = int.from_bytes(data[:8], "little")
        assert len(data) == 8 + header + 4 * n_shared
        entries = json.loads(data[8 : 8 + header])
        assert set(entries) == {"__metadata__", "delta"}
        told = {"kind", "silo", "course", "round", "layout", "n_examples", "n_seen", "n_steps", "loss", "metrics"}
        assert set(json.loads(entries["__metadata__"]["fedqa"])) == told


@pytest.mark.parametrize("method", FEDERATED)
def test_only_the_silos_that_are_drawn_are_asked(method: str, tmp_path: Path) -> None:
    course = with_stage(unscored(last_stage(toy_course(method, rounds=2))), participation=Participation(sample=2))
    coordinator, engine = overheard_run(course, tmp_path)
    for record in coordinator.folder.records():
        assert len(record.asked) == 2
        assert set(record.accepted) == set(record.asked)
    assert len(engine.up) == 2 * 2 + len(SIZES)
