# SPDX-License-Identifier: Apache-2.0
"""What an exchange costs, and what a silo costs the coordinator, with nothing to learn in between.

*One exchange*: weights to a silo, an update of the same size back, over the network engine (TLS with mutual
authentication on loopback, the silo a process of its own), beside the local engine and beside a plain copy of the same
bytes there and back over one TLS socket. Medians of several exchanges.

*Many sites*: so many silos as processes, each with its own connection, asked at once. *Many silos simulated*: a round
of a real coordinator (guard, mixing, run folder) with so many silos in one process; what the silos themselves do, such
as their ledgers, is taken off. Memory is what the coordinator's process needed at most beyond what it had before.
"""

import os
import resource
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import nn

from fedqa.engines.local import InProcess, Processes
from fedqa.engines.network.engine import House, Network
from fedqa.engines.network.identities import (
    COORDINATOR,
    Invitation,
    Pair,
    context,
    issue,
    make_authority,
    wire_name,
)
from fedqa.engines.network.site import Site
from fedqa.federation import wire
from fedqa.federation.coordinator import Coordinator, Start
from fedqa.federation.course import Course, Evaluation, SiloPlan, Stage
from fedqa.federation.engine import Engine
from fedqa.federation.ledger import Ledger
from fedqa.federation.messages import Envelope, Finish, LossSummary, Report, Request, Train, Update
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.sharing import compile_layout
from fedqa.models.tagged import TaggedModel
from fedqa.training import one_thread

MEGABYTES = (3, 20, 90)
SITES = (5, 20, 50)
SIMULATED = (100, 1000)
SITE_MEGABYTES = 1
COURSE = "benchmark"
_CHUNK = 1 << 20


class EchoSilo:
    """Answers with what it was sent, as an update, and writes it into its ledger as a silo does."""

    features = SimpleNamespace(n_train=1)

    def __init__(self, name: str, folder: Path, course: str = COURSE, layout: str = COURSE) -> None:
        self.name, self._layout = name, layout
        self.course = SimpleNamespace(fingerprint=course)
        self.ledger = Ledger(folder / f"{name}.sqlite")
        self.seconds = 0.0  # at work

    def handle(self, request: Request, progress: Callable[[int, int], None]) -> Envelope:
        began = time.perf_counter()
        reply: Update | Report = Report(self.name, request.course, 0)
        if isinstance(request, Train):
            loss = LossSummary(0.0, 0.0, 0.0, 0.0)
            delta = request.weights.clone()
            reply = Update(self.name, request.course, request.round, self._layout, delta, 1, 1, 1, loss)
        assert isinstance(request, Train | Finish)
        envelope = Envelope(self.name, reply, self.ledger.record(reply, request.course, 1))
        self.seconds += time.perf_counter() - began
        return envelope


def main(quick: bool = False) -> None:
    console = Console(highlight=False)
    with one_thread():
        console.print(_simulated_table(SIMULATED[:1] if quick else SIMULATED))  # what needs least memory comes first
        console.print(_sites_table(SITES[:2] if quick else SITES))
        console.print(_exchanges_table(3 if quick else 7))
        console.print("The aim is 1 s and twice the plain copy.")


# -- one exchange ----------------------------------------------------------------------------------------------------


def _exchanges_table(repeats: int) -> Table:
    table = _table("One exchange", "payload, MB", "bytes", "plain TLS, s", "local, s", "network, s", "within the aim")
    for megabytes in MEGABYTES:
        plain, local, network, n_bytes = measured(megabytes, repeats)
        aim = 1 + 2 * plain
        verdict = "yes" if network <= aim else f"over by {network - aim:.2f} s"
        table.add_row(str(megabytes), f"{n_bytes:,}", f"{plain:.3f}", f"{local:.3f}", f"{network:.3f}", verdict)
    return table


def measured(megabytes: float, repeats: int) -> tuple[float, float, float, int]:
    """Median seconds of an exchange by plain TLS, the local engine, the network; and its bytes, both ways."""
    weights = torch.rand(int(megabytes * 250_000))
    size = wire.size(Train(COURSE, 1, weights))
    with tempfile.TemporaryDirectory() as folder:
        keys = Keys(1)
        plain = _plain_copy(keys, size, repeats)
        silo: Any = EchoSilo(keys.names[0], Path(folder))
        local = Processes([silo], 1, size)
        try:
            local_s = _exchanges(local, keys.names, weights, repeats)[0]
        finally:
            local.close()
        with _network(keys, [silo], size) as engine:
            network_s, answered = _exchanges(engine, keys.names, weights, repeats)
    return plain, local_s, network_s, size + answered


def _exchanges(engine: Engine, names: list[str], weights: torch.Tensor, repeats: int) -> tuple[float, int]:
    """Median seconds until all have answered, and the bytes of the last answer."""
    seconds, answered = [], 0
    for number in range(1, repeats + 1):  # a new round each time: asked the same again, a silo does no work
        asked = Train(COURSE, number, weights)
        began = time.perf_counter()
        envelopes = list(engine.ask({name: asked for name in names}, 120.0))
        seconds.append(time.perf_counter() - began)
        for envelope in envelopes:
            assert isinstance(envelope.content, Update), envelope
            assert torch.equal(envelope.content.delta, weights)
            answered = envelope.n_bytes
    return statistics.median(seconds), answered


class Keys:
    """The certificates of a coordinator and so many silos."""

    def __init__(self, silos: int) -> None:
        self.authority = make_authority(1)
        self.own = issue(self.authority, COORDINATOR, 1)
        self.names = [f"site-{number}" for number in range(silos)]
        self.pairs = {name: issue(self.authority, wire_name(name), 1) for name in self.names}

    def invitation(self, silo: str, port: int) -> Invitation:
        pair = self.pairs[silo]
        told = (self.own.digest, self.authority.certificate, pair.certificate, pair.key)
        return Invitation(silo, f"127.0.0.1:{port}", *told)


@contextmanager
def _network(keys: Keys, silos: list[Any], size: int) -> Iterator[Network]:
    """The engine with its silos connected, each in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    children = [_forked(partial(_site, keys, silo, port, size)) for silo in silos]
    known = {keys.pairs[silo.name].digest: silo.name for silo in silos}
    engine = Network(House(("127.0.0.1", port), keys.own, keys.authority.certificate, known), "", COURSE)
    try:
        while len(engine.online()) < len(silos):
            time.sleep(0.01)
        yield engine
        engine.dismiss()
    finally:
        engine.close()
        for child in children:
            os.waitpid(child, 0)


def _site(keys: Keys, silo: Any, port: int, size: int) -> None:
    Site(silo, keys.invitation(silo.name, port), size, 120.0, lambda text: None).run()


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def _plain_copy(keys: Keys, size: int, repeats: int) -> float:
    """The same bytes, there and back, between two processes over one TLS socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = _forked(lambda: _echo(keys.pairs[keys.names[0]], keys.authority.certificate, listener, size, repeats))
    accepted, _ = listener.accept()
    data, seconds = os.urandom(size), []
    with context(keys.own, keys.authority.certificate, server=True).wrap_socket(accepted, server_side=True) as sock:
        for _ in range(repeats):
            began = time.perf_counter()
            sock.sendall(data)
            _receive(sock, size)
            seconds.append(time.perf_counter() - began)
    os.waitpid(child, 0)
    listener.close()
    return statistics.median(seconds)


def _echo(own: Pair, authority: str, listener: socket.socket, size: int, repeats: int) -> None:
    tls = context(own, authority, server=False)
    with tls.wrap_socket(socket.create_connection(listener.getsockname())) as sock:
        for _ in range(repeats):
            sock.sendall(_receive(sock, size))


def _receive(sock: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        view = view[sock.recv_into(view, min(len(view), _CHUNK)) :]
    return data


# -- many ------------------------------------------------------------------------------------------------------------


def _sites_table(counts: tuple[int, ...]) -> Table:
    title = f"Many sites, {SITE_MEGABYTES} MB each way"
    table = _table(title, "sites", "an exchange, s", "coordinator, CPU s", "memory, MB")
    for count in counts:
        seconds, cpu, megabytes = many_sites(count)
        table.add_row(str(count), f"{seconds:.2f}", f"{cpu:.2f}", f"{megabytes:.0f}")
    return table


def many_sites(count: int, repeats: int = 3) -> tuple[float, float, float]:
    """Seconds of an exchange with so many processes, the coordinator's CPU seconds for it, its memory."""
    weights, peak = torch.rand(SITE_MEGABYTES * 250_000), _peak()
    keys = Keys(count)
    with tempfile.TemporaryDirectory() as folder:
        silos: list[Any] = [EchoSilo(name, Path(folder)) for name in keys.names]
        with _network(keys, silos, weights.numel() * 4) as engine:
            before = time.process_time()
            seconds, _ = _exchanges(engine, keys.names, weights, repeats)
            cpu = (time.process_time() - before) / repeats
    return seconds, cpu, _peak() - peak


def _simulated_table(counts: tuple[int, ...]) -> Table:
    title = f"Many silos simulated, {SITE_MEGABYTES} MB each way"
    table = _table(title, "silos", "a round of the coordinator, s", "a silo, ms", "memory, MB")
    for count in counts:
        seconds, megabytes = simulated(count)
        table.add_row(str(count), f"{seconds:.2f}", f"{1000 * seconds / count:.2f}", f"{megabytes:.0f}")
    return table


def simulated(count: int) -> tuple[float, float]:
    """Seconds that a coordinator spends on a round with so many silos, without what the silos do; and its memory."""
    module, peak = nn.Module(), _peak()
    module.weights = nn.Parameter(torch.full((SITE_MEGABYTES * 250_000,), 1e-3))
    layout = compile_layout(TaggedModel(module, {"weights": frozenset({"enc.0"})}), (("*", "shared"),))
    plans = tuple(SiloPlan(f"site-{number}") for number in range(count))
    stage = Stage(1, (("*", "shared"),))
    course = Course("scale", "fedavg", 1, "none", plans, (stage,), evaluation=Evaluation(every=0))
    with tempfile.TemporaryDirectory() as folder:
        names = [plan.name for plan in plans]
        silos: list[Any] = [EchoSilo(name, Path(folder), course.fingerprint, layout.fingerprint) for name in names]
        engine = InProcess(silos)
        start = Start(layout, module.weights.detach().clone())
        run = RunFolder(Path(folder) / "run")
        run.path.mkdir()
        began = time.perf_counter()
        Coordinator(course, engine, run, lambda stage: start).run()
        seconds = time.perf_counter() - began - sum(silo.seconds for silo in silos)
        engine.close()
        assert len(run.records()[0].accepted) == count
    return seconds, _peak() - peak


def _peak() -> float:
    """Megabytes that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=SIMPLE, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


if __name__ == "__main__":
    main()
