"""`capplan plan`: which GPU fits a model at a batch, how fast it runs there, and what binds it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.models import ModelWords, obtain_trace
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json, warn
from capplan.core.batches import BatchChoice, Batches, parse_batches
from capplan.core.workload import Framework, Layout, Optimizer, Precision, Workload
from capplan.errors import CapplanError, TraceError, UsageError
from capplan.units import SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.core.gpus.prices import Price
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.latency.calibration import Calibration
    from capplan.core.memory.calibration import MemoryCalibration
    from capplan.core.plan.types import Limits, Plan, SortKey
    from capplan.core.trace.types import Trace

SORT_KEYS = ("throughput", "latency", "memory", "cost", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """What is the same for every model of one call."""

    gpus: "Sequence[GpuSpec]"
    batches: Batches
    workload: Workload
    limits: "Limits"
    calibration: "Calibration"
    memory_calibration: "MemoryCalibration"
    prices: "Sequence[Price]"
    sort: "SortKey"
    hint: bool


def plan(
    models: options.Models,
    arg: options.ModelArguments = None,
    input_: options.Inputs = None,
    input_size: options.InputSize = None,
    seq_len: options.SequenceLength = None,
    inputs_from: options.InputsFrom = None,
    prepare: options.Prepare = None,
    batch: options.BatchOption = "auto",
    gpu: options.GpuNames = None,
    specs: options.SpecFolders = None,
    precision: options.PrecisionOption = None,
    framework: options.FrameworkOption = Framework.EAGER,
    layout: options.LayoutOption = Layout.NCHW,
    torch_version: options.TorchVersion = options.DEFAULT_TORCH,
    train: options.Train = False,
    optimizer: options.OptimizerOption = Optimizer.ADAMW,
    checkpointing: options.Checkpointing = False,
    accumulate: options.Accumulate = 1,
    max_latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="Latency limit per batch, such as 50ms.", show_default=False)
    ] = None,
    min_throughput: Annotated[
        float | None, typer.Option(min=0, metavar="SAMPLES/S", help="Samples per second wanted.", show_default=False)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Samples of a whole job: adds the GPU-hours it takes.", show_default=False)
    ] = None,
    epochs: Annotated[float, typer.Option(min=0, help="How often the job takes each of its samples.")] = 1.0,
    utilization: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Share of usable memory that may be filled.")
    ] = 0.9,
    sort: Annotated[str, typer.Option(help=f"Rank by {', '.join(SORT_KEYS)}.")] = "throughput",
    strict: options.Strict = False,
    format_: FormatOption = None,
    json_: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Say which GPUs fit a model, how fast it runs there and what binds it.

    Examples:

      capplan plan resnet50 --batch 32

      capplan plan timm:vit_base_patch16_224 --batch 1,8,32 --precision fp16 --gpu l4 --max-latency 50ms

      capplan plan hf:path/to/config.json --seq-len 128 --batch 32 --format json -o plan.json
    """
    from capplan.core.plan.types import Job, Limits, SortKey
    from capplan.errors import UnknownNameError
    from capplan.specs import load_gpus
    from capplan.specs.calibration import load_calibration
    from capplan.specs.memory_calibration import load_memory_calibration
    from capplan.specs.prices import load_prices

    spelling = resolve_format(format_, json_flag=json_, output=output)
    if sort not in SORT_KEYS:
        raise UnknownNameError("sort key", sort, SORT_KEYS, hint=f"Known: {', '.join(SORT_KEYS)}.")
    known = load_gpus(overlays=specs or ())
    training = options.make_training(
        train=train, optimizer=optimizer, checkpointing=checkpointing, accumulate=accumulate
    )
    context = _Context(
        gpus=list({found.id: found for found in map(known.find, gpu)}.values()) if gpu else list(known.values()),
        batches=parse_batches(batch),
        workload=options.make_workload(
            precision=precision or Precision.FP32,
            framework=framework,
            layout=layout,
            torch_version=torch_version,
            training=training,
        ),
        limits=Limits(
            utilization_fraction=utilization,
            max_latency_s=parse_quantity(max_latency, SECONDS, what="--max-latency") if max_latency else None,
            min_throughput_per_s=min_throughput,
        ),
        calibration=load_calibration(),
        memory_calibration=load_memory_calibration(),
        prices=load_prices(known, overlays=specs or ()).hourly,
        sort=SortKey(sort),
        hint=precision is None and training is None,
    )
    plans = []
    for words in models:
        model = ModelWords(
            words=words,
            arguments=arg or (),
            inputs=input_ or (),
            input_size=input_size,
            sequence_length=seq_len,
            inputs_from=inputs_from,
            prepare=prepare or (),
        )
        plans.append(_plan_model(model, context, strict=strict))
    if samples is not None:
        plans = [replace(each, job=Job(samples=samples, epochs=epochs)) for each in plans]
    emit(_spell(plans, spelling), output=output)
    _tell_outcome(plans)


def _plan_model(model: ModelWords, context: _Context, *, strict: bool) -> "Plan":
    trace = obtain_trace(model, [context.workload.configuration])
    recording = trace.recording(context.workload.configuration)
    if recording.exact_batch is not None and not model.is_trace_file:
        made = _plan_batch_by_batch(model, context)
    else:
        made = _make_plan(trace, context)
    if strict and (made.model.uncounted or recording.guesses):
        raise TraceError(f"{model.words}: --strict, and uncounted are {', '.join(made.model.uncounted) or 'guesses'}.")
    if context.hint and made.fits:
        made = _with_hint(made, model, trace, context)
    return made


def _make_plan(trace: "Trace", context: _Context) -> "Plan":
    from capplan.core.plan.planner import make_plan

    return make_plan(
        trace,
        gpus=context.gpus,
        batches=context.batches,
        workload=context.workload,
        limits=context.limits,
        calibration=context.calibration,
        memory_calibration=context.memory_calibration,
        prices=context.prices,
        sort=context.sort,
    )


def _plan_batch_by_batch(model: ModelWords, context: _Context) -> "Plan":
    """Trace anew at every batch asked for: the model does not grow evenly with the batch."""
    from capplan.core.plan.planner import merge_plans

    if context.batches.choice is not BatchChoice.LISTED:
        raise UsageError(
            f"{model.words} does not grow evenly with the batch; list the batches to plan, such as --batch 1,8,32."
        )
    plans = []
    for size in context.batches.sizes:
        trace = obtain_trace(model, [context.workload.configuration], exact_batch=size)
        one = replace(context, batches=Batches(choice=BatchChoice.LISTED, sizes=(size,)))
        plans.append(_make_plan(trace, one))
    return merge_plans(plans, sort=context.sort)


def _with_hint(made: "Plan", model: ModelWords, trace: "Trace", context: _Context) -> "Plan":
    """Add what half precision would change on the best GPU, where the model can be traced in it."""
    from capplan.core.plan.planner import half_precision_note

    half = replace(context.workload, precision=Precision.FP16)
    try:
        if not model.is_trace_file:
            trace = obtain_trace(model, [half.configuration])
        best = made.fits[0]
        one = replace(
            context,
            gpus=[best.gpu],
            workload=half,
            batches=Batches(choice=BatchChoice.LISTED, sizes=(best.batch,)),
        )
        note = half_precision_note(best, _make_plan(trace, one))
    except CapplanError:
        return made
    return replace(made, notes=(*made.notes, note)) if note else made


def _spell(plans: "list[Plan]", spelling: Format) -> str:
    from capplan.report.documents.plan import plan_to_json
    from capplan.report.text.plan import render_plan_markdown, render_plan_text, render_plans_csv

    if spelling is Format.JSON:
        documents = [plan_to_json(each) for each in plans]
        return to_json(documents[0] if len(documents) == 1 else documents)
    if spelling is Format.CSV:
        return render_plans_csv(plans)
    render = render_plan_markdown if spelling is Format.MD else render_plan_text
    return "\n".join(map(render, plans))


def _tell_outcome(plans: "list[Plan]") -> None:
    from capplan.core.memory.types import FitStatus

    for each in plans:
        if each.fits and all(fit.status is FitStatus.BORDERLINE for fit in each.fits):
            warn(f"warning: {each.model.name}: every fit is borderline; its interval straddles a limit.")
    if not all(each.fits for each in plans):
        raise typer.Exit(1)
