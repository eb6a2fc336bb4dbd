# SPDX-License-Identifier: Apache-2.0
"""Methods: each makes the stages of a course. A new one is a file with its stages and a line in `METHODS`."""

from collections.abc import Mapping
from typing import Any

from fedqa.errors import ConfigError, unknown
from fedqa.federation.course import Stage
from fedqa.methods.atc import ATC
from fedqa.methods.baselines import BASELINES
from fedqa.methods.cover_query import COVER_QUERY
from fedqa.methods.fedmatch import FEDMATCH
from fedqa.methods.fedqas import FEDQAS
from fedqa.methods.lorar import LORAR
from fedqa.methods.method import Method, Plan
from fedqa.methods.pdd_as2 import DENSE, PDD_AS2
from fedqa.methods.personal import PERSONAL
from fedqa.models.patches import Patch
from fedqa.tables import from_table

METHODS: Mapping[str, Method] = {
    method.name: method for method in (*BASELINES, *PERSONAL, COVER_QUERY, FEDMATCH, FEDQAS, DENSE, PDD_AS2, LORAR, ATC)
}


def stages_of(method: str, plan: Plan, options: Mapping[str, object]) -> tuple[Stage, ...]:
    """The stages a method makes of a plan; options it does not know are errors."""
    return _known(method).stages(plan, _given(method, options))


def patches_of(method: str, options: Mapping[str, object]) -> tuple[Patch, ...]:
    """What a method inserts into the model of every silo."""
    return _known(method).patches(_given(method, options))


def _given(method: str, options: Mapping[str, object]) -> Any:
    return from_table(_known(method).options, options, f"[method_options] of method {method!r}")


def _known(method: str) -> Method:
    if method not in METHODS:
        raise ConfigError(unknown("method", method, METHODS))
    return METHODS[method]
