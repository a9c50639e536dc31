"""`estimate`: how fast a model runs on a GPU over batch sizes, what binds it, and what would help."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.workload import BatchChoice, Batches
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Verb
from capplan.verbs.statement.fields import (
    EVERYWHERE,
    CalibrationFields,
    EnergyFields,
    GpuFields,
    ModelFields,
    PipelineFields,
    PriceFields,
    TimedFields,
)
from capplan.verbs.statement.options import ANYWHERE, Door, Option, Topic
from capplan.verbs.statement.words import BATCHES, PLOT, checking_pictures, pictures

if TYPE_CHECKING:
    from capplan.app.estimate import EstimateAnswer
    from capplan.core.plan.types import Plan
    from capplan.report.charts.look import Drawing
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class _EstimatedBatchFields:
    batches: Annotated[
        Batches | None,
        Option(
            help="8, 1,8,32 or 1..64 (powers of two); 1..1024, or what a file is fixed to.", flags=("--batch", "-b"),
            words=BATCHES, metavar="SIZES", topic=Topic.WORKLOAD, doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EstimateQuestion(
    ModelFields, PipelineFields, _EstimatedBatchFields, GpuFields, TimedFields, PriceFields, CalibrationFields,
    EnergyFields,
):  # fmt: skip
    """Latency and throughput of a model over batch sizes, with intervals, the knee and what binds."""

    gain_fraction: Annotated[
        float,
        Meta(ge=0.0, le=1.0),
        Option(help="The knee: doubling gains less than this.", flags=("--gain",), shows_default=True),
    ] = 0.10
    explain: Annotated[
        bool,
        Option(help="Write out the arithmetic at the largest batch.", topic=Topic.ANSWER, doors=Door.COMMAND),
    ] = False
    compare_frameworks: Annotated[
        bool, Option(help="Set eager, compiled, layouts and precisions side by side.", topic=Topic.ANSWER)
    ] = False
    top: Annotated[
        int,
        Meta(ge=0),
        Option(
            help="How many of the costliest kernels and modules to list.", topic=Topic.ANSWER, shows_default=True,
            doors=ANYWHERE & ~Door.PYTHON,
        ),
    ] = 20  # fmt: skip
    plot: Annotated[
        Path | None,
        Option(
            help="Plot the curves; of a pipeline, its parts over time.",
            metavar=PLOT,
            topic=Topic.ANSWER,
            doors=Door.COMMAND,
        ),
    ] = None
    roofline: Annotated[
        Path | None, Option(help="Plot the roofline.", metavar=PLOT, topic=Topic.ANSWER, doors=Door.COMMAND)
    ] = None


def answer_estimate(question: EstimateQuestion, context: Context) -> "EstimateAnswer | Plan":
    """Return curves, breakdowns, bounds and advice for a model on each GPU.

    Args:
        question: the model, GPUs, batches and conditions.
        context: how the door finds models and GPUs.

    Raises:
        UsageError: there is no such model or GPU; a GPU cannot run the workload; or batches are not listed.
        TraceError: the model could not be traced.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    from capplan.app.estimate import estimate
    from capplan.app.pipelines.diffusers import names_pipeline
    from capplan.app.plan import PlanTerms
    from capplan.app.priced_gpus import find_priced_gpus

    filters = question.price_filters()
    if not context.names_gpus(question) and not filters:
        raise UsageError(
            "estimate needs GPUs, such as --gpu l4 or --gpu t4,l4; `capplan plan` answers for all of them."
        )
    if question.batches is not None and question.batches.choice is not BatchChoice.LISTED:
        raise UsageError("estimate needs batches, such as --batch 1..1024; `capplan plan` finds the largest that fits.")
    if names_pipeline(question.model):
        return _pipeline_estimate(question, context)
    question.refuse_pipeline_options(question.model)
    source, gpus = context.model(question), context.gpus(question)
    terms = PlanTerms(
        batches=question.batches or Batches(choice=BatchChoice.AUTO),
        workload=question.workload(question.default_precision()),
        power_law=question.power_law(),
    )
    return estimate(
        source,
        terms,
        find_priced_gpus(gpus, filters),
        calibration=question.calibration,
        gain_fraction=question.gain_fraction,
        compares_frameworks=question.compare_frameworks,
        feedback=context.feedback,
    )


def _pipeline_estimate(question: EstimateQuestion, context: Context) -> "Plan":
    """Return the times of a pipeline's items over batches, with its weights where they fit."""
    from capplan.app.pipelines.answer import plan_pipeline
    from capplan.app.plan import PlanContext, PlanTerms
    from capplan.core.workload import SortKey
    from capplan.verbs.pipelines import pipeline_request

    if question.roofline is not None:
        raise UsageError("--roofline draws the kernels of a model; --plot draws a pipeline's parts over time.")
    workload = question.workload(question.default_precision())
    batches = question.batches or Batches(choice=BatchChoice.LISTED, sizes=(1, 2, 4, 8))
    shared = PlanContext.of(
        context.gpus(question), question.price_filters(), calibration=question.calibration, feedback=context.feedback
    )
    terms = PlanTerms(batches=batches, workload=workload, sort=SortKey.NAME, power_law=question.power_law())
    return plan_pipeline(pipeline_request(question, context, workload), terms, shared)


def _sections(answers: "Sequence[EstimateAnswer | Plan]", question: EstimateQuestion) -> "Iterable[Section]":
    from capplan.core.plan.types import Plan
    from capplan.report.text.estimate import estimate_sections

    answer = answers[0]
    if isinstance(answer, Plan):
        from capplan.report.text.plan import plan_sections

        return plan_sections([answer])
    return estimate_sections(
        answer.reports,
        top=question.top,
        explain=question.explain,
        calibration=answer.calibration,
        compared=answer.compared,
    )


def _document(answers: "Sequence[EstimateAnswer | Plan]", question: EstimateQuestion) -> Any:
    from capplan.core.plan.types import Plan
    from capplan.report.documents.estimate import estimate_document

    answer = answers[0]
    if isinstance(answer, Plan):
        from capplan.shapes.plan import plan_document

        return plan_document(answer)
    return estimate_document(answer.reports, top=question.top, compared=answer.compared)


def _files(answers: "Sequence[EstimateAnswer | Plan]", question: EstimateQuestion) -> Mapping[Path, bytes]:
    from capplan.core.plan.types import Plan

    answer = answers[0]
    if isinstance(answer, Plan):
        return {} if question.plot is None or not answer.fits else pictures({question.plot: _timeline(answer)})
    if question.plot is None and question.roofline is None:
        return {}
    from capplan.report.charts.plots import curve_chart, roofline_chart

    drawn = ((question.plot, curve_chart), (question.roofline, roofline_chart))
    return pictures({path: draw(answer.reports) for path, draw in drawn if path is not None})


def _timeline(plan: "Plan") -> "Drawing":
    """Return the chart of a pipeline's parts over time, on the recommended GPU."""
    from capplan.core.memory.fit import available_memory
    from capplan.report.charts.plots import timeline_chart

    fit = plan.best() or plan.fits[0]
    return timeline_chart(
        fit.parts,
        title=f"{plan.model.name}, batch {fit.batch} on {fit.gpu.id}",
        usable_bytes=available_memory(fit.gpu, utilization_fraction=plan.limits.utilization_fraction).expected,
    )


ESTIMATE = Verb(
    path="estimate",
    question=EstimateQuestion,
    summary="Estimate latency and throughput over batch sizes, with intervals, the knee and what binds.",
    examples=(
        "capplan estimate resnet50 --gpu rtx-4090 --precision amp-fp16",
        "capplan estimate resnet50.trace.json --gpu l4 --batch 1..256 --explain",
        "capplan estimate resnet50 --where 'memory >= 24 GiB' --provider aws --max-price 2 --batch 32",
    ),
    answer=answer_estimate,
    settle=checking_pictures("plot", "roofline"),
    sections=_sections,
    document=_document,
    files=_files,
    schema="estimate",
    returns="capplan.app.estimate:EstimateAnswer",
)
