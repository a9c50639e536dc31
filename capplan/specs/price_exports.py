"""Read exports of prices: of AWS, Azure, GCP, RunPod and Shadeform as JSON, of SkyPilot's catalogue as CSV."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from capplan.core.gpus.machines import MachineType
from capplan.core.gpus.prices import PriceKind, Term
from capplan.errors import UsageError
from capplan.specs.foreign_numbers import read_number
from capplan.specs.providers import Providers
from capplan.tables import read_cells

Row = dict[str, str]
_HOURS = {"1 Year": 8760, "3 Years": 26280}
_YEARS = {"1yr": Term.RESERVED_1Y, "3yr": Term.RESERVED_3Y}
_SKYPILOT = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
_MOST_BYTES = 200_000_000
_PLAIN_NAMES = {
    "A10": "a10", "A10G": "a10g", "A30": "a30", "A40": "a40", "T4": "t4", "L4": "l4", "L40": "l40", "L40S": "l40s",
    "B200": "b200-sxm-180gb", "B300": "b300-sxm-288gb", "GH200": "gh200-96gb", "MI300X": "mi300x", "A6000": "rtx-a6000",
    "RTXA6000": "rtx-a6000", "A5000": "rtx-a5000", "A4000": "rtx-a4000", "RTX6000ADA": "rtx-6000-ada",
    "RTX4000ADA": "rtx-4000-ada", "RTX3090": "rtx-3090", "RTX4090": "rtx-4090", "RTX5090": "rtx-5090",
}  # fmt: skip
"""GPUs whose short name says which card it is. H100, H200, A100 and V100 need their form factor and memory besides."""
_WITH_FORM = {
    ("H100", "SXM5"): "h100-sxm5-80gb", ("H100", "SXM"): "h100-sxm5-80gb", ("H100", "PCIE"): "h100-pcie-80gb",
    ("H100", "NVL"): "h100-nvl-94gb", ("H200", "SXM5"): "h200-sxm-141gb", ("H200", "SXM"): "h200-sxm-141gb",
    ("A100_80G", "SXM4"): "a100-sxm4-80gb", ("A100_80G", "PCIE"): "a100-pcie-80gb",
    ("A100", "SXM4"): "a100-sxm4-40gb", ("A100", "PCIE"): "a100-pcie-40gb", ("V100", "SXM2"): "v100-sxm2-16gb",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The rows of an export in the columns of a table of quotes, and from whom its prices are known.

    A row whose `gpu` names nothing is left out by whoever reads it, with that as the reason.
    """

    rows: tuple[Row, ...]
    kind: PriceKind


def read_export(path: Path, providers: Providers, *, read_on: date) -> Export | None:
    """Read an export of prices; None where a file is not an export, such as a table of quotes.

    The day of a price that the export does not date is that of the import, at the latest.

    Args:
        path: A .json file of AWS (`pricing get-products`, `describe-spot-price-history`), Azure (retail prices),
            GCP (Cloud Billing Catalog API, `skus`), RunPod (`gpuTypes`) or Shadeform (`instance_types`), or a .csv file
            of SkyPilot's catalogue, in a folder or of a name that names the provider.
        providers: What is known of providers' machines.
        read_on: The day of the import.

    Raises:
        UsageError: The file cannot be read, or is JSON of another form.
    """
    if path.suffix == ".csv":
        try:
            return _skypilot(path, providers, read_on)
        except (KeyError, ValueError) as error:
            raise UsageError(
                f"{path}: has the columns of SkyPilot's catalogue, but not in its form ({error})."
            ) from error
    if path.suffix != ".json":
        return None
    document = _json(path)
    for key, read in _READERS.items():
        if isinstance(document, dict) and key in document:
            try:
                rows = tuple(map(_of_texts, read(document, providers, f"{read_on}")))
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
                reason = f"{error!s:.200}"
                raise UsageError(f"{path}: has {key}, but not in the form of its export ({reason}).") from error
            return Export(rows=rows, kind=PriceKind.READ)
    raise UsageError(f"{path}: is no export that is known: JSON with one of {', '.join(_READERS)} at its top.")


def _of_texts(row: Mapping[str, Any]) -> Row:
    """Return a row whose values are texts, which JSON does not promise."""
    for name, value in row.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} is {value!r:.60}, which is no text")
        if any("\ud800" <= sign <= "\udfff" for sign in value):
            raise ValueError(f"{name} holds half of a character")
    return {name: value.strip() for name, value in row.items()}


def _usd(value: Any) -> float:
    """Return a price that JSON holds as a number or as a text."""
    if isinstance(value, str):
        return read_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.60} is no price")
    return float(value)


def _json(path: Path) -> Any:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path}: is larger than {_MOST_BYTES:,} bytes; export the GPU machines alone.")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not JSON ({error}).") from error


def _skypilot(path: Path, providers: Providers, read_on: date) -> Export | None:
    table = read_cells(path)
    head = next(table, [])
    if not all(name in head for name in _SKYPILOT):
        return None
    named = [providers.canonical(word) for word in (path.parent.name, path.stem.split("-")[0].split("_")[0])]
    provider = next((name for name in named if name in providers.providers), path.parent.name)
    rows: list[Row] = []
    for cells in table:
        row = dict(zip(head, cells, strict=False))
        if not row.get("AcceleratorName"):
            continue
        shared = {
            "provider": provider, "gpu": _gpu(providers, provider, row["InstanceType"], row["AcceleratorName"]),
            "gpus": f"{read_number(row['AcceleratorCount'] or '0'):g}", "instance": row["InstanceType"],
            "region": row["Region"], "date": f"{read_on}", "date_is": "not-after",
        }  # fmt: skip
        for column, term in (("Price", Term.ON_DEMAND), ("SpotPrice", Term.SPOT)):
            if row.get(column):
                rows.append({**shared, "term": term.value, "price": row[column]})
    return Export(rows=tuple(rows), kind=PriceKind.COPY)


def _gpu(providers: Providers, provider: str, instance: str, name: str, form: str = "") -> str:
    """Return the id of a GPU that an export names: by its machine, else by a name that leaves no doubt; else the name.

    Of cards that come in several forms, the form must be stated in the name or beside it.
    """
    machine = providers.machine(provider, instance)
    if machine is not None:
        return machine.gpu
    word = re.sub(r"[ _-]", "", name).upper()
    if (plain := _PLAIN_NAMES.get(word)) is not None:
        return plain
    stated = f"{name}-{form}-{instance}".upper()
    model = "A100_80G" if "A100" in word and "80G" in stated.replace("_", "") else word[:4]
    forms = (known for known in ("SXM5", "SXM4", "SXM2", "SXM", "NVL", "PCIE") if known in stated)
    return _WITH_FORM.get((model, next(forms, "")), name)


def _offer(machine: MachineType, region: str, term: Term, price: str, day: str) -> Row:
    """Return the row of a machine whose price held on a day at the latest."""
    return {
        "provider": machine.provider, "gpu": machine.gpu, "gpus": str(machine.gpus), "instance": machine.name,
        "region": region, "term": term.value, "price": price, "date": day, "date_is": "not-after",
    }  # fmt: skip


def _azure(document: Mapping[str, Any], providers: Providers, day: str) -> Iterator[Row]:
    """Read https://prices.azure.com/api/retail/prices: reservations are priced for their whole term."""
    for item in document["Items"]:
        sku, name = item.get("armSkuName") or "", item.get("skuName", "")
        machine = providers.machine("azure", sku)
        if machine is None or "Windows" in item.get("productName", "") or "Low Priority" in name:
            continue
        price, term = _usd(item["retailPrice"]), Term.SPOT if "Spot" in name else Term.ON_DEMAND
        if item.get("type") == "Reservation":
            years = item["reservationTerm"]
            if years not in _HOURS:
                continue
            price, term = price / _HOURS[years], Term.RESERVED_1Y if years == "1 Year" else Term.RESERVED_3Y
        elif item.get("type") != "Consumption" or item.get("unitOfMeasure") != "1 Hour":
            continue
        yield {
            **_offer(machine, item["armRegionName"], term, f"{price:.6g}", day),
            "currency": item.get("currencyCode", ""),
        }


def _aws_products(document: Mapping[str, Any], providers: Providers, day: str) -> Iterator[Row]:
    """Read what `aws pricing get-products --service-code AmazonEC2` prints: Linux, shared tenancy, no upfront."""
    for text in document["PriceList"]:
        product = json.loads(text) if isinstance(text, str) else text
        facts = product["product"]["attributes"]
        machine = providers.machine("aws", facts.get("instanceType", ""))
        plain = facts.get("operatingSystem") == "Linux" and facts.get("tenancy") in ("Shared", "NA", None)
        if machine is None or not plain or facts.get("preInstalledSw", "NA") != "NA":
            continue
        if facts.get("capacitystatus", "Used") != "Used":
            continue
        for kind, terms in product["terms"].items():
            for offer in terms.values():
                stated = offer.get("termAttributes", {})
                term = Term.ON_DEMAND if kind == "OnDemand" else _YEARS.get(stated.get("LeaseContractLength", ""))
                if term is None or stated.get("PurchaseOption", "No Upfront") != "No Upfront":
                    continue
                if stated.get("OfferingClass", "standard") != "standard":
                    continue
                for dimension in offer["priceDimensions"].values():
                    price = dimension["pricePerUnit"].get("USD", "")
                    if dimension.get("unit") == "Hrs" and price and (usd := _usd(price)) > 0:
                        region = facts.get("regionCode") or facts["location"]
                        yield _offer(machine, region, term, f"{usd:.10g}", day)


def _aws_spot(document: Mapping[str, Any], providers: Providers, day: str) -> Iterator[Row]:
    """Read what `aws ec2 describe-spot-price-history` prints: the newest price of the cheapest zone, with all zones."""
    newest: dict[tuple[str, str], tuple[str, float]] = {}
    for entry in document["SpotPriceHistory"]:
        if entry.get("ProductDescription", "Linux/UNIX") != "Linux/UNIX":
            continue
        key = (entry["InstanceType"], entry["AvailabilityZone"])
        if key not in newest or entry["Timestamp"] > newest[key][0]:
            newest[key] = (entry["Timestamp"], _usd(entry["SpotPrice"]))
    regions: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for (instance, zone), price in newest.items():
        regions.setdefault((instance, zone.rstrip("abcdefgh")), []).append(price)
    for (instance, region), zones in regions.items():
        machine = providers.machine("aws", instance)
        if machine is None:
            continue
        prices = [usd for _, usd in zones]
        stated = max(when for when, _ in zones)[:10]
        yield {
            **_offer(machine, region, Term.SPOT, f"{min(prices):.10g}", stated or day),
            "date_is": "",
            "zones": f"{min(prices):.10g} {max(prices):.10g}",
        }


def _runpod(document: Mapping[str, Any], providers: Providers, day: str) -> Iterator[Row]:
    """Read RunPod's GraphQL answer to `gpuTypes { id securePrice communityPrice secureSpotPrice }`."""
    del providers
    for gpu in document["data"]["gpuTypes"]:
        columns = (("securePrice", Term.ON_DEMAND), ("secureSpotPrice", Term.SPOT), ("communityPrice", Term.COMMUNITY))
        for column, term in columns:
            if gpu.get(column):
                yield {
                    "provider": "runpod", "gpu": gpu["id"], "gpus": "1", "instance": gpu["id"], "region": "global",
                    "term": term.value, "price": f"{_usd(gpu[column]):g}", "date": day, "date_is": "not-after",
                }  # fmt: skip


def _shadeform(document: Mapping[str, Any], providers: Providers, day: str) -> Iterator[Row]:
    """Read Shadeform's `/v1/instances/types`: prices in US cents an hour, a row for each region."""
    for offer in document["instance_types"]:
        held, provider = offer["configuration"], providers.canonical(offer["cloud"])
        instance = offer.get("cloud_instance_type") or offer["shade_instance_type"]
        name, form = held["gpu_type"], held.get("interconnect", "")
        for place in offer.get("availability") or ({"region": "any"},):
            yield {
                "provider": provider, "gpu": _gpu(providers, provider, instance, name, form),
                "gpus": str(held["num_gpus"]), "instance": instance, "region": place["region"],
                "term": Term.ON_DEMAND.value, "price": f"{_usd(offer['hourly_price']) / 100:g}", "date": day,
                "date_is": "not-after", "note": "resold through Shadeform",
            }  # fmt: skip


_GCP_GPUS = {
    "l4": ("G2", re.compile(r"\bL4 GPU")),
    "a100-sxm4-40gb": ("A2", re.compile(r"\bA100 GPU")),
    "a100-sxm4-80gb": ("A2", re.compile(r"\bA100 80GB GPU")),
    "h100-sxm5-80gb": ("A3", re.compile(r"\bH100 80GB GPU")),
}
"""The machine family of a GPU, and how the catalogue names the GPU itself."""
_GCP_HOST = re.compile(r"\b(G2|A2|A3) (?:Instance )?(Core|Cpu|Ram)\b")
_GCP_MACHINES = {"G2": "g2-", "A2": "a2-", "A3": "a3-highgpu-"}
_GCP_TERMS = {
    "OnDemand": Term.ON_DEMAND, "Preemptible": Term.SPOT, "Commit1Yr": Term.RESERVED_1Y, "Commit3Yr": Term.RESERVED_3Y,
}  # fmt: skip
_GiB = 2**30


def _gcp(document: Mapping[str, Any], providers: Providers, day: str) -> Iterator[Row]:
    """Read the Cloud Billing Catalog of Compute Engine, `GET /v1/services/6F81-5844-456A/skus`.

    It prices a GPU, a virtual CPU and a GiB of memory apart; a machine is their sum. A machine of which one part has no
    price in a region, under a term, is not offered there.
    """
    parts: dict[tuple[str, Term, str], tuple[float, str]] = {}
    for sku in document["skus"]:
        words, term = sku["description"], _GCP_TERMS.get(sku["category"]["usageType"])
        if term is None or re.search(r"Reserved|Sole Tenancy|DWS|Calendar Mode|Custom", words):
            continue
        host = _GCP_HOST.search(words)
        part = f"{host[1]} {'Ram' if host[2] == 'Ram' else 'Core'}" if host else None
        part = part or next((gpu for gpu, (_, name) in _GCP_GPUS.items() if name.search(words)), None)
        if part is None:
            continue
        expression = sku["pricingInfo"][-1]["pricingExpression"]
        price = expression["tieredRates"][-1]["unitPrice"]
        usd = _usd(price.get("units", 0)) + _usd(price.get("nanos", 0)) / 1e9
        for region in sku["serviceRegions"]:
            parts[part, term, region] = usd, price.get("currencyCode", "")
    machines = {machine.name: machine for machine in providers.providers["gcp"].machines.values()}
    for machine in machines.values():
        family, _ = _GCP_GPUS.get(machine.gpu, ("", None))
        if not machine.name.startswith(_GCP_MACHINES.get(family, "-")) or not machine.vcpus or not machine.memory_bytes:
            continue
        counts = {
            machine.gpu: machine.gpus,
            f"{family} Core": machine.vcpus,
            f"{family} Ram": machine.memory_bytes / _GiB,
        }
        for term, region in dict.fromkeys((term, region) for gpu, term, region in parts if gpu == machine.gpu):
            priced = [(count, parts.get((part, term, region))) for part, count in counts.items()]
            known = [(count, *price) for count, price in priced if price is not None]
            if len(known) == len(priced):
                yield {
                    **_offer(machine, region, term, f"{sum(count * usd for count, usd, _ in known):.6g}", day),
                    "currency": known[0][2],
                    "note": "sum of GPU, processors and memory, which are priced apart",
                }


_READERS: Mapping[str, Callable[[Mapping[str, Any], Providers, str], Iterator[Row]]] = {
    "PriceList": _aws_products,
    "SpotPriceHistory": _aws_spot,
    "Items": _azure,
    "data": _runpod,
    "skus": _gcp,
    "instance_types": _shadeform,
}
"""Readers by a key at the top of their document."""
