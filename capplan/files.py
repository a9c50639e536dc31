"""Read files that somebody named, and write answers whole or not at all; the user's folders.

An answer replaces an older one of the same kind alone.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
import sysconfig
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from platformdirs import user_cache_path, user_config_path, user_data_path

from capplan import strict_json
from capplan.errors import UsageError
from capplan.strict_json import LARGEST_TEXT_BYTES, JsonError

if TYPE_CHECKING:
    import zipfile


_COMPARED_BYTES = 64 * 2**20
"""An existing file larger than this is not compared; replacing it takes `--force`. [bytes]"""

_DESCRIPTOR_FOLDERS = ("/dev/fd",)
_MAX_LINKS = 40

LARGEST_READ_BYTES = 512 * 2**20
"""Most bytes of a file that are read at once; each format's own limit lies below. [bytes]"""

LARGEST_CONTENTS_BYTES = 8 * 2**20
"""Longest table of contents, of about 100,000 files; the largest known models have about ten thousand. [bytes]"""

_TABLE_SIZE = 5
"""Where the record at an archive's end holds the length of the table, as `zipfile` reads it."""

_PARTIAL = (".capplan-", ".partial")
"""How the name of a file that is being written begins and ends."""
_LONGEST_WRITE_S = 3600.0
"""Age from which an unfinished file is one that nobody writes to any more, whatever its lock says. [s]"""
_LOCKED_WITHIN_S = 1.0
"""Age from which a file that is being written is locked. [s]"""

Stamp: TypeAlias = tuple[int, int, int] | None
"""What changes when a file does: its time of change [ns], size [bytes] and number; None where there is no file."""


def stamp(path: Path) -> Stamp:
    """Return a value that changes when a file changes."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_file(path: Path, *, at_most: int = LARGEST_READ_BYTES) -> bytes:
    """Read a whole file that somebody named, without waiting for one that never ends.

    Args:
        path: the file.
        at_most: bytes after which reading stops; one more is read, so that the reader can see that it is too large.

    Raises:
        OSError: it cannot be read, or it is a pipe or a socket; `strerror` is a sentence's end.
    """
    with open_file(path) as stream:
        return stream.read(at_most + 1)


def open_file(path: Path) -> BufferedReader:
    """Open a file that somebody named for reading; a descriptor such as `/dev/stdin` may be a pipe, a name may not.

    Raises:
        OSError: it cannot be opened, or it is a pipe or a socket, whose other end may never write.
    """
    waits_not = getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | waits_not | getattr(os, "O_CLOEXEC", 0))
    except PermissionError:
        if path.is_dir():  # Windows opens no folder
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path)) from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and not _is_descriptor(_follow(path)):
            raise OSError(errno.EINVAL, "it is a pipe and not a file", str(path))
        if waits_not:
            os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def refuse_pipe(path: Path) -> None:
    """Refuse a name of a pipe or a socket before a library opens it and waits.

    Raises:
        UsageError: it is one.
    """
    try:
        open_file(path).close()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error


def open_archive(path: Path) -> "zipfile.ZipFile":
    """Open an archive for reading.

    Raises:
        UsageError: it lists too many files, or is a pipe.
        OSError: it cannot be read.
        zipfile.BadZipFile: it is not an archive.
    """
    import zipfile  # noqa: PLC0415 - commands that read no archive do not load it

    refuse_pipe(path)
    end_record: Any = getattr(zipfile, "_EndRecData", None)  # the record that ZipFile reads itself, before the table
    if end_record is not None:
        with path.open("rb") as stream:
            record = end_record(stream)
        if record and record[_TABLE_SIZE] > LARGEST_CONTENTS_BYTES:
            raise UsageError(
                f"{path} lists more files than are read: their table takes {record[_TABLE_SIZE]:,} bytes, and at most "
                f"{LARGEST_CONTENTS_BYTES:,} are read."
            )
    return zipfile.ZipFile(path)


def write_file(path: Path, content: bytes, *, inputs: Iterable[Path] = (), force: bool = False) -> None:
    """Write an answer to a file, as `write_files` does several."""
    write_files({path: content}, inputs=inputs, force=force)


def write_files(contents: Mapping[Path, bytes], *, inputs: Iterable[Path] = (), force: bool = False) -> None:
    """Write answers to files, so that each is seen whole or not at all, and none where one of them cannot be written.

    A link is followed and its target replaced. A device, a pipe or an open descriptor such as `/dev/stdout` is
    written in place. An existing file keeps its permissions.

    Args:
        contents: the whole answers, by where they go.
        inputs: files that the answers were made from; none of them is ever overwritten.
        force: replace an existing file whatever it holds.

    Raises:
        UsageError: a file is an input, holds something else than an older answer of the same kind, or cannot be
            written.
    """
    sources, steps = tuple(inputs), list[tuple[Path, Callable[[], object]]]()
    with contextlib.ExitStack() as staged:
        for path, content in contents.items():
            refuse_input(path, sources)
            with _worded(path):
                target = _follow(path)
                if _is_in_place(target):
                    steps.append((path, partial(_write_in_place, target, content)))
                    continue
                if not force:
                    _refuse_other(path, target, content)
                steps.append((path, staged.enter_context(_staged(target, content))))
        for path, commit in steps:
            with _worded(path):
                commit()


@contextlib.contextmanager
def _worded(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}.") from error


def refuse_input(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that is one of the files read; call it before anything is computed, too.

    Raises:
        UsageError: it is.
    """
    for source in inputs:
        if _is_same_file(path, source):
            raise UsageError(f"{path} is an input of this command and is kept; write to another file.")


def replace_whole(path: Path, content: bytes) -> None:
    """Put a regular file in place in one step, through a temporary neighbour that is flushed to disk.

    Raises:
        OSError: the folder is missing, full or read-only; what the file held before is kept.
    """
    with _staged(path, content) as commit:
        commit()


@contextlib.contextmanager
def _staged(path: Path, content: bytes) -> Iterator[Callable[[], object]]:
    """Write a neighbour of a file, locked while its writer lives, and return what puts it in the file's place."""
    _remove_litter(path.parent)
    temporary = path.parent / f"{_PARTIAL[0]}{secrets.token_hex(8)}{_PARTIAL[1]}"
    # the system itself applies the umask here: to read it, os.umask must change it for all threads of the process
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _lock(descriptor)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            if os.name == "nt":  # Windows renames no file that is open
                stream.close()
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            yield partial(temporary.replace, path)
    finally:
        temporary.unlink(missing_ok=True)


def keep_whole(path: Path, content: bytes) -> None:
    """Put a file in the place of an older one in one step, in a folder that is made where it lacks."""
    with _worded(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content)


@cache
def _remove_litter(folder: Path) -> None:
    """Remove, once in a process, what earlier ones that were killed left unfinished in a folder."""
    with contextlib.suppress(OSError):
        for path in folder.glob("*".join(_PARTIAL)):
            age_s = time.time() - path.stat().st_mtime
            if age_s > _LONGEST_WRITE_S or (age_s > _LOCKED_WITHIN_S and _is_left(path)):
                path.unlink()


def _is_left(path: Path) -> bool:
    """Return True if no process writes to an unfinished file any more, as far as locks say it."""
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file until it is closed; False if another process has locked it, and where files cannot be locked."""
    try:
        import fcntl  # noqa: PLC0415 - Windows lacks it

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


@contextlib.contextmanager
def working_folder(name: str) -> Iterator[Path]:
    """Make a folder for the files of one task, and remove it, and those that killed processes left of the same name.

    A process holds a lock beside its folder while it lives, whatever its number is and on whichever system.
    """
    import shutil  # noqa: PLC0415 - commands that need no such folder do not load them
    import tempfile  # noqa: PLC0415

    from filelock import FileLock, Timeout  # noqa: PLC0415

    place = Path(tempfile.gettempdir())
    for left in place.glob(f"capplan-{name}-*.lock"):
        with contextlib.suppress(Timeout, OSError), FileLock(left, timeout=0):
            shutil.rmtree(left.with_suffix(""), ignore_errors=True)
            left.unlink()
    folder = place / f"capplan-{name}-{secrets.token_hex(8)}"
    lock = FileLock(folder.with_name(f"{folder.name}.lock"), timeout=0)
    with lock:
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # Windows keeps a file that is open
                Path(lock.lock_file).unlink()


def named_path(words: str | Path) -> Path:
    """Return the path that somebody wrote, whether or not it names something.

    Raises:
        ValueError: No file can have this name: it is too long, or holds a NUL. The message says what is expected.
    """
    path = Path(words)
    try:
        path.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError("expected the path of a file, with names of at most 255 bytes") from error
    except ValueError as error:
        raise ValueError("expected the path of a file, without a NUL") from error
    return path


def exists(words: str | Path) -> bool:
    """Return True if words name something on disk; words too long or with a NUL, as arguments may be, name nothing."""
    try:
        return Path(words).exists()
    except (OSError, ValueError):
        return False


def is_file(words: str | Path) -> bool:
    """Return True if words name a file; words too long or with a NUL, as arguments may be, name none."""
    return exists(words) and Path(words).is_file()


def is_dir(words: str | Path) -> bool:
    """Return True if words name a folder; words too long or with a NUL, as arguments may be, name none."""
    return exists(words) and Path(words).is_dir()


def _follow(path: Path) -> Path:
    """Follow links to the file that they mean, but stop at a link that stands for an open descriptor."""
    for _ in range(_MAX_LINKS):
        if not path.is_symlink() or _is_descriptor(path):
            return path
        path = path.parent / path.readlink()
    raise OSError(f"more than {_MAX_LINKS} links")


def _is_descriptor(path: Path) -> bool:
    folder = os.path.realpath(path.parent)
    return folder in _DESCRIPTOR_FOLDERS or (folder.startswith("/proc/") and folder.endswith("/fd"))


def _is_in_place(path: Path) -> bool:
    if _is_descriptor(path):
        return True
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write_in_place(path: Path, content: bytes) -> None:
    """Write to a device, a pipe or a descriptor; appending, so that what a redirected stdout holds is kept."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def _refuse_other(shown: Path, path: Path, content: bytes) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return
    if path.is_dir():
        raise UsageError(f"cannot write {shown}: it is a folder.")
    if size == 0:
        return
    older = path.read_bytes() if size <= _COMPARED_BYTES else None
    if older is not None and (older == content or is_same_kind(read_signature(older), read_signature(content))):
        return
    raise UsageError(
        f"{shown} exists and holds something else than an older answer of this kind; add ⟨force⟩ to replace it, or "
        "write to another file."
    )


def _is_same_file(one: Path, other: Path) -> bool:
    """Compare regular files; a device may well be both read and written."""
    try:
        first, second = one.stat(), other.stat()
    except OSError:
        return False
    return stat.S_ISREG(first.st_mode) and (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


_LARGEST_BYTES = 256 * 2**20
_LONGER_TEXTS = ("table", "<svg", "<!doctype html")
_TOP_KEY = re.compile(r"^([A-Za-z_][\w-]*):", re.MULTILINE)
_TEXT_RULE = re.compile(r"-{2,}(?: +-{1,})*")
_MARKDOWN_RULE = re.compile(r"\|(?: ?:?-{3,}:? ?\|)+")
_PICTURE = re.compile(r"<(?:svg|!doctype html)\b", re.IGNORECASE)
_CLASSES = re.compile(r"\bclass=[\"']([^\"']*)[\"']")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The kind of an answer: its form, the subject that it must share, and its keys or headings."""

    form: str
    subject: str = ""
    parts: frozenset[str] = frozenset()


def is_same_kind(older: Signature, newer: Signature) -> bool:
    """Return True if two answers have the same form and subject, and parts in common.

    Keys and columns come and go with options, so one set must hold the other. Of the tables and marks of a longer
    text, one in common is enough.
    """
    if (older.form, older.subject) != (newer.form, newer.subject) or not older.parts or not newer.parts:
        return False
    if older.form in _LONGER_TEXTS:
        return bool(older.parts & newer.parts)
    return older.parts <= newer.parts or newer.parts <= older.parts


def read_signature(content: bytes) -> Signature:
    """Recognise an answer by its content, compressed or not."""
    plain = _decompressed(content) if content[:2] == b"\x1f\x8b" else content
    try:
        text = plain.decode()
    except UnicodeDecodeError:
        return Signature(form="binary")
    for read in (_json, _picture, _tables, _comma_separated, _yaml):
        if (found := read(text)) is not None:
            return found
    return Signature(form="text")


def _decompressed(content: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(content, _LARGEST_BYTES)
    except zlib.error:
        return b"\xff"


def _json(text: str) -> Signature | None:
    if text[:1] not in ("{", "["):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return None
    return Signature(form="json", subject=_json_subject(first), parts=frozenset(first))


def _json_subject(document: Mapping[str, Any]) -> str:
    """Return the model that a trace is of, without its options; other documents are not bound to their model."""
    if document.get("format") != "capplan-trace":
        return ""
    return str(document.get("target")).partition(" --")[0]


def _picture(text: str) -> Signature | None:
    """Recognise a chart by the classes of its marks."""
    if not (found := _PICTURE.match(text.lstrip()[:20])):
        return None
    classes = [name for names in _CLASSES.findall(text) for name in names.split()]
    return Signature(form=found[0].lower(), parts=frozenset(classes))


def _tables(text: str) -> Signature | None:
    lines = text.splitlines()
    headings = [
        " ".join(above.split())
        for above, rule in pairwise(lines)
        if _TEXT_RULE.fullmatch(rule) or _MARKDOWN_RULE.fullmatch(rule)
    ]
    return Signature(form="table", parts=frozenset(headings)) if headings else None


def _comma_separated(text: str) -> Signature | None:
    names = text.partition("\n")[0].split(",")
    if len(names) < 2 or not all(names):
        return None
    return Signature(form="csv", parts=frozenset(names))


def _yaml(text: str) -> Signature | None:
    keys = _TOP_KEY.findall(text)
    return Signature(form="yaml", parts=frozenset(keys)) if keys else None


_NAME = "capplan"

PACKAGE = Path(__file__).resolve().parent
"""Where capplan's own code lies."""


def own_files(*parts: str) -> Iterator[Path]:
    """Yield the files of code and data in some of capplan's packages, in order."""
    for part in parts:
        found = (f"{folder}/{name}" for folder, _, names in os.walk(PACKAGE / part) for name in names)
        yield from map(Path, sorted(path for path in found if path.endswith((".py", ".json"))))


@cache
def code_stamp(*parts: str) -> str:
    """Return a digest that changes when a file of code or data in some of capplan's packages does."""
    stamps = repr([(path.relative_to(PACKAGE).as_posix(), stamp(path)) for path in own_files(*parts)])
    return hashlib.blake2b(stamps.encode(), digest_size=8).hexdigest()


def cache_folder() -> Path:
    """Return the folder of what can be made again: `XDG_CACHE_HOME`/capplan, else where the system keeps caches."""
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home) / _NAME if home else user_cache_path(_NAME, appauthor=False)


def config_folder() -> Path:
    """Return the folder of the user's own files: `XDG_CONFIG_HOME`/capplan, else where the system keeps settings."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return Path(home) / _NAME if home else user_config_path(_NAME, appauthor=False)


def data_folder() -> Path:
    """Return the folder of what was fetched: `XDG_DATA_HOME`/capplan, else where the system keeps a program's data."""
    home = os.environ.get("XDG_DATA_HOME")
    return Path(home) / _NAME if home else user_data_path(_NAME, appauthor=False)


def is_installed(path: Path) -> bool:
    """Return True for a file of Python, of an installed distribution or of capplan; False for the user's.

    Args:
        path: resolved. Distributions lie in the interpreter's own folders, or in the site-packages of another
            environment, which a .pth file can put on Python's path.
    """
    return not _PACKAGE_FOLDERS.isdisjoint(path.parts) or any(map(path.is_relative_to, _installed()))


_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})


@cache
def _installed() -> tuple[Path, ...]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    return (PACKAGE, *{Path(sysconfig.get_path(kind)).resolve() for kind in kinds})


def read_json(path: str) -> Any:
    """Read a JSON file within the limits of `capplan.strict_json`.

    Raises:
        UsageError: it cannot be read, or is not JSON.
    """
    try:
        return strict_json.read_json(read_file(Path(path), at_most=LARGEST_TEXT_BYTES), allow_infinite=True)
    except (OSError, ValueError) as error:
        if isinstance(error, JsonError):
            raise UsageError(f"{path} {error}.") from error
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
