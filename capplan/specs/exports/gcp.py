"""Read Google's Cloud Billing Catalog, which prices the parts of a machine apart."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from capplan.core.gpus.prices import Term
from capplan.specs.exports.rows import Found, LeftOut, Reading, amount, newest_start

_GPUS = {
    "l4": ("G2", re.compile(r"\bL4 GPU")),
    "a100-sxm4-40gb": ("A2", re.compile(r"\bA100 GPU")),
    "a100-sxm4-80gb": ("A2", re.compile(r"\bA100 80GB GPU")),
    "h100-sxm5-80gb": ("A3", re.compile(r"\bH100 80GB GPU")),
}
"""The machine family of a GPU, and how the catalogue names the GPU itself."""
_HOST = re.compile(r"\b(G2|A2|A3) (?:Instance )?(Core|Cpu|Ram)\b")
_MACHINES = {"G2": "g2-", "A2": "a2-", "A3": "a3-highgpu-"}
_TERMS = {
    "OnDemand": Term.ON_DEMAND, "Preemptible": Term.SPOT, "Commit1Yr": Term.RESERVED_1Y, "Commit3Yr": Term.RESERVED_3Y,
}  # fmt: skip
_GIB = 2**30


def read_skus(document: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read the Cloud Billing Catalog of Compute Engine, `GET /v1/services/6F81-5844-456A/skus`.

    It prices a GPU, a virtual CPU and a GiB of memory apart; a machine is their sum. A machine of which one part has no
    price in a region, under a term, is not offered there.
    """
    parts: dict[tuple[str, Term, str], tuple[float, str]] = {}
    starts: list[Any] = []
    for sku in document["skus"]:
        words, term = sku["description"], _TERMS.get(sku["category"]["usageType"])
        if term is None or re.search(r"Reserved|Sole Tenancy|DWS|Calendar Mode|Custom", words):
            yield LeftOut("reserved, on a host of one's own, or for a booked time")
            continue
        host = _HOST.search(words)
        part = f"{host[1]} {'Ram' if host[2] == 'Ram' else 'Core'}" if host else None
        part = part or next((gpu for gpu, (_, name) in _GPUS.items() if name.search(words)), None)
        if part is None:
            yield LeftOut("no part of an L4, A100 or H100 machine")
            continue
        stated = sku["pricingInfo"][-1]
        starts.append(stated.get("effectiveTime"))
        expression = stated["pricingExpression"]
        price = expression["tieredRates"][-1]["unitPrice"]
        usd = amount(price.get("units", 0)) + amount(price.get("nanos", 0)) / 1e9
        for region in sku["serviceRegions"]:
            parts[part, term, region] = usd, price.get("currencyCode", "")
    dated = reading.dated(not_before=newest_start(starts))
    machines = {machine.name: machine for machine in reading.providers.providers["gcp"].machines.values()}
    for machine in machines.values():
        family, _ = _GPUS.get(machine.gpu, ("", None))
        if not machine.name.startswith(_MACHINES.get(family, "-")) or not machine.vcpus or not machine.memory_bytes:
            continue
        counts = {
            machine.gpu: machine.gpus,
            f"{family} Core": machine.vcpus,
            f"{family} Ram": machine.memory_bytes / _GIB,
        }
        for term, region in dict.fromkeys((term, region) for gpu, term, region in parts if gpu == machine.gpu):
            priced = [(count, parts.get((part, term, region))) for part, count in counts.items()]
            known = [(count, *price) for count, price in priced if price is not None]
            if len(known) < len(priced):
                yield LeftOut("a machine whose processors or memory have no price in its region")
                continue
            row = reading.offer(machine, region, term, sum(count * usd for count, usd, _ in known), dated)
            row["price"] = f"{float(row['price']):.6g}"
            yield {
                **row,
                "currency": known[0][2],
                "note": "sum of GPU, processors and memory, which are priced apart",
            }
