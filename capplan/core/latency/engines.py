"""Turn the calibration of compiled steps into an inference engine's, by constants fitted to the engine's steps."""

from dataclasses import replace

from capplan.core.latency import classes as kinds
from capplan.core.latency.calibration import Calibration, EngineConstants, IntervalWidth
from capplan.core.latency.priors import PRIOR_CLASSES
from capplan.core.workload import Framework

_FEW_ROWS = 20


def engine_calibration(
    calibration: Calibration, framework: Framework, constants: EngineConstants | None = None
) -> Calibration:
    """Return the part of a calibration that serves an inference engine.

    It is the part for compiled steps with the engine's constants in their place. Without constants of the engine, the
    part for compiled steps is returned as it is; its users say that it was made for other steps.

    Args:
        calibration: a whole calibration.
        framework: the engine.
        constants: others than those of the calibration.
    """
    compiled = calibration.parts.get("compile", calibration)
    known = calibration.engines.get(framework.value)
    held = constants or (known.constants if known else None)
    if held is None:
        return compiled
    classes = {
        label: replace(
            each,
            compute=each.compute * factor,
            bandwidth=each.bandwidth * factor,
            fixed_s=held.convolution_s if _is_convolution(label) else 0.0,
        )
        for label, each in {**PRIOR_CLASSES, **compiled.classes}.items()
        for factor in [_factor(label, held)]
    }
    rows = known.origin.rows if known else 0
    width = IntervalWidth(
        below=held.half_width, above=held.half_width, between_gpus=0.0, between_sheets=0.1, between_others=0.1,
        between_other_sheets=0.2, rows=max(rows, _FEW_ROWS),
    )  # fmt: skip
    return replace(
        compiled,
        classes=classes,
        constants=replace(compiled.constants, kernel_s=held.kernel_s),
        widths=dict.fromkeys(("device nchw", "device nhwc", "device single", "launches"), width),
        serves=framework.value,
        engines={framework.value: known} if known else {},
    )


def with_convolution_widths(calibration: Calibration, framework: Framework) -> Calibration:
    """Return an engine's calibration with the intervals of networks of convolutions.

    Args:
        calibration: the part for the engine.
        framework: the engine.
    """
    known = calibration.engines.get(framework.value)
    if known is None:
        return calibration
    half_width = known.constants.convolution_half_width
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
