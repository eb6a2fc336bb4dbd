# SPDX-License-Identifier: Apache-2.0
"""What the FedMatch study found, in sentences made of its numbers: true whatever these are."""

from benchmarks.fedmatch_report.arms import ALONE, BLENDED, FEDMATCH, Findings
from benchmarks.study.published import Published
from benchmarks.study.statistics import overall
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
        *_ranked(found),
        *_by_silo(found),
        *_mixed(found),
        *_cheaper(found),
    ]


def tiles(found: Findings) -> list[Tile]:
    against = [(f"MAP against {name}", versus) for name, versus in found.rivals["map"].items()]
    made = [
        Tile(label, signed(v.bootstrap.difference), f"{interval(v.bootstrap)}, {verdict(v)}") for label, v in against
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
    told = [
        f"from {name} by {signed(versus.bootstrap.difference)} ({interval(versus.bootstrap)}: {verdict(versus)})"
        for name, versus in found.rivals["map"].items()
    ]
    return [f"In MAP it differs {listed(told)}."] if told else []


def _as_published(found: Findings, paper: Published) -> list[str]:
    gains = {name: paper.gain("methods", (FEDMATCH, name), "map") for name in found.rivals["map"]}
    told = [f"{signed(gain)} against {name}" for name, gain in gains.items() if gain is not None]
    return [f"The paper, with BERT-base and other questions, has {listed(told)}."] if told else []


def _ranked(found: Findings) -> list[str]:
    """Among the methods that were trained with the same seeds as FedMatch."""
    results = found.results
    if FEDMATCH not in results:
        return []
    seeds = set(results.by_arm[FEDMATCH])
    arms = [arm for arm in found.methods() if set(results.by_arm[arm]) == seeds]
    means = {arm: overall(results.cells(arm, "map")).mean for arm in arms}
    ahead = sorted((arm for arm in arms if means[arm] > means[FEDMATCH]), key=lambda arm: -means[arm])
    if len(arms) < 3:
        return []
    start = f"Of the {len(arms)} methods compared,"
    if not ahead:
        return [f"{start} none has a higher mean of silos in MAP."]
    are = "has" if len(ahead) == 1 else "have"
    return [f"{start} {listed([f'{arm} ({number(means[arm])})' for arm in ahead], 4)} {are} a higher mean of silos."]


def _by_silo(found: Findings) -> list[str]:
    versus = found.silos.get(FEDMATCH)
    if versus is None:
        return []
    lower = [f"{silo} ({signed(versus.by_silo[silo])})" for silo in below(versus)]
    if not lower:
        return [f"In none of the {len(versus.by_silo)} silos is its MAP below that of {ALONE}."]
    return [f"Its MAP is below that of {ALONE} in {len(lower)} of {len(versus.by_silo)} silos: {listed(lower)}."]


def _mixed(found: Findings) -> list[str]:
    versus = found.silos.get(BLENDED)
    if versus is None:
        return []
    lower = below(versus)
    where = f"below {ALONE} in {listed(lower)}" if lower else f"below {ALONE} in no silo"
    against = [
        f"from {name} by {signed(other.bootstrap.difference)} ({interval(other.bootstrap)}: {verdict(other)})"
        for name, other in found.blended["map"].items()
    ]
    return [
        "If each silo takes the mean of the model it trained alone and the one it trained with the others, MAP differs "
        f"{listed(against)}, and is {where}."
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
