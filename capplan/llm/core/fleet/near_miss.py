"""Find deployments that would be cheaper than the recommended one if they are as fast as their intervals allow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.limits import expected_limits, fullest_point, highest_point
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.simulation.load_answer import LatencyLimits

CLEARLY_CHEAPER = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMiss:
    """A deployment with fewer replicas than the estimate asks for, which the good end of its interval allows.

    `expected` and `best` are what so few replicas carry: requests per second, or clients where the load states these.
    """

    fit: DeploymentFit
    replicas: int
    usd_per_hour: float
    expected: float
    best: float

    @property
    def words(self) -> str:
        """Return the fleet in words, such as "4 GPUs = 2 replicas × 2 GPUs"."""
        return replace(self.fit, replicas=self.replicas).words


def near_misses(
    fits: Sequence[DeploymentFit], load: TokenLoad, limits: LatencyLimits, *, certainty: float = 0.5
) -> tuple[NearMiss, ...]:
    """Return the deployments that miss being cheapest by less than their uncertainty, the cheapest first.

    Args:
        fits: The deployments that carry the load, the recommended first.
        load: The load.
        limits: The limits that were asked for.
        certainty: The probability with which they were to be kept.
    """
    if not fits or fits[0].usd_per_hour is None:
        return ()
    most = CLEARLY_CHEAPER * fits[0].usd_per_hour
    found = (near_miss(fit, load, limits, certainty=certainty) for fit in fits if not fit.is_transferred)
    cheaper = [each for each in found if each is not None and each.usd_per_hour < most]
    return tuple(sorted(cheaper, key=lambda each: each.usd_per_hour))


def near_miss(fit: DeploymentFit, load: TokenLoad, limits: LatencyLimits, *, certainty: float = 0.5) -> NearMiss | None:
    """Return how few replicas carry the load at the good end of the interval; None if that takes as many.

    There all times are shorter by one factor: limits are met at loads with longer expected times, and rates are higher.

    Args:
        fit: The deployment.
        load: The load.
        limits: The limits that were asked for.
        certainty: The probability with which they were to be kept.
    """
    if fit.rent is None:
        return None
    factor = fit.tpot_s.expected / fit.tpot_s.low
    asked = load.rate_per_s if load.concurrency is None else load.concurrency
    held = expected_limits(limits, certainty=certainty, ttft=fit.ttft_s, tpot=fit.tpot_s)
    expected = _carried(fit, load, held, factor=1.0)
    best = _carried(fit, load, limits, factor=factor)
    needed = max(1, ceil((asked or 0.0) / best - 1e-9))
    if needed >= fit.needed:
        return None
    replicas = needed + fit.replicas - fit.needed
    return NearMiss(
        fit=fit,
        replicas=replicas,
        usd_per_hour=replace(fit, replicas=replicas).usd_per_hour or 0.0,
        expected=needed * expected,
        best=needed * best,
    )


def _carried(fit: DeploymentFit, load: TokenLoad, limits: LatencyLimits, *, factor: float) -> float:
    """Return the requests per second, or clients, of one replica that is faster than expected by a factor."""
    eased = replace(
        limits,
        ttft_s=None if limits.ttft_s is None else limits.ttft_s * factor,
        tpot_s=None if limits.tpot_s is None else limits.tpot_s * factor,
        e2e_s=None if limits.e2e_s is None else limits.e2e_s * factor,
    )
    if load.concurrency is None:
        point = highest_point(fit.curve, eased, fit.output_len) or fit.curve[0]
        return point.rate_per_s * factor
    point = fullest_point(fit.curve, eased, fit.output_len) or fit.curve[0]
    return max(1.0, float(int(point.running + 1e-6)))
