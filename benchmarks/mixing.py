# SPDX-License-Identifier: Apache-2.0
"""Memory of one-row mixing: 200 silos of a 22-million-number vector, beside 10, in multiples of the vector's size.

Each count runs in a process of its own. The updates come as they would from an engine, one at a time, through the guard
and the mixer; what is printed is how far the process's peak memory rose above what it had before the first one.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from fedqa.federation.course import Mixing
from fedqa.federation.guard import Expected, Guard
from fedqa.federation.messages import Envelope, LossSummary, Update
from fedqa.federation.mixing import Mixed, Mixer

SIZE = 22_700_000
LIMIT = 3.0


def envelopes(n: int, size: int) -> Iterator[Envelope]:
    for number in range(n):
        name = f"silo-{number:03d}"
        delta = torch.full((size,), 1e-4 * (1 + number % 7))
        loss = LossSummary(1.0, 0.5, 1.0, 0.5)
        yield Envelope(name, Update(name, "course", 1, "layout", delta, 16, 16, 1, loss), size * 4)
        del delta


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(n: int) -> None:
    torch.set_num_threads(1)
    names = [f"silo-{number:03d}" for number in range(n)]
    mixer = Mixer(Mixing(), names, {})
    screened(mixer, names, 1000)  # what is loaded at first use is not what mixing costs
    before = peak_bytes()
    mixed = screened(mixer, names, SIZE)
    rise = (peak_bytes() - before) / (SIZE * 4)
    mean = sum(1e-4 * (1 + number % 7) for number in range(n)) / n
    assert torch.allclose(mixed.deltas["*"], torch.tensor(mean), rtol=1e-4)
    print(json.dumps(rise))


def screened(mixer: Mixer, names: Sequence[str], size: int) -> Mixed:
    expected = Expected("course", 1, "layout", size, 100.0, dict.fromkeys(names, 16))
    return mixer.mix(Guard().screen(envelopes(len(names), size), expected, _refuse))


def _refuse(silo: str, code: str) -> None:
    raise AssertionError(f"{silo}: {code}")


def measure(n: int) -> float:
    command = [sys.executable, "-m", "benchmarks.mixing", str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    return float(json.loads(done.stdout))


def main(quick: bool = False) -> None:
    table = Table(title=f"Peak memory of mixing vectors of {SIZE * 4 / 1e6:.0f} MB, in vectors")
    for column in ("silos", "peak", "limit"):
        table.add_column(column, justify="right")
    for n in (10, 50) if quick else (10, 50, 200):
        table.add_row(str(n), f"{measure(n):.2f}", f"{LIMIT:.2f}")
    Console().print(table)


if __name__ == "__main__":
    child(int(sys.argv[1]))
