"""The same network by its name, as an ONNX file and as an exported program: the same products and parameters."""

import warnings
from pathlib import Path

import pytest
import torch

from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target

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


def macs(trace: Trace, batch: int) -> int:
    recording = trace.recording(Configuration())
    return sum(kernel_macs(recording.kernels[op.kernel], batch) for op in recording.ops)


@pytest.mark.zoo
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_network_counts_the_same_by_every_road(name: str, tmp_path: Path) -> None:
    target = load_target(name, request=parse_request())
    by_name = trace_target(target)
    module = target.build().eval()
    for parameter in module.parameters():  # torch.onnx writes weights of equal values once
        torch.nn.init.uniform_(parameter)
    given = target.make_inputs(2, device="cpu").args
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, given, str(tmp_path / "net.onnx"), dynamo=False, opset_version=17, input_names=["x"],
            dynamic_axes={"x": {0: "batch"}},
        )  # fmt: skip
        program = torch.export.export(module, given, dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, tmp_path / "net.pt2")
    for file in ("net.onnx", "net.pt2"):
        found = trace_target(load_target(str(tmp_path / file), request=parse_request()))
        assert [macs(found, batch) for batch in (1, 5)] == [macs(by_name, batch) for batch in (1, 5)]
        is_folded = file == "net.onnx" and any(isinstance(each, BatchNorm) for each in module.modules())
        # torch.onnx folds batch norms into convolutions: their parameters are gone
        assert is_folded or found.parameter_count == by_name.parameter_count
