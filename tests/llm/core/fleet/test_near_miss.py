"""Deployments that would be cheaper if they are as fast as their intervals allow, on a curve with round figures."""

import pytest

from capplan.core.numbers import Interval
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.rescue import near_miss, near_misses
from capplan.llm.core.simulation.load_answer import LatencyLimits
from tests.llm.core.fleet.fits import fit

LOAD = TokenLoad(rate_per_s=16.0, input_len=1000.0, output_len=100)
LIMITS = LatencyLimits(tpot_s=0.021)


def test_the_good_end_of_the_interval_allows_fewer_replicas() -> None:
    # TPOT may be half of what is expected: the limit of 21 ms is then met by the whole curve, of whose 5/s 95 % are
    # planned with, at twice the rate: 9.5/s, so that 2 replicas carry 16/s where 4 are expected to at 4/s each
    found = near_miss(fit(), LOAD, LIMITS)
    assert found is not None
    assert found.replicas == 2
    assert found.usd_per_hour == pytest.approx(2 * 2 * 1.25)
    assert found.expected == pytest.approx(2 * 4.0, rel=1e-6)
    assert found.best == pytest.approx(2 * 9.5, rel=1e-6)
    assert found.words == "4 GPUs = 2 replicas × 2 GPUs"


def test_redundancy_is_kept() -> None:
    found = near_miss(fit(replicas=5), LOAD, LIMITS)
    assert found is not None
    assert found.replicas == 3


def test_clients_are_counted_by_the_requests_that_run_at_a_time() -> None:
    # the limit of 42 ms is met by all 16 running requests: 64 clients take 4 replicas, as is expected with 10 each: 7
    load = TokenLoad(concurrency=64, input_len=1000.0, output_len=100)
    found = near_miss(fit(needed=7, replicas=7), load, LIMITS)
    assert found is not None
    assert (found.replicas, found.expected, found.best) == (4, 4 * 10, 4 * 16)


def test_a_sure_deployment_one_without_a_price_and_a_transferred_one_are_not_named() -> None:
    sure = fit(tpot_s=Interval(low=0.0199, expected=0.02, high=0.0201))
    assert near_miss(sure, LOAD, LIMITS) is None
    assert near_miss(fit(rent=None), LOAD, LIMITS) is None
    assert near_misses([fit(), fit(is_transferred=True)], LOAD, LIMITS) == near_misses([fit()], LOAD, LIMITS)
    assert len(near_misses([fit()], LOAD, LIMITS)) == 1
    assert near_misses([], LOAD, LIMITS) == ()
