"""Find a calibration's factors of one GPU and workload: its own, else those of the nearest relative."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from capplan.core.assumed import (
    BOARD_HALF_WIDTH,
    FORK_JOIN_S,
    INHERITED_SHARE,
    UNCALIBRATED_HALF_WIDTH,
    UNCALIBRATED_WORKLOAD,
)
from capplan.core.gpus.rate_laws import Transfer, is_board, streaming_doubt
from capplan.core.gpus.sale import sale_notes
from capplan.core.gpus.spec import GpuSpec, Microbenchmark, PeakKind
from capplan.core.latency.calibration import (
    CLASS_FIELDS,
    PRIOR_CLASSES,
    Calibration,
    DeviceFactors,
    HostCosts,
    IntervalWidth,
)
from capplan.core.latency.classes import ALL_CLASSES, FUSED
from capplan.core.latency.inference_engines import (
    REFERENCE_CLOCK_HZ,
    engine_calibration,
    engine_evidence,
    engine_factors,
    engine_notes,
    is_timed,
    knows_architecture,
)
from capplan.core.latency.kernel_time import ClassArrays
from capplan.core.latency.types import Evidence, GpuEvidence
from capplan.core.numbers import FloatArray
from capplan.core.workload import Framework, Host, Variant, Workload

_FEW_ROWS = 20

_DECISIVE = (
    Microbenchmark.MATMUL_HALF, Microbenchmark.MATMUL_TF32, Microbenchmark.MATMUL_FP32, Microbenchmark.COPY,
    Microbenchmark.LOADED_CLOCK,
)  # fmt: skip

LAUNCHES = "launches"
"""The cell of interval widths of steps that the host decides."""
FEW_ROWS = "device few rows"
"""The cell of steps that the device decides, on GPUs of which few were measured."""
KERNELS = "kernels"
"""The cell of single kernels."""

REFERENCE_ARCHITECTURES = ("8.6", "8.9", "12.0", "12.1")
"""Architectures whose GPUs fix the constants' scale; factors of other GPUs are taken from their relatives."""

MANY_ROWS = 400
"""Rows from which on a GPU's factors speak for its architecture, and its bias for GPUs that were never measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConstants(ClassArrays):
    """A calibration's constants for one GPU: arrays over `ALL_CLASSES`, and factors on its two roofs."""

    gpu_compute: float
    gpu_bandwidth: float
    serial_step_s: float


def architecture_key(gpu: GpuSpec) -> str:
    """Name the architecture that shares kernels: the compute capability, or the vendor's name for it."""
    return ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else gpu.architecture_id


def precision_key(workload: Workload) -> str:
    """Return the family of number formats that share kernels: "half" for 16 bits and autocast, else "single"."""
    return "single" if workload.precision.variant is Variant.FULL else "half"


def width_cell(workload: Workload) -> str:
    """Return the cell of interval widths of device-bound steps: "nchw", "nhwc", or "single" above 16 bits."""
    single = precision_key(workload) == "single"
    return "single" if single else workload.layout.value


def torch_key(version: tuple[int, int]) -> str:
    """Format a torch version as the names of deviations do."""
    return f"{version[0]}.{version[1]}"


KINDS = ("eager", "compile", "training")
"""The kinds of steps that a calibration can serve."""


def workload_kind(workload: Workload) -> str:
    """Return what a calibration must have measured: one of `KINDS`, an engine's name, or "compiled training"."""
    if workload.framework.is_engine:
        return workload.framework.value
    compiled = workload.framework is not Framework.EAGER
    if workload.training is not None:
        return "compiled training" if compiled else "training"
    return "compile" if compiled else "eager"


def part_for(calibration: Calibration, workload: Workload) -> Calibration:
    """Return the part of a calibration that was made for a workload, else the nearest one.

    Compiled training steps take gradients and optimizers from the training part, fused kernels from the compiled one.
    """
    if workload.framework.is_engine:
        return engine_calibration(calibration, workload.framework)
    kind = workload_kind(workload)
    found = calibration.parts.get("training" if workload.training else kind, calibration)
    if workload.framework is Framework.COMPILE_GRAPHS:
        found = replace(found, engines=calibration.engines)
    if kind != "compiled training" or "compile" not in calibration.parts:
        return found
    compiled = calibration.parts["compile"].classes
    return replace(found, classes={**found.classes, **{label: compiled[label] for label in FUSED if label in compiled}})


CPU, CPU_HALF = "cpu", "cpu half"
"""The parts of a calibration that serve CPUs, above 16 bits and in them."""

_MATRIX_UNIT_GAIN = 8.0
"""From this ratio of the 16-bit to the fp32 peak on, a CPU has a matrix unit: AMX gains 16, AVX512_BF16 2."""


def cpu_part(parts: Mapping[str, Calibration], workload: Workload, cpu: GpuSpec) -> Calibration | None:
    """Return the part of a calibration that serves a workload on a CPU; None where it has none.

    Operators in 16 bits were timed on a matrix unit, which few of them fill. Vector units without one reach the same
    shares of their peak in 16 bits as in fp32.
    """
    single, half = parts.get(CPU), parts.get(CPU_HALF)
    if precision_key(workload) == "single" or half is None:
        return single
    gain = (cpu.peak(PeakKind.BF16) or 0.0) / (cpu.peak(PeakKind.FP32) or 1.0)
    return half if gain >= _MATRIX_UNIT_GAIN else single


def on_cores(cpu: Calibration, cores: int) -> Calibration:
    """Return the part for CPUs as it serves some cores in eager mode; those beyond the timed ones add fork and join."""
    more = float(np.log2(max(1.0, cores / cpu.constants.cores)))
    kernel_s = cpu.constants.kernel_s + FORK_JOIN_S * more
    return replace(cpu, serves="eager", constants=replace(cpu.constants, kernel_s=kernel_s))


def resolve_constants(calibration: Calibration, gpus: Sequence[GpuSpec], workload: Workload) -> list[ResolvedConstants]:
    """Gather a calibration's constants for each GPU under one workload."""
    shared = {name: _class_column(calibration, name) for name in CLASS_FIELDS}
    factors: dict[str, FloatArray] = {}
    resolved = []
    for gpu in gpus:
        key = f"{architecture_source(calibration, gpu)} {architecture_key(gpu)}"
        if key not in factors:
            source = architecture_source(calibration, gpu)
            version = torch_source(calibration, workload.torch_version)
            share = 1.0 if source == architecture_key(gpu) else INHERITED_SHARE
            log_deviation = (
                share * _logs(calibration, f"architecture {source}")
                + _logs(calibration, f"torch {torch_key(version)}" if version else "")
                + _logs(calibration, f"precision {precision_key(workload)}")
            )
            factors[key] = np.exp(log_deviation)
        own = _device_factors(calibration, gpu, workload)
        engine = engine_factors(calibration, gpu, workload, architecture=architecture_key(gpu))
        columns = {name: shared[name] * factors[key] * engine for name in ("compute", "bandwidth")}
        resolved.append(
            ResolvedConstants(
                **{**shared, **columns},
                fixed_s=_fixed_s(calibration, gpu, workload),
                gpu_compute=own.compute,
                gpu_bandwidth=own.bandwidth,
                serial_step_s=calibration.laws.serial_step_s,
            )
        )
    return resolved


def _fixed_s(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> FloatArray:
    """Return what a kernel of each class takes beyond the fixed time of all kernels. [s]

    An engine's kernels follow one another without a host, so that what a small one takes is set by the GPU's clock.
    """
    more_s = _class_column(calibration, "fixed_s")
    if not workload.framework.is_engine or not gpu.boost_clock_hz:
        return more_s
    kernel_s = calibration.constants.kernel_s
    return (more_s + kernel_s) * (REFERENCE_CLOCK_HZ / gpu.boost_clock_hz) - kernel_s


def _device_factors(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> DeviceFactors:
    """Return a GPU's own factors, else those that its architecture or nearest relative makes likely.

    Libraries reach other shares of a GPU's rate in 16 bits than in fp32: MI250 was timed in 16 bits alone, at 0.64 of
    the model's arithmetic, and its fp32 transformers run at the model's rate. So single precision takes the arithmetic
    of the GPUs that were timed in it where a GPU has no row in it; the reference GPUs have none.
    """
    own, architecture = calibration.gpus.get(gpu.id), architecture_key(gpu)
    if own is None:
        return inherited_factors(
            list(calibration.gpus.values()), architecture, calibration.laws.transfer, relatives=gpu.design.relatives
        )
    if _knows_precision(calibration, gpu, workload):
        return own
    timed = _timed_in_single(calibration)
    related = [factors for factors in timed if factors.architecture == architecture]
    return replace(own, compute=float(np.exp(_mean_logs(related or timed)[0])))


def inherited_factors(
    measured: Sequence[DeviceFactors], architecture: str, transfer: Transfer, *, relatives: Sequence[str]
) -> DeviceFactors:
    """Return the factors of a GPU that was not measured: a weighted mean of logs.

    What the reference GPUs have in common counts as some measurements of the architecture itself. GPUs of one
    architecture run the same kernels, so that they share most of their factors. CUDA architectures left out in turn
    were not closer to their nearest relative than to what all have in common; other vendors' are all relatives.
    """
    logs = _mean_logs([factors for factors in measured if is_reference(factors)])
    is_cuda = architecture[:1].isdigit()
    for wanted in (architecture, *(() if is_cuda else relatives)):
        related = [factors for factors in measured if factors.architecture == wanted]
        if related:
            weights = np.array([transfer.rich_weight if factors.rows >= MANY_ROWS else 1.0 for factors in related])
            own = np.log([[factors.compute, factors.bandwidth] for factors in related])
            logs = (weights @ own + transfer.common_weight * logs) / (weights.sum() + transfer.common_weight)
            break
    compute, bandwidth = np.exp(logs)
    return DeviceFactors(architecture=architecture, compute=float(compute), bandwidth=float(bandwidth))


def _mean_logs(factors: Sequence[DeviceFactors]) -> FloatArray:
    if not factors:
        return np.zeros(2)
    return np.asarray(np.log([[factor.compute, factor.bandwidth] for factor in factors]).mean(axis=0))


def is_known(calibration: Calibration, gpu: GpuSpec) -> bool:
    own = calibration.gpus.get(gpu.id)
    return own is not None and own.rows > 0


def is_timed_architecture(calibration: Calibration, gpu: GpuSpec) -> bool:
    """Return True if steps of a GPU's architecture were timed, on this GPU or another."""
    key = architecture_key(gpu)
    return any(factors.architecture == key and factors.rows for factors in calibration.gpus.values())


def steps_timed(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> int:
    """Return how many whole steps were timed on a GPU in a workload's number formats: single, or 16 bits."""
    own = calibration.gpus.get(gpu.id)
    if own is None or calibration.laws.software.emulation(gpu, workload.framework, workload.precision):
        return 0
    return own.single_steps if precision_key(workload) == "single" else own.rows - own.single_steps


def is_reference(factors: DeviceFactors) -> bool:
    """Return True if a GPU's factors are evidence for unmeasured GPUs of the reference architectures."""
    return factors.architecture in REFERENCE_ARCHITECTURES and factors.rows >= MANY_ROWS


def architecture_source(calibration: Calibration, gpu: GpuSpec) -> str | None:
    """Return the architecture whose measurements serve a GPU: its own, the nearest relative's, or None."""
    key = architecture_key(gpu)
    return next(
        (name for name in (key, *gpu.design.relatives) if f"architecture {name}" in calibration.deviations), None
    )


def torch_source(calibration: Calibration, version: tuple[int, int]) -> tuple[int, int] | None:
    """Return the measured torch version nearest to the one in question."""

    def minor_releases(found: tuple[int, int]) -> int:
        return 20 * found[0] + found[1]

    asked = minor_releases(version)
    return min(_versions(calibration), key=lambda other: abs(minor_releases(other) - asked), default=None)


def _versions(calibration: Calibration) -> list[tuple[int, int]]:
    """Return the torch versions that a calibration was fitted to."""
    return [_version(name.removeprefix("torch ")) for name in calibration.deviations if name.startswith("torch ")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """How far a measured time may lie below and above the predicted one, in logs."""

    below: float
    above: float


def interval_sides(calibration: Calibration | None, gpu: GpuSpec, workload: Workload) -> tuple[Sides, Sides]:
    """Return the sides of intervals of steps that the device decides, and of those that the host does."""
    if calibration is None or not calibration.widths:
        unknown = Sides(below=UNCALIBRATED_HALF_WIDTH, above=UNCALIBRATED_HALF_WIDTH)
        return unknown, unknown
    widest = max(calibration.widths.values(), key=_size)
    unmeasured = replace(widest, rows=0)
    device = calibration.widths.get(f"device {width_cell(workload)}")
    few = calibration.widths.get(FEW_ROWS) if _widens_few_rows(calibration, gpu, workload) else None
    device = max((cell for cell in (device, few) if cell), key=_size, default=unmeasured)
    host = calibration.widths.get(LAUNCHES, unmeasured)
    of_host = _sides(calibration, host, gpu, workload)
    if _is_foreign_host(calibration, gpu, workload):
        of_host = Sides(
            below=float(np.hypot(of_host.below, host.between_others)),
            above=float(np.hypot(of_host.above, host.between_others)),
        )
    if is_board(gpu):
        of_host = Sides(
            below=float(np.hypot(of_host.below, BOARD_HALF_WIDTH)),
            above=float(np.hypot(of_host.above, BOARD_HALF_WIDTH)),
        )
    return _widened(_sides(calibration, device, gpu, workload), _beyond_timed(calibration, gpu, workload)), of_host


def _beyond_timed(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> float:
    """Return what a GPU's device adds in square that asks more of each multiprocessor than any that was timed."""
    if is_known(calibration, gpu) or workload.framework.is_engine:
        return 0.0
    return streaming_doubt(gpu, calibration.laws.streaming, in_half=precision_key(workload) == "half") ** 2


def _widens_few_rows(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> bool:
    """Return True for a GPU of few rows, but in single precision, whose own cell was learnt from such GPUs.

    A GPU without any row counts as one of many where it is of the reference architectures.
    """
    cell, own = width_cell(workload), calibration.gpus.get(gpu.id)
    if cell == "single" and f"device {cell}" in calibration.widths:
        return False
    if own is not None and own.rows > 0:
        return own.rows < MANY_ROWS
    return architecture_key(gpu) not in REFERENCE_ARCHITECTURES and FEW_ROWS in calibration.widths


def _is_foreign_host(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> bool:
    """Return True if steps that wait for the host add the spread of hosts: none that is asked about was timed.

    What GPUs of few rows are off when they are left out is that spread, too; it is in the sides of an unknown GPU of an
    architecture without timed steps already.
    """
    if measured_host(calibration, workload) is not None or calibration.serves != "eager":
        return False
    return is_timed_architecture(calibration, gpu)


def host_of(gpu: GpuSpec, workload: Workload) -> Host:
    """Return the host that launches a device's kernels: the workload's, else a server; a CPU is its own."""
    return Host.CARD if gpu.is_cpu else workload.host or Host.SERVER


def measured_host(calibration: Calibration, workload: Workload) -> HostCosts | None:
    """Return what calls cost on the host that a calibration measured, which launches eager steps unless one is
    named.
    """
    return calibration.host if workload.framework is Framework.EAGER and workload.host is None else None


def host_words(calibration: Calibration | None, workload: Workload) -> str | None:
    """Return what launches the kernels of all GPUs, in a few words; None where graphs are replayed without a host."""
    if workload.framework.is_replayed:
        return None
    measured = None if calibration is None else measured_host(calibration, workload)
    return f"host {measured.cpu}" if measured is not None else (workload.host or Host.SERVER).words


def timed_release(calibration: Calibration | None, workload: Workload) -> str | None:
    """Return the timed release of PyTorch that is taken for the one asked for; None where that one was timed."""
    if calibration is None or calibration.origin is None or workload.framework.is_engine:
        return None
    found = torch_source(calibration, workload.torch_version)
    return None if found in (None, workload.torch_version) else torch_key(found)


def _size(cell: IntervalWidth) -> float:
    return cell.below + cell.above


def _sides(calibration: Calibration, cell: IntervalWidth, gpu: GpuSpec, workload: Workload) -> Sides:
    squares = 0.0
    if workload.framework.value in calibration.engines:
        squares = 0.0 if is_timed(calibration, gpu, workload) else cell.between_gpus**2
        if not knows_architecture(calibration, workload, architecture_key(gpu)):
            squares += calibration.laws.unseen_architecture_half_width**2
        return _widened(cell, squares)
    if not (is_known(calibration, gpu) and _knows_precision(calibration, gpu, workload)):
        squares += _between(calibration, cell, gpu) ** 2
        squares += unseen_half_width(calibration, gpu) ** 2
    squares += _between_versions(calibration, workload) ** 2
    if calibration.laws.software.built_since(gpu, workload.torch_version):
        squares += calibration.laws.unseen_libraries_half_width**2
    emulated = calibration.laws.software.emulation(gpu, workload.framework, workload.precision)
    squares += emulated.half_width**2 if emulated else 0.0
    if calibration.serves != workload_kind(workload) or cell.rows < _FEW_ROWS:
        squares += UNCALIBRATED_WORKLOAD**2
    return _widened(cell, squares)


def unseen_half_width(calibration: Calibration, gpu: GpuSpec) -> float:
    """Return what an architecture that was not timed adds to an interval in square: more where no relative was."""
    source, laws = architecture_source(calibration, gpu), calibration.laws
    if source == architecture_key(gpu):
        return 0.0
    if source is None and not gpu.is_cpu:
        return laws.unseen_libraries_half_width
    timed = [factors.architecture for factors in calibration.gpus.values() if factors.rows]
    newest = max((_version(name) for name in timed if name[:1].isdigit()), default=(0, 0))
    is_newer = gpu.compute_capability is not None and gpu.compute_capability > newest
    return laws.unseen_generation_half_width if is_newer else laws.unseen_architecture_half_width


def _between_versions(calibration: Calibration, workload: Workload) -> float:
    """Return what a torch version that was not timed adds to an interval in square: more before all that were."""
    source, laws = torch_source(calibration, workload.torch_version), calibration.laws
    if source in (None, workload.torch_version):
        return 0.0
    known = laws.transfer.torch_half_width.get(calibration.serves, 0.0)
    is_older = source is not None and workload.torch_version < source and source == min(_versions(calibration))
    return max(known, laws.older_torch_half_width) if is_older else known


def _widened(cell: IntervalWidth | Sides, squares: float) -> Sides:
    """Return a cell's sides with what is added to both in square."""
    return Sides(below=float(np.sqrt(cell.below**2 + squares)), above=float(np.sqrt(cell.above**2 + squares)))


def _knows_precision(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> bool:
    """Return False if single precision is asked of a GPU that was timed in 16 bits alone, others in both."""
    own = calibration.gpus.get(gpu.id)
    is_single = precision_key(workload) == "single"
    return not is_single or own is None or own.single_rows > 0 or not _timed_in_single(calibration)


def _timed_in_single(calibration: Calibration) -> list[DeviceFactors]:
    return [factors for factors in calibration.gpus.values() if factors.single_rows]


def _between(calibration: Calibration, cell: IntervalWidth, gpu: GpuSpec) -> float:
    """Return the spread of GPUs that were held out, with as much evidence as there is for this one."""
    if is_timed_architecture(calibration, gpu):
        return cell.between_gpus if has_microbenchmarks(gpu) else cell.between_sheets
    return cell.between_others if has_microbenchmarks(gpu) else cell.between_other_sheets


def has_microbenchmarks(gpu: GpuSpec) -> bool:
    """Return True if matrix products, copies or a clock under load were measured on a GPU."""
    return any(kind in gpu.measured for kind in _DECISIVE)


def calibration_notes(calibration: Calibration | None, gpu: GpuSpec, workload: Workload) -> tuple[str, ...]:
    """Return notes on what an estimate borrows: preliminary figures, prior guesses, related GPUs, other versions."""
    return (*sale_notes([gpu]), *_borrowed(calibration, gpu, workload))


def _borrowed(calibration: Calibration | None, gpu: GpuSpec, workload: Workload) -> tuple[str, ...]:
    if calibration is None or calibration.origin is None:
        return ("no calibration: efficiencies are engineering guesses",)
    if workload.framework.value in calibration.engines:
        return engine_notes(calibration, gpu, workload)
    notes = []
    source = architecture_source(calibration, gpu)
    evidence = gpu_evidence(calibration, gpu, workload).evidence
    emulated = calibration.laws.software.emulation(gpu, workload.framework, workload.precision)
    if source is None:
        notes.append(f"architecture {architecture_key(gpu)} was never calibrated, nor a relative of it{WIDER}")
    elif source != architecture_key(gpu):
        notes.append(f"architecture {architecture_key(gpu)} was never calibrated: taken from {source}{WIDER}")
    elif evidence is Evidence.OTHER_PRECISION and not emulated:
        formats = {"single": ("16 bits", "single precision"), "half": ("single precision", "16 bits")}
        timed, asked = formats[precision_key(workload)]
        notes.append(f"steps were timed on {gpu.id} in {timed} alone: {asked} is taken from other GPUs{WIDER}")
    elif evidence is Evidence.MICROBENCHMARKS:
        notes.append(f"single kernels were timed on {gpu.id}, no whole step{WIDER}")
    elif not is_known(calibration, gpu):
        notes.append(f"nothing was timed on {gpu.id}: taken from its spec sheet and architecture{WIDER}")
    if emulated:
        word = workload.precision.arithmetic
        notes.append(f"{gpu.id} has no {word} instructions: products run in fp32 on converted operands{WIDER}")
    if first := calibration.laws.software.built_since(gpu, workload.torch_version):
        notes.append(f"PyTorch before {first} has no kernels built for {gpu.id}, and may not run there{WIDER}")
    if (version := timed_release(calibration, workload)) is not None:
        notes.append(f"torch {torch_key(workload.torch_version)} taken as {version}{WIDER}")
    host = measured_host(calibration, workload)
    if is_board(gpu) and not workload.framework.is_replayed:
        notes.append(f"{gpu.id} launches kernels from its own cores, slower than a server's{WIDER}")
    elif host is not None:
        notes.append(f"the host is {host.cpu} with torch {host.torch}, as measured")
    if calibration.serves != workload_kind(workload):
        notes.append(f"calibrated on {calibration.serves} steps, not on {workload_kind(workload)}{WIDER}")
    return tuple(notes)


WIDER = ", wider interval"
"""Ends a note on what makes an interval wider than those of what was timed."""


def gpu_evidence(calibration: Calibration | None, gpu: GpuSpec, workload: Workload) -> GpuEvidence:
    """Classify what a calibration knows of a GPU."""
    if calibration is None or calibration.origin is None:
        return GpuEvidence(evidence=Evidence.SPEC_SHEET, reason="no calibration: engineering guesses")
    if workload.framework.value in calibration.engines:
        return engine_evidence(calibration, gpu, workload, architecture=architecture_key(gpu))
    own, steps = calibration.gpus.get(gpu.id), steps_timed(calibration, gpu, workload)
    served, asked = calibration.serves, workload_kind(workload)
    if served != asked and not gpu.is_cpu:
        reason = f"{served} steps were timed, none of {asked}: carried over"
        return GpuEvidence(evidence=Evidence.TRANSFERRED, reason=reason)
    formats = "single precision" if precision_key(workload) == "single" else "16 bits"
    if steps > 0:
        return GpuEvidence(evidence=Evidence.MEASURED, reason=f"{steps} {asked} steps in {formats} timed on this GPU")
    if own is not None and own.rows > 0:
        held = calibration.laws.software.emulation(gpu, workload.framework, workload.precision)
        formats = f"{workload.precision.arithmetic}, which runs in fp32" if held else formats
        reason = f"{own.rows} {asked} steps timed on this GPU, none in {formats}"
        return GpuEvidence(evidence=Evidence.OTHER_PRECISION, reason=reason)
    if own is not None or has_microbenchmarks(gpu):
        return GpuEvidence(evidence=Evidence.MICROBENCHMARKS, reason="single kernels timed on this GPU, no whole step")
    relatives = _timed(calibration, architecture_key(gpu))
    if relatives:
        return GpuEvidence(evidence=Evidence.ARCHITECTURE, reason=f"timed on {_listed(relatives)}: same architecture")
    source = architecture_source(calibration, gpu)
    if source is not None:
        related = _listed(_timed(calibration, source)) or source
        return GpuEvidence(evidence=Evidence.SEGMENT, reason=f"timed on {related}: related architecture")
    return GpuEvidence(evidence=Evidence.SPEC_SHEET, reason="no GPU of this or a related architecture was timed")


def _timed(calibration: Calibration, architecture: str) -> list[str]:
    return [name for name, factors in calibration.gpus.items() if factors.architecture == architecture]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _class_column(calibration: Calibration, name: str) -> FloatArray:
    return np.array([getattr(calibration.classes.get(label, PRIOR_CLASSES[label]), name) for label in ALL_CLASSES])


def _logs(calibration: Calibration, name: str) -> FloatArray:
    factors = calibration.deviations.get(name, {})
    return np.log([factors.get(label, 1.0) for label in ALL_CLASSES])


@cache
def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)
