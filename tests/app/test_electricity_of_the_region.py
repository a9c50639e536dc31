"""The carbon of electricity follows the region that a report is asked for."""

from dataclasses import replace

import pytest

from capplan.app.procurement.constraints import at_place, with_tariff
from capplan.core.economics.constraints import ReportLoad
from capplan.specs.load import demand_without_load
from capplan.specs.providers import load_providers


def test_carbon_is_that_of_the_country_and_in_an_area_the_middle_of_its_countries() -> None:
    known, demand = load_providers(), demand_without_load()
    # Ember, 2023: France 56, Germany 381 g CO2e/kWh; the world mean, 481, where no region is named
    assert demand.money.grid_g_per_kwh == 481
    assert at_place(demand, known.countries_in(["fr"])).money.grid_g_per_kwh == 56
    both = at_place(demand, known.countries_in(["France", "germany"]))
    assert both.money.grid_g_per_kwh == (56 + 381) / 2
    (grid,) = (each for each in both.assumptions if each.key == "grid_g_per_kwh")
    assert (grid.low, grid.high) == (56, 381)
    assert at_place(demand, ()).money == demand.money


def test_what_the_user_states_stays() -> None:
    demand = demand_without_load()
    own = tuple(
        replace(each, value=20.0, low=20.0, high=20.0, basis="yours") if each.key == "grid_g_per_kwh" else each
        for each in demand.assumptions
    )
    stated = replace(demand, assumptions=own, money=demand.money.with_value("grid_g_per_kwh", 20.0))
    assert at_place(stated, load_providers().countries_in(["fr"])).money.grid_g_per_kwh == 20


def test_electricity_in_the_european_union_costs_what_eurostat_says_and_elsewhere_the_default() -> None:
    known, demand = load_providers(), demand_without_load()
    # Eurostat, non-household, first half of 2025: 0.1902 EUR; a euro is 1.1699 USD in gpu_specs/places/rates.yaml
    placed = at_place(demand, known.countries_in(["eu"]))
    assert placed.money.usd_per_kwh == pytest.approx(0.1902 * 1.1699)
    (tariff,) = (each for each in placed.assumptions if each.key == "usd_per_kwh")
    assert (tariff.low, tariff.high) == (pytest.approx(0.089 * 1.1699), pytest.approx(0.276 * 1.1699))
    assert "non-household consumers" in tariff.source
    assert at_place(demand, known.countries_in(["us"])).money.usd_per_kwh == demand.money.usd_per_kwh


def test_a_region_without_a_tariff_says_so_and_ones_own_stays() -> None:
    known, demand = load_providers(), demand_without_load()

    def source(placed: ReportLoad) -> str:
        return next(each.source for each in placed.assumptions if each.key == "usd_per_kwh")

    assert source(at_place(demand, known.countries_in(["in"]))).endswith(
        "; of India none is known: state yours with ⟨tariff⟩"
    )
    assert source(at_place(demand, known.countries_in(["us"]))) == source(demand)  # the default is of the United States
    own = at_place(with_tariff(demand, 0.08), known.countries_in(["de"]))
    assert (own.money.usd_per_kwh, source(own)) == (0.08, "stated as the tariff")


def test_a_provider_s_region_stands_for_its_country() -> None:
    # AWS: ap-northeast-1 is Tokyo, us-east-1 is Northern Virginia.
    known = load_providers()
    assert [each.code for each in known.countries_in(["AP-northeast-1"])] == ["jp"]
    assert [each.code for each in known.countries_in(["us-east-1"])] == ["us"]
