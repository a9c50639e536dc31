"""`report`: which GPUs to buy or rent for a load, as a page, PDF, workbook, Markdown, CSV or JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard

from msgspec import Meta

from capplan.core.named_code import code_refusal
from capplan.core.workload import BatchChoice, Batches
from capplan.errors import UsageError
from capplan.verbs.constraints import ConstraintFields, admitting_as_stated
from capplan.verbs.llm.ways import MachineStartFields
from capplan.verbs.pipelines import refuse_options_of_models
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb, report_files
from capplan.verbs.statement.fields import (
    MODEL_HELP,
    CurrencyFields,
    Everything,
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
from capplan.verbs.statement.options import HERE, After, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.app.feedback import Feedback
    from capplan.app.gpu_choice import GpuChoice
    from capplan.app.models import ModelSource
    from capplan.app.pipelines.answer import PipelineRequest
    from capplan.app.plan import PlanTerms
    from capplan.app.procurement.build import Circumstances
    from capplan.core.gpus.machines import LocalCurrency
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.scaling.answer import ServingWays
    from capplan.probe.inputs.grammar import ModelRequest
    from capplan.report.procurement.types import Report
    from capplan.shapes.types import Measured, PlanDocument
    from capplan.specs.load import LoadFile, NamedLoad
    from capplan.specs.prices import Prices
    from capplan.verbs.llm.report import LlmReportQuestion

_UP_TO_256 = Batches(choice=BatchChoice.LISTED, sizes=tuple(2**power for power in range(9)))


@dataclass(frozen=True, kw_only=True)
class ReportQuestion(
    MachineStartFields, InputFields, PipelineItemFields, GpuFields, TimedFields, ConstraintFields, CurrencyFields,
    UtilizationFields,
):  # fmt: skip
    """Which GPUs to buy or rent for a load, how many, what they cost, and how sure that is."""

    models: Annotated[
        tuple[Text, ...], After(""),
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
            is_usual=True,
            help="What is asked: a service, a job or a training purchase.", metavar="LOAD.yaml", topic=Topic.LIMITS,
            doors=HERE,
        ),
    ] = None  # fmt: skip
    load_fields: LoadTree = None
    llm: Annotated[
        Path | None,
        Option(
            is_usual=True, help="Serve a language model under this load: `capplan llm report`.", metavar="LOAD.yaml",
            doors=Door.COMMAND,
        ),
    ] = None  # fmt: skip
    compare_ways: Annotated[
        bool,
        Option(
            help="Compare a fleet that stands, one that scales, GPUs by the second and an API over the hours of a "
            "service, as a section.",
            topic=Topic.LIMITS, doors=Door.COMMAND | Door.PYTHON | Door.HTTP,
        ),
    ] = False  # fmt: skip
    prices: Annotated[
        tuple[Path, ...], After("with_cpus"),
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
    everything: Everything = False
    wait_for: Annotated[
        str | None,
        Meta(min_length=1, max_length=100),
        Option(
            help="Compare with waiting for this GPU, which is not sold yet; rented at USD an hour, or at a range.",
            metavar="GPU[=USD][@WHEN]", topic=Topic.PRICES,
        ),
    ] = None  # fmt: skip
    usd_per_kwh: Annotated[
        float | None,
        Meta(ge=0.0, le=100.0),
        Option(
            help="What you pay for electricity, per kWh; by default that of the region, where it is known.",
            flags=("--tariff",), metavar="USD", topic=Topic.PRICES,
        ),
    ] = None  # fmt: skip


BESIDE_LLM = ("gpus", "specs", "title")
"""What is read beside `--llm`, whose load file states all else."""


def of_served_model(question: ReportQuestion) -> "LlmReportQuestion":
    """Return the question of `llm report` that a question with `--llm` is another form of."""
    from capplan.verbs.llm.report import LlmReportQuestion

    if len(question.models) != 1:
        raise UsageError(f"⟨llm⟩ reports on one model, not {len(question.models)}; write one report for each.")
    named = {name: getattr(question, name) for name in BESIDE_LLM}
    return LlmReportQuestion(model=question.models[0], load=question.llm, **named)


def answer_report(question: ReportQuestion, context: Context) -> "Report":
    """Plan every model, unless its plan was saved, and answer the load.

    Raises:
        UsageError: there is no such model or GPU, no GPU is left, or a file does not hold what it must.
        TraceError: a model could not be traced.
    """
    from capplan.app.gpu_choice import PriceFilters, find_gpus
    from capplan.app.procurement.build import write_report
    from capplan.app.procurement.constraints import admitted_gpus, admitting
    from capplan.app.procurement.wait import asked_wait
    from capplan.app.sweep.results import with_swept_models
    from capplan.specs.load import LoadFile, NamedLoad, demand_without_load, read_load_file
    from capplan.verbs.pipelines import pipeline_request

    if question.states_start and not question.compare_ways:
        raise UsageError("how a replica starts is for ⟨compare-ways⟩; add it.")
    if question.batches.choice is not BatchChoice.LISTED:
        raise UsageError("a report compares listed batches; write ⟨batch⟩ 32 or 1..256.")
    load = question.load
    if question.load_fields is not None:  # a service works in an empty folder of its own
        load = Path("load.yaml")
        load.write_text(json.dumps(question.load_fields), encoding="utf-8")
    named = [*question.models, *([""] if question.config is not None else [])]
    models, asked_gpus = with_swept_models(
        [_source(words, question, context) for words in named], context.gpus(question), allow_code=question.allow_code
    )
    terms = _terms(question)
    constraints, feedback = question.stated_constraints(), context.feedback
    pipeline = pipeline_request(question, context, terms.workload)
    alone = NamedLoad(name="", model=None, demand=demand_without_load())
    stated = admitting_as_stated(read_load_file(load) if load else LoadFile(loads=(alone,)), shown=str(load))
    known = find_gpus(asked_gpus)
    prices = _known_prices(question, known, stated, load)
    stated = admitting(stated, constraints, gpus=known, prices=prices, usd_per_kwh=question.usd_per_kwh)
    admitted = frozenset[str]().union(*(load.demand.constraints.allow.regions for load in stated.loads))
    local = replace(question, regions=tuple(sorted(admitted))).local_currency()
    filters = PriceFilters(only_priced=question.priced, max_usd_per_hour=question.max_usd_per_hour)
    gpus = admitted_gpus(known, prices, stated, filters)
    wait_for = asked_wait(question.wait_for, known.known) if question.wait_for is not None else None
    planned_gpus = tuple({gpu.id: gpu for gpu in (*gpus.chosen, *([wait_for.gpu] if wait_for else []))}.values())
    sources = _with_models(stated, models, folder=load.parent if load else Path(), allow_code=question.allow_code)
    of_pipelines = pipeline.settings or pipeline.part_settings or pipeline.offload
    if of_pipelines and not any(_is_pipeline(source) for _, source in sources):
        raise UsageError("⟨set⟩, ⟨part⟩ and ⟨offload⟩ describe a pipeline, and no model here is one; drop them.")
    narrows = asked_gpus.narrows or bool(filters)
    planned = [
        (service, plan)
        for service, source in sources
        for plan in _plans_of(source, terms, planned_gpus, pipeline=pipeline, narrows=narrows, feedback=feedback)
    ]
    circumstances = replace(
        _circumstances(question, [plan for _, plan in planned], load, local, context),
        wait_for=wait_for,
        ways=_ways(question, sources, context, gpus=gpus.chosen, prices=prices) if question.compare_ways else {},
    )
    with feedback.progress("working out the report"):
        return write_report(planned, stated, gpus=known.known, prices=prices, circumstances=circumstances)


def _terms(question: ReportQuestion) -> "PlanTerms":
    """Return how the models are planned: every power of two below, so that batches between can be interpolated."""
    from capplan.app.measure.store import read_measurements
    from capplan.app.plan import PlanTerms
    from capplan.core.plan.types import Limits
    from capplan.specs.fitted import load_power_law
    from capplan.specs.folders import own_measured

    sizes = question.batches.sizes
    powers = {2**power for power in range(max(sizes).bit_length())}
    return PlanTerms(
        batches=Batches(choice=BatchChoice.LISTED, sizes=tuple(sorted(powers | set(sizes)))),
        workload=question.workload(question.default_precision()),
        limits=Limits(utilization_fraction=question.utilization_fraction),
        power_law=load_power_law(),
        measured=tuple(point for path in own_measured("*.jsonl") for point in read_measurements(path).measurements),
    )


def _known_prices(question: ReportQuestion, gpus: "GpuChoice", stated: "LoadFile", load: Path | None) -> "Prices":
    """Return the built-in prices under those of the load file, and both under those of price files."""
    from capplan.specs.prices import load_price_file, read_price_section

    prices = gpus.prices()
    for index, section in enumerate(stated.prices):
        shown = f"{load}: prices[{index}]"
        prices = prices.with_own(read_price_section(section, gpus.known, shown=shown, origin=str(load)))
    for path in question.prices:
        prices = prices.with_own(load_price_file(path, gpus.known))
    return prices


def _with_models(
    stated: "LoadFile", models: "Sequence[ModelSource]", *, folder: Path, allow_code: bool
) -> "list[tuple[NamedLoad, ModelSource]]":
    """Pair every load with its model: the file's for services, else those of the question."""
    from capplan.probe.inputs.grammar import ModelRequest

    if stated.loads[0].model is None:
        if not models:
            raise UsageError("name a model, or list services with their models in the load file.")
        return [(stated.loads[0], model) for model in models]
    if models:
        raise UsageError("the load file lists services with their models; name no model on the command line.")

    def beside(words: str) -> str:
        """Return a file's path as seen from the load file, where there is such a file."""
        path = folder / words
        return str(path) if ":" not in words and path.is_file() else words

    named: list[tuple[NamedLoad, ModelSource]] = []
    for load in stated.loads:
        request = ModelRequest(words=beside(load.model or ""))
        if request.names_code and not allow_code:
            raise UsageError(f"service {load.name}: {code_refusal(f'the model {request.words[:120]!r}')}.")
        named.append((load, request))
    return named


def _ways(
    question: ReportQuestion, sources: "Sequence[tuple[NamedLoad, ModelSource]]", context: Context, *,
    gpus: "Sequence[GpuSpec]", prices: "Prices",
) -> "dict[str, ServingWays]":  # fmt: skip
    """Return the ways to serve each service, by its name, or its model's where it has none: each planned for its peak.

    A service without hours is taken to have its peak all week. The GPUs and prices are those that its load admits.
    """
    from capplan.app.gpu_choice import GpuRequest
    from capplan.app.plan import PlanContext
    from capplan.app.procurement.serving import Buyer
    from capplan.core.scaling.load import HOURS_PER_WEEK, WeekLoad
    from capplan.core.serving.load import Service
    from capplan.probe.inputs.grammar import ModelRequest
    from capplan.verbs.plan import PlanQuestion, plan_over

    theirs = {"model", "batches", "everything", "compare_ways", "measured"}
    shared = [field.name for field in fields(PlanQuestion) if hasattr(question, field.name)]
    beside = {name: getattr(question, name) for name in shared if name not in theirs}
    found = {}
    for named, source in sources:
        load = named.demand.load
        if not isinstance(load, Service) or not isinstance(source, ModelRequest) or _read_plans(source.words):
            raise UsageError("⟨compare-ways⟩ is of a service in ⟨load⟩ whose model is named, not of a saved plan.")
        hours = load.weekly_per_s or (load.peak_per_s,)
        week = WeekLoad(hourly_per_s=(hours * HOURS_PER_WEEK)[:HOURS_PER_WEEK])
        asked = PlanQuestion(model=source.words, max_latency_s=load.latency_limit_s, compare_ways=True, **beside)
        buyer = Buyer(admitted=named.demand.constraints)
        planned = PlanContext.of(GpuRequest(specs=tuple(filter(buyer.considers, gpus))), feedback=context.feedback)
        plan = plan_over(asked, context, week, replace(planned, rents=buyer.searched(prices).to_plan_with))
        if plan.ways is not None:
            found[named.name or plan.model.name] = plan.ways
    return found


def _is_pipeline(source: "ModelSource") -> "TypeGuard[ModelRequest]":
    """Return True if words name a pipeline, whose parts are traced where it is planned."""
    from capplan.app.pipelines.diffusers import names_pipeline
    from capplan.probe.inputs.grammar import ModelRequest

    return isinstance(source, ModelRequest) and names_pipeline(source.words)


def _plans_of(
    source: "ModelSource", terms: "PlanTerms", gpus: "Sequence[GpuSpec]", *, pipeline: "PipelineRequest",
    narrows: bool, feedback: "Feedback",
) -> "list[PlanDocument]":  # fmt: skip
    """Return a model's plans, from a file that `capplan plan` saved or by planning it."""
    import msgspec

    from capplan.app.models import QuantisedSource
    from capplan.probe.inputs.grammar import ModelRequest
    from capplan.shapes.plan import read_plan

    plain = source.source if isinstance(source, QuantisedSource) else source
    words = plain.words if isinstance(plain, ModelRequest) else plain.name
    documents = _read_plans(words) if isinstance(source, ModelRequest) else None
    if documents is None:
        plans = [_plan(source, terms, tuple(gpus), pipeline, feedback)]
    else:
        plans = [read_plan(document, where=words) for document in documents]
    if any(plan.pipeline is not None and plan.pipeline.gpu_count > 1 for plan in plans):
        raise UsageError(
            f"{words}: a report counts servers of single GPUs; plan it without ⟨ulysses⟩, ⟨ring⟩ and another GPU."
        )
    if not narrows:
        return plans
    chosen = {gpu.id for gpu in gpus}
    return [
        msgspec.structs.replace(
            plan,
            fits=tuple(fit for fit in plan.fits if fit.gpu in chosen),
            rejections=tuple(rejection for rejection in plan.rejections if rejection.gpu in chosen),
        )
        for plan in plans
    ]


def _plan(
    source: "ModelSource", terms: "PlanTerms", gpus: "tuple[GpuSpec, ...]", pipeline: "PipelineRequest",
    feedback: "Feedback",
) -> "PlanDocument":  # fmt: skip
    from capplan.app.gpu_choice import GpuRequest
    from capplan.app.models import open_model
    from capplan.app.pipelines.answer import OpenedPipeline
    from capplan.app.plan import PlanContext, plan_at_batches
    from capplan.shapes.plan import plan_document
    from capplan.specs.calibration import load_calibration, load_memory_calibration

    if _is_pipeline(source):
        context = PlanContext.of(GpuRequest(specs=gpus), feedback=feedback)
        opened = OpenedPipeline.of(replace(pipeline, words=source.words), context)
        return plan_document(opened.advised(opened.plan(terms), terms))
    model = open_model(source, feedback=feedback)
    context = PlanContext(
        gpus=gpus, calibration=load_calibration(), memory_calibration=load_memory_calibration(), feedback=feedback
    )
    return plan_document(plan_at_batches(model, terms, context))


def _read_plans(words: str) -> list[Any] | None:
    """Read the plans of a file that `capplan plan` saved; None where the words name no such file."""
    from capplan.files import read_json

    if not words.endswith(".json") or words.endswith(".trace.json") or ":" in words:
        return None
    document = read_json(words)
    if isinstance(document, dict) and "fits" in document:
        return [document]
    if isinstance(document, list) and document and all(isinstance(plan, dict) and "fits" in plan for plan in document):
        return document
    return None


def _read_measured(path: Path) -> "list[Measured]":
    """Read what was timed on GPUs that the database knows."""
    from capplan.app.measure.store import read_measurements
    from capplan.shapes.procurement import MEASURED

    points = read_measurements(path).measurements
    return [MEASURED.document(point) for point in points if point.device.gpu is not None]


def _circumstances(
    question: ReportQuestion, plans: "Sequence[PlanDocument]", load: Path | None, local: "LocalCurrency | None",
    context: Context,
) -> "Circumstances":  # fmt: skip
    from capplan.app.procurement.build import Circumstances
    from capplan.clock import moment
    from capplan.specs.fitted import load_power_law, load_price_drift
    from capplan.specs.rate_laws import load_rate_laws

    day, timestamp = moment()
    return Circumstances(
        today=day, timestamp=timestamp, command=context.command(REPORT, question),
        title=question.title or f"GPUs for {', '.join(plan.model.name for plan in plans)}",
        load_file=str(load) if load else None,
        largest_batches=tuple(sorted(question.batches.sizes)),
        measured=tuple(point for path in question.measured for point in _read_measured(path)),
        drift=load_price_drift(), local=local, power_law=load_power_law(),
        data_parallel=load_rate_laws().data_parallel,
    )  # fmt: skip


def _source(words: str, question: ReportQuestion, context: Context) -> "ModelSource":
    """Return how a model is opened; a pipeline's parts are quantised where it is planned."""
    from capplan.app.pipelines.diffusers import names_pipeline
    from capplan.probe.inputs.grammar import ModelRequest

    named = replace(question.of(words), config=question.config)
    if not names_pipeline(words):
        return context.model(named)
    refuse_options_of_models(named)
    return ModelRequest(words=context.pipeline_words(words))


def _written(answers: "Sequence[Report]", question: ReportQuestion, *, extension: str) -> str | bytes:
    from capplan.report.procurement.render import render_report

    return render_report(answers[0], extension, everything=question.everything)


def _outcome(report: "Report") -> Outcome:
    """Warn where no option may be recommended; that ends in exit code 1 unless no option has a price at all."""
    lacks_choice = any(model.verdict.choice is None for model in report.models)
    refused = any(model.refuses_all for model in report.models)
    warning = "warning: no option with a price carries the load of every model."
    return Outcome(exit_code=int(refused), warnings=(warning,) * lacks_choice)


def _for_service(question: ReportQuestion) -> ReportQuestion:
    """Replace the name of a load file by its content."""
    from capplan.specs.load import read_load_fields

    if len(question.models) != 1:
        raise UsageError("a service reports on one model at a time; name one.")
    if question.load is None:
        return question
    return replace(question, load=None, load_fields=dict(read_load_fields(question.load)))


REPORT = Verb(
    path="report",
    question=ReportQuestion,
    summary=(
        "Recommend which GPUs to buy or rent, how many, what they cost, and how sure that is.\n\n"
        "MODEL may also be a plan that `capplan plan --format json` saved."
    ),
    verdict=("recommendation",),
    examples=(
        "capplan report resnet50 --batch 1..64 --load service.yaml -o report.html -o report.xlsx",
        "capplan report resnet50.trace.json --gpu l4 --gpu a10 --load job.yaml -o report.pdf",
        "capplan report llama-3.1-70b-instruct --llm LOAD.yaml -o report.html",
    ),
    answer=answer_report,
    effort=Effort.LONG,
    files_in=report_files(_written),
    outcome=_outcome,
    for_service=_for_service,
    schema="report",
    returns="capplan.report.procurement.types:Report",
)
