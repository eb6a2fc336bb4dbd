# SPDX-License-Identifier: Apache-2.0
"""Methods: each makes the stages of a course. A new one is a file with its stages and a line in `METHODS`."""

from collections.abc import Mapping

from fedqa.errors import ConfigError, unknown
from fedqa.federation.course import Stage
from fedqa.methods.baselines import BASELINES
from fedqa.methods.method import Method, Plan
from fedqa.tables import from_table

METHODS: Mapping[str, Method] = {method.name: method for method in BASELINES}


def stages_of(method: str, plan: Plan, options: Mapping[str, object]) -> tuple[Stage, ...]:
    """The stages a method makes of a plan; options it does not know are errors."""
    if method not in METHODS:
        raise ConfigError(unknown("method", method, METHODS))
    chosen = METHODS[method]
    return chosen.stages(plan, from_table(chosen.options, options, f"[method_options] of method {method!r}"))
