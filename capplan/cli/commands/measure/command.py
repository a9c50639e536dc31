"""`capplan measure`: time a model on the device at hand and compare it with theory."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import options
from capplan.cli.commands.measure.options import InsteadOptions, MeasureOptions
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, check_plots, resolve_format
from capplan.errors import UsageError

LINES_SUFFIX = ".jsonl"


@with_groups
def measure(
    *,
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As in `capplan plan`; no trace file.", show_default=False)
    ] = None,
    inputs: options.ModelOptions,
    how: MeasureOptions,
    instead: InsteadOptions,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg|png|pdf|html", help="Plot the times over the batch, with theory.", show_default=False
        ),
    ] = None,
    answer: options.AnswerOptions,
) -> None:
    """Time a model on the device at hand, and compare the measurement with theory.

    With -o FILE.jsonl every point is appended to that measurement file as it finishes; --resume goes on
    where a run was interrupted. Exit codes: 4 where a point could not be measured (the others are kept),
    130 when interrupted (what was measured is kept).

    Examples:

      capplan measure resnet50 --batch 1,8,32 --precision fp16 -o runs.jsonl

      capplan measure timm:efficientnet_b0 --batch max --isolate --timeout 2min

      capplan measure resnet50 --methods naive,sync,event

      capplan measure --compare before.jsonl after.jsonl

      capplan measure --export runs.jsonl --format csv -o measured.csv

      capplan measure --export runs.jsonl --plot measured.svg
    """
    if sum(each is not None for each in (model, instead.pipeline, instead.compare, instead.export)) != 1:
        raise UsageError("name one thing to do: a MODEL, --pipeline, --compare, or --export.")
    if plot is not None and (instead.compare or instead.pipeline or instead.methods):
        raise UsageError("--plot draws the times of a MODEL or of --export.")
    check_plots(plot)
    lines, chosen = _destination(answer)
    output = None if lines else answer.output
    if instead.compare or instead.export:
        _show_files(instead, chosen=chosen, output=answer.output, plot=plot)
    elif instead.pipeline or instead.methods:
        _refuse_lines(lines, how)
        _show_methods(instead, model, inputs, how, chosen=chosen, output=output)
    else:
        from capplan.cli.commands.measure.points import measure_points

        measure_points(how.request(inputs.request(model or ""), lines=lines), chosen=chosen, output=output, plot=plot)


def _show_files(instead: InsteadOptions, *, chosen: Format, output: Path | None, plot: Path | None) -> None:
    from capplan.cli.commands.measure import files

    if instead.compare:
        files.compare(*instead.compare, chosen=chosen, output=output)
    elif instead.export:
        files.export(instead.export, chosen=chosen, output=output, plot=plot)


def _refuse_lines(lines: Path | None, how: MeasureOptions) -> None:
    if lines is not None:
        raise UsageError("--methods and --pipeline show how timing goes wrong: nothing for a measurement file.")
    if how.resume:
        raise UsageError("--resume needs the measurement file to go on with: add -o FILE.jsonl.")


def _show_methods(
    instead: InsteadOptions,
    model: str | None,
    inputs: options.ModelOptions,
    how: MeasureOptions,
    *,
    chosen: Format,
    output: Path | None,
) -> None:
    from capplan.cli.commands.measure import methods

    if instead.pipeline:
        methods.show_pipeline(instead.pipeline, how, chosen=chosen, output=output)
    elif instead.methods:
        request = how.request(inputs.request(model or ""), lines=None)
        methods.show_methods(request, instead.methods, chosen=chosen, output=output)


def _destination(answer: options.AnswerOptions) -> tuple[Path | None, Format]:
    """Separate a measurement file, which is appended to, from an answer that is written whole."""
    if answer.output is not None and answer.output.suffix == LINES_SUFFIX:
        return answer.output, resolve_format(answer.format_, json_flag=answer.json_, output=None)
    return None, answer.format()
