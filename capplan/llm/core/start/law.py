"""The law of a start: how long an engine needs until it answers, by the model's size, layers and GPUs.

An engine starts in parts that follow one another: its processes, the weights, the compiler, a profiling run, and the
capture of CUDA graphs. The compiler and the capture walk through the layers, so that their times grow with these; the
weights go by bytes. Constants and spreads are fitted to public start-up logs (`benchmarks/llm_start.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import exp

from capplan.core.numbers import NORMAL_90, Interval
from capplan.core.origin import Origin


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
