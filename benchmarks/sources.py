"""Export the models of the zoos to ONNX and .pt2, read them back, and compare what is counted by each road.

Usage:
    python benchmarks/sources.py docs/sources.csv [NAME...]

Each row is one model: MACs per sample, parameters, and peak activations at batch 8 by its name, by ONNX and by .pt2;
the size of the ONNX file and the time to read it. Weights are random, because torch.onnx writes weights of equal values
once. A model that is in the table already is not run again. Each model has a process of its own: torch.onnx keeps what
it exported, so that one process grew to 5 GB over a hundred models, while tracing by name alone does not grow.
"""

import csv
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from capplan.core.memory.liveness import live_curve
from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration
from capplan.errors import CapplanError
from capplan.probe.foreign.torchvision_ops import import_torchvision
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target

COLUMNS = (
    "model", "file_bytes", "read_s", "macs", "macs_onnx", "macs_pt2", "parameters", "parameters_onnx", "parameters_pt2",
    "activations_bytes", "activations_onnx_bytes", "activations_pt2_bytes", "error_onnx", "error_pt2",
)  # fmt: skip
TIMM = [
    "beit_base_patch16_224",
    "botnet26t_256",
    "cait_xxs24_224",
    "caformer_s18",
    "coat_lite_mini",
    "coatnet_0_rw_224",
    "convit_tiny",
    "convmixer_768_32",
    "convnext_tiny",
    "convnextv2_atto",
    "crossvit_tiny_240",
    "cspdarknet53",
    "darknet53",
    "davit_tiny",
    "deit_tiny_patch16_224",
    "densenet121",
    "dla34",
    "dpn68",
    "edgenext_small",
    "efficientformer_l1",
    "efficientnet_b0",
    "efficientvit_b0",
    "eva02_tiny_patch14_224",
    "fastvit_t8",
    "focalnet_tiny_srf",
    "gcvit_xxtiny",
    "ghostnet_100",
    "hardcorenas_a",
    "hgnetv2_b0",
    "hrnet_w18_small",
    "inception_next_tiny",
    "levit_128",
    "maxvit_tiny_tf_224",
    "mixer_s16_224",
    "mnasnet_100",
    "mobilenetv3_large_100",
    "mobilenetv4_conv_small",
    "mobileone_s0",
    "mobilevit_s",
    "mvitv2_tiny",
    "nf_resnet50",
    "pit_ti_224",
    "poolformer_s12",
    "pvt_v2_b0",
    "regnetx_002",
    "repvgg_a0",
    "res2net50_26w_4s",
    "resnet50",
    "swin_tiny_patch4_window7_224",
    "tnt_s_patch16_224",
    "vit_base_patch16_224",
    "xcit_nano_12_p16_224",
]


def names() -> list[str]:
    import_torchvision()
    import torchvision

    classifiers = torchvision.models.list_models(module=torchvision.models)
    return [*(f"torchvision:{name}" for name in classifiers), *(f"timm:{name}" for name in TIMM)]


def main(path: Path, wanted: list[str]) -> None:
    done = {row["model"] for row in csv.DictReader(path.open())} if path.exists() else set()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        for name in wanted or names():
            if name not in done:
                with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as alone:
                    writer.writerow(alone.submit(compare, name).result())
                file.flush()


def compare(name: str) -> dict[str, Any]:
    target = load_target(name, request=parse_request())
    by_name = facts(trace_target(target))
    row: dict[str, Any] = {"model": name, **by_name}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            module = randomised(target.build())
            given = target.make_inputs(2, device="cpu").args
            row |= by_onnx(module, given, Path(folder) / "model.onnx")
        except (Exception, CapplanError) as error:
            row["error_onnx"] = short(error)
        try:
            row |= by_pt2(module, given, Path(folder) / "model.pt2")
        except (Exception, CapplanError) as error:
            row["error_pt2"] = short(error)
    return row


def by_onnx(module: torch.nn.Module, given: Any, path: Path) -> dict[str, Any]:
    torch.onnx.export(
        module, given, str(path), dynamo=False, opset_version=17, input_names=["x"], dynamic_axes={"x": {0: "batch"}}
    )
    started = time.perf_counter()
    target = load_target(str(path), request=parse_request())
    read_s = time.perf_counter() - started
    found = {
        f"{key.removesuffix('_bytes')}_onnx{'_bytes' * key.endswith('_bytes')}": value
        for key, value in facts(trace_target(target)).items()
    }
    return {
        "file_bytes": sum(each.stat().st_size for each in path.parent.iterdir()),
        "read_s": round(read_s, 3),
        **found,
    }


def by_pt2(module: torch.nn.Module, given: Any, path: Path) -> dict[str, Any]:
    program = torch.export.export(
        module.to("meta"), tuple(each.to("meta") for each in given), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    torch.export.save(program, path)
    found = facts(trace_target(load_target(str(path), request=parse_request())))
    return {
        f"{key.removesuffix('_bytes')}_pt2{'_bytes' * key.endswith('_bytes')}": value for key, value in found.items()
    }


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    for parameter in module.parameters():
        torch.nn.init.uniform_(parameter, 0.01, 0.02)
    return module.eval()


def facts(trace: Trace) -> dict[str, int]:
    recording = trace.recording(Configuration())
    counts = recording.calls_per_kernel()
    macs = sum(count * kernel_macs(kernel, 1) for kernel, count in zip(recording.kernels, counts, strict=True))
    live = live_curve(recording).at(8)
    return {
        "macs": macs, "parameters": trace.parameter_count, "activations_bytes": int(live.max() - live[0]),
    }  # fmt: skip


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
