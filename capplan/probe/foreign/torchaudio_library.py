"""torchaudio where its compiled library does not load with the installed torch.

PyPI's torchaudio is built for CUDA; beside a CPU-only torch its import fails, and so does that of every library that
imports it. Without the compiled library torchaudio takes its paths of Python, as in builds that lack it.
"""

from contextlib import AbstractContextManager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from capplan.probe.foreign.libraries import asked_first

_LOADS_LIBRARIES = "torchaudio._extension.utils"


def torchaudio_importable() -> AbstractContextManager[None]:
    """Make `import torchaudio` work in foreign code where its compiled library does not load."""
    return asked_first(_Finder())


class _Finder(MetaPathFinder):
    """Takes over the import of the one module of torchaudio that loads compiled libraries."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return that module's own spec with a loader that wraps its own; None for every other module."""
        del target
        if fullname != _LOADS_LIBRARIES:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Runs the module, then makes a library that does not load one that is not there."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave that to the module's own loader."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module and replace its function that loads a library."""
        self._own.exec_module(module)
        load: Any = module.__dict__.get("_load_lib")
        if load is None:
            return

        def load_if_it_fits(name: str) -> bool:
            try:
                return bool(load(name))
            except OSError:
                return False

        module.__dict__["_load_lib"] = load_if_it_fits
