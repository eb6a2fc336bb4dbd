# SPDX-License-Identifier: Apache-2.0
"""What a tokenizer makes of a language: how much of it is unknown, and into how small pieces the rest is cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from benchmarks.study.page import Cell, Grid, Note, Row, Section
from fedqa.data.records import Collection
from fedqa.evaluation.words import THIN, count, percent

KNOWN = (
    "Of all paragraphs and questions of XQuAD, which are the same in every language. An unknown token stands for words "
    "that the embedded model cannot tell apart. Few characters a token: words are spelled out, nearly letter by "
    "letter, which the model can read but has not learnt to understand, and a text fills more windows."
)
DEALT = (
    "The silos have the languages of which least is unknown. Each article is in one silo alone: no silo learns from a "
    "translation of what another is asked about."
)


@dataclass(frozen=True)
class Coverage:
    """Counted over a language's texts."""

    tokens: int
    unknown: int
    characters: int

    @property
    def share(self) -> float:
        return self.unknown / self.tokens if self.tokens else 0.0


def coverage_of(collection: Collection, tokenizer: PreTrainedTokenizerBase) -> Coverage:
    """Of a collection's documents and questions."""
    texts = [document.text for document in collection.documents] + [e.question for e in collection.examples]
    ids = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    unknown = sum(one.count(tokenizer.unk_token_id) for one in ids)
    return Coverage(sum(map(len, ids)), unknown, sum(map(len, texts)))


def best_covered(found: Mapping[str, Coverage], count: int) -> list[str]:
    """The languages with the smallest share of unknown tokens, the smallest first."""
    return sorted(found, key=lambda language: found[language].share)[:count]


def coverage_sections(found: Mapping[str, Coverage], silos: Sequence[str]) -> list[Section]:
    if not found:
        return []
    names = ("Tokens", "Unknown", "Share unknown", "Characters a token", "A silo")
    rows = [_row(language, found[language], language in silos) for language in best_covered(found, len(found))]
    grid = Grid("languages: what the tokenizer knows", [Cell(""), *map(Cell, names)], rows)
    return [Section("tokenizer", "languages: what the tokenizer knows", [grid, Note(KNOWN), Note(DEALT)])]


def _row(language: str, of: Coverage, is_silo: bool) -> Row:
    texts = (count(of.tokens), count(of.unknown), _share(of.share), f"{of.characters / max(of.tokens, 1):.2f}")
    return Row(Cell(language), [*map(Cell, texts), Cell("yes" if is_silo else "no")], strong=is_silo)


def _share(share: float) -> str:
    """With three decimals: most shares are far below a per cent."""
    return percent(share) if share >= 0.001 or not share else f"{100 * share:.3f}{THIN}%"
