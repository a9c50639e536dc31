"""One replica from idle to full, as a fleet that scales needs it: what runs, and how many requests keep the limits."""

from dataclasses import dataclass, replace

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.replica import Replica
from capplan.llm.core.serving.load_curve import load_curve
from capplan.llm.core.simulation.load_answer import LatencyLimits

_FRACTIONS = (0.2, 0.5, 0.7, 0.85, 0.95)
_TABLE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCurve:
    """One replica by its rate, in steps of an equal share of the full rate.

    `in_flight` requests are in it, `ttft_s` and `e2e_s` are means, and `inside_fraction` is the share of requests that
    keep the limits where none waits for a replica. [1/s, s]
    """

    full_per_s: float
    in_flight: FloatArray
    ttft_s: FloatArray
    e2e_s: FloatArray
    inside_fraction: FloatArray
    limits: LatencyLimits

    @property
    def last(self) -> int:
        """Return the index of the full rate."""
        return len(self.in_flight) - 1

    @property
    def slack_s(self) -> FloatArray:
        """Return how long a request may wait for a replica before it breaks a limit, at each rate. [s]"""
        slack = np.full_like(self.ttft_s, np.inf)
        for limit, seen in ((self.limits.ttft_s, self.ttft_s), (self.limits.e2e_s, self.e2e_s)):
            if limit is not None:
                slack = np.minimum(slack, limit - seen)
        return slack

    def admissible_per_s(self, share: float) -> float:
        """Return the highest rate at which a share of the requests keeps the limits; 0 where none does. [1/s]"""
        kept = np.flatnonzero(self.inside_fraction >= share)
        return float(kept[-1] / self.last * self.full_per_s) if kept.size else 0.0

    def in_flight_at(self, rate_per_s: float) -> float:
        return float(np.interp(rate_per_s / self.full_per_s * self.last, np.arange(self.last + 1), self.in_flight))


def replica_curve(replica: Replica, load: TokenLoad, limits: LatencyLimits, *, requests: int = 1200) -> ReplicaCurve:
    """Follow a replica, and simulate at some rates how many requests keep the limits."""
    points = sorted(load_curve(replica.service, replica.demand), key=lambda point: point.rate_per_s)
    full = points[-1].rate_per_s * replica.service.of_engine("offline_scale")
    rates = np.linspace(0.0, full, _TABLE)
    known = np.array([0.0, *(point.rate_per_s for point in points)])
    ttft = np.interp(rates, known, [points[0].ttft_s, *(point.ttft_s for point in points)])
    e2e_s = [point.e2e_s(load.output_len) for point in points]
    e2e = np.interp(rates, known, [e2e_s[0], *e2e_s])
    shares = [_inside(replica, load, limits, fraction * full, requests) for fraction in _FRACTIONS]
    inside = np.interp(rates / full, [0.0, *_FRACTIONS, 1.0], [shares[0], *np.minimum.accumulate(shares), 0.0])
    return ReplicaCurve(
        full_per_s=full, in_flight=rates * e2e, ttft_s=ttft, e2e_s=e2e, inside_fraction=inside, limits=limits
    )


def _inside(replica: Replica, load: TokenLoad, limits: LatencyLimits, rate_per_s: float, requests: int) -> float:
    answer = replica.simulate(replace(load, rate_per_s=rate_per_s), limits=limits, requests=requests)
    return 1.0 if answer.goodput_fraction is None else answer.goodput_fraction
