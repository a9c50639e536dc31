"""The results folder: `workload=.../part-*.parquet` are the rows, `_sweep/` holds the manifest and what is unfinished.

When a sweep is complete its state is packed (`capplan.app.sweep.records`), so that Parquet files alone are left.

A finished job is put into `_sweep/pending` in one step. A commit joins pending jobs to Parquet files of many models,
then replaces the manifest, which names the files that count, then removes what it replaced. Whatever moment a run is
killed at, each unit is in exactly one place that counts.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from filelock import FileLock, Timeout

from capplan.app.sweep import tables
from capplan.app.sweep.records import (
    FORMAT,
    MANIFEST,
    PENDING,
    STATE_FOLDER,
    UNITS,
    Contents,
    TableFile,
    Unit,
    UnitName,
    pack_state,
    state_content,
    unit_from_json,
    unit_to_json,
    unpack_state,
)
from capplan.app.sweep.schema import SCHEMA_VERSION
from capplan.core.gpus.prices import Price
from capplan.core.sweep.overview import Failed
from capplan.errors import UsageError
from capplan.files import replace_whole
from capplan.wording import as_options

if TYPE_CHECKING:
    import pyarrow

_LOCK, _JOB_SUFFIX = "lock", ".job"
WRITERS = 4
"""Threads that join rows to files beside the one that receives them: Arrow works without Python's lock."""
ROWS_PER_FILE = 400_000
"""A file is written once it holds as many rows: about 10 MB, which DuckDB and Ray read in one task."""


def manifest_path(folder: Path) -> Path:
    return folder / STATE_FOLDER / MANIFEST


def read_manifest(folder: Path) -> dict[str, Any]:
    path = manifest_path(folder)
    try:
        document = json.loads(state_content(folder, MANIFEST))
    except OSError as error:
        raise UsageError(
            f"{folder} holds no results of a sweep; `capplan sweep SWEEP.yaml -o {folder}` makes them."
        ) from error
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{path} is not a manifest of a sweep.")
    version = document.get("schema_version")
    if type(version) is not int or version > SCHEMA_VERSION:
        raise UsageError(f"{folder} has sweep schema {version!r}; this capplan reads up to {SCHEMA_VERSION}.")
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A finished job that no commit has taken yet: its file and its units."""

    path: Path
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the dataset is to hold: these units, on these GPUs with the digests of their figures, at these prices.

    `measured` holds what was timed, by model, workload, GPU and batch.
    """

    units: Set[UnitName]
    gpus: Mapping[str, str]
    rents: Mapping[str, Price]
    measured: Mapping[tuple[str, str, str, int], tables.MeasuredRow] = field(default_factory=dict)

    def of(self, unit: Unit) -> dict[str, str]:
        """Return the GPUs of a finished unit that still hold."""
        if unit.name not in self.units:
            return {}
        return {gpu: digest for gpu, digest in unit.gpus.items() if self.gpus.get(gpu) == digest}


@dataclass(slots=True, kw_only=True)
class SweepStore:
    """A results folder open for one run; a context manager that holds its lock."""

    folder: Path
    contents: Contents = field(default_factory=Contents)
    pending: list[Pending] = field(default_factory=list)
    _lock: FileLock | None = None
    _threads: ThreadPoolExecutor | None = None
    _joining: "list[tuple[Future[_Writer], list[Pending]]]" = field(default_factory=list)

    def __enter__(self) -> Self:
        state = self.folder / STATE_FOLDER
        try:
            (state / PENDING).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write {self.folder}: {error.strerror or error}.") from error
        self._lock = FileLock(state / _LOCK, timeout=0)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise UsageError(
                f"{self.folder} is being written by another sweep; wait for it, or use another folder."
            ) from error
        unpack_state(self.folder)
        if manifest_path(self.folder).exists():
            self.contents = read_contents(self.folder)
        # Remove what a killed run left: files that no manifest names, and jobs that were committed already.
        known = {self.folder / path for path in self.contents.files}
        parts = f"{tables.WORKLOAD}=*"
        for path in (*self.folder.glob(f"{parts}/part-*.parquet"), *self.folder.glob(f"{parts}/.*.partial")):
            if path not in known:
                path.unlink(missing_ok=True)
        for name in self.contents.manifest.get("taken", ()):
            (self._state / PENDING / name).unlink(missing_ok=True)
        for path in (*self._state.glob(".*.partial"), *(self._state / PENDING).glob(".*.partial")):
            path.unlink(missing_ok=True)
        self.pending = list(read_pending(self.folder))
        readable = {job.path for job in self.pending}
        for path in (state / PENDING).glob("[!.]*"):
            if path not in readable:
                path.unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        if self._lock is not None:
            self._lock.release()

    def pack(self) -> None:
        """Leave nothing but Parquet files in the folder of a complete sweep, so that any reader reads it whole."""
        workloads = sorted(file.workload for file in self.contents.files.values())
        if workloads:
            pack_state(self.folder, workload=workloads[0])

    def pending_units(self) -> dict[UnitName, list[Unit]]:
        """Return the units of pending jobs by name."""
        found: dict[UnitName, list[Unit]] = {}
        for job in self.pending:
            for unit in job.units:
                found.setdefault(unit.name, []).append(unit)
        return found

    def add(self, rows: bytes, units: Sequence[Unit]) -> None:
        """Keep the rows of a finished job as they came, below a line that states its units, until a commit takes
        them.
        """
        head = json.dumps({"units": [unit_to_json(unit) for unit in units]}, sort_keys=True, ensure_ascii=True)
        content = head.encode() + b"\n" + rows
        path = self._state / PENDING / f"{hashlib.sha256(content).hexdigest()[:32]}{_JOB_SUFFIX}"
        replace_whole(path, content)
        self.pending.append(Pending(path=path, units=tuple(units)))

    def drop_pending(self, dropped: Sequence[Pending]) -> None:
        """Forget pending jobs that answer another question than the present one."""
        self.pending = [job for job in self.pending if job not in dropped]
        for job in dropped:
            job.path.unlink(missing_ok=True)

    def commit_new(self, wanted: Wanted, manifest: Mapping[str, Any]) -> None:
        """Join pending jobs of units that the dataset does not hold, beside the caller; older units stay until the end.

        The files count once a later call, or `settle`, finds them written.
        """
        held = self.contents.units
        taken = [job for job in self.pending if not any(unit.name in held for unit in job.units)]
        self.pending = [job for job in self.pending if job not in taken]
        if taken:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(WRITERS, thread_name_prefix="sweep-writer")
            self._joining.append((self._threads.submit(_joined, self.folder, taken, wanted), taken))
        self._record(manifest, most_left=WRITERS)

    def settle(self, manifest: Mapping[str, Any]) -> None:
        """Wait until all files that are being written count."""
        self._record(manifest, most_left=0)

    def _record(self, manifest: Mapping[str, Any], *, most_left: int) -> None:
        """Count the files that are written; wait for the oldest ones where more than a number are not."""
        while self._joining and (len(self._joining) > most_left or self._joining[0][0].done()):
            future, taken = self._joining.pop(0)
            future.result().record(self.contents)
            self.write_manifest(manifest, taken=[job.path.name for job in taken])
            for job in taken:
                job.path.unlink(missing_ok=True)

    def commit_all(self, wanted: Wanted, manifest: Mapping[str, Any], *, rewrites: bool) -> None:
        """Join all pending jobs, and drop the rows that are not wanted."""
        self.settle(manifest)
        changed = {unit.name for job in self.pending for unit in job.units}
        stale = [path for path in self.contents.files if rewrites or self._is_stale(path, changed, wanted)]
        taken = self.pending
        newer: dict[UnitName, list[Unit]] = {}
        for job in taken:
            for unit in job.units:
                newer.setdefault(unit.name, []).append(unit)
        writer = _Writer(folder=self.folder, wanted=wanted)
        parts = {path: self.contents.files[path] for path in stale}
        held = {path: self.contents.units_in(path) for path in stale}
        for path in stale:
            old = tables.read_planned(self.folder / path, workload=parts[path].workload)
            writer.add_units(old, [_left_of(unit, newer.get(unit.name, ()), wanted) for unit in held[path]])
        for job in taken:
            writer.add_job(read_job_rows(job.path), job.units)
        writer.close()
        gone = set(stale)
        contents = self.contents
        for name in [name for name, path in contents.file_of.items() if path in gone]:
            del contents.units[name], contents.file_of[name]
        for path in gone:
            del contents.files[path]
        writer.record(self.contents)
        self.write_manifest(manifest, taken=[job.path.name for job in taken])
        for path in stale:
            if path not in self.contents.files:
                (self.folder / path).unlink(missing_ok=True)
        self.drop_pending(list(taken))

    def _is_stale(self, path: str, changed: Set[UnitName], wanted: Wanted) -> bool:
        return any(unit.name in changed or wanted.of(unit) != dict(unit.gpus) for unit in self.contents.units_in(path))

    def write_manifest(self, values: Mapping[str, Any], *, taken: Sequence[str] = ()) -> None:
        """Replace the manifest; from then on it is what counts."""
        contents = self.contents
        units_file, sets = _write_units(self._state, contents)
        contents.manifest = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            **values,
            "rows": contents.rows,
            "files": [asdict(file) for file in contents.files.values()],
            "units": units_file,
            "gpu_sets": sets,
            "taken": list(taken),
        }
        content = json.dumps(contents.manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        replace_whole(manifest_path(self.folder), as_options(content).encode())
        for path in self._state.glob(UNITS):
            if path.name != units_file:
                path.unlink(missing_ok=True)

    @property
    def _state(self) -> Path:
        return self.folder / STATE_FOLDER


def read_pending(folder: Path) -> Iterator[Pending]:
    """Return the finished jobs that no commit has taken yet; files that cannot be read are left out."""
    for path in sorted((folder / STATE_FOLDER / PENDING).glob(f"*{_JOB_SUFFIX}")):
        try:
            with path.open("rb") as file:
                head = json.loads(file.readline())
            yield Pending(path=path, units=tuple(map(unit_from_json, head["units"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue


def read_job_rows(path: Path) -> "pyarrow.Table":
    return tables.from_bytes(path.read_bytes().partition(b"\n")[2])


def _left_of(unit: Unit, newer: Sequence[Unit], wanted: Wanted) -> Unit:
    """Return what stays of a committed unit beside newer answers: GPUs that hold, if the key is still the same."""
    if any(answer.key != unit.key or answer.failed or unit.failed for answer in newer):
        return replace(unit, gpus={})
    replaced = {gpu for answer in newer for gpu in answer.gpus}
    return replace(unit, gpus={gpu: held for gpu, held in wanted.of(unit).items() if gpu not in replaced})


def _joined(folder: Path, taken: Sequence[Pending], wanted: Wanted) -> "_Writer":
    """Write the rows of pending jobs into files that no manifest names yet."""
    writer = _Writer(folder=folder, wanted=wanted)
    for job in taken:
        writer.add_job(read_job_rows(job.path), job.units)
    writer.close()
    return writer


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Gathers rows by workload, writes a file whenever enough are held, and remembers which units lie where."""

    folder: Path
    wanted: Wanted
    written: dict[str, TableFile] = field(default_factory=dict)
    units: dict[UnitName, Unit] = field(default_factory=dict)
    file_of: dict[UnitName, str] = field(default_factory=dict)
    _held: "dict[str, list[tuple[pyarrow.Table, str | None]]]" = field(default_factory=dict)
    _held_units: dict[str, list[Unit]] = field(default_factory=dict)

    def add_job(self, table: "pyarrow.Table", units: Sequence[Unit]) -> None:
        """Return the rows of one job, whole where all of them are wanted of one unit, which needs no search."""
        wanted = [replace(unit, gpus=self.wanted.of(unit)) for unit in units]
        if len(units) == 1 and wanted[0].gpus == dict(units[0].gpus) and units[0].gpus:
            self._hold(units[0].workload, table, [wanted[0]], model=units[0].model)
        else:
            self.add_units(table, wanted, is_ordered=True)

    def add_units(self, table: "pyarrow.Table", units: Sequence[Unit], *, is_ordered: bool = False) -> None:
        """Select the rows of units on their GPUs from a table that may hold more."""
        by_set: dict[tuple[str, frozenset[str]], list[Unit]] = {}
        for unit in units:
            if unit.gpus:
                by_set.setdefault((unit.workload, frozenset(unit.gpus)), []).append(unit)
        for (workload, gpus), group in by_set.items():
            models = [unit.model for unit in group]
            rows = tables.keep_rows(table, workload, models=models, gpus=gpus)
            model = models[0] if is_ordered and len(models) == 1 else None
            self._hold(workload, rows, group, model=model)

    def _hold(self, workload: str, table: "pyarrow.Table", units: Sequence[Unit], *, model: str | None) -> None:
        """Let rows wait for their file; those of one model, in order, where it is named."""
        self._held.setdefault(workload, []).append((table, model))
        self._held_units.setdefault(workload, []).extend(units)
        if sum(held.num_rows for held, _ in self._held[workload]) >= ROWS_PER_FILE:
            self._write(workload)

    def close(self) -> None:
        """Write what is still held."""
        for workload in list(self._held):
            self._write(workload)

    def _write(self, workload: str) -> None:
        held, units = self._held.pop(workload), self._held_units.pop(workload)
        names = [model for _, model in held]
        is_ordered = None not in names and len(set(names)) == len(names)
        if is_ordered:  # models in order, each with its rows in order: sorting row by row would change nothing
            held.sort(key=lambda rows: str(rows[1]).encode())
        table = tables.with_prices(tables.join_tables([rows for rows, _ in held]), self.wanted.rents)
        table = tables.finished(tables.with_measurements(table, workload, self.wanted.measured))
        table = table if is_ordered else tables.in_order(table)
        content = tables.parquet_bytes(table)
        path = f"{tables.WORKLOAD}={workload}/part-{hashlib.sha256(content).hexdigest()[:16]}.parquet"
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(target, content)
        self.written[path] = TableFile(path=path, workload=workload, rows=table.num_rows, size_bytes=len(content))
        for unit in units:
            known = self.units.get(unit.name)
            self.units[unit.name] = replace(unit, gpus={**known.gpus, **unit.gpus}) if known else unit
            self.file_of[unit.name] = path

    def record(self, contents: Contents) -> None:
        """Add what was written to the contents of the folder."""
        contents.files.update(self.written)
        contents.units.update(self.units)
        contents.file_of.update(self.file_of)


def _write_units(state: Path, contents: Contents) -> tuple[str, dict[str, dict[str, str]]]:
    """Write the finished units, and return the file's name and the sets of GPUs that they name."""
    sets: dict[str, dict[str, str]] = {}
    names: dict[tuple[tuple[str, str], ...], str] = {}
    rows: list[dict[str, str | None]] = []
    for name, unit in contents.units.items():
        items = tuple(sorted(unit.gpus.items()))
        set_name = names.setdefault(items, hashlib.sha256(repr(items).encode()).hexdigest()[:12])
        sets[set_name] = dict(items)
        failed = unit.failed
        rows.append({
            "model": unit.model, "workload": unit.workload, "key": unit.key, "gpu_set": set_name,
            "file": contents.file_of[name], "failure": failed.kind if failed else None,
            "reason": failed.reason if failed else None,
        })  # fmt: skip
    content = tables.texts_to_bytes(rows, UNIT_COLUMNS)
    path = state / f"units-{hashlib.sha256(content).hexdigest()[:16]}.arrow"
    replace_whole(path, content)
    return path.name, sets


UNIT_COLUMNS = ("model", "workload", "key", "gpu_set", "file", "failure", "reason")


def read_contents(folder: Path) -> Contents:
    manifest = read_manifest(folder)
    try:
        content = state_content(folder, manifest["units"])
        rows = tables.from_bytes(content).to_pylist()
        files = {file["path"]: TableFile(**file) for file in manifest["files"]}
        contents = Contents(files=files, manifest=manifest)
        for row in rows:
            failed = Failed(kind=row["failure"], reason=row["reason"] or "") if row["failure"] else None
            unit = Unit(
                model=row["model"], workload=row["workload"], key=row["key"],
                gpus=manifest["gpu_sets"][row["gpu_set"]], failed=failed,
            )  # fmt: skip
            contents.units[unit.name] = unit
            contents.file_of[unit.name] = row["file"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder} is damaged: {error}; remove it and sweep again.") from error
    return contents


def empty_folder(folder: Path) -> None:
    """Remove the results of a sweep from a folder, and nothing else."""
    for path in folder.glob(f"{tables.WORKLOAD}=*"):
        shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder / STATE_FOLDER, ignore_errors=True)
