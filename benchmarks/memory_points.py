"""Predicted peaks against published readings of single runs, each with the reading of its own kind.

The file of published readings holds `max_memory_allocated` of segment-anything's encoder and of detectors in training.
Their own code is in no zoo, but what they run is: timm's ViT-Det encoder with attention spelt out, and torchvision's
detectors built as detectron2 or mmdetection build theirs. Readings of other kinds are listed as not compared.

    python benchmarks/memory_points.py [--write]
"""

import argparse
import collections
import csv
import gzip
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from pages import EVIDENCE, write_section
from torch import nn

from capplan.core.memory.model import MemoryModel
from capplan.core.numbers import Interval
from capplan.core.trace.types import Trace
from capplan.core.workload import Framework, Optimizer, Precision, Training, Workload
from capplan.probe.foreign.libraries import import_torchvision
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.target.sources.image_zoos import import_timm
from capplan.probe.trace.tracer import trace_module, trace_target
from capplan.specs import load_gpus
from capplan.specs.calibration import load_memory_calibration
from capplan.units import format_bytes

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT.parent / "shared" / "data" / "measured" / "memory.csv.gz"
DOCUMENT = EVIDENCE / "memory.md"

SAM_PRECISIONS = {"fp32/tf32": Precision.FP32, "bf16": Precision.BF16}
SAM_SIZES = {"sam-vit_b": "base", "sam-vit_h": "huge"}
SAM_TECHNIQUES = {
    "fp32": Framework.EAGER, "bf16": Framework.EAGER, "compile": Framework.COMPILE_GRAPHS,
    "SDPA": Framework.COMPILE_GRAPHS,
}  # fmt: skip
"""Of segment-anything-fast's steps those that leave number formats and kernels to PyTorch; SDPA is compiled too."""
HUGE = ("hidden_size=1280", "num_hidden_layers=32", "num_attention_heads=16", "global_attn_indexes=[7,15,23,31]")
DETECTRON_BACKBONES = {"R_50": "resnet50", "R_101": "resnet101", "X_101_32x8d": "resnext101_32x8d"}
MMDET_BACKBONES = {"R-50": "resnet50", "R-101": "resnet101", "X-101-64x4d": "resnext101_64x4d"}
IMAGE = (800, 1333)
OBJECTS = 7
"""Labelled objects in an image of COCO, on average 7.3 (Lin et al. 2014)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A published `max_memory_allocated` and what it is compared with."""

    source: str
    model: str
    gpu: str
    batch: int
    workload: Workload
    measured_bytes: float
    make_trace: Callable[[], Trace]


def read_rows() -> Iterator[dict[str, str]]:
    """Give each published point once."""
    with gzip.open(MEASURED, "rt", newline="") as file:
        points = [row for row in csv.DictReader(file) if row["bound_type"] == "point"]
    keys = ("library", "model", "framework", "precision", "gpu", "batch", "mem_mb", "note")
    yield from {tuple(row[key] for key in keys): row for row in points}.values()


def readings() -> Iterator[Reading]:
    """Pair the rows that can be built with what builds them."""
    for row in read_rows():
        found = {"segment-anything-fast": _sam, "detectron2": _detectron, "mmdetection": _mmdetection}.get(
            row["library"], lambda _: None
        )(row)
        if found is not None:
            yield found


def _sam(row: dict[str, str]) -> Reading | None:
    technique = row["note"].removeprefix("technique=")
    if technique not in SAM_TECHNIQUES:
        return None
    precision, size = SAM_PRECISIONS[row["precision"]], SAM_SIZES[row["model"].split()[0]]
    workload = Workload(precision=precision, torch_version=(2, 2), framework=SAM_TECHNIQUES[technique])
    make_trace = fused_encoder_trace if technique == "SDPA" else encoder_trace
    return Reading(
        source="segment-anything-fast, inference",
        model=f"{row['model'].split()[0]} {technique}",
        gpu="a100-sxm4-40gb",
        batch=int(row["batch"]),
        workload=workload,
        measured_bytes=float(row["mem_mb"]) * 2**20,
        make_trace=partial(make_trace, size, workload),
    )


def _detectron(row: dict[str, str]) -> Reading | None:
    match = re.fullmatch(r"COCO-\w+/(faster|mask|keypoint)_rcnn_(\w+)_FPN_3x", row["model"])
    if match is None:
        return None
    return _detector_reading(row, kind=match[1], backbone=DETECTRON_BACKBONES[match[2]], source="detectron2, training")


def _mmdetection(row: dict[str, str]) -> Reading | None:
    match = re.fullmatch(r"faster_rcnn (.+)-FPN pytorch", row["model"])
    if match is None or match[1] not in MMDET_BACKBONES:
        return None
    return _detector_reading(row, kind="faster", backbone=MMDET_BACKBONES[match[1]], source="mmdetection, training")


def _detector_reading(row: dict[str, str], *, kind: str, backbone: str, source: str) -> Reading:
    workload = Workload(training=Training(optimizer=Optimizer.MOMENTUM), torch_version=(1, 4))
    norm = FrozenByMode if source.startswith("mmdetection") else None
    return Reading(
        source=source,
        model=f"{kind} R-CNN {backbone} FPN",
        gpu="v100-sxm2-16gb",
        batch=2,
        workload=workload,
        measured_bytes=float(row["mem_mb"]) * 2**20,
        make_trace=partial(detector_trace, kind, backbone, norm, workload),
    )


@cache
def encoder_trace(size: str, workload: Workload) -> Trace:
    """Trace the image encoder with its attention spelt out, as segment-anything writes it."""
    import_timm()
    from timm.layers import set_fused_attn

    set_fused_attn(enable=False)
    target = load_target(f"timm:samvit_{size}_patch16", request=parse_request())
    return trace_target(target, configurations=[workload.configuration])


@cache
def fused_encoder_trace(size: str, workload: Workload) -> Trace:
    """Trace the image encoder with scaled dot-product attention and its bias as mask."""
    request = parse_request(arg=HUGE if size == "huge" else ())
    return trace_target(load_target("hf:sam_vision_model", request=request), configurations=[workload.configuration])


class FrozenByMode(nn.BatchNorm2d):
    """A batch norm that stays in evaluation mode, as mmdetection's `norm_eval`: gradients, but no statistics."""

    def train(self, mode: bool = True) -> "FrozenByMode":
        super().train(False)
        del mode
        return self


@cache
def detector_trace(kind: str, backbone: str, norm: type[nn.Module] | None, workload: Workload) -> Trace:
    """Trace two training steps of torchvision's detector; stem and first stage frozen, as both projects freeze them."""
    torch.manual_seed(0)  # detectors draw the regions that they train on
    import_torchvision()
    from torchvision.models import detection
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    from torchvision.ops import FrozenBatchNorm2d

    with torch.device("meta"):
        body = resnet_fpn_backbone(
            backbone_name=backbone, weights=None, norm_layer=norm or FrozenBatchNorm2d, trainable_layers=3
        )
        make = {"faster": detection.FasterRCNN, "mask": detection.MaskRCNN, "keypoint": detection.KeypointRCNN}[kind]
        module = make(body, num_classes=2 if kind == "keypoint" else 81)
    return trace_module(
        module, partial(detection_inputs, kind), name=kind, configurations=[workload.configuration], exact_batch=2
    )


def detection_inputs(kind: str, batch: int, *, device: Any) -> SimpleNamespace:
    """Make images of the largest size, with the objects of an average one."""
    corners = torch.rand(OBJECTS, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([900.0, 500.0])
    target = {"boxes": torch.cat([corners, corners + 200], dim=1), "labels": torch.ones(OBJECTS, dtype=torch.int64)}
    if kind == "mask":
        target["masks"] = torch.zeros(OBJECTS, *IMAGE, dtype=torch.uint8)
    if kind == "keypoint":
        target["keypoints"] = torch.cat([corners[:, None].repeat(1, 17, 1) + 50, torch.ones(OBJECTS, 17, 1)], dim=2)
    images = [torch.zeros(3, *IMAGE, device=device) for _ in range(batch)]
    return SimpleNamespace(args=(images, [dict(target) for _ in range(batch)]), kwargs={}, names=())


def predict(reading: Reading) -> Interval:
    """Estimate the peak allocated."""
    model = MemoryModel(trace=reading.make_trace(), workload=reading.workload, calibration=load_memory_calibration())
    return model.estimate(batch=reading.batch, gpu=load_gpus().find(reading.gpu)).peak_allocated_bytes


def table(found: Sequence[tuple[Reading, Interval]]) -> str:
    """Write a row per reading, with its error and whether the interval holds it."""
    lines = [
        "| source | model | batch | measured | predicted | from | to | error |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for reading, peak in found:
        cells = (reading.source, reading.model, str(reading.batch), format_bytes(reading.measured_bytes))
        sizes = (format_bytes(peak.expected), format_bytes(peak.low), format_bytes(peak.high))
        error = f"{100 * (peak.expected / reading.measured_bytes - 1):+.1f} %"
        lines.append("| " + " | ".join((*cells, *sizes, error)) + " |")
    return "\n".join(lines) + "\n"


def left_out() -> str:
    """Count the readings that were not compared, by project, kind and framework."""
    compared = collections.Counter((reading.source.split(",")[0]) for reading in readings())
    rows = list(read_rows())
    lines = ["| project | reading | rows | compared |", "| --- | --- | ---: | ---: |"]
    kinds = collections.Counter((row["library"], row["measured_kind"].split("(")[0].strip()) for row in rows)
    for (library, kind), count in sorted(kinds.items()):
        lines.append(f"| {library} | {kind} | {count} | {compared[library]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare and print; `--write` renews the document's tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    words = parser.parse_args()
    found = [(reading, predict(reading)) for reading in readings()]
    parts = {"allocated": table(found), "left-out": left_out()}
    for name, content in parts.items():
        print(content)
        if words.write:
            write_section(DOCUMENT, f"points-{name}", content)


if __name__ == "__main__":
    main()
