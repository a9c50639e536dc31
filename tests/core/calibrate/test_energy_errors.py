"""Errors of power and energy of measured steps, worked out by hand."""

import pytest

from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.calibrate.validation import JudgedStep, validate
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.workload import Workload


def judged(power_w: float | None, *, gpu: str = "l4") -> JudgedStep:
    estimate = LatencyEstimate(
        batch=8, bound_s=0.01, latency_s=Interval(low=0.08, expected=0.1, high=0.12), bound_by=Binding.COMPUTE,
        share_by_binding=(), calibration=None,
    )  # fmt: skip
    step = MeasuredStep(line=1, model="net", gpu=gpu, workload=Workload(), batch=8, latency_s=0.1, power_w=power_w)
    if power_w is None:
        return JudgedStep(step=step, estimate=estimate)
    return JudgedStep(
        step=step,
        estimate=estimate,
        power_w=Interval(low=40, expected=50, high=60),
        joules_per_sample=Interval(low=0.5, expected=0.6, high=0.7),
    )


def test_power_and_joules_of_rows_that_state_power_are_judged_by_gpu() -> None:
    found = validate([judged(40.0), judged(80.0, gpu="t4"), judged(None)], [], by=["gpu"]).energy()
    # 50 W against 40 W is a quarter too much, against 80 W three eighths too little and outside 40 to 60 W
    assert found["power_w"]["l4"].median == pytest.approx(0.25)
    assert found["power_w"]["t4"].median == pytest.approx(0.375)
    assert (found["power_w"]["all"].count, found["power_w"]["all"].coverage) == (2, 0.5)
    # 40 W for 0.1 s and 8 samples are 0.5 J, 80 W are 1 J
    assert found["joules_per_sample"]["l4"].median == pytest.approx(0.2)
    assert found["joules_per_sample"]["t4"].median == pytest.approx(0.4)


def test_rows_without_power_have_no_energy_to_judge() -> None:
    assert validate([judged(None)], [], by=["gpu"]).energy() == {}
