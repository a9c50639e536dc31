"""What a quote states besides its price reaches the decision: part number, validity, delivery and warranty."""

from dataclasses import replace
from pathlib import Path

import pytest

from capplan.core.gpus.machines import LocalCurrency
from capplan.core.serving.load import Job
from capplan.report.procurement.csv import render_report_csv
from capplan.report.procurement.json import report_to_json
from capplan.report.procurement.money_tables import local_cards
from capplan.report.procurement.tables import price_table, refusal_table
from capplan.report.procurement.types import InfeasibleGpu, Report
from capplan.report.procurement.verdict import describe_load
from tests.report.procurement.made_up import EXAMPLES, made_report

pytestmark = pytest.mark.slow

QUOTE = """prices:
  - currency: USD
    provider: ours
    date: 2026-01-05
    tier: quoted
    source: {kind: example, title: quote 17}
    hourly:
      - {gpu: l4, instance: box, gpus: 1, pricing: on-demand, region: any, per_hour: 0.05,
         sku: 900-2G193, valid_until: %s, lead_time_days: 45, warranty_years: 3}
  - currency: USD
    provider: fresh
    date: 2026-11-01
    tier: quoted
    source: {kind: example, title: a price list of this month}
    hourly: [{gpu: a10g, instance: box, gpus: 1, pricing: on-demand, region: any, per_hour: 1}]
"""


def quoted(folder: Path, valid_until: str) -> Report:
    load = folder / "quote.load.yaml"
    load.write_text((EXAMPLES / "image-service.load.yaml").read_text() + QUOTE % valid_until)
    return made_report(load)


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return quoted(tmp_path_factory.mktemp("valid"), "2026-12-31")


def test_the_decision_names_part_number_validity_delivery_and_warranty(valid: Report) -> None:
    verdict = valid.models[0].verdict
    assert verdict.choice == "l4/on-demand"  # the cheapest by far, and valid although its day is ten months ago
    words = "part number 900-2G193, valid until 2026-12-31, delivered 45 days after the order, 3 years of warranty"
    assert f"Its quote: {words}." in verdict.reasons
    content = price_table(valid)
    assert content.columns[-1].title == "quote"
    assert [row[-1] for row in content.rows if row[-1]] == [words]


def test_documents_hold_the_terms_of_the_quote(valid: Report) -> None:
    option = next(each for each in report_to_json(valid)["models"][0]["options"] if each["key"] == "l4/on-demand")
    terms = {name: option[name] for name in ("sku", "price_valid_until", "lead_time_days", "warranty_years")}
    assert terms == {
        "sku": "900-2G193", "price_valid_until": "2026-12-31", "lead_time_days": 45.0, "warranty_years": 3.0,
    }  # fmt: skip
    assert "900-2G193" in render_report_csv(valid)


def test_an_expired_quote_is_not_recommended_without_saying_so(tmp_path: Path) -> None:
    verdict = quoted(tmp_path, "2026-11-20").models[0].verdict  # the report is of the day after
    assert verdict.choice == "l4/on-demand"  # a day is not enough for it to have risen above the next
    assert verdict.warning is not None
    assert "It rests on an expired quote" in verdict.warning
    assert "With a current price, NVIDIA A10G on-demand costs" in verdict.warning  # the only one of the last half year


def test_a_cheaper_offer_of_a_marketplace_is_named_beside_an_old_price(tmp_path: Path) -> None:
    """What is cheaper on weaker evidence is said even where the choice itself rests on an old price."""
    rows = "".join(
        f"  - {{currency: USD, tier: quoted, provider: {provider}, marketplace: {market}, date: {day},"
        f" source: {{kind: example, title: t}},"
        f" hourly: [{{gpu: {gpu}, instance: {gpu}, gpus: 1, pricing: on-demand, region: global,"
        f" per_hour: {price}}}]}}\n"
        for provider, market, gpu, day, price in (
            ("acme", "false", "l4", "2026-03-01", 0.01), ("bazaar", "true", "rtx-a5000", "2026-11-20", 0.005)
        )
    )  # fmt: skip
    load = tmp_path / "cheap.load.yaml"
    load.write_text(f"{(EXAMPLES / 'image-service.load.yaml').read_text()}\nprices:\n{rows}")
    verdict = made_report(load).models[0].verdict
    assert verdict.choice == "l4/on-demand"
    assert verdict.warning is not None
    assert "It rests on an old price of 2026-03-01" in verdict.warning
    assert "NVIDIA RTX A5000 on-demand (bazaar" in verdict.warning
    assert "on weaker evidence: marketplace offer" in verdict.warning
    cheapest = next(words for words in verdict.reasons if words.startswith("Cheapest in "))
    assert "(NVIDIA RTX A5000 on-demand (bazaar" in cheapest  # who is cheapest where the choice is not


def test_gpus_that_one_reason_excludes_share_a_row() -> None:
    model = made_report("image-service").models[0]
    given = [("A", "too old"), ("B", "too small"), ("C", "too old"), ("D", "too old")]
    refusals = tuple(
        InfeasibleGpu(gpu=name.lower(), gpu_name=name, batch=1, constraint="scope", reason=reason)
        for name, reason in given
    )
    rows = refusal_table(replace(model, refusals=refusals)).rows
    assert [(row[0], row[-1]) for row in rows] == [("3 GPUs", "too old: A, C, D"), ("B", "too small")]
    assert refusal_table(replace(model, refusals=refusals), named=2).rows[0][-1] == "too old: A, C, …"


def test_a_cost_in_the_buyer_s_currency_has_the_tax_of_the_place() -> None:
    local = LocalCurrency(code="EUR", usd_per_unit=1.25, vat_fractions={"de": 0.19})
    (known,) = local_cards(local, 10_000, "de")
    # 10,000 USD at 1.25 USD a euro are 8,000 EUR, 9,520 with 19 %.
    assert (known.label, known.figure) == ("Cost per year in EUR", "8,000 EUR")
    assert known.note == "9,520 with 19 % VAT of DE; 1 EUR = 1.2500 USD, your rate"
    (charged,) = local_cards(replace(local, buyer="de"), 10_000, "pl")  # the buyer's tax, whoever sells
    assert charged.note.startswith("9,520 with 19 % VAT of DE, which the buyer accounts for (reverse charge);")
    (bought,) = local_cards(replace(local, buyer="de"), 10_000, None)  # a purchase has no place
    assert bought.note.startswith("9,520 with 19 % VAT of DE;")
    (deducted,) = local_cards(replace(local, buyer="de", deducts_vat=True), 10_000, "de")
    assert deducted.note.startswith("19 % VAT of DE is deducted, and no cost;")
    (unknown,) = local_cards(local, 10_000, None)
    assert unknown.note.startswith("VAT not known")
    assert local_cards(None, 10_000, "de") == []


def test_one_is_written_in_the_singular() -> None:
    job = Job(
        samples=1000,
        deadline_s=3600.0,
        start_up_s=0.0,
        runs_per_year=1,
        growth_per_year_fraction=0.0,
        spares=0,
        utilization_ceiling_fraction=0.9,
    )
    assert describe_load(job, "images") == "1,000 images within 1 hour, once a year"
    assert describe_load(replace(job, deadline_s=7200.0, runs_per_year=12), "images").endswith(
        "2 hours, 12 times a year"
    )


def test_prices_without_quotes_have_no_column_for_their_terms() -> None:
    assert [column.title for column in price_table(made_report("image-service")).columns][-1] == "source"
