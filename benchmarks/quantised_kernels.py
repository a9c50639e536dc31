"""Judge quantised matrix products against 16-bit ones, each GPU left out in turn, and FlashAttention 3 on Hopper.

Usage:
    python benchmarks/quantised_kernels.py ../shared/data/llm --write

`--write` puts slowdowns and half-widths into `capplan/calibrations/rates.yaml`. Prints, for each format, the median
over products of at least 4,096 rows of the measured time over that of the 16-bit product of the same shape, times the
ratio of the GPU's printed peaks; how far the median of the other GPUs is off; and for single products of a GPU left
out, predicted from their 16-bit times by the other GPUs' median, the errors and the share within the half-width that
the file adds to an interval. FlashAttention 3 was timed on an H100 alone: its rows of 4,096 and more tokens are set
beside what capplan estimates of PyTorch's own attention there, of which a causal one computes half.
"""

import argparse
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import capplan
from capplan.core.gpus.rate_laws import QuantisedLaws
from capplan.core.gpus.spec import PeakKind
from capplan.core.ops.attention import AttentionBackend
from capplan.specs import load_gpus
from capplan.specs.folders import calibration_file
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

GPUS = {
    "a100_sxm": "a100-sxm4-80gb", "h100_sxm": "h100-sxm5-80gb", "b200_sxm": "b200-sxm-180gb",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
}  # fmt: skip
FORMATS = {
    "int8_wo": PeakKind.BF16, "int4_wo": PeakKind.BF16, "sq": PeakKind.INT8, "fp8": PeakKind.FP8,
    "fp8_block": PeakKind.FP8, "nvfp4": PeakKind.FP4,
}  # fmt: skip
FEWEST_ROWS, SMALLEST_SIDE = 4096, 2048
LONG, LAYERS = 4096, 20


SCHEMES = {
    "int8_wo": "int8_weight_only", "int4_wo": "int4_weight_only", "sq": "int8_dynamic", "fp8": "float8_dynamic",
    "fp8_block": "fp8_block", "nvfp4": "nvfp4_dynamic",
}  # fmt: skip


def products(folder: Path) -> pd.DataFrame:
    """Return a row for each product: its slowdown against the 16-bit one, times the ratio of the printed peaks."""
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
                found += [(engine, gpu_id, dtype, float(each) * peaks) for each in ratio]
    return pd.DataFrame(found, columns=["engine", "gpu", "format", "slowdown"])


ALIKE = {
    "int8_wo": ("int8_weight_only",), "sq": ("int8_dynamic", "bitsandbytes_int8"), "fp8": ("float8_dynamic",),
    "int4_wo": ("int4_weight_only", "gptq", "awq", "mxfp4", "compressed_tensors_int4"), "fp8_block": ("fp8_block",),
    "nvfp4": ("nvfp4_dynamic",),
}  # fmt: skip
"""Schemes whose products were not timed take those of the format that they compute like."""


def logs_left_out(every: pd.DataFrame) -> pd.DataFrame:
    """Return the log errors of products of each GPU, predicted by the median of the other GPUs."""
    found = []
    for dtype, rows in every.groupby("format"):
        typical = rows.groupby(["gpu", "engine"]).slowdown.median().groupby("gpu").mean()
        for gpu in typical.index:
            others = typical.drop(gpu)
            if not others.empty:
                logs = np.abs(np.log(others.median() / rows[rows.gpu == gpu].slowdown))
                found.append(pd.DataFrame({"format": dtype, "gpu": gpu, "log": logs}))
    return pd.concat(found)


def fitted(every: pd.DataFrame) -> QuantisedLaws:
    """Return slowdowns, medians over GPUs, and half-widths that hold 90 % of single products of GPUs left out.

    A format that was timed on one GPU alone takes the widest of the others.
    """
    by_gpu = every.groupby(["format", "gpu", "engine"]).slowdown.median().groupby(["format", "gpu"]).mean()
    typical = by_gpu.groupby("format").median()
    widths = logs_left_out(every).groupby("format").log.quantile(0.9)
    held = {dtype: float(widths.get(dtype, widths.max())) for dtype in typical.index}
    return QuantisedLaws(
        slowdown={name: float(typical[dtype]) for dtype, names in ALIKE.items() for name in names},
        half_width={name: held[dtype] for dtype, names in ALIKE.items() for name in names},
    )


def left_out(every: pd.DataFrame, laws: QuantisedLaws) -> str:
    """Return a table: products of each GPU predicted by the median of the others."""
    lines = ["| format | GPU left out | products | median error | 90 % within | within the added half-width |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for dtype, rows in every.groupby("format"):
        typical = rows.groupby(["gpu", "engine"]).slowdown.median().groupby("gpu").mean()
        for gpu in typical.index:
            others = typical.drop(gpu)
            if others.empty:
                lines.append(f"| {dtype} | {gpu} | {(rows.gpu == gpu).sum()} | no other GPU | | |")
                continue
            logs = np.abs(np.log(others.median() / rows[rows.gpu == gpu].slowdown))
            inside = float((logs <= laws.half_width[SCHEMES[str(dtype)]]).mean())
            errors = f"{np.median(logs):.0%} | {np.quantile(logs, 0.9):.0%} | {inside:.0%}"
            lines.append(f"| {dtype} | {gpu} | {len(logs)} | {errors} |")
    return "\n".join(lines)


class Attention(torch.nn.Module):
    """So many layers of attention that a launch does not count."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        for _ in range(LAYERS):
            query = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return query


def flash_3(folder: Path) -> tuple[float, float, int]:
    """Return the time of FlashAttention 3 over that of PyTorch's attention, its half-width in logs, and the rows."""
    rows = pd.read_csv(folder / "op-attention-prefill.csv.gz")
    rows = rows[
        (rows.kernel_source == "vllm_flash_attn_fa3") & (rows.attn_dtype == "bfloat16") & (rows.isl >= LONG)
        & (rows.kv_cache_dtype == "bfloat16") & (rows.step == 0) & (rows.num_heads == rows.num_key_value_heads)
    ]  # fmt: skip
    logs = []
    for (length, width), group in rows.groupby(["isl", "head_dim"]):
        inputs = [f"{name}=Nx1x{length}x{width}" for name in ("query", "key", "value")]
        heads = (group.batch_size * group.num_heads).tolist()
        answer = capplan.estimate(
            Attention(), inputs=inputs, gpus=["h100-sxm5-80gb"], batches=sorted(set(heads)), precision="bf16"
        )
        times_s = {point.batch: point.latency_s.expected / LAYERS for point in answer.reports[0].curve}
        logs += [np.log(s / 1e3 / (times_s[count] / 2)) for s, count in zip(group.latency_ms, heads, strict=True)]
    middle = float(np.median(logs))
    return float(np.exp(middle)), float(np.quantile(np.abs(np.array(logs) - middle), 0.9)), len(logs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="put the figures into rates.yaml")
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    every = products(words.folder)
    laws = fitted(every)
    slowdown, half_width, count = flash_3(words.folder)
    print(f"flash-3 over PyTorch's attention on an H100: {slowdown:.3f}, 90 % of {count} within {half_width:.3f}\n")
    name = AttentionBackend.FLASH_3.value
    laws = replace(laws, slowdown={**laws.slowdown, name: slowdown}, half_width={**laws.half_width, name: half_width})
    if words.write:
        path = calibration_file(RATES_FILE)
        origin = LawsOrigin(sections=("quantised",), made=words.made, command=_COMMAND, data=_DATA)
        replace_sections(path, replace(load_rate_laws(path), quantised=laws), origin)
    found = every.groupby(["engine", "gpu", "format"]).slowdown.agg(products="count", slowdown="median").reset_index()
    print(found.to_string(index=False))
    print("\n| format | GPUs | slowdown | a GPU left out is off by (median, largest) |\n| --- | --- | --- | --- |")
    for dtype, rows in found.groupby("format"):
        by_gpu = rows.groupby("gpu").slowdown.mean()
        errors = [abs(by_gpu.drop(gpu).median() / by_gpu[gpu] - 1) for gpu in by_gpu.index if len(by_gpu) > 1]
        told = f"{np.median(errors):.0%}, {max(errors):.0%}" if errors else "one GPU alone"
        print(f"| {dtype} | {len(by_gpu)} | {by_gpu.median():.2f} | {told} |")
    print("\n" + left_out(every, laws))


_COMMAND = "python benchmarks/quantised_kernels.py ../shared/data/llm --write"
_DATA = "op-gemm-vllm.csv.gz, op-gemm-trtllm.csv.gz, op-attention-prefill.csv.gz"


if __name__ == "__main__":
    main()
