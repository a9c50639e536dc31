"""Whatever a trace, a measurement, a calibration, a load or a table of rows holds: an answer or one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.latency.calibration import Calibration
from capplan.core.measurement.format import parse_points, point_to_json
from capplan.core.memory.model import MemoryModel
from capplan.core.ops.analysis import analyze_trace
from capplan.core.ops.flops import check_operators
from capplan.core.plan.planner import Prepared, make_plan
from capplan.core.plan.types import Limits
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import BatchChoice, Batches, Configuration, Precision, Variant, Workload
from capplan.errors import CapplanError
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration, load_memory_calibration
from capplan.specs.load import read_demand
from capplan.specs.measurements import read_measured
from tests.core.measurement.test_measurement import FULL
from tests.fuzz.conftest import Check
from tests.fuzz.mutations import as_json, as_yaml, bent, damaged, few, many
from tests.specs.test_calibration import FILE

pytestmark = pytest.mark.slow

GPUS = load_gpus()
NAMES = ("net", "attends", "trained")
LISTED = Batches(choice=BatchChoice.LISTED, sizes=(4,))
LIMITS = Limits(utilization_fraction=0.9)
MEMORY = load_memory_calibration()
CALIBRATION = load_calibration()
PRECISIONS = {Variant.FULL: Precision.FP32, Variant.HALF: Precision.FP16, Variant.AMP: Precision.AMP_FP16}


def workload_of(configuration: Configuration) -> Workload:
    return Workload(
        precision=PRECISIONS[configuration.variant], layout=configuration.layout, training=configuration.training
    )


def assert_told(error: CapplanError, where: object = "") -> None:
    """Hold a refusal to its form: words that begin with the file they are about."""
    assert str(error).strip()
    assert str(error).startswith(str(where))


@pytest.fixture(scope="session")
def bent_traces(traces: list[Path]) -> list[st.SearchStrategy[Any]]:
    """Strategies that bend the traces, without the checksum, which would refuse every change."""
    documents = [json.loads(path.read_text()) for path in traces]
    return [bent({key: value for key, value in document.items() if key != "sha256"}) for document in documents]


@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
@given(data=st.data())
@many
def test_a_bent_trace_is_refused_or_counted(
    index: int, bent_traces: list[st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    content = as_json(data.draw(bent_traces[index]))
    try:
        trace = load_trace(content, where="t.json")
        check_operators(trace, where="t.json")
        answer(trace)
        again = load_trace(dump_trace(trace, compress=False), where="t.json")
        assert repr(again) == repr(trace)  # by text: an operator may be given NaN, which equals nothing
    except CapplanError as error:
        assert_told(error)


def answer(trace: Trace) -> None:
    """Ask of a trace what the commands ask."""
    for recording in trace.recordings:
        configuration = recording.configuration
        batch = recording.exact_batch or 4
        analyze_trace(trace, configuration=configuration, batch=batch, depth=None)
        workload = workload_of(configuration)
        MemoryModel(trace=trace, workload=workload, calibration=MEMORY).estimate(batch=batch, gpu=GPUS["l4"])
        prepared = Prepared.of(trace, workload, calibration=CALIBRATION, memory_calibration=MEMORY)
        make_plan(prepared, gpus=[GPUS["l4"]], batches=LISTED, limits=LIMITS)


@given(data=st.data())
@many
def test_damaged_bytes_of_a_trace_never_change_it(traces: list[Path], data: st.DataObject) -> None:
    content = traces[0].read_bytes()
    whole = load_trace(content, where="t.json")
    try:
        assert load_trace(data.draw(damaged(content)), where="t.json") == whole
    except CapplanError as error:
        assert_told(error, "t.json ")


@given(data=st.data())
@many
def test_a_bent_measurement_is_read_or_refused(data: st.DataObject) -> None:
    try:
        found = parse_points(as_json(data.draw(bent(point_to_json(FULL)))) + b"\n", where="m.jsonl")
    except CapplanError as error:
        assert_told(error, "m.jsonl")
        return
    for point in found.measurements:
        assert point.latency.median > 0
        assert point.throughput_per_s > 0


@given(data=st.data())
@many
def test_damaged_bytes_of_measurements_are_read_or_refused(data: st.DataObject) -> None:
    content = (json.dumps(point_to_json(FULL)) + "\n").encode() * 2
    try:
        parse_points(data.draw(damaged(content)), where="m.jsonl")
    except CapplanError as error:
        assert_told(error, "m.jsonl")


BENT_CALIBRATIONS = bent(yaml.safe_load(FILE))


@given(data=st.data())
@many
def test_a_bent_calibration_is_read_or_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_bytes(as_yaml(data.draw(BENT_CALIBRATIONS)))
    try:
        assert_sound(load_calibration(path))
    except CapplanError as error:
        assert_told(error, str(path))


@given(data=st.data())
@many
def test_damaged_bytes_of_a_calibration_are_read_or_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_bytes(data.draw(damaged(FILE.encode())))
    try:
        assert_sound(load_calibration(path))
    except CapplanError as error:
        assert_told(error, str(path))


def assert_sound(found: Calibration) -> None:
    assert found.constants.kernel_s > 0
    assert all(each.compute > 0 and each.bandwidth > 0 for each in found.classes.values())


LOADS = [
    {"service": {"peak": "500/s", "latency": "50 ms", "percentile": 99, "spares": 1, "allow_spot": False}},
    {
        "service": {"daily": [1] * 24, "latency": "50 ms"},
        "assumptions": {"years": 3, "pue": {"value": 1.2, "low": 1.1}},
    },
    {"job": {"samples": "50M", "deadline": "6 h", "runs_per_year": 12}},
    {"training": {"samples": "1.28M", "epochs": 90, "deadline": "7 d", "scaling": 0.9}},
]


@pytest.mark.parametrize("load", LOADS, ids=["service", "daily", "job", "training"])
@given(data=st.data())
@many
def test_a_bent_load_is_read_or_refused(
    load: Any, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "load.yaml"
    path.write_bytes(as_yaml(data.draw(bent(load))))
    try:
        read_demand(path)
    except CapplanError as error:
        assert_told(error)


ROWS = (
    "model,gpu,framework,torch,precision,layout,task,batch,input_size,latency_ms\n"
    "timm:resnet50,rtx-3090,eager,2.5,fp32,nchw,infer,8,3x224x224,12.5\n"
    "evil.py:Net,rtx-3090,eager,2.5,fp32,nchw,infer,8,3x224x224,12.5\n"
)


@given(data=st.data())
@many
def test_damaged_rows_are_steps_or_skipped(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    path.write_bytes(data.draw(damaged(ROWS.encode())))
    try:
        found = read_measured(path)
    except CapplanError as error:
        assert_told(error, str(path))
        return
    for step in found.steps:
        assert not step.model.partition(" ")[0].endswith(".py")  # FILE.py and FILE.py:NAME are imported; a;b is a name
        assert ":" not in step.model or step.model.startswith(("timm:", "torchvision:", "hf:"))
        assert step.latency_s > 0
        assert step.batch >= 1


@pytest.mark.parametrize("command", ["plan", "memory", "estimate", "analyze", "report", "trace"])
@given(data=st.data())
@few
def test_no_command_trips_over_a_bent_trace(
    command: str,
    check: Check,
    bent_traces: list[st.SearchStrategy[Any]],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.getbasetemp() / "bent.trace.json"
    path.write_bytes(as_json(data.draw(bent_traces[0])))
    out = tmp_path_factory.getbasetemp() / "again.trace.json"
    more = {"analyze": (), "trace": ("-o", out, "--force"), "memory": ("--gpu", "l4")}
    check(command, path, *more.get(command, ("--gpu", "l4", "--batch", "4")))
