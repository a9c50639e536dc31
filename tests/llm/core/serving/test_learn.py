"""Interval widths learnt from held-out errors, worked out by hand."""

from collections.abc import Sequence
from math import exp, sqrt

import numpy as np
import pytest

from capplan.llm.core.serving.cases import Metric, Serving, ServingCase
from capplan.llm.core.serving.fit import Observation
from capplan.llm.core.serving.learn import HeldOutPredictions, LearntRun, interval_widths
from capplan.llm.core.serving.service import Demand
from capplan.llm.core.timing.calibration import Width
from tests.llm.core.architectures import LLAMA_8B
from tests.llm.core.timing.test_step_time import machine
from tests.llm.core.timing.test_work import kernels


def run(gpu: str, deployment: str, *, engine: str = "vllm") -> LearntRun:
    case = ServingCase(
        kernels=kernels(LLAMA_8B),
        machine=machine(),
        engine=engine,
        demand=Demand(input_len=512, output_len=128, capacity=256),
        serving=Serving.CLOSED_LOOP,
    )
    observation = Observation(case=case, metric=Metric.TPOT, value=1.0, block=deployment)
    return LearntRun(
        observation=observation, gpu=gpu, model="llama", family="llama", width="tpot, dense", deployment=deployment
    )


def widths(runs: Sequence[LearntRun], errors: Sequence[float]) -> dict[str, Width]:
    predicted = np.exp(np.array(errors))
    held_out = HeldOutPredictions(same=predicted, other_gpu=predicted, other_model=predicted, other_family=predicted)
    return interval_widths(runs, held_out).by_name


def test_the_width_for_a_new_gpu_covers_gpus_that_it_was_not_learnt_from() -> None:
    # Two GPUs with errors of 0.1 and of 0.3. All together have a half-width of 0.3. Learnt from the first GPU alone
    # it is 0.1, and 0.3² − 0.1² = 0.08 is missing in the square for the second.
    runs = [*(run("a", f"a{index}") for index in range(10)), *(run("b", f"b{index}") for index in range(10))]
    found = widths(runs, [0.1] * 10 + [0.3] * 10)["tpot, dense"]
    assert found.same == pytest.approx(exp(0.3))
    assert found.other_gpu == pytest.approx(exp(sqrt(0.3**2 + 0.08)))
    assert found.other_model == pytest.approx(exp(0.3))  # there is no second model to learn it from


def test_runs_are_judged_by_widths_that_are_learnt_without_their_gpu() -> None:
    # as above: the first GPU's from the second, 0.3² + 0.08, and the second's from the first, 0.1² + 0.08
    runs = [*(run("a", f"a{index}") for index in range(10)), *(run("b", f"b{index}") for index in range(10))]
    predicted = np.exp(np.array([0.1] * 10 + [0.3] * 10))
    held_out = HeldOutPredictions(same=predicted, other_gpu=predicted, other_model=predicted, other_family=predicted)
    found = interval_widths(runs, held_out).without_gpu
    assert found[0].other_gpu == pytest.approx(exp(sqrt(0.17)))
    assert found[-1].other_gpu == pytest.approx(exp(0.3))


def test_a_generation_of_an_engine_has_a_width_between_its_own_and_its_engines() -> None:
    runs = [
        *(run("a", f"new{index}", engine="trtllm") for index in range(9)),
        *(run("a", f"old{index}", engine="trtllm before 1.0") for index in range(9)),
    ]
    found = widths(runs, [0.2] * 9 + [0.4] * 9)
    # The 90 % quantile of all is 0.4, so is the engine's. Nine deployments weigh 9 ÷ (9 + 3) = 0.75 of the square.
    assert found["tpot, dense, trtllm before 1.0"].same == pytest.approx(exp(0.4))
    assert found["tpot, dense, trtllm"].same == pytest.approx(exp(sqrt(0.75 * 0.04 + 0.25 * 0.16)))


def test_the_spread_within_deployments_leaves_out_what_their_runs_share() -> None:
    # Deployments off by +0.5 and −0.5, their two runs 0.1 to either side: 0.1 · √(2 ÷ 1) around a mean of two runs.
    runs = [run("a", "one"), run("a", "one"), run("a", "other"), run("a", "other")]
    found = widths(runs, [0.4, 0.6, -0.4, -0.6])["tpot, dense"]
    assert found.within == pytest.approx(exp(0.1 * sqrt(2)))
    assert found.same == pytest.approx(exp(0.6))
