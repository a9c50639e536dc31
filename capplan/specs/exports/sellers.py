"""Read the answers of clouds and marketplaces that rent GPUs: Vast.ai, RunPod, Shadeform, Lambda, OCI, Verda."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capplan.core.gpus.prices import Term
from capplan.specs.exports.rows import NO_GPU, NO_PRICE, Found, LeftOut, Reading, Row, amount, newest_start

_GIB_OF_MIB = 1024
_PLACES = "any"


def read_vast(offers: Sequence[Mapping[str, Any]], reading: Reading) -> Iterator[Found]:
    """Read offers of Vast.ai: `offers` of its search API, or the list that `vastai search offers --raw` prints.

    `dph_total` is the price of the whole offer by the hour, `min_bid` the lowest bid for it as an interruptible one,
    `gpu_ram` one GPU's memory in MiB. Of the offers of a GPU, number and country the cheapest stands for all.
    """
    cheapest: dict[tuple[str, ...], Row] = {}
    dearer = 0
    for offer in offers:
        if not offer.get("num_gpus"):
            yield LeftOut(NO_GPU)
            continue
        if offer.get("rentable") is False:
            yield LeftOut("an offer that is rented out")
            continue
        where = [part.strip() for part in str(offer.get("geolocation") or "").split(",") if part.strip()]
        code = where[-1].lower() if where else ""
        country = code if code in reading.providers.countries else ""
        shared = {
            "provider": "vast.ai", "gpus": str(offer["num_gpus"]), "instance": f"offer {offer['id']}",
            "gpu": reading.gpu(offer["gpu_name"], memory_gib=amount(offer.get("gpu_ram") or 0) / _GIB_OF_MIB),
            "region": where[0] if where else _PLACES, **({"country": country} if country else {}), **reading.dated(),
        }  # fmt: skip
        for column, term in (("dph_total", Term.ON_DEMAND), ("min_bid", Term.SPOT)):
            price = amount(offer.get(column) or 0)
            if price <= 0:
                continue
            row = {**shared, "term": term.value, "price": f"{price:.6g}"}
            key = (row["gpu"], row["gpus"], country, row["term"])
            dearer += key in cheapest
            if key not in cheapest or price < float(cheapest[key]["price"]):
                cheapest[key] = row
    if dearer:
        yield LeftOut("a dearer offer of the same GPU, number and country", dearer)
    yield from cheapest.values()


def read_runpod(document: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read RunPod's GraphQL answer to `gpuTypes { id displayName memoryInGb securePrice communityPrice … }`."""
    for gpu in document["data"]["gpuTypes"]:
        columns = (("securePrice", Term.ON_DEMAND), ("secureSpotPrice", Term.SPOT), ("communityPrice", Term.COMMUNITY))
        prices = [(amount(gpu[column]), term) for column, term in columns if gpu.get(column)]
        if not prices:
            yield LeftOut(NO_PRICE)
        memory = amount(gpu.get("memoryInGb") or 0)
        named = reading.gpu(gpu["id"], memory_gib=memory)
        if reading.names.one(named) is None and gpu.get("displayName"):
            named = reading.gpu(gpu["displayName"], beside=gpu["id"], memory_gib=memory)
        for price, term in prices:
            yield {
                "provider": "runpod", "gpu": named, "gpus": "1", "instance": gpu["id"], "region": "global",
                "term": term.value, "price": f"{price:g}", **reading.dated(),
            }  # fmt: skip


def read_shadeform(document: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read Shadeform's `/v1/instances/types`: prices in US cents an hour, a row for each region.

    Shadeform sells what others host: the machine has the host's own name where the answer states it.
    """
    for offer in document["instance_types"]:
        held, provider = offer["configuration"], reading.providers.canonical(offer["cloud"])
        instance = offer.get("cloud_instance_type") or offer["shade_instance_type"]
        machine = reading.providers.machine(provider, instance)
        memory = amount(held.get("vram_per_gpu_in_gb") or 0)
        gpu = machine.gpu if machine else reading.gpu(
            held["gpu_type"], beside=f"{held.get('interconnect', '')} {instance}", memory_gib=memory
        )  # fmt: skip
        for place in offer.get("availability") or ({"region": _PLACES},):
            stock = {True: "in stock", False: "not in stock"}.get(place.get("available"))  # type: ignore[arg-type]
            yield {
                "provider": provider, "gpu": gpu, "gpus": str(held["num_gpus"]), "instance": instance,
                "region": place["region"], "term": Term.ON_DEMAND.value,
                "price": f"{amount(offer['hourly_price']) / 100:g}", **reading.dated(),
                "sold_by": "Shadeform", "note": f"{stock} on {reading.day}" if stock else "",
            }  # fmt: skip


def read_lambda(types: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read Lambda's `GET /api/v1/instance-types`: each type with the regions that have capacity at this moment."""
    for name, held in types.items():
        kind = held["instance_type"]
        specs = kind["specs"]
        words = kind.get("gpu_description") or kind["description"]
        machine = reading.providers.machine("lambda", kind.get("name") or name)
        count = machine.gpus if machine else specs.get("gpus", 0)
        if not count or words == "N/A":
            yield LeftOut(NO_GPU)
            continue
        regions = [region["name"] for region in held.get("regions_with_capacity_available", ())]
        stock = f"in stock on {reading.day}" if regions else f"no capacity in any region on {reading.day}"
        for region in regions or [_PLACES]:
            yield {
                "provider": "lambda", "gpu": machine.gpu if machine else reading.gpu(words, beside=name),
                "gpus": str(count), "instance": kind.get("name") or name, "region": region,
                "term": Term.ON_DEMAND.value, "price": f"{amount(kind['price_cents_per_hour']) / 100:g}",
                **reading.dated(), "note": stock,
            }  # fmt: skip


def read_oci(document: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read Oracle's public price list, `cetools/api/v1/products`: one GPU of a shape by the hour, in all regions.

    A shape is rented whole; a product whose shape is not known is left out.
    """
    dated = reading.dated(document.get("lastUpdated") or newest_start(()))
    for item in document["items"]:
        words = item.get("displayName", "")
        if item.get("metricName", "").lower() not in ("gpu per hour", "gpu hour") or "Windows" in words:
            yield LeftOut("no price of a GPU by the hour")
            continue
        # The shape whose GPU a product names; the A100 without v2 is that of 40 GB.
        machine = reading.machine_in("oci", words.replace(" - v2", "-v2"))
        if machine is None:
            yield LeftOut(f"{words}: no shape of this GPU is known")
            continue
        for local in item["currencyCodeLocalizations"]:
            for price in local["prices"]:
                if price.get("model") == "PAY_AS_YOU_GO" and amount(price["value"]) > 0:
                    usd = amount(price["value"]) * machine.gpus
                    row = reading.offer(machine, _PLACES, Term.ON_DEMAND, usd, dated)
                    yield {**row, "currency": local.get("currencyCode", "")}


def read_verda(types: Sequence[Mapping[str, Any]], reading: Reading) -> Iterator[Found]:
    """Read Verda's `GET /v1/instance-types`: prices of whole machines, the same in all of its locations."""
    for kind in types:
        count = int(amount((kind.get("gpu") or {}).get("number_of_gpus") or 0))
        if not count:
            yield LeftOut(NO_GPU)
            continue
        machine = reading.providers.machine("verda", kind["instance_type"])
        memory = amount((kind.get("gpu_memory") or {}).get("size_in_gigabytes") or 0) / count
        gpu = machine.gpu if machine else reading.gpu(kind["gpu"]["description"], memory_gib=memory)
        spot = "spot_price_per_hour" if "spot_price_per_hour" in kind else "spot_price"
        for column, term in (("price_per_hour", Term.ON_DEMAND), (spot, Term.SPOT)):
            price = amount(kind.get(column) or 0)
            if price > 0:
                yield {
                    "provider": "verda", "gpu": gpu, "gpus": str(count), "instance": kind["instance_type"],
                    "region": _PLACES, "term": term.value, "price": f"{price:.10g}",
                    "currency": str(kind.get("currency") or "USD").upper(), **reading.dated(),
                }  # fmt: skip
