"""`compare`: models, number formats and frameworks side by side on the same GPUs and batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.workload import BatchChoice, Batches, Framework, Layout, Precision, RowOrder, Workload
from capplan.errors import MissingRecordingError, TraceError, UsageError
from capplan.verbs.statement.contract import Context, Look, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import (
    DEFAULT_TORCH,
    EVERYWHERE,
    MODEL_HELP,
    TORCH,
    CurrencyFields,
    EnergyFields,
    GpuFields,
    HostFields,
    InputFields,
    LimitFields,
    PriceFields,
    Text,
    TrainingFields,
    batch_sizes,
)
from capplan.verbs.statement.options import After, Option, Topic

if TYPE_CHECKING:
    from capplan.app.models import Model
    from capplan.app.plan import PlanContext, PlanTerms
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.plan.comparison import Comparison, ComparisonRow
    from capplan.core.plan.types import Plan
    from capplan.report.sections import Line

_ONE = Batches(choice=BatchChoice.LISTED, sizes=(1,))


def _several(flag: str, members: Iterable[str], default: str) -> Option:
    """Return an option that takes lists of an enumeration's words."""
    return Option(
        help=f"{', '.join(members)}; repeatable; {default} by default.",
        flags=(flag,),
        metavar="NAME[,NAME]",
        topic=Topic.WORKLOAD,
        doors=EVERYWHERE,
        is_usual=True,
    )


@dataclass(frozen=True, kw_only=True)
class CompareQuestion(
    InputFields, GpuFields, TrainingFields, HostFields, LimitFields, CurrencyFields, PriceFields,
    EnergyFields,
):  # fmt: skip
    """Models, number formats, frameworks and layouts, one row for each on each GPU and batch."""

    sort: Annotated[
        RowOrder,
        Option(
            help=f"Order the rows by {', '.join(RowOrder)}; asked is the order of the command.", metavar="TEXT",
            topic=Topic.ANSWER, shows_default=True, choice="sort key",
        ),
    ] = RowOrder.ASKED  # fmt: skip
    models: Annotated[
        tuple[Text, ...],
        After(""),
        Meta(max_length=64),
        Option(help=MODEL_HELP, metavar="MODEL", topic=Topic.MODEL, is_argument=True, completes="models"),
    ] = ()
    batches: Annotated[Batches, batch_sizes("8, 1,8,32, 1..1024 (powers of two), auto (the recommended), or max.")] = (
        _ONE
    )
    precisions: Annotated[tuple[Precision, ...], _several("--precision", Precision, "fp32,fp16")] = (
        Precision.FP32,
        Precision.FP16,
    )
    frameworks: Annotated[tuple[Framework, ...], _several("--framework", Framework, "eager,compile")] = (
        Framework.EAGER,
        Framework.COMPILE,
    )
    layouts: Annotated[tuple[Layout, ...], _several("--layout", Layout, "nchw")] = (Layout.NCHW,)
    torch_version: Annotated[tuple[int, int], replace(TORCH, doors=EVERYWHERE)] = DEFAULT_TORCH


def answer_compare(question: CompareQuestion, context: Context) -> "Comparison":
    """Return a row for each model, number format, framework, layout, GPU and batch.

    Raises:
        UsageError: there is no such model or GPU, or no model is named.
        TraceError: a model could be traced under none of the conditions.
    """
    from capplan.app.models import open_model
    from capplan.app.plan import PlanContext, PlanTerms
    from capplan.core.plan.comparison import ComparedModel, Comparison, in_order, with_gains
    from capplan.core.plan.types import Plan

    if not question.models:
        raise UsageError("models is empty: name at least one.")
    sources = [context.model(question.of(words)) for words in question.models]
    gpus = context.gpus(question)
    common = Workload(training=question.training(), torch_version=question.torch_version, host=question.host)
    limits, law = question.limits(), question.power_law(needed=question.sort is RowOrder.ENERGY)
    shared = PlanContext.of(gpus, question.price_filters(), feedback=context.feedback)
    layouts, precisions = dict.fromkeys(question.layouts), dict.fromkeys(question.precisions)
    ways = list(product(layouts, precisions, dict.fromkeys(question.frameworks)))
    known = [way for way in ways if way[2].is_engine or not way[1].needs_engine]
    asked = [
        PlanTerms(
            batches=question.batches,
            workload=replace(common, layout=layout, precision=precision, framework=framework),
            limits=limits,
            power_law=law,
        )
        for layout, precision, framework in known or ways
    ]
    opened = [open_model(source, feedback=context.feedback) for source in sources]
    if not gpus.narrows:
        shared = _recommended_gpus(opened[0], asked[0], shared)
    planned = [_plans(model, asked, shared) for model in opened]
    firsts = [next(plan for plan in plans.values() if isinstance(plan, Plan)) for plans in planned]
    labels = _labels(opened, [first.model.name for first in firsts])
    rows = [
        row
        for label, plans in zip(labels, planned, strict=True)
        for workload, answer in plans.items()
        for row in _rows(label, workload, answer, gpus=shared.gpus, batches=question.batches)
    ]
    return Comparison(
        models=tuple(
            ComparedModel(label=label, facts=first.model, target=first.target)
            for label, first in zip(labels, firsts, strict=True)
        ),
        rows=in_order(with_gains(_by_gpu(rows, shared.gpus, question.batches)), question.sort),
        limits=limits,
        notes=tuple(dict.fromkeys((*shared.notes, *_left_out(question)))),
        local=question.local_currency(),
    )


def _by_gpu(rows: "Sequence[ComparisonRow]", gpus: "Sequence[GpuSpec]", batches: Batches) -> "list[ComparisonRow]":
    """Group rows by GPU and listed batch, in the order in which these are named."""
    places = {gpu.id: place for place, gpu in enumerate(gpus)}
    sizes = {size: place for place, size in enumerate(batches.sizes)}
    return sorted(rows, key=lambda row: (places[row.gpu.id], sizes.get(row.batch or 0, 0)))


def _labels(models: "Sequence[Model]", names: Sequence[str]) -> list[str]:
    """Return a label for each model: its name; its words where models share a name; numbered where they share both."""
    labels = [name if names.count(name) == 1 else model.words for model, name in zip(models, names, strict=True)]
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: place + 1].count(label)}"
        for place, label in enumerate(labels)
    ]


def _recommended_gpus(model: "Model", terms: "PlanTerms", context: "PlanContext") -> "PlanContext":
    """Narrow the GPUs to those that the first model's plan recommends."""
    from capplan.app.plan import plan_at_batches
    from capplan.clock import today
    from capplan.core.plan.recommend import with_recommendations

    planned = with_recommendations(plan_at_batches(model, terms, context), on=today(), offers=context.offers)
    chosen = list({choice.fit.gpu.id: choice.fit.gpu for choice in planned.recommended}.values())
    if not chosen:
        return context
    note = f"No GPU was named: these are the ones that `capplan plan {model.words}` recommends."
    return replace(context, gpus=tuple(chosen), notes=(*context.notes, note))


def _left_out(question: CompareQuestion) -> tuple[str, ...]:
    """Return a note on formats of engines that are not compared under PyTorch."""
    frameworks = dict.fromkeys(question.frameworks)
    formats = [precision.value for precision in dict.fromkeys(question.precisions) if precision.needs_engine]
    others = [framework.value for framework in frameworks if not framework.is_engine]
    if not formats or not others or len(others) == len(frameworks):
        return ()
    needs, is_out = ("needs", "is") if len(formats) == 1 else ("need", "are")
    return (f"{' and '.join(formats)} {needs} an engine, and {is_out} left out under {' and '.join(others)}.",)


def _plans(model: "Model", asked: "Sequence[PlanTerms]", context: "PlanContext") -> "dict[Workload, Plan | str]":
    """Plan a model under each of the conditions; where it cannot be traced, the reason stands for the plan."""
    from capplan.app.plan import plan_at_batches

    plans: dict[Workload, Plan | str] = {}
    failure: TraceError | MissingRecordingError | None = None
    for terms in asked:
        try:
            plans[terms.workload] = plan_at_batches(model, terms, context)
        except (TraceError, MissingRecordingError) as error:
            failure = error
            plans[terms.workload] = str(error)
    if failure is not None and all(isinstance(plan, str) for plan in plans.values()):
        raise failure
    return plans


def _rows(
    label: str, workload: Workload, answer: "Plan | str", *, gpus: "Sequence[GpuSpec]", batches: Batches
) -> "list[ComparisonRow]":
    """Return the rows of one model under one set of conditions."""
    from capplan.core.plan.comparison import ComparisonRow

    if isinstance(answer, str):
        return [
            ComparisonRow(model=label, workload=workload, gpu=gpu, batch=batch, failure=answer)
            for gpu, batch in product(gpus, batches.sizes or (None,))
        ]
    fits = [ComparisonRow(model=label, workload=workload, gpu=fit.gpu, batch=fit.batch, fit=fit) for fit in answer.fits]
    return fits + [
        ComparisonRow(model=label, workload=workload, gpu=rejection.gpu, batch=rejection.batch, rejection=rejection)
        for rejection in answer.rejections
    ]


def _lines(answers: "Sequence[Comparison]", _question: CompareQuestion, look: Look) -> "list[Line]":
    from capplan.report.text.comparison import comparison_sections
    from capplan.report.text.styled import styled_lines

    return list(styled_lines(comparison_sections(answers[0]), width=look.width))


def _outcome(comparison: "Comparison") -> Outcome:
    """A model that fits under none of the conditions ends in exit code 1."""
    fitting = {row.model for row in comparison.fitting}
    return Outcome(exit_code=int(not all(model.label in fitting for model in comparison.models)))


COMPARE = Verb(
    path="compare",
    question=CompareQuestion,
    summary=(
        "Put models, precisions and frameworks side by side on the same GPUs and batches.\n\n"
        "Without ⟨gpu⟩, the GPUs are those that `capplan plan` recommends for the first model."
    ),
    examples=(
        "capplan compare resnet50 timm:convnext_tiny --gpu l4 --batch 32",
        "capplan compare resnet50 --gpu l4,a10 --batch 1,32 --precision fp32,amp-fp16,fp16 --framework eager "
        "--sort cost",
        "capplan compare resnet50.trace.json timm:vit_base_patch16_224 --gpu a100 --batch 32 --format csv -o rows.csv",
    ),
    answer=answer_compare,
    sections=laid_out_by("capplan.report.text.comparison:comparison_sections"),
    lines=_lines,
    document=laid_out_by("capplan.shapes.comparison:COMPARISON"),
    outcome=_outcome,
    schema="compare",
    returns="capplan.core.plan.comparison:Comparison",
)
