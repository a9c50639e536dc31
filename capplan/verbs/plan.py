"""`plan`: which GPU fits a model at a batch, how fast it runs there, and what binds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.workload import BatchChoice, Batches, ModelSharding, SortKey
from capplan.verbs.llm.ways import WaysFields, compared_ways
from capplan.verbs.statement.contract import Context, Look, Outcome, Verb, drawn_by, laid_out_by
from capplan.verbs.statement.fields import (
    EVERYWHERE,
    ON_PAGE,
    CalibrationFields,
    CurrencyFields,
    DrawFields,
    GpuFields,
    JobFields,
    LaunchFilesFields,
    LimitFields,
    ModelFields,
    PipelineFields,
    PriceFields,
    StrictFields,
    TimedFields,
    batch_sizes,
    in_answer,
)
from capplan.verbs.statement.options import HERE, After, Door, Option, Topic
from capplan.verbs.statement.words import LOAD, checking_pictures

if TYPE_CHECKING:
    from capplan.app.plan import PlanContext
    from capplan.core.plan.types import Plan
    from capplan.core.scaling.load import WeekLoad
    from capplan.report.sections import Line


_AUTO = Batches(choice=BatchChoice.AUTO)


@dataclass(frozen=True, kw_only=True)
class PlanQuestion(
    ModelFields, PipelineFields, GpuFields, TimedFields, LimitFields, DrawFields, JobFields, CurrencyFields,
    PriceFields, StrictFields, CalibrationFields, WaysFields, LaunchFilesFields,
):  # fmt: skip
    """Which GPUs fit a model at a batch, how fast it runs there, and what it costs."""

    rate_per_s: Annotated[
        float | None,
        Meta(gt=0.0, le=1e15),
        Option(
            is_usual=True,
            help="A load in samples per second, such as 500/s: how many GPUs carry it, and what they cost.",
            flags=("--rate",), metavar="SAMPLES/S", topic=Topic.LIMITS, words=LOAD,
        ),
    ] = None  # fmt: skip
    measured: Annotated[
        tuple[Path, ...],
        Option(
            help="What `capplan measure` or `accept` saved of this model, beside the files of CAPPLAN_MEASURED.",
            metavar="FILE", doors=HERE,
        ),
    ] = ()  # fmt: skip
    everything: Annotated[
        bool,
        in_answer(
            "Show every GPU, with all columns and notes, not the short answer.",
            "--all",
            doors=Door.COMMAND,
            is_usual=True,
        ),
    ] = False
    top: Annotated[
        int | None,
        Meta(ge=1),
        Option(help="Show the first N GPUs in order of ⟨sort⟩.", metavar="N", topic=Topic.ANSWER, doors=Door.COMMAND),
    ] = None  # fmt: skip
    sort: Annotated[
        SortKey,
        Option(
            help=f"Rank by {', '.join(SortKey)}; memory puts the smallest GPU first, price the cheapest hour.",
            metavar="TEXT", topic=Topic.ANSWER, shows_default=True, doors=ON_PAGE, label="Order by",
            choice="sort key",
        ),
    ] = SortKey.THROUGHPUT  # fmt: skip
    batches: Annotated[
        Batches,
        After("ring"),
        batch_sizes(
            "8, 1,8,32, 1..1024 (powers of two), auto (the recommended batch), or max.", doors=EVERYWHERE | Door.SWEEP
        ),
    ] = _AUTO
    gpu_count: Annotated[
        int,
        Meta(ge=1, le=64),
        Option(
            help="GPUs of one machine that train together, each with a batch of its own; with ⟨train⟩.",
            flags=("--gpus",), metavar="N", topic=Topic.TRAINING, shows_default=True,
        ),
    ] = 1  # fmt: skip
    sharding: Annotated[
        ModelSharding,
        Option(
            help="What they share: ddp sums gradients, zero1 spreads optimizer states, zero2 gradients too, zero3 and "
            "fsdp the weights as well; with ⟨train⟩ and ⟨gpus⟩.",
            topic=Topic.TRAINING, shows_default=True,
        ),
    ] = ModelSharding.DDP  # fmt: skip


def answer_plan(question: PlanQuestion, context: Context) -> "Plan":
    """Return the plan that answers a question.

    Raises:
        UsageError: no such model or GPU; or batches must be listed for a model that does not scale with the batch.
        TraceError: the model could not be traced, or is refused by `strict`.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    return plan_over(question, context, question.stated_week(question.rate_per_s))


def plan_over(
    question: PlanQuestion, context: Context, week: "WeekLoad | None", shared: "PlanContext | None" = None
) -> "Plan":
    """Return a plan, with ways to serve the load of a week where one is given; `shared` are other GPUs and prices."""
    from capplan.app.measure.store import read_measurements
    from capplan.app.plan import PlanContext, PlanTerms
    from capplan.specs.folders import own_measured
    from capplan.verbs.pipelines import open_asked

    if week is not None:
        question = replace(question, rate_per_s=week.peak_per_s)
    shared = shared or PlanContext.of(
        context.gpus(question), question.price_filters(), calibration=question.calibration, feedback=context.feedback
    )
    files = (*own_measured("*.jsonl"), *question.measured)
    terms = PlanTerms(
        batches=question.batches,
        workload=replace(
            question.workload(question.default_precision()), gpu_count=question.gpu_count, sharding=question.sharding
        ),
        limits=replace(question.limits(question.rate_per_s), max_power_draw_w=question.max_power_draw_w),
        sort=question.sort,
        power_law=question.power_law(needed=question.sort is SortKey.ENERGY),
        measured=tuple(point for path in files for point in read_measurements(path).measurements),
    )
    opened = open_asked(question, context, terms.workload, shared)
    found = opened.advised(opened.plan(terms), terms)
    if week is not None and found.fits:
        from capplan.core.plan.ways import replicas_of
        from capplan.core.scaling.answer import Way, unknown_way
        from capplan.verbs.llm.start import start_of_weights

        replicas = replicas_of(
            found, shared.rents, lambda fit: start_of_weights(question, fit.memory.weight_bytes, fit.gpus_together)
        )
        api = unknown_way(Way.API, "no price of an API is known of this model")
        notes = ["A start is that of an engine's processes and of the weights, without a compiler."]
        if question.max_latency_s is None:
            notes.append("No limit was asked: ⟨max-latency⟩ states one.")
        found = replace(found, ways=compared_ways(question, replicas, week, api=api, notes=tuple(notes)))
    return replace(found, job=question.job(), local=question.local_currency())


def _short_answers(plans: "Sequence[Plan]", question: PlanQuestion, look: Look) -> "list[Line] | None":
    from capplan.report.text.answer import answer_lines

    if question.everything or question.compare_ways:
        return None
    lines: list[Line] = []
    for plan in plans:
        if plan.pipeline is not None:
            from capplan.report.text.pipelines import pipeline_lines

            lines += [(), *pipeline_lines(plan, width=look.width, top=question.top)]
        else:
            lines += [(), *answer_lines(plan, width=look.width, top=question.top)]
    return lines[1:]


def _outcome(plan: "Plan") -> Outcome:
    """Warn where every fit is borderline; a model that fits nowhere ends in exit code 1."""
    from capplan.core.memory.types import FitStatus

    is_borderline = bool(plan.fits) and all(fit.status is FitStatus.BORDERLINE for fit in plan.fits)
    warning = f"warning: {plan.model.name}: every fit is borderline; its interval straddles a limit."
    return Outcome(exit_code=0 if plan.fits else 1, warnings=(warning,) if is_borderline else ())


def _files(plans: "Sequence[Plan]", question: PlanQuestion) -> Mapping[Path, bytes]:
    """Return the files that start the recommended GPUs, where they are asked for; those of several models by name."""
    from capplan.core.launch_files import label
    from capplan.core.plan.launch_files import model_files
    from capplan.specs.shipped import LAUNCH_FORMS

    drawn: Mapping[Path, bytes] = drawn_by(plot="capplan.report.text.ways:ways_chart", part="ways")(plans, question)
    if question.launch_files is None:
        return drawn
    forms, files = LAUNCH_FORMS.load(), dict[str, str]()
    for plan in plans:
        before = f"{label(plan.model.name)}-" if len(plans) > 1 else ""
        files |= {before + name: text for name, text in model_files(plan, forms).items()}
    return {**drawn, **question.in_folder(files)}


PLAN = Verb(
    path="plan",
    question=PlanQuestion,
    summary="Find the GPUs that fit a model, how fast it runs there and what binds it.",
    take_it="Take it to choose a GPU for a PyTorch model, with `train` for its training; for GPUs that are chosen "
    "already take `memory` or `estimate`, for served language models `llm_plan`.",
    verdict=("recommended", "offer_cautions", "cautions", "shortlist", "changes", "notes"),
    examples=(
        "capplan plan resnet50 --batch 32",
        "capplan plan timm:vit_base_patch16_224 --batch 1,8,32 --precision fp16 --gpu l4 --max-latency 50ms",
        "capplan plan hf:path/to/config.json --seq-len 128 --batch 32 --format json -o plan.json",
    ),
    answer=answer_plan,
    defer_hints=True,
    sections=laid_out_by("capplan.report.text.plan:plan_sections", of_all=True),
    document=laid_out_by("capplan.shapes.plan:plan_documents", of_all=True),
    lines=_short_answers,
    files=_files,
    finalize=checking_pictures("plot"),
    outcome=_outcome,
    takes_several=True,
    schema="plan",
    returns="capplan.core.plan.types:Plan",
)
