"""Turn the fits of a plan into the candidates that a procurement decision chooses from."""

from collections.abc import Mapping, Sequence

from capplan.core.gpus.licences import driver_licence
from capplan.core.gpus.prices import COMMITMENT_YEARS, Term
from capplan.core.gpus.spec import GpuSpec, Status
from capplan.core.latency.types import Evidence
from capplan.core.memory.types import FitStatus
from capplan.core.serving.response import BatchPoint, Candidate, SpeedTier
from capplan.report.documents.plan import PlanDocument, PlannedFit
from capplan.report.procurement.types import ModelReport, OptionRow, Report


def candidates_of(
    plan: PlanDocument, gpus: Mapping[str, GpuSpec], *, largest_batches: Sequence[int] = ()
) -> tuple[Candidate, ...]:
    """Return the GPUs that hold the model; batches that fit with borderline status are used where no other does.

    Args:
        plan: The plan of one model.
        gpus: The GPU specs by id.
        largest_batches: Batch limits that are compared. A GPU must hold one of them and is run with it; where there
            are none, all batches of the plan count.
    """
    made = (_candidate(plan.fits_on(gpu), gpus.get(gpu), set(largest_batches)) for gpu in plan.gpus)
    return tuple(each for each in made if each is not None)


def _candidate(fits: Sequence[PlannedFit], spec: GpuSpec | None, limits: set[int]) -> Candidate | None:
    wanted = [each for each in fits if not limits or each.batch in limits]
    chosen = [each for each in wanted if each.status is FitStatus.FITS] or wanted
    if not chosen:
        return None
    return Candidate(
        gpu=fits[0].gpu,
        name=fits[0].gpu_name,
        tdp_w=spec.tdp_w if spec else None,
        form_factor=spec.form_factor if spec else None,
        points=tuple(_point(each) for each in fits if each.batch <= chosen[-1].batch),
        largest_batches=tuple(each.batch for each in chosen),
        speed=speed_tier(fits[0].evidence),
        segment=spec.segment.value if spec and spec.segment else None,
        is_end_of_sale=spec is not None and spec.status is Status.END_OF_SALE,
        licence=driver_licence(spec) if spec else None,
    )


def _point(fit: PlannedFit) -> BatchPoint:
    return BatchPoint(batch=fit.batch, latency_s=fit.latency_s.interval, memory_bytes=fit.memory.total_bytes)


def speed_tier(evidence: Evidence) -> SpeedTier:
    """Return how far a latency can be trusted, by what it rests on.

    Args:
        evidence: The class of evidence that a plan names.
    """
    if evidence is Evidence.MEASURED:
        return SpeedTier.MEASURED
    return SpeedTier.SPEC_SHEET if evidence is Evidence.SPEC_SHEET else SpeedTier.TRANSFERRED


def choosable(report: Report, model: ModelReport) -> frozenset[str]:
    """Return the keys of the options that may be recommended: of full evidence, of any evidence where none is.

    An option needs a price, an allowed term and all caps kept; memory that certainly suffices, where any has it.
    """
    allowed = [option for option in model.options if _is_allowed(report, option)]
    certain = [option for option in allowed if option.firm_fit] or allowed
    full = [option for option in certain if not option.concerns] or certain
    return frozenset(option.key for option in full)


def _is_allowed(report: Report, option: OptionRow) -> bool:
    load, money = report.demand.load, report.demand.money
    if option.cost_usd_per_year is None or option.violations:
        return False
    if option.term == Term.SPOT and not load.allow_spot:
        return False
    return COMMITMENT_YEARS.get(Term(option.term), 0) <= money.years
