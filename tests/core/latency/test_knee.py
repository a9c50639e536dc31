from dataclasses import replace

import pytest

from capplan.core.latency.advice import device_batch, knee_batch, saturating_batch
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.numbers import Interval


def curve(rates: dict[int, float]) -> list[LatencyEstimate]:
    return [
        LatencyEstimate(
            batch=batch,
            bound_s=0.0,
            latency_s=Interval.exact(batch / rate),
            bound_by=Binding.COMPUTE,
            share_by_binding=(),
            calibration=None,
        )
        for batch, rate in rates.items()
    ]


RATES = {1: 100.0, 2: 180.0, 4: 200.0, 8: 205.0}
"""Doublings gain 80 %, 11 % and 2.5 %."""


@pytest.mark.parametrize(("gain", "batch"), [(0.10, 4), (0.20, 2), (0.9, 1), (0.01, 8)])
def test_the_knee_is_where_doubling_stops_paying(gain, batch):
    assert knee_batch(curve(RATES), gain_fraction=gain) == batch


def test_one_point_is_its_own_knee():
    assert knee_batch(curve({16: 10.0})) == 16


def test_a_full_gpu_has_its_knee_at_batch_1():
    assert knee_batch(curve({1: 10.0, 2: 10.1, 4: 10.2})) == 1


def test_between_batches_that_do_not_double_gains_count_per_doubling():
    # From 4 to 6 is log2(1.5) = 0.585 doublings: 10 % there is 1.1^(1/0.585) - 1 = 17.7 % a doubling.
    assert knee_batch(curve({4: 100.0, 6: 110.0}), gain_fraction=0.15) == 6


def test_saturation_is_a_share_of_the_best():
    assert saturating_batch(curve(RATES)) == 4
    assert saturating_batch(curve(RATES), share_fraction=0.99) == 8


@pytest.mark.parametrize(("waiting", "batch"), [((), 1), ((1,), 2), ((1, 2), 4), ((1, 2, 4, 8), None), ((1, 4), 8)])
def test_the_device_takes_over_above_the_last_batch_that_waits_for_launches(waiting, batch):
    points = [
        replace(each, bound_by=Binding.LAUNCHES if each.batch in waiting else Binding.BANDWIDTH)
        for each in curve(RATES)
    ]
    assert device_batch(points) == batch
