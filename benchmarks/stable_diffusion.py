"""Set Stable Diffusion 1.5 beside what was measured: `python benchmarks/stable_diffusion.py MEMORY LATENCY --write`.

The rows are lambda-diffusers' (LambdaLabsML, benchmarks/*.csv, 2022 to 2023): a whole pipeline of 50 steps at 512 x 512
on A10, A100, A6000, V100, H100 and its MIG slices, batches of 1 to 128, with xFormers or with attention that is written
out. What the source does not say is stated as its figures show it: PyTorch 1.13; images decoded one by one above 16
with xFormers, where memory falls below half of that at 16; and fp32 with TF32 in matrix products from Ampere on,
because an H100 PCIe computes 80 TFLOP/s in it and could compute 51 without. Neither file was used to fit anything.

With --write the 90 % half-width of times with xFormers on GPUs of kinds of chips without measured pipelines is put into
`capplan/calibrations/pipelines.yaml`, and what holds nine of ten readings of memory beside weights. Run it with
`memory: 0` there: it adds to what the estimate itself says.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np

import capplan
from capplan.core.memory.fit import available_memory
from capplan.core.numbers import Interval
from capplan.core.plan.types import Fit, Plan
from capplan.specs.fitted import (
    PIPELINES_FILE,
    dump_pipeline_calibration,
    load_pipeline_calibration,
)
from capplan.tables import read_rows

ROOT = Path(__file__).parents[1]
SOURCE, NAME = "lambda-diffusers", "diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5"
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128]
GPUS = {
    "A10": "a10", "A100 80GB PCIe": "a100-pcie-80gb", "A100-PCIe-80GB": "a100-pcie-80gb",
    "A100-PCIE-40GB": "a100-pcie-40gb", "A100-PCIe-40GB": "a100-pcie-40gb", "A100-SXM4-40GB": "a100-sxm4-40gb",
    "A100-SXM-40GB": "a100-sxm4-40gb", "H100 PCIe": "h100-pcie-80gb", "H100-PCIe": "h100-pcie-80gb",
    "RTX A6000": "rtx-a6000", "V100-SXM2-16GB": "v100-sxm2-16gb",
}  # fmt: skip
MIG = " MIG "
WITHOUT_TF32 = ("v100-sxm2-16gb",)
COVERAGE = 0.9


def planned(row: Mapping[str, str], known: dict[tuple[object, ...], Plan]) -> tuple[Plan, str]:
    """Return the plan of a row's GPU, formats and attention at all batches, and the words that name its kind."""
    name, _, profile = row["gpu"].removeprefix("NVIDIA ").removeprefix("Tesla ").partition(MIG)
    gpu = GPUS[name] + (f"/{profile}" if profile else "")
    attention = "efficient" if "xformers" in row["framework"] else "math"
    precision = row["precision"].partition("/")[0]
    if precision == "fp32" and gpu not in WITHOUT_TF32:
        precision = "tf32"
    is_sliced = attention == "efficient" and int(row["batch"]) > 16
    key = (gpu, precision, attention, is_sliced)
    if key not in known:
        known[key] = capplan.plan(
            NAME, gpus=[gpu], batches=BATCHES, precision=precision, offload="none", utilization_fraction=1.0,
            torch_version="1.13", part_settings={"attention": attention}, settings={"vae_slicing": int(is_sliced)},
        )  # fmt: skip
    return known[key], f"{attention}, {precision}, {'one by one' if is_sliced else 'at once'}"


def fit_at(plan: Plan, batch: int) -> Fit | None:
    """Return the fit of a batch; None where it does not fit at any end of its size."""
    return next((fit for fit in plan.fits if fit.batch == batch), None)


def print_errors(title: str, found: Mapping[str, Sequence[tuple[float, bool]]]) -> None:
    """Print median and 90th percentile of errors, their bias, and the share of rows in the interval."""
    print(f"\n{title}\n| rows of | count | median | p90 | bias | covered |\n| --- | --- | --- | --- | --- | --- |")
    for name, rows in [*sorted(found.items()), ("all", [row for group in found.values() for row in group])]:
        logs = np.array([each for each, _ in rows])
        off = np.abs(np.expm1(logs))
        covered = np.mean([is_covered for _, is_covered in rows])
        print(
            f"| {name} | {len(logs)} | {np.median(off):.1%} | {np.quantile(off, 0.9):.1%} | "
            f"{np.exp(np.median(logs)):.2f} | {covered:.0%} |"
        )


def memory_half_width(rows: Sequence[tuple[float, Interval, float]]) -> float:
    """Return by how much, in logs, the ends of what lies beside weights move apart to hold nine of ten readings."""

    def holds(half: float) -> bool:
        inside = [
            weights + (size.low - weights) / exp(half) <= measured <= weights + (size.high - weights) * exp(half)
            for weights, size, measured in rows
        ]
        return float(np.mean(inside)) >= COVERAGE

    return next(step / 100 for step in range(100) if holds(step / 100))


def main() -> None:
    """Print the errors of memory, of what fits, and of time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("memory", type=Path)
    parser.add_argument("latency", type=Path)
    parser.add_argument("--write", action="store_true", help="put the half-width into pipelines.yaml")
    options = parser.parse_args()
    known: dict[tuple[object, ...], Plan] = {}
    right, wrong = 0, []
    memory: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    held: dict[str, list[tuple[float, Interval, float]]] = defaultdict(list)
    times: dict[str, dict[str, list[tuple[float, bool]]]] = {
        "xFormers": defaultdict(list), "attention written out": defaultdict(list),
    }  # fmt: skip
    for row in read_rows(options.memory):
        if SOURCE not in row["source_repo"]:
            continue
        plan, kind = planned(row, known)
        fit, ran = fit_at(plan, int(row["batch"])), bool(row["mem_mb"])
        room = fit and available_memory(fit.gpu, utilization_fraction=1.0).expected
        fits = fit is not None and room is not None and fit.memory.total_bytes.expected <= room
        right += fits == ran
        wrong += [f"{row['gpu']}, {kind}, batch {row['batch']}: {'ran' if ran else 'failed'}"] * (fits != ran)
        if ran and fit is not None:
            reserved, measured = fit.memory.peak_reserved_bytes, float(row["mem_mb"]) * 1e6
            memory[kind].append((log(reserved.expected / measured), reserved.low <= measured <= reserved.high))
            held[kind].append((fit.memory.weight_bytes, reserved, measured))
    print(f"fits or not: {right} of {right + len(wrong)} right; wrong: {'; '.join(wrong)}")
    print_errors("reserved memory", memory)
    beside = memory_half_width([row for kind, rows in held.items() if kind.startswith("efficient") for row in rows])
    print(f"90 % of readings with xFormers lie within {beside} in logs of what lies beside weights")
    left_out = 0
    for row in read_rows(options.latency):
        if SOURCE not in row["source_repo"]:
            continue
        plan, _ = planned(row, known)
        fit, measured_s = fit_at(plan, int(row["batch"])), float(row["latency_ms"]) / 1e3
        if fit is None:
            left_out += 1
            continue
        time = fit.latency.latency_s
        attention = "xFormers" if "xformers" in row["framework"] else "attention written out"
        is_covered = time.low <= measured_s <= time.high
        times[attention][fit.gpu.id].append((log(time.expected / measured_s), is_covered))
    unlike = [abs(error) for rows in times["xFormers"].values() for error, _ in rows]
    half_width = float(f"{np.quantile(unlike, COVERAGE):.4g}")
    print(f"90 % of {len(unlike)} times with xFormers lie within {half_width} in logs")
    if options.write:
        calibration = load_pipeline_calibration()
        width = replace(calibration.width, unlike=half_width, memory=beside)
        text = dump_pipeline_calibration(replace(calibration, width=width))
        (ROOT / "capplan" / "calibrations" / PIPELINES_FILE).write_text(text, encoding="utf-8")
    print(f"{left_out} rows of time left out, which do not fit by their estimate")
    for attention, found in times.items():
        print_errors(f"time with {attention}", found)


if __name__ == "__main__":
    main()
