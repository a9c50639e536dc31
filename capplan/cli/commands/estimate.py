"""`capplan estimate`: how fast a model runs on a GPU over batch sizes, what binds it, and what would help."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.models import ModelWords, obtain_trace
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json
from capplan.core.batches import BatchChoice, parse_batches
from capplan.core.workload import Framework, Layout, Optimizer, Precision, Workload
from capplan.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.latency.calibration import Calibration
    from capplan.core.latency.frameworks import ComparedRun
    from capplan.report.estimates import EstimateReport


def estimate(
    model: options.Model,
    gpu: Annotated[list[str], typer.Option("--gpu", metavar="ID", help="Exact id or alias; repeatable.")],
    arg: options.ModelArguments = None,
    input_: options.Inputs = None,
    input_size: options.InputSize = None,
    seq_len: options.SequenceLength = None,
    inputs_from: options.InputsFrom = None,
    prepare: options.Prepare = None,
    batch: Annotated[str, typer.Option("--batch", "-b", help="8, 1,8,32 or 1..1024 (powers of two).")] = "1..1024",
    specs: options.SpecFolders = None,
    precision: options.PrecisionOption = None,
    framework: options.FrameworkOption = Framework.EAGER,
    layout: options.LayoutOption = Layout.NCHW,
    torch_version: options.TorchVersion = options.DEFAULT_TORCH,
    train: options.Train = False,
    optimizer: options.OptimizerOption = Optimizer.ADAMW,
    checkpointing: options.Checkpointing = False,
    accumulate: options.Accumulate = 1,
    calibration: Annotated[
        Path | None, typer.Option(help="A calibration of your own; the shipped one by default.", show_default=False)
    ] = None,
    gain: Annotated[float, typer.Option(min=0.0, max=1.0, help="The knee: doubling gains less than this.")] = 0.10,
    explain: Annotated[bool, typer.Option("--explain", help="Write out the arithmetic at the largest batch.")] = False,
    compare_frameworks: Annotated[
        bool,
        typer.Option("--compare-frameworks", help="Set eager, compiled, layouts and precisions side by side."),
    ] = False,
    top: Annotated[int, typer.Option(min=0, help="How many of the costliest kernels and modules to list.")] = 20,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|png|html", help="Plot the curves.", show_default=False)
    ] = None,
    roofline: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|png|html", help="Plot the roofline.", show_default=False)
    ] = None,
    format_: FormatOption = None,
    json_: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Estimate latency and throughput over batch sizes, with intervals, the knee and what binds.

    Examples:

      capplan estimate resnet50 --gpu rtx-4090 --precision amp-fp16

      capplan estimate resnet50.trace.json --gpu l4 --batch 1..256 --explain
    """
    from capplan.cli.estimate_advice import Adviser
    from capplan.cli.output import check_plots
    from capplan.core.latency.breakdown import break_down
    from capplan.core.latency.device import Unsupported
    from capplan.core.latency.predict import estimate_latencies
    from capplan.core.latency.step import ExecutedStep
    from capplan.core.latency.step_bound import classic_bound
    from capplan.report.estimates import EstimateReport
    from capplan.report.text.estimate import estimate_csv, estimate_document, estimate_text
    from capplan.report.text.frameworks import frameworks_rows, frameworks_text
    from capplan.specs import load_gpus
    from capplan.specs.calibration import load_calibration

    spelling = resolve_format(format_, json_flag=json_, output=output)
    check_plots(plot, roofline)
    batches = parse_batches(batch)
    if batches.choice is not BatchChoice.LISTED:
        raise UsageError("estimate wants batches, such as --batch 1..1024; `capplan plan` finds the largest that fits.")
    sizes = sorted(batches.sizes)
    gpus = load_gpus(overlays=specs or ())
    chosen = list({found.id: found for found in map(gpus.find, gpu)}.values())
    known = load_calibration(calibration)
    training = options.make_training(
        train=train, optimizer=optimizer, checkpointing=checkpointing, accumulate=accumulate
    )
    workload = options.make_workload(
        precision=precision or Precision.FP32,
        framework=framework,
        layout=layout,
        torch_version=torch_version,
        training=training,
    )
    words = ModelWords(
        words=model,
        arguments=arg or (),
        inputs=input_ or (),
        input_size=input_size,
        sequence_length=seq_len,
        inputs_from=inputs_from,
        prepare=prepare or (),
    )
    trace = obtain_trace(words, [workload.configuration])
    recording = trace.recording(workload.configuration)
    if recording.exact_batch is not None and sizes != [recording.exact_batch]:
        if len(sizes) != 1 or words.is_trace_file:
            raise UsageError(f"{model} does not grow evenly with the batch; ask for one batch, such as --batch 8.")
        trace = obtain_trace(words, [workload.configuration], exact_batch=sizes[0])
        recording = trace.recording(workload.configuration)
    step = ExecutedStep.of(recording, workload, calibration=known)
    answers = estimate_latencies(step, gpus=chosen, batches=sizes)
    adviser = Adviser(
        trace=trace,
        words=words,
        workload=workload,
        calibration=known,
        gpus=gpus,
        overlays=specs or (),
        is_trace_file=words.is_trace_file,
    )
    reports = []
    for spec, answer in zip(chosen, answers, strict=True):
        if isinstance(answer, Unsupported):
            raise UsageError(f"{answer.reason}.")
        detail = break_down(step, gpu=spec, batch=answer[-1].batch)
        assert not isinstance(detail, Unsupported)
        reports.append(
            EstimateReport(
                model=trace.name,
                workload=workload,
                curve=answer,
                breakdown=detail,
                classic=classic_bound(step, rates=detail.rates, batch=detail.batch),
                advice=adviser.advise(spec, answer),
                gain_fraction=gain,
            )
        )
    if plot is not None or roofline is not None:
        _draw(reports, plot=plot, roofline=roofline)
    compared = _compare(words, workload, chosen, sizes[-1], known) if compare_frameworks else {}
    if spelling is Format.JSON:
        documents = [estimate_document(report, top=top) for report in reports]
        for document in documents:
            if compared:
                document["frameworks"] = frameworks_rows(compared[document["gpu"]])
        content = to_json({"estimates": documents})
    elif spelling is Format.CSV:
        content = estimate_csv(reports)
    else:
        content = "\n".join(
            estimate_text(report, top=top, explain=explain, calibration=known, markdown=spelling is Format.MD)
            for report in reports
        )
        for gpu_id, runs in compared.items():
            content += "\n" + frameworks_text(runs, gpu=gpu_id, batch=sizes[-1], markdown=spelling is Format.MD)
    emit(content, output=output)


def _compare(
    words: ModelWords, workload: Workload, gpus: "Sequence[GpuSpec]", batch: int, calibration: "Calibration"
) -> "dict[str, tuple[ComparedRun, ...]]":
    """Estimate the largest batch asked for every way; a trace file answers with the recordings that it has."""
    from capplan.core.latency.frameworks import compare_frameworks, compared_configurations, compared_workloads

    workloads = compared_workloads(workload)
    trace = obtain_trace(words, compared_configurations(workloads))
    return {gpu.id: compare_frameworks(trace, workloads, gpu=gpu, batch=batch, calibration=calibration) for gpu in gpus}


def _draw(reports: "Sequence[EstimateReport]", *, plot: Path | None, roofline: Path | None) -> None:
    from capplan.cli.output import write_plot
    from capplan.report.charts.estimate import curve_svg, roofline_svg

    title = f"capplan estimate {reports[0].model}"
    if plot is not None:
        write_plot(curve_svg(reports), plot, title=title)
    if roofline is not None:
        write_plot(roofline_svg(reports), roofline, title=title)
