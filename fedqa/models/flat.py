# SPDX-License-Identifier: Apache-2.0
"""A model whose parameters are views into one contiguous buffer, ordered by a layout.

Loading received weights is one copy, an update one subtraction, and one module serves every silo in turn.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from fedqa.models.layout import Entry, Layout
from fedqa.models.tagged import TaggedModel


class FlatModel:
    """`buffer` is `[private | shared | synced]`; the module's parameters point into it."""

    def __init__(self, model: TaggedModel, layout: Layout, changed_before: Collection[str] = ()) -> None:
        self.model = model
        self._parameters = dict(model.module.named_parameters())
        self._as_loaded: dict[str, Tensor] = {}  # of every parameter that a layout has ever made changeable
        self.bind(layout, changed_before)

    @property
    def module(self) -> nn.Module:
        return self.model.module

    def bind(self, layout: Layout, changed_before: Collection[str] = ()) -> None:
        """Lay the parameters out for another stage; all values return to what was loaded.

        `changed_before` names what earlier stages could change: frozen now, it still differs from silo to silo.
        """
        self.layout = layout
        self._settled = [entry.name for entry in layout.frozen if entry.name in changed_before]
        entries = layout.changeable
        for name in (*(entry.name for entry in entries), *self._settled):
            self._as_loaded.setdefault(name, self._parameters[name].data.float())
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
        for entry in self.layout.frozen:
            if entry.name in self._as_loaded:  # it may point into the buffer of another stage
                self._parameters[entry.name].data = self._as_loaded[entry.name].clone()

    def _slice(self) -> None:
        first, last = self.layout.n_private, self.layout.n_private + self.layout.n_shared
        self.private, self.shared = self.buffer[:first], self.buffer[first:last]
        self.trainable, self.received = self.buffer[:last], self.buffer[first:]

    @property
    def loaded_received(self) -> Tensor:
        """The received part as the model was loaded: what a course starts from."""
        return self.loaded[self.layout.n_private :]

    def trained_names(self) -> list[str]:
        """In the model's own order: the norm of a gradient then has the same bits, whatever is shared."""
        return [name for name, parameter in self._parameters.items() if parameter.requires_grad]

    def trained_parameters(self) -> list[nn.Parameter]:
        return [self._parameters[name] for name in self.trained_names()]

    def trained_views(self, private: Tensor, shared: Tensor) -> list[Tensor]:
        """Vectors like `private` and `shared`, cut and shaped as the trained parameters."""
        views = {**_cut(private, self.layout.private), **_cut(shared, self.layout.shared)}
        return [views[name] for name in self._parameters if name in views]

    def reset(self) -> None:
        """All that is not received goes back to what was loaded, so nothing of the silo before is left."""
        self.private.copy_(self.loaded[: self.layout.n_private])
        for name in self._settled:
            self._parameters[name].data.copy_(self._as_loaded[name])

    def state(self) -> dict[str, Tensor]:
        """Views, by name, of all that may differ from the model as loaded."""
        names = [e.name for e in self.layout.changeable] + self._settled
        return {name: self._parameters[name].data for name in names}

    def load(self, values: Mapping[str, Tensor]) -> None:
        """Overwrite parameters by name; only those of `state`, the others belong to every silo alike."""
        state = self.state()
        for name, value in values.items():
            state[name].copy_(value.view(state[name].shape))


def _cut(vector: Tensor, entries: Sequence[Entry]) -> dict[str, Tensor]:
    pieces = torch.split(vector, [entry.size for entry in entries]) if entries else ()
    return {entry.name: piece.view(entry.shape) for entry, piece in zip(entries, pieces, strict=True)}
