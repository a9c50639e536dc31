"""Dated prices, of the list in force and own."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.prices import Term
from capplan.errors import CapplanError
from capplan.specs import Gpus
from capplan.specs.prices import load_price_file, load_prices

Write = Callable[..., Path]

OWN = """\
provider: aws
currency: USD
date: 2026-11-01
source: {kind: example, title: our contract}
hourly:
  - {gpu: t4, instance: g4dn.metal, gpus: 8, pricing: on-demand, region: us-east-1, per_hour: 4}
purchase:
  - {gpu: mi250x, date: 2026-10-01, offer: quote, price: 9000}
"""


def test_a_folder_that_the_environment_names_stands_in_for_the_built_in_list(
    gpus: Gpus, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPPLAN_PRICES", str(write(OWN, "list/own.yaml").parent))
    prices = load_prices(gpus)
    assert [(price.gpu, price.usd_per_hour, price.date) for price in prices.hourly] == [("t4", 0.5, date(2026, 11, 1))]
    assert {price.term for price in prices.hourly} == {Term.ON_DEMAND}
    assert len(prices.purchase) == 1


def test_an_instances_price_is_shared_by_its_gpus(gpus: Gpus) -> None:
    # The fixture's p5.48xlarge has eight H100 and costs 64 USD an hour.
    found = [price for price in load_prices(gpus).hourly if price.instance == "p5.48xlarge"]
    assert [(price.gpu, price.usd_per_hour, price.instance_gpus) for price in found] == [("h100-sxm5-80gb", 8.0, 8)]


def test_own_prices_replace_those_of_the_same_provider_region_and_term(gpus: Gpus, write: Write) -> None:
    path = write(OWN, "prices/aws.yaml")
    prices = load_prices(gpus, overlays=[path.parent.parent])
    t4 = [price for price in prices.hourly if price.gpu == "t4" and price.provider == "aws"]
    assert [(price.usd_per_hour, str(path) in price.source) for price in t4] == [(0.5, True)]
    assert any(price.gpu == "t4" and price.provider == "azure" for price in prices.hourly)
    # a board of two devices at 9000 USD: half for each
    assert [price.usd for price in prices.purchase if price.gpu == "mi250x"] == [4500]


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("date: 2026-11-01\n", "", "date: must be the price's day as YYYY-MM-DD, not None"),
        ("date: 2026-11-01\n", "date: 1.11.2026\n", "date: must be the price's day as YYYY-MM-DD"),
        ("currency: USD", "currency: XAU", "currency: must be USD or a currency whose rate is known, not 'XAU'"),
        ("currency: USD", "currency: EUR\nusd_per_unit: 0", "usd_per_unit: must be an amount above 0, not 0"),
        ("provider: aws\n", "", "provider: is missing"),
        ("gpu: t4", "gpu: t5", "hourly[0].gpu: 't5' is not an id of a GPU"),
        ("pricing: on-demand", "pricing: cheap", "hourly[0].pricing: 'cheap' is not known; use on-demand, spot"),
        ("pricing: on-demand", "pricing: buy", "hourly[0].pricing: 'buy' is not known"),
        ("per_hour: 4", "per_hour: -4", "hourly[0].per_hour: must be an amount above 0, not -4"),
        ("per_hour: 4", "per_hour: free", "hourly[0].per_hour: must be an amount above 0, not 'free'"),
        ("gpus: 8", "gpus: 0", "hourly[0].gpus: must be a whole number of GPUs, not 0"),
        ("instance: g4dn.metal, ", "", "hourly[0].instance: is missing"),
        ("offer: quote", "offer: gift", "purchase[0].offer: 'gift' is not known; use list"),
        ("date: 2026-10-01", "date: soon", "purchase[0].date: must be the price's day"),
        ("source: {kind: example, title: our contract}\n", "", "source: must have kind and title"),
        ("hourly:", "hurly:", "hurly: unknown key; did you mean hourly"),
    ],
)
def test_a_price_file_is_refused_with_file_and_key(gpus: Gpus, write: Write, old: str, new: str, refusal: str) -> None:
    assert old in OWN
    path = write(OWN.replace(old, new, 1), "prices/own.yaml")
    with pytest.raises(CapplanError) as caught:
        load_price_file(path, gpus)
    assert f"{path}: {refusal}" in str(caught.value)


def test_a_price_file_in_euros_is_converted_at_the_rate_that_it_states(gpus: Gpus, write: Write) -> None:
    path = write(OWN.replace("currency: USD", "currency: EUR\nusd_per_unit: 1.16", 1), "prices/own.yaml")
    own = load_price_file(path, gpus)
    usd = load_price_file(write(OWN, "prices/usd.yaml"), gpus)
    assert [price.usd_per_hour for price in own.hourly] == pytest.approx([1.16 * p.usd_per_hour for p in usd.hourly])
    assert [price.usd for price in own.purchase] == pytest.approx([1.16 * price.usd for price in usd.purchase])
    assert "from EUR at 1.16 USD, the file's rate" in own.hourly[0].source
