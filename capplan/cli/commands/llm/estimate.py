"""`capplan llm estimate`: time to first token, time between tokens and tokens per second over concurrency."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.commands.llm.deployment import DeploymentOptions, DownloadOption, MeasuredOptions, OneGpu
from capplan.cli.commands.llm.groups import CalibrationOption
from capplan.cli.commands.llm.options import LlmModel, parse_link
from capplan.cli.groups import with_groups
from capplan.cli.options import AnswerOptions, SpecFolders
from capplan.cli.output import Format, check_plots, laid_out, to_json, write_plot
from capplan.llm.core.serving.clients import read_clients

if TYPE_CHECKING:
    from capplan.llm.answer.estimate_serving import ServingQuestion
    from capplan.llm.core.serving.estimate import ServingEstimate


@with_groups
def estimate(
    *,
    model: LlmModel,
    gpu: OneGpu,
    concurrency: Annotated[
        str, typer.Option("--concurrency", "-c", help="Clients: 8, 1,8,32 or 1..256 (powers of two).")
    ] = "1..256",
    input_len: Annotated[int, typer.Option(min=1, help="Mean tokens of a prompt.")] = 1024,
    output_len: Annotated[int, typer.Option(min=1, help="Mean tokens of an answer.")] = 256,
    deployment: DeploymentOptions,
    measured: MeasuredOptions,
    explain: Annotated[bool, typer.Option("--explain", help="Write out what the steps are made of.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|png|pdf|html", help="Plot the curve.", show_default=False)
    ] = None,
    download: DownloadOption = False,
    specs: SpecFolders = None,
    calibration: CalibrationOption = None,
    answer: AnswerOptions,
) -> None:
    """Estimate how fast a served language model answers, with intervals and the evidence behind them.

    Examples:  capplan llm estimate qwen3-32b --gpu h100-sxm5-80gb --tp 2 --concurrency 1..256

    capplan llm estimate llama-3.1-8b-instruct --gpu l40s --weights fp8 -c 32 --explain
    """
    from capplan.llm.answer.deployments import Deployments
    from capplan.llm.answer.estimate_serving import estimate_serving
    from capplan.llm.read.time_calibration import load_time_calibration
    from capplan.specs import load_gpus

    chosen = answer.format()
    check_plots(plot)
    found = estimate_serving(
        _question(model, gpu, deployment, measured, clients=concurrency, lengths=(input_len, output_len)),
        deployments=Deployments(gpus=load_gpus(overlays=specs or ()), download=download),
        calibration=load_time_calibration(calibration),
    )
    if plot is not None:
        from capplan.report.text.llm.serving import estimate_chart

        write_plot(estimate_chart([found]), plot)
    answer.emit(_spell(found, chosen, answer.output, explain=explain))


def _question(
    model: str,
    gpu: str,
    deployment: DeploymentOptions,
    measured: MeasuredOptions,
    *,
    clients: str,
    lengths: tuple[int, int],
) -> "ServingQuestion":
    """Return the question that the options ask; `lengths` are the mean tokens of prompts and answers."""
    from capplan.llm.answer.estimate_serving import ServingQuestion
    from capplan.llm.core.deployment import DeploymentWords
    from capplan.llm.read.runs.measured_run import read_measured_run

    words = DeploymentWords(
        model=model,
        gpu=gpu,
        engine=deployment.engine,
        version=deployment.engine_version or "",
        sharding=deployment.sharding(),
        weights=deployment.weights or "",
        kv=deployment.kv or "",
        link_bytes_per_s=parse_link(measured.link),
    )
    return ServingQuestion(
        words=words,
        concurrencies=read_clients(clients),
        input_len=lengths[0],
        output_len=lengths[1],
        measured=tuple(run for path in measured.measured or () for run in read_measured_run(path)),
    )


def _spell(found: "ServingEstimate", spelling: Format, output: Path | None, *, explain: bool) -> str:
    from capplan.report.documents.llm.serving import llm_estimate_document
    from capplan.report.text.llm.serving import llm_estimate_sections

    if spelling is Format.JSON:
        return to_json(llm_estimate_document(found))
    return laid_out(llm_estimate_sections(found, explain=explain and spelling is Format.TABLE), spelling, output=output)
