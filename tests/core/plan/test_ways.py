"""Replicas of a plan's GPUs over the load, against queueing theory."""

from types import SimpleNamespace
from typing import Any

import pytest

from capplan.core.plan.ways import replica_curve


def _plan(limit_s: float | None, *fits: Any) -> Any:
    return SimpleNamespace(fits=fits, limits=SimpleNamespace(max_latency_s=limit_s))


def _fit(batch: int, latency_s: float) -> Any:
    latency = SimpleNamespace(latency_s=SimpleNamespace(expected=latency_s))
    return SimpleNamespace(gpu=SimpleNamespace(id="g"), batch=batch, latency=latency)


@pytest.mark.parametrize(("load", "mean_s"), [(0.5, 1.5), (0.7, 1 + 0.7 / 0.6)])
def test_single_samples_wait_as_in_a_queue_with_constant_service(load: float, mean_s: float) -> None:
    # M/D/1, Pollaczek and Khinchine: response = s · (1 + ρ / (2 (1 - ρ))) with s = 1 s
    fit = _fit(1, 1.0)
    curve = replica_curve(_plan(None, fit), fit)
    assert curve.full_per_s == pytest.approx(1.0)
    assert curve.in_flight_at(load) == pytest.approx(load * mean_s, rel=0.08)


def test_a_limit_below_one_service_keeps_nothing_and_a_long_one_almost_all() -> None:
    fit = _fit(1, 1.0)
    assert replica_curve(_plan(0.9, fit), fit).admissible_per_s(0.95) == 0.0
    # P(wait > 9 s) of M/D/1 at ρ = 0.7 is about e^(-2 · 0.3 / 0.7 · 9) < 0.1 %
    assert replica_curve(_plan(10.0, fit), fit).admissible_per_s(0.95) >= 0.7


def test_a_batch_that_was_planned_lasts_as_planned_and_smaller_ones_no_less_than_the_smallest() -> None:
    one, four = _fit(1, 1.0), _fit(4, 2.0)
    curve = replica_curve(_plan(None, one, four), four)
    assert curve.full_per_s == pytest.approx(2.0)  # 4 in 2 s
    assert curve.lone_s == pytest.approx(1.0)
