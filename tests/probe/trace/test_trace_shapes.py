"""The recorder's own shape rules against torch's meta kernels, over whole models."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.record.shape_rules import SHAPE_RULES
from capplan.probe.target.resolve import load_target

pytestmark = pytest.mark.zoo


class Compare(TorchDispatchMode):
    """Runs every operator on meta, and its rule beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        rule = SHAPE_RULES.get(str(func))
        made = rule(*args, **(kwargs or {})) if rule is not None else None
        if made is not None:
            self.compared.add(str(func))
            if func is torch.ops.aten.native_batch_norm.default:  # CUDA saves no statistics in inference, meta does
                made, theirs = made[:1], out[:1]
            else:
                theirs = out
            if func is torch.ops.aten.convolution.default:  # cuDNN's layout is ours, meta always says row-major
                made, theirs = made.contiguous(), theirs.contiguous()
            assert described(made) == described(theirs), (func, described(args))
        return out


def described(value: Any) -> Any:
    """Shape, dtype and layout of tensors; strides of dimensions of one element mean nothing."""
    if isinstance(value, Tensor):
        strides = [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size != 1]
        return value.dtype, tuple(value.shape), strides if value.numel() else None
    return [described(item) for item in value] if isinstance(value, (list, tuple)) else None


MODELS = (
    "torchvision:shufflenet_v2_x0_5", "torchvision:mobilenet_v3_small", "torchvision:swin_t", "timm:convnext_atto",
    "timm:levit_128s", "timm:efficientnet_b0", "timm:eva02_tiny_patch14_224", "timm:maxvit_nano_rw_256",
)  # fmt: skip


@pytest.mark.parametrize("words", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rules_say_what_the_meta_kernels_say(words: str, dtype: torch.dtype):
    target = load_target(words, request=InputRequest())
    with torch.device("meta"):
        module = target.build().eval().to(dtype)
    compare = Compare()
    with torch.no_grad(), compare:
        module(*(value.to(dtype) for value in target.make_inputs(2, device="meta").args))
    assert len(compare.compared) >= 6
