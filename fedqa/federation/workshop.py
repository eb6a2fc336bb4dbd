# SPDX-License-Identifier: Apache-2.0
"""Where local work is done: one model object per skill, laid out for one stage, used by every silo in turn."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import torch

from fedqa.federation.channels import CHANNELS
from fedqa.federation.course import Course
from fedqa.federation.sharing import Rates, Rule, check_stages, compile_layout, matches
from fedqa.models.contrast import check_pair
from fedqa.models.flat import FlatModel
from fedqa.models.tagged import TaggedModel
from fedqa.models.vectors import VectorPool
from fedqa.seeds import derive
from fedqa.skills.skill import Skill
from fedqa.training import Adam

NOTHING: Rule = (("*", "frozen"),)  # the rule of a course without stages: the model stays as it was loaded


@dataclass
class Bench:
    """A model laid out for a stage, with its optimiser."""

    model: FlatModel
    stage: int
    rates: Rates = ()
    vectors: VectorPool = field(default_factory=VectorPool)

    @cached_property
    def optimiser(self) -> Adam:
        return Adam(self.model.trained_parameters(), [self._factor(name) for name in self.model.trained_names()])

    @contextmanager
    def sparing(self, selector: str) -> Iterator[None]:
        """Inside, these parameters get no gradient, so that neither a step nor its momentum or decay moves them."""
        names, parameters = self.model.trained_names(), self.model.trained_parameters()
        if not selector:
            yield
            return
        spared = [
            p for name, p in zip(names, parameters, strict=True) if matches(selector, self.model.model.tags[name])
        ]
        for parameter in spared:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in spared:
                parameter.requires_grad_(True)

    def _factor(self, name: str) -> float:
        tags = self.model.model.tags[name]
        return next((factor for selector, factor in self.rates if matches(selector, tags)), 1.0)


class Workshop:
    def __init__(self, course: Course, build: Callable[[Skill], TaggedModel]) -> None:
        self._course, self._build = course, build
        self._benches: dict[int, Bench] = {}

    def bench(self, skill: Skill, stage: int) -> Bench:
        """The bench of a skill, laid out for a stage (-1 = before the first). Whoever comes next finds it changed."""
        bench = self._benches.get(id(skill))
        if bench is None or bench.stage != stage:
            # A channel may ask for it in inference mode, and tensors made there could never be trained.
            with torch.inference_mode(False):
                bench = self._benches[id(skill)] = self._laid_out(skill, stage, bench)
        return bench

    def _laid_out(self, skill: Skill, stage: int, before: Bench | None) -> Bench:
        tagged = self._checked(self._built(skill)) if before is None else before.model.model
        rules = [stage.sharing for stage in self._course.stages[: stage + 1]] or [NOTHING]
        *earlier, layout = [compile_layout(tagged, rule) for rule in rules]
        changed_before = {entry.name for layout in earlier for entry in layout.changeable}
        if before is None:
            model = FlatModel(tagged, layout, changed_before)
        else:
            model = before.model
            model.bind(layout, changed_before)
        planned = self._course.stages[stage].rates if self._course.stages else ()
        return Bench(model, stage, planned)

    def _built(self, skill: Skill) -> TaggedModel:
        """The skill's model, with what the course's channels need in it."""
        model = self._build(skill)
        if self._course.needs_texts:
            check_pair(model.module, skill.name)
        for name in dict.fromkeys(name for stage in self._course.stages for name in stage.channels):
            extend = CHANNELS[name].extends
            if extend is not None:
                model = extend(model, derive(self._course.seed, "extends", name) % 2**31)
        return model

    def _checked(self, model: TaggedModel) -> TaggedModel:
        named = {f"{i} {stage.name}": stage for i, stage in enumerate(self._course.stages, start=1)}
        fresh = [name for name, stage in named.items() if stage.fresh]
        check_stages({name: compile_layout(model, stage.sharing) for name, stage in named.items()}, fresh)
        return model
