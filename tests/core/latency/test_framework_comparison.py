"""One model every way: which ways, and gains against the first."""

from dataclasses import replace
from functools import partial

import pytest

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.advice import compare_frameworks, compared_configurations, compared_workloads
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.trace.types import Provenance, Trace
from capplan.core.workload import Framework, Layout, Precision, Workload
from tests.core.latency.latency_cases import gpu, linear_recording

ASKED = Workload(precision=Precision.FP16)


def alone(card: GpuSpec, step: ExecutedStep) -> LatencyEstimate | Unsupported:
    """Return the time of a batch of 8 on one GPU without a power limit."""
    (answer,) = estimate_latencies(step, gpus=[card], batches=[8])
    return answer if isinstance(answer, Unsupported) else answer[0]


@pytest.fixture
def trace():
    return Trace(
        name="linear", target="linear", class_name="Linear", parameters=(), inputs=(),
        recordings=(linear_recording(),), provenance=Provenance(capplan_version="0"),
    )  # fmt: skip


def test_the_ways_are_eager_in_both_layouts_and_compiled_in_each_precision():
    # Three precisions; eager in two layouts, compiled with and without CUDA graphs in one: 4 ways each.
    ways = compared_workloads(ASKED)
    assert ways[0] == ASKED
    assert len(ways) == 12
    assert len(compared_configurations(ways)) == 6


def test_gains_are_against_what_was_asked(trace):
    ways = [
        ASKED,
        *(replace(ASKED, framework=framework) for framework in (Framework.COMPILE, Framework.COMPILE_GRAPHS)),
    ]
    asked, compiled, graphs = compare_frameworks(trace, ways, batch=8, calibration=None, estimate=partial(alone, gpu()))
    assert asked.gain == 1
    assert compiled.gain == pytest.approx(asked.estimate.latency_s.expected / compiled.estimate.latency_s.expected)
    # CUDA graphs leave the device's time alone, which the host can only lengthen.
    assert graphs.gain >= compiled.gain


def test_what_was_not_traced_is_told(trace):
    ways = [ASKED, Workload(precision=Precision.FP16, layout=Layout.NHWC)]
    _, other = compare_frameworks(trace, ways, batch=8, calibration=None, estimate=partial(alone, gpu()))
    assert other.estimate is None
    assert "capplan trace" in other.reason


def test_a_precision_that_the_gpu_lacks_is_told(trace):
    ways = [ASKED, Workload(precision=Precision.BF16)]
    old = gpu(peak_flops_per_s={kind: rate for kind, rate in gpu().peak_flops_per_s.items() if kind.value != "bf16"})
    _, other = compare_frameworks(trace, ways, batch=8, calibration=None, estimate=partial(alone, old))
    assert other.estimate is None
    assert "bf16" in other.reason
