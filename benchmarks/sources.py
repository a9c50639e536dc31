"""Export the models of the zoos to ONNX, .pt2 and TorchScript, read them back, and compare what each road counts.

Usage:
    python benchmarks/sources.py docs/evidence/sources.csv [NAME...]     runs what the table lacks
    python benchmarks/sources.py docs/evidence/sources.csv --summary     prints the table of roads and zoos

Each row is one model: MACs per sample, parameters, and peak activations at batch 8 by its name, by ONNX, by .pt2 and by
TorchScript, traced and scripted; the size of the ONNX file and the time to read it. Weights are random, because
torch.onnx writes weights of equal values once. A road that is in the table already is not run again. Each model has a
process of its own: torch.onnx keeps what it exported, so that one process grew to 5 GB over a hundred models, while
tracing by name alone does not grow.
"""

import csv
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch

from capplan.core.memory.schedule import live_curve
from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration
from capplan.errors import CapplanError
from capplan.probe.foreign.libraries import import_torchvision
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target

ROADS = ("onnx", "pt2", "traced", "scripted")
FACTS = ("macs", "parameters", "activations")
COLUMNS = (
    "model", "file_bytes", "read_s", *FACTS, *(f"{fact}_{road}" for fact in FACTS for road in ROADS),
    *(f"error_{road}" for road in ROADS),
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
    rows = read_table(path)
    for name in wanted or names():
        row = rows.setdefault(name, {"model": name})
        lacking = [road for road in ROADS if not row.get(f"macs_{road}") and not row.get(f"error_{road}")]
        if lacking:
            with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as alone:
                row |= alone.submit(compare, name, lacking).result()
            write_table(path, rows)


def read_table(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of an earlier run by model; none where there was none."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["model"]: dict(row) for row in csv.DictReader(file)}


def write_table(path: Path, rows: dict[str, dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows.values())


def compare(name: str, roads: Sequence[str]) -> dict[str, Any]:
    """Return the columns of one model, by its name and by some roads."""
    target = load_target(name, request=parse_request())
    row: dict[str, Any] = {"model": name, **facts(trace_target(target))}
    for road in roads:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            try:
                module = randomised(target.build())
                row |= BY_ROAD[road](module, target.make_inputs(2, device="cpu").args, Path(folder))
            except (Exception, CapplanError) as error:
                row[f"error_{road}"] = short(error)
    return row


def read_back(path: Path, road: str, *inputs: str) -> dict[str, Any]:
    """Return the columns of a file."""
    started = time.perf_counter()
    target = load_target(str(path), request=parse_request(inputs=inputs))
    read_s = time.perf_counter() - started
    found: dict[str, Any] = {f"{fact}_{road}": value for fact, value in facts(trace_target(target)).items()}
    if road == "onnx":
        found |= {"file_bytes": sum(each.stat().st_size for each in path.parent.iterdir()), "read_s": round(read_s, 3)}
    return found


def by_onnx(module: torch.nn.Module, given: Any, folder: Path) -> dict[str, Any]:
    path = folder / "model.onnx"
    torch.onnx.export(
        module, given, str(path), dynamo=False, opset_version=17, input_names=["x"], dynamic_axes={"x": {0: "batch"}}
    )
    return read_back(path, "onnx")


def by_pt2(module: torch.nn.Module, given: Any, folder: Path) -> dict[str, Any]:
    program = torch.export.export(
        module.to("meta"), tuple(each.to("meta") for each in given), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    torch.export.save(program, folder / "model.pt2")
    return read_back(folder / "model.pt2", "pt2")


def by_trace(module: torch.nn.Module, given: Any, folder: Path) -> dict[str, Any]:
    return by_torchscript(torch.jit.trace(module, given, check_trace=False), given, folder, "traced")


def by_script(module: torch.nn.Module, given: Any, folder: Path) -> dict[str, Any]:
    return by_torchscript(torch.jit.script(module), given, folder, "scripted")


def by_torchscript(program: Any, given: Any, folder: Path, road: str) -> dict[str, Any]:
    torch.jit.save(program, folder / "model.pt")
    return read_back(folder / "model.pt", road, "x".join(map(str, given[0].shape[1:])))


BY_ROAD: dict[str, Callable[[torch.nn.Module, Any, Path], dict[str, Any]]] = {
    "onnx": by_onnx, "pt2": by_pt2, "traced": by_trace, "scripted": by_script,
}  # fmt: skip


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    for parameter in module.parameters():
        torch.nn.init.uniform_(parameter, 0.01, 0.02)
    return module.eval()


def facts(trace: Trace) -> dict[str, int]:
    recording = trace.recording(Configuration())
    counts = recording.calls_per_kernel()
    macs = sum(count * kernel_macs(kernel, 1) for kernel, count in zip(recording.kernels, counts, strict=True))
    live = live_curve(recording).at(8)
    return {"macs": macs, "parameters": trace.parameter_count, "activations": int(live.max() - live[0])}


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]


def summarise(path: Path) -> None:
    """Print how many models went through by each road, what agrees, and why the others failed."""
    rows = read_table(path).values()
    print("| road | zoo | read | MACs as by name | parameters as by name | activations |")
    print("| --- | --- | --- | --- | --- | --- |")
    for road in ROADS:
        for zoo in ("torchvision", "timm"):
            tried = [row for row in rows if row["model"].startswith(zoo) and row[f"macs_{road}"] + row[f"error_{road}"]]
            read = [row for row in tried if row[f"macs_{road}"]]
            if not read:
                continue
            same = [sum(row[f"{fact}_{road}"] == row[fact] for row in read) for fact in ("macs", "parameters")]
            ratios = [int(row[f"activations_{road}"]) / int(row["activations"]) for row in read]
            peaks = f"{min(ratios):.2f} to {max(ratios):.2f}, median {median(ratios):.2f}"
            print(f"| {road} | {zoo} | {len(read)} of {len(tried)} | {same[0]} | {same[1]} | {peaks} |")
    for row in rows:
        for road in ROADS:
            if row[f"error_{road}"]:
                print(f"{row['model']}, {road}: {row[f'error_{road}']}")


if __name__ == "__main__":
    table, *asked = sys.argv[1:]
    summarise(Path(table)) if asked == ["--summary"] else main(Path(table), asked)
