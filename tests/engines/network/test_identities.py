# SPDX-License-Identifier: Apache-2.0
"""Keys, certificates and invitations: who can read them, and what is said of files that are none."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedqa.engines.network.identities import (
    Invitation,
    address_of,
    ends_soon,
    issue,
    make_authority,
    read_invitation,
    wire_name,
    write_invitation,
)
from fedqa.errors import ConfigError


def example() -> Invitation:
    authority = make_authority(3)
    pair = issue(authority, wire_name("ash"), 3)
    return Invitation(
        "ash", "coordinator.example.org:8765", "0" * 64, authority.certificate, pair.certificate, pair.key
    )


def test_an_invitation_is_read_as_it_was_written_and_only_by_its_owner(tmp_path: Path) -> None:
    invitation = example()
    write_invitation(invitation, tmp_path / "new" / "ash.toml")
    assert read_invitation(tmp_path / "new" / "ash.toml") == invitation
    assert (tmp_path / "new" / "ash.toml").stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "ash.toml"]


def test_a_certificate_that_ends_soon_is_spoken_of() -> None:
    day = f"{datetime.now(UTC) + timedelta(days=3):%Y-%m-%d}"
    assert ends_soon(example().certificate) == f"the certificate is valid until {day}; a new one is needed soon"
    assert ends_soon(make_authority(31).certificate) == ""


def test_names_with_dots_have_names_on_the_wire_that_differ() -> None:
    names = [wire_name(name) for name in ("a.b", "a", "b", "a-b", "server")]
    assert len(set(names)) == 5
    assert all("." not in name for name in names)


def test_another_file_is_no_invitation(tmp_path: Path) -> None:
    path = tmp_path / "alliance.toml"
    path.write_text('name = "toys"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="is no invitation; `fedqa coordinator init` writes one for each silo"):
        read_invitation(path)


def test_an_invitation_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    import tomli_w

    path = tmp_path / "ash.toml"
    path.write_text(tomli_w.dumps(asdict(example()) | {"run": "code"}), encoding="utf-8")
    with pytest.raises(ConfigError, match="'run'"):
        read_invitation(path)


@pytest.mark.parametrize(
    ("text", "address"),
    [("localhost:1", ("localhost", 1)), ("[::1]:8765", ("::1", 8765)), ("10.0.0.1:65535", ("10.0.0.1", 65535))],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", ":80", "host:eighty", "host:70000", "host:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="an address is host:port, such as"):
        address_of(text)
