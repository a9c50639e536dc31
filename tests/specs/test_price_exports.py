"""Exports of prices, in the forms that their providers document, become offers."""

import json
from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.prices import DateKind, Price, PriceKind, Term
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
    # 30,000 USD at once for a year are 30,000 / 8,760 an hour.
    assert {(price.term, price.upfront_fraction): price.usd_per_machine_hour for price in found} == pytest.approx(
        {
            (Term.ON_DEMAND, None): 5.752,
            (Term.RESERVED_1Y, None): 3.7,
            (Term.RESERVED_1Y, 1.0): 30_000 / 8760,
        }
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
    # Which H100 it is is not said, and an m5.large has no GPU.
    assert [(each.rows, each.reason.partition(" may be")[0]) for each in made.left_out] == [
        (1, "a machine without a GPU that is known"),
        (1, "'H100'"),
    ]


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
    assert found[0].offer_words.endswith(f"{found[0].region}, resold through Shadeform")


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


def test_aws_s_offer_file_states_its_day_and_what_is_paid_at_once(tmp_path: Path) -> None:
    """The form of docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file.html."""
    half = {
        "termAttributes": {
            "LeaseContractLength": "3yr",
            "PurchaseOption": "Partial Upfront",
            "OfferingClass": "standard",
        },
        "priceDimensions": {
            "S.D.H": {"unit": "Hrs", "pricePerUnit": {"USD": "1.0000000000"}},
            "S.D.Q": {"unit": "Quantity", "pricePerUnit": {"USD": "26280"}},
        },
    }  # fmt: skip
    convertible = json.loads(json.dumps(half))
    convertible["termAttributes"]["OfferingClass"] = "convertible"
    document = {
        "formatVersion": "v1.0", "publicationDate": "2026-11-18T20:13:29Z",
        "products": {
            "S": {"attributes": AWS_PRODUCT["product"]["attributes"]},
            "T": {"attributes": {**AWS_PRODUCT["product"]["attributes"], "tenancy": "Dedicated"}},
            "U": {"attributes": {**AWS_PRODUCT["product"]["attributes"], "instanceType": "m5.large"}},
        },
        "terms": {
            "OnDemand": {"S": AWS_PRODUCT["terms"]["OnDemand"], "T": AWS_PRODUCT["terms"]["OnDemand"]},
            "Reserved": {"S": {"S.D": half, "S.C": convertible}},
        },
    }  # fmt: skip
    found = offers(tmp_path / "index.json", json.dumps(document))
    # 26,280 USD at once over 26,280 hours are 1 USD an hour: half of the 2 USD that an hour costs.
    assert {(price.term, price.usd_per_machine_hour, price.upfront_fraction) for price in found} == {
        (Term.ON_DEMAND, 5.752, None),
        (Term.RESERVED_3Y, 2.0, 0.5),
    }
    assert {(price.date, price.date_is) for price in found} == {(date(2026, 11, 18), DateKind.STATED)}
    made = imported(tmp_path / "index.json", json.dumps(document))
    assert {left.reason for left in made.left_out} == {
        "on a dedicated host",
        "a machine without a GPU that is known",
        "a convertible reservation",
    }


AWS_HEAD = (
    "SKU,OfferTermCode,RateCode,TermType,PriceDescription,EffectiveDate,Unit,PricePerUnit,Currency,LeaseContractLength,"
    "PurchaseOption,OfferingClass,Location,Instance Type,Tenancy,Operating System,CapacityStatus,Pre Installed S/W,"
    "Region Code,MarketOption"
)


def test_aws_s_offer_file_as_csv_is_read_below_its_five_lines(tmp_path: Path) -> None:
    above = [
        '"FormatVersion","v1.0"', '"Disclaimer","This pricing list is for informational purposes only."',
        '"Publication Date","2026-11-18T20:13:29Z"', '"Version","20261118201329"', '"OfferCode","AmazonEC2"',
    ]  # fmt: skip
    tail = "EU (Frankfurt),g6.12xlarge,{},{},Used,NA,eu-central-1,OnDemand"
    linux, windows = tail.format("Shared", "Linux"), tail.format("Shared", "Windows")
    rows = [
        f"S,JRTC,S.J.6,OnDemand,per hour,2026-11-01,Hrs,5.752,USD,,,,{linux}",
        f"S,HU7G,S.H.6,Reserved,per hour,2026-11-01,Hrs,1.5,USD,1yr,Partial Upfront,standard,{linux}",
        f"S,HU7G,S.H.2,Reserved,Upfront Fee,2026-11-01,Quantity,13140,USD,1yr,Partial Upfront,standard,{linux}",
        f"W,JRTC,W.J.6,OnDemand,per hour,2026-11-01,Hrs,9,USD,,,,{windows}",
    ]
    found = offers(tmp_path / "index.csv", "\n".join([*above, AWS_HEAD, *rows]) + "\n")
    # 13,140 USD at once over 8,760 hours are 1.50 an hour, half of 3.00.
    assert {(price.term, price.usd_per_machine_hour, price.upfront_fraction, price.date) for price in found} == {
        (Term.ON_DEMAND, 5.752, None, date(2026, 11, 18)),
        (Term.RESERVED_1Y, 3.0, 0.5, date(2026, 11, 18)),
    }


def test_azure_s_savings_plans_and_days_are_kept_and_euros_converted(tmp_path: Path) -> None:
    """The form of https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices."""
    item = {
        "currencyCode": "EUR", "armRegionName": "germanywestcentral", "armSkuName": "Standard_NC24ads_A100_v4",
        "productName": "Virtual Machines NCADS_A100_v4 Series", "unitOfMeasure": "1 Hour", "type": "Consumption",
        "skuName": "NC24ads A100 v4", "retailPrice": 4.0, "effectiveStartDate": "2026-10-01T00:00:00Z",
        "savingsPlan": [
            {"unitPrice": 2.0, "retailPrice": 2.0, "term": "3 Years"},
            {"unitPrice": 3.0, "retailPrice": 3.0, "term": "1 Year"},
        ],
    }  # fmt: skip
    older = {**item, "armRegionName": "westeurope", "effectiveStartDate": "2023-03-01T00:00:00Z", "savingsPlan": []}
    path = tmp_path / "azure.json"
    path.write_text(json.dumps({"BillingCurrency": "EUR", "Items": [item, older]}))
    made = import_quotes(path, load_gpus(), read_on=DAY, currency="EUR=1.2")
    assert {(quote.region, quote.term, round(quote.price, 6)) for quote in made.quotes} == {
        ("germanywestcentral", Term.ON_DEMAND, 4.8), ("germanywestcentral", Term.RESERVED_1Y, 3.6),
        ("germanywestcentral", Term.RESERVED_3Y, 2.4), ("westeurope", Term.ON_DEMAND, 4.8),
    }  # fmt: skip
    # The answer is not older than the newest price in it, and all of its prices held on its day.
    assert {(quote.day, quote.date_is) for quote in made.quotes} == {(date(2026, 10, 1), DateKind.NOT_BEFORE)}


def test_lambda_s_types_come_with_the_regions_that_have_capacity(tmp_path: Path) -> None:
    """The form of https://docs.lambda.ai/api/cloud (`GET /api/v1/instance-types`)."""
    specs = {"vcpus": 26, "memory_gib": 200, "storage_gib": 1024, "gpus": 1}
    types = {
        "gpu_1x_h100_pcie": {
            "instance_type": {
                "name": "gpu_1x_h100_pcie", "description": "1x H100 (80 GB PCIe)",
                "gpu_description": "H100 (80 GB PCIe)", "price_cents_per_hour": 249, "specs": specs,
            },
            "regions_with_capacity_available": [{"name": "us-east-1", "description": "Virginia, USA"}],
        },
        "gpu_8x_a100_80gb_sxm4": {
            "instance_type": {
                "name": "gpu_8x_a100_80gb_sxm4", "description": "8x A100 (80 GB SXM4)",
                "gpu_description": "A100 (80 GB SXM4)", "price_cents_per_hour": 1432, "specs": {**specs, "gpus": 8},
            },
            "regions_with_capacity_available": [],
        },
        "cpu_4x_general": {
            "instance_type": {
                "name": "cpu_4x_general", "description": "4x CPU General", "gpu_description": "N/A",
                "price_cents_per_hour": 20, "specs": {**specs, "gpus": 0},
            },
            "regions_with_capacity_available": [],
        },
    }  # fmt: skip
    found = {offer.gpu: offer for offer in offers(tmp_path / "lambda.json", json.dumps({"data": types}))}
    pcie, sxm = found["h100-pcie-80gb"], found["a100-sxm4-80gb"]
    assert (pcie.usd_per_machine_hour, pcie.region, pcie.country) == (2.49, "us-east-1", "us")
    assert (sxm.usd_per_machine_hour, sxm.instance_gpus, sxm.region) == (14.32, 8, "any")
    assert pcie.note == "in stock on 2026-11-20"
    assert sxm.note == "no capacity in any region on 2026-11-20"


def test_vast_s_search_keeps_the_cheapest_offer_of_a_country(tmp_path: Path) -> None:
    """The form of https://docs.vast.ai/api-reference/search/search-offers; the command line prints the list alone."""
    offer = {
        "id": 17, "gpu_name": "RTX 4090", "num_gpus": 2, "gpu_ram": 24564, "dph_total": 0.9, "min_bid": 0.4,
        "geolocation": "Bavaria, DE", "rentable": True,
    }  # fmt: skip
    listed = [
        offer, {**offer, "id": 18, "dph_total": 0.8, "min_bid": 0.5}, {**offer, "id": 19, "geolocation": "Sweden, SE"},
        {**offer, "id": 20, "gpu_ram": 49140}, {**offer, "id": 21, "rentable": False},
    ]  # fmt: skip
    for name, document in (("api.json", {"offers": listed}), ("raw.json", listed)):
        found = offers(tmp_path / name, json.dumps(document))
        assert {(o.instance, o.term, o.usd_per_machine_hour, o.country) for o in found} == {
            ("offer 18", Term.ON_DEMAND, 0.8, "de"), ("offer 17", Term.SPOT, 0.4, "de"),
            ("offer 19", Term.ON_DEMAND, 0.9, "se"), ("offer 19", Term.SPOT, 0.4, "se"),
            ("offer 20", Term.ON_DEMAND, 0.9, "de"), ("offer 20", Term.SPOT, 0.4, "de"),
        }  # fmt: skip
        assert all(o.is_marketplace for o in found)
        assert {o.gpu for o in found if o.instance == "offer 20"} == {"rtx-4090-modified-48gb"}
        assert {o.gpu for o in found if o.instance != "offer 20"} == {"rtx-4090"}
    made = imported(tmp_path / "api.json", json.dumps({"offers": listed}))
    assert [(left.rows, left.reason) for left in made.left_out][:2] == [
        (1, "an offer that is rented out"),
        (2, "a dearer offer of the same GPU, number and country"),
    ]


def test_oracle_prints_one_gpu_of_a_shape_that_is_rented_whole(tmp_path: Path) -> None:
    """The form of https://docs.oracle.com/en-us/iaas/Content/Billing/Tasks/signingup_topic-Estimating_Costs.htm."""

    def product(name: str, usd: float) -> dict[str, object]:
        prices = [{"model": "PAY_AS_YOU_GO", "value": usd}]
        return {
            "partNumber": "B", "displayName": name, "metricName": "GPU Per Hour",
            "currencyCodeLocalizations": [{"currencyCode": "USD", "prices": prices}],
        }  # fmt: skip

    items = [
        product("Compute - GPU - A10", 2.0), product("OCI - Compute - GPU - H100", 10.0),
        product("Compute - GPU - A100 - v2", 4.0), product("Compute - GPU - X9", 1.0),
        {**product("Compute - Standard - E4 - OCPU", 0.025), "metricName": "OCPU Per Hour"},
    ]  # fmt: skip
    document = {"lastUpdated": "2026-11-10T00:00:00Z", "items": items}
    found = offers(tmp_path / "oci.json", json.dumps(document))
    assert {(offer.instance, offer.usd_per_machine_hour, offer.date) for offer in found} == {
        ("VM.GPU.A10.1", 2.0, date(2026, 11, 10)),
        ("BM.GPU.H100.8", 80.0, date(2026, 11, 10)),
        ("BM.GPU.A100-v2.8", 32.0, date(2026, 11, 10)),
    }


def test_verda_s_answer_prices_whole_machines(tmp_path: Path) -> None:
    """The form of https://api.verda.com/v1/docs (`GET /v1/instance-types`)."""
    kinds = [
        {
            "instance_type": "2H200.141S.88V", "price_per_hour": "8.0", "spot_price": "4.0", "currency": "usd",
            "gpu": {"description": "2x H200 SXM5 141GB", "number_of_gpus": 2},
            "gpu_memory": {"description": "282GB GPU RAM", "size_in_gigabytes": 282},
        },
        {
            "instance_type": "1NEW.1V", "price_per_hour": "1.0", "spot_price": None,
            "gpu": {"description": "1x A100 SXM4 40GB", "number_of_gpus": 1}, "gpu_memory": {"size_in_gigabytes": 40},
        },
        {"instance_type": "CPU.4V.16G", "price_per_hour": "0.02", "gpu": {"number_of_gpus": 0}},
    ]  # fmt: skip
    found = offers(tmp_path / "verda.json", json.dumps(kinds))
    assert {(offer.gpu, offer.term, offer.usd_per_machine_hour) for offer in found} == {
        ("h200-sxm-141gb", Term.ON_DEMAND, 8.0),
        ("h200-sxm-141gb", Term.SPOT, 4.0),
        ("a100-sxm4-40gb", Term.ON_DEMAND, 1.0),
    }


def test_a_bill_in_the_focus_form_says_what_a_machine_costs_its_buyer(tmp_path: Path) -> None:
    """Columns of https://focus.finops.org/focus-specification (1.2)."""
    head = (
        "BilledCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ContractedUnitPrice,ListUnitPrice,PricingCategory,"
        "PricingUnit,ProviderName,RegionId,SkuPriceDetails,ChargeDescription,CommitmentDiscountId"
    )
    details = '"{""InstanceType"": ""g6.12xlarge"", ""OperatingSystem"": ""Linux""}"'
    rows = [
        f"1,USD,Usage,2026-11-01T00:00:00Z,4.1,4.6,Standard,Hours,AWS,us-east-1,{details},,",
        f"1,USD,Usage,2026-11-02T00:00:00Z,4.0,4.6,Standard,Hours,AWS,us-east-1,{details},,",
        "1,USD,Usage,2026-11-02T00:00:00Z,,1.9,Dynamic,Hrs,Amazon Web Services,us-east-1,,$1.9 per g6.12xlarge hour,",
        f"1,USD,Usage,2026-11-02T00:00:00Z,2.0,4.6,Committed,Hours,AWS,us-east-1,{details},,sp-1",
        "1,USD,Usage,2026-11-02T00:00:00Z,0.02,0.02,Standard,GB-Months,AWS,us-east-1,,S3 storage,",
        "1,USD,Tax,2026-11-02T00:00:00Z,,,,,AWS,us-east-1,,,",
    ]
    made = imported(tmp_path / "bill.csv", "\n".join([head, *rows]) + "\n")
    assert {(quote.term, quote.price, quote.day, quote.kind) for quote in made.quotes} == {
        (Term.ON_DEMAND, 4.0, date(2026, 11, 2), PriceKind.OBSERVED),
        (Term.SPOT, 1.9, date(2026, 11, 2), PriceKind.OBSERVED),
    }
    assert {left.reason: left.rows for left in made.left_out} == {
        "an older charge for the same machine": 1,
        "usage that a commitment covers, whose length a bill does not state": 1,
        "a machine without a GPU that is known": 1,
        "no charge for usage": 1,
    }


def test_vantage_s_table_gives_regions_reservations_and_spot(tmp_path: Path) -> None:
    """The form of https://instances.vantage.sh/instances.json (vantage-sh/ec2instances.info)."""
    pricing = {
        "eu-central-1": {
            "linux": {
                "ondemand": "5.752", "spot_min": "1.9", "spot_avg": "2.0", "spot_max": "2.2",
                "reserved": {"yrTerm1Standard.noUpfront": "3.7", "yrTerm3Standard.allUpfront": "2.1",
                             "yrTerm3Convertible.noUpfront": "2.9"},
            },
            "mswin": {"ondemand": "8"},
        },
        "eu-west-9": {"mswin": {"ondemand": "8"}},
    }  # fmt: skip
    document = [{"instance_type": "g6.12xlarge", "pricing": pricing}, {"instance_type": "m5.large", "pricing": {}}]
    found = offers(tmp_path / "instances.json", json.dumps(document))
    assert {(offer.term, offer.usd_per_machine_hour, offer.upfront_fraction) for offer in found} == {
        (Term.ON_DEMAND, 5.752, None), (Term.SPOT, 2.0, None), (Term.RESERVED_1Y, 3.7, None),
        (Term.RESERVED_3Y, 2.1, 1.0),
    }  # fmt: skip
    assert {offer.zones_usd for offer in found} == {None, (1.9, 2.2)}
    assert {(offer.kind, offer.country) for offer in found} == {(PriceKind.COPY, "de")}
