"""Make calibrations: fitted to measured steps, or from benchmarks of the device at hand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.app.calibration.cpu import CPU_AT_HAND, cpu_at_hand
from capplan.app.calibration.measured_models import group_runs, recording_for, trace_folder
from capplan.app.feedback import SILENCE, Feedback
from capplan.core.calibrate.dataset import TimedStep, held_out_together, timed_step
from capplan.core.calibrate.device import DeviceBenchmark, calibrated_by, microbench_rows
from capplan.core.calibrate.fit import FittedCalibration, fit_calibration
from capplan.core.calibrate.kernel_rows import kernel_step
from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.lookup import KINDS, MANY_ROWS, workload_kind
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.priors import prior_calibration
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.types import Recording
from capplan.errors import CapplanError, UnknownNameError, UsageError
from capplan.specs import Gpus, load_gpus
from capplan.specs.calibration import load_calibration
from capplan.specs.gpus.microbench import import_microbench
from capplan.specs.measured.kernels import holds_kernels, read_kernels
from capplan.specs.measured.steps import read_measured
from capplan.specs.rate_laws import load_rate_laws

if TYPE_CHECKING:
    pass

FEWEST_ROWS = 20
_FITS_CPUS = "capplan calibrate device --device cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateRequest:
    """A request for a calibration fitted to measurements.

    `measured` are files as for `validate`, and tables of single kernels (op-*.csv.gz). `serves` is the kind of steps
    that it is for: "eager", "compile" or "training". `folds` families of models are held out in turn to learn the
    errors. `made` and `command` are kept in the calibration as its origin. With `only_traced`, rows whose models have
    no trace in the folder `traces` are left out instead of traced.
    """

    measured: tuple[Path, ...]
    name: str = "own"
    made: date
    command: str
    serves: str = "eager"
    folds: int = 5
    overlays: tuple[Path, ...] = ()
    traces: Path | None = None
    allows_code: bool = False
    only_traced: bool = False


def calibrate(request: CalibrateRequest, *, feedback: Feedback = SILENCE) -> FittedCalibration:
    """Fit the latency model to measurements, and learn its errors from GPUs and families held out.

    Args:
        request: the measurements and what the calibration is for.
        feedback: where progress and rows left out are shown.

    Raises:
        UsageError: a file cannot be read, or fewer than 20 rows are usable.
        UnknownNameError: there is no such kind of steps.
    """
    if request.serves not in KINDS:
        raise UnknownNameError("kind of steps", request.serves, KINDS)
    gpus = load_gpus(overlays=request.overlays)
    steps = [step for path in request.measured for step in _steps(path, gpus, request, feedback)]
    if len(steps) < FEWEST_ROWS:
        raise UsageError(f"{len(steps)} usable rows are too few to fit from; {FEWEST_ROWS} are the least.")
    with feedback.progress(f"fitting {len(steps)} rows"):
        return fit_calibration(
            steps,
            name=request.name,
            made=request.made,
            command=request.command,
            sources=[path.name for path in request.measured],
            folds=request.folds,
            serves=request.serves,
            laws=load_rate_laws(),
        )


def _steps(path: Path, gpus: Gpus, request: CalibrateRequest, feedback: Feedback) -> Iterator[TimedStep]:
    if holds_kernels(path):
        for kernel in read_kernels(path):
            step = kernel_step(kernel, gpus[kernel.gpu], load_rate_laws())
            if step is not None:
                yield step
        return
    found = read_measured(path, allow_code=request.allows_code)
    if found.skipped:
        feedback.warn(f"{path.name}: {len(found.skipped)} rows skipped, the first because {found.skipped[0].reason}")
    described = described_steps(
        found.steps, gpus, request.traces, serves=request.serves, only_traced=request.only_traced, feedback=feedback
    )
    yield from (step for _, step in described)


def described_steps(
    steps: Sequence[MeasuredStep],
    gpus: Gpus,
    traces: Path | None,
    *,
    serves: str = "eager",
    only_traced: bool = False,
    laws: RateLaws | None = None,
    feedback: Feedback = SILENCE,
) -> Iterator[tuple[MeasuredStep, TimedStep]]:
    """Trace the steps of one kind on one GPU each among some and describe each as the fit sees it.

    Args:
        steps: what was measured.
        gpus: the database that knows their GPUs.
        traces: where traces are kept; None for the user's cache.
        serves: the kind of steps that is described; others are left out.
        only_traced: leave out rows whose models are not traced in that folder.
        laws: what holds across GPUs; None for the laws in force.
        feedback: where rows that cannot be described are named.
    """
    wanted = [step for step in steps if workload_kind(step.workload) == serves and step.workload.gpu_count == 1]
    rows_by_gpu = Counter(step.gpu for step in wanted)
    store, laws = trace_folder(traces), laws or load_rate_laws()
    for run, members in group_runs(wanted).items():
        if only_traced and not store.holds(run):
            continue
        try:
            trace = store.obtain(run)
        except CapplanError as error:
            feedback.warn(f"left out: {error}")
            continue
        for step in members:
            gpu = gpus.find_or_none(step.gpu)
            if step.gpu == CPU_AT_HAND or (gpu is not None and gpu.is_cpu):
                feedback.warn(f"left out: row {step.line} was timed on a CPU, which `{_FITS_CPUS}` fits")
                continue
            if gpu is None:
                feedback.warn(f"left out: unknown GPU {step.gpu!r} in row {step.line}")
                continue
            family = held_out_together(step, is_rich=rows_by_gpu[step.gpu] >= MANY_ROWS)
            found = _described(step, recording_for(trace, run, step), gpu, family, laws)
            if found is not None:
                yield step, found


def _described(step: MeasuredStep, recording: Recording, gpu: GpuSpec, family: str, laws: RateLaws) -> TimedStep | None:
    executed = ExecutedStep.of(recording, step.workload, calibration=replace(prior_calibration(), laws=laws))
    return timed_step(
        kernel_table(executed, batches=[step.batch]),
        executed.recording,
        step.workload,
        gpu=gpu,
        column=0,
        latency_s=step.latency_s,
        family=family,
        laws=laws,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A request for what the device at hand reaches; with `needs_spec`, for which GPU of the database that holds, too.

    `device` is "cuda:0", "xpu", "mps" or "cpu", None for the first accelerator. `gpu` names the device's spec, where
    its own name does not.
    """

    device: str | None = None
    gpu: str | None = None
    overlays: tuple[Path, ...] = ()
    needs_spec: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAnswer:
    """What a device reaches; `gpu` is its spec, where one was asked for."""

    benchmark: DeviceBenchmark
    gpu: GpuSpec | None


def benchmark(request: DeviceRequest, *, feedback: Feedback = SILENCE) -> DeviceAnswer:
    """Measure what the device at hand reaches in about a minute: matrix products, copies, launches, memory.

    Args:
        request: the device and its GPU spec.
        feedback: where progress is shown.

    Raises:
        UsageError: the database does not know the device.
        MeasurementError: there is no such device, or it cannot be used.
    """
    from capplan.probe.measure.energy import open_nvml
    from capplan.probe.measure.microbench import benchmark_device
    from capplan.probe.measure.open import devices_at_hand, open_device

    opened = open_device(request.device)
    if opened.kind == "cpu" and request.gpu is None and request.needs_spec:
        with feedback.progress("measuring the CPU"):
            at_hand = cpu_at_hand(overlays=request.overlays)
        return DeviceAnswer(benchmark=at_hand.benchmark, gpu=at_hand.spec)
    title = devices_at_hand()[str(opened.torch_device)]
    spec = _spec(title, request) if request.gpu or request.needs_spec else None
    with feedback.progress(f"measuring {title}"), opened.current():
        opened.check()
        found = benchmark_device(opened, name=title, nvml=open_nvml(opened.torch_device))
    return DeviceAnswer(benchmark=found, gpu=spec)


def device_calibration(
    found: DeviceBenchmark, *, gpu: GpuSpec, base: Path | None, made: date, command: str
) -> Calibration:
    """Return a calibration with this GPU's measured factors, laid over another one.

    Args:
        found: what the device reaches.
        gpu: its spec.
        base: the calibration to lay the factors over; None for the shipped one.
        made: the date to keep in it.
        command: the command to keep in it.

    Raises:
        UsageError: the spec lacks figures that the factors are relative to.
    """
    calibration = calibrated_by(found, gpu=gpu, base=load_calibration(base), made=made, command=command)
    if isinstance(calibration, Unsupported):
        raise UsageError(f"no calibration: {calibration.reason}.")
    return calibration


def device_spec(found: DeviceBenchmark, *, gpu: GpuSpec, folder: Path, measured_on: date) -> Path:
    """Write what a device reaches as the `measured:` block of its GPU's file in a folder of specs.

    Args:
        found: what the device reaches.
        gpu: its spec.
        folder: the folder of own specs; a file that exists keeps everything else.
        measured_on: the day of the measurement.

    Returns:
        The file that was written.
    """
    rows = microbench_rows(found, gpu=gpu.id, source=f"{found.device}, torch {found.torch}")
    (path,) = import_microbench(rows, known={gpu.id: gpu}, folder=folder, retrieved=measured_on).written
    return path


def _spec(title: str, request: DeviceRequest) -> GpuSpec:
    known = load_gpus(overlays=request.overlays)
    if request.gpu is not None:
        return known.find(request.gpu)
    try:
        return known.find(title)
    except UnknownNameError as error:
        raise UsageError(
            f"the database has no {title!r}, and a calibration is for a GPU: add --gpu ID, or a spec of your own with "
            "--specs (`capplan gpus detect` proposes one)."
        ) from error
