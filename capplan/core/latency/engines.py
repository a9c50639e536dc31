"""Constants of inference engines beside those of torch.compile: factors on efficiencies, fixed times, interval widths.

Fitted by benchmarks/accuracy_engines.py to steps of TensorRT and FasterTransformer, whole GPUs and models held out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from capplan.core.latency import classes as kinds
from capplan.core.latency.calibration import Calibration, IntervalWidth
from capplan.core.workload import Framework


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConstants:
    """What an engine does better than PyTorch's compiled kernels.

    `product`, `attention` and `elementwise` multiply the shares of the peak and of the bandwidth that these kernels
    reach; `kernel_s` is the fixed time of a kernel [s]. `half_width` is the 90 % interval of held-out GPUs and models,
    in logs; `rows` were fitted.
    """

    product: float
    attention: float
    elementwise: float
    kernel_s: float
    half_width: float
    rows: int


ENGINES: Mapping[Framework, EngineConstants] = {
    Framework.TENSORRT: EngineConstants(
        product=1.0, attention=0.5, elementwise=1.4, kernel_s=4e-6, half_width=0.53, rows=406
    ),
    Framework.ONNXRUNTIME: EngineConstants(  # no rows of its own: TensorRT's constants, and a wider interval
        product=1.0, attention=0.5, elementwise=1.4, kernel_s=4e-6, half_width=0.7, rows=0
    ),
}


def engine_calibration(
    calibration: Calibration, framework: Framework, constants: EngineConstants | None = None
) -> Calibration:
    """Return the calibration of compiled steps with an engine's constants in their place.

    Args:
        calibration: the part for torch.compile.
        framework: the engine.
        constants: others than the fitted ones.
    """
    held = constants or ENGINES[framework]
    classes = {
        label: replace(each, compute=each.compute * factor, bandwidth=each.bandwidth * factor)
        for label, each in calibration.classes.items()
        for factor in [_factor(label, held)]
    }
    width = IntervalWidth(
        below=held.half_width, above=held.half_width, between_gpus=0.0, between_sheets=0.1, between_others=0.1,
        between_other_sheets=0.2, rows=max(held.rows, 20),
    )  # fmt: skip
    return replace(
        calibration,
        classes=classes,
        constants=replace(calibration.constants, kernel_s=held.kernel_s),
        widths=dict.fromkeys(("device nchw", "device nhwc", "device single", "launches"), width),
        serves=framework.value,
    )


CONVOLUTION_HALF_WIDTH = 0.85
"""Half-width of networks of convolutions, to which no constant was fitted: 90 % of 54 steps of ResNet-50 in TensorRT on
A100 and A10 lie within it (docs/engines.md). Batches of a few images take up to 2.5 times what is estimated."""


def widened_for_convolutions(calibration: Calibration) -> Calibration:
    """Return an engine's calibration with the intervals of networks of convolutions."""
    widths = {
        cell: replace(
            each, below=max(each.below, CONVOLUTION_HALF_WIDTH), above=max(each.above, CONVOLUTION_HALF_WIDTH)
        )
        for cell, each in calibration.widths.items()
    }
    return replace(calibration, widths=widths)


def _factor(label: str, held: EngineConstants) -> float:
    if label.startswith(kinds.ATTENTION):
        return held.attention
    if label in (kinds.LINEAR, kinds.BATCHED_MATMUL) or kinds.is_convolution(label) or label.startswith("depthwise"):
        return held.product
    return held.elementwise
