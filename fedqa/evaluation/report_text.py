# SPDX-License-Identifier: Apache-2.0
"""The sentences of a report, made of a run's numbers, and its course in words."""

from collections.abc import Mapping, Sequence
from inspect import getdoc

from fedqa.evaluation.report_tables import WORST, ScoreTable, Standing, accepted_anything, sent_anything
from fedqa.evaluation.run_scores import Estimate, Run
from fedqa.evaluation.significance import Comparison
from fedqa.evaluation.words import TIMES, count, duration, listed, number, p_value, plural, signed, size
from fedqa.federation.channels import CHANNELS
from fedqa.federation.combiners import COMBINERS
from fedqa.federation.course import Choice, Course, Participation, Stage
from fedqa.federation.server_optimisers import SERVER_OPTIMISERS
from fedqa.federation.weighers import WEIGHERS
from fedqa.methods import METHODS
from fedqa.tables import to_table

Facts = Sequence[tuple[str, Sequence[str]]]  # a label, and one line or more

MODES = {
    "shared": "received, trained and sent",
    "private": "trained in the silo, never sent",
    "synced": "received, neither trained nor sent",
    "frozen": "as the model was loaded, never sent",
}


# -- what came out -----------------------------------------------------------------------------------------------


def lead(run: Run, table: ScoreTable | None, others: Sequence[Standing]) -> list[str]:
    """What was trained, by whom, how, and what came out: a paragraph, sentence by sentence."""
    scores = [*_outcome(run, table), *_own_training(table)] if table else ["Nothing was scored."]
    return [_training(run), *scores, *(_against(others, table.metric) if table else []), _cost(run)]


def _training(run: Run) -> str:
    course, who = run.course, _who(run.course)
    rounds = plural(len(run.records), "round")
    if not course.stages:
        return f"{who} scored the model {course.model} as it is loaded; nothing was trained."
    if any(CHANNELS[name].pools for stage in course.stages for name in stage.channels):
        covered = any("covered_examples" in stage.channels for stage in course.stages)
        given = "their documents, and questions among covers," if covered else "all their examples"
        return (
            f"{who} gave {given} to the coordinator, which trained the model {course.model} on them for "
            f"{rounds} ({course.method}): a bound to compare with, not a federated training."
        )
    if not accepted_anything(run.records):
        return f"{who} were to train the model {course.model} with {_method(course)}; no update was accepted."
    if not sent_anything(run.records):
        return f"{who} trained the model {course.model} for {rounds}, each alone ({course.method})."
    return (
        f"{who} trained the model {course.model} together for {rounds} with {_method(course)}; "
        "their text stayed where it was."
    )


def _who(course: Course) -> str:
    names = [plan.name for plan in course.silos]
    return f"The silo {names[0]}" if len(names) == 1 else f"The {len(names)} silos {listed(names)}"


def _method(course: Course) -> str:
    known = METHODS.get(course.method)
    return f"{course.method} ({known.summary})" if known else course.method


def _outcome(run: Run, table: ScoreTable) -> list[str]:
    """What the models chosen on dev reach, in the mean of silos if there are several."""
    row = table.headline
    if "best" not in row.cells:
        return []
    best = row.cells["best"]
    reached = f"a {table.metric} of {number(best.mean)}" + (
        f" (95 % interval {interval(best)})" if interval(best) else ""
    )
    start = f"On {plural(row.questions, 'test question')},"
    which = "the model chosen on dev reaches" if run.course.stages else "it reaches"
    if not row.rolled_up:
        return [f"{start} {which} {reached}."]
    several = "the models that the silos chose on their dev questions reach" if run.course.stages else which
    low = table.row(WORST).cells["best"]
    lowest = f"the lowest is {low.of} with {number(low.mean)}"
    return [f"{start} {several} {reached} in the mean of silos; {lowest}."]


def _own_training(table: ScoreTable) -> list[str]:
    test = table.own
    if test is None or not (test.difference or test.low or test.high):
        return []  # the personal model is the received one where nothing is mixed
    return [
        f"The silos' own (personal) models differ from the shared weights that they received at the end by "
        f"{_evidence(test, table.metric)}."
    ]


def _against(others: Sequence[Standing], metric: str) -> list[str]:
    this = next((standing for standing in others if standing.is_this), None)
    reference = next((standing for standing in others if standing.is_reference), None)
    if this is None or reference is None or this.tests is None:
        return []
    sentences = [f"Against {reference.label}, the chosen models differ by {_evidence(this.tests.bootstrap, metric)}."]
    ranked = sorted((-standing.macro.mean, standing.label) for standing in others if standing.macro)
    if len(ranked) > 2:
        best = ranked[0][1]
        sentences.append(f"Of the {len(ranked)} runs compared, {best} has the highest mean of silos.")
    return sentences


def _evidence(test: Comparison, metric: str) -> str:
    return f"{signed(test.difference)} {metric} per question ({interval(test)}, {chance(test.p)}): {verdict(test)}"


def chance(p: float) -> str:
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def verdict(test: Comparison) -> str:
    if test.low > 0:
        return "a gain"
    return "a loss" if test.high < 0 else "no clear difference"


def _cost(run: Run) -> str:
    result, n = run.result, len(run.result["refused"])
    refused = f"{plural(n, 'answer')} {'was' if n == 1 else 'were'} refused" if n else "no answer was refused"
    took = f" in {duration(result['seconds'])}" if run.records else ""
    return f"{size(result['bytes_up'])} left the silos and {size(result['bytes_down'])} came to them{took}; {refused}."


def interval(estimate: Estimate | Comparison) -> str:
    """`0.1 to 0.2`; nothing where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{number(estimate.low)} to {number(estimate.high)}"


# -- what it cost ------------------------------------------------------------------------------------------------


def costs(run: Run) -> Facts:
    facts = [
        ("Rounds", [count(len(run.records))]),
        ("Time of all rounds", [duration(run.result["seconds"])]),
        ("Bytes from the silos", _bytes(run, "bytes_up")),
        ("Bytes to the silos", _bytes(run, "bytes_down")),
    ]
    if run.records:
        work = [accepted for record in run.records for accepted in record.accepted.values()]
        facts.append(("Training steps", [count(sum(accepted.n_steps for accepted in work))]))
        facts.append(("Examples seen", [f"{count(sum(accepted.n_seen for accepted in work))}, repeats counted"]))
    return facts


def _bytes(run: Run, key: str) -> list[str]:
    """All bytes, and those of the last weights and scores, which belong to no round."""
    total = run.result[key]
    after = total - sum(getattr(record, key) for record in run.records)
    return [f"{size(total)}, {size(after)} of it after the last round" if run.records else size(total)]


# -- the course --------------------------------------------------------------------------------------------------


def course_facts(course: Course) -> Facts:
    every = course.evaluation.every
    scored = "never" if not every else f"on dev every {plural(every, 'round')}, on test at the end"
    return [
        ("Alliance", [course.name]),
        ("Method", [_method(course)]),
        ("Model", [course.model]),
        ("Seed", [str(course.seed)]),
        ("Rounds", [count(course.rounds)]),
        ("Scored", [scored if every != 1 else "on dev every round, on test at the end"]),
    ]


def stage_facts(course: Course, stage: Stage) -> Facts:
    mixing = stage.mixing
    facts: list[tuple[str, list[str]]] = [
        ("Parameters", sharing_lines(stage)),
        ("Objective", [" + ".join(_term(term.name, term.weight) for term in stage.objective)]),
        ("Weights of silos", [_component(mixing.weigher, WEIGHERS)]),
        ("Combined by", [_component(mixing.combiner, COMBINERS)]),
        ("Server optimiser", [_component(mixing.optimiser, SERVER_OPTIMISERS)]),
        ("Taking part", [_participation(stage.participation)]),
        ("Local work", [settings(to_table(stage.local))]),
    ]
    own = [f"{plan.name}: {settings(plan.local)}" for plan in course.silos if plan.local]
    facts += [("Silos that work otherwise", own)] if own else []
    if stage.assign:
        tasks = f"{', '.join(stage.assign.tasks)}: one a round, the same for all silos, on texts without labels"
        facts.insert(2, ("Task", [tasks]))
    if stage.replica:
        facts.append(("Second model", [f"stays in the silo, proximal weight {stage.replica.proximal_weight:g}"]))
    facts += [("Channels", [f"{name}: {CHANNELS[name].summary}" for name in stage.channels])] if stage.channels else []
    return facts


def sharing_lines(stage: Stage) -> list[str]:
    """The rule's lines in words, up to the one that matches all the rest."""
    lines: list[str] = []
    for selector, mode in stage.sharing:
        what = ("all" if not lines else "all others") if selector == "*" else selector
        lines.append(f"{what}: {mode} ({MODES[mode]})")
        if selector == "*":
            break
    return lines


def _term(name: str, weight: float) -> str:
    return name if weight == 1 else f"{weight:g} {TIMES} {name}"


def _component(choice: Choice, known: Mapping[str, type]) -> str:
    options = f" ({settings(choice.options)})" if choice.options else ""
    words = (getdoc(known[choice.name]) or "").partition("\n")[0].rstrip(".").replace("`", "")
    return f"{choice.name}{options}: {words[:1].lower()}{words[1:]}" if words else f"{choice.name}{options}"


def _participation(participation: Participation) -> str:
    asked = "all silos" if participation.sample is None else f"{plural(participation.sample, 'silo')} drawn each round"
    quorum = plural(participation.quorum, "update")
    return f"{asked}; a round counts with {quorum}; {participation.timeout_s:g} s to answer"


def settings(table: Mapping[str, object]) -> str:
    return ", ".join(f"{key} = {_setting(value)}" for key, value in table.items())


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
