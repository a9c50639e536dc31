"""`capplan measure --methods` and `--pipeline`: what goes wrong without, and what is lost by, synchronising."""

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from capplan.cli.measure_request import Conditions
from capplan.cli.measure_run import Curve, spell_table, tell_company
from capplan.cli.output import Format, emit, to_json, warn
from capplan.cli.progress import live_line
from capplan.core.batches import BatchChoice
from capplan.core.measurement.format import points_to_json
from capplan.core.measurement.types import Failure, Measurement, Point, TimingMethod
from capplan.errors import MeasurementError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from capplan.probe.measure.request import Job


def run_methods(job: "Job", sizes: Curve, conditions: Conditions, *, methods: str) -> None:
    """Time the same batches by several methods and put them side by side.

    Raises:
        UsageError: an unknown method, or batches that are not listed.
        MeasurementError: the device has no events, and they were asked for.
    """
    from capplan.probe.measure.session import Session
    from capplan.report.text.measurement import methods_table

    wanted = _methods(methods)
    points: list[Point] = []
    with ExitStack() as stack:
        session = stack.enter_context(Session(job))
        if not session.bench.device.has_events:
            wanted = _without_events(wanted, job.device)
        tell_company(session)
        for batch in _listed(sizes, "--methods"):
            for method in wanted:
                session.job = replace(job, rules=replace(job.rules, method=method))
                with live_line(f"{session.target.name}, batch {batch}, {method}") as show:
                    points.append(session.measure(batch, on_progress=show))
    measured = [point for point in points if isinstance(point, Measurement)]
    if conditions.spelling is Format.JSON:
        emit(to_json(points_to_json(points)), output=conditions.output)
    else:
        emit(spell_table(methods_table(measured), conditions.spelling), output=conditions.output)
    _end(points)


def _without_events(wanted: list[TimingMethod], device: str) -> list[TimingMethod]:
    """Leave the events out on a device that has no queue, and say so."""
    kept: list[TimingMethod] = [method for method in wanted if method is not TimingMethod.EVENT]
    if not kept:
        raise MeasurementError(f"{device} has no events to time with; use --methods naive,sync.")
    if kept != wanted:
        warn(f"warning: {device} has no events and no queue: they are left out, and naive and sync must agree.")
    return kept


def _methods(words: str) -> list[TimingMethod]:
    known = (TimingMethod.NAIVE, TimingMethod.SYNC, TimingMethod.EVENT)
    found = []
    for word in words.split(","):
        if word.strip() not in known:
            raise UnknownNameError("timing method", word.strip(), known, hint=f"Known: {', '.join(known)}.")
        found.append(TimingMethod(word.strip()))
    return found


def _listed(sizes: Curve, option: str) -> tuple[int, ...]:
    if sizes.batches.choice is not BatchChoice.LISTED:
        raise UsageError(f"{option} needs listed batches, such as --batch 1,8.")
    return sizes.batches.sizes


def _end(points: list[Point]) -> None:
    failures = [point for point in points if isinstance(point, Failure)]
    for failure in failures:
        warn(f"capplan: {failure.message}")
    if failures:
        raise typer.Exit(MeasurementError.exit_code)


def run_pipeline(words: str, job: "Job", sizes: Curve, conditions: Conditions) -> None:
    """Time a pipeline's stages with and without synchronising after each.

    Raises:
        UsageError: no such file or function, or it returns no stages.
        MeasurementError: a stage failed.
    """
    from capplan.probe.measure.open import open_device
    from capplan.probe.measure.pipeline import load_stages, measure_pipeline
    from capplan.report.text.pipeline import pipeline_tables, pipeline_to_json

    device = open_device(job.device)
    timed = []
    with device.current():
        device.check()
        for batch in _listed(sizes, "--pipeline"):
            stages = load_stages(words, batch=batch, device=device.torch_device)
            timed.append(measure_pipeline(stages, device=device, rules=job.rules, batch=batch, name=words))
    if conditions.spelling is Format.JSON:
        emit(to_json({"pipelines": [pipeline_to_json(each) for each in timed]}), output=conditions.output)
        return
    tables = [titled for each in timed for titled in pipeline_tables(each)]
    pieces = [f"{title}\n\n{spell_table(content, conditions.spelling)}" for title, content in tables]
    emit("\n".join(pieces), output=conditions.output)
