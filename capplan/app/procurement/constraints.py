"""What a buyer admits, from the load file and the question together."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from statistics import median
from typing import Any

from capplan.app.gpu_choice import GpuChoice, PriceFilters, affordable
from capplan.core.economics.constraints import Assumption, Constraints, NameLists, ReportLoad
from capplan.core.economics.decide import PRICE_FACTORS
from capplan.core.gpus.machines import Country, RegionalFigure
from capplan.core.gpus.prices import offers_to_plan_with
from capplan.core.gpus.spec import Segment
from capplan.errors import UnknownNameError, UsageError
from capplan.specs import Gpus
from capplan.specs.constraints import allowing_named_spot
from capplan.specs.load import LoadFile
from capplan.specs.prices import Prices
from capplan.specs.providers import load_providers


def laid_over(below: Constraints, stated: Mapping[str, Any]) -> Constraints:
    """Return what a load file admits with what a question states laid over it."""
    lists = {
        "allow": {name.name: getattr(below.allow, name.name) for name in fields(NameLists)},
        "deny": {name.name: getattr(below.deny, name.name) for name in fields(NameLists)},
    }
    for name in fields(NameLists):
        if names := getattr(stated["allow"], name.name):
            lists["allow"][name.name] = names
        lists["deny"][name.name] |= getattr(stated["deny"], name.name)
    return replace(below, **{**stated, **{kind: NameLists(**names) for kind, names in lists.items()}})


def resolve(constraints: Constraints, *, gpus: Gpus, prices: Prices, named: Collection[str]) -> Constraints:
    """Check every name and write GPUs by their ids; families stand for all their variants."""
    known = load_providers()
    names = {price.provider for price in prices.hourly} | {price.seller_name for price in prices.purchase} - {""}
    lists = []
    for given in (constraints.allow, constraints.deny):
        providers = frozenset(map(known.canonical, given.providers))
        _check("provider", providers, names)
        prices.check_regions(given.regions)
        _check("segment", given.segments, [segment.value for segment in Segment])
        ids = frozenset(gpu.id for name in sorted(given.gpus) for gpu in gpus.find_all(name).gpus)
        lists.append(replace(given, gpus=ids, providers=providers))
    allow, deny = lists
    if named:
        allow = replace(allow, gpus=(allow.gpus & frozenset(named)) or frozenset(named))
    return replace(constraints, allow=allow, deny=deny)


_AT_HOME = "us"
"""The country whose tariff the default is."""


def with_tariff(demand: ReportLoad, usd_per_kwh: float | None) -> ReportLoad:
    """Return a demand at the user's own price of electricity; as it is where none is stated. [USD/kWh]"""
    if usd_per_kwh is None:
        return demand

    def own(default: Assumption) -> Assumption:
        return replace(
            default, value=usd_per_kwh, low=usd_per_kwh, high=usd_per_kwh, basis="yours", source="stated as the tariff"
        )

    assumptions = tuple(own(known) if known.key == "usd_per_kwh" else known for known in demand.assumptions)
    return replace(demand, assumptions=assumptions, money=demand.money.with_value("usd_per_kwh", usd_per_kwh))


def at_place(demand: ReportLoad, countries: Sequence[Country]) -> ReportLoad:
    """Return a demand whose electricity is that of the countries where the fleet may stand.

    The middle of their figures holds, from the lowest to the highest. What the user states stays, and so does a default
    of which no figure of these countries is known, which then says so.
    """
    assumptions, money = [], demand.money
    for assumption in demand.assumptions:
        key, is_own = assumption.key, assumption.basis == "yours"
        figures = [figure for country in countries if (figure := _placed(key, country)) is not None]
        if not figures or is_own:
            unknown = key == "usd_per_kwh" and not is_own and any(country.code != _AT_HOME for country in countries)
            missing = f"; of {_named(countries)} none is known: state yours with ⟨tariff⟩" if unknown else ""
            assumptions.append(replace(assumption, source=f"{assumption.source}{missing}"))
            continue
        # Name the country or the source of figures, or how many countries they are of.
        known = list(dict.fromkeys([figure.source for figure in figures]))
        whose = known[0] if len(known) == 1 else f"{len(known)} countries of the region asked for"
        source = f"{whose}: as commonly quoted, not read again (gpu_specs/places/countries.yaml)"
        placed = replace(
            assumption,
            value=median(figure.value for figure in figures),
            low=min(figure.low for figure in figures),
            high=max(figure.high for figure in figures),
            basis="unverified",
            source=source,
        )
        assumptions.append(placed)
        money = money.with_value(key, placed.value)
    return replace(demand, assumptions=tuple(assumptions), money=money)


def _named(countries: Sequence[Country]) -> str:
    """Name a few countries, else how many there are."""
    return (
        ", ".join(country.name for country in countries) if len(countries) <= 3 else f"the {len(countries)} countries"
    )


def _placed(key: str, country: Country) -> RegionalFigure | None:
    """Return a country's figure for an assumption that differs between countries, with its range and source."""
    if key == "usd_per_kwh":
        return country.tariff
    grid = country.grid_g_per_kwh if key == "grid_g_per_kwh" else None
    return None if grid is None else RegionalFigure(value=grid, low=grid, high=grid, source=country.name)


def _check(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in sorted(names):
        if name not in known:
            raise UnknownNameError(kind, name, known, hint=f"Known: {', '.join(sorted(known))}.")


def admitting(
    stated: LoadFile,
    constraints: Mapping[str, Any],
    *,
    gpus: GpuChoice,
    prices: Prices,
    usd_per_kwh: float | None,
) -> LoadFile:
    """Lay a question's constraints over every load's, with all names checked and GPUs by their ids."""
    loads = []
    for load in stated.loads:
        for assumption in load.demand.assumptions:
            if assumption.key in PRICE_FACTORS and assumption.low <= 0:
                raise UsageError(f"assumptions.{assumption.key}: {assumption.low:g} leaves no price; take one above 0.")
        wanted = laid_over(load.demand.constraints, constraints)
        admitted = resolve(wanted, gpus=gpus.known, prices=prices, named=gpus.named)
        placed = at_place(
            with_tariff(load.demand, usd_per_kwh), load_providers().countries_in(sorted(admitted.allow.regions))
        )
        spotted = allowing_named_spot(load.demand.load, admitted)
        loads.append(replace(load, demand=replace(placed, constraints=admitted, load=spotted)))
    owned = [replace(server, gpu=gpus.known.find(server.gpu).id) for server in stated.inventory]
    counts = Counter(server.gpu for server in owned)
    if twice := [gpu for gpu, count in counts.items() if count > 1]:
        raise UsageError(f"inventory: {twice[0]} is stated {counts[twice[0]]} times; add its counts and servers up.")
    return replace(stated, loads=tuple(loads), inventory=tuple(owned))


def admitted_gpus(gpus: GpuChoice, prices: Prices, stated: LoadFile, filters: PriceFilters) -> GpuChoice:
    """Keep the GPUs that have an admitted on-demand price, where the filters limit them so."""
    if not filters:
        return gpus
    admitted = stated.loads[0].demand.constraints
    counting = [price for price in prices.hourly if admitted.refusal_of_price(price) is None]
    return replace(gpus, chosen=affordable(gpus.chosen, offers_to_plan_with(counting), filters))
