"""Look into a measured batch: its time by module, the profiler's files, and its kernels beside the estimate."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.app.feedback import Feedback
from capplan.app.measure.theory import GpuTheory
from capplan.core.latency.breakdown import break_down
from capplan.core.latency.device import Unsupported
from capplan.core.measurement.op_times import ClassTime, ModulesOfBatch, module_times, times_by_class
from capplan.errors import UsageError
from capplan.files import replace_whole

if TYPE_CHECKING:
    from capplan.probe.measure.session import Session

if TYPE_CHECKING:
    from capplan.probe.measure.session import Session


def profile_batch(
    session: "Session", batch: int, *, folder: Path, theory: GpuTheory, feedback: Feedback
) -> tuple[ClassTime, ...]:
    """Profile one batch into a folder; the times by class are empty where the model could not be traced.

    Args:
        session: the model on its device.
        batch: the batch size.
        folder: where the profiler's tables and its Chrome trace go.
        theory: what the times are compared with.
        feedback: where the files are named.

    Raises:
        UsageError: the folder cannot be written.
    """
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
    """Time one batch by module; counts and estimates are missing where the model could not be traced.

    Args:
        session: the model on its device.
        batch: the batch size.
        theory: what the times are compared with.

    Raises:
        PointError: it ran out of memory or failed.
    """
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
