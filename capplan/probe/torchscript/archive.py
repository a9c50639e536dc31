"""Read a TorchScript archive: its source files, its objects and its constants, without the values of weights.

`torch.jit.load` runs code that the archive holds, reads and writes files where that code asks for it, and unpacks
all weights. Here the sources are taken as text, and objects by an unpickler that knows no class but records of ours.
"""

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capplan.budget import Budget, FileLimits
from capplan.errors import UsageError
from capplan.files import open_archive
from capplan.probe.torchscript.records import StorageRecord, Unpickler

LARGEST_SOURCES_BYTES = 8 * 2**20
"""Most bytes of an archive's source texts; those of a traced transformer of 100 layers take about 1 MB. [bytes]"""

LARGEST_PICKLE_BYTES = 8 * 2**20
"""Most bytes of the description of an archive's objects; a network of 10,000 layers has about 3 MB. [bytes]"""

LARGEST_OBJECTS_BYTES = 32 * 2**20
"""Most bytes of an archive's objects and small constants, weights aside. [bytes]"""


_OBJECTS = FileLimits(steps=20_000_000)
"""Opcodes are quick: two million take less than two seconds."""

LARGEST_VALUE_BYTES = 64 * 2**10
"""Values of constants up to this size are kept, because they may decide shapes. [bytes]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptArchive:
    """What an archive holds: `sources` by module name (`__torch__.net`), the root object, constants in order."""

    sources: Mapping[str, str]
    root: Any
    constants: tuple[Any, ...]


def is_torchscript(path: Path) -> bool:
    """Return True if a file is a TorchScript archive: an archive with code and objects, unlike one of torch.save."""
    if not zipfile.is_zipfile(path):
        return False
    try:
        with open_archive(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError):
        return False
    return any(name.partition("/")[2].startswith("code/") for name in names)


def read_archive(path: Path) -> ScriptArchive:
    """Read an archive.

    Raises:
        UsageError: it is damaged, exceeds the limits, or is of a kind that is not read; the message names the part.
    """
    try:
        with open_archive(path) as archive:
            return _ArchiveReader(path, archive).read()
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError) as error:
        raise UsageError(f"{path} is damaged or no TorchScript archive ({error}).") from error


class _ArchiveReader:
    """Reads one archive, counting bytes against the limits."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self._members = {name.partition("/")[2]: name for name in archive.namelist()}
        self._bytes = {LARGEST_SOURCES_BYTES: 0, LARGEST_OBJECTS_BYTES: 0}

    def read(self) -> ScriptArchive:
        if "data.pkl" not in self._members:
            raise UsageError(
                f"{self._path} is TorchScript of a form that is not read (its data.pkl is missing): load it with a "
                "current torch and save it again with torch.jit.save."
            )
        root = self._objects("data.pkl", "data/")
        constants = self._objects("constants.pkl", "constants/") if "constants.pkl" in self._members else ()
        if not isinstance(constants, list | tuple):
            raise UsageError(f"{self._path}: its constants.pkl holds no list of constants.")
        return ScriptArchive(sources=self._sources(), root=root, constants=tuple(constants))

    def _sources(self) -> dict[str, str]:
        found = {}
        for inner, name in self._members.items():
            if inner.startswith("code/") and inner.endswith(".py"):
                module = inner.removeprefix("code/").removesuffix(".py").replace("/", ".")
                try:
                    found[module] = self._content(name, LARGEST_SOURCES_BYTES).decode()
                except UnicodeDecodeError as error:
                    raise UsageError(f"{self._path}: {inner} is no UTF-8 (byte {error.start}).") from error
        return found

    def _objects(self, inner: str, folder: str) -> Any:
        if self._archive.getinfo(self._members[inner]).file_size > LARGEST_PICKLE_BYTES:
            raise UsageError(
                f"{self._path}: {inner} is longer than {LARGEST_PICKLE_BYTES // 2**20} MiB, the most that is read."
            )
        content = self._content(self._members[inner], LARGEST_OBJECTS_BYTES)
        where = f"{self._path}: {inner}"
        return Unpickler(
            content, where=where, storage=lambda each: self._storage(folder, each), budget=Budget(where, _OBJECTS)
        ).load()

    def _storage(self, folder: str, found: StorageRecord) -> bytes | None:
        """Check that a storage is as long as its description, and return its bytes where they are few."""
        name = self._members.get(folder + found.key)
        if name is None:
            raise UsageError(f"{self._path}: {folder}{found.key} is missing.")
        size_bytes = self._archive.getinfo(name).file_size
        if size_bytes < found.size_bytes:
            raise UsageError(
                f"{self._path}: {folder}{found.key} holds {size_bytes} bytes and is said to hold {found.size_bytes}."
            )
        is_kept = size_bytes <= LARGEST_VALUE_BYTES and folder == "constants/"
        return self._content(name, LARGEST_OBJECTS_BYTES) if is_kept else None

    def _content(self, name: str, most_bytes: int) -> bytes:
        """Read one file within the limit of all of its kind, whatever size the archive states for it."""
        with self._archive.open(name) as stream:
            content = stream.read(most_bytes - self._bytes[most_bytes] + 1)
        self._bytes[most_bytes] += len(content)
        if self._bytes[most_bytes] > most_bytes:
            raise UsageError(
                f"{self._path}: with {name} its sources or objects take more than {most_bytes // 2**20} MiB, the most "
                "that is read."
            )
        return content
