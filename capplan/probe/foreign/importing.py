"""Running a user's file and importing a user's module, as Python would from that file's folder.

The folder comes first on `sys.path` while the file runs and stays on it, last, for what a forward imports late.
A file of a package runs under its package's name, so that relative imports work; any other under a name of its own.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from capplan.core.named_code import place_and_name
from capplan.errors import TraceError, UsageError
from capplan.files import is_file, is_installed
from capplan.probe.foreign.code import model_code
from capplan.probe.foreign.libraries import import_torchvision, lacks_operators


def load_code(where: str, *, as_cpu: bool = True) -> ModuleType:
    """Run a file, or import a module by its dotted name, once per process."""
    try:
        return _load(where, as_cpu=as_cpu)
    except TraceError as error:
        if lacks_operators(error):
            import_torchvision()
        elif as_cpu or isinstance(error.__cause__, ModuleNotFoundError):
            raise
        else:
            as_cpu = True
    return _load(where, as_cpu=as_cpu)


def _load(where: str, *, as_cpu: bool) -> ModuleType:
    if not where.endswith(".py"):
        return _import_module(where, folder=Path.cwd(), said=where, as_cpu=as_cpu)
    path = Path(where)
    if not is_file(path):
        raise UsageError(f"there is no file {path}.")
    real = path.resolve()
    if (real.parent / "__init__.py").is_file():
        # The folder that holds a file's outermost package, and the file's dotted name below it.
        parts = [real.stem] if real.stem != "__init__" else []
        folder = real.parent
        while (folder / "__init__.py").is_file():
            parts.insert(0, folder.name)
            folder = folder.parent
        root, name = folder, ".".join(parts)
        return _import_module(name, folder=root, said=str(path), as_cpu=as_cpu)
    name = f"{real.stem}_{hashlib.sha256(str(real).encode()).hexdigest()[:8]}{'' if as_cpu else '_cuda'}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, real)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with model_code(f"running {path}", answers_cuda=not as_cpu), _importing_from(real.parent):
            spec.loader.exec_module(module)
    except TraceError:
        del sys.modules[name]
        raise
    return module


def _import_module(name: str, *, folder: Path, said: str, as_cpu: bool) -> ModuleType:
    try:
        with model_code(f"importing {said}", answers_cuda=not as_cpu), _importing_from(folder):
            return importlib.import_module(name)
    except TraceError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name and f"{name}.".startswith(f"{cause.name}."):
            raise UsageError(f"there is no module {cause.name} in {folder} or on Python's path.") from error
        raise


@contextlib.contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Insert a folder first in `sys.path`, and last when done; forget other modules that would shadow its files."""
    names = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    foreign = {name for name in names & sys.modules.keys() if _is_users(sys.modules[name], outside=folder)}
    for name in [name for name in sys.modules if name.partition(".")[0] in foreign]:
        del sys.modules[name]
    entry = str(folder)
    path_before = [known for known in sys.path if known != entry]
    sys.path[:] = [entry, *path_before]
    try:
        yield
    finally:
        kept = [known for known in sys.path if known != entry]
        sys.path[:] = [*kept, entry]


def _is_users(module: ModuleType, *, outside: Path) -> bool:
    """Return True if a module is neither installed nor below a folder."""
    file = getattr(module, "__dict__", {}).get("__file__")  # a lazy module would load at any other question
    if not file:
        return False
    path = Path(str(file)).resolve()
    return not path.is_relative_to(outside) and not is_installed(path)


def load_function(words: str, option: str, *, as_cpu: bool = True) -> Callable[..., Any]:
    """Find the function that an option names as `FILE.py:function` or `package.module:function`."""
    where, name = place_and_name(words)
    if not where:
        raise UsageError(f"{option} {words!r} is not FILE.py:function.")
    function = getattr(load_code(where, as_cpu=as_cpu), name, None)
    if not inspect.isroutine(function):
        raise UsageError(f"{option} {words}: {where} has no function {name!r}.")
    return function
