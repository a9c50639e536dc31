"""Read a sweep's results in Python: as Arrow or pandas, whole or in part, or by SQL."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.app.sweep import tables
from capplan.app.sweep.progress import PROGRESS_FILE, LiveStanding, read_progress
from capplan.app.sweep.records import STATE_FOLDER
from capplan.app.sweep.store import read_job_rows, read_manifest, read_pending

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
        """Return the rows as an Arrow table.

        Args:
            columns: the columns to read; all by default.
        """
        wanted = self.columns if columns is None else list(columns)
        stored = [name for name in wanted if name != tables.WORKLOAD]
        parts = [
            tables.read_parquet(self.folder / each["path"], columns=stored, workload=each["workload"])
            for each in self.manifest["files"]
        ]
        return tables.joined_or_empty(parts, wanted)

    def to_pandas(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """Return the rows as a pandas frame.

        Args:
            columns: the columns to read; all by default.
        """
        frame: pandas.DataFrame = self.to_arrow(columns).to_pandas()
        return frame

    @property
    def live(self) -> LiveStanding | None:
        """How far the sweep is that writes these results at this moment; None where none runs."""
        return read_progress(self.folder / STATE_FOLDER / PROGRESS_FILE)

    def query_live(self, sql: str) -> "pyarrow.Table":
        """Return what a query gives over the rows, those of models included that are finished but not committed yet.

        Args:
            sql: a query in DuckDB's SQL.

        Raises:
            UsageError: DuckDB refuses it, or there is no row yet.
        """
        from capplan.app.sweep.query import run_query

        pending = []
        for job in read_pending(self.folder) if self.live is not None else ():
            with contextlib.suppress(OSError):  # committed meanwhile
                pending.append(read_job_rows(job.path))
        return run_query(self.folder, sql, unfinished=pending)

    def query(self, sql: str) -> "pyarrow.Table":
        """Return what an SQL query over the table `sweep` gives, as an Arrow table.

        Args:
            sql: a query in DuckDB's SQL.

        Raises:
            UsageError: DuckDB refuses it.
        """
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
    paths = (state, state / "pending", state / PROGRESS_FILE, *folder.glob(f"{tables.WORKLOAD}=*"))
    return max((path.stat().st_mtime_ns for path in paths if path.exists()), default=0)


def read_sweep(path: "str | Path") -> SweepResults:
    """Open the results of a sweep.

    Args:
        path: the folder that `capplan sweep -o` wrote.

    Raises:
        UsageError: it holds no results of a sweep.
    """
    tables.arrow()
    return SweepResults(Path(path))
