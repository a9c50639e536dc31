"""Serve several language models on one fleet: one kind of GPU for all, or the cheapest of each, in servers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capplan.core.gpus.machines import LocalAmount, LocalCurrency
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan, rank_key
from capplan.llm.core.fleet.gpu_sharing import FleetPart, SharedGpus, sharing_groups
from capplan.units import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFleet:
    """A fleet that serves several models. `gpu` is None where the models are on different GPUs.

    `parts` are models on GPUs of their own, `shared` groups of models on the same GPUs.
    """

    gpu: str | None
    parts: tuple[FleetPart, ...]
    shared: tuple[SharedGpus, ...] = ()

    @property
    def gpus(self) -> int:
        return sum(part.fit.gpus for part in self.parts) + sum(group.gpus for group in self.shared)

    @property
    def power_w(self) -> float | None:
        """Return the expected mean power of all GPUs; None where it is not known of all, or models share GPUs. [W]"""
        drawn = [part.fit.energy.power_w.expected for part in self.parts if part.fit.energy is not None]
        return None if self.shared or len(drawn) < len(self.parts) else sum(drawn)

    @property
    def usd_per_hour(self) -> float | None:
        """Return the rent of whole machines for all models; None where no offer holds them. [USD/h]"""
        rented = [self._placed(gpu)[0] for gpu in self._kinds]
        return None if None in rented else sum(rent or 0.0 for rent in rented)

    @property
    def countries(self) -> set[str | None]:
        """Return the countries of the offers of all models, None among them where one is not known."""
        fits = [fit for gpu in self._kinds for fit in self._fits(gpu)]
        return {fit.rent.country for fit in fits if fit.rent is not None}

    @property
    def _kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*(part.fit.gpu for part in self.parts), *(group.gpu for group in self.shared))))

    def _fits(self, gpu: str) -> list[DeploymentFit]:
        """Return the deployments on one kind of GPU, models that share GPUs as one."""
        alone = [part.fit for part in self.parts if part.fit.gpu == gpu]
        groups = [replace(group.parts[0].fit, replicas=group.replicas) for group in self.shared if group.gpu == gpu]
        return alone + groups

    def _placed(self, gpu: str) -> tuple[float | None, int]:
        """Return the least rent of one kind of GPU and its servers; None and usual ones where none is rented.

        Every model stands in machines of its own, or all in one kind of machine.
        """
        fits = self._fits(gpu)
        sizes = [fit.sharding.gpus for fit in fits for _ in range(fit.replicas)]
        apart = [(fit.usd_per_hour, fit.machines or 0) for fit in fits]
        found = [(sum(cost or 0.0 for cost, _ in apart), sum(machines for _, machines in apart))]
        if any(cost is None for cost, _ in apart):
            found = []
        for offer in {fit.rent for fit in fits if fit.rent is not None}:
            together = [replace(fit, rent=offer) for fit in fits]
            if all(fit.machines is not None and fit.sharding.gpus <= offer.instance_gpus for fit in together):
                machines = pack(sizes, slots=offer.instance_gpus)
                found.append((machines * offer.usd_per_machine_hour, machines))
        return min(found, default=(None, pack(sizes, slots=fits[0].server.gpus)))

    @property
    def servers(self) -> int:
        """Return the servers that hold all replicas, each kind of GPU in servers of its own."""
        return sum(self._placed(gpu)[1] for gpu in self._kinds)

    @property
    def words(self) -> str:
        alone = (
            f"{part.fit.gpus} × {part.fit.gpu} for {part.plan.model} ({part.fit.replicas} × {part.fit.sharding.gpus})"
            for part in self.parts
        )
        fleets = " + ".join((*alone, *(group.words for group in self.shared)))
        return f"{counted(self.gpus, 'GPU')} in {counted(self.servers, 'server')} = {fleets}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer:
    """The plans of all models, and the fleets that serve them together, the cheapest first.

    `local` is the currency that the cost of the first also stands in.
    """

    plans: tuple[DeploymentPlan, ...]
    fleets: tuple[SharedFleet, ...]
    local: LocalCurrency | None = None

    @property
    def local_cost(self) -> LocalAmount | None:
        """Return what the first fleet costs an hour in the local currency; None where none is asked for.

        Its tax is known where all of its machines stand in one country.
        """
        usd = self.fleets[0].usd_per_hour if self.fleets else None
        if self.local is None or usd is None:
            return None
        countries = self.fleets[0].countries
        return self.local.amount(usd, country=countries.pop() if len(countries) == 1 else None)


def pack(sizes: Sequence[int], *, slots: int) -> int:
    """Return the servers that hold replicas of so many GPUs, the largest first into the first server with room.

    A replica larger than a server takes servers of its own.
    """
    free: list[int] = []
    whole = 0
    for size in sorted(sizes, reverse=True):
        if size > slots:
            whole += -(-size // slots)
            continue
        place = next((index for index, room in enumerate(free) if room >= size), None)
        if place is None:
            free.append(slots - size)
        else:
            free[place] -= size
    return whole + len(free)


def shared_fleets(plans: Sequence[DeploymentPlan], *, shares_gpus: bool = False) -> tuple[SharedFleet, ...]:
    """Return the fleets that serve all models, the cheapest first: on one kind of GPU each, and mixed."""
    by_gpu = [{fit.gpu: fit for fit in sorted(plan.fits, key=rank_key, reverse=True)} for plan in plans]
    common = [gpu for gpu in by_gpu[0] if all(gpu in fits for fits in by_gpu)] if by_gpu else []
    fleets = [
        SharedFleet(
            gpu=gpu, parts=tuple(FleetPart(plan=plan, fit=fits[gpu]) for plan, fits in zip(plans, by_gpu, strict=True))
        )
        for gpu in common
    ]
    if plans and all(plan.fits for plan in plans):
        mixed = SharedFleet(gpu=None, parts=tuple(FleetPart(plan=plan, fit=plan.fits[0]) for plan in plans))
        if len({part.fit.gpu for part in mixed.parts}) > 1:
            fleets.append(mixed)
        if shares_gpus:
            fleets += _sharing(plans)
    return tuple(sorted(fleets, key=_order))


def _sharing(plans: Sequence[DeploymentPlan]) -> list[SharedFleet]:
    shared, alone = sharing_groups(plans)
    if not shared:
        return []
    kinds = {group.gpu for group in shared} | {part.fit.gpu for part in alone}
    return [SharedFleet(gpu=kinds.pop() if len(kinds) == 1 else None, parts=alone, shared=shared)]


def _order(fleet: SharedFleet) -> tuple[bool, bool, float, int]:
    cost = fleet.usd_per_hour
    fits = [part.fit for part in fleet.parts] + [part.fit for group in fleet.shared for part in group.parts]
    return cost is None, any(fit.is_transferred for fit in fits), cost or 0.0, fleet.gpus
