"""A memory answer as sections: parts and peak, what is live there, GPUs, ways to share, and what would change it."""

from collections.abc import Iterator
from dataclasses import replace

from capplan.core.memory.advice import MemoryAdvice
from capplan.core.memory.sharding import RankMemory
from capplan.core.memory.summary import GpuMemory, MemorySummary, RuleOfThumb
from capplan.core.memory.types import MemoryEstimate, MemoryPart
from capplan.core.numbers import Interval
from capplan.core.workload import precision_label
from capplan.report.sections import (
    Block,
    Column,
    LineRole,
    Lines,
    Section,
    Table,
    data,
    figure,
    sentence,
    shape_columns,
    words,
)
from capplan.shapes.memory import LARGE_TENSOR
from capplan.units import format_bytes, format_fraction


def memory_sections(answer: MemorySummary, *, rule_of_thumb: bool = False) -> list[Section]:
    """Return an answer about memory; a CSV has a row per part and peak, for each GPU, or for none."""
    estimate = answer.estimate
    where = f" in {estimate.peak_module}" if estimate.peak_module else ""
    blocks: list[Block] = [
        Lines([_headline(answer), *([sentence(answer.caution)] if answer.caution else [])]),
        *([Table(_GPUS, answer.gpus)] if answer.gpus else []),
        Table(_PARTS, _parts(estimate)),
        Lines([f"The peak stands at {estimate.peak_op}{where}. Live there, largest first:"]),
        Table(shape_columns(LARGE_TENSOR, estimate.largest, order=_TENSOR), estimate.largest),
    ]
    if answer.ranks:
        blocks.append(Lines([f"Each of {answer.ranks[0].gpus} GPUs, at batch {estimate.batch} on every one:"]))
        blocks.append(Table(_RANKS, answer.ranks))
    advice = [(gpu.gpu.id, advice) for gpu in answer.gpus for advice in gpu.advice]
    advice += [("", advised) for advised in answer.advice]
    if advice:
        blocks += [Lines(["What would change it:"]), Table(_ADVICE, advice)]
    if rule_of_thumb:
        blocks.append(Lines([_rule_line(answer.rule_of_thumb, estimate.total_bytes)]))
    blocks.append(Lines(list(_notes(answer)), role=LineRole.NOTE))
    estimates = [(gpu.gpu.id, gpu.estimate) for gpu in answer.gpus] or [("", estimate)]
    rows = [(gpu, advised.batch, part) for gpu, advised in estimates for part in (*advised.all_parts, *_peaks(advised))]
    columns: list[Column[tuple[str, int, MemoryPart]]] = [
        data("model", lambda _: answer.name),
        data("gpu", lambda row: row[0]),
        data("batch", lambda row: row[1]),
        data("part", lambda row: row[2].name),
        data("low_bytes", lambda row: round(row[2].size_bytes.low)),
        data("expected_bytes", lambda row: round(row[2].size_bytes.expected)),
        data("high_bytes", lambda row: round(row[2].size_bytes.high)),
        data("origin", lambda row: row[2].origin),
    ]
    return [Section(blocks), Section([Table(columns, rows)])]


def _peaks(estimate: MemoryEstimate) -> tuple[MemoryPart, MemoryPart, MemoryPart]:
    return (
        MemoryPart(name="peak allocated", size_bytes=estimate.peak_allocated_bytes, origin=""),
        MemoryPart(name="peak reserved", size_bytes=estimate.peak_reserved_bytes, origin=""),
        MemoryPart(name="process total", size_bytes=estimate.total_bytes, origin=""),
    )


def _parts(estimate: MemoryEstimate) -> list[MemoryPart]:
    """Return the parts, each sum below what it adds up."""
    allocated, reserved, total = (replace(peak, name=f"= {peak.name}") for peak in _peaks(estimate))
    return [*estimate.parts, allocated, estimate.fragmentation, reserved, estimate.context, total]


def _headline(answer: MemorySummary) -> str:
    workload, estimate = answer.workload, answer.estimate
    mode = "inference"
    if training := workload.training:
        mode = f"training with {training.optimizer}"
        mode += ", checkpointed" * training.checkpointing
        mode += f", {training.accumulate} micro-batches a step" * (training.accumulate > 1)
    gpu = f" on {answer.gpus[0].gpu.id}" if answer.gpus else ""
    needs = estimate.total_bytes.to_text(format_bytes)
    precision = precision_label(workload.precision, answer.dtype)
    return (
        f"{answer.name} · {answer.input}, {mode}, batch {estimate.batch}, {precision}, {workload.release}{gpu}: {needs}"
    )


def _origin(part: MemoryPart) -> str:
    first, *others = part.origin.split("; ")
    return first + (f" and {len(others)} more" if others else "")


_PARTS: tuple[Column[MemoryPart], ...] = (
    words("part", lambda part: part.name),
    figure("low", lambda part: part.size_bytes.low, format_bytes),
    figure("expected", lambda part: part.size_bytes.expected, format_bytes),
    figure("high", lambda part: part.size_bytes.high, format_bytes),
    words("from", _origin),
)
_TENSOR = ("size_bytes", "size", "dtype", "label")


def _gpus_needed(gpu: GpuMemory) -> str:
    if gpu.min_gpus == 1:
        return ""
    return f"at least {gpu.min_gpus}" if gpu.min_gpus else "more than sharding gives"


def _largest(gpu: GpuMemory) -> str:
    """Describe which batch fits for certain, and up to which it fits by the expected sizes."""
    if gpu.certain_batch == gpu.max_batch:
        return str(gpu.max_batch) if gpu.scales else f"≥ {gpu.max_batch}"
    return f"{gpu.certain_batch}, up to {gpu.max_batch}"


_GPUS: tuple[Column[GpuMemory], ...] = (
    words("GPU", lambda gpu: gpu.gpu.id),
    figure("to be filled", lambda gpu: gpu.available_bytes, format_bytes),
    figure("needs", lambda gpu: gpu.estimate.total_bytes.to_text(format_bytes)),
    words("batch fits", lambda gpu: gpu.status.value),
    figure("largest batch", _largest),
    words("GPUs, weights spread", _gpus_needed),
)
_OF_A_RANK = {
    "weights", "gradients", "optimizer states", "gradient buckets", "gathered weights", "communication",
}  # fmt: skip
"""What sharing changes."""


def _shares(rank: RankMemory) -> str:
    parts = (part for part in rank.parts if part.name in _OF_A_RANK)
    return ", ".join(f"{part.name} {format_bytes(part.size_bytes.expected)}" for part in parts)


_RANKS: tuple[Column[RankMemory], ...] = (
    words("sharing", lambda rank: rank.sharding.value),
    figure("each needs", lambda rank: rank.total_bytes.to_text(format_bytes)),
    words("of which", _shares),
)
_ADVICE: tuple[Column[tuple[str, MemoryAdvice]], ...] = (
    words("change", lambda row: row[1].change),
    words("GPU", lambda row: row[0]),
    figure("batch", lambda row: row[1].batch),
    figure("needs", lambda row: row[1].total_bytes.to_text(format_bytes)),
    figure("saves", lambda row: row[1].saved_bytes, format_bytes),
    words("then", lambda row: row[1].status.value if row[1].status else ""),
)


_MOST_CARDS = 6


def _rule_line(rule: RuleOfThumb, ours: Interval) -> str:
    cards = [gpu.id for gpu in rule.chosen]
    more = f" and {len(cards) - _MOST_CARDS} more" if len(cards) > _MOST_CARDS else ""
    choice = "No card weighed holds that. " if rule.gpus else ""
    if cards:
        size = format_bytes(rule.chosen[0].memory_bytes)
        choice = f"It would choose the smallest that holds that, {size}: {', '.join(cards[:_MOST_CARDS])}{more}. "
    return (
        f"Rule of thumb: inputs {format_bytes(rule.input_bytes)} + outputs {format_bytes(rule.output_bytes)} + "
        f"parameters {format_bytes(rule.parameter_bytes)} over {format_fraction(rule.filled_fraction)} of a card's "
        f"memory = {format_bytes(rule.total_bytes)}, {rule.total_bytes / ours.expected:.2f} times ours. {choice}"
        "It frees no output, and misses gradients, optimizer states, library workspaces, what the allocator holds "
        "beyond what is used, and the CUDA context."
    )


def _notes(answer: MemorySummary) -> Iterator[str]:
    yield from answer.notes
    for answered in answer.gpus[1:]:
        yield from (note for note in answered.estimate.notes if note not in answer.notes)
    if any(answered.certain_batch < answered.max_batch for answered in answer.gpus):
        yield "largest batch: the first fits at the upper end of the estimate, the one after 'up to' as expected"
    saves = answer.inference_mode_saves_bytes
    if saves is not None and saves > 0:
        yield f"under torch.inference_mode, as here; without it activations are kept: {format_bytes(saves)} more"
    limit = answer.index_limit_batch
    if limit is not None and any(answered.max_batch > limit for answered in answer.gpus):
        yield f"above batch {limit} a tensor has 2^31 elements or more, which some CUDA kernels refuse"
