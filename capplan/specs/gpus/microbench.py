"""Import microbenchmarks: read tables of them, and write the `measured:` block of GPUs' files."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from capplan.core.gpus.rate_laws import MicrobenchRow, SourcedRate, Summaries, summarise
from capplan.core.gpus.spec import GpuSpec, Microbenchmark, PeakKind, Quality, Regime
from capplan.errors import UsageError
from capplan.specs.gpus.fields import FIELDS
from capplan.tables import read_rows

COLUMNS = frozenset({"gpu", "kind", "dtype", "accumulate", "value", "unit", "source", "quality", "regime"})

_MATMULS = {
    "fp16": Microbenchmark.MATMUL_HALF, "bf16": Microbenchmark.MATMUL_HALF, "tf32": Microbenchmark.MATMUL_TF32,
    "fp32": Microbenchmark.MATMUL_FP32, "fp8": Microbenchmark.MATMUL_FP8,
}  # fmt: skip
_OTHERS = {
    "copy_bandwidth": Microbenchmark.COPY,
    "read_bandwidth": Microbenchmark.READ,
    "l2_bandwidth": Microbenchmark.L2_READ,
}
_REGIMES = {"large": Regime.SUSTAINED, "median_shapes": Regime.SUSTAINED, "best_shape": Regime.BURST}
_OTHER_REGIMES = frozenset({"constant_input", "power_sweep", "p90_shapes"})
"""Regimes of products that do not show what a GPU sustains, and are left out."""
_UNITS = {"TFLOP/s": 1e12, "GB/s": 1e9, "us": 1e-6, "MHz": 1e6}
_UNIT_OF = {
    "matmul": "TFLOP/s", "copy_bandwidth": "GB/s", "read_bandwidth": "GB/s", "l2_bandwidth": "GB/s",
    "launch_overhead": "us", "other": "MHz",
}  # fmt: skip
_TENSOR_CLOCK = "clock under tensor load"
_PREFIX = "bench-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMicrobenchmarks:
    """What an import wrote: the files, and the GPUs without a spec that it left out."""

    written: tuple[Path, ...]
    unknown: tuple[str, ...]


def read_microbench(path: Path) -> tuple[MicrobenchRow, ...]:
    """Read the usable rows of a table in CSV (also gzipped), whose columns are at least `COLUMNS`.

    Rows of other kinds are left out, as are constant inputs, power sweeps, high percentiles of shapes, and 16-bit
    products that accumulate in 16 bits.
    """
    table = read_rows(path, required=sorted(COLUMNS), what="a table of microbenchmarks")
    return tuple(_usable(table, path))


def _usable(table: Iterable[Mapping[str, str]], path: Path) -> Iterator[MicrobenchRow]:
    for number, cells in enumerate(table, start=2):
        kind = _kind(cells)
        is_product = cells["kind"] == "matmul"
        if kind is None or (is_product and cells["regime"] in _OTHER_REGIMES):
            continue
        if wrong := _wrong(cells):
            raise UsageError(f"{path}, line {number}: {wrong}.")
        regime = _REGIMES.get(cells["regime"], Regime.SUSTAINED)
        value, quality = float(cells["value"]) * _UNITS[cells["unit"]], Quality(cells["quality"])
        yield MicrobenchRow(
            gpu=cells["gpu"], kind=kind, value=value, quality=quality, regime=regime, dtype=cells["dtype"],
            source=re.split(r"[ @]", cells["source"], maxsplit=1)[0],  # the repository of owner/name path@commit
        )  # fmt: skip


def _wrong(cells: Mapping[str, str]) -> str | None:
    """Return what is wrong with a row that would be taken; None where nothing is."""
    unit = _UNIT_OF[cells["kind"]]
    if cells["unit"] != unit:
        return f"the unit of {cells['kind']} is {unit}, not {cells['unit'][:40]!r}"
    if cells["kind"] == "matmul" and cells["regime"] not in _REGIMES:
        known = ", ".join((*_REGIMES, *sorted(_OTHER_REGIMES)))
        return f"regime {cells['regime'][:40]!r} is none of {known}"
    if cells["quality"] not in list(Quality):
        return f"quality {cells['quality'][:40]!r} is none of {', '.join(Quality)}"
    try:
        value = float(cells["value"])
    except ValueError:
        return f"value {cells['value'][:40]!r} is not a number"
    return None if 0 < value < math.inf else f"value {cells['value'][:40]!r} is not a positive number"


def _kind(cells: Mapping[str, str]) -> Microbenchmark | None:
    if cells["kind"] == "matmul":
        return None if cells["accumulate"] == "fp16" else _MATMULS.get(cells["dtype"])
    if cells["kind"] == "launch_overhead":
        return Microbenchmark.GRAPH_LAUNCH if "graph" in cells.get("size", "") else Microbenchmark.LAUNCH
    if cells["kind"] == "other":
        return Microbenchmark.LOADED_CLOCK if cells.get("size") == _TENSOR_CLOCK else None
    return _OTHERS.get(cells["kind"])


def import_microbench(
    rows: Sequence[MicrobenchRow], *, known: Mapping[str, GpuSpec], folder: Path, retrieved: date
) -> ImportedMicrobenchmarks:
    """Write the `measured:` block of each GPU into its file in a folder; a file that exists keeps everything else."""
    # where tensor cores lack bf16, PyTorch emulates its products at a tenth of the fp16 rate
    emulated = {gpu.id for gpu in known.values() if not gpu.peak(PeakKind.BF16)}
    summaries: Summaries = summarise([row for row in rows if row.dtype != "bf16" or row.gpu not in emulated])
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for gpu, rates in summaries.items():
            if gpu not in known:
                continue
            path = folder / f"{gpu}.yaml"
            held = path.read_text(encoding="utf-8") if path.exists() else ""
            path.write_text(with_measured(held, rates, retrieved), encoding="utf-8")
            written.append(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot write into {folder}: {getattr(error, 'strerror', None) or error}.") from error
    return ImportedMicrobenchmarks(written=tuple(written), unknown=tuple(gpu for gpu in summaries if gpu not in known))


def with_measured(text: str, rates: Mapping[Microbenchmark, SourcedRate], retrieved: date) -> str:
    """Return a GPU's file with its `measured:` block, and the sources of that block, replaced."""
    cited = sorted({source for rate in rates.values() for source in rate.sources})
    names = {source: f"{_PREFIX}{re.sub(r'[^a-z0-9]+', '-', source.lower()).strip('-')}" for source in cited}
    block = ["measured:"] + [f"  {kind}: {_entry(kind, rate, names)}" for kind, rate in rates.items()]
    sources = []
    for source, name in names.items():
        is_repository = re.fullmatch(r"[\w-]+/[\w.-]+", source) is not None
        url = f', url: "https://github.com/{source}"' if is_repository else ""
        title = f"microbenchmarks of {source}"
        sources.append(f'  {name}: {{kind: measured, title: "{title}"{url}, retrieved: {retrieved}}}')
    kept, inside = [], False
    for line in text.splitlines():
        if not line.startswith((" ", "#")):
            inside = line.startswith("measured:")
        if not inside and not line.startswith(f"  {_PREFIX}"):
            kept.append(line)
    position = next(
        (index for index, line in enumerate(kept) if re.match(r"(exemptions|notes|sources):", line)), len(kept)
    )
    lines = [*kept[:position], *block, *kept[position:]]
    if "sources:" not in lines:
        lines.append("sources:")
    return "\n".join([*lines, *sources]) + "\n"


def _entry(kind: Microbenchmark, summary: SourcedRate, names: Mapping[str, str]) -> str:
    unit, scale = next(iter((FIELDS[f"measured.{kind}"].units or {}).items()))
    sources = [names[source] for source in summary.sources]
    spelled = sources[0] if len(sources) == 1 else f"[{', '.join(sources)}]"
    rate = summary.rate
    return (
        f"{{value: {rate.value / scale:.4g}, unit: {unit}, source: {spelled}, quality: {rate.quality}, "
        f"regime: {rate.regime}}}"
    )
