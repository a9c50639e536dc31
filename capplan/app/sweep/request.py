"""What a sweep is asked for, and its parts with all names looked up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capplan.app.pipelines.diffusers import names_pipeline
from capplan.core.gpus.prices import Price
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.memory.types import MemoryCalibration
from capplan.core.power import PowerLaw
from capplan.core.sweep.definition import NO_OPTIONS, AnyConditions, Definition, PipelineEntry, ServingConditions
from capplan.llm.core.engines import LlmMemoryConstants
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.probe.inputs.grammar import ModelRequest

DEFAULT_TIME_LIMIT_S = 600.0
LLM_PREFIX = "llm:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """What one model may take: time to trace it [s], and memory of the process that works on it [bytes]."""

    time_s: float = DEFAULT_TIME_LIMIT_S
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringRules:
    """How points are timed: seconds of repetitions for each, and when a point that hangs is ended. [s]"""

    budget_s: float = 10.0
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """A request for a sweep.

    `file` names the file that `definition` was read from, None for one made in Python. `workers` is the number of
    processes on this machine, None for one a core. `ray` is the address of a cluster or "auto". `force` replaces a
    folder that holds another sweep. `retry_failed` computes failed models again. `measure` times every point on
    the devices of the sweep's GPUs. `allow_code` imports models that a file or a list names as code; what is written
    in Python is the caller's own.
    """

    definition: Definition
    output: Path
    file: Path | None = None
    specs: tuple[Path, ...] = ()
    workers: int | None = None
    limits: ModelLimits = field(default_factory=ModelLimits)
    ray: str | None = None
    force: bool = False
    retry_failed: bool = False
    measure: bool = False
    allow_code: bool = False
    measuring: MeasuringRules = field(default_factory=MeasuringRules)
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmContext:
    """What estimates of served language models rest on."""

    times: LlmCalibration
    memory: LlmMemoryConstants


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepContext:
    """What every planning task needs, sent to each worker once. `llm` is None where nothing is served, `power_law`
    where no energy is asked for.
    """

    gpus: Mapping[str, GpuSpec]
    workloads: Mapping[str, AnyConditions]
    calibration: Calibration
    memory_calibration: MemoryCalibration
    llm: LlmContext | None = None
    power_law: PowerLaw | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepModel:
    """A model of the sweep: what its rows call it, how it is opened, and what is stated of a pipeline.

    `unknown` is the reason why its name stands for no model; None where it stands for one. The rows of an unknown
    model are failures with that reason.
    """

    label: str
    request: ModelRequest
    pipeline: PipelineEntry = NO_OPTIONS
    unknown: str | None = None

    @property
    def is_served(self) -> bool:
        """Return True for a language model to be served, named `llm:NAME`."""
        return self.request.words.startswith(LLM_PREFIX)

    @property
    def is_pipeline(self) -> bool:
        """Return True for a pipeline, whose parts are traced where it is planned."""
        return names_pipeline(self.request.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep with every name looked up. `rents` are the lowest on-demand prices by GPU."""

    models: tuple[SweepModel, ...]
    context: SweepContext
    rents: Mapping[str, Price]
    notes: tuple[str, ...] = ()

    @property
    def gpu_ids(self) -> tuple[str, ...]:
        return tuple(self.context.gpus)

    def workloads_of(self, model: SweepModel) -> tuple[str, ...]:
        """Return the workloads that are asked of a model: serving of language models, all others of all others."""
        return tuple(
            name
            for name, conditions in self.context.workloads.items()
            if isinstance(conditions, ServingConditions) == model.is_served
        )
