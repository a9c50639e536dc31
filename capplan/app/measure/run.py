"""Measure a model on the device at hand: which batches, by which methods, and what a profiler sees of one."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.app.calibration.cpu import CPU_ID
from capplan.app.feedback import SILENCE, Feedback
from capplan.app.measure.request import MeasuredBatches, MeasureRequest, make_job
from capplan.app.measure.store import MeasurementStore
from capplan.app.measure.theory import GpuTheory, find_theory
from capplan.app.models import Model, open_model
from capplan.core.latency.breakdown import break_down
from capplan.core.latency.device import Unsupported
from capplan.core.measurement.batch_search import largest_running_batch, still_pays
from capplan.core.measurement.compare import find_answer
from capplan.core.measurement.op_times import ClassTime, ModulesOfBatch, ProfiledBatch, module_times, times_by_class
from capplan.core.measurement.pipeline import PipelineTimes
from capplan.core.measurement.start import MeasuredStart
from capplan.core.measurement.types import FailedMeasurement, Measurement, MeasurementFailure, Point
from capplan.core.workload import BatchChoice, TimingMethod
from capplan.errors import CapplanError, MeasurementError, UsageError
from capplan.files import replace_whole
from capplan.units import counted

if TYPE_CHECKING:
    from capplan.probe.measure.isolated import IsolatedMeasurer
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.request import MeasurementJob
    from capplan.probe.measure.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureAnswer:
    """The points measured, in order, and the profiles of their batches and their times by module.

    `ended_by` is what ended the run before its last point, None where nothing did; the points before it are kept.
    """

    points: tuple[Point, ...]
    profiles: tuple[ProfiledBatch, ...]
    modules: tuple[ModulesOfBatch, ...] = ()
    ended_by: CapplanError | KeyboardInterrupt | None = None

    @property
    def failures(self) -> tuple[FailedMeasurement, ...]:
        return tuple(point for point in self.points if isinstance(point, FailedMeasurement))


@dataclass(slots=True, kw_only=True)
class _Collector:
    """Where points go as they finish: kept for the answer, and appended to the measurement file."""

    feedback: Feedback
    theory: GpuTheory | None = None
    store: MeasurementStore | None = None
    points: list[Point] = field(default_factory=list)
    profiles: list[ProfiledBatch] = field(default_factory=list)
    modules: list[ModulesOfBatch] = field(default_factory=list)

    def add(self, point: Point) -> Point:
        if isinstance(point, Measurement):
            if self.theory is not None:
                point = self.theory.with_theory(point)
            if not point.finite_outputs:
                self.feedback.warn(
                    f"warning: {point.model.name} at batch {point.workload.batch} returned values that are not finite."
                )
        self.points.append(point)
        if self.store is not None:
            self.store.append(point)
        return point

    def find_known(self, asked: FailedMeasurement) -> Point | None:
        """Return the stored result, if any; warn if it was measured under other conditions and ignore it."""
        found = find_answer(self.store.points if self.store else (), asked)
        if not isinstance(found, tuple):
            return found
        if found:
            self.feedback.warn(
                f"batch {asked.workload.batch} is measured anew: the point in the file differs in {', '.join(found)}."
            )
        return None

    def answer(self, ended_by: CapplanError | KeyboardInterrupt | None = None) -> MeasureAnswer:
        return MeasureAnswer(
            points=tuple(self.points),
            profiles=tuple(self.profiles),
            modules=tuple(self.modules),
            ended_by=ended_by,
        )


def measure(request: MeasureRequest, *, feedback: Feedback = SILENCE) -> MeasureAnswer:
    """Time a model at the batches asked for, and compare the measurement with theory."""
    model = open_model(request.model, feedback=feedback)
    job = make_job(request, model)
    collector = _Collector(feedback=feedback)
    try:
        with ExitStack() as stack:
            _measure(request, model, job, collector, stack)
    except KeyboardInterrupt as interruption:
        return collector.answer(interruption)
    except CapplanError as error:
        if not collector.points:
            raise
        return collector.answer(error)
    return collector.answer()


def _measure(
    request: MeasureRequest, model: Model, job: "MeasurementJob", collector: _Collector, stack: ExitStack
) -> None:
    from capplan.probe.measure.model import host_threads
    from capplan.probe.measure.session import Session

    if request.profile is not None:
        try:
            request.profile.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"cannot make the folder {request.profile}: {reason}.") from error
    stack.enter_context(host_threads(job.threads))
    collector.theory = find_theory(job, model, request, collector.feedback)
    gpu = collector.theory.gpu
    collector.store = stack.enter_context(MeasurementStore(request.lines)) if request.lines else None
    if collector.store is not None and collector.store.was_cut:
        collector.feedback.warn(
            f"warning: {request.lines}: the last line was cut off and is dropped; the points before it are kept."
        )
    job = replace(job, gpu=gpu.id if gpu and gpu.id != CPU_ID else None)
    session = Session(job, target=None if model.own_request else model.target())
    if not request.isolate:
        stack.enter_context(session)
    warn_of_others(session, collector.feedback)
    _CurveRun(
        session=session, measurer=_measurer(session, request), request=request, collector=collector
    ).measure_curve()


def warn_of_others(session: "Session", feedback: Feedback) -> None:
    """Warn where other processes use the device."""
    from capplan.probe.measure.facts import others_at_work

    if others := others_at_work(session.bench.device, nvml=session.bench.nvml):
        feedback.warn(f"warning: {others}")


def _measurer(session: "Session", request: MeasureRequest) -> "Session | IsolatedMeasurer":
    if not request.isolate:
        return session
    from capplan.probe.measure.isolated import IsolatedMeasurer

    return IsolatedMeasurer(session.job, model=session.identity, device=session.facts, timeout_s=request.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CurveRun:
    session: "Session"
    measurer: "Session | IsolatedMeasurer"
    request: MeasureRequest
    collector: _Collector

    def measure_curve(self) -> None:
        curve, points = self.request.curve, self.collector.points
        if curve.batches.choice is BatchChoice.LISTED:
            for batch in curve.batches.sizes:
                self._take(batch)
        elif curve.batches.choice is BatchChoice.AUTO:
            _double_while_it_pays(self._take, at_most=curve.at_most, points=points)
        else:
            largest = self._settle(self._search_largest(curve))
            for power in range((largest - 1).bit_length()):
                self._take(2**power)
            points.sort(key=lambda point: point.workload.batch)

    def _take(self, batch: int) -> Point:
        collector = self.collector
        asked = self.session.failure(batch, MeasurementFailure.ERROR, "")
        if self.request.resume and (known := collector.find_known(asked)) is not None:
            collector.points.append(known)
            return known
        with collector.feedback.live(f"{self.session.target.name}, batch {batch}") as show:
            point = self.measurer.measure(batch, on_progress=show)
        added = collector.add(point)
        if self.request.profile is not None and isinstance(added, Measurement):
            self._profile(batch, self.request.profile)
        if self.request.modules and isinstance(added, Measurement):
            assert collector.theory is not None
            with collector.feedback.brief(f"{self.session.target.name}, batch {batch}: timing its modules"):
                collector.modules.append(modules_of_batch(self.session, batch, theory=collector.theory))
        return added

    def _profile(self, batch: int, folder: Path) -> None:
        collector = self.collector
        assert collector.theory is not None
        classes = profile_batch(
            self.session, batch, folder=folder, theory=collector.theory, feedback=collector.feedback
        )
        collector.profiles.append(ProfiledBatch(batch=batch, classes=classes))

    def _search_largest(self, curve: MeasuredBatches) -> int:
        reported: set[str] = set()
        last: list[FailedMeasurement] = []
        feedback = self.collector.feedback

        def runs(batch: int) -> bool:
            with feedback.brief(f"{self.session.target.name}: trying batch {batch}"):
                failure = self.measurer.attempt(batch)
            if failure is None:
                return True
            last.append(failure)
            if failure.kind is not MeasurementFailure.OUT_OF_MEMORY and failure.message not in reported:
                reported.add(failure.message)
                feedback.warn(f"warning: not memory ended the search: {failure.message}")
            return False

        largest = largest_running_batch(runs, search=curve.search, at_most=curve.at_most)
        if largest == 0:
            raise MeasurementError(f"not even batch 1 runs: {last[-1].message}")
        ended = f"batch {largest + 1} does not" if largest < curve.at_most else "the cap of the search"
        feedback.warn(f"largest batch that runs: {largest} ({ended}).")
        return largest

    def _settle(self, largest: int) -> int:
        """Measure the largest batch; where a longer run does not fit what a short one did, step down by 2 %."""
        points, batch = self.collector.points, largest
        while (
            isinstance(point := self._take(batch), FailedMeasurement)
            and point.kind is MeasurementFailure.OUT_OF_MEMORY
            and batch > 1
        ):
            points.remove(point)
            batch -= max(1, batch // 50)
        if batch < largest:
            self.collector.feedback.warn(
                f"largest batch that keeps running: {batch}; {largest} ran twice, then no more."
            )
        return batch


def _double_while_it_pays(take: Callable[[int], Point], *, at_most: int, points: list[Point]) -> None:
    """Double the batch until it stops paying twice in a row, or memory runs out, which is not a failure here."""
    batch, before, misses = 1, take(1), 0
    while isinstance(before, Measurement) and misses < 2 and batch * 2 <= at_most:
        batch *= 2
        after = take(batch)
        if isinstance(after, FailedMeasurement):
            if after.kind is MeasurementFailure.OUT_OF_MEMORY:
                points.remove(after)
            return
        misses = 0 if still_pays(before, after) else misses + 1
        before = after


def profile_batch(
    session: "Session", batch: int, *, folder: Path, theory: GpuTheory, feedback: Feedback
) -> tuple[ClassTime, ...]:
    """Profile one batch into a folder; the times by class are empty where the model could not be traced."""
    from capplan.probe.measure.profile import profile_steps

    stem = re.sub(r"[^\w.-]+", "_", f"{session.target.name}-b{batch}-{session.job.precision}")
    try:
        trace_file = folder / f"{stem}.chrome.json"
        profile = session.with_run(batch, lambda run: profile_steps(run, bench=session.bench, chrome_trace=trace_file))
        replace_whole(folder / f"{stem}.by-device-time.txt", profile.by_device_time.encode())
        replace_whole(folder / f"{stem}.by-cpu-time.txt", profile.by_cpu_time.encode())
    except OSError as error:
        raise UsageError(f"cannot write the profile into {folder}: {error.strerror or error}.") from error
    feedback.warn(f"profile of batch {batch}: {folder / stem}.*")
    if (recording := theory.recording(batch)) is None:
        return ()
    return times_by_class(
        profile.operators,
        recording,
        batch=batch,
        steps=profile.steps,
        estimated_s=_estimated(theory, batch),
    )


def _estimated(theory: GpuTheory, batch: int) -> Mapping[str, float] | None:
    if (known := theory.at(batch)) is None:
        return None
    times_s = known.device_s_by_class(batch)
    return None if isinstance(times_s, Unsupported) else times_s


def modules_of_batch(session: "Session", batch: int, *, theory: GpuTheory) -> ModulesOfBatch:
    """Time one batch by module; counts and estimates are missing where the model could not be traced."""
    steps, hooked = session.time_modules(batch)
    estimated_s: Mapping[str, float] | None = None
    host_s = None
    if (known := theory.at(batch)) is not None:
        parts = break_down(known.step, gpu=known.gpu, batch=batch)
        if not isinstance(parts, Unsupported):
            estimated_s = {"" if module.path == "(model)" else module.path: module.time_s for module in parts.modules}
            host_s = parts.host_s
    return ModulesOfBatch(
        batch=batch,
        steps=steps,
        modules=module_times(hooked, theory.counts(batch), estimated_s),
        host_s=host_s,
    )


def time_methods(
    request: MeasureRequest, methods: Sequence[TimingMethod], *, feedback: Feedback = SILENCE
) -> tuple[Point, ...]:
    """Time the same batches by several methods."""
    from capplan.probe.measure.session import Session

    model = open_model(request.model, feedback=feedback)
    job = make_job(request, model)
    points: list[Point] = []
    with ExitStack() as stack:
        session = stack.enter_context(Session(job, target=None if model.own_request else model.target()))
        wanted = list(methods) if session.bench.device.has_events else _without_events(methods, job.device, feedback)
        warn_of_others(session, feedback)
        for batch in request.curve.listed("⟨methods⟩"):
            for method in wanted:
                session.job = replace(job, rules=replace(job.rules, method=method))
                with feedback.live(f"{session.target.name}, batch {batch}, {method}") as show:
                    points.append(session.measure(batch, on_progress=show))
    return tuple(points)


def time_starts(request: MeasureRequest, *, starts: int, feedback: Feedback = SILENCE) -> MeasuredStart:
    """Time how long the model takes from a new process to its first answer, at one batch."""
    from capplan.probe.measure.start import measure_start

    model = open_model(request.model, feedback=feedback)
    job = make_job(replace(request, isolate=True), model)
    if not model.own_request:
        raise UsageError("⟨start⟩ builds the model in new processes: name it by words, not as a module.")
    (batch, *more) = request.curve.listed("⟨start⟩")
    if more:
        raise UsageError("⟨start⟩ times the start at one ⟨batch⟩.")
    with feedback.brief(f"{model.words}: {counted(starts, 'start')}"):
        return measure_start(job, name=model.words, batch=batch, starts=starts, timeout_s=request.timeout_s)


def _without_events(methods: Sequence[TimingMethod], device: str, feedback: Feedback) -> list[TimingMethod]:
    """Leave the events out on a device that has no queue, and report it."""
    kept: list[TimingMethod] = [method for method in methods if method is not TimingMethod.EVENT]
    if not kept:
        raise MeasurementError(f"{device} has no events to time with; use ⟨methods⟩ naive,sync.")
    if kept != list(methods):
        feedback.warn(
            f"warning: {device} has no events and no queue: they are left out, and naive and sync must agree."
        )
    return kept


def time_pipeline(
    words: str, *, curve: MeasuredBatches, device: str | None, threads: int | None, rules: "Rules"
) -> tuple[PipelineTimes, ...]:
    """Time a pipeline's stages with and without synchronising after each."""
    from capplan.probe.measure.devices import open_device
    from capplan.probe.measure.model import host_threads
    from capplan.probe.measure.pipeline import load_stages, measure_pipeline

    opened = open_device(device)
    timed = []
    with opened.current(), host_threads(threads):
        opened.check()
        for batch in curve.listed("⟨pipeline⟩"):
            stages = load_stages(words, batch=batch, device=opened.torch_device)
            timed.append(measure_pipeline(stages, device=opened, rules=rules, batch=batch, name=words))
    return tuple(timed)
