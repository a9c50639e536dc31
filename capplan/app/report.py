"""Build a procurement report: which GPUs to buy or rent for a load, how many, what they cost, how sure that is."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.gpu_choice import GpuChoice, GpuFilters, GpuRequest, find_gpus
from capplan.app.models import ModelSource, QuantisedSource, open_model
from capplan.app.pipelines.answer import PipelineRequest, SourceOf, plan_pipeline
from capplan.app.pipelines.diffusers import names_pipeline
from capplan.app.plan import PlanContext, PlanTerms
from capplan.app.priced_gpus import PriceFilters, affordable
from capplan.app.procurement_constraints import ConstraintRequest, at_place, resolve, with_tariff
from capplan.clock import moment
from capplan.core.economics.constraints import Constraints
from capplan.core.gpus.places import LocalCurrency
from capplan.core.gpus.prices import Price, offers_to_plan_with
from capplan.core.measurement.format import parse_points
from capplan.core.pipelines.types import Offload
from capplan.core.plan.order import SortKey
from capplan.core.plan.planner import make_plan, merge_plans
from capplan.core.plan.types import Limits
from capplan.core.workload import DEFAULT_UTILIZATION, BatchChoice, Batches, Workload
from capplan.errors import UsageError
from capplan.files import read_file, read_json
from capplan.probe.inputs.grammar import ModelRequest
from capplan.report.documents.plan import PlanDocument, plan_document, read_plan
from capplan.report.procurement.build import (
    Circumstances,
    Market,
    PlannedService,
    build_fleet_report,
    build_report,
)
from capplan.report.procurement.types import Measured, Report
from capplan.specs.calibration import load_calibration, load_memory_calibration
from capplan.specs.constraints import allowing_named_spot
from capplan.specs.fitted import load_power_law, load_price_drift
from capplan.specs.load import LoadFile, NamedLoad, demand_without_load, read_load_file
from capplan.specs.prices import Prices, load_price_file, read_price_section
from capplan.specs.providers import load_providers
from capplan.units import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRequest:
    """Which prices count: own files over the built-in ones, and what the buyer admits of them.

    With `only_priced` or `max_usd_per_hour` only GPUs that are rented on demand, up to that price for one GPU and hour,
    are compared. [USD]
    """

    files: tuple[Path, ...] = ()
    constraints: ConstraintRequest = field(default_factory=ConstraintRequest)
    only_priced: bool = False
    max_usd_per_hour: float | None = None

    @property
    def limits_gpus(self) -> bool:
        """Return True if only GPUs with some on-demand price count."""
        return self.only_priced or self.max_usd_per_hour is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """A request for the GPUs to buy or rent for models under a load.

    A model may also be the words of a file that `capplan plan --format json` saved. `largest_batches` are the batch
    limits compared. `load` is a file that describes a service, a job or a training purchase; None compares GPUs
    without one. `measured` are measurement files that stand beside the estimates, `local` a currency for
    the costs of the choice. `pipeline_settings` are parameters of the pipelines among the models, `part_settings` those
    of their parts, and `offload` says where their weights wait. `states_precision`, `weights` and `part_source` are as
    in a `PipelineRequest`. `command` is printed in the report, to make it again. `usd_per_kwh` is the
    user's own price of electricity.
    """

    models: tuple[ModelSource, ...]
    gpus: GpuRequest = field(default_factory=GpuRequest)
    largest_batches: tuple[int, ...]
    workload: Workload = field(default_factory=Workload)
    utilization_fraction: float = DEFAULT_UTILIZATION
    load: Path | None = None
    offers: OfferRequest = field(default_factory=OfferRequest)
    measured: tuple[Path, ...] = ()
    pipeline_settings: Mapping[str, float] = field(default_factory=dict)
    part_settings: Mapping[str, object] = field(default_factory=dict)
    offload: Offload | None = None
    states_precision: bool = False
    weights: str | None = None
    part_source: SourceOf | None = None
    title: str | None = None
    local: LocalCurrency | None = None
    usd_per_kwh: float | None = None
    command: str = ""


def report(request: ReportRequest, *, feedback: Feedback = SILENCE) -> Report:
    """Plan every model, unless its plan was saved, and answer the load.

    Args:
        request: the models, GPUs, conditions, load and prices.
        feedback: where progress is shown.

    Raises:
        UsageError: there is no such model or GPU, no GPU is left, or a file does not hold what it must.
        TraceError: a model could not be traced.
    """
    stated = _read_load(request.load)
    found = find_gpus(request.gpus)
    prices = _prices(request, found, stated)
    stated = _admitting(stated, request, found, prices)
    gpus = _affordable(request, found, prices.hourly, stated.loads[0].demand.constraints)
    sources = _sources(stated, request)
    of_pipelines = request.pipeline_settings or request.part_settings or request.offload
    if of_pipelines and not any(_is_pipeline(source) for _, source in sources):
        raise UsageError("--set, --part and --offload describe a pipeline, and no model here is one; drop them.")
    planned = [(load, plan) for load, source in sources for plan in _plans(source, request, gpus, feedback)]
    circumstances = _circumstances(request, [plan for _, plan in planned])
    with feedback.progress("working out the report"):
        if not stated.is_fleet:
            return build_report(
                [plan for _, plan in planned],
                demand=stated.loads[0].demand,
                gpus=gpus.known,
                rents=prices.hourly,
                purchases=prices.purchase,
                circumstances=circumstances,
            )
        services = [
            PlannedService(name=load.name or plan.model.name, plan=plan, demand=load.demand) for load, plan in planned
        ]
        market = Market(gpus=gpus.known, rents=prices.hourly, purchases=prices.purchase)
        return build_fleet_report(services, market=market, inventory=stated.inventory, circumstances=circumstances)


def _admitting(stated: LoadFile, request: ReportRequest, gpus: GpuChoice, prices: Prices) -> LoadFile:
    """Lay the request's constraints over every load's, with all names checked and GPUs by their ids."""
    loads = []
    for load in stated.loads:
        wanted = request.offers.constraints.over(load.demand.constraints)
        admitted = resolve(wanted, gpus=gpus.known, prices=prices, named=gpus.named)
        spotted = allowing_named_spot(load.demand.load, admitted)
        stated_tariff = with_tariff(load.demand, request.usd_per_kwh)
        placed = at_place(stated_tariff, load_providers().countries_in(sorted(admitted.allow.regions)))
        loads.append(replace(load, demand=replace(placed, constraints=admitted, load=spotted)))
    owned = [replace(each, gpu=gpus.known.find(each.gpu).id) for each in stated.inventory]
    return replace(stated, loads=tuple(loads), inventory=tuple(owned))


def _sources(stated: LoadFile, request: ReportRequest) -> list[tuple[NamedLoad, ModelSource]]:
    """Pair every load with its model: the file's for services, else the request's.

    Raises:
        UsageError: a model is named twice, or not at all.
    """
    if stated.loads[0].model is None:
        if not request.models:
            raise UsageError("name a model, or list services with their models in the load file.")
        return [(stated.loads[0], model) for model in request.models]
    if request.models:
        raise UsageError("the load file lists services with their models; name no model on the command line.")
    folder = request.load.parent if request.load else Path()
    return [(load, ModelRequest(words=_beside(load.model or "", folder))) for load in stated.loads]


def _beside(words: str, folder: Path) -> str:
    """Return a file's path as seen from the load file, where there is such a file."""
    path = folder / words
    return str(path) if ":" not in words and path.is_file() else words


def _circumstances(request: ReportRequest, plans: Sequence[PlanDocument]) -> Circumstances:
    day, timestamp = moment()
    return Circumstances(
        today=day,
        timestamp=timestamp,
        command=request.command,
        title=request.title or f"GPUs for {', '.join(plan.model.name for plan in plans)}",
        load_file=str(request.load) if request.load else None,
        largest_batches=tuple(sorted(request.largest_batches)),
        measured=tuple(each for path in request.measured for each in read_measured(path)),
        drift=load_price_drift(),
        local=request.local,
        power_law=load_power_law(),
    )


def _read_load(load: Path | None) -> LoadFile:
    if load:
        return read_load_file(load)
    return LoadFile(loads=(NamedLoad(name="", model=None, demand=demand_without_load()),))


def _affordable(request: ReportRequest, gpus: GpuChoice, rents: Sequence[Price], admitted: Constraints) -> GpuChoice:
    """Keep the GPUs that have an admitted on-demand price, where the request limits them so.

    Raises:
        UsageError: none is left.
    """
    if not request.offers.limits_gpus:
        return gpus
    counted = [price for price in rents if admitted.refusal_of_price(price) is None]
    filters = PriceFilters(only_priced=True, max_usd_per_hour=request.offers.max_usd_per_hour)
    return replace(gpus, chosen=affordable(gpus.chosen, offers_to_plan_with(counted), filters))


def _prices(request: ReportRequest, gpus: GpuChoice, stated: LoadFile) -> Prices:
    """Return the built-in prices under those of the load file, and both under those of price files."""
    prices = gpus.prices()
    for index, section in enumerate(stated.prices):
        shown = f"{request.load}: prices[{index}]"
        prices = prices.with_own(read_price_section(section, gpus.known, shown=shown, origin=str(request.load)))
    for path in request.offers.files:
        prices = prices.with_own(load_price_file(path, gpus.known))
    return prices


def _plans(source: ModelSource, request: ReportRequest, gpus: GpuChoice, feedback: Feedback) -> list[PlanDocument]:
    """Return a model's plans, from a saved file or by planning it."""
    plain = source.source if isinstance(source, QuantisedSource) else source
    words = plain.words if isinstance(plain, ModelRequest) else plain.name
    documents = read_plans(words) if isinstance(source, ModelRequest) else None
    if documents is None:
        plans = [_plan(source, request, gpus, feedback)]
    else:
        plans = [read_plan(document, where=words) for document in documents]
    if any(plan.pipeline is not None and plan.pipeline.gpu_count > 1 for plan in plans):
        raise UsageError(
            f"{words}: a report counts servers of single GPUs; plan it without --ulysses, --ring and another GPU."
        )
    names_gpus = bool(
        request.gpus.ids or request.gpus.specs or request.gpus.filters != GpuFilters() or request.offers.limits_gpus
    )
    return [_only(plan, {gpu.id for gpu in gpus.chosen}) for plan in plans] if names_gpus else plans


def _only(plan: PlanDocument, chosen: Set[str]) -> PlanDocument:
    return msgspec.structs.replace(
        plan,
        fits=tuple(fit for fit in plan.fits if fit.gpu in chosen),
        rejections=tuple(rejection for rejection in plan.rejections if rejection.gpu in chosen),
    )


def _plan(source: ModelSource, request: ReportRequest, gpus: GpuChoice, feedback: Feedback) -> PlanDocument:
    """Plan a model at every power of two up to the largest batch, so that batches between can be interpolated."""
    if _is_pipeline(source):
        return _pipeline_plan(source, request, gpus, feedback)
    model = open_model(source, feedback=feedback)
    powers = {2**power for power in range(max(request.largest_batches).bit_length())}
    batches = sorted(powers | set(request.largest_batches))
    traced = list(model.traces_at_each(request.workload.configuration, batches))
    with feedback.progress(f"planning {model.words} on {counted(len(gpus.chosen), 'GPU')}"):
        plans = [
            make_plan(
                model.prepared(
                    trace,
                    request.workload,
                    calibration=load_calibration(),
                    memory_calibration=load_memory_calibration(),
                ),
                gpus=gpus.chosen,
                batches=Batches(choice=BatchChoice.LISTED, sizes=held),
                limits=Limits(utilization_fraction=request.utilization_fraction),
                power_law=load_power_law(),
            )
            for trace, held in traced
        ]
    return plan_document(plans[0] if len(plans) == 1 else merge_plans(plans, sort=SortKey.THROUGHPUT))


def _is_pipeline(source: ModelSource) -> TypeGuard[ModelRequest]:
    return isinstance(source, ModelRequest) and names_pipeline(source.words)


def _pipeline_plan(source: ModelRequest, request: ReportRequest, gpus: GpuChoice, feedback: Feedback) -> PlanDocument:
    """Plan a pipeline at the same batches, with its weights where they fit."""
    powers = {2**power for power in range(max(request.largest_batches).bit_length())}
    terms = PlanTerms(
        batches=Batches(choice=BatchChoice.LISTED, sizes=tuple(sorted(powers | set(request.largest_batches)))),
        workload=request.workload,
        limits=Limits(utilization_fraction=request.utilization_fraction),
        power_law=load_power_law(),
    )
    context = PlanContext.of(GpuRequest(specs=gpus.chosen), PriceFilters(), feedback=feedback)
    asked = PipelineRequest(
        words=source.words,
        workload=request.workload,
        settings=request.pipeline_settings,
        part_settings=request.part_settings,
        offload=request.offload,
        states_precision=request.states_precision,
        weights=request.weights,
        source=request.part_source,
    )
    return plan_document(plan_pipeline(asked, terms, context, feedback=feedback))


def read_plans(words: str) -> list[Any] | None:
    """Read the plans of a file that `capplan plan` saved; None where the words name no such file.

    Raises:
        UsageError: the file cannot be read, or is not JSON.
    """
    if not words.endswith(".json") or words.endswith(".trace.json") or ":" in words:
        return None
    document = read_json(words)
    if isinstance(document, dict) and "fits" in document:
        return [document]
    if isinstance(document, list) and document and all(isinstance(each, dict) and "fits" in each for each in document):
        return document
    return None


def read_measured(path: Path) -> list[Measured]:
    """Read what was timed on GPUs that the database knows.

    Raises:
        UsageError: the file cannot be read.
        MeasurementFileError: it holds no measurements.
    """
    try:
        content = read_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    return [
        Measured(
            model=point.model.name,
            gpu=point.device.gpu,
            batch=point.workload.batch,
            latency_s=point.latency.median,
            source=f"{point.device.name}, {point.workload.precision}, torch {point.device.torch}, {point.date.date()}",
        )
        for point in parse_points(content, where=str(path)).measurements
        if point.device.gpu is not None
    ]
