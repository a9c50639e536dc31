"""A recording as the event stream that a caching allocator would see, at any batch size.

Allocations and frees keep one order at every batch; only sizes change. Within an op its outputs come
first, then what its kernel takes in passing; storages whose last use it was are freed after it.
"""

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from capplan.core.memory.calibration import MemoryCalibration
from capplan.core.memory.workspace import (
    CUBLAS_KEPT,
    CUBLASLT_PASSING,
    Release,
    library_workspace,
    passing_bytes,
    saved_bytes,
    takes_cublas,
    takes_cublaslt,
    takes_cudnn,
)
from capplan.core.numbers import Interval
from capplan.core.ops.attention import AttentionBackend, Version, choose_attention
from capplan.core.trace.types import ALWAYS, Kernel, Recording
from capplan.core.workload import Variant, Workload
from capplan.errors import UsageError

LARGEST_BYTES = 2**62
"""No size above this is worked out: no device is within a factor of a million of it. [bytes]"""


class End(StrEnum):
    """Which end of the uncertain sizes a replay takes."""

    LOW = "low"
    EXPECTED = "expected"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """Memory beside the recording's storages: taken at op `birth`, given back after op `death` or within `birth`.

    `kernel` sizes it; `purpose` says how.
    """

    purpose: "Purpose"
    kernel: int
    birth: int
    death: int


class Purpose(StrEnum):
    """What memory beside the recording's storages is for."""

    CUBLAS = "cuBLAS workspace"
    CUBLASLT = "cuBLASLt workspace"
    PASSING = "within an operator"
    SPARED = "more cuDNN workspace than is expected, done without on a full device"
    SAVED = "saved by unfused attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An event stream whose sizes wait for a batch.

    `events`: `e` >= 0 allocates block e, `~e` frees it; `event_ops` is the op of each, ALWAYS before the first.
    Blocks are the recording's storages, then `extras`.
    """

    recording: Recording
    constants: NDArray[np.int64]
    per_sample: NDArray[np.int64]
    extras: tuple[Extra, ...]
    extra_sizes: "ExtraSizes"
    events: tuple[int, ...]
    event_ops: tuple[int, ...]

    @property
    def optional(self) -> frozenset[int]:
        """Blocks that cuDNN does without on a full device: it then takes an algorithm that needs less."""
        first = len(self.recording.storages)
        return frozenset(first + index for index, extra in enumerate(self.extras) if extra.purpose is Purpose.SPARED)

    def sizes(self, batch: int, end: End) -> list[int]:
        """Sizes of all blocks at a batch. [bytes]"""
        check_batch(self.constants, self.per_sample, batch)
        storages: list[int] = (self.constants + self.per_sample * batch).tolist()
        by_kernel: dict[tuple[Purpose, int], int] = {}
        for extra in self.extras:
            key = (extra.purpose, extra.kernel)
            if key not in by_kernel:
                by_kernel[key] = int(getattr(self.extra_sizes.of(extra, self.recording, batch), end.value))
            storages.append(by_kernel[key])
        return storages


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraSizes:
    """All that sizes the memory beside the storages, batch apart."""

    workload: Workload
    compute_capability: Version | None
    calibration: MemoryCalibration

    def of(self, extra: Extra, recording: Recording, batch: int) -> Interval:
        """Size one extra. [bytes]"""
        kernel = recording.kernels[extra.kernel]
        release = Release(
            torch_version=self.workload.torch_version, autocast=self.workload.precision.variant is Variant.AMP
        )
        if extra.purpose in (Purpose.CUBLAS, Purpose.CUBLASLT):
            table = CUBLAS_KEPT if extra.purpose is Purpose.CUBLAS else CUBLASLT_PASSING
            row = library_workspace(
                table, torch_version=self.workload.torch_version, compute_capability=self.compute_capability
            )
            return row.size_bytes if row else Interval.exact(0)
        if extra.purpose is Purpose.SAVED:
            return Interval.exact(saved_bytes(kernel, batch=batch, release=release))
        passing = passing_bytes(
            kernel,
            batch=batch,
            backend=self.backend(kernel, batch),
            calibration=self.calibration,
            release=release,
        )
        if not takes_cudnn(kernel):
            return passing
        if extra.purpose is Purpose.PASSING:
            return Interval(low=passing.low, expected=passing.expected, high=passing.expected)
        return Interval(low=0, expected=0, high=passing.high - passing.expected)

    def backend(self, kernel: Kernel, batch: int) -> AttentionBackend | None:
        """The attention kernel that runs; None for other operators."""
        if not kernel.name.startswith("capplan.attention"):
            return None
        return choose_attention(
            kernel,
            batch=batch,
            dtype=self.workload.precision.half_dtype or "float16",
            torch_version=self.workload.torch_version,
            compute_capability=self.compute_capability,
        )


def check_batch(constants: NDArray[np.int64], per_sample: NDArray[np.int64], batch: int) -> None:
    """Refuse a batch whose sizes no 64-bit integer holds.

    Raises:
        UsageError: the batch is not positive, or too large to have a size.
    """
    if batch < 1:
        raise UsageError(f"the batch size must be at least 1, not {batch}.")
    total = int(np.sum(constants, dtype=object)) + int(np.sum(np.abs(per_sample), dtype=object)) * batch
    if total > LARGEST_BYTES:
        raise UsageError(f"batch {batch} needs more than 2^62 bytes, which no device can hold; use a smaller one.")


def build_program(recording: Recording, sizes: ExtraSizes) -> Program:
    """Lay out the event stream of a recording on devices of one compute capability."""
    storages = recording.storages
    extras = tuple(_extras(recording, sizes))
    born: dict[int, list[int]] = defaultdict(list)
    dying: dict[int, list[int]] = defaultdict(list)
    passing: dict[int, list[int]] = defaultdict(list)
    for index, storage in enumerate(storages):
        born[storage.birth].append(index)
        dying[storage.death].append(index)
    for index, extra in enumerate(extras, start=len(storages)):
        if extra.purpose in (Purpose.PASSING, Purpose.SPARED, Purpose.CUBLASLT):
            passing[extra.birth].append(index)
        else:
            born[extra.birth].append(index)
            dying[extra.death].append(index)
    events: list[int] = []
    event_ops: list[int] = []
    for op in range(ALWAYS, len(recording.ops)):
        here = [*born[op], *passing[op], *(~index for index in passing[op]), *(~index for index in dying[op])]
        events += here
        event_ops += [op] * len(here)
    return Program(
        recording=recording,
        constants=np.array([s.size_bytes.constant for s in storages], dtype=np.int64),
        per_sample=np.array([s.size_bytes.per_sample for s in storages], dtype=np.int64),
        extras=extras,
        extra_sizes=sizes,
        events=tuple(events),
        event_ops=tuple(event_ops),
    )


def _extras(recording: Recording, sizes: ExtraSizes) -> list[Extra]:
    batch = recording.exact_batch or max(recording.batches)
    extras: list[Extra] = []
    end = len(recording.ops)
    cublas_taken = False
    traits = [_traits(kernel, sizes, recording, batch, index) for index, kernel in enumerate(recording.kernels)]
    backward_by_storage = _attention_backwards(recording)
    for index, op in enumerate(recording.ops):
        kernel = recording.kernels[op.kernel]
        purposes = traits[op.kernel]
        if takes_cublas(kernel) and not cublas_taken:
            cublas_taken = True
            # every inference but a process's first meets it from the start
            birth = ALWAYS if recording.configuration.training is None else index
            extras.append(Extra(purpose=Purpose.CUBLAS, kernel=op.kernel, birth=birth, death=end))
        extras += [Extra(purpose=purpose, kernel=op.kernel, birth=index, death=index) for purpose in purposes]
        if kernel.name == "capplan.attention" and sizes.backend(kernel, batch) is AttentionBackend.MATH:
            users = [backward_by_storage[s] for s in op.writes if s in backward_by_storage]
            later = [user for user in users if user > index]
            if later:
                extras.append(Extra(purpose=Purpose.SAVED, kernel=op.kernel, birth=index, death=max(later)))
    return extras


def _traits(kernel: Kernel, sizes: ExtraSizes, recording: Recording, batch: int, index: int) -> tuple[Purpose, ...]:
    purposes = [Purpose.CUBLASLT] * takes_cublaslt(kernel)
    for purpose in (Purpose.PASSING, Purpose.SPARED) if takes_cudnn(kernel) else (Purpose.PASSING,):
        probe = Extra(purpose=purpose, kernel=index, birth=0, death=0)
        if sizes.of(probe, recording, batch).high > 0:
            purposes.append(purpose)
    return tuple(purposes)


def _attention_backwards(recording: Recording) -> dict[int, int]:
    """The last attention backward that reads each storage."""
    users: dict[int, int] = {}
    for index, op in enumerate(recording.ops):
        if recording.kernels[op.kernel].name == "capplan.attention_backward":
            users.update(dict.fromkeys(op.reads, index))
    return users
