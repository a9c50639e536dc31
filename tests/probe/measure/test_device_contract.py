"""What the harness relies on of a CUDA device, asked of the fake one and, where there is one, of the real one.

The fake stands for CUDA in many tests. Here both answer the same questions, so that our reading of CUDA is held against
CUDA itself wherever `pytest -m device` runs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import pytest
import torch

from capplan.core.measurement.batch_search import largest_running_batch
from capplan.core.workload import BatchSearch, TimingMethod
from capplan.probe.measure.devices import CudaDevice, open_device
from capplan.probe.measure.oom import PointError, surviving
from capplan.probe.measure.timing import Rounds
from tests.probe.measure.fake_cuda import FakeCuda

MIB = 2**20
WORK_S = 10e-3
"""Length of the fake's work, and about that of the real one's."""


@dataclass(frozen=True)
class Bench:
    """A device with what the tests do on it: queue work, take memory."""

    device: CudaDevice
    work: Callable[[], object]
    empty: Callable[[int], object]


def fake_bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    fake = FakeCuda()
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(CudaDevice, "now_s", lambda _: fake.now_s())
    monkeypatch.setattr(CudaDevice, "check", lambda _: None)
    return Bench(
        device=opened(), work=lambda: fake.launch(WORK_S, on=0), empty=lambda size_bytes: fake.empty(size_bytes, on=0)
    )


def real_bench() -> Bench:
    device = opened()
    first, second = (torch.randn(4096, 4096, device=device.torch_device) for _ in range(2))
    out = torch.empty_like(first)

    def products(count: int) -> None:
        for _ in range(count):
            torch.mm(first, second, out=out)

    products(20)
    once_s = median(Rounds(device, lambda: products(1), method=TimingMethod.EVENT, flush=False)(20))
    count = max(1, round(WORK_S / once_s))
    return Bench(
        device=device,
        work=lambda: products(count),
        empty=lambda size_bytes: torch.empty(size_bytes, dtype=torch.int8, device=device.torch_device),
    )


def opened() -> CudaDevice:
    device = open_device("cuda:0")
    assert isinstance(device, CudaDevice)
    return device


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.device)])
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = fake_bench(monkeypatch) if request.param == "fake" else real_bench()
    made.device.free_cached()
    with made.device.current():
        yield made
    made.device.free_cached()


def taken_bytes() -> tuple[int, int]:
    return torch.cuda.memory_allocated(0), torch.cuda.memory_reserved(0)


def test_a_launch_returns_before_the_work_is_done(bench: Bench) -> None:
    bench.device.synchronize()
    start_s = bench.device.now_s()
    bench.work()
    launched_s = bench.device.now_s() - start_s
    bench.device.synchronize()
    assert launched_s < 0.5 * (bench.device.now_s() - start_s)


def test_events_and_waiting_agree_on_long_work(bench: Bench) -> None:
    bench.work()
    pairs = []
    for _ in range(5):
        by_method = [
            median(Rounds(bench.device, bench.work, method=method, flush=False)(20))
            for method in (TimingMethod.EVENT, TimingMethod.SYNC)
        ]
        pairs.append(by_method)
    assert min(event_s for event_s, _ in pairs) > 0.5 * WORK_S
    assert median(waited_s / event_s for event_s, waited_s in pairs) == pytest.approx(1, abs=0.02)


def test_an_event_is_read_only_once_recorded_and_passed(bench: Bench) -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises((ValueError, RuntimeError), match="recorded"):
        start.elapsed_time(end)
    start.record()
    bench.work()
    end.record()
    with pytest.raises((ValueError, RuntimeError), match=r"completed|not ready"):
        start.elapsed_time(end)
    bench.device.synchronize()
    assert start.elapsed_time(end) == pytest.approx(1e3 * WORK_S, rel=0.5)


def test_events_without_timing_are_refused(bench: Bench) -> None:
    start, end = torch.cuda.Event(), torch.cuda.Event()
    start.record()
    end.record()
    bench.device.synchronize()
    with pytest.raises((ValueError, RuntimeError), match="enable_timing"):
        start.elapsed_time(end)


def test_peaks_are_those_of_the_allocator_since_the_reset(bench: Bench) -> None:
    before, _ = taken_bytes()
    held = bench.empty(100 * MIB)
    del held
    assert bench.device.memory().peak_allocated_bytes == before + 100 * MIB
    bench.device.reset_peaks()
    assert bench.device.memory().peak_allocated_bytes == before


def test_what_is_freed_stays_reserved_until_it_is_given_back(bench: Bench) -> None:
    before = taken_bytes()
    available = bench.device.available_bytes()
    held = bench.empty(64 * MIB)
    del held
    allocated, reserved = taken_bytes()
    assert (allocated, reserved - before[1]) == (before[0], 64 * MIB)
    # what the allocator holds unused can still be had
    assert bench.device.available_bytes() == pytest.approx(available, abs=4 * MIB)
    bench.device.free_cached()
    assert taken_bytes() == before


def test_too_much_is_an_out_of_memory_error_of_torch(bench: Bench) -> None:
    total = bench.device.total_bytes()
    assert total is not None
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        bench.empty(2 * total)


def test_two_hundred_forced_failures_leave_memory_where_it_was(bench: Bench) -> None:
    total = bench.device.total_bytes()
    assert total is not None
    kept = bench.empty(64 * MIB)
    before, forced = taken_bytes(), 0

    def attempt() -> None:
        nonlocal forced
        forced += 1
        held = [bench.empty(total // 4)]
        held.append(bench.empty(total))

    for _ in range(100):
        with pytest.raises(PointError, match="ran out of memory"):
            surviving(bench.device, attempt, doing="asking for too much")
        assert taken_bytes() == before
    assert forced == 200
    del kept


def test_a_limit_holds_within_and_is_put_back(bench: Bench) -> None:
    with bench.device.limited_to(256 * MIB):
        held = bench.empty(200 * MIB)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            bench.empty(200 * MIB)
        del held
    held = bench.empty(400 * MIB)
    del held


def test_a_tighter_limit_that_was_set_before_is_kept(bench: Bench) -> None:
    total = bench.device.total_bytes()
    assert total is not None
    torch.cuda.set_per_process_memory_fraction(0.25, 0)
    try:
        with bench.device.limited_to(total // 2):
            assert torch.cuda.get_per_process_memory_fraction(0) == 0.25
        assert torch.cuda.get_per_process_memory_fraction(0) == 0.25
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)


def test_both_searches_find_the_batch_that_a_limit_holds(bench: Bench) -> None:
    sample_bytes = 64 * MIB

    def runs(batch: int) -> bool:
        def attempt() -> None:
            bench.empty(batch * sample_bytes)

        try:
            surviving(bench.device, attempt, doing=f"batch {batch}")
        except PointError:
            return False
        return True

    with bench.device.limited_to(16 * sample_bytes + sample_bytes // 2):
        found = {search: largest_running_batch(runs, search=search, at_most=1000) for search in BatchSearch}
    assert set(found.values()) == {16}
