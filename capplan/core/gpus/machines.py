"""The machines that providers rent: their GPUs, the links between these, processors, memory and network."""

from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec, Source

_BOARD_GPUS = 8
"""GPUs of a board of modules (HGX, DGX, OAM), all joined by NVLink, Infinity Fabric or Gaudi's links."""
_RACK_GPUS = {"gb200-186gb": 72, "gb300-288gb": 72}
"""GPUs in one NVLink domain of a rack (NVIDIA GB200 NVL72, GB300 NVL72)."""
_BRIDGED_GPUS = 2
"""An NVLink bridge joins two cards; four-way bridges exist for few cards and few servers have them."""
_CHIP_GPUS = 4
"""TPU chips of one host that certainly share their interconnect: v4 and v5p hosts hold four."""


def joined_gpus(gpu: GpuSpec) -> int:
    """Return how many GPUs of a kind fast links join at most in one server: 1 where only PCIe does.

    Modules sit on boards of eight; a bridge joins two cards; a GH200's printed link leads to its own processor.

    Args:
        gpu: The GPU's spec.
    """
    if not gpu.nvlink_bytes_per_s:
        return 1
    form = (gpu.form_factor or "").upper()
    if form.startswith(("SXM", "OAM")):
        return _BOARD_GPUS
    if form.startswith("SUPERCHIP"):
        return _RACK_GPUS.get(gpu.id, 1)
    return _CHIP_GPUS if form.startswith("CLOUD") else _BRIDGED_GPUS


def is_bridged(gpu: GpuSpec) -> bool:
    """Return True if a GPU is a card whose fast link is a bridge that must be bought and fitted."""
    return joined_gpus(gpu) == _BRIDGED_GPUS


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """A type of machine that a provider rents, with its GPUs and what is around them; None where not known.

    Attributes:
        gpus: GPUs of one machine, or of the smallest unit that is rented of them.
        joined: GPUs that fast links join with one another; 1 where all traffic goes over PCIe. None where nothing is
            stated, so that the GPU's kind decides.
        network_bytes_per_s: The machine's network, one direction. [bytes/s]
    """

    provider: str
    name: str
    gpu: str
    gpus: int
    source: Source
    joined: int | None = None
    vcpus: int | None = None
    memory_bytes: int | None = None
    network_bytes_per_s: float | None = None
    note: str | None = None


def joined_in_machine(gpu: GpuSpec, gpus: int, machine: MachineType | None) -> int:
    """Return how many GPUs of a rented machine fast links join.

    Where the machine's type states nothing, modules share their board's links, and cards are taken to have no bridge:
    renting out bridged cards is worth saying.

    Args:
        gpu: The GPU's spec.
        gpus: GPUs of the machine.
        machine: Its type, where it is known.
    """
    if machine is not None and machine.joined is not None:
        return machine.joined
    return 1 if is_bridged(gpu) else min(gpus, joined_gpus(gpu))
