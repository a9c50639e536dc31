"""`capplan analyze`: parameters, MACs, FLOPs and bytes of a model, by operator and by module."""

from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, laid_out, to_json
from capplan.cli.progress import TERMINAL
from capplan.core.workload import Configuration, Layout
from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.app.analyze import AnalyzeAnswer


@with_groups
def analyze(
    *,
    model: options.Model,
    inputs: options.ModelOptions,
    batch: Annotated[
        int | None,
        typer.Option("--batch", "-b", min=1, help="Batch size of all counts; 1, or what a file is fixed to."),
    ] = None,
    precision: options.PrecisionOption = None,
    layout: options.LayoutOption = Layout.NCHW,
    steps: options.TrainingOptions,
    depth: Annotated[
        int | None,
        typer.Option(
            min=0, help="Depth of the module view; by default 2 in tables, whole in data.", show_default=False
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Rows by module and operator in tables; 0 leaves them out.")] = 20,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with thop, fvcore and torch's counter, differences explained.")
    ] = False,
    strict: options.Strict = False,
    answer: options.AnswerOptions,
) -> None:
    """Count a model's parameters, MACs, FLOPs and bytes.

    Examples:

      capplan analyze resnet50

      capplan analyze hf:bert --seq-len 128 --format json
    """
    from capplan.app.analyze import AnalyzeRequest
    from capplan.app.analyze import analyze as count

    chosen = answer.format()
    if compare and chosen is Format.CSV:
        raise UsageError("--compare cannot be written as CSV: use table, md or json.")
    request = AnalyzeRequest(
        model=inputs.request(model),
        batch=batch,
        configuration=Configuration(
            variant=(precision or inputs.default_precision()).variant,
            layout=layout,
            training=steps.training(),
            half_dtype=(precision or inputs.default_precision()).half_dtype or "bfloat16",
        ),
        depth=_depth(depth, chosen),
        compares_counters=compare,
        is_strict=strict,
    )
    made = count(request, feedback=TERMINAL)
    answer.emit(_render(made, chosen, compare=compare, depth=request.depth, top=top))


def _depth(depth: int | None, chosen: Format) -> int | None:
    """Return the depth of the module view: 2 in tables and all levels in data, where none is asked for."""
    return 2 if depth is None and chosen in (Format.TABLE, Format.MD) else depth


def _render(made: "AnalyzeAnswer", chosen: Format, *, compare: bool, depth: int | None, top: int) -> str:
    from capplan.report.documents.analysis import analysis_document
    from capplan.report.text.counts import analysis_sections, counter_sections

    if chosen is Format.JSON:
        return to_json(analysis_document(made.analysis, comparisons=made.comparisons if compare else None, depth=depth))
    sections = analysis_sections(made.analysis, depth=depth, top=top)
    if compare and chosen is not Format.CSV:
        sections += counter_sections(made.comparisons, macs=made.analysis.macs, params=made.parameter_count)
    return laid_out(sections, chosen)
