"""`report`: which GPUs to buy or rent for a load, as a page, PDF, workbook, Markdown, CSV or JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.workload import BatchChoice, Batches
from capplan.errors import UsageError
from capplan.verbs.constraints import ConstraintFields, admitting_as_stated
from capplan.verbs.pipelines import refuse_options_of_models
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb
from capplan.verbs.statement.fields import (
    MODEL_HELP,
    CurrencyFields,
    GpuFields,
    InputFields,
    LoadTree,
    ModelConfig,
    PipelineItemFields,
    Text,
    TimedFields,
    Title,
    UtilizationFields,
    batch_sizes,
)
from capplan.verbs.statement.options import HERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.app.models import ModelSource
    from capplan.app.procurement.build import Circumstances
    from capplan.core.gpus.machines import LocalCurrency
    from capplan.report.procurement.types import Report
    from capplan.shapes.types import PlanDocument
    from capplan.verbs.llm.report import LlmReportQuestion

EXTENSIONS = (".html", ".pdf", ".xlsx", ".md", ".csv", ".json")
"""The formats of a report, by the extension of the file that it is written to."""

_UP_TO_256 = Batches(choice=BatchChoice.LISTED, sizes=tuple(2**power for power in range(9)))


@dataclass(frozen=True, kw_only=True)
class _AskedFields:
    models: Annotated[
        tuple[Text, ...],
        Option(
            help=f"{MODEL_HELP} None where the load file lists services.", metavar="[MODEL...]", topic=Topic.MODEL,
            is_argument=True, completes="models",
        ),
    ] = ()  # fmt: skip
    config: ModelConfig = None
    batches: Annotated[Batches, batch_sizes("8, 1,8,32 or 1..1024 (powers of two), which are compared.")] = _UP_TO_256
    load: Annotated[
        Path | None,
        Option(
            help="What is asked: a service, a job or a training purchase.", metavar="LOAD.yaml", topic=Topic.LIMITS,
            doors=HERE,
        ),
    ] = None  # fmt: skip
    load_fields: LoadTree = None
    llm: Annotated[
        Path | None,
        Option(
            help="Serve a language model under this load: `capplan llm report`.", metavar="LOAD.yaml",
            doors=Door.COMMAND,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _EvidenceFields:
    prices: Annotated[
        tuple[Path, ...],
        Option(
            help="Own dated prices, laid over the built-in ones.", metavar="FILE.yaml", topic=Topic.PRICES,
            doors=HERE | Door.CONFIG,
        ),
    ] = ()  # fmt: skip
    measured: Annotated[
        tuple[Path, ...],
        Option(help="What `capplan measure` saved, to compare the estimates with.", metavar="FILE", doors=HERE),
    ] = ()
    title: Title = None
    usd_per_kwh: Annotated[
        float | None,
        Meta(ge=0.0, le=100.0),
        Option(
            help="What you pay for electricity, per kWh; by default that of the region, where it is known.",
            flags=("--tariff",), metavar="USD", topic=Topic.PRICES,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReportQuestion(
    _AskedFields, InputFields, PipelineItemFields, GpuFields, _EvidenceFields, TimedFields, ConstraintFields,
    CurrencyFields, UtilizationFields,
):  # fmt: skip
    """Which GPUs to buy or rent for a load, how many, what they cost, and how sure that is."""


BESIDE_LLM = ("gpus", "specs", "title")
"""What is read beside `--llm`, whose load file states all else."""


def of_served_model(question: ReportQuestion) -> "LlmReportQuestion":
    """Return the question of `llm report` that a question with `--llm` is another spelling of.

    Raises:
        UsageError: several models are named.
    """
    from capplan.verbs.llm.report import LlmReportQuestion

    if len(question.models) != 1:
        raise UsageError(f"--llm reports on one model, not {len(question.models)}; write one report for each.")
    named = {name: getattr(question, name) for name in BESIDE_LLM}
    return LlmReportQuestion(model=question.models[0], load=question.llm, **named)


def answer_report(question: ReportQuestion, context: Context) -> "Report":
    """Plan every model, unless its plan was saved, and answer the load.

    Args:
        question: the models, GPUs, conditions, load and prices.
        context: how the door finds models and GPUs.

    Raises:
        UsageError: there is no such model or GPU, no GPU is left, or a file does not hold what it must.
        TraceError: a model could not be traced.
    """
    from capplan.app.gpu_choice import find_gpus
    from capplan.app.plan import PlanTerms
    from capplan.app.priced_gpus import PriceFilters
    from capplan.app.report import (
        admitted_gpus,
        admitting,
        is_pipeline,
        known_prices,
        plans_of,
        powers_and,
        read_load,
        with_models,
        write_report,
    )  # fmt: skip
    from capplan.app.sweep.results import with_swept_models
    from capplan.core.plan.types import Limits
    from capplan.specs.fitted import load_power_law
    from capplan.verbs.pipelines import pipeline_request

    if question.batches.choice is not BatchChoice.LISTED:
        raise UsageError("a report compares listed batches; write --batch 32 or 1..256.")
    load = question.load
    if question.load_fields is not None:  # a service works in an empty folder of its own
        load = Path("load.yaml")
        load.write_text(json.dumps(question.load_fields), encoding="utf-8")
    named = [*question.models, *([""] if question.config is not None else [])]
    models, asked_gpus = with_swept_models(
        [_source(words, question, context) for words in named], context.gpus(question)
    )
    terms = PlanTerms(
        batches=powers_and(question.batches.sizes),
        workload=question.workload(question.default_precision()),
        limits=Limits(utilization_fraction=question.utilization_fraction),
        power_law=load_power_law(),
    )
    constraints, feedback = question.stated_constraints(), context.feedback
    pipeline, local = pipeline_request(question, context, terms.workload), question.local_currency()
    stated, known = admitting_as_stated(read_load(load), shown=str(load)), find_gpus(asked_gpus)
    prices = known_prices(known, stated, load=load, files=question.prices)
    stated = admitting(stated, constraints, gpus=known, prices=prices, usd_per_kwh=question.usd_per_kwh)
    filters = PriceFilters(only_priced=question.priced, max_usd_per_hour=question.max_usd_per_hour)
    gpus = admitted_gpus(known, prices, stated, filters)
    sources = with_models(stated, models, folder=load.parent if load else Path())
    of_pipelines = pipeline.settings or pipeline.part_settings or pipeline.offload
    if of_pipelines and not any(is_pipeline(source) for _, source in sources):
        raise UsageError("--set, --part and --offload describe a pipeline, and no model here is one; drop them.")
    narrows = asked_gpus.narrows or bool(filters)
    planned = [
        (service, plan)
        for service, source in sources
        for plan in plans_of(source, terms, gpus.chosen, pipeline=pipeline, narrows=narrows, feedback=feedback)
    ]
    circumstances = _circumstances(question, [plan for _, plan in planned], load, local, context)
    with feedback.progress("working out the report"):
        return write_report(planned, stated, gpus=gpus, prices=prices, circumstances=circumstances)


def _circumstances(
    question: ReportQuestion,
    plans: "Sequence[PlanDocument]",
    load: Path | None,
    local: "LocalCurrency | None",
    context: Context,
) -> "Circumstances":
    from capplan.app.procurement.build import Circumstances
    from capplan.app.report import read_measured
    from capplan.clock import moment
    from capplan.specs.fitted import load_power_law, load_price_drift
    from capplan.specs.rate_laws import load_rate_laws

    day, timestamp = moment()
    return Circumstances(
        today=day,
        timestamp=timestamp,
        command=context.command(REPORT, question),
        title=question.title or f"GPUs for {', '.join(plan.model.name for plan in plans)}",
        load_file=str(load) if load else None,
        largest_batches=tuple(sorted(question.batches.sizes)),
        measured=tuple(point for path in question.measured for point in read_measured(path)),
        drift=load_price_drift(),
        local=local,
        power_law=load_power_law(),
        data_parallel=load_rate_laws().data_parallel,
    )


def _source(words: str, question: ReportQuestion, context: Context) -> "ModelSource":
    """Return how a model is opened; a pipeline's parts are quantised where it is planned."""
    from capplan.app.pipelines.diffusers import names_pipeline
    from capplan.probe.inputs.grammar import ModelRequest

    named = replace(question.of(words), config=question.config)
    if not names_pipeline(words):
        return context.model(named)
    refuse_options_of_models(named)
    return ModelRequest(words=context.pipeline_words(words))


def _written(answers: "Sequence[Report]", _question: ReportQuestion, *, extension: str) -> str | bytes:
    from capplan.report.procurement.render import render_report

    return render_report(answers[0], extension)


def _outcome(report: "Report") -> Outcome:
    """Warn where no option carries the load; a model without any option ends in exit code 1."""
    lacks_choice = any(model.verdict.choice is None for model in report.models)
    warning = "warning: no option with a price carries the load of every model."
    return Outcome(
        exit_code=0 if all(model.options for model in report.models) else 1, warnings=(warning,) * lacks_choice
    )


def _for_service(question: ReportQuestion) -> ReportQuestion:
    """Put the content of a load file in the place of its name.

    Raises:
        UsageError: more than one model is named.
    """
    from capplan.specs.load import read_load_fields

    if len(question.models) != 1:
        raise UsageError("a service reports on one model at a time; name one.")
    if question.load is None:
        return question
    return replace(question, load=None, load_fields=dict(read_load_fields(question.load)))


_FILES: Mapping[str, Any] = {
    extension.removeprefix("."): partial(_written, extension=extension) for extension in EXTENSIONS
}

REPORT = Verb(
    path="report",
    question=ReportQuestion,
    summary=(
        "Recommend which GPUs to buy or rent, how many, what they cost, and how sure that is.\n\n"
        "MODEL may also be a plan that `capplan plan --format json` saved."
    ),
    examples=(
        "capplan report resnet50 --batch 1..64 --load service.yaml -o report.html -o report.xlsx",
        "capplan report resnet50.trace.json --gpu l4 --gpu a10 --load job.yaml -o report.pdf",
        "capplan report llama-3.1-70b-instruct --llm LOAD.yaml -o report.html",
    ),
    answer=answer_report,
    effort=Effort.LONG,
    files_in=_FILES,
    outcome=_outcome,
    for_service=_for_service,
    schema="report",
    returns="capplan.report.procurement.types:Report",
)
