"""Kernels timed in LLM serving: matrix products and prefill attention in bf16."""

from collections.abc import Iterable, Iterator, Mapping

from capplan.core.calibrate.kernels import MeasuredKernel, causal_attention_kernel, linear_kernel

COLUMNS = frozenset({"gpu", "framework", "kernel_source", "latency_ms", "source_file"})

_GPUS = {
    "a100_sxm": "a100-sxm4-80gb", "h100_sxm": "h100-sxm5-80gb", "b200_sxm": "b200-sxm-180gb",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
}  # fmt: skip
"""Names of that data's GPUs, and ours; of the rest nothing is used."""

_FLASH_2 = {"vllm_flash_attn", "vllm_flash_attn_fa2"}
_SMALLEST_M, _EVERY, _MOST_ROWS = 16, 7, 250


def select(rows: Iterable[Mapping[str, str]]) -> Iterator[MeasuredKernel]:
    """Thin a table, GPU by GPU."""
    found: dict[str, list[MeasuredKernel]] = {}
    for kernel in _kernels(rows):
        found.setdefault(kernel.gpu, []).append(kernel)
    for kernels in found.values():
        yield from kernels[::_EVERY][:_MOST_ROWS]


def _kernels(rows: Iterable[Mapping[str, str]]) -> Iterator[MeasuredKernel]:
    for row in rows:
        gpu = _GPUS.get(row["gpu"])
        if gpu is None:
            continue
        latency_s = float(row["latency_ms"]) / 1e3
        if row.get("gemm_dtype") == "bfloat16" and int(row["m"]) >= _SMALLEST_M:
            yield linear_kernel(gpu=gpu, m=int(row["m"]), n=int(row["n"]), k=int(row["k"]), latency_s=latency_s)
        elif row.get("kernel_source") in _FLASH_2 and row.get("attn_dtype") == "bfloat16" and _is_plain(row):
            yield causal_attention_kernel(
                gpu=gpu,
                batch=int(row["batch_size"]),
                length=int(row["isl"]),
                heads=int(row["num_heads"]),
                key_heads=int(row["num_key_value_heads"]),
                head_dim=int(row["head_dim"]),
                latency_s=latency_s,
            )


def _is_plain(row: Mapping[str, str]) -> bool:
    """Return True without sliding window or earlier context, and if long enough to fill a GPU."""
    return float(row["window_size"] or 0) <= 0 and float(row["step"] or 0) == 0 and int(row["isl"]) >= 256
