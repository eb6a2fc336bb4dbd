# SPDX-License-Identifier: Apache-2.0
"""The data that the studies draw: as many questions as they say, the same for the same seed, none in two splits."""

from collections import Counter

import pytest

from benchmarks import fedmatch, pdd_as2
from benchmarks.study.public_data import FOLDER
from fedqa.config import Alliance, course_of
from fedqa.data.records import Collection
from fedqa.data.splits import by_question, check_disjoint
from fedqa.methods import METHODS
from fedqa.tables import from_table

real_data = pytest.mark.skipif(not FOLDER.exists(), reason=f"the public data sets are not in {FOLDER}")


def counts(collection: Collection) -> dict[str, int]:
    return dict(Counter(example.split for example in collection.examples))


def asked(collection: Collection) -> dict[str, int]:
    """How many different questions a split has."""
    return dict(Counter(same[0].split for same in by_question(collection.examples).values()))


@real_data
def test_fewer_training_questions_leave_dev_and_test_as_they_are() -> None:
    whole, few = fedmatch.drawn(1, None)["law"], fedmatch.drawn(1, 15)["law"]
    assert counts(whole) == {"test": 100, "dev": 40, "train": 60}
    assert counts(few) == {"test": 100, "dev": 40, "train": 15}
    assert {e.id for e in few.examples} < {e.id for e in whole.examples}
    assert few.documents == whole.documents
    check_disjoint(whole)


@real_data
@pytest.mark.parametrize("ten", pdd_as2.ALLIANCES, ids=lambda ten: ten.name)
def test_ten_silos_of_different_sizes(ten: pdd_as2.Ten) -> None:
    silos = ten.data(1, None)
    assert sorted((asked(silo)["train"] for silo in silos.values()), reverse=True) == list(pdd_as2.SIZES)
    for silo in silos.values():
        check_disjoint(silo)
        assert (asked(silo)["dev"], asked(silo)["test"]) == (pdd_as2.DEV, pdd_as2.TEST)
    assert ten.data(1, None) == silos
    assert ten.data(2, None).keys() == silos.keys() and ten.data(2, None) != silos


@real_data
def test_a_question_to_a_policy_has_all_of_its_answers() -> None:
    silo = pdd_as2.policies(1, None)["honda-com"]
    several = [same for same in by_question(silo.examples).values() if len(same) > 1]
    assert several and all(len({example.split for example in same}) == 1 for same in several)


@pytest.mark.parametrize(
    ("skill", "arms"),
    [
        ("match", (*fedmatch.METHODS, *fedmatch.VARIANTS, *fedmatch.FIGURES, *fedmatch.BEYOND)),
        ("retrieve", pdd_as2.ARMS),
    ],
)
def test_every_arm_is_a_course_and_no_two_have_one_name(skill: str, arms: tuple[fedmatch.Arm, ...]) -> None:
    assert len({arm.name for arm in arms}) == len(arms)
    for arm in arms:
        silos = [{"name": name, "skill": skill, "data": {"sample": "bank"}} for name in ("one", "two")]
        course = course_of(from_table(Alliance, {"name": "x", "silo": silos, **arm.settings}, arm.name))
        assert course.method in METHODS
