"""`capplan report`: which GPUs to buy or rent for a load, as a page, PDF, workbook, Markdown, CSV or JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from capplan.cli import options
from capplan.cli.constraint_options import ConstraintOptions
from capplan.cli.groups import with_groups
from capplan.cli.output import command_line, emit, warn, write_atomically
from capplan.cli.progress import TERMINAL
from capplan.cli.report_options import EvidenceOptions, FileOptions, LoadOptions
from capplan.core.batches import BatchChoice, parse_batches
from capplan.core.workload import DEFAULT_UTILIZATION
from capplan.errors import UsageError
from capplan.printable import printable

if TYPE_CHECKING:
    from capplan.report.procurement.types import Report


@with_groups
def report(
    *,
    models: options.OptionalModels = None,
    inputs: options.ModelOptions,
    batch: options.BatchOption = "1..256",
    asked: LoadOptions,
    gpus: options.GpuOptions,
    evidence: EvidenceOptions,
    conditions: options.WorkloadOptions,
    constraints: ConstraintOptions,
    utilization: options.Utilization = DEFAULT_UTILIZATION,
    files: FileOptions,
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
    from capplan.app.sweep.reporting import with_swept_models

    outputs = files.outputs()
    if asked.llm is not None:
        from capplan.cli.commands.llm.report import report_llm

        chosen = gpus.request()
        return report_llm(models or (), asked.llm, outputs, gpus=chosen.ids, specs=chosen.overlays, title=files.title)
    batches = parse_batches(batch)
    if batches.choice is not BatchChoice.LISTED:
        raise UsageError("a report compares listed batches; write --batch 32 or 1..256.")
    request = ReportRequest(
        models=tuple(map(inputs.request, models or ())),
        gpus=gpus.request(),
        largest_batches=batches.sizes,
        workload=conditions.workload(inputs),
        utilization_fraction=utilization,
        load=asked.load,
        offers=OfferRequest(
            files=tuple(evidence.prices or ()),
            constraints=constraints.request(),
            only_priced=evidence.priced,
            max_usd_per_hour=evidence.max_price,
        ),
        measured=tuple(evidence.measured or ()),
        title=files.title,
        command=command_line(),
    )
    _write(make_report(with_swept_models(request), feedback=TERMINAL), outputs)


def _write(made: "Report", outputs: Sequence[Path]) -> None:
    """Write a report into every file, or as Markdown to stdout; exit with 1 where a model has no option."""
    from capplan.report.procurement.render import render_report

    if not outputs:
        emit(str(render_report(made, ".md")), output=None)
    contents = [render_report(made, path.suffix.lower()) for path in outputs]
    for path, content in zip(outputs, contents, strict=True):
        write_atomically(path, content if isinstance(content, bytes) else printable(content).encode())
    if any(model.verdict.choice is None for model in made.models):
        warn("warning: no option with a price carries the load of every model.")
    if not all(model.options for model in made.models):
        raise typer.Exit(1)
