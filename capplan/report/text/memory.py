"""A memory answer for people: text, Markdown, CSV."""

from collections.abc import Callable, Iterator, Sequence

from capplan.core.memory.advice import Advice
from capplan.core.memory.summary import GpuMemory, MemoryAnswer, RuleOfThumb
from capplan.core.memory.types import LiveTensor, MemoryPart
from capplan.core.numbers import Interval
from capplan.report.table import Table, render_csv, render_markdown, render_text, table
from capplan.units import format_bytes, format_fraction


def render_memory_text(answer: MemoryAnswer, *, rule_of_thumb: bool) -> str:
    """Lay an answer out for the terminal."""
    return "\n".join(_pieces(answer, render_text, rule_of_thumb=rule_of_thumb)).rstrip() + "\n"


def render_memory_markdown(answer: MemoryAnswer, *, rule_of_thumb: bool) -> str:
    """Lay an answer out as GitHub-flavoured Markdown."""
    return "\n".join(_pieces(answer, render_markdown, rule_of_thumb=rule_of_thumb)).rstrip() + "\n"


def render_memory_csv(answer: MemoryAnswer) -> str:
    """Write a row per part and peak in bytes, for each GPU, or for none."""
    rows = []
    asked = [(each.gpu.id, each.estimate) for each in answer.gpus] or [("", answer.estimate)]
    for gpu, estimate in asked:
        for part in estimate.all_parts:
            rows.append((answer.name, gpu, str(estimate.batch), part.name, *_plain(part.size_bytes), part.origin))
        for name, peak in _peaks(estimate.peak_allocated_bytes, estimate.peak_reserved_bytes, estimate.total_bytes):
            rows.append((answer.name, gpu, str(estimate.batch), name, *_plain(peak), ""))
    return render_csv(table("model|gpu|batch|part|low_bytes|expected_bytes|high_bytes|origin", rows))


def _plain(size_bytes: Interval) -> tuple[str, str, str]:
    return str(round(size_bytes.low)), str(round(size_bytes.expected)), str(round(size_bytes.high))


def _peaks(allocated: Interval, reserved: Interval, total: Interval) -> tuple[tuple[str, Interval], ...]:
    return ("peak allocated", allocated), ("peak reserved", reserved), ("process total", total)


def _pieces(answer: MemoryAnswer, render: Callable[[Table], str], *, rule_of_thumb: bool) -> Iterator[str]:
    yield _headline(answer)
    yield ""
    yield render(_parts_table(answer))
    estimate = answer.estimate
    where = f" in {estimate.peak_module}" if estimate.peak_module else ""
    yield f"The peak stands at {estimate.peak_op}{where}. Live there, largest first:"
    yield ""
    yield render(_tensor_table(estimate.largest))
    if answer.gpus:
        yield render(_gpu_table(answer))
    if answer.ranks:
        yield f"Each of {answer.ranks[0].gpus} GPUs, at batch {estimate.batch} on every one:"
        yield ""
        yield render(_rank_table(answer))
    if advice := _advice_rows(answer):
        yield "What would change it:"
        yield ""
        yield render(table("change|GPU|batch>|needs>|saves>|then", advice))
    if rule_of_thumb:
        yield _rule_line(answer.rule_of_thumb, estimate.total_bytes)
        yield ""
    yield from (f"  · {line}" for line in _notes(answer))


def _headline(answer: MemoryAnswer) -> str:
    workload, estimate = answer.workload, answer.estimate
    mode = "inference"
    if training := workload.training:
        mode = f"training with {training.optimizer}"
        mode += ", checkpointed" * training.checkpointing
        mode += f", {training.accumulate} micro-batches a step" * (training.accumulate > 1)
    gpu = f" on {answer.gpus[0].gpu.id}" if answer.gpus else ""
    needs = _spell(estimate.total_bytes)
    return f"{answer.name}, {mode}, batch {estimate.batch}, {workload.precision}, {workload.release}{gpu}: {needs}"


def _spell(size_bytes: Interval) -> str:
    expected = format_bytes(size_bytes.expected)
    if size_bytes.low == size_bytes.high:
        return expected
    return f"{expected} ({format_bytes(size_bytes.low)} to {format_bytes(size_bytes.high)})"


def _parts_table(answer: MemoryAnswer) -> Table:
    estimate = answer.estimate
    rows = [_part_row(part) for part in estimate.parts]
    rows.append(_total_row("= peak allocated", estimate.peak_allocated_bytes))
    rows.append(_part_row(estimate.fragmentation))
    rows.append(_total_row("= peak reserved", estimate.peak_reserved_bytes))
    rows.append(_part_row(estimate.context))
    rows.append(_total_row("= process total", estimate.total_bytes))
    return table("part|low>|expected>|high>|from", rows)


def _part_row(part: MemoryPart) -> tuple[str, ...]:
    first, *others = part.origin.split("; ")
    more = f" and {len(others)} more" if others else ""
    return part.name, *_cells(part.size_bytes), first + more


def _total_row(name: str, size_bytes: Interval) -> tuple[str, ...]:
    return name, *_cells(size_bytes), ""


def _cells(size_bytes: Interval) -> tuple[str, str, str]:
    return format_bytes(size_bytes.low), format_bytes(size_bytes.expected), format_bytes(size_bytes.high)


def _tensor_table(tensors: Sequence[LiveTensor]) -> Table:
    rows = [(format_bytes(t.size_bytes), "×".join(map(str, t.shape)), t.dtype, t.label) for t in tensors]
    return table("size>|shape|type|made by", rows)


def _gpu_table(answer: MemoryAnswer) -> Table:
    rows = [
        (
            each.gpu.id,
            format_bytes(each.available_bytes),
            _spell(each.estimate.total_bytes),
            each.status.value,
            _largest(each),
            "" if each.min_gpus == 1 else f"at least {each.min_gpus}" if each.min_gpus else "more than sharding gives",
        )
        for each in answer.gpus
    ]
    return table("GPU|to be filled>|needs>|batch fits|largest batch>|GPUs, weights spread", rows)


def _largest(each: GpuMemory) -> str:
    """Describe which batch fits for certain, and up to which it fits by the expected sizes."""
    if each.certain_batch == each.max_batch:
        return str(each.max_batch) if each.scales else f"≥ {each.max_batch}"
    return f"{each.certain_batch}, up to {each.max_batch}"


_OF_A_RANK = {
    "weights", "gradients", "optimizer states", "gradient buckets", "gathered weights", "communication",
}  # fmt: skip
"""What sharing changes."""


def _rank_table(answer: MemoryAnswer) -> Table:
    rows = []
    for rank in answer.ranks:
        shares = ", ".join(
            f"{part.name} {format_bytes(part.size_bytes.expected)}" for part in rank.parts if part.name in _OF_A_RANK
        )
        rows.append((rank.sharding.value, _spell(rank.total_bytes), shares))
    return table("sharing|each needs>|of which", rows)


def _advice_rows(answer: MemoryAnswer) -> list[tuple[str, ...]]:
    by_gpu = [(each.gpu.id, advice) for each in answer.gpus for advice in each.advice]
    return [_advice_row(gpu, advice) for gpu, advice in [*by_gpu, *(("", advice) for advice in answer.advice)]]


def _advice_row(gpu: str, advice: Advice) -> tuple[str, ...]:
    then = advice.status.value if advice.status else ""
    return advice.change, gpu, str(advice.batch), _spell(advice.total_bytes), format_bytes(advice.saved_bytes), then


def _rule_line(rule: RuleOfThumb, ours: Interval) -> str:
    share = f" over {format_fraction(rule.filled_fraction)}" if rule.filled_fraction != 1 else ""
    return (
        f"Rule of thumb: inputs {format_bytes(rule.input_bytes)} + outputs {format_bytes(rule.output_bytes)} + "
        f"parameters {format_bytes(rule.parameter_bytes)}{share} = {format_bytes(rule.total_bytes)}, "
        f"{rule.total_bytes / ours.expected:.2f} times ours. It frees no output, and misses gradients, "
        "optimizer states, library workspaces, what the allocator holds beyond what is used, and the CUDA context."
    )


def _notes(answer: MemoryAnswer) -> Iterator[str]:
    yield from answer.notes
    for each in answer.gpus[1:]:
        yield from (note for note in each.estimate.notes if note not in answer.notes)
    if any(each.certain_batch < each.max_batch for each in answer.gpus):
        yield "largest batch: the first fits at the upper end of the estimate, the one after 'up to' as expected"
    saves = answer.inference_mode_saves_bytes
    if saves is not None and saves > 0:
        yield f"under torch.inference_mode, as here; without it activations are kept: {format_bytes(saves)} more"
    limit = answer.index_limit_batch
    if limit is not None and any(each.max_batch > limit for each in answer.gpus):
        yield (f"above batch {limit} a tensor has 2^31 elements or more, which some CUDA kernels refuse")
