"""`app.measure`: points of a model on this machine, in the answer and in a file."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.app.measure.request import MeasuredBatches, MeasureRequest
from capplan.app.measure.run import measure
from capplan.app.measure.store import MeasurementStore, compare_files, stored_measurements
from capplan.app.models import open_model
from capplan.core.measurement.types import Measurement
from capplan.core.trace.format import dump_trace
from capplan.core.workload import BatchChoice, Batches, Configuration
from capplan.errors import MeasurementFileError, UsageError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.measure.point import Rules
from capplan.probe.measure.request import MeasurementJob
from capplan.probe.measure.timing import StopRule, WarmUpRule
from tests.timed_cpu import timed_cpu  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow


def ask(nets: Path, *sizes: int) -> MeasureRequest:
    job = MeasurementJob(
        model=ModelRequest(words=f"{nets}:Even", inputs=("x=8",)),
        rules=Rules(warm_up=WarmUpRule(runs=2), stop=StopRule(repetitions=6, budget_s=10.0)),
        device="cpu",
    )
    return MeasureRequest(job=job, curve=MeasuredBatches(batches=Batches(choice=BatchChoice.LISTED, sizes=sizes)))


def test_points_are_answered_and_appended(nets: Path, tmp_path: Path) -> None:
    lines = tmp_path / "runs.jsonl"
    first = measure(replace(ask(nets, 1, 2), lines=lines))
    assert first.ended_by is None
    assert [point.workload.batch for point in first.points] == [1, 2]
    resumed = measure(replace(ask(nets, 1, 2, 4), lines=lines, resume=True))
    assert [point.workload.batch for point in resumed.points] == [1, 2, 4]
    assert [point.workload.batch for point in stored_measurements(lines)] == [1, 2, 4]
    assert not list(tmp_path.glob("*.lock"))
    before, after = resumed.points[0], first.points[0]
    assert isinstance(before, Measurement)
    assert isinstance(after, Measurement)
    assert before.samples_s == pytest.approx(after.samples_s, rel=1e-3)


def test_code_that_is_measured_sees_the_devices_that_there_are(tmp_path: Path) -> None:
    """A trace lets code see a CUDA device; a measurement of the same code runs it as the machine is."""
    code = tmp_path / "net.py"
    code.write_text(
        "import torch\nfrom torch import nn\n"
        "DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
        "class Net(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x.to(DEVICE)\n"
    )
    request = ask(tmp_path, 1)
    words = f"{code}:Net"
    [point] = measure(
        replace(request, job=replace(request.job, model=ModelRequest(words=words, inputs=("x=8",))))
    ).points
    assert isinstance(point, Measurement)
    assert point.model.words == f"{words} --input x=Nx8"


def test_a_run_is_the_same_as_itself(nets: Path, tmp_path: Path) -> None:
    lines = tmp_path / "runs.jsonl"
    measure(replace(ask(nets, 1, 2), lines=lines))
    assert [pair.ratio.low <= 1 <= pair.ratio.high for pair in compare_files(lines, lines).pairs] == [True, True]


def test_a_trace_is_not_measured(nets: Path, tmp_path: Path) -> None:
    path = tmp_path / "even.trace.json"
    request = ask(nets, 1)
    path.write_bytes(dump_trace(open_model(request.model).trace([Configuration()]), compress=False))
    with pytest.raises(UsageError, match=r"is a trace, and measuring runs the model itself: name .*nets.py:Even"):
        measure(replace(request, source=ModelRequest(words=str(path))))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"timeout_s": 1.0}, "add ⟨isolate⟩"),
        ({"profile": Path("profiles"), "isolate": True}, "drop ⟨isolate⟩"),
        ({"resume": True}, r"add -o FILE\.jsonl"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(nets: Path, change: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        measure(replace(ask(nets, 1), **change))


def test_a_file_is_written_by_one_run_at_a_time(tmp_path: Path) -> None:
    lines = tmp_path / "runs.jsonl"
    with (
        MeasurementStore(lines),
        pytest.raises(MeasurementFileError, match="is being written by another run"),
        MeasurementStore(lines),
    ):
        pass
    with MeasurementStore(lines):
        assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]


def test_measuring_needs_no_module_that_windows_lacks() -> None:
    code = (
        "import sys\n"
        "for name in ('fcntl', 'resource', 'grp', 'pwd', 'termios'): sys.modules[name] = None\n"
        "import capplan.verbs.measure, capplan.app.measure.run, capplan.app.measure.run\n"
        "import capplan.probe.measure.devices, capplan.probe.measure.session, capplan.probe.measure.isolated\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
