"""The energy of a report, worked out by hand from the kernels of one step, the hours of the day and the servers."""

import math
from datetime import date
from pathlib import Path

import pytest
import torch

import capplan
from capplan.app.procurement.build import build_report
from capplan.core.gpus.prices import PurchasePrice
from capplan.report.procurement.tables import power_table
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.procurement.xlsx import render_report_xlsx
from capplan.shapes.plan import plan_document
from capplan.shapes.procurement import is_bought
from capplan.specs import load_gpus
from capplan.specs.fitted import load_power_law
from capplan.specs.prices import load_prices
from tests.report.procurement.made_up import CIRCUMSTANCES, stated_demand
from tests.report.procurement.test_report_xlsx import recalculate, rows_of

pytestmark = pytest.mark.slow

near = pytest.approx
WIDTH = 16_384


def with_load(tmp_path: Path, load: str) -> tuple[Report, ModelReport]:
    """A report on one linear layer, W [16384, 16384] in fp16, on an L4."""
    layer = torch.nn.Linear(WIDTH, WIDTH, bias=False, device="meta")
    inputs = (torch.zeros(1, WIDTH, device="meta"),)
    plan = capplan.plan(layer, inputs=inputs, batch="1,2,4", precision="fp16", gpus=["l4"], energy=True)
    (tmp_path / "x.load.yaml").write_text(load)
    gpus = load_gpus()
    prices = load_prices(gpus)
    report = build_report(
        [plan_document(plan)],
        demand=stated_demand(tmp_path / "x.load.yaml"),
        gpus=gpus,
        rents=prices.hourly,
        purchases=(PurchasePrice(gpu="l4", usd=2_500, date=date(2026, 11, 1), source="a quote", seller="us"),),
        circumstances=CIRCUMSTANCES,
    )
    return report, report.models[0]


def card_w(batch: int, time_s: float) -> float:
    """What an L4 draws: 72 W, 300 GB/s, 121.2 TFLOP/s; one product that reads its weights once."""
    constants = load_power_law().others  # nobody measured an Ada card
    memory = 2 * WIDTH**2 / 300e9 / time_s
    compute = 2 * batch * WIDTH**2 / 121.2e12 / time_s
    demand = constants.memory * memory + constants.compute * compute
    return 72 * (constants.base_fraction + (1 - constants.base_fraction) * (1 - math.exp(-demand)))


DAY = ", ".join(["0"] * 12 + ["200"] * 12)
SERVICE = f"service: {{daily: [{DAY}], latency: 1 s, spares: 1}}\nterms: buy\n"


def test_a_service_draws_what_its_hours_say(tmp_path: Path) -> None:
    report, model = with_load(tmp_path, SERVICE)
    (option,) = (option for option in model.options if is_bought(option))
    times = {fit.batch: fit.latency_s.expected for fit in model.plan.fits}
    # Half of the day nothing comes; in the other half each of the two GPUs (one is spare, both serve) takes 100/s. One
    # sample takes about 2 ms, so that it works on single samples for that share of the time and idles for the rest.
    assert option.gpus_by_year[-1] == 2
    busy = 100 * times[1]
    assert busy < 1
    idle = 72 * load_power_law().others.base_fraction
    working = idle + busy * (card_w(1, times[1]) - idle)
    mean_card_w = (idle + working) / 2
    # Two servers of cards of 500 W (a spare is a server), which idle at 25 % and reach 60 % at full load. The mean load
    # is that of 100/s on two GPUs that carry rate / 0.7 each with full batches.
    load = 100 / (2 * option.rate_per_gpu_per_s / 0.70)
    host_w = 500 * (0.25 + 0.35 * load)
    kwh = (2 * mean_card_w + 2 * host_w) / 1000 * 1.35 * 8760
    assert option.energy_kwh_per_year == near(kwh, rel=0.01)  # the program counts activations, too: under 1 %
    assert option.carbon_kg_per_year == near(kwh * 0.481, rel=0.01)
    assert option.nameplate_w == near(2 * 72 + 2 * 500)
    at_peak = 2 * working + 2 * 500 * 0.6
    assert option.predicted_peak_w == near(at_peak, rel=0.01)
    breakdown = option.breakdown_usd
    assert breakdown is not None
    assert breakdown.energy_usd == near(3 * kwh * 0.10, rel=0.01)
    titles = [column.title for column in power_table(model).columns]
    assert titles[1:4] == ["nameplate kW", "predicted at peak, kW", "mean kW"]
    assert "other architectures measured" in option.power_evidence
    assert report.demand.money.pue == 1.35


def test_a_job_draws_that_of_full_batches_while_it_works(tmp_path: Path) -> None:
    # 8.64 million samples within a day, once a year, need 100/s of machines that already run.
    load = "job: {samples: 8640000, deadline: 1 d, runs_per_year: 1, start_up: 0 s}\nterms: on-demand\n"
    _, model = with_load(tmp_path, load)
    option = next(option for option in model.options if option.term == "on-demand")
    times = {fit.batch: fit.latency_s.expected for fit in model.plan.fits}
    rate = 0.9 * 4 / times[4]  # a job keeps 90 % of the rate of full batches: between those of 2 and of 4 samples
    low, high = 2 / times[2], 4 / times[4]
    share = (rate - low) / (high - low)
    card = card_w(2, times[2]) * (1 - share) + card_w(4, times[4]) * share
    hours = 8_640_000 / rate / 3600
    # Rented GPUs are a quarter of a server of four cards each; they are given back.
    kwh = hours * (card + 500 / 4 * 0.6) / 1000 * 1.35
    assert option.energy_kwh_per_year == near(kwh, rel=0.01)


@pytest.mark.office
@pytest.mark.nightly
def test_the_workbook_integrates_over_the_hours_of_the_day(tmp_path: Path) -> None:
    report, model = with_load(tmp_path, SERVICE.replace("200, 200,", "350, 120,"))
    (option,) = (option for option in model.options if is_bought(option))
    rows = rows_of(recalculate(render_report_xlsx(report), tmp_path))
    (row,) = (row for row in rows if row["term"] == "bought")
    assert row["kWh per year"] == near(option.energy_kwh_per_year, rel=1e-9)
    assert row["USD per year"] == near(option.cost_usd_per_year, rel=1e-9)
