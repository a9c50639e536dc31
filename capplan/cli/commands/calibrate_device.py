"""`capplan calibrate device`: what the device at hand really reaches, as a calibration for its GPU."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.output import Format, FormatOption, JsonOption, emit, resolve_format, to_json, warn
from capplan.cli.progress import progress
from capplan.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from capplan.core.calibrate.device import DeviceBenchmark
    from capplan.core.gpus.spec import GpuSpec


def device(
    name: Annotated[
        str | None,
        typer.Option("--device", help="cuda:0, xpu, mps, cpu; by default the first accelerator.", show_default=False),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The device's GPU spec, where its name tells none.", show_default=False),
    ] = None,
    specs: options.SpecFolders = None,
    base: Annotated[
        Path | None, typer.Option(help="Calibration to lay the result over; the shipped one.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the calibration here.", show_default=False)
    ] = None,
    format_: FormatOption = None,
    json_: JsonOption = False,
) -> None:
    """Measure what this device reaches in about a minute: matrix products, copies, launches, memory.

    With -o FILE.yaml, write a calibration with this GPU's factors, for --calibration of other commands.

    Examples:

      capplan calibrate device

      capplan calibrate device --device cuda:0 -o mine.yaml
    """
    from capplan.cli.measure_run import spell_table
    from capplan.probe.measure.energy import open_nvml
    from capplan.probe.measure.microbench import benchmark_device
    from capplan.probe.measure.open import devices_at_hand, open_device
    from capplan.report.text.devices import device_table

    spelling = resolve_format(format_, json_flag=json_, output=None)
    opened = open_device(name)
    title = devices_at_hand()[str(opened.torch_device)]
    spec = _spec(title, gpu, specs) if gpu or output else None
    with progress(f"measuring {title}"), opened.current():
        opened.check()
        found = benchmark_device(opened, name=title, nvml=open_nvml(opened.torch_device))
    if output is not None and spec is not None:
        _write(found, spec, base=base, output=output)
    emit(to_json(asdict(found)) if spelling is Format.JSON else spell_table(device_table(found), spelling), output=None)


def _spec(title: str, gpu: str | None, specs: list[Path] | None) -> "GpuSpec":
    from capplan.specs import load_gpus

    known = load_gpus(overlays=specs or ())
    if gpu is not None:
        return known.find(gpu)
    try:
        return known.find(title)
    except UnknownNameError as error:
        raise UsageError(
            f"the database has no {title!r}, and a calibration is for a GPU: add --gpu ID, or a spec of your own with "
            "--specs (`capplan gpus detect` proposes one)."
        ) from error


def _write(found: "DeviceBenchmark", spec: "GpuSpec", *, base: Path | None, output: Path) -> None:
    import shlex
    from datetime import date

    from capplan.core.calibrate.device import calibrated_by
    from capplan.core.latency.device import Unsupported
    from capplan.specs.calibration import dump_calibration, load_calibration

    command = shlex.join(["capplan", *sys.argv[1:]])
    made = calibrated_by(found, gpu=spec, base=load_calibration(base), made=date.today(), command=command)
    if isinstance(made, Unsupported):
        raise UsageError(f"no calibration: {made.reason}.")
    emit(dump_calibration(made), output=output)
    factors = made.gpus[spec.id]
    warn(
        f"{output}: {spec.id} reaches {factors.compute:.2f} of modelled compute, {factors.bandwidth:.2f} of bandwidth."
    )
