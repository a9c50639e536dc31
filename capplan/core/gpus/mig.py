"""Slices of one GPU that run apart from each other (Multi-Instance GPU), by generation.

Source: NVIDIA Multi-Instance GPU User Guide, supported profiles: GPUs of compute capability 8.0, 9.0 and 10.0 have
seven compute and eight memory slices, the 24 GB card of capability 8.0 (A30) four of each.
"""

from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec

_GENERATIONS = frozenset({(8, 0), (9, 0), (10, 0), (10, 3)})
_FOUR_SLICES_BELOW_BYTES = 30 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """One size of slice: compute slices, memory slices, and how many of each the whole GPU has."""

    compute: int
    memory: int
    of_compute: int
    of_memory: int

    @property
    def name(self) -> str:
        """Name the profile by its compute slices, such as 3g."""
        return f"{self.compute}g"

    @property
    def compute_fraction(self) -> float:
        """Return the share of the GPU's arithmetic that the slice has."""
        return self.compute / self.of_compute

    @property
    def memory_fraction(self) -> float:
        """Return the share of the GPU's memory that the slice has."""
        return self.memory / self.of_memory

    @property
    def slowdown(self) -> float:
        """Return the factor on batch times: the larger of what less arithmetic and less bandwidth cost."""
        return 1 / min(self.compute_fraction, self.memory_fraction)


def mig_profiles(spec: GpuSpec) -> tuple[MigProfile, ...]:
    """Return the slices that a GPU can be parted into, smallest first; empty where it cannot."""
    if spec.vendor != "NVIDIA" or spec.compute_capability not in _GENERATIONS:
        return ()
    if spec.memory_bytes < _FOUR_SLICES_BELOW_BYTES:
        return tuple(MigProfile(compute=n, memory=n, of_compute=4, of_memory=4) for n in (1, 2, 4))
    shapes = ((1, 1), (2, 2), (3, 4), (4, 4), (7, 8))
    return tuple(MigProfile(compute=c, memory=m, of_compute=7, of_memory=8) for c, m in shapes)
