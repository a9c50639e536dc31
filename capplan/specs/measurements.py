"""Read anyone's measurements: CSV, gzip-compressed or not, Parquet, or the lines of `capplan measure`."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from capplan.core.calibrate.measured import MeasuredFile, MeasuredStep, SkippedRow, Switch, runs_code
from capplan.core.measurement.format import measured_row, parse_points
from capplan.core.named_code import code_refusal
from capplan.core.pipelines.measured import MeasuredPipeline
from capplan.core.pipelines.sharing import Degrees
from capplan.core.workload import LARGEST_BATCH, Framework, Host, Layout, Optimizer, Precision, Training, Workload
from capplan.errors import UsageError, nearest_names
from capplan.files import open_file, read_file
from capplan.tables import LARGEST_TABLE_BYTES, UnreadableRowError, columns_of, read_rows

COLUMNS = (
    "model", "gpu", "framework", "torch", "precision", "layout", "task", "batch", "input_size", "latency_ms",
    "samples_per_s", "peak_allocated_bytes", "reparam", "fast_norm", "arg", "host_copy", "optimizer", "seq_len", "gpus",
    "power_w",
)  # fmt: skip
_UNREAD = ("source", "licence", "note", "peak_reserved_bytes")
"""Columns of capplan's own files that say where a row is from, or what no prediction needs."""
_REQUIRED = ("model", "gpu", "batch")
_TASKS = {"": False, "infer": False, "inference": False, "train": True, "training": True}
_SWITCHES = {
    "1": Switch.ON,
    "1.0": Switch.ON,
    "true": Switch.ON,
    "0": Switch.OFF,
    "0.0": Switch.OFF,
    "false": Switch.OFF,
}
_LONGEST_STEP_S = 3600.0


def read_measured(path: Path, *, allow_code: bool = False) -> MeasuredFile:
    """Read a file of measurements; rows that are not a step are kept with their reason.

    Args:
        path: the file.
        allow_code: keep the rows whose model is code to import; else these are skipped, because a file of
            measurements is data, and reading it must not run what somebody wrote into it.

    Raises:
        UsageError: the file is missing, unreadable, or lacks a column.
    """
    reader = _StepReader(file=path.name, allow_code=allow_code)
    steps: list[MeasuredStep] = []
    skipped: list[SkippedRow] = []
    unread: tuple[str, ...] = ()
    for line, row in enumerate(_rows(path), start=1):
        if line == 1:
            unread = tuple(name for name in row if name and name not in (*COLUMNS, *_UNREAD))
        try:
            steps.append(reader.step(line, row))
        except UnreadableRowError as error:
            skipped.append(SkippedRow(line=line, file=path.name, reason=reader.known_words(str(error))))
    return MeasuredFile(name=path.name, steps=tuple(steps), skipped=tuple(skipped), unread_columns=unread)


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    if path.suffix == ".jsonl":
        try:
            content = read_file(path)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
        yield from map(measured_row, parse_points(content, where=str(path)).measurements)
        return
    _check_columns(path, columns_of(path))
    yield from read_rows(path)


MOST_PARQUET_ROWS = 3_000_000
"""Most rows of a Parquet file of measurements, as many as a CSV table of the largest size has. A file of 3 MB may
hold 100 million equal rows, which took 22 GB."""


def _parquet_rows(path: Path) -> Iterator[Mapping[str, str]]:
    """Read the rows of a Parquet file in portions; a column that is not understood has its name and no cells."""
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - an optional library
    except ImportError as error:
        raise UsageError(f"reading {path} needs pyarrow; install it with pip install pyarrow, or write CSV.") from error
    try:
        with open_file(path) as stream:
            file = parquet.ParquetFile(stream)
            names = file.schema_arrow.names
            _check_columns(path, names)
            _check_size(path, file.metadata)
            unread = dict.fromkeys(names, "")
            for portion in file.iter_batches(batch_size=4096, columns=[name for name in names if name in COLUMNS]):
                cells = (map(_cell, column.to_pylist()) for column in portion.columns)
                for values in zip(*cells, strict=True):
                    yield {**unread, **dict(zip(portion.schema.names, values, strict=True))}
    except (OSError, ValueError, ArrowException) as error:
        raise UsageError(f"cannot read {path}: {' '.join(str(error).split())[:150]}.") from error


def _cell(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _check_size(path: Path, footer: Any) -> None:
    size_bytes = sum(footer.row_group(index).total_byte_size for index in range(footer.num_row_groups))
    if footer.num_rows > MOST_PARQUET_ROWS or size_bytes > LARGEST_TABLE_BYTES:
        raise UsageError(
            f"{path} holds {footer.num_rows:,} rows in {size_bytes / 2**20:,.0f} MiB; at most {MOST_PARQUET_ROWS:,} "
            f"rows and {LARGEST_TABLE_BYTES // 2**20} MiB are read."
        )


def _check_columns(path: Path, columns: Collection[str]) -> None:
    missing = [name for name in _REQUIRED if name not in columns]
    if "latency_ms" not in columns and "samples_per_s" not in columns:
        missing.append("latency_ms or samples_per_s")
    if missing:
        raise UsageError(f"{path} lacks the column {', '.join(missing)}; known are {', '.join(COLUMNS)}.")


class _StepReader:
    """Reads the rows of one file; what many of them share is kept once, so that a million fit into memory."""

    def __init__(self, file: str, *, allow_code: bool) -> None:
        self._file = file
        self._allow_code = allow_code
        self._words: dict[str, str] = {}
        self._workloads: dict[tuple[str, ...], Workload] = {}

    def step(self, line: int, row: Mapping[str, str]) -> MeasuredStep:
        """Read one row.

        Raises:
            UnreadableRowError: it is not a step.
        """
        words = {name: (row.get(name) or "").strip() for name in COLUMNS}
        batch = _count(words["batch"], "batch")
        gpu_count = _count(words["gpus"], "gpus") if words["gpus"] else 1
        arguments = tuple(words["arg"].split())
        for argument in arguments:
            key, equals, value = argument.partition("=")
            if not equals or not key.replace(".", "").isidentifier() or not value:
                _fail(f"arg {argument[:60]!r} is not KEY=VALUE such as attn_implementation=eager")
        # where a column leaves it empty: published autocast recipes run channels-last
        unsaid = "nhwc" if "layout" in row and words["precision"].lower().startswith("amp") else "nchw"
        return MeasuredStep(
            line=line,
            file=self._file,
            model=self.known_words(self._model(words["model"])),
            gpu=self.known_words(words["gpu"] or _fail("gpu is empty")),
            workload=self._workload(words, layout=words["layout"] or unsaid),
            batch=batch,
            latency_s=_latency_s(words, batch * gpu_count),
            input_size=_size(_one_of(words, "input_size", "seq_len")),
            power_w=_positive_number(words["power_w"], "power_w") if words["power_w"] else None,
            arguments=arguments,
            includes_copy=_switch(words["host_copy"], "host_copy") is Switch.ON,
            reparameterized=_switch(words["reparam"], "reparam"),
            fast_norm=_switch(words["fast_norm"], "fast_norm") if "fast_norm" in row else Switch.OFF,
            peak_allocated_bytes=_count(words["peak_allocated_bytes"], "peak_allocated_bytes")
            if words["peak_allocated_bytes"]
            else None,
        )

    def _model(self, words: str) -> str:
        if not words:
            _fail("model is empty")
        if not self._allow_code and runs_code(words):
            _fail(code_refusal(f"model {words!r}", holder="row"))
        return words

    def known_words(self, words: str) -> str:
        """Return the same words, held once."""
        return self._words.setdefault(words, words)

    def _workload(self, words: Mapping[str, str], *, layout: str) -> Workload:
        key = (layout, *(words[name] for name in ("precision", "framework", "task", "torch", "optimizer", "gpus")))
        if key not in self._workloads:
            self._workloads[key] = _workload({**words, "layout": layout})
        return self._workloads[key]


def _workload(words: Mapping[str, str]) -> Workload:
    """Read what ran. An unnamed optimizer is SGD with momentum, which timm's benchmark takes, whose form this is."""
    if words["task"].lower() not in _TASKS:
        _fail(f"task {words['task']!r} is neither infer nor train")
    gpu_count = _count(words["gpus"], "gpus") if words["gpus"] else 1
    if gpu_count > 1 and not _TASKS[words["task"].lower()]:
        _fail(f"{gpu_count} gpus are estimated in training alone; give the rate of one for inference")
    return Workload(
        precision=_word(Precision, words["precision"] or "fp32", "precision"),
        framework=_word(Framework, words["framework"] or "eager", "framework"),
        layout=_word(Layout, words["layout"], "layout"),
        training=Training(optimizer=_word(Optimizer, words["optimizer"] or "momentum", "optimizer"))
        if _TASKS[words["task"].lower()]
        else None,
        torch_version=_version(words["torch"]),
        gpu_count=gpu_count,
        host=Host.CARD,
    )


def _word(kind: type[Any], text: str, name: str) -> Any:
    try:
        return kind(text.lower())
    except ValueError:
        meant = nearest_names(text, [item.value for item in kind])
        return _fail(f"unknown {name} {text!r}" + (f"; did you mean {meant[0]}?" if meant else ""))


def _version(text: str) -> tuple[int, int]:
    if not text:
        return Workload().torch_version
    pieces = text.partition("+")[0].split(".")
    if len(pieces) < 2 or not all(piece.isdecimal() for piece in pieces[:2]):
        _fail(f"torch {text!r} is not a version such as 2.9")
    return int(pieces[0]), int(pieces[1])


def _latency_s(words: Mapping[str, str], batch: int) -> float:
    """Read the step's time from its latency or its rate: the shorter where both stand.

    A mean latency holds the first steps, which choose kernels, and a rate the wait for data: NVIDIA's tables of
    EfficientNet have latencies 1.2 times as long as the batch over its rate, at every batch alike.
    """
    latency_s = _positive_number(words["latency_ms"], "latency_ms") / 1e3 if words["latency_ms"] else None
    rate_per_s = _positive_number(words["samples_per_s"], "samples_per_s") if words["samples_per_s"] else None
    if latency_s is None and rate_per_s is None:
        _fail("neither latency_ms nor samples_per_s is given")
    step_s = min(latency_s or math.inf, batch / rate_per_s if rate_per_s else math.inf)
    if step_s > _LONGEST_STEP_S:
        _fail(f"a step of {step_s:.0f} s: are the units mixed up?")
    return step_s


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float(_fail(f"{name} {text!r} is not a number"))


def _positive_number(text: str, name: str) -> float:
    value = _number(text, name)
    if not 0 < value < math.inf:
        _fail(f"{name} must be positive, is {text}")
    return value


def _count(text: str, name: str) -> int:
    value = _number(text, name) if text else 0.0
    if not 1 <= value <= LARGEST_BATCH or value != int(value):
        _fail(f"{name} {text!r} is not a positive integer" + (" up to 2^40" if value > LARGEST_BATCH else ""))
    return int(value)


def _one_of(words: Mapping[str, str], first: str, second: str) -> str:
    """Return the value of the column that is filled of two that mean the same."""
    if words[first] and words[second] and words[first] != words[second]:
        _fail(f"{first} {words[first]} and {second} {words[second]} contradict each other")
    return words[first] or words[second]


def _size(text: str) -> tuple[int, ...]:
    """Read 224 or 3x224x224; a single number stays one, since text models mean a length by it."""
    if not text:
        return ()
    return tuple(_count(piece, "input_size") for piece in text.lower().split("x"))


def _switch(text: str, name: str) -> Switch:
    if not text:
        return Switch.UNKNOWN
    return _SWITCHES.get(text.lower()) or _fail(f"{name} {text!r} is neither 1 nor 0")


def _fail(reason: str) -> Any:
    raise UnreadableRowError(reason)


REQUIRED = ("model", "gpu", "batch", "batch_latency_s")
_ITEM = ("steps", "height", "width", "frames")
_PREFIX = "diffusers:"


def holds_pipelines(path: Path) -> bool:
    """Return True if a file has the columns of measured pipelines."""
    if path.suffix in (".parquet", ".jsonl"):
        return False
    return "batch_latency_s" in columns_of(path)


def read_measured_pipelines(path: Path) -> tuple[tuple[MeasuredPipeline, ...], Mapping[str, int]]:
    """Read the rows of a file of measured pipelines, and why others are left out, with how many.

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
    return tuple(rows), dict(skipped)


def _row(line: int, row: Mapping[str, str]) -> MeasuredPipeline:
    words = {name: (value or "").strip() for name, value in row.items() if name}
    model = words["model"]
    degrees = Degrees(ulysses=_whole_number(words, "ulysses_degree"), ring=_whole_number(words, "ring_degree"))
    if "gpus" in words and _whole_number(words, "gpus") != degrees.gpu_count:
        raise ValueError("gpus is not ulysses_degree times ring_degree")
    if not model or not words["gpu"]:
        raise ValueError("model or gpu is empty")
    is_named = ":" in model or model.endswith((".yaml", ".yml"))
    return MeasuredPipeline(
        line=line,
        pipeline=model if is_named else f"{_PREFIX}{model}",
        gpu=words["gpu"],
        degrees=degrees,
        batch=_whole_number(words, "batch"),
        settings={name: _whole_number(words, name) for name in _ITEM if words.get(name)},
        latency_s=_positive(words, "batch_latency_s"),
        weights=words.get("weights", ""),
        power_w=_positive(words, "power_w_all_gpus") if words.get("power_w_all_gpus") else None,
        joule_per_item=_positive(words, "joule_per_item") if words.get("joule_per_item") else None,
    )


def _whole_number(words: Mapping[str, str], name: str) -> int:
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
