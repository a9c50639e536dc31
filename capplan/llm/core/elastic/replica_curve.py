"""Follow one replica of a language model from idle to full."""

from dataclasses import dataclass, replace

import numpy as np

from capplan.core.scaling.replica_curve import ReplicaCurve
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.replica import Replica
from capplan.llm.core.serving.load_curve import load_curve
from capplan.llm.core.simulation.load_answer import LatencyLimits

_FRACTIONS = (0.2, 0.5, 0.7, 0.85, 0.95)
_TABLE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedReplica:
    """One replica of a language model, the load that it shares with others, and what its requests must keep."""

    replica: Replica
    load: TokenLoad
    limits: LatencyLimits

    def curve(self, *, requests: int = 1200) -> ReplicaCurve:
        """Follow the replica from idle to full, and simulate at some rates how many requests keep the limits."""
        service = self.replica.service
        points = sorted(load_curve(service, self.replica.demand), key=lambda point: point.rate_per_s)
        full = points[-1].rate_per_s * service.of_engine("offline_scale")
        rates = np.linspace(0.0, full, _TABLE)
        known = np.array([0.0, *(point.rate_per_s for point in points)])
        ttft = np.interp(rates, known, [points[0].ttft_s, *(point.ttft_s for point in points)])
        e2e_s = [point.e2e_s(self.load.output_len) for point in points]
        e2e = np.interp(rates, known, [e2e_s[0], *e2e_s])
        loads = [replace(self.load, rate_per_s=fraction * full) for fraction in _FRACTIONS]
        answers = [self.replica.simulate(load, limits=self.limits, requests=requests) for load in loads]
        shares = [1.0 if answer.goodput_fraction is None else answer.goodput_fraction for answer in answers]
        inside = np.interp(rates / full, [0.0, *_FRACTIONS, 1.0], [shares[0], *np.minimum.accumulate(shares), 0.0])
        pairs = ((self.limits.ttft_s, ttft), (self.limits.e2e_s, e2e))
        rest = [limit - seen for limit, seen in pairs if limit is not None]
        slack = np.min([np.full(_TABLE, np.inf), *rest], axis=0)
        return ReplicaCurve(
            full_per_s=full, in_flight=rates * e2e, ttft_s=ttft, e2e_s=e2e, inside_fraction=inside, slack_s=slack,
            ttft_limit_s=self.limits.ttft_s,
        )  # fmt: skip
