"""Constants of inference engines beside those of torch.compile: factors on efficiencies, fixed times, interval widths.

Fitted by benchmarks/accuracy_engines.py to steps of TensorRT and FasterTransformer, whole GPUs and models held out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from capplan.core.latency import classes as kinds
from capplan.core.latency.calibration import Calibration, IntervalWidth
from capplan.core.latency.priors import PRIOR_CLASSES
from capplan.core.workload import Framework


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConstants:
    """What an engine does better than PyTorch's compiled kernels.

    `product`, `attention`, `elementwise` and `convolution` multiply the shares of the peak and of the bandwidth that
    these kernels reach. `kernel_s` is the fixed time of a kernel, `convolution_s` what a convolution takes beyond it,
    both at a clock of 1.5 GHz [s]. `half_width` is the 90 % interval of held-out GPUs and models, in logs, and
    `convolution_half_width` that of networks of convolutions; `rows` were fitted.
    """

    product: float
    attention: float
    elementwise: float
    convolution: float
    kernel_s: float
    convolution_s: float
    half_width: float
    convolution_half_width: float
    rows: int


_TENSORRT = EngineConstants(
    product=1.1, attention=0.5, elementwise=1.4, convolution=1.3, kernel_s=5e-6, convolution_s=9e-6, half_width=0.45,
    convolution_half_width=0.40, rows=477,
)  # fmt: skip
ENGINES: Mapping[Framework, EngineConstants] = {
    Framework.TENSORRT: _TENSORRT,
    # BERT in fp16 on A100, T4 and V100, through Triton: 0.35 of TensorRT's efficiencies. No convolution was timed: they
    # take TensorRT's over 1.67, the median of what ONNX Runtime takes longer than TensorRT on the same Triton
    Framework.ONNXRUNTIME: replace(
        _TENSORRT,
        product=0.385,
        attention=0.175,
        elementwise=0.49,
        convolution=0.78,
        half_width=0.6,
        convolution_half_width=0.7,
        rows=18,
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
        label: replace(
            each,
            compute=each.compute * factor,
            bandwidth=each.bandwidth * factor,
            fixed_s=held.convolution_s if _is_convolution(label) else 0.0,
        )
        for label, each in {**PRIOR_CLASSES, **calibration.classes}.items()
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


def with_convolution_widths(calibration: Calibration, framework: Framework) -> Calibration:
    """Return an engine's calibration with the intervals of networks of convolutions.

    Args:
        calibration: the part for the engine.
        framework: the engine.
    """
    half_width = ENGINES[framework].convolution_half_width
    widths = {cell: replace(each, below=half_width, above=half_width) for cell, each in calibration.widths.items()}
    return replace(calibration, widths=widths)


def _factor(label: str, held: EngineConstants) -> float:
    if label.startswith(kinds.ATTENTION):
        return held.attention
    if _is_convolution(label):
        return held.convolution
    return held.product if label in (kinds.LINEAR, kinds.BATCHED_MATMUL) else held.elementwise


def _is_convolution(label: str) -> bool:
    return kinds.is_convolution(label) or label.startswith("depthwise")
