"""A run of `capplan measure`: which batches, where their points go, and what is told at the end."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from capplan.app.measurement_store import MeasurementStore
from capplan.cli.measure_theory import GpuTheory, find_theory
from capplan.cli.output import Format, emit, to_json, warn
from capplan.cli.progress import live_line, live_words
from capplan.core.batches import BatchChoice, Batches
from capplan.core.measurement.batch_search import Search, largest_running_batch, still_pays
from capplan.core.measurement.compare import find_answer
from capplan.core.measurement.format import points_to_json
from capplan.core.measurement.op_times import ProfiledBatch
from capplan.core.measurement.types import Failure, FailureKind, Measurement, Point
from capplan.errors import CapplanError, MeasurementError, UsageError

if TYPE_CHECKING:
    from capplan.probe.measure.request import Job
    from capplan.probe.measure.session import Measurer, Session
    from capplan.report.table import Table
from capplan.cli.measure_request import Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Which batches are asked for, and how the largest is searched."""

    batches: Batches
    search: Search
    at_most: int

    @property
    def is_searched(self) -> bool:
        """Is the largest batch to be found?"""
        return self.batches.choice is BatchChoice.MAX


@dataclass(slots=True)
class _Collector:
    """Where points go as they finish: kept for the answer, and appended to the measurement file."""

    store: MeasurementStore | None
    theory: GpuTheory
    points: list[Point] = field(default_factory=list)
    profiles: list[ProfiledBatch] = field(default_factory=list)

    def add(self, point: Point) -> Point:
        if isinstance(point, Measurement):
            point = self.theory.put_beside(point)
            if not point.finite_outputs:
                warn(
                    f"warning: {point.model.name} at batch {point.workload.batch} returned values that are not finite."
                )
        self.points.append(point)
        if self.store is not None:
            self.store.append(point)
        return point

    def known(self, asked: Failure) -> Point | None:
        """What the measurement file already holds of a point; one that was measured otherwise is told and left."""
        kept = find_answer(self.store.points if self.store else (), asked)
        if kept.differences:
            warn(
                f"batch {asked.workload.batch} is measured anew: the point in the file differs in "
                f"{', '.join(kept.differences)}."
            )
        return kept.point


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["capplan", *sys.argv[1:]])


def run_points(job: "Job", sizes: Curve, conditions: Conditions) -> None:
    """Measure the batches asked for, tell them, and end with the exit code that fits.

    Raises:
        CapplanError: nothing could be measured at all, or the measurement file cannot be written.
    """
    from capplan.probe.measure.session import Session

    points: list[Point] = []
    profiles: list[ProfiledBatch] = []
    try:
        with ExitStack() as stack:
            if conditions.profile is not None:
                _make_folder(conditions.profile)
            theory, job = find_theory(job, conditions)
            store = stack.enter_context(MeasurementStore(conditions.lines)) if conditions.lines else None
            if store is not None and store.was_cut:
                warn(f"warning: {store.path}: the last line was cut off and is dropped; the points before it are kept.")
            session = Session(job)
            if not conditions.is_isolated:
                stack.enter_context(session)
            tell_company(session)
            collector = _Collector(store=store, theory=theory, points=points, profiles=profiles)
            _measure_curve(session, sizes, conditions, collector)
    except KeyboardInterrupt:
        _tell(points, profiles, conditions)
        kept = f" in {conditions.lines}; --resume goes on" if conditions.lines else ""
        warn(f"capplan: interrupted; {len(points)} point(s) are kept{kept}.")
        raise typer.Exit(130) from None
    except CapplanError:
        if points:
            _tell(points, profiles, conditions)
        raise
    _tell(points, profiles, conditions)
    failures = [point for point in points if isinstance(point, Failure)]
    for failure in failures:
        warn(f"capplan: {failure.message}")
    if failures:
        raise typer.Exit(MeasurementError.exit_code)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror or error}.") from error


def tell_company(session: "Session") -> None:
    """Warn where others use the device."""
    from capplan.probe.measure.facts import others_at_work

    if others := others_at_work(session.bench.device, nvml=session.bench.nvml):
        warn(f"warning: {others}")


def _measure_curve(session: "Session", sizes: Curve, conditions: Conditions, collector: _Collector) -> None:
    measurer = _measurer(session, conditions)

    def take(batch: int) -> Point:
        asked = session.failure(batch, FailureKind.ERROR, "")
        if conditions.resume and (known := collector.known(asked)) is not None:
            collector.points.append(known)
            return known
        with live_line(f"{session.target.name}, batch {batch}") as show:
            point = measurer.measure(batch, on_progress=show)
        added = collector.add(point)
        if conditions.profile and isinstance(added, Measurement):
            from capplan.cli.measure_profile import profile_batch

            classes = profile_batch(session, batch, folder=conditions.profile, theory=collector.theory)
            collector.profiles.append(ProfiledBatch(batch=batch, classes=classes))
        return added

    if sizes.batches.choice is BatchChoice.LISTED:
        for batch in sizes.batches.sizes:
            take(batch)
    elif sizes.batches.choice is BatchChoice.AUTO:
        _double_while_it_pays(take, at_most=sizes.at_most, points=collector.points)
    else:
        largest = _settled(take, _search_largest(session, measurer, sizes), collector.points)
        for batch in _powers_below(largest):
            take(batch)
        collector.points.sort(key=lambda point: point.workload.batch)


def _measurer(session: "Session", conditions: Conditions) -> "Measurer":
    if not conditions.is_isolated:
        return session
    from capplan.probe.measure.isolated import IsolatedMeasurer

    return IsolatedMeasurer(session.job, model=session.identity, device=session.facts, timeout_s=conditions.timeout_s)


def _double_while_it_pays(take: Callable[[int], Point], *, at_most: int, points: list[Point]) -> None:
    """Double the batch until it stops paying twice in a row, or memory ends; running out of it is no failure here."""
    batch, before, misses = 1, take(1), 0
    while isinstance(before, Measurement) and misses < 2 and batch * 2 <= at_most:
        batch *= 2
        after = take(batch)
        if isinstance(after, Failure):
            if after.kind is FailureKind.OUT_OF_MEMORY:
                points.remove(after)
            return
        misses = 0 if still_pays(before, after) else misses + 1
        before = after


def _search_largest(session: "Session", measurer: "Measurer", sizes: Curve) -> int:
    told: set[str] = set()
    last: list[Failure] = []

    def runs(batch: int) -> bool:
        with live_words(f"{session.target.name}: trying batch {batch}"):
            failure = measurer.attempt(batch)
        if failure is None:
            return True
        last.append(failure)
        if failure.kind is not FailureKind.OUT_OF_MEMORY and failure.message not in told:
            told.add(failure.message)
            warn(f"warning: not memory ended the search: {failure.message}")
        return False

    largest = largest_running_batch(runs, search=sizes.search, at_most=sizes.at_most)
    if largest == 0:
        raise MeasurementError(f"not even batch 1 runs: {last[-1].message}")
    ended = f"batch {largest + 1} does not" if largest < sizes.at_most else "the cap of the search"
    warn(f"largest batch that runs: {largest} ({ended}).")
    return largest


def _settled(take: Callable[[int], Point], largest: int, points: list[Point]) -> int:
    """Measure the largest batch; where a longer run does not fit what a short one did, step down by 2 %."""
    batch = largest
    while isinstance(point := take(batch), Failure) and point.kind is FailureKind.OUT_OF_MEMORY and batch > 1:
        points.remove(point)
        batch -= max(1, batch // 50)
    if batch < largest:
        warn(f"largest batch that keeps running: {batch}; {largest} ran twice, then no more.")
    return batch


def _powers_below(largest: int) -> list[int]:
    return [2**power for power in range(largest.bit_length()) if 2**power < largest]


def _tell(points: Sequence[Point], profiles: Sequence[ProfiledBatch], conditions: Conditions) -> None:
    from capplan.report.text.measurement import profile_table, profile_to_json

    measured = [point for point in points if isinstance(point, Measurement)]
    if conditions.spelling is Format.JSON:
        profiled = {"profiles": [profile_to_json(each) for each in profiles]} if profiles else {}
        emit(to_json({**points_to_json(points), **profiled}), output=conditions.output)
        return
    pieces = [spell_measurements(measured, conditions.spelling)] if measured else []
    if conditions.spelling is not Format.CSV:
        pieces += [
            f"batch {each.batch}, time per step by class of kernel\n\n"
            + spell_table(profile_table(each), conditions.spelling)
            for each in profiles
        ]
    if pieces:
        emit("\n".join(pieces), output=conditions.output)


def spell_table(content: "Table", spelling: Format) -> str:
    """Spell a table as text, Markdown or CSV."""
    from capplan.report.table import render_csv, render_markdown, render_text

    renderers = {Format.CSV: render_csv, Format.MD: render_markdown, Format.TABLE: render_text}
    return renderers[spelling](content)


def spell_measurements(points: Sequence[Measurement], spelling: Format) -> str:
    """Spell measurements as a table, Markdown, CSV or JSON."""
    from capplan.report.text.measurement import (
        render_measurements_csv,
        render_measurements_markdown,
        render_measurements_text,
    )

    if spelling is Format.JSON:
        return to_json(points_to_json(points))
    renderers = {
        Format.CSV: render_measurements_csv,
        Format.MD: render_measurements_markdown,
        Format.TABLE: render_measurements_text,
    }
    return renderers[spelling](points)
