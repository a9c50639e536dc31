"""Prices of GPUs: hourly rents by term, purchase prices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

CURRENCY = "USD"


class Term(StrEnum):
    """How a GPU is paid for."""

    BUY = "buy"
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED_1Y = "reserved-1y"
    RESERVED_3Y = "reserved-3y"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a provider asks for one GPU for one hour, as part of an instance, on a day. [USD]"""

    gpu: str
    provider: str
    region: str
    term: Term
    usd_per_hour: float
    date: date
    source: str
    currency: str = CURRENCY
    instance: str | None = None
    instance_gpus: int = 1

    def __post_init__(self) -> None:
        if not self.usd_per_hour > 0:
            raise ValueError(f"a price must be above 0: {self.gpu}, {self.provider}, {self.usd_per_hour}")


def cheapest_on_demand(prices: Iterable[Price]) -> Mapping[str, Price]:
    """Find each GPU's lowest on-demand price per hour."""
    cheapest: dict[str, Price] = {}
    for price in prices:
        known = cheapest.get(price.gpu)
        if price.term is Term.ON_DEMAND and (known is None or price.usd_per_hour < known.usd_per_hour):
            cheapest[price.gpu] = price
    return cheapest


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchasePrice:
    """What one GPU costs to buy, on a day; `includes_server` where a server's quote was divided by its GPUs. [USD]"""

    gpu: str
    usd: float
    date: date
    source: str
    seller: str
    includes_server: bool = False
    currency: str = CURRENCY

    def __post_init__(self) -> None:
        if not self.usd > 0:
            raise ValueError(f"a price must be above 0: {self.gpu}, {self.seller}, {self.usd}")
