"""The CUDA, XPU and MPS code on devices that refuse what real ones refuse.

`test_device_contract.py` holds the fake against a real one; `test_cuda.py` is for a real one alone.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from capplan.core.measurement.batch_search import largest_running_batch
from capplan.core.measurement.types import FailedMeasurement, Measurement, MeasurementFailure
from capplan.core.workload import BatchSearch, TimingMethod, Workload
from capplan.errors import MeasurementError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.measure.devices import CudaDevice, MpsDevice, XpuDevice, devices_at_hand, open_device
from capplan.probe.measure.energy import Nvml, open_nvml
from capplan.probe.measure.point import Rules, best_method
from capplan.probe.measure.request import MeasurementJob
from capplan.probe.measure.session import Session
from capplan.probe.measure.timing import Rounds, StopRule, WarmUpRule
from capplan.probe.target.resolve import load_target
from tests.probe.measure.fake_cuda import LAUNCH_S, FakeCuda

pytestmark = pytest.mark.slow

WORK_S = 10e-3
MIB = 2**20


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(CudaDevice, "now_s", lambda _: fake.now_s())
    monkeypatch.setattr(CudaDevice, "check", lambda _: None)
    return fake


def opened(name: str = "cuda:0") -> CudaDevice:
    device = open_device(name)
    assert isinstance(device, CudaDevice)
    return device


@dataclass
class FakeModel:
    """Stands for a model that is ready: 10 ms and 100 MiB per sample, on one of the devices."""

    cuda: FakeCuda
    on: int
    bytes_per_sample: int = 100 * MIB
    attempts: list[int] = field(default_factory=list)
    target: Any = field(default_factory=lambda: SimpleNamespace(words="net"))
    workload: Workload = field(default_factory=Workload)

    def make_inputs(self, batch: int) -> int:
        self.attempts.append(batch)
        return batch

    def runner(self, batch: int) -> Callable[[], object]:
        def run() -> None:
            held = self.cuda.empty(batch * self.bytes_per_sample, on=self.on)
            self.cuda.launch(batch * WORK_S, on=self.on)
            del held

        return run


def session(cuda: FakeCuda, device: str, **job: Any) -> Session:
    """A session on a fake device, whose model is ready."""
    from capplan.probe.inputs.grammar import parse_request

    rules = Rules(warm_up=WarmUpRule(runs=3), stop=StopRule(repetitions=20), **job.pop("rules", {}))
    target = load_target("examples/net.py:Net", request=parse_request(inputs=("x=3x8x8",)))
    made = Session(MeasurementJob(model=ModelRequest(words="net"), device=device, rules=rules, **job), target=target)
    made._ready = FakeModel(cuda=cuda, on=int(device[-1]))  # type: ignore[assignment]
    return made


def test_events_are_recorded_around_the_work_and_read_after_one_wait(cuda: FakeCuda) -> None:
    samples_s = Rounds(opened(), lambda: cuda.launch(WORK_S, on=0), method=TimingMethod.EVENT, flush=False)(5)
    assert cuda.log == ["record", "work", "record"] * 5 + ["synchronize"]
    assert samples_s[1:] == pytest.approx([WORK_S] * 4)
    # The first finds an idle device: its launch lies between the marks, too.
    assert samples_s[0] == pytest.approx(WORK_S + LAUNCH_S)


def test_a_round_of_many_begins_behind_a_full_queue(cuda: FakeCuda) -> None:
    samples_s = Rounds(opened(), lambda: cuda.launch(WORK_S, on=0), method=TimingMethod.EVENT, flush=False)(50)
    assert cuda.log == ["work"] + ["record", "work", "record"] * 50 + ["synchronize"]
    assert samples_s == pytest.approx([WORK_S] * 50)


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_events_lie_on_the_stream_of_the_device_that_works(cuda: FakeCuda, device: str) -> None:
    # On another device's idle stream the marks would lie a launch apart, 5 µs, and not the work's 80 ms.
    with session(cuda, device) as running:
        point = running.measure(8)
    assert isinstance(point, Measurement)
    assert point.latency.median == pytest.approx(8 * WORK_S)
    assert point.method is TimingMethod.EVENT
    assert point.memory.peak_allocated_bytes == 800 * MIB
    assert point.memory.device_used_bytes == 512 * MIB + 800 * MIB
    assert cuda.current == 0, "the current device is put back"


def test_the_buffer_that_flushes_is_told_and_no_part_of_the_peaks(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = torch.empty

    def empty(size: Any, *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
        if device is None or torch.device(device).type != "cuda":
            return real(size, dtype=dtype, device=device, **rest)
        held = cuda.empty(size, on=0)
        return SimpleNamespace(zero_=lambda: cuda.launch(1e-3, on=0), held=held)

    monkeypatch.setattr(torch, "empty", empty)
    with session(cuda, "cuda:0", rules={"flush_l2": True}) as running:
        cuda.log.clear()
        point = running.measure(2)
        assert cuda.gpus[0].allocated == 0, "the buffer is given back with the point"
    assert isinstance(point, Measurement)
    assert point.l2_flushed
    assert point.memory.peak_allocated_bytes == 200 * MIB
    assert point.latency.median == pytest.approx(2 * WORK_S), "flushing is outside the marks"
    timed = ["work", "record", "work", "record"]
    assert " ".join(timed * 5) in " ".join(cuda.log)


def test_out_of_memory_is_freed_and_tried_once_more(cuda: FakeCuda) -> None:
    with session(cuda, "cuda:0") as running:
        point = running.measure(100)
        model = running._ready
    assert isinstance(point, FailedMeasurement)
    assert point.kind is MeasurementFailure.OUT_OF_MEMORY
    assert "CUDA out of memory" in point.message
    assert model is not None
    assert model.attempts == [100, 100]  # type: ignore[attr-defined]
    assert "work" not in cuda.log


@pytest.mark.parametrize("search", list(BatchSearch))
@pytest.mark.parametrize(("limit", "largest"), [(None, 76), (1050 * MIB, 10)])
def test_the_largest_batch_is_what_the_memory_holds(
    cuda: FakeCuda, search: BatchSearch, limit: int | None, largest: int
) -> None:
    # 8 GiB less 512 MiB of others are 7680 MiB: 76 samples of 100 MiB. A limit of 1050 MiB holds 10.
    with session(cuda, "cuda:1", allowed_bytes=limit) as running:
        found = largest_running_batch(lambda batch: running.attempt(batch) is None, search=search, at_most=1000)
    assert found == largest
    assert (cuda.gpus[1].allocated, cuda.gpus[1].reserved, cuda.gpus[1].fraction) == (0, 0, 1.0)


def test_a_reserve_stays_free(cuda: FakeCuda) -> None:
    # 5 % of 7680 MiB are 384 MiB: 7296 MiB are left, for 72 samples.
    with session(cuda, "cuda:0", reserve_fraction=0.05) as running:
        assert running.attempt(72) is None
        assert running.attempt(73) is not None


def test_a_driver_too_old_is_told_and_the_cpu_taken(cuda: FakeCuda) -> None:
    cuda.broken = "The NVIDIA driver on your system is too old (found version 11040)."
    assert list(devices_at_hand()) == ["cpu"]
    assert open_device(None).kind == "cpu"
    with pytest.raises(MeasurementError, match=r"no device 'cuda:0' here \(RuntimeError: The NVIDIA driver .*at hand"):
        open_device("cuda:0")


def test_a_device_held_by_another_process_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCuda().stand_in(monkeypatch)

    def refuse(*_: Any, **__: Any) -> None:
        raise torch.AcceleratorError("CUDA error: all CUDA-capable devices are busy or unavailable")

    monkeypatch.setattr(torch, "ones", refuse)
    with pytest.raises(MeasurementError, match="cuda:1 cannot be used: AcceleratorError: CUDA error: all CUDA-capable"):
        opened("cuda:1").check()


# --- the driver, by the real library's own errors ------------------------------------------------------------------


class FakeDriver:
    """pynvml with answers of an L4; what is `refused` raises the real library's error."""

    def __init__(self, real: Any, refused: dict[str, int], missing: set[str], pids: list[int]) -> None:
        self.real, self.refused, self.missing = real, refused, missing
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlSystemGetDriverVersion": "570.86.15",
            "nvmlDeviceGetHandleByUUID": object(),
            "nvmlDeviceGetEnforcedPowerLimit": 72_000,
            "nvmlDeviceGetPowerUsage": 33_500,
            "nvmlDeviceGetTotalEnergyConsumption": 5_000,
            "nvmlDeviceGetClockInfo": 2040,
            "nvmlDeviceGetTemperature": 64,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=pid, usedGpuMemory=300 * MIB) for pid in pids],
        }

    def __getattr__(self, name: str) -> Any:
        if name in self.missing:
            raise AttributeError(name)
        if name not in self.answers:
            return getattr(self.real, name)
        if name in self.refused:

            def refuse(*_: object) -> None:
                raise self.real.NVMLError(self.refused[name])

            return refuse
        return lambda *_: self.answers[name]


FIELDS: dict[str, tuple[Callable[[Nvml], Any], Any]] = {
    "nvmlSystemGetDriverVersion": (Nvml.driver_version, "570.86.15"),
    "nvmlDeviceGetEnforcedPowerLimit": (Nvml.power_limit_w, 72.0),
    "nvmlDeviceGetPowerUsage": (Nvml.power_w, 33.5),
    "nvmlDeviceGetTotalEnergyConsumption": (Nvml.energy_j, 5.0),
    "nvmlDeviceGetTemperature": (Nvml.temperature_c, 64.0),
    "nvmlDeviceGetClockInfo": (lambda nvml: nvml.clocks().graphics_hz, 2.04e9),
    "nvmlDeviceGetCurrentClocksEventReasons": (Nvml.throttling, ("power cap",)),
    "nvmlDeviceGetComputeRunningProcesses": (Nvml.process_bytes, 300 * MIB),
}


def nvml_with(
    refused: dict[str, int] | None = None, missing: set[str] | None = None, pids: list[int] | None = None
) -> Nvml:
    real = pytest.importorskip("pynvml")
    return Nvml(FakeDriver(real, refused or {}, missing or set(), pids or [os.getpid()]), object())


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("code", [3, 4, 13, 15], ids=["not supported", "no permission", "no function", "lost"])
def test_what_a_driver_refuses_is_unknown_and_all_else_is_told(name: str, code: int) -> None:
    nvml = nvml_with({name: code})
    for each, (read, expected) in FIELDS.items():
        if each != name:
            assert read(nvml) == expected, each
        elif each == "nvmlDeviceGetCurrentClocksEventReasons":
            assert read(nvml) == expected, "the older name answers"
        else:
            assert read(nvml) is None


@pytest.mark.parametrize("name", [name for name in FIELDS if name.startswith("nvmlDevice")])
def test_what_a_release_of_the_library_lacks_is_unknown(name: str) -> None:
    nvml = nvml_with(missing={name})
    assert all(read(nvml) == expected for each, (read, expected) in FIELDS.items() if each != name)
    assert FIELDS[name][0](nvml) in (None, ("power cap",))


def test_without_any_counter_a_point_is_measured_all_the_same(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = nvml_with(dict.fromkeys(FIELDS, 3) | {"nvmlDeviceGetCurrentClocksThrottleReasons": 3})
    monkeypatch.setattr("capplan.probe.measure.session.open_nvml", lambda _: nvml)
    with session(cuda, "cuda:0") as running:
        point = running.measure(1)
    assert isinstance(point, Measurement)
    assert (point.power, point.device.driver, point.device.clocks.graphics_hz) == (None, None, None)
    assert point.memory.process_bytes is None


def test_two_seconds_of_power_behind_a_naive_figure_are_two_seconds_of_work(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capplan.probe.measure.session.open_nvml", lambda _: nvml_with())
    with session(cuda, "cuda:0", rules={"method": TimingMethod.NAIVE}) as running:
        point = running.measure(1)
    assert isinstance(point, Measurement)
    assert point.latency.median == pytest.approx(LAUNCH_S), "the launch alone"
    # a launch takes 5 µs and its work 10 ms: two seconds are 200 runs, which would be 400,000 by the launch
    assert cuda.log.count("work") < 300


def test_in_a_container_one_foreign_process_is_this_one() -> None:
    # The driver numbers processes as the host does: of two that cannot be seen here the younger is taken for us.
    unseen = [2**22 + 7, 2**22 + 9]  # above the kernel's largest pid
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        assert [each.pid for each in nvml_with(pids=unseen).other_processes()] == [unseen[0]]
        assert [each.pid for each in nvml_with(pids=[os.getpid(), *unseen]).other_processes()] == unseen
        patch.setattr(torch.cuda, "is_initialized", lambda: False)
        assert [each.pid for each in nvml_with(pids=unseen).other_processes()] == unseen


@pytest.mark.parametrize(("name", "code"), [("nvmlInit", 12), ("nvmlInit", 9), ("nvmlDeviceGetHandleByUUID", 6)])
def test_without_a_driver_there_is_no_nvml(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    real = pytest.importorskip("pynvml")
    monkeypatch.setitem(__import__("sys").modules, "pynvml", FakeDriver(real, {name: code}, set(), []))
    assert open_nvml(torch.device("cuda", 0)) is None


def test_a_slice_of_a_gpu_is_found_by_its_own_name(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pytest.importorskip("pynvml")
    driver = FakeDriver(real, {}, set(), [])
    asked: list[bytes] = []

    def find(uuid: bytes) -> object:
        asked.append(uuid)
        if uuid.startswith(b"GPU-"):
            raise real.NVMLError(real.NVML_ERROR_NOT_FOUND)
        return object()

    driver.nvmlDeviceGetHandleByUUID = find  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "pynvml", driver)
    assert open_nvml(torch.device("cuda", 1)) is not None
    assert asked == [b"GPU-11111111-2222-3333-4444-555555555555", b"MIG-11111111-2222-3333-4444-555555555555"]


# --- Intel's and Apple's ------------------------------------------------------------------------------------------


@pytest.fixture
def xpu(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """torch.xpu has the form of torch.cuda: the same fake stands in for it."""
    fake = FakeCuda()
    for name, replacement in {
        "Event": fake.event,
        "device": fake.device,
        "synchronize": fake.synchronize,
        "empty_cache": fake.empty_cache,
        "get_device_properties": fake.properties,
        "mem_get_info": lambda device=None: (7 * 2**30, 8 * 2**30),
        "memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 2**20,
    }.items():
        monkeypatch.setattr(torch.xpu, name, replacement, raising=False)
    monkeypatch.setattr(XpuDevice, "now_s", lambda _: fake.now_s())
    return fake


def test_an_intel_gpu_is_timed_by_its_events(xpu: FakeCuda) -> None:
    device = XpuDevice(torch.device("xpu", 0))
    assert best_method(device) is TimingMethod.EVENT
    samples_s = Rounds(device, lambda: xpu.launch(WORK_S, on=0), method=TimingMethod.EVENT, flush=False)(20)
    assert samples_s == pytest.approx([WORK_S] * 20)
    assert device.available_bytes() == 7 * 2**30 + 2**20


def test_a_torch_whose_events_tell_no_time_on_xpu_waits_around_each_repetition(
    xpu: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OldEvent:
        def record(self) -> None: ...

        def elapsed_time(self, _: object) -> float:
            raise NotImplementedError("elapsed_time is not supported by XPUEvent.")

    monkeypatch.setattr(torch.xpu, "Event", lambda enable_timing: OldEvent())
    for name in ("reset_peak_memory_stats", "max_memory_reserved", "mem_get_info", "set_per_process_memory_fraction"):
        monkeypatch.delattr(torch.xpu, name)
    device = XpuDevice(torch.device("xpu", 0))
    assert best_method(device) is TimingMethod.SYNC
    samples_s = Rounds(device, lambda: xpu.launch(WORK_S, on=0), method=TimingMethod.SYNC, flush=False)(3)
    assert samples_s == pytest.approx([WORK_S + LAUNCH_S] * 3)
    device.reset_peaks()
    assert device.memory().peak_allocated_bytes is None
    assert device.available_bytes() is None
    with pytest.raises(MeasurementError, match="no memory limit"), device.limited_to(2**30):
        pass
    with pytest.raises(MeasurementError, match="no events"):
        device.make_event()


def test_apples_gpu_is_waited_for_around_each_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []
    monkeypatch.setattr(torch.mps, "synchronize", lambda: log.append("synchronize"))
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 2**30)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 16 * 2**30)
    monkeypatch.setattr(torch.mps, "set_per_process_memory_fraction", log.append)
    device = MpsDevice(torch.device("mps", 0))
    assert best_method(device) is TimingMethod.SYNC
    Rounds(device, lambda: log.append("work"), method=TimingMethod.SYNC, flush=False)(2)
    assert log == ["synchronize", "work", "synchronize"] * 2
    assert device.available_bytes() == 15 * 2**30
    log.clear()
    with device.limited_to(3 * 2**30):
        pass
    assert log == [0.25, 1.7]  # 4 of 16 GiB; then torch's own default
