"""All that `capplan memory` answers about one model, as one object that reports render."""

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.core.gpus.sale import sale_notes
from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.advice import Alternative, MemoryAdvice, advise, saved_by_inference_mode
from capplan.core.memory.fit import available_memory, judge_fit, largest_batches
from capplan.core.memory.index_limit import index_limit_batch
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.sharding import RankMemory, gpus_to_shard, rank_memory
from capplan.core.memory.types import FitStatus, MemoryEstimate
from capplan.core.ops.analysis import assumed_sizes
from capplan.core.trace.types import Affine, ModelInput, model_input
from capplan.core.workload import DEFAULT_UTILIZATION, ModelSharding, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """One GPU: does the batch fit, which is the largest that does, and how many GPUs it would take otherwise.

    `max_batch` fits by the expected sizes; `certain_batch` also at the upper end of every uncertain size and the lower
    end of the usable memory. `scales` is False where the trace holds at one batch alone: larger ones were not judged.
    """

    gpu: GpuSpec
    estimate: MemoryEstimate
    available_bytes: float
    status: FitStatus
    max_batch: int
    certain_batch: int
    min_gpus: int | None
    advice: tuple[MemoryAdvice, ...]
    scales: bool = True


RULE_FILLED_FRACTION = 0.8
"""The share of a card's printed memory that the classic rule fills, whatever share the estimate may fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOfThumb:
    """The classic estimate: inputs, all layers' outputs and parameters, over the share to be filled. [bytes]

    `gpus` are the GPUs that it weighs, the smallest first.
    """

    input_bytes: int
    output_bytes: int
    parameter_bytes: int
    filled_fraction: float = RULE_FILLED_FRACTION
    gpus: tuple[GpuSpec, ...] = ()

    @property
    def total_bytes(self) -> float:
        """The sum over the share that may be filled. [bytes]"""
        return (self.input_bytes + self.output_bytes + self.parameter_bytes) / self.filled_fraction

    @property
    def chosen(self) -> tuple[GpuSpec, ...]:
        """The GPUs that the rule would choose: those of the smallest printed memory that holds the total."""
        holding = [gpu for gpu in self.gpus if gpu.memory_bytes >= self.total_bytes]
        return tuple(gpu for gpu in holding if gpu.memory_bytes == holding[0].memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySummary:
    """The answer for one model and batch. `estimate` is for the first GPU, or for none where none was named."""

    name: str
    target: str
    input: ModelInput
    dtype: str | None
    workload: Workload
    estimate: MemoryEstimate
    peak_terms: tuple[Affine, ...]
    gpus: tuple[GpuMemory, ...]
    advice: tuple[MemoryAdvice, ...]
    ranks: tuple[RankMemory, ...]
    rule_of_thumb: RuleOfThumb
    inference_mode_saves_bytes: float | None
    index_limit_batch: int | None
    notes: tuple[str, ...]
    caution: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryResult:
    """The answer, and the model of memory that it was worked out with."""

    answer: MemorySummary
    model: MemoryModel

    @property
    def statuses(self) -> tuple[FitStatus, ...]:
        """Return whether it fits on each GPU asked for."""
        return tuple(gpu.status for gpu in self.answer.gpus)


def answer_memory(
    model: MemoryModel,
    *,
    batch: int,
    gpus: Sequence[GpuSpec] = (),
    utilization_fraction: float = DEFAULT_UTILIZATION,
    others: Sequence[Alternative] = (),
    rank_count: int = 1,
    shardings: Sequence[ModelSharding] = (),
    rule_gpus: Sequence[GpuSpec] = (),
) -> MemorySummary:
    """Answer for one batch and any number of GPUs; the classic rule chooses among those named, else `rule_gpus`."""
    first = gpus[0] if gpus else None
    answers = tuple(_answer_gpu(model, batch, gpu, utilization_fraction, others) for gpu in gpus)
    estimate = answers[0].estimate if answers else model.estimate(batch=batch)
    training = model.workload.training
    return MemorySummary(
        name=model.trace.name,
        target=model.trace.target,
        input=model_input(model.trace, model.recording),
        dtype=model.trace.dtype,
        workload=model.workload,
        estimate=estimate,
        peak_terms=model.curve.peak_terms(),
        gpus=answers,
        advice=() if gpus else advise(model, batch=batch, gpu=None, available_bytes=None, others=others),
        ranks=tuple(
            rank_memory(
                model.estimate(batch=batch, gpu=first),
                model.trace,
                model.recording,
                model.calibration,
                gpus=rank_count,
                sharding=sharding,
            )
            for sharding in shardings
        ),
        rule_of_thumb=rule_of_thumb(model, batch=batch, gpus=gpus or rule_gpus),
        inference_mode_saves_bytes=None
        if training
        else saved_by_inference_mode(model.trace, model.workload, batch=batch),
        index_limit_batch=index_limit_batch(model.recording),
        notes=(*sale_notes(gpus), *estimate.notes, *_refusal(model, batch, answers)),
        caution=assumed_sizes(model.recording),
    )


def _refusal(model: MemoryModel, batch: int, answers: Sequence[GpuMemory]) -> tuple[str, ...]:
    """Return the note on a refused tensor where it, and not the memory, ends the batches."""
    refused = model.refused_above
    if refused is None or max((batch, *(answer.max_batch for answer in answers))) < refused:
        return ()
    return (f"above batch {refused} a kernel refuses its tensors for their size, whatever the memory",)


def rule_of_thumb(model: MemoryModel, *, batch: int, gpus: Sequence[GpuSpec]) -> RuleOfThumb:
    """Work out the classic estimate from the same trace: every operator's output counts, none is ever freed."""
    recording = model.traced
    made = [s for s in recording.storages if s.birth >= 0 and s.parameter is None]
    backward = (phase.first_op for phase in recording.phases if phase.name == "backward")
    forward_end = next(backward, len(recording.ops))
    return RuleOfThumb(
        input_bytes=sum(tensor.size_bytes(batch) for tensor in model.trace.inputs),
        output_bytes=sum(s.size_bytes.at(batch) for s in made if s.birth < forward_end),
        parameter_bytes=model.trace.weight_bytes,
        gpus=tuple(sorted(gpus, key=lambda gpu: (gpu.memory_bytes, gpu.id))),
    )


def _answer_gpu(
    model: MemoryModel, batch: int, gpu: GpuSpec, utilization_fraction: float, others: Sequence[Alternative]
) -> GpuMemory:
    available = available_memory(gpu, utilization_fraction=utilization_fraction)
    estimate = model.estimate(batch=batch, gpu=gpu, available_bytes=available.expected)
    largest = largest_batches(model, gpu=gpu, utilization_fraction=utilization_fraction)
    status = judge_fit(estimate, available_bytes=available, max_batch=largest.expected)
    if model.refused_above is not None and batch > model.refused_above:
        status = FitStatus.DOES_NOT_FIT
    fits = status is FitStatus.FITS
    return GpuMemory(
        gpu=gpu,
        estimate=estimate,
        available_bytes=available.expected,
        status=status,
        max_batch=largest.expected,
        certain_batch=largest.certain,
        min_gpus=1 if fits else gpus_to_shard(estimate, available_bytes=available.expected),
        advice=() if fits else advise(model, batch=batch, gpu=gpu, available_bytes=available, others=others),
        scales=model.recording.exact_batch is None,
    )
