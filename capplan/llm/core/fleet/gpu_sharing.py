"""Put several models on the same GPUs: their memory adds up, and their steps take turns.

An estimate: while several models have work, each gets an equal share of the time, as processes on one GPU do by
default. No measured run of this kind was compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, exp, sqrt

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan, rank_key
from capplan.llm.core.fleet.limits import SATURATION, broken_limit, expected_limits
from capplan.llm.core.serving.asked import Statistic
from capplan.llm.core.serving.load_curve import LoadPoint, point_at_rate

_ROUNDS = 60
_MARGIN = 3.0
"""Deviations of the number of running requests that memory leaves room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPart:
    """One model of a fleet: its plan, and the deployment that serves it there."""

    plan: DeploymentPlan
    fit: DeploymentFit


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPart(FleetPart):
    """One of the models that share GPUs.

    `slowdown` is how much longer its steps take than on GPUs of its own. `running` requests are in it, and memory is
    kept for `sequences`. Times are means. [s]
    """

    slowdown: float
    running: float
    sequences: int
    ttft_s: float
    tpot_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGpus:
    """Models with one replica each on the same GPUs; `replicas` counts these groups of GPUs with their redundancy."""

    parts: tuple[SharedPart, ...]
    replicas: int

    @property
    def gpu(self) -> str:
        return self.parts[0].fit.gpu

    @property
    def size(self) -> int:
        return self.parts[0].fit.sharding.gpus

    @property
    def gpus(self) -> int:
        return self.replicas * self.size

    @property
    def usd_per_hour(self) -> float:
        return replace(self.parts[0].fit, replicas=self.replicas).usd_per_hour or 0.0

    @property
    def words(self) -> str:
        models = " and ".join(part.plan.model for part in self.parts)
        return f"{self.gpus} × {self.gpu} shared by {models} ({self.replicas} × {self.size})"


def share_gpus(parts: Sequence[FleetPart]) -> SharedGpus | None:
    """Return models on the same GPUs; None if a limit, the load or the memory does not allow it."""
    slowdowns = _slowdowns(parts)
    if slowdowns is None:
        return None
    shared = tuple(_part(part, slowdown) for part, slowdown in zip(parts, slowdowns, strict=True))
    if not all(_keeps_limits(part) for part in shared) or not _fit_in_memory(shared):
        return None
    return SharedGpus(parts=shared, replicas=1 + max(part.fit.replicas - part.fit.needed for part in parts))


def _slowdowns(parts: Sequence[FleetPart]) -> list[float] | None:
    """Return by how much each model's steps are stretched; None if a replica is then full.

    A model has work for the share 1 − e^(−running) of the time, as if requests came at random and did not wait. While
    n models have work, each step takes n times as long.
    """
    slowdowns = [1.0] * len(parts)
    for _ in range(_ROUNDS):
        points = [_point(part, slowdown) for part, slowdown in zip(parts, slowdowns, strict=True)]
        if any(point is None for point in points):
            return None
        busy = [1.0 - exp(-point.running) for point in points if point is not None]
        slowdowns = [1.0 + sum(busy) - own for own in busy]
    return slowdowns


def _point(part: FleetPart, slowdown: float) -> LoadPoint | None:
    """Return the point of a replica's curve where its load lies if all times are longer; None beyond a full replica."""
    rate = (part.plan.load.rate_per_s or 0.0) * slowdown
    most = SATURATION * max(point.rate_per_s for point in part.fit.curve)
    return None if rate > most else point_at_rate(part.fit.curve, rate)


def _part(part: FleetPart, slowdown: float) -> SharedPart:
    point = point_at_rate(part.fit.curve, (part.plan.load.rate_per_s or 0.0) * slowdown)
    return SharedPart(
        plan=part.plan,
        fit=part.fit,
        slowdown=slowdown,
        running=point.running,
        sequences=max(1, ceil(point.running + _MARGIN * sqrt(point.running))),
        ttft_s=slowdown * point.ttft_s,
        tpot_s=slowdown * point.tpot_s,
    )


def _keeps_limits(part: SharedPart) -> bool:
    e2e_s = part.ttft_s + max(part.fit.output_len - 1.0, 0.0) * part.tpot_s
    asked, fit = part.plan, part.fit
    held = expected_limits(asked.limits, certainty=asked.certainty_fraction, ttft=fit.ttft_s, tpot=fit.tpot_s)
    return broken_limit(part.ttft_s, part.tpot_s, e2e_s, held) is None


def _fit_in_memory(parts: Sequence[SharedPart]) -> bool:
    budgets, taken = [], 0.0
    for part in parts:
        memory = part.fit.memory
        fixed = memory.weights_bytes + memory.activation_bytes + memory.other_bytes
        budgets.append(fixed + memory.kv_pool_bytes)
        taken += fixed + part.sequences * memory.kv_pool_bytes / max(1, memory.sequences_that_fit)
    return taken <= min(budgets)


def sharing_groups(plans: Sequence[DeploymentPlan]) -> tuple[tuple[SharedGpus, ...], tuple[FleetPart, ...]]:
    """Return groups of models that are cheaper on the same GPUs, and the models that stay on GPUs of their own.

    The two groups whose union saves most are joined, until none saves anything.
    """
    choices = [_choices(plan) for plan in plans]
    groups: list[tuple[tuple[int, ...], SharedGpus | None]] = [((index,), None) for index in range(len(plans))]
    while True:
        best: tuple[float, int, int, SharedGpus] | None = None
        for first, second in combinations(range(len(groups)), 2):
            members = groups[first][0] + groups[second][0]
            joined = _cheapest(plans, choices, members)
            if joined is None:
                continue
            apart = sum(_cost(plans, *groups[group]) for group in (first, second))
            saved = apart - joined.usd_per_hour
            if saved > 1e-9 and (best is None or saved > best[0]):
                best = (saved, first, second, joined)
        if best is None:
            break
        _, one, other, joined = best
        members = groups[one][0] + groups[other][0]
        groups = [group for index, group in enumerate(groups) if index not in (one, other)] + [(members, joined)]
    alone = [members[0] for members, shared in groups if shared is None]
    return (
        tuple(shared for _, shared in groups if shared is not None),
        tuple(FleetPart(plan=plans[index], fit=plans[index].fits[0]) for index in alone),
    )


_Choices = Mapping[tuple[str, int], DeploymentFit]


def _choices(plan: DeploymentPlan) -> _Choices:
    """Return the best deployment of one replica by GPU and number of GPUs; none where percentiles are limited."""
    if plan.load.rate_per_s is None or plan.limits.statistic is not Statistic.MEAN:
        return {}
    single = [fit for fit in plan.fits if fit.needed == 1 and fit.rent is not None]
    return {(fit.gpu, fit.sharding.gpus): fit for fit in sorted(single, key=rank_key, reverse=True)}


def _cheapest(
    plans: Sequence[DeploymentPlan], choices: Sequence[_Choices], members: Sequence[int]
) -> SharedGpus | None:
    places = set.intersection(*(set(choices[index]) for index in members))
    found = [
        shared
        for place in sorted(places)
        if (shared := share_gpus([FleetPart(plan=plans[index], fit=choices[index][place]) for index in members]))
    ]
    return min(found, key=lambda shared: (shared.usd_per_hour, shared.gpus), default=None)


def _cost(plans: Sequence[DeploymentPlan], members: Sequence[int], shared: SharedGpus | None) -> float:
    """Return the rent of a group; a model alone without a price is never joined for money."""
    if shared is not None:
        return shared.usd_per_hour
    return plans[members[0]].fits[0].usd_per_hour or 0.0
