"""The catalogue of language models as a table."""

from collections.abc import Sequence

from capplan.llm.core.model import LanguageModel
from capplan.llm.core.model_query import attention_kind, kv_bytes_per_token
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.report.sections import Column, Section, Table, data, figure, words


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
