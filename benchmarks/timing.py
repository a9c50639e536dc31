"""The harness against torch.utils.benchmark on the CPU, in one process: `python benchmarks/timing.py [thread]`.

The two take turns in short rounds, so that a machine that drifts slows both alike; medians of all rounds are compared.
Prints a table, and ends with 1 where a median differs by more than 3 %. On a machine that others use, medians of wall
time tell of the neighbours: `thread` gives both the clock of this thread's processor time instead.
"""

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.utils import benchmark

from capplan.core.workload import TimingMethod, Workload
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.measure.devices import CpuDevice
from capplan.probe.measure.model import ready_model
from capplan.probe.measure.timing import Rounds
from capplan.probe.target.resolve import load_target

MODELS = (
    "timm:test_vit", "timm:test_vit2", "timm:test_vit3", "timm:test_resnet", "timm:test_convnext",
    "timm:test_convnext2", "timm:test_convnext3", "timm:test_efficientnet", "timm:test_mambaout", "timm:test_byobnet",
)  # fmt: skip
"""Small ones: a repetition much longer than the scheduler's slice is interrupted on a busy machine, and its median
then tells of the neighbours."""
TOLERANCE = 0.03
ROUNDS = 200
ROUND_S = 0.01


class Clocked(CpuDevice):
    """The CPU by a clock of choice."""

    def __init__(self, torch_device: torch.device, clock: Callable[[], float]) -> None:
        super().__init__(torch_device)
        self.now_s = clock  # type: ignore[method-assign]


def compare(words: str, clock: Callable[[], float]) -> tuple[float, float]:
    """Median of the harness and of torch.utils.benchmark for one model at batch 1. [s]"""
    request = parse_request()
    device = Clocked(torch.device("cpu"), clock)
    ready = ready_model(load_target(words, request=request), workload=Workload(), device=device.torch_device)
    with torch.inference_mode():
        run = ready.runner(ready.make_inputs(1))
        for _ in range(20):
            run()
        return interleaved(run, device, clock)


def interleaved(run: Callable[[], Any], device: CpuDevice, clock: Callable[[], float]) -> tuple[float, float]:
    ours = Rounds(device, run, method=TimingMethod.CLOCK, flush=False)
    theirs = benchmark.Timer("run()", globals={"run": run}, timer=clock, num_threads=torch.get_num_threads())
    count = max(1, round(ROUND_S / min(ours(5))))
    harness: list[float] = []
    reference: list[float] = []
    for turn in range(ROUNDS):
        pair = [lambda: harness.extend(ours(count)), lambda: reference.extend(single_times(theirs, count))]
        for step in pair if turn % 2 else reversed(pair):
            step()
    return median(harness), median(reference)


def single_times(timer: benchmark.Timer, count: int) -> list[float]:
    """Times of single runs, as `Timer.timeit(1)` reads them."""
    return [timer._timeit(1) for _ in range(count)]  # type: ignore[attr-defined]


def main() -> int:
    torch.set_num_threads(1)
    clock = time.thread_time if sys.argv[1:] == ["thread"] else time.perf_counter
    worst = 0.0
    print(f"{'model':36} {'harness':>10} {'benchmark':>10} {'difference':>10}")
    for words in MODELS:
        ours_s, theirs_s = compare(words, clock)
        difference = ours_s / theirs_s - 1
        worst = max(worst, abs(difference))
        print(f"{words:36} {ours_s * 1e3:7.3f} ms {theirs_s * 1e3:7.3f} ms {100 * difference:+9.2f} %", flush=True)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
