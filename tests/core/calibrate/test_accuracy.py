import numpy as np
import pytest

from capplan.core.calibrate.validation import error_statistics, faster_named_right, kendall_tau


def test_errors_are_of_the_measurement():
    # Predicted 1.1, 0.9, 1.5 and 1.0 times the measured: 10 %, 10 %, 50 % and 0 %.
    found = error_statistics(np.log([1.1, 0.9, 1.5, 1.0]))
    assert found.median == pytest.approx(0.10)
    assert found.mean == pytest.approx(0.175)
    assert found.within_25 == 0.75
    assert found.bias == pytest.approx(np.sqrt(1.1 * 1.0))  # the median of four logs is the mean of the middle two


def test_kendall_counts_pairs():
    # Ten pairs; 6 in order and 4 not: (6 - 4) / 10.
    assert kendall_tau([1, 2, 3, 4, 5], [3, 4, 1, 2, 5]) == pytest.approx(0.2)
    assert kendall_tau([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert kendall_tau([1, 1, 1], [1, 2, 3]) is None


def test_only_pairs_that_differ_enough_are_counted():
    # 100 and 105 lie within 10 %; 100 and 200 are named right, 105 and 200 too.
    assert faster_named_right([1, 2, 3], [100, 105, 200]) == (2, 2)
    assert faster_named_right([3, 2, 1], [100, 105, 200]) == (0, 2)


def test_ties_count_as_in_tau_b():
    # scipy.stats.kendalltau says 0.8: 4 concordant pairs, none discordant, one tie on each side.
    assert kendall_tau([1, 2, 2, 3], [1, 3, 2, 3]) == pytest.approx(4 / 5)


def test_ranks_of_very_long_series_come_from_an_evenly_spaced_choice():
    rising = np.arange(1.0, 50001.0)
    assert kendall_tau(rising, rising**2) == pytest.approx(1)
    right, pairs = faster_named_right(rising, rising[::-1])
    assert right == 0
    assert 0 < pairs < 3000 * 2999 / 2
