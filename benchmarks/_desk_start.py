# SPDX-License-Identifier: Apache-2.0
"""A process that opens a silo's desk and asks: what `benchmarks/answering.py` starts afresh to time a start."""

import json
import sys
import time
from pathlib import Path


def main(silo_file: Path, questions: int) -> None:
    began = time.time()
    from fedqa.answering.desk import Desk
    from fedqa.settings import load_settings
    from fedqa.store import Store

    imported = time.time()
    settings = load_settings(silo_file)
    with Store.open(settings.store) as store:
        desk = Desk.open(settings, store)
        opened = time.time()
        asked = [example.question for example in store.collection().of_split("test")]
        desk.ask(asked[0])
        first = time.time()
        later = [desk.ask(asked[i % len(asked)]).seconds for i in range(1, questions + 1)]
        desk.close()
    times = {"began": began, "imported": imported, "opened": opened, "first": first, "later": later}
    json.dump(times, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
