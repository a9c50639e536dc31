"""Protocols of a device for timing: a clock, a queue with events, memory peaks.

It is small so that a simulated clock and queue can stand in for hardware.
"""

import contextlib
import gc
import time
from collections.abc import Iterator
from typing import Any, Protocol

import torch

from capplan.core.measurement.types import MeasuredMemory
from capplan.errors import MeasurementError
from capplan.probe.foreign.code import first_line


class Event(Protocol):
    """A mark in a device's queue."""

    def record(self) -> None:
        """Record the mark after the work that was queued so far."""

    def seconds_since(self, earlier: Any) -> float:
        """Time between two marks that the device has passed. [s]"""


class Device(Protocol):
    """A device as the harness meets it."""

    kind: str
    has_events: bool

    def now_s(self) -> float:
        """Read the host's clock. [s]"""

    def synchronize(self) -> None:
        """Wait until the device's queue is empty."""

    def make_event(self) -> Event:
        """Make a mark; only where `has_events`."""

    def flush_cache(self) -> None:
        """Displace what the device's last cache holds."""

    def reset_peaks(self) -> None:
        """Count memory peaks from here on."""

    def memory(self) -> MeasuredMemory:
        """Read the peaks since the last reset."""

    def free_cached(self) -> None:
        """Return unused memory to the driver."""

    def available_bytes(self) -> int | None:
        """Return what could still be allocated; None where the device does not say. [bytes]"""

    def limited_to(self, allowed_bytes: int) -> contextlib.AbstractContextManager[None]:
        """Make allocations beyond what may be taken from here on fail, as a full device would. [bytes]"""


_FLUSH_BYTES = 256 * 2**20
"""Written to displace what the L2 holds: above the largest L2 or infinity cache of a single GPU."""


class TorchDevice:
    """Behaviour that all kinds of real devices share."""

    has_events = False

    def __init__(self, torch_device: torch.device) -> None:
        self.torch_device = torch_device
        self.kind = torch_device.type
        self._flush_buffer: torch.Tensor | None = None

    def now_s(self) -> float:
        """Read the host's clock. [s]"""
        return time.perf_counter()

    def current(self) -> contextlib.AbstractContextManager[Any]:
        """Do nothing: there is only one such device."""
        return contextlib.nullcontext()

    def check(self) -> None:
        try:
            torch.ones(1, device=self.torch_device).add_(1)
            self.synchronize()
        except RuntimeError as error:
            raise MeasurementError(f"{self.torch_device} cannot be used: {first_line(error)}.") from error

    def synchronize(self) -> None:
        """Do nothing: the device has no queue."""

    def make_event(self) -> Event:
        """Raise an error, because a device without a queue has no events."""
        raise MeasurementError(f"{self.kind} has no events to time with; use ⟨methods⟩ naive,sync.")

    def flush_cache(self) -> None:
        """Write a buffer larger than the last cache."""
        if self._flush_buffer is None:
            self._flush_buffer = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=self.torch_device)
        self._flush_buffer.zero_()

    def reset_peaks(self) -> None:
        """Do nothing: this kind of device counts no peaks."""

    def memory(self) -> MeasuredMemory:
        """Return no figures: this kind of device reports none."""
        return MeasuredMemory()

    def free_cached(self) -> None:
        """Drop the buffer that flushes, and what only garbage still holds."""
        self._flush_buffer = None
        gc.collect()

    def total_bytes(self) -> int | None:
        """Return None: this kind of device does not report it. [bytes]"""
        return None

    def available_bytes(self) -> int | None:
        """Return None: this kind of device does not report it. [bytes]"""
        return None

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        """Raise an error, because no memory limit can be set on this kind of device. [bytes]"""
        raise MeasurementError(f"no memory limit of {allowed_bytes} bytes can be set on {self.kind}; use ⟨max-batch⟩.")
        yield
