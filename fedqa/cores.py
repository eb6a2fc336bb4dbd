# SPDX-License-Identifier: Apache-2.0
"""How many processes this machine can run at once for us."""

import os


def cores() -> int:
    """Those this process may use: fewer than the machine has in a container, or where a scheduler has bound it."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
