"""Keep traces from one run to the next, until a file changes that the model opened while it was built."""

import contextlib
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from capplan.core.json_fields import as_list, as_mapping, check_text, check_texts, member
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import SCHEMA_VERSION, Trace
from capplan.core.workload import Configuration
from capplan.errors import TraceFileError, UsageError
from capplan.files import cache_folder, code_stamp, exists, is_file, is_installed, open_file, read_file, replace_whole
from capplan.probe.diffusers_index import PREFIX, published_component
from capplan.strict_json import LARGEST_TEXT_BYTES, read_json

LIBRARIES = ("torch", "torchvision", "timm", "transformers", "diffusers", "onnx")
"""Distributions whose versions a trace depends on."""

DAMAGED = "(damaged)"
"""What stands for the model of an entry that cannot be read."""

_SUFFIX = ".trace"
_LONGEST_HEAD_BYTES = 2**20
_MOST_COMPARED_BYTES = 256 * 2**20
_OWN_CODE = ("probe", "core")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceKey:
    """What is asked of a model: the words that name it, everything said of its arguments and inputs, what to record."""

    words: str
    options: tuple[str, ...] = ()
    configurations: tuple[Configuration, ...] = (Configuration(),)
    exact_batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTrace:
    """One kept trace: whose it is, how large, when it was made (seconds since 1970)."""

    path: Path
    words: str
    options: tuple[str, ...]
    configurations: tuple[str, ...]
    size_bytes: int
    made_s: float

    @property
    def made(self) -> str:
        """Return the day and minute when it was made, in UTC."""
        return datetime.fromtimestamp(self.made_s, UTC).strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCache:
    """A folder of kept traces.

    `names_files` is False where words never name a file, as in a service: a file of the current folder that has the
    name of a model, or of a file that was handed over, would give its trace another key in other folders.
    """

    folder: Path
    names_files: bool = True

    @property
    def replays(self) -> Path:
        """Return the folder of what plans of these traces replayed."""
        return self.folder / "replays"

    def find(self, question: TraceKey) -> Trace | None:
        """Return the trace that answers a question; None where there is none, or none that still holds."""
        path = self._path(question)
        try:
            head, _, content = read_file(path, at_most=_LONGEST_HEAD_BYTES + LARGEST_TEXT_BYTES).partition(b"\n")
        except OSError:
            return None
        try:
            if not _parse_head(head).still_holds():
                return None
            return load_trace(content, where=str(path))
        except (_DamagedError, TraceFileError):
            _remove(path)
            return None

    def holds(self, question: TraceKey) -> bool:
        """Return True if a trace is kept that answers a question and still holds; the trace itself is not read."""
        try:
            with open_file(self._path(question)) as file:
                return _parse_head(file.readline(_LONGEST_HEAD_BYTES)).still_holds()
        except (OSError, _DamagedError):
            return False

    def keep(self, question: TraceKey, trace: Trace, *, files: Iterable[Path]) -> None:
        """Keep the trace that answers a question, with the user's files that it depends on.

        A folder that cannot be written keeps nothing, because a cache is a convenience; nor is a trace kept that
        depends on more than can be compared at every use.
        """
        known = {path.resolve() for path in files}
        if sum(map(_size, known)) > _MOST_COMPARED_BYTES:
            return
        head = {
            "words": question.words,
            "options": list(question.options),
            "configurations": [str(configuration) for configuration in question.configurations],
            "files": {str(path): _hash(path) for path in sorted(known)},
        }
        content = json.dumps(head).encode() + b"\n" + dump_trace(trace, compress=True)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_whole(self._path(question), content)

    def entries(self) -> Iterator[CachedTrace]:
        """List what is kept, oldest first; an entry that cannot be read is listed as damaged."""
        try:
            # not `exists` and `glob`, which pass over errors of the system from Python 3.13 or 3.14 on
            paths = [path for path in self.folder.iterdir() if path.name.endswith(_SUFFIX)]
        except FileNotFoundError:
            return
        except NotADirectoryError as error:
            if not exists(self.folder):  # a file stands above it
                return
            raise UsageError(f"the cache {self.folder} is not a folder: set CAPPLAN_CACHE to one.") from error
        except PermissionError as error:
            raise UsageError(f"the cache {self.folder} belongs to another user: set CAPPLAN_CACHE.") from error
        except OSError as error:
            raise UsageError(f"the cache {self.folder} cannot be read: {error.strerror or error}.") from error
        entries = [entry for path in paths if (entry := _entry(path)) is not None]
        yield from sorted(entries, key=lambda entry: (entry.made_s, entry.path))

    def clear(self, *, words: str | None = None) -> int:
        """Forget all traces, damaged ones included, or those of one model; returns how many."""
        gone = [entry.path for entry in self.entries() if words in (None, entry.words)]
        for path in gone:
            _remove(path)
        if words is None:
            for path in self.folder.glob(".*.partial"):  # of runs that were killed while they wrote
                _remove(path)
            shutil.rmtree(self.replays, ignore_errors=True)
        return len(gone)

    def _path(self, question: TraceKey) -> Path:
        return self.folder / f"{_key(question, _absolute if self.names_files else str)}{_SUFFIX}"


class _DamagedError(Exception):
    """An entry whose first line does not say what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The first line of an entry: what was asked, and the digests of the files that the answer depends on."""

    words: str
    options: tuple[str, ...]
    configurations: tuple[str, ...]
    files: Mapping[str, str | None]

    def still_holds(self) -> bool:
        """Return True if no file has changed and their sizes together stay within what is compared."""
        if sum(_size(Path(name)) for name in self.files) > _MOST_COMPARED_BYTES:
            return False
        return all(_hash(Path(name)) == digest for name, digest in self.files.items())


def _parse_head(line: bytes) -> _Head:
    try:
        head = as_mapping(read_json(line), "head")
        files = as_mapping(member(head, "files", ""), "files")
        check_text(member(head, "words", ""), "words")
        for name in ("options", "configurations"):
            check_texts(as_list(member(head, name, ""), name), name)
        check_texts((digest for digest in files.values() if digest is not None), "files")
    except ValueError as error:
        raise _DamagedError(str(error)) from error
    return _Head(
        words=head["words"],
        options=tuple(head["options"]),
        configurations=tuple(head["configurations"]),
        files=files,
    )


def _entry(path: Path) -> CachedTrace | None:
    """Describe an entry; None if it no longer exists, or is not a file of this cache."""
    try:
        stat = path.lstat()
        if path.is_dir():
            return None
        with open_file(path) as file:
            head = _parse_head(file.readline(_LONGEST_HEAD_BYTES))
    except (_DamagedError, OSError):
        if not path.is_symlink() and not path.exists():
            return None
        head = _Head(words=DAMAGED, options=(), configurations=(), files={})
    return CachedTrace(
        path=path,
        words=head.words,
        options=head.options,
        configurations=head.configurations,
        size_bytes=stat.st_size,
        made_s=stat.st_mtime,
    )


def _remove(path: Path) -> None:
    """Remove an entry; one that another process has removed, or that may not be removed, is left."""
    with contextlib.suppress(OSError):
        path.unlink()


def _size(path: Path) -> int:
    """Return the size of a file, 0 where there is none. [bytes]"""
    try:
        return path.stat().st_size
    except (OSError, ValueError):  # a name with a null byte names no file
        return 0


def default_cache() -> TraceCache | None:
    """Return the user's cache: `CAPPLAN_CACHE`, else traces in the cache folder; None where it is "off"."""
    chosen = os.environ.get("CAPPLAN_CACHE")
    if chosen == "off":
        return None
    if chosen:
        return TraceCache(folder=Path(chosen))
    return TraceCache(folder=cache_folder() / "traces")


def files_behind(question: TraceKey) -> tuple[Path, ...]:
    """Return the user's files that a model was made from: its config, and imports that are not installed."""
    # The files of loaded modules that are the user's, or of the package that the question names.
    named = question.words.partition(":")[0].partition(".")[0]
    files = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")  # lazy modules load at any other question
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        path = _resolved(file)
        if path.is_file() and (not is_installed(path) or name.partition(".")[0] == named):
            files.append(path)
    return tuple(dict.fromkeys([*files_named(question.words), *files]))


@cache
def _resolved(file: str) -> Path:
    """Return a path without links, once in a process: the files of thousands of modules are asked for three times."""
    return Path(os.path.realpath(file))


def files_named(words: str) -> list[Path]:
    """Return the file that a model's words name, or the config.json of the folder that they name."""
    path = Path(words.removeprefix("hf:"))
    return [candidate for candidate in (path, path / "config.json") if is_file(candidate)]


def _key(question: TraceKey, named: Callable[[str], str]) -> str:
    """Hash all that a trace depends on but the user's files; `named` writes words that may name one."""
    asked = {
        "words": named(question.words),
        "options": [named(option) for option in question.options],
        "configurations": [str(configuration) for configuration in question.configurations],
        "exact_batch": question.exact_batch,
        "schema": SCHEMA_VERSION,
        "python": sys.version,
        "libraries": library_versions(),
        "capplan": code_stamp(*_OWN_CODE),
        "path": os.environ.get("PYTHONPATH", ""),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


_LIBRARY_PREFIXES = ("torchvision", "timm", "hf", "diffusers")


def _absolute(words: str) -> str:
    """Format words that name a file, or a module found from here, by the folder that they are said in."""
    if words.startswith(PREFIX) and published_component(words.removeprefix(PREFIX)):
        return words
    if (
        ".py" in words
        or "/" in words
        or (":" in words and "=" not in (prefix := words.partition(":")[0]) and prefix not in _LIBRARY_PREFIXES)
    ):
        return f"{Path.cwd()}:{words}"
    return f"{Path.cwd()}:{words}" if exists(words.removeprefix("hf:")) else words


@cache
def library_versions() -> dict[str, str | None]:
    """Return the versions of the libraries that a trace depends on; None for one that is not installed."""
    versions: dict[str, str | None] = dict.fromkeys(LIBRARIES)
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _hash(path: Path) -> str | None:
    """Return the digest of a regular file; None where there is none, or a pipe or device in its place."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except OSError:
        return None


_NOT_THE_USERS = ("/proc", "/sys", "/dev")
_OUTSIDE = ("subprocess.Popen", "os.system", "os.posix_spawn", "socket.connect", "urllib.Request")


class OpenedFiles:
    """The files that were opened for reading, and whether anything else was asked that cannot be compared later."""

    def __init__(self) -> None:
        self.paths: set[Path] = set()
        self.asked_outside = False

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _OUTSIDE:
            self.asked_outside = True
        elif event == "open" and (path := _read_path(*arguments[:3])) is not None:
            self.paths.add(path)

    def of_the_user(self) -> list[Path]:
        """Return the files that are neither installed nor capplan's own, whether they exist or were only looked for."""
        resolved = {_resolved(path) for path in map(str, self.paths) if path not in sys.path}
        return sorted(filter(_is_of_the_user, resolved))


def _read_path(path: Any, mode: Any, flags: Any) -> Path | None:
    """Return the path of an opening that reads; None for a descriptor and for what is only written."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    if isinstance(mode, str) and set(mode) & set("wax"):
        return None
    if mode is None and isinstance(flags, int) and flags & (os.O_WRONLY | os.O_CREAT):
        return None
    return Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - links are followed later, not in a hook


@contextmanager
def watched(opened: OpenedFiles) -> Iterator[None]:
    """Record the files that are opened inside the block."""
    listeners = _listeners()
    listeners.append(opened)
    try:
        yield
    finally:
        listeners.remove(opened)


@cache
def _listeners() -> list[OpenedFiles]:
    """Install the hook, once for the process, and return the list that it fills."""
    listeners: list[OpenedFiles] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        for listener in tuple(listeners):
            listener.note(event, arguments)

    sys.addaudithook(hook)
    return listeners


def _is_of_the_user(path: Path) -> bool:
    is_from_machine = any(map(path.is_relative_to, _NOT_THE_USERS))
    return not (path.suffix == ".pyc" or "__path_hook__" in path.name or is_from_machine or is_installed(path))
