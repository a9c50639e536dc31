"""Step an autoscaler: from what it sees at each look to the replicas that it asks for.

The arithmetic is that of the Horizontal Pod Autoscaler: the signal over its target, rounded up, nothing within the
tolerance, then stabilisation windows, then rate limits. Other autoscalers add holds, cooldowns, averages, panic and
the way to zero and back.
"""

from collections import deque
from math import floor

from capplan.core.numbers import ceil_guarded
from capplan.core.scaling.policy import Damping, RateLimit, ReplicaBounds, ScalerReading, ScalingPolicy, Signal


class Scaler:
    """One autoscaler at work; it is asked at each of its looks, in order of time."""

    def __init__(self, policy: ScalingPolicy, bounds: ReplicaBounds, *, signal: Signal, target: float) -> None:
        self.policy, self.bounds, self.signal, self.target = policy, bounds, signal, target
        self._seen: deque[tuple[float, float]] = deque()
        self._wanted: deque[tuple[float, int]] = deque()
        self._changes: deque[tuple[float, int]] = deque()
        self._since: dict[bool, float | None] = {True: None, False: None}
        self._last: dict[bool, float] = {}
        self._worked_at = 0.0
        self._panic_until = -1.0
        damped = (policy.up, policy.down)
        periods = [limit.period_s for damping in damped for limit in damping.limits]
        self._has_windows = any(damping.window_s for damping in damped)
        self._rests = any(damping.hold_s or damping.cooldown_s for damping in damped)
        self._memory_s = max([policy.up.window_s, policy.down.window_s, *periods, 0.0])

    def look(self, now_s: float, reading: ScalerReading) -> int:
        """Return the replicas that are asked for at a time. [s]"""
        if reading.has_work:
            self._worked_at = now_s
        self._seen.append((now_s, reading.signal))
        oldest_s = now_s - self.policy.average_s
        while len(self._seen) > 1 and self._seen[0][0] <= oldest_s:
            self._seen.popleft()
        for kept in (self._wanted, self._changes):
            while kept and kept[0][0] < now_s - self._memory_s:
                kept.popleft()
        asked = self._asked(now_s, reading)
        if asked != reading.replicas:
            self._changes.append((now_s, asked - reading.replicas))
            self._last[asked > reading.replicas] = now_s
        return asked

    def _asked(self, now_s: float, reading: ScalerReading) -> int:
        bounds, current = self.bounds, reading.replicas
        if current == 0:
            return bounds.within(1) if reading.has_work else bounds.minimum
        if self.policy.idle_s is not None and not reading.has_work and now_s - self._worked_at >= self.policy.idle_s:
            return bounds.minimum
        least = max(bounds.minimum, 1)  # only idleness leads to none
        wanted = self._demand(self._mean(now_s, self.policy.average_s), current)
        if self.policy.panic_s is not None and (panicked := self._panicked(now_s, reading, wanted)) is not None:
            return min(max(panicked, least), bounds.maximum)
        if self._has_windows:
            self._wanted.append((now_s, wanted))
            up, down = self.policy.up.window_s, self.policy.down.window_s
            rising = min(asked for at, asked in self._wanted if at >= now_s - up) if up else wanted
            falling = max(asked for at, asked in self._wanted if at >= now_s - down) if down else wanted
            wanted = min(max(current, rising), falling)
        if self._rests:
            wanted = self._held(now_s, wanted, current)
        if wanted != current:
            wanted = self._limited(now_s, wanted, current)
        return min(max(wanted, least), bounds.maximum)

    def _mean(self, now_s: float, window_s: float) -> float:
        if window_s <= 0:
            return self._seen[-1][1]
        values = [value for at, value in self._seen if at > now_s - window_s]
        return sum(values) / len(values)

    def _demand(self, value: float, current: int) -> int:
        """Return the signal over its target, rounded up; the replicas that there are within the tolerance."""
        per_replica = value if self.signal is Signal.TTFT else value / current
        ratio = per_replica / self.target
        if -self.policy.down.tolerance_fraction - 1e-9 <= ratio - 1.0 <= self.policy.up.tolerance_fraction + 1e-9:
            return current
        return ceil_guarded(current * ratio)

    def _panicked(self, now_s: float, reading: ScalerReading, wanted: int) -> int | None:
        """Return what a short average asks for in a burst, the replicas that there are at least; None for none."""
        policy = self.policy
        burst = ceil_guarded(self._mean(now_s, policy.panic_s or 0.0) / self.target)
        if burst >= policy.panic_factor * max(reading.ready, 1):
            self._panic_until = now_s + policy.average_s
        return max(burst, wanted, reading.replicas) if now_s < self._panic_until else None

    def _held(self, now_s: float, wanted: int, current: int) -> int:
        """Return a change once it was wanted long enough and the last one is long enough ago, else none."""
        for rises in (True, False):
            is_wanted = wanted > current if rises else wanted < current
            if not is_wanted:
                self._since[rises] = None
            elif self._since[rises] is None:
                self._since[rises] = now_s
        if wanted == current:
            return current
        damping, since = self._damping(wanted > current), self._since[wanted > current]
        is_held = since is not None and now_s - since >= damping.hold_s - 1e-9
        rests = now_s - self._last.get(wanted > current, -float("inf")) < damping.cooldown_s
        return wanted if is_held and not rests else current

    def _damping(self, rises: bool) -> Damping:
        return self.policy.up if rises else self.policy.down

    def _limited(self, now_s: float, wanted: int, current: int) -> int:
        """Return a change within the rate limits, of which the one that allows most counts."""
        if not (limits := self._damping(wanted > current).limits):
            return wanted
        if wanted > current:
            return min(wanted, max(current, *(self._most(now_s, limit, current) for limit in limits)))
        return max(wanted, min(current, *(self._fewest(now_s, limit, current) for limit in limits)))

    def _most(self, now_s: float, limit: RateLimit, current: int) -> int:
        added = sum(change for at, change in self._changes if change > 0 and at > now_s - limit.period_s)
        start = current - added
        return ceil_guarded(start * (1.0 + limit.fraction)) + limit.replicas

    def _fewest(self, now_s: float, limit: RateLimit, current: int) -> int:
        removed = -sum(change for at, change in self._changes if change < 0 and at > now_s - limit.period_s)
        return floor((current + removed) * (1.0 - limit.fraction) + 1e-9) - limit.replicas
