import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.trace.affine import Affine, fit_affine
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import (
    SCHEMA_VERSION,
    Guess,
    InputTensor,
    Kernel,
    MemoryFormat,
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
from capplan.core.workload import Configuration, Layout, Optimizer, Training, Variant
from capplan.errors import MissingRecordingError, TraceFileError

affines = st.builds(Affine, st.integers(-5, 2**40), st.integers(0, 2**20))
operands = st.builds(
    Operand,
    dtype=st.sampled_from(["float32", "half", "int64"]),
    shape=st.lists(affines, max_size=4).map(tuple),
    memory_format=st.sampled_from(MemoryFormat),
    is_weight=st.booleans(),
    expanded=st.lists(st.integers(0, 3), max_size=2).map(tuple),
)
attributes = st.dictionaries(
    st.text(max_size=5), st.one_of(st.booleans(), st.integers(), st.text(max_size=3), st.tuples(st.integers()))
)
kernels = st.builds(
    Kernel,
    name=st.text(max_size=9),
    inputs=st.lists(operands, max_size=3).map(tuple),
    outputs=st.lists(operands, max_size=2).map(tuple),
    attributes=attributes,
    flops=st.none() | affines,
)
recordings = st.builds(
    Recording,
    configuration=st.builds(
        Configuration,
        variant=st.sampled_from(Variant),
        layout=st.sampled_from(Layout),
        training=st.none() | st.builds(Training, optimizer=st.sampled_from(Optimizer), accumulate=st.integers(1, 4)),
    ),
    modules=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    kernels=st.lists(kernels, max_size=3).map(tuple),
    ops=st.lists(
        st.builds(Op, kernel=st.integers(0, 2), module=st.integers(0, 2), reads=st.just((0, 1)), writes=st.just((2,))),
        max_size=4,
    ).map(tuple),
    storages=st.lists(
        st.builds(
            Storage,
            size_bytes=affines,
            role=st.sampled_from(Role),
            birth=st.integers(-1, 3),
            death=st.integers(3, 9),
            parameter=st.none() | st.integers(0, 2),
        ),
        max_size=4,
    ).map(tuple),
    phases=st.just((Phase(name="forward", step=1, first_op=0),)),
    batches=st.just((2, 3, 5)),
    exact_batch=st.none() | st.integers(1, 9),
    guesses=st.lists(st.builds(Guess, what=st.text(), count=st.integers(1, 9)), max_size=2).map(tuple),
)
traces = st.builds(
    Trace,
    name=st.text(max_size=9),
    target=st.text(max_size=9),
    class_name=st.text(max_size=9),
    parameters=st.just((Parameter(names=("a", "b"), dtype="float32", shape=(3, 4)),)),
    inputs=st.just((InputTensor(name="x", dtype="float32", shape=(Affine(0, 1), Affine(3))),)),
    recordings=st.lists(recordings, max_size=2).map(tuple),
    provenance=st.builds(Provenance, capplan_version=st.text(max_size=5), notes=st.just(("a note",))),
)


@given(trace=traces, compress=st.booleans())
def test_a_written_trace_reads_back_the_same(trace: Trace, compress: bool) -> None:
    content = dump_trace(trace, compress=compress)
    assert load_trace(content, where="x") == trace
    assert dump_trace(trace, compress=compress) == content


EMPTY = Trace(
    name="empty",
    target="timm:empty",
    class_name="Empty",
    parameters=(),
    inputs=(),
    recordings=(),
    provenance=Provenance(capplan_version="0"),
)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("kept", [0.2, 0.6, 0.95])
def test_a_truncated_file_is_refused(compress: bool, kept: float) -> None:
    content = dump_trace(EMPTY, compress=compress)
    with pytest.raises(TraceFileError, match=r"t\.json"):
        load_trace(content[: int(len(content) * kept)], where="t.json")


def test_a_newer_schema_asks_for_an_upgrade() -> None:
    document = json.loads(dump_trace(EMPTY, compress=False)) | {"schema_version": SCHEMA_VERSION + 1}
    with pytest.raises(TraceFileError, match="upgrade"):
        load_trace(json.dumps(document).encode(), where="t.json")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x1f\x8b", b"\xff\xfe", gzip.compress(b"{}", mtime=0)])
def test_what_is_no_trace_is_refused(content: bytes) -> None:
    with pytest.raises(TraceFileError):
        load_trace(content, where="t.json")


def test_a_damaged_column_is_refused() -> None:
    document = json.loads(dump_trace(EMPTY, compress=False)) | {"recordings": [{"batches": 3}]}
    with pytest.raises(TraceFileError, match="damaged"):
        load_trace(json.dumps(document).encode(), where="t.json")


def test_a_missing_recording_names_the_command_that_makes_it() -> None:
    with pytest.raises(MissingRecordingError, match=r"capplan trace timm:empty --precision amp-fp16 -o FILE"):
        EMPTY.recording(Configuration(variant=Variant.AMP))


def test_two_points_fix_an_affine_function() -> None:
    # 7 + 5·batch at 2 and 5 gives 17 and 32
    assert fit_affine(first=(2, 17), second=(5, 32)) == Affine(7, 5)
    assert fit_affine(first=(2, 1), second=(5, 2)) is None
