"""The harness on a real GPU, against timing written by hand."""

from collections.abc import Callable
from statistics import median

import pytest
import torch

from capplan.core.measurement import TimingMethod
from capplan.core.measurement_search import Search, largest_running_batch
from capplan.probe.measure.device import TorchDevice, open_device
from capplan.probe.measure.oom import PointError, surviving
from capplan.probe.measure.timing import StopRule, WarmUpRule, repeat, warm_up

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture
def device() -> TorchDevice:
    return open_device("cuda:0")


@pytest.fixture
def long_run(device: TorchDevice) -> Callable[[], object]:
    """Matrix products of about 5 ms or more on any GPU so far."""
    first, second = (torch.randn(8192, 8192, device=device.torch_device) for _ in range(2))
    out = torch.empty_like(first)

    def run() -> None:
        for _ in range(4):
            torch.mm(first, second, out=out)

    warm_up(device, run, WarmUpRule())
    return run


def timed(device: TorchDevice, run: Callable[[], object], method: TimingMethod) -> float:
    samples_s = repeat(device, run, method=method, rule=StopRule(repetitions=100), expected_s=10e-3)
    return median(samples_s)


def test_events_agree_with_events_written_by_hand(device: TorchDevice, long_run: Callable[[], object]) -> None:
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(100)]
    for start, end in pairs:
        start.record()
        long_run()
        end.record()
    torch.cuda.synchronize()
    by_hand_s = median(start.elapsed_time(end) for start, end in pairs) * 1e-3
    assert timed(device, long_run, TimingMethod.EVENT) == pytest.approx(by_hand_s, rel=0.005)


def test_events_and_synchronising_agree_and_the_naive_method_does_not(
    device: TorchDevice, long_run: Callable[[], object]
) -> None:
    by_events_s = timed(device, long_run, TimingMethod.EVENT)
    by_waiting_s = timed(device, long_run, TimingMethod.SYNC)
    naive_s = repeat(device, long_run, method=TimingMethod.NAIVE, rule=StopRule(repetitions=5), expected_s=10e-3)
    assert by_waiting_s == pytest.approx(by_events_s, rel=0.01)
    assert naive_s[0] < 0.5 * by_events_s


def test_two_hundred_failures_leave_the_device_clean(device: TorchDevice) -> None:
    total = torch.cuda.get_device_properties(0).total_memory

    def attempt() -> None:
        held = [torch.empty(total // 4, dtype=torch.int8, device=device.torch_device) for _ in range(2)]
        held.append(torch.empty(total, dtype=torch.int8, device=device.torch_device))

    device.free_cached()
    before = torch.cuda.memory_allocated()
    for _ in range(100):
        with pytest.raises(PointError, match="ran out of memory"):
            surviving(device, attempt, doing="asking for too much")
    assert torch.cuda.memory_allocated() == before


def test_both_searches_find_the_same_batch(device: TorchDevice) -> None:
    sample_bytes = 64 * 2**20

    def runs(batch: int) -> bool:
        def attempt() -> None:
            torch.empty(batch * sample_bytes, dtype=torch.int8, device=device.torch_device).zero_()

        try:
            surviving(device, attempt, doing=f"batch {batch}")
        except PointError:
            return False
        return True

    with device.limited_to(2**30):
        found = {search: largest_running_batch(runs, search=search, at_most=1000) for search in Search}
    assert found[Search.BINARY] == found[Search.SEQUENTIAL] == 16


def test_peaks_are_those_of_the_allocator(device: TorchDevice) -> None:
    device.free_cached()
    before = torch.cuda.memory_allocated()
    device.reset_peaks()
    torch.empty(100 * 2**20, dtype=torch.int8, device=device.torch_device)
    assert device.memory().peak_allocated_bytes == before + 100 * 2**20
