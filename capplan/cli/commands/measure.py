"""`capplan measure`: a model timed on the device at hand, with theory beside measurement."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, resolve_format
from capplan.core.workload import Framework, Layout, Precision
from capplan.errors import UsageError
from capplan.units import BYTES, SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.cli.measure_request import Conditions
    from capplan.cli.measure_run import Curve
    from capplan.probe.measure.request import Job

LINES_SUFFIX = ".jsonl"


def measure(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As in `capplan plan`; no trace file.", show_default=False)
    ] = None,
    arg: options.ModelArguments = None,
    input_: options.Inputs = None,
    input_size: options.InputSize = None,
    seq_len: options.SequenceLength = None,
    inputs_from: options.InputsFrom = None,
    prepare: options.Prepare = None,
    device: Annotated[
        str | None, typer.Option(help="cuda:0, xpu, mps, cpu; by default the first accelerator.", show_default=False)
    ] = None,
    batch: Annotated[
        str,
        typer.Option(
            "--batch",
            "-b",
            help="8, 1,8,32, 1..1024 (powers of two), auto (double until it stops paying), or max (find the largest).",
        ),
    ] = "1",
    precision: options.PrecisionOption = None,
    framework: options.FrameworkOption = Framework.EAGER,
    layout: options.LayoutOption = Layout.NCHW,
    warmup: Annotated[
        int | None, typer.Option(min=1, help="Warm-up runs; by default until stable.", show_default=False)
    ] = None,
    repetitions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Repetitions; by default 50 or more until the median is known to 1 %.", show_default=False
        ),
    ] = None,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Longest time to repeat one point.")] = "10s",
    flush_l2: Annotated[bool, typer.Option("--flush-l2", help="Displace the L2 cache before each repetition.")] = False,
    autotune: Annotated[bool, typer.Option("--autotune", help="Let cuDNN time its algorithms first.")] = False,
    methods: Annotated[
        str | None,
        typer.Option(metavar="naive,sync,event", help="Put timing methods side by side.", show_default=False),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(metavar="FILE.py:FUNCTION", help="Time a pipeline's stages instead.", show_default=False),
    ] = None,
    search: Annotated[str, typer.Option(metavar="binary|sequential", help="How --batch max searches.")] = "binary",
    max_batch: Annotated[int, typer.Option(min=1, help="Cap of --batch auto and max.")] = 65536,
    reserve: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of the available memory that --batch max leaves free.")
    ] = 0.05,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Allocate at most this, such as 4GiB.", show_default=False)
    ] = None,
    isolate: Annotated[bool, typer.Option("--isolate", help="Measure each point in a process of its own.")] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="End an isolated point after this.", show_default=False)
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The device's GPU spec, where its name tells none.", show_default=False),
    ] = None,
    specs: options.SpecFolders = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Own calibration for the estimates.", show_default=False)
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Profile each batch into this folder: operators, Chrome trace.", show_default=False
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Skip what the measurement file already holds.")] = False,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A B", help="Compare two measurement files instead.", show_default=False),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show a measurement file instead, in any --format.", show_default=False),
    ] = None,
    format_: FormatOption = None,
    json_: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Time a model on the device at hand, with theory beside measurement.

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
    instead = [
        name for name, given in (("--compare", compare), ("--export", export), ("--pipeline", pipeline)) if given
    ]
    if len(instead) + (model is not None) != 1:
        raise UsageError("name one thing to do: a MODEL, --pipeline, --compare, or --export.")
    lines, spelling = _destination(output, format_, json_flag=json_)
    if compare:
        from capplan.cli.commands.measure_files import compare_files

        compare_files(*compare, spelling=spelling, output=output)
        return
    if export:
        from capplan.cli.commands.measure_files import export_file

        export_file(export, spelling=spelling, output=output)
        return
    from capplan.cli.measure_request import Conditions
    from capplan.cli.measure_run import command_line
    from capplan.probe.inputs.request import ModelRequest
    from capplan.probe.measure.open import open_device
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.request import Job
    from capplan.probe.measure.timing import StopRule, WarmUpRule

    if timeout and not isolate:
        raise UsageError("--timeout ends a process of its own: add --isolate.")
    if profile and isolate:
        raise UsageError("--profile looks into this process: drop --isolate.")
    if model is not None:
        _refuse_trace(model)
    sizes = _curve(batch, search=search, max_batch=max_batch)
    job = Job(
        model=ModelRequest(
            words=model or "",
            arg=tuple(arg or ()),
            inputs=tuple(input_ or ()),
            input_size=input_size,
            seq_len=seq_len,
            inputs_from=inputs_from,
            prepare=tuple(prepare or ()),
        ),
        device=str(open_device(device).torch_device),
        precision=precision or Precision.FP32,
        framework=framework,
        layout=layout,
        rules=Rules(
            warm_up=WarmUpRule(runs=warmup),
            stop=StopRule(repetitions=repetitions, budget_s=_above_zero(budget, SECONDS, what="--budget")),
            flush_l2=flush_l2,
            autotune=autotune,
        ),
        allowed_bytes=int(_above_zero(memory_limit, BYTES, what="--memory-limit")) if memory_limit else None,
        reserve_fraction=reserve if sizes.is_searched else None,
        command=command_line(),
    )
    conditions = Conditions(
        gpu=gpu,
        specs=tuple(specs or ()),
        calibration=calibration,
        timeout_s=_above_zero(timeout, SECONDS, what="--timeout") if timeout else None,
        is_isolated=isolate,
        lines=lines,
        resume=resume,
        profile=profile,
        spelling=spelling,
        output=None if lines else output,
    )
    _dispatch(job, sizes, conditions, methods=methods, pipeline=pipeline)


def _dispatch(
    job: "Job", sizes: "Curve", conditions: "Conditions", *, methods: str | None, pipeline: str | None
) -> None:
    if conditions.resume and conditions.lines is None:
        raise UsageError("--resume needs the measurement file to go on with: add -o FILE.jsonl.")
    if (methods or pipeline) and conditions.lines is not None:
        raise UsageError("--methods and --pipeline show how timing goes wrong: nothing for a measurement file.")
    if pipeline:
        from capplan.cli.commands.measure_demos import run_pipeline

        run_pipeline(pipeline, job, sizes, conditions)
    elif methods:
        from capplan.cli.commands.measure_demos import run_methods

        run_methods(job, sizes, conditions, methods=methods)
    else:
        from capplan.cli.measure_run import run_points

        run_points(job, sizes, conditions)


def _above_zero(words: str, units: Mapping[str, float], *, what: str) -> float:
    value = parse_quantity(words, units, what=what)
    if value <= 0:
        raise UsageError(f"{what} {words!r} must be above zero.")
    return value


def _refuse_trace(words: str) -> None:
    from capplan.cli.models import read_trace_file

    if (trace := read_trace_file(words)) is not None:
        raise UsageError(f"{words} is a trace, and measuring runs the model itself: name {trace.target}.")


def _destination(output: Path | None, chosen: Format | None, *, json_flag: bool) -> tuple[Path | None, Format]:
    """Tell a measurement file, which is appended to, from an answer that is written whole."""
    if output is not None and output.suffix == LINES_SUFFIX:
        return output, resolve_format(chosen, json_flag=json_flag, output=None)
    return None, resolve_format(chosen, json_flag=json_flag, output=output)


def _curve(batch: str, *, search: str, max_batch: int) -> "Curve":
    from capplan.cli.measure_run import Curve
    from capplan.core.batches import parse_batches
    from capplan.core.measurement.batch_search import Search
    from capplan.errors import UnknownNameError

    if search not in list(Search):
        raise UnknownNameError("search", search, list(Search), hint=f"Known: {', '.join(Search)}.")
    return Curve(batches=parse_batches(batch), search=Search(search), at_most=max_batch)
