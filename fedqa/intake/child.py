# SPDX-License-Identifier: Apache-2.0
"""The process that parses one file: `python -m fedqa.intake.child KIND LIMITS`, bytes in, one JSON object out.

It gives up time, memory, files and new processes before it sees the first byte, so whatever a file does to a parser
happens here and ends here.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module

from fedqa.intake.records import KINDS, Extracted, IntakeError, Limits
from fedqa.intake.sandbox import TOO_MUCH_MEMORY


def main(kind: str, limits: Limits) -> int:
    assert kind in KINDS
    read: Callable[[bytes, Limits], Extracted] = import_module(f"fedqa.intake.{kind}").read
    confine(limits)
    try:
        answer: dict[str, object] = asdict(read(sys.stdin.buffer.read(), limits))
    except IntakeError as refused:
        answer = {"reason": refused.reason, "remedy": refused.remedy}
    except MemoryError:
        return TOO_MUCH_MEMORY
    except Exception:  # a parser may raise anything; none of it is for people to read
        answer = {"reason": "", "remedy": ""}
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.flush()
    return 0


def confine(limits: Limits) -> None:
    """Give up what parsing does not need. Where the system knows no such limits, the parent's clock remains."""
    if sys.platform == "win32":
        return
    import resource

    for what, soft, hard in (
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.seconds, limits.seconds + 5),  # at the soft limit comes a signal of its own
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
    ):
        with suppress(OSError, ValueError):  # some systems do not let every limit be set
            resource.setrlimit(what, (soft, hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Limits(**json.loads(sys.argv[2]))))
