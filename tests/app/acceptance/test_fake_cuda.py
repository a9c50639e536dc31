"""A delivered machine with CUDA devices: what `accept` asks the driver, times and decides, on made-up devices."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capplan.app.acceptance.accept import accept_measured, delivered_here
from capplan.app.measure.store import read_measurements
from capplan.app.plan import PlanTerms
from capplan.core.measurement.acceptance import AcceptanceVerdict, FindingMark, machine_findings
from capplan.core.measurement.format import point_to_line
from capplan.core.measurement.types import Measurement
from capplan.core.plan.measured import as_measured
from capplan.core.trace.types import ModelInput
from capplan.core.workload import Precision, Workload
from capplan.probe.installed_gpus import find_installed_gpus
from capplan.probe.measure.devices import CudaDevice
from capplan.specs import load_gpus
from tests.core.plan.test_measured import estimate
from tests.probe.measure.fake_cuda import FakeCuda
from tests.probe.measure.test_fake_cuda import WORK_S, session
from tests.report.procurement.made_up import plan_document

pytestmark = pytest.mark.slow


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(CudaDevice, "now_s", lambda _: fake.now_s())
    monkeypatch.setattr(CudaDevice, "check", lambda _: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("capplan.probe.measure.session.open_nvml", lambda _: None)
    return fake


def timed(cuda: FakeCuda, batch: int) -> Measurement:
    with session(cuda, "cuda:0") as running:
        point = running.measure(batch)
    assert isinstance(point, Measurement)
    return point


def planned(expected_s: Callable[[int], float]) -> Any:
    """Return a plan for an L4 whose batches take so long, within 20 %."""
    document = plan_document("net", batches=(1, 2))
    document["fits"] = [fit for fit in document["fits"] if fit["gpu"] == "l4"]
    for fit in document["fits"]:
        time_s = expected_s(fit["batch"])
        fit["latency_s"] |= {"bound": time_s / 2, "low": time_s / 1.2, "expected": time_s, "high": time_s * 1.2}
    return document


@pytest.mark.parametrize(
    ("factor", "verdict", "mark"),
    [
        (1.0, AcceptanceVerdict.ACCEPTED, FindingMark.KEPT),
        (0.5, AcceptanceVerdict.REFUSED, FindingMark.REFUSED),  # planned to be twice as fast as it is
        (2.0, AcceptanceVerdict.REMARKS, FindingMark.REMARK),  # planned to be half as fast
    ],
)
def test_times_of_a_device_are_held_to_the_plan(
    cuda: FakeCuda, factor: float, verdict: AcceptanceVerdict, mark: FindingMark
) -> None:
    points = [timed(cuda, batch) for batch in (1, 2)]  # the made-up model takes 10 ms a sample
    document = planned(lambda batch: factor * batch * WORK_S)
    accepted = accept_measured(document, "plan.json", gpu=load_gpus().find("l4"), batch=None, points=points)
    assert accepted.acceptance.verdict is verdict
    times = [finding for finding in accepted.acceptance.findings if finding.what.startswith("latency")]
    assert [finding.mark for finding in times] == [mark, mark]
    assert accepted.points == tuple(points)
    (device,) = {finding.found for finding in accepted.acceptance.findings if finding.what == "device"}
    assert device == "NVIDIA L4"


def test_the_devices_of_a_machine_are_found_and_counted(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capplan.probe.installed_gpus._ask_nvml", lambda: "NVML: not here")
    here = delivered_here(find_installed_gpus()[0])
    assert [device.name for device in here] == ["NVIDIA L4", "NVIDIA L4"]
    gpu = load_gpus().find("l4")
    marks = {finding.what: finding.mark for finding in machine_findings(gpu, 2, here, shares_matrices=False)}
    assert marks["GPUs"] is FindingMark.KEPT
    more = {finding.what: finding.mark for finding in machine_findings(gpu, 3, here, shares_matrices=False)}
    assert more["GPUs"] is FindingMark.REFUSED


def test_what_was_measured_comes_back_from_its_file(cuda: FakeCuda, tmp_path: Path) -> None:
    named = [replace(point, device=replace(point.device, gpu="l4")) for point in (timed(cuda, 1), timed(cuda, 2))]
    path = tmp_path / "ours.jsonl"
    path.write_text("".join(map(point_to_line, named)))
    terms = PlanTerms(
        workload=Workload(precision=named[0].workload.precision), measured=read_measurements(path).measurements
    )
    size = "x".join(map(str, named[0].model.input_size))
    facts: Any = SimpleNamespace(name=named[0].model.name, input=ModelInput(size=size))
    times = terms.own_times(facts)["l4"]
    assert [times[batch].time_s.expected for batch in (1, 2)] == pytest.approx([WORK_S, 2 * WORK_S], rel=1e-3)
    row = as_measured({1: estimate(1, 1e-3), 2: estimate(2, 2e-3), 4: estimate(4, 4e-3)}, times)
    assert row[4].latency_s.expected == pytest.approx(4 * WORK_S, rel=1e-3)
    other: Any = SimpleNamespace(name="another", input=ModelInput(size=size))
    assert terms.own_times(other) == {}
    assert replace(terms, workload=Workload(precision=Precision.FP16)).own_times(facts) == {}
