"""What was fitted of whole pipelines: factors on groups of kernels, what sharing a sequence costs, and the errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.origin import Origin

ATTENTION, PRODUCTS, CONVOLUTIONS, OTHERS = "attention", "products", "convolutions", "others"
GROUPS = (ATTENTION, PRODUCTS, CONVOLUTIONS, OTHERS)
"""Groups of kernels whose times a calibration of pipelines corrects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceLaws:
    """What several GPUs that share a sequence spend beside their part of the work.

    Attributes:
        ulysses_share: the share of a link that all-to-all exchanges of queries, keys, values and results reach.
        ring_share: the same of the exchange of keys and values around a ring, where it is not hidden.
        ulysses_host_s: what a host spends on an attention layer's all-to-alls. [s]
        ring_host_s: what it spends on a step of the ring. [s]
        layer_host_s: what the engine's own layers add to a host's time of each attention layer. [s]
    """

    ulysses_share: float = 0.5
    ring_share: float = 0.5
    ulysses_host_s: float = 1e-4
    ring_host_s: float = 1e-4
    layer_host_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineWidth:
    """How far a measured pipeline may lie from its estimate, in logs: 90 % half-widths of what was held out.

    Attributes:
        models: of whole models, on a GPU with measured pipelines.
        gpus: of whole GPUs, added in square on one without.
        shared: of models whose sequence several GPUs share.
        unlike: of whole models on a GPU of another kind of chip than those with measured pipelines: at least so much.
            `benchmarks/stable_diffusion.py` measures it.
    """

    models: float = 0.35
    gpus: float = 0.35
    shared: float = 0.5
    unlike: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFactors:
    """Factors on the time of groups of kernels on a GPU, and its compute capability, which tells its kind of chip."""

    capability: tuple[int, int]
    by_group: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCalibration:
    """What remains of measured pipelines once their kernels are estimated one by one.

    Attributes:
        name: what intervals are attributed to.
        gpus: factors on the time of groups of kernels on GPUs with measured pipelines, by id.
        host: a factor on the host's time.
        sequence: what sharing a sequence costs.
        width: how far estimates may lie off.
        origin: what it was made from; None where nothing was fitted.
    """

    name: str = "none"
    gpus: Mapping[str, GroupFactors] = field(default_factory=dict)
    host: float = 1.0
    sequence: SequenceLaws = field(default_factory=SequenceLaws)
    width: PipelineWidth = field(default_factory=PipelineWidth)
    origin: Origin | None = None

    def factors_on(self, gpu: GpuSpec) -> Mapping[str, float]:
        """Return the factors on the groups of kernels on a GPU: its own, else those of its chips, else none.

        They do not carry over to other architectures: those of H100 make a B200's pipelines no better, and the factors
        of both make those of Ampere worse.
        """
        if gpu.id in self.gpus:
            return self.gpus[gpu.id].by_group
        return next((each.by_group for each in self.gpus.values() if each.capability == gpu.compute_capability), {})

    def half_width(self, gpu: GpuSpec, *, is_shared: bool) -> float:
        """Return how far a pipeline may lie from its estimate on a GPU, in logs."""
        own = self.width.shared if is_shared else self.width.models
        if gpu.id in self.gpus:
            return own
        elsewhere = float(np.hypot(own, self.width.gpus))
        return elsewhere if self.factors_on(gpu) else max(elsewhere, self.width.unlike)


UNCALIBRATED = PipelineCalibration()
