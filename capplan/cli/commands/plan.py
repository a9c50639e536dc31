"""`capplan plan`: which GPU fits a model at a batch, how fast it runs there, and what binds it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.colour import ColorChoice, ColorOption, answer_width, is_coloured
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, emit_coloured, laid_out, to_json, warn
from capplan.cli.progress import TERMINAL
from capplan.core.batches import parse_batches

if TYPE_CHECKING:
    from capplan.core.plan.types import Plan
    from capplan.report.sections import Line


@with_groups
def plan(
    *,
    models: options.Models,
    model: options.ModelOptions,
    batch: options.BatchOption = "auto",
    gpus: options.GpuOptions,
    conditions: options.WorkloadOptions,
    limits: options.LimitOptions,
    job: options.JobOptions,
    extent: options.ExtentOptions,
    prices: options.PriceOptions,
    strict: options.Strict = False,
    calibration: Annotated[
        Path | None, typer.Option(help="A calibration of your own; the shipped one by default.", show_default=False)
    ] = None,
    color: ColorOption = ColorChoice.AUTO,
    answer: options.AnswerOptions,
) -> None:
    """Find the GPUs that fit a model, how fast it runs there and what binds it.

    Examples:

      capplan plan resnet50 --batch 32

      capplan plan timm:vit_base_patch16_224 --batch 1,8,32 --precision fp16 --gpu l4 --max-latency 50ms

      capplan plan hf:path/to/config.json --seq-len 128 --batch 32 --format json -o plan.json
    """
    from capplan.app.plan import PlanRequest
    from capplan.app.plan import plan as make_plans
    from capplan.report.text.styled import plain_text

    chosen = answer.format()
    request = PlanRequest(
        models=tuple(map(model.request, models)),
        gpus=gpus.request(),
        batches=parse_batches(batch),
        workload=conditions.workload(model),
        limits=limits.limits(),
        sort=extent.sort_key(),
        prices=prices.filters(),
        job=job.job(),
        tries_half=conditions.is_default,
        is_strict=strict,
        calibration=calibration,
    )
    plans = make_plans(request, feedback=TERMINAL)
    if chosen is Format.TABLE and not extent.everything:
        lines = _short_answers(plans, top=extent.top)
        if answer.output is None and is_coloured(color):
            emit_coloured(lines)
        else:
            answer.emit(plain_text(lines))
    else:
        answer.emit(_render(plans, chosen))
    _conclude(plans)


def _short_answers(plans: "Sequence[Plan]", *, top: int | None) -> "list[Line]":
    """Return the short answers, an empty line between them."""
    from capplan.report.text.answer import Selection, answer_lines

    lines: list[Line] = []
    for each in plans:
        lines += [(), *answer_lines(each, width=answer_width(), selection=Selection(top=top))]
    return lines[1:]


def _render(plans: "Sequence[Plan]", chosen: Format) -> str:
    from capplan.report.documents.plan import plan_document
    from capplan.report.text.plan import plan_sections

    if chosen is Format.JSON:
        documents = [plan_document(each) for each in plans]
        return to_json(documents[0] if len(documents) == 1 else documents)
    return laid_out(plan_sections(plans), chosen)


def _conclude(plans: "Sequence[Plan]") -> None:
    """Warn where every fit is borderline, and exit with 1 where a model fits nowhere."""
    from capplan.core.memory.types import FitStatus

    for each in plans:
        if each.fits and all(fit.status is FitStatus.BORDERLINE for fit in each.fits):
            warn(f"warning: {each.model.name}: every fit is borderline; its interval straddles a limit.")
    if not all(each.fits for each in plans):
        raise typer.Exit(1)
