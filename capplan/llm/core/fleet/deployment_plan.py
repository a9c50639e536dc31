"""The answer of a search over deployments: what carries a load within limits, what it costs, and why others do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.choice import choose, evidence_rank
from capplan.core.formulas import SECONDS_PER_HOUR, usd_per_million
from capplan.core.gpus.machines import BOARD_OF_EIGHT, GpuServer
from capplan.core.gpus.prices import Price
from capplan.core.numbers import Interval
from capplan.llm.core.fleet.disaggregated import DisaggregatedFit
from capplan.llm.core.fleet.rented import machines_for, servers_of_replica
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.llm.core.serving.evidence import is_known
from capplan.llm.core.serving.load_curve import LoadPoint
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LatencyLimits, LoadAnswer
from capplan.units import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMemory:
    """How the memory of the tightest GPU of a replica is divided. [bytes]

    `usable_bytes` is what the driver reports, None where unknown. `sequences_that_fit` counts those of the load's
    length in the whole replica.
    """

    weights_bytes: int
    activation_bytes: int
    other_bytes: int
    kv_pool_bytes: int
    usable_bytes: int | None
    kv_bytes_per_token: float
    sequences_that_fit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFit:
    """A deployment that carries the load within the limits.

    Attributes:
        needed: Replicas that the load needs; `replicas` adds the redundancy asked for.
        max_rate_per_s: Requests per second that one replica carries within the limits.
        running: Requests that one replica processes at a time, at its share of the load.
        batch_limit: Sequences at a time with which a replica still keeps the limits.
        max_sequences: Sequences at a time that the engine may run at most; None for its default.
        ttft_s, tpot_s, e2e_s: What a request sees with all replicas up, with the interval of the estimate. [s]
        prefill_fraction: Share of the replicas' busy time that goes to prompts.
        curve: One replica from idle to full.
        holds_at_worst: True if the limits hold at the far ends of the intervals, too.
        is_transferred: True if no load of the kind was measured, as `Evidence.is_transferred` says.
        rent: The offer whose machines hold all replicas at the least cost; None where no offer does.
        server: The server in which a replica was timed.
        energy: Power of all replicas at the load, and joules of an output token; None where nobody asked, and where the
            GPU's power limit is not known.
        prompts: Requests of a job that is done at the highest rate; None for a load that goes on.
    """

    gpu: str
    sharding: Sharding
    engine: str
    weights: str
    kv: str
    needed: int
    replicas: int
    max_rate_per_s: float
    rate_per_s: float
    input_len: float
    output_len: float
    running: float
    batch_limit: int
    ttft_s: Interval
    tpot_s: Interval
    e2e_s: Interval
    prefill_fraction: float
    memory: ReplicaMemory
    curve: tuple[LoadPoint, ...]
    evidence: str
    holds_at_worst: bool
    is_transferred: bool = False
    rent: Price | None = None
    server: GpuServer = BOARD_OF_EIGHT
    tdp_w: float | None = None
    vendor: str = "NVIDIA"
    simulated: LoadAnswer | None = None
    energy: ServingEnergy | None = None
    prompts: int | None = None
    max_sequences: int | None = None

    @property
    def gpus(self) -> int:
        return self.replicas * self.sharding.gpus

    @property
    def machines(self) -> int | None:
        """Return the rented machines that hold all replicas; None where no offer does."""
        rent = self.rent
        return None if rent is None else machines_for(rent.server, self.sharding, self.replicas, timed=self.server)

    @property
    def servers_per_replica(self) -> int:
        """Return over how many servers a replica is spread: of those that are rented, else of those it was timed in."""
        return servers_of_replica(self.rent.server if self.rent else self.server, self.sharding) or 1

    @property
    def usd_per_hour(self) -> float | None:
        """Return the rent of whole machines for all replicas; None where no offer holds them. [USD/h]"""
        machines = self.machines
        return None if self.rent is None or machines is None else machines * self.rent.usd_per_machine_hour

    @property
    def job_s(self) -> float | None:
        """Return the time that all replicas take for a job at their highest rate; None without a job. [s]

        No job is done before an answer is.
        """
        if self.prompts is None:
            return None
        return max(self.prompts / (self.max_rate_per_s * self.replicas), self.e2e_s.expected)

    @property
    def job_usd(self) -> float | None:
        """Return the rent of all replicas until a job is done; None without a job or an offer. [USD]"""
        hourly, job_s = self.usd_per_hour, self.job_s
        return None if hourly is None or job_s is None else hourly * job_s / SECONDS_PER_HOUR

    @property
    def cost_usd(self) -> float | None:
        """Return what deployments are compared by: the rent of an hour, of a job that of all its hours. [USD]"""
        return self.usd_per_hour if self.prompts is None else self.job_usd

    @property
    def output_tokens_per_s(self) -> float:
        """Return the output tokens per second of all replicas at the load."""
        return self.rate_per_s * self.output_len

    @property
    def output_tokens_per_s_per_gpu(self) -> float:
        return self.output_tokens_per_s / self.gpus

    @property
    def output_tokens_per_s_per_user(self) -> float:
        """Return what a user reads: 1 ÷ expected TPOT."""
        return 1.0 / self.tpot_s.expected

    @property
    def usd_per_million_output_tokens(self) -> float | None:
        """Return the rent of a million output tokens at the load, the prompts' share included. [USD]"""
        return self._per_million(self.usd_per_hour, self.output_tokens_per_s)

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Return the rent of a million tokens, of prompts and answers alike. [USD]"""
        return self._per_million(self.usd_per_hour, self.rate_per_s * (self.input_len + self.output_len))

    @property
    def split_usd_per_million(self) -> tuple[float, float] | None:
        """Return the rent of a million input and of a million output tokens, divided by busy time. [USD, USD]"""
        hourly = self.usd_per_hour
        if hourly is None:
            return None
        prompts = self._per_million(hourly * self.prefill_fraction, self.rate_per_s * self.input_len)
        answers = self._per_million(hourly * (1.0 - self.prefill_fraction), self.output_tokens_per_s)
        return prompts or 0.0, answers or 0.0

    @staticmethod
    def _per_million(usd_per_hour: float | None, per_s: float) -> float | None:
        return None if usd_per_hour is None else usd_per_million(usd_per_hour, 1, SECONDS_PER_HOUR * per_s)

    @property
    def words(self) -> str:
        """Return the fleet in words, such as "16 GPUs = 4 replicas × 4 GPUs"."""
        return (
            f"{counted(self.gpus, 'GPU')} = {counted(self.replicas, 'replica')} × {counted(self.sharding.gpus, 'GPU')}"
        )


class Obstacle(StrEnum):
    """What a rejected deployment fails on."""

    MEMORY = "memory"
    LIMIT = "limit"
    SETTING = "setting"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRejection:
    """A deployment that does not carry the load: why, and what would rescue it.

    `least_s` is the broken limit's time with one request at a time, None where no limit was broken. `usd_per_hour` is
    what a fleet costs that costs too much.
    """

    gpu: str
    reason: str
    obstacle: Obstacle
    sharding: Sharding
    engine: str
    weights: str | None = None
    rescue: str | None = None
    broken_option: str | None = None
    least_s: float | None = None
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaShare:
    fit: DeploymentFit
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedFleet:
    """Replicas of two kinds of GPUs that carry a load together, for less than those of one kind. [USD/h]"""

    parts: tuple[ReplicaShare, ReplicaShare]
    usd_per_hour: float

    @property
    def gpus(self) -> int:
        return sum(part.fit.gpus for part in self.parts)

    @property
    def words(self) -> str:
        return " + ".join(
            f"{part.fit.replicas} × {part.fit.sharding.gpus} {part.fit.gpu} for {part.share:.0%} of the requests"
            for part in self.parts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """All deployments of one model for a load, the recommended first.

    `disaggregated` are the best ways to put prefill and decode on GPUs of their own. `mixed` are replicas on two kinds
    of GPUs, None where they save nothing. `advice` says what would make a
    plan without fits possible. `unranked_gpus` have deployments that carry the load by their mean times and that were
    not simulated to the end, because others are cheaper. The limits are kept with a probability of
    `certainty_fraction` by the intervals of the times. `machine` describes the machine at hand that is planned for.
    """

    model: str
    params: int
    active_params: int
    load: TokenLoad
    limits: LatencyLimits
    fits: tuple[DeploymentFit, ...]
    rejections: tuple[DeploymentRejection, ...]
    assumptions: tuple[str, ...]
    disaggregated: tuple[DisaggregatedFit, ...] = ()
    mixed: MixedFleet | None = None
    notes: tuple[str, ...] = ()
    advice: str | None = None
    unranked_gpus: tuple[str, ...] = ()
    certainty_fraction: float = 0.5
    machine: tuple[str, ...] = ()

    @property
    def recommended(self) -> DeploymentFit | None:
        """Return the cheapest deployment with a price whose vendor and engine were measured; else the first."""
        return self.fits[0] if self.fits else None

    @property
    def cheaper(self) -> DeploymentFit | None:
        """Return a deployment that is clearly cheaper than the recommended one on weaker evidence; None without one."""
        priced = [fit for fit in self.fits if fit.usd_per_hour is not None]
        if not priced:
            return None
        return choose(priced, cost=lambda fit: fit.usd_per_hour or 0.0, is_weak=lambda fit: fit.is_transferred)[1]

    @property
    def gpus_without_fit(self) -> tuple[str, ...]:
        fitting = {*self.unranked_gpus, *(fit.gpu for fit in self.fits)}
        return tuple(dict.fromkeys(rejection.gpu for rejection in self.rejections if rejection.gpu not in fitting))


def rank_key(fit: DeploymentFit) -> tuple[bool, bool, float, int, int, bool, float, str]:
    """Return the order of deployments: with a price, measured before transferred, then by cost, size, fewer stages, a
    TTFT that is known, and headroom.

    The cost of a job is what it takes until it is done.
    """
    evidence = evidence_rank(cost=fit.cost_usd, is_weak=fit.is_transferred)
    headroom = fit.max_rate_per_s * fit.replicas
    return *evidence, fit.gpus, fit.sharding.pipeline, not is_known(fit.ttft_s), -headroom, fit.gpu


def front(fits: tuple[DeploymentFit, ...]) -> tuple[DeploymentFit, ...]:
    """Return the deployments that no other beats in tokens per second per GPU and per user at once."""
    values = [(fit, (fit.output_tokens_per_s_per_gpu, fit.output_tokens_per_s_per_user)) for fit in fits]
    return tuple(
        fit
        for fit, mine in values
        if not any(other != mine and other[0] >= mine[0] and other[1] >= mine[1] for _, other in values)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """A deployment with so many requests at a time: output tokens per second per GPU and per user. [1/s]"""

    fit: DeploymentFit
    running: float
    per_gpu: float
    per_user: float


def load_front(fits: tuple[DeploymentFit, ...]) -> tuple[FrontPoint, ...]:
    """Return the points of all load curves that no other beats per GPU and per user, fastest for a user first."""
    points = [
        FrontPoint(
            fit=fit,
            running=point.running,
            per_gpu=point.rate_per_s * fit.output_len / fit.sharding.gpus,
            per_user=1.0 / point.tpot_s,
        )
        for fit in fits
        for point in fit.curve
    ]
    points.sort(key=lambda point: (-point.per_user, -point.per_gpu))
    best, kept = 0.0, []
    for point in points:
        if point.per_gpu > best:
            best = point.per_gpu
            kept.append(point)
    return tuple(kept)


def different_choices(fits: Sequence[DeploymentFit]) -> tuple[DeploymentFit, ...]:
    """Return the first deployment of each GPU; where all are on one GPU, the first of each engine and size of
    replica.
    """
    several = len({fit.gpu for fit in fits}) > 1
    first: dict[tuple[str | int, ...], DeploymentFit] = {}
    for fit in fits:
        first.setdefault((fit.gpu,) if several else (fit.engine, fit.sharding.gpus, fit.weights), fit)
    return tuple(first.values())


def tied_engines(plan: DeploymentPlan) -> tuple[str, ...]:
    """Return the other engines that cost no more on the recommended GPU than the interval of TPOT leaves open."""
    best = plan.recommended
    if best is None or best.usd_per_hour is None:
        return ()
    most = best.usd_per_hour * best.tpot_s.high / best.tpot_s.expected
    engines = [
        fit.engine
        for fit in plan.fits
        if (fit.gpu, fit.weights) == (best.gpu, best.weights) and (fit.usd_per_hour or most + 1) <= most
    ]
    return tuple(engine for engine in dict.fromkeys(engines) if engine != best.engine)
