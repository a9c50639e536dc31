"""The simulation against closed forms, where these are exact, within its own confidence interval."""

import numpy as np
import pytest

from capplan.core.serving.simulation import Observed, Randomness, Station, greedy_batching, simulate
from tests.core.serving.closed_forms import MarkovQueue, constant_service_wait_quantile_s, mean_wait_constant_service_s

pytestmark = pytest.mark.slow


def affine(fixed_s: float, per_sample_s: float, largest: int) -> list[float]:
    return [fixed_s + per_sample_s * batch for batch in range(1, largest + 1)]


@pytest.fixture(scope="module")
def observed() -> dict[str, Observed]:
    """One long run over the same arrivals for every case."""
    stations = {
        "mm5": Station(rate_per_s=40, batch_times_s=[0.1], replicas=5, service_scv=1.0),
        "md1": Station(rate_per_s=8, batch_times_s=[0.1]),
        "me1": Station(rate_per_s=8, batch_times_s=[0.1], service_scv=0.25),
        "md5": Station(rate_per_s=40, batch_times_s=[0.1], replicas=5),
        "greedy8": Station(rate_per_s=800, batch_times_s=affine(0.002, 0.0005, 8)),
        "greedy16": Station(rate_per_s=1000, batch_times_s=affine(0.004, 0.0005, 16)),
        "window2": Station(rate_per_s=1000, batch_times_s=affine(0.004, 0.0005, 16), window_s=0.002),
        "window10": Station(rate_per_s=1000, batch_times_s=affine(0.004, 0.0005, 16), window_s=0.010),
    }
    ran = simulate(list(stations.values()), randomness=Randomness(arrivals=400_000))
    return dict(zip(stations, ran, strict=True))


def within(interval, exact, *, widths=1.5):
    """Is a figure within the 95 % interval, stretched to what eight such tests need to hold together (99.7 %)?"""
    return abs(exact - interval.expected) <= widths * (interval.high - interval.expected)


def test_mean_response_of_mmc(observed):
    queue = MarkovQueue(rate_per_s=40, service_s=0.1, servers=5)
    assert within(observed["mm5"].mean_s, queue.mean_wait_s + 0.1)
    assert within(observed["mm5"].percentile_s(95), queue.response_quantile_s(0.95))


def test_md1(observed):
    assert within(observed["md1"].mean_s, 0.3)
    exact = constant_service_wait_quantile_s(rate_per_s=8, service_s=0.1, probability=0.95) + 0.1
    assert within(observed["md1"].percentile_s(95), exact)


def test_erlang_service_of_one_server(observed):
    assert within(observed["me1"].mean_s, 0.25 + 0.1)


def test_md5(observed):
    exact = mean_wait_constant_service_s(rate_per_s=40, service_s=0.1, servers=5) + 0.1
    assert within(observed["md5"].mean_s, exact)


@pytest.mark.parametrize(("name", "rate", "times"), [
    ("greedy8", 800, affine(0.002, 0.0005, 8)), ("greedy16", 1000, affine(0.004, 0.0005, 16)),
])  # fmt: skip
def test_greedy_batching(observed, name, rate, times):
    exact = greedy_batching(rate_per_s=rate, batch_times_s=times)
    assert within(observed[name].mean_s, exact.response_s)
    assert observed[name].batch == pytest.approx(exact.batch, rel=0.01)
    assert observed[name].busy_fraction == pytest.approx(exact.busy_fraction, rel=0.002)


def test_percentiles_of_greedy_batching(observed):
    # An independent event-driven simulation: p95 18.743 ms, p99 21.579 ms.
    assert observed["greedy16"].percentile_s(95).expected == pytest.approx(18.743e-3, rel=0.01)
    assert observed["greedy16"].percentile_s(99).expected == pytest.approx(21.579e-3, rel=0.015)


def test_window_with_a_busy_gpu(observed):
    # By two other simulations of the same rule: mean 12.850, 15.567 ms; p95 18.76, 21.00 ms; busy 0.9991, 0.8586.
    short, long = observed["window2"], observed["window10"]
    assert short.mean_s.expected == pytest.approx(12.850e-3, rel=0.01)
    assert short.percentile_s(95).expected == pytest.approx(18.76e-3, rel=0.01)
    assert short.busy_fraction == pytest.approx(0.9991, rel=0.001)
    assert long.mean_s.expected == pytest.approx(15.567e-3, rel=0.01)
    assert long.percentile_s(95).expected == pytest.approx(21.00e-3, rel=0.01)
    assert long.batch == pytest.approx(11.13, rel=0.01)
    assert long.busy_fraction == pytest.approx(0.8586, rel=0.01)


def test_an_idle_station_answers_in_one_batch_time():
    [ran] = simulate([Station(rate_per_s=0.001, batch_times_s=[0.1, 0.1])], randomness=Randomness(arrivals=1000))
    assert ran.responses_s == pytest.approx(np.full(900, 0.1))


def test_by_hand_three_arrivals_in_a_window():
    # Replays the rule on the drawn arrivals: a batch of at most 2 starts when full or when its oldest waited 1 s,
    # and the server is free; it takes 3 s.
    drawn = Randomness(arrivals=60, seed=3, warm_up_fraction=0)
    [ran] = simulate([Station(rate_per_s=1, batch_times_s=[3, 3], window_s=1)], randomness=drawn)
    arrivals = np.cumsum(np.random.default_rng(3).gamma(1, 1, 60))
    expected, free, waiting = [], 0.0, list(arrivals)
    while waiting:
        second = waiting[1] if len(waiting) > 1 else np.inf
        start = max(free, min(waiting[0] + 1, second))
        taken = [when for when in waiting[:2] if when <= start]
        free = start + 3
        expected += [free - when for when in taken]
        waiting = waiting[len(taken) :]
    assert ran.responses_s == pytest.approx(expected)


def test_bursts_wait_longer():
    station = Station(rate_per_s=8, batch_times_s=[0.1])
    [smooth] = simulate([station], randomness=Randomness(arrivals=50_000))
    [bursty] = simulate([station], randomness=Randomness(arrivals=50_000, gap_scv=4))
    # Allen-Cunneen: the wait grows about as (Ca² + Cs²)/2, here fourfold.
    assert 3 < (bursty.mean_s.expected - 0.1) / (smooth.mean_s.expected - 0.1) < 5


def test_littles_law_holds():
    # L by counting who is present at many moments equals λ·W.
    drawn = Randomness(arrivals=50_000, warm_up_fraction=0)
    [ran] = simulate([Station(rate_per_s=1000, batch_times_s=affine(0.004, 0.0005, 16))], randomness=drawn)
    arrivals = np.cumsum(np.random.default_rng(drawn.seed).gamma(1, 1, 50_000)) / 1000
    departures = np.sort(arrivals + ran.responses_s)
    moments = np.linspace(arrivals[1000], arrivals[-1000], 20_001)
    present = np.searchsorted(arrivals, moments, side="right") - np.searchsorted(departures, moments, side="right")
    rate = len(arrivals) / arrivals[-1]
    assert present.mean() == pytest.approx(rate * ran.mean_s.expected, rel=0.01)


def test_stations_of_different_streams_meet_independent_arrivals() -> None:
    """Each stream is the same whichever others are simulated beside it; two of them share no chance."""
    one, two = (Station(rate_per_s=1.0, batch_times_s=[0.5], stream=stream) for stream in (11, 12))
    drawn = Randomness(arrivals=4_000)
    (alone,) = simulate([two], randomness=drawn)
    first, second, again = simulate([one, two, two], randomness=drawn)
    assert second.responses_s == pytest.approx(alone.responses_s, abs=1e-6)
    assert np.array_equal(second.responses_s, again.responses_s)
    waits = np.corrcoef(first.responses_s, second.responses_s)[0, 1]
    assert abs(waits) < 0.2  # M/D/1 at half load remembers a few arrivals, so that 3,600 are worth several hundred
    # Both are the same queue, M/D/1 at a load of one half: a mean of 0.5 + 0.5² / (2 × (1 - 0.5)) = 0.75 s.
    assert first.mean_s.expected == pytest.approx(0.75, rel=0.06)
    assert second.mean_s.expected == pytest.approx(0.75, rel=0.06)
