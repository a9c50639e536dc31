"""The harness against torch.utils.benchmark on the CPU, in one process: `python benchmarks/timing.py`.

The two take turns in short rounds, so that a machine that drifts or is shared slows both alike; medians of all
rounds are compared. Prints a table, and ends with 1 where a median differs by more than 3 %.
"""

import sys
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.utils import benchmark

from capplan.core.measurement import TimingMethod
from capplan.core.workload import Workload
from capplan.probe.inputs import parse_request
from capplan.probe.measure.device import open_device
from capplan.probe.measure.model import ready_model
from capplan.probe.measure.timing import Rounds
from capplan.probe.target import load_target

MODELS = (
    "timm:mobilenetv3_small_050", "timm:tinynet_e", "timm:lcnet_050", "timm:test_vit", "timm:test_resnet",
    "timm:test_convnext", "timm:test_efficientnet", "torchvision:squeezenet1_1", "torchvision:shufflenet_v2_x0_5",
    "timm:mobilevit_xxs",
)  # fmt: skip
TOLERANCE = 0.03
ROUNDS = 200
ROUND_S = 0.01


def compare(words: str) -> tuple[float, float]:
    """Median of the harness and of torch.utils.benchmark for one model at batch 1. [s]"""
    request = parse_request(input_size="3x96x96")
    device = open_device("cpu")
    ready = ready_model(load_target(words, request=request), workload=Workload(), device=device.torch_device)
    with torch.inference_mode():
        run = ready.runner(ready.make_inputs(1))
        for _ in range(20):
            run()
        return interleaved(run, device)


def interleaved(run: Callable[[], Any], device: Any) -> tuple[float, float]:
    ours = Rounds(device, run, method=TimingMethod.CLOCK, flush=False)
    theirs = benchmark.Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
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
    worst = 0.0
    print(f"{'model':36} {'harness':>10} {'benchmark':>10} {'difference':>10}")
    for words in MODELS:
        ours_s, theirs_s = compare(words)
        difference = ours_s / theirs_s - 1
        worst = max(worst, abs(difference))
        print(f"{words:36} {ours_s * 1e3:7.3f} ms {theirs_s * 1e3:7.3f} ms {100 * difference:+9.2f} %", flush=True)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
