"""Tables of quotes become price files that the price reader takes."""

from datetime import date
from pathlib import Path

import pytest
from openpyxl import Workbook

from capplan.core.gpus.prices import DateKind, PriceTier, QuoteTerms, Term
from capplan.errors import UsageError
from capplan.specs import load_gpus
from capplan.specs.price_import import import_quotes
from capplan.specs.prices import load_price_file
from capplan.specs.providers import load_providers

DAY = date(2026, 11, 1)
HEAD = "gpu,term,provider,price,date,gpus,region,instance,date_is,tier,source,note\n"


@pytest.fixture(scope="module")
def gpus():
    return load_gpus()


def table(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "quotes.csv"
    path.write_text(HEAD + "\n".join(rows) + "\n")
    return path


def test_a_rent_of_eight_gpus_is_divided_by_eight(tmp_path, gpus):
    path = table(tmp_path, "h100-sxm5-80gb,reserved-1y,acme,20,2026-10-01,8,eu,box,,quoted,quote 17,")
    made = import_quotes(path, gpus, read_on=DAY)
    (name,) = made.files
    assert name == "acme-2026-10-01.yaml"
    (tmp_path / name).write_text(made.files[name])
    (price,) = load_price_file(tmp_path / name, gpus).hourly
    assert price.usd_per_hour == 20 / 8
    assert (price.term, price.tier, price.date) == (Term.RESERVED_1Y, PriceTier.QUOTED, date(2026, 10, 1))


def test_a_server_quote_includes_the_server(tmp_path, gpus):
    path = table(tmp_path, "h100-sxm5-80gb,purchase server,shop,240000,2026-10-01,8,,DGX,,published,page,")
    made = import_quotes(path, gpus, read_on=DAY)
    (tmp_path / "p.yaml").write_text(made.files["purchase-shop.yaml"])
    (price,) = load_price_file(tmp_path / "p.yaml", gpus).purchase
    assert price.usd == 30_000  # 240,000 USD over eight GPUs
    assert price.includes_server
    assert price.seller == "shop, street price"


def test_a_month_is_its_first_day_or_later(tmp_path, gpus):
    made = import_quotes(table(tmp_path, "l4,spot,acme,0.3,2026-05,,,,,,,"), gpus, read_on=DAY)
    assert (made.quotes[0].day, made.quotes[0].date_is) == (date(2026, 5, 1), DateKind.NOT_BEFORE)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("l44,spot,acme,0.3,2026-05-01,,,,,,,", "'l44' is not a GPU of the database; near l4"),
        ("l4,rental,acme,0.3,2026-05-01,,,,,,,", "term 'rental' is not known"),
        ("l4,spot,acme,-1,2026-05-01,,,,,,,", "price must be a number above 0, not '-1'"),
        ("l4,spot,acme,nan,2026-05-01,,,,,,,", "price must be a number above 0, not 'nan'"),
        ("l4,spot,,1,2026-05-01,,,,,,,", "no provider is named"),
        ("l4,spot,acme,1,yesterday,,,,,,,", "date must be YYYY-MM-DD, not 'yesterday'"),
        ("l4,spot,acme,1,2026-05-01,0.5,,,,,,", "gpus must be a whole number, not '0.5'"),
    ],
)
def test_a_row_that_cannot_be_taken_says_why(tmp_path, gpus, row, reason):
    made = import_quotes(table(tmp_path, row, "l4,spot,acme,1,2026-05-01,,,,,,,"), gpus, read_on=DAY)
    (left,) = made.left_out
    assert left.row == 2
    assert left.reason.startswith(reason)
    assert len(made.quotes) == 1


@pytest.mark.parametrize(
    ("price", "reason"),
    [("EUR 6.900", "'6.900' may mean 6900 or 6.9000"), ("€ 6,900", "'6,900' may mean 6900 or 6.9000")],
)
def test_thousands_of_a_purchase_in_euros_are_asked_about(tmp_path, gpus, price, reason):
    rows = (f'l4,buy,acme,"{price}",2026-05-01,,,,,,,', 'l4,spot,acme,"EUR 1.234",2026-05-01,,,,,,,')
    made = import_quotes(table(tmp_path, *rows), gpus, read_on=DAY, currency="EUR=1.16")
    assert [quote.price for quote in made.quotes] == [pytest.approx(1.234 * 1.16)]
    assert [left.reason for left in made.left_out if reason in left.reason], made.left_out


def test_a_price_keeps_its_cents(tmp_path, gpus):
    made = import_quotes(table(tmp_path, "l4,buy,acme,12345.67,2026-10-01,,,,,,,"), gpus, read_on=DAY)
    (name,) = made.files
    (tmp_path / name).write_text(made.files[name])
    assert load_price_file(tmp_path / name, gpus).purchase[0].usd == 12345.67


def test_a_column_that_only_exports_have_is_passed_over_in_a_table(tmp_path, gpus):
    path = tmp_path / "quotes.csv"
    path.write_text("gpu,term,provider,price,date,zones\nl4,spot,acme,1,2026-05-01,cheap\n")
    assert import_quotes(path, gpus, read_on=DAY).quotes[0].zones == ()


def test_a_file_that_only_its_name_makes_a_workbook_is_refused_in_a_sentence(tmp_path, gpus):
    (tmp_path / "quotes.xlsx").write_text("gpu,term\n")
    with pytest.raises(UsageError, match="is not a workbook that can be read"):
        import_quotes(tmp_path / "quotes.xlsx", gpus, read_on=DAY)


def test_providers_whose_names_differ_in_signs_alone_lose_no_price(tmp_path, gpus):
    rows = [f"l4,{term},{name},1,2026-05-01,,,,,,," for term in ("spot", "buy") for name in ("a b", "a-b", "云", "雲")]
    made = import_quotes(table(tmp_path, *rows), gpus, read_on=DAY)
    assert len(made.files) == len(made.quotes) == len(rows)


def test_text_that_looks_like_yaml_stays_text(tmp_path, gpus):
    path = table(tmp_path, 'l4,spot,"a: {b}",1,2026-05-01,,no,"{x: [1]}",,,"s # t",')
    made = import_quotes(path, gpus, read_on=DAY)
    (tmp_path / "p.yaml").write_text(*made.files.values())
    (price,) = load_price_file(tmp_path / "p.yaml", gpus).hourly
    assert (price.provider, price.region, price.instance) == ("a: {b}", "no", "{x: [1]}")


@pytest.mark.parametrize("provider", ["N", "y", "No", "on", "null"])
def test_a_seller_named_like_a_word_of_yaml_stays_text(tmp_path, gpus, provider):
    made = import_quotes(table(tmp_path, f"l4,spot,{provider},1,2026-05-01,,,,,,,"), gpus, read_on=DAY)
    (tmp_path / "p.yaml").write_text(*made.files.values())
    assert [price.provider for price in load_price_file(tmp_path / "p.yaml", gpus).hourly] == [provider]


def test_a_workbook_is_read_like_a_csv(tmp_path, gpus):
    book = Workbook()
    book.active.append(["GPU", "Term", "Vendor", "Price", "Date"])
    book.active.append(["NVIDIA L4", "on-demand", "acme", 0.5, date(2026, 9, 1)])
    book.save(tmp_path / "quotes.xlsx")
    (quote,) = import_quotes(tmp_path / "quotes.xlsx", gpus, read_on=DAY).quotes
    assert (quote.gpu, quote.price, quote.day) == ("l4", 0.5, date(2026, 9, 1))


def test_missing_columns_are_named(tmp_path, gpus):
    (tmp_path / "q.csv").write_text("gpu,price\nl4,1\n")
    with pytest.raises(UsageError, match="lacks the columns term, provider, date"):
        import_quotes(tmp_path / "q.csv", gpus, read_on=DAY)


def test_a_row_names_all_that_is_wrong_with_it(tmp_path, gpus):
    row = "nosuch-gpu,rental,,-1,yesterday,none,,,stated,gossip,,"
    (left,) = import_quotes(table(tmp_path, row), gpus, read_on=DAY).left_out
    for problem in (
        "'nosuch-gpu' is not a GPU of the database", "term 'rental' is not known", "no provider is named",
        "gpus must be a number above 0, not 'none'", "price must be a number above 0, not '-1'",
        "date must be YYYY-MM-DD, not 'yesterday'", "'gossip' is not known; use quoted, published, hearsay",
    ):  # fmt: skip
        assert problem in left.reason


def test_what_a_quote_states_besides_its_price_is_kept(tmp_path, gpus):
    (tmp_path / "q.csv").write_text(
        "gpu,term,provider,price,date,part number,valid_until,lead time,warranty\n"
        "l4,buy,shop,2500,2026-10-01,900-2G193,2026-12-31,45,3\n"
        "l4,on-demand,acme,0.7,2026-10-01,,2026-12-31,,\n"
        "l4,spot,acme,0.3,2026-10-01,,soon,-1,\n"
    )
    made = import_quotes(tmp_path / "q.csv", gpus, read_on=DAY)
    for name, text in made.files.items():
        (tmp_path / name).write_text(text)
    (bought,) = load_price_file(tmp_path / "purchase-shop.yaml", gpus).purchase
    assert bought.quote == QuoteTerms(
        sku="900-2G193", valid_until=date(2026, 12, 31), lead_time_days=45, warranty_years=3
    )
    (rented,) = load_price_file(tmp_path / "acme-2026-10-01.yaml", gpus).hourly
    assert rented.quote == QuoteTerms(valid_until=date(2026, 12, 31))
    (left,) = made.left_out
    assert left.row == 4
    assert left.reason.split("; ") == [
        "lead_time_days must be a number above 0, not '-1'", "valid_until must be YYYY-MM-DD, not 'soon'",
    ]  # fmt: skip


def test_a_quote_in_yaml_shares_what_stands_beside_its_rows(tmp_path, gpus):
    path = tmp_path / "quote.yaml"
    path.write_text(
        "provider: acme\ndate: 2026-10-01\nvalid_until: 2027-01-31\nquotes:\n"
        "  - {gpu: h100-sxm5-80gb, term: on-demand, price: 20, gpus: 8, region: eu, instance: box}\n"
        "  - {gpu: l4, term: buy, price: 2700, part number: 490-BHZG}\n"
    )
    made = import_quotes(path, gpus, read_on=DAY)
    assert sorted(made.files) == ["acme-2026-10-01.yaml", "purchase-acme.yaml"]
    for name, text in made.files.items():
        (tmp_path / name).write_text(text)
    (rent,) = load_price_file(tmp_path / "acme-2026-10-01.yaml", gpus).hourly
    (card,) = load_price_file(tmp_path / "purchase-acme.yaml", gpus).purchase
    assert (rent.usd_per_hour, rent.known_by, rent.quote.valid_until) == (20 / 8, "your quote", date(2027, 1, 31))
    assert (card.usd, card.seller, card.quote.sku) == (2700, "acme, quote price", "490-BHZG")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("quotes: []\n", "must hold quotes, a list of rows with gpu, term"),
        ("hourly: []\n", "is a price file already"),
        ("quotes: [{gpu: l4, prize: 3}]\n", r"quotes\[0\].prize is not known; near price"),
    ],
)
def test_a_yaml_file_that_holds_no_quotes_is_refused_in_a_sentence(tmp_path, gpus, text, complaint):
    path = tmp_path / "quote.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        import_quotes(path, gpus, read_on=DAY)


@pytest.mark.parametrize(
    ("written", "gpu"),
    [
        ("L4", "l4"), ("T4", "t4"), ("l40s", "l40s"), ("NVIDIA L40S", "l40s"), ("A10G", "a10g"),
        ("RTX 4090", "rtx-4090"), ("rtx4090", "rtx-4090"), ("RTX A6000", "rtx-a6000"),
        ("A100 80GB PCIe", "a100-pcie-80gb"),
        ("H100 SXM", "h100-sxm5-80gb"), ("H100 (80 GB PCIe)", "h100-pcie-80gb"), ("MI300X", "mi300x"),
        ("RTX PRO 6000 S", "rtx-pro-6000-blackwell-server"), ("RTX 4070S Ti", "rtx-4070-ti-super"),
    ],
)  # fmt: skip
def test_gpus_are_known_as_sellers_write_them(tmp_path, gpus, written, gpu):
    made = import_quotes(table(tmp_path, f"{written},buy,shop,2500,2026-10-01,,,,,,,"), gpus, read_on=DAY)
    assert [quote.gpu for quote in made.quotes] == [gpu]


def test_a_name_of_several_cards_says_which_they_are(tmp_path, gpus):
    (left,) = import_quotes(table(tmp_path, "H100,buy,shop,25000,2026-10-01,,,,,,,"), gpus, read_on=DAY).left_out
    assert "'H100' may be h100-nvl-94gb, h100-pcie-80gb, h100-sxm5-80gb; name one of these" in left.reason


def test_a_spreadsheet_of_a_country_with_decimal_commas_is_read(tmp_path, gpus):
    (tmp_path / "q.csv").write_text(
        "GPU;Term;Vendor;Price;Date\n"
        "L4;on-demand;acme;1,50;20.11.2026\n"
        "L4;spot;acme;0,705;2026-11-20\n"
        "L4;buy;acme;2.345,50 €;2026-11-20\n"
        "L4;reserved-1y;acme;1.234;2026-11-20\n",
        encoding="utf-8",
    )
    made = import_quotes(tmp_path / "q.csv", gpus, read_on=DAY, currency="EUR=1.16")
    assert [quote.price for quote in made.quotes] == pytest.approx([1.5, 0.705, 2345.5 * 1.16])
    assert made.quotes[0].day == date(2026, 11, 20)
    assert made.quotes[2].note == "2,345.5 EUR at 1.16 USD per EUR, your rate"
    (left,) = made.left_out
    assert left.reason == "price '1.234' may mean 1234 or 1,234; write one of these"


def test_a_quote_in_another_currency_takes_the_reference_rate_and_says_so(tmp_path, gpus):
    (tmp_path / "q.csv").write_text(
        "gpu,term,provider,price,date,currency\nl4,buy,shop,2000,2026-10-01,EUR\nl4,buy,shop,2000,2026-10-01,XAU\n"
    )
    made = import_quotes(tmp_path / "q.csv", gpus, read_on=DAY)
    rates = load_providers().rates
    (quote,) = made.quotes
    assert quote.price == pytest.approx(2000 * rates.per_euro["USD"])
    assert f"reference rate of {rates.day}" in quote.note
    assert "the price is in XAU, of which no rate is known" in made.left_out[0].reason


def test_rows_left_out_for_one_reason_are_counted(tmp_path, gpus):
    rows = ["nosuch,buy,shop,1,2026-10-01,,,,,,,"] * 3
    (left,) = import_quotes(table(tmp_path, *rows), gpus, read_on=DAY).left_out
    assert (left.row, left.rows) == (2, 3)
    assert str(left).startswith("3 rows: 'nosuch' is not a GPU")


def test_a_commitment_keeps_what_is_paid_at_once(tmp_path, gpus):
    (tmp_path / "q.csv").write_text(
        "gpu,term,provider,price,date,upfront,country,region\nl4,reserved-1y,acme,0.5,2026-10-01,100,DE,hall 2\n"
    )
    made = import_quotes(tmp_path / "q.csv", gpus, read_on=DAY)
    (tmp_path / "p.yaml").write_text(*made.files.values())
    (price,) = load_price_file(tmp_path / "p.yaml", gpus).hourly
    assert (price.upfront_fraction, price.country, price.region) == (1.0, "de", "hall 2")
