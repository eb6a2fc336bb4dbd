# SPDX-License-Identifier: Apache-2.0
"""A model whose parameters are views into one contiguous buffer, ordered by a layout.

Loading received weights is one copy, an update one subtraction, and one module serves every silo in turn.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from fedqa.models.layout import Entry, Layout
from fedqa.models.tagged import TaggedModel


class FlatModel:
    """`buffer` is `[private | shared | synced]`; the module's parameters point into it."""

    def __init__(self, model: TaggedModel, layout: Layout) -> None:
        self.model = model
        self._parameters = dict(model.module.named_parameters())
        self._as_loaded: dict[str, Tensor] = {}  # of every parameter that a layout has ever made changeable
        self.bind(layout)

    @property
    def module(self) -> nn.Module:
        return self.model.module

    def bind(self, layout: Layout) -> None:
        """Lay the parameters out for another stage; all values return to what was loaded."""
        self.layout = layout
        entries = layout.changeable
        for entry in entries:
            self._as_loaded.setdefault(entry.name, self._parameters[entry.name].data.float())
        self.loaded = self._flatten(entries)
        self.buffer = self.loaded.clone()
        self._point(entries)
        self._slice()
        self._freeze()

    def _flatten(self, entries: Iterable[Entry]) -> Tensor:
        values = [self._as_loaded[entry.name].reshape(-1) for entry in entries]
        return torch.cat(values) if values else torch.zeros(0)

    def _point(self, entries: Iterable[Entry]) -> None:
        start = 0
        for entry in entries:
            stop = start + entry.size
            self._parameters[entry.name].data = self.buffer[start:stop].view(entry.shape)
            self._as_loaded[entry.name] = self.loaded[start:stop].view(entry.shape)
            start = stop

    def _freeze(self) -> None:
        trained = {entry.name for entry in (*self.layout.private, *self.layout.shared)}
        for name, parameter in self._parameters.items():
            parameter.requires_grad_(name in trained)
            parameter.grad = None
        # A parameter trained in an earlier stage and frozen now still differs from silo to silo.
        self._thawed_before = [e.name for e in self.layout.frozen if e.name in self._as_loaded]
        for name in self._thawed_before:
            self._parameters[name].data = self._as_loaded[name].clone()

    def _slice(self) -> None:
        first, last = self.layout.n_private, self.layout.n_private + self.layout.n_shared
        self.private, self.shared = self.buffer[:first], self.buffer[first:last]
        self.trainable, self.received = self.buffer[:last], self.buffer[first:]

    @property
    def loaded_received(self) -> Tensor:
        """The received part as the model was loaded: what a course starts from."""
        return self.loaded[self.layout.n_private :]

    def trained_parameters(self) -> list[nn.Parameter]:
        return [self._parameters[e.name] for e in (*self.layout.private, *self.layout.shared)]

    def trained_views(self, vector: Tensor) -> list[Tensor]:
        """A vector like `trainable`, cut and shaped as the trained parameters."""
        parameters = self.trained_parameters()
        pieces = torch.split(vector, [p.numel() for p in parameters])
        return [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]

    def reset(self) -> None:
        """Back to the values that were loaded, so nothing of the silo before is left."""
        self.buffer.copy_(self.loaded)
        for name in self._thawed_before:
            self._parameters[name].data.copy_(self._as_loaded[name])

    def state(self) -> dict[str, Tensor]:
        """Views, by name, of all that may differ from the model as loaded."""
        names = [e.name for e in self.layout.changeable] + self._thawed_before
        return {name: self._parameters[name].data for name in names}

    def load(self, values: Mapping[str, Tensor]) -> None:
        """Overwrite parameters by name."""
        for name, value in values.items():
            self._parameters[name].data.copy_(value.view(self._parameters[name].shape))
