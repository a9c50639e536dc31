"""Read a sweep's results in Python, as Arrow or pandas, whole or by SQL, and as the question of a report."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.app.gpu_choice import GpuRequest
from capplan.app.models import ModelSource
from capplan.app.sweep import tables
from capplan.app.sweep.progress import PROGRESS_FILE, LiveStanding, read_progress
from capplan.app.sweep.records import PENDING, STATE_FOLDER, has_state
from capplan.app.sweep.store import read_contents, read_job_rows, read_manifest, read_pending
from capplan.core.named_code import code_refusal
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import ModelRequest

if TYPE_CHECKING:
    import pandas
    import pyarrow


class SweepResults:
    """The results of a sweep, read when they are asked for.

    `manifest` states the versions, calibration, prices and command that made them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: Mapping[str, Any] = read_manifest(folder)

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return [tables.WORKLOAD, *tables.table_schema().names]

    def to_arrow(self, columns: Sequence[str] | None = None) -> "pyarrow.Table":
        """Return the rows as an Arrow table."""
        wanted = self.columns if columns is None else list(columns)
        stored = [name for name in wanted if name != tables.WORKLOAD]
        parts = [
            tables.read_parquet(self.folder / file["path"], columns=stored, workload=file["workload"])
            for file in self.manifest["files"]
        ]
        return tables.joined_or_empty(parts, wanted)

    def to_pandas(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """Return the rows as a pandas frame."""
        frame: pandas.DataFrame = self.to_arrow(columns).to_pandas()
        return frame

    @property
    def live(self) -> LiveStanding | None:
        """Return the progress of the sweep that writes these results now; None where none runs."""
        return read_progress(self.folder / STATE_FOLDER / PROGRESS_FILE)

    def query_live(self, sql: str) -> "pyarrow.Table":
        """Return what a query gives over the rows, those of models included that are finished but not committed yet."""
        from capplan.app.sweep.query import run_query

        pending = []
        for job in read_pending(self.folder) if self.live is not None else ():
            with contextlib.suppress(OSError):  # committed meanwhile
                pending.append(read_job_rows(job.path))
        return run_query(self.folder, sql, unfinished=pending)

    def query(self, sql: str) -> "pyarrow.Table":
        """Return what an SQL query over the table `sweep` gives, as an Arrow table."""
        from capplan.app.sweep.query import run_query

        return run_query(self.folder, sql)

    def __len__(self) -> int:
        return int(self.manifest["rows"])

    def __getitem__(self, column: str) -> "pandas.Series[Any]":
        return self.to_pandas([column])[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows to any library that reads Arrow streams, such as polars or DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        held = self.manifest
        shape = f"{held['models']:,} models × {len(held['gpus']):,} GPUs × {len(held['workloads']):,} workloads"
        return f"<SweepResults {self.folder}: {len(self):,} rows of {shape}>"


def changed_at(folder: Path) -> int:
    """Return when the results in a folder last changed. [nanoseconds since 1970; 0 where there are none]"""
    state = folder / STATE_FOLDER
    paths = (state, state / PENDING, state / PROGRESS_FILE, *folder.glob(f"{tables.WORKLOAD}=*"))
    return max((path.stat().st_mtime_ns for path in paths if path.exists()), default=0)


def read_sweep(path: "str | Path") -> SweepResults:
    """Open the results of a sweep."""
    tables.arrow()
    return SweepResults(Path(path))


MOST_MODELS = 50
"""A report lays every model out; the table of a larger sweep is asked with `capplan query`."""


def is_sweep(words: str) -> bool:
    """Return True if words name a folder that `capplan sweep` wrote."""
    try:
        return has_state(Path(words))
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


def with_swept_models(
    models: Sequence[ModelSource], gpus: GpuRequest, *, allow_code: bool = False
) -> tuple[tuple[ModelSource, ...], GpuRequest]:
    """Return a sweep's models in the place of its folder, and its GPUs where none are named."""
    named: list[ModelSource] = []
    swept_ids: dict[str, None] = {}
    for model in models:
        if isinstance(model, ModelRequest) and is_sweep(model.words):
            swept, ids = swept_models(Path(model.words))
            if code := [each.words for each in swept if each.names_code and not allow_code]:
                raise UsageError(f"{model.words}: {code_refusal(f'the model {code[0][:120]!r}')}.")
            named += swept
            swept_ids |= dict.fromkeys(ids)
        else:
            named.append(model)
    return tuple(named), gpus if gpus.narrows or not swept_ids else replace(gpus, ids=tuple(swept_ids))


def swept_models(folder: Path) -> tuple[tuple[ModelRequest, ...], tuple[str, ...]]:
    """Return the models of a sweep that have an answer, and the ids of its GPUs."""
    contents = read_contents(folder)
    labels = dict.fromkeys(unit.model for unit in contents.units.values() if unit.failed is None)
    if not labels:
        raise UsageError(f"no model of {folder} has an answer; `capplan query {folder} failures` lists the reasons.")
    if len(labels) > MOST_MODELS:
        raise UsageError(
            f"{folder} holds {len(labels):,} models, and a report lays out at most {MOST_MODELS}; sweep fewer, or ask "
            f"`capplan query {folder} cheapest`."
        )
    return tuple(map(request_of, labels)), tuple(contents.manifest["gpus"])


def request_of(label: str) -> ModelRequest:
    """Return the request that a row's `model` stands for: the words, and the options of a command line."""
    words, *options = label.split(" --") if " --" in label else [label]
    values: dict[str, list[str]] = {}
    for option, _, value in (text.partition(" ") for text in options):
        values.setdefault(f"--{option}", []).append(value)
    if stated := [option for option in ("--set", "--part", "--offload") if option in values]:
        raise UsageError(
            f"a report of a sweep's models cannot repeat {', '.join(stated)} of {label[:120]}; name the pipeline: "
            f"`capplan report {words} {stated[0]} ...`."
        )

    def single(option: str) -> str | None:
        return values[option][0] if option in values else None

    seq_len = single("--seq-len")
    return ModelRequest(
        words=words,
        arg=tuple(values.get("--arg", ())),
        inputs=tuple(values.get("--input", ())),
        prepare=tuple(values.get("--prepare", ())),
        freeze=tuple(values.get("--freeze", ())),
        input_size=single("--input-size"),
        seq_len=int(seq_len) if seq_len else None,
        inputs_from=single("--inputs-from"),
    )
