"""`capplan report`: which GPUs to buy or rent for a load, as a page, PDF, workbook, Markdown, CSV or JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import options
from capplan.cli.constraint_options import ConstraintOptions
from capplan.cli.groups import with_groups
from capplan.cli.output import command_line, emit, warn, write_atomically
from capplan.cli.progress import TERMINAL
from capplan.core.batches import BatchChoice, parse_batches
from capplan.core.workload import DEFAULT_UTILIZATION
from capplan.errors import UsageError
from capplan.printable import printable

EXTENSIONS = (".html", ".pdf", ".xlsx", ".md", ".csv", ".json")


@with_groups
def report(
    *,
    models: options.OptionalModels = None,
    inputs: options.ModelOptions,
    batch: options.BatchOption = "1..256",
    load: Annotated[
        Path | None,
        typer.Option(
            metavar="LOAD.yaml", help="What is asked: a service, a job or a training purchase.", show_default=False
        ),
    ] = None,
    llm: Annotated[
        Path | None,
        typer.Option(
            "--llm",
            metavar="LOAD.yaml",
            help="Serve a language model under this load: the LLM pages.",
            show_default=False,
        ),
    ] = None,
    gpus: options.GpuOptions,
    prices: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.yaml", help="Own dated prices, laid over the built-in ones.", show_default=False),
    ] = None,
    conditions: options.WorkloadOptions,
    constraints: ConstraintOptions,
    priced: options.OnlyPriced = False,
    max_price: options.MaxPrice = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="What `capplan measure` saved, to stand beside the estimates.", show_default=False
        ),
    ] = None,
    utilization: options.Utilization = DEFAULT_UTILIZATION,
    title: Annotated[str | None, typer.Option(help="Title of the report.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"Where to; the extension decides ({', '.join(EXTENSIONS)}); repeatable; else Markdown to stdout.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Recommend which GPUs to buy or rent, how many, what they cost, and how sure that is.

    MODEL may also be a plan that `capplan plan --format json` saved.

    Examples:

      capplan report resnet50 --batch 1..64 --load service.yaml -o report.html -o report.xlsx

      capplan report resnet50.trace.json --gpu l4 --gpu a10 --load job.yaml -o report.pdf

      capplan report llama-3.1-70b-instruct --llm LOAD.yaml -o report.html
    """
    from capplan.app.report import OfferRequest, ReportRequest
    from capplan.app.report import report as make_report
    from capplan.report.procurement.render import render_report

    outputs = check_outputs(output or (), force=force)
    if llm is not None:
        from capplan.cli.commands.llm.report import report_llm

        asked = gpus.request()
        return report_llm(models or (), llm, outputs, gpus=asked.ids, specs=asked.overlays, title=title)
    batches = parse_batches(batch)
    if batches.choice is not BatchChoice.LISTED:
        raise UsageError("a report compares listed batches; write --batch 32 or 1..256.")
    request = ReportRequest(
        models=tuple(map(inputs.request, models or ())),
        gpus=gpus.request(),
        largest_batches=batches.sizes,
        workload=conditions.workload(),
        utilization_fraction=utilization,
        load=load,
        offers=OfferRequest(
            files=tuple(prices or ()),
            constraints=constraints.request(),
            only_priced=priced,
            max_usd_per_hour=max_price,
        ),
        measured=tuple(measured or ()),
        title=title,
        command=command_line(),
    )
    made = make_report(request, feedback=TERMINAL)
    if not outputs:
        emit(str(render_report(made, ".md")), output=None)
    contents = [render_report(made, path.suffix.lower()) for path in outputs]
    for path, content in zip(outputs, contents, strict=True):
        write_atomically(path, content if isinstance(content, bytes) else printable(content).encode())
    if any(model.verdict.choice is None for model in made.models):
        warn("warning: no option with a price carries the load of every model.")
    if not all(model.options for model in made.models):
        raise typer.Exit(1)


def check_outputs(outputs: Sequence[Path], *, force: bool) -> list[Path]:
    """Refuse extensions that mean nothing and files that exist, before anything is worked out.

    Raises:
        UsageError: one of these.
    """
    for path in outputs:
        if path.suffix.lower() not in EXTENSIONS:
            raise UsageError(f"{path}: the extension tells no format; known are {', '.join(EXTENSIONS)}.")
        if path.is_dir() or not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: its folder is missing, or it is a folder.")
        if path.exists() and not force:
            raise UsageError(f"{path} exists and is kept; add --force to replace it.")
    if len(set(outputs)) < len(outputs):
        raise UsageError("the same -o is given twice.")
    return list(outputs)
