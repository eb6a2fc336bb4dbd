# SPDX-License-Identifier: Apache-2.0
"""The channel `probe` (ATC): silos make a set of texts that is nobody's, from sums alone.

Each text of the set is a mixture: every silo takes texts of its own, its encoder makes states of them, and the weighted
sum over silos is the text's states; one silo, drawn from the seed, has the weight `primary`, the others share the rest.

All silos know the sums, and of a single text with a weight of a half every word can be read off them, in its place. So
a silo mixes many texts, each with its places in another order, and adds noise. Texts, orders and noise are drawn from
the silo's secret.

Steps, all through the coordinator. `key`: each silo sends a public key. `mix`: each gets all keys and sends its part,
masked (`masking.py`), so that the coordinator can read the sum and no part. `spell`: each gets the sums, and says which
words its own head sees in them. `deliver`: each gets the words that most silos saw.

A silo that is gone after `key` leaves masks that do not cancel. Those left are then asked again, and answer with other
texts: a sum with it and a sum without it, of the same texts, would give its part away. For the same reason no silo
answers for a set of fewer than `least`, or more often than the course says.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedqa.errors import BoundaryError, ConfigError
from fedqa.federation import x25519
from fedqa.federation.masking import LIMIT, Numbers, masked, summed
from fedqa.federation.messages import Exchange
from fedqa.federation.sides import CoordinatorSide, SiloSide, Tensors
from fedqa.models.contrast import pair_in
from fedqa.models.encoding import Tokens
from fedqa.models.text_pair import TextPair
from fedqa.seeds import generator
from fedqa.skills.silo_texts import Texts

MAX_ITEMS, MAX_LENGTH, MAX_WIDTH = 4096, 512, 4096
KEY = x25519.SIZE
STATES, TOKENS = "probe/states", "probe/tokens"  # float32 [items, length, width], int64 [items, length]
_KEPT = "probe_key"
_AT_ONCE = 16  # texts whose words are read together


@dataclass(frozen=True)
class ProbeOptions:
    """How the probe set is made; part of the course a silo approves."""

    items: int = 64  # texts in the set
    length: int = 32  # tokens of each
    primary: float = 0.5  # share of one silo in a text; the others have the rest, in equal parts
    texts: int = 16  # that a silo mixes in its part of one text
    shuffled: bool = True  # each with its places in another order
    noise: float = 0.35  # standard deviation in the sum, as a share of the states' own
    least: int = 3  # silos in a sum: of two, either would know the other's part
    attempts: int = 3  # times a silo answers, if others drop out

    def __post_init__(self) -> None:
        bounds = (("items", 1, MAX_ITEMS), ("length", 4, MAX_LENGTH), ("texts", 1, 1024), ("attempts", 1, 100))
        for key, low, high in bounds:
            if not low <= getattr(self, key) <= high:
                raise ConfigError(f"probe: {key} must be from {low} to {high}, got {getattr(self, key)}")
        if not 0 < self.primary < 1:
            raise ConfigError(f"probe: primary must be a share between 0 and 1, got {self.primary}")
        if not 0 <= self.noise < float("inf"):
            raise ConfigError(f"probe: noise must be a number from 0, got {self.noise}")
        if self.least < 2:
            raise ConfigError(f"probe: least must be at least 2 silos, got {self.least}")

    @property
    def guarded(self) -> bool:
        """Whether texts are mixed, shuffled and blurred enough not to be read off the sums word by word."""
        return self.texts >= 8 and self.shuffled and self.noise >= 0.3


def shares(seed: int, round_number: int, items: int, n: int, primary: float) -> npt.NDArray[np.float64]:
    """How much of each item is which silo's, [items, silos]; drawn from the seed, so everybody can check it."""
    chosen = generator(seed, "probe", round_number, n).integers(n, size=items)
    found = np.full((items, n), (1 - primary) / max(1, n - 1))
    found[np.arange(items), chosen] = primary if n > 1 else 1.0
    return found


# -- the silo's half ---------------------------------------------------------------------------------------------


def answer(silo: SiloSide, request: Exchange) -> Tensors:
    steps = {"key": _key, "mix": _mix, "spell": _spell, "deliver": _deliver}
    if request.step not in steps:
        raise BoundaryError("not_in_course")
    if not silo.texts.texts:
        raise BoundaryError("no_examples")
    with torch.inference_mode():
        return steps[request.step](silo, request)


def _key(silo: SiloSide, request: Exchange) -> Tensors:
    """A key for this exchange alone. It is on disk, for the next step may be another process's, until the last step."""
    private = x25519.private_key()
    silo.keep(_KEPT, request.round, {"private": _as_tensor(private)})
    return {"key": _as_tensor(x25519.public_key(private))}


def _mix(silo: SiloSide, request: Exchange) -> Tensors:
    options, publics = silo.options(request), _publics(silo, request)
    private = silo.kept(_KEPT, request.round)
    if not private or len(publics) < options.least:
        raise BoundaryError("bad_request")
    own = _bytes(private["private"])
    if publics.get(silo.name) != x25519.public_key(own):
        raise BoundaryError("bad_request")
    asked = replace(request, tensors={"present": request.tensors["present"]})
    if silo.spend(asked, 1) > options.attempts:
        raise BoundaryError("over_budget")
    among = sorted(publics)
    share = shares(silo.seed, request.round, options.items, len(among), options.primary)[:, among.index(silo.name)]
    states = _states(silo, request, among, share[:, None, None])
    if not np.isfinite(states).all():
        raise BoundaryError("diverged")
    context = "\x1f".join((request.course, str(request.round), *among)).encode()
    try:
        part = masked(states, silo.name, own, publics, context)
    except ValueError:
        raise BoundaryError("bad_request") from None
    return {"masked": torch.from_numpy(part.view(np.int32))}


def _publics(silo: SiloSide, request: Exchange) -> dict[str, bytes]:
    """The public keys of the silos that are there, by name."""
    try:
        present, keys = request.tensors["present"].bool(), request.tensors["keys"]
    except KeyError:
        raise BoundaryError("bad_request") from None
    if present.shape != (len(silo.silos),) or keys.shape != (int(present.sum()), KEY) or keys.dtype != torch.uint8:
        raise BoundaryError("bad_request")
    names = [name for name, there in zip(sorted(silo.silos), present.tolist(), strict=True) if there]
    return {name: _bytes(key) for name, key in zip(names, keys, strict=True)}


def _states(silo: SiloSide, request: Exchange, among: Sequence[str], share: Numbers) -> Numbers:
    """The silo's part of the sum, [items, length, width]: another for other company."""
    options, pair = silo.options(request), _pair(silo, request)
    rng = generator(silo.secret(), "probe", request.round, *among)
    texts = silo.texts.cut(options.length)
    rows = texts.drawn(options.items * options.texts, rng)
    groups = (rows[start : start + options.texts] for start in range(0, len(rows), options.texts))
    return part((encoded(pair, texts, group, options.length) for group in groups), share, len(among), options, rng)


def part(
    states: Iterable[Tensor], share: Numbers, silos: int, options: ProbeOptions, rng: np.random.Generator
) -> Numbers:
    """A silo's part of a sum over so many silos, [items, length, width], of the states of each item's texts."""
    parts, deviations = [], []
    for texts in states:
        parts.append(mixed(texts, options.shuffled, rng).double().numpy())
        deviations.append(float(texts.std()))
    made = np.stack(parts) * share
    # All silos but one together make the whole noise: the one that would take its own away finds enough left.
    noise = options.noise * float(np.mean(deviations)) / math.sqrt(silos - 1)
    return made + rng.normal(0.0, noise, made.shape)


def encoded(pair: TextPair, texts: Texts, rows: Sequence[Tokens], length: int) -> Tensor:
    """[rows, length, width], zeros behind the end of a text."""
    ids, mask = texts.padded(rows)
    states = pair.encode(ids, mask, again=False) * mask.unsqueeze(-1)
    return torch.nn.functional.pad(states, (0, 0, 0, length - states.shape[1]))


def mixed(states: Tensor, shuffled: bool, rng: np.random.Generator) -> Tensor:
    """The mean over texts of their states, [texts, length, width] -> [length, width]."""
    if shuffled:
        orders = rng.permuted(np.tile(np.arange(states.shape[1]), (len(states), 1)), axis=1)
        states = states.take_along_dim(torch.from_numpy(orders).unsqueeze(-1), dim=1)
    return states.mean(dim=0)


def _spell(silo: SiloSide, request: Exchange) -> Tensors:
    options, states = silo.options(request), request.tensors.get("states")
    if states is None or states.dtype != torch.float32 or states.shape[:2] != (options.items, options.length):
        raise BoundaryError("bad_request")
    if not bool(torch.isfinite(states).all()):
        raise BoundaryError("bad_request")
    pair = _pair(silo, request)
    words = [pair.fill(block).argmax(dim=-1) for block in torch.split(states, _AT_ONCE)]
    silo.receive_for_stage(request.round, {STATES: states})
    return {"tokens": torch.cat(words).to(torch.int32)}


def _deliver(silo: SiloSide, request: Exchange) -> Tensors:
    tokens, states = request.tensors.get("tokens"), silo.received(request.round).get(STATES)
    if tokens is None or states is None or tokens.dtype != torch.int32 or tokens.shape != states.shape[:2]:
        raise BoundaryError("bad_request")
    silo.receive_for_stage(request.round, {TOKENS: tokens.long()})
    silo.forget(_KEPT)
    return {}


def _pair(silo: SiloSide, request: Exchange) -> TextPair:
    return pair_in(silo.own_model(request.round))


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


# -- the coordinator's half --------------------------------------------------------------------------------------


def relay(coordinator: CoordinatorSide) -> None:
    """Make the set with all silos that stay to the end; with fewer than the course asks for, there is none."""
    states = _summed(coordinator)
    if states is None:
        return
    seen = coordinator.ask("spell", {name: {"states": states} for name in coordinator.silos})
    fitting = [tensors["tokens"] for name, tensors in seen.items() if _fits(coordinator, name, tensors, states)]
    if fitting:
        coordinator.ask("deliver", {name: {"tokens": voted(fitting)} for name in seen})


def _summed(coordinator: CoordinatorSide) -> Tensor | None:
    options = coordinator.options
    keys = coordinator.ask("key", {name: {} for name in coordinator.silos})
    there = {name: tensors["key"] for name, tensors in keys.items() if _whole_key(coordinator, name, tensors)}
    for _ in range(options.attempts):
        if len(there) < options.least:
            return None
        parts = coordinator.ask("mix", dict.fromkeys(there, _invitation(coordinator.silos, there)))
        good = _alike(coordinator, parts)
        if set(good) == set(there):
            states = summed([part.numpy().view(np.uint32) for part in good.values()])
            # A silo that lied about its part left masks in the sum. Who it was, nobody can tell.
            return torch.from_numpy(states).float() if np.abs(states).max() <= LIMIT else None
        there = {name: there[name] for name in good}
    return None


def _invitation(silos: Sequence[str], there: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Who takes part, by place among all names in order, and their keys in that order."""
    present = torch.tensor([name in there for name in sorted(silos)], dtype=torch.uint8)
    return {"present": present, "keys": torch.stack([there[name] for name in sorted(there)])}


def _whole_key(coordinator: CoordinatorSide, silo: str, tensors: Tensors) -> bool:
    whole = set(tensors) == {"key"} and tensors["key"].shape == (KEY,)
    if not whole:
        coordinator.refuse(silo, "malformed")
    return whole


def _alike(coordinator: CoordinatorSide, parts: Mapping[str, Tensors]) -> dict[str, Tensor]:
    """The parts that can be added up; of several widths, most silos have the right one."""
    options = coordinator.options
    found = {name: tensors.get("masked", torch.zeros(0)) for name, tensors in parts.items()}
    widths = Counter(part.shape[-1] for part in found.values() if part.dim() == 3)
    shape = (options.items, options.length, widths.most_common(1)[0][0] if widths else 0)
    for name, part in found.items():
        if part.shape != shape:
            coordinator.refuse(name, "malformed")
    return {name: part for name, part in found.items() if part.shape == shape}


def _fits(coordinator: CoordinatorSide, silo: str, tensors: Tensors, states: Tensor) -> bool:
    tokens = tensors.get("tokens")
    fits = tokens is not None and tokens.shape == states.shape[:2] and bool((tokens >= 0).all())
    if not fits:
        coordinator.refuse(silo, "malformed")
    return fits


def voted(seen: Sequence[Tensor]) -> Tensor:
    """The word that most silos saw at each place; of equally many, the first in the vocabulary."""
    stacked = torch.stack(list(seen))
    return stacked.mode(dim=0).values.to(torch.int32)
