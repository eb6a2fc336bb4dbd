# SPDX-License-Identifier: Apache-2.0
"""Everything a silo might send instead of an honest update, each with the code the guard must give it."""

import gzip
import io
import json
import os
import pickle
import re
import struct
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from fedqa.evaluation.metrics import Summary
from fedqa.federation import wire
from fedqa.federation.messages import Contribution, LossSummary, Refusal, Report, Train, Update
from fedqa.seeds import generator

CANARY = Path(tempfile.gettempdir()) / f"fedqa-canary-{os.getpid()}"

Make = Callable[[Update, Update], object]  # from the honest update and the last accepted one, what is sent instead


def sent(**changes: object) -> Make:
    """The honest update with some fields changed."""
    return lambda good, last: replace(good, **changes)  # type: ignore[arg-type]


def delta(change: Callable[[Tensor], object]) -> Make:
    return lambda good, last: replace(good, delta=change(good.delta.clone()))  # type: ignore[arg-type]


def metric(value: object, name: object = "received/dev/fit") -> Make:
    return sent(metrics={name: value})


def loss(**changes: object) -> Make:
    return lambda good, last: replace(good, loss=replace(good.loss, **changes))  # type: ignore[arg-type]


def put(index: int, value: float) -> Make:
    return delta(lambda d: d.index_fill(0, torch.tensor([index]), value))


def whole(message: Any) -> bytes:
    return b"".join(wire.encode(message))


def raw(change: Callable[[bytes], object]) -> Make:
    """The honest update's bytes, changed."""
    return lambda good, last: change(whole(good))


def file_of(header: object, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def header(change: Callable[[dict[str, Any]], object]) -> Make:
    """The honest update's bytes with another header; what `change` returns replaces it, unless that is None."""

    def make(good: Update, last: Update) -> bytes:
        data = whole(good)
        (length,) = struct.unpack("<Q", data[:8])
        table = json.loads(data[8 : 8 + length])
        changed = change(table)
        return file_of(table if changed is None else changed, data[8 + length :])

    return make


def fields(change: Callable[[dict[str, Any]], object]) -> Make:
    """The honest update's bytes with other fields."""

    def on_header(table: dict[str, Any]) -> None:
        meta = json.loads(table["__metadata__"]["fedqa"])
        changed = change(meta)
        table["__metadata__"]["fedqa"] = json.dumps(meta) if changed is None else changed

    return header(on_header)


def entry(**changes: object) -> Make:
    return header(lambda table: table["delta"].update(changes))


class Bomb:
    """Unpickling it makes a folder."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(CANARY),)


def torch_file(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def in_inference_mode(d: Tensor) -> Tensor:
    with torch.inference_mode():
        return d.clone()


NAN, INF = float("nan"), float("inf")
SOUND = Summary(3, 0.5, 0.1)

VALUES: Mapping[str, tuple[str, Make]] = {
    "one NaN": ("not_finite", put(3, NAN)),
    "all NaN": ("not_finite", delta(lambda d: d * NAN)),
    "plus infinity": ("not_finite", put(0, INF)),
    "minus infinity": ("not_finite", put(-1, -INF)),
    "both infinities": ("not_finite", delta(lambda d: torch.cat([torch.tensor([INF, -INF]), d[2:]]))),
    "1e30": ("not_finite", put(5, 1e30)),
    "the largest float": ("not_finite", put(5, torch.finfo(torch.float32).max)),
    "squares that overflow": ("not_finite", delta(lambda d: torch.full_like(d, 2e19))),
    "a thousand times too long": ("absurd_norm", delta(lambda d: d * 1e3)),
    "a thousand times too long, turned round": ("absurd_norm", delta(lambda d: d * -1e3)),
    "one value a thousand times too long": ("absurd_norm", delta(lambda d: d + 1e3 * d.norm() * (d == d.max()))),
    "a million times too long": ("absurd_norm", delta(lambda d: d * 1e6)),
}
SHAPES: Mapping[str, tuple[str, Make]] = {
    "shorter": ("wrong_length", delta(lambda d: d[:-1].clone())),
    "longer": ("wrong_length", delta(lambda d: torch.cat([d, d[:1]]))),
    "one number, to be broadcast": ("wrong_length", delta(lambda d: d[:1].clone())),
    "one row": ("wrong_length", delta(lambda d: d[None])),
    "one column": ("wrong_length", delta(lambda d: d[:, None])),
    "no dimension": ("wrong_length", delta(lambda d: d[0])),
    "empty": ("wrong_length", delta(lambda d: d[:0])),
    "one number seen as many": ("wrong_length", delta(lambda d: d[:1].expand(len(d)))),
    "every second number": ("wrong_length", delta(lambda d: torch.cat([d, d])[::2])),
}
TYPES: Mapping[str, tuple[str, Make]] = {
    "float64": ("wrong_dtype", delta(lambda d: d.double())),
    "float16": ("wrong_dtype", delta(lambda d: d.half())),
    "bfloat16": ("wrong_dtype", delta(lambda d: d.bfloat16())),
    "int64": ("wrong_dtype", delta(lambda d: d.long())),
    "int32 of the same width": ("wrong_dtype", delta(lambda d: d.view(torch.int32))),
    "complex": ("wrong_dtype", delta(lambda d: d.to(torch.complex64))),
    "bool": ("wrong_dtype", delta(lambda d: d.bool())),
    "sparse": ("wrong_dtype", delta(lambda d: d.to_sparse())),
    "a parameter": ("wrong_dtype", delta(nn.Parameter)),
    "wants a gradient": ("wrong_dtype", delta(lambda d: d.requires_grad_())),
    "without memory": ("wrong_dtype", delta(lambda d: d.to("meta"))),
    "read-only": ("wrong_dtype", delta(in_inference_mode)),
    "no delta": ("wrong_dtype", sent(delta=None)),
    "a list": ("wrong_dtype", delta(lambda d: d.tolist())),
    "an array": ("wrong_dtype", delta(lambda d: d.numpy())),
}
STAMPS: Mapping[str, tuple[str, Make]] = {
    "another layout": ("wrong_layout", sent(layout="0" * 64)),
    "no layout": ("wrong_layout", sent(layout="")),
    "layout is no text": ("wrong_layout", sent(layout=None)),
    "the round before": ("wrong_round", lambda good, last: replace(good, round=good.round - 1)),
    "the round after": ("wrong_round", lambda good, last: replace(good, round=good.round + 1)),
    "a negative round": ("wrong_round", lambda good, last: replace(good, round=-good.round)),
    "a huge round": ("wrong_round", sent(round=10**100)),
    "round is a text": ("wrong_round", lambda good, last: replace(good, round=str(good.round))),  # type: ignore[arg-type]
    "another course": ("wrong_course", sent(course="f" * 64)),
    "no course": ("wrong_course", sent(course="")),
    "another silo's name": ("wrong_sender", lambda g, last: replace(g, silo="ash" if g.silo != "ash" else "birch")),
    "an unknown name": ("wrong_sender", sent(silo="zelkova")),
    "no name": ("wrong_sender", sent(silo="")),
    "name is no text": ("wrong_sender", sent(silo=None)),
    "last update, stamped anew": ("replayed", lambda good, last: replace(last, round=good.round)),
}
COUNTS: Mapping[str, tuple[str, Make]] = {
    "examples below zero": ("wrong_count", sent(n_examples=-5)),
    "no examples": ("wrong_count", sent(n_examples=0)),
    "NaN examples": ("wrong_count", sent(n_examples=NAN)),
    "infinite examples": ("wrong_count", sent(n_examples=INF)),
    "10**12 examples": ("wrong_count", sent(n_examples=10**12)),
    "10**400 examples": ("wrong_count", sent(n_examples=10**400)),
    "examples are a float": ("wrong_count", sent(n_examples=5.0)),
    "examples are a bool": ("wrong_count", sent(n_examples=True)),
    "examples are a text": ("wrong_count", sent(n_examples="5")),
    "examples are nothing": ("wrong_count", sent(n_examples=None)),
    "nothing seen": ("wrong_count", sent(n_seen=0)),
    "seen below zero": ("wrong_count", sent(n_seen=-1)),
    "more seen than the steps can hold": ("wrong_count", lambda g, last: replace(g, n_seen=g.n_steps * 4 + 1)),
    "no steps": ("wrong_count", sent(n_steps=0)),
    "10**12 steps": ("wrong_count", sent(n_steps=10**12)),
    "steps are a float": ("wrong_count", sent(n_steps=3.0)),
}
LOSSES: Mapping[str, tuple[str, Make]] = {
    "loss NaN": ("wrong_loss", loss(last=NAN)),
    "loss infinite": ("wrong_loss", loss(max=INF)),
    "loss minus infinite": ("wrong_loss", loss(min=-INF)),
    "largest below smallest": ("wrong_loss", sent(loss=LossSummary(0.5, 0.5, 0.1, 0.9))),
    "last above largest": ("wrong_loss", lambda g, last: replace(g, loss=replace(g.loss, last=g.loss.max + 1))),
    "loss is a text": ("wrong_loss", loss(first="0.5")),
    "loss is an integer": ("wrong_loss", sent(loss=LossSummary(1, 1, 1, 1))),
    "loss is nothing": ("wrong_loss", sent(loss=None)),
    "loss is a tuple": ("wrong_loss", sent(loss=(0.5, 0.5, 0.5, 0.5))),
}
METRICS: Mapping[str, tuple[str, Make]] = {
    "metric NaN": ("wrong_metrics", metric(Summary(3, NAN, 0.1))),
    "metric infinite": ("wrong_metrics", metric(Summary(3, INF, 0.1))),
    "variance below zero": ("wrong_metrics", metric(Summary(3, 0.5, -0.1))),
    "variance NaN": ("wrong_metrics", metric(Summary(3, 0.5, NAN))),
    "questions below zero": ("wrong_metrics", metric(Summary(-1, 0.5, 0.1))),
    "10**12 questions": ("wrong_metrics", metric(Summary(10**12, 0.5, 0.1))),
    "questions are a bool": ("wrong_metrics", metric(Summary(True, 0.5, 0.1))),
    "metric is a text": ("wrong_metrics", metric("0.5")),
    "metric is a number": ("wrong_metrics", metric(0.5)),
    "metrics nested": ("wrong_metrics", metric({"fit": SOUND})),
    "metrics a list": ("wrong_metrics", sent(metrics=[("received/dev/fit", SOUND)])),
    "metrics nothing": ("wrong_metrics", sent(metrics=None)),
    "too many metrics": ("wrong_metrics", sent(metrics={f"received/dev/m{i}": SOUND for i in range(257)})),
    "metric of an unknown point": ("wrong_metrics", metric(SOUND, "future/dev/fit")),
    "metric of the train split": ("wrong_metrics", metric(SOUND, "received/train/fit")),
    "metric name with a sentence": ("wrong_metrics", metric(SOUND, "received/dev/the patient has gout")),
    "metric name too long": ("wrong_metrics", metric(SOUND, "received/dev/" + "m" * 33)),
    "metric name with a path": ("wrong_metrics", metric(SOUND, "received/dev/../../etc/passwd")),
    "metric name is a number": ("wrong_metrics", metric(SOUND, 7)),
}
OTHER_REPLIES: Mapping[str, tuple[str, Make]] = {
    "a report": ("wrong_kind", lambda good, last: Report(good.silo, good.course, 0)),
    "a contribution": ("wrong_kind", lambda good, last: Contribution(good.silo, good.course, good.round, "x", "y")),
    "a request": ("wrong_kind", lambda good, last: Train(good.course, good.round, good.delta)),
    "a request as bytes": ("wrong_kind", lambda good, last: whole(Train(good.course, good.round, good.delta))),
    "a report as bytes": ("wrong_kind", lambda good, last: whole(Report(good.silo, good.course, 0))),
    "nothing": ("wrong_kind", lambda good, last: None),
    "a text": ("wrong_kind", lambda good, last: "update"),
    "a table": ("wrong_kind", lambda good, last: dict(vars(good))),
    "a class": ("wrong_kind", lambda good, last: Update),
    "a refusal": ("failed", lambda good, last: Refusal(good.silo, "failed")),
    "a refusal as bytes": ("late", lambda good, last: whole(Refusal(good.silo, "late"))),
    "a refusal with a secret": ("refused", lambda good, last: Refusal(good.silo, "the patient has gout")),
    "a refusal with a guard's code": ("refused", lambda good, last: Refusal(good.silo, "duplicate")),
    "a refusal with a list": ("refused", lambda good, last: Refusal(good.silo, ["failed"])),  # type: ignore[arg-type]
}
CUTS: Mapping[str, tuple[str, Make]] = {
    f"cut to {name}": ("malformed", raw(cut))
    for name, cut in {
        "nothing": lambda data: b"",
        "one byte": lambda data: data[:1],
        "seven bytes": lambda data: data[:7],
        "the header's length": lambda data: data[:8],
        "half a header": lambda data: data[:100],
        "the header": lambda data: data[: 8 + struct.unpack("<Q", data[:8])[0]],
        "half the numbers": lambda data: data[:-90],
        "all but a byte": lambda data: data[:-1],
    }.items()
}
BYTES: Mapping[str, tuple[str, Make]] = {
    "random bytes": ("malformed", raw(lambda data: generator(1, "random bytes").bytes(len(data)))),
    "zeros": ("malformed", raw(lambda data: bytes(len(data)))),
    "ones": ("malformed", raw(lambda data: b"\xff" * len(data))),
    "a pickle that runs code": ("malformed", raw(lambda data: pickle.dumps(Bomb()))),
    "a pickle as header": ("malformed", raw(lambda data: file_of(pickle.dumps(Bomb()), b""))),
    "a torch file that runs code": ("malformed", raw(lambda data: torch_file(Bomb()))),
    "a torch file of the update": ("malformed", lambda good, last: torch_file(good.delta)),
    "an array file": ("malformed", lambda good, last: good.delta.numpy().tobytes()),
    "compressed": ("malformed", raw(gzip.compress)),
    "a text": ("malformed", raw(lambda data: b"update, please find attached")),
    "bytes behind": ("malformed", raw(lambda data: data + b"\0")),
    "twice": ("malformed", raw(lambda data: data + data)),
    "a megabyte too much": ("too_large", raw(lambda data: data + bytes(2 << 20))),
    "another safetensors file": ("malformed", lambda good, last: safetensors.torch.save({"delta": good.delta})),
    "bytes in a list": ("wrong_kind", raw(lambda data: [data])),
}
HEADERS: Mapping[str, tuple[str, Make]] = {
    "header of terabytes": ("malformed", raw(lambda data: struct.pack("<Q", 1 << 42) + data[8:])),
    "header of 2**64 - 1": ("malformed", raw(lambda data: b"\xff" * 8 + data[8:])),
    "header a byte too long": ("malformed", raw(lambda data: struct.pack("<Q", len(data) - 7) + data[8:])),
    "header above the limit": ("malformed", raw(lambda data: file_of(b" " * (wire.MAX_HEADER + 1), b""))),
    "no header": ("malformed", raw(lambda data: struct.pack("<Q", 0) + data[8:])),
    "header of brackets": ("malformed", header(lambda table: b"[" * 100_000)),
    "header of nested tables": ("malformed", header(lambda table: b'{"a":' * 100_000)),
    "header is a list": ("malformed", header(lambda table: [table])),
    "header is null": ("malformed", header(lambda table: b"null")),
    "header is no UTF-8": ("malformed", header(lambda table: b'{"\xff\xfe": 1}')),
    "a tensor twice": ("malformed", header(lambda table: twice(table, "delta"))),
    "a tensor too many": ("malformed", header(lambda t: t.update(more=empty_at(t["delta"]["data_offsets"][1])))),
    "no tensor": ("malformed", header(lambda table: only_metadata(table))),
    "another tensor's name": ("malformed", header(lambda table: table.update(weights=table.pop("delta")))),
    "tensor is a number": ("malformed", header(lambda table: table.update(delta=5))),
    "offsets that overlap": ("malformed", header(lambda table: overlap(table))),
    "offsets with a gap": ("malformed", entry(data_offsets=[4, 212], shape=[52])),
    "offsets below zero": ("malformed", entry(data_offsets=[-4, 212])),
    "offsets turned round": ("malformed", entry(data_offsets=[212, 0])),
    "offsets as floats": ("malformed", entry(data_offsets=[0.0, 212.0])),
    "three offsets": ("malformed", entry(data_offsets=[0, 4, 212])),
    "offsets of terabytes": ("malformed", entry(data_offsets=[0, 1 << 43], shape=[1 << 41])),
    "shape of terabytes": ("malformed", entry(shape=[1 << 39])),
    "shape below zero": ("malformed", entry(shape=[-53])),
    "shape of two negatives": ("malformed", entry(shape=[-1, -53])),
    "shape is a text": ("malformed", entry(shape="53")),
    "shape with a bool": ("malformed", entry(shape=[53, True])),
    "shape of a thousand ones": ("malformed", entry(shape=[53] + [1] * 1000)),
    "empty, with strides that overflow": ("malformed", header(lambda table: overflowing(table))),
    "unknown dtype": ("malformed", entry(dtype="F4096")),
    "dtype not accepted": ("malformed", entry(dtype="BF16")),
    "dtype is a list": ("malformed", entry(dtype=["F32"])),
    "no dtype": ("malformed", header(lambda table: table["delta"].pop("dtype") and None)),
    "numbers as bytes": ("wrong_dtype", entry(dtype="U8", shape=[212])),
    "no metadata": ("malformed", header(lambda table: table.pop("__metadata__") and None)),
    "metadata is a text": ("malformed", header(lambda table: table.update(__metadata__="fedqa"))),
    "metadata of another program": ("malformed", header(lambda table: table.update(__metadata__={"format": "pt"}))),
}
FIELDS: Mapping[str, tuple[str, Make]] = {
    "fields are no text": ("malformed", fields(lambda meta: meta)),
    "fields are no JSON": ("malformed", fields(lambda meta: "{kind: update}")),
    "fields are a list": ("malformed", fields(lambda meta: "[]")),
    "fields of brackets": ("malformed", fields(lambda meta: "[" * 100_000)),
    "a field twice": ("malformed", fields(lambda meta: twice(meta, "n_examples").decode())),
    "a field too many": ("malformed", fields(lambda meta: meta.update(weight=1e9))),
    "a field missing": ("malformed", fields(lambda meta: meta.pop("n_seen") and None)),
    "fields bring a delta": ("malformed", fields(lambda meta: meta.update(delta=[0.0] * 53))),
    "unknown kind": ("malformed", fields(lambda meta: meta.update(kind="gift"))),
    "kind is a list": ("malformed", fields(lambda meta: meta.update(kind=["update"]))),
    "no kind": ("malformed", fields(lambda meta: meta.pop("kind") and None)),
    "kind of a reply without tensors": ("malformed", fields(lambda meta: meta.update(kind="refusal"))),
    "constant NaN": ("malformed", fields(lambda meta: meta["loss"].update(last=NAN))),
    "constant Infinity": ("malformed", fields(lambda meta: meta["loss"].update(max=INF))),
    "a number that overflows": (
        "malformed",
        fields(lambda meta: re.sub('"max": [^,]+', '"max": 1e999', json.dumps(meta))),
    ),
    "an integer that overflows a float": ("malformed", fields(lambda meta: meta["loss"].update(max=10**400))),
    "an integer of 5000 digits": ("malformed", fields(lambda meta: f'{{"round": {"9" * 5000}}}')),
    "round is a bool": ("malformed", fields(lambda meta: meta.update(round=True))),
    "count as a float": ("malformed", fields(lambda meta: meta.update(n_examples=5.5))),
    "count as a text": ("malformed", fields(lambda meta: meta.update(n_examples="5"))),
    "count null": ("malformed", fields(lambda meta: meta.update(n_examples=None))),
    "name with half a letter": ("wrong_sender", fields(lambda meta: meta.update(silo="\ud800"))),
    "metrics as numbers": ("malformed", fields(lambda meta: meta.update(metrics={"received/dev/fit": 0.5}))),
    "bad number in good bytes": ("not_finite", lambda good, last: whole(put(7, NAN)(good, last))),
    "bad round in good bytes": ("wrong_round", fields(lambda meta: meta.update(round=10**6))),
    "bad count in good bytes": ("wrong_count", fields(lambda meta: meta.update(n_examples=10**12))),
}


def twice(table: Mapping[str, Any], key: str) -> bytes:
    """A table as JSON in which one key stands twice."""
    return json.dumps(table)[:-1].encode() + f", {json.dumps(key)}: {json.dumps(table[key])}}}".encode()


def empty_at(offset: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [0], "data_offsets": [offset, offset]}


def only_metadata(table: Mapping[str, Any]) -> dict[str, Any]:
    return {"__metadata__": table["__metadata__"]}


def overlap(table: dict[str, Any]) -> None:
    stop = table["delta"]["data_offsets"][1]
    table["more"] = {"dtype": "F32", "shape": [1], "data_offsets": [stop - 4, stop]}


def overflowing(table: dict[str, Any]) -> None:
    stop = table["delta"]["data_offsets"][1]
    table["more"] = {"dtype": "F32", "shape": [1 << 39, 1 << 39, 0], "data_offsets": [stop, stop]}


GROUPS = (VALUES, SHAPES, TYPES, STAMPS, COUNTS, LOSSES, METRICS, OTHER_REPLIES, CUTS, BYTES, HEADERS, FIELDS)
KINDS: Mapping[str, tuple[str, Make]] = {name: kind for group in GROUPS for name, kind in group.items()}

# More than one reply: what comes second is refused, whatever it is; the first one counts, good or bad.
REPEATS: Mapping[str, tuple[tuple[str, ...], bool, Callable[[Update], list[object]]]] = {
    "a duplicate": (("duplicate",), True, lambda good: [good, good]),
    "a duplicate as bytes": (("duplicate",), True, lambda good: [whole(good), whole(good)]),
    "good, then another": (("duplicate",), True, lambda good: [good, replace(good, delta=-good.delta)]),
    "good, then bad": (("duplicate",), True, lambda good: [good, replace(good, delta=good.delta * NAN)]),
    "good, then a refusal": (("duplicate",), True, lambda good: [good, Refusal(good.silo, "failed")]),
    "bad, then good": (("wrong_count", "duplicate"), False, lambda good: [replace(good, n_examples=0), good]),
    "five times": (("duplicate",) * 4, True, lambda good: [good] * 5),
}

BAD_REPORTS: Mapping[str, tuple[str, Callable[[Report], object]]] = {
    "another silo's": ("wrong_sender", lambda good: replace(good, silo="cedar")),
    "of another course": ("wrong_course", lambda good: replace(good, course="f" * 64)),
    "of another stage": ("wrong_stage", lambda good: replace(good, stage=5)),
    "with NaN": ("wrong_metrics", lambda good: replace(good, metrics={"best/test/fit": Summary(3, NAN, 0.0)})),
    "with a sentence": ("wrong_metrics", lambda good: replace(good, metrics={"best/test/the patient": SOUND})),
    "a class": ("wrong_kind", lambda good: Report),
    "a contribution": ("wrong_kind", lambda good: Contribution(good.silo, good.course, 1, "x", "y")),
    "a refusal": ("died", lambda good: Refusal(good.silo, "died")),
    "random bytes": ("malformed", lambda good: generator(2, "random bytes").bytes(500)),
    "two megabytes": ("too_large", lambda good: bytes(2 << 20)),
}
