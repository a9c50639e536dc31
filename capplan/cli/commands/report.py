"""`capplan report`: which GPUs to buy or rent for a load, as a page, PDF, workbook, Markdown, CSV or JSON."""

import os
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capplan.cli import options
from capplan.cli.models import ModelWords
from capplan.cli.output import emit, to_json, warn, write_atomically
from capplan.cli.progress import progress
from capplan.cli.report_subjects import Conditions, Offers, obtain_subjects, read_measured
from capplan.core.batches import BatchChoice, parse_batches
from capplan.core.workload import Framework, Layout, Optimizer, Precision
from capplan.errors import UsageError
from capplan.printable import printable

if TYPE_CHECKING:
    from capplan.core.economics.assumptions import Demand
    from capplan.report.procurement.types import Report

EXTENSIONS = (".html", ".pdf", ".xlsx", ".md", ".csv", ".json")


def report(
    models: options.Models,
    arg: options.ModelArguments = None,
    input_: options.Inputs = None,
    input_size: options.InputSize = None,
    seq_len: options.SequenceLength = None,
    inputs_from: options.InputsFrom = None,
    prepare: options.Prepare = None,
    batch: options.BatchOption = "1..256",
    load: Annotated[
        Path | None,
        typer.Option(
            metavar="LOAD.yaml", help="What is asked: a service, a job or a training purchase.", show_default=False
        ),
    ] = None,
    gpu: options.GpuNames = None,
    specs: options.SpecFolders = None,
    prices: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.yaml", help="Own dated prices, laid over the built-in ones.", show_default=False),
    ] = None,
    precision: options.PrecisionOption = None,
    framework: options.FrameworkOption = Framework.EAGER,
    layout: options.LayoutOption = Layout.NCHW,
    torch_version: options.TorchVersion = options.DEFAULT_TORCH,
    train: options.Train = False,
    optimizer: options.OptimizerOption = Optimizer.ADAMW,
    checkpointing: options.Checkpointing = False,
    accumulate: options.Accumulate = 1,
    provider: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Rent from this provider only; repeatable.", show_default=False),
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Rent in this region only; repeatable.", show_default=False),
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="What `capplan measure` saved, to stand beside the estimates.", show_default=False
        ),
    ] = None,
    utilization: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Share of usable memory that may be filled.")
    ] = 0.9,
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
    """Say which GPUs to buy or rent, how many, what they cost, and how sure that is.

    MODEL may also be a plan that `capplan plan --format json` saved.

    Examples:

      capplan report resnet50 --batch 1..64 --load service.yaml -o report.html -o report.xlsx

      capplan report resnet50.trace.json --gpu l4 --gpu a10 --load job.yaml -o report.pdf
    """
    outputs = check_outputs(output or (), force=force)
    demand = _read_demand(load)
    batches = parse_batches(batch)
    if batches.choice is not BatchChoice.LISTED:
        raise UsageError("a report compares listed batches; write --batch 32 or 1..256.")
    training = options.make_training(
        train=train, optimizer=optimizer, checkpointing=checkpointing, accumulate=accumulate
    )
    conditions = Conditions(
        gpus=tuple(gpu or ()),
        specs=tuple(specs or ()),
        largest_batches=tuple(sorted(batches.sizes)),
        workload=options.make_workload(
            precision=precision or Precision.FP32,
            framework=framework,
            layout=layout,
            torch_version=torch_version,
            training=training,
        ),
        utilization_fraction=utilization,
    )
    words = [
        ModelWords(
            words=each,
            arguments=arg or (),
            inputs=input_ or (),
            input_size=input_size,
            sequence_length=seq_len,
            inputs_from=inputs_from,
            prepare=prepare or (),
        )
        for each in models
    ]
    offers = Offers(files=tuple(prices or ()), providers=tuple(provider or ()), regions=tuple(region or ()))
    made = make_report(words, conditions, demand, offers=offers, measured=measured or (), load=load, title=title)
    if not outputs:
        emit(str(render(made, ".md")), output=None)
    contents = [render(made, path.suffix.lower()) for path in outputs]
    for path, content in zip(outputs, contents, strict=True):
        write_atomically(path, content if isinstance(content, bytes) else printable(content).encode())
    if any(model.verdict.choice is None for model in made.models):
        warn("warning: no option with a price carries the load of every model.")
    if not all(model.options for model in made.models):
        raise typer.Exit(1)


def make_report(
    words: Sequence[ModelWords],
    conditions: Conditions,
    demand: "Demand",
    *,
    offers: Offers,
    measured: Sequence[Path],
    load: Path | None,
    title: str | None,
) -> "Report":
    """Plan every model and answer the load.

    Raises:
        UsageError: no GPU is left, or words and files that do not hold what they must.
    """
    from capplan.report.procurement.build import Circumstances, build_report
    from capplan.specs import load_gpus
    from capplan.specs.prices import load_price_file, load_prices

    gpus = load_gpus(overlays=conditions.specs)
    subjects = obtain_subjects(words, conditions, gpus)
    known = load_prices(gpus, overlays=[folder for folder in conditions.specs if folder.is_dir()])
    for path in offers.files:
        known = known.with_own(load_price_file(path, gpus))
    circumstances = Circumstances(
        today=_today(),
        command=shlex.join(["capplan", *sys.argv[1:]]),
        title=title or f"GPUs for {', '.join(subject.name for subject in subjects)}",
        load_file=str(load) if load else None,
        largest_batches=conditions.largest_batches,
        measured=tuple(each for path in measured for each in read_measured(path)),
    )
    with progress("working out the report"):
        return build_report(
            subjects,
            demand=demand,
            gpus=gpus,
            rents=offers.narrow(known.hourly),
            purchases=known.purchase,
            circumstances=circumstances,
        )


def _today() -> date:
    """The day, or that of SOURCE_DATE_EPOCH, by which builds are made repeatable."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(epoch), tz=UTC).date() if epoch.isdecimal() else date.today()


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


def _read_demand(load: Path | None) -> "Demand":
    from capplan.specs.load import demand_without_load, read_demand

    return read_demand(load) if load else demand_without_load()


def render(made: "Report", extension: str) -> str | bytes:
    """Spell a report as an extension says.

    Raises:
        UsageError: a library that this format needs is not installed.
    """
    try:
        return _render(made, extension)
    except ModuleNotFoundError as error:
        raise UsageError(f"{extension} needs {error.name}; install it with pip install 'capplan[report]'.") from error


def _render(made: "Report", extension: str) -> str | bytes:
    if extension == ".html":
        from capplan.report.procurement.html import render_report_html

        return render_report_html(made)
    if extension == ".pdf":
        from capplan.report.procurement.pdf import render_report_pdf

        return render_report_pdf(made)
    if extension == ".xlsx":
        from capplan.report.procurement.xlsx import render_report_xlsx

        return render_report_xlsx(made)
    if extension == ".csv":
        from capplan.report.procurement.csv import render_report_csv

        return render_report_csv(made)
    if extension == ".json":
        from capplan.report.procurement.json import report_to_json

        document: dict[str, Any] = report_to_json(made)
        return to_json(document)
    from capplan.report.procurement.markdown import render_report_markdown

    return render_report_markdown(made)
