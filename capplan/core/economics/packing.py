"""Pack several services on as few GPUs of one kind as possible: whole GPUs first, the rest shared.

A service takes as many whole GPUs as its peak fills, and the rest of its peak shares a GPU with others, by time or by
MIG slices. Rests are placed largest first, each on the first GPU that holds it (first-fit decreasing, within 22 % of
the fewest: Johnson 1973).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from capplan.core.gpus.mig import MigProfile
from capplan.core.serving.load import Service
from capplan.core.serving.sizing import Sizing

_WHOLE = 1e-9


class Sharing(StrEnum):
    """How services share a GPU: in turns as one process each, or on slices of their own."""

    TIME = "time-sliced"
    MIG = "MIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One service on one kind of GPU.

    Attributes:
        name: The service's name.
        sizing: How the GPU is run for it and what one carries.
        load: Its load; a service has a latency limit.
        peak_per_s: The rate to carry. [1/s]
        memory_bytes: Memory of its process at the batch it is run with, at the high end of the estimate.
    """

    name: str
    sizing: Sizing
    load: Service | None
    peak_per_s: float
    memory_bytes: float

    @property
    def whole(self) -> int:
        """Return the GPUs that its peak fills."""
        return int(self.peak_per_s / self.sizing.operating_point.rate_per_s + _WHOLE)

    @property
    def rest_per_s(self) -> float:
        """Return the rate that is left beside those. [1/s]"""
        rest = self.peak_per_s - self.whole * self.sizing.operating_point.rate_per_s
        return rest if rest > _WHOLE * self.peak_per_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """A service's part of a shared GPU; latencies are the percentile with the others there and alone. [s, bytes]"""

    service: str
    rate_per_s: float
    utilization_fraction: float
    memory_bytes: float
    latency_s: float | None
    alone_s: float | None
    profile: str | None
    """Its MIG slice. Latencies are None for jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Where services run on GPUs of one kind: whole GPUs by service, and the shared ones."""

    gpu: str
    sharing: Sharing
    whole: tuple[tuple[str, int], ...]
    shared: tuple[tuple[ShareRow, ...], ...]

    @property
    def gpus(self) -> int:
        """Return the GPUs needed, redundancy aside."""
        return sum(count for _, count in self.whole) + len(self.shared)


def pack(tenants: Sequence[Tenant], *, budget_bytes: float, profiles: Sequence[MigProfile] = ()) -> Packing:
    """Place services on as few GPUs as first-fit finds, by time and by MIG, and keep the fewer; slices where equal."""
    bins: list[list[Tenant]] = []
    for tenant in _largest_first(tenants):
        for members in bins:
            if _hold_together([*members, tenant], budget_bytes):
                members.append(tenant)
                break
        else:
            bins.append([tenant])
    by_time = Packing(
        gpu=tenants[0].sizing.gpu,
        sharing=Sharing.TIME,
        whole=_whole(tenants),
        shared=tuple(tuple(_share(member, members) for member in members) for members in bins),
    )
    if not profiles or sum(bool(tenant.rest_per_s) for tenant in tenants) < 2:
        return by_time
    sliced = _pack_by_slices(tenants, budget_bytes, profiles)
    return sliced if sliced is not None and sliced.gpus <= by_time.gpus else by_time


def _whole(tenants: Sequence[Tenant]) -> tuple[tuple[str, int], ...]:
    return tuple((tenant.name, tenant.whole) for tenant in tenants if tenant.whole)


def _largest_first(tenants: Sequence[Tenant]) -> list[Tenant]:
    rests = [tenant for tenant in tenants if tenant.rest_per_s]
    return sorted(rests, key=lambda tenant: (-_busy(tenant), tenant.name))


def _busy(tenant: Tenant) -> float:
    """Return the share of a GPU's time that a rest's full batches take."""
    operation = tenant.sizing.operating_point
    return tenant.rest_per_s * tenant.sizing.batch_latency_s.expected / operation.largest_batch


def _hold_together(members: Sequence[Tenant], budget_bytes: float) -> bool:
    """Return True if services fit into one GPU's memory and time, each within its latency limit and load ceiling."""
    if sum(member.memory_bytes for member in members) > budget_bytes:
        return False
    busy = sum(map(_busy, members))
    ceilings = [member.load.utilization_ceiling_fraction for member in members if member.load]
    if busy > min(ceilings, default=1.0) * (1 + _WHOLE):
        return False
    return all(_keeps_limit(member, _slowdown(member, members)) for member in members)


def _slowdown(tenant: Tenant, members: Sequence[Tenant]) -> float:
    """Return the factor on a service's batch times when others take their turns: 1 / (1 - their share of the time)."""
    others = sum(_busy(member) for member in members if member is not tenant)
    return 1 / (1 - others) if others < 1 else float("inf")


def _keeps_limit(tenant: Tenant, slowdown: float) -> bool:
    if tenant.load is None:
        return slowdown < float("inf")
    latency_s = _latency_s(tenant, slowdown)
    return latency_s is not None and latency_s <= tenant.load.latency_limit_s * (1 + _WHOLE)


def _latency_s(tenant: Tenant, slowdown: float) -> float | None:
    return tenant.sizing.percentile_s(tenant.rest_per_s, latency_factor=slowdown)


def _share(tenant: Tenant, members: Sequence[Tenant]) -> ShareRow:
    return ShareRow(
        service=tenant.name,
        rate_per_s=tenant.rest_per_s,
        utilization_fraction=_busy(tenant),
        memory_bytes=tenant.memory_bytes,
        latency_s=_latency_s(tenant, _slowdown(tenant, members)),
        alone_s=_latency_s(tenant, 1.0),
        profile=None,
    )


def _pack_by_slices(tenants: Sequence[Tenant], budget_bytes: float, profiles: Sequence[MigProfile]) -> Packing | None:
    """Assign every rest the smallest slice that carries it, and fill GPUs; None if a rest fits no slice."""
    wanted = [(tenant, _smallest(tenant, budget_bytes, profiles)) for tenant in _largest_first(tenants)]
    bins: list[list[tuple[Tenant, MigProfile]]] = []
    for tenant, profile in sorted(wanted, key=lambda pair: -(pair[1].compute if pair[1] else 0)):
        if profile is None:
            return None
        for members in bins:
            if _slices_fit([*(held for _, held in members), profile]):
                members.append((tenant, profile))
                break
        else:
            bins.append([(tenant, profile)])
    return Packing(
        gpu=tenants[0].sizing.gpu,
        sharing=Sharing.MIG,
        whole=_whole(tenants),
        shared=tuple(
            tuple(
                replace(_share(tenant, [tenant]), latency_s=_latency_s(tenant, profile.slowdown), profile=profile.name)
                for tenant, profile in members
            )
            for members in bins
        ),
    )


def _slices_fit(profiles: Sequence[MigProfile]) -> bool:
    whole = profiles[0]
    compute, memory = sum(profile.compute for profile in profiles), sum(profile.memory for profile in profiles)
    return compute <= whole.of_compute and memory <= whole.of_memory


def _smallest(tenant: Tenant, budget_bytes: float, profiles: Sequence[MigProfile]) -> MigProfile | None:
    for profile in profiles:
        fits = tenant.memory_bytes <= profile.usable_fraction * budget_bytes
        if fits and _busy(tenant) * profile.slowdown <= 1 and _keeps_limit(tenant, profile.slowdown):
            ceiling = tenant.load.utilization_ceiling_fraction if tenant.load else 1.0
            if _busy(tenant) * profile.slowdown <= ceiling * (1 + _WHOLE):
                return profile
    return None
