"""Price training runs, and search GPUs, counts and layouts for one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from capplan.core.gpus.machines import LocalAmount, LocalCurrency
from capplan.core.gpus.prices import Price
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import Interval
from capplan.core.power import PowerLaw
from capplan.errors import CapplanError
from capplan.llm.core.training.accuracy import TrainingCalibration
from capplan.llm.core.training.estimate import TrainingEstimate, estimate_training
from capplan.llm.core.training.frameworks import States
from capplan.llm.core.training.job import BaseFormat, Method, Offloaded, OptimizerRecipe, TrainingJob, impossible
from capplan.llm.core.training.run import Dataset, RunReliability, TrainingRun, plan_run
from capplan.llm.core.training.search import (
    Found,
    LayoutCandidate,
    Peaks,
    money_usd,
    prefer_safer,
    run_offer,
    search_layouts,
)
from capplan.llm.core.training.stated_file import StatedFile
from capplan.llm.core.training.work import training_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """What a run trains on, and how often it is interrupted."""

    dataset: Dataset = field(default_factory=Dataset)
    reliability: RunReliability = field(default_factory=RunReliability)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedTraining:
    """An estimate with the run over its tokens, its money and its energy; None where no tokens or price are known.

    `usd` is of the run of tuned steps, `campaign_usd` of a whole campaign, and `energy_j` of the run's GPUs alone.
    """

    estimate: TrainingEstimate
    run: TrainingRun | None = None
    offer: Price | None = None
    usd: Interval | None = None
    campaign_usd: Interval | None = None
    energy_j: Interval | None = None
    files: tuple[StatedFile, ...] = ()

    @property
    def job(self) -> TrainingJob:
        return self.estimate.job

    @property
    def fit_probability(self) -> float:
        return self.estimate.memory.fit_probability

    @property
    def gpu_id(self) -> str:
        return self.estimate.memory.gpu.id

    @property
    def efforts(self) -> tuple[float, float, float]:
        """Return time, money and energy, of the run or else of a token; what is not known is infinite. [s, USD, J]"""
        time_s = self.run.wall_s.expected if self.run else 1.0 / self.estimate.tokens_per_s.expected
        energy_j = self.energy_j or self.estimate.joules_per_token
        return time_s, self.usd.expected if self.usd else inf, energy_j.expected if energy_j else inf

    def is_dominated(self, others: "Iterable[PricedTraining]") -> bool:
        """Return True if another run takes no more time, money and energy, and less of one."""
        own = self.efforts
        return any(
            other.efforts != own and all(theirs <= mine for theirs, mine in zip(other.efforts, own, strict=True))
            for other in others
        )


def price_training(
    estimate: TrainingEstimate, terms: RunTerms, *, offer: Price | None, campaign: Interval
) -> PricedTraining:
    job = estimate.job
    tokens = terms.dataset.processed_tokens(job.sequence_tokens, micro_batch=job.micro_batch)
    if tokens is not None and terms.dataset.samples is not None:
        tokens *= job.parts.sequences
    if tokens is None:
        return PricedTraining(estimate=estimate, offer=offer)
    run = plan_run(job, step_s=estimate.step_s, tokens=tokens, reliability=terms.reliability, campaign=campaign)
    energy, gpus = estimate.energy, job.layout.gpus
    return PricedTraining(
        estimate=estimate,
        run=run,
        offer=offer,
        usd=money_usd(run.gpu_hours, offer, gpus=gpus) if offer else None,
        campaign_usd=money_usd(run.campaign_gpu_hours, offer, gpus=gpus) if offer else None,
        energy_j=energy.joules_per_sample * (run.steps / run.goodput_fraction) if energy else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanConstraints:
    """What a plan may use and must keep: GPU counts, sequences of a step, and limits on time and money.

    Counts that are not `stated` are tried as powers of two, and for a deadline all that whole machines allow between
    them. The sequences of a step may move by a share of `batch_slack`.
    """

    counts: tuple[int, ...]
    global_batch: int
    is_stated: bool = True
    batch_slack: float = 0.0
    deadline_s: float | None = None
    budget_usd: float | None = None
    network_bytes_per_s: float | None = None
    certainty_fraction: float = 0.5

    def kept_by(self, priced: PricedTraining) -> bool:
        """Return True if a run keeps the deadline and the budget with the certainty asked for."""
        limits = ((self.deadline_s, priced.run.wall_s if priced.run else None), (self.budget_usd, priced.usd))
        return all(
            limit is None or (taken is not None and taken.probability_within(limit) >= self.certainty_fraction)
            for limit, taken in limits
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShortfall:
    """The least that a layout needs of one GPU where none fits, and what the GPU gives. [bytes]"""

    gpu: str
    gpus: int
    needed_bytes: float
    usable_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """A change of a job that nothing fits, in words, and the best run with it."""

    words: str
    priced: PricedTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The runs that keep the limits, and those that nearly do.

    `priced` are the best layouts of every GPU and count, `passed_over` the fastest ones where a safer one was
    preferred, `rejected` counts layouts by reason over all searches, `without` says it of every GPU and count of which
    no layout is left, and `refused` names GPUs of which nothing was estimated, with the reason. `nearest` is, where
    nothing fits, what lacks least of a GPU's memory, and `ways` are changes of the job that let it fit, the best first.
    """

    job: TrainingJob
    terms: RunTerms
    asked: PlanConstraints
    priced: tuple[PricedTraining, ...]
    runners_up: Mapping[tuple[str, int], LayoutCandidate]
    passed_over: Mapping[tuple[str, int], LayoutCandidate]
    rejected: Counter[str]
    without: Mapping[tuple[str, int], str]
    refused: Mapping[str, str]
    tried: int
    nearest: "MemoryShortfall | None" = None
    ways: "tuple[WayOut, ...]" = ()
    local: LocalCurrency | None = None
    files: tuple[StatedFile, ...] = ()

    @property
    def local_cost(self) -> LocalAmount | None:
        """Return what the cheapest run costs in the local currency; None where none is asked for."""
        best = self.cheapest
        if self.local is None or best is None or best.usd is None or best.offer is None:
            return None
        return self.local.amount(best.usd.expected, country=best.offer.country)

    @property
    def kept(self) -> tuple[PricedTraining, ...]:
        return tuple(filter(self.asked.kept_by, self.priced))

    @property
    def efficient(self) -> tuple[PricedTraining, ...]:
        """Return the runs that no other one beats in time, money and energy at once, the quickest first."""
        kept = self.kept
        return tuple(sorted((run for run in kept if not run.is_dominated(kept)), key=lambda run: run.efforts))

    @property
    def cheapest(self) -> PricedTraining | None:
        """Return the cheapest run; None where none keeps the limits and has a price."""
        priced = (run for run in self.kept if run.usd is not None)
        return min(priced, key=lambda run: run.usd.expected if run.usd else inf, default=None)

    @property
    def safer(self) -> PricedTraining | None:
        """Return a run that costs at most 5 % more than the cheapest and fits with a clearly higher probability.

        None where there is none, or the cheapest run is safe.
        """
        priced = [run for run in self.kept if run.usd is not None]
        if not priced:
            return None
        preferred = prefer_safer(
            priced, cost=lambda run: run.usd.expected if run.usd else inf, probability=lambda run: run.fit_probability
        )
        return None if preferred is self.cheapest else preferred

    @property
    def fastest(self) -> PricedTraining | None:
        return max(self.kept, key=lambda run: run.estimate.tokens_per_s.expected, default=None)

    @property
    def fewest(self) -> PricedTraining | None:
        """Return the run with the fewest GPUs: the cheapest of equals, the fastest where no price is known."""
        return min(
            self.kept,
            key=lambda run: (
                run.job.layout.gpus,
                run.usd.expected if run.usd else inf,
                -run.estimate.tokens_per_s.expected,
            ),
            default=None,
        )


def plan_training(
    job: TrainingJob,
    *,
    gpus: Sequence[GpuSpec],
    asked: PlanConstraints,
    terms: RunTerms,
    offers: Mapping[str, Sequence[Price]],
    calibration: TrainingCalibration,
    laws: RateLaws,
    law: PowerLaw,
) -> TrainingPlan:
    """Search GPUs, counts, layouts, micro-batches and recomputation for a run.

    Where nothing fits, smaller jobs are searched, too.
    """
    found = _Searches(job=job, offers=offers, calibration=calibration, laws=laws, law=law, terms=terms, asked=asked)
    for gpu in gpus:
        found.search(gpu, asked.counts)
        if not asked.is_stated and asked.deadline_s is not None:
            found.refine(gpu)
    plan = found.plan()
    if plan.priced:
        return plan
    return replace(plan, nearest=found.nearest(), ways=_ways_out(found, gpus))


@dataclass(slots=True, kw_only=True)
class _Searches:
    """The searches of one job on GPUs and counts, and what they found."""

    job: TrainingJob
    offers: Mapping[str, Sequence[Price]]
    calibration: TrainingCalibration
    laws: RateLaws
    law: PowerLaw
    terms: RunTerms
    asked: PlanConstraints
    priced: dict[tuple[str, int], PricedTraining] = field(default_factory=dict, init=False)
    found: dict[tuple[str, int], Found] = field(default_factory=dict, init=False)
    refused: dict[str, str] = field(default_factory=dict, init=False)
    usable: dict[str, float] = field(default_factory=dict, init=False)
    _peaks: Peaks = field(default_factory=dict, init=False)

    def search(self, gpu: GpuSpec, counts: Iterable[int]) -> None:
        asked = self.asked
        self.usable[gpu.id] = gpu.expected_usable_bytes
        if (reason := impossible(self.job, gpu) or self.law.refusal(gpu)) is not None:
            self.refused[gpu.id] = reason
            return
        for count in counts:
            offer = self._offer(gpu, count)
            network = offer.server.network_bytes_per_s if offer and count > offer.instance_gpus else None
            network = asked.network_bytes_per_s or network
            try:
                machine = training_gpu(gpu, self.laws, network_bytes_per_s=network)
            except CapplanError as error:
                self.refused[gpu.id] = str(error)
                return
            found = self.found[gpu.id, count] = search_layouts(
                self.job, machine, gpus=count, global_batch=asked.global_batch, batch_slack=asked.batch_slack,
                calibration=self.calibration, peaks=self._peaks,
            )  # fmt: skip
            if found.best is not None:
                estimate = estimate_training(
                    found.best.job, gpu, calibration=self.calibration, laws=self.laws, network_bytes_per_s=network,
                    law=self.law,
                )  # fmt: skip
                self.priced[gpu.id, count] = price_training(
                    estimate, self.terms, offer=offer, campaign=self.calibration.campaign
                )

    def _offer(self, gpu: GpuSpec, count: int) -> Price | None:
        network = self.asked.network_bytes_per_s
        return run_offer(self.offers.get(gpu.id, ()), gpu, gpus=count, network_bytes_per_s=network)

    def refine(self, gpu: GpuSpec) -> None:
        """Search the fewest GPUs in whole machines that keep a deadline, between the counts that were tried."""
        rented = self._offer(gpu, max(self.asked.counts))
        unit = rented.instance_gpus if rented else _USUAL_MACHINE
        in_time = replace(self.asked, budget_usd=None)

        def keeps(count: int) -> bool:
            priced = self.priced.get((gpu.id, count))
            return priced is not None and in_time.kept_by(priced)

        tried = sorted(count for name, count in self.found if name == gpu.id)
        most = next((count for count in tried if keeps(count)), None)
        if most is None:
            return
        least = max((count for count in tried if count < most), default=0)
        while most - least > unit:
            middle = max(least + unit, (least + most) // 2 // unit * unit)
            if middle >= most:
                return
            self.search(gpu, (middle,))
            least, most = (least, middle) if keeps(middle) else (middle, most)

    def nearest(self) -> MemoryShortfall | None:
        """Return the layout that lacks least of a GPU's memory."""
        misses = [
            MemoryShortfall(gpu=name, gpus=count, needed_bytes=found.least_bytes, usable_bytes=self.usable[name])
            for (name, count), found in self.found.items()
            if found.least_bytes is not None
        ]
        return min(misses, key=lambda miss: miss.needed_bytes / miss.usable_bytes, default=None)

    def plan(self) -> TrainingPlan:
        searches = self.found
        others = searches if self.law.cap_w is None else {}  # layouts are searched without a power limit
        without = {
            key: found.rejected.most_common(1)[0][0] if found.rejected else "no layout of this framework"
            for key, found in searches.items()
            if found.best is None
        }
        return TrainingPlan(
            job=self.job,
            terms=self.terms,
            asked=self.asked,
            priced=tuple(self.priced.values()),
            runners_up={key: found.runner_up for key, found in others.items() if found.runner_up is not None},
            passed_over={key: found.passed_over for key, found in others.items() if found.passed_over is not None},
            rejected=sum((found.rejected for found in searches.values()), Counter[str]()),
            without=without,
            refused=self.refused,
            tried=sum(found.tried for found in searches.values()),
        )


_USUAL_MACHINE = 8
_MOST_WAYS, _MOST_TRIED = 3, 4


def _ways_out(stated: _Searches, gpus: Sequence[GpuSpec]) -> tuple[WayOut, ...]:
    found: list[WayOut] = []
    for words, changed, times in _changes(stated.job):
        searches = replace(stated, job=changed)
        for gpu in gpus[:_MOST_TRIED]:
            searches.search(gpu, [count * times for count in stated.asked.counts[-_MOST_TRIED:]])
        if searches.priced:
            best = min(searches.priced.values(), key=_cost)
            found.append(WayOut(words=words, priced=best))
    return tuple(sorted(found, key=lambda way: _cost(way.priced))[:_MOST_WAYS])


def _cost(priced: PricedTraining) -> tuple[float, float]:
    """Return what runs are ordered by: money where it is known, then the time of a token and GPU."""
    usd = priced.usd.expected if priced.usd else inf
    return usd, priced.job.layout.gpus / priced.estimate.tokens_per_s.expected


def _changes(job: TrainingJob) -> Iterator[tuple[str, TrainingJob, int]]:
    """Yield changes that make a job smaller, in words, and how many times as many GPUs each takes."""
    can_offload = not job.framework.keeps_gradients or Offloaded.OPTIMIZER not in job.offloaded
    if job.optimizer is OptimizerRecipe.ADAMW:
        yield "⟨optimizer⟩ adamw-8bit", replace(job, optimizer=OptimizerRecipe.ADAMW_8BIT), 1
    if job.method is Method.FULL:
        lora = replace(job, method=Method.LORA, states=States.PURE)
        yield "⟨method⟩ lora", lora, 1
        yield "⟨method⟩ qlora", replace(lora, method=Method.QLORA, base=BaseFormat.NF4_DQ), 1
        if job.states is not States.PURE:
            yield "⟨states⟩ pure", replace(job, states=States.PURE), 1
    elif job.method is Method.LORA:
        yield "⟨method⟩ qlora", replace(job, method=Method.QLORA, base=BaseFormat.NF4_DQ), 1
    if can_offload:
        moved = job.offloaded | {Offloaded.OPTIMIZER, Offloaded.PARAMETERS}
        words = "⟨offload⟩ parameters" if job.is_adapted else "⟨offload⟩ optimizer ⟨offload⟩ parameters"
        yield words, replace(job, offloaded=moved), 1
    if job.sequence_tokens >= 2 * _SHORTEST:
        half = job.sequence_tokens // 2
        yield f"⟨seq-len⟩ {half}", replace(job, sequence_tokens=half), 1
    yield "twice as many GPUs", job, 2


_SHORTEST = 512
"""Sequences are not proposed to be shorter. [tokens]"""
