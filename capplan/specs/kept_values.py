"""Keep what many files of specs make together, so that a command reads one file in place of hundreds.

The files stay the truth: a value is kept by the stamps of the files and of the code that reads them.
`CAPPLAN_CACHE=off` keeps nothing.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from capplan.files import cache_folder, code_stamp, replace_whole, stamp

_Value = TypeVar("_Value")
_READERS = ("specs", "core")
"""Packages whose code decides what the files make."""
_MOST_KEPT = 8
"""Values of one name that are kept, as those of several checkouts and of environment variables that name files."""


@lru_cache(maxsize=_MOST_KEPT)
def _decoded(path: Path, kind: Any) -> Any:
    """Return what a file holds, once in a process: its name changes with what it was made from."""
    return msgspec.msgpack.decode(path.read_bytes(), type=kind)


def kept_value(name: str, kind: Any, files: Iterable[Path], make: Callable[[], _Value]) -> _Value:
    """Return what all `files` that decide a value make: as it was kept after they last changed, else made now."""
    if os.environ.get("CAPPLAN_CACHE") == "off":
        return make()
    stamps = repr([code_stamp(*_READERS), *((str(path), stamp(path)) for path in files)])
    digest = hashlib.blake2b(stamps.encode(), digest_size=12).hexdigest()
    path = cache_folder() / "specs" / f"{name}-{digest}.msgpack"
    try:
        kept: _Value = _decoded(path, kind)
        return kept
    except (OSError, msgspec.MsgspecError, ValueError):
        made = make()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, msgspec.msgpack.encode(made))
        for older in sorted(path.parent.glob(f"{name}-*"), key=lambda kept: kept.stat().st_mtime)[:-_MOST_KEPT]:
            older.unlink(missing_ok=True)
    return made
