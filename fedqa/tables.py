# SPDX-License-Identifier: Apache-2.0
"""Tables (TOML, JSON) into frozen dataclasses and back. Unknown keys and wrong types are errors that name the place."""

import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedqa.errors import ConfigError, unknown

T = TypeVar("T")


def from_table(cls: type[T], table: Mapping[str, object], where: str) -> T:
    """Build `cls` from a table; `where` names the table in error messages, as in `[local] of alliance.toml`."""
    assert is_dataclass(cls)
    hints = get_type_hints(cls)
    known = [field.name for field in fields(cls) if field.init]
    for key in table:
        if key not in known:
            raise ConfigError(unknown("key", key, known, where))
    for field in fields(cls):
        required = field.default is MISSING and field.default_factory is MISSING
        if field.init and required and field.name not in table:
            raise ConfigError(f"{where} needs the key {field.name!r}, which is missing")
    values = {key: _convert(hints[key], value, f"{where}: {key}") for key, value in table.items()}
    return cls(**values)


def to_table(record: object) -> dict[str, Any]:
    """The table of a dataclass, without what is None: TOML has no null."""
    assert is_dataclass(record)
    table = {field.name: plain(getattr(record, field.name)) for field in fields(record)}
    return {key: value for key, value in table.items() if value is not None}


def plain(value: object) -> Any:
    """A value as tables hold it: records become tables, tuples become lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return to_table(value)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


def _convert(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _convert_union(kind, value, where)
    if origin is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{where}: " + unknown("value", str(value), map(str, get_args(kind))))
        return value
    if origin is tuple:
        return _convert_tuple(kind, value, where)
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        _expect(isinstance(value, Mapping), "a table", value, where)
        item = get_args(kind)[1]
        return {key: _convert(item, entry, f"{where}.{key}") for key, entry in value.items()}
    if is_dataclass(kind):
        _expect(isinstance(value, Mapping), "a table", value, where)
        return from_table(kind, value, where)  # type: ignore[arg-type]
    return _convertplain(kind, value, where)


def _convert_union(kind: Any, value: Any, where: str) -> Any:
    options = [option for option in get_args(kind) if option is not type(None)]
    if value is None:
        _expect(type(None) in get_args(kind), "a value", value, where)
        return None
    problems: list[ConfigError] = []
    for option in options:
        try:
            return _convert(option, value, where)
        except ConfigError as problem:
            problems.append(problem)
    raise problems[0]


def _convert_tuple(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, list | tuple), "a list", value, where)
    kinds = get_args(kind)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_convert(kinds[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    _expect(len(value) == len(kinds), f"a list of {len(kinds)} values", value, where)
    return tuple(_convert(k, item, f"{where}[{i}]") for i, (k, item) in enumerate(zip(kinds, value, strict=True)))


def _convertplain(kind: Any, value: Any, where: str) -> Any:
    if kind in (Any, object):
        return value
    if kind is bool or kind is str or kind is int:
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        _expect(right, {bool: "true or false", str: "a text", int: "a whole number"}[kind], value, where)
        return value
    if kind is float:
        _expect(isinstance(value, int | float) and not isinstance(value, bool), "a number", value, where)
        _expect(abs(value) <= sys.float_info.max, "a finite number", value, where)
        return float(value)
    _expect(isinstance(value, kind), f"a {kind.__name__}", value, where)
    return value


def _expect(right: bool, wanted: str, value: object, where: str) -> None:
    if not right:
        raise ConfigError(f"{where} must be {wanted}, got {value!r}")
