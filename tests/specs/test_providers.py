"""Providers, their regions and machines, and the offers that price rows make with them."""

from pathlib import Path

import pytest

from capplan.core.gpus.prices import Price, PriceKind
from capplan.errors import CapplanError
from capplan.specs import Gpus, load_gpus
from capplan.specs.prices import load_price_file
from capplan.specs.providers import Providers, load_providers
from tests.seen import at_least

ROW = "{gpu: a100-sxm4-80gb, instance: p4de.24xlarge, gpus: 8, pricing: on-demand, region: us-east-1, per_hour: 27.4}"


@pytest.fixture(scope="module")
def providers() -> Providers:
    return load_providers()


def offers(row: str, folder: Path, *, provider: str = "aws") -> tuple[Price, ...]:
    path = folder / "own.yaml"
    path.write_text(
        f"provider: {provider}\ncurrency: USD\ndate: 2026-08-01\nsource: {{kind: example, title: a page}}\n"
        f"hourly:\n  - {row}\n"
    )
    return load_price_file(path, load_gpus()).hourly


def test_every_machine_holds_a_gpu_of_the_database(gpus: Gpus, providers: Providers) -> None:
    machines = [machine for each in providers.providers.values() for machine in each.machines.values()]
    at_least(100, machines)
    assert {machine.gpu for machine in machines} <= set(gpus)


def test_a_price_for_several_regions_holds_in_each(providers: Providers) -> None:
    places = providers.places("aws", "us-east-1/us-east-2/eu-central-1")
    assert [(place.region, place.country and place.country.code) for place in places] == [
        ("us-east-1", "us"),
        ("us-east-2", "us"),
        ("eu-central-1", "de"),
    ]


def test_a_text_that_may_be_anywhere_is_in_no_country(providers: Providers) -> None:
    (place,) = providers.places("hyperstack", "EU / US / Canada")
    assert place.country is None
    assert not place.is_in("eu")
    assert place.may_be_in("us")


@pytest.mark.parametrize("wanted", ["de", "Germany", "EU", "eea", "europe", "EU-CENTRAL-1"])
def test_frankfurt_is_in_germany_and_its_areas(providers: Providers, wanted: str) -> None:
    (place,) = providers.places("aws", "Europe (Frankfurt)")
    assert place.is_in(wanted)
    assert not place.is_in("us")


def test_london_is_in_europe_and_not_in_the_union(providers: Providers) -> None:
    (place,) = providers.places("aws", "eu-west-2")
    assert place.is_in("europe")
    assert not place.is_in("eu")


def test_a_city_with_its_country_is_found_without_a_provider(providers: Providers) -> None:
    (place,) = providers.places("scaleway", "paris-france-5")
    assert place.is_in("fr")


def test_a_price_per_gpu_counts_for_the_whole_machine(tmp_path: Path) -> None:
    # Oracle prints 4.00 USD for a GPU of BM.GPU.A100-v2.8, which has eight.
    row = "{gpu: a100-sxm4-80gb, instance: A100, gpus: 1, pricing: on-demand, region: de, per_hour: 4}"
    (offer,) = offers(row, tmp_path, provider="oracle")
    assert (offer.provider, offer.instance, offer.instance_gpus, offer.usd_per_machine_hour) == (
        "oci",
        "BM.GPU.A100-v2.8",
        8,
        32.0,
    )


def test_an_own_row_is_your_quote_and_its_machine_is_known(tmp_path: Path) -> None:
    (offer,) = offers(ROW, tmp_path, provider="Amazon")
    assert (offer.provider, offer.kind, offer.country, offer.joined) == ("aws", PriceKind.QUOTE, "us", 8)
    assert offer.machine is not None
    assert offer.machine.vcpus == 96
    assert offer.minimum_s == 60  # Amazon charges by the second, at least a minute


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        ("country: atlantis", "country: 'atlantis' is not the code of a country"),
        ("upfront: 120", "upfront: must be per cent"),
        ("zones: [9, 3]", "zones: must be the lowest and the highest price"),
        ("kind: rumour", "kind: 'rumour' is not known; use read, copy, quote, observed"),
        ("joined: 0", "joined: must be a whole number of GPUs"),
    ],
)
def test_what_an_offer_states_wrongly_is_refused(tmp_path: Path, key: str, refusal: str) -> None:
    with pytest.raises(CapplanError) as caught:
        offers(ROW.replace("}", f", {key}}}"), tmp_path)
    assert refusal in str(caught.value)


def test_a_place_that_is_not_certain_may_lie_in_what_it_names_alone() -> None:
    (place,) = load_providers().places("nebius", "EU / US")
    assert not place.is_in("eu")
    assert [place.may_be_in(name) for name in ("eu", "de", "germany", "us", "jp", "apac")] == [True] * 4 + [False] * 2
    (anywhere,) = load_providers().places("nebius", "global")
    assert anywhere.may_be_in("jp")
