"""Check fields of JSON documents: each refusal names the place, what is there, and what would do."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class DamageError(ValueError):
    """Why a document is refused, worded to follow the name of its file."""

    def __init__(self, place: str, given: object, wanted: str) -> None:
        super().__init__(f"{place} is {_shortened(given)}; it must be {wanted}")


def _shortened(given: object) -> str:
    if isinstance(given, dict | list):
        return f"{'an object' if isinstance(given, dict) else 'a list'} of {len(given)}"
    shown = repr(given)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def member(row: Mapping[str, Any], key: str, prefix: str) -> Any:
    """Return a member of an object, or name it as missing."""
    if key not in row:
        raise ValueError(f"{prefix}{key} is missing")
    return row[key]


def as_mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DamageError(place, value, "an object")
    return value


def as_list(value: Any, place: str) -> list[Any]:
    """Return a list, or raise if it is not a list."""
    if not isinstance(value, list):
        raise DamageError(place, value, "a list")
    return value


def as_row(value: Any, length: int, place: str, *, at_least: int | None = None) -> list[Any]:
    """Return a list of a fixed length, or of at least `at_least`."""
    if not isinstance(value, list) or not (at_least or length) <= len(value) <= length:
        raise DamageError(place, value, f"a list of {at_least or length}")
    return value


def as_columns(value: Any, place: str, names: Iterable[str]) -> Mapping[str, list[Any]]:
    """Return the named columns of an object: lists of one length."""
    row = as_mapping(value, place)
    found = {name: as_list(member(row, name, f"{place}."), f"{place}.{name}") for name in names}
    lengths = {len(column) for column in found.values()}
    if len(lengths) > 1:
        raise ValueError(f"{place} has columns of different lengths, {', '.join(map(str, sorted(lengths)))}")
    return found


def check_text(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise DamageError(place, value, "a text")


def check_texts(values: Iterable[Any], place: str) -> None:
    """Refuse a list that holds anything but texts."""
    for value in values:
        check_text(value, place)


def check_flag(value: Any, place: str) -> None:
    """Refuse a value that is neither true nor false."""
    if not isinstance(value, bool):
        raise DamageError(place, value, "true or false")


def check_choice(value: Any, place: str, known: Sequence[str]) -> None:
    """Refuse a value that is not one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise DamageError(place, value, f"one of {', '.join(known)}")


def check_whole(value: Any, place: str, *, low: int, high: int) -> None:
    """Refuse a value that is not a whole number within bounds; true is not a number."""
    if type(value) is not int or not low <= value <= high:
        raise DamageError(place, value, f"a whole number from {low} to {high}")


def are_wholes(values: Sequence[Any], *, low: int, high: int) -> bool:
    """Return True if all values are whole numbers within bounds; several times as fast as looking at each."""
    return not values or (set(map(type, values)) == {int} and low <= min(values) and max(values) <= high)


def check_wholes(values: Sequence[Any], place: str, *, low: int, high: int) -> None:
    """Refuse a list that holds anything but whole numbers within bounds."""
    if are_wholes(values, low=low, high=high):
        return
    for index, value in enumerate(values):
        if type(value) is not int or not low <= value <= high:
            raise DamageError(f"{place}[{index}]", value, f"a whole number from {low} to {high}")


def check_number(value: Any, place: str, *, low: float, high: float = math.inf) -> None:
    """Refuse a value that is not a finite number within bounds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not low <= value <= high:
        raise DamageError(place, value, f"a number from {low:g}" + ("" if math.isinf(high) else f" to {high:g}"))
