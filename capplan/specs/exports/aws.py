"""Read prices of Amazon EC2: the answers of its command line, and its public offer files as JSON and as CSV."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from capplan.core.gpus.prices import Term
from capplan.specs.exports.rows import (
    NO_GPU,
    NO_PRICE,
    OTHER_TENANCY,
    WINDOWS,
    Found,
    LeftOut,
    Reading,
    Row,
    amount,
    commitment,
)
from capplan.specs.foreign_numbers import read_number

_YEARS = {"1yr": 1, "3yr": 3}
OFFER_COLUMNS = ("SKU", "TermType", "Unit", "PricePerUnit", "Instance Type")
"""Columns by which the CSV form of an offer file is known; five lines about the file stand above its header."""


def read_products(document: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read what `aws pricing get-products --service-code AmazonEC2` prints."""
    for text in document["PriceList"]:
        product = json.loads(text) if isinstance(text, str) else text
        dated = reading.dated(product.get("publicationDate"))
        yield from _product(product["product"]["attributes"], product["terms"], reading, dated)


def read_offer_file(document: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read a public offer file, `offers/v1.0/aws/AmazonEC2/current/REGION/index.json`."""
    dated = reading.dated(document.get("publicationDate"))
    terms = document["terms"]
    for sku, product in document["products"].items():
        held = {kind: offers[sku] for kind, offers in terms.items() if sku in offers}
        yield from _product(product["attributes"], held, reading, dated)


def _product(
    facts: Mapping[str, Any], terms: Mapping[str, Mapping[str, Any]], reading: Reading, dated: Row
) -> Iterator[Found]:
    machine = reading.providers.machine("aws", facts.get("instanceType", ""))
    refused = _refusal(
        tenancy=facts.get("tenancy"), system=facts.get("operatingSystem"), software=facts.get("preInstalledSw"),
        capacity=facts.get("capacitystatus"), market=facts.get("marketoption"),
    )  # fmt: skip
    if machine is None or refused:
        yield LeftOut(NO_GPU if machine is None else refused)
        return
    region = facts.get("regionCode") or facts["location"]
    for kind, offers in terms.items():
        for offer in offers.values():
            stated = offer.get("termAttributes", {})
            hourly = upfront = 0.0
            for dimension in offer["priceDimensions"].values():
                usd = amount(dimension["pricePerUnit"].get("USD") or "0")
                hourly += usd if dimension.get("unit") == "Hrs" else 0
                upfront += usd if dimension.get("unit") == "Quantity" else 0
            found = _offer_terms(kind, stated.get("LeaseContractLength"), stated.get("OfferingClass"), hourly, upfront)
            row = reading.offer(machine, region, Term.ON_DEMAND, hourly, dated)
            yield found if isinstance(found, LeftOut) else {**row, **found}


def _refusal(
    *, tenancy: str | None, system: str | None, software: str | None, capacity: str | None, market: str | None
) -> str:
    """Return why a product is not a Linux machine at its plain price; empty where it is."""
    if system != "Linux" or (software or "NA") != "NA":
        return WINDOWS
    if tenancy not in ("Shared", "NA", "", None):
        return OTHER_TENANCY
    if (capacity or "Used") != "Used":
        return "capacity that is reserved and not used"
    return "a capacity block, which is paid apart" if (market or "OnDemand") != "OnDemand" else ""


def _offer_terms(kind: str, length: str | None, offering: str | None, hourly: float, upfront: float) -> Found:
    """Return the columns that a term adds to a machine's."""
    if hourly + upfront <= 0:
        return LeftOut(NO_PRICE)
    if kind == "OnDemand":
        return {}
    if (offering or "standard") != "standard":
        return LeftOut("a convertible reservation")
    years = _YEARS.get(length or "")
    return LeftOut(f"a commitment of {length}") if years is None else commitment(hourly, upfront, years)


def read_offer_table(table: Iterable[list[str]], reading: Reading) -> Iterator[Found]:
    """Read the CSV form of an offer file, `.../current/REGION/index.csv`, row by row: it has hundreds of megabytes.

    What a reservation costs at once and by the hour stands in two rows, which are joined.
    """
    day, head = None, list[str]()
    reserved: dict[tuple[str, str, str, str, str], list[float]] = {}
    machines: dict[tuple[str, str, str, str, str], Row] = {}
    for cells in table:
        if not head:
            if cells and cells[0] == "Publication Date":
                day = cells[1]
            head = cells if OFFER_COLUMNS[0] in cells else []
            continue
        row = dict(zip(head, cells, strict=False))
        machine = reading.providers.machine("aws", row["Instance Type"])
        refused = _refusal(
            tenancy=row.get("Tenancy"), system=row.get("Operating System"), software=row.get("Pre Installed S/W"),
            capacity=row.get("CapacityStatus"), market=row.get("MarketOption"),
        )  # fmt: skip
        if machine is None or refused:
            yield LeftOut(NO_GPU if machine is None else refused)
            continue
        usd = read_number(row["PricePerUnit"])
        offer = reading.offer(
            machine, row.get("Region Code") or row["Location"], Term.ON_DEMAND, usd, reading.dated(day)
        )
        offer["currency"] = row.get("Currency", "")
        key = (row["SKU"], row.get("OfferTermCode", ""), row["TermType"], row.get("LeaseContractLength", ""),
               row.get("OfferingClass", ""))  # fmt: skip
        machines[key] = offer
        paid = reserved.setdefault(key, [0.0, 0.0])
        paid[0] += usd if row["Unit"] == "Hrs" else 0
        paid[1] += usd if row["Unit"] == "Quantity" else 0
    if not head:
        raise ValueError("no header was found")
    for key, (hourly, upfront) in reserved.items():
        found = _offer_terms(*key[2:], hourly, upfront)
        yield found if isinstance(found, LeftOut) else {**machines[key], "price": f"{hourly:.10g}", **found}


def read_spot_history(document: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read what `aws ec2 describe-spot-price-history` prints: the newest price of the cheapest zone, with all zones."""
    newest: dict[tuple[str, str], tuple[str, float]] = {}
    for entry in document["SpotPriceHistory"]:
        if entry.get("ProductDescription", "Linux/UNIX") != "Linux/UNIX":
            yield LeftOut(WINDOWS)
            continue
        key = (entry["InstanceType"], entry["AvailabilityZone"])
        if key not in newest or entry["Timestamp"] > newest[key][0]:
            newest[key] = (entry["Timestamp"], amount(entry["SpotPrice"]))
    regions: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for (instance, zone), price in newest.items():
        regions.setdefault((instance, zone.rstrip("abcdefgh")), []).append(price)
    for (instance, region), zones in regions.items():
        machine = reading.providers.machine("aws", instance)
        if machine is None:
            yield LeftOut(NO_GPU)
            continue
        prices = [usd for _, usd in zones]
        dated = reading.dated(max(when for when, _ in zones))
        row = reading.offer(machine, region, Term.SPOT, min(prices), dated)
        yield {**row, "zones": f"{min(prices):.10g} {max(prices):.10g}"}
