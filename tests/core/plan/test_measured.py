"""A model's own times in its plan: as measured at that batch, in proportion at others."""

import pytest

from capplan.core.latency.types import Binding, Evidence, LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.plan.measured import OwnTime, as_measured


def estimate(batch: int, expected_s: float) -> LatencyEstimate:
    return LatencyEstimate(
        batch=batch, bound_s=expected_s / 2, latency_s=Interval.around(expected_s, 1.5), bound_by=Binding.COMPUTE,
        share_by_binding=((Binding.COMPUTE, 1.0),), calibration=None, evidence=Evidence.SPEC_SHEET,
        evidence_reason="data sheet",
    )  # fmt: skip


def timed(time_s: float) -> OwnTime:
    return OwnTime(Interval.exact(time_s), "2.13.0+cpu")


ROW = {batch: estimate(batch, batch * 1e-3) for batch in (1, 2, 4, 8)}


def test_a_batch_that_was_measured_has_its_time_and_says_so() -> None:
    took = Interval(low=0.009, expected=0.010, high=0.012)
    row = as_measured(ROW, {4: OwnTime(took, "2.13.0+cpu")})
    assert row[4].latency_s == took
    assert row[4].evidence is Evidence.MEASURED
    assert row[4].evidence_reason == "this model was measured on this GPU, with torch 2.13.0+cpu"


def test_other_batches_take_as_much_more_as_the_nearest_one() -> None:
    # batch 4 took 10 ms where 4 ms were expected, batch 1 took 1 ms as expected; 8 is near 4, and 2 is as near to 1
    row = as_measured(ROW, {4: timed(0.010), 1: timed(0.001)})
    assert row[8].latency_s.expected == pytest.approx(0.020)
    assert row[2].latency_s.expected == pytest.approx(0.002)
    assert row[8].evidence is Evidence.SPEC_SHEET
    assert row[8].evidence_reason == "data sheet; in proportion to what batch 4 took"
    assert row[8].latency_s.high / row[8].latency_s.expected == pytest.approx(1.5)


def test_no_bound_is_above_a_time_that_was_measured() -> None:
    row = as_measured(ROW, {8: timed(0.001)})
    assert all(one.bound_s <= one.latency_s.low for one in row.values())


def test_nothing_measured_changes_nothing() -> None:
    assert as_measured(ROW, {}) == ROW
    assert as_measured(ROW, {3: timed(1.0)}) == ROW
