"""No answer for a pair of a device and a software that its maker does not offer, over random questions.

The facts are written out here from what makers print, beside the program's own table: NVIDIA's support matrix of
TensorRT (10.x, and 8.4 for compute capabilities below 7.5), `GPUTooOldForTriton` of torch/_inductor/exc.py, the guides
of PyTorch/XLA and AWS Neuron (no eager mode), Apple's MPSDataType (no double).
"""

import random
from dataclasses import replace
from itertools import islice

import pytest

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import prior_calibration
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.types import Recording
from capplan.core.workload import Framework, Layout, Precision, Workload
from capplan.errors import CapplanError
from capplan.specs.gpus.load import load_gpus
from capplan.specs.rate_laws import load_rate_laws
from tests.core.latency.latency_cases import linear_recording
from tests.seen import at_least

GPUS = at_least(100, load_gpus().values())
DTYPES = ("float32", "half", "float64")
CALIBRATION = replace(prior_calibration(), laws=load_rate_laws())
"""Guessed efficiencies, with the shipped table of software."""


def offers(gpu: GpuSpec, framework: Framework, precision: Precision, dtype: str) -> bool:
    """Return False for what a maker says that it does not offer; True claims nothing."""
    capability, is_cuda = gpu.compute_capability or (99, 0), gpu.vendor == "NVIDIA"
    if framework in (Framework.TENSORRT, Framework.ONNXRUNTIME) and not is_cuda:
        return False
    if framework is Framework.COMPILE_GRAPHS and gpu.vendor not in ("NVIDIA", "AMD"):
        return False
    if framework in (Framework.COMPILE, Framework.COMPILE_GRAPHS) and is_cuda and capability < (7, 0):
        return False
    if framework is Framework.EAGER and gpu.vendor in ("Google", "Amazon"):
        return False
    if framework is Framework.TENSORRT and precision is Precision.INT8 and capability < (6, 1):
        return False
    if framework is Framework.TENSORRT and precision is Precision.BF16 and capability < (8, 0):
        return False
    if precision is Precision.FP8 and is_cuda and capability < (8, 9):
        return False
    if precision is Precision.TF32 and is_cuda and capability < (8, 0):
        return False
    return not (dtype == "float64" and gpu.vendor == "Apple")


def questions(seed: int) -> "list[tuple[GpuSpec, Workload, str, Recording]]":
    """Draw questions that can be put: a device, a framework, a precision, a layout, and a model of some dtype."""
    chance = random.Random(seed)

    def drawn():
        while True:
            dtype = chance.choice(DTYPES)
            try:
                workload = Workload(
                    framework=chance.choice(list(Framework)),
                    precision=chance.choice(list(Precision)),
                    layout=chance.choice(list(Layout)),
                )
            except CapplanError:
                continue
            yield chance.choice(GPUS), workload, dtype, linear_recording(rows=chance.randint(1, 64), dtype=dtype)

    return list(islice(drawn(), 40))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 50))])
def test_no_answer_for_what_a_maker_does_not_offer(seed: int) -> None:
    answered = []
    for gpu, workload, dtype, recording in questions(seed):
        [answer] = estimate_latencies(
            ExecutedStep.of(recording, workload, calibration=CALIBRATION), gpus=[gpu], batches=[1]
        )
        if isinstance(answer, tuple):
            answered.append((gpu.id, workload.framework, workload.precision, dtype))
            assert offers(gpu, workload.framework, workload.precision, dtype), answered[-1]
    assert len(answered) >= 5  # a test that saw refusals alone would show nothing
