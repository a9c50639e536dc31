"""Fit the law of an engine's start to public start-up logs, and judge it on models that the fit has not seen.

    python benchmarks/llm_start.py --write

Rows are `benchmarks/llm_start_logs.csv`. The rule of what is kept apart: models with whole starts are ordered by the
SHA-256 of their name, and all rows of the first ones are kept apart until these hold ten whole starts. The
interval of a whole start is as wide as the hardest split asks for: each model left out.
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
from capplan.llm.core.start.answer import CaptureLaw, LayerLaw, LoadLaw, StartLaw, StartPart, StartSize
from capplan.llm.read.start_calibration import dump_start_law, law_file

HERE = Path(__file__).parent
LOGS = HERE / "llm_start_logs.csv"
KEPT_APART = 10
GRAPHS = {"vllm": 67, "sglang": 52}
"""Batch sizes that an engine captures graphs for where a log does not state them, those of cards with much memory."""
LOGS_OF = {
    "vllm": "Logs of vLLM 0.10 and 0.11 on H100, L40S and A100 with 1, 4 and 8 GPUs; releases before 0.10 capture "
    "graphs 10 times slower. Nine starts of vLLM 0.25 on DGX Spark took 1.0 to 5.2 times what is expected, 1.8 in the "
    "median: engines compile kernels there.",
    "sglang": "Logs of SGLang 0.5 on B200, L4, RTX 3090 and DGX Spark with 1 and 2 GPUs; compile stands for graphs of "
    "the prefill, which releases before 0.5.11 do not capture.",
}
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
    """Return True if a row states all of these figures; 0 in a part says that the engine had no such part."""
    return all(row[name] not in ("", "0") or (row[name] and not name.endswith("_s")) for name in names)


def size_of(row: Row) -> StartSize:
    """Return what the law is asked of a row."""
    return StartSize(
        weight_bytes=number(row, "weights_gb") * 1e9,
        layers=int(row["layers"]),
        has_experts=row["moe"] == "1",
        tensor=int(row["tp"]),
        graphs=int(row["sizes"] or GRAPHS[row["engine"]]),
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
    inside = ("engine_s",) if row["engine_s"] else ("compile_s", "warm_up_s", "capture_s")
    return number(row, "total_s") - number(row, "load_s") - sum(float(row[name] or 0) for name in inside)


def fit(rows: Sequence[Row]) -> StartLaw:
    """Fit the law; its spreads are empty."""
    cold = [row for row in rows if row["cold"] == "1"]
    warm = [row for row in rows if row["cold"] == "0"]
    whole = [row for row in rows if has(row, "total_s")]
    captured = [row for row in whole if has(row, "capture_s", "sizes")]
    sizes = [size_of(row) for row in captured]
    each = [size.layers * size.graphs for size in sizes]
    columns = [
        [1.0, count * (size.tensor == 1), count * (size.tensor > 1), count * size.has_experts]
        for size, count in zip(sizes, each, strict=True)
    ]
    capture = _least_relative(columns, [number(row, "capture_s") for row in captured])
    loaded = [row for row in rows if row["storage"] == "memory"]
    power, first = np.polyfit(
        np.log([number(row, "weights_gb") for row in loaded]), np.log([number(row, "load_s") for row in loaded]), 1
    )
    return StartLaw(
        engine="vllm",
        logs=LOGS_OF["vllm"],
        graphs=GRAPHS["vllm"],
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


def fit_sglang(rows: Sequence[Row]) -> StartLaw:
    """Fit the law of an engine whose logs state no compiler and no warm-up: graphs of the prefill stand for compiling.

    Few models state these graphs, so that their law has no fixed part; graphs of decoding are one rate for all.
    """
    prefilled = [row for row in rows if has(row, "compile_s")]
    layers = [[size.layers, size.layers * size.has_experts] for size in map(size_of, prefilled)]
    layer, expert = _least_relative(layers, [number(row, "compile_s") for row in prefilled])
    prefill = LayerLaw(fixed_s=0.0, per_layer_s=layer, per_expert_layer_s=expert, shared_s=0.0)
    captured = [row for row in rows if has(row, "capture_s", "sizes")]
    counts = [[1.0, size.layers * size.graphs] for size in map(size_of, captured)]
    fixed, each = _least_relative(counts, [number(row, "capture_s") for row in captured])
    none = LayerLaw(fixed_s=0.0, per_layer_s=0.0, per_expert_layer_s=0.0, shared_s=0.0)
    process = float(np.median([process_s(row) for row in rows if has(row, "total_s", "load_s")]))
    loaded = [row for row in rows if row["storage"] == "memory"]
    gigabyte_s = float(np.median([number(row, "load_s") / number(row, "weights_gb") for row in loaded]))
    return StartLaw(
        engine="sglang",
        logs=LOGS_OF["sglang"],
        graphs=GRAPHS["sglang"],
        process_s=process,
        shared_process_s=process,
        load=LoadLaw(gigabyte_s=gigabyte_s, power=1.0),
        compile_cold=prefill,
        compile_warm=prefill,
        warm_up_cold=none,
        warm_up_warm=none,
        capture=CaptureLaw(fixed_s=fixed, alone_s=each, shared_s=each, expert_s=0.0),
        spreads={},
        origin=Origin(made=date(2026, 11, 28), command="", sources=(), rows=0),
    )


FITS = {"vllm": fit, "sglang": fit_sglang}
BEYOND = {"vllm": ("dgx-spark-gb10",)}
"""Machines whose logs are judged and not fitted: their engines compile kernels for minutes, by no law of the model."""


def whole_s(law: StartLaw, row: Row) -> float:
    """Return the predicted whole start of a row; weights from disk or an object store come at the rate of its log."""
    times = law.times_s(size_of(row))
    if row["storage"] in ("disk", "object"):
        times[StartPart.LOAD] = number(row, "load_s")
    return sum(time_s for part, time_s in times.items() if row[_MEASURED.get(part, "model")] != "0")


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


def fitted(engine: str, rows: Sequence[Row], made: Callable[[Sequence[Row]], StartLaw]) -> StartLaw:
    """Return an engine's law with its spreads and the errors that it was judged by."""
    beyond = [row for row in rows if row["gpu"] in BEYOND.get(engine, ())]
    known = [row for row in rows if row not in beyond]
    kept = kept_models(known) if len({row["model"] for row in known if has(row, "total_s")}) > 2 * KEPT_APART else set()
    seen, apart = ([row for row in known if (row["model"] in kept) is held] for held in (False, True))
    parts = [part for part in PARTS if ratios(made(seen), seen, part)]
    spreads, judged = {}, {}
    for part in parts:
        off = by_model(seen, part, made)
        # nine of ten rows of unseen models lie within
        spreads[part.value] = float(np.quantile(np.abs(np.log(off)), 0.9)) / NORMAL_90
        judged[f"by model, {part.value}"] = errors(off, spreads[part.value])
        for what, held in (("kept apart", apart), ("another machine", beyond)):
            if found := ratios(made(seen), held, part):
                judged[f"{what}, {part.value}"] = errors(found, spreads[part.value])
                if held is apart:
                    judged[f"held out, {part.value}"] = errors([*off, *found], spreads[part.value])
    command = "python benchmarks/llm_start.py --write"
    origin = Origin(
        made=date(2026, 11, 28), command=command, sources=(LOGS.name,), rows=len(seen), held_out_errors=judged
    )
    return replace(made(seen), spreads=spreads, origin=origin)


def main() -> None:
    """Fit, judge, and write the calibrations if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    written = parser.parse_args().write
    with LOGS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for engine, made in FITS.items():
        law = fitted(engine, [row for row in rows if row["engine"] == engine], made)
        for name, figures in law.origin.held_out_errors.items():
            print(engine, name, figures)
        if written:
            path = HERE.parent / "capplan" / "calibrations" / law_file(engine)
            path.write_text(dump_start_law(law), encoding="utf-8")


if __name__ == "__main__":
    main()
