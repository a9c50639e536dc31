"""What a fleet that follows its load answers: a burst from zero, and the order of its settings."""

from dataclasses import replace

import numpy as np
import pytest

from capplan.core.numbers import Interval
from capplan.core.scaling.fleet import ScalingSetting, _order, draw_starts
from capplan.core.scaling.policy import Damping, ReplicaBounds, ScalingPolicy, Signal
from capplan.core.scaling.scaler import Scaler
from capplan.llm.core.elastic.burst import follow_burst
from capplan.llm.core.serving.closed_loop import step_grid
from capplan.llm.core.simulation.arrivals import Arrivals
from capplan.llm.core.simulation.continuous_batching import Admission, simulate_requests
from capplan.llm.core.simulation.load_answer import LatencyLimits

AT_ONCE = ScalingPolicy(interval_s=15.0, up=Damping(), down=Damping(window_s=300.0), idle_s=300.0)
ADMISSION = Admission(capacity=32, token_budget=2048, mixes=True)


def _requests(count: int, gap_s: float) -> Arrivals:
    at = np.arange(1, count + 1) * gap_s
    return Arrivals(at_s=at, prompts=np.full(count, 100.0), answers=np.full(count, 50))


def _burst(start_s: float, *, minimum: int = 0, count: int = 400):
    grid = step_grid(40, 2048, lambda decoding, chunk: 0.01 + 0.0001 * chunk + 0.0005 * decoding)
    scaler = Scaler(AT_ONCE, ReplicaBounds(minimum=minimum, maximum=8), signal=Signal.IN_FLIGHT, target=10.0)
    requests = _requests(count, 0.5)
    starts = np.full(8, start_s)
    limits = LatencyLimits(ttft_s=5.0)
    seen = follow_burst(
        requests, scaler, admission=ADMISSION, grid=grid, starts_s=starts, limits=limits, idle_ttft_s=0.0
    )  # fmt: skip
    return seen, requests, grid


def test_the_first_request_of_a_burst_from_zero_waits_for_the_start() -> None:
    # The first request comes at 0.5 s and is seen at the tick of 1 s; its replica is there 60 s later, at a whole tick.
    seen, *_ = _burst(60.0)
    assert 60.0 <= seen.ttft_s[0] <= 63.0
    assert seen.ttft_s[-1] < 1.0
    assert seen.worst_minute == 0.0


def test_longer_starts_never_keep_more_requests_of_a_burst_inside() -> None:
    shares = [_burst(start_s)[0].inside_fraction for start_s in (0.0, 20.0, 60.0, 120.0)]
    assert shares == sorted(shares, reverse=True)


def test_a_replica_that_is_given_requests_as_they_come_serves_them_as_one_that_knows_all() -> None:
    # One replica that stands: ticks hold a request back for 1 s at most, else both simulations are the same.
    seen, requests, grid = _burst(1e6, minimum=1, count=60)
    whole = simulate_requests(requests, ADMISSION, grid, clients=None)
    late = seen.ttft_s - whole.ttft_s
    assert late.min() >= -0.05
    assert late.max() <= 1.1


def test_starts_are_drawn_around_the_quantile_that_is_asked_for() -> None:
    start = Interval(low=30.0, expected=60.0, high=120.0)
    assert float(np.median(draw_starts(start, 0.5))) == pytest.approx(60.0, rel=0.05)
    assert float(np.median(draw_starts(start, 0.95))) == pytest.approx(120.0, rel=0.05)


def test_the_cheapest_that_keeps_the_share_comes_first_else_the_best() -> None:
    usd = Interval.exact(10.0)
    cheap = ScalingSetting(
        minimum=0, target=1.0, usd_per_week=usd, inside=0.90, worst_minute=0, mean_replicas=1, starts=1,
        asleep_fraction=0,
    )  # fmt: skip
    dear = replace(cheap, minimum=1, usd_per_week=Interval.exact(30.0), inside=0.97)
    assert sorted([cheap, dear], key=lambda one: _order(one, 0.95))[0] is dear
    assert sorted([cheap, dear], key=lambda one: _order(one, 0.80))[0] is cheap
    assert sorted([cheap, dear], key=lambda one: _order(one, 0.99))[0] is dear
