"""Calibrate the device and the host at hand: what they reach, as a calibration and as a spec's measured block."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from capplan.app.calibration.cpu import CpuAtHand, cpu_at_hand, cpu_calibration_text, cpu_calibrations, ensure_cpu_sheet
from capplan.app.feedback import SILENCE, Feedback
from capplan.core.calibrate.device import DeviceBenchmark, calibrated_by, microbench_rows
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration, HostCosts
from capplan.core.latency.device import Unsupported
from capplan.errors import UnknownNameError, UsageError
from capplan.specs import load_gpus
from capplan.specs.calibration import dump_with_own_parts, load_calibration
from capplan.specs.gpus.microbench import import_microbench


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAnswer:
    """What a device reaches.

    Attributes:
        calibration: the calibration file's content, where one was asked for.
        notes: what was written, and what it says.
    """

    benchmark: DeviceBenchmark
    calibration: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAnswer:
    """What calls into PyTorch cost, and the content of a calibration file with these costs."""

    costs: HostCosts
    calibration: str


def calibrate_device(
    device: str | None = None,
    *,
    gpu: str | None = None,
    overlays: Sequence[Path] = (),
    base: Path | None = None,
    output: Path | None = None,
    folder: Path | None = None,
    command: str,
    feedback: Feedback = SILENCE,
) -> DeviceAnswer:
    """Measure what the device at hand reaches in about a minute, and make the calibration and spec that are asked
    for.
    """
    found, spec = _benchmark(
        device, gpu, overlays, needs_spec=output is not None or folder is not None, feedback=feedback
    )
    made, notes, text = date.today(), [], None
    if spec is not None and folder is not None:
        if spec.is_cpu:
            ensure_cpu_sheet(spec, folder=folder, read_on=made)
        rows = microbench_rows(found, gpu=spec.id, source=f"{found.device}, torch {found.torch}")
        (written,) = import_microbench(rows, known={spec.id: spec}, folder=folder, retrieved=made).written
        use = f"plan it with ⟨gpu⟩ {spec.id} ⟨specs⟩ {folder}" if spec.is_cpu else f"for ⟨specs⟩ {folder}"
        notes.append(f"{written}: what was measured; {use}")
    if spec is not None and output is not None and spec.is_cpu:
        at_hand = CpuAtHand(spec=spec, benchmark=found)
        text = cpu_calibration_text(cpu_calibrations(at_hand, made=made, command=command, feedback=feedback))
        notes.append(f"{output}: efficiencies of operators on {spec.name} in fp32 and bf16, for ⟨calibration⟩ {output}")
    elif spec is not None and output is not None:
        calibration = calibrated_by(found, gpu=spec, base=load_calibration(base), made=made, command=command)
        if isinstance(calibration, Unsupported):
            raise UsageError(f"no calibration: {calibration.reason}.")
        text, factors = dump_with_own_parts(calibration), calibration.gpus[spec.id]
        notes.append(
            f"{output}: {spec.id} reaches {factors.compute:.2f} of modelled compute, "
            f"{factors.bandwidth:.2f} of bandwidth."
        )
    if output is None and folder is None:
        notes.append(
            "note: nothing was written; -o FILE.yaml makes a calibration for ⟨calibration⟩, ⟨spec⟩ FOLDER a spec."
        )
    return DeviceAnswer(benchmark=found, calibration=text, notes=tuple(notes))


def _benchmark(
    device: str | None, gpu: str | None, overlays: Sequence[Path], *, needs_spec: bool, feedback: Feedback
) -> tuple[DeviceBenchmark, GpuSpec | None]:
    """Return what a device reaches and, where it is needed, its spec."""
    from capplan.probe.measure.devices import devices_at_hand, open_device
    from capplan.probe.measure.energy import open_nvml
    from capplan.probe.measure.microbench import benchmark_device

    opened = open_device(device)
    if opened.kind == "cpu" and gpu is None and needs_spec:
        with feedback.progress("measuring the CPU"):
            at_hand = cpu_at_hand(overlays=tuple(overlays))
        return at_hand.benchmark, at_hand.spec
    title = devices_at_hand()[str(opened.torch_device)]
    spec = _spec(title, gpu, overlays) if gpu or needs_spec else None
    with feedback.progress(f"measuring {title}"), opened.current():
        opened.check()
        return benchmark_device(opened, name=title, nvml=open_nvml(opened.torch_device)), spec


def _spec(title: str, gpu: str | None, overlays: Sequence[Path]) -> GpuSpec:
    known = load_gpus(overlays=overlays)
    if gpu is not None:
        return known.find(gpu)
    try:
        return known.find(title)
    except UnknownNameError as error:
        raise UsageError(
            f"the database has no {title!r}, and a calibration is for a GPU: add ⟨gpu⟩ ID, or a spec of your own with "
            "⟨specs⟩ (`capplan gpus detect` proposes one)."
        ) from error


def calibrate_host(*, base: Path | None = None, command: str, feedback: Feedback = SILENCE) -> HostAnswer:
    """Measure what calls into PyTorch cost on this host, GPU or not; a few seconds."""
    from capplan.probe.measure.microbench import measure_host

    calibration = load_calibration(base)
    with feedback.progress("measuring this host's calls into PyTorch"):
        costs = measure_host(cuda_call=calibration.laws.cuda_call)
    return HostAnswer(costs=costs, calibration=dump_with_own_parts(_with_host(calibration, costs, command)))


def _with_host(calibration: Calibration, costs: HostCosts, command: str) -> Calibration:
    """Return a calibration whose eager steps wait for this host."""
    today, origin = date.today(), calibration.origin
    if origin is not None:
        sources = (*origin.sources, f"{costs.cpu}, torch {costs.torch}, {today}")
        origin = replace(origin, made=today, command=command, sources=sources)
    return replace(calibration, name=f"{calibration.name}, host as measured", host=costs, origin=origin)
