"""What advice on memory rests on: other recordings of a model, smaller inputs, and ways to share it among GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capplan.app.models import Model
from capplan.core.memory.advice import Alternative, configurations_for_advice
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.summary import MemorySummary
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, ModelSharding, Optimizer, Training, Workload
from capplan.errors import CapplanError

_SMALLER_INPUTS = (0.75, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryResult:
    """The answer, and the model of memory that it was worked out with."""

    answer: MemorySummary
    model: MemoryModel


def usual_shardings(workload: Workload, rank_count: int) -> Sequence[ModelSharding]:
    """Return the ways to share a model that apply: all of a training step, replicas or fsdp of inference.

    Args:
        workload: the conditions.
        rank_count: the GPUs that share the work; one shares with none.
    """
    if rank_count == 1:
        return ()
    if workload.training is None:
        return (ModelSharding.REPLICAS, ModelSharding.FSDP)
    return [sharding for sharding in ModelSharding if sharding is not ModelSharding.REPLICAS]


def with_recordings_for_advice(model: Model, trace: Trace, workload: Workload) -> Trace:
    """Add the recordings that advice compares to a trace; those that cannot be made are left out.

    Args:
        model: the model, opened.
        trace: its trace under the workload.
        workload: the conditions.
    """
    if not model.can_be_traced:
        return trace
    wanted = [*configurations_for_advice(workload)[1:]]
    if workload.training is None and not workload.framework.is_engine:
        wanted.append(replace(workload.configuration, training=Training(optimizer=Optimizer.SGD)))
    exact_batch = trace.recording(workload.configuration).exact_batch
    others = [_try_trace(model, configuration, exact_batch) for configuration in wanted]
    more = [recording for other in others if other is not None for recording in other.recordings]
    return replace(trace, recordings=(*trace.recordings, *more))


def smaller_inputs(model: Model, trace: Trace, workload: Workload) -> tuple[Alternative, ...]:
    """Return a model on images of three quarters and half the size, in whole steps of 32, where it takes such.

    Args:
        model: the model, opened.
        trace: its trace under the workload.
        workload: the conditions.
    """
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


def _try_trace(model: Model, configuration: Configuration, exact_batch: int | None) -> Trace | None:
    try:
        return model.trace([configuration], exact_batch=exact_batch)
    except CapplanError:
        return None
