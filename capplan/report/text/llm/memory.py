"""An answer about serving memory as sections: parts of a GPU, what fits, and what other choices would give."""

from collections.abc import Mapping, Sequence

from capplan.core.engine_names import Engine
from capplan.llm.core.engine_support import FormatSupport
from capplan.llm.core.memory_answer import MemoryAlternative, MemoryAnswer, SupportAnswer
from capplan.llm.core.model_query import LanguageModel, attention_kind, kv_bytes_per_token
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.report.sections import Block, Column, LineRole, Lines, Section, Table, data, figure, shape_columns, words
from capplan.shapes.llm_memory import ALTERNATIVE
from capplan.shapes.llm_serving import degrees_words
from capplan.units import counted, format_bytes, format_count


def llm_memory_sections(answer: MemoryAnswer) -> list[Section]:
    """Return an answer about serving memory; a CSV has one row per part in bytes."""
    total = answer.memory.deployment.total_bytes
    columns: list[Column[tuple[str, float]]] = [
        data("model", lambda _: answer.request.model.architecture.name),
        data("gpu", lambda _: answer.request.gpu.id),
        words("per GPU", lambda row: row[0], name="part"),
        figure("size", lambda row: row[1], format_bytes),
        figure("share", lambda row: f"{100 * row[1] / total:.1f} %"),
        data("bytes", lambda row: round(row[1])),
    ]
    blocks: list[Block] = [
        Lines([_headline(answer)]),
        Table(columns, _part_rows(answer)),
        Lines([_what_fits(answer)]),
    ]
    if answer.alternatives:
        choices = _choices(answer)
        blocks += [
            Lines(["What other choices would give:"]),
            Table(shape_columns(ALTERNATIVE, choices, order=_CHOICE), choices, is_attached=True),
        ]
    evidence = f"{answer.evidence}: {answer.memory.deployment.engine.source}"
    blocks.append(Lines([*answer.notes, evidence], role=LineRole.LIST))
    return [Section(blocks)]


_FEWEST_IN_BILLIONS = 5e6
_CHOICE = ("change", "weights_bytes", "pool_bytes", "kv_tokens", "sequences_that_fit")
"""Columns of choices, in this order."""


def _headline(answer: MemoryAnswer) -> str:
    request, sharding = answer.request, answer.request.sharding
    architecture = request.model.architecture
    total, active = count_parameters(architecture), count_active_parameters(architecture)
    whole = f"{total / 1e9:.2f} B" if total >= _FEWEST_IN_BILLIONS else format_count(total)
    size = f"{whole} parameters" + (f", {active / 1e9:.2f} B active" if active < total else "")
    shared = degrees_words(sharding) or "one GPU"
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
    held = f"The cache holds {tokens} ({per_token}; 90 %: {format_bytes(low)} to {format_bytes(high)})"
    length = f"{answer.sequence_tokens:,} tokens"
    if answer.sequences == 0 and answer.max_context:
        longest = f"{answer.max_context:,} tokens (⟨max-len⟩ {answer.max_context})"
        return f"It fits for sequences of up to {longest}, not for one of {length}. {held}; shorter ones leave room."
    alone = f", or one of {answer.max_context:,}" if answer.max_context > answer.sequence_tokens else ""
    return f"{held}, {counted(answer.sequences, 'sequence')} of {length}{alone}."


def _choices(answer: MemoryAnswer) -> list[MemoryAlternative]:
    """Return what is asked for as one choice among its alternatives."""
    stage = answer.stage
    asked = MemoryAlternative(
        change="as asked", fits=answer.fits, kv_tokens=answer.kv_tokens, sequences=answer.sequences,
        weight_bytes=stage.weight_bytes, pool_bytes=max(0.0, stage.pool_bytes),
    )  # fmt: skip
    return [asked, *answer.alternatives]


def llm_support_sections(answer: SupportAnswer) -> list[Section]:
    """Return one row per format and one column per engine, and why engines do not run on the GPU."""
    cells = {(row.weights, row.engine): row for row in answer.rows}
    columns: list[Column[str]] = [words("weights", lambda name: name, name="weights")]
    columns += [_engine_column(engine, cells) for engine in Engine]
    lines = ["widened: weights are read in the format, and products are computed in 16 bits"]
    lines += [row.reason for row in answer.rows if not row.weights]
    lines += [note for note in dict.fromkeys(row.reason for row in answer.rows if row.runs) if "official" in note]
    headline = f"{answer.model.architecture.name} on {answer.gpu.name}, by the newest releases that are known:"
    formats = list(dict.fromkeys(row.weights for row in answer.rows if row.weights))
    return [Section([Lines([headline]), Table(columns, formats), Lines(lines, role=LineRole.LIST)])]


def _engine_column(engine: Engine, cells: Mapping[tuple[str, Engine], FormatSupport]) -> Column[str]:
    def cell(name: str) -> str:
        row = cells.get((name, engine))
        if row is None or not row.runs:
            return "no"
        since = f" since {'.'.join(map(str, row.since))}" if row.since else ""
        return f"{'widened' if row.widened else 'yes'}{since}"

    return words(engine.value, cell, name=engine.value)


def llm_model_sections(models: Sequence[LanguageModel]) -> list[Section]:
    """Return one row per model: sizes, attention, cache per token, context, and the checkpoint's format."""
    return [Section([Table(_MODELS, models)])]


def _active(model: LanguageModel) -> int | None:
    """Return the parameters that a token passes through; None where it passes through all."""
    active = count_active_parameters(model.architecture)
    return active if active < count_parameters(model.architecture) else None


def _billions(count: int) -> str:
    return f"{count / 1e9:.2f} B"


_MODELS: tuple[Column[LanguageModel], ...] = (
    words("model", lambda model: model.architecture.name, name="model"),
    figure("params", lambda model: count_parameters(model.architecture), _billions, name="params"),
    figure("active", _active, _billions),
    data("active_params", lambda model: count_active_parameters(model.architecture)),
    figure("layers", lambda model: len(model.architecture.layers), name="layers"),
    words("attention", attention_kind, name="attention"),
    figure("KV per token", lambda model: f"{kv_bytes_per_token(model) / 1024:.1f} KiB"),
    data("kv_bytes_per_token", lambda model: f"{kv_bytes_per_token(model):.0f}"),
    figure("context", lambda model: model.architecture.max_positions or None, "{:,}".format, unknown="unknown"),
    data("context_tokens", lambda model: model.architecture.max_positions or None),
    words("checkpoint", lambda model: model.own_quantisation.format.name, name="checkpoint", rank=1),
    words(
        "checked by",
        lambda model: "published total" if (model.check or "").startswith("published") else "formula",
        rank=2,
    ),
    data("source", lambda model: model.source),
    data("check", lambda model: model.check),
)
