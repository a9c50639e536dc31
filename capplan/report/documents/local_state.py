"""What capplan keeps on this machine as typed documents: traces of earlier runs, and configured defaults."""

from typing import Annotated

import msgspec
from msgspec import Meta


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
