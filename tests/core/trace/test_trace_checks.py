"""A trace file that was damaged, bent or blown up is refused with the place that is wrong."""

import gzip
import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import (
    Affine,
    InputTensor,
    Kernel,
    Op,
    Operand,
    Parameter,
    Phase,
    Provenance,
    Recording,
    Role,
    Storage,
    Trace,
)
from capplan.core.workload import Configuration, Training
from capplan.errors import TraceFileError
from tests.limits import within


def operand(*shape: Affine | int, is_weight: bool = False) -> Operand:
    dims = tuple(each if isinstance(each, Affine) else Affine(each) for each in shape)
    return Operand(dtype="float32", shape=dims, is_weight=is_weight)


ROWS = operand(Affine(0, 1), 64)
TRACE = Trace(
    name="Net",
    target="net.py:Net",
    class_name="Net",
    parameters=(Parameter(names=("weight",), dtype="float32", shape=(64, 64)),),
    inputs=(InputTensor(name="x", dtype="float32", shape=(Affine(0, 1), Affine(64))),),
    recordings=(
        Recording(
            configuration=Configuration(training=Training()),
            modules=("", "0"),
            kernels=(
                Kernel(
                    name="aten.mm",
                    inputs=(ROWS, operand(64, 64, is_weight=True)),
                    outputs=(ROWS,),
                    attributes={"groups": 1, "stride": (2, 2), "fill": float("-inf")},
                ),
            ),
            ops=(
                Op(kernel=0, module=1, reads=(0, 1), writes=(2,)),
                Op(kernel=0, module=1, reads=(2, 1), writes=(3,)),
            ),
            storages=(
                Storage(size_bytes=Affine(0, 256), role=Role.INPUT, death=2),
                Storage(size_bytes=Affine(16384), role=Role.PARAMETER, death=2, parameter=0),
                Storage(size_bytes=Affine(0, 256), role=Role.ACTIVATION, birth=0, death=1),
                Storage(size_bytes=Affine(0, 256), role=Role.ACTIVATION, birth=1, death=2),
            ),
            phases=(Phase(name="forward", step=1, first_op=0), Phase(name="backward", step=1, first_op=1)),
            batches=(2, 3, 5),
        ),
    ),
    provenance=Provenance(capplan_version="0", versions={"torch": "2.13"}, source_sha256="a", notes=("note",)),
)


def document() -> Any:
    found = json.loads(dump_trace(TRACE, compress=False))
    del found["sha256"]
    return found


def load(found: Any) -> Trace:
    return load_trace(json.dumps(found).encode(), where="t.json")


def test_a_trace_without_a_checksum_is_read_as_before() -> None:
    assert load(document()) == TRACE


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("schema_version",), True, "schema_version is True"),
        (("schema_version",), 0, "schema_version is 0"),
        (("name",), 5, "name is 5; it must be a text"),
        (("parameters", 0, 0), [], "parameters[0] names"),
        (("parameters", 0, 1), "float33", "parameters[0] dtype is 'float33'"),
        (("parameters", 0, 2, 1), -64, "parameters[0] shape[1] is -64"),
        (("parameters", 0, 3), 0, "parameters[0] is_buffer is 0"),
        (("inputs", 0, 2, 1), -3, "inputs[0] shape[1] is -3"),
        (("recordings",), {}, "recordings is an object of 0"),
        (("recordings", 0, "configuration", "variant"), "fp32", "configuration.variant is 'fp32'"),
        (("recordings", 0, "configuration", "training", "accumulate"), 0, "accumulate is 0"),
        (("recordings", 0, "batches"), [], "batches is a list of 0"),
        (("recordings", 0, "exact_batch"), -1, "exact_batch is -1"),
        (("recordings", 0, "exact_batch"), True, "exact_batch is True"),
        (("recordings", 0, "backend"), "cuda", "backend is 'cuda'"),
        (("recordings", 0, "modules", 0), None, "modules is None"),
        (("recordings", 0, "kernels", 0, "in", 0, 0), "float31", "kernels[0].in[0] dtype"),
        (("recordings", 0, "kernels", 0, "in", 0, 1, 0), [0, -1], "in[0] shape[0] per_sample is -1"),
        (("recordings", 0, "kernels", 0, "in", 0, 1, 0), [-3, 1], "in[0] shape[0] is a list of 2; it must be at least"),
        (("recordings", 0, "kernels", 0, "in", 0, 1, 0), True, "in[0] shape[0] is True"),
        (("recordings", 0, "kernels", 0, "in", 0, 1, 0), 2**63, "in[0] shape[0] is 9223372036854775808"),
        (("recordings", 0, "kernels", 0, "in", 0, 2), "cww", "in[0] layout is 'cww'"),
        (("recordings", 0, "kernels", 0, "attributes", "groups"), 0, "attributes.groups is 0"),
        (("recordings", 0, "kernels", 0, "attributes", "stride"), [None], "attributes.stride is None"),
        (("recordings", 0, "kernels", 0, "flops"), -1e9, "flops is -1000000000.0"),
        (("recordings", 0, "kernels", 0, "flops"), -1, "flops is -1"),
        (("recordings", 0, "ops", "kernel", 1), -1, "ops.kernel[1] is -1; it must be a whole number from 0 to 0"),
        (("recordings", 0, "ops", "kernel", 1), 1, "ops.kernel[1] is 1"),
        (("recordings", 0, "ops", "kernel", 1), False, "ops.kernel[1] is False"),
        (("recordings", 0, "ops", "module", 0), -1, "ops.module[0] is -1"),
        (("recordings", 0, "ops", "calls", 0), -100, "ops.calls[0] is -100"),
        (("recordings", 0, "ops", "reads", 0), "ab", "ops.reads[0] is 'ab'"),
        (("recordings", 0, "ops", "reads", 0), [9999, 1], "ops.reads[0][0] is 9999"),
        (("recordings", 0, "ops", "writes", 0), [], "ops.writes[0] is a list of 0; it must be one storage for each"),
        (("recordings", 0, "ops", "calls"), [1], "ops has columns of different lengths, 1, 2"),
        (("recordings", 0, "storages", "size_bytes", 0), -1, "size_bytes[0] is -1"),
        (("recordings", 0, "storages", "size_bytes", 0), 1000.5, "size_bytes[0] is 1000.5"),
        (("recordings", 0, "storages", "size_bytes", 0), [1, -1], "size_bytes[0] per_sample is -1"),
        (("recordings", 0, "storages", "role", 0), "friend", "role[0] is 'friend'"),
        (("recordings", 0, "storages", "birth", 0), -2, "birth[0] is -2"),
        (("recordings", 0, "storages", "lifetime", 2), -1, "lifetime[2] is -1"),
        (("recordings", 0, "storages", "lifetime", 2), 10**12, "lifetime[2] is 1000000000000"),
        (("recordings", 0, "storages", "lifetime", 3), 2, "lifetime[3] is 2; it must be at most 1"),
        (("recordings", 0, "storages", "parameter"), {"1": 1}, "storages.parameter.1 is 1"),
        (("recordings", 0, "storages", "parameter"), {"-1": 0}, "storages.parameter: the key is '-1'"),
        (("recordings", 0, "phases", 0, 2), -5, "phases[0] first_op is -5"),
        (("recordings", 0, "phases", 1, 2), 3, "phases[1] first_op is 3"),
        (("recordings", 0, "phases", 0, 2), 2, "phases[1] first_op is 1; it must be a whole number from 2"),
        (("provenance", "notes"), "note", "provenance.notes is 'note'"),
        (("provenance", "versions", "torch"), 2.13, "provenance.versions is 2.13"),
    ],
)
def test_what_is_out_of_range_is_refused_by_its_place(path: tuple[Any, ...], value: Any, place: str) -> None:
    found = document()
    part = found
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(TraceFileError) as refused:
        load(found)
    assert str(refused.value).startswith("t.json ")
    assert place in str(refused.value)


@pytest.mark.parametrize(
    "key", ["name", "parameters", "recordings", "provenance", *(f"recordings.{each}" for each in ("ops", "phases"))]
)
def test_what_is_missing_is_named(key: str) -> None:
    found = document()
    outer, _, inner = key.partition(".")
    if inner:
        del found[outer][0][inner]
    else:
        del found[outer]
    with pytest.raises(TraceFileError, match=rf"{inner or outer} is missing"):
        load(found)


@pytest.mark.parametrize("compress", [False, True])
def test_no_flipped_bit_changes_what_is_read(compress: bool) -> None:
    content = dump_trace(TRACE, compress=compress)
    chosen = random.Random(14)
    refused = 0
    for _ in range(1500):
        position, bit = chosen.randrange(len(content)), 1 << chosen.randrange(8)
        flipped = bytearray(content)
        flipped[position] ^= bit
        try:
            assert load_trace(bytes(flipped), where="t.json") == TRACE
        except TraceFileError:
            refused += 1
    assert refused > 1300  # bits of the checksum's key, of gzip's header and of its unused fields do no harm


def test_a_changed_number_is_told_from_damage() -> None:
    content = dump_trace(TRACE, compress=False).replace(b"16384", b"16385")
    with pytest.raises(TraceFileError, match=r"t\.json was changed after it was written: its sha256 does not match"):
        load_trace(content, where="t.json")


def test_indentation_does_not_matter_to_the_checksum() -> None:
    indented = json.dumps(json.loads(dump_trace(TRACE, compress=False)), indent=2)
    assert load_trace(indented.encode(), where="t.json") == TRACE


def nested(_: bytes) -> bytes:
    return b'{"format":"capplan-trace","schema_version":1,"name":' + b"[" * 200_000 + b"]" * 200_000 + b"}"


def bomb(_: bytes) -> bytes:
    return gzip.compress(b" " * 2**28, compresslevel=1)


def chained_bombs(_: bytes) -> bytes:
    return gzip.compress(b" " * 2**20) * 1000


def many_values(_: bytes) -> bytes:
    return b'{"format":"capplan-trace","schema_version":1,"name":[' + b"[]," * 10_000_000 + b"[]]}"


def long_number(_: bytes) -> bytes:
    return b'{"format":"capplan-trace","schema_version":' + b"1" * 5000 + b"}"


def latin(content: bytes) -> bytes:
    return content.replace(b"Net", b"N\xe9t")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (nested, "is nested too deeply"),
        (bomb, "decompresses to more than 64 MiB"),
        (chained_bombs, "decompresses to more than 64 MiB"),
        (many_values, "holds more than 4,000,000 values"),
        (long_number, "holds a number that is too long"),
        (latin, "is no UTF-8"),
        (lambda content: gzip.compress(content)[:-20], "is a truncated compressed file"),
        (lambda content: gzip.compress(content) + b"junk", "is a damaged compressed file"),
    ],
)
def test_what_would_take_memory_or_time_is_refused(make: Callable[[bytes], bytes], words: str) -> None:
    content = make(dump_trace(TRACE, compress=False))
    tracemalloc.start()
    try:
        with within(cpu_s=10), pytest.raises(TraceFileError, match=words):
            load_trace(content, where="t.json")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 200e6


def test_several_gzip_members_are_one_text() -> None:
    content = dump_trace(TRACE, compress=False)
    split = gzip.compress(content[:100]) + gzip.compress(content[100:]) + b"\x00\x00"
    assert load_trace(split, where="t.json") == TRACE
