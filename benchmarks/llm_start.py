"""Fit the law of an engine's start to public start-up logs, and judge it on models that the fit has not seen.

    python benchmarks/llm_start.py --write

Rows are `benchmarks/llm_start_logs.csv`. The rule of what is kept apart: models with whole starts are ordered by the
SHA-256 of their name, and all rows of the first ones are kept apart until these hold ten whole starts.
"""

import argparse
import csv
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np

from capplan.core.numbers import NORMAL_90
from capplan.core.origin import Origin
from capplan.llm.core.start.law import CaptureLaw, LayerLaw, LoadLaw, StartLaw, StartPart, StartSize
from capplan.llm.read.start_calibration import SHIPPED, dump_start_law

HERE = Path(__file__).parent
LOGS = HERE / "llm_start_logs.csv"
KEPT_APART = 10
_MEASURED = {
    StartPart.LOAD: "load_s",
    StartPart.COMPILE: "compile_s",
    StartPart.WARM_UP: "warm_up_s",
    StartPart.CAPTURE: "capture_s",
}
Row = dict[str, str]


def number(row: Row, name: str) -> float:
    """Return a figure of a row."""
    return float(row[name])


def has(row: Row, *names: str) -> bool:
    """Return True if a row states all of these figures."""
    return all(row[name] != "" for name in names)


def size_of(row: Row) -> StartSize:
    """Return what the law is asked of a row."""
    return StartSize(
        weight_bytes=number(row, "weights_gb") * 1e9,
        layers=int(row["layers"]),
        has_experts=row["moe"] == "1",
        tensor=int(row["tp"]),
        graphs=int(row["sizes"] or 67),
        is_compiled=row["cold"] == "0",
    )


def kept_models(rows: Sequence[Row]) -> set[str]:
    """Return the models whose rows are kept apart."""
    whole = [row["model"] for row in rows if has(row, "total_s")]
    kept: set[str] = set()
    for model in sorted(set(whole), key=lambda name: hashlib.sha256(name.encode()).hexdigest()):
        if sum(name in kept for name in whole) >= KEPT_APART:
            break
        kept.add(model)
    return kept


def _least_relative(columns: Sequence[Sequence[float]], times: Sequence[float]) -> list[float]:
    """Fit a sum of columns to times by relative errors, large ones weighted down."""
    matrix, target = np.array(columns, dtype=float), np.array(times)
    weights, found = 1.0 / target, np.zeros(matrix.shape[1])
    for _ in range(60):
        found = np.linalg.lstsq(matrix * weights[:, None], target * weights, rcond=None)[0]
        weights = 1.0 / target / np.sqrt(np.maximum(np.abs(matrix @ found / target - 1.0), 0.02))
    return [float(value) for value in found]


def _layer_law(rows: Sequence[Row], figure: str, *, by: str) -> LayerLaw:
    found = [row for row in rows if has(row, figure)]
    sizes = [size_of(row) for row in found]
    if by == "experts":
        columns = [[1.0, size.layers, size.layers * size.has_experts] for size in sizes]
    else:
        columns = [[1.0, size.layers, float(size.tensor > 1)] for size in sizes]
    fixed, layer, third = _least_relative(columns, [number(row, figure) for row in found])
    experts, shared = (third, 0.0) if by == "experts" else (0.0, third)
    return LayerLaw(fixed_s=fixed, per_layer_s=layer, per_expert_layer_s=experts, shared_s=shared)


def process_s(row: Row) -> float:
    """Return what is left of a whole start beside the weights and the engine's own initialisation. [s]"""
    return number(row, "total_s") - number(row, "load_s") - number(row, "engine_s")


def fit(rows: Sequence[Row]) -> StartLaw:
    """Fit the law; its spreads are empty."""
    cold = [row for row in rows if row["cold"] == "1"]
    warm = [row for row in rows if row["cold"] == "0"]
    whole = [row for row in rows if has(row, "total_s")]
    captured = [row for row in whole if has(row, "capture_s", "sizes")]
    sizes = [size_of(row) for row in captured]
    columns = [
        [
            1.0,
            size.layers * size.graphs * (size.tensor == 1),
            size.layers * size.graphs * (size.tensor > 1),
            size.layers * size.graphs * size.has_experts,
        ]
        for size in sizes
    ]
    capture = _least_relative(columns, [number(row, "capture_s") for row in captured])
    loaded = [row for row in rows if row["storage"] == "memory"]
    power, first = np.polyfit(
        np.log([number(row, "weights_gb") for row in loaded]), np.log([number(row, "load_s") for row in loaded]), 1
    )
    return StartLaw(
        engine="vllm",
        process_s=float(np.median([process_s(row) for row in whole if row["tp"] == "1"])),
        shared_process_s=float(np.median([process_s(row) for row in whole if row["tp"] != "1"])),
        load=LoadLaw(gigabyte_s=float(np.exp(first)), power=float(power)),
        compile_cold=_layer_law(cold, "compile_s", by="experts"),
        compile_warm=_layer_law(warm, "compile_s", by="experts"),
        warm_up_cold=_layer_law(cold, "warm_up_s", by="sharing"),
        warm_up_warm=_layer_law(warm, "warm_up_s", by="sharing"),
        capture=CaptureLaw(fixed_s=capture[0], alone_s=capture[1], shared_s=capture[2], expert_s=capture[3]),
        spreads={},
        origin=Origin(made=date(2026, 11, 27), command="", sources=(), rows=0),
    )


def whole_s(law: StartLaw, row: Row) -> float:
    """Return the predicted whole start of a row; weights from disk or an object store come at the rate of its log."""
    times = law.times_s(size_of(row))
    if row["storage"] in ("disk", "object"):
        times[StartPart.LOAD] = number(row, "load_s")
    return sum(times.values())


def ratios(law: StartLaw, rows: Sequence[Row], part: StartPart) -> list[float]:
    """Return measured ÷ predicted of the rows that state a part."""
    if part is StartPart.WHOLE:
        return [number(row, "total_s") / whole_s(law, row) for row in rows if has(row, "total_s")]
    if part is StartPart.PROCESS:
        found = [row for row in rows if has(row, "total_s")]
        return [process_s(row) / law.times_s(size_of(row))[part] for row in found]
    name = _MEASURED[part]
    found = [row for row in rows if has(row, name, "cold")]
    if part is StartPart.LOAD:
        found = [row for row in found if row["storage"] == "memory"]
    return [number(row, name) / law.times_s(size_of(row))[part] for row in found]


PARTS = (StartPart.PROCESS, StartPart.LOAD, StartPart.COMPILE, StartPart.WARM_UP, StartPart.CAPTURE, StartPart.WHOLE)


def by_model(rows: Sequence[Row], part: StartPart, made: Callable[[Sequence[Row]], StartLaw]) -> list[float]:
    """Return measured ÷ predicted of each row by a law that has not seen the row's model."""
    found = []
    for model in sorted({row["model"] for row in rows}):
        own = [row for row in rows if row["model"] == model]
        found += ratios(made([row for row in rows if row["model"] != model]), own, part)
    return found


def errors(found: Sequence[float], spread: float) -> dict[str, float]:
    """Return the errors of predictions, and the share of rows inside their intervals."""
    logs = np.log(found)
    off = np.abs(np.exp(-logs) - 1.0)
    return {
        "median": round(float(np.median(off)), 4),
        "p90": round(float(np.quantile(off, 0.9)), 4),
        "coverage": round(float(np.mean(np.abs(logs) <= NORMAL_90 * spread)), 4),
        "rows": float(len(found)),
    }


def main() -> None:
    """Fit, judge, and write the calibration if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    written = parser.parse_args().write
    with LOGS.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["engine"] == "vllm"]
    kept = kept_models(rows)
    seen, apart = ([row for row in rows if (row["model"] in kept) is held] for held in (False, True))
    spreads = {}
    for part in PARTS:
        off = np.abs(np.log(by_model(seen, part, fit)))
        spreads[part.value] = float(np.quantile(off, 0.9)) / NORMAL_90  # nine of ten rows of unseen models lie within
    law = replace(fit(seen), spreads=spreads)
    judged = {f"kept apart, {part.value}": errors(ratios(law, apart, part), spreads[part.value]) for part in PARTS}
    judged |= {f"by model, {part.value}": errors(by_model(seen, part, fit), spreads[part.value]) for part in PARTS}
    for name, figures in judged.items():
        print(name, figures)
    command = "python benchmarks/llm_start.py --write"
    origin = Origin(
        made=date(2026, 11, 27), command=command, sources=(LOGS.name,), rows=len(seen), held_out_errors=judged
    )
    if written:
        path = HERE.parent / "capplan" / "calibrations" / SHIPPED
        path.write_text(dump_start_law(replace(law, origin=origin)), encoding="utf-8")


if __name__ == "__main__":
    main()
