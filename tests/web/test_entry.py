# SPDX-License-Identifier: Apache-2.0
import re

import pytest
from web_toys import ADDRESS, PASSWORD, Silo, Visitor

from fedqa.web.limits import Rate
from fedqa.web.page import join_path
from fedqa.web.rooms.entry import _inside


def _sign_in(visitor: Visitor, name: str = "Rita", password: str = PASSWORD, next: str = "/") -> object:
    return visitor.submit("/login", at="/login", name=name, password=password, next=next)


def test_signing_in_leads_where_one_wanted_to_go_and_signing_out_ends_it(silo: Silo, stranger: Visitor) -> None:
    wanted = stranger.get("/documents?search=ward", follow_redirects=False)
    assert wanted.headers["location"] == "/login?next=%2Fdocuments%3Fsearch%3Dward"
    came = _sign_in(stranger, next="/documents?search=ward")
    assert (came.status_code, came.headers["location"]) == (303, "/documents?search=ward")
    assert stranger.get("/documents").status_code == 200
    session = stranger.cookies["fedqa-session-8642"]
    left = stranger.submit("/logout")
    assert left.headers["location"] == "/login"
    assert silo.store.people().session(session) is None
    assert "You are signed out." in stranger.get("/login").text


def test_a_wrong_password_and_an_unknown_name_say_the_same(stranger: Visitor) -> None:
    wrong, unknown = _sign_in(stranger, password="wrong"), _sign_in(stranger, name="Nobody")
    assert wrong.status_code == unknown.status_code == 401
    assert "The name or the password is not right." in wrong.text and "is not right." in unknown.text
    assert "session" not in wrong.headers.get("set-cookie", "")


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/a\nb", ""])
def test_signing_in_never_leads_to_another_site(path: str) -> None:
    assert _inside(path) == "/"


def test_cookies_cannot_be_read_by_scripts_or_sent_by_other_sites(silo: Silo) -> None:
    plain = _sign_in(silo.visitor()).headers["set-cookie"]
    assert plain.startswith("fedqa-session-8642=")
    assert "HttpOnly" in plain and "SameSite=strict" in plain and "Path=/" in plain and "Secure" not in plain
    secure = _sign_in(silo.visitor(address=ADDRESS.replace("http", "https"))).headers["set-cookie"]
    assert secure.startswith("__Host-fedqa-session=")
    assert "HttpOnly" in secure and "SameSite=strict" in secure and "Secure" in secure and "Domain" not in secure


def test_a_session_is_a_new_one_after_signing_in(stranger: Visitor) -> None:
    stranger.cookies.set("fedqa-session-8642", "chosen-by-somebody-else")
    set_cookie = _sign_in(stranger).headers["set-cookie"]
    assert set_cookie.startswith("fedqa-session-8642=") and "chosen-by-somebody-else" not in set_cookie


def test_too_many_attempts_for_a_name_are_refused_even_with_the_right_password(silo: Silo, stranger: Visitor) -> None:
    silo.app.state.page.sign_ins_by_name = Rate(2, per_s=300)
    for _ in range(2):
        assert _sign_in(stranger, password="wrong").status_code == 401
    refused = _sign_in(stranger, name=" RITA ")
    assert refused.status_code == 429 and "five minutes" in refused.text
    assert _sign_in(stranger, name="Edda").status_code == 303


def test_too_many_attempts_from_an_address_are_refused(silo: Silo, stranger: Visitor) -> None:
    token = stranger.token("/login")
    for _ in range(silo.app.state.page.sign_ins_by_address.most):
        assert silo.app.state.page.sign_ins_by_address.allows("testclient")
    fields = {"token": token, "name": "Somebody", "password": "x"}
    assert stranger.post("/login", data=fields).status_code == 429
    assert stranger.post("/api/session", json={"name": "Somebody", "password": "x"}).status_code == 429


def test_an_invitation_makes_a_person_once(silo: Silo, stranger: Visitor) -> None:
    path = join_path(silo.store.people().invite("editor", "Nora"))
    shown = stranger.get(path)
    assert "editor" in shown.text and 'value="Nora"' in shown.text
    invitation = re.search(r'name="invitation" value="([^"]+)"', shown.text)[1]
    fields = {"invitation": invitation, "name": "Nora"}
    short = stranger.submit("/join", at=path, **fields, password="x")
    assert short.status_code == 400 and 'role="alert"' in short.text
    joined = stranger.submit("/join", at=path, **fields, password=PASSWORD)
    assert (joined.status_code, joined.headers["location"]) == (303, "/")
    assert "Welcome, Nora." in stranger.get("/").text
    again = silo.visitor().get(path)
    assert again.status_code == 404 and "used or is out of date" in again.text


def test_before_anybody_has_come_the_sign_in_page_tells_where_the_first_link_is(silo: Silo, stranger: Visitor) -> None:
    assert "first owner" not in stranger.get("/login").text
    silo.app.state.page.people = type("Nobody", (), {"all": list, "session": lambda self, token: None})()
    assert "first owner" in stranger.get("/login").text


def test_a_password_is_changed_only_by_who_knows_the_old_one(silo: Silo, reader: Visitor) -> None:
    refused = reader.submit("/account", old="wrong", new="another good password")
    assert refused.status_code == 400 and "not right" in refused.text
    changed = reader.submit("/account", old=PASSWORD, new="another good password")
    assert changed.status_code == 303
    assert "Your password has been changed." in reader.get("/").text
    assert silo.store.people().log_in("Rita", "another good password")


def test_a_program_signs_in_and_out(stranger: Visitor) -> None:
    assert stranger.post("/api/session", json={"name": "Rita", "password": "x"}).status_code == 401
    signed_in = stranger.post("/api/session", json={"name": "Rita", "password": PASSWORD})
    assert "set-cookie" not in signed_in.headers
    headers = {"Authorization": f"Bearer {signed_in.json()['token']}"}
    assert stranger.get("/api/me", headers=headers).json() == {"name": "Rita", "role": "reader"}
    assert stranger.delete("/api/session", headers=headers).status_code == 204
    assert stranger.get("/api/me", headers=headers).status_code == 401


def test_whether_the_page_is_ready_is_no_secret(silo: Silo, stranger: Visitor) -> None:
    assert stranger.get("/api/health").json() == {"loaded": True, "ready": True}
    silo.desk.loaded = silo.desk.ready = False
    assert stranger.get("/api/health").json() == {"loaded": False, "ready": False}
