"""Write the GPUs of this machine with the differences from their specs."""

from collections.abc import Sequence

from capplan.core.gpus.installed import differences
from capplan.report.documents.installed import Match


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
