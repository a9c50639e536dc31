"""The options that the Python verbs take by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from torch import nn

    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.trace.types import Trace
    from capplan.specs import Gpus

    ModelLike = str | nn.Module | Trace
    GpusLike = Gpus | Iterable[GpuSpec | str]


class ModelOptions(TypedDict, total=False):
    """A model's arguments and inputs."""

    arguments: Mapping[str, Any]
    inputs: Sequence[str] | Callable[[int], Any]
    input_size: Sequence[int]
    seq_len: int
    weights: str
    activations: str
    selected_share: float


class MeasureOptions(ModelOptions, total=False):
    """How a model is timed: conditions, rules, limits of memory [bytes], file of points, comparison with theory."""

    device: str
    precision: str
    framework: str
    layout: str
    warm_up_runs: int
    repetitions: int
    budget_s: float
    flush_l2: bool
    autotune: bool
    max_batch: int
    memory_limit_bytes: int
    isolate: bool
    timeout_s: float
    lines: Path
    resume: bool
    profile: Path
    gpu: "GpuSpec | str"
    specs: Sequence[Path]
    calibration: Path


class SweepOptions(TypedDict, total=False):
    """Options of `sweep`."""

    workers: int | None
    ray: str | None
    time_limit_s: float
    memory_limit_bytes: int | None
    specs: Sequence[Path]
    measure: bool
    allow_code: bool
    retry_failed: bool
    force: bool
