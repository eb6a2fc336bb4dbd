# SPDX-License-Identifier: Apache-2.0
"""What a silo learns. One file per skill; a new one is registered in `SKILLS`, here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedqa.errors import ConfigError, unknown
from fedqa.models.backbones import Backbone
from fedqa.models.head import fill
from fedqa.models.tagged import TaggedModel
from fedqa.skills.classify import Classify, ClassifyOptions
from fedqa.skills.denoise import Denoise, DenoiseOptions
from fedqa.skills.generate import Generate, GenerateOptions
from fedqa.skills.match import Match, MatchOptions
from fedqa.skills.mlm import Mlm, MlmOptions
from fedqa.skills.parse import Parse, ParseOptions
from fedqa.skills.read import Read
from fedqa.skills.read_features import ReadOptions
from fedqa.skills.retrieve import Retrieve, RetrieveOptions
from fedqa.skills.skill import Skill
from fedqa.tables import from_table


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill by name: a line about it, its options, and how it is made of them."""

    name: str
    summary: str
    options: type[Any]
    make: Callable[[Any], Skill]


SKILLS: dict[str, SkillEntry] = {
    entry.name: entry
    for entry in (
        SkillEntry("classify", "tell which of a few labels a text has", ClassifyOptions, Classify),
        SkillEntry("denoise", "write texts again that were damaged; needs no answers", DenoiseOptions, Denoise),
        SkillEntry("generate", "write a summary or a question from a text", GenerateOptions, Generate),
        SkillEntry("match", "rank passages by how well they answer a question", MatchOptions, Match),
        SkillEntry("mlm", "tell words that are hidden in texts; needs no answers", MlmOptions, Mlm),
        SkillEntry("parse", "write the SQL that answers a question from a database", ParseOptions, Parse),
        SkillEntry("read", "find the exact words of a document that answer a question", ReadOptions, Read),
        SkillEntry("retrieve", "find the sentence that answers among all a silo has", RetrieveOptions, Retrieve),
    )
}


def make_skill(name: str, options: Mapping[str, object], where: str) -> Skill:
    """The skill `name` with options from a table; `where` names that table in error messages."""
    if name not in SKILLS:
        raise ConfigError(unknown("skill", name, SKILLS, where))
    entry = SKILLS[name]
    try:
        return entry.make(from_table(entry.options, options, where))
    except ConfigError as problem:  # an option that is wrong in itself does not know where it was written
        raise ConfigError(str(problem) if where in str(problem) else f"{where}: {problem}") from None


def started(skill: Skill, backbone: Backbone, seed: int) -> TaggedModel:
    """A skill's model as a course starts with it: what is not in the backbone's folder is new, drawn by the seed."""
    model = skill.build(backbone, seed)
    if backbone.head and backbone.head.skill == skill.name and backbone.head.weights:
        fill(model.module, backbone.head)
    return model
