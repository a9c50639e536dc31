"""Import model libraries, and call constructors with the user's arguments."""

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

import torch

from capplan.errors import UsageError

_NOT_TAKEN = re.compile(r"unexpected keyword argument '(\w+)'|missing \d+ required|multiple values for")


def import_library(name: str) -> ModuleType:
    """Import a model library.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(f"{name} is not installed: pip install 'capplan[zoo]', or pip install {name}.") from error


@contextlib.contextmanager
def asked_first(finder: MetaPathFinder) -> Iterator[None]:
    """Ask a finder before all others for the modules that are imported inside."""
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def call_with_arguments(
    what: str, make: Callable[..., torch.nn.Module], arguments: Mapping[str, Any]
) -> torch.nn.Module:
    """Call a constructor with the user's arguments.

    Raises:
        UsageError: it does not take them, in its own words.
    """
    try:
        return make(**arguments)
    except TypeError as error:
        if _NOT_TAKEN.search(str(error)):
            raise UsageError(f"{what} does not take these arguments: {error}.") from error
        raise
