"""Prices of GPUs: hourly rents by term, purchase prices, and how far each price can be trusted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

CURRENCY = "USD"


class Term(StrEnum):
    """How a GPU is paid for.

    `COMMUNITY` is rent from third-party hosts on a marketplace. `CAPACITY_BLOCK` and `FLEX_START` are bookings of a
    limited time, `RESERVED_*` commitments. `SPOT` may be reclaimed at any time.
    """

    BUY = "buy"
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    COMMUNITY = "community"
    FLEX_START = "flex-start"
    CAPACITY_BLOCK = "capacity-block"
    RESERVED_3MO = "reserved-3mo"
    RESERVED_6MO = "reserved-6mo"
    RESERVED_1Y = "reserved-1y"
    RESERVED_3Y = "reserved-3y"


LASTING_TERMS = frozenset({Term.BUY, Term.ON_DEMAND, Term.SPOT, Term.RESERVED_1Y, Term.RESERVED_3Y})
"""Terms under which a fleet can run for years; the others are shown among prices and left out of decisions."""


COMMITMENT_YEARS: Mapping[Term, int] = {Term.RESERVED_1Y: 1, Term.RESERVED_3Y: 3}
"""How long a commitment binds the buyer, who pays for every hour of it, used or not. [years]"""

MARKETPLACES = frozenset({"lium", "tensordock", "vast.ai"})
"""Providers that pass on offers of third-party hosts. A price file may state `marketplace` for others."""


class PriceTier(StrEnum):
    """How a price is known, best first.

    `QUOTED`: the vendor's price API, price page or catalogue, read by machine, or a quote to the user.
    `PUBLISHED`: a data set or publication that names the seller, or a vendor's page typed in by hand.
    `HEARSAY`: market talk, blogs, prices commonly quoted without a document.
    """

    QUOTED = "quoted"
    PUBLISHED = "published"
    HEARSAY = "hearsay"


class DateKind(StrEnum):
    """What a price's day means: the day on which it held, a bound on that day, or only the day of reading."""

    STATED = "stated"
    NOT_BEFORE = "not-before"
    NOT_AFTER = "not-after"
    READ = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteTerms:
    """What a quote states besides its price; None where it states nothing.

    `sku` is the seller's part number, `valid_until` the last day on which the seller holds to the price,
    `lead_time_days` the time from order to delivery. [days]
    """

    sku: str | None = None
    valid_until: date | None = None
    lead_time_days: float | None = None
    warranty_years: float | None = None


NO_TERMS = QuoteTerms()
"""The terms of a price that is not a quote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceEvidence:
    """How far a price can be trusted: its tier, its day, what that day means, and until when a quote is valid."""

    tier: PriceTier
    day: date
    date_is: DateKind = DateKind.STATED
    valid_until: date | None = None

    def age_days(self, today: date) -> int | None:
        """Return the days since the price held; None where only the day of reading is known. [days]"""
        return None if self.date_is is DateKind.READ else (today - self.day).days

    def is_expired(self, today: date) -> bool:
        """Return True if the price is a quote whose validity has ended."""
        return self.valid_until is not None and today > self.valid_until

    def is_old(self, today: date, *, max_age_days: float) -> bool:
        """Return True if the price is older than an age, or its age is unknown; a quote is old when it has expired."""
        if self.valid_until is not None:
            return self.is_expired(today)
        age = self.age_days(today)
        return age is None or age > max_age_days


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a provider asks for one GPU for one hour, as part of an instance, on a day. [USD]

    `is_marketplace` marks an offer of a third-party host: a class of its own, because it lasts only while that host
    offers it and no single company answers for it. It competes with vendors' offers only where a buyer admits it.
    `is_beside_sound` marks, within a decision, a cheaper offer of weaker evidence beside the sound one of its GPU and
    term.
    """

    gpu: str
    provider: str
    region: str
    term: Term
    usd_per_hour: float
    date: date
    source: str
    tier: PriceTier = PriceTier.QUOTED
    date_is: DateKind = DateKind.STATED
    currency: str = CURRENCY
    instance: str | None = None
    instance_gpus: int = 1
    is_marketplace: bool = False
    is_beside_sound: bool = False
    quote: QuoteTerms = NO_TERMS

    def __post_init__(self) -> None:
        if not self.usd_per_hour > 0:
            raise ValueError(f"a price must be above 0: {self.gpu}, {self.provider}, {self.usd_per_hour}")

    @property
    def evidence(self) -> PriceEvidence:
        """Return how far the price can be trusted."""
        return PriceEvidence(tier=self.tier, day=self.date, date_is=self.date_is, valid_until=self.quote.valid_until)


def current_prices(prices: Iterable[Price]) -> tuple[Price, ...]:
    """Keep each provider's newest prices of a GPU and term: an older day of the same provider is history.

    Of prices whose day is not that on which they held, the day of reading counts.
    """
    held = tuple(prices)
    newest: dict[tuple[str, str, Term], date] = {}
    for price in held:
        key = (price.gpu, price.provider, price.term)
        newest[key] = max(price.date, newest.get(key, price.date))
    return tuple(price for price in held if price.date == newest[price.gpu, price.provider, price.term])


def cheapest_on_demand(prices: Iterable[Price]) -> Mapping[str, Price]:
    """Find each GPU's lowest on-demand price per hour.

    Hearsay and offers of marketplaces count only where a vendor's dated price is not known.
    """
    cheapest: dict[str, Price] = {}
    for price in current_prices(prices):
        known = cheapest.get(price.gpu)
        if price.term is Term.ON_DEMAND and (known is None or _preference(price) < _preference(known)):
            cheapest[price.gpu] = price
    return cheapest


def _preference(price: Price) -> tuple[bool, bool, float]:
    return price.tier is PriceTier.HEARSAY, price.is_marketplace, price.usd_per_hour


def offers_on_demand(prices: Iterable[Price]) -> Mapping[str, int]:
    """Return how many providers rent each GPU on demand."""
    providers: dict[str, set[str]] = {}
    for price in prices:
        if price.term is Term.ON_DEMAND:
            providers.setdefault(price.gpu, set()).add(price.provider)
    return {gpu: len(found) for gpu, found in providers.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchasePrice:
    """What one GPU costs to buy, on a day; `includes_server` where a server's quote was divided by its GPUs. [USD]

    `seller` describes seller and kind of price, `seller_name` is the seller alone; empty where none is named.
    """

    gpu: str
    usd: float
    date: date
    source: str
    seller: str
    tier: PriceTier = PriceTier.QUOTED
    date_is: DateKind = DateKind.STATED
    includes_server: bool = False
    currency: str = CURRENCY
    seller_name: str = ""
    quote: QuoteTerms = NO_TERMS

    def __post_init__(self) -> None:
        if not self.usd > 0:
            raise ValueError(f"a price must be above 0: {self.gpu}, {self.seller}, {self.usd}")

    @property
    def evidence(self) -> PriceEvidence:
        """Return how far the price can be trusted."""
        return PriceEvidence(tier=self.tier, day=self.date, date_is=self.date_is, valid_until=self.quote.valid_until)
