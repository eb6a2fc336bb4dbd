# SPDX-License-Identifier: Apache-2.0
"""Messages as bytes. Each is a well-formed safetensors file: eight bytes of header length, a JSON header, raw tensors.

Nothing is allocated before the header has been checked against the bytes that are really there, and nothing is
unpickled. Sending copies no tensor, receiving copies each once.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import fields
from math import prod
from typing import Any

import torch
from torch import Tensor

from fedqa.errors import BoundaryError, FedQAError
from fedqa.federation.messages import Contribution, Exchange, Finish, Refusal, Reply, Report, Request, Train, Update
from fedqa.tables import from_table, plain

MAX_HEADER = 1 << 20
KINDS: Mapping[str, type[Request | Reply]] = {
    kind.__name__.lower(): kind for kind in (Train, Finish, Exchange, Update, Report, Contribution, Refusal)
}
DTYPES = {"F32": torch.float32, "I64": torch.int64, "I32": torch.int32, "I8": torch.int8, "U8": torch.uint8}
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
TENSOR_FIELDS = frozenset({"delta", "weights", "tensors"})  # what is not in the JSON
_LENGTH = struct.Struct("<Q")


def encode(message: Request | Reply) -> list[memoryview]:
    """The message as buffers to be sent one after the other; tensors are not copied."""
    tensors = _tensors_of(message)
    entries: dict[str, Any] = {"__metadata__": {"fedqa": _fields_json(message)}}
    start = 0
    for name, tensor in tensors.items():
        stop = start + tensor.numel() * tensor.element_size()
        dtype = _DTYPE_NAMES[tensor.dtype]
        entries[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [start, stop]}
        start = stop
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # tensors stay aligned, so a receiver can use them in place
    return [memoryview(_LENGTH.pack(len(header)) + header), *(_bytes_of(tensor) for tensor in tensors.values())]


def size(message: Request | Reply) -> int:
    """Bytes the message takes on the wire."""
    return sum(len(part) for part in encode(message))


def shapes(message: Request | Reply) -> dict[str, list[int]]:
    """The tensors a message carries, by name."""
    return {name: list(tensor.shape) for name, tensor in _tensors_of(message).items()}


def decode(data: bytes | bytearray | memoryview, max_bytes: int) -> Request | Reply:
    """The message in these bytes. Raises BoundaryError('malformed' | 'too_large') and nothing else."""
    view = memoryview(data)
    if len(view) > max_bytes:
        raise BoundaryError("too_large", f"{len(view)} bytes, at most {max_bytes} are accepted")
    try:
        header, body = _split(view)
        entries = json.loads(bytes(header), object_pairs_hook=_unique, parse_constant=_no_constant)
        meta = json.loads(entries.pop("__metadata__")["fedqa"], object_pairs_hook=_unique, parse_constant=_no_constant)
        tensors = _read_tensors(entries, body)
        return _message(meta, tensors)
    except BoundaryError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, FedQAError) as problem:
        raise BoundaryError("malformed", str(problem)) from None


def _split(view: memoryview) -> tuple[memoryview, memoryview]:
    if len(view) < _LENGTH.size:
        raise BoundaryError("malformed", "shorter than a header length")
    (length,) = _LENGTH.unpack(view[: _LENGTH.size])
    if length > min(MAX_HEADER, len(view) - _LENGTH.size):
        raise BoundaryError("malformed", f"a header of {length} bytes in a message of {len(view)}")
    stop = _LENGTH.size + length
    return view[_LENGTH.size : stop], view[stop:]


def _read_tensors(entries: Mapping[str, Any], body: memoryview) -> dict[str, Tensor]:
    tensors, expected = {}, 0
    for name, entry in entries.items():
        dtype, shape, (start, stop) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if not all(type(n) is int and 0 <= n < 1 << 40 for n in (*shape, start, stop)) or len(shape) > 4:
            raise BoundaryError("malformed", "absurd shape")
        if prod(n or 1 for n in shape) >= 1 << 40:  # an empty tensor may claim anything in its other dimensions
            raise BoundaryError("malformed", "absurd shape")
        if start != expected or stop > len(body) or stop - start != prod(shape) * dtype.itemsize:
            raise BoundaryError("malformed", "shape and bytes disagree")
        # bytearray: torch wants memory it may write to, and one copy here also frees the sender's buffer
        raw = bytearray(body[start:stop])
        tensors[name] = torch.frombuffer(raw, dtype=dtype).view(shape) if raw else torch.zeros(shape, dtype=dtype)
        expected = stop
    if expected != len(body):
        raise BoundaryError("malformed", f"{len(body) - expected} bytes behind the last tensor")
    return tensors


def _message(meta: dict[str, Any], tensors: dict[str, Tensor]) -> Request | Reply:
    kind = KINDS[meta.pop("kind")]
    names = {field.name for field in fields(kind)}
    if not TENSOR_FIELDS.isdisjoint(meta):
        raise BoundaryError("malformed", "a tensor among the fields")
    if "tensors" in names:
        return from_table(kind, {**meta, "tensors": tensors}, "message")
    if set(tensors) != TENSOR_FIELDS & names:
        raise BoundaryError("malformed", "extra or missing tensor")
    return from_table(kind, {**meta, **tensors}, "message")


def _tensors_of(message: Request | Reply) -> dict[str, Tensor]:
    if isinstance(message, Exchange | Contribution):
        # widest first, so that each starts at a multiple of its own width
        by_width = sorted(message.tensors.items(), key=lambda item: -item[1].element_size())
        return {name: tensor.contiguous() for name, tensor in by_width}
    if isinstance(message, Update):
        return {"delta": message.delta.contiguous()}
    if isinstance(message, Train | Finish):
        return {"weights": message.weights.contiguous()}
    return {}


def _fields_json(message: Request | Reply) -> str:
    table: dict[str, object] = {"kind": type(message).__name__.lower()}
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name not in TENSOR_FIELDS:
            table[field.name] = plain(value)
    return json.dumps(table, separators=(",", ":"))


def _bytes_of(tensor: Tensor) -> memoryview:
    if tensor.numel() == 0:
        return memoryview(b"")
    return tensor.detach().numpy().data.cast("B")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key stands twice")
    return table


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")
