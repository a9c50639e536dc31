"""The catalogue of language models as a table."""

from collections.abc import Sequence

from capplan.llm.core.model import LanguageModel
from capplan.llm.core.model_query import attention_kind, kv_bytes_per_token
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.report.table import Table, table


def llm_model_table(models: Sequence[LanguageModel]) -> Table:
    """Return one row per model: sizes, attention, cache per token, context, and the checkpoint's format.

    Args:
        models: The models.
    """
    return table(
        "model|params>|active>|layers>|attention|KV per token>|context>|checkpoint|checked by",
        [_row(model) for model in models],
    )


def llm_model_base_table(models: Sequence[LanguageModel]) -> Table:
    """Return the same facts in base units, for spreadsheets.

    Args:
        models: The models.
    """
    return table(
        "model|params|active_params|layers|attention|kv_bytes_per_token|context_tokens|checkpoint|source|check",
        [
            (
                model.architecture.name,
                str(count_parameters(model.architecture)),
                str(count_active_parameters(model.architecture)),
                str(len(model.architecture.layers)),
                attention_kind(model),
                f"{kv_bytes_per_token(model):.0f}",
                str(model.architecture.max_positions or ""),
                model.own_quantisation.format.name,
                model.source,
                model.check or "",
            )
            for model in models
        ],
    )


def _row(model: LanguageModel) -> tuple[str, ...]:
    architecture = model.architecture
    total, active = count_parameters(architecture), count_active_parameters(architecture)
    return (
        architecture.name,
        _billions(total),
        _billions(active) if active < total else "",
        str(len(architecture.layers)),
        attention_kind(model),
        f"{kv_bytes_per_token(model) / 1024:.1f} KiB",
        f"{architecture.max_positions:,}" if architecture.max_positions else "unknown",
        model.own_quantisation.format.name,
        "published total" if (model.check or "").startswith("published") else "formula",
    )


def _billions(count: int) -> str:
    return f"{count / 1e9:.2f} B"
