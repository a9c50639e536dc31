"""Match a device at hand to its spec, by PCI id or by its driver's exact name, and find the differences."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec
from capplan.units import format_bytes

_TOLERANCE = 0.01
_SHOWN_FRACTIONS = (0.9, 1.005)
_SIZE = re.compile(r" [0-9]+GB$")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledGpu:
    """A driver's facts of one device; None if it was not queried or does not report them.

    `total_bytes` is what torch reports, `driver_total_bytes` what nvidia-smi does; `max_clock_hz` is the highest
    clock of the units.
    """

    index: int
    name: str
    told_by: str
    pci_id: str | None = None
    total_bytes: int | None = None
    driver_total_bytes: int | None = None
    unit_count: int | None = None
    compute_capability: tuple[int, int] | None = None
    power_limit_w: float | None = None
    max_clock_hz: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDifference:
    """A figure that a device has otherwise than its spec says."""

    key: str
    found: str
    specified: str


def match_gpu(device: InstalledGpu, specs: Iterable[GpuSpec]) -> GpuSpec | None:
    """Find a device's spec: by PCI id where only one has it, else by exact name, else not at all.

    Where drivers give cards of two memory sizes one name, the spec's name ends in its size ("... 4060 Ti 8GB");
    then the memory at hand decides.
    """
    known = list(specs)
    by_pci = [spec for spec in known if device.pci_id and device.pci_id in spec.pci_ids]
    if len(by_pci) == 1:
        return by_pci[0]
    folded = device.name.casefold()
    named = [spec for spec in known if folded in {name.casefold() for name in (spec.id, spec.name, *spec.aliases)}]
    sizes = [spec for spec in known if _SIZE.sub("", spec.name).casefold() == folded and _has_memory_of(device, spec)]
    return next(iter(named or sizes[: len(sizes) == 1]), None)


def _has_memory_of(device: InstalledGpu, spec: GpuSpec) -> bool:
    size = device.driver_total_bytes or device.total_bytes
    low, high = _SHOWN_FRACTIONS
    return size is not None and low <= size / spec.memory_bytes <= high


def differences(device: InstalledGpu, spec: GpuSpec) -> tuple[SpecDifference, ...]:
    """Return how a device differs from its spec; memory and clocks count from 1 % on."""
    found: list[SpecDifference] = []
    sizes = (
        ("usable", device.total_bytes, spec.usable_bytes),
        ("driver_total", device.driver_total_bytes, spec.driver_total_bytes),
    )
    for key, size, specified in sizes:
        if size is not None and specified is not None and _differs(size, specified):
            found.append(SpecDifference(key=key, found=format_bytes(size), specified=format_bytes(specified)))
    shown = device.driver_total_bytes or device.total_bytes
    if shown is not None and not _has_memory_of(device, spec):
        found.append(SpecDifference(key="memory", found=format_bytes(shown), specified=format_bytes(spec.memory_bytes)))
    if device.unit_count is not None and spec.unit_count is not None and device.unit_count != spec.unit_count:
        found.append(SpecDifference(key="units", found=str(device.unit_count), specified=str(spec.unit_count)))
    if device.compute_capability and spec.compute_capability and device.compute_capability != spec.compute_capability:
        capabilities = [".".join(map(str, each)) for each in (device.compute_capability, spec.compute_capability)]
        found.append(SpecDifference(key="compute_capability", found=capabilities[0], specified=capabilities[1]))
    if device.power_limit_w is not None and spec.tdp_w is not None and _differs(device.power_limit_w, spec.tdp_w):
        found.append(SpecDifference(key="tdp", found=f"{device.power_limit_w:g} W", specified=f"{spec.tdp_w:g} W"))
    if (
        device.max_clock_hz is not None
        and spec.boost_clock_hz is not None
        and device.max_clock_hz < 0.99 * spec.boost_clock_hz
    ):
        clocks = [f"{clock / 1e6:.0f} MHz" for clock in (device.max_clock_hz, spec.boost_clock_hz)]
        found.append(SpecDifference(key="boost_clock", found=clocks[0], specified=clocks[1]))
    return tuple(found)


def _differs(value: float, specified: float) -> bool:
    return abs(value / specified - 1) > _TOLERANCE
