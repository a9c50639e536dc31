"""Out of memory: recognised, survived, nothing left behind. The failures are real: the CPU is asked for too much."""

import gc
import weakref

import pytest
import torch

from capplan.core.measurement.types import MeasurementFailure
from capplan.errors import TraceError, UsageError
from capplan.probe.measure.devices import CpuDevice, open_device
from capplan.probe.measure.oom import PointError, is_out_of_memory, surviving
from tests.probe.measure.simulated import SimulatedDevice

TOO_MUCH = 2**50
"""A pebibyte: the CPU's allocator refuses it at once."""


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("MPS backend out of memory (MPS allocated: 1.00 GB)"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_what_backends_say_when_memory_runs_out_is_recognised(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize("error", [RuntimeError("shape mismatch"), ValueError("out of memory lane"), KeyError("x")])
def test_other_failures_are_not_taken_for_it(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_a_real_failure_is_retried_once_and_told() -> None:
    device = SimulatedDevice()
    attempts = []

    def attempt() -> None:
        attempts.append(1)
        torch.empty(TOO_MUCH, dtype=torch.int8)

    with pytest.raises(PointError, match="running net at batch 8 ran out of memory") as told:
        surviving(device, attempt, doing="running net at batch 8")
    assert told.value.kind is MeasurementFailure.OUT_OF_MEMORY
    assert len(attempts) == 2
    assert device.frees == 2


def test_a_second_attempt_may_succeed() -> None:
    attempts = []

    def attempt() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            torch.empty(TOO_MUCH, dtype=torch.int8)
        return "ran"

    assert surviving(SimulatedDevice(), attempt, doing="running net") == "ran"


class Held:
    """Something a weak reference can watch; tensors stand for it in real life."""


def test_two_hundred_failures_leave_nothing_behind() -> None:
    watched: list[weakref.ref[Held]] = []

    def attempt() -> None:
        held, around = Held(), []
        around.append(around)  # a cycle, which only the collector ends
        watched.append(weakref.ref(held))
        try:
            raise ValueError("first")
        except ValueError:
            torch.empty(TOO_MUCH, dtype=torch.int8)

    for _ in range(100):
        with pytest.raises(PointError) as told:
            surviving(CpuDevice(torch.device("cpu")), attempt, doing="running net")
        assert told.value.__cause__ is None
    assert len(watched) == 200
    assert not any(reference() for reference in watched)


def test_freed_before_the_second_attempt() -> None:
    alive_at_start: list[int] = []
    watched: list[weakref.ref[Held]] = []

    def attempt() -> None:
        alive_at_start.append(sum(reference() is not None for reference in watched))
        held = Held()
        watched.append(weakref.ref(held))
        torch.empty(TOO_MUCH, dtype=torch.int8)

    gc.disable()
    try:
        with pytest.raises(PointError):
            surviving(SimulatedDevice(), attempt, doing="running net")
    finally:
        gc.enable()
    assert alive_at_start == [0, 0]


def test_another_failure_is_told_without_a_retry() -> None:
    attempts = []

    def attempt() -> None:
        attempts.append(1)
        torch.zeros(2, 3) @ torch.zeros(2, 3)

    with pytest.raises(PointError, match=r"running net at batch 3 failed: RuntimeError: mat1 and mat2") as told:
        surviving(SimulatedDevice(), attempt, doing="running net at batch 3")
    assert told.value.kind is MeasurementFailure.ERROR
    assert len(attempts) == 1


def test_a_cuda_error_that_outlasts_its_point_points_to_isolation() -> None:
    def attempt() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(PointError, match="⟨isolate⟩"):
        surviving(SimulatedDevice(), attempt, doing="running net")


@pytest.mark.parametrize("error", [UsageError("bad words"), TraceError("cannot be built")])
def test_errors_of_other_kinds_pass_as_they_are(error: Exception) -> None:
    def attempt() -> None:
        raise error

    with pytest.raises(type(error)) as told:
        surviving(SimulatedDevice(), attempt, doing="running net")
    assert told.value is error


def test_interruption_passes() -> None:
    def attempt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        surviving(SimulatedDevice(), attempt, doing="running net")


def test_a_limit_makes_real_allocations_fail_and_is_lifted_again() -> None:
    device = open_device("cpu")
    gc.collect()  # what other tests left would make room while the limit holds
    with device.limited_to(64 * 2**20):
        assert torch.ones(2**20).sum() == 2**20
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            torch.ones(256 * 2**20, dtype=torch.int8)
    assert torch.ones(256 * 2**20, dtype=torch.int8)[0] == 1
