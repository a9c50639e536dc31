"""Read SkyPilot's public catalogue, `catalogs/v8/CLOUD/vms.csv` of skypilot-org/skypilot-catalog."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from capplan.core.gpus.machines import MachineType
from capplan.core.gpus.prices import Term
from capplan.specs.exports.rows import NO_GPU, NO_PRICE, Found, LeftOut, Reading, Row, with_zones
from capplan.specs.foreign_numbers import read_number

COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
_TOTAL = re.compile(r"TotalGpuMemoryInMiB\W+(\d+)")
_NAME = re.compile(r"\WName\W+([\w .-]*\w)")
_VAST = re.compile(r"\d+x-(.+?)-\d+-\d+")
"""A machine of Vast.ai, such as 1x-RTX_4070S_Ti-32-65536; the column of the accelerator shortens its name."""
_PLACE = re.compile(r"(?:(?P<name>[^,]*), )?(?P<code>[A-Z]{2}), [A-Z]{2}")
"""A place as Vast.ai writes it: Germany, DE, EU."""
_SMALLEST_MIB = 1024
"""Sizes below are GiB, whatever the column is called: RunPod's rows say 80 for an A100."""


def provider_of(path: Path, reading: Reading) -> str:
    """Return the provider whose catalogue a file is: by its folder, or by the beginning of its name."""
    words = (path.parent.name, path.name.split(".")[0].split("-")[0].split("_")[0])
    named = [reading.providers.canonical(word) for word in words]
    return next((name for name in named if name in reading.providers.providers), named[0])


def read_catalogue(
    head: Sequence[str], table: Iterator[list[str]], reading: Reading, *, provider: str
) -> Iterator[Found]:
    """Read the rows of one cloud. Google's rows of machines and of accelerators are joined.

    Raises:
        LookupError, ValueError: a row lacks a column, or holds no number where one must stand.
    """
    rows = [dict(zip(head, cells, strict=False)) for cells in table if any(cells)]
    # What accelerators cost that stand in rows of their own, by GPU, number, region and zone.
    attached: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if row["InstanceType"] or not row["AcceleratorName"]:
            continue
        name, count = row["AcceleratorName"].upper(), read_number(row["AcceleratorCount"])
        gpus = reading.names.sold_as(name.replace("-MEGA", ""), memory_bytes=_memory_gib(row, count) * 2**30 or None)
        least = min((gpu.memory_bytes for gpu in gpus), default=0)  # 80 GB stand in the name: A100 is that of 40 GB
        for gpu in gpus:
            if gpu.memory_bytes == least:
                site = gpu.id, count, "MEGA" in name, row["Region"], row.get("AvailabilityZone", "")
                attached[site] = row
    taken: list[Row] = []
    alone = {id(row) for row in rows if not row["InstanceType"] and row["AcceleratorName"]}
    for row in rows:
        if not row["InstanceType"] and row["AcceleratorName"]:
            continue
        machine = reading.providers.machine(provider, row["InstanceType"])
        extra = attached.get(_site(row, machine)) if machine and not row["AcceleratorName"] else {}
        if not row["AcceleratorName"] and (machine is None or not attached):
            yield LeftOut(NO_GPU)
            continue
        if extra is None:
            yield LeftOut("a machine whose GPUs have no price in its zone")
            continue
        alone.discard(id(extra))
        for found in _offers(row, extra, machine, reading, provider):
            if isinstance(found, LeftOut):
                yield found
            else:
                taken.append(found)
    if alone:
        yield LeftOut("an accelerator without the machine that it is attached to", len(alone))
    yield from with_zones(taken)


def _site(row: Row, machine: MachineType | None) -> tuple[object, ...]:
    """Return where the accelerators of a machine are priced; those of A3 Mega machines have a price of their own."""
    if machine is None:
        return ()
    is_mega = machine.name.startswith("a3-mega")
    return machine.gpu, float(machine.gpus), is_mega, row["Region"], row.get("AvailabilityZone", "")


def _offers(row: Row, extra: Row, machine: MachineType | None, reading: Reading, provider: str) -> Iterator[Found]:
    count = str(machine.gpus) if extra and machine else f"{read_number(row['AcceleratorCount'] or '0'):g}"
    if count == "0":
        yield LeftOut(NO_GPU)
        return
    place = _PLACE.fullmatch(row["Region"])
    country = place["code"].lower() if place and place["code"].lower() in reading.providers.countries else ""
    shared = {
        "provider": provider, "gpu": machine.gpu if machine else _gpu(row, float(count), reading), "gpus": count,
        "instance": row["InstanceType"], "region": (place["name"] or "").strip() or country if place else row["Region"],
        **({"country": country} if country else {}), **reading.dated(),
    }  # fmt: skip
    demand = _usd(row.get("Price", ""))
    spot = _usd(row.get("SpotPrice", ""))
    if extra:
        demand += _usd(extra.get("Price", ""))
        part = _usd(extra.get("SpotPrice", ""))
        spot = spot + part if spot and part else 0
        demand = demand if _usd(extra.get("Price", "")) else 0
    if demand + spot <= 0:
        yield LeftOut(NO_PRICE)
    if demand:
        yield {**shared, "term": Term.ON_DEMAND.value, "price": f"{demand:.10g}"}
    if spot and spot == demand:
        yield LeftOut("a spot price that is the on-demand price")
    elif spot:
        yield {**shared, "term": Term.SPOT.value, "price": f"{spot:.10g}"}


def _usd(text: str) -> float:
    return read_number(text) if text.strip() else 0.0


def _memory_gib(row: Row, count: float) -> float:
    """Return one GPU's memory; 0 where the row does not state it. [GiB]"""
    total = _TOTAL.search(row.get("GpuInfo", ""))
    size = float(total[1]) / count if total and count else 0
    return size if size < _SMALLEST_MIB else size / 1024


def _gpu(row: Row, count: float, reading: Reading) -> str:
    """Return the id of the row's GPU: by the fullest of its names, its machine, and the memory of one."""
    gib = _memory_gib(row, count)
    shortened = _VAST.fullmatch(row["InstanceType"])
    named = _NAME.search(row.get("GpuInfo", "").replace("Gpus", "", 1))
    names = (shortened[1] if shortened else "", row["AcceleratorName"], named[1] if named else "")
    found = [reading.gpu(name, beside=row["InstanceType"], memory_gib=gib or None) for name in names if name]
    known = [gpu for gpu in found if reading.names.one(gpu) is not None and gpu == gpu.lower()]
    return next(iter(known), found[0])
