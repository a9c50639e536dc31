"""Answer how much GPU memory a model needs, by part, and which batch is the largest that fits."""

from dataclasses import dataclass, field, replace

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.gpu_choice import GpuRequest, find_gpus
from capplan.app.models import Model, ModelSource, open_model, refuse_uncertain
from capplan.core.memory.advice import Alternative, configurations_for_advice
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.summary import MemorySummary, answer_memory
from capplan.core.plan.recommend import is_takeable
from capplan.core.trace.types import Trace
from capplan.core.workload import DEFAULT_UTILIZATION, Configuration, ModelSharding, Optimizer, Training, Workload
from capplan.errors import CapplanError, UsageError
from capplan.specs.calibration import load_memory_calibration

_SMALLER_INPUTS = (0.75, 0.5)
_INFERENCE_SHARDINGS = (ModelSharding.REPLICAS, ModelSharding.FSDP)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """A request for the memory of one model at one batch.

    `batch` None is 1, or the only one that the model holds at. `gpus` are those to fit it on, None for none.
    `rank_count` GPUs share the work by `shardings`; without these, by all that apply. `utilization_fraction` of usable
    memory may be filled. The classic rule chooses among `gpus`, else among those of `rule_gpus` that are sold.
    `advises` works out what other precisions, layouts, optimizers and smaller inputs would save.
    """

    model: ModelSource
    batch: int | None = None
    gpus: GpuRequest | None = None
    workload: Workload = field(default_factory=Workload)
    utilization_fraction: float = DEFAULT_UTILIZATION
    rank_count: int = 1
    shardings: tuple[ModelSharding, ...] = ()
    has_expandable_segments: bool = False
    rule_gpus: GpuRequest | None = None
    advises: bool = False
    is_strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryResult:
    """The answer, and the model of memory that it was worked out with."""

    answer: MemorySummary
    model: MemoryModel


def memory(request: MemoryRequest, *, feedback: Feedback = SILENCE) -> MemoryResult:
    """Return the memory of a model at a batch, on each GPU asked for.

    A model that does not scale with the batch is traced at this very batch.

    Args:
        request: the model, batch, GPUs and conditions.
        feedback: where progress is shown.

    Raises:
        UsageError: there is no such model or GPU; or the batch is below 1 or too large for any device.
        TraceError: the model could not be traced, or is refused by `is_strict`.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    if request.batch is not None and request.batch < 1:
        raise UsageError(f"--batch must be at least 1, not {request.batch}.")
    gpus = find_gpus(request.gpus).chosen if request.gpus else ()
    model = open_model(request.model, feedback=feedback)
    configuration = request.workload.configuration
    batch = request.batch or model.usual_batch(configuration)
    trace = model.trace_at(configuration, batch)
    if request.is_strict:
        refuse_uncertain(model.words, trace.recording(configuration))
    asked = MemoryModel(
        trace=_with_recordings_for_advice(model, trace, request) if request.advises else trace,
        workload=request.workload,
        calibration=load_memory_calibration(),
        expandable_segments=request.has_expandable_segments,
    )
    answer = answer_memory(
        asked,
        batch=batch,
        gpus=gpus,
        utilization_fraction=request.utilization_fraction,
        others=_smaller_inputs(model, trace, request) if request.advises else (),
        rank_count=request.rank_count,
        shardings=_shardings(request),
        rule_gpus=[gpu for gpu in find_gpus(request.rule_gpus).chosen if is_takeable(gpu)] if request.rule_gpus else (),
    )
    return MemoryResult(answer=answer, model=asked)


def _shardings(request: MemoryRequest) -> list[ModelSharding]:
    if request.shardings:
        return list(request.shardings)
    if request.rank_count == 1:
        return []
    if request.workload.training is None:
        return list(_INFERENCE_SHARDINGS)
    return [each for each in ModelSharding if each is not ModelSharding.REPLICAS]


def _with_recordings_for_advice(model: Model, trace: Trace, request: MemoryRequest) -> Trace:
    """Add the recordings that advice compares to a trace; those that cannot be made are left out."""
    if not model.can_be_traced:
        return trace
    wanted = [*configurations_for_advice(request.workload)[1:]]
    if request.workload.training is None and not request.workload.framework.is_engine:
        wanted.append(replace(request.workload.configuration, training=Training(optimizer=Optimizer.SGD)))
    more = [other for each in wanted if (other := _try_trace(model, each, trace, request)) is not None]
    recordings = (*trace.recordings, *(recording for other in more for recording in other.recordings))
    return replace(trace, recordings=recordings)


def _smaller_inputs(model: Model, trace: Trace, request: MemoryRequest) -> tuple[Alternative, ...]:
    """Return the same model on smaller images; sizes that it does not take are left out."""
    found = []
    for size in _smaller_sizes(trace):
        other = model.with_input(input_size=size)
        traced = other and _try_trace(other, request.workload.configuration, trace, request)
        if traced:
            found.append(Alternative(change=f"input {size}", trace=traced, workload=request.workload))
    return tuple(found)


def _try_trace(model: Model, configuration: Configuration, trace: Trace, request: MemoryRequest) -> Trace | None:
    exact_batch = trace.recording(request.workload.configuration).exact_batch
    try:
        return model.trace([configuration], exact_batch=exact_batch)
    except CapplanError:
        return None


def _smaller_sizes(trace: Trace) -> list[str]:
    """Return image sizes of three quarters and half, in whole steps of 32."""
    first = trace.inputs[0] if trace.inputs else None
    if first is None or len(first.shape) != 4 or not first.dtype.startswith("float"):
        return []
    channels, *sides = (dim.constant for dim in first.shape[1:])
    sizes = [[max(32, int(share * side) // 32 * 32) for side in sides] for share in _SMALLER_INPUTS]
    return [f"{channels}x{height}x{width}" for height, width in sizes if [height, width] != sides]
