"""Elementwise operators: arithmetic, comparisons, activations, casts."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from capplan.probe.onnx.operators.call import Call, Handler, Handlers


def _one(function: Callable[[Tensor], Tensor]) -> Handler:
    return lambda call: function(call.tensor(0))


def _two(function: Callable[[Tensor, Tensor], Tensor]) -> Handler:
    return lambda call: function(call.tensor(0), call.tensor(1))


def _many(function: Callable[[Tensor, Tensor], Tensor]) -> Handler:
    def run(call: Call) -> Tensor:
        made = call.tensor(0)
        for other in call.inputs[1:]:
            made = function(made, other)
        return made

    return run


def _div(call: Call) -> Tensor:
    """Divide; integers are rounded towards zero."""
    first, second = call.tensor(0), call.tensor(1)
    if first.is_floating_point() or second.is_floating_point():
        return first / second
    return torch.div(first, second, rounding_mode="trunc")


def _mod(call: Call) -> Tensor:
    return torch.fmod(call.tensor(0), call.tensor(1)) if call.whole("fmod") else call.tensor(0) % call.tensor(1)


def _pow(call: Call) -> Tensor:
    base = call.tensor(0)
    exponent = _number(call.tensor(1)) if base.is_meta or base.is_cuda else call.tensor(1)
    return torch.pow(base, exponent).to(base.dtype)


def _clip(call: Call) -> Tensor:
    bounds: list[Any] = []
    for index, name in ((1, "min"), (2, "max")):
        value = call.optional(index)
        given = call.node.attributes.get(name)
        bounds.append(given if value is None else _number(value))
    low, high = bounds
    if low is None and high is None:
        return call.tensor(0)
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        low, high = (None if bound is None else torch.as_tensor(bound, device=call.device) for bound in bounds)
    elif call.tensor(0).is_floating_point() and low is not None and high is not None:
        return functional.hardtanh(call.tensor(0), low, high)
    return torch.clamp(call.tensor(0), low, high)


def _number(value: Tensor) -> Any:
    """Return a scalar of the host as a number, anything else as it is."""
    is_host = value.device.type == "cpu" and value.numel() == 1 and not hasattr(value, "fake_mode")
    return value.reshape(-1).tolist()[0] if is_host else value


def _gelu(call: Call) -> Tensor:
    return functional.gelu(call.tensor(0), approximate=call.text("approximate", "none"))


def _hard_sigmoid(call: Call) -> Tensor:
    alpha, beta = call.real("alpha", 0.2), call.real("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-4 and beta == 0.5:
        return functional.hardsigmoid(call.tensor(0))
    return torch.clamp(call.tensor(0) * alpha + beta, 0, 1)


def _shrink(call: Call) -> Tensor:
    lambd, bias = call.real("lambd", 0.5), call.real("bias")
    return (functional.softshrink if bias == lambd else functional.hardshrink)(call.tensor(0), lambd)


def _prelu(call: Call) -> Tensor:
    slope = call.tensor(1)
    channels = call.tensor(0).shape[1] if call.tensor(0).dim() > 1 else 1
    if slope.numel() not in (1, channels):
        return torch.where(call.tensor(0) < 0, call.tensor(0) * slope, call.tensor(0))
    return functional.prelu(call.tensor(0), slope.reshape(-1))


def _shift(call: Call) -> Tensor:
    left = call.text("direction", "LEFT") == "LEFT"
    return (torch.bitwise_left_shift if left else torch.bitwise_right_shift)(*call.inputs)


def _dropout(call: Call) -> Any:
    """Pass data on: a file is run for inference, where dropout does nothing."""
    if len([name for name in call.node.outputs if name]) == 1:
        return call.tensor(0)
    return call.tensor(0), torch.ones_like(call.tensor(0), dtype=torch.bool)


def _bernoulli(call: Call) -> Tensor:
    dtype = call.dtype_of(call.whole("dtype")) if call.whole("dtype") else call.tensor(0).dtype
    return torch.bernoulli(call.tensor(0)).to(dtype)


def _bias_gelu(call: Call) -> Tensor:
    bias = call.optional(1)
    return functional.gelu(call.tensor(0) if bias is None else call.tensor(0) + bias, approximate="tanh")


def _is_inf(call: Call) -> Tensor:
    if call.whole("detect_negative", 1) and call.whole("detect_positive", 1):
        return torch.isinf(call.tensor(0))
    return (torch.isposinf if call.whole("detect_positive", 1) else torch.isneginf)(call.tensor(0))


HANDLERS: Handlers = {
    "Abs": _one(torch.abs), "Acos": _one(torch.acos), "Acosh": _one(torch.acosh), "Asin": _one(torch.asin),
    "Asinh": _one(torch.asinh), "Atan": _one(torch.atan), "Atanh": _one(torch.atanh), "Ceil": _one(torch.ceil),
    "Cos": _one(torch.cos), "Cosh": _one(torch.cosh), "Erf": _one(torch.erf), "Exp": _one(torch.exp),
    "Floor": _one(torch.floor), "Identity": lambda call: call.inputs[0], "IsNaN": _one(torch.isnan), "IsInf": _is_inf,
    "Log": _one(torch.log), "Neg": _one(torch.neg), "Not": _one(torch.logical_not),
    "Reciprocal": _one(torch.reciprocal), "Relu": _one(torch.relu), "Round": _one(torch.round),
    "Sigmoid": _one(torch.sigmoid), "Sign": _one(torch.sign), "Sin": _one(torch.sin), "Sinh": _one(torch.sinh),
    "Softsign": _one(functional.softsign), "Sqrt": _one(torch.sqrt), "Tan": _one(torch.tan), "Tanh": _one(torch.tanh),
    "BitwiseNot": _one(torch.bitwise_not), "Mish": _one(functional.mish), "HardSwish": _one(functional.hardswish),
    "Softplus": _one(functional.softplus), "Dropout": _dropout,
    "Swish": lambda call: functional.silu(call.tensor(0)),
    "Add": _two(torch.add), "Sub": _two(torch.sub), "Mul": _two(torch.mul), "Div": _div, "Pow": _pow, "Mod": _mod,
    "And": _two(torch.logical_and), "Or": _two(torch.logical_or), "Xor": _two(torch.logical_xor),
    "BitwiseAnd": _two(torch.bitwise_and), "BitwiseOr": _two(torch.bitwise_or), "BitwiseXor": _two(torch.bitwise_xor),
    "BitShift": _shift, "Equal": _two(torch.eq), "Greater": _two(torch.gt), "GreaterOrEqual": _two(torch.ge),
    "Less": _two(torch.lt), "LessOrEqual": _two(torch.le), "Max": _many(torch.maximum), "Min": _many(torch.minimum),
    "Sum": _many(torch.add), "Mean": lambda call: _many(torch.add)(call) / len(call.inputs), "Clip": _clip,
    "Where": lambda call: torch.where(call.tensor(0), call.tensor(1), call.tensor(2)),
    "Cast": lambda call: call.tensor(0).to(call.dtype_of(call.whole("to", 1))),
    "CastLike": lambda call: call.tensor(0).to(call.tensor(1).dtype),
    "Bernoulli": _bernoulli, "Gelu": _gelu, "HardSigmoid": _hard_sigmoid, "Shrink": _shrink, "PRelu": _prelu,
    "Elu": lambda call: functional.elu(call.tensor(0), call.real("alpha", 1.0)),
    "Celu": lambda call: functional.celu(call.tensor(0), call.real("alpha", 1.0)),
    "Selu": lambda call: functional.selu(call.tensor(0)),
    "LeakyRelu": lambda call: functional.leaky_relu(call.tensor(0), call.real("alpha", 0.01)),
    "ThresholdedRelu": lambda call: functional.threshold(call.tensor(0), call.real("alpha", 1.0), 0.0),
    "capplan.Silu": lambda call: functional.silu(call.tensor(0)),
    "com.microsoft.Gelu": _gelu, "com.microsoft.FastGelu": _bias_gelu, "com.microsoft.BiasGelu": _bias_gelu,
    "com.microsoft.QuickGelu": lambda call: functional.silu(call.tensor(0)),
}  # fmt: skip
"""Handlers by operator, with the domain where it is not ONNX's own."""
