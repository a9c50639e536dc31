"""Compare models, number formats and frameworks on the same GPUs and batches."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from capplan.app.models import Model, ModelSource, open_model
from capplan.app.plan import PlanContext, PlanTerms, plan_at_batches
from capplan.core.plan.comparison import ComparedModel, Comparison, ComparisonRow, in_order, with_gains
from capplan.core.plan.recommend import with_recommendations
from capplan.core.plan.types import Plan
from capplan.core.workload import Batches, Framework, Layout, Precision, RowOrder, Workload
from capplan.errors import MissingRecordingError, TraceError


def compare(
    models: Sequence[ModelSource],
    terms: PlanTerms,
    context: PlanContext,
    *,
    precisions: Sequence[Precision] = (Precision.FP32, Precision.FP16),
    frameworks: Sequence[Framework] = (Framework.EAGER, Framework.COMPILE),
    layouts: Sequence[Layout] = (Layout.NCHW,),
    order: RowOrder = RowOrder.ASKED,
    names_gpus: bool = True,
) -> Comparison:
    """Return a row for each model, number format, framework, layout, GPU and batch.

    Conditions under which a model cannot be traced become rows with the reason.

    Args:
        models: the models.
        terms: the batches and limits, and the workload that all rows share: the training step, the PyTorch version.
        context: the GPUs, prices and calibrations.
        precisions: the number formats to compare.
        frameworks: how the graph is executed in each of them.
        layouts: the memory formats of images.
        order: the order of the rows.
        names_gpus: compare on the GPUs of the context; otherwise on those that `plan` recommends for the first model.

    Raises:
        UsageError: there is no such model.
        TraceError: a model could be traced under none of the conditions.
    """
    ways = list(product(layouts, precisions, frameworks))
    known = [way for way in ways if way[2].is_engine or not way[1].needs_engine]
    workloads = [
        replace(terms.workload, layout=layout, precision=precision, framework=framework)
        for layout, precision, framework in known or ways
    ]
    opened = [open_model(source, feedback=context.feedback) for source in models]
    if not names_gpus:
        context = _recommended_gpus(opened[0], replace(terms, workload=workloads[0]), context)
    planned = [_plans(model, workloads, terms, context) for model in opened]
    firsts = [next(plan for plan in plans.values() if isinstance(plan, Plan)) for plans in planned]
    labels = _labels(opened, [first.model.name for first in firsts])
    rows = [
        row
        for label, plans in zip(labels, planned, strict=True)
        for workload, answer in plans.items()
        for row in _rows(label, workload, answer, context=context, batches=terms.batches)
    ]
    return Comparison(
        models=tuple(
            ComparedModel(label=label, facts=first.model, target=first.target)
            for label, first in zip(labels, firsts, strict=True)
        ),
        rows=in_order(with_gains(_by_gpu(rows, context, terms.batches)), order),
        limits=terms.limits,
        notes=tuple(dict.fromkeys((*context.notes, *_left_out(precisions, frameworks), *_own_hosts(planned)))),
    )


def _by_gpu(rows: Sequence[ComparisonRow], context: PlanContext, batches: Batches) -> list[ComparisonRow]:
    """Put rows of one GPU and listed batch together, in the order in which these are named."""
    gpus = {gpu.id: place for place, gpu in enumerate(context.gpus)}
    sizes = {size: place for place, size in enumerate(batches.sizes)}
    return sorted(rows, key=lambda row: (gpus[row.gpu.id], sizes.get(row.batch or 0, 0)))


def _labels(models: Sequence[Model], names: Sequence[str]) -> list[str]:
    """Return a label for each model: its name; its words where models share a name; numbered where they share both."""
    labels = [name if names.count(name) == 1 else model.words for model, name in zip(models, names, strict=True)]
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: place + 1].count(label)}"
        for place, label in enumerate(labels)
    ]


def _recommended_gpus(model: Model, terms: PlanTerms, context: PlanContext) -> PlanContext:
    """Narrow the GPUs to those that the first model's plan recommends."""
    planned = with_recommendations(plan_at_batches(model, terms, context), offers=context.offers)
    chosen = list({choice.fit.gpu.id: choice.fit.gpu for choice in planned.recommended}.values())
    if not chosen:
        return context
    note = f"No GPU was named: these are the ones that `capplan plan {model.words}` recommends."
    return replace(context, gpus=tuple(chosen), notes=(*context.notes, note))


def _left_out(precisions: Sequence[Precision], frameworks: Sequence[Framework]) -> tuple[str, ...]:
    """Return a note on formats of engines that are not compared under PyTorch."""
    formats = [precision.value for precision in precisions if precision.needs_engine]
    others = [framework.value for framework in frameworks if not framework.is_engine]
    if not formats or not others or len(others) == len(frameworks):
        return ()
    needs, is_out = ("needs", "is") if len(formats) == 1 else ("need", "are")
    return (f"{' and '.join(formats)} {needs} an engine, and {is_out} left out under {' and '.join(others)}.",)


def _own_hosts(planned: Sequence[Mapping[Workload, Plan | str]]) -> tuple[str, ...]:
    """Return a note on GPUs whose steps another host launches, which they were timed on."""
    plans = [answer for plans in planned for answer in plans.values() if isinstance(answer, Plan)]
    kept = dict.fromkeys(gpu_id for plan in plans for gpu_id in plan.own_hosts)
    return (f"{', '.join(kept)}: launched by the host of their own timings; --host sets one for all.",) if kept else ()


def _plans(
    model: Model, workloads: Sequence[Workload], terms: PlanTerms, context: PlanContext
) -> dict[Workload, Plan | str]:
    """Plan a model under each of the conditions; where it cannot be traced, the reason stands for the plan.

    Raises:
        TraceError: it could be traced under none of them.
    """
    plans: dict[Workload, Plan | str] = {}
    failure: TraceError | MissingRecordingError | None = None
    for workload in workloads:
        try:
            plans[workload] = plan_at_batches(model, replace(terms, workload=workload), context)
        except (TraceError, MissingRecordingError) as error:
            failure = error
            plans[workload] = str(error)
    if failure is not None and not any(isinstance(plan, Plan) for plan in plans.values()):
        raise failure
    return plans


def _rows(
    label: str, workload: Workload, answer: Plan | str, *, context: PlanContext, batches: Batches
) -> list[ComparisonRow]:
    """Return the rows of one model under one set of conditions."""
    if isinstance(answer, str):
        return [
            ComparisonRow(model=label, workload=workload, gpu=gpu, batch=batch, failure=answer)
            for gpu, batch in product(context.gpus, batches.sizes or (None,))
        ]
    fits = [ComparisonRow(model=label, workload=workload, gpu=fit.gpu, batch=fit.batch, fit=fit) for fit in answer.fits]
    return fits + [
        ComparisonRow(model=label, workload=workload, gpu=rejection.gpu, batch=rejection.batch, rejection=rejection)
        for rejection in answer.rejections
    ]
