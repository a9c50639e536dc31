"""Factors on the power of cards, worked out by hand."""

import math

import pytest

from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.calibrate.validation import JudgedStep, LearntPower, learn_power
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.workload import Workload
from capplan.specs import load_gpus
from capplan.specs.fitted import load_power_law

L4 = load_gpus().find("l4")
LAW = load_power_law()


def judged(model: str, power_w: float, *, gpu: str = "l4") -> JudgedStep:
    """Return a step that the law gives 50 W."""
    estimate = LatencyEstimate(
        batch=8, bound_s=0.01, latency_s=Interval.exact(0.1), bound_by=Binding.COMPUTE, share_by_binding=(),
        calibration=None,
    )  # fmt: skip
    step = MeasuredStep(line=1, model=model, gpu=gpu, workload=Workload(), batch=8, latency_s=0.1, power_w=power_w)
    return JudgedStep(step=step, estimate=estimate, power_w=Interval(low=40, expected=50, high=60))


def learnt(*rows: JudgedStep) -> LearntPower:
    (found,) = learn_power(rows, LAW, {"l4": L4, "L4": L4})
    return found


def test_every_model_weighs_the_same() -> None:
    # 45 W twice and 20 W once are 0.9 and 0.4 of the law: the geometric mean of two models is √0.36 = 0.6
    found = learnt(judged("a", 45), judged("a", 45, gpu="L4"), judged("b", 20))
    assert (found.gpu, found.card.rows, found.card.models) == ("l4", 3, 2)
    assert found.card.factor == pytest.approx(0.6)
    # from "b" alone, "a" is 0.4 ÷ 0.9 of what was measured, from "a" alone "b" is 0.9 ÷ 0.4: both errors are ln 2.25
    assert found.card.log_half_width == pytest.approx(math.log(2.25))
    assert found.held_out is not None
    assert found.held_out.count == 3


def test_the_interval_is_never_narrower_than_that_of_an_architecture_with_many_models() -> None:
    widest = max(constants.log_half_width for constants in LAW.architectures.values())
    assert learnt(judged("a", 40), judged("a", 40), judged("b", 40)).card.log_half_width == widest


def test_one_model_leaves_the_interval_of_the_law() -> None:
    found = learnt(judged("a", 40), judged("a", 44), judged("a", 36))
    assert found.held_out is None
    assert found.card.log_half_width == LAW.of(L4).log_half_width
    # (0.8 · 0.88 · 0.72)^⅓
    assert found.card.factor == pytest.approx(0.50688 ** (1 / 3))


def test_two_rows_teach_nothing() -> None:
    assert learn_power([judged("a", 40), judged("b", 40)], LAW, {"l4": L4}) == ()
