"""`capplan measure`: time a model on the device at hand and compare it with theory."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import options
from capplan.cli.commands.measure.options import MeasureOptions
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, resolve_format
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
    methods: Annotated[
        str | None,
        typer.Option(metavar="naive,sync,event", help="Put timing methods side by side.", show_default=False),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(metavar="FILE.py:FUNCTION", help="Time a pipeline's stages instead.", show_default=False),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A B", help="Compare two measurement files instead.", show_default=False),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show a measurement file instead, in any --format.", show_default=False),
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
    """
    asked = [model, pipeline, compare, export]
    if sum(each is not None for each in asked) != 1:
        raise UsageError("name one thing to do: a MODEL, --pipeline, --compare, or --export.")
    lines, chosen = _destination(answer)
    output = None if lines else answer.output
    if compare or export:
        from capplan.cli.commands.measure import files

        if compare:
            files.compare(*compare, chosen=chosen, output=answer.output)
        elif export:
            files.export(export, chosen=chosen, output=answer.output)
    elif pipeline or methods:
        from capplan.cli.commands.measure import methods as demonstrations

        if lines is not None:
            raise UsageError("--methods and --pipeline show how timing goes wrong: nothing for a measurement file.")
        if how.resume:
            raise UsageError("--resume needs the measurement file to go on with: add -o FILE.jsonl.")
        if pipeline:
            demonstrations.show_pipeline(pipeline, how, chosen=chosen, output=output)
        elif methods:
            request = how.request(inputs.request(model or ""), lines=None)
            demonstrations.show_methods(request, methods, chosen=chosen, output=output)
    else:
        from capplan.cli.commands.measure.points import measure_points

        measure_points(how.request(inputs.request(model or ""), lines=lines), chosen=chosen, output=output)


def _destination(answer: options.AnswerOptions) -> tuple[Path | None, Format]:
    """Separate a measurement file, which is appended to, from an answer that is written whole."""
    if answer.output is not None and answer.output.suffix == LINES_SUFFIX:
        return answer.output, resolve_format(answer.format_, json_flag=answer.json_, output=None)
    return None, answer.format()
