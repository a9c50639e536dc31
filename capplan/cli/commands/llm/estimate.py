"""`capplan llm estimate`: time to first token, time between tokens and tokens per second over concurrency."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.commands.llm.options import (
    DataOption,
    EngineOption,
    ExpertOption,
    LlmModel,
    PipelineOption,
    TensorOption,
    VersionOption,
    parse_clients,
    parse_link,
)
from capplan.cli.options import SpecFolders
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json

if TYPE_CHECKING:
    from capplan.core.llm.serving.estimate import ServingEstimate


def estimate(
    model: LlmModel,
    gpu: Annotated[str, typer.Option("--gpu", metavar="ID", help="Exact id or alias of a GPU.", show_default=False)],
    concurrency: Annotated[
        str, typer.Option("--concurrency", "-c", help="Clients: 8, 1,8,32 or 1..256 (powers of two).")
    ] = "1..256",
    input_len: Annotated[int, typer.Option(min=1, help="Mean tokens of a prompt.")] = 1024,
    output_len: Annotated[int, typer.Option(min=1, help="Mean tokens of an answer.")] = 256,
    engine: EngineOption = "vllm",
    engine_version: VersionOption = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default."),
    ] = None,
    kv: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Number format of the KV cache: bf16, fp8, q8_0, ...")
    ] = None,
    tp: TensorOption = 1,
    pp: PipelineOption = 1,
    ep: ExpertOption = 1,
    dp: DataOption = 1,
    link: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Both directions of the link between GPUs, such as '900 GB/s'."),
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A measured run of this deployment: vLLM or SGLang benchmark JSON, genai-perf CSV, or a serving CSV; "
            "repeatable.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Write out what the steps are made of.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|png|html", help="Plot the curve.", show_default=False)
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch the configuration and headers of hf:org/name over the network.")
    ] = False,
    specs: SpecFolders = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Constants from `capplan llm fit`; the shipped ones by default.")
    ] = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Estimate how fast a served language model answers, with intervals and the evidence behind them.

    Examples:  capplan llm estimate qwen3-32b --gpu h100-sxm5-80gb --tp 2 --concurrency 1..256

    capplan llm estimate llama-3.1-8b-instruct --gpu l40s --weights fp8 -c 32 --explain
    """
    from capplan.app.llm.deployments import Deployments, DeploymentWords
    from capplan.app.llm.estimate_serving import ServingQuestion, estimate_serving
    from capplan.cli.output import check_plots, write_plot
    from capplan.core.llm.sharding import Sharding
    from capplan.specs import load_gpus
    from capplan.specs.llm.runs.measured_run import read_measured_run
    from capplan.specs.llm.time_calibration import load_time_calibration

    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    check_plots(plot)
    words = DeploymentWords(
        model=model,
        gpu=gpu,
        engine=engine,
        version=engine_version or "",
        sharding=Sharding(tensor=tp, pipeline=pp, expert=ep, data=dp),
        weights=weights or "",
        kv=kv or "",
        link_bytes_per_s=parse_link(link),
    )
    question = ServingQuestion(
        words=words,
        concurrencies=parse_clients(concurrency),
        input_len=input_len,
        output_len=output_len,
        measured=tuple(run for path in measured or () for run in read_measured_run(path)),
    )
    found = estimate_serving(
        question,
        deployments=Deployments(gpus=load_gpus(overlays=specs or ()), download=download),
        calibration=load_time_calibration(calibration),
    )
    if plot is not None:
        from capplan.report.text.llm.serving import estimate_svg

        write_plot(estimate_svg([found]), plot, title="capplan llm estimate")
    emit(_spell(found, spelling, explain=explain), output=output)


def _spell(found: "ServingEstimate", spelling: Format, *, explain: bool) -> str:
    from capplan.report.documents.llm.serving import llm_estimate_document
    from capplan.report.text.llm import serving as text

    if spelling is Format.JSON:
        return to_json(llm_estimate_document(found))
    if spelling is Format.CSV:
        return text.estimate_csv(found)
    return text.estimate_markdown(found) if spelling is Format.MD else text.estimate_text(found, explain=explain)
