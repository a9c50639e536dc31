"""`capplan llm plan`: which deployment of a language model carries a load within limits at the least cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.commands.llm.groups import (
    CalibrationOption,
    DownloadOption,
    LengthOptions,
    LimitOptions,
    MoneyOptions,
    TaskOptions,
)
from capplan.cli.commands.llm.options import LlmModel, parse_link
from capplan.cli.groups import with_groups
from capplan.cli.options import SpecFolders
from capplan.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    OutputOption,
    emit,
    resolve_format,
    to_json,
    write_atomically,
)
from capplan.cli.progress import progress
from capplan.printable import printable

if TYPE_CHECKING:
    from capplan.core.llm.fleet.planned import PlannedFleet

ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp")


@with_groups
def plan(
    *,
    model: LlmModel,
    rate: Annotated[
        float | None,
        typer.Option(metavar="PER_S", help="Requests per second to all replicas together.", show_default=False),
    ] = None,
    concurrency: Annotated[
        float | None,
        typer.Option(
            "--concurrency",
            "-c",
            metavar="N",
            help="Clients that wait for answers, instead of a rate.",
            show_default=False,
        ),
    ] = None,
    lengths: LengthOptions,
    task: TaskOptions,
    limits: LimitOptions,
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", metavar="ID", help="Only this GPU; repeatable. All rented data-centre GPUs by default."),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(help="vllm, sglang, trtllm (the default), llama.cpp or all; repeatable."),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT", help="bf16, fp8, ...; repeatable; the checkpoint's by default."),
    ] = None,
    kv: Annotated[str | None, typer.Option(metavar="FORMAT", help="Number format of the KV cache.")] = None,
    tp: Annotated[list[int] | None, typer.Option("--tp", min=1, help="Tensor parallelism; repeatable.")] = None,
    pp: Annotated[list[int] | None, typer.Option("--pp", min=1, help="Pipeline stages; repeatable.")] = None,
    ep: Annotated[list[int] | None, typer.Option("--ep", min=1, help="Expert parallelism; repeatable.")] = None,
    dp: Annotated[
        list[int] | None, typer.Option("--dp", min=1, help="Ranks of attention data parallelism; repeatable.")
    ] = None,
    max_seqs: Annotated[
        list[int] | None, typer.Option(min=1, help="Most sequences at a time in a replica; repeatable.")
    ] = None,
    redundancy: Annotated[int, typer.Option(min=0, help="Replicas beyond need (N+k).")] = 0,
    link: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Network of one GPU that moves prefilled caches, such as '50 GB/s'."),
    ] = None,
    money: MoneyOptions,
    show_launch: Annotated[
        bool, typer.Option("--launch", help="Show the command that launches a replica, each option explained.")
    ] = False,
    kubernetes: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Write a Kubernetes manifest of the fleet.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every deployment and every rejection.")] = False,
    download: DownloadOption = False,
    specs: SpecFolders = None,
    calibration: CalibrationOption = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Find the deployments of a language model that carry a load within limits, the cheapest first.

    Exit 1 if none does.

    Examples:  capplan llm plan llama-3.1-70b-instruct --weights fp8 --rate 20 --max-ttft 1s --max-tpot 40ms

    capplan llm plan qwen3-32b --gpu h100-sxm5-80gb --gpu l40s --concurrency 64 --max-tpot 50ms --percentile 99
    """
    from capplan.app.llm.deployments import Deployments
    from capplan.app.llm.fleet.fleet_money import known_prices
    from capplan.app.llm.fleet.rents import cheapest_rents, searched_gpus
    from capplan.app.llm.fleet.search import DEFAULT_ENGINES
    from capplan.app.llm.plan_serving import PlanQuestion, plan_fleet
    from capplan.core.llm.fleet.candidates import ShardingChoice
    from capplan.specs import load_gpus
    from capplan.specs.llm.time_calibration import load_time_calibration

    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    gpus = load_gpus(overlays=specs or ())
    prices = known_prices(gpus, tuple(specs or ()))
    rents = cheapest_rents(prices)
    deployments = Deployments(gpus=gpus, download=download)
    question = PlanQuestion(
        model=model,
        load=task.of(lengths.load(rate_per_s=rate, concurrency=concurrency), deployments.model(model)),
        limits=limits.limits(),
        gpus=tuple(gpus.find(name).id for name in gpu) if gpu else searched_gpus(gpus, rents),
        engines=ENGINES if engine == ["all"] else tuple(engine or DEFAULT_ENGINES),
        weights=tuple(weights or ("",)),
        kv=kv or "",
        choice=ShardingChoice(
            tensor=tuple(tp or ()), pipeline=tuple(pp or ()), expert=tuple(ep or ()), data=tuple(dp or ())
        ),
        batch_limits=tuple(max_seqs or (0,)),
        redundancy=redundancy,
        rents=rents,
        link_bytes_per_s=parse_link(link),
    )
    with progress(f"searching deployments on {len(question.gpus)} GPUs"):
        found = plan_fleet(
            question,
            deployments=deployments,
            calibration=load_time_calibration(calibration),
            prices=prices,
            money=money.question(),
        )
    if kubernetes is not None:
        _write_manifest(found, kubernetes)
    emit(_spell(found, spelling, everything=everything, launch=show_launch), output=output)
    if not found.plan.fits:
        raise typer.Exit(1)


def _write_manifest(found: "PlannedFleet", path: Path) -> None:
    from capplan.report.documents.llm.plan import manifest_of

    manifest = manifest_of(found)
    if manifest is not None:
        write_atomically(path, printable(manifest).encode())


def _spell(found: "PlannedFleet", spelling: Format, *, everything: bool, launch: bool) -> str:
    from capplan.report.documents.llm.plan import llm_plan_document
    from capplan.report.text.llm import plan as text
    from capplan.report.text.llm.money import fleet_text

    if spelling is Format.JSON:
        return to_json(llm_plan_document(found))
    if spelling is Format.CSV:
        return text.plan_csv(found.plan)
    if spelling is Format.MD:
        return text.plan_markdown(found.plan)
    return text.plan_text(found.plan, everything=everything) + fleet_text(found, launch=launch)
