"""Price training runs, and search GPUs, counts and layouts for one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from capplan.core.gpus.machines import LocalAmount, LocalCurrency
from capplan.core.gpus.prices import Price
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import Interval
from capplan.core.power import CardWork, PowerLaw, energy_j, step_power_w
from capplan.errors import CapplanError
from capplan.llm.core.training.accuracy import TrainingCalibration
from capplan.llm.core.training.estimate import TrainingEstimate, estimate_training
from capplan.llm.core.training.flops import matmul_peak
from capplan.llm.core.training.job import TrainingJob
from capplan.llm.core.training.run import Dataset, RunReliability, TrainingRun, plan_run
from capplan.llm.core.training.search import (
    Found,
    LayoutCandidate,
    Peaks,
    money_usd,
    prefer_safer,
    search_layouts,
)
from capplan.llm.core.training.work import training_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """What a run trains on, and how often it is interrupted."""

    dataset: Dataset = field(default_factory=Dataset)
    reliability: RunReliability = field(default_factory=RunReliability)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedTraining:
    """An estimate with the run over its tokens, its money and its energy; None where no tokens or price are known.

    `energy_j` is that of the GPUs alone. [J]
    """

    estimate: TrainingEstimate
    run: TrainingRun | None
    offer: Price | None
    usd: Interval | None
    energy_j: Interval | None

    @property
    def job(self) -> TrainingJob:
        """Return the job."""
        return self.estimate.job

    @property
    def fit_probability(self) -> float:
        """Return the probability that the job fits its GPUs."""
        return self.estimate.memory.fit_probability

    @property
    def gpu_id(self) -> str:
        """Return the id of the GPU."""
        return self.estimate.memory.gpu.id


def price_training(
    estimate: TrainingEstimate, terms: RunTerms, *, offer: Price | None, law: PowerLaw
) -> PricedTraining:
    """Return an estimate with its run, money and energy."""
    job = estimate.job
    tokens = terms.dataset.processed_tokens(job.sequence_tokens, micro_batch=job.micro_batch)
    if tokens is None:
        return PricedTraining(estimate=estimate, run=None, offer=offer, usd=None, energy_j=None)
    run = plan_run(job, step_s=estimate.step_s, tokens=tokens, reliability=terms.reliability)
    power = _power_w(estimate, law)
    energy = energy_j(power, run.wall_s.expected * job.layout.gpus) if power else None
    usd = money_usd(run.gpu_hours, offer, gpus=job.layout.gpus) if offer else None
    return PricedTraining(estimate=estimate, run=run, offer=offer, usd=usd, energy_j=energy)


def _power_w(estimate: TrainingEstimate, law: PowerLaw) -> Interval | None:
    """Return the mean power of one GPU: its FLOPs by format, and the traffic of what pointwise operators move."""
    gpu, step = estimate.memory.gpu, estimate.step
    kind = matmul_peak(gpu, estimate.job.compute) or PeakKind.FP16
    time_s = estimate.step_s.expected
    moving_s = min(time_s, step.pointwise_s + step.loss_s + step.optimizer_s)
    work = CardWork(
        traffic_bytes=moving_s * gpu.memory_bandwidth_bytes_per_s,
        flops={kind: estimate.rates.hardware_flops_per_s * time_s},
        time_s=time_s,
    )
    return step_power_w(gpu, work, law)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanConstraints:
    """What a plan may use and must keep: GPU counts, sequences of a step, and limits on time and money."""

    counts: tuple[int, ...]
    global_batch: int
    deadline_s: float | None = None
    budget_usd: float | None = None
    network_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The runs that keep the limits, and those that nearly do.

    `priced` are the best layouts of every GPU and count, `passed_over` the fastest ones where a safer one was
    preferred, `rejected` counts layouts by reason over all searches, and `refused` names GPUs of which nothing was
    estimated, with the reason.
    """

    job: TrainingJob
    terms: RunTerms
    asked: PlanConstraints
    priced: tuple[PricedTraining, ...]
    runners_up: Mapping[tuple[str, int], LayoutCandidate]
    passed_over: Mapping[tuple[str, int], LayoutCandidate]
    rejected: Counter[str]
    refused: Mapping[str, str]
    tried: int
    local: LocalCurrency | None = None

    @property
    def local_cost(self) -> LocalAmount | None:
        """Return what the cheapest run costs in the local currency; None where none is asked for."""
        best = self.cheapest
        if self.local is None or best is None or best.usd is None or best.offer is None:
            return None
        return self.local.amount(best.usd.expected, country=best.offer.country)

    @property
    def kept(self) -> tuple[PricedTraining, ...]:
        """Return the runs within the deadline and the budget."""
        deadline_s, budget_usd = self.asked.deadline_s, self.asked.budget_usd
        return tuple(
            priced
            for priced in self.priced
            if (deadline_s is None or priced.run is None or priced.run.wall_s.expected <= deadline_s)
            and (budget_usd is None or (priced.usd is not None and priced.usd.expected <= budget_usd))
        )

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
        """Return the fastest run."""
        return max(self.kept, key=lambda run: run.estimate.tokens_per_s.expected, default=None)

    @property
    def fewest(self) -> PricedTraining | None:
        """Return the run with the fewest GPUs, the faster one of equals."""
        return min(self.kept, key=lambda run: (run.job.layout.gpus, -run.estimate.tokens_per_s.expected), default=None)


def plan_training(
    job: TrainingJob,
    *,
    gpus: Sequence[GpuSpec],
    asked: PlanConstraints,
    terms: RunTerms,
    offers: Mapping[str, Price],
    calibration: TrainingCalibration,
    laws: RateLaws,
    law: PowerLaw,
) -> TrainingPlan:
    """Search GPUs, counts, layouts, micro-batches and recomputation for a run."""
    priced: list[PricedTraining] = []
    searches: dict[tuple[str, int], Found] = {}
    refused: dict[str, str] = {}
    peaks: Peaks = {}
    network = asked.network_bytes_per_s
    for gpu in gpus:
        try:
            machine = training_gpu(gpu, laws, network_bytes_per_s=network)
        except CapplanError as error:
            refused[gpu.id] = str(error)
            continue
        for count in asked.counts:
            found = searches[gpu.id, count] = search_layouts(
                job, machine, gpus=count, global_batch=asked.global_batch, calibration=calibration, peaks=peaks
            )
            if found.best is not None:
                estimate = estimate_training(
                    found.best.job, gpu, calibration=calibration, laws=laws, network_bytes_per_s=network
                )
                priced.append(price_training(estimate, terms, offer=offers.get(gpu.id), law=law))
    return TrainingPlan(
        job=job,
        terms=terms,
        asked=asked,
        priced=tuple(priced),
        runners_up={key: search.runner_up for key, search in searches.items() if search.runner_up is not None},
        passed_over={key: search.passed_over for key, search in searches.items() if search.passed_over is not None},
        rejected=sum((search.rejected for search in searches.values()), Counter[str]()),
        refused=refused,
        tried=sum(search.tried for search in searches.values()),
    )
