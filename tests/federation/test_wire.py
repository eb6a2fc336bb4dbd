# SPDX-License-Identifier: Apache-2.0
"""Messages as bytes: what goes in comes out, and nothing that comes in can do more than be refused."""

import json
import struct
import time
import tracemalloc
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from torch import Tensor

from fedqa.errors import BoundaryError
from fedqa.evaluation.metrics import Summary
from fedqa.federation import wire
from fedqa.federation.messages import (
    Contribution,
    Exchange,
    Finish,
    LossSummary,
    Refusal,
    Reply,
    Report,
    Request,
    Train,
    Update,
)

VECTOR = torch.arange(5, dtype=torch.float32) / 3
METRICS = {"received/dev/map": Summary(7, 0.25, 0.0625), "personal/test/mrr": Summary(0, 0.0, 0.0)}
MIXED = {
    "bytes": torch.arange(3, dtype=torch.uint8),
    "wide": torch.tensor([[2**62, -1]]),
    "signed": torch.tensor([-128, 127, 0], dtype=torch.int8),
    "floats": torch.randn(2, 1, 3, generator=torch.Generator().manual_seed(1)),
    "empty": torch.zeros(0, 4),
    "single": torch.tensor(0.5),
}
UPDATE = Update("ash", "c" * 64, 3, "l" * 64, VECTOR, 12, 24, 6, LossSummary(0.9, 0.1, 1.5, 0.1), METRICS)
MESSAGES: dict[str, Request | Reply] = {
    "train": Train("c" * 64, 3, VECTOR),
    "train without weights": Train("c" * 64, 1, torch.zeros(0)),
    "finish": Finish("c" * 64, -1, torch.zeros(0)),
    "exchange": Exchange("c" * 64, 1, "examples", "collect", MIXED),
    "exchange without tensors": Exchange("c" * 64, 1, "examples", "collect"),
    "update": UPDATE,
    "update without metrics": replace(UPDATE, metrics={}),
    "update of nothing shared": replace(UPDATE, delta=torch.zeros(0)),
    "report": Report("birch", "c" * 64, 2, METRICS),
    "contribution": Contribution("birch", "c" * 64, 1, "examples", "collect", MIXED),
    "refusal": Refusal("birch", "late"),
    "name beyond ASCII": Refusal("Bäume 木", 'quo"ted\\ \n'),
}
MOST = 1 << 30


def whole(message: Request | Reply) -> bytes:
    return b"".join(wire.encode(message))


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def refused(data: bytes, max_bytes: int = MOST) -> str:
    with pytest.raises(BoundaryError) as caught:
        wire.decode(data, max_bytes)
    return str(caught.value)


def assert_equal(one: object, other: object) -> None:
    """Equal field by field; tensors bit for bit, of the same type and shape."""
    assert type(one) is type(other)
    for field in fields(one):  # type: ignore[arg-type]
        left, right = getattr(one, field.name), getattr(other, field.name)
        if field.name == "tensors":
            assert set(left) == set(right)
            assert all(same(left[name], right[name]) for name in left)
        else:
            assert same(left, right) if isinstance(left, Tensor) else left == right


def same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)


# -- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MESSAGES)
def test_what_goes_in_comes_out(name: str) -> None:
    assert_equal(wire.decode(whole(MESSAGES[name]), MOST), MESSAGES[name])


def test_every_kind_of_message_is_tried_here() -> None:
    assert {type(message) for message in MESSAGES.values()} == set(wire.KINDS.values())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_read(kind: type) -> None:
    assert_equal(wire.decode(kind(whole(UPDATE)), MOST), UPDATE)


def test_every_bit_of_a_number_survives() -> None:
    bits = torch.tensor([0, 1, -1, 2**31 - 1, -(2**31), 0x7F800000, 0x7FC00001, -0x800000], dtype=torch.int32)
    decoded = wire.decode(whole(Train("c", 1, bits.view(torch.float32))), MOST)
    assert isinstance(decoded, Train)
    assert torch.equal(decoded.weights.view(torch.int32), bits)


def test_decimal_numbers_survive_too() -> None:
    loss = LossSummary(0.1 + 0.2, 1e-320, 1.7976931348623157e308, -5e-324)
    decoded = wire.decode(whole(replace(UPDATE, loss=loss)), MOST)
    assert isinstance(decoded, Update)
    assert decoded.loss == loss


def test_a_slice_is_sent_as_what_it_shows() -> None:
    sliced = torch.arange(12, dtype=torch.float32).view(3, 4)[:, 1]
    decoded = wire.decode(whole(Train("c", 1, sliced)), MOST)
    assert isinstance(decoded, Train)
    assert decoded.weights.tolist() == [1, 5, 9]


def test_what_was_received_may_be_written_to_and_is_nobody_elses() -> None:
    data = bytearray(whole(UPDATE))
    decoded = wire.decode(data, MOST)
    assert isinstance(decoded, Update)
    decoded.delta.mul_(2)
    assert bytes(data) == whole(UPDATE)
    data[:] = bytes(len(data))
    assert torch.equal(decoded.delta, VECTOR * 2)


# -- the format ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_is_a_safetensors_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "message.safetensors"
    path.write_bytes(whole(MESSAGES[name]))
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    expected = wire.shapes(MESSAGES[name])
    assert {key: list(tensor.shape) for key, tensor in tensors.items()} == expected
    assert json.loads(metadata["fedqa"])["kind"] == type(MESSAGES[name]).__name__.lower()


def test_tensors_of_a_safetensors_file_are_those_of_the_message(tmp_path: Path) -> None:
    path = tmp_path / "message.safetensors"
    path.write_bytes(whole(MESSAGES["contribution"]))
    with safe_open(path, framework="pt") as file:
        assert all(same(file.get_tensor(name), tensor) for name, tensor in MIXED.items())


@pytest.mark.parametrize("name", MESSAGES)
def test_tensors_start_at_multiples_of_their_width(name: str) -> None:
    data = whole(MESSAGES[name])
    header, body = split(data)
    start = len(data) - len(body)
    assert start % 8 == 0
    widths = {"F32": 4, "I64": 8, "I8": 1, "U8": 1}
    for key, entry in header.items():
        if key != "__metadata__":
            assert (start + entry["data_offsets"][0]) % widths[entry["dtype"]] == 0


def test_nothing_is_copied_when_sending() -> None:
    weights = torch.zeros(1000)
    _, part = wire.encode(Train("c", 1, weights))
    weights[7] = 1.0
    assert struct.unpack("<f", part[28:32]) == (1.0,)
    assert torch.frombuffer(part, dtype=torch.float32).data_ptr() == weights.data_ptr()


@pytest.mark.parametrize("name", MESSAGES)
def test_the_size_is_that_of_the_bytes(name: str) -> None:
    assert wire.size(MESSAGES[name]) == len(whole(MESSAGES[name]))


def test_a_message_costs_its_numbers_and_less_than_a_kilobyte() -> None:
    assert 0 < wire.size(replace(UPDATE, delta=torch.zeros(10_000), metrics={})) - 40_000 < 1024


def test_shapes_name_the_tensors_and_nothing_else() -> None:
    assert wire.shapes(UPDATE) == {"delta": [5]}
    assert wire.shapes(MESSAGES["refusal"]) == {}


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_message_above_the_limit_is_refused_unread() -> None:
    data = whole(UPDATE)
    assert_equal(wire.decode(data, len(data)), UPDATE)
    assert refused(data, len(data) - 1) == f"too_large: {len(data)} bytes, at most {len(data) - 1} are accepted"
    assert refused(bytes(100), 99).startswith("too_large")


def test_a_message_shorter_than_a_length_is_refused() -> None:
    assert refused(b"1234567") == "malformed: shorter than a header length"


def test_a_header_longer_than_the_message_is_refused() -> None:
    assert refused(struct.pack("<Q", 1 << 60) + b"{}") == f"malformed: a header of {1 << 60} bytes in a message of 10"


def test_a_header_above_the_limit_is_refused_even_if_it_is_there() -> None:
    assert "a header of 1048577 bytes" in refused(joined(b" " * (wire.MAX_HEADER + 1)))


def test_every_shortened_message_is_refused() -> None:
    data = whole(UPDATE)
    for length in range(len(data)):
        assert refused(data[:length]).startswith("malformed")


def test_a_key_that_stands_twice_is_refused() -> None:
    header, body = split(whole(UPDATE))
    doubled = json.dumps(header)[:-1] + ', "delta": ' + json.dumps(header["delta"]) + "}"
    assert refused(joined(doubled.encode(), body)) == "malformed: a key stands twice"


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_are_no_numbers_are_refused(constant: str) -> None:
    assert refused(joined(f'{{"a": {constant}}}'.encode())) == f"malformed: {constant} is no number"


def test_a_diverged_loss_can_be_sent_but_not_received() -> None:
    loss = LossSummary(0.5, float("nan"), 0.5, 0.5)
    assert refused(whole(replace(UPDATE, loss=loss))) == "malformed: NaN is no number"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"shape": [1 << 41], "data_offsets": [0, 1 << 43]}, "absurd shape"),
        ({"shape": [1] * 5}, "absurd shape"),
        ({"shape": [-5]}, "absurd shape"),
        ({"shape": [True, 5]}, "absurd shape"),
        ({"shape": [0, 1 << 39, 1 << 39], "data_offsets": [0, 0]}, "absurd shape"),
        ({"shape": [4]}, "shape and bytes disagree"),
        ({"data_offsets": [4, 24]}, "shape and bytes disagree"),
        ({"shape": [6], "data_offsets": [0, 24]}, "shape and bytes disagree"),
        ({"shape": [4], "data_offsets": [0, 16]}, "4 bytes behind the last tensor"),
    ],
)
def test_a_tensor_must_lie_where_it_says(changes: dict[str, object], problem: str) -> None:
    header, body = split(whole(UPDATE))
    header["delta"] |= changes
    assert refused(joined(header, body)) == f"malformed: {problem}"


def test_tensors_are_those_of_the_kind() -> None:
    header, body = split(whole(UPDATE))
    header["more"] = {"dtype": "F32", "shape": [0], "data_offsets": [20, 20]}
    assert refused(joined(header, body)) == "malformed: extra or missing tensor"
    fields_ = json.loads(header["__metadata__"]["fedqa"]) | {"delta": [1.0]}
    header["__metadata__"]["fedqa"] = json.dumps(fields_)
    assert refused(joined(header, body)) == "malformed: a tensor among the fields"


def test_a_number_too_large_for_a_float_is_refused() -> None:
    assert refused(with_fields(loss={"first": 10**400, "last": 1, "max": 1, "min": 1})).startswith("malformed")


def with_fields(**changes: object) -> bytes:
    header, body = split(whole(UPDATE))
    header["__metadata__"]["fedqa"] = json.dumps(json.loads(header["__metadata__"]["fedqa"]) | changes)
    return joined(header, body)


# -- fuzzing ---------------------------------------------------------------------------------------------------------

FUZZ = settings(
    max_examples=200, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
SHAPES = st.lists(st.integers(-1, 4) | st.integers(1 << 30, 1 << 45) | JSON_VALUES, max_size=6)
OFFSETS = st.lists(st.integers(-4, 24) | st.integers(1 << 30, 1 << 45) | JSON_VALUES, max_size=3)
DTYPES = st.sampled_from(["F32", "I64", "I8", "U8", "F64", "BOOL", ""]) | JSON_VALUES
ENTRIES = st.fixed_dictionaries({}, optional={"dtype": DTYPES, "shape": SHAPES, "data_offsets": OFFSETS})
FIELD_NAMES = sorted({field.name for kind in wire.KINDS.values() for field in fields(kind)} | {"kind"})
METADATA = st.dictionaries(st.sampled_from(FIELD_NAMES), JSON_VALUES | st.sampled_from(sorted(wire.KINDS)), max_size=11)


def harmless(data: bytes) -> None:
    """Decoding gives a message or a BoundaryError, in memory that the sender has paid for.

    An empty table costs Python 64 bytes and is written in two, so a header may take about fifty times its length,
    and its length is bounded; tensors are copied once.
    """
    header = min(len(data), wire.MAX_HEADER)
    tracemalloc.start()
    try:
        message = wire.decode(data, MOST)
        assert type(message) in wire.KINDS.values()
    except BoundaryError as problem:
        assert problem.code in ("malformed", "too_large")
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 64_000 + 2 * len(data) + 50 * header


@FUZZ
@given(st.binary(max_size=200))
def test_random_bytes_are_harmless(data: bytes) -> None:
    harmless(data)


@FUZZ
@given(st.binary(max_size=120), st.binary(max_size=24))
def test_random_headers_are_harmless(header: bytes, body: bytes) -> None:
    harmless(joined(header, body))


@FUZZ
@given(JSON_VALUES)
def test_any_json_is_harmless_as_header(value: object) -> None:
    harmless(joined(value))


@FUZZ
@given(st.sampled_from(sorted(MESSAGES)), st.data())
def test_a_message_with_bytes_changed_is_harmless(name: str, data: st.DataObject) -> None:
    changed = bytearray(whole(MESSAGES[name]))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    harmless(bytes(changed))


@FUZZ
@given(st.dictionaries(st.sampled_from(["delta", "weights", "a", "b"]), ENTRIES, max_size=3), st.binary(max_size=24))
def test_any_table_of_tensors_is_harmless(entries: dict[str, object], body: bytes) -> None:
    metadata = {"fedqa": json.dumps({"kind": "contribution", "silo": "a", "course": "c", "round": 1})}
    harmless(joined({"__metadata__": metadata, **entries}, body))


@FUZZ
@given(METADATA)
def test_any_fields_are_harmless(values: dict[str, object]) -> None:
    header, body = split(whole(UPDATE))
    before = json.loads(header["__metadata__"]["fedqa"])
    header["__metadata__"]["fedqa"] = json.dumps(before | values)
    harmless(joined(header, body))


@FUZZ
@given(st.sampled_from(["loss", "metrics"]), JSON_VALUES)
def test_any_nested_fields_are_harmless(key: str, value: object) -> None:
    harmless(with_fields(**{key: {"received/dev/map": value, "first": value}}))


@pytest.mark.parametrize("piece", [b"{},", b"[],", b'"",', b"0,", b'{"a":{}},', b"1e1,"])
def test_a_header_full_of_small_things_costs_a_bounded_multiple(piece: bytes) -> None:
    count = (wire.MAX_HEADER - 20) // len(piece)
    harmless(joined(b'{"a":[' + piece * count + b"0]}"))


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_nesting_without_end_is_refused(opening: bytes) -> None:
    harmless(joined(opening * (wire.MAX_HEADER // len(opening))))


def test_hostile_headers_are_read_within_seconds() -> None:
    many = {f"m{i}": {"n": 1, "mean": 0.5, "variance": 0.1} for i in range(15_000)}
    hostile = [with_fields(**{"k" * 900_000: 1}), with_fields(metrics=many), with_fields(metrics={"k" * 900_000: 1})]
    began = time.process_time()
    for data in hostile:
        with suppress(BoundaryError):
            wire.decode(data, MOST)
    assert time.process_time() - began < 60  # what grows with the square of a header's length would take hours


def test_ten_thousand_claimed_tensors_take_no_memory() -> None:
    empty = {f"t{i}": {"dtype": "F32", "shape": [1 << 39, 0], "data_offsets": [0, 0]} for i in range(10_000)}
    metadata = {"__metadata__": split(whole(MESSAGES["contribution"]))[0]["__metadata__"]}
    harmless(joined(metadata | empty))
