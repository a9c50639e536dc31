"""Measurements as rows of the table that `capplan validate` reads."""

import re
from collections.abc import Mapping

from capplan.core.measurement import Measurement

ROW_COLUMNS = (
    "model", "gpu", "framework", "torch", "precision", "layout", "task", "batch", "input_size", "latency_ms",
    "samples_per_s", "peak_allocated_bytes", "peak_reserved_bytes", "reparam", "fast_norm", "source",
)  # fmt: skip


def measured_row(point: Measurement) -> Mapping[str, str]:
    """Spell a measurement as a row, aligned with `ROW_COLUMNS`; the latency is the median, unknowns are empty. [ms]"""
    workload, memory, device = point.workload, point.memory, point.device
    values = (
        re.sub(r" --input-size \S+", "", point.model.words),
        device.gpu or device.name,
        workload.framework.value,
        ".".join(device.torch.split("+")[0].split(".")[:2]),
        workload.precision.value,
        workload.layout.value,
        "infer",
        str(workload.batch),
        "x".join(map(str, point.model.input_size)),
        f"{point.latency.median * 1e3:.7g}",
        f"{point.throughput_per_s:.7g}",
        "" if memory.peak_allocated_bytes is None else str(memory.peak_allocated_bytes),
        "" if memory.peak_reserved_bytes is None else str(memory.peak_reserved_bytes),
        "",
        "",
        f"{device.name}, {point.date.date().isoformat()}",
    )
    return dict(zip(ROW_COLUMNS, values, strict=True))
