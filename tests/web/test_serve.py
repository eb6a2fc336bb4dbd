# SPDX-License-Identifier: Apache-2.0
"""The page as a process of its own: what it prints, where it listens, how it ends."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from toy_silo import filled, write_silo

from fedqa.errors import ConfigError
from fedqa.store import Store
from fedqa.web.serve import address, bound, greet, is_loopback, opened, owner_link, serve

ROOT = Path(__file__).parents[2]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        text: str = response.read().decode()
        return text


@pytest.mark.slow
def test_the_page_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    settings = write_silo(tmp_path)
    command = [sys.executable, "-u", "-m", "fedqa", "serve", str(settings.path), "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    ) as process:
        assert process.stdout
        lines = [process.stdout.readline().strip() for _ in range(4)]
        assert lines[0] == "Read 20 documents and 20 examples into the store."
        (at,) = re.findall(r"^north: (http://127\.0\.0\.1:\d+)/ \(Ctrl-C stops it\)$", lines[1])
        assert lines[2].startswith("Nobody owns this page yet.") and lines[3].startswith(f"{at}/join?invitation=")
        assert "password" in get(lines[3])
        assert process.stdout.readline() == "Answers come from the embedded model, untrained.\n"
        assert get(f"{at}/api/health") == '{"loaded":true,"ready":true}'
        assert "password" in get(f"{at}/training")  # a room that came later; strangers are sent to sign in
        process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=60)
    assert (process.returncode, rest, problems) == (0, "Stopped.\n", "")


@pytest.mark.slow
def test_a_page_whose_models_cannot_be_loaded_ends_and_says_why(tmp_path: Path) -> None:
    filled(write_silo(tmp_path)).close()
    settings = write_silo(tmp_path, '[runs]\nmatch = "nowhere"\n')
    command = [sys.executable, "-m", "fedqa", "serve", str(settings.path), "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    where = tmp_path / "nowhere"
    assert done.returncode == 2
    assert done.stderr == f"fedqa: {where} does not exist; give the folder that `fedqa train --out` was given\n"
    assert "Stopped." not in done.stdout


def test_a_training_that_cannot_be_ends_the_page_too(tmp_path: Path) -> None:
    filled(write_silo(tmp_path)).close()
    settings = write_silo(tmp_path, '[training]\nalliance = "nowhere.toml"\n')
    said: list[str] = []
    with pytest.raises(ConfigError, match=r"there is no file .*nowhere\.toml"):
        serve(settings.path, port=0, say=said.append)
    assert said[0].startswith("north: http://127.0.0.1:")


def test_nothing_heavy_is_imported_before_the_page_is_there() -> None:
    heavy = ("torch", "transformers", "scipy", "sqlglot", "safetensors", "nvflare", "bm25s")
    code = f"import sys, fedqa.cli, fedqa.web.serve; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_page_with_an_owner_prints_no_link(tmp_path: Path) -> None:
    with filled(write_silo(tmp_path)) as store:
        link = owner_link(store, "http://127.0.0.1:1")
        assert link is not None
        token = link.removeprefix("http://127.0.0.1:1/join?invitation=")
        store.people().accept(token, "Ann", "a long and good password")
        assert [person.role for person in store.people().all()] == ["owner"]
        assert owner_link(store, "http://127.0.0.1:1") is None


def test_a_port_in_use_is_told_before_anything_else(tmp_path: Path) -> None:
    settings = write_silo(tmp_path)
    with bound("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"cannot be served at 127\.0\.0\.1, port {port}: Address already in use"
        ):
            serve(settings.path, port=port)
    assert not (tmp_path / "north.sqlite").exists()
    with pytest.raises(ConfigError, match=r"cannot be served at no\.such\.host\.invalid, port 1: .*--host and --port"):
        serve(settings.path, host="no.such.host.invalid", port=1)


def test_opening_fills_the_store_and_closes_all_of_it(tmp_path: Path) -> None:
    said: list[str] = []
    with opened(write_silo(tmp_path), said.append) as parts:
        assert not parts.desk.loaded and parts.store.documents().total == 20
        parts.desk.open()
        assert parts.desk.ready
    assert said == ["Read 20 documents and 20 examples into the store."]
    with Store.open(tmp_path / "north.sqlite") as store:
        assert store.documents().total == 20


def test_a_page_that_others_can_reach_warns(tmp_path: Path) -> None:
    settings = write_silo(tmp_path, '[page]\nhost = "0.0.0.0"\ntitle = "The North"\n')
    said: list[str] = []
    with opened(settings) as parts:
        greet(parts, said.append)
        assert said[0].startswith("Warning: at 0.0.0.0, other machines can reach this page, and what travels is not")
        assert 'none yet: add names = ["…"] to [page]' in said[0]
        assert said[1] == "The North: http://127.0.0.1:8642/ (Ctrl-C stops it)"


@pytest.mark.parametrize(
    ("host", "shown", "loopback"),
    [
        ("127.0.0.1", "http://127.0.0.1:80", True),
        ("localhost", "http://localhost:80", True),
        ("::1", "http://[::1]:80", True),
        ("0.0.0.0", "http://127.0.0.1:80", False),
        ("::", "http://[::1]:80", False),
        ("qa.example", "http://qa.example:80", False),
        ("192.168.1.7", "http://192.168.1.7:80", False),
    ],
)
def test_addresses(host: str, shown: str, loopback: bool) -> None:
    assert address(host, 80) == shown
    assert is_loopback(host) is loopback


def test_a_socket_listens_on_any_free_port() -> None:
    with bound("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()[:2], timeout=5):
        assert listening.getsockname()[1] > 0
