"""What software asks of a buyer: driver licences of GeForce cards, and porting to another vendor's GPUs."""

from capplan.core.gpus.spec import GpuSpec

_NAMES = ("NVIDIA GeForce", "NVIDIA TITAN", "NVIDIA Titan")

GEFORCE_LICENCE = (
    "NVIDIA's driver licence: GeForce and Titan software is licensed for use only on hardware that you own and "
    '"is not licensed for datacenter deployment" (License Agreement for NVIDIA Drivers, section 2.8, as '
    "public documents of September 2026 quote it; before, License For Customer Use of NVIDIA GeForce Software, 2.1.3). "
    "The licence does not define a data centre. It binds the driver, not the card. Ask your counsel before you sign."
)
"""The clause, where it was read, and how sure that is; see `docs/report.md`."""


_STACKS = {"AMD": "ROCm", "Intel": "oneAPI or, on Gaudi, SynapseAI", "Apple": "Metal"}


def porting_note(spec: GpuSpec) -> str | None:
    """Return what running on a GPU without CUDA asks for; None for NVIDIA's."""
    if spec.vendor == "NVIDIA":
        return None
    stack = _STACKS.get(spec.vendor, "its vendor's own software")
    return (
        f"runs PyTorch on {stack}, not on CUDA: custom CUDA kernels, TensorRT engines and compiled wheels do not run "
        "on it, and container images, drivers and tests must be made anew. That effort is not in the cost."
    )


def driver_licence(spec: GpuSpec) -> str | None:
    """Return what a GPU's driver licence forbids in a data centre; None where nothing is known to be forbidden."""
    return GEFORCE_LICENCE if spec.name.startswith(_NAMES) else None
