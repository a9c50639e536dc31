"""The report's tables of money: terms, capital and running cost, cash by year, and what was left out."""

from collections.abc import Sequence

from capplan.core.economics.constraints import DEFAULT_MAX_PRICE_AGE_DAYS, Constraints
from capplan.core.gpus.prices import LASTING_TERMS, Term
from capplan.core.serving.load import OneGpu
from capplan.report.procurement import figures
from capplan.report.procurement.types import ModelReport, OptionRow, Report
from capplan.report.table import Align, Heading, Table, table

_TERMS = {
    Term.ON_DEMAND: "on demand", Term.SPOT: "spot", Term.RESERVED_1Y: "1-year commitment",
    Term.RESERVED_3Y: "3-year commitment", Term.BUY: "bought",
}  # fmt: skip
_SHOWN_GPUS = 10
PARTS = (
    ("GPUs", "gpus_usd"), ("chassis", "chassis_usd"), ("network", "network_usd"), ("energy", "energy_usd"),
    ("space", "space_usd"), ("support", "support_usd"), ("staff", "staff_usd"), ("licences", "licences_usd"),
    ("rent", "rent_usd"), ("residual value", "residual_usd"),
)  # fmt: skip


TERMS_TITLE = "Terms side by side, USD per year"


def priced(model: ModelReport) -> list[OptionRow]:
    """Return the options of the main table that have a price."""
    return [
        option for option in model.options if option.evidence.is_leading and option.money.cost_usd_per_year is not None
    ]


def terms_table(report: Report, model: ModelReport) -> Table | None:
    """Compare the terms of each leading GPU: what its fleet costs in a year, with the provider."""
    if isinstance(report.demand.load, OneGpu):
        return None
    leading = list(dict.fromkeys(option.gpu for option in model.options if option.money.cost_usd_per_year is not None))
    rows = []
    for gpu in leading[:_SHOWN_GPUS]:
        mine = {
            option.offer.term: option for option in reversed(model.options) if option.gpu == gpu and _counts(option)
        }
        name = next(option.gpu_name for option in model.options if option.gpu == gpu)
        rows.append((name, *(_term_cell(mine.get(term.value)) for term in _TERMS)))
    heads = " | ".join(f"{name}>" for name in _TERMS.values())
    return table(f"GPU | {heads}", rows) if rows else None


def _counts(option: OptionRow) -> bool:
    return option.money.cost_usd_per_year is not None and not option.offer.is_marketplace


def _term_cell(option: OptionRow | None) -> str:
    if option is None:
        return "no price"
    return f"{option.money.cost_usd_per_year or 0:,.0f} ({option.offer.provider})"


def breakdown_table(report: Report, model: ModelReport) -> Table | None:
    """Split the total cost of the leading options over the years counted, undiscounted."""
    rows = [option for option in priced(model) if option.money.breakdown_usd]
    used = [(name, field) for name, field in PARTS if any(getattr(row.money.breakdown_usd, field) for row in rows)]
    if not rows or isinstance(report.demand.load, OneGpu):
        return None
    columns = [name for name, _ in used] + [f"total, {report.demand.money.years} years"]
    cells = [
        (
            figures.option_name(row),
            *(f"{getattr(row.money.breakdown_usd, field):,.0f}" for _, field in used),
            f"{row.money.total_usd or 0:,.0f}",
        )
        for row in rows
    ]
    return Table(
        columns=(Heading(title="option"), *(Heading(title=f"{name}, USD", align=Align.RIGHT) for name in columns)),
        rows=tuple(cells),
    )


def cash_table(report: Report, model: ModelReport) -> Table | None:
    """List what the leading options pay on the first day and at each year's end, less the residual value."""
    rows = priced(model)
    if not rows or isinstance(report.demand.load, OneGpu):
        return None
    years = range(1, report.demand.money.years + 1)
    heads = " | ".join(f"year {year}, USD>" for year in years)
    content = table(
        f"option | first day (capex), USD> | {heads} | in all, USD> | paid back after",
        [
            (
                figures.option_name(row), *(f"{amount:,.0f}" for amount in row.money.yearly_usd),
                f"{sum(row.money.yearly_usd):,.0f}", _payback(report, row),
            )
            for row in rows
        ],
    )  # fmt: skip
    return content if any(row.is_bought for row in rows) else without_last(content)


def without_last(content: Table) -> Table:
    """Return a table without its last column, where that has nothing to say."""
    return Table(columns=content.columns[:-1], rows=tuple(cells[:-1] for cells in content.rows))


def _payback(report: Report, row: OptionRow) -> str:
    if row.offer.term != Term.BUY:
        return ""
    if row.money.payback_against is None:
        return "no rent of this GPU to compare"
    if row.money.payback_years is None:
        return f"not within {report.demand.money.years} years"
    return f"{row.money.payback_years:.1f} years"


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
    return f"Constraints: {'; '.join(parts)}." if parts else None


def appendix_table(report: Report, model: ModelReport) -> Table | None:
    """List the options that the main table leaves out, each with the reason."""
    others = [row for row in model.options if not row.evidence.is_leading]
    digits = figures.amount_digits(others)["cost_usd_per_year"]
    rows = [
        (
            figures.option_name(row), figures.offer(row), figures.whole(row.count.gpus),
            figures.fixed(row.money.cost_usd_per_year, digits), why_not_leading(report, row),
        )
        for row in others
    ]  # fmt: skip
    return table("option | offer | GPUs> | USD per year> | why it is not in the main table", rows) if rows else None


def why_not_leading(report: Report, row: OptionRow) -> str:
    """Explain why an option is not in the main table."""
    if row.money.cost_usd_per_year is None:
        return "no known price"
    if row.evidence.violations:
        return "; ".join(row.evidence.violations)
    if not row.evidence.certain_fit:
        return "memory is borderline"
    if row.offer.term == Term.SPOT and not report.demand.load.allow_spot:
        return "spot may be reclaimed at any time: state allow_spot to admit it"
    if row.evidence.concerns:
        return "; ".join(row.evidence.concerns)
    return "more expensive than the options above"


def offers_table(model: ModelReport) -> Table | None:
    """List the offers that no option rests on, each with the reason."""
    rows = [
        (
            each.gpu, figures.term_words(each.term),
            ", ".join(word for word in (each.provider, each.instance, each.region) if word),
            f"{each.price_usd:,.4f}" if each.term != Term.BUY else f"{each.price_usd:,.0f}", str(each.price_date),
            each.reason,
        )
        for each in model.left_out
    ]  # fmt: skip
    return table("GPU | term | offer | USD per GPU-hour or GPU> | price of | reason", rows) if rows else None


def licence_words(rows: Sequence[OptionRow]) -> list[str]:
    """Write the driver licences that options would break in a data centre, each with the GPUs concerned."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.licence and row.gpu_name not in found.setdefault(row.licence, []):
            found[row.licence].append(row.gpu_name)
    return [f"{', '.join(names)}: {words}" for words, names in found.items()]
