"""Find the module that each op belongs to, by watching calls of modules instead of leaving hooks."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from capplan.probe.record.recorder import Recorder


class ModulePaths:
    """Paths of a model's modules, by index; 0 is the model itself."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.names: list[str] = []
        self._classes: list[str] = []
        self._index: dict[int, int] = {}
        for name, module in model.named_modules():
            self._index[id(module)] = len(self.names)
            self.names.append(name)
            self._classes.append(type(module).__name__)
        self.stopped_at: int | None = None

    def locate(self, message: str) -> str:
        """Describe in which module the last pass stopped, if it did in one."""
        if self.stopped_at is None:
            return message
        path, kind = self.names[self.stopped_at], self._classes[self.stopped_at]
        return f"{message} (in {path} ({kind}))" if path else f"{message} (in {kind}.forward)"

    @contextlib.contextmanager
    def watched(self, recorder: Recorder) -> Iterator[None]:
        """Report to the recorder which module is running, while the context lasts."""
        self.stopped_at = None
        original = torch.nn.Module.__call__
        index = self._index

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            here = index.get(id(module))
            if here is None:
                return original(module, *args, **kwargs)
            before = recorder.module
            recorder.module = here
            try:
                return original(module, *args, **kwargs)
            except BaseException:
                if self.stopped_at is None:
                    self.stopped_at = here
                raise
            finally:
                recorder.module = before

        torch.nn.Module.__call__ = call  # type: ignore[method-assign]  # for the time of the trace
        try:
            yield
        finally:
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]  # as it was
