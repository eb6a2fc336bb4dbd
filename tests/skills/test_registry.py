# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.errors import ConfigError
from fedqa.skills import SKILLS, make_skill
from fedqa.skills.match import Match, MatchOptions


def test_a_skill_is_made_from_a_table_of_options() -> None:
    skill = make_skill("match", {"interaction": "residual", "negatives": 7}, "[skills.match]")
    assert isinstance(skill, Match)
    assert skill.options == MatchOptions(interaction="residual", negatives=7)


def test_every_entry_is_listed_under_its_own_name() -> None:
    assert all(make_skill(name, {}, "here").name == name == entry.name for name, entry in SKILLS.items())


def test_an_unknown_skill_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown skill 'mach' in \[\[silo\]\].*did you mean 'match'"):
        make_skill("mach", {}, "[[silo]]")


def test_an_unknown_option_is_an_error_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'negative' in \[skills.match\]; did you mean 'negatives'"):
        make_skill("match", {"negative": 3}, "[skills.match]")


def test_an_option_that_is_wrong_in_itself_is_an_error_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"^\[skills.match\]: match: negatives must be at least 1, got 0$"):
        make_skill("match", {"negatives": 0}, "[skills.match]")
