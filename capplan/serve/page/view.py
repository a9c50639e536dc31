"""The answer to the form, laid out: what templates need, already written as text."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from capplan.app.pipelines.diffusers import names_pipeline
from capplan.core.latency.calibration import Calibration
from capplan.core.plan.planner import Prepared
from capplan.core.plan.recommend import device_word
from capplan.core.plan.types import (
    CRITERION_WORDS,
    ConditionEffect,
    Constraint,
    Criterion,
    Fit,
    Plan,
    Recommendation,
    Rejection,
    gpus_carrying,
)
from capplan.errors import CapplanError, UnknownNameError
from capplan.report.pages.html import sections_html
from capplan.report.sections import Column, KeyFigure, figure, shape_columns
from capplan.report.text.answer import worthwhile_changes
from capplan.report.text.plan import plan_sections
from capplan.serve.page.explain import Explained, Refused, Subject, explain, explain_rejection
from capplan.serve.page.question import PLAN_FORM, PageQuestion
from capplan.serve.page.svg import (
    MemoryRow,
    cost_chart,
    curve_batches,
    latency_chart,
    latency_curves,
    memory_bars,
    memory_rows,
    part_names,
    throughput_chart,
)
from capplan.serve.planning.answer import TaskContext, opened
from capplan.shapes.plan import FIT, largest_batch, latency_ends
from capplan.shapes.shape import View
from capplan.units import format_bytes, format_flops, format_parameters, format_rate, format_seconds, format_speedup
from capplan.verbs.plan import PLAN, answer_plan
from capplan.verbs.statement.read import command_of
from capplan.wording import as_keys

SHOWN = 12
_NOTHING = Markup("")
EXPLAINED = {
    "latency_s": ("latency", "latency of"),
    "latency_ends": ("latency", "interval of"),
    "throughput_per_s": ("throughput", "throughput of"),
    "total_bytes": ("memory", "memory of"),
    "fits": ("", ""),
    "largest_batch": ("fits", "largest batch of"),
    "usd_per_machine_hour": ("price", "price of"),
    "usd_per_million_samples": ("price", "cost on"),
    "load": ("load", "number of"),
    "evidence": ("latency", "evidence of"),
}
"""What explains the figures of the table, in their order; others stand before the last, unexplained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonCharts:
    """The charts that several models share, on one GPU that fits all of them."""

    gpu: str
    gpu_name: str
    names: tuple[str, ...]
    parts: tuple[str, ...]
    memory: Markup
    memory_rows: tuple[MemoryRow, ...]
    latency: Markup
    throughput: Markup
    cost: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A model's plan, and the step that its curves are estimated from."""

    name: str
    plan: Plan
    ready: Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """All that is shown of one model, or the sentence that says why there is nothing."""

    words: str
    identity: str
    error: str = ""
    name: str = ""
    facts: str = ""
    sentence: str = ""
    taken: tuple[Sequence[Recommendation], ...] = ()
    columns: Sequence[Column[Fit]] = ()
    fits: Sequence[Fit] = ()
    hidden: int = 0
    fitting: str = ""
    remedies: tuple[tuple[str, str], ...] = ()
    rejections: tuple[tuple[str, str], ...] = ()
    more_rejections: int = 0
    changes: tuple[tuple[str, str], ...] = ()
    offer_cautions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    curve_names: tuple[str, ...] = ()
    memory: Markup = _NOTHING
    memory_rows: tuple[MemoryRow, ...] = ()
    latency: Markup = _NOTHING
    throughput: Markup = _NOTHING
    cost: Markup = _NOTHING
    explained: Explained | None = None
    command: str = ""
    laid_out: Markup = _NOTHING


def view_model(
    question: PageQuestion, words: str, case: TaskContext, *, identity: str
) -> tuple[ModelView, PlannedStep | None]:
    """Return what is shown of one model, and its plan; no plan where it has none."""
    asked = question.plan_of(words)
    before = len(case.needed)
    try:
        plan = answer_plan(asked, case)
        if names_pipeline(words):
            laid_out = sections_html(plan_sections([plan]))
            return ModelView(words=words, identity=identity, name=plan.model.name, laid_out=laid_out), None
        return _view(question, plan, words, case, identity)
    except UnknownNameError as error:
        case.missing += list(case.needed)[before:]
        remedies = _suggested(error, question, words)
        sentence = error.sentence if _COMMAND_LINE.search(str(error)) else str(error)
        return ModelView(words=words, identity=identity, error=sentence, remedies=remedies), None
    except CapplanError as error:
        case.missing += list(case.needed)[before:]
        return ModelView(words=words, identity=identity, error=str(error)), None


_COMMAND_LINE = re.compile(r"`capplan |FILE\.py")
"""Stands in hints about what only the command line takes."""


def compare(models: Sequence[PlannedStep], *, batch: int) -> ComparisonCharts | None:
    """Return the charts that several models share; None for one model, or where no GPU fits all."""
    if len(models) < 2:
        return None
    on_gpu = [{fit.gpu.id: fit for fit in model.plan.fits} for model in models]
    ordered = [*(fit.gpu.id for fit in _charted(models[0].plan)), *on_gpu[0]]
    common = next((gpu for gpu in ordered if all(gpu in held for held in on_gpu)), None)
    if common is None:
        return None
    fits = [held[common] for held in on_gpu]
    curves = []
    for model, fit in zip(models, fits, strict=True):
        batches = curve_batches(batch, exact_batch=model.ready.memory.recording.exact_batch)
        drawn = latency_curves(model.ready, [fit], batches)
        curves.append((model.name, drawn[0][1] if drawn else ()))
    parts = part_names(fits)
    named = [(model.name, fit) for model, fit in zip(models, fits, strict=True)]
    return ComparisonCharts(
        gpu=common,
        gpu_name=fits[0].gpu.name,
        names=tuple(model.name for model in models),
        parts=tuple(parts),
        memory=memory_bars(named, parts, "both-memory"),
        memory_rows=memory_rows(named, parts),
        latency=latency_chart(curves, "both-latency"),
        throughput=throughput_chart(curves, "both-throughput"),
        cost=cost_chart([(model.name, _shown(model.plan, every=False)[:SHOWN]) for model in models], "both-cost"),
    )


def _view(
    question: PageQuestion, plan: Plan, words: str, case: TaskContext, identity: str
) -> tuple[ModelView, PlannedStep]:
    asked = question.plan_of(words)
    ready, calibration = opened(asked, case)
    shown = _shown(plan, every=question.every)
    charted = _charted(plan)
    curves = latency_curves(
        ready, charted, curve_batches(question.batch, exact_batch=ready.memory.recording.exact_batch)
    )
    parts = part_names(shown[:SHOWN])
    named = [(fit.gpu.id, fit) for fit in shown[:SHOWN]]
    by_gpu = [(gpu.id, points) for gpu, points in curves]
    nearest = sorted(plan.rejections, key=lambda rejection: rejection.shortfall)
    by_recommended: dict[str, list[Recommendation]] = {}
    for recommendation in plan.recommended:
        by_recommended.setdefault(recommendation.fit.gpu.id, []).append(recommendation)
    fitting = {fit.gpu.id for fit in plan.fits}
    asked_of = fitting | {rejection.gpu.id for rejection in plan.rejections}
    view = ModelView(
        words=words,
        identity=identity,
        name=plan.model.name,
        facts=_facts(plan, question),
        sentence=_sentence(plan, nearest),
        taken=tuple(by_recommended.values()),
        columns=_columns(plan, question.load),
        fits=shown,
        hidden=len(plan.fits) - len(shown),
        fitting=f"{len(fitting)} of {len(asked_of)} {device_word(plan)} fit",
        remedies=() if plan.fits or not nearest else _remedies(nearest[0], question),
        rejections=tuple(
            (rejection.gpu.id, f"{rejection.constraint.value}: {rejection.reason}")
            for rejection in nearest[: None if question.every else SHOWN]
        ),
        more_rejections=0 if question.every else max(0, len(plan.rejections) - SHOWN),
        changes=tuple(_changed(change, question) for change in worthwhile_changes(plan)),
        offer_cautions=plan.offer_cautions,
        notes=tuple(dict.fromkeys((*plan.cautions, *plan.notes))),
        parts=tuple(parts),
        curve_names=tuple(gpu.id for gpu, _ in curves),
        memory=memory_bars(named, parts, f"{identity}-memory"),
        memory_rows=memory_rows(named, parts),
        latency=latency_chart(by_gpu, f"{identity}-latency"),
        throughput=throughput_chart(by_gpu, f"{identity}-throughput"),
        cost=cost_chart([("", shown[:SHOWN])], f"{identity}-cost"),
        explained=_explained(question, plan, ready, calibration, identity),
        # the service alone knows a trace or config that was uploaded
        command=command_of(
            PLAN,
            asked,
            program="capplan --server URL" if asked.model.startswith(("trace:", "config:")) else "capplan",
        ),
    )
    return view, PlannedStep(name=plan.model.name, plan=plan, ready=ready)


def _shown(plan: Plan, *, every: bool) -> list[Fit]:
    if every:
        return list(plan.fits)
    wanted = set(plan.shortlist) | {recommendation.fit.gpu.id for recommendation in plan.recommended}
    return ([fit for fit in plan.fits if fit.gpu.id in wanted] or list(plan.fits))[:SHOWN]


def _charted(plan: Plan) -> list[Fit]:
    """Return the fits whose curves are drawn: the recommended ones first, each GPU once."""
    ordered = [*(recommendation.fit for recommendation in plan.recommended), *_shown(plan, every=False)]
    return list({fit.gpu.id: fit for fit in ordered}.values())


def _facts(plan: Plan, question: PageQuestion) -> str:
    model = plan.model
    mode = "training" if question.options.get("train") else "inference"
    size = f"{model.input.short} · " if model.input.size else ""
    return (
        f"{size}batch {question.batch:,} · {plan.precision_label} {mode} · {format_parameters(model.parameter_count)} "
        f"parameters, {format_flops(model.flops_per_sample)} per sample"
    )


def _sentence(plan: Plan, nearest: Sequence[Rejection]) -> str:
    best = plan.best()
    if best is None:
        missed = f" The nearest is {nearest[0].gpu.name}: {nearest[0].reason}." if nearest else ""
        return f"No GPU that was asked for serves this model within the limits.{missed}"
    rent = "" if best.rent is None else f", {plan.usd_per_hour(best):,.2f} USD an hour ({plan.offer_words(best)})"
    time, rate = best.latency.latency_s.expected, best.latency.throughput_per_s.expected
    return (
        f"Take {best.gpu.name}: {format_seconds(time)} a batch, {format_rate(rate)} samples/s, "
        f"{format_bytes(best.memory.total_bytes.expected)}{rent}."
    )


def _suggested(error: UnknownNameError, question: PageQuestion, words: str) -> tuple[tuple[str, str], ...]:
    """Return the names nearest to one that is unknown, each with the address that asks for it."""
    library, colon, _ = words.rpartition(":")
    changes: list[tuple[str, dict[str, Any]]] = []
    for near in error.nearest:
        if error.kind == "GPU":
            asked = (gpu.strip() for gpu in question.options.get("gpus", "").split(","))
            changes.append((near, {"gpus": ",".join(near if gpu == error.name else gpu for gpu in asked)}))
        elif error.kind.endswith("model"):
            name = f"{library}{colon}{near}"
            changes.append((name, {"models": tuple(name if model == words else model for model in question.models)}))
    return tuple((name, PLAN_FORM.address(question, explain="", **changed)) for name, changed in changes)


def _remedies(nearest: Rejection, question: PageQuestion) -> tuple[tuple[str, str], ...]:
    """Return what would let the nearest GPU serve the model, or another one, each with the address that asks for it."""
    changes: list[tuple[str, dict[str, Any]]] = []
    is_late = nearest.constraint is Constraint.LATENCY
    if is_late and nearest.needed:
        limit = f"{math.ceil(nearest.needed * 1e5) / 100:g}ms"  # not below what is needed
        changes.append((f"a latency limit of {limit}", {"max_latency": limit}))
    is_near = not is_late or nearest.shortfall <= _WORTH_TRYING
    largest = question.batch // 2 if is_late else nearest.max_batch
    can_shrink = is_near and nearest.constraint in (Constraint.LATENCY, Constraint.MEMORY)
    if can_shrink and 0 < largest < question.batch:
        changes.append((f"batch {largest:,}", {"batch": largest}))
    if can_shrink and not question.options.get("precision"):
        changes.append(("half precision (fp16)", {"precision": "fp16"}))
    limits = {name: "" for name in _NARROWING if question.options.get(name)}
    if limits:
        changes.append(("every GPU, without limits of price, memory and provider", limits))
    return tuple((words, PLAN_FORM.address(question, explain="", **changed)) for words, changed in changes)


_WORTH_TRYING = 4.0
"""How many times a latency limit may be missed for half the batch or half precision to be offered."""
_NARROWING = ("gpus", "min_memory", "providers", "max_price", "power_limit")
"""Fields of the form that leave GPUs out."""


def why_taken(taken: Sequence[Recommendation]) -> str:
    """Return in what a recommended GPU is best."""
    words = {**CRITERION_WORDS, Criterion.CHEAPEST: "cheapest per sample"}
    return ", ".join(words[recommendation.criterion] for recommendation in taken)


def key_figures(fit: Fit) -> list[KeyFigure]:
    """Return the figures of a recommended GPU, each by the name of what explains it."""
    time, rate, total = fit.latency.latency_s, fit.latency.throughput_per_s, fit.memory.total_bytes
    rates = f"{format_rate(rate.low)} … {format_rate(rate.high)}"
    figures = [
        KeyFigure(label="latency", figure=format_seconds(time.expected), note=latency_ends(fit)),
        KeyFigure(label="throughput", figure=f"{format_rate(rate.expected)} samples/s", note=rates),
        KeyFigure(label="memory", figure=format_bytes(total.expected), note=f"largest batch {largest_batch(fit)}"),
    ]
    if fit.rent is not None and fit.usd_per_million_samples is not None:
        cost = f"{fit.usd_per_million_samples:.3g} USD/M"
        offer = f"{fit.rent.usd_per_machine_hour:,.2f} USD/h, {fit.rent.offer_words}"
        figures.append(KeyFigure(label="price", figure=cost, note=offer))
    return figures


def _columns(plan: Plan, load: float | None) -> list[Column[Fit]]:
    """Return the columns of the table of GPUs: those of the shape, and the GPUs that carry a load."""
    columns = shape_columns(FIT, plan.fits, whole=plan, view=View.PAGE)
    if load:
        columns.append(figure(f"GPUs for {load:g}/s", lambda fit: _fleet(fit, load), name="load"))
    order = {name: place for place, name in enumerate(EXPLAINED)}
    return sorted(columns, key=lambda column: order.get(column.name or "", order["evidence"] - 0.5))


def _fleet(fit: Fit, load: float) -> str:
    """Return how many such GPUs carry a load at full use, by the slow end of the interval; no queueing is in it."""
    count = gpus_carrying(load, fit.latency)
    machines = fit.rent.machines_for(count) if fit.rent else None
    if fit.rent is None or machines is None:
        return f"{count:,}"
    return f"{count:,} ({machines * fit.rent.usd_per_machine_hour:,.2f} USD/h)"


def _changed(change: ConditionEffect, question: PageQuestion) -> tuple[str, str]:
    """Return what another condition gains, in words, and the address of the form with it; "" where it has no field."""
    before, after = change.before.latency.latency_s.expected, change.after.latency.latency_s.expected
    words = (
        f"{change.name} ({change.option}): {format_speedup(change.speedup)} on {change.after.gpu.id}, "
        f"{format_seconds(after)} instead of {format_seconds(before)}"
    )
    option, _, value = as_keys(change.option).strip().partition(" ")
    if option not in PLAN_FORM.fields:
        return words, ""
    return words, PLAN_FORM.address(question, explain="", **{option: value or "true"})


def _explained(
    question: PageQuestion, plan: Plan, ready: Prepared, calibration: Calibration, identity: str
) -> Explained | None:
    """Return what explains the figure that the address names as MODEL/GPU/KIND; None where it names another's."""
    which, _, rest = question.explain.partition("/")
    gpu, _, kind = rest.partition("/")
    if which != identity:
        return None
    rejection = next((rejection for rejection in plan.rejections if rejection.gpu.id == gpu), None)
    if kind == "rejected" and rejection is not None:
        return explain_rejection(Refused(rejection=rejection, plan=plan, ready=ready, calibration=calibration))
    fit = next((fit for fit in plan.fits if fit.gpu.id == gpu), None)
    if fit is None:
        return None
    subject = Subject(fit=fit, plan=plan, step=ready.step, calibration=calibration, load_per_s=question.load)
    return explain(kind, subject)
