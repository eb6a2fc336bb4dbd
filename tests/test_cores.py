# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import pytest

from fedqa.cores import cores

BIND = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
ASK = f"{BIND}; from fedqa.cores import cores; print(cores())"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_a_process_bound_to_one_core_runs_one_process() -> None:
    said = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "1"


def test_there_is_a_core() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
