# SPDX-License-Identifier: Apache-2.0
"""Numbers and codes as people read them, the same wherever they are shown."""

from collections.abc import Sequence

from fedqa.federation.refusals import REFUSALS

THIN = "\u202f"  # a narrow space that does not break: 12 345
MINUS, TIMES, DASH = "\u2212", "\u00d7", "\u2013"

METRICS = {  # short name, and what it says
    "map": ("MAP", "mean average precision: 1 when all right passages are ranked first"),
    "mrr": ("MRR", "mean reciprocal rank: one over the rank of the first right passage"),
    "p1": ("P@1", "share of questions whose first passage is right"),
    "mrr10": ("MRR@10", "one over the rank of the first right sentence, zero beyond the tenth"),
    "r1": ("R@1", "share of the right sentences that are ranked first"),
    "r20": ("R@20", "share of the right sentences among the first 20"),
    "r100": ("R@100", "share of the right sentences among the first 100"),
    "p_mrr10": ("passage MRR@10", "one over the rank of the first right passage, zero beyond the tenth"),
    "p_r1": ("passage R@1", "share of the right passages that are ranked first"),
    "p_r20": ("passage R@20", "share of the right passages among the first 20"),
    "p_r100": ("passage R@100", "share of the right passages among the first 100"),
    "em": ("EM", "exact match: share of answers that are right to the word"),
    "ex": ("EX", "execution: share of queries that find what the right query finds"),
    "f1": ("F1", "overlap of the answer's words with the right answer's"),
    "no_answer": ("answer or none", "share of questions where it was right to give an answer, or none"),
    "refused": ("refused", "share of questions without an answer given"),
}

SCREENED = {  # why the coordinator did not use what a silo sent
    "absurd_norm": "the update is far longer than the others'",
    "duplicate": "a second answer to the same request",
    "extra_tensor": "it holds a tensor that the channel does not carry",
    "malformed": "the message cannot be read",
    "not_asked": "the silo was not asked in this round",
    "not_finite": "the update holds values that are not finite numbers",
    "refused": "the silo refused, with a code that is not known here",
    "replayed": "the update is the one the silo sent before",
    "too_large": "the message is larger than the course allows",
    "wrong_count": "the numbers of examples or steps cannot be true",
    "wrong_course": "the answer belongs to another course",
    "wrong_dtype": "the values are not of the kind agreed on",
    "wrong_kind": "the answer is not of the kind asked for",
    "wrong_layout": "the answer is about other parameters",
    "wrong_length": "the number of values is not the one agreed on",
    "wrong_loss": "the losses cannot be true",
    "wrong_metrics": "the scores cannot be true",
    "wrong_round": "the answer belongs to another round",
    "wrong_sender": "the answer bears another silo's name",
    "wrong_stage": "the answer belongs to another stage",
}


def number(value: float) -> str:
    """Three decimals; zero has no sign."""
    text = f"{abs(value):.3f}"
    return MINUS + text if value < 0 and float(text) else text


def signed(value: float) -> str:
    text = number(value)
    return text if text.startswith(MINUS) or not float(text) else f"+{text}"


def count(value: int) -> str:
    return f"{value:,}".replace(",", THIN)


def percent(share: float) -> str:
    return f"{100 * share:.1f}{THIN}%"


def size(n_bytes: float) -> str:
    """Bytes with three or four digits, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.95:
            return f"{n_bytes:.0f}{THIN}{unit}" if unit == "B" else f"{n_bytes:.1f}{THIN}{unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f}{THIN}TB"


def duration(seconds: float) -> str:
    if seconds < 59.95:
        return f"{seconds:.1f}{THIN}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{THIN}h {minutes}{THIN}min" if hours else f"{minutes}{THIN}min {rest}{THIN}s"


def p_value(p: float) -> str:
    return f"{p:.3f}" if p >= 0.0005 else "<0.001"


def plural(n: int, noun: str) -> str:
    return f"{count(n)} {noun}" if n == 1 else f"{count(n)} {noun}s"


def listed(names: Sequence[str], most: int = 8) -> str:
    """`a, b and c`; of a long list, the first few and how many more there are."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def metric_name(metric: str) -> str:
    return METRICS[metric][0] if metric in METRICS else metric


def why_refused(code: str) -> str:
    return REFUSALS.get(code) or SCREENED.get(code) or "a reason that has no words here"
