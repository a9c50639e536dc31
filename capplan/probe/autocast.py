"""CUDA autocast's rules as data, and the casts that they insert.

The lists are those of `ATen/autocast_mode.h` (torch 2.4 to 2.13), by the names under which Python calls the operators.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import torch
from torch import Tensor

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
    "nll_loss2d", "nll_loss_nd", "cross_entropy_loss", "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss",
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


class Policy(Enum):
    """What autocast does with an operator's floating-point inputs."""

    LOWER_PRECISION = "lower"
    FP32 = "fp32"
    FP32_RESULT = "fp32_result"
    PROMOTE = "promote"


_LISTS = {
    Policy.LOWER_PRECISION: LOWER_PRECISION,
    Policy.FP32: FP32,
    Policy.FP32_RESULT: FP32_RESULT,
    Policy.PROMOTE: PROMOTE,
}
_NAMESPACES = (torch, torch._C._nn, torch._C._linalg, torch._C.TensorBase, torch._C._VariableFunctions)


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
    """Applies the policies; keeps the 16-bit copies of weights that autocast would keep."""

    def __init__(self, half: torch.dtype, *, keeps_weights: bool) -> None:
        self.half = half
        self.policies = policies()
        self.enabled = True
        self._keeps_weights = keeps_weights
        self._kept: dict[int, Tensor] = {}

    def call(self, policy: Policy, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function as autocast would."""
        if policy is Policy.FP32_RESULT:
            return self._call_fp32_result(func, args, kwargs)
        if policy is Policy.LOWER_PRECISION:
            dtype = self.half
        elif policy is Policy.FP32:
            dtype = torch.float32
        else:
            dtype = self._widest((*args, *kwargs.values()))
        args = tuple(self._cast(value, dtype) for value in args)
        return func(*args, **{name: self._cast(value, dtype) for name, value in kwargs.items()})

    def _call_fp32_result(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        first = args[0] if args else kwargs.get("input")
        given = kwargs.get("dtype") is not None or any(isinstance(value, torch.dtype) for value in args)
        if isinstance(first, Tensor) and first.dtype is self.half and not given:
            kwargs = {**kwargs, "dtype": torch.float32}
        return func(*args, **kwargs)

    def _widest(self, values: Iterable[Any]) -> torch.dtype:
        tensors = [t for value in values for t in (value if isinstance(value, (list, tuple)) else (value,))]
        wide = any(isinstance(t, Tensor) and t.dtype is torch.float32 for t in tensors)
        return torch.float32 if wide else self.half

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, Tensor):
            if value.dtype is dtype or not value.is_floating_point() or value.dtype is torch.float64:
                return value
            if value.device.type == "cpu":
                return value
            return self._kept_cast(value, dtype)
        if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            return type(value)(self._cast(item, dtype) for item in value)
        return value

    def _kept_cast(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        keeps = self._keeps_weights and dtype is self.half and value.requires_grad and value.is_leaf
        if not keeps or value.dtype is not torch.float32:
            return value.to(dtype)
        kept = self._kept.get(id(value))
        if kept is None:
            kept = self._kept[id(value)] = value.to(dtype)
        return kept

    def leave(self) -> None:
        """End the context: the kept copies of weights are released."""
        self._kept.clear()
