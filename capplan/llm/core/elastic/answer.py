"""Answer what a fleet of a language model's replicas costs that follows its load, and what a burst sees."""

from dataclasses import dataclass, replace

from capplan.core.gpus.prices import Price
from capplan.core.scaling.charge import Charge
from capplan.core.scaling.fleet import ElasticFleet, Elasticity, ScalingSetting, StandingFleet, draw_starts, target_of
from capplan.core.scaling.load import WeekLoad
from capplan.core.scaling.policy import ReplicaBounds, Signal
from capplan.core.scaling.scaler import Scaler
from capplan.llm.core.elastic.burst import BurstSeen, follow_burst
from capplan.llm.core.elastic.replica_curve import LoadedReplica
from capplan.llm.core.fleet.rented import servers_of_replica
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.arrivals import random_arrivals
from capplan.llm.core.simulation.load_answer import Simulation

_MOST_BURST_REQUESTS = 12_000
_BURST_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticAnswer:
    """A fleet that follows its load, beside the one that stands.

    `settings` are those that were tried, the cheapest that keeps the share first; `keeps` says whether the first does.
    `burst` is the peak that comes at once on the least replicas, None where no request was simulated.
    """

    model: str
    gpu: str
    gpus: int
    engine: str
    asked: Elasticity
    load: WeekLoad
    offer: Price | None
    standing: StandingFleet
    settings: tuple[ScalingSetting, ...]
    burst: BurstSeen | None
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> ScalingSetting:
        return self.settings[0]

    @property
    def keeps(self) -> bool:
        return self.best.inside >= self.asked.share


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticSimulation(Simulation):
    """What requests of one replica see, and a fleet of such replicas that follows the load of a week."""

    elastic: ElasticAnswer


def charge_of(offer: Price, sharding: Sharding, *, minimum_s: float | None = None) -> Charge:
    spread = servers_of_replica(offer.server, sharding) or 1
    return Charge(
        usd_per_machine_hour=offer.usd_per_machine_hour,
        replicas_per_machine=offer.instance_gpus // sharding.gpus if spread == 1 else 1,
        machines_per_replica=spread,
        minimum_s=offer.minimum_s or 0.0 if minimum_s is None else minimum_s,
    )


def burst_of(
    loaded: LoadedReplica, fleet: ElasticFleet, asked: Elasticity, *, best: ScalingSetting, maximum: int
) -> BurstSeen:
    """Follow the peak that comes at once on the least replicas, request by request."""
    peak, load = fleet.week.peak_per_s, loaded.load
    lasts_s = asked.start_s.expected + _BURST_S
    count = int(max(20, min(_MOST_BURST_REQUESTS, peak * lasts_s)))
    requests = random_arrivals(rate_per_s=peak, count=count, lengths=load.lengths, gap_scv=load.gap_scv)
    seen = asked.signal in (Signal.IN_FLIGHT, Signal.QUEUE)
    followed = asked if seen else replace(asked, signal=Signal.IN_FLIGHT, target=None)
    target = best.target if seen else target_of(followed, fleet.curve, fill=1.0)
    bounds = ReplicaBounds(minimum=best.minimum, maximum=max(best.minimum, maximum))
    scaler = Scaler(asked.policy, bounds, signal=followed.signal, target=target)
    admission, grid = loaded.replica.steps(count)
    starts = draw_starts(asked.start_s, 0.5)
    return follow_burst(
        requests, scaler, admission=admission, grid=grid, starts_s=starts, limits=loaded.limits,
        idle_ttft_s=float(fleet.curve.ttft_s[0]),
    )  # fmt: skip
