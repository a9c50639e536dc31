"""Peak GPU memory of a traced model at any batch: allocated, reserved, and what the process takes.

Three peaks, never mixed. *Allocated* is what `torch.cuda.max_memory_allocated` reads: the blocks in use.
*Reserved* is what the caching allocator holds of the device. The *total* adds the CUDA context: what nvidia-smi
shows. The first two come from replaying the allocator over the recording's events, at the low, expected and high
end of what libraries take; storages themselves are exact.

A compiled inference holds what its fused kernels write: tensors inside a kernel are never allocated. Its expected peak
is that, its high end the eager one. A graph replayed from a pool of its own is taken as a share of eager mode, a
compiled training step as in eager mode.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capplan.core.compiled.rewrite import fuse_recording
from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.allocator import ReplayResult
from capplan.core.memory.index_limit import refused_above
from capplan.core.memory.replays import SharedStreams, Stream, StreamReplays
from capplan.core.memory.schedule import (
    AllocationSchedule,
    LiveCurve,
    Purpose,
    ScheduleKey,
    WorkspaceSizes,
    build_schedule,
    live_curve,
    schedule_key,
)
from capplan.core.memory.sharding import rank_parts, rank_recording
from capplan.core.memory.types import PART_NAMES, LiveTensor, MemoryCalibration, MemoryEstimate, MemoryPart
from capplan.core.memory.workspace import CPU
from capplan.core.numbers import ENDS, End, Interval
from capplan.core.ops.analysis import assumed_sizes
from capplan.core.ops.attention import Version
from capplan.core.ops.flops import uncounted
from capplan.core.tensorrt_rewrite import engine_recording
from capplan.core.trace.types import ALWAYS, InputTensor, Recording, Role, Trace
from capplan.core.workload import Framework, Workload
from capplan.errors import UsageError

LARGEST_SHOWN = 10
_PROCESS = MemoryPart(
    name="process",
    size_bytes=Interval(low=0.2e9, expected=0.35e9, high=0.8e9),
    origin="resident memory of Python with torch loaded",
)
_FREED = MemoryPart(name="fragmentation", size_bytes=Interval.exact(0), origin="no caching allocator on a CPU")


@dataclass
class MemoryModel:
    """A trace's memory under one workload: built once, asked for many batches and GPUs.

    Keeps its event streams and replays by what the compute capability decides of them; they go with it.
    """

    trace: Trace
    workload: Workload
    calibration: MemoryCalibration
    expandable_segments: bool = False
    streams: SharedStreams = field(default_factory=SharedStreams)
    _schedules: dict[ScheduleKey, AllocationSchedule] = field(default_factory=dict)
    _replays: dict[tuple[End, ScheduleKey], StreamReplays] = field(default_factory=dict)
    _keys: dict[Version | None, Mapping[End, ScheduleKey]] = field(default_factory=dict)
    _peaks: "dict[tuple[object, ...], tuple[MemoryEstimate, _Live]]" = field(default_factory=dict)
    _largest: "dict[tuple[_Live, int], tuple[LiveTensor, ...]]" = field(default_factory=dict)
    _unlimited: dict[tuple[Version | None, int], Mapping[End, ReplayResult]] = field(default_factory=dict)
    _lives: dict[tuple[Stream, int], "_Live"] = field(default_factory=dict)
    _contexts: dict[Version | None, MemoryPart] = field(default_factory=dict)

    @property
    def traced(self) -> Recording:
        """The recording that answers the workload, as traced: what runs in eager mode."""
        return self.trace.recording(self.workload.configuration)

    @cached_property
    def recording(self) -> Recording:
        """The recording that answers the workload, as its framework runs it."""
        if self.workload.framework.is_engine:
            return engine_recording(self.traced, self.workload)
        if self._fuses:
            return fuse_recording(self.traced, torch_version=self.workload.torch_version)
        return rank_recording(self.traced, gpus=self.workload.gpu_count, sharding=self.workload.sharding)

    @property
    def _fuses(self) -> bool:
        return self.workload.framework is Framework.COMPILE and self.workload.training is None

    @cached_property
    def curve(self) -> LiveCurve:
        """Live bytes of the storages over the ops, as functions of the batch."""
        return live_curve(self.recording)

    @cached_property
    def refused_above(self) -> int | None:
        """The largest batch that no kernel refuses for tensors of 2^31 elements; None where none does at any batch."""
        return refused_above(self.traced, self.workload)

    def schedule(self, gpu: GpuSpec | None) -> AllocationSchedule:
        """Return the event stream on a GPU's compute capability."""
        key = tuple(self._schedule_keys(gpu).values())
        if key not in self._schedules:
            sizes = WorkspaceSizes(
                workload=self.workload, compute_capability=_capability(gpu), calibration=self.calibration
            )
            self._schedules[key] = build_schedule(self.recording, sizes)
        return self._schedules[key]

    def replays(self, gpu: GpuSpec | None, end: End) -> StreamReplays:
        """Return the replays of a GPU's event stream, shared by all GPUs whose streams are the same."""
        key = (end, self._schedule_keys(gpu)[end])
        if key not in self._replays:
            self._replays[key] = StreamReplays(
                schedule=self.schedule(gpu), end=end, expandable_segments=self.expandable_segments, streams=self.streams
            )
        return self._replays[key]

    def _schedule_keys(self, gpu: GpuSpec | None) -> Mapping[End, ScheduleKey]:
        capability = _capability(gpu)
        if capability not in self._keys:
            self._keys[capability] = schedule_key(
                self.recording, torch_version=self.workload.torch_version, compute_capability=capability
            )
        return self._keys[capability]

    def check(self, batch: int) -> None:
        """Refuse a batch that the recording does not cover."""
        exact = self.recording.exact_batch
        if exact is not None and batch != exact:
            raise UsageError(
                f"{self.trace.name} does not grow evenly with the batch, and was traced at batch {exact} alone; "
                f"trace it at batch {batch}: `capplan trace {self.trace.target} --batch {batch} -o FILE`."
            )

    def context(self, gpu: GpuSpec | None) -> MemoryPart:
        """Return the memory that CUDA takes outside the allocator; on a CPU, the process without tensors.

        Where several GPUs train together, what sharing takes is with it: buckets, gathered weights, communication.
        """
        if gpu is not None and gpu.is_cpu:
            return _PROCESS
        capability = _capability(gpu)
        if capability not in self._contexts:
            row = self.calibration.context(capability, torch_version=self.workload.torch_version)
            context = MemoryPart(name="CUDA context", size_bytes=row.size_bytes, origin=row.origin)
            self._contexts[capability] = self._with_sharing(context)
        return self._contexts[capability]

    def _with_sharing(self, context: MemoryPart) -> MemoryPart:
        """Return the context with what sharing among GPUs takes beside what the recording allocates."""
        parts = rank_parts(
            self.trace, self.traced, self.calibration, gpus=self.workload.gpu_count, sharding=self.workload.sharding
        )
        if not parts:
            return context
        return MemoryPart(
            name=context.name,
            size_bytes=sum((part.size_bytes for part in parts), context.size_bytes),
            origin="; ".join([context.origin, *(f"{part.name}: {part.origin}" for part in parts)]),
        )

    def estimate(
        self, *, batch: int, gpu: GpuSpec | None = None, available_bytes: float | None = None
    ) -> MemoryEstimate:
        """Estimate the three peaks at a batch, by part; the process is held to `available_bytes` of the GPU, or
        to all.
        """
        found, live = self._peaks_at(batch, gpu, available_bytes)
        if (live, batch) not in self._largest:
            order = np.lexsort((live.storages, -(live.constants + live.per_sample * batch)))[:LARGEST_SHOWN]
            largest = tuple(self._live_tensor(index, batch) for index in live.storages[order].tolist())
            self._largest[live, batch] = largest
        return replace(
            found,
            usable_bytes=gpu.usable_bytes if gpu else None,
            largest=self._largest[live, batch],
            notes=self._notes(gpu),
        )

    def total_bytes(self, *, batch: int, gpu: GpuSpec | None, available_bytes: float) -> Interval:
        """Return the total of an estimate alone, of which a search for the largest batch asks hundreds. [bytes]"""
        return self._peaks_at(batch, gpu, available_bytes)[0].total_bytes

    def _peaks_at(
        self, batch: int, gpu: GpuSpec | None, available_bytes: float | None
    ) -> "tuple[MemoryEstimate, _Live]":
        """Return the peaks at a batch by part, and the blocks in use at the peak."""
        self.check(batch)
        if available_bytes is None and gpu is not None:
            available_bytes = gpu.expected_usable_bytes
        unlimited = (_capability(gpu), batch)  # as if memory had no end; GPUs of one compute capability share it
        if unlimited not in self._unlimited:
            self._unlimited[unlimited] = {end: self.replays(gpu, end).at(batch) for end in ENDS}
        free = self._unlimited[unlimited]
        ends = free if available_bytes is None else self._within(free, batch, gpu, available_bytes)
        # The peaks by part, made once for all GPUs whose event streams and replays are the same.
        expected = self.replays(gpu, End.EXPECTED)
        key = (expected.stream, expected.sizes_name(batch), batch, *ends.values())
        if key not in self._peaks:
            self._peaks[key] = self._peaks_of(batch, gpu, ends)
        found, live = self._peaks[key]
        lost = _FREED if gpu is not None and gpu.is_cpu else found.fragmentation
        return replace(found, fragmentation=lost, context=self.context(gpu)), live

    def _peaks_of(
        self, batch: int, gpu: GpuSpec | None, ends: Mapping[End, ReplayResult]
    ) -> "tuple[MemoryEstimate, _Live]":
        """Lay out the peaks by part, for any GPU with this event stream; the context is of this one."""
        expected = ends[End.EXPECTED]
        schedule = self.schedule(gpu)
        # What is in use after an event; cached, because many batches peak at the same one.
        key = (self.replays(gpu, End.EXPECTED).stream, expected.peak_event)
        if key not in self._lives:
            self._lives[key] = _live_at(schedule, expected.peak_event)
        live = self._lives[key]
        op = schedule.event_ops[expected.peak_event]
        by_end = {end: result.peak_reserved_bytes - result.peak_allocated_bytes for end, result in ends.items()}
        fragmentation = MemoryPart(
            name="fragmentation",
            size_bytes=Interval(low=min(by_end.values()), expected=by_end[End.EXPECTED], high=max(by_end.values())),
            origin="allocator replay",
        )
        found = MemoryEstimate(
            batch=batch,
            parts=_parts(schedule, live, batch, ends, self._activation_shares(batch)),
            fragmentation=fragmentation,
            context=self.context(gpu),
            usable_bytes=None,
            peak_op="before the first operator"
            if op == ALWAYS
            else self.recording.kernels[self.recording.ops[op].kernel].name,
            peak_module="" if op == ALWAYS else self.recording.modules[self.recording.ops[op].module],
        )
        return found, live

    def _within(
        self, free: Mapping[End, ReplayResult], batch: int, gpu: GpuSpec | None, available_bytes: float
    ) -> Mapping[End, ReplayResult]:
        """Replay within a limit what overfills it: cached segments are then given back."""
        context = self.context(gpu).size_bytes
        smallest = capacity_for_allocator(available_bytes, context, End.HIGH)
        if max(replay.peak_reserved_bytes for replay in free.values()) <= smallest:
            return free
        return {
            end: self._end_within(free[end], batch, gpu, end, capacity_for_allocator(available_bytes, context, end))
            for end in ENDS
        }

    def _end_within(
        self, free: ReplayResult, batch: int, gpu: GpuSpec | None, end: End, capacity_bytes: int
    ) -> ReplayResult:
        if free.peak_allocated_bytes > capacity_bytes or free.peak_reserved_bytes <= capacity_bytes:
            return free
        limited = self.replays(gpu, end).at(batch, capacity_bytes)
        return free if limited.failed_event is not None else limited

    def _live_tensor(self, index: int, batch: int) -> LiveTensor:
        storage = self.recording.storages[index]
        size = storage.size_bytes.at(batch)
        if storage.parameter is not None:
            parameter = self.trace.parameters[storage.parameter]
            return LiveTensor(label=parameter.names[0], shape=parameter.shape, dtype=parameter.dtype, size_bytes=size)
        if storage.role is Role.INPUT and (found := self._inputs.get(index)) is not None:
            return LiveTensor(
                label=found.name, shape=tuple(dim.at(batch) for dim in found.shape), dtype=found.dtype, size_bytes=size
            )
        if storage.birth == ALWAYS:
            return LiveTensor(label=storage.role.value, shape=(), dtype="", size_bytes=size)
        op = self.recording.ops[storage.birth]
        kernel = self.recording.kernels[op.kernel]
        label = f"{kernel.name} {self.recording.modules[op.module]}".strip()
        if index in op.writes:
            made = kernel.outputs[op.writes.index(index)]
            return LiveTensor(label=label, shape=made.shape_at(batch), dtype=made.dtype, size_bytes=size)
        return LiveTensor(label=label, shape=(), dtype="", size_bytes=size)

    @cached_property
    def _inputs(self) -> Mapping[int, InputTensor]:
        """The inputs that storages hold; none if inputs share storages or the tracer made them."""
        found = [index for index, storage in enumerate(self.recording.storages) if storage.role is Role.INPUT]
        is_matched = len(found) == len(self.trace.inputs)
        return dict(zip(found, self.trace.inputs, strict=True)) if is_matched else {}

    def _activation_shares(self, batch: int) -> Interval:
        """Return activations over the recorded ones: exact unless values were assumed or the graph is compiled."""
        spread = self.calibration.uncertain_fraction if self._uncertainties else 0.0
        kept = self.calibration.least_kept_fraction if self.recording.assumed_values else 1 - spread
        if any(value.share is not None and value.share < 1 for value in self.recording.assumed_values):
            factor = self.calibration.assumed_share_factor
            kept, spread = 1 / factor, factor - 1
        least = most = 1.0
        if self.workload.framework not in (Framework.EAGER, Framework.TENSORRT, Framework.ONNXRUNTIME):
            # What eager mode holds at its peak beyond weights and inputs, against what is held here.
            held = int(self.curve.at(batch)[0])
            own = self.curve.peak_bytes(batch) - held
            eager_activations = (live_curve(self.traced).peak_bytes(batch) - held) / own if own > 0 else 1.0
            most = max(1.0, eager_activations)
            least = min(1.0, self.calibration.compiled_fraction * most)
        is_pooled = self.workload.framework is Framework.COMPILE_GRAPHS and self.workload.training is None
        expected = self.calibration.graph_pool_fraction if is_pooled else 1.0
        return Interval(low=min(expected, least * kept), expected=expected, high=most * (1 + spread))

    @cached_property
    def _uncertainties(self) -> tuple[str, ...]:
        """What makes activations uncertain on any GPU and at any batch."""
        whole, unknown = assumed_sizes(self.recording), uncounted(self.traced)
        unsized = f"what these operators take besides their outputs is not known: {', '.join(unknown)}"
        return (*([whole] if whole else []), *([unsized] if unknown else []))

    def _notes(self, gpu: GpuSpec | None) -> tuple[str, ...]:
        notes = list(self._uncertainties)
        if self.workload.framework.is_engine:
            notes.append(
                "weights and activations as the engine's kernels leave them; workspaces and context as PyTorch's"
            )
        elif self.workload.framework is not Framework.EAGER:
            notes.append(
                "activations as fused kernels leave them; the high end is eager mode's"
                if self._fuses
                else "activations as a share of eager mode's, from readings of graphs with pools of their own"
                if self.workload.framework is Framework.COMPILE_GRAPHS and self.workload.training is None
                else "activations as in eager mode; compiling keeps fewer, down to the low end"
            )
        if gpu is not None and gpu.is_cpu:
            notes.append("memory of the process on the host: freed tensors go back to the system")
            return tuple(notes)
        if gpu is not None and gpu.vendor != "NVIDIA":
            notes.append(
                f"workspaces and context of {gpu.name} are taken as CUDA's: nothing was measured for {gpu.vendor}"
            )
        if gpu is not None and gpu.usable_bytes is None:
            notes.append(f"nobody published what {gpu.name} leaves usable; the share of cards of its kind is taken")
        return tuple(notes)


def _capability(gpu: GpuSpec | None) -> Version | None:
    """Return what decides a device's workspaces: its compute capability, or that it is a CPU."""
    if gpu is not None and gpu.is_cpu:
        return CPU
    return gpu.compute_capability if gpu else None


def capacity_for_allocator(available_bytes: float, context_bytes: Interval, end: End) -> int:
    """Return the memory of a device that the context leaves to the caching allocator. [bytes]"""
    return max(0, int(available_bytes - context_bytes.at(end)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Live:
    """The blocks in use after one event: storages with their sizes as functions of the batch, and others by purpose.

    `roles` holds the sum of the sizes of each role's storages, constant and per sample. [bytes]
    """

    storages: NDArray[np.int64]
    constants: NDArray[np.int64]
    per_sample: NDArray[np.int64]
    roles: Mapping[Role, tuple[int, int]]
    saved: tuple[int, ...]
    passing: tuple[int, ...]


def _live_at(schedule: AllocationSchedule, event: int) -> _Live:
    live: dict[int, None] = {}
    for storage in schedule.events[: event + 1]:
        if storage >= 0:
            live[storage] = None
        else:
            live.pop(~storage, None)
    first = len(schedule.recording.storages)
    own = np.array([index for index in live if index < first], dtype=np.int64)
    beside = [index for index in live if index >= first]
    constants, per_sample = schedule.constants[own], schedule.per_sample[own]
    roles = [schedule.recording.storages[index].role for index in own.tolist()]
    by_role = {role: np.array([held is role for held in roles], dtype=bool) for role in PART_NAMES}
    is_saved = {index: schedule.workspaces[index - first].purpose is Purpose.SAVED for index in beside}
    return _Live(
        storages=own,
        constants=constants,
        per_sample=per_sample,
        roles={role: (int(constants[here].sum()), int(per_sample[here].sum())) for role, here in by_role.items()},
        saved=tuple(index for index in beside if is_saved[index]),
        passing=tuple(index for index in beside if not is_saved[index]),
    )


def _parts(
    schedule: AllocationSchedule, live: _Live, batch: int, ends: Mapping[End, ReplayResult], activations: Interval
) -> tuple[MemoryPart, ...]:
    sizes = schedule.sizes(batch, End.EXPECTED)
    by_role = {role: constant + per_sample * batch for role, (constant, per_sample) in live.roles.items()}
    by_role[Role.ACTIVATION] += sum(sizes[index] for index in live.saved)
    exact = sum(by_role.values())
    workspace = sum(sizes[index] for index in live.passing)
    peak = ends[End.EXPECTED].peak_allocated_bytes
    rounding = peak - exact - workspace
    low = min(workspace, max(0, ends[End.LOW].peak_allocated_bytes - exact - rounding))
    high = max(workspace, ends[End.HIGH].peak_allocated_bytes - exact - rounding)
    parts = [
        MemoryPart(
            name=PART_NAMES[role],
            size_bytes=activations * size if role is Role.ACTIVATION else Interval.exact(size),
            origin="trace",
        )
        for role, size in by_role.items()
    ]
    parts.append(
        MemoryPart(
            name="library workspaces",
            size_bytes=Interval(low=low, expected=workspace, high=high),
            origin=schedule.workspace_sizes.origin,
        )
    )
    parts.append(MemoryPart(name="block rounding", size_bytes=Interval.exact(rounding), origin="allocator replay"))
    return tuple(part for part in parts if part.size_bytes.high > 0)
