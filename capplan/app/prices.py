"""Filter and import prices of GPUs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.core.gpus.prices import Price, PriceTier, PurchasePrice, Term, current_prices
from capplan.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from capplan.specs.prices import Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Rents and purchases that pass filters."""

    hourly: tuple[Price, ...]
    purchase: tuple[PurchasePrice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSelection:
    """Which prices are wanted; an empty field means all.

    Attributes:
        gpus: ids of GPUs.
        providers: names of providers, in any spelling.
        regions: regions, countries and areas.
        terms: terms of rent, or "buy".
        tiers: how prices are known.
        max_age_days: leave out prices older than this, and those whose age is unknown. [days]
        old: only the prices that `max_age_days` would leave out.
        history: also prices that a newer day of the same provider replaces.
    """

    gpus: Collection[str] = ()
    providers: Sequence[str] = ()
    regions: Sequence[str] = ()
    terms: Collection[Term] = ()
    tiers: Collection[PriceTier] = ()
    max_age_days: int | None = None
    old: bool = False
    history: bool = False

    def takes(self, price: Price | PurchasePrice, term: Term, *, today: date) -> bool:
        """Return True if a price of a term is wanted, wherever it is asked for."""
        return (
            (not self.gpus or price.gpu in self.gpus)
            and (not self.terms or term in self.terms)
            and (not self.tiers or price.tier in self.tiers)
            and (self.max_age_days is None or price.evidence.is_old(today, max_age_days=self.max_age_days) == self.old)
        )


def select_prices(known: "Prices", wanted: PriceSelection, *, today: date) -> PriceList:
    """Return the prices that are wanted.

    Args:
        known: all prices.
        wanted: which of them.
        today: the day from which ages are counted.

    Raises:
        UnknownNameError: no price names a provider or region.
    """
    from capplan.app.procurement_constraints import check_regions
    from capplan.specs.providers import load_providers

    names = load_providers()
    providers = tuple(map(names.canonical, wanted.providers))
    offering = sorted({price.provider for price in known.hourly})
    for provider in providers:
        if provider not in offering:
            raise UnknownNameError("provider", provider, offering)
    check_regions(wanted.regions, known, names)
    return PriceList(
        hourly=tuple(
            price
            for price in (known.hourly if wanted.history else current_prices(known.hourly))
            if wanted.takes(price, price.term, today=today)
            and (not providers or price.provider in providers)
            and (not wanted.regions or any(price.is_in(region) for region in wanted.regions))
        ),
        purchase=tuple(
            price
            for price in known.purchase
            if not providers and not wanted.regions and wanted.takes(price, Term.BUY, today=today)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceImport:
    """What an import would write, and the rows it left out, each with its reason."""

    files: dict[Path, str]
    quotes: int
    left_out: tuple[str, ...]


def import_prices(path: Path, *, folder: Path, read_on: date, overlays: Sequence[Path] = ()) -> PriceImport:
    """Turn a table of quotes into price files for a spec folder; nothing is written here.

    Args:
        path: A CSV or XLSX table with the columns gpu, term, provider, price and date.
        folder: The user's spec folder; its `prices` folder takes the files.
        read_on: The day on which the quotes were read.
        overlays: Further spec folders, whose GPUs the quotes may name.

    Raises:
        UsageError: The table cannot be read, or no row could be taken.
    """
    from capplan.specs import load_gpus
    from capplan.specs.price_import import import_quotes

    imported = import_quotes(path, load_gpus(overlays=overlays), read_on=read_on)
    left_out = tuple(f"row {row.row}: {row.reason}" for row in imported.left_out)
    if not imported.quotes:
        first = f" ({left_out[0]})" if left_out else ""
        raise UsageError(f"{path}: holds no row that could be taken{first}.")
    return PriceImport(
        files={folder / "prices" / name: text for name, text in imported.files.items()},
        quotes=len(imported.quotes),
        left_out=left_out,
    )
