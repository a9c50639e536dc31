"""Speeds of timm's models that a stranger published: they are in no fit."""

from functools import cache

import pytest

from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Host, Optimizer, Precision, Training, Workload
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration

pytestmark = [pytest.mark.slow, pytest.mark.zoo]

PUBLISHED = {
    (Precision.TF32, "infer"): {"rtx-3090": 1679.9, "rtx-4090": 2433.1, "rtx-5090": 3576.8},
    (Precision.TF32, "train"): {"rtx-3090": 523.0, "rtx-4090": 757.5, "rtx-5090": 1128.6},
    (Precision.FP16, "infer"): {"rtx-3090": 2973.1, "rtx-4090": 4601.8, "rtx-5090": 5741.6},
    (Precision.FP16, "train"): {"rtx-3090": 888.7, "rtx-4090": 1360.6, "rtx-5090": 1623.9},
}
"""ResNet-50, 224 pixels, 256 images, images a second: NikolasEnt.github.io, 2025-02-17, timm's benchmark.py 1.0.14 with
PyTorch 2.6 nightly on a Ryzen 9 9950X. Its "FP16" is a model in half precision (Swin-B is faster than under autocast in
timm's own tables), its "FP32" TF32, which that script allows."""
MOST_TIMES_OFF = 1.25
FEWEST_INSIDE = 10
"""Of twelve. Two kinds of GPU of each three have rows of the same script in the fit, the RTX 5090 has none."""


@cache
def traced(workload: Configuration) -> Trace:
    return trace_target(load_target("timm:resnet50", request=parse_request()), configurations=[workload])


@cache
def estimate(precision: Precision, task: str, gpu: str, torch: tuple[int, int] = (2, 6)) -> LatencyEstimate:
    training = Training(optimizer=Optimizer.MOMENTUM) if task == "train" else None
    workload = Workload(precision=precision, torch_version=torch, training=training, host=Host.DESKTOP)
    recording = traced(workload.configuration).recording(workload.configuration)
    step = ExecutedStep.of(recording, workload, calibration=load_calibration())
    (row,) = estimate_latencies(step, gpus=[load_gpus()[gpu]], batches=[256])
    assert not isinstance(row, Unsupported)
    return row[0]


CASES = [(*key, gpu, speed) for key, speeds in PUBLISHED.items() for gpu, speed in speeds.items()]


@pytest.mark.parametrize(("precision", "task", "gpu", "speed"), CASES)
def test_published_speed_of_resnet50(precision: Precision, task: str, gpu: str, speed: float) -> None:
    expected = 256 / estimate(precision, task, gpu).latency_s.expected
    assert speed / MOST_TIMES_OFF < expected < speed * MOST_TIMES_OFF


def test_most_published_speeds_lie_inside_the_interval() -> None:
    inside = [
        each.low <= 256 / speed <= each.high
        for precision, task, gpu, speed in CASES
        if (each := estimate(precision, task, gpu).latency_s)
    ]
    assert sum(inside) >= FEWEST_INSIDE


def test_a_release_older_than_a_chip_makes_its_interval_wider_and_no_other_chips() -> None:
    def high(gpu: str, torch: tuple[int, int]) -> float:
        time_s = estimate(Precision.FP16, "train", gpu, torch).latency_s
        return time_s.high / time_s.expected

    assert high("rtx-5090", (2, 5)) > 1.15 * high("rtx-5090", (2, 6))
    assert high("rtx-4090", (2, 5)) <= high("rtx-4090", (2, 6))
    assert any("before 2.6" in note for note in estimate(Precision.FP16, "train", "rtx-5090", (2, 5)).notes)
