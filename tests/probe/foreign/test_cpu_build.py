"""Modules whose constructors cannot run on the meta device are built on the CPU, without memory for their weights."""

from pathlib import Path

import pytest
import torch

from capplan.errors import TraceError
from capplan.probe.foreign import constructors
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from tests.limits import within

MODELS = """
import torch
from torch import nn

class Strides(nn.Module):
    '''Finds its own stride by a forward of real numbers, as Ultralytics' models do.'''
    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, stride=2, padding=1)
        out = self.conv(torch.zeros(1, 3, 32, 32)).detach().numpy()
        self.scale = 32 / out.shape[-1]
        self.register_buffer("grid", torch.arange(4))
        self.picked = int(self.grid.sum())

    def forward(self, x):
        y = self.conv(x)
        return y[:, self.grid.tolist()] * self.scale

class Orthogonal(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.utils.parametrizations.orthogonal(nn.Linear(8, 8))
        self.normed = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4))

    def forward(self, x):
        return self.normed(self.linear(x))

def half_size():
    '''Orthogonal, of a width that is read from a tensor.'''
    return nn.utils.parametrizations.orthogonal(nn.Linear(8, int(torch.linspace(0, 4, 5)[-1].item())))

class Copies(nn.Module):
    '''Copies values from one module to another through numpy, as loaders of weights do.'''
    def __init__(self, width=16):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.linear.weight.data.copy_(torch.from_numpy(nn.Linear(width, width).weight.detach().numpy()))

    def forward(self, x):
        return self.linear(x)

class Large(nn.Module):
    '''512 MiB of weights beside a constructor that reads a value.'''
    def __init__(self, layers=32):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2048, 2048) for _ in range(layers))
        self.first = self.layers[0].weight[0, 0].item()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.fixture
def models(tmp_path: Path) -> str:
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return str(path)


def find(words: str, *inputs: str):
    return load_target(words, request=parse_request(inputs=inputs))


@pytest.mark.parametrize(
    ("name", "given", "parameters", "macs"),
    [
        ("Strides", "x=3x32x32", 8 * 27 + 8, 16 * 16 * 8 * 27),  # 3 · 3 · 3 weights a position and channel
        ("Copies", "x=16", 16 * 16 + 16, 16 * 16),
    ],
)
def test_what_reads_values_is_built_on_the_cpu(models: str, name: str, given: str, parameters: int, macs: int) -> None:
    from capplan.core.ops.flops import kernel_macs

    trace = trace_target(find(f"{models}:{name}", given))
    recording = trace.recordings[0]
    counts = recording.calls_per_kernel()
    assert trace.parameter_count == parameters
    assert sum(n * kernel_macs(kernel, 1) for kernel, n in zip(recording.kernels, counts, strict=True)) == macs
    assert recording.assumed_values == ()
    assert any("built on the CPU, within 16 GB" in note for note in trace.provenance.notes)


def test_parametrized_layers_are_traced(models: str) -> None:
    trace = trace_target(find(f"{models}:Orthogonal", "x=8"))
    # 8 · 8 + 8 and 8 · 4 + 4; the parametrized weight is stored once, the base of the orthogonal map is a buffer
    assert trace.parameter_count == 8 * 8 + 8 + 8 * 4 + 4


def test_a_buffer_that_meta_tensors_left_out_is_made(models: str) -> None:
    # 4 · 8 weights and 4 biases; the base is a whole orthogonal matrix of 8 · 8
    trace = trace_target(find(f"{models}:half_size", "x=8"))
    assert trace.parameter_count == 4 * 8 + 4
    assert trace.buffer_count == 8 * 8


def test_the_module_is_on_meta_and_its_weights_took_no_memory(models: str) -> None:
    target = find(f"{models}:Large", "x=2048")
    with within(grown_bytes=256 * 2**20), torch.device("meta"):  # of 512 MiB of weights
        built = target.build_noted()
    assert built.is_from_cpu
    assert {tensor.device.type for tensor in built.module.state_dict().values()} == {"meta"}


def test_a_module_beyond_the_limit_is_refused_with_the_limit(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constructors, "LARGEST_BUILD_BYTES", 10**8)
    message = r"hold more than 0\.1 GB: trace a smaller stand-in.*models\.py"
    with torch.device("meta"), pytest.raises(TraceError, match=message):
        find(f"{models}:Large", "x=2048").build()


def test_what_builds_on_meta_says_nothing_of_the_cpu() -> None:
    with torch.device("meta"):
        built = find("torchvision:resnet18").build_noted()
    assert (built.is_from_cpu, built.notes) == (False, ())
    assert torch.get_default_device().type == "cpu"
