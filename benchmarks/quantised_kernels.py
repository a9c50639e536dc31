"""Judge the time of quantised matrix products against 16-bit ones, each GPU left out in turn.

Usage:
    python benchmarks/quantised_kernels.py ../shared/data/llm

Prints, for each format, the median over products of at least 4,096 rows of the measured time over that of the 16-bit
product of the same shape, times the ratio of the GPU's printed peaks; and how far the median of the other GPUs is off.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.core.gpus.spec import PeakKind
from capplan.specs import load_gpus

GPUS = {
    "a100_sxm": "a100-sxm4-80gb", "h100_sxm": "h100-sxm5-80gb", "b200_sxm": "b200-sxm-180gb",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
}  # fmt: skip
FORMATS = {
    "int8_wo": PeakKind.BF16, "int4_wo": PeakKind.BF16, "sq": PeakKind.INT8, "fp8": PeakKind.FP8,
    "fp8_block": PeakKind.FP8, "nvfp4": PeakKind.FP4,
}  # fmt: skip
FEWEST_ROWS, SMALLEST_SIDE = 4096, 2048


def slowdowns(folder: Path) -> pd.DataFrame:
    """Return a row for each GPU, engine and format with the median slowdown against the printed peaks."""
    known = load_gpus()
    found = []
    for engine in ("vllm", "trtllm"):
        rows = pd.read_csv(folder / f"op-gemm-{engine}.csv.gz")
        rows = rows[(rows.m >= FEWEST_ROWS) & (rows.n >= SMALLEST_SIDE) & (rows.k >= SMALLEST_SIDE)]
        times = rows.groupby(["gpu", "gemm_dtype", "m", "n", "k"]).latency_ms.median()
        for name, gpu_id in GPUS.items():
            gpu = known[gpu_id]
            for dtype, kind in FORMATS.items():
                held = times.index.droplevel(["m", "n", "k"])
                if (name, dtype) not in held:
                    continue
                ratio = (times[name, dtype] / times[name, "bfloat16"]).dropna()
                peaks = (gpu.peak(kind) or np.nan) / (gpu.peak(PeakKind.BF16) or np.nan)
                found.append((engine, gpu_id, dtype, len(ratio), float(ratio.median()) * peaks))
    return pd.DataFrame(found, columns=["engine", "gpu", "format", "products", "slowdown"])


def main(folder: Path) -> None:
    found = slowdowns(folder)
    print(found.to_string(index=False))
    print("\n| format | GPUs | slowdown | a GPU left out is off by (median, largest) |\n| --- | --- | --- | --- |")
    for dtype, rows in found.groupby("format"):
        by_gpu = rows.groupby("gpu").slowdown.mean()
        errors = [abs(by_gpu.drop(gpu).median() / by_gpu[gpu] - 1) for gpu in by_gpu.index if len(by_gpu) > 1]
        told = f"{np.median(errors):.0%}, {max(errors):.0%}" if errors else "one GPU alone"
        print(f"| {dtype} | {len(by_gpu)} | {by_gpu.median():.2f} | {told} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
