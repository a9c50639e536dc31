"""The memory of a pipeline: at each moment, with its weights in each place, on each GPU."""

from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.types import FitStatus, MemoryEstimate
from capplan.core.pipelines.types import Offload
from capplan.core.plan.types import PipelineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineMoment:
    """The memory of the process while a part runs; None of a part that never does."""

    part: str
    memory: MemoryEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineMemoryOn:
    """A pipeline's memory with its weights in one place, on one GPU, or on an unknown one.

    `status` and `available_bytes` are None without a GPU; `max_batch` is then None, too.
    """

    gpu: GpuSpec | None
    offload: Offload
    worst: MemoryEstimate
    moments: tuple[PipelineMoment, ...]
    available_bytes: float | None = None
    status: FitStatus | None = None
    max_batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineMemory:
    """The memory of a batch of a pipeline's items, for each GPU and each place of waiting weights."""

    name: str
    batch: int
    facts: PipelineFacts
    places: tuple[PipelineMemoryOn, ...]
