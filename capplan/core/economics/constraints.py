"""What a buyer assumes of money and demand, each with its source, and what a buyer admits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capplan.core.economics.concerns import DEFAULT_MAX_PRICE_AGE_DAYS
from capplan.core.gpus.prices import LASTING_TERMS, Price, PurchasePrice, Term
from capplan.core.gpus.spec import Segment
from capplan.core.serving.load import Load
from capplan.core.serving.response import Candidate

DEFAULT_SEGMENTS = frozenset({Segment.DATA_CENTRE.value, Segment.WORKSTATION.value})
"""The segments that a decision considers unless others are admitted."""

RENTED = LASTING_TERMS - {Term.BUY}
BOUGHT = frozenset({Term.BUY})


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLists:
    """Names of providers or sellers, regions, GPUs (ids) and segments; an empty list names nothing."""

    providers: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    gpus: frozenset[str] = frozenset()
    segments: frozenset[str] = frozenset()


DEFAULT_CERTAINTY = 0.9
"""The share of scenarios that every fleet of a report is sized for, unless another is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What may be recommended, and what it may cost and take.

    Attributes:
        allow: Where a list is not empty, nothing else is considered. Provider lists apply to sellers, too; a purchase
            has no region. A region may be a provider's, a country or an area such as eu. GPUs named here are admitted
            whatever their segment.
        deny: What is never considered.
        marketplaces: True if offers of third-party hosts compete with those of vendors.
        any_vendor: True if GPUs that need porting compete where no step was timed on their architecture.
        max_capex_usd: Cap on what is paid on the first day. [USD]
        max_usd_per_year: Cap on what is paid in any later year, residual value aside. [USD]
        max_power_w: Cap on the nameplate power of bought servers; rented ones stand elsewhere. [W]
        max_rack_units: Cap on the rack units of bought servers.
        certainty_fraction: Share of the scenarios that every fleet is sized for.
        max_price_age_days: A price that is older counts as old. [days]
    """

    terms: frozenset[Term] = LASTING_TERMS
    allow: NameLists = field(default_factory=NameLists)
    deny: NameLists = field(default_factory=NameLists)
    marketplaces: bool = False
    any_vendor: bool = False
    max_capex_usd: float | None = None
    max_usd_per_year: float | None = None
    max_power_w: float | None = None
    max_rack_units: float | None = None
    certainty_fraction: float = DEFAULT_CERTAINTY
    max_price_age_days: float = DEFAULT_MAX_PRICE_AGE_DAYS

    def relaxed(self) -> Mapping[str, "Constraints"]:
        """Return these constraints without each one that is stated about terms, offers, money or site, by its name."""
        allow, deny, nobody = self.allow, self.deny, frozenset[str]()
        without = {
            "terms": replace(self, terms=LASTING_TERMS),
            "providers": replace(self, allow=replace(allow, providers=nobody), deny=replace(deny, providers=nobody)),
            "regions": replace(self, allow=replace(allow, regions=nobody), deny=replace(deny, regions=nobody)),
            "the cap on capex": replace(self, max_capex_usd=None),
            "the cap per year": replace(self, max_usd_per_year=None),
            "the cap on power": replace(self, max_power_w=None),
            "the cap on rack units": replace(self, max_rack_units=None),
        }
        return {name: others for name, others in without.items() if others != self}

    def refusal_of_gpu(self, candidate: Candidate) -> str | None:
        """Return why a GPU is not considered; None where it is."""
        gpu, segment = candidate.gpu, candidate.segment
        if candidate.not_sold is not None:
            return candidate.not_sold
        if gpu in self.deny.gpus:
            return "denied by name"
        if segment in self.deny.segments:
            return f"denied segment: {segment}"
        if gpu in self.allow.gpus:
            return None
        if self.allow.gpus:
            return "not among the GPUs allowed"
        if self.allow.segments:
            return None if segment in self.allow.segments else f"segment not allowed: {segment or 'unknown'}"
        if segment is not None and segment not in DEFAULT_SEGMENTS:
            return f"segment {segment} is considered only where it is allowed or the GPU is named"
        return None

    def refusal_of_price(self, price: Price | PurchasePrice) -> str | None:
        """Return why an offer is not considered; None where it is."""
        term = price.term if isinstance(price, Price) else Term.BUY
        if term not in self.terms:
            return f"term not admitted: {term.value}"
        provider = price.provider if isinstance(price, Price) else price.seller_name
        if refused := _refused("provider", provider, self.allow.providers, self.deny.providers):
            return refused
        return self._refusal_of_place(price) if isinstance(price, Price) else None

    def _refusal_of_place(self, price: Price) -> str | None:
        """Return why an offer's place is not admitted; None where it is.

        A place must certainly lie in what is allowed, and certainly outside of what is denied: an offer of unknown
        country is refused by both.
        """
        where = price.region if price.country else f"{price.region}, country not known"
        if denied := sorted(name for name in self.deny.regions if price.may_be_in(name)):
            return f"denied region: {where}" if price.is_in(denied[0]) else f"may be in {denied[0]}: {where}"
        if self.allow.regions and not any(price.is_in(name) for name in self.allow.regions):
            if possible := sorted(name for name in self.allow.regions if price.may_be_in(name)):
                return f"may be in {possible[0]}, ask: {where}"
            return f"region not allowed: {where}"
        return None


def _refused(kind: str, name: str, allowed: frozenset[str], denied: frozenset[str]) -> str | None:
    if name in denied:
        return f"denied {kind}: {name}"
    if allowed and name not in allowed:
        return f"{kind} not allowed: {name}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedOffer:
    """An offer that no option rests on, and why."""

    price: Price | PurchasePrice
    reason: str


def admitted_prices(
    rents: Sequence[Price], purchases: Sequence[PurchasePrice], constraints: Constraints
) -> tuple[tuple[Price, ...], tuple[PurchasePrice, ...], tuple[ExcludedOffer, ...]]:
    """Split the offers into admitted ones and excluded ones, each of the latter with its reason.

    A figure that nobody can order at is excluded, whatever else is admitted.
    """
    offers: tuple[Price | PurchasePrice, ...] = (*rents, *purchases)
    refused = {
        id(price): (price.comparison if isinstance(price, Price) else None) or constraints.refusal_of_price(price)
        for price in offers
    }
    return (
        tuple(price for price in rents if refused[id(price)] is None),
        tuple(price for price in purchases if refused[id(price)] is None),
        tuple(
            ExcludedOffer(price=price, reason=reason) for price in offers if (reason := refused[id(price)]) is not None
        ),
    )


_WHOLE = ("years", "gpus_per_server_sxm", "gpus_per_server_pcie", "rack_units_sxm", "rack_units_pcie")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One input of the decision: its value with the range it may take, and where it comes from.

    `basis` says how far to trust it: "yours", or of a default "published", "secondary", "derived", "judgement",
    "unverified" (from memory, not read again at its source).
    """

    key: str
    label: str
    unit: str
    value: float
    low: float
    high: float
    basis: str
    source: str

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.key}: the range must hold the value: {self.low}, {self.value}, {self.high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAssumptions:
    """The assumptions as numbers, ready for the formulas; fractions are of 1, amounts USD."""

    years: int
    discount_fraction: float
    residual_fraction: float
    chassis_usd_sxm: float
    chassis_usd_pcie: float
    network_fraction: float
    support_fraction: float
    space_usd_per_kw_month: float
    staff_usd_per_server_year: float
    licence_usd_per_gpu_year: float
    gpus_per_server_sxm: int
    gpus_per_server_pcie: int
    rack_units_sxm: int
    rack_units_pcie: int
    host_w_sxm: float
    host_w_pcie: float
    card_power_factor: float
    power_fraction: float
    idle_power_fraction: float
    pue: float
    usd_per_kwh: float
    grid_g_per_kwh: float
    embodied_kg_per_gpu: float
    embodied_kg_per_server: float
    failures_per_gpu_year: float
    repair_days: float
    zone_down_fraction: float = 0.0

    def with_value(self, key: str, value: float) -> "CostAssumptions":
        changed: dict[str, Any] = {key: round(value) if key in _WHOLE else value}
        return replace(self, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLoad:
    """What a report answers: the load, the money, and every assumption behind both with range and source."""

    load: Load
    money: CostAssumptions
    assumptions: tuple[Assumption, ...]
    constraints: Constraints = field(default_factory=Constraints)
