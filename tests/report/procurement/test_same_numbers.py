"""The same plan edited in the page, in the workbook and in Python gives the same numbers."""

from pathlib import Path

import pytest

from capplan.core.serving.load import Service
from capplan.report.procurement.figures import term_words
from capplan.report.procurement.xlsx import render_report_xlsx
from capplan.shapes.procurement import is_bought
from capplan.specs.load import read_demand
from tests.report.procurement.made_up import EXAMPLES, html_of, made_report
from tests.report.procurement.test_report_html import drive
from tests.report.procurement.test_report_xlsx import decision, recalculate, rows_of, with_sentinels

pytestmark = pytest.mark.slow

near = pytest.approx

# What is changed: by the page's field, the workbook's label, and the load file's assumption.
CHANGES = [
    ("usd_per_kwh", "Electricity", "usd_per_kwh", 0.31, 0.31),
    ("discount_fraction", "Discount rate", "discount_fraction", 3, 0.03),
    ("rentFactor", "Rent prices", "rent_price_factor", 1.7, 1.7),
    ("purchaseFactor", "Purchase prices", "purchase_price_factor", 0.8, 0.8),
    ("staff_usd_per_server_year", "Staff", "staff_usd_per_server_year", 4000, 4000),
    ("space_usd_per_kw_month", "Space and cooling of bought servers", "space_usd_per_kw_month", 90, 90),
]


@pytest.mark.browser
@pytest.mark.office
def test_page_workbook_and_python_agree(tmp_path: Path) -> None:
    plain = made_report("image-service")
    lines = "".join(f"  {key}: {value}\n" for _, _, key, _, value in CHANGES)
    load = tmp_path / "changed.load.yaml"
    load.write_text(f"{(EXAMPLES / 'image-service.load.yaml').read_text()}assumptions:\n{lines}")
    changed = made_report(load).models[0]

    (tmp_path / "page").mkdir()
    driven = drive(html_of(plain), [{field: str(shown) for field, _, _, shown, _ in CHANGES}], tmp_path / "page")
    book = with_sentinels(render_report_xlsx(plain), {label: value for _, label, _, _, value in CHANGES})
    recalculated = recalculate(book, tmp_path)
    rows = {(row["GPU"], row["term"]): row for row in rows_of(recalculated)}

    checked = 0
    for option in changed.options:
        if option.cost_usd_per_year is None or option.is_marketplace:
            continue
        cells, row = driven["seen"][1][option.key], rows[option.gpu_name, term_words(option.term)]
        for name, head, value in (
            ("year", "USD per year", option.cost_usd_per_year), ("total", "USD in all", option.total_usd),
            ("million", "USD per million samples", option.usd_per_million),
        ):  # fmt: skip
            assert float(cells[name]["value"]) == near(value, rel=1e-9), (option.key, name)
            assert row[head] == near(value, rel=1e-9), (option.key, head)
            checked += 1
    assert checked > 30

    choice = changed.option(changed.verdict.choice)
    assert choice is not None
    assert "H100" in driven["live"]  # the driver filters by h100 at the end, and filters apply to the live line
    shown = decision(recalculated)
    assert (shown["GPU"], shown["Term"]) == (choice.gpu_name, term_words(choice.term))
    assert shown["USD per year"] == near(choice.cost_usd_per_year, rel=1e-9)


@pytest.mark.browser
@pytest.mark.nightly
def test_the_downloaded_load_file_holds_changed_prices(tmp_path: Path) -> None:
    plain = made_report("image-service").models[0]
    rented = plain.option(plain.verdict.choice)
    bought = next(option for option in plain.options if is_bought(option))
    assert rented is not None
    assert rented.price_usd is not None
    assert bought.price_usd is not None
    halved = {rented.key: str(rented.price_usd / 2), bought.key: str(bought.price_usd / 2)}
    (tmp_path / "page").mkdir()
    page = html_of(made_report("image-service"))
    driven = drive(page, [{**halved, "usd_per_kwh": "0.31"}], tmp_path / "page")
    load = tmp_path / "changed.load.yaml"
    load.write_text(driven["file"])
    changed = {option.key: option for option in made_report(load).models[0].options}
    for key in (rented.key, bought.key):
        assert float(driven["seen"][1][key]["year"]["value"]) == near(changed[key].money.cost_usd_per_year, rel=1e-9)
    assert changed[rented.key].money.cost_usd_per_year == near((rented.cost_usd_per_year or 0) / 2, rel=1e-9)
    source = changed[bought.key].offer.price_source
    assert source is not None
    assert source.startswith("changed in the page of a capplan report (example")


DAY = ", ".join(f"{rate}/s" if rate else "0" for rate in (0, 0, 0, *range(100, 2000, 100), 700, 300))
HOURS = [
    f"service: {{daily: [{DAY}], latency: 50 ms, growth_per_year: 20 %}}",
    pytest.param(
        "service: {peak: 1500/s, mean: 900/s, hours: 22-6, days_per_week: 5, latency: 50 ms, start_up: 9 min}",
        marks=pytest.mark.nightly,
    ),
]


@pytest.mark.browser
@pytest.mark.office
@pytest.mark.parametrize("words", HOURS, ids=["daily", "hours"])
@pytest.mark.nightly
def test_page_and_workbook_follow_the_hours_of_use(words: str, tmp_path: Path) -> None:
    load = tmp_path / "hours.load.yaml"
    load.write_text(words)
    report = made_report(load)
    (tmp_path / "page").mkdir()
    driven = drive(html_of(report), [], tmp_path / "page")
    cells = recalculate(with_sentinels(render_report_xlsx(report), {}), tmp_path)
    rows = {(row["GPU"], row["term"]): row for row in rows_of(cells)}
    by_hour = 0
    for option in report.models[0].options:
        if option.cost_usd_per_year is None or option.is_marketplace:
            continue
        seen, row = driven["seen"][0][option.key], rows[option.gpu_name, term_words(option.term)]
        assert float(seen["year"]["value"]) == near(option.cost_usd_per_year, rel=1e-9), option.key
        assert row["USD per year"] == near(option.cost_usd_per_year, rel=1e-9), option.key
        assert row["kWh per year"] == near(option.energy_kwh_per_year, rel=1e-9), option.key
        by_hour += option.gpu_hours_by_year[0] < 0.99 * 8760 * option.gpus
    assert by_hour > 3
    again = tmp_path / "again.load.yaml"
    again.write_text(driven["file"])
    stated, read = report.demand.load, read_demand(again).load
    assert isinstance(stated, Service)
    assert isinstance(read, Service)
    assert read.levels == stated.levels
    assert read.mean_per_s == near(stated.mean_per_s, rel=1e-9)


OTHER_OFFER = """prices:
  - currency: USD
    provider: far
    date: 2026-01-05
    kind: copy  # a quote of your own would have a row of its own
    source: {kind: example, title: a second offer}
    hourly: [{gpu: l4, instance: box, gpus: 1, pricing: on-demand, region: north, per_hour: 9.5}]
"""


@pytest.mark.browser
@pytest.mark.nightly
def test_a_price_changed_under_a_filter_is_that_of_the_offer_shown(tmp_path: Path) -> None:
    """The row of a filtered table shows another provider's offer; its changed price goes into the load file as that."""
    quotes = tmp_path / "quotes.load.yaml"
    quotes.write_text((EXAMPLES / "image-service.load.yaml").read_text() + OTHER_OFFER)
    report = made_report(quotes)
    plain = report.models[0]
    own = plain.option("l4/on-demand")
    (offer,) = (each for each in plain.left_out if each.provider == "far")
    assert own is not None
    assert own.provider != "far"
    price = 0.25
    (tmp_path / "page").mkdir()
    steps = [{".filter": "far"}, {own.key: str(price)}, {".filter": ""}]
    driven = drive(html_of(report), steps, tmp_path / "page")
    load = tmp_path / "changed.load.yaml"
    load.write_text(driven["file"])
    changed = made_report(load).models[0].option(own.key)
    assert changed is not None
    assert (changed.provider, changed.region, changed.instance) == ("far", "north", "box")
    assert changed.price_usd == near(price, rel=1e-9)
    filtered, edited, unfiltered = (driven["seen"][place][own.key] for place in (1, 2, 3))
    assert float(edited["year"]["value"]) == near(float(filtered["year"]["value"]) * price / offer.price_usd, rel=1e-9)
    assert float(unfiltered["year"]["value"]) == near(changed.cost_usd_per_year, rel=1e-9)
    assert unfiltered["offer"]["words"] == "far, box, north"  # the cheaper of both offers stands in the row
