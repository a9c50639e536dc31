"""A memory answer as a typed document: base units, intervals as objects."""

from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta

from capplan.core.memory.advice import MemoryAdvice
from capplan.core.memory.sharding import RankMemory
from capplan.core.memory.summary import GpuMemory, MemorySummary, RuleOfThumb
from capplan.core.memory.types import FitStatus, LiveTensor, MemoryEstimate, MemoryPart
from capplan.core.numbers import Interval
from capplan.core.workload import ModelSharding
from capplan.shapes.codec import SCHEMA_VERSION, SignedDocument
from capplan.shapes.common import WORKLOAD
from capplan.shapes.types import WorkloadDocument
from capplan.version import __version__

Allocated = Annotated[Interval, Meta(description="torch.cuda.max_memory_allocated")]
Reserved = Annotated[Interval, Meta(description="torch.cuda.max_memory_reserved")]
Total = Annotated[Interval, Meta(description="what nvidia-smi shows for the process")]


class LargeTensor(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor that is live at the peak."""

    label: str
    shape: tuple[int, ...]
    dtype: str | None
    size_bytes: int


class PeakTerm(msgspec.Struct, frozen=True, kw_only=True):
    """A line over the batch; live bytes at the peak are the largest of constant + per_sample · batch."""

    constant_bytes: int
    per_sample_bytes: int


class GpuMemoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one GPU."""

    gpu: str
    status: FitStatus
    available_bytes: float
    max_batch: int
    certain_batch: Annotated[int, Meta(description="largest batch that fits at the upper end of the sizes")] = 0
    min_gpus: int | None
    peak_allocated_bytes: Allocated
    peak_reserved_bytes: Reserved
    total_bytes: Total
    parts: tuple[MemoryPart, ...]
    peak_op: str
    peak_module: str
    advice: tuple[MemoryAdvice, ...]
    notes: tuple[str, ...]


class RankMemoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of one rank of several GPUs."""

    sharding: ModelSharding
    gpus: int
    batch_per_gpu: int
    total_bytes: Interval
    parts: tuple[MemoryPart, ...]


class RuleOfThumbDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The classic sizing rule, and the ids of the GPUs that it would choose. [bytes]"""

    input_bytes: int
    output_bytes: int
    parameter_bytes: int
    filled_fraction: float
    total_bytes: float
    chosen: tuple[str, ...]


class MemoryDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan memory --format json` writes. Figures outside `gpus` are for the first GPU named, or for none."""

    model: str
    target: str
    workload: WorkloadDocument
    batch: int
    peak_allocated_bytes: Allocated
    peak_reserved_bytes: Reserved
    total_bytes: Total
    parts: tuple[MemoryPart, ...]
    peak_op: str
    peak_module: str
    largest_tensors: tuple[LargeTensor, ...]
    live_peak_terms: Annotated[
        tuple[PeakTerm, ...],
        Meta(description="live bytes at the peak are the largest of constant + per_sample · batch"),
    ]
    max_batch: Annotated[dict[str, int], Meta(description="largest batch that fits, by GPU")]
    gpus: tuple[GpuMemoryDocument, ...]
    ranks: tuple[RankMemoryDocument, ...]
    advice: tuple[MemoryAdvice, ...]
    inference_mode_saves_bytes: float | None
    index_limit_batch: Annotated[
        int | None, Meta(description="largest batch at which every tensor has fewer than 2^31 elements")
    ]
    rule_of_thumb: RuleOfThumbDocument
    notes: tuple[str, ...]


class _Peak(TypedDict):
    """What every estimate holds, whichever GPU it is for."""

    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Interval
    parts: tuple[MemoryPart, ...]
    peak_op: str
    peak_module: str


def memory_document(answer: MemorySummary) -> MemoryDocument:
    """Return a memory answer as a document.

    Args:
        answer: The answer of `capplan memory`.
    """
    return MemoryDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        model=answer.name,
        target=answer.target,
        workload=WORKLOAD.document(answer.workload),
        batch=answer.estimate.batch,
        **_peak(answer.estimate),
        largest_tensors=tuple(map(_tensor, answer.estimate.largest)),
        live_peak_terms=tuple(
            PeakTerm(constant_bytes=term.constant, per_sample_bytes=term.per_sample) for term in answer.peak_terms
        ),
        max_batch={on_gpu.gpu.id: on_gpu.max_batch for on_gpu in answer.gpus},
        gpus=tuple(map(_gpu, answer.gpus)),
        ranks=tuple(map(_rank, answer.ranks)),
        advice=answer.advice,
        inference_mode_saves_bytes=answer.inference_mode_saves_bytes,
        index_limit_batch=answer.index_limit_batch,
        rule_of_thumb=_rule(answer.rule_of_thumb),
        notes=answer.notes,
    )


def _peak(estimate: MemoryEstimate) -> _Peak:
    return {
        "peak_allocated_bytes": estimate.peak_allocated_bytes,
        "peak_reserved_bytes": estimate.peak_reserved_bytes,
        "total_bytes": estimate.total_bytes,
        "parts": estimate.all_parts,
        "peak_op": estimate.peak_op,
        "peak_module": estimate.peak_module,
    }


def _tensor(tensor: LiveTensor) -> LargeTensor:
    return LargeTensor(label=tensor.label, shape=tensor.shape, dtype=tensor.dtype or None, size_bytes=tensor.size_bytes)


def _gpu(answer: GpuMemory) -> GpuMemoryDocument:
    return GpuMemoryDocument(
        gpu=answer.gpu.id,
        status=answer.status,
        available_bytes=answer.available_bytes,
        max_batch=answer.max_batch,
        certain_batch=answer.certain_batch,
        min_gpus=answer.min_gpus,
        **_peak(answer.estimate),
        advice=answer.advice,
        notes=answer.estimate.notes,
    )


def _rank(rank: RankMemory) -> RankMemoryDocument:
    return RankMemoryDocument(
        sharding=rank.sharding,
        gpus=rank.gpus,
        batch_per_gpu=rank.batch,
        total_bytes=rank.total_bytes,
        parts=rank.parts,
    )


def _rule(rule: RuleOfThumb) -> RuleOfThumbDocument:
    return RuleOfThumbDocument(
        input_bytes=rule.input_bytes,
        output_bytes=rule.output_bytes,
        parameter_bytes=rule.parameter_bytes,
        filled_fraction=rule.filled_fraction,
        total_bytes=rule.total_bytes,
        chosen=tuple(gpu.id for gpu in rule.chosen),
    )
