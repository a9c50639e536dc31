"""The constants of step times as one vector of logarithms: what the fit moves and the time model reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.timing.calibration import (
    DeviceConstants,
    EngineTimes,
    KernelClass,
    KernelConstants,
    LinkConstants,
    LlmCalibration,
)
from capplan.llm.core.timing.work import CLASSES, IntArray

_KERNEL = tuple(item.name for item in fields(KernelConstants))
_ENGINE = tuple(item.name for item in fields(EngineTimes))
_LINK = tuple(item.name for item in fields(LinkConstants))
_DEVICE = tuple(item.name for item in fields(DeviceConstants))


@dataclass(frozen=True, slots=True)
class ConstantsVector:
    """Where each constant lies in the vector, for the engines in `engines` and the factors of kernels in `factors`."""

    engines: tuple[str, ...]
    factors: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Name every entry, as in the calibration file: kind, class or engine, constant."""
        return (
            *(f"kernel/{item}/{name}" for name in _KERNEL for item in CLASSES),
            *(f"engine/{item}/{name}" for name in _ENGINE for item in self.engines),
            *(f"link/{item}/{name}" for name in _LINK for item in ("switched", "host")),
            *(f"device//{name}" for name in _DEVICE),
            *(f"factor/{item}/kernel_factor" for item in self.factors),
        )

    def factor_place(self, name: str) -> int:
        """Return where a factor of kernels lies among all of them, -1 where it has none."""
        return self.factors.index(name) if name in self.factors else -1

    def pack(self, calibration: LlmCalibration) -> FloatArray:
        values: list[float] = []
        for name in _KERNEL:
            values += [getattr(calibration.kernels[item], name) for item in CLASSES]
        for name in _ENGINE:
            values += [getattr(calibration.engines[item], name) for item in self.engines]
        for name in _LINK:
            values += [getattr(item, name) for item in (calibration.switched, calibration.host)]
        values += [getattr(calibration.device, name) for name in _DEVICE]
        values += [calibration.kernel_factors.get(item, 1.0) for item in self.factors]
        return np.log(np.maximum(values, 1e-12))

    def view(self, vector: FloatArray) -> "Constants":
        values = np.exp(vector)
        blocks: dict[str, FloatArray] = {}
        start = 0
        for kind, names, columns in (
            ("kernel", _KERNEL, len(CLASSES)), ("engine", _ENGINE, len(self.engines)), ("link", _LINK, 2),
            ("device", _DEVICE, 1),
        ):  # fmt: skip
            for name in names:
                blocks[f"{kind}/{name}"] = values[start : start + columns]
                start += columns
        return Constants(layout=self, blocks=blocks, kernel_factors=values[start:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Constants as arrays: by kernel class, by engine, by link (switched, host), and of devices."""

    layout: ConstantsVector
    blocks: Mapping[str, FloatArray]
    kernel_factors: FloatArray

    def kernel(self, name: str) -> FloatArray:
        """Return a constant by kernel class, in the order of `CLASSES`."""
        return self.blocks[f"kernel/{name}"]

    def engine(self, name: str) -> FloatArray:
        """Return a constant by engine, in the order of the layout."""
        return self.blocks[f"engine/{name}"]

    def link(self, name: str) -> FloatArray:
        """Return a constant of switched links and of links through the host."""
        return self.blocks[f"link/{name}"]

    def device(self, name: str) -> float:
        return float(self.blocks[f"device/{name}"][0])

    def factors(self) -> dict[str, float]:
        """Return the kernel factors by name, as a calibration holds them."""
        return _named(self.layout.factors, self.kernel_factors)

    def factors_of(self, places: IntArray) -> FloatArray:
        """Return the kernel factor of each place of the layout's factors, 1 where the place is negative."""
        return np.where(places < 0, 1.0, np.append(self.kernel_factors, 1.0)[places])

    def kernels(self) -> dict[KernelClass, KernelConstants]:
        table = np.stack([self.kernel(name) for name in _KERNEL], axis=1)
        return {item: KernelConstants(**_named(_KERNEL, row)) for item, row in zip(CLASSES, table, strict=True)}

    def engines(self) -> dict[str, EngineTimes]:
        table = np.stack([self.engine(name) for name in _ENGINE], axis=1)
        engines = self.layout.engines
        return {item: EngineTimes(**_named(_ENGINE, row)) for item, row in zip(engines, table, strict=True)}

    def links(self) -> tuple[LinkConstants, LinkConstants]:
        table = np.stack([self.link(name) for name in _LINK], axis=1)
        return LinkConstants(**_named(_LINK, table[0])), LinkConstants(**_named(_LINK, table[1]))

    def devices(self) -> DeviceConstants:
        return DeviceConstants(**{name: self.device(name) for name in _DEVICE})


def _named(names: Sequence[str], row: FloatArray) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, row, strict=True)}


def constants_of(calibration: LlmCalibration) -> Constants:
    layout = ConstantsVector(tuple(calibration.engines), tuple(calibration.kernel_factors))
    return layout.view(layout.pack(calibration))
