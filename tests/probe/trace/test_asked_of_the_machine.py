"""What models ask of the machine they run on: a GPU, threads, gradients; and weights that are not where they seem."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration
from capplan.errors import TraceError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_module, trace_target

LINEAR = 16 * 16


def feeds(batch: int, *, device: Any) -> SimpleNamespace:
    return SimpleNamespace(args=(torch.ones((batch, 16), device=device),), kwargs={}, names=("x",))


def macs(made: Trace) -> int:
    recording = made.recordings[0]
    counts = recording.calls_per_kernel()
    return sum(n * kernel_macs(kernel, 1) for kernel, n in zip(recording.kernels, counts, strict=True))


_ASKS = """
import torch

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        assert torch.cuda.is_available() == HAS_GPU
        self.layer = torch.nn.Linear(16, 16).to(DEVICE)
        self.on_gpu = torch.nn.Linear(16, 16)

    def forward(self, x):
        x = x.to(DEVICE)
        assert torch.cuda.is_available() == x.is_cuda == HAS_GPU == (x.device.type == "cuda") == (not x.is_cpu)
        x = self.layer(x)
        return self.on_gpu(x) if x.is_cuda else x

class Needs(Net):
    def __init__(self):
        assert torch.cuda.is_available(), "this needs a GPU"
        super().__init__()
"""


@pytest.mark.parametrize(("as_cpu", "layers"), [(False, 2), (True, 1)])
def test_cuda_is_one_answer_from_import_to_forward(as_cpu: bool, layers: int, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(_ASKS)
    request = ModelRequest(words=f"{tmp_path}/net.py:Net", inputs=("16",), as_cpu=as_cpu)
    made = trace_target(load_target(request.words, request=request.parse()))
    assert (macs(made), made.recordings[0].assumed_values) == (layers * LINEAR, ())
    assert not torch.cuda.is_available()


def test_a_model_that_insists_on_a_gpu_is_built(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(_ASKS)
    request = ModelRequest(words=f"{tmp_path}/net.py:Needs", inputs=("16",))
    assert macs(trace_target(load_target(request.words, request=request.parse()))) == 2 * LINEAR


def test_code_that_cannot_be_loaded_with_a_gpu_is_loaded_without(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\nif torch.cuda.is_available():\n    torch.zeros(1, device='cuda')\nNet = torch.nn.Identity\n"
    )
    request = ModelRequest(words=f"{tmp_path}/net.py:Net", inputs=("16",))
    assert macs(trace_target(load_target(request.words, request=request.parse()))) == 0


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)


class Pooled(Pair):
    def forward(self, x: Tensor) -> Tensor:
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.submit(self.a, x), pool.submit(self.b, x)
            return first.result() + second.result()


class Threaded(Pair):
    def forward(self, x: Tensor) -> Tensor:
        made: dict[int, Tensor] = {}
        layers = enumerate((self.a, self.b))
        threads = [threading.Thread(target=lambda i, f: made.update({i: f(x)}), args=each) for each in layers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return made[0] + made[1]


@pytest.mark.parametrize("module", [Pooled(), Threaded()])
def test_layers_run_in_threads_are_counted(module: nn.Module) -> None:
    assert macs(trace_module(module, feeds, name="test")) == 2 * LINEAR


class MakesLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer: nn.Linear | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.layer is None:
            self.layer = nn.Linear(x.shape[-1], 7).to(x.device)
        out: Tensor = self.layer(x)
        return out


def test_layers_made_in_the_first_forward_are_the_models() -> None:
    made = trace_module(MakesLayers(), feeds, name="test")
    assert (macs(made), made.parameter_count) == (16 * 7, 16 * 7 + 7)
    stored = {storage.parameter for storage in made.recordings[0].storages}
    assert {0, 1} <= stored


class Forces(nn.Module):
    """The gradient of an energy by positions, as force fields compute it, and without `torch.enable_grad`."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(16, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        x.requires_grad_(True)
        (grad,) = torch.autograd.grad(self.energy(x).sum(), x)
        return -grad


def test_a_forward_that_differentiates_gets_gradients() -> None:
    made = trace_module(Forces(), feeds, name="test")
    forward = 16 * 8 + 8  # both layers; the gradient by their inputs takes as many
    assert macs(made) == 2 * forward
    assert any(note.startswith("gradients are on in inference") for note in made.provenance.notes)


class Skips(Pair):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def test_a_model_without_products_says_why() -> None:
    made = trace_module(Skips(), feeds, name="test")
    assert "no products of matrices: nothing that was traced reads a.weight, b.weight" in made.provenance.notes
    looked_up = trace_module(nn.Sequential(nn.Flatten(0), nn.Identity()), feeds, name="test")
    assert looked_up.provenance.notes == ()


def test_numbers_are_formatted_and_assumed_nowhere() -> None:
    class Logs(Pair):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.a(x)
            assert f"{out.mean():.3f} {out.argmax():d}" == "0.000 0" or not x.is_cuda
            return out

    made = trace_module(Logs(), feeds, name="test", configurations=[Configuration()])
    assert (macs(made), made.recordings[0].assumed_values) == (LINEAR, ())


def test_sharded_weights_are_refused() -> None:
    class FullyShardedDataParallel(nn.Sequential):
        """Stands for torch's class of this name, which needs a process group."""

    with pytest.raises(TraceError, match=r"are sharded .* before it is sharded"):
        trace_module(FullyShardedDataParallel(nn.Linear(16, 16)), feeds, name="test")


def test_data_parallel_is_traced_as_what_it_holds() -> None:
    made = trace_module(nn.DataParallel(nn.Linear(16, 16)), feeds, name="test")
    assert (made.class_name, macs(made), made.parameters[0].names) == ("Linear", LINEAR, ("weight",))
