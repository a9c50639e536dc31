"""MIG slices of NVIDIA's data-centre GPUs, derived from their parent by the rules of NVIDIA's MIG user guide."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from capplan.core.gpus.spec import GpuSpec
from capplan.errors import UnknownNameError, UsageError

_CAPABILITIES = frozenset({(8, 0), (9, 0), (10, 0)})
_FOUR_SLICES_UP_TO = 56
"""Multiprocessors of an A30, which has four slices of compute and of memory; larger GPUs have seven and eight."""
_RESERVED_FRACTION = 0.0053
"""Memory that each instance lacks, as a share of the whole GPU's: 430 MiB of 80 GiB (1g.10gb has 9,728 MiB, 3g.40gb
40,192 MiB), 203 MiB and more of 40 GiB (1g.5gb has 4,864 MiB)."""
_PROFILE = re.compile(r"(\d)g\.(\d+)gb")


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceProfile:
    """A size of slice: how many of the GPU's slices of compute and of memory it has."""

    name: str
    compute: int
    memory: int


def slice_profiles(parent: GpuSpec) -> tuple[SliceProfile, ...]:
    """Return the sizes of slices that a GPU can be cut into; none for one that cannot be cut.

    Args:
        parent: the whole GPU.
    """
    return tuple(_profiles(parent)) if parent.compute_capability in _CAPABILITIES and parent.unit_count else ()


def _profiles(parent: GpuSpec) -> Iterator[SliceProfile]:
    total = _memory_slices(parent)
    sizes = ((1, 1), (1, 2), (2, 2), (3, 4), (4, 4), (7, 8)) if total == 8 else ((1, 1), (2, 2), (4, 4))
    for compute, memory in sizes:
        gigabytes = int(parent.memory_bytes / 2**30 * memory / total + 0.5)
        yield SliceProfile(name=f"{compute}g.{gigabytes}gb", compute=compute, memory=memory)


def _memory_slices(parent: GpuSpec) -> int:
    return 4 if (parent.unit_count or 0) <= _FOUR_SLICES_UP_TO else 8


def mig_slice(parent: GpuSpec, profile: str) -> GpuSpec:
    """Return a slice as a device of its own.

    Multiprocessors, L2, memory and its bandwidth are the slice's own. The power limit, PCI Express and the copy engines
    are shared; the power limit is taken as the share of the multiprocessors. NVLink is off under MIG.

    Args:
        parent: the whole GPU.
        profile: such as 1g.10gb.

    Raises:
        UsageError: the GPU cannot be cut.
        UnknownNameError: it has no such profile.
    """
    known = {each.name: each for each in slice_profiles(parent)}
    if not known:
        raise UsageError(f"{parent.id} cannot be cut into MIG slices: A30, A100, H100, H200 and B200 can.")
    found = known.get(profile.casefold())
    if found is None:
        raise UnknownNameError(f"MIG profile of {parent.id}", profile, known, hint=f"Known: {', '.join(known)}.")
    units = _units(parent, found)
    share, memory = units / (parent.unit_count or units), found.memory / _memory_slices(parent)
    usable = parent.expected_usable_bytes * memory - _RESERVED_FRACTION * parent.memory_bytes
    return replace(
        parent,
        id=f"{parent.id}/{found.name}",
        name=f"{parent.name} MIG {found.name}",
        aliases=(),
        pci_ids=(),
        memory_bytes=int(parent.memory_bytes * memory),
        usable_bytes=int(usable),
        driver_total_bytes=None,
        memory_bus_bits=None,
        memory_bandwidth_bytes_per_s=parent.memory_bandwidth_bytes_per_s * memory,
        l2_bytes=None if parent.l2_bytes is None else int(parent.l2_bytes * memory),
        unit_count=units,
        peak_flops_per_s={kind: rate and rate * share for kind, rate in parent.peak_flops_per_s.items()},
        tdp_w=parent.tdp_w and parent.tdp_w * share,
        tdp_min_w=None,
        tdp_max_w=None,
        nominal_tdp_w=None,
        nvlink_bytes_per_s=None,
        measured={},
        notes=(
            f"derived from {parent.id}: {units} of {parent.unit_count} multiprocessors, {found.memory} of "
            f"{_memory_slices(parent)} memory slices; power limit, PCI Express and copy engines are shared.",
        ),
        figures={},
        origin="derived",
    )


def _units(parent: GpuSpec, profile: SliceProfile) -> int:
    """Return the multiprocessors of a slice: an even number for each slice of compute (14 on A100, 16 on H100)."""
    assert parent.unit_count is not None
    whole = profile.memory == _memory_slices(parent)
    if whole and parent.compute_capability != (8, 0):
        return parent.unit_count
    each = parent.unit_count // 4 if _memory_slices(parent) == 4 else 2 * round(parent.unit_count / 16)
    return profile.compute * each


def split_name(name: str) -> tuple[str, str] | None:
    """Return the GPU and the profile of a name such as a100-sxm4-80gb/1g.10gb; None for any other name."""
    parent, slash, profile = name.rpartition("/")
    return (parent, profile.strip()) if slash and _PROFILE.fullmatch(profile.strip().casefold()) else None
