"""torchvision's operators where its compiled library does not load beside the installed torch.

PyPI's torchvision is built for CUDA; beside a CPU-only torch its import fails for want of its operators' schemas.
Declaring them is enough: torchvision brings their meta and autograd rules. Schemas as in torchvision's public
operator registry.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

_ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_ROI_BACK = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_IMAGE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_DEFORM = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"ps_roi_align({_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"ps_roi_pool({_ROI}) -> (Tensor, Tensor)",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, "
    f"int rois_zero_point, {_ROI_BACK}, int sampling_ratio, bool aligned) -> Tensor",
    f"deform_conv2d({_DEFORM}) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {_ROI_BACK}, {_IMAGE}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_ROI_BACK}, {_IMAGE}) -> Tensor",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_ROI_BACK}, int sampling_ratio, "
    f"{_IMAGE}) -> Tensor",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_ROI_BACK}, {_IMAGE}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    "_cuda_version() -> int",
)


@functools.cache
def declare_operators() -> torch.library.Library:
    """Declare torchvision's operators, with slow but true CPU kernels for those that its detectors run.

    The library that is returned must live as long as the declarations.
    """
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("_cuda_version", lambda: -1, "CompositeImplicitAutograd")
    library.impl("nms", _nms, "CPU")
    library.impl("roi_align", _roi_align, "CPU")
    return library


@contextlib.contextmanager
def compiled_library_taken_as_loaded() -> Iterator[None]:
    """Let torchvision believe that its `_C` library loads, so that it registers its rules for the declared schemas."""
    load: Callable[..., Any] = torch.ops.load_library

    def load_others(path: str) -> Any:
        return None if "torchvision" in str(path) and "_C" in str(path) else load(path)

    torch.ops.load_library = load_others
    try:
        yield
    finally:
        torch.ops.load_library = load


def _nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Greedy non-maximum suppression: indices of the boxes kept, best score first."""
    from torchvision.ops import box_iou

    order = scores.argsort(descending=True)
    kept = []
    while order.numel():
        best, order = order[0], order[1:]
        kept.append(best)
        overlap = box_iou(boxes[best].unsqueeze(0), boxes[order])[0]
        order = order[overlap <= iou_threshold]
    return torch.stack(kept) if kept else order


def _roi_align(
    features: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    from torchvision.ops.roi_align import _roi_align as in_python

    return in_python(features, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
