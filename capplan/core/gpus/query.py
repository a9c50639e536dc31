"""Filter, sort and compare GPUs by their attributes."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from capplan.core.gpus.attributes import Absence, Attribute, Value, find_attribute
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import UnknownNameError, UsageError
from capplan.units import parse_quantity

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "==": operator.eq,
    ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip
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
        return _OPERATORS[self.operator](value, self.wanted)

    def _holds_for_words(self, value: str, wanted: str) -> bool:
        if self.attribute.name == "released":
            ordered = {">=": value >= wanted, "<=": value <= wanted, ">": value > wanted, "<": value < wanted}
            if self.operator in ordered:
                return ordered[self.operator]
        return (value.casefold() == wanted.casefold()) == (self.operator != "!=")


def parse_conditions(text: str) -> list[Condition]:
    """Read comparisons joined by `and`, such as `bf16 >= 300 TFLOP/s and memory >= 80 GiB`.

    Raises:
        UsageError: a part is not a comparison, or its value has no unit of the column.
    """
    return [_parse_condition(part) for part in re.split(r"\s+and\s+|\s*,\s*", text.strip())]


def _parse_condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"--where {text!r} is not a comparison; write 'bf16 >= 300 TFLOP/s' or 'arch = Hopper'.")
    attribute = find_attribute(match[1])
    sign, words = match[2], match[3].strip("'\"")
    if words in (Absence.UNSUPPORTED, Absence.UNKNOWN) and sign in ("=", "==", "!="):
        return Condition(attribute=attribute, operator=sign, wanted=Absence(words))
    if attribute.units is not None:
        wanted = parse_quantity(words, attribute.units, what=f"--where {attribute.name}")
        return Condition(attribute=attribute, operator=sign, wanted=wanted)
    if sign not in ("=", "==", "!=") and attribute.name != "released":
        raise UsageError(f"--where {text!r}: {attribute.name} is a word; compare it with = or !=.")
    return Condition(attribute=attribute, operator=sign, wanted=words)


def at_least(name: str, text: str, *, what: str) -> Condition:
    """Read a smallest value, such as "24GiB", of an attribute that has units.

    Raises:
        UsageError: the text is not a quantity.
    """
    attribute = find_attribute(name)
    return Condition(attribute=attribute, operator=">=", wanted=parse_quantity(text, attribute.units or {}, what=what))


def select_gpus(
    specs: Iterable[GpuSpec],
    *,
    vendors: Sequence[str] = (),
    architectures: Sequence[str] = (),
    conditions: Sequence[Condition] = (),
) -> list[GpuSpec]:
    """Keep the GPUs of the vendors and architectures named that meet all conditions.

    Raises:
        UnknownNameError: no GPU has such a vendor or architecture.
    """
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
    if name.casefold() not in {each.casefold() for each in every}:
        raise UnknownNameError(kind, name, every, hint=f"Known are {', '.join(sorted(names))}.")
    return name.casefold()


def sort_gpus(specs: Iterable[GpuSpec], key: str) -> list[GpuSpec]:
    """Sort by a column, largest first with a leading `-`; what has no value stands last.

    Raises:
        UnknownNameError: there is no such column.
    """
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
