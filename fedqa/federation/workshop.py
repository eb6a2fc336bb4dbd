# SPDX-License-Identifier: Apache-2.0
"""Where local work is done: one model object per skill, laid out for one stage, used by every silo in turn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from fedqa.federation.course import Course
from fedqa.federation.sharing import Rates, Rule, check_stages, compile_layout, matches
from fedqa.models.flat import FlatModel
from fedqa.models.tagged import TaggedModel
from fedqa.models.vectors import VectorPool
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
        if bench is not None and bench.stage == stage:
            return bench
        tagged = self._checked(self._build(skill)) if bench is None else bench.model.model
        rules = [stage.sharing for stage in self._course.stages[: stage + 1]] or [NOTHING]
        *earlier, layout = [compile_layout(tagged, rule) for rule in rules]
        changed_before = {entry.name for layout in earlier for entry in layout.changeable}
        if bench is None:
            model = FlatModel(tagged, layout, changed_before)
        else:
            model = bench.model
            model.bind(layout, changed_before)
        planned = self._course.stages[stage].rates if self._course.stages else ()
        self._benches[id(skill)] = Bench(model, stage, planned)
        return self._benches[id(skill)]

    def _checked(self, model: TaggedModel) -> TaggedModel:
        named = {f"{i} {stage.name}": stage for i, stage in enumerate(self._course.stages, start=1)}
        fresh = [name for name, stage in named.items() if stage.fresh]
        check_stages({name: compile_layout(model, stage.sharing) for name, stage in named.items()}, fresh)
        return model
