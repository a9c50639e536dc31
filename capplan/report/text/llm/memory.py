"""An answer about serving memory for people: text, Markdown, CSV."""

from collections.abc import Callable, Iterator

from capplan.llm.core.memory_answer import MemoryAnswer
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.report.table import Table, render_csv, render_markdown, render_text, table
from capplan.units import format_bytes, format_count


def render_llm_memory_text(answer: MemoryAnswer) -> str:
    """Lay an answer out for the terminal.

    Args:
        answer: The answer.
    """
    return "\n".join(_parts(answer, render_text)).rstrip() + "\n"


def render_llm_memory_markdown(answer: MemoryAnswer) -> str:
    """Lay an answer out as GitHub-flavoured Markdown.

    Args:
        answer: The answer.
    """
    return "\n".join(_parts(answer, render_markdown)).rstrip() + "\n"


def render_llm_memory_csv(answer: MemoryAnswer) -> str:
    """Write one row per part in bytes.

    Args:
        answer: The answer.
    """
    rows = [(answer.request.model.architecture.name, answer.request.gpu.id, *row) for row in _part_rows(answer)]
    return render_csv(
        table("model|gpu|part|bytes", [(model, gpu, name, str(round(size))) for model, gpu, name, size in rows])
    )


def _parts(answer: MemoryAnswer, render: Callable[[Table], str]) -> Iterator[str]:
    yield _headline(answer)
    yield ""
    total = answer.memory.deployment.total_bytes
    yield render(
        table(
            "per GPU|size>|share>",
            [(name, format_bytes(size), f"{100 * size / total:.1f} %") for name, size in _part_rows(answer)],
        )
    )
    yield _what_fits(answer)
    yield ""
    if answer.alternatives:
        yield "What other choices would give:"
        yield ""
        yield render(_alternative_table(answer))
    yield from (f"- {note}" for note in answer.notes)
    yield f"- {answer.evidence}: {answer.memory.deployment.engine.source}"


_FEWEST_IN_BILLIONS = 5e6


def _headline(answer: MemoryAnswer) -> str:
    request, sharding = answer.request, answer.request.sharding
    architecture = request.model.architecture
    total, active = count_parameters(architecture), count_active_parameters(architecture)
    whole = f"{total / 1e9:.2f} B" if total >= _FEWEST_IN_BILLIONS else format_count(total)
    size = f"{whole} parameters" + (f", {active / 1e9:.2f} B active" if active < total else "")
    ways = [("TP", sharding.tensor), ("PP", sharding.pipeline), ("EP", sharding.expert), ("DP", sharding.data)]
    shared = " ".join(f"{name}{count}" for name, count in ways if count > 1) or "one GPU"
    version = "" if request.version is None else " " + ".".join(map(str, request.version))
    weights = answer.memory.deployment.quantisation.format.name
    return (
        f"{architecture.name} ({size}) in {weights} with a {answer.kv} cache on {sharding.gpus} × {request.gpu.name}, "
        f"{shared}, {request.engine.value}{version}"
    )


def _part_rows(answer: MemoryAnswer) -> list[tuple[str, float]]:
    stage, deployment = answer.stage, answer.memory.deployment
    rows = [
        ("weights", stage.weight_bytes),
        ("activations", stage.activation_bytes),
        ("other (context, libraries, communication)", stage.other_bytes),
        ("KV cache", max(0.0, stage.pool_bytes)),
    ]
    rest = deployment.total_bytes - sum(size for _, size in rows)
    return [*rows, ("left to the GPU", max(0.0, rest)), ("memory of the GPU", deployment.total_bytes)]


def _what_fits(answer: MemoryAnswer) -> str:
    if not answer.stage.fits:
        return f"It does not fit: {format_bytes(-answer.stage.pool_bytes)} per GPU are missing."
    low, high = answer.pool_interval.low, answer.pool_interval.high
    tokens = "no token-wise cache" if answer.kv_tokens is None else f"{answer.kv_tokens:,} tokens"
    per_token = f"{answer.stage.cache.bytes_per_token:,.0f} B per token and GPU"
    return (
        f"The cache holds {tokens} ({per_token}; 90 %: {format_bytes(low)} to {format_bytes(high)}), "
        f"{answer.sequences:,} sequences of {answer.sequence_tokens:,} tokens, or one of {answer.max_context:,}."
    )


def _alternative_table(answer: MemoryAnswer) -> Table:
    now = (
        "as asked",
        format_bytes(answer.stage.weight_bytes),
        format_bytes(max(0.0, answer.stage.pool_bytes)),
        _count(answer.kv_tokens),
        f"{answer.sequences:,}",
    )
    rows = [
        (
            each.change,
            format_bytes(each.weight_bytes),
            format_bytes(each.pool_bytes) if each.fits else "does not fit",
            _count(each.kv_tokens),
            f"{each.sequences:,}",
        )
        for each in answer.alternatives
    ]
    return table("change|weights>|KV cache>|tokens>|sequences>", [now, *rows])


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
