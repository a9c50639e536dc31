"""Import model libraries, also where their compiled parts do not load with the installed torch.

PyPI's torchvision is built for CUDA; beside a CPU-only torch its import fails for want of its operators' schemas.
Declaring them is enough: torchvision brings their meta and autograd rules. The schemas are those of torchvision's
public operator registry. torchaudio does without a library that does not load.
"""

import contextlib
import functools
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import torch

from capplan.errors import UsageError, chained

_ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_ROI_BACK = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_IMAGE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_DEFORM = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"ps_roi_align({_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"ps_roi_pool({_ROI}) -> (Tensor, Tensor)",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, "
    f"int rois_zero_point, {_ROI_BACK}, int sampling_ratio, bool aligned) -> Tensor",
    f"deform_conv2d({_DEFORM}) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {_ROI_BACK}, {_IMAGE}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_ROI_BACK}, {_IMAGE}) -> Tensor",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_ROI_BACK}, int sampling_ratio, "
    f"{_IMAGE}) -> Tensor",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_ROI_BACK}, {_IMAGE}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    "_cuda_version() -> int",
)


def import_torchvision() -> ModuleType:
    """Import torchvision; where its compiled operators do not fit the installed torch, declare their schemas."""
    modules = _imported_once()
    if "torchvision" not in sys.modules:
        sys.modules.update(modules)
    return import_library("torchvision")


@functools.cache
def _imported_once() -> Mapping[str, ModuleType]:
    """Return torchvision's modules, imported once per process: torch does not take their operators a second time."""
    try:
        import_library("torchvision")
    except RuntimeError as error:
        if not lacks_operators(error):
            raise
        for name in _torchvision_modules():
            del sys.modules[name]
        _declare_operators()
        with _compiled_library_taken_as_loaded():
            import_library("torchvision")
    return _torchvision_modules()


def _torchvision_modules() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "torchvision"}


def torchvision_importable() -> contextlib.AbstractContextManager[None]:
    """Make `import torchvision` work in foreign code: in a constructor, or inside a forward."""
    return asked_first(_TorchvisionImporter())


class _TorchvisionImporter(MetaPathFinder, Loader):
    """Imports torchvision by `import_torchvision`, and leaves every other module to the finders after it."""

    def __init__(self) -> None:
        self._is_busy = False
        self._own_spec: ModuleSpec | None = None

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return a spec that takes the module as it was imported; None where torchvision is not installed.

        Libraries look for it with `importlib.util.find_spec` and import it if there is a spec.
        """
        del target
        if fullname != "torchvision" or self._is_busy or PathFinder.find_spec(fullname, path) is None:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import torchvision by the ordinary finders, with its operators declared where they do not load."""
        del spec
        self._is_busy = True
        try:
            module = import_torchvision()
        finally:
            self._is_busy = False
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import system has replaced."""
        module.__spec__ = self._own_spec


def lacks_operators(error: BaseException) -> bool:
    """Return True if an error, or one that led to it, is that torchvision's compiled operators are not there."""
    return any(
        isinstance(raised, RuntimeError) and "operator torchvision::" in str(raised) for raised in chained(error)
    )


@functools.cache
def _declare_operators() -> Any:
    """Declare torchvision's operators, with slow but true CPU kernels for those that its detectors run.

    The library that is returned must live as long as the declarations.
    """
    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call] # torch's own
    for schema in _SCHEMAS:
        library.define(schema)
    library.impl("_cuda_version", lambda: -1, "CompositeImplicitAutograd")
    library.impl("nms", _nms, "CPU")
    library.impl("roi_align", _roi_align, "CPU")
    return library


@contextlib.contextmanager
def _compiled_library_taken_as_loaded() -> Iterator[None]:
    """Make torchvision believe that its `_C` library loads, so that it registers rules for the declared schemas."""
    load: Callable[..., Any] = torch.ops.load_library

    def load_others(path: str) -> Any:
        return None if "torchvision" in str(path) and "_C" in str(path) else load(path)

    torch.ops.load_library = load_others  # type: ignore[method-assign] # put back below
    try:
        yield
    finally:
        torch.ops.load_library = load  # type: ignore[method-assign] # the original


def _nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Run greedy non-maximum suppression: return indices of the boxes kept, best score first."""
    from torchvision.ops import box_iou

    order = scores.argsort(descending=True)
    kept = []
    while order.numel():
        best, order = order[0], order[1:]
        kept.append(best)
        overlap = box_iou(boxes[best].unsqueeze(0), boxes[order])[0]
        order = order[overlap <= iou_threshold]
    return torch.stack(kept) if kept else order


def _roi_align(*arguments: Any) -> Any:
    """Align regions by torchvision's own Python implementation."""
    from torchvision.ops import roi_align

    return roi_align._roi_align(*arguments)


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
            spec.loader = _LibraryLoader(spec.loader)
        return spec


class _LibraryLoader(Loader):
    """Runs the module, then makes a library that does not load one that is not there."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Delegate to the module's own loader."""
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


_NOT_TAKEN = re.compile(r"unexpected keyword argument '(\w+)'|missing \d+ required|multiple values for")


def import_library(name: str) -> ModuleType:
    """Import a model library."""
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
    """Call a constructor with the user's arguments."""
    try:
        return make(**arguments)
    except TypeError as error:
        if _NOT_TAKEN.search(str(error)):
            raise UsageError(f"{what} does not take these arguments: {error}.") from error
        raise
