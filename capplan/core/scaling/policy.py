"""Types of autoscaling: the signal, its target, and the rules by which replicas are added and removed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Signal(StrEnum):
    """What an autoscaler looks at, of all replicas together; a replica should have the policy's target of it.

    `IN_FLIGHT` counts requests that wait or run, `QUEUE` those that wait. `RATE` is what comes over the full rate of a
    replica, `UTILISATION` what is served over it, which ends at 1 for each replica. `TTFT` is the time to the first
    token, which is not shared out among replicas. [s]
    """

    IN_FLIGHT = "in-flight"
    QUEUE = "queue"
    RATE = "rate"
    UTILISATION = "utilisation"
    TTFT = "ttft"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """The most replicas that may be added or removed within a period: some, or a share of those at its start."""

    period_s: float
    replicas: int = 0
    fraction: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Damping:
    """What delays a change in one direction. [s]

    `tolerance_fraction` is how far the signal may be off its target. The change must be wanted for `hold_s` without a
    break. `window_s` is a stabilisation window: of what was wanted within it, the least change is made. After a change
    the next one waits for `cooldown_s`. `limits` bound the replicas of a period, of which the one that allows most
    counts; without limits any change is made at once.
    """

    tolerance_fraction: float = 0.0
    hold_s: float = 0.0
    window_s: float = 0.0
    cooldown_s: float = 0.0
    limits: tuple[RateLimit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """The rules of an autoscaler.

    It looks every `interval_s` at the mean of the signal over `average_s`, 0 for its value then. Without any request
    for `idle_s` it goes to the minimum, which may be 0; None keeps one replica. From 0 it is woken by a request, at
    the next multiple of `wake_s`, 0 for at once. `panic_s` is a shorter average whose demand is met at once where it
    asks for `panic_factor` times the replicas that are ready; replicas are then not removed until nothing asks for as
    many over `average_s`. None for none.
    """

    interval_s: float
    up: Damping
    down: Damping
    average_s: float = 0.0
    idle_s: float | None = None
    wake_s: float = 0.0
    panic_s: float | None = None
    panic_factor: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBounds:
    minimum: int
    maximum: int

    def within(self, replicas: int) -> int:
        return min(max(replicas, self.minimum), self.maximum)


class ScalerReading(NamedTuple):
    """What an autoscaler sees: the signal of all replicas, those that exist, started or not, and those that are ready.

    `has_work` says that a request waits or runs.
    """

    signal: float
    replicas: int
    ready: int
    has_work: bool
