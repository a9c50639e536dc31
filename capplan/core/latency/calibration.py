"""Fitted efficiencies, the distribution of their errors, and the guesses where nothing was measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial

from capplan.core.gpus.rate_laws import GUESSED_LAWS, RateLaws
from capplan.core.latency import classes as kinds
from capplan.core.origin import Origin
from capplan.core.power import CardPower


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassConstants:
    """How well one class of kernels uses a GPU. Dimensionless but for `half_k` and the times.

    `compute` and `bandwidth` are shares of the sustained peak and the printed bandwidth; `half_k` is the inner
    dimension at which a matrix product reaches half of its rate; `misaligned` the log of the slowdown for
    dimensions that are not multiples of 8, of batched products its share of the log of what tensor cores gain over
    vector units (cuBLAS has few kernels for them that load single elements); `layout_passes` the extra passes over
    input and output around a convolution that runs in another layout than its tensors; `write_weight` the cost of a
    written byte against a read one; `strided` the extra time share of strided inputs; `fixed_s` what a kernel takes
    beyond the fixed time of all kernels [s], which engines alone have and no fit to single kernels shows.
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
    fp32 or TF32: without any, its factor on arithmetic holds for 16 bits alone. `single_steps` of `rows` were.
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
    host's calls cost where one was measured; without, it follows from the constants and the GPU's year. `engines` are
    those of inference engines, whose constants are relative to the part for "compile", by the framework's name. `laws`
    are those of all GPUs, which have a file of their own. `power` holds what a user measured of the power of GPUs.
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


_C = ClassConstants
_elementwise = partial(_C, compute=0.03)
"""About thirty lane cycles an element: loads, addresses, conversions, stores, most of them at less than full rate."""

_EAGER: Mapping[str, ClassConstants] = {
    kinds.CONV: _C(compute=0.94, bandwidth=0.84, half_k=29, misaligned=0.32, layout_passes=2.0),
    kinds.CONV_1X1: _C(compute=0.88, bandwidth=0.90, half_k=11, misaligned=0.17, layout_passes=1.6, write_weight=0.8),
    kinds.CONV_STEM: _C(compute=0.38, bandwidth=0.83, half_k=11, layout_passes=3.0),
    kinds.CONV_PATCH: _C(compute=0.70, bandwidth=0.83, half_k=30, layout_passes=2.0),
    kinds.CONV_GROUPED: _C(compute=0.68, bandwidth=0.87, half_k=26, misaligned=0.2, layout_passes=2.3),
    kinds.DEPTHWISE_3: _C(compute=0.47, bandwidth=0.75, layout_passes=0.1, write_weight=2.0),
    kinds.DEPTHWISE_NATIVE: _C(compute=0.30, bandwidth=0.75, layout_passes=0.1, write_weight=2.0),
    kinds.DEPTHWISE_5: _C(compute=0.25, bandwidth=0.80, layout_passes=0.1),
    kinds.DEPTHWISE_7: _C(compute=0.30, bandwidth=0.85, layout_passes=0.1),
    kinds.DEPTHWISE_LARGE: _C(compute=0.05, bandwidth=0.85, layout_passes=0.1),
    kinds.CONV_OTHER: _C(compute=0.50, bandwidth=0.80, half_k=20, misaligned=0.2, layout_passes=2.0),
    kinds.LINEAR: _C(compute=1.05, bandwidth=0.80, half_k=12, misaligned=0.24),
    kinds.BATCHED_MATMUL: _C(compute=0.84, bandwidth=0.75, half_k=9, misaligned=0.8, write_weight=1.5),
    kinds.ATTENTION: _C(compute=1.2, bandwidth=0.85, half_k=60, misaligned=0.30),
    kinds.LAYER_NORM: _elementwise(bandwidth=0.83, write_weight=1.2, strided=1.0),
    kinds.GROUP_NORM: _elementwise(bandwidth=0.75, write_weight=1.2, strided=1.0),
    kinds.BATCH_NORM: _elementwise(bandwidth=0.90, write_weight=0.8, strided=0.2),
    kinds.SOFTMAX: _elementwise(bandwidth=0.90, write_weight=0.9, strided=0.2),
    kinds.CAST: _elementwise(bandwidth=0.90, write_weight=0.9, strided=0.5),
    kinds.WEIGHT_CAST: _elementwise(bandwidth=0.85),
    kinds.ACTIVATION: _elementwise(bandwidth=0.86, write_weight=0.93, strided=0.1),
    kinds.ADD: _elementwise(bandwidth=0.86, write_weight=0.8, strided=0.2),
    kinds.POINTWISE: _elementwise(bandwidth=0.88, write_weight=1.2, strided=0.3),
    kinds.COPY: _elementwise(bandwidth=0.85, write_weight=1.2, strided=0.3),
    kinds.POOL: _elementwise(bandwidth=0.80, write_weight=1.5, strided=0.2),
    kinds.REDUCTION: _elementwise(bandwidth=0.85, write_weight=1.2, strided=0.8),
    kinds.UPSAMPLE: _elementwise(bandwidth=0.60, write_weight=1.5),
    kinds.GATHER: _elementwise(bandwidth=0.70, write_weight=1.3),
    kinds.RECURRENT: _C(compute=0.50, bandwidth=0.7),
    kinds.OTHER: _elementwise(bandwidth=0.80, strided=0.2),
    kinds.BATCH_NORM_TRAINING: _C(bandwidth=0.80, strided=0.1),
    kinds.NORM_GRADIENT: _C(bandwidth=0.75, strided=0.1),
    kinds.POOL_GRADIENT: _C(bandwidth=0.60, write_weight=1.5, strided=0.1),
    kinds.ATTENTION_GRADIENT: _C(compute=0.8, bandwidth=0.80, half_k=60, misaligned=0.3),
    kinds.OPTIMIZER: _C(bandwidth=0.80),
    kinds.FUSED_NORM: _C(compute=0.3, bandwidth=0.88, strided=0.1),
    kinds.FUSED_SOFTMAX: _C(compute=0.3, bandwidth=0.88, strided=0.1),
    kinds.FUSED_REDUCTION: _C(compute=0.3, bandwidth=0.88, write_weight=1.5, strided=0.1),
    kinds.FUSED_ACROSS: _C(compute=0.3, bandwidth=0.60, strided=0.1),
    kinds.FUSED_POOL: _C(compute=0.3, bandwidth=0.86, strided=0.1),
    kinds.FUSED_COPY: _C(compute=0.3, bandwidth=0.88, strided=0.2),
    kinds.FUSED_POINTWISE: _C(compute=0.3, bandwidth=1.00, write_weight=1.2, strided=0.1),
    kinds.FUSED_WEIGHT: _C(bandwidth=0.85),
}


def _channels_last(label: str) -> ClassConstants:
    uneven = 0.2 if kinds.is_depthwise(label) else _EAGER[label].misaligned
    padded = 0.5 if label in (kinds.CONV, kinds.CONV_1X1) else 0.0  # passes around one of uneven channels
    return replace(_EAGER[label], layout_passes=padded, strided=0.0, misaligned=uneven)


def _gradient(label: str, suffix: str) -> ClassConstants:
    """Return the prior of a gradient: somewhat below the forward's efficiency, far below for depthwise weights."""
    forward = _INFERENCE[label.replace(kinds.CONV_GROUPED_WIDE, kinds.CONV_GROUPED)]
    slower = 0.35 if suffix == kinds.WEIGHT_GRADIENT_SUFFIX and kinds.is_depthwise(label) else 0.85
    return replace(forward, compute=slower * forward.compute)


_INFERENCE: Mapping[str, ClassConstants] = {
    **_EAGER,
    **{label + kinds.CHANNELS_LAST_SUFFIX: _channels_last(label) for label in kinds.SPATIAL},
    kinds.CONV_GROUPED + kinds.CHANNELS_LAST_SUFFIX: _C(compute=0.68, bandwidth=0.87, half_k=26, misaligned=0.8),
    kinds.CONV_GROUPED_WIDE + kinds.CHANNELS_LAST_SUFFIX: _C(compute=0.2, bandwidth=0.87, half_k=26, misaligned=0.8),
    kinds.CONV_GROUPED_NARROW + kinds.CHANNELS_LAST_SUFFIX: _C(compute=0.025, bandwidth=0.87),
}
PRIOR_CLASSES: Mapping[str, ClassConstants] = {
    **_INFERENCE,
    **{
        label + layout + suffix: _gradient(label + layout, suffix)
        for label in (*kinds.CONVOLUTIONS, kinds.CONV_GROUPED_WIDE)
        for layout in ("", kinds.CHANNELS_LAST_SUFFIX)
        for suffix in (kinds.INPUT_GRADIENT_SUFFIX, kinds.WEIGHT_GRADIENT_SUFFIX)
    },
}

COUNTED_IN_INSTRUCTIONS = frozenset(
    label for label, constants in PRIOR_CLASSES.items() if constants.compute == _elementwise().compute
)
"""Classes whose time is that of their arithmetic, not of their bytes; it is known to a factor of three."""

_HOST = GlobalConstants(call_s=10e-6, launch_s=4e-6, convolution_s=40e-6)
"""A guess of what a host of 2020 takes: about ten microseconds for a call from Python, a few for a launch, and some
tens for the lookup of a plan in cuDNN."""


def prior_calibration() -> Calibration:
    """Return the engineering guesses as a calibration without origin, which every estimate must mention."""
    return Calibration(name="priors", origin=None, constants=_HOST, classes=PRIOR_CLASSES)
