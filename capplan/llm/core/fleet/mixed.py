"""Serve one model on two kinds of GPUs, where whole replicas of one kind alone would stand half idle."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from math import ceil

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, MixedFleet, MixedPart

_MOST_KINDS = 12
"""GPUs whose best deployments are combined: the cheapest ones."""
_LEAST_SAVING = 0.01
"""Share of the rent that two kinds must save to be named."""


def mixed_fleets(
    fits: Sequence[DeploymentFit], *, rate_per_s: float, offered: Callable[[DeploymentFit], DeploymentFit]
) -> list[MixedFleet]:
    """Return two kinds of replicas that carry a load together for less than one kind, the cheapest first.

    Replicas are filled up to the rate that one of their kind carries within the limits, all by the same share. Spare
    replicas are of the kind that carries more.

    Args:
        fits: Deployments, the best first.
        rate_per_s: The load. [1/s]
        offered: Returns a deployment with the offer that holds it at the least cost.
    """
    if not fits or fits[0].usd_per_hour is None:
        return []
    kinds: dict[str, DeploymentFit] = {}
    for fit in fits:
        if fit.simulated is not None and fit.rent is not None and fit.is_transferred <= fits[0].is_transferred:
            kinds.setdefault(fit.gpu, fit)
    found = [
        mixed
        for first, second in permutations(list(kinds.values())[:_MOST_KINDS], 2)
        for count in range(1, first.needed)
        if (mixed := _mixed(first, count, second, rate_per_s, offered)) is not None
    ]
    most = (1.0 - _LEAST_SAVING) * fits[0].usd_per_hour
    return sorted((mixed for mixed in found if mixed.usd_per_hour < most), key=lambda mixed: mixed.usd_per_hour)


def _mixed(
    one: DeploymentFit,
    count: int,
    other: DeploymentFit,
    rate_per_s: float,
    offered: Callable[[DeploymentFit], DeploymentFit],
) -> MixedFleet | None:
    rest = rate_per_s - count * one.max_rate_per_s
    if rest <= 0:
        return None
    counts = (count, ceil(rest / other.max_rate_per_s - 1e-9))
    carried = sum(number * fit.max_rate_per_s for fit, number in zip((one, other), counts, strict=True))
    spare = one.replicas - one.needed
    spares = (spare, 0) if one.max_rate_per_s >= other.max_rate_per_s else (0, spare)
    parts = tuple(
        MixedPart(
            fit=offered(replace(fit, needed=number, replicas=number + extra)),
            share=number * fit.max_rate_per_s / carried,
        )
        for fit, number, extra in zip((one, other), counts, spares, strict=True)
    )
    costs = [part.fit.usd_per_hour for part in parts]
    priced = [cost for cost in costs if cost is not None]
    return MixedFleet(parts=(parts[0], parts[1]), usd_per_hour=sum(priced)) if len(priced) == len(costs) else None
