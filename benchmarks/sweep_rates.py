"""Measure what sweeps take on this machine, and fit the rates that `capplan sweep --dry-run` estimates with.

    python benchmarks/sweep_rates.py [--keep]     runs a dozen small sweeps and writes capplan/calibrations/sweeps.yaml

Each sweep is asked first with `--dry-run` for its counts (traces to make, models to open, cells to plan and to serve),
then run, and its processor time is that of all its processes. The rates are non-negative least squares of these times
with equal relative weight; the interval is the range of measured over predicted time where the run, and the runs of its
kind, are left out of the fit. `--keep` fits anew the runs that the file holds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "capplan" / "calibrations" / "sweeps.yaml"
RATES = {
    "start_s": "runs", "trace_s": "traces", "pair_s": "pairs", "planned_cell_s": "to_plan", "served_cell_s": "to_serve",
}  # fmt: skip
SMALL = [
    "torchvision:resnet18", "torchvision:mobilenet_v2", "timm:mobilenetv3_small_100", "timm:resnet26",
    "timm:regnetx_002",
]  # fmt: skip
LARGE = [
    "timm:convnext_tiny", "torchvision:densenet121", "timm:efficientnet_b0", "timm:vit_small_patch16_224",
    "torchvision:swin_t",
]  # fmt: skip
SERVED = ["llm:qwen3-8b", "llm:qwen3-32b", "llm:codellama-7b", "llm:codestral-22b"]
EARLIER: tuple[dict[str, Any], ...] = (
    {"kind": "docs/sweeps.md, 1,500 kept traces", "pairs": 1500, "to_plan": 2_178_000, "cpu_s": 815.0},
    {"kind": "docs/sweeps.md, 66 kept traces", "pairs": 66, "to_plan": 95_832, "cpu_s": 47.9},
    {"kind": "docs/sweeps.md, 66 kept traces", "pairs": 66, "to_plan": 23_958, "cpu_s": 28.5},
    {"kind": "docs/sweeps.md, 300 kept traces", "pairs": 300, "to_plan": 435_600, "cpu_s": 149.4},
    {"kind": "29 models from nothing", "traces": 58, "pairs": 58, "to_plan": 61_248, "cpu_s": 77.7},
)
"""Sweeps that were timed before, whose counts are published."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="fit the runs that the file holds")
    options = parser.parse_args()
    runs = yaml.safe_load(FILE.read_text())["runs"] if options.keep else [*EARLIER, *measured_runs()]
    rates = fit(runs)
    factors = [run["cpu_s"] / predicted(fit(others(runs, run)), run) for run in runs]
    sizes = [run for run in runs if run.get("rows")]
    per_row = [(run["result_bytes"] - run["files"] * _FILE_BYTES - _STATE_BYTES) / run["rows"] for run in sizes]
    large = [size for size, run in zip(per_row, sizes, strict=True) if run["rows"] > 1000]
    document = {
        "schema_version": 1,
        "origin": {
            "made": date.today(),
            "command": "python benchmarks/sweep_rates.py",
            "sources": ["docs/sweeps.md", "sweeps of torchvision, timm and built-in language models"],
            "rows": len(runs),
            "held_out_errors": {"kind of sweep": errors(factors)},
        },
        "rates": {name: float(f"{rate:.4g}") for name, rate in rates.items()},
        "low_factor": round(min(factors), 3),
        "high_factor": round(max(factors), 3),
        "row_bytes": [round(min(large), 1), max(145.0, round(max(large), 1))],
        "file_bytes": _FILE_BYTES,
        "state_bytes": _STATE_BYTES,
        "trace_bytes": _TRACE_BYTES,
        "runs": list(runs),
    }
    FILE.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=140, default_flow_style=None))
    for run, factor in zip(runs, factors, strict=True):
        print(f"{run['kind']:44} {run['cpu_s']:8.1f} s, {factor:.2f} of what the others predict")
    print(document["rates"], document["low_factor"], document["high_factor"], document["row_bytes"])


_FILE_BYTES = 31_500
"""Space of a Parquet file's schema and statistics: files of 2 and 4 rows have 31.6 and 33.0 kB."""
_STATE_BYTES = 40_000
"""Space of the file without rows that holds a folder's state: 40.3 kB beside 6 rows."""
_TRACE_BYTES = 16_000
"""Space of a trace in the cache: the mean of 1,500 models of timm and torchvision."""


def measured_runs() -> list[dict[str, Any]]:
    """Sweep small and large models, from nothing and from kept traces, on one GPU and on all, and language models."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for kind, models in (("small models", SMALL), ("large models", LARGE)):
            cache, own = place / f"cache-{kind}", place / kind.partition(" ")[0]
            own.mkdir()
            found.append(timed(f"{kind} from nothing", models, own / "a", cache, gpus="[l4]", batches="[1]"))
            found.append(timed(f"{kind}, one GPU", models, own / "b", cache, gpus="[l4]", batches="[2]"))
            every = "[1, 2, 4, 8, 16, 32, 64, 128]"
            found.append(timed(f"{kind}, all GPUs", models, own / "c", cache, gpus="all", batches=every))
            found.append(timed(f"{kind}, nothing to do", models, own / "c", cache, gpus="all", batches=every))
        for count in (2, 4):
            found.append(timed(f"{count} language models", SERVED[:count], place / f"s{count}", place / "d"))
    return found


def timed(
    kind: str, models: list[str], out: Path, cache: Path, *, gpus: str = "all", batches: str = ""
) -> dict[str, Any]:
    """Run one sweep in two processes; return its counts beforehand, and what it took."""
    file = out.with_suffix(".yaml")
    served = "{mode: serving, concurrency: [1, 8, 64], input_len: 1024, output_len: 256}"
    workload = f"{{batch: {batches}, precision: fp32}}" if batches else served
    file.write_text(f"models: [{', '.join(map(repr, models))}]\ngpus: {gpus}\nworkloads:\n  - {workload}\n")
    words = [
        sys.executable,
        "-m",
        "capplan",
        "sweep",
        str(file),
        "-o",
        str(out),
        "--workers",
        "2",
        "--progress",
        "none",
    ]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
    asked = subprocess.run([*words, "--dry-run", "--json"], env=environment, capture_output=True, text=True, check=True)
    counts = json.loads(asked.stdout)
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    run = {
        "kind": kind,
        "traces": counts["traces"] - counts["kept_traces"],
        **{name: counts[name] for name in ("pairs", "to_plan", "to_serve", "files")},
        "rows": counts["cells"],
        "result_bytes": sum(path.stat().st_size for path in out.rglob("*") if path.is_file()),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
    }
    print(run, flush=True)
    return run


def fit(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the rates, none below zero, whose relative errors have the least sum of squares."""
    columns = np.array([[1.0 if key == "runs" else run.get(key, 0) for key in RATES.values()] for run in runs])
    weighted = columns / np.array([[run["cpu_s"]] for run in runs])
    scale = np.maximum(weighted.max(axis=0), 1e-12)
    matrix, ones, rates = weighted / scale, np.ones(len(runs)), np.zeros(len(RATES))
    for _ in range(20_000):  # projected gradient: five unknowns
        rates = np.maximum(0.0, rates - 0.5 * matrix.T @ (matrix @ rates - ones) / np.linalg.norm(matrix, 2) ** 2)
    return dict(zip(RATES, (rates / scale).tolist(), strict=True))


def predicted(rates: dict[str, float], run: dict[str, Any]) -> float:
    return sum(rate * (1.0 if RATES[name] == "runs" else run.get(RATES[name], 0)) for name, rate in rates.items())


def others(runs: list[dict[str, Any]], run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of other kinds, as long as they hold all that the run needs; else all but the run."""
    kept = [other for other in runs if other["kind"] != run["kind"]]
    return kept if kept else [other for other in runs if other is not run]


def errors(factors: list[float]) -> dict[str, float]:
    off = np.abs(np.log(factors))
    return {
        "median": round(float(np.median(off)), 4),
        "p90": round(float(np.quantile(off, 0.9)), 4),
        "bias": round(float(np.exp(np.mean(np.log(factors)))), 4),
        "rows": len(factors),
    }


if __name__ == "__main__":
    main()
