"""The constants of step times as one vector of logarithms: what the fit moves and the time model reads."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.timing.calibration import (
    DeviceConstants,
    EngineTimes,
    KernelConstants,
    LinkConstants,
    LlmCalibration,
)
from capplan.llm.core.timing.kernel_classes import KernelClass
from capplan.llm.core.timing.work import CLASSES

_KERNEL = tuple(item.name for item in fields(KernelConstants))
_ENGINE = tuple(item.name for item in fields(EngineTimes))
_LINK = tuple(item.name for item in fields(LinkConstants))
_DEVICE = tuple(item.name for item in fields(DeviceConstants))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each constant lies in the vector, for the engines in `engines`."""

    engines: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Name every entry, as in the calibration file: kind, class or engine, constant."""
        return (
            *(f"kernel/{item}/{name}" for name in _KERNEL for item in CLASSES),
            *(f"engine/{item}/{name}" for name in _ENGINE for item in self.engines),
            *(f"link/{item}/{name}" for name in _LINK for item in ("switched", "host")),
            *(f"device//{name}" for name in _DEVICE),
        )

    def pack(self, calibration: LlmCalibration) -> FloatArray:
        """Put the constants of a calibration into a vector of logarithms."""
        values: list[float] = []
        for name in _KERNEL:
            values += [getattr(calibration.kernels[item], name) for item in CLASSES]
        for name in _ENGINE:
            values += [getattr(calibration.engines[item], name) for item in self.engines]
        for name in _LINK:
            values += [getattr(item, name) for item in (calibration.switched, calibration.host)]
        values += [getattr(calibration.device, name) for name in _DEVICE]
        return np.log(np.maximum(values, 1e-12))

    def view(self, vector: FloatArray) -> "Constants":
        """Read a vector of logarithms as constants."""
        return Constants(layout=self, values=np.exp(vector))


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Constants as arrays: by kernel class, by engine, by link (switched, host), and of devices."""

    layout: Layout
    values: FloatArray

    def _block(self, kind: int) -> FloatArray:
        sizes = [len(_KERNEL) * len(CLASSES), len(_ENGINE) * len(self.layout.engines), 2 * len(_LINK), len(_DEVICE)]
        start = sum(sizes[:kind])
        return self.values[start : start + sizes[kind]]

    def kernel(self, name: str) -> FloatArray:
        """Return a constant by kernel class, in the order of `CLASSES`."""
        return np.asarray(self._block(0).reshape(len(_KERNEL), -1)[_KERNEL.index(name)])

    def engine(self, name: str) -> FloatArray:
        """Return a constant by engine, in the order of the layout."""
        return np.asarray(self._block(1).reshape(len(_ENGINE), -1)[_ENGINE.index(name)])

    def link(self, name: str) -> FloatArray:
        """Return a constant of switched links and of links through the host."""
        return np.asarray(self._block(2).reshape(len(_LINK), -1)[_LINK.index(name)])

    def device(self, name: str) -> float:
        """Return a constant of devices."""
        return float(self._block(3)[_DEVICE.index(name)])

    def kernels(self) -> dict[KernelClass, KernelConstants]:
        """Return the constants of every kernel class, as a calibration holds them."""
        table = self._block(0).reshape(len(_KERNEL), -1).T
        return {item: KernelConstants(**_named(_KERNEL, row)) for item, row in zip(CLASSES, table, strict=True)}

    def engines(self) -> dict[str, EngineTimes]:
        """Return the constants of every engine, as a calibration holds them."""
        table = self._block(1).reshape(len(_ENGINE), -1).T
        engines = self.layout.engines
        return {item: EngineTimes(**_named(_ENGINE, row)) for item, row in zip(engines, table, strict=True)}

    def links(self) -> tuple[LinkConstants, LinkConstants]:
        """Return the constants of switched links and of links through the host."""
        table = self._block(2).reshape(len(_LINK), -1).T
        return LinkConstants(**_named(_LINK, table[0])), LinkConstants(**_named(_LINK, table[1]))

    def devices(self) -> DeviceConstants:
        """Return the constants of devices, as a calibration holds them."""
        return DeviceConstants(**_named(_DEVICE, self._block(3)))


def _named(names: Sequence[str], row: FloatArray) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, row, strict=True)}


def constants_of(calibration: LlmCalibration) -> Constants:
    """Return the constants of a calibration in the form that predictions read."""
    layout = Layout(tuple(calibration.engines))
    return layout.view(layout.pack(calibration))
