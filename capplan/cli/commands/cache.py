"""`capplan cache`: the traces kept from earlier runs, shown and cleared."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json
from capplan.cli.sparing import SparingGroup
from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.app.kept_traces.cache import TraceCache

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
    from capplan.report.table import render_csv, render_markdown, render_text, table
    from capplan.units import format_bytes

    kept = _cache()
    entries = list(kept.entries())
    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    if spelling is Format.JSON:
        from capplan.report.documents.local_state import CacheDocument, KeptTraceDocument

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
        emit(to_json(CacheDocument(folder=str(kept.folder), traces=traces)), output=output)
        return
    content = table(
        "model|options|recordings|size>|made",
        [
            (
                entry.words,
                " ".join(entry.options),
                ", ".join(entry.configurations),
                format_bytes(entry.size_bytes),
                _date(entry.made_s),
            )
            for entry in entries
        ],
    )
    if spelling is Format.TABLE:
        size = format_bytes(sum(entry.size_bytes for entry in entries))
        emit(
            f"{len(entries)} traces, {size}, in {kept.folder}\n{render_text(content) if entries else ''}", output=output
        )
    else:
        emit({Format.CSV: render_csv, Format.MD: render_markdown}[spelling](content), output=output)


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
    from capplan.app.kept_traces.cache import default_cache

    kept = default_cache()
    if kept is None:
        raise UsageError("CAPPLAN_CACHE is off: no traces are kept.")
    return kept


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
