"""Build a procurement report: which GPUs to buy or rent for a load, how many, what they cost, how sure that is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from capplan.app.feedback import Feedback
from capplan.app.gpu_choice import GpuChoice, GpuRequest
from capplan.app.models import ModelSource, QuantisedSource, open_model
from capplan.app.pipelines.answer import OpenedPipeline, PipelineRequest
from capplan.app.pipelines.diffusers import names_pipeline
from capplan.app.plan import PlanContext, PlanTerms, plan_at_batches
from capplan.app.priced_gpus import PriceFilters, affordable
from capplan.app.procurement.build import (
    Circumstances,
    Market,
    PlannedService,
    build_fleet_report,
    build_report,
)
from capplan.app.procurement_constraints import at_place, laid_over, resolve, with_tariff
from capplan.core.economics.decide import PRICE_FACTORS
from capplan.core.gpus.prices import offers_to_plan_with
from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.format import parse_points
from capplan.core.workload import BatchChoice, Batches
from capplan.errors import UsageError
from capplan.files import read_file, read_json
from capplan.probe.inputs.grammar import ModelRequest
from capplan.report.procurement.types import Measured, Report
from capplan.shapes.plan import plan_document, read_plan
from capplan.shapes.types import PlanDocument
from capplan.specs.calibration import load_calibration, load_memory_calibration
from capplan.specs.constraints import allowing_named_spot
from capplan.specs.load import LoadFile, NamedLoad, demand_without_load, read_load_file
from capplan.specs.prices import Prices, load_price_file, read_price_section
from capplan.specs.providers import load_providers


def read_load(load: Path | None) -> LoadFile:
    """Read the load that a report answers; without a file, GPUs are compared without one.

    Raises:
        UsageError: the file cannot be read.
        SpecError: it does not hold what it must.
    """
    if load:
        return read_load_file(load)
    return LoadFile(loads=(NamedLoad(name="", model=None, demand=demand_without_load()),))


def known_prices(gpus: GpuChoice, stated: LoadFile, *, load: Path | None, files: Sequence[Path]) -> Prices:
    """Return the built-in prices under those of the load file, and both under those of price files.

    Args:
        gpus: the GPUs and their database.
        stated: the content of the load file.
        load: where it lies.
        files: price files.
    """
    prices = gpus.prices()
    for index, section in enumerate(stated.prices):
        shown = f"{load}: prices[{index}]"
        prices = prices.with_own(read_price_section(section, gpus.known, shown=shown, origin=str(load)))
    for path in files:
        prices = prices.with_own(load_price_file(path, gpus.known))
    return prices


def admitting(
    stated: LoadFile,
    constraints: Mapping[str, Any],
    *,
    gpus: GpuChoice,
    prices: Prices,
    usd_per_kwh: float | None,
) -> LoadFile:
    """Lay a question's constraints over every load's, with all names checked and GPUs by their ids.

    Args:
        stated: the content of the load file.
        constraints: the fields of `Constraints` that the question states.
        gpus: the GPUs that it names, and their database.
        prices: all prices that count.
        usd_per_kwh: the user's own price of electricity; None for that of the region. [USD/kWh]

    Raises:
        UnknownNameError: a provider, seller, region, GPU or segment that nothing has.
        UsageError: a factor makes prices 0, or the inventory states one GPU twice.
    """
    loads = []
    for load in stated.loads:
        for assumption in load.demand.assumptions:
            if assumption.key in PRICE_FACTORS and assumption.low <= 0:
                raise UsageError(f"assumptions.{assumption.key}: {assumption.low:g} leaves no price; take one above 0.")
        wanted = laid_over(load.demand.constraints, constraints)
        admitted = resolve(wanted, gpus=gpus.known, prices=prices, named=gpus.named)
        placed = at_place(
            with_tariff(load.demand, usd_per_kwh), load_providers().countries_in(sorted(admitted.allow.regions))
        )
        spotted = allowing_named_spot(load.demand.load, admitted)
        loads.append(replace(load, demand=replace(placed, constraints=admitted, load=spotted)))
    owned = [replace(server, gpu=gpus.known.find(server.gpu).id) for server in stated.inventory]
    counts = Counter(server.gpu for server in owned)
    if twice := [gpu for gpu, count in counts.items() if count > 1]:
        raise UsageError(f"inventory: {twice[0]} is stated {counts[twice[0]]} times; add its counts and servers up.")
    return replace(stated, loads=tuple(loads), inventory=tuple(owned))


def admitted_gpus(gpus: GpuChoice, prices: Prices, stated: LoadFile, filters: PriceFilters) -> GpuChoice:
    """Keep the GPUs that have an admitted on-demand price, where the filters limit them so.

    Raises:
        UsageError: none is left.
    """
    if not filters:
        return gpus
    admitted = stated.loads[0].demand.constraints
    counting = [price for price in prices.hourly if admitted.refusal_of_price(price) is None]
    return replace(gpus, chosen=affordable(gpus.chosen, offers_to_plan_with(counting), filters))


def with_models(
    stated: LoadFile, models: Sequence[ModelSource], *, folder: Path
) -> list[tuple[NamedLoad, ModelSource]]:
    """Pair every load with its model: the file's for services, else those of the question.

    Args:
        stated: the content of the load file.
        models: the models that the question names.
        folder: where files lie that the load file names.

    Raises:
        UsageError: a model is named twice, or not at all.
    """
    if stated.loads[0].model is None:
        if not models:
            raise UsageError("name a model, or list services with their models in the load file.")
        return [(stated.loads[0], model) for model in models]
    if models:
        raise UsageError("the load file lists services with their models; name no model on the command line.")
    return [(load, ModelRequest(words=_beside(load.model or "", folder))) for load in stated.loads]


def _beside(words: str, folder: Path) -> str:
    """Return a file's path as seen from the load file, where there is such a file."""
    path = folder / words
    return str(path) if ":" not in words and path.is_file() else words


def is_pipeline(source: ModelSource) -> TypeGuard[ModelRequest]:
    """Return True if words name a pipeline, whose parts are traced where it is planned."""
    return isinstance(source, ModelRequest) and names_pipeline(source.words)


def plans_of(
    source: ModelSource,
    terms: PlanTerms,
    gpus: Sequence[GpuSpec],
    *,
    pipeline: PipelineRequest,
    narrows: bool,
    feedback: Feedback,
) -> list[PlanDocument]:
    """Return a model's plans, from a file that `capplan plan` saved or by planning it.

    Args:
        source: the model, or the words of such a file.
        terms: the batches, conditions and limits.
        gpus: the GPUs to plan on.
        pipeline: what is stated of a pipeline, whatever its words.
        narrows: leave GPUs out that a saved plan has besides.
        feedback: where progress is shown.

    Raises:
        UsageError: there is no such model, or a plan is of several GPUs together.
        TraceError: the model could not be traced.
    """
    plain = source.source if isinstance(source, QuantisedSource) else source
    words = plain.words if isinstance(plain, ModelRequest) else plain.name
    documents = read_plans(words) if isinstance(source, ModelRequest) else None
    if documents is None:
        plans = [_plan(source, terms, tuple(gpus), pipeline, feedback)]
    else:
        plans = [read_plan(document, where=words) for document in documents]
    if any(plan.pipeline is not None and plan.pipeline.gpu_count > 1 for plan in plans):
        raise UsageError(
            f"{words}: a report counts servers of single GPUs; plan it without --ulysses, --ring and another GPU."
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
    source: ModelSource, terms: PlanTerms, gpus: tuple[GpuSpec, ...], pipeline: PipelineRequest, feedback: Feedback
) -> PlanDocument:
    if is_pipeline(source):
        context = PlanContext.of(GpuRequest(specs=gpus), PriceFilters(), feedback=feedback)
        opened = OpenedPipeline.of(replace(pipeline, words=source.words), context)
        return plan_document(opened.advised(opened.plan(terms), terms))
    model = open_model(source, feedback=feedback)
    context = PlanContext(
        gpus=gpus, calibration=load_calibration(), memory_calibration=load_memory_calibration(), feedback=feedback
    )
    return plan_document(plan_at_batches(model, terms, context))


def powers_and(sizes: Sequence[int]) -> Batches:
    """Return batches with every power of two up to the largest, so that batches between can be interpolated."""
    powers = {2**power for power in range(max(sizes).bit_length())}
    return Batches(choice=BatchChoice.LISTED, sizes=tuple(sorted(powers | set(sizes))))


def write_report(
    planned: Sequence[tuple[NamedLoad, PlanDocument]],
    stated: LoadFile,
    *,
    gpus: GpuChoice,
    prices: Prices,
    circumstances: Circumstances,
) -> Report:
    """Answer the load of a model, or those of a fleet of services.

    Args:
        planned: every load with the plan of its model.
        stated: the content of the load file.
        gpus: the GPUs and their database.
        prices: all prices that count.
        circumstances: what surrounds the report.
    """
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
    if isinstance(document, list) and document and all(isinstance(plan, dict) and "fits" in plan for plan in document):
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
