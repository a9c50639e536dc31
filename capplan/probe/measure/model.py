"""Prepare a target to run: built on the device with random weights, in its precision, layout and framework."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from capplan.core.workload import Framework, Layout, Precision, Workload
from capplan.errors import TraceError
from capplan.probe.foreign.preserve import set_mode
from capplan.probe.inputs.grammar import ModelInputs
from capplan.probe.inputs.tensors import as_forward_takes, named_tensors
from capplan.probe.measure.oom import is_out_of_memory
from capplan.probe.target.types import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyModel:
    """A module on its device, and how it is fed."""

    target: Target
    workload: Workload
    device: torch.device
    module: torch.nn.Module
    call: Callable[..., Any]

    def make_inputs(self, batch: int) -> ModelInputs:
        """Make random inputs of the workload's number format and layout."""
        made = as_forward_takes(self.target.make_inputs(batch, device=self.device), self.module.forward)
        dtype = half_dtype(self.workload.precision) if _is_converted(self.workload.precision) else None
        is_nhwc = self.workload.layout is Layout.NHWC

        def convert(tensor: torch.Tensor) -> torch.Tensor:
            if dtype is not None and tensor.is_floating_point():
                tensor = tensor.to(dtype)
            if is_nhwc and tensor.dim() in _CHANNELS_LAST:
                tensor = tensor.contiguous(memory_format=_CHANNELS_LAST[tensor.dim()])
            return tensor

        args, kwargs = tree_map_only(torch.Tensor, convert, (made.args, dict(made.kwargs)))
        return replace(made, args=args, kwargs=kwargs)

    def runner(self, inputs: ModelInputs) -> Callable[[], Any]:
        """Return a function for one forward call, within autocast if the workload has it."""
        call, args, kwargs = self.call, inputs.args, dict(inputs.kwargs)
        dtype = half_dtype(self.workload.precision)
        if dtype is None or _is_converted(self.workload.precision):
            return lambda: call(*args, **kwargs)
        kind = self.device.type

        def run() -> Any:
            with torch.autocast(kind, dtype=dtype):
                return call(*args, **kwargs)

        return run


_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def half_dtype(precision: Precision) -> torch.dtype | None:
    """Return the 16-bit type that a precision computes in; None where it has none."""
    return getattr(torch, precision.half_dtype) if precision.half_dtype else None


def _is_converted(precision: Precision) -> bool:
    return precision in (Precision.FP16, Precision.BF16)


def ready_model(target: Target, *, workload: Workload, device: torch.device) -> ReadyModel:
    """Build a target on a device and prepare it; weights are random."""
    return prepared(target, _built(target, device), workload=workload, device=device)


def prepared(target: Target, module: torch.nn.Module, *, workload: Workload, device: torch.device) -> ReadyModel:
    """Set the number format, layout and framework of a module that is on its device."""
    module.requires_grad_(False)
    set_mode(module, training=False)
    if _is_converted(workload.precision):
        module = module.to(half_dtype(workload.precision))
    if workload.layout is Layout.NHWC:
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in stubs
    call: Callable[..., Any] = module
    if workload.framework is not Framework.EAGER:
        mode = "reduce-overhead" if workload.framework is Framework.COMPILE_GRAPHS else None
        call = torch.compile(module, dynamic=False, mode=mode)
    return ReadyModel(target=target, workload=workload, device=device, module=module, call=call)


def _built(target: Target, device: torch.device) -> torch.nn.Module:
    """Build on the device itself; a constructor that an accelerator's tensors defeat, on the CPU."""
    if device.type != "cpu":
        try:
            with torch.device(device):
                return target.build().to(device)
        except TraceError as error:
            if error.__cause__ is not None and is_out_of_memory(error.__cause__):
                raise
    return target.build().to(device)


def has_finite_outputs(output: Any) -> bool:
    """Return True if all floats that a model returned are finite, also those inside dataclasses."""
    tensors = (tensor for _, tensor in named_tensors((output,), {}))
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors if tensor.is_floating_point())


@contextlib.contextmanager
def host_threads(threads: int | None) -> Iterator[None]:
    """Compute on so many threads of the host, and restore torch's number afterwards; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if threads is None else threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def numeric_settings(precision: Precision, *, autotune: bool = False) -> Iterator[None]:
    """Apply the precision's TF32 flags and cuDNN's autotuning, and restore torch's flags afterwards."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    convolutions, products = _TF32.get(precision, (True, False))
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = products, convolutions, autotune
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before


_TF32 = {Precision.TF32: (True, True), Precision.FP32_IEEE: (False, False)}
"""TF32 in convolutions and in matrix products; others keep PyTorch's defaults."""
