"""Slices of one GPU that run apart from each other (Multi-Instance GPU): their sizes, and each as a device of its own.

Source: NVIDIA Multi-Instance GPU User Guide, supported profiles. GPUs have seven slices of compute and eight of memory,
the A30 four of each. Which architectures can be cut stands in their files.
"""

import re
from dataclasses import dataclass, replace

from capplan.core.gpus.spec import GpuSpec, MigKind
from capplan.errors import UnknownNameError, UsageError

_FOUR_SLICES_UP_TO = 56
"""Multiprocessors of an A30, which has four slices of compute and of memory; larger GPUs have seven and eight."""
_RESERVED_FRACTION = 0.0053
"""Memory that each instance lacks, as a share of the whole GPU's: 430 MiB of 80 GiB (1g.10gb has 9,728 MiB, 3g.40gb
40,192 MiB), 203 MiB and more of 40 GiB (1g.5gb has 4,864 MiB)."""
_PROFILE = re.compile(r"(\d)g\.(\d+)gb")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """One size of slice: its multiprocessors and slices of memory, and how many of each the whole GPU has.

    `compute` counts slices of compute, of which the GPU has `of_compute`. `usable_fraction` is the share of the GPU's
    usable memory that an instance may fill.
    """

    name: str
    compute: int
    memory: int
    units: int
    of_compute: int
    of_memory: int
    of_units: int
    usable_fraction: float

    @property
    def compute_fraction(self) -> float:
        """Return the share of the GPU's multiprocessors that the slice has."""
        return self.units / self.of_units

    @property
    def memory_fraction(self) -> float:
        """Return the share of the GPU's memory, of its bandwidth and of its L2 cache that the slice has."""
        return self.memory / self.of_memory

    @property
    def slowdown(self) -> float:
        """Return the factor on batch times: the larger of what less arithmetic and less bandwidth cost."""
        return 1 / min(self.compute_fraction, self.memory_fraction)


def mig_profiles(parent: GpuSpec) -> tuple[MigProfile, ...]:
    """Return the sizes of slices that a GPU can be cut into, smallest first; none for one that cannot be cut."""
    whole = parent.unit_count
    if parent.design.mig is None or not whole:
        return ()
    has_four = whole <= _FOUR_SLICES_UP_TO
    of_compute, of_memory = (4, 4) if has_four else (7, 8)
    reserved = _RESERVED_FRACTION * parent.memory_bytes / parent.expected_usable_bytes
    sizes = ((1, 1), (2, 2), (4, 4)) if has_four else ((1, 1), (1, 2), (2, 2), (3, 4), (4, 4), (7, 8))
    found = []
    for compute, memory in sizes:
        gigabytes = int(parent.memory_bytes / 2**30 * memory / of_memory + 0.5)
        is_whole = memory == of_memory and parent.design.mig is MigKind.FULL
        units = whole if is_whole else compute * (whole // 4 if has_four else 2 * round(whole / 16))
        found.append(MigProfile(
            name=f"{compute}g.{gigabytes}gb", compute=compute, memory=memory, units=units,
            of_compute=of_compute, of_memory=of_memory, of_units=whole,
            usable_fraction=memory / of_memory - reserved,
        ))  # fmt: skip
    return tuple(found)


def mig_slice(parent: GpuSpec, profile: str) -> GpuSpec:
    """Return a slice as a device of its own.

    Multiprocessors, L2, memory and its bandwidth are the slice's own. The power limit, PCI Express and the copy engines
    are shared; the power limit is taken as the share of the multiprocessors. NVLink is off under MIG.
    """
    known = {profile.name: profile for profile in mig_profiles(parent)}
    if not known:
        raise UsageError(f"{parent.id} cannot be cut into MIG slices: A30, A100, H100, H200, B200 and B300 can.")
    found = known.get(profile.casefold())
    if found is None:
        raise UnknownNameError(f"MIG profile of {parent.id}", profile, known, hint=f"Known: {', '.join(known)}.")
    share, memory = found.compute_fraction, found.memory_fraction
    return replace(
        parent,
        id=f"{parent.id}/{found.name}",
        name=f"{parent.name} MIG {found.name}",
        aliases=(),
        pci_ids=(),
        memory_bytes=int(parent.memory_bytes * memory),
        usable_bytes=int(parent.expected_usable_bytes * found.usable_fraction),
        driver_total_bytes=None,
        memory_bus_bits=None,
        memory_bandwidth_bytes_per_s=parent.memory_bandwidth_bytes_per_s * memory,
        l2_bytes=None if parent.l2_bytes is None else int(parent.l2_bytes * memory),
        unit_count=found.units,
        peak_flops_per_s={kind: rate and rate * share for kind, rate in parent.peak_flops_per_s.items()},
        tdp_w=parent.tdp_w and parent.tdp_w * share,
        tdp_min_w=None,
        tdp_max_w=None,
        nominal_tdp_w=None,
        nvlink_bytes_per_s=None,
        measured={},
        notes=(
            f"derived from {parent.id}: {found.units} of {found.of_units} multiprocessors, {found.memory} of "
            f"{found.of_memory} memory slices; power limit, PCI Express and copy engines are shared.",
        ),
        figures={},
        origin="derived",
    )


def split_name(name: str) -> tuple[str, str] | None:
    """Return the GPU and the profile of a name such as a100-sxm4-80gb/1g.10gb; None for any other name."""
    parent, slash, profile = name.rpartition("/")
    return (parent, profile.strip()) if slash and _PROFILE.fullmatch(profile.strip().casefold()) else None
