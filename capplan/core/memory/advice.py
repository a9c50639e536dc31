"""Find changes that would reduce a model's memory, and compute the saving of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.fit import largest_certain_batch
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.schedule import live_curve
from capplan.core.memory.types import FitStatus, MemoryCalibration, fit_status
from capplan.core.numbers import Interval
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Layout, Optimizer, Precision, Training, Workload

WORTH_FRACTION = 0.01
"""A change that saves less than this share is not advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The same model in another way: under another workload, or from another trace, such as of a smaller input."""

    change: str
    trace: Trace
    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAdvice:
    """A change, what would then be needed, and what that means for the GPU; `status` is None without one."""

    change: str
    batch: int
    total_bytes: Interval
    saved_bytes: float
    status: FitStatus | None


def alternatives(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """List the workloads that could need less, by what would have to change."""
    training = workload.training
    if workload.precision.half_dtype is None:
        yield "convert the model to bf16 or fp16", replace(workload, precision=Precision.BF16)
        yield "run under autocast (AMP, bf16 or fp16)", replace(workload, precision=Precision.AMP_BF16)
    if workload.layout is Layout.NCHW:
        yield "channels_last", replace(workload, layout=Layout.NHWC)
    if training and not training.checkpointing:
        yield "activation checkpointing", replace(workload, training=replace(training, checkpointing=True))
    if training and training.optimizer in (Optimizer.ADAM, Optimizer.ADAMW):
        leaner = replace(training, optimizer=Optimizer.MOMENTUM)
        yield "SGD with momentum instead of Adam", replace(workload, training=leaner)
    if training and training.optimizer is not Optimizer.SGD:
        yield "SGD without momentum", replace(workload, training=replace(training, optimizer=Optimizer.SGD))


def configurations_for_advice(workload: Workload) -> tuple[Configuration, ...]:
    """List the recordings that advice is computed from, the workload's own first."""
    wanted = [workload.configuration, *(other.configuration for _, other in alternatives(workload))]
    return tuple(dict.fromkeys(wanted))


def advise(
    model: MemoryModel,
    *,
    batch: int,
    gpu: GpuSpec | None,
    available_bytes: Interval | None,
    others: Sequence[Alternative] = (),
) -> tuple[MemoryAdvice, ...]:
    """Compute each change whose recording the trace holds; the greatest saving first.

    With a GPU, only changes that make it fit, or perhaps fit, where it did not; without one, all that save.
    """
    now = model.estimate(batch=batch, gpu=gpu, available_bytes=_limit(available_bytes)).total_bytes
    held = {recording.configuration for recording in model.trace.recordings}
    own = [
        Alternative(change=change, trace=model.trace, workload=other)
        for change, other in alternatives(model.workload)
        if other.configuration in held
    ]
    found = [
        _weigh(change, calibration=model.calibration, batch=batch, gpu=gpu, now=now, available_bytes=available_bytes)
        for change in (*own, *others)
    ]
    if available_bytes is not None and (smaller := _smaller_batch(model, batch, gpu, now, available_bytes)):
        found.append(smaller)
    status = None if available_bytes is None else fit_status(now, available_bytes=available_bytes)
    worth = [
        change
        for change in found
        if change.saved_bytes > WORTH_FRACTION * now.expected
        and (status is None or (change.status is not None and _ORDER.index(change.status) > _ORDER.index(status)))
    ]
    return tuple(sorted(worth, key=lambda change: -change.saved_bytes))


def saved_by_inference_mode(trace: Trace, workload: Workload, *, batch: int) -> float | None:
    """Return the extra bytes without `torch.inference_mode`; None for an engine, or without a training recording."""
    if workload.framework.is_engine:
        return None
    steps = Training(optimizer=Optimizer.SGD)
    kept = replace(workload, training=steps)
    if kept.configuration not in {recording.configuration for recording in trace.recordings}:
        return None
    recording = trace.recording(kept.configuration)
    backward = next(phase.first_op for phase in recording.phases if phase.name == "backward")
    with_gradients = live_curve(recording).at(batch)[: backward + 1]
    return float(with_gradients.max()) - live_curve(trace.recording(workload.configuration)).peak_bytes(batch)


def _weigh(
    other: Alternative,
    *,
    calibration: MemoryCalibration,
    batch: int,
    gpu: GpuSpec | None,
    now: Interval,
    available_bytes: Interval | None,
) -> MemoryAdvice:
    model = MemoryModel(trace=other.trace, workload=other.workload, calibration=calibration)
    total = model.estimate(batch=batch, gpu=gpu, available_bytes=_limit(available_bytes)).total_bytes
    return MemoryAdvice(
        change=other.change,
        batch=batch,
        total_bytes=total,
        saved_bytes=now.expected - total.expected,
        status=None if available_bytes is None else fit_status(total, available_bytes=available_bytes),
    )


def _smaller_batch(
    model: MemoryModel, batch: int, gpu: GpuSpec | None, now: Interval, available_bytes: Interval
) -> MemoryAdvice | None:
    if model.recording.exact_batch is not None:
        return None
    fitting = largest_certain_batch(model, gpu=gpu, available_bytes=available_bytes)
    if not 0 < fitting < batch:
        return None
    total = model.estimate(batch=fitting, gpu=gpu, available_bytes=available_bytes.expected).total_bytes
    return MemoryAdvice(
        change=f"batch {fitting} instead of {batch}",
        batch=fitting,
        total_bytes=total,
        saved_bytes=now.expected - total.expected,
        status=fit_status(total, available_bytes=available_bytes),
    )


def _limit(available_bytes: Interval | None) -> float | None:
    return None if available_bytes is None else available_bytes.expected


_ORDER = (FitStatus.DOES_NOT_FIT, FitStatus.BORDERLINE, FitStatus.FITS)
