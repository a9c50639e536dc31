"""The report as a typed document: every value of the report object under its own name, units in the names."""

from datetime import date
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

import msgspec

from capplan.core.economics.constraints import (
    DEFAULT_CERTAINTY,
    DEFAULT_MAX_PRICE_AGE_DAYS,
    Assumption,
    Constraints,
    CostAssumptions,
    NameLists,
    ReportLoad,
)
from capplan.core.gpus.prices import Term
from capplan.core.serving.load import Job, OneGpu, Service, TrainingPurchase
from capplan.report.procurement.types import (
    REPORT_SCHEMA_VERSION,
    FleetRow,
    InfeasibleGpu,
    LeftOutOffer,
    Measured,
    ModelReport,
    OptionRow,
    PaybackRow,
    PickRow,
    Report,
    Roof,
    SpecSource,
    TornadoRow,
    Verdict,
)
from capplan.shapes.codec import as_tagged, flat_fields, flattened, tagged, to_plain
from capplan.shapes.types import PlanDocument

_LOADS = {kind: tagged(kind, tag_field="kind", suffix="Load") for kind in (Service, Job, TrainingPurchase, OneGpu)}

if TYPE_CHECKING:
    LoadDocument: TypeAlias = msgspec.Struct
    OptionDocument: TypeAlias = msgspec.Struct
else:
    OptionDocument = flattened(OptionRow)
    LoadDocument = Union[tuple(_LOADS.values())]  # noqa: UP007 - the members are made above


class NameListsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Names of providers or sellers, regions, GPUs (ids) and segments; an empty list names nothing."""

    providers: tuple[str, ...]
    regions: tuple[str, ...]
    gpus: tuple[str, ...]
    segments: tuple[str, ...]


class ConstraintsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What may be recommended, and caps on what it may cost and take."""

    terms: tuple[Term, ...]
    allow: NameListsDocument
    deny: NameListsDocument
    marketplaces: bool
    max_capex_usd: float | None
    max_usd_per_year: float | None
    max_power_w: float | None
    max_rack_units: float | None
    certainty_fraction: float = DEFAULT_CERTAINTY
    max_price_age_days: float = DEFAULT_MAX_PRICE_AGE_DAYS
    any_vendor: bool = False


class DemandDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a report answers: the load, the cost assumptions as numbers, and each one's range and source."""

    load: LoadDocument
    money: CostAssumptions
    assumptions: tuple[Assumption, ...]
    constraints: ConstraintsDocument


class ModelReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One model's part of the report."""

    name: str
    plan: PlanDocument
    verdict: Verdict
    options: tuple[OptionDocument, ...]
    refusals: tuple[InfeasibleGpu, ...]
    tornado: tuple[TornadoRow, ...]
    picks: tuple[PickRow, ...]
    roofs: tuple[Roof, ...]
    measured: tuple[Measured, ...]
    payback: PaybackRow | None
    left_out: tuple[LeftOutOffer, ...]
    service: str | None
    demand: DemandDocument | None


class ReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan report -o FILE.json` writes. Amounts are US dollars before tax; null is unknown."""

    schema_version: Literal[5]
    kind: Literal["report"]
    title: str
    created: date
    version: str
    command: str
    currency: str
    demand: DemandDocument
    spec_sources: tuple[SpecSource, ...]
    offers_dropped: int
    load_file: str | None
    models: tuple[ModelReportDocument, ...]
    fleet: FleetRow | None


def report_document(report: Report) -> ReportDocument:
    """Return a report as a document."""
    return ReportDocument(
        schema_version=REPORT_SCHEMA_VERSION,
        kind="report",
        title=report.title,
        created=report.created,
        version=report.version,
        command=report.command,
        currency=report.currency,
        demand=_demand(report.demand),
        spec_sources=report.spec_sources,
        offers_dropped=report.offers_dropped,
        load_file=report.load_file,
        models=tuple(map(_model, report.models)),
        fleet=report.fleet,
    )


def report_to_json(report: Report) -> dict[str, Any]:
    """Return a report as plain JSON values."""
    plain: dict[str, Any] = to_plain(report_document(report))
    return plain


def _demand(demand: ReportLoad) -> DemandDocument:
    return DemandDocument(
        load=as_tagged(demand.load, _LOADS[type(demand.load)]),
        money=demand.money,
        assumptions=demand.assumptions,
        constraints=_constraints(demand.constraints),
    )


def _constraints(constraints: Constraints) -> ConstraintsDocument:
    return ConstraintsDocument(
        terms=tuple(sorted(constraints.terms)),
        allow=_names(constraints.allow),
        deny=_names(constraints.deny),
        marketplaces=constraints.marketplaces,
        max_capex_usd=constraints.max_capex_usd,
        max_usd_per_year=constraints.max_usd_per_year,
        max_power_w=constraints.max_power_w,
        max_rack_units=constraints.max_rack_units,
        certainty_fraction=constraints.certainty_fraction,
        max_price_age_days=constraints.max_price_age_days,
        any_vendor=constraints.any_vendor,
    )


def _names(lists: NameLists) -> NameListsDocument:
    return NameListsDocument(
        providers=tuple(sorted(lists.providers)),
        regions=tuple(sorted(lists.regions)),
        gpus=tuple(sorted(lists.gpus)),
        segments=tuple(sorted(lists.segments)),
    )


def _model(model: ModelReport) -> ModelReportDocument:
    return ModelReportDocument(
        name=model.plan.model.name,
        plan=model.plan,
        verdict=model.verdict,
        options=tuple(OptionDocument(**flat_fields(option)) for option in model.options),
        refusals=model.refusals,
        tornado=model.tornado,
        picks=model.picks,
        roofs=model.roofs,
        measured=model.measured,
        payback=model.payback,
        left_out=model.left_out,
        service=model.service,
        demand=_demand(model.demand) if model.demand else None,
    )
