import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import SCHEMA_VERSION, Affine, Provenance, Trace, fit_affine
from capplan.core.workload import Configuration, Variant
from capplan.errors import MissingRecordingError, TraceFileError
from tests.core.trace.valid_traces import traces


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


@given(trace=traces)
def test_a_trace_of_version_1_is_read_by_its_old_names(trace: Trace) -> None:
    document = json.loads(dump_trace(trace, compress=False)) | {"schema_version": 1}
    del document["sha256"]
    for recording in document["recordings"]:
        recording["rung"] = recording.pop("backend")
        recording["guesses"] = recording.pop("assumed_values")
    assert load_trace(json.dumps(document).encode(), where="t.json") == trace


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x1f\x8b", b"\xff\xfe", gzip.compress(b"{}", mtime=0)])
def test_what_is_no_trace_is_refused(content: bytes) -> None:
    with pytest.raises(TraceFileError):
        load_trace(content, where="t.json")


def test_a_damaged_column_is_refused() -> None:
    document = json.loads(dump_trace(EMPTY, compress=False)) | {"recordings": [{"batches": 3}]}
    del document["sha256"]
    with pytest.raises(TraceFileError, match=r"damaged trace file: recordings\[0\]\.configuration is missing"):
        load_trace(json.dumps(document).encode(), where="t.json")


def test_a_missing_recording_names_the_command_that_makes_it() -> None:
    with pytest.raises(MissingRecordingError, match=r"capplan trace timm:empty --precision amp-fp16 -o FILE"):
        EMPTY.recording(Configuration(variant=Variant.AMP))


def test_two_points_fix_an_affine_function() -> None:
    # 7 + 5·batch at 2 and 5 gives 17 and 32
    assert fit_affine(first=(2, 17), second=(5, 32)) == Affine(7, 5)
    assert fit_affine(first=(2, 1), second=(5, 2)) is None
