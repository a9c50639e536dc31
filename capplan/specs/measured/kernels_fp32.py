"""Single operators timed in fp32 with TF32 off on P4, P100, V100, T4, A100 and MI100, in the columns of NeuSight.

Each time holds the host's launch, since the GPU waited for it: 15 to 110 µs for the smallest kernels. About half of
that comes before a kernel and adds to the time of long ones (elementwise times regressed on bytes: 0.4 to 0.7 of the
smallest times), the rest hides behind them. So long rows are kept, and half of the smallest time taken off.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from capplan.core.calibrate.kernels import (
    MeasuredOperator,
    batched_product_kernel,
    convolution_kernel,
    elementwise_kernel,
    layer_norm_kernel,
    linear_operator,
    softmax_kernel,
)
from capplan.core.trace.types import Kernel
from capplan.core.workload import Precision, Workload

COLUMNS = frozenset(
    {"op", "device", "latency_ms", "B", "M", "N", "K", "H", "in_ch", "out_ch", "kernel", "input_size", "stride",
     "padding", "torch"}
)  # fmt: skip

_GPUS = {
    "Tesla P4": "p4", "Tesla P100-PCIE-16GB": "p100-pcie-16gb", "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
    "Tesla T4": "t4", "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "AMD Instinct MI100": "mi100",
}  # fmt: skip

_LAUNCHES_AT_LEAST = {"linear": 16.0, "bmm": 16.0, "conv": 16.0}
_LAUNCHES_AT_LEAST_ELSE = 8.0
"""How many times the smallest time a row must take; products' launches differ more, as they choose a kernel."""

_LAUNCH_SHARE = 0.5
_MOST_ROWS = {"linear": 80, "bmm": 80, "conv": 80, "softmax": 40, "ln": 40}
_MOST_ROWS_ELSE = 20
"""Rows per GPU and operator."""

_ELEMENTWISE = {
    "add": ("add", 2), "addu": ("add", 1), "mul": ("mul", 2), "mulu": ("mul", 1), "div": ("div", 2),
    "divu": ("div", 1), "relu": ("relu", 1), "gelu": ("gelu", 1), "tanh": ("tanh", 1),
}  # fmt: skip
"""The operator and its matrices: a "u" at the end says that the other operand is a number.

Powers are left out: on MI100 and P100 arithmetic binds them, unlike any other elementwise operator.
"""

Row = Mapping[str, str]


def select(rows: Iterable[Row]) -> Iterator[MeasuredOperator]:
    """Keep long kernels of shapes that models have, at most some dozen per GPU and operator, evenly by time."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["device"] in _GPUS:
            groups[row["device"], row["op"]].append(row)
    for (device, op), members in groups.items():
        if op in _KERNELS:
            launch_s = min(float(row["latency_ms"]) for row in members) / 1e3
            found = (_measured(row, _GPUS[device], launch_s=launch_s) for row in members)
            yield from _thinned([item for item in found if item], _MOST_ROWS.get(op, _MOST_ROWS_ELSE))


def _measured(row: Row, gpu: str, *, launch_s: float) -> MeasuredOperator | None:
    latency_s = float(row["latency_ms"]) / 1e3
    least_s = _LAUNCHES_AT_LEAST.get(row["op"], _LAUNCHES_AT_LEAST_ELSE) * launch_s
    kernel = _KERNELS[row["op"]](row) if latency_s >= least_s else None
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


def _thinned(found: Sequence[MeasuredOperator], most: int) -> Iterator[MeasuredOperator]:
    ordered = sorted(found, key=lambda item: item.latency_s)
    kept = min(most, len(ordered))
    yield from (ordered[index * len(ordered) // kept] for index in range(kept))


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


_KERNELS: Mapping[str, Callable[[Row], Kernel | None]] = {
    "linear": _linear, "bmm": _product, "conv": _convolution, "softmax": _softmax, "ln": _layer_norm,
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
}  # fmt: skip
