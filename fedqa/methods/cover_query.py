# SPDX-License-Identifier: Apache-2.0
"""CoverQuery: central training on questions that each silo has hidden among invented ones.

The classical way to privacy that federated methods are measured against; the papers that compare with it leave its
details open. Ours: three covers a question, from unrelated topics, with the question's evidence.
"""

from fedqa.federation.course import Stage
from fedqa.methods.method import Common, Method, Plan


def _cover_query(plan: Plan, options: Common) -> tuple[Stage, ...]:
    return (Stage(plan.rounds, options.rule(), local=plan.local, channels=("covered_examples",)),)


COVER_QUERY = Method(
    "cover_query", "all documents, and questions hidden among invented ones, pooled", Common, _cover_query
)
