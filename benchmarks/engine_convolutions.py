"""Judge convolutional networks in an engine: ResNet-50's steps in TensorRT, and MLPerf's offline rates as ceilings.

Usage:
    python benchmarks/engine_convolutions.py ../shared/data/measured/latency-other.csv.gz

No row was fitted to. The steps are those of NVIDIA's DeepLearningExamples (Paddle with TensorRT) on A100 and A10.
MLPerf's offline submissions choose number format, batch and streams freely, so that an estimate above one of them is
too fast; the highest rate per GPU of all submissions is taken.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.trace.types import Trace
from capplan.core.workload import Framework, Precision, Workload
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration

STEPS = {"A100-SXM?-80GB": "a100-sxm4-80gb", "A10": "a10"}
CEILINGS = {
    "T4": "t4", "A100-SXM": "a100-sxm4-40gb", "A100-PCIe": "a100-pcie-40gb", "L40S": "l40s",
    "H100-PCIe": "h100-pcie-80gb", "H100-SXM": "h100-sxm5-80gb", "H100-NVL": "h100-nvl-94gb",
}  # fmt: skip
PRECISIONS = {"tf32": Precision.TF32, "fp16": Precision.FP16, "int8": Precision.INT8}
LARGE = (64, 128, 256, 512, 1024)


def main(path: Path) -> None:
    rows = pd.read_csv(path, dtype=str)
    is_engine = rows.framework.str.lower().str.contains("tensorrt", na=False)
    known = load_gpus()
    target = load_target("torchvision:resnet50", request=parse_request())
    workloads = {name: Workload(framework=Framework.TENSORRT, precision=each) for name, each in PRECISIONS.items()}
    trace = trace_target(target, configurations=list(dict.fromkeys(each.configuration for each in workloads.values())))
    print("| GPU | number format | rows | median error | 90 % within | bias | within the interval |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for label, gpu_id in STEPS.items():
        for name, workload in workloads.items():
            chosen = rows[is_engine & (rows.model == "RN50v1.5") & (rows.gpu == label) & (rows.precision == name)]
            batches = [int(each) for each in chosen.batch]
            measured_s = np.array([int(b) / float(r) for b, r in zip(chosen.batch, chosen.samples_per_s, strict=True)])
            judge(gpu_id, name, answers(trace, workload, known[gpu_id], batches), measured_s)
    print("\n| GPU | highest offline rate | estimated in int8 | share |\n| --- | --- | --- | --- |")
    for label, gpu_id in CEILINGS.items():
        chosen = rows[(rows.model == "mlperf-resnet50") & (rows.gpu == label) & rows.note.str.contains("Offline")]
        if chosen.empty:
            continue
        ceiling = (chosen.samples_per_s.astype(float) / chosen.gpu_count.astype(float)).max()
        rate = max(
            each.batch / each.latency_s.expected for each in answers(trace, workloads["int8"], known[gpu_id], LARGE)
        )
        print(f"| {gpu_id} | {ceiling:,.0f}/s | {rate:,.0f}/s | {rate / ceiling:.2f} |")


def answers(trace: Trace, workload: Workload, gpu: GpuSpec, batches: Sequence[int]) -> tuple[LatencyEstimate, ...]:
    """Return the estimates of one GPU at some batches."""
    step = ExecutedStep.of(trace.recording(workload.configuration), workload, calibration=load_calibration())
    (found,) = estimate_latencies(step, gpus=[gpu], batches=batches)
    assert not isinstance(found, Unsupported), found.reason
    return found


def judge(gpu: str, precision: str, found: Sequence[LatencyEstimate], measured_s: np.ndarray) -> None:
    """Print one line of errors."""
    logs = np.log(np.array([each.latency_s.expected for each in found]) / measured_s)
    inside = [each.latency_s.low <= time <= each.latency_s.high for each, time in zip(found, measured_s, strict=True)]
    print(
        *(f"{precision} {each.batch}: {np.exp(log):.2f}" for each, log in zip(found, logs, strict=True)),
        file=sys.stderr,
    )
    print(
        f"| {gpu} | {precision} | {len(logs)} | {np.median(np.abs(logs)):.1%} | {np.quantile(np.abs(logs), 0.9):.1%} | "
        f"{np.median(logs):+.1%} | {np.mean(inside):.0%} |"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
