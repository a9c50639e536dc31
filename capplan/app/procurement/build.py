"""Build the report: from plans, a load and prices to the one object that all formats render."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import NamedTuple

from capplan.app.procurement.candidates import candidates_of, speed_tier
from capplan.app.procurement.wait import WaitFor, wait_or_buy
from capplan.core.economics.constraints import Constraints, ReportLoad
from capplan.core.economics.decide import Answer, decide
from capplan.core.economics.evidence import NO_DRIFT, PriceDrift, Standards
from capplan.core.economics.fleet import GpuFacts, Owned, ServiceAnswer, decide_fleet
from capplan.core.gpus.machines import LocalCurrency
from capplan.core.gpus.mig import mig_profiles
from capplan.core.gpus.prices import CURRENCY, Price, PurchasePrice
from capplan.core.gpus.rate_laws import DataParallelLaws
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.memory.fit import available_memory
from capplan.core.power import PowerLaw
from capplan.core.scaling.answer import ServingWays
from capplan.core.serving.load import Job, Service, TrainingPurchase
from capplan.core.serving.response import SpeedTier
from capplan.core.workload import Mode, Precision
from capplan.errors import UsageError
from capplan.printable import printable_fields
from capplan.report.procurement.fleet import fleet_row
from capplan.report.procurement.types import AskedModel, InfeasibleGpu, ModelReport, Report
from capplan.report.procurement.verdict import make_verdict
from capplan.shapes.plan import cause, certain_gpus, item_of
from capplan.shapes.procurement import LEFT_OUT, OPTION, PAYBACK, PICK, ROOF, SPEC_SOURCE, DecidedOption
from capplan.shapes.types import Measured, OptionRow, PickRow, PlanDocument, PlannedRejection, Roof, SpecSource
from capplan.specs.load import LoadFile, NamedLoad
from capplan.specs.prices import Prices
from capplan.version import __version__
from capplan.wording import option_of, worded_fields

_ROOFS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What surrounds a report: the day and moment [s since 1970], the command, the title, and what was measured.

    `drift` is how far prices move as they age, `power_law` what GPUs draw, `local` a currency beside US dollars,
    `data_parallel` what a training step takes longer on several GPUs of one server, `wait_for` hardware that comes
    later, with which the choice is compared, `ways` ways to serve the load of a week, by service or model.
    """

    today: date
    timestamp: int = 0
    command: str
    title: str
    load_file: str | None = None
    largest_batches: tuple[int, ...] = ()
    measured: tuple[Measured, ...] = ()
    power_law: PowerLaw
    data_parallel: DataParallelLaws
    drift: PriceDrift = NO_DRIFT
    local: LocalCurrency | None = None
    wait_for: WaitFor | None = None
    ways: Mapping[str, ServingWays] = field(default_factory=dict)


def build_report(
    plans: Sequence[PlanDocument],
    *,
    demand: ReportLoad,
    gpus: Mapping[str, GpuSpec],
    rents: Sequence[Price],
    purchases: Sequence[PurchasePrice],
    circumstances: Circumstances,
) -> Report:
    market = Market(gpus=gpus, rents=rents, purchases=purchases)
    demands = [_with_host_of(demand, plan) for plan in plans]
    models = [_answered(plan, hosted, market, circumstances)[1] for plan, hosted in zip(plans, demands, strict=True)]
    return whole_report(models, demand=demands[0], gpus=gpus, circumstances=circumstances)


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """The offers of a report: the GPUs by id, rents and purchase prices."""

    gpus: Mapping[str, GpuSpec]
    rents: Sequence[Price]
    purchases: Sequence[PurchasePrice]


def build_fleet_report(
    planned: Sequence[tuple[NamedLoad, PlanDocument]],
    *,
    market: Market,
    inventory: Sequence[Owned],
    circumstances: Circumstances,
) -> Report:
    """Answer the load of every service, and of all of them on one fleet."""
    services = [(load.name or plan.model.name, _with_host_of(load.demand, plan), plan) for load, plan in planned]
    answered = [_answered(plan, demand, market, circumstances, service=name) for name, demand, plan in services]
    models = [model for _, model in answered]
    facts = {
        gpu: GpuFacts(
            budget_bytes=available_memory(
                spec, utilization_fraction=min(plan.limits.utilization_fraction for _, plan in planned)
            ).expected,
            profiles=mig_profiles(spec),
        )
        for gpu, spec in market.gpus.items()
    }
    answer = decide_fleet(
        [
            ServiceAnswer(name=name, answer=decided, standards=_standards(plan, demand.constraints, circumstances))
            for (name, demand, plan), (decided, _) in zip(services, answered, strict=True)
        ],
        facts=facts,
        inventory=inventory,
    )
    made = whole_report(models, demand=services[0][1], gpus=market.gpus, circumstances=circumstances)
    cleaned: Report = worded_fields(printable_fields(replace(made, fleet=fleet_row(answer))), option_of)
    return cleaned


_IMAGE = re.compile(r"[13]x\d+x\d+")
_CPU_MS_OF_A_JPEG = 6.0
"""What one core takes to read, decode and resize a JPEG of ImageNet's size by Pillow: 5 to 7 ms, as commonly stated."""


def _with_host_of(demand: ReportLoad, plan: PlanDocument) -> ReportLoad:
    """Return a demand whose CPU time may be that of a JPEG, where the model takes images and none is stated."""
    if _IMAGE.fullmatch(plan.model.input) is None:
        return demand
    assumptions = tuple(
        replace(assumption, high=max(assumption.high, _CPU_MS_OF_A_JPEG))
        if assumption.key == "cpu_ms_per_sample" and assumption.basis != "yours"
        else assumption
        for assumption in demand.assumptions
    )
    return replace(demand, assumptions=assumptions)


def _answered(
    plan: PlanDocument, demand: ReportLoad, market: Market, circumstances: Circumstances, *, service: str | None = None
) -> tuple[Answer, ModelReport]:
    load = demand.load
    mode = plan.workload.mode
    if isinstance(load, TrainingPurchase) and mode is not Mode.TRAINING:
        raise UsageError(f"{plan.model.name}: a training purchase needs a plan of training steps; add ⟨train⟩.")
    if isinstance(load, Service | Job) and mode is Mode.TRAINING:
        raise UsageError(f"{plan.model.name}: a {load.kind} needs a plan of inference; drop ⟨train⟩.")
    candidates = candidates_of(
        plan, market.gpus, power_law=circumstances.power_law, data_parallel=circumstances.data_parallel,
        assumptions=demand.assumptions, largest_batches=circumstances.largest_batches,
    )  # fmt: skip
    if not candidates:
        raise UsageError(f"{plan.model.name}: no GPU is left; see `capplan plan` for why each was rejected.")
    standards = _standards(plan, demand.constraints, circumstances)
    answer = decide(candidates, demand=demand, rents=market.rents, purchases=market.purchases, standards=standards)
    report = _model_report(plan, answer, circumstances, market.gpus, service)
    if circumstances.wait_for is not None:
        wait = wait_or_buy(
            plan, answer, candidates, circumstances.wait_for, gpus=tuple(market.gpus.values()), rents=market.rents,
            kinds=_PEAKS[plan.workload.precision],
        )  # fmt: skip
        report = replace(report, wait=wait)
    return answer, report


def _standards(plan: PlanDocument, constraints: Constraints, circumstances: Circumstances) -> Standards:
    return Standards(
        certain_fits=certain_gpus(plan),
        today=circumstances.today,
        constraints=constraints,
        drift=circumstances.drift,
    )


def whole_report(
    models: Sequence[ModelReport], *, demand: ReportLoad, gpus: Mapping[str, GpuSpec], circumstances: Circumstances
) -> Report:
    shown = {option.gpu for model in models for option in model.options}
    report = Report(
        title=circumstances.title,
        created=circumstances.today,
        timestamp=circumstances.timestamp,
        version=__version__,
        command=circumstances.command,
        currency=CURRENCY,
        demand=demand,
        models=tuple(models),
        spec_sources=_spec_sources(shown, gpus),
        offers_dropped=sum(len(model.left_out) for model in models),
        load_file=circumstances.load_file,
        local=circumstances.local,
    )
    cleaned: Report = worded_fields(printable_fields(report), option_of)
    return cleaned


def _model_report(
    plan: PlanDocument,
    answer: Answer,
    circumstances: Circumstances,
    gpus: Mapping[str, GpuSpec],
    service: str | None,
) -> ModelReport:
    known = {
        (fit.gpu, fit.batch): Known(speed_tier(fit.evidence), fit.evidence_reason, fit.memory.usable_bytes)
        for fit in plan.fits
    }
    made = AskedModel(model=plan.model.name, item=item_of(plan), input_bytes=plan.model.input_bytes_per_sample)
    report = decided_model(made, answer, known, service=service)
    rows, held = report.options, _named(answer)
    refused: dict[str, InfeasibleGpu] = {}
    for rejection in sorted(plan.rejections, key=lambda rejection: rejection.batch):
        if rejection.gpu not in held:
            refused.setdefault(rejection.gpu, _refusal(rejection))
    return replace(
        report,
        planned=plan,
        refusals=(*report.refusals, *(refused[gpu] for gpu in sorted(refused))),
        picks=_picks(answer),
        roofs=_roofs(plan, rows, gpus),
        measured=tuple(run for run in circumstances.measured if run.model == plan.model.name),
        ways=circumstances.ways.get(service or plan.model.name),
    )


class Known(NamedTuple):
    """How the speed of a GPU at a batch is known, why, and the memory that may be filled. [bytes]"""

    speed: SpeedTier
    reason: str
    usable_bytes: float | None


def _named(answer: Answer) -> set[str]:
    """Return the GPUs of a decision: those sized, and those that the load or the buyer excludes."""
    left_out = (*answer.infeasible, *answer.not_considered)
    return {sizing.gpu for sizing in answer.case.sizings} | {gpu.candidate.gpu for gpu in left_out}


def decided_model(
    made: AskedModel, answer: Answer, known: Mapping[tuple[str, int], Known], *, service: str | None = None
) -> ModelReport:
    """Return a decision as the part of a report that every kind of load has."""
    ranks = {option.key: index for index, option in enumerate(answer.options, start=1) if option.cost}
    rows = tuple(
        OPTION.document(
            DecidedOption(
                option, answer, ranks.get(option.key), *known[option.gpu, option.operating_point.largest_batch]
            )
        )
        for option in answer.options
    )
    held = _named(answer)
    return ModelReport(
        made=made,
        verdict=make_verdict(made, answer, rows, service=service),
        refuses_all=answer.refuses_all,
        options=rows,
        refusals=tuple(
            InfeasibleGpu(
                gpu=gpu.candidate.gpu, gpu_name=gpu.candidate.name, batch=None, constraint=constraint, reason=gpu.reason
            )
            for constraint, left_out in (("load", answer.infeasible), ("scope", answer.not_considered))
            for gpu in left_out
        ),
        tornado=tuple(answer.tornado_bars.values()),
        payback=PAYBACK.document(answer.payback) if answer.payback else None,
        left_out=tuple(LEFT_OUT.document(offer, answer) for offer in answer.left_out if offer.price.gpu in held),
        service=service,
        demand=answer.demand if service is not None else None,
    )  # fmt: skip


def _refusal(rejection: PlannedRejection) -> InfeasibleGpu:
    return InfeasibleGpu(
        gpu=rejection.gpu,
        gpu_name=rejection.gpu_name,
        batch=rejection.batch,
        constraint=rejection.constraint.value,
        reason=cause(rejection),
    )


_PEAKS: Mapping[Precision, tuple[PeakKind, ...]] = {
    Precision.FP32: (PeakKind.TF32, PeakKind.FP32),
    Precision.TF32: (PeakKind.TF32, PeakKind.FP32),
    Precision.FP32_IEEE: (PeakKind.FP32,),
    Precision.FP16: (PeakKind.FP16, PeakKind.FP16_VECTOR, PeakKind.FP32),
    Precision.INT8: (PeakKind.INT8, PeakKind.FP16, PeakKind.FP32),
    Precision.FP8: (PeakKind.FP8, PeakKind.FP16, PeakKind.FP32),
    Precision.AMP_FP16: (PeakKind.FP16, PeakKind.FP16_VECTOR, PeakKind.FP32),
    Precision.BF16: (PeakKind.BF16, PeakKind.FP32),
    Precision.AMP_BF16: (PeakKind.BF16, PeakKind.FP32),
}


def _roofs(plan: PlanDocument, rows: Sequence[OptionRow], gpus: Mapping[str, GpuSpec]) -> tuple[Roof, ...]:
    """Return the printed limits of the GPUs that the roofline shows, in the options' order."""
    kinds = _PEAKS[plan.workload.precision]
    roofs = []
    for gpu in dict.fromkeys(row.gpu for row in rows):
        spec = gpus.get(gpu)
        peak = next((rate for kind in kinds if spec and (rate := spec.peak(kind))), None)
        if spec and peak:
            roofs.append(ROOF.document((spec, peak)))
    return tuple(roofs[:_ROOFS])


def _picks(answer: Answer) -> tuple[PickRow, ...]:
    load = answer.demand.load
    limit_s = load.latency_limit_s if isinstance(load, Service) else None
    picks = []
    for sizing in answer.case.sizings:
        curves = {curve.largest_batch: curve for curve in sizing.capacity.curves}
        for point in sizing.capacity.operating_points(limit_s=limit_s):
            picks.append(PICK.document((sizing, point, curves.get(point.largest_batch))))
    return tuple(picks)


_SOURCED = {"memory": "memory", "bandwidth": "bandwidth", "usable": "usable memory", "tdp": "power limit"}


def _spec_sources(shown: set[str], gpus: Mapping[str, GpuSpec]) -> tuple[SpecSource, ...]:
    return tuple(
        SPEC_SOURCE.document((gpu, label, found))
        for gpu in sorted(shown & gpus.keys())
        for name, label in _SOURCED.items()
        if (found := gpus[gpu].figures.get(name))
    )


def write_report(
    planned: Sequence[tuple[NamedLoad, PlanDocument]],
    stated: LoadFile,
    *,
    gpus: Mapping[str, GpuSpec],
    prices: Prices,
    circumstances: Circumstances,
) -> Report:
    """Answer the load of a model, or those of a fleet of services."""
    if not stated.is_fleet:
        return build_report(
            [plan for _, plan in planned],
            demand=stated.loads[0].demand,
            gpus=gpus,
            rents=prices.hourly,
            purchases=prices.purchase,
            circumstances=circumstances,
        )
    market = Market(gpus=gpus, rents=prices.hourly, purchases=prices.purchase)
    return build_fleet_report(planned, market=market, inventory=stated.inventory, circumstances=circumstances)
