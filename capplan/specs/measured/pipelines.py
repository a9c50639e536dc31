"""Read measurements of whole pipelines: CSV with a row for each model, GPU, batch and way to share a sequence."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capplan.core.pipelines.measured import MeasuredPipeline
from capplan.core.pipelines.sharing import Degrees
from capplan.errors import UsageError
from capplan.tables import columns_of, read_rows

REQUIRED = ("model", "gpu", "batch", "batch_latency_s")
_ITEM = ("steps", "height", "width", "frames")
_PREFIX = "diffusers:"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPipelines:
    """The rows of a file, and why others are left out, with how many."""

    rows: tuple[MeasuredPipeline, ...]
    skipped: Mapping[str, int]


def holds_pipelines(path: Path) -> bool:
    """Return True if a file has the columns of measured pipelines."""
    if path.suffix in (".parquet", ".jsonl"):
        return False
    return "batch_latency_s" in columns_of(path)


def read_measured_pipelines(path: Path) -> MeasuredPipelines:
    """Read a file of measured pipelines.

    Columns: model (a name after `diffusers:`, or any words of a pipeline), gpu, batch, batch_latency_s; optionally
    gpus, ulysses_degree, ring_degree, steps, height, width, frames, weights, power_w_all_gpus, joule_per_item.

    Raises:
        UsageError: the file is missing, unreadable, or lacks a column.
    """
    missing = [name for name in REQUIRED if name not in columns_of(path)]
    if missing:
        raise UsageError(f"{path} lacks the column {', '.join(missing)}; a pipeline's row needs {', '.join(REQUIRED)}.")
    rows, skipped = [], Counter[str]()
    for line, row in enumerate(read_rows(path), start=1):
        try:
            rows.append(_row(line, row))
        except ValueError as error:
            skipped[str(error)] += 1
    return MeasuredPipelines(rows=tuple(rows), skipped=dict(skipped))


def _row(line: int, row: Mapping[str, str]) -> MeasuredPipeline:
    words = {name: (value or "").strip() for name, value in row.items() if name}
    model = words["model"]
    degrees = Degrees(ulysses=_count(words, "ulysses_degree"), ring=_count(words, "ring_degree"))
    if "gpus" in words and _count(words, "gpus") != degrees.gpu_count:
        raise ValueError("gpus is not ulysses_degree times ring_degree")
    if not model or not words["gpu"]:
        raise ValueError("model or gpu is empty")
    is_named = ":" in model or model.endswith((".yaml", ".yml"))
    return MeasuredPipeline(
        line=line,
        pipeline=model if is_named else f"{_PREFIX}{model}",
        gpu=words["gpu"],
        degrees=degrees,
        batch=_count(words, "batch"),
        settings={name: _count(words, name) for name in _ITEM if words.get(name)},
        latency_s=_positive(words, "batch_latency_s"),
        weights=words.get("weights", ""),
        power_w=_positive(words, "power_w_all_gpus") if words.get("power_w_all_gpus") else None,
        joule_per_item=_positive(words, "joule_per_item") if words.get("joule_per_item") else None,
    )


def _count(words: Mapping[str, str], name: str) -> int:
    text = words.get(name) or "1"
    value = float(text)
    if not 1 <= value <= 10**6 or value != int(value):
        raise ValueError(f"{name} is {text!r}, not a whole number from 1")
    return int(value)


def _positive(words: Mapping[str, str], name: str) -> float:
    value = float(words[name])
    if not 0 < value < 1e9:
        raise ValueError(f"{name} is {words[name]!r}, not a positive number")
    return value
