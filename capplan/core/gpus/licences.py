"""Restrictions of driver licences: GeForce cards in data centres."""

from capplan.core.gpus.spec import GpuSpec

_NAMES = ("NVIDIA GeForce", "NVIDIA TITAN", "NVIDIA Titan")

GEFORCE_LICENCE = (
    "NVIDIA's driver licence: GeForce and Titan software is licensed for use only on hardware that you own and "
    '"is not licensed for datacenter deployment" (License Agreement for NVIDIA Drivers, section 2.8, as '
    "public documents of September 2026 quote it; before, License For Customer Use of NVIDIA GeForce Software, 2.1.3). "
    "The licence does not define a data centre. It binds the driver, not the card. Ask your counsel before you sign."
)
"""The clause, where it was read, and how sure that is; see `docs/report.md`."""


def driver_licence(spec: GpuSpec) -> str | None:
    """Return what a GPU's driver licence forbids in a data centre; None where nothing is known to be forbidden."""
    return GEFORCE_LICENCE if spec.name.startswith(_NAMES) else None
