# SPDX-License-Identifier: Apache-2.0
"""SubjQA's reviews, a domain at a time, and documents that are short enough to be read at once."""

from dataclasses import replace

from benchmarks.study.public_data import public_data
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Document

NOT_FOUND = "ANSWERNOTFOUND"  # what SubjQA writes for no answer, and at the end of every review


def subjqa(domain: str) -> Collection:
    columns = {"answer": "human_ans_spans", "context": "review", "no_answer": NOT_FOUND}
    return read_format("csv", public_data("subjqa") / domain, columns)


def short_documents(whole: Collection, longest: int) -> dict[str, Document]:
    """Documents of so many characters at most, by id, without the mark at the end of a review."""
    return {document.id: _plain(document) for document in whole.documents if len(document.text) <= longest}


def _plain(document: Document) -> Document:
    """What stands before the mark keeps its place."""
    return replace(document, text=document.text.removesuffix(NOT_FOUND).rstrip())
