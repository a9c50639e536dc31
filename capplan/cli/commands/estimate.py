"""`capplan estimate`: how fast a model runs on a GPU over batch sizes, what binds it, and what would help."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, check_plots, laid_out, to_json, write_plot
from capplan.cli.progress import TERMINAL
from capplan.core.batches import BatchChoice, parse_batches
from capplan.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capplan.app.estimate import EstimateAnswer
    from capplan.report.estimates import EstimateReport


@with_groups
def estimate(
    *,
    model: options.Model,
    gpus: options.GpuOptions,
    prices: options.PriceOptions,
    inputs: options.ModelOptions,
    batch: Annotated[
        str | None,
        typer.Option("--batch", "-b", help="8, 1,8,32 or 1..64 (powers of two); 1..1024, or what a file is fixed to."),
    ] = None,
    conditions: options.WorkloadOptions,
    calibration: Annotated[
        Path | None, typer.Option(help="A calibration of your own; the shipped one by default.", show_default=False)
    ] = None,
    gain: Annotated[float, typer.Option(min=0.0, max=1.0, help="The knee: doubling gains less than this.")] = 0.10,
    explain: Annotated[bool, typer.Option("--explain", help="Write out the arithmetic at the largest batch.")] = False,
    compare_frameworks: Annotated[
        bool,
        typer.Option("--compare-frameworks", help="Set eager, compiled, layouts and precisions side by side."),
    ] = False,
    top: Annotated[int, typer.Option(min=0, help="How many of the costliest kernels and modules to list.")] = 20,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|png|pdf|html", help="Plot the curves.", show_default=False)
    ] = None,
    roofline: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|png|pdf|html", help="Plot the roofline.", show_default=False)
    ] = None,
    answer: options.AnswerOptions,
) -> None:
    """Estimate latency and throughput over batch sizes, with intervals, the knee and what binds.

    Examples:

      capplan estimate resnet50 --gpu rtx-4090 --precision amp-fp16

      capplan estimate resnet50.trace.json --gpu l4 --batch 1..256 --explain

      capplan estimate resnet50 --where 'memory >= 24 GiB' --provider aws --max-price 2 --batch 32
    """
    from capplan.app.estimate import EstimateRequest
    from capplan.app.estimate import estimate as make_estimates

    chosen = answer.format()
    check_plots(plot, roofline)
    if not gpus.narrows and not prices.filters():
        raise UsageError(
            "estimate needs GPUs, such as --gpu l4 or --gpu t4,l4; `capplan plan` answers for all of them."
        )
    batches = None if batch is None else parse_batches(batch)
    if batches is not None and batches.choice is not BatchChoice.LISTED:
        raise UsageError("estimate needs batches, such as --batch 1..1024; `capplan plan` finds the largest that fits.")
    request = EstimateRequest(
        model=inputs.request(model),
        gpus=gpus.request(),
        prices=prices.filters(),
        batches=() if batches is None else batches.sizes,
        workload=conditions.workload(inputs),
        calibration=calibration,
        gain_fraction=gain,
        compares_frameworks=compare_frameworks,
    )
    made = make_estimates(request, feedback=TERMINAL)
    _draw(made.reports, plot=plot, roofline=roofline)
    answer.emit(_render(made, chosen, top=top, explain=explain))


def _render(made: "EstimateAnswer", chosen: Format, *, top: int, explain: bool) -> str:
    from capplan.report.documents.estimate import estimate_document
    from capplan.report.text.estimate import estimate_sections

    if chosen is Format.JSON:
        return to_json(estimate_document(made.reports, top=top, compared=made.compared))
    sections = estimate_sections(
        made.reports, top=top, explain=explain, calibration=made.calibration, compared=made.compared
    )
    return laid_out(sections, chosen)


def _draw(reports: "Sequence[EstimateReport]", *, plot: Path | None, roofline: Path | None) -> None:
    if plot is None and roofline is None:
        return
    from capplan.report.charts.estimate import curve_chart, roofline_chart

    if plot is not None:
        write_plot(curve_chart(reports), plot)
    if roofline is not None:
        write_plot(roofline_chart(reports), roofline)
