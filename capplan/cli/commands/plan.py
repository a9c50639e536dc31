"""`capplan plan`: which GPU fits a model at a batch, how fast it runs there, and what binds it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, to_json, warn
from capplan.cli.progress import TERMINAL
from capplan.core.batches import parse_batches
from capplan.errors import UnknownNameError
from capplan.units import SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.core.plan.types import Plan

SORT_KEYS = ("throughput", "latency", "memory", "cost", "name")


@with_groups
def plan(
    *,
    models: options.Models,
    model: options.ModelOptions,
    batch: options.BatchOption = "auto",
    gpus: options.GpuOptions,
    conditions: options.WorkloadOptions,
    max_latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="Latency limit per batch, such as 50ms.", show_default=False)
    ] = None,
    min_throughput: Annotated[
        float | None, typer.Option(min=0, metavar="SAMPLES/S", help="Samples per second wanted.", show_default=False)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Samples of a whole job: adds the GPU-hours it takes.", show_default=False)
    ] = None,
    epochs: Annotated[float, typer.Option(min=0, help="How often the job takes each of its samples.")] = 1.0,
    utilization: options.Utilization = 0.9,
    sort: Annotated[str, typer.Option(help=f"Rank by {', '.join(SORT_KEYS)}.")] = "throughput",
    strict: options.Strict = False,
    answer: options.AnswerOptions,
) -> None:
    """Say which GPUs fit a model, how fast it runs there and what binds it.

    Examples:

      capplan plan resnet50 --batch 32

      capplan plan timm:vit_base_patch16_224 --batch 1,8,32 --precision fp16 --gpu l4 --max-latency 50ms

      capplan plan hf:path/to/config.json --seq-len 128 --batch 32 --format json -o plan.json
    """
    from capplan.app.plan import PlanRequest
    from capplan.app.plan import plan as make_plans
    from capplan.core.plan.types import Job, Limits, SortKey

    chosen = answer.format()
    if sort not in SORT_KEYS:
        raise UnknownNameError("sort key", sort, SORT_KEYS, hint=f"Known: {', '.join(SORT_KEYS)}.")
    request = PlanRequest(
        models=tuple(map(model.request, models)),
        gpus=gpus.request(),
        batches=parse_batches(batch),
        workload=conditions.workload(),
        limits=Limits(
            utilization_fraction=utilization,
            max_latency_s=parse_quantity(max_latency, SECONDS, what="--max-latency") if max_latency else None,
            min_throughput_per_s=min_throughput,
        ),
        sort=SortKey(sort),
        job=None if samples is None else Job(samples=samples, epochs=epochs),
        suggests_half=conditions.is_default,
        is_strict=strict,
    )
    plans = make_plans(request, feedback=TERMINAL)
    answer.emit(_render(plans, chosen))
    _conclude(plans)


def _render(plans: "Sequence[Plan]", chosen: Format) -> str:
    from capplan.report.documents.plan import plan_to_json
    from capplan.report.text.plan import render_plan_markdown, render_plan_text, render_plans_csv

    if chosen is Format.JSON:
        documents = [plan_to_json(each) for each in plans]
        return to_json(documents[0] if len(documents) == 1 else documents)
    if chosen is Format.CSV:
        return render_plans_csv(list(plans))
    render = render_plan_markdown if chosen is Format.MD else render_plan_text
    return "\n".join(map(render, plans))


def _conclude(plans: "Sequence[Plan]") -> None:
    """Warn where every fit is borderline, and exit with 1 where a model fits nowhere."""
    from capplan.core.memory.types import FitStatus

    for each in plans:
        if each.fits and all(fit.status is FitStatus.BORDERLINE for fit in each.fits):
            warn(f"warning: {each.model.name}: every fit is borderline; its interval straddles a limit.")
    if not all(each.fits for each in plans):
        raise typer.Exit(1)
