"""The cheapest prices under each term, side by side."""

from datetime import date

import pytest

from capplan.core.gpus.prices import DateKind, Price, PriceTier, PurchasePrice, Term
from capplan.report.render import grid_of
from capplan.report.sections import Table
from capplan.report.text.gpus import PriceGroup, price_comparison_sections

TODAY = date(2026, 11, 22)


def rent(
    provider: str, region: str, term: Term, usd: float, day: date, *, date_is: DateKind = DateKind.STATED
) -> Price:
    return Price(
        gpu="l4", provider=provider, region=region, term=term, usd_per_hour=usd, date=day, date_is=date_is, source="s"
    )


RENTS = (
    rent("acme", "eu", Term.ON_DEMAND, 0.7, date(2026, 11, 1)),  # 21 days old
    rent("acme", "us", Term.ON_DEMAND, 0.6, date(2026, 7, 1)),  # 144 days old
    rent("bold", "us", Term.ON_DEMAND, 0.65, date(2026, 11, 1), date_is=DateKind.READ),  # of unknown age
    rent("bold", "us", Term.RESERVED_3Y, 0.3, date(2024, 6, 1)),  # more than two years old
)
BOUGHT = (
    PurchasePrice(
        gpu="l4", seller="shop, street price", seller_name="shop", usd=2400.0, date=date(2026, 9, 1), source="s",
        tier=PriceTier.PUBLISHED,
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("group", "rows"),
    [
        (PriceGroup.GPU, [("l4", "2,400 (shop, street price)", "0.600 (acme)", "0.300 (bold)")]),
        (
            PriceGroup.PROVIDER,
            [
                ("l4", "acme", "", "0.600", ""),
                ("l4", "bold", "", "0.650", "0.300"),
                ("l4", "shop, street price", "2,400", "", ""),
            ],
        ),
        (
            PriceGroup.REGION,
            [
                ("l4", "any", "2,400 (shop, street price)", "", ""),
                ("l4", "eu", "", "0.700 (acme)", ""),
                ("l4", "us", "", "0.600 (acme)", "0.300 (bold)"),
            ],
        ),
        (
            PriceGroup.AGE,
            [
                ("l4", "up to 90 days", "2,400 (shop, street price)", "0.700 (acme)", ""),
                ("l4", "up to 180 days", "", "0.600 (acme)", ""),
                ("l4", "over a year", "", "", "0.300 (bold)"),
                ("l4", "unknown", "", "0.650 (bold)", ""),
            ],
        ),
    ],
)
def test_prices_are_compared(group: PriceGroup, rows: list[tuple[str, ...]]) -> None:
    ((table,),) = (section.blocks for section in price_comparison_sections(RENTS, BOUGHT, group=group, today=TODAY))
    assert isinstance(table, Table)
    made = grid_of(table)
    assert list(made.rows) == rows
    assert [column.title for column in made.columns][-3:] == [
        "buy, USD/GPU", "on-demand, USD/GPU-h", "reserved-3y, USD/GPU-h",
    ]  # fmt: skip
