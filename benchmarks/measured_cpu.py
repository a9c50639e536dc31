"""Calibrate the CPU at hand, then set the wall times of thirty models beside their estimates, as a user would.

Usage:
    python benchmarks/measured_cpu.py docs/evidence/cpus-wall.csv [MODEL...] [--precision bf16]

The steps are those of `capplan calibrate device --device cpu --spec FOLDER -o FILE` and, for each model, of `capplan
measure MODEL --device cpu --batch 1,4 --calibration FILE --specs FOLDER`, in one process: about six minutes on two idle
cores. All cores that PyTorch uses work on a model (`OMP_NUM_THREADS` changes that), and time is that of the wall, so
that other programs disturb it: the median of the repetitions is compared, and their least beside it, which suffers less
from them. Each row holds the load of the machine over the last minute.
"""

import csv
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import torch
from accuracy_cpu import MODELS

import capplan
from capplan.app.calibration.cpu import cpu_at_hand, cpu_calibration_text, cpu_calibrations
from capplan.core.gpus.spec import GpuSpec, Microbenchmark
from capplan.core.measurement.types import Measurement

COLUMNS = (
    "model", "batch", "precision", "threads", "measured_s", "least_s", "repetitions", "predicted_s", "low_s", "high_s",
    "load",
)  # fmt: skip
BATCHES = (1, 4)
NAMES = {"measured_s": "median of repetitions", "least_s": "least of repetitions"}


def main(path: Path, models: Sequence[str], precision: str) -> None:
    """Calibrate, measure each model, and print the errors."""
    started = time.perf_counter()
    print(f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    cpu = cpu_at_hand()
    reached = {kind: cpu.spec.measured[kind].value for kind in (Microbenchmark.MATMUL_FP32, Microbenchmark.COPY)}
    print(", ".join(f"{kind} {rate / 1e9:.4g} G/s" for kind, rate in reached.items()))
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder, path.open("w", newline="") as file:
        calibration = Path(folder) / "cpu.yaml"
        made = cpu_calibrations(cpu, made=date.today(), command="python benchmarks/measured_cpu.py")
        calibration.write_text(cpu_calibration_text(made))
        print(f"calibrated in {time.perf_counter() - started:.0f} s", flush=True)
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for name in models:
            for row in measured(name, precision, cpu.spec, calibration):
                rows.append(row)
                writer.writerow(row)
                file.flush()
    summarise(rows)
    print(f"{time.perf_counter() - started:.0f} s in all, load {os.getloadavg()[0]:.1f}")


def measured(name: str, precision: str, cpu: GpuSpec, calibration: Path) -> list[dict[str, object]]:
    """Return a row for each batch of one model."""
    sized = {"seq_len": 128} if name.startswith("hf:") else {}
    points = capplan.measure(
        name, batches=BATCHES, device="cpu", precision=precision, gpu=cpu, calibration=calibration,
        warm_up_runs=3, budget_s=1.5, **sized,
    )  # fmt: skip
    rows: list[dict[str, object]] = []
    for point in points:
        assert isinstance(point, Measurement), point
        assert point.theory is not None, point.notes
        theory, taken_s = point.theory, point.latency.median
        rows.append(
            {
                "model": name, "batch": point.workload.batch, "precision": precision,
                "threads": point.device.threads,
                "measured_s": f"{taken_s:.6g}", "least_s": f"{min(point.samples_s):.6g}",
                "repetitions": len(point.samples_s), "predicted_s": f"{theory.expected_s:.6g}",
                "low_s": f"{theory.low_s:.6g}", "high_s": f"{theory.high_s:.6g}", "load": f"{os.getloadavg()[0]:.1f}",
            }
        )  # fmt: skip
        print(
            f"{name:34} {point.workload.batch} {1e3 * taken_s:8.2f} ms, {theory.expected_s / taken_s:.2f}", flush=True
        )
    return rows


def summarise(rows: Sequence[dict[str, object]]) -> None:
    """Print the errors against the median and against the least of the repetitions, by batch and over all."""
    print("\n| compared with | batch | models | median error | 90 % within | bias | within the interval |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for column, name in NAMES.items():
        for batches in ((1,), (4,), BATCHES):
            kept = [row for row in rows if row["batch"] in batches]
            taken, predicted, low, high = (
                np.array([float(str(row[key])) for row in kept]) for key in (column, "predicted_s", "low_s", "high_s")
            )
            ratios = predicted / taken
            off, inside = np.abs(ratios - 1), np.mean((low <= taken) & (taken <= high))
            print(
                f"| {name} | {', '.join(map(str, batches))} | {len(kept)} | {np.median(off):.1%} | "
                f"{np.quantile(off, 0.9):.1%} | {np.median(ratios):.2f} | {inside:.0%} |"
            )


if __name__ == "__main__":
    words = sys.argv[1:]
    asked = words.pop(words.index("--precision") + 1) if "--precision" in words else "fp32"
    names = [each for each in words if each != "--precision"]
    main(Path(names[0]), names[1:] or MODELS, asked)
