# SPDX-License-Identifier: Apache-2.0
"""The file formats silos may hold their data in. A new one is a file with a `read` function and one line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, make_dataclass
from inspect import signature
from pathlib import Path
from typing import get_type_hints

from fedqa.data import (
    agnews,
    delimited,
    insuranceqa,
    jsonl,
    medquad,
    notes,
    pubmedqa,
    question_generation,
    rt_polarity,
    scitldr,
    squad,
    squad_sentences,
    stored,
    tatqa,
    text2sql,
    text2sql_pairs,
)
from fedqa.data.records import Collection
from fedqa.errors import ConfigError, unknown
from fedqa.tables import from_table


@dataclass(frozen=True)
class Format:
    """A file format. The keyword parameters of `read`, with their types and defaults, are its options."""

    name: str
    read: Callable[..., Collection]
    summary: str

    @property
    def options(self) -> dict[str, object]:
        """Name and default of each option."""
        parameters = signature(self.read).parameters.values()
        return {
            parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
        }


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("agnews", agnews.read, "AG's News: news items with their class, to classify"),
        Format("csv", delimited.read, "CSV or TSV rows of question and answer, with or without the context"),
        Format("insuranceqa", insuranceqa.read, "InsuranceQA: question, answer, label"),
        Format("jsonl", jsonl.read, "JSON lines: rows as in csv, and documents"),
        Format("medquad", medquad.read, "MedQuAD: XML files by health institute, a folder or the zip file"),
        Format("notes", notes.read, "Markdown notes: documents with Q: and A: lines"),
        Format("policyqa", squad.read, "PolicyQA: questions on privacy policies, in SQuAD's format"),
        Format("pubmedqa", pubmedqa.read, "PubMedQA: research questions and their conclusions (ori_pqal.json)"),
        Format("question_generation", question_generation.read, "squad_sentences the other way: questions to write"),
        Format("rt_polarity", rt_polarity.read, "movie-review sentences, positive or negative, to classify"),
        Format("scitldr", scitldr.read, "SciTLDR: abstracts of papers with short summaries, to write"),
        Format("squad", squad.read, "SQuAD 1.1 or 2.0 JSON, a file or a folder"),
        Format("squad_sentences", squad_sentences.read, "SQuAD's questions and answering sentences, line by line"),
        Format("store", stored.read, "a silo's own store: what its people added, asked and corrected"),
        Format("tatqa", tatqa.read, "TAT-QA: financial reports, the questions answered from their text"),
        Format("text2sql", text2sql.read, "Text-to-SQL sets with their schema: geography.json, atis.json and others"),
        Format("text2sql_pairs", text2sql_pairs.read, "JSON lines of question and SQL"),
    )
}


def read_format(name: str, path: Path, options: Mapping[str, object]) -> Collection:
    """Read a data set. Wrong names, paths and options are the configuration's fault; the rest is the data's."""
    if name not in FORMATS:
        raise ConfigError(unknown("format", name, FORMATS))
    format = FORMATS[name]
    checked = _checked(format, options)
    if not path.exists():
        raise ConfigError(
            f"there is no file or folder {str(path)!r} to read as {name} (looked for {path.absolute()}); "
            "correct the path: a relative one starts at the file that names it"
        )
    return format.read(path, **checked)


def _checked(format: Format, options: Mapping[str, object]) -> dict[str, object]:
    """Options of the right names and types: lists as tuples, as everywhere in tables."""
    hints = get_type_hints(format.read)
    record = make_dataclass(
        "Options", [(name, hints[name], field(default=value)) for name, value in format.options.items()]
    )
    return dict(vars(from_table(record, options, f"the options of the format {format.name!r}")))
