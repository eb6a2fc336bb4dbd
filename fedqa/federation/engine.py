# SPDX-License-Identifier: Apache-2.0
"""What the coordinator needs of an engine, and of whoever watches a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from fedqa.federation.messages import Envelope, Request
from fedqa.federation.run_folder import RoundRecord


class Engine(Protocol):
    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        """Send each silo its request; replies come as they arrive, one a silo.

        A silo that fails, dies or is late gives an envelope with a refusal. The iterator ends when all have answered.
        """


class Watcher(Protocol):
    """Is told how a run goes. Sees names, counts and scores, never data."""

    def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None: ...

    def silo_works(self, silo: str, done: int, total: int) -> None: ...

    def silo_answered(self, silo: str) -> None: ...

    def round_ends(self, record: RoundRecord) -> None: ...

    def scoring_begins(self, silos: Sequence[str]) -> None: ...


class Silent:
    """A watcher that looks away."""

    def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None: ...

    def silo_works(self, silo: str, done: int, total: int) -> None: ...

    def silo_answered(self, silo: str) -> None: ...

    def round_ends(self, record: RoundRecord) -> None: ...

    def scoring_begins(self, silos: Sequence[str]) -> None: ...
