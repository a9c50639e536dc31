"""What to know of the GPUs that a plan recommends before one is rented or bought, said once for every door."""

from collections.abc import Sequence
from datetime import date

from capplan.core.economics.concerns import Concern, concerns_of_age
from capplan.core.plan.types import Plan

_MOST_CHEAPER = 2
"""Cheaper GPUs that are named for one reason."""


def offer_cautions(plan: Plan, *, on: date) -> tuple[str, ...]:
    """Return sentences' parts on the recommended GPUs: licence, age of the price, porting, what would cost less."""
    licensed = [recommendation.fit.gpu.id for recommendation in plan.recommended if recommendation.licence]
    parts = [f"GeForce drivers are not licensed for data centres ({_listed(licensed)})"] if licensed else []
    parts += _aged_prices(plan, on)
    ported = [recommendation.fit.gpu.id for recommendation in plan.recommended if recommendation.porting]
    parts += [f"code for CUDA must be ported ({_listed(ported)})"] if ported else []
    by_reason: dict[str, list[str]] = {}
    for other in (other for recommendation in plan.recommended for other in recommendation.cheaper):
        by_reason.setdefault(other.why_not, []).append(other.fit.gpu.id)
    passed = []
    for reason, cheaper in by_reason.items():
        more = f" and {len(cheaper) - _MOST_CHEAPER} more" if len(cheaper) > _MOST_CHEAPER else ""
        passed.append(f"{', '.join(cheaper[:_MOST_CHEAPER])}{more} ({reason})")
    parts += [f"cheaper, but not taken: {', '.join(passed)}"] if passed else []
    return tuple(parts)


def _aged_prices(plan: Plan, on: date) -> list[str]:
    """Return what a report would say of the age of the prices taken, with their days, and the GPUs that they are of."""
    rents = {
        recommendation.fit.gpu.id: recommendation.fit.rent
        for recommendation in plan.recommended
        if recommendation.fit.rent is not None
    }
    found: dict[Concern, dict[str, list[str]]] = {}
    for gpu, rent in rents.items():
        for concern in concerns_of_age(rent.evidence, on=on):
            day = "" if concern is Concern.UNDATED_PRICE else f" of {rent.date}"
            found.setdefault(concern, {}).setdefault(day, []).append(gpu)
    return [
        concern + ",".join(f"{day} ({_listed(where)})" for day, where in days.items())
        for concern, days in found.items()
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))
