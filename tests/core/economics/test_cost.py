"""CostAssumptions against a hand-calculated purchase: one 8-GPU node, three years, 8 %."""

import math
from dataclasses import replace
from datetime import date

import pytest

from capplan.core.economics.constraints import CostAssumptions
from capplan.core.economics.cost import (
    CardDraw,
    Usage,
    best_reserve,
    break_even,
    cost_of_owning,
    cost_of_renting,
    fleet_energy,
    present_value,
)
from capplan.core.formulas import annuity_factor, equivalent_annual, usd_per_million
from capplan.core.gpus.prices import Price, PurchasePrice, Term
from capplan.core.numbers import ceil_guarded

near = pytest.approx
DAY = date(2026, 11, 1)

# A node of 300,000 USD (8 GPUs of 37,500 with their share), 12 % network, 10.2 kW nameplate (8 × 700 W and a
# host of 4.6 kW) drawn to 60 % by both: a card draws 420 W at work and 175 W without.
NODE = CostAssumptions(
    years=3, discount_fraction=0.08, residual_fraction=0.30, chassis_usd_sxm=0.0, chassis_usd_pcie=0.0,
    network_fraction=0.12,
    support_fraction=0.04, space_usd_per_kw_month=0, staff_usd_per_server_year=15_000,
    licence_usd_per_gpu_year=0, gpus_per_server_sxm=8,
    gpus_per_server_pcie=4, rack_units_sxm=8, rack_units_pcie=2,
    host_w_sxm=4_600, host_w_pcie=500, card_power_factor=1.0, power_fraction=0.60, idle_power_fraction=0.25,
    pue=1.35, usd_per_kwh=0.10, grid_g_per_kwh=381, embodied_kg_per_gpu=375, embodied_kg_per_server=1_500,
    failures_per_gpu_year=0.173, repair_days=3,
)  # fmt: skip
CARD = CardDraw(limit_w=700, used_w=420, idle_w=175)
BARE = PurchasePrice(gpu="h100", usd=37_500, date=DAY, source="quote", seller="somebody")


def energy(money=NODE, busy_fraction=1.0):
    usage = Usage(in_use_fraction=busy_fraction, load_fraction=1.0, stays_on=True)
    return fleet_energy(gpus=8, servers=1, card=CARD, host_w=4_600, usage=usage, money=money)


def owned(money=NODE):
    return cost_of_owning(
        gpus=8, servers=1, price=BARE, chassis_usd=money.chassis_usd_sxm, energy=energy(money), money=money
    )


def rent(usd_per_hour, term=Term.ON_DEMAND):
    return Price(
        gpu="h100", provider="somebody", region="here", term=term, usd_per_hour=usd_per_hour, date=DAY, source="list"
    )


def test_energy_of_a_node():
    assert energy().kwh_per_year == near(72_375.12, rel=1e-9)  # 6.12 kW × 1.35 × 8760
    assert energy().use_kg_per_year == near(27_574.920720, rel=1e-9)


@pytest.mark.parametrize(("grid", "kg"), [(56, 4_053.006720), (381, 27_574.920720), (582, 42_122.319840)])
def test_carbon_of_a_node(grid, kg):
    assert energy(replace(NODE, grid_g_per_kwh=grid)).use_kg_per_year == near(kg, rel=1e-9)


def test_share_of_embodied_carbon():
    # 8 × 375 + 1500 = 4500 kg over three years: 5.159085 % of use and making in Germany.
    drawn = energy()
    yearly = drawn.embodied_kg / 3
    assert yearly / (yearly + drawn.use_kg_per_year) == near(0.05159085, rel=1e-6)


def test_net_present_cost_of_buying():
    cost = owned()
    assert cost.initial == near(336_000)
    assert cost.running_per_year == near(34_237.512, rel=1e-9)
    assert cost.present == near(352_788.487334, rel=1e-11)
    assert cost.per_year == near(136_893.756455, rel=1e-11)
    assert cost.per_year / (8 * 8760) == near(1.953393, rel=1e-6)
    assert cost.per_year / (8 * 8760 * 0.6) == near(3.255654, rel=1e-6)
    assert cost.total == near(336_000 + 3 * 34_237.512 - 90_000)
    assert sum(cost.yearly) == near(cost.total)


def test_cash_by_year_of_a_node():
    # First day: 8 × 37,500 and 12 % network = 336,000. Every year: 7,237.512 of energy, 4 % support of 300,000 and
    # 15,000 of staff = 34,237.512; the last year is 30 % of 300,000 = 90,000 less, the residual value.
    assert owned().yearly == near((336_000, 34_237.512, 34_237.512, 34_237.512 - 90_000), rel=1e-9)
    assert owned().highest_year_usd == near(34_237.512, rel=1e-9)
    # Rent: nothing on the first day, then 2.00 USD for each of 8 × 8,760 GPU-hours, and twice that in a year of two.
    hours = [8 * 8760.0, 8 * 8760.0, 16 * 8760.0]
    rented = cost_of_renting(gpu_hours_by_year=hours, price=rent(2.0), money=NODE)
    assert rented.yearly == near((0.0, 140_160.0, 140_160.0, 280_320.0))


def test_net_present_cost_without_discount_and_over_five_years():
    # r = 0: (336,000 + 3 × 34,237.512 - 90,000)/3
    assert owned(replace(NODE, discount_fraction=0.0)).per_year == near(116_237.512, rel=1e-9)
    five = owned(replace(NODE, years=5))
    assert (five.present, five.per_year) == (near(411_447.970074, rel=1e-11), near(103_049.799823, rel=1e-11))


def test_renting_the_same_node():
    all_year = [8.0 * 8760] * 3
    on_demand = cost_of_renting(gpu_hours_by_year=all_year, price=rent(2.99), money=NODE)
    assert on_demand.yearly[1] == near(209_539.20)
    assert on_demand.present == near(540_002.841033, rel=1e-11)
    assert on_demand.per_year == near(209_539.20)
    used = cost_of_renting(gpu_hours_by_year=[0.6 * hours for hours in all_year], price=rent(2.99), money=NODE)
    assert used.present == near(324_001.704618, rel=1e-11)
    reserved = cost_of_renting(gpu_hours_by_year=all_year, price=rent(2.10), money=NODE)
    assert reserved.present == near(379_266.209419, rel=1e-11)
    assert reserved.per_year - owned().per_year == near(10_274, abs=1)


def test_break_even_of_buying():
    hours = break_even(owned(), gpus=8, rent=rent(2.99))
    assert hours == near(5_722.983129, rel=1e-9)
    assert hours / 8760 == near(0.65330858, rel=1e-7)


def test_idle_gpus_draw_their_idle_share():
    assert energy(busy_fraction=0.0).average_w == near(10_200 * 0.25)
    assert energy(busy_fraction=0.5).average_w == near(10_200 * 0.425)


def test_annuities():
    assert annuity_factor(rate_fraction=0.08, years=3) == near(2.577097, rel=1e-6)
    assert annuity_factor(rate_fraction=0.0, years=3) == 3
    assert present_value([100, 100, 100], rate_fraction=0.08) == near(257.7097, rel=1e-6)
    assert equivalent_annual(257.7097, rate_fraction=0.08, years=3) == near(100, rel=1e-6)


def test_monthly_rent_at_the_effective_rate():
    # (1.08)^(1/12) - 1 a month, 36 payments in arrears.
    monthly = 209_539.20 / 12
    assert present_value([monthly] * 36, rate_fraction=1.08 ** (1 / 12) - 1) == near(559_527.835377, rel=1e-9)


@pytest.mark.parametrize(
    ("usd_per_hour", "samples_per_s", "usd"),
    [(2.99, 60, 13.842593), (2.99, 120, 6.921296), (23.92, 8_000, 0.830556), (0.204, 648 / 60, 5.246914)],
)
def test_unit_costs(usd_per_hour, samples_per_s, usd):
    assert usd_per_million(usd_per_hour, 1, 3_600 * samples_per_s) == near(usd, rel=1e-6)


def test_reserve_by_the_newsvendor():
    demand = [16 if hour == 14 else 0 for hour in range(24)]
    assert best_reserve(demand=demand, on_demand_per_hour=3.0, reserved_per_hour=1.8) == 0
    daily = [ceil_guarded(10 + 6 * math.sin(2 * math.pi * (hour - 8) / 24)) for hour in range(24)]
    assert (sum(daily), max(daily)) == (248, 16)
    assert best_reserve(demand=daily, on_demand_per_hour=3.0, reserved_per_hour=1.8) == 9


def test_rounding_up_forgives_dust():
    assert [ceil_guarded(value) for value in (10, 10.0000000001, 10.001, 9.9999999999)] == [10, 10, 11, 10]


@pytest.mark.parametrize("usd", [0, -1, float("nan")])
def test_a_price_of_nothing_is_refused(usd):
    with pytest.raises(ValueError, match="above 0"):
        rent(usd)
    with pytest.raises(ValueError, match="above 0"):
        PurchasePrice(gpu="h100", usd=usd, date=DAY, source="x", seller="y")


def test_a_chassis_is_paid_per_server_unless_the_quote_includes_it():
    # Eight GPUs of 37,500 are 300,000; one chassis adds 75,000 whatever the GPUs cost.
    quoted = replace(BARE, includes_server=True)
    shared = {"gpus": 8, "servers": 1, "chassis_usd": 75_000.0, "energy": energy(), "money": NODE}
    assert cost_of_owning(price=quoted, **shared).hardware == near(300_000)
    bare = cost_of_owning(price=BARE, **shared)
    assert bare.hardware == near(375_000)
    assert bare.initial == near(375_000 * 1.12)  # the network is 12 % of GPUs and chassis together


def test_cheap_cards_pay_the_same_chassis_as_dear_ones():
    # Eight cards of 749 USD in two servers of 12,000: 5,992 + 24,000.
    cheap = replace(BARE, usd=749)
    cost = cost_of_owning(gpus=8, servers=2, price=cheap, chassis_usd=12_000, energy=energy(), money=NODE)
    assert cost.hardware == near(29_992)


def test_energy_follows_the_load():
    # The host at half load between idle (25 %) and full load (60 %): 42.5 % of 4.6 kW, and 8 × 300 W for the cards.
    usage = Usage(in_use_fraction=1.0, load_fraction=0.5, stays_on=True)
    card = CardDraw(limit_w=700, used_w=300, idle_w=175, peak_w=650)
    drawn = fleet_energy(gpus=8, servers=1, card=card, host_w=4_600, usage=usage, money=NODE)
    assert drawn.average_w == near(8 * 300 + 4_600 * 0.425)
    assert drawn.nameplate_w == near(10_200)
    assert drawn.peak_w == near(8 * 650 + 4_600 * 0.6)


def test_a_card_never_draws_more_than_its_limit():
    # Twice the 420 W that the law predicts is 840 W: the limit of 700 W holds. Idle cards draw 2 × 175 W.
    usage = Usage(in_use_fraction=0.5, load_fraction=1.0, stays_on=True)
    money = replace(NODE, card_power_factor=2.0)
    drawn = fleet_energy(gpus=8, servers=0, card=CARD, host_w=4_600, usage=usage, money=money)
    assert drawn.average_w == near(8 * (0.5 * 700 + 0.5 * 350))


def test_a_rented_fleet_that_was_given_back_draws_nothing():
    # 2 GPUs that draw 138 W, a quarter of a host of 1,000 W at 60 %: (276 + 150) W × 1.35 × 315 h = 181.2 kWh.
    usage = Usage(in_use_fraction=315 / 8760, load_fraction=1.0, stays_on=False)
    card = CardDraw(limit_w=230, used_w=138, idle_w=40)
    drawn = fleet_energy(gpus=2, servers=0.25, card=card, host_w=1_000, usage=usage, money=NODE)
    assert drawn.kwh_per_year == near(181.2, abs=0.05)
    assert drawn.embodied_kg == near(2 * 375 + 0.25 * 1500)
