"""Numbers of foreign tables: every spelling that is taken gives the number that was meant, the others are refused."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.specs import load_gpus
from capplan.specs.foreign_numbers import read_number
from capplan.specs.price_import import ImportedPrices, import_quotes
from capplan.specs.prices import load_price_file

DAY = date(2026, 11, 1)
ARABIC = str.maketrans("0123456789.,", "٠١٢٣٤٥٦٧٨٩٫٬")
WIDE = str.maketrans("0123456789.,", "０１２３４５６７８９．，")
SWAPPED = str.maketrans(".,", ",.")


def spellings(cents: int) -> list[str]:
    """Write an amount with two digits behind the point as people of several countries do."""
    english = f"{cents // 100:,}.{cents % 100:02}"
    plain = english.replace(",", "")
    return [
        plain, english, english.translate(SWAPPED), plain.translate(SWAPPED),
        *(english.translate(SWAPPED).replace(".", blank) for blank in (" ", "\u00a0", "\u202f", "\u2009")),
        english.replace(",", "'"), english.replace(",", "’"), english.translate(ARABIC), plain.translate(WIDE),
        english.translate(WIDE), f"{cents}e-2", f" {plain} ",
    ]  # fmt: skip


@given(cents=st.integers(min_value=0, max_value=10**11))
def test_every_spelling_of_an_amount_is_the_amount(cents: int) -> None:
    for spelling in spellings(cents):
        assert read_number(spelling) == pytest.approx(cents / 100, rel=1e-12), spelling
        for priced in (f"${spelling.strip()}", f"{spelling.strip()} USD", f"US$ {spelling.strip()}"):
            assert read_number(priced, in_dollars=True) == pytest.approx(cents / 100, rel=1e-12), priced


@given(whole=st.integers(min_value=10**6, max_value=10**12))
def test_groups_without_a_fraction_are_whole(whole: int) -> None:
    for group in (",", ".", " ", "'"):
        assert read_number(f"{whole:,}".replace(",", group)) == whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0,70", 0.7), ("1,50", 1.5), ("1,5", 1.5), ("2,0", 2), ("1.234,50", 1234.5), ("1,234.50", 1234.5),
        ("1.234", 1.234), ("1 234", 1234), ("1'234", 1234), ("12,3456", 12.3456), ("1234,567", 1234.567), (".5", 0.5),
        ("1e-07", 1e-7), ("1.234.567", 1234567),
    ],
)  # fmt: skip
def test_what_is_read(text: str, number: float) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize("text", ["1,234", "0,705", "999,000", "１，２３４"])
def test_what_may_mean_two_numbers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"may mean \d+ or \d+\.\d{3}; write one of these$"):
        read_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "-1", "+1", "nan", "inf", "1_000", "12,34,56", "1,23.4", "1.23,4,5", "1,234,56", "0,123,456", "1 23",
        "1, 5", "1,5e3", "one", "$", "5 USD", "€5", "0x10", "½", "²", "1" * 61, "1.2.3", ",", ".", "1,234.5.6",
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a number|write plain digits"):
        read_number(text)


@pytest.mark.parametrize("text", ["€0,70", "0,70 €", "£1", "¥100"])
def test_another_currency_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(ValueError, match="convert a price to USD"):
        read_number(text, in_dollars=True)


def imported(folder: Path, prices: list[str], gpus: str = "1") -> ImportedPrices:
    rows = "\n".join(f'l4,on-demand,acme,"{price}",2026-10-01,"{gpus}",box-{n}' for n, price in enumerate(prices))
    (folder / "quotes.csv").write_text(f"gpu,term,provider,price,date,gpus,instance\n{rows}\n", encoding="utf-8")
    return import_quotes(folder / "quotes.csv", load_gpus(), read_on=DAY)


def test_what_an_import_writes_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    numbers = [0.7, 1.2345, 1e-9, 1.5e-7, 123456.78, 9_999_999.0, 1e7]
    prices = [spelling for cents in (70, 150, 123450, 999_999_999) for spelling in spellings(cents)]
    made = imported(tmp_path, [*prices, *(f"{number:g}" if number < 1 else str(number) for number in numbers)])
    assert not made.left_out
    (name,) = made.files
    (tmp_path / name).write_text(made.files[name], encoding="utf-8")
    read = {price.instance: price.usd_per_hour for price in load_price_file(tmp_path / name, load_gpus()).hourly}
    assert len(read) == len(made.quotes) == len(prices) + len(numbers)
    for quote in made.quotes:
        assert read[quote.instance] == pytest.approx(quote.price, rel=1e-9)


@pytest.mark.parametrize(
    ("price", "gpus", "reason"),
    [
        ("1,234", "1", "price '1,234' may mean 1234 or 1.234; write one of these"),
        ("1e30", "1", "price must lie between 1e-09 and 1e+07, not '1e30'"),
        ("1e-320", "1", "price must lie between 1e-09 and 1e+07, not '1e-320'"),
        ("0", "1", "price must be a number above 0, not '0'"),
        ("1", "1,5", "gpus must be a whole number, not '1,5'"),
        ("1", "1e6", "gpus must be at most 1024, not '1e6'"),
        ("1", "$8", "gpus '$8' has the sign $; write plain digits, and convert a price to USD"),
    ],
)
def test_a_row_with_a_number_that_is_not_taken_says_why(tmp_path: Path, price: str, gpus: str, reason: str) -> None:
    [left] = imported(tmp_path, [price], gpus).left_out
    assert left.reason == reason
