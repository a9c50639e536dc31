"""Keep libraries from writing their settings into the user's home while a model's code imports them."""

import atexit
import contextlib
import functools
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

_FOLDERS = ("YOLO_CONFIG_DIR",)
"""Variables that name the folder where a library writes settings at its first import: ultralytics."""


@contextlib.contextmanager
def settings_kept_out() -> Iterator[None]:
    """Point libraries to a temporary folder for settings, unless the user has set one."""
    unset = [name for name in _FOLDERS if name not in os.environ]
    with mock.patch.dict(os.environ, {name: _temporary_folder() for name in unset}):
        yield


@functools.cache
def _temporary_folder() -> str:
    """Choose the folder once for the process: a library keeps the path that it was given when it was imported.

    The library makes it, so that a process that is killed leaves none behind unless its model imports that library.
    """
    folder = Path(tempfile.gettempdir(), f"capplan-settings-{secrets.token_hex(16)}")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(folder)
