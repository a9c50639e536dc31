"""Which option to take, and how sure that is: recommendation, Pareto front, sensitivity, probability.

Options are compared on the same draws of everything uncertain (common random numbers), so that what they share
does not count as doubt between them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capplan.core.economics.options import Case, Option
from capplan.core.gpus.prices import Term
from capplan.core.serving.load import OneGpu

_Z_90 = 1.6449
"""Half width, in standard deviations, of the interval that holds 90 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The cheapest option that may be taken, and the cheapest on another GPU; None where nothing has a price."""

    choice: Option | None
    runner_up: Option | None
    front: tuple[str, ...]


def recommend(case: Case, options: Sequence[Option], *, firm: Callable[[str], bool]) -> Recommendation:
    """Choose the cheapest option; GPUs whose memory fit is not `firm` only where there is no other.

    Spot is not chosen for a load that does not allow it: it may be reclaimed at any time.
    """
    ranked = ranking(case, options, firm=firm)
    choice = ranked[0] if ranked else None
    others = [option for option in ranked if choice and option.gpu != choice.gpu]
    return Recommendation(
        choice=choice, runner_up=others[0] if others else None, front=pareto_front([o for o in options if o.cost])
    )


def ranking(case: Case, options: Sequence[Option], *, firm: Callable[[str], bool]) -> list[Option]:
    """Options that may be chosen, best first."""
    allowed = [option for option in options if option.cost and (case.load.allow_spot or option.term is not Term.SPOT)]
    certain = [option for option in allowed if firm(option.gpu)]
    return sorted(certain or allowed, key=lambda option: (worth(case, option), option.key))


def worth(case: Case, option: Option) -> float:
    """What options are ranked by: their yearly cost, per sample where no load is stated."""
    if isinstance(case.load, OneGpu):
        return option.cost_per_million or math.inf
    return _cost(option)


def _cost(option: Option) -> float:
    return math.inf if option.cost is None else option.cost.per_year


def latency_s(option: Option) -> float:
    """What a user of the option waits: the percentile at peak of a service, the time of a full batch of a job. [s]"""
    response = option.sizing.response
    if response and response.percentile_s:
        return response.percentile_s.expected
    return option.sizing.batch_latency_s.expected


def pareto_front(options: Sequence[Option]) -> tuple[str, ...]:
    """Keys of the options that no other beats in cost, latency and head-room at once."""

    def objectives(option: Option) -> tuple[float, float, float]:
        return _cost(option), latency_s(option), -option.headroom_fraction

    def beaten(mine: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return other != mine and all(theirs <= own for theirs, own in zip(other, mine, strict=True))

    points = {option.key: objectives(option) for option in options}
    return tuple(key for key, mine in points.items() if not any(beaten(mine, other) for other in points.values()))
