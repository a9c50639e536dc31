"""Statistics against published tables, by hand, and by simulation of their promises."""

import tracemalloc

import numpy as np
import pytest

from capplan.core.measurement.statistics import median_interval, median_ratio, summarise


@pytest.mark.parametrize(
    ("count", "low_rank"),
    [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18), (100, 40)],
)
def test_order_statistics_for_the_median(count: int, low_rank: int) -> None:
    """95 % ranks as tabled in D. Altman et al., Statistics with Confidence, 2nd ed. (2000)."""
    interval = median_interval([float(rank) for rank in range(1, count + 1)])
    assert interval is not None
    assert (interval.low, interval.high) == (low_rank, count + 1 - low_rank)


def test_fewer_than_six_samples_bound_nothing() -> None:
    # With five, both extremes miss the median with 2 · 2^-5 = 6.25 % > 5 %.
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) is not None


def test_large_samples_meet_the_exact_ranks() -> None:
    # binomial(1000, 1/2), summed exactly: P(X < 469) = 0.02315, P(X < 470) = 0.02684
    interval = median_interval([float(rank) for rank in range(1, 1001)])
    assert interval is not None
    assert interval.low == 469


def test_the_interval_covers_the_true_median_as_promised() -> None:
    # A skewed law, as timings have: lognormal(0, 0.3), median 1. 2000 trials of 51: sd of the share is 0.5 %.
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(2000):
        interval = median_interval(generator.lognormal(0, 0.3, size=51).tolist())
        assert interval is not None
        covered += interval.low <= 1 <= interval.high
    assert 0.94 <= covered / 2000 <= 0.99


def test_summary_by_hand() -> None:
    # 1..5: mean 3, squared deviations 4+1+0+1+4 = 10, over n - 1 = 4: std sqrt(2.5).
    # Linear percentiles: position 0.9 · 4 = 3.6, so 4.6; 0.95: 4.8; 0.99: 4.96.
    summary = summarise([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (summary.mean, summary.median, summary.minimum, summary.maximum) == (3, 3, 1, 5)
    assert summary.std == pytest.approx(2.5**0.5)
    assert (summary.p90, summary.p95, summary.p99) == pytest.approx((4.6, 4.8, 4.96))


def test_one_sample_has_no_spread() -> None:
    assert summarise([2.0]).std == 0


def test_no_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_ratio_of_a_run_with_itself_is_one() -> None:
    run = np.random.default_rng(1).lognormal(0, 0.05, size=80).tolist()
    ratio = median_ratio(run, run)
    assert ratio.value == 1
    assert ratio.low < 1 < ratio.high


def test_ratio_is_the_same_twice() -> None:
    generator = np.random.default_rng(2)
    first, second = generator.lognormal(size=40).tolist(), generator.lognormal(size=60).tolist()
    assert median_ratio(first, second) == median_ratio(first, second)


def test_equal_runs_differ_in_about_one_of_twenty_comparisons() -> None:
    # 400 comparisons of runs from one law: a 95 % interval misses 1 in 20 ± 4 (three sd of the share are 3.3 %).
    generator = np.random.default_rng(3)
    missed = 0
    for _ in range(400):
        first, second = (generator.lognormal(0, 0.05, size=60).tolist() for _ in range(2))
        ratio = median_ratio(first, second, resamples=400)
        missed += not ratio.low <= 1 <= ratio.high
    assert missed / 400 <= 0.09


def test_a_difference_of_five_percent_is_seen_through_noise_of_two() -> None:
    generator = np.random.default_rng(4)
    first = generator.normal(1.05, 0.02, size=60).tolist()
    second = generator.normal(1.00, 0.02, size=60).tolist()
    ratio = median_ratio(first, second)
    assert ratio.low > 1
    assert ratio.low <= 1.05 <= ratio.high


@pytest.mark.slow
def test_the_bootstrap_takes_memory_for_few_resamples_at_a_time() -> None:
    """All 2,000 resamples of 20,000 timings at once are 40,000,000 positions and as many values: 640 MB."""
    samples = np.random.default_rng(3).lognormal(0, 0.3, size=20_000).tolist()
    tracemalloc.start()
    try:
        ratio = median_ratio(samples, samples)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ratio.value == 1
    assert peak_bytes < 100e6
