"""What ways to serve the load of a week cost, side by side."""

from dataclasses import dataclass
from enum import StrEnum

from capplan.core.numbers import Interval


class Way(StrEnum):
    """How a load is served."""

    STANDING = "standing"
    AUTOSCALED = "autoscaled"
    SERVERLESS = "serverless"
    API = "API"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayCost:
    """What one way costs a month, and which share of the requests keeps the limits. [USD]

    `usd_per_month` is None where no price is known, `inside` None where nothing is known of the limits. `words` say
    what it is, `source` where the price is from and of which day.
    """

    way: Way
    usd_per_month: Interval | None
    inside: float | None
    keeps: bool | None
    words: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A load at which one way becomes cheaper than another: requests a day, the shape of the week as it is."""

    requests_per_day: float
    below: Way
    above: Way


@dataclass(frozen=True, slots=True, kw_only=True)
class WayCurve:
    """What one way costs a month over the requests of a day, the shape of the week as it is. [1/day, USD]"""

    way: Way
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingWays:
    """The ways to serve the load of a week, the cheapest that keeps the limits first, and where the order changes.

    `curves` are what each way costs over the load, for a chart.
    """

    requests_per_day: float
    peak_per_s: float
    share: float
    start_s: Interval
    costs: tuple[WayCost, ...]
    crossings: tuple[Crossing, ...]
    curves: tuple[WayCurve, ...] = ()
    notes: tuple[str, ...] = ()


def unknown_way(way: Way, words: str) -> WayCost:
    """Return a way of which no price is known."""
    return WayCost(way=way, usd_per_month=None, inside=None, keeps=None, words=words, source="")
