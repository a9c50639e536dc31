"""Time by several methods, and time a pipeline's stages: what goes wrong without synchronising, and what it costs."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.measure.request import MeasuredBatches, MeasureRequest, make_job
from capplan.app.measure.run import warn_of_others
from capplan.app.models import open_model
from capplan.core.measurement.choices import TimingMethod
from capplan.core.measurement.pipeline import PipelineTimes
from capplan.core.measurement.types import Point
from capplan.errors import MeasurementError

if TYPE_CHECKING:
    from capplan.probe.measure.point import Rules


def time_methods(
    request: MeasureRequest, methods: Sequence[TimingMethod], *, feedback: Feedback = SILENCE
) -> tuple[Point, ...]:
    """Time the same batches by several methods.

    Args:
        request: the model, its listed batches, the device and the rules of timing.
        methods: the methods, in the order in which they are used at each batch.
        feedback: where progress and warnings are shown.

    Raises:
        UsageError: there is no such model, or the batches are not listed.
        MeasurementError: the device has no events, and no other method was asked for.
    """
    from capplan.probe.measure.session import Session

    model = open_model(request.model, feedback=feedback)
    job = make_job(request, model)
    points: list[Point] = []
    with ExitStack() as stack:
        session = stack.enter_context(Session(job, target=model.target()))
        wanted = list(methods) if session.bench.device.has_events else _without_events(methods, job.device, feedback)
        warn_of_others(session, feedback)
        for batch in request.curve.listed("--methods"):
            for method in wanted:
                session.job = replace(job, rules=replace(job.rules, method=method))
                with feedback.live(f"{session.target.name}, batch {batch}, {method}") as show:
                    points.append(session.measure(batch, on_progress=show))
    return tuple(points)


def _without_events(methods: Sequence[TimingMethod], device: str, feedback: Feedback) -> list[TimingMethod]:
    """Leave the events out on a device that has no queue, and report it."""
    kept: list[TimingMethod] = [method for method in methods if method is not TimingMethod.EVENT]
    if not kept:
        raise MeasurementError(f"{device} has no events to time with; use --methods naive,sync.")
    if kept != list(methods):
        feedback.warn(
            f"warning: {device} has no events and no queue: they are left out, and naive and sync must agree."
        )
    return kept


def time_pipeline(
    words: str, *, curve: MeasuredBatches, device: str | None, threads: int | None, rules: "Rules"
) -> tuple[PipelineTimes, ...]:
    """Time a pipeline's stages with and without synchronising after each.

    Args:
        words: FILE.py:FUNCTION, which returns the stages for a batch size and a device.
        curve: the listed batches.
        device: where to run, None for the first accelerator.
        threads: what PyTorch computes with on the host, None for its own default.
        rules: how to time.

    Raises:
        UsageError: there is no such file or function, it returns no stages, or the batches are not listed.
        MeasurementError: a stage failed.
    """
    from capplan.probe.measure.devices import open_device
    from capplan.probe.measure.model import host_threads
    from capplan.probe.measure.pipeline import load_stages, measure_pipeline

    opened = open_device(device)
    timed = []
    with opened.current(), host_threads(threads):
        opened.check()
        for batch in curve.listed("--pipeline"):
            stages = load_stages(words, batch=batch, device=opened.torch_device)
            timed.append(measure_pipeline(stages, device=opened, rules=rules, batch=batch, name=words))
    return tuple(timed)
