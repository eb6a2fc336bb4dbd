# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest
from web_toys import Silo, Visitor

from fedqa.web.guards import LARGEST, LARGEST_OF_STRANGERS, host_name
from fedqa.web.headers import HEADERS

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def _fail(*given: object) -> None:
    raise RuntimeError("the patient's name is Smith")


def test_every_answer_has_the_safe_headers(silo: Silo, reader: Visitor, stranger: Visitor) -> None:
    answers = {
        200: reader.get("/"),
        303: stranger.get("/", follow_redirects=False),
        401: stranger.get("/api/me"),
        403: reader.get("/people"),
        404: reader.get("/nothing"),
        405: reader.get("/judge"),
        413: reader.post("/", content=b"x" * (LARGEST + 1)),
        421: reader.get("/", headers={"Host": "evil.example"}),
        422: reader.get("/api/asked?limit=0"),
    }
    silo.desk.ask = _fail
    answers[500] = reader.submit("/", question="Who?")
    for status, answer in answers.items():
        assert answer.status_code == status
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, status
    assert HEADERS["Content-Security-Policy"] == POLICY


def test_style_and_script_are_served_and_may_be_kept(stranger: Visitor) -> None:
    for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript")):
        answer = stranger.get(f"/static/{name}")
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["cache-control"] == "no-cache" and answer.headers["x-content-type-options"] == "nosniff"
    assert stranger.get("/static/../page.py").status_code == 404
    assert stranger.get("/static/%2e%2e/page.py").status_code == 404


def test_no_page_holds_a_script_or_a_style_of_its_own(silo: Silo, owner: Visitor) -> None:
    owner.submit("/", question="Where is the pharmacy?")
    paths = ("/", "/documents", "/documents/add", "/examples", "/examples/import", "/correct", "/account", "/training")
    for path in (*paths, "/ledger", "/people", "/api/docs", f"/documents/view?id={silo.guide}", "/nothing"):
        text = owner.get(path).text
        assert "<script>" not in text and "<style" not in text and " style=" not in text and " onclick=" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text, path


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "", "127.0.0.1.evil.example", "[::2]"])
def test_a_name_that_is_not_ours_is_refused(stranger: Visitor, host: str) -> None:
    refused = stranger.get("/login", headers={"Host": host})
    assert refused.status_code == 421 and "Larkmoor" not in refused.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8642", "127.0.0.1:1", "[::1]:8642"])
def test_this_computers_names_are_ours(stranger: Visitor, host: str) -> None:
    assert stranger.get("/login", headers={"Host": host}).status_code == 200


def test_the_name_is_what_stands_before_the_port() -> None:
    assert host_name("[::1]:80") == "::1" and host_name("Example.org:80") == "example.org" and host_name("") == ""


def test_what_announces_too_much_is_refused_before_it_is_read(reader: Visitor, stranger: Visitor) -> None:
    read = 0

    def body() -> Iterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield b"x" * 100_000

    answer = reader.post("/api/ask", content=body(), headers={"Content-Length": "10000000"})
    assert answer.status_code == 413 and "1 MB" in answer.json()["detail"]
    answer = stranger.post("/login", content=b"x" * (LARGEST_OF_STRANGERS + 1))
    assert answer.status_code == 413 and "0.064 MB" in answer.text


def test_what_sends_more_than_it_may_without_announcing_it_is_cut_off(reader: Visitor, stranger: Visitor) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(40):
            yield b"question=" + b"x" * 100_000

    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert reader.post("/", content=body(), headers=form).status_code == 413
    assert stranger.post("/login", content=body(), headers=form).status_code == 413
    token = {"X-Token": reader.token(), "Content-Type": "application/json"}
    assert reader.post("/api/ask", content=body(), headers=token).status_code == 413


def test_a_fault_of_ours_shows_no_traceback(silo: Silo, reader: Visitor) -> None:
    silo.desk.ask = _fail
    page = reader.submit("/", question="Who?")
    program = reader.post("/api/ask", json={"question": "Who?"}, headers={"X-Token": reader.token()})
    for answer in (page, program):
        assert answer.status_code == 500
        assert "Smith" not in answer.text and "Traceback" not in answer.text and "fault is ours" in answer.text
    assert program.json().keys() == {"detail"}


def test_what_is_wrong_with_a_request_is_said_without_repeating_it(reader: Visitor) -> None:
    answer = reader.post("/api/ask", json={"question": ["Smith"]}, headers={"X-Token": reader.token()})
    assert answer.status_code == 422 and "question" in answer.json()["detail"] and "Smith" not in answer.text


def test_a_missing_page_has_the_menu_of_who_looked_for_it(reader: Visitor, stranger: Visitor) -> None:
    assert 'href="/documents"' in reader.get("/nothing").text
    assert 'href="/documents"' not in stranger.get("/nothing").text
