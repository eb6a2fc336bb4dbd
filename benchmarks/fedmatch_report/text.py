# SPDX-License-Identifier: Apache-2.0
"""What the FedMatch study found, in sentences made of its numbers: true whatever these are."""

from collections.abc import Mapping

from benchmarks.fedmatch_report.arms import ALONE, BLENDED, FEDMATCH, RIVALS, Findings
from benchmarks.study.published import Published
from benchmarks.study.statistics import Versus, overall
from benchmarks.study.tables import below, bytes_share
from benchmarks.study.wording import verdict
from fedqa.evaluation.report import Tile
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.words import listed, number, percent, plural, signed


def lead(found: Findings, paper: Published) -> list[str]:
    return [
        *_reached(found),
        *_against_rivals(found),
        *_as_published(found, paper),
        *_mixed(found),
        *_cheaper(found),
    ]


def tiles(found: Findings) -> list[Tile]:
    arm, compared = (BLENDED, found.blended) if found.blended["map"] else (FEDMATCH, found.rivals)
    made = [
        Tile(f"{arm}: MAP against {name}", signed(v.bootstrap.difference), f"{interval(v.bootstrap)}, {verdict(v)}")
        for name, v in compared["map"].items()
        if name in RIVALS
    ]
    share = bytes_share(found.results, "low-rank", FEDMATCH) if "low-rank" in found.beyond["map"] else None
    if share is not None:
        made.append(Tile("of FedMatch's bytes a round", percent(share), "with a shared low-rank adapter"))
    return made


def _reached(found: Findings) -> list[str]:
    results = found.results
    trained = f"{plural(len(results.silos), 'silo')} ({listed(results.silos)}) and {plural(len(results.seeds), 'seed')}"
    if FEDMATCH not in results:
        return [f"FedMatch is not among the {plural(len(results.by_arm), 'arm')} of this study of {trained}."]
    cells = results.cells(FEDMATCH, "map")
    questions = plural(sum(map(len, cells.values())), "test question")
    reached = " and ".join(
        f"{article} of {number(score.mean)} ({interval(score)})"
        if interval(score)
        else f"{article} of {number(score.mean)}"
        for article, score in (("a MAP", overall(cells)), ("an MRR", overall(results.cells(FEDMATCH, "mrr"))))
    )
    return [
        f"On {questions} of {trained}, FedMatch with the patch {found.setup.headline} reaches {reached} in the mean of "
        "silos, after the local step."
    ]


def _against_rivals(found: Findings) -> list[str]:
    told = _differences(found.rivals["map"])
    return [f"In MAP it differs {told}."] if told else []


def _differences(compared: Mapping[str, Versus]) -> str:
    """From the methods that a reader asks for first; the tables have all."""
    return listed(
        [
            f"from {name} by {signed(versus.bootstrap.difference)} ({interval(versus.bootstrap)}: {verdict(versus)})"
            for name, versus in compared.items()
            if name in (ALONE, "zero-shot", "FedAvg")
        ]
    )


def _as_published(found: Findings, paper: Published) -> list[str]:
    gains = {name: paper.gain("methods", (FEDMATCH, name), "map") for name in found.rivals["map"]}
    told = [f"{signed(gain)} against {name}" for name, gain in gains.items() if gain is not None]
    return [f"The paper, with BERT-base and other questions, has {listed(told)}."] if told else []


def _mixed(found: Findings) -> list[str]:
    versus = found.silos.get(BLENDED)
    if versus is None:
        return []
    lower = below(versus)
    where = f"below {ALONE} in {listed(lower)}" if lower else f"below {ALONE} in no silo"
    return [
        "If each silo takes the mean of the model it trained alone and the one it trained with the others, MAP differs "
        f"{_differences(found.blended['map'])}, and is {where}."
    ]


def _cheaper(found: Findings) -> list[str]:
    versus = found.beyond["map"].get("low-rank")
    share = bytes_share(found.results, "low-rank", FEDMATCH) if versus else None
    if versus is None or share is None:
        return []
    return [
        f"Sharing a low-rank adapter instead of the backbone takes {percent(share)} of the bytes a round and differs "
        f"from FedMatch by {signed(versus.bootstrap.difference)} MAP ({interval(versus.bootstrap)}): {verdict(versus)}."
    ]
