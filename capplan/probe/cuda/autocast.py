"""CUDA autocast's rules as data, and the casts that they insert.

The lists are those of `ATen/autocast_mode.h` (torch 2.4 to 2.13), by the names under which Python calls the operators.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from capplan.probe.record.types import flatten

LOWER_PRECISION = (
    "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "convolution", "prelu", "addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv",
    "linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot", "lstm_cell", "gru_cell",
    "rnn_tanh_cell", "rnn_relu_cell", "scaled_dot_product_attention", "__matmul__", "__rmatmul__", "inner",
)  # fmt: skip

FP32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow", "__pow__", "__rpow__", "softplus", "layer_norm", "native_layer_norm", "rms_norm", "group_norm",
    "frobenius_norm", "nuclear_norm", "cosine_similarity", "poisson_nll_loss", "cosine_embedding_loss", "nll_loss",
    "nll_loss2d", "nll_loss_nd", "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss",
    "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d", "_upsample_nearest_exact2d",
    "upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bicubic2d_aa",
)  # fmt: skip

FP32_RESULT = (
    "prod", "softmax", "log_softmax", "cumprod", "cumsum", "linalg_vector_norm", "linalg_matrix_norm", "sum", "norm",
)  # fmt: skip
"""Operators that read 16-bit inputs and compute and return fp32 through their `dtype` argument."""

PROMOTE = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot",
    "scatter_add",
)  # fmt: skip


FP32_AND_BACK = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d", "nms")
"""torchvision's operators, computed in fp32 and cast back (torchvision/csrc/ops/autocast)."""


class Policy(Enum):
    """What autocast does with the floating-point inputs of an operator."""

    LOWER_PRECISION = "lower"
    FP32 = "fp32"
    FP32_RESULT = "fp32_result"
    PROMOTE = "promote"
    FP32_AND_BACK = "fp32_and_back"


_LISTS = {
    Policy.LOWER_PRECISION: LOWER_PRECISION, Policy.FP32: FP32, Policy.FP32_RESULT: FP32_RESULT,
    Policy.PROMOTE: PROMOTE, Policy.FP32_AND_BACK: FP32_AND_BACK,
}  # fmt: skip
_BY_NAME = {name: policy for policy, names in _LISTS.items() for name in names}
OPERATORS = (torch._ops.OpOverloadPacket, torch._ops.OpOverload)
_LINALG: Any = vars(torch._C)["_linalg"]  # torch's stubs leave it out
_NAMESPACES = (torch, torch._C._nn, _LINALG, torch._C.TensorBase, torch._C._VariableFunctions)


def policies() -> Mapping[Callable[..., Any], Policy]:
    """Map the C functions and tensor methods that Python calls to their policy."""
    found: dict[Callable[..., Any], Policy] = {}
    for policy, names in _LISTS.items():
        for name in names:
            for namespace in _NAMESPACES:
                function = getattr(namespace, name, None)
                if callable(function) and not hasattr(function, "__code__"):
                    found[function] = policy
    return found


class Autocast:
    """Applies the policies while autocast is on for CUDA; keeps the 16-bit copies of weights that autocast keeps.

    Copies are kept for weights that need gradients, until the outermost context ends; under inference mode, as
    inference is recorded, none are.
    """

    def __init__(self, *, keeps_weights: bool) -> None:
        self.policies = policies()
        self._keeps_weights = keeps_weights
        self._kept: dict[int, Tensor] = {}

    def policy(self, func: Callable[..., Any]) -> Policy | None:
        """Find what to do with a call's inputs; None where nothing."""
        found = self.policies.get(func)
        if found is None and isinstance(func, OPERATORS):
            found = _BY_NAME.get(func.__name__.partition(".")[0])
        return found if found is not None and torch.is_autocast_enabled("cuda") else None

    def call(self, policy: Policy, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function as autocast would."""
        half = torch.get_autocast_dtype("cuda")
        if policy is Policy.FP32_RESULT:
            return self._call_fp32_result(func, args, kwargs)
        if policy is not Policy.PROMOTE:
            dtype = half if policy is Policy.LOWER_PRECISION else torch.float32
        else:
            is_wide = any(t.dtype is torch.float32 for t in flatten((*args, *kwargs.values())))
            dtype = torch.float32 if is_wide else half
        cast = tuple(self._cast(value, dtype) for value in args)
        out = func(*cast, **{name: self._cast(value, dtype) for name, value in kwargs.items()})
        if policy is Policy.FP32_AND_BACK and isinstance(out, Tensor) and out.is_floating_point():
            return out.to(args[0].dtype)
        return out

    def _call_fp32_result(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        first = args[0] if args else kwargs.get("input")
        given = kwargs.get("dtype") is not None or any(isinstance(value, torch.dtype) for value in args)
        if isinstance(first, Tensor) and first.dtype in _HALVES and not first.is_cpu and not given:
            kwargs = {**kwargs, "dtype": torch.float32}
        return func(*args, **kwargs)

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, Tensor):
            if value.dtype is dtype or not value.is_floating_point() or value.dtype is torch.float64:
                return value
            return value if value.is_cpu else self._kept_cast(value, dtype)
        if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            return type(value)(self._cast(item, dtype) for item in value)
        return value

    def _kept_cast(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        keeps = self._keeps_weights and value.requires_grad and value.is_leaf and dtype in _HALVES
        if not keeps or value.dtype is not torch.float32:
            return value.to(dtype)
        kept = self._kept.get(id(value))
        if kept is None:
            kept = self._kept[id(value)] = value.to(dtype)
        return kept

    def forget(self) -> None:
        """End the outermost context: the kept copies of weights are released."""
        self._kept.clear()


_HALVES = (torch.float16, torch.bfloat16)


@contextlib.contextmanager
def cuda_autocast(dtype: torch.dtype, autocast: Autocast) -> Iterator[None]:
    """Switch CUDA's autocast on, as `torch.autocast("cuda")` would where there is a GPU."""
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])
        autocast.forget()


@contextlib.contextmanager
def contexts_of_models() -> Iterator[None]:
    """Make autocast contexts in a model's code act as on CUDA, whatever device they were given."""
    with (
        mock.patch.object(torch.autocast, "__init__", _initialise),
        mock.patch.object(torch.autocast, "__enter__", _enter),
        mock.patch.object(torch.autocast, "__exit__", _exit),
    ):
        yield


def _initialise(
    self: Any, device_type: str, dtype: torch.dtype | None = None, enabled: bool = True, cache_enabled: Any = None
) -> None:
    del cache_enabled
    self.device, self._enabled = device_type, enabled
    self.fast_dtype = dtype or torch.get_autocast_dtype("cuda")
    self._before = []


def _enter(self: Any) -> Any:
    if self.device in ("cuda", "meta"):
        # a decorator made its context when its module was imported, before this function stood in for torch's
        self.__dict__.setdefault("_before", []).append(
            (torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda"))
        )
        torch.set_autocast_enabled("cuda", self._enabled)
        torch.set_autocast_dtype("cuda", self.fast_dtype)
    return self


def _exit(self: Any, *_: object) -> None:
    if self.device in ("cuda", "meta"):
        enabled, dtype = self._before.pop()
        torch.set_autocast_enabled("cuda", enabled)
        torch.set_autocast_dtype("cuda", dtype)
