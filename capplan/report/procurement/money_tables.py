"""The report's tables of money: terms, capital and running cost, cash by year, and what was left out."""

from collections.abc import Sequence

from capplan.core.economics.concerns import DEFAULT_MAX_PRICE_AGE_DAYS
from capplan.core.economics.constraints import Constraints, CostAssumptions
from capplan.core.economics.cost import straight_line
from capplan.core.gpus.machines import LocalCurrency
from capplan.core.gpus.prices import COMMITMENT_YEARS, LASTING_TERMS, Term
from capplan.core.serving.load import OneGpu
from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.render import grid
from capplan.report.sections import Column, KeyFigure, figure, words
from capplan.shapes.procurement import is_bought
from capplan.shapes.types import LeftOutOffer, OptionRow
from capplan.units import counted, format_fraction

_TERMS = (Term.ON_DEMAND, Term.SPOT, Term.RESERVED_1Y, Term.RESERVED_3Y, Term.BUY)
"""The terms side by side, all that options may have."""
_SHOWN_GPUS = 10
PARTS = (
    ("GPUs", "gpus_usd"), ("chassis", "chassis_usd"), ("network", "network_usd"), ("energy", "energy_usd"),
    ("space", "space_usd"), ("support", "support_usd"), ("staff", "staff_usd"), ("licences", "licences_usd"),
    ("rent", "rent_usd"), ("residual value", "residual_usd"),
)  # fmt: skip


TERMS_TITLE = "Terms side by side, USD per year"


def total_card(total_usd: float, present_usd: float | None, money: CostAssumptions) -> KeyFigure:
    """Return what is paid over all years counted, with its net present cost."""
    rate = figures.fraction(money.discount_fraction)
    return KeyFigure(
        label=f"Total over {counted(money.years, 'year')}",
        figure=f"{figures.headline_money(total_usd)} USD",
        note=f"net present cost {figures.headline_money(present_usd)} USD at {rate} a year",
    )


def obligation_card(
    term: str, yearly_usd: Sequence[float], *, upfront_fraction: float | None, residual_usd: float | None
) -> KeyFigure:
    """Return what a signature binds to, and when it is paid."""
    years = COMMITMENT_YEARS.get(Term(term), 0)
    if term == Term.BUY:
        running = figures.headline_money(yearly_usd[-1] + (residual_usd or 0.0))
        worth = figures.headline_money(residual_usd)
        lost = figures.headline_money(straight_line(yearly_usd[0], residual_usd or 0.0, len(yearly_usd) - 1))
        return KeyFigure(
            label="Paid on the first day",
            figure=f"{figures.headline_money(yearly_usd[0])} USD",
            note=f"then {running} USD a year; {worth} USD residual value at the end: {lost} USD of depreciation a year",
        )
    if not years:
        reclaimed = " and may be reclaimed by the provider" if term == Term.SPOT else ""
        return KeyFigure(
            label="Bound to pay", figure="nothing", note=f"paid by the hour, ends when you stop it{reclaimed}"
        )
    if upfront_fraction is None:
        paid = "the price does not say how much is paid upfront: ask"
    elif upfront_fraction:
        paid = f"{figures.fraction(upfront_fraction)} of it upfront"
    else:
        paid = "nothing upfront"
    return KeyFigure(
        label="Bound to pay",
        figure=f"{figures.headline_money(sum(yearly_usd[: 1 + years]))} USD",
        note=f"{figures.term_words(term)}, every hour, used or not; {paid}",
    )


def priced(model: ModelReport) -> list[OptionRow]:
    """Return the options of the main table that have a price."""
    return [option for option in model.options if option.is_leading and option.cost_usd_per_year is not None]


def terms_table(report: Report, model: ModelReport) -> Grid | None:
    """Compare the terms of each leading GPU: what its fleet costs in a year, with the provider."""
    if isinstance(report.demand.load, OneGpu):
        return None
    leading = list(dict.fromkeys(option.gpu for option in model.options if option.cost_usd_per_year is not None))
    names = {option.gpu: option.gpu_name for option in reversed(model.options)}
    own = (option for option in reversed(model.options) if not option.is_marketplace)
    first = {(option.gpu, option.term): option for option in own if option.cost_usd_per_year is not None}

    def of_term(term: Term) -> Column[str]:
        def cell(gpu: str) -> str:
            option = first.get((gpu, term.value))
            return f"{option.cost_usd_per_year or 0:,.0f} ({option.provider})" if option else "no price"

        return figure(figures.term_words(term), cell)

    gpu: Column[str] = words("GPU", lambda gpu: names[gpu])
    columns = [gpu, *map(of_term, _TERMS)]
    return grid(columns, leading[:_SHOWN_GPUS]) if leading else None


def breakdown_table(report: Report, model: ModelReport) -> Grid | None:
    """Split the total cost of the leading options over the years counted, undiscounted."""
    rows = [option for option in priced(model) if option.breakdown_usd]
    if not rows or isinstance(report.demand.load, OneGpu):
        return None

    def part(name: str, field: str) -> Column[OptionRow]:
        return figure(f"{name}, USD", lambda row: f"{getattr(row.breakdown_usd, field):,.0f}")

    years = counted(report.demand.money.years, "year")
    used = [(name, field) for name, field in PARTS if any(getattr(row.breakdown_usd, field) for row in rows)]
    columns: list[Column[OptionRow]] = [
        words("option", figures.option_name),
        *(part(name, field) for name, field in used),
        figure(f"total, {years}, USD", lambda row: f"{row.total_usd or 0:,.0f}"),
    ]
    return grid(columns, rows)


def cash_table(report: Report, model: ModelReport) -> Grid | None:
    """List what the leading options pay on the first day and at each year's end, less the residual value."""
    rows = priced(model)
    if not rows or isinstance(report.demand.load, OneGpu):
        return None

    def paid(year: int) -> Column[OptionRow]:
        title = f"year {year}, USD" if year else "first day (capex), USD"
        return figure(title, lambda row: row.yearly_usd[year], "{:,.0f}".format)

    columns: list[Column[OptionRow]] = [
        words("option", figures.option_name),
        *map(paid, range(report.demand.money.years + 1)),
        figure("in all, USD", lambda row: sum(row.yearly_usd), "{:,.0f}".format),
    ]
    if any(is_bought(row) for row in rows):
        columns.append(words("paid back after, internal rate of return", lambda row: _payback(report, row)))
    return grid(columns, rows)


def _payback(report: Report, row: OptionRow) -> str:
    if row.term != Term.BUY:
        return ""
    if row.payback_against is None:
        return "no rent of this GPU to compare"
    if row.payback_years is None:
        return f"not within {counted(report.demand.money.years, 'year')}"
    rate = row.internal_return_fraction
    return f"{row.payback_years:.1f} years" + ("" if rate is None else f", {format_fraction(rate)} a year")


def constraint_words(constraints: Constraints) -> str | None:
    """Write what the buyer admits; None where nothing is excluded."""
    parts = []
    if constraints.terms != LASTING_TERMS:
        parts.append(f"terms {', '.join(sorted(term.value for term in constraints.terms))}")
    for word, lists in (("only", constraints.allow), ("never", constraints.deny)):
        for kind in ("providers", "regions", "gpus", "segments"):
            if names := sorted(getattr(lists, kind)):
                shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
                parts.append(f"{word} {kind if kind != 'gpus' else 'GPUs'} {shown}")
    caps = (
        ("capex up to", constraints.max_capex_usd, "USD", 1.0),
        ("up to", constraints.max_usd_per_year, "USD a year", 1.0),
        ("power up to", constraints.max_power_w, "kW", 1e3), ("up to", constraints.max_rack_units, "rack units", 1.0),
    )  # fmt: skip
    parts += [f"{word} {cap / scale:,.6g} {unit}" for word, cap, unit, scale in caps if cap is not None]
    if constraints.max_price_age_days != DEFAULT_MAX_PRICE_AGE_DAYS:
        parts.append(f"prices of more than {constraints.max_price_age_days:g} days count as old")
    if constraints.marketplaces:
        parts.append("marketplaces admitted")
    if constraints.any_vendor:
        parts.append("GPUs that need porting admitted")
    return f"Constraints: {'; '.join(parts)}." if parts else None


def appendix_table(report: Report, model: ModelReport) -> Grid | None:
    """List the options that the main table leaves out, each with the reason."""
    others = [row for row in model.options if not row.is_leading]
    digits = figures.amount_digits(others)["cost_usd_per_year"]
    columns: list[Column[OptionRow]] = [
        words("option", figures.option_name),
        words("offer", figures.offer),
        figure("GPUs", lambda row: figures.whole(row.gpus)),
        figure("USD per year", lambda row: figures.fixed(row.cost_usd_per_year, digits)),
        words("why it is not in the main table", lambda row: why_not_leading(report, row)),
    ]
    return grid(columns, others) if others else None


def why_not_leading(report: Report, row: OptionRow) -> str:
    """Explain why an option is not in the main table."""
    if row.cost_usd_per_year is None:
        return "no known price"
    if row.violations:
        return "; ".join(row.violations)
    if not row.certain_fit:
        return "memory is borderline"
    if row.term == Term.SPOT and not report.demand.load.allow_spot:
        return "spot may be reclaimed at any time: state allow_spot to admit it"
    if row.concerns:
        return "; ".join(row.concerns)
    return "more expensive than the options above"


def offers_table(model: ModelReport) -> Grid | None:
    """List the offers that no option rests on, each with the reason."""
    return grid(_LEFT_OUT, model.left_out) if model.left_out else None


_LEFT_OUT: tuple[Column[LeftOutOffer], ...] = (
    words("GPU", lambda offer: offer.gpu),
    words("term", lambda offer: figures.term_words(offer.term)),
    words("offer", lambda offer: ", ".join(word for word in (offer.provider, offer.instance, offer.region) if word)),
    figure(
        "USD per GPU-hour or GPU",
        lambda offer: f"{offer.price_usd:,.4f}" if offer.term != Term.BUY else f"{offer.price_usd:,.0f}",
    ),
    words("price of", lambda offer: str(offer.price_date)),
    words("reason", lambda offer: offer.reason),
)


def software_words(rows: Sequence[OptionRow]) -> list[str]:
    """Write the driver licences that options would break in a data centre, and what must be ported, with the GPUs."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for note in (row.licence, row.porting):
            if note and row.gpu_name not in found.setdefault(note, []):
                found[note].append(row.gpu_name)
    return [f"{', '.join(names)}: {note}" for note, names in found.items()]


def local_cards(local: LocalCurrency | None, usd_per_year: float, country: str | None) -> list[KeyFigure]:
    """Return what a cost comes to in another currency with the tax that the buyer owes; nothing without one."""
    if local is None:
        return []
    cost = local.amount(usd_per_year, country=country)
    taxed = cost.tax_words(figures.headline_money)
    day = "your rate" if cost.rate_day is None else f"reference rate of {cost.rate_day}"
    rate = f"1 {cost.currency} = {cost.usd_per_unit:.4f} USD, {day}"
    return [
        KeyFigure(
            label=f"Cost per year in {cost.currency}",
            figure=f"{figures.headline_money(cost.amount)} {cost.currency}",
            note=f"{taxed}; {rate}",
        )
    ]
