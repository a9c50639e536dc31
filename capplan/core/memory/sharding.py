"""Memory of one of several GPUs: replicas, ZeRO stages and FSDP, each by what a rank holds.

A replica holds all. ZeRO-1 spreads the optimizer states over the ranks, ZeRO-2 the gradients too, ZeRO-3 and FSDP
the weights as well (Rajbhandari et al. 2020, ZeRO: Memory Optimizations Toward Training Trillion Parameter Models).
Activations, inputs and buffers stay whole: the batch is that of one GPU. The peak is the largest sum over the ops, so
that it may stand elsewhere than on one GPU.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.memory.types import PART_NAMES, MemoryCalibration, MemoryEstimate, MemoryPart
from capplan.core.numbers import Interval
from capplan.core.trace.types import Affine, Recording, Role, Storage, Trace
from capplan.core.workload import ModelSharding
from capplan.errors import UsageError

_SPREAD: Mapping[ModelSharding, frozenset[Role]] = {
    ModelSharding.REPLICAS: frozenset(),
    ModelSharding.DDP: frozenset(),
    ModelSharding.ZERO1: frozenset({Role.OPTIMIZER}),
    ModelSharding.ZERO2: frozenset({Role.OPTIMIZER, Role.GRADIENT}),
    ModelSharding.ZERO3: frozenset({Role.OPTIMIZER, Role.GRADIENT, Role.PARAMETER}),
    ModelSharding.FSDP: frozenset({Role.OPTIMIZER, Role.GRADIENT, Role.PARAMETER}),
}
_GATHERED_UNITS = 2
"""Units of weights that are whole at once: the one that runs, and the next, fetched meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """What one GPU of several holds at the peak of its own work; `batch` is each GPU's own."""

    sharding: ModelSharding
    gpus: int
    batch: int
    parts: tuple[MemoryPart, ...]

    @property
    def total_bytes(self) -> Interval:
        """Return what nvidia-smi would show for one rank's process. [bytes]"""
        return sum((part.size_bytes for part in self.parts), Interval.exact(0))


def rank_recording(recording: Recording, *, gpus: int, sharding: ModelSharding) -> Recording:
    """Return a recording as one of several GPUs allocates it: what they spread among them in shares, rounded up."""
    spread = _SPREAD[sharding]
    if gpus == 1 or not spread:
        return recording
    of_optimizer = _optimizer_ops(recording) if Role.OPTIMIZER in spread else frozenset()

    def share(storage: Storage) -> Storage:
        is_temporary = storage.role is Role.ACTIVATION and storage.birth in of_optimizer
        if storage.role not in spread and not is_temporary:
            return storage
        size = storage.size_bytes
        return replace(storage, size_bytes=Affine(-(-size.constant // gpus), -(-size.per_sample // gpus)))

    return replace(recording, storages=tuple(map(share, recording.storages)))


def rank_memory(
    alone: MemoryEstimate,
    trace: Trace,
    recording: Recording,
    calibration: MemoryCalibration,
    *,
    gpus: int,
    sharding: ModelSharding,
) -> RankMemory:
    """Return what each of several GPUs holds, every one with its own batch."""
    if gpus < 1:
        raise UsageError(f"the number of GPUs must be at least 1, not {gpus}.")
    if recording.configuration.training is None and sharding not in (ModelSharding.REPLICAS, ModelSharding.FSDP):
        raise UsageError(f"{sharding} spreads what training keeps; inference takes replicas or fsdp, or add ⟨train⟩.")
    held = _held_at_peak(rank_recording(recording, gpus=gpus, sharding=sharding), batch=alone.batch)
    parts = [
        MemoryPart(name=PART_NAMES[role], size_bytes=Interval.exact(size), origin=_origin(role, sharding, gpus))
        for role, size in held.items()
        if size
    ]
    parts += rank_parts(trace, recording, calibration, gpus=gpus, sharding=sharding)
    parts += [part for part in alone.parts if part.name in ("library workspaces", "block rounding")]
    parts += [alone.fragmentation, alone.context]
    return RankMemory(sharding=sharding, gpus=gpus, batch=alone.batch, parts=tuple(parts))


def _origin(role: Role, sharding: ModelSharding, gpus: int) -> str:
    return f"trace, over {gpus} GPUs" if role in _SPREAD[sharding] else "trace"


def _held_at_peak(recording: Recording, *, batch: int) -> dict[Role, int]:
    """Return bytes by role at the op where a rank holds most."""
    length = len(recording.ops) + 2
    by_role = {role: np.zeros(length, dtype=np.int64) for role in PART_NAMES}
    for storage in recording.storages:
        size = storage.size_bytes.at(batch)
        by_role[storage.role][storage.birth + 1] += size
        by_role[storage.role][min(storage.death + 2, length - 1)] -= size
    curves = {role: np.cumsum(changes)[:-1] for role, changes in by_role.items()}
    peak = int(np.argmax(np.sum(list(curves.values()), axis=0)))
    return {role: int(curve[peak]) for role, curve in curves.items()}


def _optimizer_ops(recording: Recording) -> frozenset[int]:
    if not recording.phases:  # inference has none
        return frozenset()
    ends = [phase.first_op for phase in recording.phases[1:]] + [len(recording.ops)]
    return frozenset(
        op
        for phase, end in zip(recording.phases, ends, strict=True)
        if phase.name == "optimizer"
        for op in range(phase.first_op, end)
    )


def rank_parts(
    trace: Trace, recording: Recording, calibration: MemoryCalibration, *, gpus: int, sharding: ModelSharding
) -> list[MemoryPart]:
    """Return what distribution itself takes: gradient buckets, gathered weights, communication buffers."""
    if gpus == 1 or sharding is ModelSharding.REPLICAS:
        return []
    parts = []
    gradients = sum(storage.size_bytes.at(1) for storage in recording.storages if storage.role is Role.GRADIENT)
    steps = max((phase.step for phase in recording.phases), default=1)
    if sharding in (ModelSharding.DDP, ModelSharding.ZERO1):
        # DistributedDataParallel copies gradients into buckets of the same total size
        size = Interval(low=0, expected=gradients / steps, high=gradients / steps)
        parts.append(
            MemoryPart(name="gradient buckets", size_bytes=size, origin="DDP's default; none with bucket views")
        )
    if Role.PARAMETER in _SPREAD[sharding]:
        unit = largest_unit_bytes(trace, recording)
        whole = Interval(low=unit, expected=_GATHERED_UNITS * unit, high=(_GATHERED_UNITS + 1) * unit)
        parts.append(MemoryPart(name="gathered weights", size_bytes=whole, origin="the largest block, and the next"))
    communication = calibration.communication
    parts.append(MemoryPart(name="communication", size_bytes=communication.size_bytes, origin=communication.origin))
    return parts


def largest_unit_bytes(trace: Trace, recording: Recording) -> int:
    """Return the size of the largest block to be wrapped: a numbered child, else a top-level module. [bytes]"""
    units: dict[str, int] = defaultdict(int)
    for storage in recording.storages:
        if storage.role is Role.PARAMETER and storage.parameter is not None:
            words = trace.parameters[storage.parameter].names[0].split(".")
            last = max((index for index, word in enumerate(words[:3]) if word.isdecimal()), default=0)
            units[".".join(words[: last + 1])] += storage.size_bytes.constant
    return max(units.values(), default=0)


MOST_GPUS = 4096
"""Models are not spread over more GPUs than this here."""


def gpus_to_shard(alone: MemoryEstimate, *, available_bytes: float) -> int | None:
    """Return the fewest GPUs over which weights, gradients and optimizer states must be spread; None for too many.

    Activations, inputs, workspaces and context stay whole on each.
    """
    spread = {PART_NAMES[role] for role in _SPREAD[ModelSharding.FSDP]}
    shared = sum(part.size_bytes.low for part in alone.parts if part.name in spread)
    room = available_bytes - (alone.total_bytes.low - shared)
    if room <= 0:
        return None
    gpus = max(1, math.ceil(shared / room))
    return gpus if gpus <= MOST_GPUS else None
