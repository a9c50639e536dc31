"""`capplan calibrate`: make a calibration from measurements, or of the device at hand."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from capplan.cli.lazy import LazyGroup
from capplan.cli.options import SpecFolders
from capplan.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    command_line,
    emit,
    laid_out,
    resolve_format,
    to_json,
    warn,
)
from capplan.cli.progress import TERMINAL
from capplan.verbs.statement.registry import VERBS

if TYPE_CHECKING:
    from capplan.app.calibration.calibrate import DeviceAnswer


class CalibrateGroup(LazyGroup):
    """The group of commands that make calibrations."""

    lazy_commands: ClassVar[Mapping[str, str]] = {"fit": VERBS["calibrate fit"]}


app = typer.Typer(
    cls=CalibrateGroup, help="Fit efficiencies to measurements.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("device")
def device(
    name: Annotated[
        str | None,
        typer.Option("--device", help="cuda:0, xpu, mps, cpu; by default the first accelerator.", show_default=False),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The device's GPU spec, if its name is unknown.", show_default=False),
    ] = None,
    specs: SpecFolders = None,
    base: Annotated[
        Path | None, typer.Option(help="Calibration to lay the result over; the shipped one.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the calibration here.", show_default=False)
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write them as the GPU's measured block into a folder of specs."),
    ] = None,
    format_: FormatOption = None,
    json_: JsonOption = False,
) -> None:
    """Measure what this device reaches in about a minute: matrix products, copies, launches, memory.

    With -o FILE.yaml, write a calibration with this GPU's factors, for --calibration of other commands. With --spec
    FOLDER, write what was measured as the `measured:` block of its spec, for --specs. A CPU that the database does not
    know gets a spec of its own there, and -o times about sixty operators on it, in fp32 and bf16.

    Examples:

      capplan calibrate device

      capplan calibrate device --device cuda:0 -o mine.yaml

      capplan calibrate device --device cpu --spec mine -o cpu.yaml
    """
    from capplan.app.calibration.calibrate import DeviceRequest, benchmark, device_calibration, device_spec
    from capplan.report.text.devices import device_sections
    from capplan.specs.calibration import dump_calibration

    chosen = resolve_format(format_, json_flag=json_, output=None)
    request = DeviceRequest(
        device=name, gpu=gpu, overlays=tuple(specs or ()), needs_spec=output is not None or spec is not None
    )
    made = benchmark(request, feedback=TERMINAL)
    if made.gpu is not None and made.gpu.is_cpu:
        _write_cpu(made, output=output, spec=spec)
    elif output is not None and made.gpu is not None:
        calibration = device_calibration(
            made.benchmark, gpu=made.gpu, base=base, made=date.today(), command=command_line()
        )
        emit(dump_calibration(calibration), output=output)
        factors = calibration.gpus[made.gpu.id]
        warn(
            f"{output}: {made.gpu.id} reaches {factors.compute:.2f} of modelled compute, "
            f"{factors.bandwidth:.2f} of bandwidth."
        )
    if spec is not None and made.gpu is not None and not made.gpu.is_cpu:
        written = device_spec(made.benchmark, gpu=made.gpu, folder=spec, measured_on=date.today())
        warn(f"{written}: what was measured, for --specs {spec}")
    is_json = chosen is Format.JSON
    emit(
        to_json(made.benchmark) if is_json else laid_out(device_sections(made.benchmark), chosen, output=None),
        output=None,
    )
    if output is None and spec is None:
        warn("note: nothing was written; -o FILE.yaml makes a calibration for --calibration, --spec FOLDER a spec.")


def _write_cpu(made: "DeviceAnswer", *, output: Path | None, spec: Path | None) -> None:
    """Write the files of the CPU at hand: its spec with what was measured, and a calibration of its operators."""
    from capplan.app.calibration.calibrate import device_spec
    from capplan.app.calibration.cpu import CpuAtHand, cpu_calibrations, ensure_cpu_sheet, write_cpu_calibration

    assert made.gpu is not None
    if spec is not None:
        ensure_cpu_sheet(made.gpu, folder=spec, read_on=date.today())
        written = device_spec(made.benchmark, gpu=made.gpu, folder=spec, measured_on=date.today())
        warn(f"{written}: what was measured; plan it with --gpu {made.gpu.id} --specs {spec}")
    if output is not None:
        at_hand = CpuAtHand(spec=made.gpu, benchmark=made.benchmark)
        fitted = cpu_calibrations(at_hand, made=date.today(), command=command_line(), feedback=TERMINAL)
        write_cpu_calibration(fitted, output)
        warn(f"{output}: efficiencies of operators on {made.gpu.name} in fp32 and bf16, for --calibration {output}")


@app.command("host")
def host(
    base: Annotated[
        Path | None, typer.Option(help="Calibration to lay the result over; the shipped one.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the calibration here.", show_default=False)
    ] = None,
    format_: FormatOption = None,
    json_: JsonOption = False,
) -> None:
    """Measure what calls into PyTorch cost on this host, operator by operator, with or without a GPU.

    Small batches wait for the host. With -o FILE.yaml, write a calibration with these costs, for --calibration of
    other commands.

    Examples:

      capplan calibrate host

      capplan calibrate host -o mine.yaml
    """
    from capplan.app.calibration.host import host_calibration, host_costs
    from capplan.report.text.devices import host_sections
    from capplan.specs.calibration import dump_calibration

    chosen = resolve_format(format_, json_flag=json_, output=None)
    costs = host_costs(feedback=TERMINAL)
    if output is not None:
        calibration = host_calibration(costs, base=base, made=date.today(), command=command_line())
        emit(dump_calibration(calibration), output=output)
    is_json = chosen is Format.JSON
    emit(to_json(costs) if is_json else laid_out(host_sections(costs), chosen, output=None), output=None)
