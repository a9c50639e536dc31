"""Between measured steps and traces: which graphs they ran, and where their traces are kept."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.trace.types import Recording, Trace
from capplan.core.workload import Configuration
from capplan.errors import UsageError
from capplan.files import cache_folder

if TYPE_CHECKING:
    from capplan.probe.trace.measured import ModelRun, TraceFolder


def trace_folder(folder: Path | None) -> "TraceFolder":
    """Open the folder of traces: the one given, which is made where it is missing, or the user's cache."""
    from capplan.probe.trace.measured import TraceFolder

    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"no traces can be kept in {folder}: {error.strerror or error}.") from error
    return TraceFolder(folder or cache_folder() / "measured")


def group_runs(steps: Sequence[MeasuredStep]) -> "dict[ModelRun, list[MeasuredStep]]":
    from capplan.probe.trace.measured import ModelRun

    groups: dict[ModelRun, list[MeasuredStep]] = {}
    for step in steps:
        groups.setdefault(ModelRun.of(step), []).append(step)
    return groups


def group_models(steps: Sequence[MeasuredStep]) -> list[list[MeasuredStep]]:
    """Group steps whose graphs are traced from one module: they differ in precision, layout or mode alone."""
    groups: dict[ModelRun, list[MeasuredStep]] = {}
    for run, members in group_runs(steps).items():
        groups.setdefault(replace(run, configuration=Configuration()), []).extend(members)
    return list(groups.values())


def recording_for(trace: Trace, run: "ModelRun", step: MeasuredStep) -> Recording:
    """Return the recording of a step; traced anew at its batch where the model does not scale with the batch."""
    recording = trace.recording(run.configuration)
    if recording.exact_batch in (None, step.batch):
        return recording
    from capplan.probe.trace.measured import trace_run

    return trace_run(run, exact_batch=step.batch).recording(run.configuration)
