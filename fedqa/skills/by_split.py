# SPDX-License-Identifier: Apache-2.0
"""What the features of all skills have in common: what is trained on and scored, by split."""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from fedqa.data.records import Split


class Identified(Protocol):
    """A question or text, by its id."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)


class BySplit(Generic[T]):
    """Features over one mapping of splits; a skill adds how an epoch is drawn from them."""

    splits: Mapping[Split, tuple[T, ...]]

    @property
    def n_train(self) -> int:
        return len(self.splits["train"])

    def n_batches(self, size: int) -> int:
        return -(-self.n_train // size)

    def questions(self, split: Split) -> tuple[str, ...]:
        """The ids of what the skill's `score` gives values for, in its order."""
        return tuple(one.id for one in self.splits[split])
