"""Energy of a sample: the driver's counter, or its power readings, over a stretch of repetitions back to back."""

import math
import threading
from collections.abc import Callable
from typing import Protocol

from capplan.core.measurement import MeasuredPower
from capplan.probe.measure.device_protocol import Device

STRETCH_S = 2.0
"""The counter moves every 20 to 100 ms: this long a stretch leaves an error of a few percent."""
_READ_EVERY_S = 0.05


class PowerMeter(Protocol):
    """What tells energy or power."""

    def energy_j(self) -> float | None:
        """A counter that only grows; None where there is none. [J]"""

    def power_w(self) -> float | None:
        """The power now; None where it is not told. [W]"""


def measure_power(
    device: Device, run: Callable[[], object], *, meter: PowerMeter, batch: int, expected_s: float
) -> MeasuredPower | None:
    """Repeat for about two seconds and read the meter around; None where it tells nothing."""
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
        """Begin to read."""
        self._thread.start()

    def stop(self) -> float | None:
        """End, and tell the mean; None where nothing was read. [W]"""
        self._is_over.set()
        self._thread.join()
        return sum(self._found_w) / len(self._found_w) if self._found_w else None

    def _read(self) -> None:
        while not self._is_over.wait(_READ_EVERY_S):
            if (power_w := self._meter.power_w()) is not None:
                self._found_w.append(power_w)
