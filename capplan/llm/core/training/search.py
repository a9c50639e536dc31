"""Search the layouts of a training job on a number of GPUs: the fastest that fits, and what limits the others."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from capplan.core.gpus.machines import joined_gpus
from capplan.core.gpus.prices import Price
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import Interval
from capplan.llm.core.layers import Experts
from capplan.llm.core.sharding import GPUS_PER_SERVER, tensor_refusal
from capplan.llm.core.training.accuracy import TrainingCalibration
from capplan.llm.core.training.estimate import objective_step
from capplan.llm.core.training.frameworks import Family
from capplan.llm.core.training.job import (
    Recompute,
    Shard,
    TrainingJob,
    TrainingLayout,
    recompute_choices,
    shares_layers,
)
from capplan.llm.core.training.memory import MemoryScope, estimate_memory
from capplan.llm.core.training.step_time import TrainingStepTime
from capplan.llm.core.training.work import TrainingGpu

_MOST_PIPELINE, _MOST_MICRO_BATCH = 32, 64
_LONG_SEQUENCE = 16_384
"""Sequences from this length on may be shared among GPUs (context parallelism)."""
_FREE_SHARE = 0.08
"""The share of memory that a plan leaves free: the median error of predicted peaks that were held out."""
SAFE_PROBABILITY = 0.95
"""The probability to fit from which on a layout is safe, so that no slower one is preferred to it."""
_SAFER_BY, _PRICE_OF_SAFETY = 0.10, 0.05
"""By how much more probable it must be that another choice fits, and how much more it may take, to be preferred."""


Peaks = dict[tuple[TrainingLayout, int, int, Recompute], float]
"""The expected peak of one GPU, in bytes, by layout, micro-batch, accumulation and recomputation of one job.

It does not depend on the GPU, so that searches on many GPUs share it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutCandidate:
    """A layout that fits, with its step. [s]

    `peak_bytes` is the expected peak of one GPU, and `fit_probability` how probable it is that it fits.
    """

    job: TrainingJob
    gpu: str
    step: TrainingStepTime
    peak_bytes: float
    fit_probability: float

    @property
    def tokens_per_s(self) -> float:
        return self.job.step_tokens / self.step.total_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found on some GPUs: the best layouts first, and how many were left out for which reason.

    The best is the fastest, unless one that is clearly safer takes at most 5 % longer; then `passed_over` is the
    fastest. `least_bytes` is the least that a layout needs of one GPU, where none fits.
    """

    candidates: tuple[LayoutCandidate, ...] = ()
    rejected: Counter[str] = field(default_factory=Counter)
    tried: int = 0
    passed_over: LayoutCandidate | None = None
    least_bytes: float | None = None

    @property
    def best(self) -> LayoutCandidate | None:
        return self.candidates[0] if self.candidates else None

    @property
    def runner_up(self) -> LayoutCandidate | None:
        """Return the fastest candidate of another layout than the best, other than what was passed over for it."""
        others = (candidate for candidate in self.candidates[1:] if candidate is not self.passed_over)
        return next((other for other in others if other.job.layout != self.candidates[0].job.layout), None)


def search_layouts(
    job: TrainingJob,
    gpu: TrainingGpu,
    *,
    gpus: int,
    global_batch: int,
    calibration: TrainingCalibration,
    batch_slack: float = 0.0,
    peaks: Peaks | None = None,
    keep: int = 5,
) -> Found:
    """Search layouts, micro-batches and recomputation of a job on some GPUs of a kind.

    For every layout and micro-batch the least recomputation that fits is taken, and more of it where that is not safe;
    the fastest ones are kept. A twelfth of the memory stays free, because predicted peaks are off by as much. A layout
    that is clearly safer is preferred where it takes at most 5 % longer. The global batch may move by a share of
    `batch_slack`, so that it divides among the ranks; layouts are compared by the time of a token.
    """
    known = {} if peaks is None else peaks
    rejected: Counter[str] = Counter()
    found: list[LayoutCandidate] = []
    tried = 0
    for layout in layouts(job, gpu, gpus=gpus):
        per_rank = sequences_of_rank(global_batch, layout.data, slack=batch_slack)
        if per_rank is None:
            rejected["a global batch (⟨global-batch⟩) that does not divide among data-parallel ranks"] += 1
            continue
        for micro_batch in micro_batches(per_rank):
            tried += 1
            asked = replace(job, layout=layout, micro_batch=micro_batch, accumulation=per_rank // micro_batch)
            if job.optimizer_in_backward and asked.accumulation > 1:
                rejected["an optimizer in the backward pass, which sums no micro-batches"] += 1
                continue
            fitting = list(_fitting(asked, gpu, calibration, known))
            found += fitting
            if not fitting:
                rejected["memory"] += 1
                break  # a larger micro-batch needs more
    found.sort(key=lambda candidate: -candidate.tokens_per_s)
    if not found:
        peaks_here = [peak for key, peak in known.items() if key[0].gpus == gpus]
        return Found(rejected=rejected, tried=tried, least_bytes=min(peaks_here, default=None))
    fastest = found[0]
    best = prefer_safer(
        found, cost=lambda answer: 1 / answer.tokens_per_s, probability=lambda answer: answer.fit_probability
    )
    others = [answer for answer in found[:keep] if answer is not best]
    return Found(
        candidates=(best, *others[: keep - 1]),
        rejected=rejected,
        tried=tried,
        passed_over=None if best is fastest else fastest,
    )


def sequences_of_rank(global_batch: int, ranks: int, *, slack: float) -> int | None:
    """Return the sequences of a step on one data-parallel rank; None where no batch near the asked one divides.

    Of the batches within the slack the one that micro-batches divide most often is taken, then the nearest.
    """
    if global_batch % ranks == 0:
        return global_batch // ranks
    near = range(max(1, -(-int(global_batch * (1 - slack)) // ranks)), int(global_batch * (1 + slack)) // ranks + 1)
    return max(near, key=lambda each: (each & -each, -abs(each * ranks - global_batch)), default=None)


def _fitting(
    job: TrainingJob, gpu: TrainingGpu, calibration: TrainingCalibration, peaks: Peaks
) -> Iterator[LayoutCandidate]:
    """Yield a job with the least recomputation that fits, and with more of it until it is safe."""
    usable = gpu.gpu.expected_usable_bytes
    evidence = calibration.memory_evidence(gpu=gpu.gpu, framework=job.framework)
    for choice in recompute_choices(job):
        asked = replace(job, recompute=choice)
        key = (job.layout, job.micro_batch, job.accumulation, choice)
        if (peak := peaks.get(key)) is None:
            peak = peaks[key] = estimate_memory(asked, calibration.memory).peak(MemoryScope.DEVICE)
        if peak > usable * (1 - _FREE_SHARE):
            continue
        probability = calibration.fit_probability(peak, usable_bytes=usable, evidence=evidence)
        time = objective_step(asked, gpu, calibration.time)
        yield LayoutCandidate(job=asked, gpu=gpu.gpu.id, step=time, peak_bytes=peak, fit_probability=probability)
        if probability >= SAFE_PROBABILITY:
            return


_Choice = TypeVar("_Choice")


def prefer_safer(
    choices: Sequence[_Choice], *, cost: Callable[[_Choice], float], probability: Callable[[_Choice], float]
) -> _Choice:
    """Return the cheapest choice, or one that costs at most 5 % more and fits with a clearly higher probability."""
    cheapest = min(choices, key=cost)
    wanted = probability(cheapest) + _SAFER_BY
    if probability(cheapest) >= SAFE_PROBABILITY:
        return cheapest
    safer = [
        choice
        for choice in choices
        if cost(choice) <= cost(cheapest) * (1 + _PRICE_OF_SAFETY) and probability(choice) >= wanted
    ]
    return max(safer, key=lambda choice: (min(probability(choice), SAFE_PROBABILITY), -cost(choice)), default=cheapest)


def micro_batches(per_rank: int) -> list[int]:
    """Return the powers of two up to 64 that divide the sequences of a rank."""
    return [size for size in _powers(min(per_rank, _MOST_MICRO_BATCH)) if per_rank % size == 0]


def layouts(job: TrainingJob, gpu: TrainingGpu, *, gpus: int) -> Iterator[TrainingLayout]:
    """Yield the layouts of a job that are possible on some GPUs.

    Only some frameworks share layers; the others share data and states. Tensor parallelism stays within the fast links
    of a server. Pipelines have as many stages as leave every stage a layer, and interleave where layers divide. Experts
    are spread over the GPUs of a stage.
    """
    per_node = max(8, gpu.fast_gpus)
    total = len(job.architecture.layers)
    can_share_layers = shares_layers(job.framework)
    if job.framework.family is Family.UNSLOTH and gpus > 1:
        return
    most_tensor = min(gpus, gpu.fast_gpus if gpu.fast_bytes_per_s and can_share_layers else 1, 8)
    contexts = (1, 2, 4, 8, 16) if job.sequence_tokens >= _LONG_SEQUENCE and can_share_layers else (1,)
    most_pipeline = _MOST_PIPELINE if can_share_layers else 1
    for tensor in _powers(most_tensor):
        if tensor_refusal(job.architecture, tensor) is not None:
            continue
        for pipeline in _powers(min(most_pipeline, total, gpus // tensor)):
            for context in contexts:
                product = tensor * pipeline * context
                if product > gpus or gpus % product or job.sequence_tokens % context:
                    continue
                ranks = gpus // product * context
                for expert in _expert_degrees(job, stage=tensor * ranks):
                    for shard in _shards(job, pipeline=pipeline, ranks=ranks):
                        for virtual in [1, *(n for n in (2, 4) if pipeline > 1 and total % (pipeline * n) == 0)]:
                            yield TrainingLayout(
                                gpus=gpus,
                                tensor=tensor,
                                pipeline=pipeline,
                                virtual=virtual,
                                context=context,
                                expert=expert,
                                sequence_parallel=tensor > 1,
                                shard=shard,
                                gpus_per_node=per_node,
                            )


def _powers(most: int) -> Iterator[int]:
    size = 1
    while size <= most:
        yield size
        size *= 2


def _expert_degrees(job: TrainingJob, *, stage: int) -> Iterator[int]:
    counts = {layer.mlp.count for layer in job.architecture.layers if isinstance(layer.mlp, Experts)}
    if not counts or job.is_adapted or not shares_layers(job.framework):
        yield 1
        return
    most = min(counts)
    for degree in _powers(min(most, stage)):
        if stage % degree == 0 and most % degree == 0:
            yield degree


def _shards(job: TrainingJob, *, pipeline: int, ranks: int) -> tuple[Shard, ...]:
    """Return what a job's framework can share among data-parallel ranks, as far as it is worth a try."""
    framework = job.framework
    if ranks == 1:
        return (Shard.NONE,)
    if framework.always_shards:
        return (Shard.ZERO3,)
    if framework.family is Family.MEGATRON:
        return (Shard.NONE,) if job.is_adapted else (Shard.ZERO1,)
    if framework.copies_gradients and not job.is_adapted:  # DeepSpeed
        return (Shard.ZERO1, Shard.ZERO2, Shard.ZERO3)
    return (Shard.NONE, Shard.ZERO3) if pipeline == 1 or not job.is_adapted else (Shard.NONE,)


def run_offer(
    offers: Iterable[Price], gpu: GpuSpec, *, gpus: int, network_bytes_per_s: float | None = None
) -> Price | None:
    """Return the offer whose machines hold a run for the least an hour; None where none does.

    Times assume servers of eight GPUs, or of as many as fast links join, in a network. A run in several machines needs
    one that is known, or stated.
    """
    joined = joined_gpus(gpu)
    needs = min(gpus, max(GPUS_PER_SERVER, joined))
    links = min(needs, joined) if joined > 2 else 1
    stated = (replace(offer, own_network_bytes_per_s=network_bytes_per_s) for offer in offers)
    held = [
        offer
        for offer in stated
        if offer.instance_gpus >= needs
        and offer.joined >= links
        and (offer.instance_gpus >= gpus or offer.server.network_bytes_per_s is not None)
    ]
    return min(held, key=lambda offer: -(-gpus // offer.instance_gpus) * offer.usd_per_machine_hour, default=None)


def money_usd(gpu_hours: Interval, offer: Price, *, gpus: int) -> Interval:
    """Return the money of GPU hours at an offer, whose machines are rented whole. [USD]"""
    rented = -(-gpus // offer.instance_gpus) * offer.instance_gpus / gpus
    return gpu_hours * (offer.usd_per_hour * rented)
