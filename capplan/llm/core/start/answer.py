"""Answer how long a replica takes to start, part by part, each with its interval and where it is from.

An engine starts in parts that follow one another: its processes, the weights, the compiler, a profiling run, and the
capture of CUDA graphs. The compiler and the capture walk through the layers, so that their times grow with these; the
weights go by bytes. Constants and spreads are fitted to public start-up logs (`benchmarks/llm_start.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import exp

from capplan.core.numbers import NORMAL_90, Interval
from capplan.core.origin import Origin
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.weights import EngineLayout, stage_weights


class StartPart(StrEnum):
    """One part of a start, in the order in which they come."""

    PROVISIONING = "provisioning"
    IMAGE = "image pull"
    PROCESS = "processes"
    STORAGE = "weights from storage"
    LOAD = "weights into the GPU"
    COMPILE = "compile"
    WARM_UP = "warm-up"
    CAPTURE = "graph capture"
    WAKE = "wake"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeLaw:
    """How long an engine takes to wake: a fixed time, and that of its weights at a published rate. [s, bytes/s]"""

    fixed_s: float
    bytes_per_s: Interval
    source: str

    def time_s(self, weight_bytes: float) -> Interval:
        return Interval.exact(self.fixed_s) + weight_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLaw:
    """A time that grows with the layers of a model. [s]

    `per_layer_s` is that of a layer, `per_expert_layer_s` what a mixture of experts adds to each, and `shared_s` what
    several GPUs add.
    """

    fixed_s: float
    per_layer_s: float
    per_expert_layer_s: float
    shared_s: float

    def time_s(self, size: "StartSize") -> float:
        """Return the time for a model, which is never below 0. [s]"""
        layers = size.layers * (self.per_layer_s + (self.per_expert_layer_s if size.has_experts else 0.0))
        return max(0.0, self.fixed_s + layers + (self.shared_s if size.tensor > 1 else 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLaw:
    """The time of capturing CUDA graphs: of each layer in each graph, on one GPU or shared by several. [s]"""

    fixed_s: float
    alone_s: float
    shared_s: float
    expert_s: float

    def time_s(self, size: "StartSize") -> float:
        each = (self.shared_s if size.tensor > 1 else self.alone_s) + (self.expert_s if size.has_experts else 0.0)
        return self.fixed_s + size.layers * size.graphs * each


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLaw:
    """The time that weights in host memory take into the GPUs: seconds of one gigabyte, and the power of the size."""

    gigabyte_s: float
    power: float

    def time_s(self, weight_bytes: float) -> float:
        return float(self.gigabyte_s * (weight_bytes / 1e9) ** self.power)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSize:
    """What of a replica decides how long its engine starts.

    `weight_bytes` are the weights of the whole replica, `tensor` the GPUs that share them, `graphs` the batch sizes for
    which CUDA graphs are captured. `is_compiled` says that the compiler's cache holds the model from an earlier start.
    """

    weight_bytes: float
    layers: int
    has_experts: bool
    tensor: int
    graphs: int
    is_compiled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLaw:
    """The fitted law of one engine's start.

    `logs` says in a sentence what logs it is fitted to, `graphs` for how many batch sizes the engine captures CUDA
    graphs where nothing is stated. `process_s` is the time of its processes on one GPU, `shared_process_s` on several.
    `compile_cold` holds for the first start, `compile_warm` for later ones with the compiler's cache. `spreads` are
    standard deviations of the logarithm of measured ÷ predicted over models that the fit had not seen, by part.
    """

    engine: str
    logs: str
    graphs: int
    process_s: float
    shared_process_s: float
    load: LoadLaw
    compile_cold: LayerLaw
    compile_warm: LayerLaw
    warm_up_cold: LayerLaw
    warm_up_warm: LayerLaw
    capture: CaptureLaw
    spreads: Mapping[str, float]
    origin: Origin

    def times_s(self, size: StartSize) -> dict[StartPart, float]:
        """Return the expected time of each part of the engine's start, weights read from host memory. [s]"""
        compiling, warming = (
            (self.compile_warm, self.warm_up_warm) if size.is_compiled else (self.compile_cold, self.warm_up_cold)
        )
        return {
            StartPart.PROCESS: self.shared_process_s if size.tensor > 1 else self.process_s,
            StartPart.LOAD: self.load.time_s(size.weight_bytes),
            StartPart.COMPILE: compiling.time_s(size),
            StartPart.WARM_UP: warming.time_s(size),
            StartPart.CAPTURE: self.capture.time_s(size),
        }

    def around(self, part: StartPart, time_s: float) -> Interval:
        """Return a time with what nine of ten logs lie within. [s]"""
        return Interval.around(time_s, exp(NORMAL_90 * self.spreads[part.value]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPart:
    """The time of one part, what kind of figure it is, and its source. [s]"""

    part: StartPart
    time_s: Interval
    kind: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What stands around an engine that starts.

    `storage_bytes_per_s` is the rate at which the weights arrive, None where they lie in host memory. A new machine is
    there after `provision_s`, and then pulls `image_bytes` at `image_bytes_per_s`; None where the machine stands and
    has the image. `is_eager` leaves out the compiler and the graphs; an engine that wakes by `wake` has them already.
    """

    storage_bytes_per_s: float | None = None
    provision_s: Interval | None = None
    image_bytes: float = 0.0
    image_bytes_per_s: Interval | None = None
    is_eager: bool = False
    wake: WakeLaw | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAnswer:
    """The parts of a start in their order.

    `spread` is the standard deviation of the logarithm of a whole start ÷ what is expected of it.
    """

    model: str
    gpu: str
    engine: str
    gpus: int
    size: StartSize
    parts: tuple[TimedPart, ...]
    spread: float
    notes: tuple[str, ...] = ()

    @property
    def engine_s(self) -> float:
        """Return the expected time from the engine's first process to its first answer. [s]"""
        return sum(part.time_s.expected for part in self.parts if part.part not in _OUTSIDE)

    @property
    def whole_s(self) -> Interval:
        """Return the time of the whole start: the engine's by its own spread, that of machine and image added. [s]"""
        # The time of the machine and its image, and of an engine that wakes. [s]
        outside_s = sum(
            (part.time_s for part in self.parts if part.part in _OUTSIDE), start=Interval(low=0, expected=0, high=0)
        )
        return outside_s + Interval.around(self.engine_s, exp(NORMAL_90 * self.spread))


_OUTSIDE = frozenset({StartPart.PROVISIONING, StartPart.IMAGE, StartPart.WAKE})
_LOGS = "public start-up logs"


def weight_bytes_of(model: LanguageModel, quantisation: Quantisation) -> float:
    """Return the bytes of a model's weights, of the file's header where they are known and the format is its own."""
    if model.exact_bytes is not None and quantisation == model.own_quantisation:
        return float(model.exact_bytes)
    layout = EngineLayout()
    return stage_weights(model.architecture, quantisation=quantisation, sharding=Sharding(), layout=layout).total


def start_parts(law: StartLaw, size: StartSize, around: Surroundings) -> tuple[TimedPart, ...]:
    """Return the parts of a start.

    Engines map the file and copy what they read, so that reading and copying overlap: storage takes bytes ÷ rate, and
    the GPU only what copying takes longer.
    """
    left_out = {StartPart.COMPILE, StartPart.CAPTURE} if around.is_eager else set()
    parts = list(_machine_parts(around))
    if around.wake is not None:
        woken_s = around.wake.time_s(size.weight_bytes)
        return (*parts, TimedPart(part=StartPart.WAKE, time_s=woken_s, kind="bytes ÷ rate", source=around.wake.source))
    times = law.times_s(size)
    for part in (StartPart.PROCESS, StartPart.LOAD, StartPart.COMPILE, StartPart.WARM_UP, StartPart.CAPTURE):
        time_s = times[part]
        if part in left_out or time_s == 0.0:  # an engine has no such part
            continue
        if part is StartPart.LOAD and around.storage_bytes_per_s is not None:
            reading_s = size.weight_bytes / around.storage_bytes_per_s
            exact, kind, source = Interval.exact(reading_s), "bytes ÷ rate", "the rate you state"
            parts.append(TimedPart(part=StartPart.STORAGE, time_s=exact, kind=kind, source=source))
            if (time_s := time_s - reading_s) <= 0:
                continue
        parts.append(TimedPart(part=part, time_s=law.around(part, time_s), kind="estimate", source=_LOGS))
    return tuple(parts)


def _machine_parts(around: Surroundings) -> Iterator[TimedPart]:
    """Yield the times of a new machine and its image; none where the machine stands."""
    if around.provision_s is not None:
        source = "the time you state"
        yield TimedPart(part=StartPart.PROVISIONING, time_s=around.provision_s, kind="stated", source=source)
    if around.image_bytes and around.image_bytes_per_s is not None:
        pulled = around.image_bytes / around.image_bytes_per_s
        source = "published pulls of such images"
        yield TimedPart(part=StartPart.IMAGE, time_s=pulled, kind="bytes ÷ rate", source=source)
