"""Recommend an option, and find its cost-latency front and alternatives.

Options are compared on the same scenarios of everything uncertain (common random numbers), so that what they share
does not count as doubt between them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capplan.core.economics.concerns import Concern
from capplan.core.economics.evidence import Standards
from capplan.core.economics.options import Case, ProcurementOption
from capplan.core.gpus.prices import COMMITMENT_YEARS, Term
from capplan.core.serving.load import OneGpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The option to take, and its alternatives; None where nothing has a price.

    Attributes:
        choice: The cheapest option of full evidence; where there is none, the cheapest of all.
        concerns: What speaks against `choice`; empty for full evidence.
        runner_up: The nearest alternative: the cheapest other option that may be chosen and costs at least as much, the
            same GPU under another term and weaker evidence included.
        runner_up_concerns: What speaks against `runner_up`.
        cheaper: The cheapest option of all, where it is cheaper than `choice` on weaker evidence.
        cheaper_concerns: What speaks against `cheaper`.
        front: Keys of the options that no other beats in cost and latency.
    """

    choice: ProcurementOption | None
    concerns: tuple[Concern, ...]
    runner_up: ProcurementOption | None
    cheaper: ProcurementOption | None
    cheaper_concerns: tuple[Concern, ...]
    front: tuple[str, ...]
    runner_up_concerns: tuple[Concern, ...] = ()


def recommend(case: Case, options: Sequence[ProcurementOption], *, standards: Standards) -> Decision:
    """Choose the cheapest option of full evidence, and GPUs that fit borderline only if no other fits.

    Spot is not chosen for a load that does not allow it: it may be reclaimed at any time.
    """
    ranked = ranking(case, options, standards=standards)
    choice = ranked[0] if ranked else None
    others = [
        option for option in ranked if choice and option is not choice and worth(case, option) >= worth(case, choice)
    ]
    runner_up = min(others, key=lambda option: (worth(case, option), option.key), default=None)
    best = min(ranked, key=lambda option: worth(case, option), default=None)
    cheaper = best if choice and best and worth(case, best) < worth(case, choice) else None
    return Decision(
        choice=choice,
        concerns=standards.concerns(choice) if choice else (),
        runner_up=runner_up,
        runner_up_concerns=standards.concerns(runner_up) if runner_up else (),
        cheaper=cheaper,
        cheaper_concerns=standards.concerns(cheaper) if cheaper else (),
        front=cost_latency_front([option for option in options if option.cost]),
    )


def ranking(case: Case, options: Sequence[ProcurementOption], *, standards: Standards) -> list[ProcurementOption]:
    """Return the options that may be chosen, best first; full evidence before weaker evidence.

    A price that is no longer current counts as what it may have risen to since.
    """
    allowed = [option for option in options if may_be_chosen(case, option) and standards.admits(option)]
    certain = [option for option in allowed if standards.fits_certainly(option)]
    return sorted(
        certain or allowed,
        key=lambda option: (
            bool(standards.weaknesses(option)),
            aged_worth(case, option, standards),
            option.fleets[-1].gpus,
            option.key,
        ),
    )


LITTLE_FRACTION = 0.05
"""What a plainer fleet may cost more, as a share of the least cost."""
_HALF = 0.5


def plainer_nearby(case: Case, ranked: Sequence[ProcurementOption], *, standards: Standards) -> frozenset[str]:
    """Return the keys of the options that a plainer one outdoes, at little more than what the first costs.

    Plainer is a term that binds less, on demand before commitments and these before a purchase and spot, with no more
    GPUs, or at most half as many GPUs on a term that binds no more. Nothing is outdone where no load is stated.
    """
    sound = standards.of_full_evidence(ranked)
    if not sound or isinstance(case.load, OneGpu):
        return frozenset()
    first = sound[0]
    least = aged_worth(case, first, standards)
    most = max((1 + LITTLE_FRACTION) * least, least + standards.little_usd_per_year)
    near = [option for option in sound if aged_worth(case, option, standards) <= most]
    plainer = [option for option in near if _is_plainer(option, first)]
    taken = min(plainer, key=lambda option: (_bond(option), option.fleets[-1].gpus, worth(case, option)), default=first)
    worth_of_taken = aged_worth(case, taken, standards)
    return frozenset(option.key for option in near if aged_worth(case, option, standards) < worth_of_taken)


def _is_plainer(option: ProcurementOption, other: ProcurementOption) -> bool:
    mine, theirs = option.fleets[-1].gpus, other.fleets[-1].gpus
    if _bond(option) > _bond(other) or mine > theirs:
        return False
    return _bond(option) < _bond(other) or mine <= _HALF * theirs


def _bond(option: ProcurementOption) -> int:
    """Return how far a term binds, or leaves one without machines: on demand least, spot most."""
    if option.term is Term.ON_DEMAND:
        return 0
    if option.term is Term.SPOT:
        return 3
    return 1 if option.term in COMMITMENT_YEARS else 2


def may_be_chosen(case: Case, option: ProcurementOption) -> bool:
    """Return True if an option has a price, its term is allowed, and no commitment outlasts the years counted."""
    if option.cost is None or (option.term is Term.SPOT and not case.load.allow_spot):
        return False
    return option.term is None or COMMITMENT_YEARS.get(option.term, 0) <= case.money.years


def worth(case: Case, option: ProcurementOption) -> float:
    """Return what options are ranked by: their yearly cost, per sample where no load is stated."""
    if isinstance(case.load, OneGpu):
        return option.cost_per_million or math.inf
    return _cost(option)


def aged_worth(case: Case, option: ProcurementOption, standards: Standards) -> float:
    """Return what an option is worth with its price as it may have risen to since it was current."""
    return worth(case, option) * standards.aged_factor(option)


def _cost(option: ProcurementOption) -> float:
    return math.inf if option.cost is None else option.cost.per_year


def latency_s(option: ProcurementOption) -> float:
    """Return the time that counts: the percentile at peak of a service, a whole run of a job, else a full batch. [s]"""
    if option.finish_s is not None:
        return option.finish_s
    response = option.sizing.response
    if response and response.percentile_s:
        return response.percentile_s.expected
    return option.sizing.batch_latency_s.expected


def cost_latency_front(options: Sequence[ProcurementOption]) -> tuple[str, ...]:
    """Return the keys of the options that no other beats in cost and latency, the axes of their chart."""

    def objectives(option: ProcurementOption) -> tuple[float, float]:
        return _cost(option), latency_s(option)

    def beaten(mine: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return other != mine and all(theirs <= own for theirs, own in zip(other, mine, strict=True))

    points = {option.key: objectives(option) for option in options}
    return tuple(key for key, mine in points.items() if not any(beaten(mine, other) for other in points.values()))
