"""The report as a document: every value of the report object under its own name, units in the names."""

from dataclasses import replace
from typing import Any, Final, Literal, Union

from msgspec import UNSET, Struct, structs

from capplan.core.economics.constraints import Constraints, NameLists, ReportLoad
from capplan.core.economics.decide import LEADING, MORE_EXPENSIVE
from capplan.core.gpus.prices import Term
from capplan.core.serving.load import Job, OneGpu, Service, TrainingPurchase
from capplan.report.procurement.types import REPORT_SCHEMA_VERSION, ModelReport, Report
from capplan.shapes.codec import as_tagged, tagged, to_plain
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
    gpus = {option.gpu for option in options}
    fits = tuple(fit for fit in model.plan.fits if (fit.gpu, fit.batch) in run)
    return replace(
        model,
        planned=structs.replace(model.plan, fits=fits),
        options=options,
        picks=tuple(pick for pick in model.picks if pick.gpu in gpus),
        left_out=tuple(offer for offer in model.left_out if offer.gpu in gpus and offer.reason != MORE_EXPENSIVE),
    )


def report_to_json(report: Report) -> dict[str, Any]:
    """Return a report as plain JSON values."""
    plain: dict[str, Any] = to_plain(REPORT.document(report))
    return plain
