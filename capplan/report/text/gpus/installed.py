"""Write the GPUs of this machine with the differences from their specs."""

from collections.abc import Sequence
from typing import Any

from capplan.core.gpus.installed import InstalledGpu, differences
from capplan.core.gpus.spec import GpuSpec
from capplan.version import __version__

Match = tuple[InstalledGpu, GpuSpec | None]


def render_installed(matches: Sequence[Match]) -> str:
    """Write one paragraph per device: its name, its spec, and what differs."""
    lines = []
    for device, spec in matches:
        pci = f", PCI {device.pci_id}" if device.pci_id else ""
        lines.append(f"{device.index}: {device.name} ({device.told_by}{pci})")
        if spec is None:
            lines.append("   is not in the database; `capplan gpus new` writes a template")
            continue
        lines.append(f"   {spec.id}")
        lines += [f"   {each.key}: {each.found}, specified {each.specified}" for each in differences(device, spec)]
    return "".join(f"{line}\n" for line in lines)


def installed_document(matches: Sequence[Match]) -> dict[str, Any]:
    """Return the same for programs, in base units."""
    return {
        "schema_version": 1,
        "capplan_version": __version__,
        "gpus": [_document(device, spec) for device, spec in matches],
    }


def _document(device: InstalledGpu, spec: GpuSpec | None) -> dict[str, Any]:
    told = {
        "index": device.index,
        "name": device.name,
        "told_by": device.told_by,
        "pci_id": device.pci_id,
        "total_bytes": device.total_bytes,
        "driver_total_bytes": device.driver_total_bytes,
        "unit_count": device.unit_count,
        "power_limit_w": device.power_limit_w,
        "max_clock_hz": device.max_clock_hz,
    }
    found = {} if spec is None else {each.key: [each.found, each.specified] for each in differences(device, spec)}
    return {
        **{key: value for key, value in told.items() if value is not None},
        "spec": None if spec is None else spec.id,
        "differences": found,
    }
