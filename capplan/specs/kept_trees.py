"""Keep what files of capplan's own specs hold as JSON, which is read several times faster than YAML.

YAML stays the truth: a tree is kept under the digest of the file's content, so that an edited file is parsed again. The
user's own files are always parsed. `CAPPLAN_CACHE=off` keeps nothing.
"""

import atexit
import contextlib
import hashlib
import json
import os
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from capplan.files import PACKAGE, cache_folder, replace_whole

Tree = dict[str, Any]
_DAY = "\0day"
"""The key of an object of one entry that stands for a day, which JSON has no word for."""
_DIGEST_BYTES = 16
_OWN_FOLDERS = (str(PACKAGE) + os.sep, str(PACKAGE.parent / "gpu_specs") + os.sep)


class KeptTrees:
    """The trees of a file in the cache folder: a line for each, its digest before it, read when it is asked for."""

    def __init__(self, path: Path) -> None:
        """Read the lines that are kept; a file that cannot be read is made anew."""
        self._path = path
        self._has_new = False
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        self._texts = {line[: 2 * _DIGEST_BYTES]: line[2 * _DIGEST_BYTES :] for line in lines}

    def find(self, content: bytes) -> Tree | None:
        """Return the tree of a file's content; None where it is not kept."""
        text = self._texts.get(_digest(content))
        if text is None:
            return None
        try:
            tree = json.loads(text, object_hook=_with_days if _DAY[1:] in text else None)
        except ValueError:
            return None
        return tree if isinstance(tree, dict) else None

    def keep(self, content: bytes, tree: Tree) -> None:
        """Keep a tree; it is written when the process ends."""
        if not self._has_new:
            self._has_new = True
            atexit.register(self.write)
        self._texts[_digest(content)] = json.dumps(tree, default=lambda day: {_DAY: day.isoformat()})

    def write(self) -> None:
        """Write all trees; a folder that cannot be written to keeps none."""
        lines = "".join(f"{digest}{text}\n" for digest, text in self._texts.items())
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_whole(self._path, lines.encode())


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _with_days(entries: Tree) -> Any:
    return date.fromisoformat(entries[_DAY]) if _DAY in entries else entries


def kept_trees(path: Path) -> KeptTrees | None:
    """Return where the tree of a file is kept; None for a file of the user's, or where nothing shall be kept."""
    if os.environ.get("CAPPLAN_CACHE") == "off" or not str(path).startswith(_OWN_FOLDERS):
        return None
    return _opened(cache_folder())


@cache
def _opened(folder: Path) -> KeptTrees:
    """Open the trees that this version of the reader made, once in a process."""
    reader = _digest(Path(__file__).with_name("strict_yaml.py").read_bytes())
    return KeptTrees(folder / "specs" / f"{reader}.jsonl")
