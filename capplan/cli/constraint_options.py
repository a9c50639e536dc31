"""Options that state what a buyer admits: terms, names, caps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.app.procurement.constraints import ConstraintRequest


def _names(flag: str, what: str) -> typer.models.OptionInfo:
    made: typer.models.OptionInfo = typer.Option(flag, metavar="NAME", help=f"{what}; repeatable.", show_default=False)
    return made


def _cap(flag: str, metavar: str, what: str) -> typer.models.OptionInfo:
    made: typer.models.OptionInfo = typer.Option(flag, metavar=metavar, help=what, show_default=False)
    return made


Names = list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintOptions:
    """What may be recommended, over what the load file states."""

    terms: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TERM",
            help="rent, buy, both, on-demand, spot, reserved-1y or reserved-3y; repeatable; both by default.",
            show_default=False,
        ),
    ] = None
    provider: Annotated[Names, _names("--provider", "Rent or buy from this provider only")] = None
    region: Annotated[Names, _names("--region", "Rent in this region only")] = None
    segment: Annotated[
        Names, _names("--segment", "Consider this segment only, such as consumer (default: data-centre, workstation)")
    ] = None
    deny_provider: Annotated[Names, _names("--deny-provider", "Never from this provider")] = None
    deny_region: Annotated[Names, _names("--deny-region", "Never in this region")] = None
    deny_gpu: Annotated[Names, _names("--deny-gpu", "Never this GPU or family")] = None
    deny_segment: Annotated[Names, _names("--deny-segment", "Never this segment")] = None
    marketplaces: Annotated[
        bool, typer.Option("--marketplaces", help="Let offers of third-party hosts compete with vendors' offers.")
    ] = False
    max_capex: Annotated[str | None, _cap("--max-capex", "USD", "Most that may be paid on the first day.")] = None
    max_cost_per_year: Annotated[
        str | None, _cap("--max-cost-per-year", "USD", "Most that may be paid in any later year.")
    ] = None
    max_power: Annotated[
        str | None, _cap("--max-power", "kW", "Most nameplate power of bought servers, such as 20kW.")
    ] = None
    max_rack_units: Annotated[
        float | None,
        typer.Option(
            "--max-rack-units", metavar="U", min=1, help="Most rack units of bought servers.", show_default=False
        ),
    ] = None

    certainty: Annotated[
        str | None, _cap("--certainty", "SHARE", "Share of scenarios that the second fleet carries; 90% by default.")
    ] = None
    max_price_age: Annotated[
        int | None,
        typer.Option(
            "--max-price-age",
            metavar="DAYS",
            min=1,
            show_default=False,
            help="Prices that are older count as old, and are not recommended without saying so; 180 by default.",
        ),
    ] = None

    def request(self) -> "ConstraintRequest":
        """Return what these options admit.

        Raises:
            UsageError: a term is unknown, or an amount or power cannot be read.
        """
        from capplan.app.procurement.constraints import ConstraintRequest
        from capplan.core.economics.constraints import NameLists
        from capplan.specs.constraints import term_words, terms_of

        found = terms_of(self.terms or ())
        if found is None:
            unknown = next(word for word in self.terms or () if word not in term_words())
            raise UsageError(f"--terms {unknown!r} is not a term; use {', '.join(term_words())}.")
        return ConstraintRequest(
            terms=found,
            allow=NameLists(
                providers=frozenset(self.provider or ()),
                regions=frozenset(self.region or ()),
                segments=frozenset(self.segment or ()),
            ),
            deny=NameLists(
                providers=frozenset(self.deny_provider or ()),
                regions=frozenset(self.deny_region or ()),
                gpus=frozenset(self.deny_gpu or ()),
                segments=frozenset(self.deny_segment or ()),
            ),
            marketplaces=self.marketplaces,
            max_capex_usd=_read("--max-capex", self.max_capex, kind="amount"),
            max_usd_per_year=_read("--max-cost-per-year", self.max_cost_per_year, kind="amount"),
            max_power_w=_read("--max-power", self.max_power, kind="watts"),
            max_rack_units=self.max_rack_units,
            certainty_fraction=_certainty(self.certainty),
            max_price_age_days=self.max_price_age,
        )


def _certainty(given: str | None) -> float | None:
    """Read a share such as 95% or 0.95 as the load file does.

    Raises:
        UsageError: it is not between 0 and 1.
    """
    from capplan.specs.constraints import read_certainty
    from capplan.specs.values import ValueReader

    if given is None:
        return None
    reader = ValueReader("--certainty", "--certainty")
    try:
        share = read_certainty(reader, given if given.endswith("%") else float(given))
    except ValueError:
        share = None
    if share is None:
        raise UsageError(f"--certainty {given!r} is not a share; write 95% or 0.95.")
    return share


def _read(flag: str, given: str | None, *, kind: str) -> float | None:
    """Read an amount or a power as the load file does."""
    from capplan.specs.values import ValueReader

    if given is None:
        return None
    reader = ValueReader(flag, flag)
    value: float | None = getattr(reader, kind)("", given)
    if value is None:
        raise UsageError(f"{flag}: {reader.problems[0].message}.")
    return value
