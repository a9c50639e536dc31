"""What this machine holds as typed documents: its GPUs, the traces of earlier runs, and configured defaults."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.gpus.installed import InstalledGpu, differences
from capplan.core.gpus.spec import GpuSpec
from capplan.report.documents.codec import SCHEMA_VERSION, SignedDocument
from capplan.version import __version__

Match: TypeAlias = tuple[InstalledGpu, GpuSpec | None]
"""A device with its spec; None where the database has none."""


class InstalledGpuDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's facts of one device; a fact that the driver does not report is absent."""

    index: int
    name: str
    told_by: Annotated[str, Meta(description="NVML or torch")]
    pci_id: str | UnsetType = UNSET
    total_bytes: Annotated[int, Meta(description="memory as torch reports it")] | UnsetType = UNSET
    driver_total_bytes: Annotated[int, Meta(description="memory as nvidia-smi reports it")] | UnsetType = UNSET
    unit_count: int | UnsetType = UNSET
    power_limit_w: float | UnsetType = UNSET
    max_clock_hz: float | UnsetType = UNSET
    spec: Annotated[str | None, Meta(description="id in the GPU database; null where it has no such GPU")]
    differences: Annotated[
        dict[str, tuple[str, str]], Meta(description="figures that differ from the spec: found, specified")
    ]


class InstalledGpusDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan gpus detect --json` writes, in base units."""

    gpus: tuple[InstalledGpuDocument, ...]


def installed_document(matches: Sequence[Match]) -> InstalledGpusDocument:
    """Return the GPUs of this machine as a document.

    Args:
        matches: Each device with its spec, in the driver's order.
    """
    return InstalledGpusDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        gpus=tuple(_gpu(device, spec) for device, spec in matches),
    )


def _gpu(device: InstalledGpu, spec: GpuSpec | None) -> InstalledGpuDocument:
    return InstalledGpuDocument(
        index=device.index,
        name=device.name,
        told_by=device.told_by,
        pci_id=UNSET if device.pci_id is None else device.pci_id,
        total_bytes=UNSET if device.total_bytes is None else device.total_bytes,
        driver_total_bytes=UNSET if device.driver_total_bytes is None else device.driver_total_bytes,
        unit_count=UNSET if device.unit_count is None else device.unit_count,
        power_limit_w=UNSET if device.power_limit_w is None else device.power_limit_w,
        max_clock_hz=UNSET if device.max_clock_hz is None else device.max_clock_hz,
        spec=None if spec is None else spec.id,
        differences={}
        if spec is None
        else {each.key: (each.found, each.specified) for each in differences(device, spec)},
    )


class KeptTraceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A trace of an earlier run."""

    model: str
    options: tuple[str, ...]
    recordings: tuple[str, ...]
    size_bytes: int
    made: Annotated[str, Meta(description="day and minute, UTC")]


class CacheDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan cache --json` writes, the oldest trace first."""

    folder: str
    traces: tuple[KeptTraceDocument, ...]


class SettingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The configured default of an option of a command, and the file that it comes from."""

    command: str
    option: str
    value: str
    file: str


class SettingsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan config --json` writes."""

    settings: tuple[SettingDocument, ...]
