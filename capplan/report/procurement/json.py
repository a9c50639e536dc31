"""Reports as documents: every value of the report object under its own name, units in the names."""

from dataclasses import replace
from typing import Any, Final, Literal, Union

from msgspec import UNSET, Struct, structs

from capplan.core.economics.constraints import Constraints, NameLists, ReportLoad
from capplan.core.economics.decide import LEADING, MORE_EXPENSIVE
from capplan.core.gpus.prices import Term
from capplan.core.serving.load import Job, OneGpu, Service, TrainingPurchase
from capplan.llm.core.fleet.money import ServingReport
from capplan.report.procurement.types import REPORT_SCHEMA_VERSION, ModelReport, Report
from capplan.shapes.codec import as_tagged, tagged, to_plain
from capplan.shapes.common import VERSIONED
from capplan.shapes.llm_fleet import VARIATION
from capplan.shapes.llm_plan import LLM_PLAN
from capplan.shapes.llm_serving import SIMULATION
from capplan.shapes.shape import Shape, figure, reads
from capplan.shapes.ways import WAYS

_LOADS = {kind: tagged(kind, tag_field="kind", suffix="Load") for kind in (Service, Job, TrainingPurchase, OneGpu)}


def _load(demand: ReportLoad) -> Struct:
    return as_tagged(demand.load, _LOADS[type(demand.load)])


def _sorted(name: str, kind: Any = str) -> Any:
    return reads(tuple[kind, ...], lambda lists: tuple(sorted(getattr(lists, name))))


_NAME_LISTS: Final = Shape("NameListsDocument", NameLists, NameLists.__doc__ or "", tuple(
    figure(name, _sorted(name)) for name in ("providers", "regions", "gpus", "segments")
))  # fmt: skip
_CONSTRAINTS: Final = Shape(
    "ConstraintsDocument", Constraints, "What may be recommended, and caps on what it may cost and take.", (
    figure("terms", _sorted("terms", Term)),
    figure("allow", _NAME_LISTS),
    figure("deny", _NAME_LISTS),
    *map(figure, ("marketplaces", "max_capex_usd", "max_usd_per_year", "max_power_w", "max_rack_units",
                  "certainty_fraction", "max_price_age_days", "any_vendor")),
))  # fmt: skip
_DEMAND: Final = Shape(
    "DemandDocument", ReportLoad,
    "What a report answers: the load, the cost assumptions as numbers, and each one's range and source.", (
    figure("load", reads(Union[tuple(_LOADS.values())], _load)),  # noqa: UP007  # of types that are made
    figure("money"),
    figure("assumptions"),
    figure("constraints", _CONSTRAINTS),
))  # fmt: skip
_MODEL: Final = Shape("ModelReportDocument", ModelReport, "One model's part of the report.", (
    figure("name", "made.model"),
    *map(figure, ("plan", "verdict", "options", "refusals", "tornado", "picks", "roofs", "measured", "payback",
                  "left_out", "service")),
    figure("demand", _DEMAND),
    figure("wait", default=UNSET),
    figure("ways", WAYS, default=UNSET),
))  # fmt: skip
REPORT: Final = Shape(
    "ReportDocument", Report,
    "What `capplan report -o FILE.json` writes. Amounts are US dollars before tax; null is unknown.", (
    figure("schema_version", reads(Literal[REPORT_SCHEMA_VERSION], lambda _report: REPORT_SCHEMA_VERSION)),
    figure("kind", reads(Literal["report"], lambda _report: "report")),
    *map(figure, ("title", "created", "version", "command", "currency")),
    figure("demand", _DEMAND),
    *map(figure, ("spec_sources", "offers_dropped", "load_file")),
    figure("is_whole", meaning="false: of each model the leading options, their estimates and the offers beside them"),
    figure("models", _MODEL),
    figure("fleet"),
))  # fmt: skip
_OF_DECISION = ("verdict", "options", "refusals", "tornado", "payback", "left_out")
_DECISION: Final = Shape(
    "ServingDecision", ModelReport, "What to buy or rent for a served model, of all terms and GPUs.", (
    *(one for one in _MODEL.figures if one.name in _OF_DECISION),
    figure("demand", _DEMAND.at(reads(ReportLoad, lambda _model, report: report.demand))),
))  # fmt: skip
SERVING_REPORT: Final = Shape(
    "ServingReportDocument", ServingReport,
    "What `capplan llm report MODEL --load LOAD.yaml -o report.json` writes.", (
    *VERSIONED,
    *map(figure, ("title", "created", "load_file", "command")),
    figure("is_whole", reads(bool, lambda _served, report: report.is_whole),
           "false: the leading options, and the best deployment of each of their GPUs"),
    figure("decision", _DECISION.at(reads(ModelReport, lambda _served, report: report.models[0]))),
    figure("plan", LLM_PLAN.at("fleet")),
    figure("simulation", SIMULATION),
    figure("sensitivity", VARIATION.at("variations")),
))  # fmt: skip


def leading(report: Report) -> Report:
    """Return a report with each model's first options, those of its main table and of its verdict, and what is theirs.

    Offers that only cost more than one that is shown are left out.
    """
    models = tuple(map(_leading, report.models))
    gpus = {option.gpu for model in models for option in model.options}
    sources = tuple(source for source in report.spec_sources if source.gpu in gpus)
    return replace(report, is_whole=False, models=models, spec_sources=sources)


def _leading(model: ModelReport) -> ModelReport:
    named = {model.verdict.choice, model.verdict.runner_up, model.verdict.cheaper}
    for bar in model.tornado:
        named |= {bar.winner_low, bar.winner_high}
    if model.payback:
        named |= {model.payback.bought, model.payback.rented}
    if model.wait:
        named |= {model.wait.now, model.wait.bridge}
    options = tuple(
        option
        for place, option in enumerate(model.options)
        if place < LEADING or option.is_leading or option.key in named
    )
    run = {(option.gpu, option.batch) for option in options}
    gpus, plan = {option.gpu for option in options}, model.planned
    return replace(
        model,
        planned=plan and structs.replace(plan, fits=tuple(fit for fit in plan.fits if (fit.gpu, fit.batch) in run)),
        options=options,
        picks=tuple(pick for pick in model.picks if pick.gpu in gpus),
        left_out=tuple(offer for offer in model.left_out if offer.gpu in gpus and offer.reason != MORE_EXPENSIVE),
    )


def report_to_json(report: Report, served: ServingReport | None = None) -> dict[str, Any]:
    """Return a report, or that on a served model, as plain JSON values."""
    document = REPORT.document(report) if served is None else SERVING_REPORT.document(served, report)
    if served is not None and not report.is_whole:
        gpus = {option.gpu for option in report.models[0].options}
        first = {fit.gpu: fit for fit in reversed(document.plan.fits) if fit.gpu in gpus}
        fits = tuple(fit for fit in document.plan.fits if first.get(fit.gpu) is fit)
        document = structs.replace(document, plan=structs.replace(document.plan, fits=fits))
    plain: dict[str, Any] = to_plain(document)
    return plain
