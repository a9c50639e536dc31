"""What is signed, recomputed from offers, hours, energy and tax, for loads as six buyers stated them."""

from math import ceil
from pathlib import Path

import pytest

from capplan.core.gpus.machines import LocalCurrency
from capplan.core.gpus.prices import Term
from capplan.report.procurement.money_tables import local_cards
from capplan.report.procurement.types import Report
from capplan.shapes.types import OptionRow
from tests.report.procurement.made_up import made_report

pytestmark = pytest.mark.slow

near = pytest.approx
LOADS = {
    "a service in two zones of the EU": """
service: {peak: 1200/s, mean: 450/s, latency: 80 ms, percentile: 99, growth_per_year: 25 %, availability: 99.9 %,
  zones: 2}
terms: rent
allow: {regions: [eu]}
budget: {per_year: 60000}
""",
    "a purchase over five years": """
service: {peak: 8000/s, mean: 3000/s, latency: 150 ms, growth_per_year: 30 %, spares: 1}
terms: buy
assumptions: {years: 5, discount_fraction: 0.06, staff_usd_per_server_year: 6000}
""",
    "a training": """
training: {samples: 300M, epochs: 1, deadline: 5 d, runs_per_year: 6}
allow: {regions: [us]}
""",
    "a nightly job on spot": """
job: {samples: 25M, deadline: 6 h, runs_per_year: 365, allow_spot: true}
allow: {regions: [us]}
""",
    "a service by day": """
service: {peak: 900/s, latency: 120 ms, percentile: 95, hours: 8-20, growth_per_year: 40 %}
allow: {regions: [eu]}
""",
    "a commitment": """
service: {peak: 3000/s, mean: 2000/s, latency: 60 ms, growth_per_year: 10 %}
terms: [reserved-3y]
""",
}

OFFER = """
prices:
  - currency: USD
    provider: ours
    date: 2026-11-01
    tier: quoted
    source: {kind: example, title: a quote of this month}
    hourly:
      - {gpu: l4, instance: box of two, gpus: 2, pricing: on-demand, region: waw-1, country: pl, per_hour: 3.40}
      - {gpu: l4, instance: box of two, gpus: 2, pricing: reserved-3y, region: waw-1, country: pl, per_hour: 1.80}
"""
"""Offers in the EU: 1.70 USD for a GPU-hour, 0.90 with a commitment of three years, in machines of two."""


@pytest.mark.parametrize("kind", LOADS)
def test_amounts_follow_from_offers_hours_energy_and_tax(kind: str, tmp_path: Path) -> None:
    """Every priced option, not the choice alone; 8,760 hours a year, flows at year ends."""
    path = tmp_path / "signed.load.yaml"
    path.write_text(LOADS[kind] + OFFER * ("[eu]" in LOADS[kind] or "reserved" in LOADS[kind]))
    report = made_report(path, mode="training" if kind == "a training" else "inference")
    priced = [row for row in report.models[0].options if row.cost_usd_per_year is not None]
    assert priced
    for row in priced:
        flows = _bought(report, row) if row.term == Term.BUY else _rented(report, row)
        _assert_money(report, row, flows)
    local = LocalCurrency(code="EUR", usd_per_unit=1.16, vat_fractions={"de": 0.19}, buyer="de")
    cost = local.amount(priced[0].cost_usd_per_year or 0.0, country="pl")
    assert cost.with_vat == near((priced[0].cost_usd_per_year or 0.0) / 1.16 * 1.19)
    assert "reverse charge" in local_cards(local, priced[0].cost_usd_per_year or 0.0, "pl")[0].note


def _assert_money(report: Report, row: OptionRow, flows: list[float]) -> None:
    rate, years = report.demand.money.discount_fraction, report.demand.money.years
    present = sum(flow / (1 + rate) ** year for year, flow in enumerate(flows))
    annual = present * rate / (1 - (1 + rate) ** -years) if rate else present / years
    assert list(row.yearly_usd) == near(flows), row.key
    assert row.total_usd == near(sum(flows)), row.key
    assert row.present_usd == near(present), row.key
    assert row.cost_usd_per_year == near(annual), row.key


def _rented(report: Report, row: OptionRow) -> list[float]:
    """Nothing on the first day, then the hours of each year's machines at the offer's price."""
    assert row.price_usd is not None
    load = report.demand.load
    flows = [0.0]
    for gpus, samples in zip(row.gpus_by_year, row.samples_by_year, strict=True):
        assert gpus % row.server_slots == 0  # whole machines
        hours = 8760.0 * gpus
        if load.kind in ("job", "training") and row.term in (Term.ON_DEMAND, Term.SPOT):
            working = gpus - row.spares * row.server_slots
            run_h = load.start_up_s / 3600 + samples / load.runs_per_year / row.rate_per_gpu_per_s / 3600 / working
            hours = gpus * load.runs_per_year * max(run_h, (row.minimum_s or 0.0) / 3600)
        elif load.kind == "service" and load.levels and row.term in (Term.ON_DEMAND, Term.SPOT):
            [level] = load.levels  # half of the day; machines start before it
            hours = gpus * (8760 * 12 / 24 + 365 * load.start_up_s / 3600)
            assert level.hours_per_year == near(4380)
        flows.append(hours * row.price_usd)
    return flows


def _bought(report: Report, row: OptionRow) -> list[float]:
    """GPUs, a chassis for each server, and the network; then energy, space, support, staff; the rest value at last."""
    assert row.price_usd is not None
    assert row.energy_kwh_per_year is not None
    assert row.nameplate_w is not None
    money, gpus, servers = report.demand.money, row.gpus_by_year[-1], row.servers_by_year[-1]
    chassis = money.chassis_usd_sxm if row.is_board else money.chassis_usd_pcie
    hardware = gpus * row.price_usd + (0 if row.includes_server else servers * chassis)
    running = (
        row.energy_kwh_per_year * money.usd_per_kwh
        + row.nameplate_w / 1000 * money.space_usd_per_kw_month * 12
        + hardware * money.support_fraction
        + servers * money.staff_usd_per_server_year
        + gpus * money.licence_usd_per_gpu_year
    )
    flows = [hardware * (1 + money.network_fraction), *[running] * money.years]
    flows[-1] -= hardware * money.residual_fraction
    return flows


QUOTE = """
prices:
  - currency: USD
    tier: quoted
    source: {kind: example, title: a quote of a server of four}
    purchase: [{gpu: l4, date: 2026-11-01, offer: quote, price: 40000, gpus: 4, includes_server: true, seller: Dell}]
"""


def test_a_server_that_is_quoted_whole_is_bought_whole_and_has_one_chassis(tmp_path: Path) -> None:
    """A server of four for 40,000 USD: six GPUs are two servers, 80,000 USD with no chassis besides."""
    path = tmp_path / "server.load.yaml"
    service = "service: {peak: 3700/s, mean: 1000/s, latency: 150 ms}\nterms: buy\ncertainty: 50 %\n"
    path.write_text(service + "allow: {gpus: [l4]}\n" + QUOTE)
    report = made_report(path)
    [row] = report.models[0].options
    assert (row.server_slots, row.full_servers, row.server_gpus) == (4, True, 4)
    servers = ceil(row.gpus_needed / 4) + row.spares
    assert (row.servers, row.gpus) == (servers, 4 * servers)
    assert row.gpus % 4 == 0
    assert row.gpus_needed % 4 != 0  # else the test says nothing
    assert row.initial_usd == near(servers * 40_000 * (1 + report.demand.money.network_fraction))
