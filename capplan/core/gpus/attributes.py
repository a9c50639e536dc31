"""The figures of GPUs by name, with how they are read and written: the columns of `capplan gpus`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from capplan.core.gpus.spec import GpuSpec, PeakKind, Status
from capplan.errors import UnknownNameError
from capplan.units import (
    BITS_PER_S,
    BYTES,
    BYTES_PER_S,
    FLOPS_PER_S,
    HERTZ,
    WATTS,
    format_bytes,
    format_bytes_per_s,
    format_flops_per_s,
)


class Absence(StrEnum):
    """Why a GPU has no value: the vendor does not support it, or no source states it."""

    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


Value = float | str | date | Absence

UNSUPPORTED_CELL = "-"
UNKNOWN_CELL = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One figure that a GPU can be listed, filtered, sorted and compared by.

    `units` reads it on the command line and `to_text` writes it; `base_name` is its name in base units in
    JSON and CSV.
    """

    name: str
    base_name: str
    value: Callable[[GpuSpec], Value]
    units: Mapping[str, float] | None = None
    to_text: Callable[[float], str] | None = None

    @property
    def is_number(self) -> bool:
        """Return whether values can be added, divided and aligned to the right."""
        return self.to_text is not None

    def cell(self, spec: GpuSpec) -> str:
        """Return a GPU's value for people."""
        value = self.value(spec)
        if value is Absence.UNSUPPORTED:
            return UNSUPPORTED_CELL
        if value is Absence.UNKNOWN:
            return UNKNOWN_CELL
        return self.to_text(value) if self.to_text and isinstance(value, int | float) else str(value)


def _known(value: float | str | date | None) -> Value:
    return Absence.UNKNOWN if value is None or value == "" else value


def _field(name: str) -> Callable[[GpuSpec], Value]:
    return lambda spec: _known(getattr(spec, name))


def _peak(kind: PeakKind) -> Callable[[GpuSpec], Value]:
    def value(spec: GpuSpec) -> Value:
        peak = spec.peak_flops_per_s.get(kind, Absence.UNKNOWN)
        return Absence.UNSUPPORTED if peak is None else peak

    return value


def _capability(spec: GpuSpec) -> Value:
    if spec.compute_capability is not None:
        return ".".join(map(str, spec.compute_capability))
    return _known(spec.gfx_target)


def _words(name: str, base_name: str, value: Callable[[GpuSpec], Value]) -> Attribute:
    return Attribute(name=name, base_name=base_name, value=value)


def _quantity(name: str, base_name: str, units: Mapping[str, float], to_text: Callable[[float], str]) -> Attribute:
    return Attribute(name=name, base_name=base_name, value=_field(base_name), units=units, to_text=to_text)


def _plain(value: float) -> str:
    return f"{value:g}"


def _capacity(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.4g} GiB" if size_bytes >= 2**30 else format_bytes(size_bytes)


def _watts(power_w: float) -> str:
    return f"{power_w:g} W"


def _operations_per_s(rate: float) -> str:
    return format_flops_per_s(rate).replace("FLOP", "OP")


def _clock(rate_hz: float) -> str:
    return f"{rate_hz / 1e6:.0f} MHz"


_COUNT: Mapping[str, float] = {"": 1}
_INTENSITY: Mapping[str, float] = {"": 1, "FLOP/byte": 1}
_LINK = {unit: scale for unit, scale in BYTES_PER_S.items() if unit}

ATTRIBUTES: Mapping[str, Attribute] = {
    attribute.name: attribute
    for attribute in (
        _words("id", "id", _field("id")),
        _words("name", "name", _field("name")),
        _words("vendor", "vendor", _field("vendor")),
        _words("arch", "architecture", _field("architecture")),
        _words("capability", "compute_capability", _capability),
        _words("form", "form_factor", _field("form_factor")),
        _words("segment", "segment", lambda spec: _known(spec.segment and spec.segment.value)),
        _words("status", "status", lambda spec: _known(None if spec.status is Status.UNKNOWN else spec.status.value)),
        _words("released", "release_date", _field("release_date")),
        _quantity("memory", "memory_bytes", BYTES, _capacity),
        _quantity("usable", "usable_bytes", BYTES, _capacity),
        _quantity("driver-total", "driver_total_bytes", BYTES, _capacity),
        _words("memory-type", "memory_type", _field("memory_type")),
        _quantity("bus", "memory_bus_bits", {"": 1, "bit": 1}, lambda bits: f"{bits:g} bit"),
        _quantity("data-rate", "memory_bits_per_s_per_pin", BITS_PER_S, lambda rate: f"{rate / 1e9:g} Gbit/s"),
        _quantity("bandwidth", "memory_bandwidth_bytes_per_s", _LINK, format_bytes_per_s),
        _words("ecc", "ecc", _field("ecc")),
        _quantity("l2", "l2_bytes", BYTES, format_bytes),
        _quantity("units", "unit_count", _COUNT, _plain),
        _quantity("clock", "boost_clock_hz", HERTZ, _clock),
        _quantity("tensor-clock", "tensor_clock_hz", HERTZ, _clock),
        *(
            Attribute(
                name=kind.value,
                base_name=f"peak_{kind.name.lower()}_flops_per_s",
                value=_peak(kind),
                units=FLOPS_PER_S,
                to_text=_operations_per_s if kind is PeakKind.INT8 else format_flops_per_s,
            )
            for kind in PeakKind
        ),
        _quantity("ridge", "ridge_flop_per_byte", _INTENSITY, lambda ridge: f"{ridge:.0f}"),
        _quantity("tdp", "tdp_w", WATTS, _watts),
        _quantity("tdp-min", "tdp_min_w", WATTS, _watts),
        _quantity("tdp-max", "tdp_max_w", WATTS, _watts),
        _quantity("nominal-tdp", "nominal_tdp_w", WATTS, _watts),
        _quantity("nvlink", "nvlink_bytes_per_s", _LINK, format_bytes_per_s),
        _quantity("pcie", "pcie_bytes_per_s", _LINK, format_bytes_per_s),
        _quantity("devices", "devices_per_board", _COUNT, _plain),
        _words("origin", "origin", _field("origin")),
    )
}
"""All attributes by name, in the order of a full listing."""

DEFAULT_COLUMNS = (
    "id",
    "arch",
    "memory",
    "bandwidth",
    "fp32",
    "tf32",
    "fp16",
    "bf16",
    "fp8",
    "tdp",
    "ridge",
    "released",
)


def find_attribute(name: str) -> Attribute:
    """Look an attribute up by its name or its name in base units.

    Raises:
        UnknownNameError: there is none of that name.
    """
    folded = name.strip().lower()
    by_name = {**{attribute.base_name: attribute for attribute in ATTRIBUTES.values()}, **ATTRIBUTES}
    if folded not in by_name:
        raise UnknownNameError("column", name, ATTRIBUTES, hint=f"Columns are {', '.join(ATTRIBUTES)}.")
    return by_name[folded]
