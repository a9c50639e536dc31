"""Laws of a timed step: its shares sum to 1, and every function that times it sees the same kernels."""

import pytest
import torch
from torch import nn

import capplan
from capplan.core.latency.breakdown import StepBreakdown, break_down, classic_bound
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.measurement.compare import Theory
from capplan.core.trace.types import Recording
from capplan.core.workload import Framework, Optimizer, Training, Workload
from tests.core.latency.latency_cases import gpu


class Net(nn.Module):
    """A convolution, a norm, an activation and a linear layer, in a submodule and outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean((2, 3)).relu())


WORKLOADS = [
    Workload(framework=framework, training=training)
    for framework in (Framework.EAGER, Framework.COMPILE)
    for training in (None, Training(optimizer=Optimizer.ADAMW))
]
BATCH = 4


@pytest.fixture(scope="module", params=WORKLOADS, ids=lambda each: f"{each.framework}-{each.configuration.mode}")
def step(request: pytest.FixtureRequest) -> ExecutedStep:
    workload = request.param
    trace = capplan.trace(Net(), inputs=["x=3x16x16"], training=workload.training)
    recording: Recording = trace.recording(workload.configuration)
    return ExecutedStep.of(recording, workload)


@pytest.fixture
def breakdown(step: ExecutedStep) -> StepBreakdown:
    found = break_down(step, gpu=gpu(), batch=BATCH)
    assert not isinstance(found, Unsupported)
    return found


def test_flops_of_a_step_are_those_of_its_products(step: ExecutedStep, breakdown: StepBreakdown) -> None:
    # 4 samples: 14 · 14 places, 8 channels of 3 · 9 products each; a layer of 8 by 4. Training adds gradients of both
    # weights and the layer's input; norms, activations and the optimizer hold no products.
    convolution, layer = 4 * 14 * 14 * 8 * 27, 4 * 8 * 4
    macs = convolution + layer if step.workload.training is None else 2 * convolution + 3 * layer
    assert sum(kernel.flops for kernel in breakdown.kernels) == 2 * macs
    assert classic_bound(step, rates=breakdown.rates, batch=BATCH).flops == 2 * macs


def test_shares_of_kernels_sum_to_1(breakdown: StepBreakdown) -> None:
    assert sum(kernel.share_fraction for kernel in breakdown.kernels) == pytest.approx(1)


def test_shares_of_modules_sum_to_1(breakdown: StepBreakdown) -> None:
    assert sum(module.share_fraction for module in breakdown.modules) == pytest.approx(1)


def test_calls_of_modules_are_those_of_kernels(step: ExecutedStep, breakdown: StepBreakdown) -> None:
    assert sum(module.calls for module in breakdown.modules) == len(step.recording.steady_ops())


def test_estimate_and_breakdown_have_the_same_step(step: ExecutedStep, breakdown: StepBreakdown) -> None:
    ((estimate,),) = estimate_latencies(step, gpus=[gpu()], batches=[BATCH])
    assert estimate.latency_s.expected == pytest.approx(breakdown.step_s)


def test_classes_of_a_profile_are_those_of_the_breakdown(step: ExecutedStep, breakdown: StepBreakdown) -> None:
    by_class = Theory(step=step, gpu=gpu()).device_s_by_class(BATCH)
    assert not isinstance(by_class, Unsupported)
    assert set(by_class) == {kernel.label for kernel in breakdown.kernels}
    assert sum(by_class.values()) == pytest.approx(breakdown.device_s)
