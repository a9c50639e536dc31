"""Fit the constants of inference engines to measured steps, and judge them on GPUs and models that were held out.

Usage:
    python benchmarks/accuracy_engines.py ../shared/data/measured/latency-other.csv.gz [FOLDER_FOR_TRACES]

Steps are those of TensorRT 7 to 10 (BERT) and of FasterTransformer's engines (ViT, Swin), in fp16 and int8. Prints the
constants fitted to all rows, and the errors of rows whose GPU, or whose model, was left out of the fit.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import device_rates
from capplan.core.latency.engines import ENGINES, EngineConstants, engine_calibration
from capplan.core.latency.op_table import KernelTable, kernel_table
from capplan.core.latency.predict import time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Framework, Precision, Variant, Workload
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration

GPUS = {
    "T4": "t4", "A100-SXM?-40GB": "a100-sxm4-40gb", "A100-SXM?": "a100-sxm4-40gb", "L40S": "l40s", "A10": "a10",
    "V100-SXM2?-16GB": "v100-sxm2-16gb", "V100-SXM2?": "v100-sxm2-16gb",
}  # fmt: skip
MODELS: Mapping[str, tuple[str, dict[str, object]]] = {
    "bert base": ("hf:bert", {}),
    "bert large": (
        "hf:bert",
        {"arg": ["hidden_size=1024", "num_hidden_layers=24", "num_attention_heads=16", "intermediate_size=4096"]},
    ),
    "vit-b_16": ("timm:vit_base_patch16_224", {"input_size": "3x384x384", "arg": ["img_size=384"]}),
    "vit-b_16-224": ("timm:vit_base_patch16_224", {}),
    "swin-tiny": ("timm:swin_tiny_patch4_window7_224", {}),
    "swin-base": ("timm:swin_base_patch4_window7_224", {}),
}
PRECISIONS = {"fp16": Precision.FP16, "int8": Precision.INT8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Measured times of one model, sequence, precision and GPU over batches. [s]"""

    model: str
    gpu: GpuSpec
    step: ExecutedStep
    table: KernelTable
    measured_s: np.ndarray


def read_rows(path: Path, traces: Path) -> list[Rows]:
    """Read the engines' rows as tables of kernels, one for each curve over batches."""
    found = pd.read_csv(path, low_memory=False)
    is_trt = found.framework.str.match(r"tensorrt (7\.2\.3\.4$|8|10)") & found.model.str.lower().isin(MODELS)
    is_ft = found.framework.str.startswith("fastertransformer") & found.model.isin(MODELS)
    found = found[(is_trt | is_ft) & found.precision.isin(PRECISIONS) & found.gpu.isin(GPUS) & (found.quality == "A")]
    found = found.assign(
        model=found.model.str.lower(), gpu=found.gpu.map(GPUS), length=found.img_or_seq.fillna("").astype(str)
    )
    best = found.groupby(["model", "gpu", "precision", "length", "batch"]).latency_ms.median().reset_index()
    known, calibration = load_gpus(), load_calibration()
    rows = []
    for (model, gpu, precision, length), curve in best.groupby(["model", "gpu", "precision", "length"]):
        workload = Workload(precision=PRECISIONS[precision], framework=Framework.TENSORRT)
        tokens = int(float(length)) if model.startswith("bert") and length else None
        recording = trace_of(model, tokens, traces).recording(workload.configuration)
        step = ExecutedStep.of(recording, workload, calibration=calibration)
        batches = tuple(int(each) for each in curve.batch)
        rows.append(
            Rows(
                model=model, gpu=known[gpu], step=step, table=kernel_table(step, batches=batches),
                measured_s=curve.latency_ms.to_numpy() / 1e3,
            )
        )  # fmt: skip
    return rows


def trace_of(model: str, tokens: int | None, folder: Path) -> Trace:
    """Trace a model in 16 bits, or read the trace kept from an earlier run."""
    path = folder / f"{model.replace(' ', '-')}-{tokens}.trace.json"
    if path.exists():
        return load_trace(path.read_bytes(), where=str(path))
    words, options = MODELS[model]
    target = load_target(words, request=parse_request(**{**options, "seq_len": tokens}))
    configuration = Configuration(variant=Variant.HALF, half_dtype="float16")
    trace = trace_target(target, configurations=[configuration])
    path.write_bytes(dump_trace(trace, compress=False))
    return trace


def predicted_s(row: Rows, base: Calibration, constants: EngineConstants) -> np.ndarray:
    """Predict the times of a curve with some constants. [s]"""
    step = replace(row.step, calibration=engine_calibration(base, Framework.TENSORRT, constants))
    rates = device_rates(row.gpu, row.step.workload)
    return time_kernels(step, row.table, devices=[(row.gpu, rates)]).step_s[0]


def errors(rows: Sequence[Rows], base: Calibration, constants: EngineConstants) -> list[np.ndarray]:
    """Return the logs of predicted over measured times, by curve."""
    return [np.log(predicted_s(row, base, constants) / row.measured_s) for row in rows]


def fit(rows: Sequence[Rows], base: Calibration) -> EngineConstants:
    """Search the constants that make the median absolute error least, one after the other."""
    held = ENGINES[Framework.TENSORRT]
    grids = {
        "product": np.arange(0.6, 1.31, 0.1), "attention": np.array([0.5, 0.7, 1.0, 1.4]),
        "elementwise": np.array([0.7, 1.0, 1.4]), "kernel_s": np.array([2, 3, 4, 5, 6]) * 1e-6,
    }  # fmt: skip
    for name, values in [*grids.items(), *grids.items()]:
        tried = [replace(held, **{name: float(value)}) for value in values]
        held = min(tried, key=lambda each: _loss(rows, base, each))
    return held


def _loss(rows: Sequence[Rows], base: Calibration, constants: EngineConstants) -> float:
    return float(np.mean([np.abs(each).mean() for each in errors(rows, base, constants)]))


def engine_of(row: Rows) -> str:
    """Return the engine that ran a curve: TensorRT for BERT, FasterTransformer for image transformers."""
    return "TensorRT" if row.model.startswith("bert") else "FasterTransformer"


def main(path: Path, traces: Path) -> None:
    traces.mkdir(parents=True, exist_ok=True)
    rows = read_rows(path, traces)
    base = load_calibration().parts["compile"]
    print(f"{len(rows)} curves, {sum(len(row.measured_s) for row in rows)} rows")
    print("as torch.compile:", f"{_loss(rows, base, ENGINES[Framework.TENSORRT]):.3f}")
    whole = fit(rows, base)
    print("all rows:", whole, f"{_loss(rows, base, whole):.3f}")
    held_out: list[np.ndarray] = []
    by_kind: dict[tuple[str, str, str], list[np.ndarray]] = {}
    print("\n| held out | rows | median error | 90 % within | bias |\n| --- | --- | --- | --- | --- |")
    for key, name in ((lambda row: row.gpu.id, "GPU"), (lambda row: row.model, "model")):
        for value in sorted({key(row) for row in rows}):
            inside, outside = [row for row in rows if key(row) != value], [row for row in rows if key(row) == value]
            by_curve = errors(outside, base, fit(inside, base))
            for row, off in zip(outside, by_curve, strict=True):
                by_kind.setdefault((name, engine_of(row), str(row.step.workload.precision)), []).append(off)
            off = np.concatenate(by_curve)
            held_out.append(off)
            print(
                f"| {name} {value} | {len(off)} | {np.median(np.abs(off)):.1%} | "
                f"{np.quantile(np.abs(off), 0.9):.1%} | {np.mean(off):+.1%} |", flush=True,
            )  # fmt: skip
    print("\n| held out | engine | format | rows | median error | 90 % within | bias |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for (name, engine, precision), found in sorted(by_kind.items()):
        off = np.concatenate(found)
        print(
            f"| {name}s | {engine} | {precision} | {len(off)} | {np.median(np.abs(off)):.1%} | "
            f"{np.quantile(np.abs(off), 0.9):.1%} | {np.mean(off):+.1%} |"
        )
    every = np.abs(np.concatenate(held_out))
    print(f"\nhalf-width of 90 %: {np.quantile(every, 0.9):.3f}; median {np.median(every):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "engine-traces"))
