"""Time a model in loops: warm-up until stable, rounds of repetitions, and the rule that ends them.

Inside a round nothing but the repetition runs between its two marks, and nothing waits: events are
read after one synchronise at the round's end.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from capplan.core.measurement.statistics import median_interval
from capplan.core.measurement.types import WarmUp
from capplan.core.workload import TimingMethod
from capplan.probe.foreign.preserve import uncollected
from capplan.probe.measure.device import Device, Event

Run = Callable[[], object]

ROUND_S = 0.25
"""About how long a round takes: between rounds progress is shown and Ctrl-C is heard."""


DEFAULT_BUDGET_S = 10.0
_LEAD_FROM = 10
"""Rounds of fewer repetitions than this have long ones, and go without an untimed run before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """The rule that ends repetitions.

    With `repetitions`, after just so many, or when a budget that was given with them is spent. Else when at least
    `minimum` were timed and the median's 95 % interval is narrower than `width_fraction` of it, or after the budget or
    `maximum`. `budget_s` None is 10 s, and none with `repetitions`. Warm-up counts against the budget, up to
    half of it.
    """

    repetitions: int | None = None
    minimum: int = 50
    maximum: int = 2000
    budget_s: float | None = None
    width_fraction: float = 0.01

    @property
    def longest_s(self) -> float:
        """Return how long warm-up and repetitions may take together. [s]"""
        if self.budget_s is not None:
            return self.budget_s
        return DEFAULT_BUDGET_S if self.repetitions is None else math.inf

    def is_met(self, samples_s: list[float], *, elapsed_s: float) -> bool:
        """Return True if no more repetitions are needed."""
        if self.repetitions is not None and len(samples_s) >= self.repetitions:
            return True
        if samples_s and elapsed_s >= self.longest_s:
            return True
        if self.repetitions is not None:
            return False
        if len(samples_s) >= self.maximum:
            return True
        interval = median_interval(samples_s) if len(samples_s) >= self.minimum else None
        return interval is not None and interval.width_fraction < self.width_fraction

    def most_left(self, done: int) -> int:
        """Return how many repetitions may still follow."""
        return (self.maximum if self.repetitions is None else self.repetitions) - done


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpRule:
    """The rule that ends warm-up: after `runs`, or once times are stable after `minimum` runs, or after `budget_s`.

    The first run may load or compile, and counts no longer than the second; so there are at least two.
    Stable is: the medians of the last two windows of `window` runs differ by less than `change_fraction`.
    """

    runs: int | None = None
    minimum: int = 10
    window: int = 5
    budget_s: float = 5.0
    change_fraction: float = 0.02

    def is_stable(self, times_s: list[float]) -> bool:
        """Return True if the last two windows have the same median."""
        if len(times_s) < 2 * self.window + 1:
            return False
        before = median(times_s[-2 * self.window : -self.window])
        after = median(times_s[-self.window :])
        return abs(after / before - 1) < self.change_fraction if before > 0 else True


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of the warm-up or of the repetitions. [s]"""

    repetitions: int
    median_s: float
    width_fraction: float | None
    is_warm_up: bool = False


def warm_up(
    device: Device,
    run: Run,
    rule: WarmUpRule,
    *,
    at_most_s: float = math.inf,
    on_run: Callable[[Progress], None] = lambda _: None,
) -> WarmUp:
    """Run until power saving, lazy loading and autotuning are behind; each run is waited for."""
    times_s: list[float] = []
    started = device.now_s()
    while True:
        begun = device.now_s()
        run()
        device.synchronize()
        times_s.append(device.now_s() - begun)
        on_run(Progress(repetitions=len(times_s), median_s=median(times_s), width_fraction=None, is_warm_up=True))
        stable = rule.is_stable(times_s)
        settled_s = min(times_s[:2]) + sum(times_s[1:])
        if len(times_s) == rule.runs or (len(times_s) > 1 and settled_s >= at_most_s):
            break
        is_over = settled_s >= rule.budget_s or (stable and len(times_s) >= rule.minimum)
        if rule.runs is None and len(times_s) > 1 and is_over:
            break
    return WarmUp(runs=len(times_s), elapsed_s=device.now_s() - started, first_s=times_s[0], stable=stable)


def repeat(
    device: Device,
    run: Run,
    *,
    method: TimingMethod,
    rule: StopRule,
    expected_s: float,
    spent_s: float = 0.0,
    flush: bool = False,
    on_round: Callable[[Progress], None] = lambda _: None,
) -> list[float]:
    """Time repetitions until the rule is met. [s]

    `spent_s` of the rule's budget went before, of which at most half counts. `expected_s` is about how long one
    takes, waited for; with what was timed it sizes the rounds. The naive method reads less than a repetition takes, so
    that it never shortens the expectation. Ctrl-C leaves between repetitions.
    """
    measure_round = Rounds(device, run, method=method, flush=flush)
    samples_s: list[float] = []
    started = device.now_s() - min(spent_s, rule.longest_s / 2)
    while not rule.is_met(samples_s, elapsed_s=device.now_s() - started):
        typical_s = median(samples_s) if samples_s else expected_s
        if method is TimingMethod.NAIVE:
            typical_s = max(typical_s, expected_s)
        count = min(rule.most_left(len(samples_s)), max(1, math.ceil(ROUND_S / max(typical_s, 1e-7))))
        samples_s += measure_round(count)
        interval = median_interval(samples_s)
        width_fraction = interval.width_fraction if interval else None
        on_round(Progress(repetitions=len(samples_s), median_s=median(samples_s), width_fraction=width_fraction))
    return samples_s


class Rounds:
    """A round of repetitions by one method; events are made once and recorded again in every round."""

    def __init__(self, device: Device, run: Run, *, method: TimingMethod, flush: bool) -> None:
        self._device = device
        self._run = run
        self._flush = flush
        self._method = method
        self._starts: list[Event] = []
        self._ends: list[Event] = []

    def __call__(self, count: int) -> list[float]:
        """Time `count` repetitions. [s]"""
        with uncollected():
            if self._method is TimingMethod.EVENT:
                return self._between_events(count)
            return self._by_host_clock(count, waits=self._method is TimingMethod.SYNC)

    def _between_events(self, count: int) -> list[float]:
        device, run, flush = self._device, self._run, self._flush
        for _ in range(count - len(self._starts)):
            self._starts.append(device.make_event())
            self._ends.append(device.make_event())
        pairs = list(zip(self._starts[:count], self._ends, strict=False))
        if count >= _LEAD_FROM:
            run()  # untimed: the first timed repetition is queued behind work, as all others are
        for start, end in pairs:
            if flush:
                device.flush_cache()
            start.record()
            run()
            end.record()
        device.synchronize()
        return [end.seconds_since(start) for start, end in pairs]

    def _by_host_clock(self, count: int, *, waits: bool) -> list[float]:
        """Read the host's clock around each run.

        Returns:
            The time of each run. [s]

        The queue is drained before each, untimed: behind a full one the host would wait, and the naive figure would be
        right by accident.
        """
        device, run, flush, now_s = self._device, self._run, self._flush, self._device.now_s
        samples_s = [0.0] * count
        for index in range(count):
            if flush:
                device.flush_cache()
            device.synchronize()
            begun = now_s()
            run()
            if waits:
                device.synchronize()
            samples_s[index] = now_s() - begun
        if not waits:
            device.synchronize()
        return samples_s
