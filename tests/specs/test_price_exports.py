"""Exports of prices, in the forms that their providers document, become offers."""

import json
from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.prices import Price, PriceKind, Term
from capplan.errors import UsageError
from capplan.specs import load_gpus
from capplan.specs.price_import import ImportedPrices, import_quotes
from capplan.specs.prices import load_price_file

DAY = date(2026, 11, 20)


def imported(path: Path, content: str) -> ImportedPrices:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return import_quotes(path, load_gpus(), read_on=DAY)


def offers(path: Path, content: str) -> list[Price]:
    """Import a file, and read the price files that the import makes."""
    gpus, found = load_gpus(), []
    for name, text in imported(path, content).files.items():
        (path.parent / name).write_text(text)
        found += load_price_file(path.parent / name, gpus).hourly
    return found


AWS_PRODUCT = {
    "product": {
        "attributes": {
            "instanceType": "g6.12xlarge", "regionCode": "eu-central-1", "operatingSystem": "Linux",
            "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used",
        }
    },
    "terms": {
        "OnDemand": {"A.B": {"priceDimensions": {"A.B.C": {"unit": "Hrs", "pricePerUnit": {"USD": "5.752"}}}}},
        "Reserved": {
            "A.D": {
                "termAttributes": {
                    "LeaseContractLength": "1yr", "PurchaseOption": "No Upfront", "OfferingClass": "standard"
                },
                "priceDimensions": {"A.D.E": {"unit": "Hrs", "pricePerUnit": {"USD": "3.7"}}},
            },
            "A.F": {
                "termAttributes": {
                    "LeaseContractLength": "1yr", "PurchaseOption": "All Upfront", "OfferingClass": "standard"
                },
                "priceDimensions": {"A.F.G": {"unit": "Quantity", "pricePerUnit": {"USD": "30000"}}},
            },
        },
    },
}  # fmt: skip


def test_aws_products_come_with_their_reservations_and_without_windows(tmp_path: Path) -> None:
    windows = json.loads(json.dumps(AWS_PRODUCT))
    windows["product"]["attributes"]["operatingSystem"] = "Windows"
    document = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(AWS_PRODUCT), json.dumps(windows)]}
    found = offers(tmp_path / "aws.json", json.dumps(document))
    assert {price.term: price.usd_per_machine_hour for price in found} == pytest.approx(
        {Term.ON_DEMAND: 5.752, Term.RESERVED_1Y: 3.7}
    )
    assert {(price.gpu, price.instance_gpus, price.country, price.kind) for price in found} == {
        ("l4", 4, "de", PriceKind.READ)
    }


def test_aws_spot_history_keeps_the_newest_price_of_each_zone(tmp_path: Path) -> None:
    rows = [("us-east-1a", "9.5", "2026-11-19T10:00:00Z"), ("us-east-1a", "9.0", "2026-11-18T10:00:00Z"),
            ("us-east-1b", "20.0", "2026-11-19T09:00:00Z")]  # fmt: skip
    history = [
        {"AvailabilityZone": zone, "InstanceType": "p5.48xlarge", "ProductDescription": "Linux/UNIX",
         "SpotPrice": price, "Timestamp": when}
        for zone, price, when in rows
    ]  # fmt: skip
    (offer,) = offers(tmp_path / "spot.json", json.dumps({"SpotPriceHistory": history}))
    assert (offer.term, offer.region, offer.usd_per_machine_hour) == (Term.SPOT, "us-east-1", 9.5)
    assert (offer.zones_usd, offer.date) == ((9.5, 20.0), date(2026, 11, 19))


def test_an_azure_reservation_is_priced_by_the_hour(tmp_path: Path) -> None:
    # Azure prints what the whole term costs: 87,600 USD for a year are 10 USD an hour.
    item = {"currencyCode": "USD", "armRegionName": "westeurope", "armSkuName": "Standard_NC24ads_A100_v4",
            "productName": "Virtual Machines NCADS_A100_v4 Series", "unitOfMeasure": "1 Hour"}  # fmt: skip
    items = [
        {**item, "skuName": "NC24ads A100 v4", "type": "Consumption", "retailPrice": 4.775},
        {**item, "skuName": "NC24ads A100 v4 Spot", "type": "Consumption", "retailPrice": 1.5},
        {**item, "skuName": "NC24ads A100 v4", "type": "Reservation", "reservationTerm": "1 Year",
         "retailPrice": 87600},
        {**item, "skuName": "NC24ads A100 v4", "type": "Consumption", "retailPrice": 9,
         "productName": "Virtual Machines NCADS_A100_v4 Series Windows"},
    ]  # fmt: skip
    found = {price.term: price for price in offers(tmp_path / "azure.json", json.dumps({"Items": items}))}
    assert {term: price.usd_per_hour for term, price in found.items()} == {
        Term.ON_DEMAND: 4.775,
        Term.SPOT: 1.5,
        Term.RESERVED_1Y: 10.0,
    }
    assert found[Term.SPOT].is_in("nl")


def test_a_skypilot_catalogue_is_a_copy_and_unclear_cards_are_left_out(tmp_path: Path) -> None:
    table = (
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region\n"
        "g5.12xlarge,A10G,4.0,48.0,192.0,5.672,2.1,us-east-1\n"
        "mystery_H100,H100,1.0,16.0,180.0,2.5,,us-east-1\n"
        "m5.large,,,2.0,8.0,0.096,,us-east-1\n"
    )
    made = imported(tmp_path / "aws" / "vms.csv", table)
    assert [(quote.gpu, quote.term, quote.price, quote.gpus) for quote in made.quotes] == [
        ("a10g", Term.ON_DEMAND, 5.672, 4),
        ("a10g", Term.SPOT, 2.1, 4),
    ]
    assert {quote.kind for quote in made.quotes} == {PriceKind.COPY}
    assert ["H100" in each.reason for each in made.left_out] == [True]


@pytest.mark.parametrize("row", ["g5.12xlarge,A10G,many,5.672,2.1,us-east-1", "g5.12xlarge,A10G"])
def test_a_catalogue_of_another_form_is_refused_in_a_sentence(tmp_path: Path, row: str) -> None:
    head = "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n"
    with pytest.raises(UsageError, match="the columns of SkyPilot's catalogue, but not in its form"):
        imported(tmp_path / "aws" / "vms.csv", f"{head}{row}\n")


def test_shadeform_prices_are_in_cents_and_hold_in_each_region(tmp_path: Path) -> None:
    document = {
        "instance_types": [
            {
                "cloud": "hyperstack", "shade_instance_type": "H100_sxm5x8", "cloud_instance_type": "n3-H100-SXM5x8",
                "configuration": {"gpu_type": "H100", "interconnect": "sxm5", "num_gpus": 8, "vcpus": 192},
                "hourly_price": 1920,
                "availability": [
                    {"region": "montreal-canada-2", "available": True}, {"region": "oslo-norway-1", "available": False}
                ],
            }
        ]
    }  # fmt: skip
    found = offers(tmp_path / "shadeform.json", json.dumps(document))
    assert {(price.region, price.country) for price in found} == {
        ("montreal-canada-2", "ca"),
        ("oslo-norway-1", "no"),
    }
    assert {(price.gpu, price.usd_per_machine_hour, price.joined) for price in found} == {("h100-sxm5-80gb", 19.2, 8)}


def test_runpod_gpus_are_found_by_the_names_of_their_drivers(tmp_path: Path) -> None:
    types = [{"id": "NVIDIA H100 80GB HBM3", "securePrice": 2.69, "communityPrice": 2.2, "secureSpotPrice": None}]
    found = offers(tmp_path / "runpod.json", json.dumps({"data": {"gpuTypes": types}}))
    assert {(price.gpu, price.term, price.usd_per_hour) for price in found} == {
        ("h100-sxm5-80gb", Term.ON_DEMAND, 2.69),
        ("h100-sxm5-80gb", Term.COMMUNITY, 2.2),
    }


@pytest.mark.parametrize("content", ["{", "[]", '{"Items": [1]}', '{"data": {}}', '{"other": 1}', '{"PriceList": [1]}'])
def test_json_of_another_form_is_refused_in_a_sentence(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError):
        imported(tmp_path / "prices.json", content)


def gcp_sku(description: str, usage: str, nanos: int, *regions: str) -> dict[str, object]:
    """A SKU in the form of the Cloud Billing Catalog API's reference."""
    price = {"currencyCode": "USD", "units": "0", "nanos": nanos}
    return {
        "description": description, "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": regions,
        "pricingInfo": [{"pricingExpression": {"usageUnit": "h", "tieredRates": [{"unitPrice": price}]}}],
    }  # fmt: skip


def test_google_s_gpu_processors_and_memory_are_added_up_to_machines(tmp_path: Path) -> None:
    skus = [
        gcp_sku("Nvidia L4 GPU running in Virginia", "OnDemand", 560_000_000, "us-east4"),
        gcp_sku("G2 Instance Core running in Virginia", "OnDemand", 25_000_000, "us-east4"),
        gcp_sku("G2 Instance Ram running in Virginia", "OnDemand", 3_000_000, "us-east4"),
        gcp_sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Virginia", "Preemptible", 1, "us-east4"),
        gcp_sku("Nvidia L4 GPU running in Frankfurt", "OnDemand", 700_000_000, "europe-west3"),
        gcp_sku("N1 Predefined Instance Core running in Virginia", "OnDemand", 99, "us-east4"),
    ]
    found = offers(tmp_path / "gcp.json", json.dumps({"skus": skus}))
    # Spot lacks processors and memory, Frankfurt too: no machine can be priced there.
    assert {(offer.region, offer.term) for offer in found} == {("us-east4", Term.ON_DEMAND)}
    usd = {offer.instance: offer.usd_per_machine_hour for offer in found}
    # One L4, 4 processors, 16 GiB: 0.56 + 4 x 0.025 + 16 x 0.003; and 8 L4 with 96 processors and 384 GiB.
    assert usd["g2-standard-4"] == pytest.approx(0.708)
    assert usd["g2-standard-96"] == pytest.approx(8 * 0.56 + 96 * 0.025 + 384 * 0.003)
    assert {offer.kind for offer in found} == {PriceKind.READ}
