"""Which GPUs a question is about, the database and prices that answer it, and which prices count."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from capplan.core.gpus.attributes import at_least, parse_conditions, select_gpus
from capplan.core.gpus.names import split_names
from capplan.core.gpus.prices import Price, Term, cheapest_offers, current_offers
from capplan.core.gpus.sale import is_announced, sale_notes
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import UnknownNameError, UsageError
from capplan.specs import Gpus, load_gpus
from capplan.specs.prices import Prices, load_prices
from capplan.specs.providers import load_providers


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFilters:
    """Conditions that GPUs must meet, as `capplan gpus` takes them; empty ones are met by all."""

    where: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    min_memory: str | None = None

    def select(self, gpus: Iterable[GpuSpec]) -> list[GpuSpec]:
        conditions = [condition for text in self.where for condition in parse_conditions(text)]
        if self.min_memory:
            conditions.append(at_least("memory", self.min_memory, what="⟨min-memory⟩"))
        return select_gpus(gpus, vendors=self.vendors, architectures=self.architectures, conditions=conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """Name GPUs of the database, own specs laid over it.

    Without `ids` and `specs` all GPUs that are sold are meant; announced ones are so where they are named. `overlays`
    are folders and files of own specs; a folder may hold prices too. `database` and `prices` are what a caller has
    loaded already, `specs` are GPUs that it hands over whole. An id may be a family's name, which takes all its
    variants, or a list parted by commas. Of the GPUs so named only those that pass `filters` are meant. `with_cpus`
    adds the CPUs of the database, as if each of them were named.
    """

    ids: tuple[str, ...] = ()
    with_cpus: bool = False
    filters: GpuFilters = field(default_factory=GpuFilters)
    overlays: tuple[Path, ...] = ()
    database: Gpus | None = None
    prices: Prices | None = None
    specs: tuple[GpuSpec, ...] = ()

    @property
    def narrows(self) -> bool:
        """Return True if GPUs are named, handed over or filtered, so that not all of the database are meant."""
        return bool(self.ids or self.specs or self.filters != GpuFilters())


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChoice:
    """The GPUs that a question is about, and all that are known.

    `named` are the ids of those that the request names itself; `notes` say which names stood for several.
    """

    known: Gpus
    chosen: tuple[GpuSpec, ...]
    overlays: tuple[Path, ...]
    named: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    loaded_prices: Prices | None = None

    def prices(self) -> Prices:
        """Return the prices that were loaded already, or load them: the overlays' own laid over the built-in ones."""
        if self.loaded_prices is not None:
            return self.loaded_prices
        return load_prices(self.known, overlays=self.overlays)


def find_gpus(request: GpuRequest) -> GpuChoice:
    """Load the database and find the GPUs asked for, each once, in the order in which they are named."""
    known = request.database if request.database is not None else load_gpus(overlays=request.overlays)
    overlays = (*known.overlays, *(overlay for overlay in request.overlays if overlay not in known.overlays))
    matches = [known.find_all(name) for name in split_names(request.ids)]
    named = {gpu.id: gpu for gpu in (*request.specs, *(gpu for match in matches for gpu in match.gpus))}
    cpus = dict(known.cpus) if request.with_cpus else {}
    passing = request.filters.select(((named or dict(known)) | cpus).values())
    chosen = passing if named else [gpu for gpu in passing if not is_announced(gpu)]
    if passing and not chosen:
        raise UsageError(
            f"{'; '.join(sale_notes(passing))}. Name it to have it estimated, such as ⟨gpu⟩ {passing[0].id}."
        )
    if not chosen:
        raise UsageError("no GPU passes the filters; `capplan gpus` takes the same ones and lists what passes.")
    return GpuChoice(
        known=known,
        chosen=tuple(chosen),
        overlays=overlays,
        named=frozenset(named),
        notes=(*(match.note for match in matches if match.note), *sale_notes(chosen)),
        loaded_prices=request.prices,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFilters:
    """Which on-demand prices count: of these providers and in these regions (all if empty), up to a limit.

    A region may be a provider's, a country or an area. The limit is for the smallest machine and hour. [USD]
    """

    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    only_priced: bool = False
    max_usd_per_hour: float | None = None

    def __bool__(self) -> bool:
        return bool(self.providers or self.regions) or self.only_priced or self.max_usd_per_hour is not None


NO_PRICE_FILTERS = PriceFilters()


def find_priced_gpus(request: GpuRequest, filters: PriceFilters) -> GpuChoice:
    """Find the GPUs asked for that have the prices asked for, with these; without a price filter, all of them."""
    choice = find_gpus(request)
    prices = offered(choice.prices(), filters)
    return replace(choice, chosen=affordable(choice.chosen, prices.to_plan_with, filters), loaded_prices=prices)


def offered(prices: Prices, filters: PriceFilters) -> Prices:
    """Return the rents of the providers and regions asked for, all where none is, and all purchases."""
    known, named = {price.provider for price in prices.hourly}, load_providers()
    wanted = [named.canonical(name) for name in filters.providers]
    for name in wanted:
        if name not in known:
            raise UnknownNameError("provider", name, sorted(known), hint=f"Known are {', '.join(sorted(known))}.")
    prices.check_regions(filters.regions)
    counting = prices
    if wanted or filters.regions:
        hourly = tuple(
            price
            for price in prices.hourly
            if (not wanted or price.provider in wanted)
            and (not filters.regions or any(price.is_in(name) for name in filters.regions))
        )
        counting = replace(prices, hourly=hourly)
    if prices.hourly and not counting.to_plan_with:
        raise UsageError(_nobody_rents(prices, filters, wanted))
    return counting


def _nobody_rents(prices: Prices, filters: PriceFilters, providers: Sequence[str]) -> str:
    """Return that no GPU is rented where one is asked for, and where the providers asked for rent some."""
    who = f"of {', '.join(providers)} " if providers else ""
    where = f"in {', '.join(filters.regions)} " if filters.regions else ""
    current = [
        price
        for price in current_offers(prices.hourly)
        if price.term is Term.ON_DEMAND and (not providers or price.provider in providers)
    ]
    places = {price.country for price in current if price.country} or {price.region for price in current}
    some = f"; there are some in {', '.join(sorted(places))}" if places else ""
    possible = sum(any(price.may_be_in(name) for name in filters.regions) for price in current)
    asked = f"; {possible} may be there, for which one must ask (`capplan prices --region`)" if possible else ""
    return (
        f"no on-demand offer {who}{where}is known{some}{asked}. `capplan prices update` fetches today's, and `capplan "
        "prices import` takes quotes of your own."
    )


def affordable(
    gpus: Sequence[GpuSpec], offers: Mapping[str, Sequence[Price]], filters: PriceFilters
) -> tuple[GpuSpec, ...]:
    """Return the GPUs that the price filters leave."""
    if not filters:
        return tuple(gpus)
    rents = cheapest_offers(offers)
    limit = filters.max_usd_per_hour if filters.max_usd_per_hour is not None else float("inf")
    kept = tuple(gpu for gpu in gpus if gpu.id in rents and rents[gpu.id].usd_per_machine_hour <= limit)
    if not kept:
        known = [rents[gpu.id] for gpu in gpus if gpu.id in rents]
        lowest = min(known, key=lambda rent: rent.usd_per_machine_hour, default=None)
        raise UsageError(
            "no GPU asked for has a price that counts; `capplan prices` lists what is known."
            if lowest is None
            else f"no GPU asked for costs at most {limit:g} USD an hour; the cheapest machine is {lowest.offer_words} "
            f"with {lowest.gpu}, {lowest.usd_per_machine_hour:.3g} USD an hour."
        )
    return kept
