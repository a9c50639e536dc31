"""Numbers with an uncertainty, array aliases and guarded rounding."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

NORMAL_90 = 1.645
"""The normal distribution's quantile that leaves 5 % on either side."""


class End(StrEnum):
    """Which end of an uncertain quantity is asked for, or what is expected of it."""

    LOW = "low"
    EXPECTED = "expected"
    HIGH = "high"


ENDS = tuple(End)
"""Both ends and the middle; a tuple is walked faster than an enumeration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A quantity with what it may be at least and at most.

    >>> Interval(low=1, expected=2, high=4) + Interval.exact(10)
    Interval(low=11, expected=12, high=14)
    """

    low: float
    expected: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.expected <= self.high:
            raise ValueError(f"an interval must not fall: {self.low}, {self.expected}, {self.high}")

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(low=self.low + other.low, expected=self.expected + other.expected, high=self.high + other.high)

    def __mul__(self, factor: "Interval | float") -> "Interval":
        """Multiply by a number, or end by end by an interval; neither may be negative."""
        low, expected, high = (
            (factor.low, factor.expected, factor.high) if isinstance(factor, Interval) else (factor, factor, factor)
        )
        return Interval(low=self.low * low, expected=self.expected * expected, high=self.high * high)

    def __rtruediv__(self, amount: float) -> "Interval":
        """Divide a number that is not negative by this: an amount by a rate is a time, and by a time a rate."""
        return Interval(low=amount / self.high, expected=amount / self.expected, high=amount / self.low)

    def at(self, end: End) -> float:
        """Return one end, or what is expected."""
        value: float = getattr(self, end.value)
        return value

    def to_text(self, format_value: Callable[[float], str]) -> str:
        """Write it as "30 ms (20 ms to 40 ms)", or as one value where nothing is uncertain."""
        if self.low == self.high:
            return format_value(self.expected)
        return f"{format_value(self.expected)} ({format_value(self.low)} to {format_value(self.high)})"

    def not_exceeded(self, probability: float) -> float:
        """Return the value that is not exceeded with a probability, if the high end is the 95th percentile.

        Values are log-normal around what is expected.

        Args:
            probability: Between 0 and 1; one half gives the expected value.
        """
        return self.expected * math.exp(
            math.log(self.high / self.expected) * NormalDist().inv_cdf(probability) / NORMAL_90
        )

    def probability_within(self, bound: float) -> float:
        """Return the probability that the quantity stays within a bound, its logarithm being normal on either side."""
        end = self.high if bound >= self.expected else self.low
        if bound == self.expected:
            return 0.5
        if end == self.expected:
            return float(bound > self.expected)
        deviation = abs(math.log(end / self.expected)) / NORMAL_90
        return NormalDist().cdf(math.log(bound / self.expected) / deviation)

    @classmethod
    def around(cls, expected: float, factor: float) -> "Interval":
        """Return the interval from a value divided to it multiplied by a factor."""
        return cls(low=expected / factor, expected=expected, high=expected * factor)

    @classmethod
    def exact(cls, value: float) -> "Interval":
        """Return a quantity that is known."""
        return cls(low=value, expected=value, high=value)

    def beside(self, bound: float | None) -> "Bounded":
        """Return the quantity with its bound, in the same unit; None where nothing bounds it."""
        return Bounded(bound=bound, low=self.low, expected=self.expected, high=self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """A quantity with its interval and its bound: the roofline, null for a rate of a model without any work."""

    bound: float | None
    low: float
    expected: float
    high: float

    @property
    def interval(self) -> Interval:
        """Return the interval without the bound."""
        return Interval(low=self.low, expected=self.expected, high=self.high)


def ceil_guarded(value: float) -> int:
    """Round up, but let a relative excess of 1e-9 pass, which floating-point sums leave behind.

    >>> ceil_guarded(10.0000000001), ceil_guarded(10.1)
    (10, 11)
    """
    return math.ceil(value - 1e-9 * max(1.0, abs(value)))


def largest_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Find the last whole number for which something holds by bisection, given one where it does and one where not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
