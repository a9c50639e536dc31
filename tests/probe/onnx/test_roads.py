"""The same network by its name, its code, an ONNX file, an exported program, TorchScript and a trace file.

Each road gives the same products, parameters and memory, but for what the file's writer changed: torch.onnx folds batch
norms and writes weights of equal values once; graphs keep no local names of Python, so that tensors die earlier.
"""

import warnings
from pathlib import Path

import pytest
import torch

from capplan.core.memory.schedule import live_curve
from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from tests.input_tensors import input_tensors
from tests.nightly import mostly_nightly

BatchNorm = torch.nn.modules.batchnorm._BatchNorm

NAMES = [
    *(
        f"torchvision:{name}"
        for name in (
            "alexnet", "squeezenet1_0", "squeezenet1_1", "resnet18", "mobilenet_v2", "mobilenet_v3_small", "mnasnet0_5",
            "shufflenet_v2_x0_5", "convnext_tiny", "efficientnet_b0", "regnet_x_400mf",
        )
    ),
    *(
        f"timm:{name}"
        for name in (
            "vit_tiny_patch16_224", "deit_tiny_patch16_224", "mixer_s32_224", "mixer_s16_224", "resmlp_12_224",
            "gmlp_s16_224", "ghostnet_050", "repvgg_a0", "poolformer_s12",
        )
    ),
]  # fmt: skip

DAILY = ("torchvision:resnet18",)
"""Batch norms that are folded; `shufflenet_v2_x0_5` splits channels and `deit_tiny_patch16_224` attends."""

PEAKS = {
    "net.py:make": (1.0, 1.0),
    "trace": (1.0, 1.0),
    "net.pt2": (0.55, 1.05),
    "net.pt": (0.55, 1.05),
    "net.onnx": (0.55, 1.3),
}
"""Peak activations by each road over those by name, at least and at most. A trace file and the code are the network
itself. A graph frees a tensor at its last use, where code in Python keeps it until its function returns; ONNX has no
operators in place, and no batch norms beside convolutions."""


def macs(trace: Trace, batch: int) -> int:
    recording = trace.recording(Configuration())
    return sum(kernel_macs(recording.kernels[op.kernel], batch) for op in recording.ops)


def peak_bytes(trace: Trace, batch: int) -> int:
    """Return what lives at the peak beyond weights and inputs. [bytes]"""
    live = live_curve(trace.recording(Configuration())).at(batch)
    return int(live.max() - live[0])


def code(name: str) -> str:
    """Return a file that builds the model as its user would."""
    library, _, model = name.partition(":")
    made = f"torchvision.models.get_model({model!r})" if library == "torchvision" else f"timm.create_model({model!r})"
    return f"import {library}\n\n\ndef make():\n    return {made}\n"


@pytest.mark.zoo
@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_nightly(NAMES, daily=DAILY))
def test_a_network_counts_the_same_by_every_road(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = load_target(name, request=parse_request())
    by_name = trace_target(target)
    module = target.build().eval()
    for parameter in module.parameters():  # torch.onnx writes weights of equal values once
        torch.nn.init.uniform_(parameter)
    given = target.make_inputs(2, device="cpu")
    [image] = input_tensors(given)
    size = "x".join(map(str, image.shape[1:]))
    Path("net.py").write_text(code(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (image,), "net.onnx", dynamo=False, opset_version=17, input_names=["x"],
            dynamic_axes={"x": {0: "batch"}},
        )  # fmt: skip
        program = torch.export.export(module, (image,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, "net.pt2")
        torch.jit.save(torch.jit.trace(module, image, check_trace=False), "net.pt")
    found = {"trace": load_trace(dump_trace(by_name, compress=True), where="net.trace.json.gz")}
    for file in ("net.py:make", "net.onnx", "net.pt2", "net.pt"):
        asked = parse_request(input_size=size) if file in ("net.py:make", "net.pt") else parse_request()
        found[file] = trace_target(load_target(file, request=asked))
    for road, trace in found.items():
        assert [macs(trace, batch) for batch in (1, 5)] == [macs(by_name, batch) for batch in (1, 5)], road
        is_folded = road == "net.onnx" and any(isinstance(each, BatchNorm) for each in module.modules())
        # torch.onnx folds batch norms into convolutions: their parameters are gone
        assert is_folded or trace.parameter_count == by_name.parameter_count, road
        low, high = PEAKS[road]
        assert low <= peak_bytes(trace, 5) / peak_bytes(by_name, 5) <= high, road
