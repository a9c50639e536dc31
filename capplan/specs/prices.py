"""Read the dated price files: hourly prices per provider and region, purchase prices with their day."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from capplan.core.gpus.machines import Area, joined_in_machine, place_words
from capplan.core.gpus.prices import (
    CURRENCY,
    MARKETPLACES,
    DateKind,
    Price,
    PriceKind,
    PriceTier,
    PurchasePrice,
    QuoteTerms,
    Term,
    offers_to_plan_with,
)
from capplan.core.gpus.spec import GpuSpec, Source, SourceKind
from capplan.errors import SpecError, UnknownNameError
from capplan.specs.fetched import FETCHED, Fetched, dated, read_fetched
from capplan.specs.folders import BUILT_IN, PRICES, built_in_folder, has_own_price_list, own_overlays, price_folder
from capplan.specs.kept_values import kept_value
from capplan.specs.providers import load_providers, provider_files
from capplan.specs.strict_yaml import Checker, Tree, read_yaml

_TOP_KEYS = [
    "provider", "marketplace", "currency", "usd_per_unit", "date", "date_is", "tier", "kind", "source", "sources",
    "hourly", "purchase", "notes",
]  # fmt: skip
_QUOTE_KEYS = ("sku", "valid_until", "lead_time_days", "warranty_years")
_ROW_KEYS = ("source", "tier", "kind", "note", *_QUOTE_KEYS)
_OFFER_KEYS = ("region", "country", "sold_by", "joined", "comparison", "upfront", "zones", *_ROW_KEYS)
_HOURLY_KEYS = ["gpu", "instance", "gpus", "pricing", "per_hour", *_OFFER_KEYS]
_PURCHASE_KEYS = ["gpu", "date", "date_is", "offer", "seller", "price", "gpus", "includes_server", *_ROW_KEYS]
_PURCHASE_OPTIONAL = ("date_is", "seller", "gpus", "includes_server", *_ROW_KEYS)
_NOT_ON_DEMAND = "the provider does not sell this machine on demand"
MAX_AMOUNT = 1e7
MOST_GPUS = 1024


_DAY_MEANS = {
    DateKind.READ: "the day is that of reading",
    DateKind.NOT_BEFORE: "held on this day or later",
    DateKind.NOT_AFTER: "held on this day or earlier",
}


class Offer(StrEnum):
    """What a purchase price is."""

    LIST = "list"
    STREET = "street"
    QUOTE = "quote"
    DEVELOPER_KIT = "developer kit"


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Dated examples of what GPUs cost to rent and to buy; the user's own stand last."""

    hourly: tuple[Price, ...] = ()
    purchase: tuple[PurchasePrice, ...] = ()

    @cached_property
    def to_plan_with(self) -> Mapping[str, tuple[Price, ...]]:
        """The on-demand offers of each GPU that count; kept, because a service plans with the same list all day."""
        return offers_to_plan_with(self.hourly)

    def with_own(self, own: "Prices") -> "Prices":
        """Return these prices with a user's own: they replace those of the same GPU, provider, region and term."""
        return _laid_over(self, own)

    def check_regions(self, names: Iterable[str]) -> None:
        """Check that every name, in any case, is a region of some price, a country or an area.

        Raises:
            UnknownNameError: nothing is called so.
        """
        words = place_words(load_providers().countries.values())
        regions = {price.region for price in self.hourly}
        lower = {region.lower() for region in regions}
        for name in sorted(names):
            if name.lower() not in words | lower:
                hint = f"Write a country (de, germany), one of {', '.join(Area)}, or a provider's region."
                raise UnknownNameError("region", name, sorted({*words, *regions}), hint=hint)


def load_prices(gpus: Mapping[str, GpuSpec], *, overlays: Sequence[Path] = ()) -> Prices:
    """Load the built-in prices, then those in the `prices` folder of every overlay (as for `load_gpus`).

    Beside the built-in prices stand those that `capplan prices update` fetched; of one offer the newest counts. An own
    price replaces both of the same GPU, provider, region and term. A folder that the environment variable
    CAPPLAN_PRICES names stands in for the built-in and the fetched prices.

    Raises:
        SpecError: a file is refused, with all that is wrong with it.
    """
    folder = price_folder()
    listed = sorted(folder.glob("*.yaml"))

    def read_listed() -> Prices:
        prices = Prices()
        for path in listed:
            shown = str(path.relative_to(folder.parents[1])) if folder == built_in_folder() / PRICES else str(path)
            prices = _joined(prices, read_prices(path, gpus, shown=shown, origin=BUILT_IN))
        return prices

    decisive = getattr(gpus, "files", ())  # a database that was made from other values has none
    files = (*decisive, *listed, *provider_files())
    prices = kept_value("prices", Prices, files, read_listed) if decisive else read_listed()
    if not has_own_price_list():
        prices = _joined(prices, prices_of(read_fetched(), gpus))
    own = Prices()
    for overlay in (*own_overlays(), *overlays):
        for path in sorted((overlay / PRICES).glob("*.yaml")):
            own = _laid_over(own, load_price_file(path, gpus))
    return _laid_over(prices, own)


def prices_of(fetched: Iterable[Fetched], gpus: Mapping[str, GpuSpec]) -> Prices:
    """Return the prices that were fetched; those of GPUs that the database no longer has are passed over.

    Raises:
        SpecError: a file holds what no price file may hold.
    """
    found = Prices()
    for given in fetched:
        shown = f"prices of {given.source}, fetched on {given.moment:%Y-%m-%d}"
        for tree in given.files:
            try:
                rows = [row for row in tree["hourly"] if row["gpu"] in gpus]
                section = {**dated(tree), "hourly": rows}
            except (LookupError, TypeError, ValueError) as error:
                raise SpecError(f"{shown}: hold what is no price file ({error!s:.100}); fetch them again.") from error
            if rows:
                found = _joined(found, read_price_section(section, gpus, shown=shown, origin=FETCHED))
    return found


def load_price_file(path: Path, gpus: Mapping[str, GpuSpec]) -> Prices:
    """Load one file of own prices.

    Raises:
        SpecError: the file is refused, with all that is wrong with it.
    """
    if path.suffix != ".yaml":
        raise SpecError(f"{path}: a file of prices ends in .yaml.")
    return read_prices(path, gpus, shown=str(path), origin=str(path))


def _joined(first: Prices, second: Prices) -> Prices:
    return Prices(hourly=first.hourly + second.hourly, purchase=first.purchase + second.purchase)


def _laid_over(below: Prices, above: Prices) -> Prices:
    hourly = {(price.gpu, price.provider, price.region, price.term) for price in above.hourly}
    purchase = {price.gpu for price in above.purchase}
    kept = Prices(
        hourly=tuple(p for p in below.hourly if (p.gpu, p.provider, p.region, p.term) not in hourly),
        purchase=tuple(price for price in below.purchase if price.gpu not in purchase),
    )
    return _joined(kept, above)


def read_prices(path: Path, gpus: Mapping[str, GpuSpec], *, shown: str, origin: str) -> Prices:
    """Read one price file.

    Raises:
        SpecFileError: everything that is wrong with the file.
    """
    return read_price_section(read_yaml(path, shown=shown), gpus, shown=shown, origin=origin)


def read_price_section(tree: Tree, gpus: Mapping[str, GpuSpec], *, shown: str, origin: str) -> Prices:
    """Read prices that stand in another file, in the form of a price file.

    Raises:
        SpecFileError: everything that is wrong with the section.
    """
    reader = _PriceReader(shown, origin, gpus)
    reader.read_head(tree)
    rents = reader.rows(tree, "hourly", _HOURLY_KEYS, optional=_OFFER_KEYS)
    hourly = [price for key, row in rents for price in reader.hourly(key, row)]
    bought = reader.rows(tree, "purchase", _PURCHASE_KEYS, optional=_PURCHASE_OPTIONAL)
    purchase = [reader.purchase(key, row) for key, row in bought]
    if not hourly and not purchase:
        reader.refuse("", "holds neither hourly nor purchase prices")
    reader.finish(reader.named_sources)
    return Prices(
        hourly=tuple(hourly),
        purchase=tuple(price for price in purchase if price),
    )


class _PriceReader(Checker):
    """Gathers the prices and the problems of one file."""

    def __init__(self, file: str, origin: str, gpus: Mapping[str, GpuSpec]) -> None:
        super().__init__(file, origin)
        self._gpus = gpus
        self._providers = load_providers()
        self._kind: PriceKind | None = None
        self._source: Source | None = None
        self._tier: PriceTier | None = None
        self.named_sources: dict[str, Source] = {}
        self._date: date | None = None
        self._date_kind = DateKind.STATED
        self._provider: str | None = None
        self._is_marketplace = False
        self._rate, self._conversion = 1.0, ""

    def read_head(self, tree: Tree) -> None:
        """Read what all prices of the file share."""
        self.unknown_keys(tree, _TOP_KEYS, "")
        self.texts(tree, "notes")
        if "sources" in tree:
            self.named_sources = self.sources(tree)
        else:
            self._source = self.source("source", tree.get("source"))
        self._tier = self.member("tier", tree["tier"], PriceTier) if "tier" in tree else None
        self._kind = self.member("kind", tree["kind"], PriceKind) if "kind" in tree else None
        # Read the currency of all amounts, and what a unit costs: as the file states, else by reference rates.
        code = tree.get("currency")
        usd, whose = (1.0 if code == CURRENCY else None), ""
        if "usd_per_unit" in tree and isinstance(code, str):
            usd, whose = self._amount("usd_per_unit", tree["usd_per_unit"]), "the file's rate"
        elif isinstance(code, str) and usd is None:
            usd, dated = self._providers.rates.usd_per_unit(code), self._providers.rates.of(code)
            whose = "" if dated is None else f"the reference rate of {dated.day}"
        if usd is None:
            self.refuse("currency", f"must be {CURRENCY} or a currency whose rate is known, not {code!r}")
        elif code != CURRENCY:
            self._rate, self._conversion = usd, f"from {code} at {usd:g} USD, {whose}"
        self._date_kind = self.member("date_is", tree.get("date_is", "stated"), DateKind) or DateKind.STATED
        if "hourly" in tree:
            self._date = self.day("date", tree.get("date"))
            self.missing_words(tree, ("provider",))
            named = self.words(tree, ("provider",)).get("provider")
            self._provider = self._providers.canonical(named) if named else None
            stated = tree.get("marketplace", self._provider in MARKETPLACES)
            if not isinstance(stated, bool):
                self.refuse("marketplace", f"must be true or false, not {stated!r}")
            self._is_marketplace = stated is True

    def day(self, key: str, given: object, *, what: str = "the price's day") -> date | None:
        """Read a day."""
        if type(given) is date:
            return given
        self.refuse(key, f"must be {what} as YYYY-MM-DD, not {given!r}")
        return None

    def rows(self, tree: Tree, name: str, keys: list[str], *, optional: tuple[str, ...] = ()) -> list[tuple[str, Tree]]:
        """Read a list of mappings, those that have all of their keys."""
        items = tree.get(name, [])
        if not isinstance(items, list) or not all(isinstance(row, dict) for row in items):
            self.refuse(name, f"must be a list of prices with {', '.join(keys)}")
            return []
        complete = []
        for index, row in enumerate(items):
            key = f"{name}[{index}]"
            self.unknown_keys(row, keys, f"{key}.")
            lacking = [word for word in keys if word not in row and word not in optional]
            for word in lacking:
                self.refuse(f"{key}.{word}", "is missing")
            if not lacking:
                complete.append((key, row))
        return complete

    def hourly(self, key: str, row: Tree) -> tuple[Price, ...]:
        """Read what a machine costs in an hour: one offer for each region that the row names.

        Where the machine's type is known and holds more GPUs than the row prices, the whole machine is the offer.
        """
        gpu = self._gpu(f"{key}.gpu", row["gpu"])
        words = self.words(row, ("instance", "region", "country", "comparison", "note", "sold_by"), prefix=f"{key}.")
        terms = [term.value for term in Term if term is not Term.BUY]
        if row["pricing"] not in terms:
            self.refuse(f"{key}.pricing", f"{row['pricing']!r} is not known; use {', '.join(terms)}")
        amount = self._money(f"{key}.per_hour", row["per_hour"])
        count = self._count(f"{key}.gpus", row["gpus"])
        joined = self._count(f"{key}.joined", row["joined"]) if "joined" in row else None
        if (code := words.get("country")) and code not in self._providers.countries:
            self.refuse(f"{key}.country", f"{code!r} is not the code of a country, such as de or us")
        upfront, zones = self._upfront(key, row), self._zones(key, row)
        source, tier, quote = self._row_source(key, row), self._row_tier(key, row), self._quote_terms(key, row)
        kind = self._row_kind(key, row, source)
        if self.problems or not (gpu and amount and count and source and tier and self._date and self._provider):
            return ()
        machine = None if "comparison" in words else self._providers.machine(self._provider, words["instance"])
        machine = machine if machine and machine.gpu == gpu.id else None
        whole = machine.gpus if machine else count
        comparison = words.get("comparison")
        if machine and not machine.is_on_demand and row["pricing"] == Term.ON_DEMAND:
            comparison = comparison or _NOT_ON_DEMAND
        return tuple(
            Price(
                gpu=gpu.id,
                provider=self._provider,
                region=place.region,
                term=Term(row["pricing"]),
                usd_per_hour=amount / count,
                date=self._date,
                source=self._source_text(source, self._date_kind),
                tier=tier,
                date_is=self._date_kind,
                instance=machine.name if machine else words["instance"],
                instance_gpus=whole,
                is_marketplace=self._is_marketplace,
                quote=quote,
                kind=kind,
                place=place,
                machine=machine,
                joined=joined or joined_in_machine(gpu, whole, machine),
                comparison=comparison,
                upfront_fraction=upfront,
                zones_usd=zones,
                minimum_s=self._providers.minimum_s(self._provider),
                note=words.get("note"),
                sold_by=words.get("sold_by"),
            )
            for place in self._providers.places(self._provider, words.get("region", "any"), country=code)
        )

    def _upfront(self, key: str, row: Tree) -> float | None:
        """Read the share of a commitment that is paid on the first day, in per cent."""
        if "upfront" not in row:
            return None
        given = row["upfront"]
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 100:
            self.refuse(f"{key}.upfront", f"must be per cent of the commitment from 0 to 100, not {given!r}")
            return None
        return given / 100

    def _zones(self, key: str, row: Tree) -> tuple[float, float] | None:
        """Read the lowest and the highest price of a spot machine over its zones. [USD/h]"""
        given = row.get("zones")
        if given is None:
            return None
        ends = [self._money(f"{key}.zones", end) for end in given] if isinstance(given, list) else []
        if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
            self.refuse(f"{key}.zones", f"must be the lowest and the highest price, as [9.4, 18.7], not {given!r}")
            return None
        return ends[0], ends[1]

    def _row_kind(self, key: str, row: Tree, source: Source | None) -> PriceKind:
        """Return from whom a price is known: what the row or file states, else what file and source say.

        A price in a file of your own is your quote; a built-in one was read in the provider's own document or copied.
        """
        if "kind" in row:
            return self.member(f"{key}.kind", row["kind"], PriceKind) or PriceKind.COPY
        if self._kind is not None:
            return self._kind
        if self.origin not in (BUILT_IN, FETCHED):
            return PriceKind.QUOTE
        return PriceKind.READ if source is not None and source.kind is SourceKind.DATASHEET else PriceKind.COPY

    def purchase(self, key: str, row: Tree) -> PurchasePrice | None:
        """Read what one board costs, or a server of several GPUs; its devices share the price."""
        gpu = self._gpu(f"{key}.gpu", row["gpu"])
        offer = self.member(f"{key}.offer", row["offer"], Offer)
        amount = self._money(f"{key}.price", row["price"])
        day = self.day(f"{key}.date", row["date"])
        date_is = self.member(f"{key}.date_is", row.get("date_is", "stated"), DateKind)
        count = self._count(f"{key}.gpus", row.get("gpus", 1))
        whole = row.get("includes_server", False)
        if not isinstance(whole, bool):
            self.refuse(f"{key}.includes_server", f"must be true or false, not {whole!r}")
        source, tier, quote = self._row_source(key, row), self._row_tier(key, row), self._quote_terms(key, row)
        price_kind = self._row_kind(key, row, source)
        named = self.words(row, ("seller",), prefix=f"{key}.").get("seller")
        if self.problems or not (gpu and offer and amount and day and date_is and source and tier and count):
            return None
        kind = f"{offer} price" if offer is not Offer.DEVELOPER_KIT else offer.value
        return PurchasePrice(
            gpu=gpu.id,
            usd=amount / (count if "gpus" in row else gpu.devices_per_board),
            date=day,
            source=self._source_text(source, date_is),
            seller=f"{named}, {kind}" if named else kind,
            tier=tier,
            date_is=date_is,
            includes_server=bool(whole),
            server_gpus=count if whole and "gpus" in row else None,
            seller_name=named or "",
            quote=quote,
            kind=price_kind,
        )

    def _quote_terms(self, key: str, row: Tree) -> QuoteTerms:
        """Read what a quote states besides its price."""
        sku = self.words(row, ("sku",), prefix=f"{key}.").get("sku")
        until = None
        if "valid_until" in row:
            until = self.day(f"{key}.valid_until", row["valid_until"], what="the last day of the quote")
        lead, warranty = (
            self._amount(f"{key}.{name}", row[name]) if name in row else None
            for name in ("lead_time_days", "warranty_years")
        )
        return QuoteTerms(sku=sku, valid_until=until, lead_time_days=lead, warranty_years=warranty)

    def _row_source(self, key: str, row: Tree) -> Source | None:
        """Return the source that a row names, or the file's only one."""
        if not self.named_sources:
            if "source" in row:
                self.refuse(f"{key}.source", "names a source, but the file has no `sources`")
            return self._source
        name = row.get("source")
        if not isinstance(name, str) or name not in self.named_sources:
            self.refuse(f"{key}.source", f"{name!r} is not under sources ({', '.join(self.named_sources)})")
            return None
        self.used.add(name)
        return self.named_sources[name]

    def _row_tier(self, key: str, row: Tree) -> PriceTier | None:
        """Return a row's tier: its own, the file's, or what the kind of source allows."""
        if "tier" in row:
            return self.member(f"{key}.tier", row["tier"], PriceTier)
        if self._tier is not None:
            return self._tier
        source = self._source
        return PriceTier.HEARSAY if source is not None and source.kind is SourceKind.UNVERIFIED else PriceTier.PUBLISHED

    def _gpu(self, key: str, given: object) -> GpuSpec | None:
        gpu = self._gpus.get(given) if isinstance(given, str) else None
        if gpu is None:
            self.refuse(key, f"{given!r} is not an id of a GPU; run `capplan gpus` for all {len(self._gpus)}")
        return gpu

    def _count(self, key: str, given: object) -> int | None:
        if type(given) is not int or not 1 <= given <= MOST_GPUS:
            self.refuse(key, f"must be a whole number of GPUs, not {given!r}")
            return None
        return given

    def _amount(self, key: str, given: object) -> float | None:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= MAX_AMOUNT:
            self.refuse(key, f"must be an amount above 0, not {given!r}")
            return None
        return float(given)

    def _money(self, key: str, given: object) -> float | None:
        """Read an amount of the file's currency. [USD]"""
        amount = self._amount(key, given)
        return None if amount is None else amount * self._rate

    def _source_text(self, source: Source, date_is: DateKind) -> str:
        details = [] if self.origin in (BUILT_IN, FETCHED) else [self.origin]
        details += [_DAY_MEANS[date_is]] if date_is in _DAY_MEANS else []
        details += [self._conversion] if self._conversion else []
        return f"{source.title} ({'; '.join([source.kind, *details])})"
