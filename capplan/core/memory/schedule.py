"""A recording as the event stream that a caching allocator would see, at any batch, and the peak of its live bytes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from capplan.core.memory.allocator import UNIT_BYTES
from capplan.core.memory.repeats import Repeat, event_words, find_repeats
from capplan.core.memory.types import MemoryCalibration
from capplan.core.memory.workspace import (
    CPU,
    CUBLAS_KEPT,
    CUBLASLT_PASSING,
    ConvolutionBytes,
    Release,
    convolution_bytes,
    library_workspace,
    passing_bytes,
    saved_bytes,
    takes_cublas,
    takes_cublaslt,
    takes_cudnn,
    unfused_scores_bytes,
)
from capplan.core.numbers import ENDS, End, Interval
from capplan.core.ops.attention import AttentionBackend, Version, attention_backend, capability_class
from capplan.core.trace.types import ALWAYS, Affine, Kernel, Recording
from capplan.core.workload import Variant, Workload
from capplan.errors import UsageError

LARGEST_BYTES = 2**48
"""No size above this is worked out: no device is within a factor of a million of it. [bytes]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Memory that no storage of the recording holds: taken at op `birth`, returned after op `death` or within `birth`.

    Its size follows from `kernel`, by the rule of its `purpose`.
    """

    purpose: "Purpose"
    kernel: int
    birth: int
    death: int


class Purpose(StrEnum):
    """Kinds of memory outside the recording's storages."""

    CUBLAS = "cuBLAS workspace"
    CUBLASLT = "cuBLASLt workspace"
    PASSING = "within an operator"
    SPARED = "more cuDNN workspace than is expected, done without on a full device"
    SCORES = "scores of unfused attention, or their softmax"
    SAVED = "saved by unfused attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSchedule:
    """An event stream whose sizes wait for a batch.

    `events`: `e` >= 0 allocates block e, `~e` frees it; `event_ops` is the op of each, ALWAYS before the first.
    Blocks are the recording's storages, then `workspaces`. `kinds` are the workspaces that differ in size,
    `kind_of_workspace` is the index of each workspace's kind, and `convolutions` sizes those of cuDNN.
    """

    recording: Recording
    constants: NDArray[np.int64]
    per_sample: NDArray[np.int64]
    workspaces: tuple[Workspace, ...]
    kinds: tuple[Workspace, ...]
    kind_of_workspace: NDArray[np.int64]
    convolutions: "CudnnWorkspaces"
    workspace_sizes: "WorkspaceSizes"
    events: tuple[int, ...]
    event_ops: tuple[int, ...]
    _intervals: dict[int, list[Interval]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def purposes(self) -> tuple[Purpose, ...]:
        """Return what each block that is not a storage is for."""
        return tuple(workspace.purpose for workspace in self.workspaces)

    @property
    def optional(self) -> frozenset[int]:
        """Blocks that cuDNN does without on a full device: it then takes an algorithm that needs less."""
        first = len(self.recording.storages)
        return frozenset(
            first + index for index, workspace in enumerate(self.workspaces) if workspace.purpose is Purpose.SPARED
        )

    @property
    def constant_events(self) -> int:
        """Return how many events at the start allocate storages of one size at every batch: weights and buffers."""
        fixed = (self.per_sample == 0).tolist()
        for index, event in enumerate(self.events):
            if not (0 <= event < len(fixed) and fixed[event]):
                return index
        return len(self.events)

    def repeats(self) -> tuple[Repeat, ...]:
        """Return the stretches of the stream that repeat, as the layers of a deep model do."""
        storages, workspaces = len(self.constants), len(self.workspaces)
        kinds = np.zeros((storages + workspaces, 3), dtype=np.int64)
        kinds[:storages, 0], kinds[:storages, 1] = self.constants, self.per_sample
        kinds[storages:, 2] = self.kind_of_workspace + 1
        return find_repeats(event_words(self.events, kinds), self.events, first=self.constant_events)

    def sizes(self, batch: int, end: End) -> list[int]:
        """Return the sizes of all blocks at a batch. [bytes]"""
        check_batch(self.constants, self.per_sample, batch)
        by_kind = self.convolutions.sizes(batch, end)
        single = np.flatnonzero(~self.convolutions.sized).tolist()
        if batch not in self._intervals:
            size = self.workspace_sizes.of
            self._intervals[batch] = [size(self.kinds[index], self.recording, batch) for index in single]
        for index, interval in zip(single, self._intervals[batch], strict=True):
            size_bytes = int(interval.at(end))
            if size_bytes > LARGEST_BYTES:
                raise _too_large(batch)
            by_kind[index] = size_bytes
        storages = self.constants + self.per_sample * batch
        found: list[int] = np.concatenate([storages, by_kind[self.kind_of_workspace]]).tolist()
        return found

    def live_bytes(self, sizes: Sequence[int]) -> int:
        """Return the most that blocks of these sizes take at once, each rounded up to the allocator's unit. [bytes]"""
        rounded = -(-np.array(sizes, dtype=np.int64) // UNIT_BYTES) * UNIT_BYTES
        events = np.array(self.events, dtype=np.int64)
        changes = np.where(events >= 0, rounded[np.maximum(events, 0)], -rounded[np.maximum(~events, 0)])
        return int(np.cumsum(changes).max(initial=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnWorkspaces:
    """What cuDNN takes for all kinds of workspaces at once: affine bytes that are relaid, and shares of those touched.

    `sized` says which kinds these arrays size; the others are sized one by one. The columns of `shares` are the low,
    expected and high end.
    """

    sized: NDArray[np.bool_]
    spared: NDArray[np.bool_]
    relaid: NDArray[np.int64]
    touched: NDArray[np.int64]
    shares: NDArray[np.float64]

    def sizes(self, batch: int, end: End) -> NDArray[np.int64]:
        """Return each kind's size at a batch, 0 for what is not cuDNN's. [bytes]"""
        grown = np.array([1, batch], dtype=np.int64)
        at_ends = (self.relaid @ grown)[:, None] + self.shares * (self.touched @ grown)[:, None]
        low, expected, high = at_ends.T
        passing = {End.LOW: low, End.EXPECTED: expected, End.HIGH: expected}[end]
        spared = high - expected if end is End.HIGH else np.zeros_like(high)
        return np.asarray(np.where(self.spared, spared, passing), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSizes:
    """All that sizes the memory in addition to the storages, except the batch."""

    workload: Workload
    compute_capability: Version | None
    calibration: MemoryCalibration

    @property
    def on_cpu(self) -> bool:
        """Return True where the step runs on a CPU."""
        return self.compute_capability == CPU

    @property
    def origin(self) -> str:
        return self.calibration.cpu_workspaces.origin if self.on_cpu else self.calibration.origin

    def of(self, workspace: Workspace, recording: Recording, batch: int) -> Interval:
        """Size one workspace. [bytes]"""
        kernel = recording.kernels[workspace.kernel]
        release = Release(
            torch_version=self.workload.torch_version, autocast=self.workload.precision.variant is Variant.AMP
        )
        if workspace.purpose in (Purpose.CUBLAS, Purpose.CUBLASLT):
            table = CUBLAS_KEPT if workspace.purpose is Purpose.CUBLAS else CUBLASLT_PASSING
            row = library_workspace(
                table, torch_version=self.workload.torch_version, compute_capability=self.compute_capability
            )
            return row.size_bytes if row else Interval.exact(0)
        if workspace.purpose is Purpose.SAVED:
            return Interval.exact(saved_bytes(kernel, batch=batch, release=release))
        backend = self.backend(kernel, batch)
        scores = unfused_scores_bytes(kernel, batch=batch, backend=backend, release=release)
        if workspace.purpose is Purpose.SCORES:
            return Interval.exact(scores)
        passing = passing_bytes(
            kernel, batch=batch, backend=backend, calibration=self.calibration, release=release, on_cpu=self.on_cpu
        )
        if not takes_cudnn(kernel):
            return passing + Interval.exact(-2 * scores)
        if workspace.purpose is Purpose.PASSING:
            return Interval(low=passing.low, expected=passing.expected, high=passing.expected)
        return Interval(low=0, expected=0, high=passing.high - passing.expected)

    def backend(self, kernel: Kernel, batch: int) -> AttentionBackend | None:
        """Return the attention backend that runs; None for other operators."""
        if not kernel.name.startswith("capplan.attention"):
            return None
        capability = None if self.on_cpu else self.compute_capability
        return attention_backend(kernel, self.workload, batch=batch, compute_capability=capability)


ScheduleKey = tuple[object, ...]


def schedule_key(
    recording: Recording, *, torch_version: Version, compute_capability: Version | None
) -> dict[End, ScheduleKey]:
    """Return what a compute capability decides in a recording's event stream, at each end of the uncertain sizes.

    Devices with equal keys have the same events and the same sizes at every batch.
    """
    rows = [
        library_workspace(table, torch_version=torch_version, compute_capability=compute_capability)
        if any(takes(kernel) for kernel in recording.kernels)
        else None
        for table, takes in ((CUBLAS_KEPT, takes_cublas), (CUBLASLT_PASSING, takes_cublaslt))
    ]
    sizes = [row.size_bytes if row else Interval.exact(0) for row in rows]
    attends = any(kernel.name.startswith("capplan.attention") for kernel in recording.kernels)
    on_cpu = compute_capability == CPU
    backends = capability_class(None if on_cpu else compute_capability) if attends else ()
    return {end: (*(size.at(end) for size in sizes), sizes[1].high > 0, backends, on_cpu) for end in ENDS}


def check_batch(constants: NDArray[np.int64], per_sample: NDArray[np.int64], batch: int) -> None:
    """Refuse a batch whose sizes no 64-bit integer holds."""
    if batch < 1:
        raise UsageError(f"the batch size must be at least 1, not {batch}.")
    # in floats, which cannot overflow; how close to the limit a size is does not matter
    total = float(constants.sum(dtype=np.float64)) + float(np.abs(per_sample).sum(dtype=np.float64)) * batch
    if total > LARGEST_BYTES:
        raise _too_large(batch)


def _too_large(batch: int) -> UsageError:
    return UsageError(f"batch {batch} needs more than 256 TiB, which no device can hold; use a smaller one.")


def build_schedule(recording: Recording, sizes: WorkspaceSizes) -> AllocationSchedule:
    """Lay out the event stream of a recording on devices of one compute capability."""
    storages = recording.storages
    workspaces = tuple(_workspaces(recording, sizes))
    born: dict[int, list[int]] = defaultdict(list)
    dying: dict[int, list[int]] = defaultdict(list)
    passing: dict[int, list[int]] = defaultdict(list)
    for index, storage in enumerate(storages):
        if storage.size_bytes != Affine(0):  # what fused kernels no longer write takes no block
            born[storage.birth].append(index)
            dying[storage.death].append(index)
    for index, workspace in enumerate(workspaces, start=len(storages)):
        if workspace.purpose in (Purpose.PASSING, Purpose.SPARED, Purpose.SCORES, Purpose.CUBLASLT):
            passing[workspace.birth].append(index)
        else:
            born[workspace.birth].append(index)
            dying[workspace.death].append(index)
    events: list[int] = []
    event_ops: list[int] = []
    for op in range(ALWAYS, len(recording.ops)):
        here = [*born[op], *passing[op], *(~index for index in passing[op]), *(~index for index in dying[op])]
        events += here
        event_ops += [op] * len(here)
    kinds, kind_of_workspace = _kinds(workspaces)
    return AllocationSchedule(
        recording=recording,
        constants=np.array([s.size_bytes.constant for s in storages], dtype=np.int64),
        per_sample=np.array([s.size_bytes.per_sample for s in storages], dtype=np.int64),
        workspaces=workspaces,
        kinds=kinds,
        kind_of_workspace=kind_of_workspace,
        convolutions=_cudnn_workspaces(kinds, sizes, recording),
        workspace_sizes=sizes,
        events=tuple(events),
        event_ops=tuple(event_ops),
    )


def _kinds(workspaces: Sequence[Workspace]) -> tuple[tuple[Workspace, ...], NDArray[np.int64]]:
    """Return one workspace of each purpose and kernel, and which of these each workspace is."""
    places: dict[tuple[Purpose, int], int] = {}
    kinds: list[Workspace] = []
    for workspace in workspaces:
        if (workspace.purpose, workspace.kernel) not in places:
            places[workspace.purpose, workspace.kernel] = len(kinds)
            kinds.append(workspace)
    return tuple(kinds), np.array(
        [places[workspace.purpose, workspace.kernel] for workspace in workspaces], dtype=np.int64
    )


def _within_64_bits(size: Affine) -> tuple[int, int]:
    """Limit a sum of sizes to what an array holds; a process of that size is refused before it matters."""
    return min(size.constant, 2**62), min(size.per_sample, 2**62)


def _cudnn_workspaces(kinds: Sequence[Workspace], sizes: WorkspaceSizes, recording: Recording) -> CudnnWorkspaces:
    rows: list[ConvolutionBytes | None] = [
        convolution_bytes(recording.kernels[kind.kernel], calibration=sizes.calibration, on_cpu=sizes.on_cpu)
        if kind.purpose in (Purpose.PASSING, Purpose.SPARED)
        else None
        for kind in kinds
    ]
    nothing = ConvolutionBytes(relaid=Affine(0), touched=Affine(0), share=Interval.exact(0))
    filled = [row or nothing for row in rows]
    return CudnnWorkspaces(
        sized=np.array([row is not None for row in rows], dtype=bool),
        spared=np.array([kind.purpose is Purpose.SPARED for kind in kinds], dtype=bool),
        relaid=np.array([_within_64_bits(row.relaid) for row in filled], dtype=np.int64).reshape(-1, 2),
        touched=np.array([_within_64_bits(row.touched) for row in filled], dtype=np.int64).reshape(-1, 2),
        shares=np.array(
            [(row.share.low, row.share.expected, row.share.high) for row in filled], dtype=np.float64
        ).reshape(-1, 3),
    )


def _workspaces(recording: Recording, sizes: WorkspaceSizes) -> list[Workspace]:
    batch = recording.exact_batch or max(recording.batches)
    workspaces: list[Workspace] = []
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
            workspaces.append(Workspace(purpose=Purpose.CUBLAS, kernel=op.kernel, birth=birth, death=end))
        workspaces += [Workspace(purpose=purpose, kernel=op.kernel, birth=index, death=index) for purpose in purposes]
        if kernel.name == "capplan.attention" and sizes.backend(kernel, batch) is AttentionBackend.MATH:
            users = [backward_by_storage[s] for s in op.writes if s in backward_by_storage]
            later = [user for user in users if user > index]
            if later:
                workspaces.append(Workspace(purpose=Purpose.SAVED, kernel=op.kernel, birth=index, death=max(later)))
    return workspaces


def _traits(kernel: Kernel, sizes: WorkspaceSizes, recording: Recording, batch: int, index: int) -> tuple[Purpose, ...]:
    purposes = [Purpose.CUBLASLT] * takes_cublaslt(kernel)
    own = (Purpose.SCORES, Purpose.SCORES) if kernel.name.startswith("capplan.attention") else ()
    for purpose in (Purpose.PASSING, Purpose.SPARED) if takes_cudnn(kernel) else (*own, Purpose.PASSING):
        probe = Workspace(purpose=purpose, kernel=index, birth=0, death=0)
        if sizes.of(probe, recording, batch).high > 0:
            purposes.append(purpose)
    return tuple(purposes)


def _attention_backwards(recording: Recording) -> dict[int, int]:
    """Return the last attention backward that reads each storage."""
    users: dict[int, int] = {}
    for index, op in enumerate(recording.ops):
        if recording.kernels[op.kernel].name == "capplan.attention_backward":
            users.update(dict.fromkeys(op.reads, index))
    return users


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCurve:
    """Bytes of the storages alive while each op runs: `constants + per_sample · batch`, before any rounding.

    Position 0 is before the first op, position i + 1 during op i.
    """

    constants: NDArray[np.int64]
    per_sample: NDArray[np.int64]

    def at(self, batch: int) -> NDArray[np.int64]:
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
