"""Read the fields of a model configuration strictly: a missing or absurd value is an error that names the field."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from capplan.errors import SpecError

LARGEST_SIZE = 1 << 31
"""No width, count or context of a model is above this; larger values are damage or an attack."""


class Fields:
    """The fields of one JSON object of a model configuration."""

    def __init__(self, values: Mapping[str, Any], *, where: str, defaults: Mapping[str, Any] | None = None) -> None:
        self._values = {**(defaults or {}), **values}
        self._stated = frozenset(name for name, value in values.items() if value)
        self._read: set[str] = set()
        self.where = where

    def error(self, what: str) -> SpecError:
        """Return an error about this configuration."""
        return SpecError(f"{self.where}: {what}.")

    def has(self, name: str) -> bool:
        """Return True if the field is present and is neither null nor false nor zero nor empty."""
        return bool(self._get(name))

    def names(self) -> frozenset[str]:
        """Return the names of all fields."""
        return frozenset(self._values)

    def understood(self, *names: str) -> None:
        """Count fields as read, because others that were read say the same or outrank them."""
        self._read.update(names)

    def unread(self) -> tuple[str, ...]:
        """Return the fields that say something (not null, false, zero or empty) and that nobody has read, by name."""
        return tuple(sorted(self._stated - self._read))

    def _get(self, name: str) -> Any:
        self._read.add(name)
        return self._values.get(name)

    def raw(self, name: str) -> Any:
        """Return the field as it is, None if it is absent."""
        return self._get(name)

    def size(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """Return a whole number from the first of several names of a field."""
        found = self.optional_size(*names, least=least)
        if found is not None:
            return found
        if default is None:
            raise self.error(f"the configuration has no {' or '.join(names)}")
        return default

    def optional_size(self, *names: str, least: int = 1) -> int | None:
        """Return a whole number from the first present name of a field, None if there is none."""
        self.understood(*names)
        for name in names:
            value = self._values.get(name)
            if value is None:
                continue
            if isinstance(value, list) and value and all(each == value[0] for each in value):
                value = value[0]  # Hunyuan states sizes layer by layer
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_SIZE:
                raise self.error(f"{name} must be a whole number from {least} to {LARGEST_SIZE}, not {_brief(value)}")
            return value
        return None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a true-or-false field."""
        value = self._get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(f"{name} must be true or false, not {_brief(value)}")
        return value

    def word(self, name: str) -> str | None:
        """Return a text field, None if it is absent."""
        value = self._get(name)
        if value is not None and not isinstance(value, str):
            raise self.error(f"{name} must be text, not {_brief(value)}")
        return value

    def words(self, name: str, *, length: int, known: Iterable[str]) -> list[str] | None:
        """Return a list of one known word per layer, None if the field is absent."""
        values = self._per_layer(name, length)
        if values is None:
            return None
        unknown = [value for value in values if value not in tuple(known)]
        if unknown:
            raise self.error(
                f"{name} has layers of kind {_brief(unknown[0])}, which no formula covers; "
                f"those covered are {', '.join(known)}"
            )
        return values

    def sizes(self, name: str, *, length: int) -> list[int] | None:
        """Return a list of one whole number per layer, None if the field is absent or is not a list."""
        if not isinstance(self._get(name), list):
            return None
        values = self._per_layer(name, length)
        if values is not None and not all(isinstance(value, int) for value in values):
            raise self.error(f"{name} must be a list of whole numbers")
        return values

    def indexes(self, name: str, *, length: int) -> frozenset[int]:
        """Return the layers that a list of their indexes names, none if the field is absent."""
        values = self._get(name) or []
        if not isinstance(values, list) or not all(type(value) is int and 0 <= value < length for value in values):
            raise self.error(f"{name} must be a list of indexes of {length} layers, not {_brief(values)}")
        return frozenset(values)

    def objects(self, name: str, *, length: int) -> "list[Fields]":
        """Return a list of one object per layer."""
        values = self._per_layer(name, length)
        if values is None:
            raise self.error(f"the configuration has no {name}")
        return [self._object(f"{name}[{index}]", value) for index, value in enumerate(values)]

    def object(self, name: str) -> "Fields | None":
        """Return a nested object, None if it is absent."""
        value = self._get(name)
        return None if value is None else self._object(name, value)

    def _object(self, name: str, value: Any) -> "Fields":
        if not isinstance(value, dict):
            raise self.error(f"{name} must be an object, not {_brief(value)}")
        return Fields(value, where=f"{self.where}: {name}")

    def _per_layer(self, name: str, length: int) -> list[Any] | None:
        value, drafts = self._get(name), self._values.get("num_nextn_predict_layers")
        if value is None:
            return None
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) - length not in (0, drafts):
            raise self.error(f"{name} must be a list of {length} entries, one per layer")
        return list(value)[:length]


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
