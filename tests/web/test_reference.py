# SPDX-License-Identifier: Apache-2.0
from web_toys import Silo, Visitor

from fedqa.web.app import endpoints


def test_the_api_is_described_for_programs_and_for_people(silo: Silo, reader: Visitor) -> None:
    described = reader.get("/api/openapi.json").json()
    every = {route.path for route in endpoints(silo.app) if route.include_in_schema}
    assert {path.replace("{id}", "{id:path}") for path in described["paths"]} == every
    assert all(path.startswith("/api/") for path in every)
    text = reader.get("/api/docs").text
    for path, methods in described["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in text


def test_every_operation_belongs_somewhere_and_says_what_it_does(reader: Visitor) -> None:
    for path, methods in reader.get("/api/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            assert operation["tags"] and " " in operation.get("description", operation["summary"]), (method, path)
