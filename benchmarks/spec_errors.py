"""How many of the known errors of public GPU tables the rules would have refused.

python benchmarks/spec_errors.py ../shared/data/specs/gpu_spec_disagreements.csv

Every disagreeing figure is put into our spec of the card in place of ours; what breaks a rule counts as found.
"""

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.specs import Gpus, load_gpus
from capplan.specs.gpus.rules import contradictions

_FIELDS = {
    "bw": ("memory_bandwidth_bytes_per_s", 1e9),
    "mem": ("memory_bytes", 2**30),
    "sm": ("unit_count", 1),
    "clk": ("boost_clock_hz", 1e6),
    "l2": ("l2_bytes", 2**20),
    "tdp": ("tdp_w", 1),
}
_PEAKS = {
    "fp64": PeakKind.FP64, "fp32": PeakKind.FP32, "fp16n": PeakKind.FP16_VECTOR, "tf32": PeakKind.TF32,
    "bf16": PeakKind.BF16, "fp8": PeakKind.FP8, "fp4": PeakKind.FP4, "int8": PeakKind.INT8,
}  # fmt: skip


def with_figure(spec: GpuSpec, field: str, value: float) -> GpuSpec:
    """Put a table's figure, in the table's unit and per board, into a spec."""
    if field in _PEAKS:
        kind = _PEAKS[field]
        if kind is PeakKind.BF16 and spec.peak(kind) is None:
            kind = PeakKind.FP16
        return replace(spec, peak_flops_per_s={**spec.peak_flops_per_s, kind: value * 1e12 / spec.devices_per_board})
    name, scale = _FIELDS[field]
    share = spec.devices_per_board if field != "clk" else 1
    return replace(spec, **{name: type(getattr(spec, name))(value * scale / share)})


def judged(gpus: Gpus, path: Path) -> Iterator[tuple[str, bool, str]]:
    """For each disagreement: its field, whether a rule finds it, and its words."""
    with path.open() as stream:
        for row in csv.DictReader(stream):
            spec = gpus[row["gpu"]]
            wrong = with_figure(spec, row["field"], float(row["source_value"]))
            problems = contradictions(wrong, gpus.architectures[spec.architecture_id], gpus.sheets[spec.id])
            words = f"{row['gpu']} {row['field']} {row['source_value']} ({row['source']}), ours {row['chosen_value']}"
            yield row["field"], bool(problems), words


def main() -> None:
    """Print the share found, by field, and what slips through."""
    results = list(judged(load_gpus(), Path(sys.argv[1])))
    fields, found = Counter(field for field, _, _ in results), Counter(field for field, hit, _ in results if hit)
    print(f"{sum(found.values())} of {len(results)} wrong figures are refused")
    for field, count in fields.most_common():
        print(f"  {field}: {found[field]} of {count}")
    print("not found:")
    for _, hit, words in results:
        if not hit:
            print(f"  {words}")


if __name__ == "__main__":
    main()
