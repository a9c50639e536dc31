"""What timing needs of a device: a clock, a queue with events, memory peaks.

It is small so that a simulated clock and queue can stand in for hardware.
"""

import contextlib
from typing import Any, Protocol

from capplan.core.measurement import MeasuredMemory


class Event(Protocol):
    """A mark in a device's queue."""

    def record(self) -> None:
        """Put the mark behind what was queued so far."""

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
        """Give unused memory back to the driver."""

    def available_bytes(self) -> int | None:
        """What could still be allocated; None where the device does not say. [bytes]"""

    def limited_to(self, allowed_bytes: int) -> contextlib.AbstractContextManager[None]:
        """Make allocations beyond what may be taken from here on fail, as a full device would. [bytes]"""
