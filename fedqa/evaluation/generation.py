# SPDX-License-Identifier: Apache-2.0
"""How good written texts are, example by example: ROUGE-1, 2 and L, BLEU-4, METEOR, and exact match.

Of several references the best one counts; BLEU takes them together. Texts are compared in lower case. For BLEU and
METEOR a word is a run of letters and digits or one other character, so that the spaces around punctuation, which
differ from source to source, do not count. BLEU of a single text is smoothed, or it would mostly be zero: where no run
of some length matches, half a match is counted, for the next such length a quarter, and so on. Over a whole set
(`corpus_bleu`) nothing is smoothed.

METEOR (Lavie and Agarwal 2007) is written here: it matches words and stems, without synonyms, which would need a
dictionary that no library comes with; and of all ways to match, the one with the fewest chunks is taken, as it is
defined, where the implementation in nltk takes the first one it finds.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedqa.evaluation.spans import exact_match

if TYPE_CHECKING:  # importing them takes two seconds, which only whoever generates should pay
    from nltk.stem.porter import PorterStemmer
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

ROUGE = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}  # by the library's name
METRICS = (*ROUGE, "bleu_4", "meteor", "em")

_WAYS = 64  # to match repeated words that are followed at once
_NOWHERE = -2  # no word stands right behind it
_WORD = re.compile(r"\w+|[^\w\s]")


def generation_scores(written: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    """Every metric for each text, in the order of `references`; both are by the id of the example."""
    _check_ids(written, references)
    found = [text_scores(written[id], accepted) for id, accepted in references.items()]
    return {metric: np.array([one[metric] for one in found]) for metric in METRICS}


def text_scores(text: str, references: Sequence[str]) -> dict[str, float]:
    """Every metric of one text, from 0 to 1."""
    return {
        **rouge(text, references),
        "bleu_4": bleu(text, references),
        "meteor": meteor(text, references),
        "em": exact_match(text, references),
    }


def rouge(text: str, references: Sequence[str]) -> dict[str, float]:
    """F-scores of runs of one and two words and of the longest common sequence; words are stemmed (Porter)."""
    found = _rouge_scorer().score_multi(list(references), text)
    return {name: float(found[theirs].fmeasure) for name, theirs in ROUGE.items()}


def bleu(text: str, references: Sequence[str]) -> float:
    """BLEU-4 of one text, smoothed; runs longer than the text do not count."""
    return float(_bleu(single=True).sentence_score(_spaced(text), [_spaced(one) for one in references]).score) / 100


def corpus_bleu(written: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> float:
    """BLEU-4 of a whole set, both by the id of the example: counts are summed before they are compared."""
    _check_ids(written, references)
    most = max(map(len, references.values()), default=0)
    streams = [
        [_spaced(accepted[k]) if k < len(accepted) else None for accepted in references.values()] for k in range(most)
    ]
    if not streams:
        return 0.0
    texts = [_spaced(written[id]) for id in references]
    return float(_bleu(single=False).corpus_score(texts, streams).score) / 100  # type: ignore[arg-type] # None: no more


def meteor(text: str, references: Sequence[str]) -> float:
    """A mean of precision and recall that weighs recall nine times, less up to a half where the order differs."""
    return max(_meteor(_stems(text), _stems(one)) for one in references)


def _meteor(written: Sequence[str], reference: Sequence[str]) -> float:
    matches = (Counter(written) & Counter(reference)).total()
    if not matches:
        return 0.0
    precision, recall = matches / len(written), matches / len(reference)
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    return mean * (1 - 0.5 * (fewest_chunks(written, reference) / matches) ** 3)


def fewest_chunks(written: Sequence[str], reference: Sequence[str]) -> int:
    """Into how few runs that stand alike in both texts all words fall that can be matched.

    Words that stand several times can be matched in many ways, of which the best so far are followed.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(reference):
        places[word].append(place)
    spare, seen = Counter(written) - Counter(reference), Counter[str]()
    ways = {_Way(0, _NOWHERE): 0}
    for word in written:
        longer: dict[_Way, int] = {}
        for way, chunks in ways.items():
            free = [place for place in places[word] if not way.used >> place & 1]
            steps = [(_Way(way.used | 1 << place, place), chunks + (place != way.last + 1)) for place in free]
            if seen[word] - (len(places[word]) - len(free)) < spare[word]:  # it may be left without a match
                steps.append((_Way(way.used, _NOWHERE), chunks))
            for step, count in steps:
                longer[step] = min(count, longer.get(step, count))
        seen[word] += 1
        ways = dict(sorted(longer.items(), key=lambda item: (item[1], item[0]))[:_WAYS])
    return min(ways.values())


class _Way(NamedTuple):
    """A way to match the words so far: the reference's words that are used, as bits, and the one matched last."""

    used: int
    last: int


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _stems(text: str) -> list[str]:
    stemmer = _stemmer()
    return [str(stemmer.stem(word)) for word in words(text)]


@cache
def _stemmer() -> "PorterStemmer":
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@cache
def _rouge_scorer() -> "RougeScorer":
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(ROUGE.values()), use_stemmer=True)


@cache
def _bleu(*, single: bool) -> "BLEU":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="none", smooth_method="exp" if single else "none", effective_order=single)


def _spaced(text: str) -> str:
    return " ".join(words(text))


def _check_ids(written: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> None:
    odd = sorted(written.keys() ^ references.keys())
    if odd:
        raise ValueError(f"texts and references are not of the same examples: {odd[0]!r} is in one of them alone")
    empty = next((id for id, accepted in references.items() if not accepted), None)
    if empty is not None:
        raise ValueError(f"the example {empty!r} has no reference; leave it out")
