"""List, filter and import prices of GPUs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from capplan.core.gpus.names import split_names
from capplan.core.gpus.prices import Price, PriceTier, PurchasePrice, Term, current_prices
from capplan.errors import UnknownNameError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRequest:
    """Which prices are asked for; an empty field means all.

    Attributes:
        max_age_days: Leave out prices older than this, and those whose age is unknown. [days]
        old: Only the prices that `max_age_days` would leave out.
        history: Also prices that a newer day of the same provider replaces.
    """

    gpus: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()
    tiers: tuple[PriceTier, ...] = ()
    max_age_days: int | None = None
    old: bool = False
    history: bool = False
    overlays: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Rents and purchases that answer a request."""

    hourly: tuple[Price, ...]
    purchase: tuple[PurchasePrice, ...]


def list_prices(request: PriceRequest, *, today: date) -> PriceList:
    """Return the prices that a request asks for.

    Args:
        request: The filters.
        today: The day from which ages are counted.

    Raises:
        UnknownNameError: A GPU, provider or region that no price names.
    """
    from capplan.app.procurement.constraints import check_regions
    from capplan.specs import load_gpus
    from capplan.specs.prices import load_prices
    from capplan.specs.providers import load_providers

    gpus, providers = load_gpus(overlays=request.overlays), load_providers()
    known = load_prices(gpus, overlays=[folder for folder in request.overlays if folder.is_dir()])
    wanted = {gpu.id for name in split_names(request.gpus) for gpu in gpus.find_all(name).gpus}
    request = replace(request, providers=tuple(map(providers.canonical, request.providers)))
    _check_names("provider", request.providers, {price.provider for price in known.hourly})
    check_regions(request.regions, known, providers)
    hourly = known.hourly if request.history else current_prices(known.hourly)
    limits = _Limits(request=request, gpus=wanted, today=today)
    return PriceList(
        hourly=tuple(price for price in hourly if limits.takes_rent(price)),
        purchase=tuple(price for price in known.purchase if limits.takes_purchase(price)),
    )


def _check_names(kind: str, names: Sequence[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, sorted(known))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    request: PriceRequest
    gpus: set[str]
    today: date

    def takes_rent(self, price: Price) -> bool:
        asked = self.request
        by_place = (not asked.providers or price.provider in asked.providers) and (
            not asked.regions or any(price.is_in(name) for name in asked.regions)
        )
        return by_place and self._takes(price, price.term)

    def takes_purchase(self, price: PurchasePrice) -> bool:
        return not self.request.providers and not self.request.regions and self._takes(price, Term.BUY)

    def _takes(self, price: Price | PurchasePrice, term: Term) -> bool:
        asked = self.request
        if (self.gpus and price.gpu not in self.gpus) or (asked.terms and term not in asked.terms):
            return False
        if asked.tiers and price.tier not in asked.tiers:
            return False
        if asked.max_age_days is None:
            return True
        return price.evidence.is_old(self.today, max_age_days=asked.max_age_days) == asked.old


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
    left_out = tuple(f"row {each.row}: {each.reason}" for each in imported.left_out)
    if not imported.quotes:
        first = f" ({left_out[0]})" if left_out else ""
        raise UsageError(f"{path}: holds no row that could be taken{first}.")
    return PriceImport(
        files={folder / "prices" / name: text for name, text in imported.files.items()},
        quotes=len(imported.quotes),
        left_out=left_out,
    )
