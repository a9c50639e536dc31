"""Follow a fleet that scales over a week, tick by tick: what comes, what runs, what waits, and what is charged.

Between two ticks nothing changes. Requests come in order and are served in order, as a fluid; the replicas that are
ready share them evenly.
"""

import heapq
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray, IntArray
from capplan.core.scaling.policy import ScalerReading, Signal
from capplan.core.scaling.replica_curve import ReplicaCurve
from capplan.core.scaling.scaler import Scaler


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedWeek:
    """What happened at each tick: requests that came, the share of these that kept the limits, replicas that existed.

    `wait_s` is how long the requests of a tick waited for a replica. [s]
    """

    tick_s: float
    arrived: FloatArray
    inside_fraction: FloatArray
    wait_s: FloatArray
    replicas: IntArray
    starts: int

    @property
    def inside(self) -> float:
        """Return the share of all requests that kept the limits; 1 without requests."""
        total = float(self.arrived.sum())
        return float((self.arrived * self.inside_fraction).sum() / total) if total else 1.0

    @property
    def worst_minute(self) -> float:
        """Return the share of requests that kept the limits in the minute in which the fewest did."""
        size = max(1, round(60.0 / self.tick_s))
        whole = len(self.arrived) // size * size
        came = self.arrived[:whole].reshape(-1, size).sum(axis=1)
        kept = (self.arrived * self.inside_fraction)[:whole].reshape(-1, size).sum(axis=1)
        busy = came >= 1
        return float((kept[busy] / came[busy]).min()) if busy.any() else 1.0


_TICKS_S = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0)


def tick_for(least_s: float) -> float:
    """Return a tick that is not shorter than a time where one is known, and of which hours are made. [s]"""
    return _TICKS_S[min(bisect_left(_TICKS_S, least_s), len(_TICKS_S) - 1)]


def replay(
    rates: FloatArray, tick_s: float, curve: ReplicaCurve, scaler: Scaler, *, starts_s: FloatArray, seed: int
) -> ReplayedWeek:
    """Follow a fleet through ticks with such rates; the drawn times that replicas take to start are used in turn."""
    arrived = np.random.default_rng(seed).poisson(rates * tick_s).astype(float)
    fleet = _Fleet(curve, scaler, tick_s, starts_s)
    coming, busy = arrived.tolist(), [*np.flatnonzero(arrived).tolist(), len(arrived)]
    while (index := len(fleet.history)) < len(coming):
        if fleet.is_asleep and not coming[index]:
            fleet.sleep(busy[bisect_left(busy, index)] - index)
        else:
            fleet.tick(coming[index])
    served, shares = np.array(fleet.served), np.array(fleet.places)
    # How long the last request of each tick waits until as many were served as had come. [s]
    came, done = np.cumsum(arrived), np.cumsum(served)
    at = np.searchsorted(done, came - 1e-6)
    never = at >= len(done)
    waits = np.where(never, np.inf, np.maximum(at - np.arange(len(came)), 0) * tick_s)
    inside = curve.inside_fraction[shares] * (waits <= curve.slack_s[shares])
    return ReplayedWeek(
        tick_s=tick_s,
        arrived=arrived,
        inside_fraction=inside,
        wait_s=waits,
        replicas=np.array(fleet.history),
        starts=fleet.started,
    )


class _Fleet:
    """The replicas of a fleet as time goes on: those that are ready, those that start, and the requests that wait."""

    def __init__(self, curve: ReplicaCurve, scaler: Scaler, tick_s: float, starts_s: FloatArray) -> None:
        self.scaler, self.tick_s, self.starts_s = scaler, tick_s, starts_s.tolist()
        self.full, self.last = curve.full_per_s, curve.last
        self.in_flight, self.ttft = curve.in_flight.tolist(), curve.ttft_s.tolist()
        self.now, self.next_look = 0.0, 0.0
        self.ready, self.backlog, self.started = scaler.bounds.minimum, 0.0, 0
        self.starting: list[float] = []
        self.served: list[float] = []  # by tick, as the next two
        self.places: list[int] = []
        self.history: list[int] = []

    @property
    def is_asleep(self) -> bool:
        """Return True if there is nothing to serve and nothing to see."""
        return not (self.ready or self.backlog or self.starting)

    def sleep(self, ticks: int) -> None:
        """Let some ticks go by."""
        self.served += [0.0] * ticks
        self.places += [0] * ticks
        self.history += [0] * ticks
        self.now += self.tick_s * ticks

    def tick(self, came: float) -> None:
        """Serve what has come and what waits for the length of a tick, and let the autoscaler look."""
        while self.starting and self.starting[0] <= self.now:
            heapq.heappop(self.starting)
            self.ready += 1
        work, most = self.backlog + came, self.ready * self.full * self.tick_s
        served = work if work < most else most
        self.backlog = work - served
        place = int(served / most * self.last + 0.5) if most else 0
        self.served.append(served)
        self.places.append(place)
        if self.now >= self.next_look - 1e-9 or (
            came and not (self.ready or self.starting or self.scaler.policy.wake_s)
        ):
            self._look(came, served, place, has_work=bool(work))
        self.history.append(self.ready + len(self.starting))
        self.now += self.tick_s

    def _look(self, came: float, served: float, place: int, *, has_work: bool) -> None:
        replicas, policy = self.ready + len(self.starting), self.scaler.policy
        reading = ScalerReading(
            signal=self._signal(came, served, place), replicas=replicas, ready=self.ready, has_work=has_work
        )
        asked = self.scaler.look(self.now, reading)
        for _ in range(asked - replicas):
            heapq.heappush(self.starting, self.now + self.starts_s[self.started % len(self.starts_s)])
            self.started += 1
        for _ in range(replicas - asked):
            if self.starting:  # the youngest goes first, as it serves nothing yet
                self.starting.remove(max(self.starting))
            else:
                self.ready -= 1
        heapq.heapify(self.starting)
        self.next_look = self.now + ((policy.wake_s or policy.interval_s) if not asked else policy.interval_s)

    def _signal(self, came: float, served: float, place: int) -> float:
        signal = self.scaler.signal
        if signal is Signal.QUEUE:
            return self.backlog
        if signal is Signal.RATE:
            return came / (self.full * self.tick_s)
        if signal is Signal.UTILISATION:
            return served / (self.full * self.tick_s)
        if signal is Signal.TTFT:
            waits = self.backlog / (self.ready * self.full) if self.ready else self.backlog / self.full
            return float(self.ttft[place] + waits)
        return float(self.backlog + self.ready * self.in_flight[place])
