"""Compare models, number formats and frameworks on the same GPUs and batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.gpu_choice import GpuFilters, GpuRequest
from capplan.app.models import Model, ModelSource, open_model
from capplan.app.plan import PlanContext, PlanTerms, plan_at_batches
from capplan.app.priced_gpus import PriceFilters
from capplan.core.plan.comparison import ComparedModel, Comparison, ComparisonRow, in_order, with_gains
from capplan.core.plan.order import RowOrder
from capplan.core.plan.recommend import with_recommendations
from capplan.core.plan.types import Limits, Plan
from capplan.core.power import PowerLaw
from capplan.core.workload import BatchChoice, Batches, Framework, Layout, Precision, Workload
from capplan.errors import MissingRecordingError, TraceError

DEFAULT_PRECISIONS = (Precision.FP32, Precision.FP16)
DEFAULT_FRAMEWORKS = (Framework.EAGER, Framework.COMPILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """A request for models side by side, each in every number format, framework and layout listed.

    Without GPUs, those that `plan` recommends for the first model are taken. `workload` states what all rows share:
    the training step and the PyTorch version. `power_law` is None where power and energy are not asked for.
    """

    models: tuple[ModelSource, ...]
    gpus: GpuRequest = field(default_factory=GpuRequest)
    batches: Batches = field(default_factory=lambda: Batches(choice=BatchChoice.LISTED, sizes=(1,)))
    precisions: tuple[Precision, ...] = DEFAULT_PRECISIONS
    frameworks: tuple[Framework, ...] = DEFAULT_FRAMEWORKS
    layouts: tuple[Layout, ...] = (Layout.NCHW,)
    workload: Workload = field(default_factory=Workload)
    limits: Limits = field(default_factory=Limits)
    prices: PriceFilters = field(default_factory=PriceFilters)
    order: RowOrder = RowOrder.ASKED
    power_law: PowerLaw | None = None


def compare(request: CompareRequest, *, feedback: Feedback = SILENCE) -> Comparison:
    """Return a row for each model, number format, framework, layout, GPU and batch.

    Conditions under which a model cannot be traced become rows with the reason.

    Args:
        request: the models, GPUs, batches and conditions.
        feedback: where progress is shown.

    Raises:
        UsageError: there is no such model or GPU.
        TraceError: a model could be traced under none of the conditions.
    """
    context = PlanContext.of(request.gpus, request.prices, feedback=feedback)
    opened = [open_model(source, feedback=feedback) for source in request.models]
    if not _names_gpus(request):
        context = _recommended_gpus(opened[0], request, context)
    planned = [_plans(model, request, context) for model in opened]
    firsts = [next(plan for plan in plans.values() if isinstance(plan, Plan)) for plans in planned]
    labels = _labels(opened, [first.model.name for first in firsts])
    rows = [
        row
        for label, plans in zip(labels, planned, strict=True)
        for workload, answer in plans.items()
        for row in _rows(label, workload, answer, context=context, batches=request.batches)
    ]
    ordered = with_gains(_by_gpu(rows, context, request.batches))
    return Comparison(
        models=tuple(
            ComparedModel(label=label, facts=first.model, target=first.target)
            for label, first in zip(labels, firsts, strict=True)
        ),
        rows=in_order(ordered, request.order),
        limits=request.limits,
        notes=tuple(dict.fromkeys((*context.notes, *_left_out(request), *_own_hosts(planned)))),
    )


def _by_gpu(rows: Sequence[ComparisonRow], context: PlanContext, batches: Batches) -> list[ComparisonRow]:
    """Put rows of one GPU and listed batch together, in the order in which these are named."""
    gpus = {gpu.id: place for place, gpu in enumerate(context.gpus)}
    sizes = {size: place for place, size in enumerate(batches.sizes)}
    return sorted(rows, key=lambda row: (gpus[row.gpu.id], sizes.get(row.batch or 0, 0)))


def _names_gpus(request: CompareRequest) -> bool:
    gpus = request.gpus
    return bool(gpus.ids or gpus.specs or gpus.filters != GpuFilters())


def _labels(models: Sequence[Model], names: Sequence[str]) -> list[str]:
    """Return a label for each model: its name; its words where models share a name; numbered where they share both."""
    labels = [name if names.count(name) == 1 else model.words for model, name in zip(models, names, strict=True)]
    return [
        each if labels.count(each) == 1 else f"{each} #{labels[: place + 1].count(each)}"
        for place, each in enumerate(labels)
    ]


def _recommended_gpus(model: Model, request: CompareRequest, context: PlanContext) -> PlanContext:
    """Narrow the GPUs to those that the first model's plan recommends."""
    workload = _workloads(request)[0]
    planned = with_recommendations(plan_at_batches(model, _terms(request, workload), context), offers=context.offers)
    chosen = list({each.fit.gpu.id: each.fit.gpu for each in planned.recommended}.values())
    if not chosen:
        return context
    note = f"No GPU was named: these are the ones that `capplan plan {model.words}` recommends."
    return replace(context, gpus=tuple(chosen), notes=(*context.notes, note))


def _workloads(request: CompareRequest) -> list[Workload]:
    """Return the conditions compared, in the order in which they are listed."""
    ways = list(product(request.layouts, request.precisions, request.frameworks))
    known = [way for way in ways if way[2].is_engine or not way[1].needs_engine]
    return [
        replace(request.workload, layout=layout, precision=precision, framework=framework)
        for layout, precision, framework in known or ways
    ]


def _left_out(request: CompareRequest) -> tuple[str, ...]:
    """Return a note on formats of engines that are not compared under PyTorch."""
    formats = [precision.value for precision in request.precisions if precision.needs_engine]
    others = [framework.value for framework in request.frameworks if not framework.is_engine]
    if not formats or not others or len(others) == len(request.frameworks):
        return ()
    needs, is_out = ("needs", "is") if len(formats) == 1 else ("need", "are")
    return (f"{' and '.join(formats)} {needs} an engine, and {is_out} left out under {' and '.join(others)}.",)


def _own_hosts(planned: Sequence[Mapping[Workload, Plan | str]]) -> tuple[str, ...]:
    """Return a note on GPUs whose steps another host launches, which they were timed on."""
    plans = [answer for plans in planned for answer in plans.values() if isinstance(answer, Plan)]
    kept = dict.fromkeys(gpu_id for plan in plans for gpu_id in plan.own_hosts)
    return (f"{', '.join(kept)}: launched by the host of their own timings; --host sets one for all.",) if kept else ()


def _terms(request: CompareRequest, workload: Workload) -> PlanTerms:
    return PlanTerms(batches=request.batches, workload=workload, limits=request.limits, power_law=request.power_law)


def _plans(model: Model, request: CompareRequest, context: PlanContext) -> dict[Workload, Plan | str]:
    """Plan a model under each of the conditions; where it cannot be traced, the reason stands for the plan.

    Raises:
        TraceError: it could be traced under none of them.
    """
    made: dict[Workload, Plan | str] = {}
    failure: TraceError | MissingRecordingError | None = None
    for workload in _workloads(request):
        try:
            made[workload] = plan_at_batches(model, _terms(request, workload), context)
        except (TraceError, MissingRecordingError) as error:
            failure = error
            made[workload] = str(error)
    if failure is not None and not any(isinstance(each, Plan) for each in made.values()):
        raise failure
    return made


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
