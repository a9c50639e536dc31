"""Read what is known of providers: their other names, their regions and countries, and the machines that they rent."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property
from pathlib import Path

from capplan.core.gpus.machines import Area, Country, LocalCurrency, MachineType, Place, RegionalFigure
from capplan.core.gpus.spec import Source
from capplan.errors import SpecError, UnknownNameError, UsageError
from capplan.specs.fetched import read_fetched
from capplan.specs.folders import BUILT_IN, built_in_folder
from capplan.specs.strict_yaml import Checker, Tree, read_yaml

PROVIDERS = "providers"
PLACES = "places"
_COUNTRY_KEYS = ("code", "name", "areas", "currency", "vat", "grid")
_TARIFF_KEYS = ("area", "currency", "value", "low", "high", "source")
_PROVIDER_KEYS = ("provider", "names", "sources", "billing", "regions", "machines", "notes")
_REGION_KEYS = ("name", "country", "also")
_MACHINE_KEYS = ("name", "gpu", "gpus", "joined", "vcpus", "memory", "network", "source", "note", "also", "on_demand")
_GIB = 2**30
_GBIT = 1e9 / 8
_CITY = re.compile(r"[a-z]+-([a-z]+)-\d+")
"""A region called like `paris-france-5`, as brokers of many providers name them."""
_ALSO_CALLED = {"usa": "us", "uk": "gb", "czech": "cz"}
_PARTS = re.compile(r"\s*[/,]\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What is known of one provider; all names are in small letters. `minimum_s` is the shortest time charged. [s]"""

    name: str
    names: frozenset[str] = frozenset()
    regions: Mapping[str, Place] = field(default_factory=dict)
    machines: Mapping[str, MachineType] = field(default_factory=dict)
    minimum_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRates:
    """Units of currencies for one euro on a day, as central banks print them; `before` has those of an earlier day."""

    day: date
    per_euro: Mapping[str, float]
    before: "ReferenceRates | None" = None

    def of(self, currency: str) -> "ReferenceRates | None":
        """Return the newest rates that hold a currency; None where none does."""
        if currency == "EUR" or currency in self.per_euro:
            return self
        return None if self.before is None else self.before.of(currency)

    def usd_per_unit(self, currency: str) -> float | None:
        """Return what a unit of a currency costs; None where no rate is known. [USD]"""
        rates = self.of(currency)
        if rates is None:
            return None
        return rates.per_euro["USD"] / (1.0 if currency == "EUR" else rates.per_euro[currency])

    @property
    def currencies(self) -> tuple[str, ...]:
        """Return the currencies of which a rate is known, beside the euro."""
        return tuple(sorted({*self.per_euro, *(() if self.before is None else self.before.currencies)}))


@dataclass(frozen=True)
class Providers:
    """All providers of which something is known, all countries, and rates of exchange."""

    providers: Mapping[str, Provider]
    countries: Mapping[str, Country]
    rates: ReferenceRates

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {name: known.name for known in self.providers.values() for name in (known.name, *known.names)}

    def canonical(self, provider: str) -> str:
        """Return the name under which a provider stands in the price list: `aws` for Amazon."""
        return self._ids.get(provider.lower(), provider)

    def local_currency(self, asked: str | None, *, regions: Sequence[str] = ()) -> LocalCurrency | None:
        """Return the currency in which amounts stand beside US dollars; None for US dollars alone.

        Args:
            asked: A currency such as EUR, or with the user's own rate in US dollars, EUR=1.08; None for that of most of
                the countries that the regions name.
            regions: Countries, areas and regions of providers.

        Raises:
            UnknownNameError: no rate of that currency is known.
            UsageError: the user's own rate is not a number above 0.
        """
        code, stated, own = (asked or self._currency_of(regions)).upper().partition("=")
        if code == "USD":
            return None
        rate = self.rates.usd_per_unit(code)
        if stated:
            rate = _above_zero(own)
            if rate is None or not re.fullmatch("[A-Z]{3}", code):
                raise UsageError(f"⟨currency⟩ {asked}: write a currency and its price in US dollars, such as EUR=1.08.")
        if rate is None and asked is None:
            return None
        if rate is None:
            hint = f"State its price in US dollars: {code}=1.08."
            raise UnknownNameError("currency", code, ["EUR", *self.rates.currencies], hint=hint)
        dated = self.rates.of(code)
        return LocalCurrency(
            code=code,
            usd_per_unit=rate,
            rate_day=None if stated or dated is None else dated.day,
            vat_fractions={
                code: vat for code, country in self.countries.items() if (vat := country.vat_fraction) is not None
            },
        )

    def country(self, words: str) -> Country:
        """Return a country by its code or name.

        Raises:
            UnknownNameError: there is no such country.
        """
        asked = words.strip().lower()
        for country in self.countries.values():
            if asked in (country.code, country.name.lower()):
                return country
        known = [name for country in self.countries.values() for name in (country.code, country.name.lower())]
        raise UnknownNameError("country", words, known, hint="Write a code or a name, such as de or germany.")

    def countries_in(self, regions: Sequence[str]) -> tuple[Country, ...]:
        """Return the countries that names of countries, areas and providers' regions stand for."""
        words = {name.lower() for name in regions}
        stand = {
            place.country.code
            for provider in self.providers.values()
            for word in words
            if (place := provider.regions.get(word)) is not None and place.country is not None
        }
        return tuple(country for country in self.countries.values() if country.names & words or country.code in stand)

    def _currency_of(self, regions: Sequence[str]) -> str:
        currencies = Counter(country.currency for country in self.countries_in(regions))
        return currencies.most_common(1)[0][0] if currencies else "USD"

    def machine(self, provider: str, instance: str) -> MachineType | None:
        """Return the type of a provider's machine by its name or a price list's name for it; None if not known."""
        known = self.providers.get(provider)
        return known.machines.get(instance.lower()) if known else None

    def minimum_s(self, provider: str) -> float | None:
        """Return the shortest time that a provider charges for a machine; None if not known. [s]"""
        known = self.providers.get(provider)
        return known.minimum_s if known else None

    def places(self, provider: str, region: str, *, country: str | None = None) -> tuple[Place, ...]:
        """Return the places that a price list's region stands for.

        A price that is printed for several regions at once, parted by slashes or commas, holds in each of them. Where
        some part is not a region of the provider, the text stays one place, without a country.
        """
        if country is not None:
            return (Place(region=region, country=self.countries[country]),)
        if (whole := self._place(provider, region)) is not None:
            return (whole,)
        words = _PARTS.split(region)
        parts = [self._place(provider, part) for part in words]
        places = tuple(place for place in parts if place is not None)
        return places if len(places) == len(parts) else (Place(region=region, candidates=self._candidates(words)),)

    def _candidates(self, words: Sequence[str]) -> frozenset[str]:
        """Return the names of all that areas and countries stand for; none where a word is neither."""
        named = [frozenset({word.lower()}) & self._names_of_places for word in words]
        if not all(named):
            return frozenset()
        asked = frozenset[str]().union(*named)
        codes = {_ALSO_CALLED.get(word, word) for word in asked}
        return frozenset[str]().union(*(country.names for country in self.countries.values() if country.names & codes))

    @cached_property
    def _names_of_places(self) -> frozenset[str]:
        return frozenset(_ALSO_CALLED).union(*(country.names for country in self.countries.values()))

    def _place(self, provider: str, region: str) -> Place | None:
        known = self.providers.get(provider)
        if known is not None and (place := known.regions.get(region.lower())) is not None:
            return place
        word = region.lower()
        if city := _CITY.fullmatch(word):
            word = city[1]
        country = self._countries_by_name.get(word)
        return None if country is None else Place(region=region, country=country)

    @cached_property
    def _countries_by_name(self) -> dict[str, Country]:
        names = {word: country for country in self.countries.values() for word in (country.code, country.name.lower())}
        return names | {word: self.countries[code] for word, code in _ALSO_CALLED.items()}


def provider_files() -> list[Path]:
    """Return the files of providers, countries and rates that come with capplan."""
    folder = built_in_folder()
    return [*sorted((folder / PLACES).glob("*.yaml")), *sorted((folder / PROVIDERS).glob("*.yaml"))]


@cache
def load_providers() -> Providers:
    """Load the providers and countries that come with capplan, once: a service asks for them with every question.

    Raises:
        SpecError: a file is refused, with all that is wrong with it.
    """
    folder = built_in_folder()
    rates = _newest(_read_rates(folder / PLACES / "rates.yaml"))
    countries = _read_countries(folder / PLACES / "countries.yaml", rates)
    providers = [_read_provider(path, countries) for path in sorted((folder / PROVIDERS).glob("*.yaml"))]
    return Providers(providers={provider.name: provider for provider in providers}, countries=countries, rates=rates)


def _opened(path: Path, keys: tuple[str, ...]) -> tuple[Tree, Checker, dict[str, Source]]:
    """Return what a file holds, what gathers its problems, and its sources."""
    shown = str(path.relative_to(built_in_folder().parent))
    tree, checker = read_yaml(path, shown=shown), Checker(shown, BUILT_IN)
    checker.unknown_keys(tree, keys, "")
    return tree, checker, checker.sources(tree)


def _read_countries(path: Path, rates: ReferenceRates) -> dict[str, Country]:
    tree, checker, sources = _opened(path, ("sources", "tariffs", "countries"))
    checker.used |= set(sources)
    tariffs = {}
    for key, row in _rows(checker, tree, "tariffs", _TARIFF_KEYS):
        usd = rates.usd_per_unit(str(row["currency"]))
        area = checker.member(f"{key}.area", row["area"], Area)
        if usd is not None and area is not None:
            value, low, high = (usd * float(row[end]) for end in ("value", "low", "high"))
            tariffs[area] = RegionalFigure(value=value, low=low, high=high, source=sources[row["source"]].title)
    countries = {}
    for key, row in _rows(checker, tree, "countries", _COUNTRY_KEYS):
        words = checker.words(row, ("code", "name", "currency"), prefix=f"{key}.")
        areas = frozenset(checker.member(f"{key}.areas", area, Area) or Area.EU for area in checker.texts(row, "areas"))
        vat = row.get("vat")
        countries[words["code"]] = Country(
            code=words["code"],
            name=words["name"],
            areas=areas,
            currency=words["currency"],
            vat_fraction=None if vat is None else vat / 100,
            grid_g_per_kwh=row.get("grid"),
            tariff=next((tariff for area, tariff in tariffs.items() if area in areas), None),
        )
    checker.finish(sources)
    return countries


def _read_rates(path: Path) -> ReferenceRates:
    tree, checker, sources = _opened(path, ("sources", "rates"))
    found: ReferenceRates | None = None
    for key, row in reversed(list(_rows(checker, tree, "rates", ("source", "date", "per_euro")))):
        checker.used.add(str(row.get("source")))
        rates = {code: rate for code, given in row["per_euro"].items() if (rate := _above_zero(given)) is not None}
        for code in row["per_euro"]:
            if code not in rates:
                checker.refuse(f"{key}.per_euro.{code}", "must be a number above 0")
        day = row.get("date")
        if not isinstance(day, date) or "USD" not in rates:
            checker.refuse(f"{key}.date", "must be a day, and per_euro must hold USD")
        found = ReferenceRates(day=day if isinstance(day, date) else date.min, per_euro=rates, before=found)
    checker.finish(sources)
    if found is None:
        raise SpecError(f"{path}: must hold rates, the newest first.")
    return found


def _newest(built_in: ReferenceRates) -> ReferenceRates:
    """Return the rates that were fetched, where they are newer than the built-in ones."""
    held = [(given.rates_day, given.rates) for given in read_fetched() if given.rates_day and "USD" in given.rates]
    day, rates = max(held, key=lambda each: each[0], default=(date.min, {}))
    return ReferenceRates(day=day, per_euro=rates, before=built_in) if day > built_in.day else built_in


def _above_zero(given: object) -> float | None:
    try:
        value = float(str(given))
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _read_provider(path: Path, countries: Mapping[str, Country]) -> Provider:
    tree, checker, sources = _opened(path, _PROVIDER_KEYS)
    checker.used |= {"regions"} & set(sources)
    name = checker.words(tree, ("provider",)).get("provider", path.stem)
    regions: dict[str, Place] = {}
    for key, row in _rows(checker, tree, "regions", _REGION_KEYS):
        country = countries.get(str(row.get("country")))
        if country is None:
            checker.refuse(f"{key}.country", f"{row.get('country')!r} is not a country of {PLACES}/countries.yaml")
        for word in (str(row["name"]), *checker.texts(row, "also")):
            regions[word.lower()] = Place(region=str(row["name"]), country=country)
    machines: dict[str, MachineType] = {}
    for _, row in _rows(checker, tree, "machines", _MACHINE_KEYS):
        checker.used.add(row["source"])
        memory, network = row.get("memory"), row.get("network")
        machine = MachineType(
            provider=name,
            name=row["name"],
            gpu=row["gpu"],
            gpus=row["gpus"],
            source=sources[row["source"]],
            joined=row.get("joined"),
            vcpus=row.get("vcpus"),
            memory_bytes=None if memory is None else int(memory * _GIB),
            network_bytes_per_s=None if network is None else network * _GBIT,
            note=row.get("note"),
            is_on_demand=row.get("on_demand", True),
        )
        for word in (machine.name, *checker.texts(row, "also")):
            machines[word.lower()] = machine
    billing = tree.get("billing")
    if billing is not None:
        checker.used.add(billing["source"])
    checker.finish(sources)
    return Provider(
        name=name,
        names=frozenset(word.lower() for word in checker.texts(tree, "names")),
        regions=regions,
        machines=machines,
        minimum_s=None if billing is None else float(billing["minimum_s"]),
    )


def _rows(checker: Checker, tree: Tree, name: str, keys: tuple[str, ...]) -> Iterable[tuple[str, Tree]]:
    for index, row in enumerate(tree.get(name, [])):
        checker.unknown_keys(row, keys, f"{name}[{index}].")
        yield f"{name}[{index}]", row
