"""Laws of a fleet that follows its load, and charges by hand."""

from dataclasses import replace

import numpy as np
import pytest

from capplan.core.scaling.charge import Charge, charged_usd
from capplan.core.scaling.load import WEEK_S, Burst, WeekLoad, week_of
from capplan.core.scaling.policy import Damping, ReplicaBounds, ScalingPolicy, Signal
from capplan.core.scaling.replica_curve import ReplicaCurve
from capplan.core.scaling.scaler import Scaler
from capplan.core.scaling.week import ReplayedWeek, replay

AT_ONCE = ScalingPolicy(interval_s=1.0, up=Damping(), down=Damping())
DAY = 24 * 3600
CURVE = ReplicaCurve(
    full_per_s=10.0,
    in_flight=np.linspace(0.0, 50.0, 256),
    ttft_s=np.full(256, 0.5),
    e2e_s=np.full(256, 5.0),
    inside_fraction=np.ones(256),
    slack_s=np.full(256, 1.5),
    ttft_limit_s=2.0,
)


def _replayed(
    rates: np.ndarray, *, start_s: float, minimum: int = 1, policy: ScalingPolicy = AT_ONCE, tick_s: float = 1.0
) -> ReplayedWeek:
    scaler = Scaler(policy, ReplicaBounds(minimum=minimum, maximum=99), signal=Signal.RATE, target=1.0)
    return replay(rates, tick_s, CURVE, scaler, starts_s=np.full(64, start_s), seed=3)


def _wave(seconds: int = 7200) -> np.ndarray:
    return 200.0 * (1.0 + np.sin(np.arange(seconds) / 600.0))


def test_without_a_start_and_delays_the_cost_is_the_integral_of_the_load() -> None:
    # 10 requests/s a replica: the integral of the rate over 10 are the replica-seconds that full replicas would take
    rates = _wave()
    found = _replayed(rates, start_s=0.0)
    usd = charged_usd(found.replicas, 1.0, Charge(usd_per_machine_hour=3600.0))
    ideal = rates.sum() / CURVE.full_per_s
    assert ideal <= usd * 1.01
    assert usd <= 1.08 * ideal  # whole replicas: half a one more in the mean, and the noise of arrivals


@pytest.mark.parametrize(("short", "long"), [(0.0, 20.0), (20.0, 60.0), (60.0, 300.0)])
def test_longer_starts_never_keep_more_requests_inside(short: float, long: float) -> None:
    rates = np.concatenate([np.full(600, 5.0), np.full(1800, 60.0), np.full(1200, 20.0), np.full(1200, 90.0)])
    assert _replayed(rates, start_s=long).inside <= _replayed(rates, start_s=short).inside + 1e-12


@pytest.mark.parametrize("minimum", [1, 3, 6])
def test_more_replicas_at_least_never_break_more_limits(minimum: int) -> None:
    rates = np.concatenate([np.full(600, 5.0), np.full(1200, 60.0), np.full(600, 5.0), np.full(600, 80.0)])
    fewer = _replayed(rates, start_s=120.0, minimum=minimum)
    assert fewer.inside <= _replayed(rates, start_s=120.0, minimum=minimum + 1).inside + 1e-12


def test_a_constant_load_gives_the_standing_fleet() -> None:
    # 37 requests/s over 10 a replica: 4 replicas, the noise of arrivals averaged over two minutes
    policy = replace(AT_ONCE, average_s=120.0, down=Damping(window_s=300.0))
    found = _replayed(np.full(7200, 37.0), start_s=0.0, policy=policy)
    assert set(found.replicas[1200:].tolist()) == {4}


def test_requests_wait_for_the_replica_that_starts() -> None:
    # Nothing stands. The first request wakes a replica that is there 100 s later; 1 request/s until then are 100, which
    # it serves at 10/s while 1/s come: the last waits are gone after 100 / 9 s
    policy = replace(AT_ONCE, idle_s=300.0)
    found = _replayed(np.full(400, 1.0), start_s=100.0, minimum=0, policy=policy)
    assert 90.0 <= found.wait_s[found.arrived > 0].max() <= 101.0
    assert found.wait_s[130:].max() == 0.0


def test_a_fleet_sleeps_when_nothing_comes() -> None:
    policy = replace(AT_ONCE, idle_s=300.0)
    rates = np.concatenate([np.full(600, 5.0), np.zeros(1200)])
    found = _replayed(rates, start_s=0.0, minimum=0, policy=policy)
    assert found.replicas[890] == 1
    assert found.replicas[-1] == 0
    asleep = int(np.flatnonzero(found.replicas[600:] == 0)[0])
    assert 295 <= asleep <= 302


def test_whole_machines_and_the_shortest_time_are_charged() -> None:
    # 3 replicas on machines of 2 for 10 s: 2 machines; then 1 machine for 10 s. At 3600 USD/h: 20 + 10 machine-seconds
    replicas = np.array([3] * 10 + [1] * 10 + [0] * 5)
    plain = Charge(usd_per_machine_hour=3600.0, replicas_per_machine=2)
    assert charged_usd(replicas, 1.0, plain) == pytest.approx(30.0)
    # at least 60 s each: one machine ran 20 s, the other 10 s
    assert charged_usd(replicas, 1.0, replace(plain, minimum_s=60.0)) == pytest.approx(120.0)


def test_a_longer_shortest_charge_never_costs_less() -> None:
    history = _replayed(_wave(), start_s=30.0).replicas
    costs = [charged_usd(history, 1.0, Charge(usd_per_machine_hour=3.0, minimum_s=s)) for s in (0, 60, 600, 3600)]
    assert costs == sorted(costs)


def test_a_week_has_the_requests_of_its_days() -> None:
    day = tuple(float(hour) for hour in range(24))
    load = WeekLoad(hourly_per_s=week_of(day, requests_per_day=86_400, days=5))
    assert load.requests == pytest.approx(5 * 86_400)
    # the last hour has 23 of 276 parts: 7,200 requests in 3,600 s
    assert load.peak_per_s == pytest.approx(2.0)
    assert load.hourly_per_s[5 * 24 :] == (0.0,) * 48


def test_a_burst_multiplies_the_rate_while_it_lasts() -> None:
    load = WeekLoad(hourly_per_s=(1.0,) * 168, bursts=(Burst(hour=10.0, lasts_s=600.0, times=5.0),))
    assert load.peak_per_s == 5.0
    assert load.requests == pytest.approx(WEEK_S + 4 * 600)
