"""Launches of Triton kernels, parameters of classes of their own, and compiled libraries that do not load."""

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from capplan.core.ops.flops import uncounted
from capplan.core.trace.types import Trace
from capplan.errors import TraceError
from capplan.probe.foreign.libraries import torchaudio_importable
from capplan.probe.inputs.tensors import FunctionInputs
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target


def _traced(build: Any) -> Trace:
    inputs = FunctionInputs(words="inputs", function=lambda batch: torch.rand(batch, 8))
    return trace_target(Target(name="model", words="model", library="package", builder=build, inputs=inputs))


class _KernelInterface:
    """What `triton.runtime.jit.KernelInterface` is: a kernel that is launched by `kernel[grid](...)`."""

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *_: Any, **__: Any) -> None:
        raise AssertionError("libcuda.so cannot found!")  # as Triton's driver says without a GPU


class _Jitted(_KernelInterface):
    def __init__(self, name: str) -> None:
        self.__name__ = name

    def run(self, *_: Any, **__: Any) -> None:
        raise AssertionError("libcuda.so cannot found!")


class _Tuned(_KernelInterface):
    def __init__(self, kernel: _Jitted) -> None:
        self.fn = kernel


class _Launches(nn.Module):
    def __init__(self, *, tuned: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.kernel: Any = _Tuned(_Jitted("doubled")) if tuned else _Jitted("doubled")

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        out = torch.empty_like(x)
        self.kernel[(1,)](x, out, x.numel(), BLOCK=64)
        return self.linear(out)


@pytest.mark.parametrize("tuned", [False, True])
def test_a_triton_launch_is_an_uncounted_operator(monkeypatch: pytest.MonkeyPatch, tuned: bool) -> None:
    jit: Any = ModuleType("triton.runtime.jit")
    jit.KernelInterface = _KernelInterface
    runtime: Any = ModuleType("triton.runtime")
    runtime.driver = SimpleNamespace(_active=None)
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", jit)
    monkeypatch.setitem(sys.modules, "triton.runtime", runtime)
    recording = _traced(lambda: _Launches(tuned=tuned)).recordings[0]
    assert uncounted(recording) == ("1 × triton_kernel::doubled",)
    (launch,) = [kernel for kernel in recording.kernels if kernel.name.startswith("triton_kernel")]
    # it may read and write both of its tensors of 8 floats
    assert [operand.shape_at(1) for operand in launch.inputs] == [(1, 8), (1, 8)]
    assert [operand.shape_at(1) for operand in launch.outputs] == [(1, 8), (1, 8)]


class _Scaled(nn.Parameter):
    """A weight with its scales as an attribute, as bitsandbytes keeps them."""

    scales: Tensor

    def __new__(cls, data: Tensor, scales: Tensor) -> "_Scaled":
        made: _Scaled = Tensor._make_subclass(cls, data, False)
        made.scales = scales
        return made


class _Dequantises(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = _Scaled(torch.ones(4, 8), torch.ones(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight * self.weight.scales).t()


def test_a_parameter_of_a_class_of_its_own_keeps_class_and_attributes() -> None:
    recording = _traced(_Dequantises).recordings[0]
    # one row of 8 by 8x4: aten.mul of the weight [4, 8] by its scales [4, 1] stands before the product
    (scaling,) = [kernel for kernel in recording.kernels if kernel.name == "aten.mul"]
    assert [operand.shape_at(1) for operand in scaling.inputs] == [(4, 8), (4, 1)]


class _Packs(nn.Parameter):
    """A weight that is packed when its module is moved to a device, as bitsandbytes' `Params4bit` is."""

    def _quantize(self, device: torch.device) -> "_Packs":
        self.data = torch.empty(self.numel() // 2, 1, dtype=torch.uint8, device=device)
        return self


class _Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight: Tensor = _Packs(torch.ones(4, 8), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.reshape(8, 2).to(x.dtype)


def test_weights_that_are_packed_when_a_module_is_moved_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Packs, "__module__", "bitsandbytes.nn.modules")
    trace = _traced(_Packed)
    # 4 x 8 weights of 4 bits are 16 bytes
    assert [(each.dtype, each.shape) for each in trace.parameters] == [("uint8", (16, 1))]


def test_torchaudio_is_imported_where_its_library_does_not_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "torchaudio"
    (package / "_extension").mkdir(parents=True)
    (package / "__init__.py").write_text("from ._extension import AVAILABLE\n")
    (package / "_extension" / "__init__.py").write_text("from .utils import _load_lib\nAVAILABLE = _load_lib('lib')\n")
    (package / "_extension" / "utils.py").write_text(
        "def _load_lib(lib):\n    raise OSError('Could not load this library: lib.so')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
        monkeypatch.delitem(sys.modules, name)
    try:
        with torchaudio_importable():
            module = importlib.import_module("torchaudio")
        assert module.AVAILABLE is False
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
            del sys.modules[name]


class _Unbounded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        while (x.abs() >= 0).any():  # true of any data
            x = self.linear(x) * 0.1
        return x


@pytest.mark.slow
def test_a_loop_that_nothing_ends_is_refused_where_all_products_stand_in_it() -> None:
    with pytest.raises(TraceError, match=r"nothing multiplies linear\.weight, so that no count would be true"):
        _traced(_Unbounded)


class OwnParameters(nn.Module):
    """A model that lists the parameters of its generator alone, without the arguments of torch's method."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)

    def parameters(self):  # type: ignore[override]
        return list(self.net.parameters())

    def forward(self, x):
        return self.net(x)


def test_a_model_with_its_own_list_of_parameters_is_traced():
    inputs = FunctionInputs(words="inputs", function=lambda batch: torch.rand(batch, 4))
    target = Target(name="model", words="model", library="package", builder=OwnParameters, inputs=inputs)
    assert trace_target(target).parameter_count == 4 * 3 + 3
