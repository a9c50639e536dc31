"""`capplan llm plan`: which deployment of a language model carries a load within limits at the least cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.commands.llm.options import LlmModel, parse_limits
from capplan.cli.options import SpecFolders
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json
from capplan.cli.progress import progress

if TYPE_CHECKING:
    from capplan.core.llm.serving.deployment_plan import DeploymentPlan


def plan(
    model: LlmModel,
    rate: Annotated[float, typer.Option(metavar="PER_S", help="Requests per second to all replicas together.")],
    input_len: Annotated[int, typer.Option(min=1, help="Mean tokens of a prompt.")] = 1024,
    output_len: Annotated[int, typer.Option(min=1, help="Mean tokens of an answer.")] = 256,
    max_ttft: Annotated[str | None, typer.Option(metavar="TIME", help="Limit of the time to first token: 1s.")] = None,
    max_tpot: Annotated[
        str | None, typer.Option(metavar="TIME", help="Limit of the time between tokens: 40ms.")
    ] = None,
    max_e2e: Annotated[str | None, typer.Option(metavar="TIME", help="Limit of a whole answer: 10s.")] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", metavar="ID", help="Only this GPU; repeatable. All rented data-centre GPUs by default."),
    ] = None,
    engine: Annotated[list[str] | None, typer.Option(help="vllm, sglang, trtllm or llama.cpp; repeatable.")] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT", help="bf16, fp8, ...; repeatable; the checkpoint's by default."),
    ] = None,
    kv: Annotated[str | None, typer.Option(metavar="FORMAT", help="Number format of the KV cache.")] = None,
    tp: Annotated[list[int] | None, typer.Option("--tp", min=1, help="GPUs per replica; repeatable.")] = None,
    redundancy: Annotated[int, typer.Option(min=0, help="Replicas beyond need (N+k).")] = 0,
    everything: Annotated[bool, typer.Option("--all", help="Show every deployment and every rejection.")] = False,
    download: Annotated[bool, typer.Option("--download", help="Fetch the configuration of hf:org/name.")] = False,
    specs: SpecFolders = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Constants from `capplan llm fit`; the shipped ones by default.")
    ] = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Find the deployments of a language model that carry a load within limits, the cheapest first.

    Exit 1 if none does.

    Example:  capplan llm plan llama-3.1-70b-instruct --weights fp8 --rate 20 --max-ttft 1s --max-tpot 40ms
    """
    from capplan.app.llm.deployments import Deployments
    from capplan.app.llm.plan_serving import TENSOR_SIZES, PlanQuestion, plan_serving
    from capplan.app.llm.rents import cheapest_rents, searched_gpus
    from capplan.core.llm.serving.deployment_plan import TokenLoad
    from capplan.specs import load_gpus
    from capplan.specs.llm.time_calibration import load_time_calibration

    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    gpus = load_gpus(overlays=specs or ())
    rents = cheapest_rents(gpus, overlays=tuple(specs or ()))
    question = PlanQuestion(
        model=model,
        load=TokenLoad(rate_per_s=rate, input_len=input_len, output_len=output_len),
        limits=parse_limits(max_ttft, max_tpot, max_e2e),
        gpus=tuple(gpus.find(name).id for name in gpu) if gpu else searched_gpus(gpus, rents),
        engines=tuple(engine or ("vllm",)),
        weights=tuple(weights or ("",)),
        kv=kv or "",
        tensor_sizes=tuple(tp or TENSOR_SIZES),
        redundancy=redundancy,
        rents=rents,
    )
    with progress(f"searching deployments on {len(question.gpus)} GPUs"):
        found = plan_serving(
            question,
            deployments=Deployments(gpus=gpus, download=download),
            calibration=load_time_calibration(calibration),
        )
    emit(_spell(found, spelling, everything=everything), output=output)
    if not found.fits:
        raise typer.Exit(1)


def _spell(found: "DeploymentPlan", spelling: Format, *, everything: bool) -> str:
    from capplan.report.documents.llm.plan import plan_document
    from capplan.report.text.llm import plan as text

    if spelling is Format.JSON:
        return to_json(plan_document(found))
    if spelling is Format.CSV:
        return text.plan_csv(found)
    return text.plan_markdown(found) if spelling is Format.MD else text.plan_text(found, everything=everything)
