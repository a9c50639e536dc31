"""Find the user's folders: the cache, and the configuration."""

import os
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
