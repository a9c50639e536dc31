"""A device with a queue and a clock of its own, on which the truth is known."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from capplan.core.measurement.types import MeasuredMemory


@dataclass
class SimulatedEvent:
    device: "SimulatedDevice"
    passed_s: float | None = None
    synchronised: bool = True

    def record(self) -> None:
        self.device.clock_s += self.device.record_s
        self.device.events_recorded += 1
        self.passed_s = max(self.device.queue_end_s, self.device.clock_s)
        self.device.queue_end_s = self.passed_s

    def seconds_since(self, earlier: "SimulatedEvent") -> float:
        assert self.passed_s is not None
        assert earlier.passed_s is not None
        assert self.device.clock_s >= self.passed_s, "an event was read before the device had passed it"
        return self.passed_s - earlier.passed_s


@dataclass
class SimulatedDevice:
    """Work is queued in `launch_s` of the host's time and then takes its own time on the device, one after another."""

    kind: str = "simulated"
    has_events: bool = True
    launch_s: float = 10e-6
    record_s: float = 1e-6
    clock_s: float = 0.0
    queue_end_s: float = 0.0
    synchronisations: int = 0
    events_made: int = 0
    events_recorded: int = 0
    flushes: int = 0
    frees: int = 0
    calls: list[str] = field(default_factory=list)

    def launch(self, work_s: float) -> None:
        self.clock_s += self.launch_s
        self.queue_end_s = max(self.queue_end_s, self.clock_s) + work_s

    def work_on_host(self, work_s: float) -> None:
        self.clock_s += work_s

    def now_s(self) -> float:
        return self.clock_s

    def synchronize(self) -> None:
        self.synchronisations += 1
        self.clock_s = max(self.clock_s, self.queue_end_s)

    def make_event(self) -> SimulatedEvent:
        self.events_made += 1
        return SimulatedEvent(self)

    def flush_cache(self) -> None:
        self.flushes += 1
        self.launch(100e-6)

    def reset_peaks(self) -> None: ...

    def memory(self) -> MeasuredMemory:
        return MeasuredMemory()

    def free_cached(self) -> None:
        self.frees += 1

    def available_bytes(self) -> int | None:
        return None

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        yield
