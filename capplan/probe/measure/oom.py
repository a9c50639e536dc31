"""Recognise running out of memory, whoever raises it, and survive it: nothing stays allocated, one retry."""

import contextlib
import traceback
from collections.abc import Callable
from typing import TypeVar

import torch

from capplan.core.measurement.types import MeasurementFailure
from capplan.errors import CapplanError, MeasurementError, chained
from capplan.probe.foreign.code import first_line, model_code
from capplan.probe.measure.device import Device

_Result = TypeVar("_Result")

_WORDS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
    "alloc_failed",
    "out_of_device_memory",
    "out_of_resources",
    "invalid buffer size",
)
"""What CUDA, ROCm, cuDNN, cuBLAS, XPU, MPS, C++ and the CPU's allocator say, in lower case."""


class PointError(MeasurementError):
    """One point could not be measured; others may."""

    def __init__(self, kind: MeasurementFailure, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an exception reports that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _WORDS)


def surviving(device: Device, attempt: Callable[[], _Result], *, doing: str) -> _Result:
    """Run foreign code that may not fit ("running resnet50 at batch 8"); if it does not, free all and try once more."""
    try:
        return _attempted(device, attempt, doing=doing)
    except PointError as error:
        if error.kind is not MeasurementFailure.OUT_OF_MEMORY:
            raise
    return _attempted(device, attempt, doing=doing)


def _attempted(device: Device, attempt: Callable[[], _Result], *, doing: str) -> _Result:
    try:
        with model_code(doing, error=MeasurementError):
            return attempt()
    except CapplanError as error:
        cause = error.__cause__
        if cause is None or not (isinstance(error, MeasurementError) or is_out_of_memory(cause)):
            raise
        failed = _point_error(cause, doing)
        for raised in chained(error):  # the frames that an exception and its causes hold, and the tensors inside
            traceback.clear_frames(raised.__traceback__)
            raised.__traceback__ = None
    with contextlib.suppress(RuntimeError):  # a device lost to the failure itself
        device.free_cached()
    raise failed


def _point_error(error: BaseException, doing: str) -> PointError:
    if is_out_of_memory(error):
        return PointError(MeasurementFailure.OUT_OF_MEMORY, f"{doing} ran out of memory: {first_line(error)}")
    is_sticky = any(words in str(error).lower() for words in ("cuda error", "hip error", "device-side assert"))
    hint = "; the device may be left unusable to this process: add ⟨isolate⟩" if is_sticky else ""
    return PointError(MeasurementFailure.ERROR, f"{doing} failed: {first_line(error)}{hint}")
