"""What a results folder holds: the units of work that are finished, and the manifest. Values only; `store` writes them.

A unit is one model under one workload. It is finished for a set of GPUs, each known by the digest of its figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capplan.core.sweep.overview import Failed

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
        """Return the model and workload."""
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
        return sum(each.rows for each in self.files.values())

    def units_in(self, path: str) -> list[Unit]:
        """Return the units whose rows lie in a file."""
        return [self.units[name] for name, file in self.file_of.items() if file == path]


def unit_to_json(unit: Unit) -> dict[str, Any]:
    """Return a unit as plain values."""
    failed = {"kind": unit.failed.kind, "reason": unit.failed.reason} if unit.failed else None
    return {
        "model": unit.model, "workload": unit.workload, "key": unit.key, "gpus": dict(unit.gpus), "failed": failed
    }  # fmt: skip


def unit_from_json(document: Mapping[str, Any]) -> Unit:
    """Return the unit that plain values describe."""
    failed = document["failed"]
    return Unit(
        model=document["model"],
        workload=document["workload"],
        key=document["key"],
        gpus=document["gpus"],
        failed=Failed(kind=failed["kind"], reason=failed["reason"]) if failed else None,
    )
