"""Rates, burstiness and trends of observed requests, by hand."""

import math

import numpy as np
import pytest

from capplan.core.serving.observed import HOUR_S, ObservedArrivals, spread_of_buckets

MONDAY_S = 1_700_438_400
"""2023-11-20 00:00 UTC, a Monday."""


def arrivals(per_bin: "np.typing.NDArray[np.float64]", *, bin_s: int = 600) -> ObservedArrivals:
    end_s = MONDAY_S + bin_s * len(per_bin)
    return ObservedArrivals(begin_s=MONDAY_S, first_s=MONDAY_S, last_s=end_s, bin_s=bin_s, counts=per_bin.astype(float))


def test_the_busiest_hour_of_two_weeks_is_found_with_its_rate() -> None:
    counts = np.full(14 * 24 * 6, 60.0)  # 0.1/s
    hour = 24 * 6 * 1 + 14 * 6  # Tuesday 14 h
    counts[hour : hour + 6] = 600.0  # 1/s
    seen = arrivals(counts)
    assert seen.busiest == (MONDAY_S + 38 * HOUR_S, pytest.approx(1.0))
    assert seen.daily_peak_per_s is not None
    assert seen.daily_peak_per_s[14] == pytest.approx(1.0)
    assert seen.daily_mean_per_s is not None
    assert seen.daily_mean_per_s[14] == pytest.approx((1.0 + 13 * 0.1) / 14)  # one of fourteen days
    assert seen.weekly_mean_per_s is not None
    assert seen.weekly_mean_per_s[24 + 14] == pytest.approx((1.0 + 0.1) / 2)  # one of two Tuesdays
    assert seen.mean_per_s == pytest.approx(0.1 + 0.9 / (14 * 24))


def test_hours_of_which_the_window_holds_minutes_have_no_rate_of_their_own() -> None:
    counts = np.zeros(3 * 6)
    counts[5], counts[6:12], counts[12] = 600.0, 60.0, 50.0
    seen = ObservedArrivals(
        begin_s=MONDAY_S, first_s=MONDAY_S + 3595, last_s=MONDAY_S + 2 * HOUR_S + 300, bin_s=600, counts=counts
    )
    assert seen.hourly == ((MONDAY_S + HOUR_S, pytest.approx(0.1)),)  # 5 s before and 5 min after are left out


@pytest.mark.parametrize(("size", "expected"), [(1, 1.0), (4, 4.0)])
def test_burstiness_of_batches_at_poisson_times_is_their_size(size: int, expected: float) -> None:
    """Batches of n at Poisson times have variance n² λ and mean n λ in a bin: n is their ratio."""
    draw = np.random.default_rng(5)
    counts = size * draw.poisson(100.0 / size, size=48 * 360)
    assert arrivals(counts, bin_s=10).burstiness == pytest.approx(expected, rel=0.05)


def test_the_course_of_a_day_is_not_burstiness() -> None:
    draw = np.random.default_rng(6)
    mean = 100 * (1 + 0.9 * np.sin(np.arange(7 * 24) * 2 * math.pi / 24))
    counts = draw.poisson(np.repeat(mean, 360))
    assert arrivals(counts, bin_s=10).burstiness == pytest.approx(1.0, rel=0.05)


def test_too_few_requests_show_no_burstiness() -> None:
    assert arrivals(np.ones(360), bin_s=10).burstiness is None


def test_growth_of_eight_weeks_is_compounded_over_a_year() -> None:
    """2 % a week is 1.02 ^ (365.25 / 7) - 1 = 181 % a year."""
    weeks = 1000 * 1.02 ** np.arange(8)
    seen = arrivals(np.repeat(weeks, 7 * 24 * 6))
    assert seen.growth is not None
    assert seen.growth.weeks == 8
    assert seen.growth.per_year_fraction == pytest.approx(1.02 ** (365.25 / 7) - 1)


def test_a_trend_within_chance_or_of_three_weeks_is_none() -> None:
    assert arrivals(np.repeat(1000 * 1.02 ** np.arange(3), 7 * 24 * 6)).growth is None
    weeks = np.array([1000.0, 1200, 900, 1100, 950, 1150])
    assert arrivals(np.repeat(weeks, 7 * 24 * 6)).growth is None


def test_buckets_give_mean_deviation_and_quantiles() -> None:
    """50 values even over 0..100 and 50 over 100..300.

    E[x] = (50 + 200) / 2 = 125; E[x²] = (100²/3 + (100² + 100·300 + 300²)/3) / 2 = (3333.3 + 43333.3) / 2 = 23333.3;
    the deviation is √(23333.3 - 15625) = 87.8. The 90th of 100 values is 100 + 200 · 40/50 = 260.
    """
    found = spread_of_buckets([100.0, 300.0], [50.0, 50.0, 0.0], total=100.0, sum_of_values=12_600.0)
    assert found is not None
    assert found.mean == 126.0  # the sum that the histogram states, not that of the buckets
    assert found.cv == pytest.approx(87.8 / 125, rel=1e-3)
    assert found.quantiles[0.5] == pytest.approx(100.0)
    assert found.quantiles[0.9] == pytest.approx(260.0)
