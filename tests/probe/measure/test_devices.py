"""Devices by name, energy, the driver's facts through a made-up driver, pipelines and profiles."""

import json
import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from capplan.core.measurement.op_times import UNMATCHED, ProfiledOperator, times_by_class
from capplan.core.measurement.types import Clocks, MeasuredPower
from capplan.core.workload import Configuration, Layout, Precision, Workload
from capplan.errors import MeasurementError, UsageError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.measure.devices import devices_at_hand, open_device
from capplan.probe.measure.energy import Nvml, measure_power, open_nvml
from capplan.probe.measure.facts import others_at_work
from capplan.probe.measure.model import has_finite_outputs, numeric_settings, ready_model
from capplan.probe.measure.pipeline import Stage, load_stages, measure_pipeline
from capplan.probe.measure.point import Bench, Rules
from capplan.probe.measure.profile import profile_steps
from capplan.probe.measure.timing import StopRule, WarmUpRule
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from capplan.report.render import render
from capplan.report.sections import Format
from capplan.report.text.measurement import pipeline_sections
from tests.probe.measure.simulated import SimulatedDevice

NET = "examples/net.py:Net"


def test_the_cpu_is_always_at_hand() -> None:
    assert "cpu" in devices_at_hand()
    assert open_device("cpu").kind == "cpu"


@pytest.mark.parametrize("words", ["cuda:9", "gpu", "", "meta", "xla:0"])
def test_a_device_that_is_not_here_names_those_that_are(words: str) -> None:
    if not words:
        assert open_device(words).kind in {"cpu", "cuda", "xpu", "mps"}
        return
    with pytest.raises(MeasurementError, match=r"no device .* at hand: .*cpu \("):
        open_device(words)


class Meter:
    """A counter that grows with a simulated device's clock at 50 W, or power readings alone."""

    def __init__(self, device: SimulatedDevice, *, counts: bool) -> None:
        self.device, self.counts = device, counts

    def energy_j(self) -> float | None:
        return 50 * self.device.clock_s if self.counts else None

    def power_w(self) -> float | None:
        return 50.0


def test_energy_of_a_sample_by_the_counter() -> None:
    # 50 W for 10 ms (and 10 µs to launch the first) are 0.5 J per batch of 4.
    device = SimulatedDevice()
    found = measure_power(
        device, lambda: device.launch(10e-3), meter=Meter(device, counts=True), batch=4, expected_s=10e-3
    )
    assert isinstance(found, MeasuredPower)
    assert found.power_w == pytest.approx(50)
    assert found.energy_j_per_sample == pytest.approx(0.125, rel=1e-3)


def test_without_readings_there_is_no_energy() -> None:
    class Silent(Meter):
        def power_w(self) -> float | None:
            return None

    device = SimulatedDevice()
    meter = Silent(device, counts=False)
    assert measure_power(device, lambda: device.launch(1e-3), meter=meter, batch=1, expected_s=1e-3) is None


class MadeUpDriver:
    """pynvml's functions, in the units of NVML: milliwatts, millijoules, megahertz."""

    NVML_CLOCK_GRAPHICS, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 0, 2, 0

    class NVMLError(Exception):
        pass

    def __init__(self, processes: list[Any]) -> None:
        self.processes = processes

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "570.86.15"

    def nvmlDeviceGetEnforcedPowerLimit(self, _handle: object) -> int:  # noqa: N802
        return 72_000

    def nvmlDeviceGetPowerUsage(self, _handle: object) -> int:  # noqa: N802
        return 33_500

    def nvmlDeviceGetTotalEnergyConsumption(self, _handle: object) -> int:  # noqa: N802
        raise self.NVMLError("not supported")

    def nvmlDeviceGetClockInfo(self, _handle: object, kind: int) -> int:  # noqa: N802
        return {0: 2040, 2: 6251}[kind]

    def nvmlDeviceGetTemperature(self, _handle: object, _kind: int) -> int:  # noqa: N802
        return 64

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle: object) -> int:  # noqa: N802
        return 0x1 | 0x4 | 0x20

    def nvmlDeviceGetComputeRunningProcesses(self, _handle: object) -> list[Any]:  # noqa: N802
        return self.processes


@pytest.fixture
def nvml() -> Nvml:
    mine = SimpleNamespace(pid=os.getpid(), usedGpuMemory=500 * 2**20)
    others = [SimpleNamespace(pid=4242, usedGpuMemory=3 * 2**30), SimpleNamespace(pid=4243, usedGpuMemory=None)]
    return Nvml(MadeUpDriver([mine, *others]), object())


def test_the_drivers_units_are_brought_to_base_units(nvml: Nvml) -> None:
    assert nvml.driver_version() == "570.86.15"
    assert (nvml.power_limit_w(), nvml.power_w(), nvml.temperature_c()) == (72.0, 33.5, 64.0)
    assert nvml.clocks() == Clocks(graphics_hz=2.04e9, memory_hz=6.251e9)
    assert nvml.process_bytes() == 500 * 2**20


def test_a_counter_that_a_card_lacks_is_unknown(nvml: Nvml) -> None:
    assert nvml.energy_j() is None


def test_idling_is_no_throttling(nvml: Nvml) -> None:
    assert nvml.throttling() == ("power cap", "software thermal slowdown")


def test_others_on_the_device_are_told_with_their_memory(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _device: "NVIDIA L4")
    device = SimpleNamespace(kind="cuda", torch_device=torch.device("cuda", 0))
    told = others_at_work(device, nvml=nvml)  # type: ignore[arg-type]
    assert told == (
        "NVIDIA L4 is in use by 2 other process(es): pid 4242 (3.00 GiB), pid 4243 (memory unknown); "
        "timings will suffer."
    )


def test_a_cpu_has_no_driver_to_ask() -> None:
    assert open_nvml(torch.device("cpu")) is None


def rules(repetitions: int) -> Rules:
    return Rules(warm_up=WarmUpRule(runs=3), stop=StopRule(repetitions=repetitions))


def test_events_leave_the_host_free_and_waiting_stalls_it() -> None:
    # Two models of 20 ms on the device and 15 ms of the host between them. Left free, the host's work runs beside the
    # device's: 40 ms per repetition. Waiting after each stage adds it up: 20 + 15 + 20 = 55 ms.
    device = SimulatedDevice(launch_s=10e-6)
    stages = [
        Stage(name="detect", run=lambda: device.launch(20e-3)),
        Stage(name="crop", run=lambda _: device.work_on_host(15e-3)),
        Stage(name="classify", run=lambda _: device.launch(20e-3)),
    ]
    timed = measure_pipeline(stages, device=device, rules=rules(100), batch=2, name="two models")
    assert timed.free_s / 100 == pytest.approx(40e-3, rel=0.02)
    assert timed.stalled_s / 100 == pytest.approx(55e-3, rel=0.01)
    detect, crop, classify = timed.stages
    assert detect.host_s[50] == pytest.approx(10e-6, abs=3e-6)
    assert detect.device_s[50] == pytest.approx(20e-3)
    assert detect.waited_s[50] == pytest.approx(20e-3, rel=0.01)
    assert crop.host_s[50] == pytest.approx(15e-3, rel=0.01)
    assert classify.device_s[50] == pytest.approx(20e-3)
    assert timed.free_throughput_per_s == pytest.approx(2 / 40e-3, rel=0.02)
    # One repetition alone: both models need the device 40 ms, and the host's 15 ms run beside the first.
    assert timed.free_latency_s == pytest.approx(40e-3, rel=0.02)
    assert timed.stalled_latency_s == pytest.approx(55e-3, rel=0.01)


def test_repetitions_that_overlap_have_a_throughput_above_one_over_their_latency() -> None:
    # The host works 15 ms, then the device 20 ms: alone 35 ms. One after another the device is always busy: 20 ms each.
    device = SimulatedDevice(launch_s=10e-6)
    stages = [
        Stage(name="load", run=lambda: device.work_on_host(15e-3)),
        Stage(name="model", run=lambda _: device.launch(20e-3)),
    ]
    timed = measure_pipeline(stages, device=device, rules=rules(100), batch=1, name="one model")
    assert timed.free_latency_s == pytest.approx(35e-3, rel=0.01)
    assert timed.free_throughput_per_s == pytest.approx(1 / 20e-3, rel=0.02)
    assert timed.stalled_throughput_per_s == pytest.approx(1 / 35e-3, rel=0.01)
    text = render(pipeline_sections([timed]), Format.TABLE)
    assert "latency of one" in text
    assert "throughput, samples/s" in text


def test_the_shipped_pipeline_runs_on_the_cpu() -> None:
    device = open_device("cpu")
    stages = load_stages("examples/pipeline.py:stages", batch=2, device=device.torch_device)
    timed = measure_pipeline(stages, device=device, rules=rules(3), batch=2, name="example")
    assert [stage.name for stage in timed.stages] == ["detect", "cut (CPU)", "classify"]
    assert all(len(stage.host_s) == 3 and not stage.device_s for stage in timed.stages)
    # What the stages take one by one is what the whole takes, the loop aside.
    assert sum(sum(stage.waited_s) for stage in timed.stages) <= timed.stalled_s


def test_a_pipeline_must_return_named_functions(tmp_path: Any) -> None:
    (tmp_path / "bad.py").write_text("def stages(batch, device):\n    return [('one', 1)]\n")
    with pytest.raises(UsageError, match="must return pairs of a name and a function"):
        load_stages(f"{tmp_path / 'bad.py'}:stages", batch=1, device=torch.device("cpu"))


@pytest.mark.parametrize("precision", list(Precision))
def test_flags_are_set_by_precision_and_put_back(precision: Precision) -> None:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = (matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark)
    tf32 = {"tf32": (True, True), "fp32-ieee": (False, False)}.get(precision.value, (False, True))
    with numeric_settings(precision, autotune=True):
        assert (matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark) == (*tf32, True)
    assert (matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark) == before


@pytest.mark.parametrize(
    ("precision", "weights", "outputs"),
    [
        (Precision.FP32, torch.float32, torch.float32),
        (Precision.BF16, torch.bfloat16, torch.bfloat16),
        (Precision.FP16, torch.float16, torch.float16),
        (Precision.AMP_BF16, torch.float32, torch.bfloat16),
    ],
)
def test_a_model_runs_in_its_precision(precision: Precision, weights: torch.dtype, outputs: torch.dtype) -> None:
    target = load_target(NET, request=parse_request(inputs=["x=3x32x32"]))
    ready = ready_model(target, workload=Workload(precision=precision), device=torch.device("cpu"))
    assert {parameter.dtype for parameter in ready.module.parameters()} == {weights}
    inputs = ready.make_inputs(2)
    assert float(inputs.kwargs["x"].std()) > 0, "inputs must be random"
    with torch.inference_mode():
        assert ready.runner(inputs)().dtype == outputs


def test_channels_last_reaches_weights_and_inputs() -> None:
    target = load_target(NET, request=parse_request(inputs=["x=3x32x32"]))
    ready = ready_model(target, workload=Workload(layout=Layout.NHWC), device=torch.device("cpu"))
    x = ready.make_inputs(2).kwargs["x"]
    assert x.is_contiguous(memory_format=torch.channels_last)
    convolution = next(each for each in ready.module.modules() if isinstance(each, torch.nn.Conv2d))
    assert convolution.weight.is_contiguous(memory_format=torch.channels_last)


@dataclass
class Detections:
    scores: torch.Tensor


@pytest.mark.parametrize(
    ("output", "is_finite"),
    [
        (torch.ones(3), True),
        (torch.tensor([1.0, float("nan")]), False),
        ((torch.ones(2), {"logits": torch.tensor([float("inf")])}), False),
        ([torch.tensor([1, 2])], True),
        (Detections(scores=torch.tensor([0.5, float("nan")])), False),
        (None, True),
    ],
)
def test_outputs_are_looked_into_for_nan_and_infinity(output: object, is_finite: bool) -> None:
    assert has_finite_outputs(output) is is_finite


def test_a_profile_is_matched_to_the_trace(tmp_path: Any) -> None:
    target = load_target(NET, request=parse_request(inputs=["x=3x64x64"]))
    ready = ready_model(target, workload=Workload(), device=torch.device("cpu"))
    with torch.inference_mode():
        run = ready.runner(ready.make_inputs(4))
        profile = profile_steps(run, bench=Bench(device=open_device("cpu")), chrome_trace=tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "aten::mkldnn_convolution" in profile.by_cpu_time or "aten::convolution" in profile.by_cpu_time
    recording = trace_target(target).recording(Configuration())
    found = times_by_class(profile.operators, recording, batch=4, steps=profile.steps, estimated_s=None)
    calls = {row.label: row.calls for row in found}
    # examples/net.py: three convolutions (the first a stem of 3 channels), three batch norms, three ReLUs, one linear.
    assert (calls["conv stem"], calls["conv"], calls["linear"]) == (1, 2, 1)
    assert (calls["batch norm"], calls["activation"]) == (3, 3)
    whole_s = sum(row.measured_s for row in found)
    assert whole_s == pytest.approx(sum(operator.time_s for operator in profile.operators) / profile.steps)
    assert next((row.measured_s for row in found if row.label == UNMATCHED), 0.0) < 0.2 * whole_s


def test_operators_in_a_range_that_a_model_marks_are_in_its_profile(tmp_path: Any) -> None:
    rows = torch.ones(4, 8)

    def run() -> None:
        with torch.profiler.record_function("block"):
            torch.relu(rows @ rows.T)

    profile = profile_steps(run, bench=Bench(device=open_device("cpu")), chrome_trace=tmp_path / "trace.json")
    names = [operator.name for operator in profile.operators]
    assert (names.count("matmul"), names.count("relu")) == (profile.steps, profile.steps)


def test_time_outside_the_trace_is_told() -> None:
    target = load_target(NET, request=parse_request(inputs=["x=3x64x64"]))
    recording = trace_target(target).recording(Configuration())
    linear = ProfiledOperator(name="addmm", shapes=((10,), (4, 256), (256, 10)), time_s=2e-3)
    strange = ProfiledOperator(name="my_kernel", shapes=(), time_s=5e-3, inner=(linear,))
    found = {
        row.label: row
        for row in times_by_class([strange], recording, batch=4, steps=1, estimated_s={"linear": 1e-3, "conv": 3e-3})
    }
    assert found["linear"].measured_s == pytest.approx(2e-3)
    assert found["linear"].error_fraction == pytest.approx(-0.5)
    assert found[UNMATCHED].measured_s == pytest.approx(3e-3)
    assert (found["conv"].measured_s, found["conv"].estimated_s) == (0, 3e-3)
