"""`capplan llm simulate`: what requests see at a rate, by simulating one replica iteration by iteration."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.commands.llm.options import (
    EngineOption,
    LlmModel,
    PipelineOption,
    TensorOption,
    parse_limits,
    parse_rates,
)
from capplan.cli.options import SpecFolders
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json
from capplan.cli.progress import progress


def simulate(
    model: LlmModel,
    gpu: Annotated[str, typer.Option("--gpu", metavar="ID", help="Exact id or alias of a GPU.", show_default=False)],
    rate: Annotated[str, typer.Option(metavar="PER_S", help="Requests per second to one replica: 2, 1,2,4 or 1..16.")],
    input_len: Annotated[int, typer.Option(min=1, help="Mean tokens of a prompt.")] = 1024,
    output_len: Annotated[int, typer.Option(min=1, help="Mean tokens of an answer.")] = 256,
    spread: Annotated[float, typer.Option(min=0, max=1, help="Lengths vary evenly by ± this share.")] = 0.0,
    burstiness: Annotated[
        float, typer.Option(min=0.01, max=1000, help="Squared variation of gaps: 1 is Poisson, more is burstier.")
    ] = 1.0,
    lengths: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Requests with input_len, output_len and, if known, arrival_s."),
    ] = None,
    requests: Annotated[int, typer.Option(min=100, max=200_000, help="Requests to simulate at each rate.")] = 5000,
    tp: TensorOption = 1,
    pp: PipelineOption = 1,
    engine: EngineOption = "vllm",
    weights: Annotated[str | None, typer.Option(metavar="FORMAT", help="bf16, fp8, ...")] = None,
    kv: Annotated[str | None, typer.Option(metavar="FORMAT", help="Number format of the KV cache.")] = None,
    max_ttft: Annotated[str | None, typer.Option(metavar="TIME", help="Limit of the time to first token.")] = None,
    max_tpot: Annotated[str | None, typer.Option(metavar="TIME", help="Limit of the time between tokens.")] = None,
    max_e2e: Annotated[str | None, typer.Option(metavar="TIME", help="Limit of a whole answer.")] = None,
    specs: SpecFolders = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Constants from `capplan llm fit`; the shipped ones by default.")
    ] = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Simulate continuous batching under an open load: percentiles of TTFT, TPOT and end-to-end time, and goodput.

    Example:  capplan llm simulate qwen3-32b --gpu h100-sxm5-80gb --tp 2 --rate 1..8 --max-ttft 1s --max-tpot 50ms
    """
    from capplan.app.llm.deployments import Deployments, DeploymentWords
    from capplan.app.llm.simulate_serving import SimulationQuestion, read_requests, simulate_serving
    from capplan.core.llm.serving.deployment_plan import TokenLoad
    from capplan.core.llm.sharding import Sharding
    from capplan.report.documents.llm.plan import simulation_document
    from capplan.report.table import render_csv, render_markdown
    from capplan.report.text.llm.plan import simulation_table, simulation_text
    from capplan.specs import load_gpus
    from capplan.specs.llm.time_calibration import load_time_calibration

    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    trace = read_requests(lengths) if lengths else None
    if trace is not None:
        input_len, output_len = round(float(trace.prompts.mean())), round(float(trace.answers.mean()))
    question = SimulationQuestion(
        words=DeploymentWords(
            model=model, gpu=gpu, engine=engine, sharding=Sharding(tensor=tp, pipeline=pp),
            weights=weights or "", kv=kv or "",
        ),
        loads=tuple(
            TokenLoad(
                rate_per_s=each, input_len=input_len, output_len=output_len, spread=spread, gap_scv=burstiness
            )
            for each in parse_rates(rate)
        ),
        limits=parse_limits(max_ttft, max_tpot, max_e2e),
        requests=requests,
        trace=trace,
    )  # fmt: skip
    with progress("simulating"):
        found = simulate_serving(
            question,
            deployments=Deployments(gpus=load_gpus(overlays=specs or ())),
            calibration=load_time_calibration(calibration),
        )
    if spelling is Format.JSON:
        emit(to_json(simulation_document(found)), output=output)
    elif spelling is Format.TABLE:
        emit(simulation_text(found), output=output)
    else:
        render = render_csv if spelling is Format.CSV else render_markdown
        emit(render(simulation_table(found)), output=output)
