"""`capplan llm simulate`: what requests see at a load, by simulating one replica iteration by iteration."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.commands.llm.deployment import DeploymentOptions
from capplan.cli.commands.llm.groups import (
    CalibrationOption,
    DownloadOption,
    LengthOptions,
    LimitOptions,
    SchedulingOptions,
    TaskOptions,
)
from capplan.cli.commands.llm.options import (
    LlmModel,
    parse_day,
    parse_rates,
)
from capplan.cli.groups import with_groups
from capplan.cli.options import AnswerOptions, SpecFolders
from capplan.cli.output import (
    Format,
    check_plots,
    laid_out,
    to_json,
    write_plot,
)
from capplan.cli.progress import progress
from capplan.errors import UsageError
from capplan.llm.core.serving.clients import read_clients

if TYPE_CHECKING:
    from capplan.llm.core.fleet.token_load import TokenLoad
    from capplan.llm.core.simulation.arrivals import Arrivals
    from capplan.llm.core.simulation.simulation import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalOptions:
    """When requests come, and how many are simulated."""

    rate: Annotated[
        str | None,
        typer.Option(
            metavar="PER_S", help="Requests per second to one replica: 2, 1,2,4 or 1..16.", show_default=False
        ),
    ] = None
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", "-c", metavar="N", help="Clients that wait for answers, instead of a rate."),
    ] = None
    requests_file: Annotated[
        Path | None,
        typer.Option(
            "--lengths",
            metavar="FILE.csv",
            help="Requests with input_len, output_len and, if known, arrival_s and cached_len.",
        ),
    ] = None
    daily: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Shape of a day: requests in each part of it, in any unit."),
    ] = None
    requests: Annotated[int, typer.Option(min=100, max=200_000, help="Requests to simulate at each load.")] = 5000


@with_groups
def simulate(
    *,
    model: LlmModel,
    gpu: Annotated[str, typer.Option("--gpu", metavar="ID", help="Exact id or alias of a GPU.", show_default=False)],
    arrivals: ArrivalOptions,
    lengths: LengthOptions,
    deployment: DeploymentOptions,
    task: TaskOptions,
    scheduling: SchedulingOptions,
    limits: LimitOptions,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|png|pdf|html", help="Plot times over the load.", show_default=False)
    ] = None,
    download: DownloadOption = False,
    specs: SpecFolders = None,
    calibration: CalibrationOption = None,
    answer: AnswerOptions,
) -> None:
    """Simulate continuous batching under a load: percentiles of TTFT, TPOT, ITL and end-to-end time, and goodput.

    Example:  capplan llm simulate qwen3-32b --gpu h100-sxm5-80gb --tp 2 --rate 1..8 --max-ttft 1s --max-tpot 50ms
    """
    from capplan.llm.answer.deployments import Deployments
    from capplan.llm.answer.simulate_serving import SimulationQuestion, read_requests, simulate_serving
    from capplan.llm.core.deployment import DeploymentWords
    from capplan.llm.core.search.replica import Scheduling
    from capplan.llm.read.time_calibration import load_time_calibration
    from capplan.specs import load_gpus

    spelling = answer.format()
    check_plots(plot)
    trace = read_requests(arrivals.requests_file) if arrivals.requests_file else None
    deployments = Deployments(gpus=load_gpus(overlays=specs or ()), download=download)
    served = deployments.model(model)
    question = SimulationQuestion(
        words=DeploymentWords(
            model=model, gpu=gpu, engine=deployment.engine, sharding=deployment.sharding(),
            weights=deployment.weights or "", kv=deployment.kv or "", version=deployment.engine_version or "",
            max_sequences=scheduling.max_seqs,
        ),
        loads=tuple(task.of(load, served) for load in _loads(lengths, arrivals, trace)),
        limits=limits.limits(),
        requests=arrivals.requests,
        trace=trace,
        day=parse_day(arrivals.daily),
        scheduling=Scheduling(mixes=scheduling.mixes(), token_budget=scheduling.token_budget),
    )  # fmt: skip
    with progress("simulating"):
        found = simulate_serving(
            question,
            deployments=deployments,
            calibration=load_time_calibration(calibration),
        )
    if plot is not None:
        from capplan.report.text.llm.simulation import simulation_chart

        write_plot(simulation_chart(found), plot)
    answer.emit(_spell(found, spelling, answer.output))


def _loads(lengths: LengthOptions, arrivals: ArrivalOptions, trace: "Arrivals | None") -> "tuple[TokenLoad, ...]":
    """Return the loads to simulate: rates, numbers of clients, or the one of a file with arrival times."""
    from dataclasses import replace

    rate, concurrency = arrivals.rate, arrivals.concurrency
    if rate is not None and concurrency is not None:
        raise UsageError("state the load by one of --rate (requests per second) and --concurrency (clients).")
    rates = parse_rates(rate) if rate is not None else ()
    clients = read_clients(concurrency) if concurrency is not None else ()
    if trace is not None and trace.has_times and not clients:
        rates = (trace.rate_per_s,)
    if not rates and not clients:
        raise UsageError("state the load by --rate (requests per second), --concurrency (clients), or arrival_s.")
    loads = [lengths.load(rate_per_s=each, concurrency=None) for each in rates]
    loads += [lengths.load(rate_per_s=None, concurrency=each) for each in clients]
    if trace is None:
        return tuple(loads)
    means = float(trace.prompts.mean()), float(trace.answers.mean())
    cached = lengths.prefix_hits if trace.cached is None else float(trace.cached.sum() / trace.prompts.sum())
    return tuple(replace(each, input_len=means[0], output_len=means[1], prefix_fraction=cached) for each in loads)


def _spell(found: "Simulation", spelling: Format, output: Path | None) -> str:
    from capplan.report.documents.llm.simulation import simulation_document
    from capplan.report.text.llm.simulation import simulation_sections

    if spelling is Format.JSON:
        return to_json(simulation_document(found))
    return laid_out(simulation_sections(found), spelling, output=output)
