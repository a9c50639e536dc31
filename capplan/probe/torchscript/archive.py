"""Read a TorchScript archive: its parsed sources, objects and constants, without the values of weights."""

import ast
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
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
        texts = {}
        for inner, name in self._members.items():
            if inner.startswith("code/") and inner.endswith(".py"):
                module = inner.removeprefix("code/").removesuffix(".py").replace("/", ".")
                try:
                    texts[module] = self._content(name, LARGEST_SOURCES_BYTES).decode()
                except UnicodeDecodeError as error:
                    raise UsageError(f"{self._path}: {inner} is no UTF-8 (byte {error.start}).") from error
        return ScriptArchive(sources=texts, root=root, constants=tuple(constants))

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


MOST_MARKS = 400_000
"""Most line ends (twice), brackets, commas, dots and equals signs of an archive's sources. Parsing takes about 2 µs and
500 bytes for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFunction:
    """One function or method: parameters in order, the defaults of the last of them, and the statements."""

    name: str
    parameters: tuple[str, ...]
    defaults: tuple[ast.expr, ...]
    body: tuple[ast.stmt, ...]
    annotations: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptClass:
    """One class: kind of base (`Module`, `NamedTuple`, `Enum` or another), names of parameters and other attributes."""

    name: str
    base: str
    parameters: frozenset[str] = frozenset()
    buffers: frozenset[str] = frozenset()
    attributes: tuple[str, ...] = ()
    constants: Mapping[str, ast.expr] = field(default_factory=dict)
    methods: Mapping[str, ScriptFunction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All classes and functions of an archive."""

    classes: Mapping[str, ScriptClass]
    functions: Mapping[str, ScriptFunction]


def parse_sources(sources: Mapping[str, str], *, where: str) -> Sources:
    """Parse an archive's source files."""
    marks = sum(text.count(mark) for text in sources.values() for mark in "\n\n(,=.[")
    if marks > MOST_MARKS:
        raise UsageError(f"{where}: its sources hold more than {MOST_MARKS:,} statements and calls, the most read.")
    classes: dict[str, ScriptClass] = {}
    functions: dict[str, ScriptFunction] = {}
    for module, text in sources.items():
        for statement in _parse(module, text, where).body:
            if isinstance(statement, ast.ClassDef):
                name = f"{module}.{statement.name}"
                classes[name] = _class(name, statement)
            elif isinstance(statement, ast.FunctionDef):
                name = f"{module}.{statement.name}"
                functions[name] = _function(name, statement)
    return Sources(classes=classes, functions=functions)


def _parse(module: str, text: str, where: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"{where}: code/{module.replace('.', '/')}.py, line {error.lineno}: {error.msg}.") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise UsageError(f"{where}: code/{module.replace('.', '/')}.py cannot be parsed ({error}).") from error


def _class(name: str, statement: ast.ClassDef) -> ScriptClass:
    base = statement.bases[0].id if statement.bases and isinstance(statement.bases[0], ast.Name) else ""
    attributes: list[str] = []
    constants: dict[str, ast.expr] = {}
    methods: dict[str, ScriptFunction] = {}
    listed: dict[str, frozenset[str]] = {}
    for member in statement.body:
        if isinstance(member, ast.FunctionDef):
            methods[member.name] = _function(f"{name}.{member.name}", member)
        elif isinstance(member, ast.Assign) and isinstance(member.targets[0], ast.Name):
            items: list[Any] = member.value.elts if isinstance(member.value, ast.List) else []
            listed[member.targets[0].id] = frozenset(
                str(item.value) for item in items if isinstance(item, ast.Constant)
            )
            if base == "Enum":
                constants[member.targets[0].id] = member.value
        elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            attributes.append(member.target.id)
            if member.value is not None:
                constants[member.target.id] = member.value
    return ScriptClass(
        name=name,
        base=base,
        parameters=listed.get("__parameters__", frozenset()),
        buffers=listed.get("__buffers__", frozenset()),
        attributes=tuple(attributes),
        constants=constants,
        methods=methods,
    )


def _function(name: str, statement: ast.FunctionDef) -> ScriptFunction:
    given = statement.args
    return ScriptFunction(
        name=name,
        parameters=tuple(argument.arg for argument in given.args),
        defaults=tuple(given.defaults),
        body=tuple(statement.body),
        annotations=tuple("" if arg.annotation is None else ast.unparse(arg.annotation) for arg in given.args),
    )
