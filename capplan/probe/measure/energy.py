"""Energy of a sample: the driver's counter, its power readings or a processor's, over repetitions back to back."""

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from capplan.core.measurement.types import Clocks, MeasuredPower
from capplan.probe.measure.device import Device
from capplan.units import whole_number

STRETCH_S = 2.0
"""The counter moves every 20 to 100 ms: this long a stretch leaves an error of a few percent."""
_READ_EVERY_S = 0.05


class PowerMeter(Protocol):
    def energy_j(self) -> float | None:
        """Return a counter that only grows; None where there is none. [J]"""

    def power_w(self) -> float | None:
        """Return the power now; None if it is not reported. [W]"""


def measure_power(
    device: Device, run: Callable[[], object], *, meter: PowerMeter, batch: int, expected_s: float
) -> MeasuredPower | None:
    """Repeat for about two seconds and read the meter before and after; None if it reports nothing."""
    count = max(1, math.ceil(STRETCH_S / expected_s))
    readings = _PowerReadings(meter) if meter.energy_j() is None else None
    device.synchronize()
    before_j, begun = meter.energy_j(), device.now_s()
    if readings:
        readings.start()
    try:
        for _ in range(count):
            run()
        device.synchronize()
        elapsed_s = device.now_s() - begun
        after_j = meter.energy_j()
    finally:
        read_w = readings.stop() if readings else None
    power_w = (after_j - before_j) / elapsed_s if after_j is not None and before_j is not None else read_w
    if not power_w:
        return None
    return MeasuredPower(power_w=power_w, energy_j_per_sample=power_w * elapsed_s / (count * batch))


class _PowerReadings:
    """Reads power in a thread; the mean stands for the stretch."""

    def __init__(self, meter: PowerMeter) -> None:
        self._meter = meter
        self._found_w: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> float | None:
        """Stop reading and return the mean; None if nothing was read. [W]"""
        self._is_over.set()
        self._thread.join()
        return sum(self._found_w) / len(self._found_w) if self._found_w else None

    def _read(self) -> None:
        while not self._is_over.wait(_READ_EVERY_S):
            if (power_w := self._meter.power_w()) is not None:
                self._found_w.append(power_w)


_Value = TypeVar("_Value")


_THROTTLING = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""NVML's clock event reasons that slow a busy GPU; idling is not among them."""


class Nvml:
    """One GPU as the driver sees it. `library` is the module pynvml, `handle` the device."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle

    def driver_version(self) -> str | None:
        found = self._read(self._library.nvmlSystemGetDriverVersion)
        return found.decode() if isinstance(found, bytes) else found

    def power_limit_w(self) -> float | None:
        """Return the enforced power limit. [W]"""
        return _scaled(self._ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3)

    def power_w(self) -> float | None:
        """Return what the board draws now, as the driver averages it. [W]"""
        return _scaled(self._ask("nvmlDeviceGetPowerUsage"), 1e-3)

    def energy_j(self) -> float | None:
        """Return the energy counter since the driver was loaded; Volta and later. [J]"""
        return _scaled(self._ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3)

    def clocks(self) -> Clocks:
        graphics = self._ask("nvmlDeviceGetClockInfo", self._library.NVML_CLOCK_GRAPHICS)
        memory = self._ask("nvmlDeviceGetClockInfo", self._library.NVML_CLOCK_MEM)
        return Clocks(graphics_hz=_scaled(graphics, 1e6), memory_hz=_scaled(memory, 1e6))

    def temperature_c(self) -> float | None:
        """Return the chip's temperature. [°C]"""
        return _scaled(self._ask("nvmlDeviceGetTemperature", self._library.NVML_TEMPERATURE_GPU), 1)

    def throttling(self) -> tuple[str, ...]:
        """Return what holds the clocks down now."""
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")  # the newer name, which older drivers lack
        bits = reasons or self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        return tuple(name for bit, name in _THROTTLING.items() if bits & bit)

    def process_bytes(self) -> int | None:
        """Return what the driver books on this process, context included. [bytes]"""
        return next((process.usedGpuMemory for process in self._processes() if process.pid == os.getpid()), None)

    def other_processes(self) -> tuple[Any, ...]:
        """Return the other processes that compute on the device, as NVML describes them: `pid`, `usedGpuMemory`.

        In a container the driver may number processes as its host does. This process is then among those that cannot
        be seen from here: the one last begun is taken for it.
        """
        listed = self._processes()
        others = [process for process in listed if process.pid != os.getpid()]
        unseen = [process for process in others if not Path(f"/proc/{process.pid}").exists()]
        if len(others) == len(listed) and unseen and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # untyped in torch
            others.remove(max(unseen, key=lambda process: process.pid))
        return tuple(others)

    def _processes(self) -> list[Any]:
        return self._ask("nvmlDeviceGetComputeRunningProcesses") or []

    def _ask(self, function: str, *arguments: Any) -> Any:
        known = getattr(self._library, function, None)  # releases of nvidia-ml-py differ
        return None if known is None else self._read(lambda: known(self._handle, *arguments))

    def _read(self, query: Callable[[], _Value]) -> _Value | None:
        try:
            return query()
        except self._library.NVMLError:  # this GPU or this driver has no such counter
            return None


def _scaled(value: Any, scale: float) -> float | None:
    return None if value is None else float(value) * scale


def open_nvml(device: torch.device) -> Nvml | None:
    """Reach the driver's view of a torch device; None where there is none."""
    if device.type != "cuda" or torch.version.hip:
        return None
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handle = _handle(pynvml, device)
        return None if handle is None else Nvml(pynvml, handle)
    except pynvml.NVMLError:
        return None


def _handle(library: Any, device: torch.device) -> Any:
    """Find the device by its UUID: CUDA_VISIBLE_DEVICES renumbers what torch sees, and NVML does not know."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    if uuid is None:  # a torch of 2024
        return None if "CUDA_VISIBLE_DEVICES" in os.environ else library.nvmlDeviceGetHandleByIndex(device.index)
    try:
        return library.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
    except library.NVMLError:  # a slice of a GPU has a name of its own
        return library.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}".encode())


POWERCAP = Path("/sys/class/powercap")
"""Where the kernel lists them: Documentation/power/powercap/powercap.rst of Linux. AMD's have the same names."""


@dataclass(slots=True)
class Rapl:
    """A meter of all processor packages together, memory and graphics card apart.

    Counters begin again at zero beyond their range, within minutes at most: what they lose then is added.
    """

    packages: tuple[Path, ...]
    _last_uj: dict[Path, int] = field(default_factory=dict)
    _total_uj: int = 0

    def energy_j(self) -> float | None:
        """Return a counter that only grows, from the first reading on; None once a counter cannot be read. [J]"""
        for package in self.packages:
            now, span = _counter(package / "energy_uj"), _counter(package / "max_energy_range_uj")
            if now is None:
                return None
            last = self._last_uj.get(package, now)
            self._total_uj += now - last + (0 if now >= last else span or 0)
            self._last_uj[package] = now
        return self._total_uj / 1e6

    def power_w(self) -> float | None:
        """Return None: RAPL counts energy alone."""
        return None


def open_rapl(root: Path = POWERCAP) -> Rapl | None:
    """Reach the counters; None where there are none, or where only an administrator may read them."""
    packages = tuple(
        folder for folder in sorted(root.glob("intel-rapl:*")) if _line(folder / "name").startswith("package")
    )
    found = Rapl(packages)
    return found if packages and found.energy_j() is not None else None


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _counter(path: Path) -> int | None:
    return whole_number(_line(path))
