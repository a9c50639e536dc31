"""`memory`: the peak of a model's GPU memory by part, where it stands, and the largest batch that fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.workload import Configuration, ModelSharding, Optimizer, Training, Workload
from capplan.errors import CapplanError, UsageError
from capplan.verbs.statement.contract import Context, Outcome, Verb, drawn_by, laid_out_by
from capplan.verbs.statement.fields import (
    GpuFields,
    ModelFields,
    PipelineFields,
    StrictFields,
    UtilizationFields,
    WorkloadFields,
    one_batch,
    picture_file,
)
from capplan.verbs.statement.options import After, Door, Option, Topic
from capplan.verbs.statement.words import checking_pictures

if TYPE_CHECKING:
    from capplan.app.gpu_choice import GpuRequest
    from capplan.app.models import Model
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.memory.advice import Alternative
    from capplan.core.memory.summary import MemoryResult
    from capplan.core.pipelines.prepared import PipelineMemory
    from capplan.core.trace.types import Recording, Trace


@dataclass(frozen=True, kw_only=True)
class MemoryQuestion(ModelFields, PipelineFields, GpuFields, WorkloadFields, UtilizationFields, StrictFields):
    """How much GPU memory a model needs, by part, and the largest batch that fits."""

    rank_count: Annotated[
        int,
        Meta(ge=1, le=10**6),
        Option(is_usual=True, help="GPUs that share the work.", flags=("--gpus",), shows_default=True),
    ] = 1
    shardings: Annotated[
        tuple[ModelSharding, ...],
        Option(
            is_usual=True,
            help=f"How they share it: {', '.join(ModelSharding)}; repeatable; all that apply by default.",
            flags=("--sharding",), metavar="TEXT",
        ),
    ] = ()  # fmt: skip
    expandable_segments: Annotated[bool, Option(help="As with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.")] = (
        False
    )
    advice: Annotated[
        bool,
        Option(help="Work out what other precisions, layouts, optimizers, ... would save.", topic=Topic.ANSWER),
    ] = False
    rule_of_thumb: Annotated[
        bool,
        Option(
            help="Compare with the classic estimate, the cards that it would choose, and what it misses.",
            topic=Topic.ANSWER, doors=Door.COMMAND,
        ),
    ] = False  # fmt: skip
    plot: Annotated[Path | None, picture_file("Draw live bytes over the operators.")] = None
    batch: Annotated[int | None, After("ring"), one_batch("Batch size on each GPU; 1, or what a file is fixed to.")] = (
        None
    )


def answer_memory(question: MemoryQuestion, context: Context) -> "MemoryResult | PipelineMemory":
    """Return the memory of a model at a batch, on each GPU asked for.

    Raises:
        UsageError: there is no such model or GPU; or the batch is too large for any device.
        TraceError: the model could not be traced, or is refused by `strict`.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    from capplan.app.gpu_choice import find_gpus
    from capplan.app.models import open_model, refuse_uncertain
    from capplan.app.pipelines.diffusers import names_pipeline
    from capplan.core.memory.model import MemoryModel
    from capplan.core.memory.summary import MemoryResult
    from capplan.core.memory.summary import answer_memory as summarise
    from capplan.core.plan.recommend import is_takeable
    from capplan.specs.calibration import load_memory_calibration

    if question.batch is not None and question.batch < 1:
        raise UsageError(f"⟨batch⟩ must be at least 1, not {question.batch}.")
    gpus, names_gpus = context.gpus(question), context.names_gpus(question)
    workload = question.workload(question.default_precision())
    if names_pipeline(question.model):
        return _of_pipeline(question, context, workload, gpus if names_gpus else None)
    question.refuse_pipeline_options(question.model)
    source = context.model(question)
    chosen = find_gpus(gpus).chosen if names_gpus or question.rule_of_thumb else ()
    model = open_model(source, feedback=context.feedback)
    batch = question.batch or model.usual_batch(workload.configuration)
    trace = model.trace_at(workload.configuration, batch)
    recording = trace.recording(workload.configuration)
    if question.strict:
        refuse_uncertain(model.words, recording)
    _refuse_unrunnable(chosen if names_gpus else (), workload, recording)
    memory = MemoryModel(
        trace=_with_recordings_for_advice(model, trace, workload) if question.advice else trace,
        workload=workload,
        calibration=load_memory_calibration(),
        expandable_segments=question.expandable_segments,
    )
    summary = summarise(
        memory,
        batch=batch,
        gpus=chosen if names_gpus else (),
        utilization_fraction=question.utilization_fraction,
        others=_smaller_inputs(model, trace, workload) if question.advice else (),
        rank_count=question.rank_count,
        shardings=question.shardings or _usual_shardings(workload, question.rank_count),
        rule_gpus=[gpu for gpu in chosen if is_takeable(gpu)],
    )
    return MemoryResult(answer=summary, model=memory)


def _refuse_unrunnable(gpus: "Sequence[GpuSpec]", workload: Workload, recording: "Recording") -> None:
    """Refuse GPUs that do not run the framework, its number format or a kernel of the model."""
    from capplan.core.latency.device import missing_kernels, unsupported
    from capplan.specs.rate_laws import load_rate_laws

    laws = load_rate_laws()
    for gpu in gpus:
        found = unsupported(gpu, workload, laws) or missing_kernels(recording, gpu, laws.software)
        if found is not None:
            raise UsageError(f"{found.reason}.")


def _usual_shardings(workload: Workload, rank_count: int) -> Sequence[ModelSharding]:
    """Return the ways to share a model that apply: all of a training step, replicas or fsdp of inference."""
    if rank_count == 1:
        return ()
    if workload.training is None:
        return (ModelSharding.REPLICAS, ModelSharding.FSDP)
    return [sharding for sharding in ModelSharding if sharding is not ModelSharding.REPLICAS]


def _with_recordings_for_advice(model: "Model", trace: "Trace", workload: Workload) -> "Trace":
    """Add the recordings that advice compares to a trace; those that cannot be made are left out."""
    from capplan.core.memory.advice import configurations_for_advice

    if not model.can_be_traced:
        return trace
    wanted = [*configurations_for_advice(workload)[1:]]
    if workload.training is None and not workload.framework.is_engine:
        wanted.append(replace(workload.configuration, training=Training(optimizer=Optimizer.SGD)))
    exact_batch = trace.recording(workload.configuration).exact_batch
    others = [_try_trace(model, configuration, exact_batch) for configuration in wanted]
    more = [recording for other in others if other is not None for recording in other.recordings]
    return replace(trace, recordings=(*trace.recordings, *more))


_SMALLER_INPUTS = (0.75, 0.5)


def _smaller_inputs(model: "Model", trace: "Trace", workload: Workload) -> "tuple[Alternative, ...]":
    """Return a model on images of three quarters and half the size, in whole steps of 32, where it takes such."""
    from capplan.core.memory.advice import Alternative

    first = trace.inputs[0] if trace.inputs else None
    if first is None or len(first.shape) != 4 or not first.dtype.startswith("float"):
        return ()
    exact_batch = trace.recording(workload.configuration).exact_batch
    channels, *sides = (dim.constant for dim in first.shape[1:])
    sizes = [[max(32, int(share * side) // 32 * 32) for side in sides] for share in _SMALLER_INPUTS]
    smaller = []
    for size in (f"{channels}x{height}x{width}" for height, width in sizes if [height, width] != sides):
        other = model.with_input(input_size=size)
        traced = other and _try_trace(other, workload.configuration, exact_batch)
        if traced:
            smaller.append(Alternative(change=f"input {size}", trace=traced, workload=workload))
    return tuple(smaller)


def _try_trace(model: "Model", configuration: Configuration, exact_batch: int | None) -> "Trace | None":
    try:
        return model.trace([configuration], exact_batch=exact_batch)
    except CapplanError:
        return None


def _of_pipeline(
    question: MemoryQuestion, context: Context, workload: Workload, gpus: "GpuRequest | None"
) -> "PipelineMemory":
    """Return the memory of a pipeline, on each GPU asked for."""
    from capplan.app.gpu_choice import GpuRequest
    from capplan.app.pipelines.answer import OpenedPipeline
    from capplan.app.plan import PlanContext
    from capplan.verbs.pipelines import pipeline_request

    if question.plot is not None:
        raise UsageError("⟨plot⟩ draws the operators of a model; of a pipeline, `capplan estimate --plot` its parts.")
    request = pipeline_request(question, context, workload)
    shared = PlanContext.of(gpus or GpuRequest(), feedback=context.feedback)
    return OpenedPipeline.of(request, shared).memory(
        batch=question.batch or 1,
        gpus=() if gpus is None else shared.gpus,
        utilization_fraction=question.utilization_fraction,
    )


def _outcome(memory: "MemoryResult | PipelineMemory") -> Outcome:
    """A model that fits none of the GPUs asked for ends in exit code 1."""
    return Outcome(exit_code=int(bool(memory.statuses) and set(memory.statuses) == {"does not fit"}))


MEMORY = Verb(
    path="memory",
    question=MemoryQuestion,
    summary="Estimate how much GPU memory a model needs, by part, and the largest batch that fits.",
    take_it="Take it when the GPU is known and the question is whether a batch fits and which is the largest.",
    verdict=("total_bytes", "gpus"),
    examples=(
        "capplan memory resnet50 --batch 32 --gpu l4",
        "capplan memory timm:vit_base_patch16_224 --batch 64 --train --precision amp-bf16 --gpu rtx-4090 --advice",
        "capplan memory hf:gpt2 --seq-len 1024 --batch 8 --train --gpus 8 --format json",
    ),
    answer=answer_memory,
    finalize=checking_pictures("plot"),
    sections=laid_out_by(
        "capplan.report.text.memory:memory_sections",
        part="answer",
        others={"PipelineMemory": laid_out_by("capplan.report.text.pipelines:pipeline_memory_sections")},
        rule_of_thumb="rule_of_thumb",
    ),
    document=laid_out_by(
        "capplan.shapes.memory:MEMORY_ANSWER",
        part="answer",
        others={"PipelineMemory": laid_out_by("capplan.shapes.pipelines:MEMORY")},
    ),
    files=drawn_by(plot="capplan.report.charts.plots:live_chart"),
    outcome=_outcome,
    schema="memory",
    in_python=lambda made: getattr(made, "answer", made),
    returns="capplan.core.memory.summary:MemorySummary",
)
