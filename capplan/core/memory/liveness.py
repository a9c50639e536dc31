"""Sum live bytes over the ops; their peak is a maximum of affine functions of the batch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.core.trace.types import Affine, Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCurve:
    """Bytes of the storages alive while each op runs: `constants + per_sample · batch`, before any rounding.

    Position 0 is before the first op, position i + 1 during op i.
    """

    constants: NDArray[np.int64]
    per_sample: NDArray[np.int64]

    def at(self, batch: int) -> NDArray[np.int64]:
        """Return the live bytes at a batch. [bytes]"""
        return self.constants + self.per_sample * batch

    def peak_bytes(self, batch: int) -> int:
        """Return the most that is alive at once. [bytes]"""
        return int(self.at(batch).max())

    def peak_terms(self) -> tuple[Affine, ...]:
        """Return the affine functions whose maximum is the peak, each the largest at some batch >= 1, flattest first.

        Live bytes at each op are affine in the batch, so that the peak is convex and piecewise linear.
        """
        points = sorted(set(zip(self.per_sample.tolist(), self.constants.tolist(), strict=True)))
        hull: list[tuple[int, int]] = []
        for slope, constant in points:
            while hull and hull[-1][1] + hull[-1][0] <= constant + slope:
                hull.pop()
            while len(hull) > 1 and _overtakes(hull[-2], hull[-1], (slope, constant)):
                hull.pop()
            if not hull or slope > hull[-1][0]:
                hull.append((slope, constant))
        return tuple(Affine(constant, slope) for slope, constant in hull)

    def largest_batch(self, available_bytes: float) -> int | None:
        """Return the largest batch whose live bytes fit; 0 where none does, None where every batch does."""
        if self.peak_bytes(1) > available_bytes:
            return 0
        growing = self.per_sample > 0
        if not growing.any():
            return None
        room = available_bytes - self.constants[growing]
        return int(np.floor(room / self.per_sample[growing]).min())


def _overtakes(flat: tuple[int, int], middle: tuple[int, int], steep: tuple[int, int]) -> bool:
    """Return True if `steep` passes `flat` no later than `middle` does, so that `middle` is never on top."""
    return (flat[1] - steep[1]) * (middle[0] - flat[0]) <= (flat[1] - middle[1]) * (steep[0] - flat[0])


def live_curve(recording: Recording) -> LiveCurve:
    """Sum the storages alive before and during each op of a recording."""
    length = len(recording.ops) + 1
    constants = np.zeros(length + 1, dtype=np.int64)
    per_sample = np.zeros(length + 1, dtype=np.int64)
    births = np.array([s.birth + 1 for s in recording.storages], dtype=np.int64)
    ends = np.minimum(np.array([s.death + 2 for s in recording.storages], dtype=np.int64), length)
    fixed = np.array([s.size_bytes.constant for s in recording.storages], dtype=np.int64)
    growing = np.array([s.size_bytes.per_sample for s in recording.storages], dtype=np.int64)
    for total, size in ((constants, fixed), (per_sample, growing)):
        np.add.at(total, births, size)
        np.subtract.at(total, ends, size)
    return LiveCurve(constants=np.cumsum(constants)[:-1], per_sample=np.cumsum(per_sample)[:-1])
