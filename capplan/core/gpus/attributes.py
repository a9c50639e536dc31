"""The figures of GPUs by name, the columns of `capplan gpus`: read, written, filtered, sorted and compared.

The notes at the end say what a GPU asks of those who run it: another software stack, or a driver's licence.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from capplan.core.gpus.spec import GpuSpec, PeakKind, Status
from capplan.errors import UnknownNameError, UsageError
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
    parse_quantity,
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
        _words("sold-since", "sold_since", _field("sold_since")),
        _words("end-of-sale", "end_of_sale", _field("end_of_sale")),
        _words("expected", "expected", _field("expected")),
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
    "id", "arch", "memory", "bandwidth", "fp32", "tf32", "fp16", "bf16", "fp8", "tdp", "ridge", "released",
)  # fmt: skip
ANNOUNCED_COLUMNS = ("id", "arch", "memory", "memory-type", "bandwidth", "bf16", "fp8", "fp4", "nvlink", "expected")


def find_attribute(name: str) -> Attribute:
    """Look an attribute up by its name or its name in base units."""
    folded = name.strip().lower()
    by_name = {**{attribute.base_name: attribute for attribute in ATTRIBUTES.values()}, **ATTRIBUTES}
    if folded not in by_name:
        raise UnknownNameError("column", name, ATTRIBUTES, hint=f"Columns are {', '.join(ATTRIBUTES)}.")
    return by_name[folded]


_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_DAYS = ("released", "sold-since", "end-of-sale")
_CONDITION = re.compile(r"\s*([a-z0-9_-]+)\s*(>=|<=|!=|==|=|>|<)\s*(.+?)\s*")
_EQUALITY_TOLERANCE = 5e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A comparison such as `bf16 >= 300 TFLOP/s`; what is unsupported or unknown meets none but its own name."""

    attribute: Attribute
    operator: str
    wanted: float | str | Absence

    def holds(self, spec: GpuSpec) -> bool:
        """Return whether a GPU meets it; numbers are equal within the half percent that a listing rounds off."""
        value = self.attribute.value(spec)
        if isinstance(self.wanted, Absence):
            return (value is self.wanted) == (self.operator != "!=")
        if isinstance(value, Absence):
            return False
        if isinstance(self.wanted, str):
            return self._holds_for_words(str(value), self.wanted)
        if not isinstance(value, int | float):
            return False
        if self.operator in ("=", "==", "!="):
            close = abs(value - self.wanted) <= _EQUALITY_TOLERANCE * abs(self.wanted)
            return close == (self.operator != "!=")
        return _ORDERS[self.operator](value, self.wanted)

    def _holds_for_words(self, value: str, wanted: str) -> bool:
        if self.operator in _ORDERS:  # days alone, which sort as they are written
            return _ORDERS[self.operator](value, wanted)
        return (value.casefold() == wanted.casefold()) == (self.operator != "!=")


def parse_conditions(text: str) -> list[Condition]:
    """Read comparisons joined by `and`, such as `bf16 >= 300 TFLOP/s and memory >= 80 GiB`."""
    return [_parse_condition(part) for part in re.split(r"\s+and\s+|\s*,\s*", text.strip())]


def _parse_condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"⟨where⟩ {text!r} is not a comparison; write 'bf16 >= 300 TFLOP/s' or 'arch = Hopper'.")
    attribute = find_attribute(match[1])
    sign, words = match[2], match[3].strip("'\"")
    if words in (Absence.UNSUPPORTED, Absence.UNKNOWN) and sign in ("=", "==", "!="):
        return Condition(attribute=attribute, operator=sign, wanted=Absence(words))
    if attribute.units is not None:
        wanted = parse_quantity(words, attribute.units, what=f"⟨where⟩ {attribute.name}")
        return Condition(attribute=attribute, operator=sign, wanted=wanted)
    if sign not in ("=", "==", "!=") and attribute.name not in _DAYS:
        raise UsageError(f"⟨where⟩ {text!r}: {attribute.name} is a word; compare it with = or !=.")
    return Condition(attribute=attribute, operator=sign, wanted=words)


def at_least(name: str, text: str, *, what: str) -> Condition:
    """Read a smallest value, such as "24GiB", of an attribute that has units."""
    attribute = find_attribute(name)
    return Condition(attribute=attribute, operator=">=", wanted=parse_quantity(text, attribute.units or {}, what=what))


def select_gpus(
    specs: Iterable[GpuSpec],
    *,
    vendors: Sequence[str] = (),
    architectures: Sequence[str] = (),
    conditions: Sequence[Condition] = (),
) -> list[GpuSpec]:
    """Keep the GPUs of the vendors and architectures named that meet all conditions."""
    known = list(specs)
    wanted_vendors = {_one_of("vendor", name, [spec.vendor for spec in known]) for name in vendors}
    families = [spec.architecture for spec in known]
    designs = [spec.architecture_id for spec in known]
    wanted_architectures = {_one_of("architecture", name, families, designs) for name in architectures}
    return [
        spec
        for spec in known
        if (not wanted_vendors or spec.vendor.casefold() in wanted_vendors)
        and (not wanted_architectures or wanted_architectures & {spec.architecture.casefold(), spec.architecture_id})
        and all(condition.holds(spec) for condition in conditions)
    ]


def _one_of(kind: str, name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    names = dict.fromkeys(known)
    every = [*names, *also]
    if name.casefold() not in {name.casefold() for name in every}:
        raise UnknownNameError(kind, name, every, hint=f"Known are {', '.join(sorted(names))}.")
    return name.casefold()


def sort_gpus(specs: Iterable[GpuSpec], key: str) -> list[GpuSpec]:
    """Sort by a column, largest first with a leading `-`; what has no value stands last."""
    descending = key.startswith("-")
    attribute = find_attribute(key.removeprefix("-"))
    listed = list(specs)
    known = [spec for spec in listed if not isinstance(attribute.value(spec), Absence)]
    rest = [spec for spec in listed if isinstance(attribute.value(spec), Absence)]
    known.sort(key=lambda spec: _sortable(attribute.value(spec)), reverse=descending)
    return known + rest


def _sortable(value: Value) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value).casefold())


def ratios_to_first(values: Sequence[Value]) -> list[float | None]:
    """Return every value as a multiple of the first; None where either is not a number."""
    first = values[0] if values else None
    if isinstance(first, Absence) or not isinstance(first, int | float) or not first:
        return [None] * len(values)
    return [value / first if isinstance(value, int | float) else None for value in values]


_LICENSED_NAMES = ("NVIDIA GeForce", "NVIDIA TITAN", "NVIDIA Titan")

GEFORCE_LICENCE = (
    "NVIDIA's driver licence: GeForce and Titan software is licensed for use only on hardware that you own and "
    '"is not licensed for datacenter deployment" (License Agreement for NVIDIA Drivers, section 2.8, as '
    "public documents of September 2026 quote it; before, License For Customer Use of NVIDIA GeForce Software, 2.1.3). "
    "The licence does not define a data centre. It binds the driver, not the card. Ask your counsel before you sign."
)
"""The clause of the licence, and where it was read; see `docs/report.md`."""

_STACKS = {"AMD": "ROCm", "Intel": "oneAPI or, on Gaudi, SynapseAI", "Apple": "Metal", "Amazon": "AWS Neuron"}


def porting_note(spec: GpuSpec) -> str | None:
    """Return what running on a GPU without CUDA asks for; None for NVIDIA's."""
    if spec.vendor == "NVIDIA":
        return None
    stack = _STACKS.get(spec.vendor, "its vendor's own software")
    return (
        f"runs PyTorch on {stack}, not on CUDA: custom CUDA kernels, TensorRT engines and compiled wheels do not run "
        "on it, and container images, drivers and tests must be made anew. That effort is not in the cost."
    )


def driver_licence(spec: GpuSpec) -> str | None:
    """Return what a GPU's driver licence forbids in a data centre; None where nothing is known to be forbidden."""
    return GEFORCE_LICENCE if spec.name.startswith(_LICENSED_NAMES) else None
