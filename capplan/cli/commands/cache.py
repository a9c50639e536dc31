"""`capplan cache`: the traces kept from earlier runs, shown and cleared."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.lazy import SparingGroup
from capplan.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    OutputOption,
    emit,
    laid_out,
    resolve_format,
    to_json,
)
from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.app.trace_cache import Entry, TraceCache
    from capplan.report.sections import Column, Section

app = typer.Typer(
    cls=SparingGroup,
    help="Show and clear the traces kept from earlier runs (CAPPLAN_CACHE names the folder; off keeps none).",
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
)


@app.callback()
def cache(
    context: typer.Context,
    *,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Show the traces kept from earlier runs.

    Examples:  capplan cache
    capplan cache clear resnet50
    """
    if context.invoked_subcommand is not None:
        return
    kept = _cache()
    entries = list(kept.entries())
    spelling = Format(resolve_format(chosen_format, json_flag=json_flag, output=output))
    emit(
        _as_json(kept, entries)
        if spelling is Format.JSON
        else laid_out(_sections(kept, entries), spelling, output=output),
        output=output,
    )


def _as_json(kept: "TraceCache", entries: "Sequence[Entry]") -> str:
    from capplan.report.documents.installed import CacheDocument, KeptTraceDocument

    traces = tuple(
        KeptTraceDocument(
            model=entry.words,
            options=tuple(entry.options),
            recordings=tuple(entry.configurations),
            size_bytes=entry.size_bytes,
            made=_date(entry.made_s),
        )
        for entry in entries
    )
    return to_json(CacheDocument(folder=str(kept.folder), traces=traces))


def _sections(kept: "TraceCache", entries: "Sequence[Entry]") -> "list[Section]":
    from capplan.report.sections import Lines, Section, Table, figure, words
    from capplan.units import format_bytes

    size = format_bytes(sum(entry.size_bytes for entry in entries))
    columns: list[Column[Entry]] = [
        words("model", lambda entry: entry.words, name="model"),
        words("options", lambda entry: " ".join(entry.options), name="options"),
        words("recordings", lambda entry: ", ".join(entry.configurations), name="recordings"),
        figure("size", lambda entry: format_bytes(entry.size_bytes), name="size"),
        words("made", lambda entry: _date(entry.made_s), name="made"),
    ]
    head = Lines([f"{len(entries)} traces, {size}, in {kept.folder}"], only=Format.TABLE)
    return [Section([head, Table(columns, entries, is_attached=True, only=None if entries else Format.MD)])]


@app.command("clear")
def clear(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Only this model's.", show_default=False)
    ] = None,
) -> None:
    """Forget all kept traces, or those of one model."""
    kept = _cache()
    count = kept.clear(words=model)
    if model is not None and not count:
        raise UsageError(f"no trace of {model!r} is kept; `capplan cache` lists those that are.")
    emit(f"forgot {count} {'trace' if count == 1 else 'traces'}\n", output=None)


def _cache() -> "TraceCache":
    from capplan.app.trace_cache import default_cache

    kept = default_cache()
    if kept is None:
        raise UsageError("CAPPLAN_CACHE is off: no traces are kept.")
    return kept


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
