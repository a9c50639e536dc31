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
    SearchOptions,
    TaskOptions,
)
from capplan.cli.commands.llm.options import LlmModel, parse_link
from capplan.cli.groups import with_groups
from capplan.cli.options import AnswerOptions, SpecFolders
from capplan.cli.output import (
    Format,
    laid_out,
    to_json,
    write_atomically,
)
from capplan.cli.progress import progress
from capplan.printable import printable
from capplan.units import counted

if TYPE_CHECKING:
    from capplan.llm.core.fleet.planned import PlannedFleet
    from capplan.llm.core.fleet.token_load import TokenLoad
    from capplan.llm.core.search.search import PlanQuestion
    from capplan.llm.core.simulation.load_answer import LatencyLimits
    from capplan.specs.gpus.load import Gpus
    from capplan.specs.prices import Prices


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
    search: SearchOptions,
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
    answer: AnswerOptions,
) -> None:
    """Find the deployments of a language model that carry a load within limits, the cheapest first.

    Exit 1 if none does.

    Examples:  capplan llm plan llama-3.1-70b-instruct --weights fp8 --rate 20 --max-ttft 1s --max-tpot 40ms

    capplan llm plan qwen3-32b --gpu h100-sxm5-80gb --gpu l40s --concurrency 64 --max-tpot 50ms --percentile 99
    """
    from capplan.llm.answer.deployments import Deployments
    from capplan.llm.answer.fleet_money import known_prices
    from capplan.llm.answer.plan_serving import plan_fleet
    from capplan.llm.read.time_calibration import load_time_calibration
    from capplan.specs import load_gpus

    spelling = answer.format()
    gpus = load_gpus(overlays=specs or ())
    prices = known_prices(gpus, tuple(specs or ()))
    deployments = Deployments(gpus=gpus, download=download)
    load = task.of(lengths.load(rate_per_s=rate, concurrency=concurrency), deployments.model(model))
    question = _question(model, load, limits.limits(), search, prices=prices, gpus=gpus)
    with progress(f"searching deployments on {counted(len(question.gpus), 'GPU')}"):
        found = plan_fleet(
            question,
            deployments=deployments,
            calibration=load_time_calibration(calibration),
            prices=prices,
            money=money.question(),
        )
    if kubernetes is not None:
        _write_manifest(found, kubernetes)
    answer.emit(_spell(found, spelling, answer.output, everything=everything, launch=show_launch))
    if not found.plan.fits:
        raise typer.Exit(1)


def _question(
    model: str, load: "TokenLoad", limits: "LatencyLimits", search: SearchOptions, *, prices: "Prices", gpus: "Gpus"
) -> "PlanQuestion":
    """Return the question that the options ask; without `--gpu`, of every GPU with a rent that is searched."""
    from capplan.llm.answer.rents import on_demand_offers, searched_gpus
    from capplan.llm.core.search.search import PlanQuestion

    rents = on_demand_offers(prices)
    return PlanQuestion(
        model=model,
        load=load,
        limits=limits,
        gpus=tuple(gpus.find(name).id for name in search.gpu) if search.gpu else searched_gpus(gpus, rents),
        engines=search.engines(),
        weights=tuple(search.weights or ("",)),
        kv=search.kv or "",
        choice=search.choice(),
        batch_limits=tuple(search.max_seqs or (0,)),
        redundancy=search.redundancy,
        rents=rents,
        link_bytes_per_s=parse_link(search.link),
    )


def _write_manifest(found: "PlannedFleet", path: Path) -> None:
    from capplan.report.documents.llm.plan import manifest_of

    manifest = manifest_of(found)
    if manifest is not None:
        write_atomically(path, printable(manifest).encode())


def _spell(found: "PlannedFleet", spelling: Format, output: Path | None, *, everything: bool, launch: bool) -> str:
    from capplan.report.documents.llm.plan import llm_plan_document
    from capplan.report.text.llm.plan import llm_plan_sections

    if spelling is Format.JSON:
        return to_json(llm_plan_document(found))
    return laid_out(llm_plan_sections(found, everything=everything, launch=launch), spelling, output=output)
