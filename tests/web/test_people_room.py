# SPDX-License-Identifier: Apache-2.0
import html
import re

import pytest
from web_toys import NAMES, PASSWORD, Silo, Visitor

from fedqa.store import Role

FORMS = ("/people/invite", "/people/role", "/people/remove")
API = ("/api/people/invite", "/api/people/role", "/api/people/remove")


def roles(silo: Silo) -> dict[str, str]:
    return {person.name: person.role for person in silo.store.people().all()}


def bearer(silo: Silo, role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {silo.session(role)}"}


def test_an_owner_sees_everybody_and_that_the_last_owner_stays(owner: Visitor) -> None:
    page = owner.get("/people")
    assert page.status_code == 200
    for name in NAMES.values():
        assert f"<strong>{name}</strong>" in page.text
    assert "The last one stays" in page.text
    assert 'aria-label="Role of Otto"' not in page.text
    assert 'aria-label="Role of Rita"' in page.text


@pytest.mark.parametrize("role", ["reader", "editor"])
def test_nobody_else_sees_the_room_or_changes_anything(silo: Silo, role: Role) -> None:
    visitor, before = silo.visitor(role), roles(silo)
    assert visitor.get("/people").status_code == 403
    assert "/people" not in visitor.get("/account").text
    for path in FORMS:
        assert visitor.submit(path, name="Otto", role="owner").status_code == 403
    for path in API:
        body = {"name": "Otto", "role": "reader"}
        assert visitor.post(path, json=body, headers=bearer(silo, role)).status_code == 403
    assert visitor.get("/api/people", headers=bearer(silo, role)).status_code == 403
    assert roles(silo) == before


def test_a_form_from_elsewhere_changes_nothing(silo: Silo, owner: Visitor) -> None:
    for path in FORMS:
        answer = owner.post(path, data={"name": "Rita", "role": "owner"}, follow_redirects=False)
        assert answer.status_code == 403
    assert roles(silo)["Rita"] == "reader"


def test_an_invitation_is_shown_once_works_once_and_gives_its_role(silo: Silo, owner: Visitor) -> None:
    shown = owner.submit("/people/invite", role="editor", name="Nora")
    assert shown.status_code == 200
    link = html.unescape(re.search(r'id="link" readonly value="([^"]+)"', shown.text)[1])  # type: ignore[index]
    assert link.startswith("http://127.0.0.1:8642/join?")
    assert link not in owner.get("/people").text
    newcomer = silo.visitor()
    assert newcomer.get(link).status_code == 200
    invitation = link.partition("=")[2]
    joined = newcomer.submit("/join", at=link, invitation=invitation, name="Nora", password=PASSWORD)
    assert joined.status_code == 303
    assert roles(silo)["Nora"] == "editor"
    assert silo.visitor().get(link).status_code == 404


def test_a_role_is_changed_and_counts_from_the_next_request_on(silo: Silo, owner: Visitor, reader: Visitor) -> None:
    assert reader.get("/examples").status_code == 403
    answer = owner.submit("/people/role", name="Rita", role="editor")
    assert (answer.status_code, answer.headers["location"]) == (303, "/people")
    assert "Rita is now an editor." in owner.get("/people").text
    assert reader.get("/examples").status_code == 200


def test_who_is_removed_is_signed_out_at_once(silo: Silo, owner: Visitor, reader: Visitor) -> None:
    assert reader.get("/").status_code == 200
    assert owner.submit("/people/remove", name="Rita").status_code == 303
    assert "Rita" not in roles(silo)
    assert reader.get("/", follow_redirects=False).headers["location"] == "/login"


def test_the_last_owner_can_neither_leave_nor_step_down(silo: Silo, owner: Visitor) -> None:
    for path, fields in (("/people/remove", {}), ("/people/role", {"role": "reader"})):
        answer = owner.submit(path, name="Otto", **fields)
        assert answer.status_code == 400
        assert "is the only owner" in answer.text
    assert roles(silo)["Otto"] == "owner"


def test_an_owner_who_steps_down_is_led_out_of_the_room(silo: Silo, owner: Visitor) -> None:
    owner.submit("/people/role", name="Edda", role="owner")
    assert owner.submit("/people/role", name="Otto", role="reader").headers["location"] == "/"
    assert owner.get("/people").status_code == 403


def test_a_role_that_does_not_exist_is_refused(silo: Silo, owner: Visitor) -> None:
    assert owner.submit("/people/role", name="Rita", role="emperor").status_code == 422
    assert owner.submit("/people/role", name="Nobody", role="editor").status_code in (400, 404)


def test_a_name_is_text_whatever_it_looks_like(silo: Silo, owner: Visitor) -> None:
    name = "<script>alert('x')</script>\"&"
    people = silo.store.people()
    people.accept(people.invite("reader"), name, PASSWORD)
    for page in (owner.get("/people"), owner.get("/people")):
        assert "<script>alert" not in page.text
        assert html.escape(name).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page.text
    owner.submit("/people/role", name=name, role="editor")
    assert "<script>alert" not in owner.get("/people").text  # nor in what is said once


def test_programs_can_do_the_same(silo: Silo, stranger: Visitor) -> None:
    headers = bearer(silo, "owner")
    listed = stranger.get("/api/people", headers=headers).json()
    assert {(one["name"], one["role"]) for one in listed} == {("Rita", "reader"), ("Edda", "editor"), ("Otto", "owner")}
    invited = stranger.post("/api/people/invite", json={"role": "reader"}, headers=headers).json()
    assert "/join?invitation=" in invited["link"]
    changed = stranger.post("/api/people/role", json={"name": "Rita", "role": "editor"}, headers=headers)
    assert changed.status_code == 204
    assert stranger.post("/api/people/remove", json={"name": "Edda"}, headers=headers).status_code == 204
    assert roles(silo) == {"Rita": "editor", "Otto": "owner"}
    assert stranger.post("/api/people/remove", json={"name": "Otto"}, headers=headers).status_code == 400
