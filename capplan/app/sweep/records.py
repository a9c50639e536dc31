"""What a results folder holds: the units of work that are finished, and the state in which `store` keeps them.

A unit is one model under one workload. It is finished for a set of GPUs, each known by the digest of its figures. The
state lies in `_sweep/` while a sweep runs, and is packed into one Parquet file once it is complete.
"""

import base64
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capplan.app.sweep import tables
from capplan.core.sweep.overview import Failed
from capplan.files import replace_whole

UnitName = tuple[str, str]
"""A unit's model and workload."""

FORMAT = "capplan-sweep"
COMPLETE, PARTIAL = "complete", "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A finished unit: the key of what it depends on, the digests of its GPUs, and how it failed if it did."""

    model: str
    workload: str
    key: str
    gpus: Mapping[str, str]
    failed: Failed | None = None

    @property
    def name(self) -> UnitName:
        return self.model, self.workload


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """One Parquet file of the dataset: its path in the folder, its partition, its rows and size. [bytes]"""

    path: str
    workload: str
    rows: int
    size_bytes: int


@dataclass(slots=True, kw_only=True)
class Contents:
    """What a folder holds: the finished units with the file of each, and the files."""

    units: dict[UnitName, Unit] = field(default_factory=dict)
    file_of: dict[UnitName, str] = field(default_factory=dict)
    files: dict[str, TableFile] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files.values())

    def units_in(self, path: str) -> list[Unit]:
        return [self.units[name] for name, file in self.file_of.items() if file == path]


def unit_to_json(unit: Unit) -> dict[str, Any]:
    failed = {"kind": unit.failed.kind, "reason": unit.failed.reason} if unit.failed else None
    return {
        "model": unit.model, "workload": unit.workload, "key": unit.key, "gpus": dict(unit.gpus), "failed": failed
    }  # fmt: skip


def unit_from_json(document: Mapping[str, Any]) -> Unit:
    failed = document["failed"]
    return Unit(
        model=document["model"],
        workload=document["workload"],
        key=document["key"],
        gpus=document["gpus"],
        failed=Failed(kind=failed["kind"], reason=failed["reason"]) if failed else None,
    )


STATE_FOLDER, STATE_FILE, MANIFEST = "_sweep", "state.parquet", "manifest.json"
PENDING, UNITS = "pending", "units-*.arrow"
_META = "capplan_sweep_state"


def state_content(folder: Path, name: str) -> bytes:
    """Return a file of a sweep's state, from where it lies: in `_sweep/`, else packed."""
    path = folder / STATE_FOLDER / name
    if (folder / STATE_FOLDER / MANIFEST).exists():
        with contextlib.suppress(FileNotFoundError):  # a sweep that ended meanwhile has packed and removed it
            return path.read_bytes()
    packed = _packed(folder)
    if name not in packed:
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return packed[name]


def has_state(folder: Path) -> bool:
    return (folder / STATE_FOLDER / MANIFEST).exists() or MANIFEST in _packed(folder)


def pack_state(folder: Path, *, workload: str) -> None:
    """Pack the state of a complete sweep; its lock stays, an empty file that readers skip."""
    state = folder / STATE_FOLDER
    paths = [state / MANIFEST, *sorted(state.glob(UNITS))]
    content = {path.name: base64.b64encode(path.read_bytes()).decode("ascii") for path in paths}
    target = folder / f"{tables.WORKLOAD}={workload}" / STATE_FILE
    replace_whole(target, tables.parquet_without_rows({_META: json.dumps(content, sort_keys=True)}))
    for path in folder.glob(f"{tables.WORKLOAD}=*/{STATE_FILE}"):
        if path != target:
            path.unlink(missing_ok=True)
    for path in paths:  # the manifest first: from then on the packed state is what counts
        path.unlink(missing_ok=True)


def unpack_state(folder: Path) -> None:
    """Write the packed state of a sweep back into files, where it was packed."""
    state = folder / STATE_FOLDER
    if (state / MANIFEST).exists():
        return
    packed = _packed(folder)
    for name in sorted(packed, key=lambda name: name == MANIFEST):  # the manifest last: it names the others
        replace_whole(state / name, packed[name])


def _packed(folder: Path) -> Mapping[str, bytes]:
    """Return the packed files by name; none where the state is not packed."""
    for path in folder.glob(f"{tables.WORKLOAD}=*/{STATE_FILE}"):
        text = tables.meta_of_parquet(path).get(_META)
        try:
            if text is not None:
                return {Path(name).name: base64.b64decode(content) for name, content in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError):  # damaged: not a file of capplan
            continue
    return {}
