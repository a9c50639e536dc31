"""Engineering guesses of kernel efficiencies, used where nothing was measured and as the fit's priors.

Orders of magnitude from a study of eager and compiled PyTorch on three consumer and workstation GPUs;
a calibration replaces them.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from capplan.core.latency import classes as kinds
from capplan.core.latency.calibration import Calibration, ClassConstants, GlobalConstants

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
