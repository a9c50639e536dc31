"""One replica from idle to full, as a fleet that scales needs it: what runs, and how many requests keep the limits."""

from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCurve:
    """One replica by its rate, in steps of an equal share of the full rate.

    `in_flight` requests are in it, `ttft_s` and `e2e_s` are means, and `inside_fraction` is the share of requests that
    keep the limits where none waits for a replica. `slack_s` is how long a request may wait for one before it breaks a
    limit, infinite without limits. [1/s, s]
    """

    full_per_s: float
    in_flight: FloatArray
    ttft_s: FloatArray
    e2e_s: FloatArray
    inside_fraction: FloatArray
    slack_s: FloatArray
    ttft_limit_s: float | None = None

    @property
    def last(self) -> int:
        """Return the index of the full rate."""
        return len(self.in_flight) - 1

    @property
    def lone_s(self) -> float:
        """Return how long a request takes on an idle replica. [s]"""
        return float(self.e2e_s[0])

    def admissible_per_s(self, share: float) -> float:
        """Return the highest rate at which a share of the requests keeps the limits; 0 where none does. [1/s]"""
        kept = np.flatnonzero(self.inside_fraction >= share)
        return float(kept[-1] / self.last * self.full_per_s) if kept.size else 0.0

    def in_flight_at(self, rate_per_s: float) -> float:
        """Return the requests in a replica at a rate."""
        return float(np.interp(rate_per_s / self.full_per_s * self.last, np.arange(self.last + 1), self.in_flight))
