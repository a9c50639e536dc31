"""Four ways to serve one load: a fleet that stands, one that scales, GPUs by the second, and an API."""

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
class ServingWays:
    """The ways to serve the load of a week, the cheapest that keeps the limits first, and where the order changes."""

    requests_per_day: float
    peak_per_s: float
    share: float
    start_s: Interval
    costs: tuple[WayCost, ...]
    crossings: tuple[Crossing, ...]
    notes: tuple[str, ...] = ()
