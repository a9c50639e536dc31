"""`estimate`: how fast a model runs on a GPU over batch sizes, what binds it, and what would help."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.workload import BatchChoice, Batches, Configuration, Framework, Layout, Precision, Workload
from capplan.errors import CapplanError, UsageError
from capplan.units import counted
from capplan.verbs.statement.contract import Context, Verb, drawn_by, laid_out_by
from capplan.verbs.statement.fields import (
    CalibrationFields,
    EnergyFields,
    GpuFields,
    ModelFields,
    PipelineFields,
    PriceFields,
    TimedFields,
    batch_sizes,
    in_answer,
    picture_file,
)
from capplan.verbs.statement.options import After, Door, Option, Topic
from capplan.verbs.statement.words import checking_pictures

if TYPE_CHECKING:
    from capplan.app.models import Model
    from capplan.core.memory.advice import Alternative
    from capplan.core.plan.estimate import EstimateAnswer
    from capplan.core.plan.types import Plan
    from capplan.core.trace.types import InputTensor, Trace


@dataclass(frozen=True, kw_only=True)
class EstimateQuestion(
    ModelFields, PipelineFields, GpuFields, TimedFields, PriceFields, CalibrationFields,
    EnergyFields,
):  # fmt: skip
    """Latency and throughput of a model over batch sizes, with intervals, the knee and what binds."""

    gain_fraction: Annotated[
        float,
        Meta(ge=0.0, le=1.0),
        Option(help="The knee: doubling gains less than this.", flags=("--gain",), shows_default=True),
    ] = 0.10
    explain: Annotated[
        bool, in_answer("Write out the arithmetic at the largest batch.", doors=Door.COMMAND, is_usual=True)
    ] = False
    compare_frameworks: Annotated[
        bool,
        Option(is_usual=True, help="Set eager, compiled, layouts and precisions side by side.", topic=Topic.ANSWER),
    ] = False
    top: Annotated[
        int | None,
        Meta(ge=0),
        in_answer("How many of the costliest kernels and modules to list; 5 in a table and 20 in JSON by default."),
    ] = None
    plot: Annotated[Path | None, picture_file("Plot the curves; of a pipeline, its parts over time.")] = None
    roofline: Annotated[Path | None, picture_file("Plot the roofline.")] = None
    batches: Annotated[
        Batches | None,
        After("ring"),
        batch_sizes("8, 1,8,32 or 1..64 (powers of two); 1..1024, or what a file is fixed to.", shows_default=False),
    ] = None


def answer_estimate(question: EstimateQuestion, context: Context) -> "EstimateAnswer | Plan":
    """Return curves, breakdowns, bounds and advice for a model on each GPU.

    Raises:
        UsageError: there is no such model or GPU; a GPU cannot run the workload; or batches are not listed.
        TraceError: the model could not be traced.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    from capplan.app.pipelines.diffusers import names_pipeline

    if not context.names_gpus(question) and not question.price_filters():
        raise UsageError(
            "estimate needs GPUs, such as ⟨gpu⟩ l4 or ⟨gpu⟩ t4,l4; `capplan plan` answers for all of them."
        )
    if question.batches is not None and question.batches.choice is not BatchChoice.LISTED:
        raise UsageError("estimate needs batches, such as ⟨batch⟩ 1..1024; `capplan plan` finds the largest that fits.")
    if names_pipeline(question.model):
        from capplan.app.plan import PlanContext, PlanTerms
        from capplan.core.workload import SortKey
        from capplan.verbs.pipelines import open_asked

        if question.roofline is not None:
            raise UsageError("⟨roofline⟩ draws the kernels of a model; ⟨plot⟩ draws a pipeline's parts over time.")
        workload = question.workload(question.default_precision())
        batches = question.batches or Batches(choice=BatchChoice.LISTED, sizes=(1, 2, 4, 8))
        shared = PlanContext.of(
            context.gpus(question),
            question.price_filters(),
            calibration=question.calibration,
            feedback=context.feedback,
        )
        terms = PlanTerms(batches=batches, workload=workload, sort=SortKey.NAME, power_law=question.power_law())
        opened = open_asked(question, context, workload, shared)
        return opened.advised(opened.plan(terms), terms)
    question.refuse_pipeline_options(question.model)
    return _model_estimate(question, context)


def _model_estimate(question: EstimateQuestion, context: Context) -> "EstimateAnswer":
    from capplan.app.gpu_choice import find_priced_gpus
    from capplan.app.models import open_model
    from capplan.core.gpus.prices import cheapest_offers
    from capplan.core.latency.advice import compared_configurations, compared_workloads
    from capplan.core.plan.estimate import (
        Adviser,
        EstimateAnswer,
        TracedStep,
        compare_ways,
        estimate_curves,
        report_estimate,
    )
    from capplan.specs.calibration import load_calibration

    source = context.model(question)
    workload, law = question.workload(question.default_precision()), question.power_law()
    gpus = find_priced_gpus(context.gpus(question), question.price_filters())
    rates = load_calibration(question.calibration)
    model = open_model(source, feedback=context.feedback)
    batches = sorted(set(question.batches.sizes)) if question.batches else _usual_batches(model, workload.configuration)
    steps = [
        TracedStep.of(trace, workload, calibration=rates, batches=held.sizes)
        for trace, held in model.traces_for(
            workload.configuration, Batches(choice=BatchChoice.LISTED, sizes=tuple(batches))
        )
    ]
    curves, refused = estimate_curves(steps, gpus.chosen, law)
    if not curves:
        raise UsageError(f"{refused[0][1].reason}.")
    for gpu, unsupported in refused:
        context.feedback.warn(f"{gpu.id} is left out: {unsupported.reason}.")
    trace = steps[-1].trace
    adviser = Adviser(
        trace=trace, workload=workload, calibration=rates, gpus=gpus.known.sold.values(), law=law,
        changes=tuple(_possible_changes(model, trace, workload, batches[-1])),
        rents=cheapest_offers(gpus.prices().to_plan_with),
    )  # fmt: skip
    with context.feedback.progress(f"estimating {model.words} on {counted(len(curves), 'GPU')}"):
        reports = tuple(
            report_estimate(steps, gpu, curve, adviser, gain_fraction=question.gain_fraction) for gpu, curve in curves
        )
    if not question.compare_frameworks:
        return EstimateAnswer(reports=reports, compared={}, calibration=rates)
    whole = model.traces_at(compared_configurations(compared_workloads(workload)), batches[-1])
    compared = compare_ways(whole, adviser, [gpu for gpu, _ in curves], batch=batches[-1])
    return EstimateAnswer(reports=reports, compared=compared, calibration=rates)


_USUAL_BATCHES = tuple(2**power for power in range(11))


def _usual_batches(model: "Model", configuration: Configuration) -> list[int]:
    """Return 1 to 1024 in powers of two, a few where each must be traced, or the only batch that the model runs at."""
    from capplan.app.models import UNSCALED_BATCHES

    usual = model.usual_batch(configuration)
    if usual > 1 or model.fixed_batch(configuration) is not None:
        return [usual]
    return list(_USUAL_BATCHES if model.scales(configuration) else UNSCALED_BATCHES)


_SMALLEST_SIDE, _SMALLEST_LENGTH = 32, 16


def _possible_changes(model: "Model", trace: "Trace", now: Workload, batch: int) -> "Iterator[Alternative]":
    """Yield the changes that can be had under the conditions of a trace, each traced once for all GPUs."""
    from capplan.core.latency.advice import SMALLER_INPUT
    from capplan.core.memory.advice import Alternative

    wanted = {}
    if now.precision.half_dtype is None:
        wanted["half precision (⟨precision⟩ amp-fp16)"] = replace(now, precision=Precision.AMP_FP16)
        wanted["16-bit weights (⟨precision⟩ fp16)"] = replace(now, precision=Precision.FP16)
    if now.framework is Framework.EAGER:
        wanted["compiling (⟨framework⟩ compile)"] = replace(now, framework=Framework.COMPILE)
    if now.layout is Layout.NCHW and any(len(tensor.shape) == 4 for tensor in trace.inputs):
        wanted["channels_last (⟨layout⟩ nhwc)"] = replace(now, layout=Layout.NHWC)
    for change, workload in wanted.items():
        if (changed := _try_trace(model, workload, batch)) is not None:
            yield Alternative(change=change, trace=changed, workload=workload)
    if (smaller := _half_as_large(model, trace.inputs)) is not None:
        option, other = smaller
        if (changed := _try_trace(other, now, batch)) is not None:
            yield Alternative(change=f"{SMALLER_INPUT} ({option}), if the task allows it", trace=changed, workload=now)


def _try_trace(model: "Model", workload: Workload, batch: int) -> "Trace | None":
    """Return the trace of a change; None where the model does not allow it, or a trace file does not hold it."""
    try:
        trace = model.trace_at(workload.configuration, batch)
        trace.recording(workload.configuration)
    except CapplanError:
        return None
    return trace


def _half_as_large(model: "Model", inputs: "Sequence[InputTensor]") -> "tuple[str, Model] | None":
    """Return the model on half the side or half the tokens, and the option that asks for it; None for other inputs."""
    request = model.own_request
    if request is None or request.inputs or request.inputs_from or not inputs:
        return None
    is_text = len(inputs[0].shape) == 2 and inputs[0].dtype == "int64"
    if request.seq_len is not None or is_text:
        length = (request.seq_len or inputs[0].shape[1].constant) // 2
        smaller = model.with_input(seq_len=length) if length >= _SMALLEST_LENGTH else None
        return (f"⟨seq-len⟩ {length}", smaller) if smaller else None
    if len(inputs[0].shape) != 4 or not inputs[0].dtype.startswith("float"):
        return None
    channels, *sides = (dim.constant for dim in inputs[0].shape[1:])
    halves = [side // 2 // _SMALLEST_SIDE * _SMALLEST_SIDE for side in sides]
    size = "x".join(map(str, (channels, *halves)))
    smaller = model.with_input(input_size=size) if min(halves) >= _SMALLEST_SIDE else None
    return (f"⟨input-size⟩ {size}", smaller) if smaller else None


ESTIMATE = Verb(
    path="estimate",
    question=EstimateQuestion,
    summary="Estimate latency and throughput over batch sizes, with intervals, the knee and what binds.",
    take_it="Take it when the GPU is known and the question is how the time grows with the batch, and what limits it.",
    examples=(
        "capplan estimate resnet50 --gpu rtx-4090 --precision amp-fp16",
        "capplan estimate resnet50.trace.json --gpu l4 --batch 1..256 --explain",
        "capplan estimate resnet50 --where 'memory >= 24 GiB' --provider aws --max-price 2 --batch 32",
    ),
    answer=answer_estimate,
    finalize=checking_pictures("plot", "roofline"),
    sections=laid_out_by(
        "capplan.report.text.estimate:estimate_sections",
        others={"Plan": laid_out_by("capplan.report.text.plan:plan_sections", of_all=True)},
        top="top",
        explain="explain",
    ),
    document=laid_out_by(
        "capplan.shapes.estimate:estimate_document",
        others={"Plan": laid_out_by("capplan.shapes.plan:plan_document")},
        top="top",
    ),
    files=drawn_by(
        part="reports",
        others={"Plan": drawn_by(plot="capplan.report.charts.plots:timeline_chart")},
        plot="capplan.report.charts.plots:curve_chart",
        roofline="capplan.report.charts.plots:roofline_chart",
    ),
    schema="estimate",
    returns="capplan.core.plan.estimate:EstimateAnswer",
)
