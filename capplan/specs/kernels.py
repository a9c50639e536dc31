"""Read tables of single timed kernels: those of LLM serving in bf16, and operators in fp32."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from capplan.core.calibrate.kernels import (
    MeasuredKernel,
    MeasuredOperator,
    batched_product_kernel,
    causal_attention_kernel,
    convolution_kernel,
    elementwise_kernel,
    layer_norm_kernel,
    linear_kernel,
    linear_operator,
    softmax_kernel,
)
from capplan.core.trace.types import Kernel
from capplan.core.workload import Precision, Workload
from capplan.errors import UsageError
from capplan.tables import columns_of, read_rows

Row = Mapping[str, str]


def holds_kernels(path: Path) -> bool:
    """Return True if the columns are those of single kernels, not of whole steps; False if the file cannot be read."""
    try:
        columns = _columns(path)
    except UsageError:
        return False
    return columns >= _FP32_COLUMNS or columns >= _LLM_COLUMNS


def read_kernels(path: Path) -> tuple[MeasuredKernel | MeasuredOperator, ...]:
    """Read a thinned selection: what fits an architecture's efficiencies without outweighing whole models.

    Raises:
        UsageError: unreadable, or a table of other kernels.
    """
    try:
        select = _select_fp32 if _columns(path) >= _FP32_COLUMNS else _select_llm
        return tuple(select(read_rows(path)))
    except (KeyError, ValueError) as error:
        raise UsageError(f"cannot read kernels from {path}: {error}.") from error


def _columns(path: Path) -> frozenset[str]:
    return columns_of(path) if path.name.endswith(".csv.gz") else frozenset()


_LLM_COLUMNS = frozenset({"gpu", "framework", "kernel_source", "latency_ms", "source_file"})

_LLM_GPUS = {
    "a100_sxm": "a100-sxm4-80gb", "h100_sxm": "h100-sxm5-80gb", "b200_sxm": "b200-sxm-180gb",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
}  # fmt: skip
"""Names of that data's GPUs, and ours; of the rest nothing is used."""

_FLASH_2 = {"vllm_flash_attn", "vllm_flash_attn_fa2"}
_SMALLEST_M, _EVERY, _MOST_LLM_ROWS = 16, 7, 250


def _select_llm(rows: Iterable[Row]) -> Iterator[MeasuredKernel]:
    """Thin a table of kernels timed in LLM serving, matrix products and prefill attention in bf16, GPU by GPU."""
    by_gpu: dict[str, list[MeasuredKernel]] = {}
    for kernel in _llm_kernels(rows):
        by_gpu.setdefault(kernel.gpu, []).append(kernel)
    for kernels in by_gpu.values():
        yield from kernels[::_EVERY][:_MOST_LLM_ROWS]


def _llm_kernels(rows: Iterable[Row]) -> Iterator[MeasuredKernel]:
    for row in rows:
        gpu = _LLM_GPUS.get(row["gpu"])
        if gpu is None:
            continue
        latency_s = float(row["latency_ms"]) / 1e3
        if row.get("gemm_dtype") == "bfloat16" and int(row["m"]) >= _SMALLEST_M:
            yield linear_kernel(gpu=gpu, m=int(row["m"]), n=int(row["n"]), k=int(row["k"]), latency_s=latency_s)
        elif row.get("kernel_source") in _FLASH_2 and row.get("attn_dtype") == "bfloat16":
            if float(row["window_size"] or 0) > 0 or float(row["step"] or 0) != 0 or int(row["isl"]) < 256:
                continue  # a sliding window, earlier context, or too short to fill a GPU
            yield causal_attention_kernel(
                gpu=gpu,
                batch=int(row["batch_size"]),
                length=int(row["isl"]),
                heads=int(row["num_heads"]),
                key_heads=int(row["num_key_value_heads"]),
                head_dim=int(row["head_dim"]),
                latency_s=latency_s,
            )


_FP32_COLUMNS = frozenset(
    {"op", "device", "latency_ms", "B", "M", "N", "K", "H", "in_ch", "out_ch", "kernel", "input_size", "stride",
     "padding", "torch"}
)  # fmt: skip

_FP32_GPUS = {
    "Tesla P4": "p4", "Tesla P100-PCIE-16GB": "p100-pcie-16gb", "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
    "Tesla T4": "t4", "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "AMD Instinct MI100": "mi100",
}  # fmt: skip

_LAUNCHES_AT_LEAST = {"linear": 16.0, "bmm": 16.0, "conv": 16.0}
_LAUNCHES_AT_LEAST_ELSE = 8.0
"""How many times the smallest time a row must take; products' launches differ more, as they choose a kernel."""

_LAUNCH_SHARE = 0.5
_MOST_FP32_ROWS = {"linear": 80, "bmm": 80, "conv": 80, "softmax": 40, "ln": 40}
_MOST_FP32_ROWS_ELSE = 20
"""Rows per GPU and operator."""

_ELEMENTWISE = {
    "add": ("add", 2), "addu": ("add", 1), "mul": ("mul", 2), "mulu": ("mul", 1), "div": ("div", 2),
    "divu": ("div", 1), "relu": ("relu", 1), "gelu": ("gelu", 1), "tanh": ("tanh", 1),
}  # fmt: skip
"""The operator and its matrices: a "u" at the end says that the other operand is a number.

Powers are left out: on MI100 and P100 arithmetic binds them, unlike any other elementwise operator.
"""


def _select_fp32(rows: Iterable[Row]) -> Iterator[MeasuredOperator]:
    """Keep long kernels of shapes that models have, at most some dozen per GPU and operator, evenly by time.

    The rows are operators timed in fp32 with TF32 off on P4, P100, V100, T4, A100 and MI100, in NeuSight's columns.
    Each time holds the host's launch, since the GPU waited for it: 15 to 110 µs for the smallest kernels. About half of
    that comes before a kernel and adds to the time of long ones (elementwise times regressed on bytes: 0.4 to 0.7 of
    the smallest times), the rest hides behind them. So long rows are kept, and half of the smallest time taken off.
    """
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["device"] in _FP32_GPUS:
            groups[row["device"], row["op"]].append(row)
    for (device, op), members in groups.items():
        if op in _FP32_KERNELS:
            launch_s = min(float(row["latency_ms"]) for row in members) / 1e3
            measured = (_measured(row, _FP32_GPUS[device], launch_s=launch_s) for row in members)
            ordered = sorted((operator for operator in measured if operator), key=lambda operator: operator.latency_s)
            kept = min(_MOST_FP32_ROWS.get(op, _MOST_FP32_ROWS_ELSE), len(ordered))
            yield from (ordered[index * len(ordered) // kept] for index in range(kept))


def _measured(row: Row, gpu: str, *, launch_s: float) -> MeasuredOperator | None:
    latency_s = float(row["latency_ms"]) / 1e3
    least_s = _LAUNCHES_AT_LEAST.get(row["op"], _LAUNCHES_AT_LEAST_ELSE) * launch_s
    kernel = _FP32_KERNELS[row["op"]](row) if latency_s >= least_s else None
    if kernel is None:
        return None
    version = _version(row["torch"])
    workload = Workload(precision=Precision.FP32_IEEE, torch_version=version or Workload().torch_version)
    return MeasuredOperator(
        gpu=gpu,
        kernel=kernel,
        workload=workload,
        torch_known=version is not None,
        latency_s=latency_s - _LAUNCH_SHARE * launch_s,
    )


def _version(text: str) -> tuple[int, int] | None:
    """Read "p2.1.0", as that data writes PyTorch 2.1.0; None where it says nothing."""
    if not text:
        return None
    major, minor, *_ = text.removeprefix("p").split(".")
    return int(major), int(minor)


def _linear(row: Row) -> Kernel | None:
    m, n, k = int(row["M"]), int(row["N"]), int(row["K"])
    return linear_operator(m=m, n=n, k=k) if _is_usual(n, k) and min(m, n) >= 32 else None


def _product(row: Row) -> Kernel | None:
    m, n, k = int(row["M"]), int(row["N"]), int(row["K"])
    usual = _is_usual(n, k) and min(m, n) >= 32 and k >= 16
    return batched_product_kernel(groups=int(row["B"]), m=m, n=n, k=k) if usual else None


def _is_usual(*widths: int) -> bool:
    """Return True for multiples of 8, which libraries load as vectors, and no wider than layers are."""
    return all(width % 8 == 0 and width <= 16384 for width in widths)


def _convolution(row: Row) -> Kernel | None:
    channels_in, channels_out, size = int(row["in_ch"]), int(row["out_ch"]), int(row["input_size"])
    usual = (channels_in <= 4 or channels_in % 8 == 0) and channels_in <= 1024 and 16 <= channels_out <= 1024
    if not usual or size < 7:
        return None
    return convolution_kernel(
        images=int(row["B"]), channels_in=channels_in, channels_out=channels_out, size=size,
        window=int(row["kernel"]), stride=int(row["stride"]), padding=int(row["padding"]),
    )  # fmt: skip


def _softmax(row: Row) -> Kernel | None:
    rows, columns = int(row["B"]), int(row["H"])
    return softmax_kernel(rows=rows, columns=columns) if columns >= 32 else None


def _layer_norm(row: Row) -> Kernel:
    return layer_norm_kernel(rows=int(row["B"]), columns=int(row["H"]))


def _elementwise(row: Row) -> Kernel:
    name, operands = _ELEMENTWISE[row["op"]]
    return elementwise_kernel(name, rows=int(row["B"]), columns=int(row["H"]), operands=operands)


_FP32_KERNELS: Mapping[str, Callable[[Row], Kernel | None]] = {
    "linear": _linear, "bmm": _product, "conv": _convolution, "softmax": _softmax, "ln": _layer_norm,
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
}  # fmt: skip
