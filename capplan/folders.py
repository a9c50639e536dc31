"""Find the user's folders: the cache and the configuration; tell what is installed from what is the user's."""

import os
import sysconfig
from functools import cache
from pathlib import Path

from platformdirs import user_cache_path, user_config_path

_NAME = "capplan"

PACKAGE = Path(__file__).resolve().parent
"""Where capplan's own code lies."""


def cache_folder() -> Path:
    """Return the folder of what can be made again: `XDG_CACHE_HOME`/capplan, else where the system keeps caches."""
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home) / _NAME if home else user_cache_path(_NAME, appauthor=False)


def config_folder() -> Path:
    """Return the folder of the user's own files: `XDG_CONFIG_HOME`/capplan, else where the system keeps settings."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return Path(home) / _NAME if home else user_config_path(_NAME, appauthor=False)


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
