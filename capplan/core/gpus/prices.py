"""Prices of GPUs: hourly rents by term, purchase prices, and how far each price can be trusted."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import ceil

from capplan.core.gpus.machines import GpuServer, MachineType, Place

CURRENCY = "USD"
QUOTE_COLUMNS = ("gpu", "term", "provider", "price", "date")
"""Columns that a table of quotes must have; see `OPTIONAL_QUOTE_COLUMNS` for the others."""
OPTIONAL_QUOTE_COLUMNS = (
    "gpus", "instance", "region", "country", "currency", "includes_server", "sku", "valid_until", "lead_time_days",
    "warranty_years", "upfront", "sold_by", "date_is", "tier", "source", "note",
)  # fmt: skip


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


class PriceKind(StrEnum):
    """From whom a price is known: read at the provider, in somebody's copy, in your own quote, or seen in use."""

    READ = "read"
    COPY = "copy"
    QUOTE = "quote"
    OBSERVED = "observed"


KIND_WORDS: Mapping[PriceKind, str] = {
    PriceKind.READ: "read at the provider",
    PriceKind.COPY: "third-party copy",
    PriceKind.QUOTE: "your quote",
    PriceKind.OBSERVED: "observed",
}
"""How a report words the kind of a price."""


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
    valid_until: datetime.date | None = None
    lead_time_days: float | None = None
    warranty_years: float | None = None


NO_TERMS = QuoteTerms()
"""The terms of a price that is not a quote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceEvidence:
    """How far a price can be trusted: its tier, its day, what that day means, and until when a quote is valid."""

    tier: PriceTier
    day: datetime.date
    date_is: DateKind = DateKind.STATED
    valid_until: datetime.date | None = None

    def age_days(self, today: datetime.date) -> int | None:
        """Return the days since the price held; None where only the day of reading is known. [days]"""
        return None if self.date_is is DateKind.READ else (today - self.day).days

    def is_expired(self, today: datetime.date) -> bool:
        """Return True if the price is a quote whose validity has ended."""
        return self.valid_until is not None and today > self.valid_until

    def is_old(self, today: datetime.date, *, max_age_days: float) -> bool:
        """Return True if the price is older than an age, or its age is unknown; a quote is old when it has expired."""
        if self.valid_until is not None:
            return self.is_expired(today)
        age = self.age_days(today)
        return age is None or age > max_age_days


class _KnownPrice:
    """What a rent and a purchase price have in common: how well they are known."""

    __slots__ = ()
    tier: PriceTier
    kind: PriceKind
    date: datetime.date
    date_is: DateKind
    quote: QuoteTerms

    @property
    def known_by(self) -> str:
        """Return how the price is known in a report's words: hearsay, else from whom; "quote" is your own alone."""
        return self.tier.value if self.tier is PriceTier.HEARSAY else KIND_WORDS[self.kind]

    @property
    def evidence(self) -> PriceEvidence:
        """Return how far the price can be trusted."""
        return PriceEvidence(tier=self.tier, day=self.date, date_is=self.date_is, valid_until=self.quote.valid_until)


@dataclass(frozen=True, kw_only=True)
class Price(_KnownPrice):
    """An offer: what a provider asks for one GPU for one hour, as part of a machine, in a region, on a day. [USD]

    A machine is rented whole: `instance_gpus` GPUs at `usd_per_machine_hour`. `place` is where it stands, `machine`
    its type where that is known, `joined` how many of its GPUs fast links join. `comparison` says why nobody can order
    at this price, None for an offer. `upfront_fraction` is the share of a commitment that is paid on the first day,
    `zones_usd` the lowest and highest price of a spot machine over its zones [USD/h], `minimum_s` the shortest time
    that is charged [s], `own_network_bytes_per_s` the network of one GPU to other machines as the user states it, one
    direction [bytes/s]; None where not known.

    `sold_by` names a broker through whom one buys what the provider hosts.

    `is_marketplace` marks an offer of a third-party host: a class of its own, because it lasts only while that host
    offers it and no single company answers for it. It competes with vendors' offers only where a buyer admits it.
    `is_beside_sound` marks, within a decision, a cheaper offer of weaker evidence beside the sound one of its GPU and
    term, `is_own_beside` your own quote beside an offer that costs less.
    """

    gpu: str
    provider: str
    region: str
    term: Term
    usd_per_hour: float
    date: datetime.date
    source: str
    tier: PriceTier = PriceTier.QUOTED
    date_is: DateKind = DateKind.STATED
    currency: str = CURRENCY
    instance: str | None = None
    instance_gpus: int = 1
    is_marketplace: bool = False
    is_beside_sound: bool = False
    is_own_beside: bool = False
    quote: QuoteTerms = NO_TERMS
    kind: PriceKind = PriceKind.COPY
    place: Place | None = None
    machine: MachineType | None = None
    joined: int = 1
    comparison: str | None = None
    upfront_fraction: float | None = None
    zones_usd: tuple[float, float] | None = None
    minimum_s: float | None = None
    note: str | None = None
    sold_by: str | None = None
    own_network_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if not self.usd_per_hour > 0:
            raise ValueError(f"a price must be above 0: {self.gpu}, {self.provider}, {self.usd_per_hour}")

    @property
    def is_orderable(self) -> bool:
        """Return True for an offer; False for a figure that only serves comparison, such as a median."""
        return self.comparison is None

    @property
    def usd_per_machine_hour(self) -> float:
        """Return the price of the whole machine. [USD/h]"""
        return self.usd_per_hour * self.instance_gpus

    @cached_property
    def server(self) -> GpuServer:
        """Return what stands in the machine; machines of third-party hosts have no network to one another."""
        network = self.machine.network_bytes_per_s if self.machine else None
        share = self.own_network_bytes_per_s or (network / self.instance_gpus if network else None)
        own = None if self.is_marketplace else share
        return GpuServer(gpus=self.instance_gpus, joined=self.joined, network_bytes_per_s=own)

    @property
    def is_networked(self) -> bool:
        """Return True if the machine's network to others of its kind is known."""
        return self.server.network_bytes_per_s is not None

    @property
    def machine_words(self) -> str:
        """Return the machine as the provider names it and where it stands, such as "aws p5.48xlarge, us-east-1"."""
        named = f"{self.provider} {self.instance or ''}".strip()
        return ", ".join(part for part in (named, self.region, self._broker) if part)

    @property
    def _broker(self) -> str:
        return f"resold through {self.sold_by}" if self.sold_by else ""

    def machines_for(self, gpus: int, *, together: int = 1) -> int | None:
        """Return how many whole machines hold some GPUs; None where one is too small for those that work together."""
        groups = self.instance_gpus // together
        return ceil(ceil(gpus / together) / groups) if groups else None

    @property
    def country(self) -> str | None:
        """Return the code of the country in which the machine stands; None where it is not known."""
        return self.place.country.code if self.place and self.place.country else None

    @property
    def offer_key(self) -> tuple[str, str, Term, str, str, int]:
        """Return what makes two prices those of one offer: GPU, provider, term, region and machine."""
        machine = self.machine.name if self.machine else (self.instance or "").lower().removeprefix("nvidia ")
        return self.gpu, self.provider, self.term, self.region.lower(), machine, self.instance_gpus

    @property
    def offer_words(self) -> str:
        """Return the machine that is rented, such as "aws g6.12xlarge, us-east-1"."""
        name = f"{self.provider} {(self.instance or self.gpu).removeprefix(f'{self.provider}_')}"
        return ", ".join(part for part in (name, self.region, self._broker) if part)

    def is_in(self, wanted: str) -> bool:
        """Return True if the offer certainly stands in a region, country or area."""
        return (self.place or Place(region=self.region)).is_in(wanted)

    def may_be_in(self, wanted: str) -> bool:
        """Return True if the offer stands in a region, country or area, or could."""
        return (self.place or Place(region=self.region)).may_be_in(wanted)


def current_prices(prices: Iterable[Price]) -> tuple[Price, ...]:
    """Keep each offer's newest price: an older day of the same machine, region and term is history.

    A newer price of another region or of another machine of the provider replaces nothing. Of prices whose day is not
    that on which they held, the day of reading counts.
    """
    held = tuple(prices)
    newest: dict[tuple[str, str, Term, str, str, int], datetime.date] = {}
    for price in held:
        newest[price.offer_key] = max(price.date, newest.get(price.offer_key, price.date))
    current = (price for price in held if price.date == newest[price.offer_key])
    return tuple({(*price.offer_key, price.usd_per_hour): price for price in current}.values())


def current_offers(prices: Iterable[Price]) -> tuple[Price, ...]:
    """Keep the newest price of each offer, without the figures that nobody can order at."""
    return tuple(price for price in current_prices(prices) if price.is_orderable)


def cheapest_on_demand(prices: Iterable[Price]) -> Mapping[str, Price]:
    """Find the on-demand offer at which one of each GPU is rented for the least.

    A machine is rented whole: a machine of one GPU at 3 USD an hour stands before a machine of eight at 20.
    """
    return cheapest_offers(offers_to_plan_with(prices))


def cheapest_offers(offers: Mapping[str, Sequence[Price]]) -> Mapping[str, Price]:
    """Find the offer of each GPU at which one of it is rented for the least."""
    cheapest = {gpu: cheapest_offer(held, gpus=1) for gpu, held in offers.items()}
    return {gpu: offer for gpu, offer in cheapest.items() if offer is not None}


def offers_to_plan_with(prices: Iterable[Price]) -> Mapping[str, tuple[Price, ...]]:
    """Return the on-demand offers of each GPU that count.

    A quote of your own stands before all others, since it is what you would pay. Hearsay and offers of marketplaces
    count only where a vendor's dated price is not known. A price that is over a year older than the newest of these
    counts no more.
    """
    offers: dict[str, list[Price]] = {}
    for price in current_offers(prices):
        if price.term is Term.ON_DEMAND:
            offers.setdefault(price.gpu, []).append(price)
    counting = {}
    for gpu, held in offers.items():
        least = min(map(_weakness, held))
        best = [price for price in held if _weakness(price) == least]
        newest = max(price.date for price in best)
        counting[gpu] = tuple(
            price for price in best if price.kind is PriceKind.QUOTE or newest - price.date <= _OUTDATED_AFTER
        )
    return counting


_OUTDATED_AFTER = datetime.timedelta(days=365)
"""How much older than the newest price of its GPU an offer may be known to be, and still count."""


def cheapest_offer(offers: Sequence[Price], *, gpus: int, together: int = 1) -> Price | None:
    """Return the offer whose whole machines hold some GPUs for the least; None where no machine is large enough.

    Of equal prices the newest is taken.
    """
    held = [
        (machines * offer.usd_per_machine_hour, offer.usd_per_hour, -offer.date.toordinal(), index)
        for index, offer in enumerate(offers)
        if (machines := offer.machines_for(gpus, together=together)) is not None
    ]
    return offers[min(held)[-1]] if held else None


def _weakness(price: Price) -> tuple[bool, bool, bool]:
    return price.kind is not PriceKind.QUOTE, price.tier is PriceTier.HEARSAY, price.is_marketplace


def offers_on_demand(prices: Iterable[Price]) -> Mapping[str, int]:
    """Return how many providers rent each GPU on demand."""
    providers: dict[str, set[str]] = {}
    for price in prices:
        if price.term is Term.ON_DEMAND and price.is_orderable:
            providers.setdefault(price.gpu, set()).add(price.provider)
    return {gpu: len(names) for gpu, names in providers.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchasePrice(_KnownPrice):
    """What one GPU costs to buy, on a day; `includes_server` where a server's quote was divided by its GPUs. [USD]

    `server_gpus` is how many GPUs that server holds: it is bought whole. None where cards are sold one by one.
    `seller` describes seller and kind of price, `seller_name` is the seller alone; empty where none is named.
    """

    gpu: str
    usd: float
    date: datetime.date
    source: str
    seller: str
    tier: PriceTier = PriceTier.QUOTED
    date_is: DateKind = DateKind.STATED
    includes_server: bool = False
    server_gpus: int | None = None
    currency: str = CURRENCY
    seller_name: str = ""
    quote: QuoteTerms = NO_TERMS
    kind: PriceKind = PriceKind.COPY

    @property
    def term(self) -> Term:
        """Return that the GPU is bought."""
        return Term.BUY

    def __post_init__(self) -> None:
        if not self.usd > 0:
            raise ValueError(f"a price must be above 0: {self.gpu}, {self.seller}, {self.usd}")
