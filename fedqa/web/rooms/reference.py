# SPDX-License-Identifier: Apache-2.0
"""The REST API described: as OpenAPI, and as a page of our own, because the usual ones load scripts from elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response

from fedqa.web.page import Page, Reader


@dataclass(frozen=True)
class Value:
    """A parameter, or a field of what is sent or comes back."""

    name: str
    kind: str
    note: str = ""
    required: bool = False


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    summary: str
    values: tuple[Value, ...]  # in the address and in the body
    answer: str


def router(page: Page) -> APIRouter:
    routes = APIRouter()

    @routes.get("/api/openapi.json", include_in_schema=False)
    def openapi(request: Request, person: Reader) -> JSONResponse:
        return JSONResponse(_described(request))

    @routes.get("/api/docs", include_in_schema=False)
    def docs(request: Request, person: Reader) -> Response:
        described = _described(request)
        groups: dict[str, list[Operation]] = {}
        for tag, operation in _operations(described):
            groups.setdefault(tag, []).append(operation)
        return page.show(request, "api.html", groups=groups, schemas=_schemas(described))

    return routes


def _described(request: Request) -> dict[str, Any]:
    app = request.app
    return get_openapi(title=app.title, version=app.version, routes=app.routes)


def _operations(described: Mapping[str, Any]) -> Iterator[tuple[str, Operation]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            values = (*_parameters(operation), *_body(operation, described))
            summary = operation.get("description") or operation.get("summary", "")
            tag = (operation.get("tags") or ["other"])[0]
            yield tag, Operation(method.upper(), path, summary, values, _answer(operation))


def _parameters(operation: Mapping[str, Any]) -> Iterator[Value]:
    for one in operation.get("parameters", ()):
        yield Value(one["name"], _kind(one["schema"]), f"in the {one['in']}", one.get("required", False))


def _body(operation: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[Value]:
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        schema = described["components"]["schemas"].get(name, content["schema"])
        for value in _fields(schema):
            yield Value(value.name, value.kind, f"in the body ({media})", value.required)


def _fields(schema: Mapping[str, Any]) -> tuple[Value, ...]:
    needed = schema.get("required", ())
    return tuple(
        Value(name, _kind(one), one.get("description", ""), name in needed)
        for name, one in schema.get("properties", {}).items()
    )


def _schemas(described: Mapping[str, Any]) -> dict[str, tuple[Value, ...]]:
    """What comes back, by name."""
    every = described.get("components", {}).get("schemas", {})
    return {name: _fields(schema) for name, schema in every.items() if "ValidationError" not in name}


def _answer(operation: Mapping[str, Any]) -> str:
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            schema = response.get("content", {}).get("application/json", {}).get("schema", {})
            return f"{status} {_kind(schema)}".strip()
    return ""


def _kind(schema: Mapping[str, Any]) -> str:
    """A schema in one line."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    if "const" in schema:
        return repr(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type", ""))
