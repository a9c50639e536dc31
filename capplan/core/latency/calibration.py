"""Fitted efficiencies and the distribution of their errors: a type of its own, never mixed with specs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from capplan.core.energy.power import CardPower
from capplan.core.gpus.rate_laws import GUESSED_LAWS, RateLaws
from capplan.core.origin import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassConstants:
    """How well one class of kernels uses a GPU. Dimensionless but for `half_k` and the times.

    `compute` and `bandwidth` are shares of the sustained peak and the printed bandwidth; `half_k` is the inner
    dimension at which a matrix product reaches half of its rate; `misaligned` the log of the slowdown for
    dimensions that are no multiple of 8, of batched products its share of the log of what tensor cores gain over
    vector units (cuBLAS has few kernels for them that load single elements); `layout_passes` the extra passes over
    input and output around a convolution that runs in another layout than its tensors; `write_weight` the cost of a
    written byte against a read one; `strided` the extra time share of strided inputs; `fixed_s` what a kernel takes
    beyond the fixed time of all kernels [s], which engines alone have and no fit to single kernels tells.
    """

    compute: float = 1.0
    bandwidth: float = 0.85
    half_k: float = 0.0
    misaligned: float = 0.0
    layout_passes: float = 0.0
    write_weight: float = 1.0
    strided: float = 0.0
    fixed_s: float = 0.0


CLASS_FIELDS: tuple[str, ...] = tuple(item.name for item in fields(ClassConstants) if item.name != "fixed_s")
"""What is fitted of each class to PyTorch's steps and kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalConstants:
    """What all classes share: the L2's reach, tiles, what a kernel and a call cost. [s where named so]

    `l2_hit` is the share of activation traffic that a small working set keeps in L2, `l2_reach` the
    working set, in units of the L2's size, at which half of it is gone, `l2_sharpness` how suddenly.
    `tile_power` tempers the loss of unfilled tiles and waves. `kernel_s` is the device's fixed time
    per kernel, `call_s` the host's per call into PyTorch, `launch_s` the host's on top per kernel, `convolution_s`
    what a convolution takes on top of both: cuDNN looks its plan up in every call. `cores` are those that a CPU's
    operators were timed on, 1 for GPUs. The defaults are guesses, from which a fit starts.
    """

    l2_hit: float = 0.65
    l2_reach: float = 0.7
    l2_sharpness: float = 2.5
    tile_power: float = 0.75
    kernel_s: float = 4e-6
    call_s: float = 3e-6
    launch_s: float = 6e-6
    convolution_s: float = 0.0
    cores: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFactors:
    """What remains of one GPU after its spec sheet: factors on its two roofs, and from how many rows of whole steps.

    A GPU with no such rows had single kernels measured only. `single_rows` of its rows, kernels among them, were in
    fp32 or TF32: without any, its factor on arithmetic tells of 16 bits alone. `single_steps` of `rows` were.
    """

    architecture: str
    compute: float = 1.0
    bandwidth: float = 1.0
    rows: int = 0
    single_rows: int = 0
    single_steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalWidth:
    """How far a measurement may lie from its prediction at `coverage_fraction`, in logs, by split conformal prediction.

    `below` and `above` are the sides of held-out families on GPUs with measurements: how far the measured time may lie
    below the predicted one, and above it. A GPU without timed steps adds in square what whole GPUs were off when they
    were held out: `between_gpus` with its own microbenchmarks, `between_sheets` from its spec sheet alone, on the
    architectures that many rows fix; `between_others` and `between_other_sheets` on all others. `rows` were held out.
    """

    below: float
    above: float
    between_gpus: float
    between_sheets: float
    between_others: float
    between_other_sheets: float
    rows: int
    coverage_fraction: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCosts:
    """The time of one host and torch version for each call into PyTorch. [s]

    `operators_s` are eager calls by class of kernel, with the module around them, without the launch; `call_s` is a
    call that launches nothing, such as a view; `launch_s` is what a launch adds. `cpu` and `torch` say where they
    were measured.
    """

    cpu: str
    torch: str
    call_s: float
    launch_s: float
    operators_s: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEfficiency:
    """What an inference engine does better or worse than PyTorch's compiled kernels, as fitted to its timed steps.

    `product`, `attention`, `norm`, `elementwise` and `convolution` multiply the shares of the peak and of the bandwidth
    that these kernels reach; what is none of them counts as elementwise. `kernel_s` is the fixed time of a kernel,
    `convolution_s` what a convolution takes beyond it, both at a clock of 1.5 GHz [s].
    """

    product: float
    attention: float
    norm: float
    elementwise: float
    convolution: float
    kernel_s: float
    convolution_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFactors:
    """What remains of one GPU's timed steps in an engine: factors on its rates in 16 bits and above, and in int8.

    They hold for all kernels but convolutions.
    """

    architecture: str
    wide: float
    int8: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineWidths:
    """The 90 % half-widths of an engine's steps, in logs: of models that were held out, and of whole GPUs."""

    models: float
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCalibration:
    """All that was fitted of one inference engine, relative to compiled steps, and what it was fitted to.

    `gpus` are those whose steps were timed. `transformers` and `convolutions` are the widths of networks without and
    with convolutions.
    """

    constants: EngineEfficiency
    gpus: Mapping[str, EngineFactors]
    transformers: EngineWidths
    convolutions: EngineWidths
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All that was fitted: constants by class, residuals by GPU, deviations, and interval widths by cell.

    `deviations` hold factors on both roofs of classes, by "architecture 8.9", "torch 2.4" or
    "precision single". Cells of `widths` are "device nchw", "device nhwc", "device single" and "launches": steps
    that the device's speed decides, by layout or number format, and those that the host's does; "device few rows" is
    of GPUs that are barely measured. `serves` says what
    was measured: eager inference, "compile" or "training"; `parts` hold calibrations for the others. `host` is what a
    host's calls cost where one was measured; without, the constants and the GPU's year tell it. `engines` are those
    of inference engines, whose constants are relative to the part for "compile", by the framework's name. `laws` are
    those of all GPUs, which have a file of their own. `power` holds what a user measured of the power of GPUs.
    """

    name: str
    origin: Origin | None
    constants: GlobalConstants
    classes: Mapping[str, ClassConstants]
    gpus: Mapping[str, DeviceFactors] = field(default_factory=dict)
    deviations: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    widths: Mapping[str, IntervalWidth] = field(default_factory=dict)
    serves: str = "eager"
    parts: Mapping[str, "Calibration"] = field(default_factory=dict)
    host: HostCosts | None = None
    engines: Mapping[str, EngineCalibration] = field(default_factory=dict)
    laws: RateLaws = GUESSED_LAWS
    power: Mapping[str, CardPower] = field(default_factory=dict)

    def without_gpu(self, gpu_id: str) -> "Calibration":
        """Return the same calibration as if one GPU had never been measured."""
        return replace(self, gpus={name: factors for name, factors in self.gpus.items() if name != gpu_id})
