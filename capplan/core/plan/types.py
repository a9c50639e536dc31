"""Types of a plan: every GPU and batch in question is a fit or a rejection, ranked. `core.plan.planner` makes it."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from capplan.core.gpus.machines import LocalAmount, LocalCurrency
from capplan.core.gpus.prices import Price
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.types import LatencyEstimate
from capplan.core.memory.fit import usable_memory
from capplan.core.memory.types import FitStatus, MemoryEstimate
from capplan.core.numbers import Interval, ceil_guarded
from capplan.core.power import StepEnergy
from capplan.core.scaling.answer import ServingWays
from capplan.core.trace.types import HasParameters, ModelInput
from capplan.core.workload import DEFAULT_UTILIZATION, SortKey, Workload, precision_label
from capplan.units import format_rate, format_seconds, format_watts


class Constraint(StrEnum):
    """The limit that a rejected GPU breaks."""

    MEMORY = "memory"
    LATENCY = "latency"
    THROUGHPUT = "throughput"
    POWER = "power"
    SUPPORT = "support"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSize:
    """A finite amount of work: samples, and how often each is taken."""

    samples: int
    epochs: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on an answer: the share of usable memory that may be filled, latency, throughput of one GPU.

    `rate_per_s` is a load that as many GPUs carry together as it takes. [samples/s] `max_power_draw_w` is the most that
    the GPUs of one batch may draw. [W]
    """

    utilization_fraction: float = DEFAULT_UTILIZATION
    max_latency_s: float | None = None
    min_throughput_per_s: float | None = None
    rate_per_s: float | None = None
    max_power_draw_w: float | None = None

    @property
    def limits_speed(self) -> bool:
        """Return True if a latency or a throughput is asked for."""
        return self.max_latency_s is not None or self.min_throughput_per_s is not None

    @property
    def words(self) -> str:
        """Return the limits on speed, load and power in words, such as " within 50.0 ms"; empty where none is set."""
        found = []
        if self.max_latency_s is not None:
            found.append(f"within {format_seconds(self.max_latency_s)}")
        if self.rate_per_s is not None:
            found.append(f"for {format_rate(self.rate_per_s)}/s, each GPU at the low end of its rate")
        if self.min_throughput_per_s is not None:
            found.append(f"at {format_rate(self.min_throughput_per_s)}/s or more")
        if self.max_power_draw_w is not None:
            found.append(f"drawing {format_watts(self.max_power_draw_w)} or less")
        return f" {' and '.join(found)}" if found else ""

    def surely_kept_by(self, latency: LatencyEstimate) -> bool:
        """Return True if the bad end of an estimate's interval keeps the limits on speed."""
        limit_s, wanted = self.max_latency_s, self.min_throughput_per_s
        in_time = limit_s is None or latency.latency_s.high <= limit_s
        return in_time and (wanted is None or latency.throughput_per_s.low >= wanted)

    def without_speed(self) -> "Limits":
        """Return the limits without those of latency, throughput and load."""
        return replace(self, max_latency_s=None, min_throughput_per_s=None, rate_per_s=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts(HasParameters):
    """Facts of a model that hold on any GPU.

    MACs and FLOPs are of one sample's forward pass or training step. `activation_peak_bytes` is the most
    that lives at once beside weights, buffers and inputs, at batch 1 and before any rounding. [bytes]
    The operators together move `traffic_fixed_bytes` (weights above all) and `traffic_bytes_per_sample` for each
    sample; where the recording holds one batch only, all of it counts as the samples'.
    """

    name: str
    class_name: str
    input: ModelInput
    macs_per_sample: int
    flops_per_sample: int
    activation_peak_bytes: int
    traffic_fixed_bytes: int
    traffic_bytes_per_sample: int
    uncounted: tuple[str, ...]
    input_bytes_per_sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFacts:
    """A part of a pipeline on any GPU: its parameters, its weights, and how often it runs for a batch of one item."""

    name: str
    class_name: str
    parameter_count: int
    weight_bytes: int
    times: float
    flops_per_item: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFacts:
    """What a pipeline makes and of what parts; `parameters` are an item's, such as height and steps.

    `item_seconds` is how long an item of sound or film plays; None where it has no length. `gpu_count` GPUs share an
    item's sequence, as `sharing` says.
    """

    item: str
    parts: tuple[PartFacts, ...]
    parameters: Mapping[str, float]
    item_seconds: float | None = None
    gpu_count: int = 1
    sharing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTime:
    """A part's share of a batch of items on one GPU: how often it runs, in what time, and what moving it takes. [s]

    `peak_bytes` is the memory of the process while it runs, 0 on a CPU. `start_s` is when its first run starts, `on`
    where it runs, and `offload` where its weights wait.
    """

    name: str
    times: float
    compute_s: float
    moving_s: float
    peak_bytes: float
    start_s: float = 0.0
    on: str = "gpu"
    offload: str = "none"

    @property
    def total_s(self) -> float:
        """Time of all runs, moving the weights included. [s]"""
        return self.compute_s + self.moving_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A GPU that serves one batch within the limits, certainly or perhaps.

    `certain_batch` is the largest that fits its memory at the unfavourable end of every size, `max_batch` the largest
    by the expected sizes; `recommended_batch` is where more batch stops
    buying throughput within memory and latency limit, None where no batch keeps the latency limit.
    `scales` is False where the trace holds at this batch alone: larger ones were not judged, whatever the memory.
    `batching_gain` is the best throughput of a batch that fits over that of batch 1, None where none was estimated.
    `host_copy_s` is a bound: the batch's input over the printed PCIe rate, outside the latency. `rent` is the
    dated on-demand offer whose whole machines cost least, for the load where one is stated. `parts` are those of a
    pipeline, and `offload` says where the weights of its parts wait: "none", "model" or "sequential". `energy` is None
    where nobody asked for it, and where the card's power limit is not known.
    """

    gpu: GpuSpec
    batch: int
    status: FitStatus
    memory: MemoryEstimate
    latency: LatencyEstimate
    max_batch: int
    certain_batch: int
    recommended_batch: int | None
    host_copy_s: float | None
    rent: Price | None = None
    batching_gain: float | None = None
    scales: bool = True
    parts: tuple[PartTime, ...] = ()
    offload: str = "none"
    energy: StepEnergy | None = None

    @property
    def usd_per_million_samples(self) -> float | None:
        """Return what a million samples cost at the rented price and full load; None where no price is known. [USD]

        Of a machine with several GPUs all work, each with batches of its own. GPUs that share a batch are alone in
        their machine: of eight, four that train together bear the cost of all.
        """
        if self.rent is None:
            return None
        hourly = self.rent.usd_per_hour if self.gpus_together == 1 else self.rent.usd_per_machine_hour
        return hourly / 3600 / self.latency.throughput_per_s.expected * 1e6

    @property
    def gpus_together(self) -> int:
        """Return the GPUs that share a batch or train together, in one machine."""
        return self.latency.gpu_count * self.latency.gpus_per_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A GPU that cannot serve one batch: why, and by how much.

    `needed` and `available` are in the constraint's base unit: bytes, seconds, samples per second or watts;
    None where the GPU cannot run the workload at all. `min_gpus` is a bound for rejections by
    memory: the weights sharded evenly. `lacking` says in a few words why a GPU has no estimate.
    """

    gpu: GpuSpec
    batch: int
    constraint: Constraint
    reason: str
    needed: float | None
    available: float | None
    max_batch: int
    certain_batch: int
    min_gpus: int | None = None
    lacking: str = ""

    @property
    def shortfall(self) -> float:
        """Return by what factor the GPU misses the limit, above 1; infinite where it cannot run the workload."""
        if not self.needed or not self.available:
            return math.inf
        return max(self.needed / self.available, self.available / self.needed)


class Criterion(StrEnum):
    """The criterion by which a recommended GPU is best."""

    CHEAPEST = "cheapest"
    FASTEST_PRICED = "fastest_priced"
    SMALLEST = "smallest"


CRITERION_WORDS = {
    Criterion.CHEAPEST: "cheapest",
    Criterion.FASTEST_PRICED: "fastest with a price",
    Criterion.SMALLEST: "smallest that holds it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheaper:
    """A GPU of the plan that would cost less than the one recommended, and why it is not taken."""

    fit: Fit
    why_not: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A GPU and batch that a reader may take, with the reason.

    `warning` says what makes it uncertain, `licence` what its driver's licence forbids, `porting` what another vendor's
    GPU asks of software. `cheaper` are the GPUs of the plan that would cost less and are not taken, the cheapest first.
    """

    criterion: Criterion
    fit: Fit
    reason: str
    warning: str | None = None
    licence: str | None = None
    porting: str | None = None
    cheaper: tuple[Cheaper, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.criterion.value}: {self.fit.gpu.id} at batch {self.fit.batch}, {self.reason}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionEffect:
    """The effect of one other condition, such as half precision, on a fit; `option` requests it."""

    name: str
    option: str
    before: Fit
    after: Fit

    @property
    def speedup(self) -> float:
        """Return how many times as many samples a second the changed run takes."""
        return self.after.latency.throughput_per_s.expected / self.before.latency.throughput_per_s.expected

    @property
    def memory_share(self) -> float:
        """Return the memory of the changed run as a share of that before."""
        return self.after.memory.total_bytes.expected / self.before.memory.total_bytes.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer for one model: every GPU and batch asked for, ranked.

    `cautions` say what makes the figures of this model uncertain: values that were assumed, operators that could not be
    counted. `assumptions` are the conditions of the question.
    `host` is the machine that launches kernels, in words; None where graphs are replayed without one.
    `timed_release` is the release of PyTorch that stands in for the one asked for; None where that one was timed.
    `recommended` are the choices worth taking first, `shortlist` the ids of the GPUs that a short answer sets side by
    side, the most important first, `changes` what other conditions would make of the first recommendation. `pipeline`
    says what the samples are that a pipeline makes; None for a model. `offer_cautions` say what to know of the
    recommended GPUs before one is rented or bought: licence, porting, age of the price, what would cost less.
    `local` is the currency that costs also stand in, `ways` are those to serve the load of a week; None where they are
    not asked for.
    """

    model: ModelFacts
    target: str
    workload: Workload
    limits: Limits
    fits: tuple[Fit, ...]
    rejections: tuple[Rejection, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    calibration: str | None
    host: str | None = None
    timed_release: str | None = None
    cautions: tuple[str, ...] = ()
    job: JobSize | None = None
    recommended: tuple[Recommendation, ...] = ()
    offer_cautions: tuple[str, ...] = ()
    shortlist: tuple[str, ...] = ()
    changes: tuple[ConditionEffect, ...] = ()
    pipeline: PipelineFacts | None = None
    local: LocalCurrency | None = None
    ways: ServingWays | None = None

    def best(self, criterion: Criterion | str | None = None) -> Fit | None:
        """Return the recommended fit by a criterion; without one, the cheapest, else the first in order.

        Args:
            criterion: "cheapest", "fastest_priced" or "smallest".
        """
        if criterion is not None:
            wanted = Criterion(criterion)
            return next((choice.fit for choice in self.recommended if choice.criterion is wanted), None)
        if self.recommended and self.recommended[0].criterion is Criterion.CHEAPEST:
            return self.recommended[0].fit
        return self.fits[0] if self.fits else None

    @property
    def cheapest(self) -> Fit | None:
        """The cheapest fit; None where none has a price."""
        return self.best(Criterion.CHEAPEST)

    @property
    def fastest(self) -> Fit | None:
        """The fastest fit with a price; None where none has one."""
        return self.best(Criterion.FASTEST_PRICED)

    @property
    def smallest(self) -> Fit | None:
        """The fit on the GPU with the least memory; None where nothing fits."""
        return self.best(Criterion.SMALLEST)

    def gpus_for_rate(self, fit: Fit) -> int | None:
        """Return how many GPUs carry the load, each at the low end of its throughput; None without a load."""
        return gpus_for_rate(self.limits, fit.latency)

    def machines(self, fit: Fit) -> int | None:
        """Return how many whole machines are rented: for the load, else for one GPU; None without a price."""
        if fit.rent is None:
            return None
        return fit.rent.machines_for(self.gpus_for_rate(fit) or fit.gpus_together, together=fit.gpus_together)

    def offer_words(self, fit: Fit) -> str:
        """Return what is rented, such as "2 × aws g6.12xlarge, us-east-1, 4 GPUs each"; empty without a price."""
        machines = self.machines(fit)
        if fit.rent is None or machines is None:
            return ""
        each = f", {fit.rent.instance_gpus} GPUs each" if fit.rent.instance_gpus > 1 else ""
        return f"{f'{machines:,} × ' if machines > 1 else ''}{fit.rent.offer_words}{each}"

    def usd_per_hour(self, fit: Fit) -> float | None:
        """Return what the machines cost that carry the load, that hold one GPU without a load. [USD/h]

        None without a price.
        """
        machines = self.machines(fit)
        return None if fit.rent is None or machines is None else machines * fit.rent.usd_per_machine_hour

    def local_cost(self, fit: Fit) -> LocalAmount | None:
        """Return the cost of an hour in the local currency; None where none is asked for, or no price is known."""
        usd = self.usd_per_hour(fit)
        if self.local is None or usd is None or fit.rent is None:
            return None
        return self.local.amount(usd, country=fit.rent.country)

    def gpu_hours(self, fit: Fit) -> Interval | None:
        """Return how many hours of such GPUs the job takes, all of them counted; None without a job. [h]"""
        if self.job is None:
            return None
        steps = self.job.samples * self.job.epochs / fit.latency.samples * fit.gpus_together
        time = fit.latency.interval_s or fit.latency.latency_s
        return time * (steps / 3600)

    @property
    def precision_label(self) -> str:
        """Return the number formats in words: the model's own dtype where fp32 was not what it is built in."""
        return precision_label(self.workload.precision, self.model.dtype)


def gpus_for_rate(limits: Limits, latency: LatencyEstimate) -> int | None:
    """Return how many GPUs carry the load, each at the low end of its throughput; None without a load."""
    return None if limits.rate_per_s is None else gpus_carrying(limits.rate_per_s, latency)


def gpus_carrying(rate_per_s: float, latency: LatencyEstimate) -> int:
    """Return how many GPUs carry a rate of samples, each at the low end of its throughput."""
    together = latency.gpu_count * latency.gpus_per_batch
    return together * max(1, ceil_guarded(rate_per_s / latency.throughput_per_s.low))


FIT_RANKS: Mapping[SortKey, Callable[[Fit], float]] = {
    SortKey.THROUGHPUT: lambda fit: -fit.latency.throughput_per_s.expected,
    SortKey.LATENCY: lambda fit: fit.latency.latency_s.expected,
    SortKey.MEMORY: lambda fit: usable_memory(fit.gpu).expected,
    SortKey.COST: lambda fit: float("inf") if fit.usd_per_million_samples is None else fit.usd_per_million_samples,
    SortKey.PRICE: lambda fit: fit.rent.usd_per_machine_hour if fit.rent else float("inf"),
    SortKey.ENERGY: lambda fit: float("inf") if fit.energy is None else fit.energy.joules_per_sample.expected,
    SortKey.NAME: lambda _: 0.0,
}
"""What orders fits, small for the best; without a price a GPU stands last by cost, without a power limit by energy."""


def rank_fits(fits: Iterable[Fit], sort: SortKey) -> tuple[Fit, ...]:
    """Order fits by a key, best first: by memory the smallest card first."""
    return tuple(sorted(fits, key=lambda fit: (FIT_RANKS[sort](fit), fit.gpu.id, fit.batch)))
