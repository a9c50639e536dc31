"""Fit calibrations to measured steps, of kernels and of the power of one's own GPUs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capplan.app.calibration.measured_models import group_runs, recording_for, trace_folder
from capplan.app.calibration.validate import predict_steps
from capplan.app.feedback import SILENCE, Feedback
from capplan.core.calibrate.dataset import TimedStep, held_out_together, timed_step
from capplan.core.calibrate.kernels import kernel_step
from capplan.core.calibrate.measured import CPU_AT_HAND, MeasuredStep
from capplan.core.calibrate.validation import FEWEST_ROWS, LearntPower, learn_power
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import prior_calibration
from capplan.core.latency.lookup import KINDS, MANY_ROWS, workload_kind
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.step import ExecutedStep
from capplan.core.power import FEWEST_TIMES, MOST_TIMES
from capplan.core.trace.types import Recording
from capplan.errors import CapplanError, UnknownNameError, UsageError
from capplan.specs import Gpus, load_gpus
from capplan.specs.calibration import dump_with_own_parts, load_calibration
from capplan.specs.fitted import load_power_law
from capplan.specs.kernels import holds_kernels, read_kernels
from capplan.specs.measurements import read_measured
from capplan.specs.rate_laws import load_rate_laws
from capplan.units import format_fraction

FEWEST_STEPS = 20
_FITS_CPUS = "capplan calibrate device --device cpu"


def timed_steps(
    measured: Sequence[Path],
    *,
    serves: str = "eager",
    overlays: Sequence[Path] = (),
    traces: Path | None = None,
    allows_code: bool = False,
    only_traced: bool = False,
    feedback: Feedback = SILENCE,
) -> list[TimedStep]:
    """Read measurements and describe each as a calibration is fitted to it."""
    if serves not in KINDS:
        raise UnknownNameError("kind of steps", serves, KINDS)
    gpus = load_gpus(overlays=overlays)

    def described(path: Path) -> Iterator[TimedStep]:
        if holds_kernels(path):
            kernels = (kernel_step(kernel, gpus[kernel.gpu], load_rate_laws()) for kernel in read_kernels(path))
            yield from (step for step in kernels if step is not None)
            return
        file = read_measured(path, allow_code=allows_code)
        if file.skipped:
            reason = file.skipped[0].reason
            feedback.warn(f"{path.name}: {len(file.skipped)} rows skipped, the first because {reason}")
        pairs = described_steps(file.steps, gpus, traces, serves=serves, only_traced=only_traced, feedback=feedback)
        yield from (step for _, step in pairs)

    steps = [step for path in measured for step in described(path)]
    if len(steps) < FEWEST_STEPS:
        raise UsageError(f"{len(steps)} usable rows are too few to fit from; {FEWEST_STEPS} are the least.")
    return steps


def described_steps(
    steps: Sequence[MeasuredStep],
    gpus: Gpus,
    traces: Path | None,
    *,
    serves: str = "eager",
    only_traced: bool = False,
    feedback: Feedback = SILENCE,
) -> Iterator[tuple[MeasuredStep, TimedStep]]:
    """Trace the steps of one kind on one GPU each among some and describe each as the fit sees it."""
    wanted = [step for step in steps if workload_kind(step.workload) == serves and step.workload.gpu_count == 1]
    rows_by_gpu = Counter(step.gpu for step in wanted)
    store, laws = trace_folder(traces), load_rate_laws()
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
            timed = _described(step, recording_for(trace, run, step), gpu, family, laws)
            if timed is not None:
                yield step, timed


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
class PowerAnswer:
    """What was learnt of each GPU, and the content of a calibration file that holds it."""

    cards: tuple[LearntPower, ...]
    calibration: str


def calibrate_power(
    measured: Sequence[Path],
    *,
    overlays: Sequence[Path] = (),
    traces: Path | None = None,
    allows_code: bool = False,
    base: Path | None = None,
    feedback: Feedback = SILENCE,
) -> PowerAnswer:
    """Learn by what factor GPUs draw more or less than the law of power says."""
    gpus = load_gpus(overlays=overlays)
    files = [read_measured(path, allow_code=allows_code) for path in measured]
    steps = [step for file in files for step in file.steps if step.power_w and step.gpu != CPU_AT_HAND]
    calibration = load_calibration(base)
    with feedback.progress(f"estimating the power of {len(steps)} rows"):
        judged, refused = predict_steps(steps, gpus=gpus, calibration=replace(calibration, power={}), folder=traces)
    skipped = [row for file in files for row in file.skipped] + refused
    if skipped:
        feedback.warn(f"{len(skipped)} rows left out, the first because {skipped[0].reason}")
    law = load_power_law()
    cards = learn_power(judged, law, {row.step.gpu: gpus.find(row.step.gpu) for row in judged})
    if not cards:
        raise UsageError(
            f"{len(judged)} usable rows state power_w, and no GPU has {FEWEST_ROWS} of them; `capplan measure` on an "
            "NVIDIA GPU writes such rows."
        )
    for card in cards:
        if not FEWEST_TIMES <= card.card.factor <= MOST_TIMES:
            raise UsageError(
                f"{card.gpu} drew {format_fraction(card.card.factor)} of what the law of power says: another card "
                "was measured, or power_w is not in watts."
            )
    power = {**calibration.power, **{card.gpu: card.card for card in cards}}
    return PowerAnswer(cards=cards, calibration=dump_with_own_parts(replace(calibration, power=power)))
