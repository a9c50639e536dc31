"""Read the keys of a file that people write as fields of a question, so that a key is refused as its option is."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING
from typing import Any

from capplan.errors import CapplanError, UsageError
from capplan.specs.strict_yaml import Checker
from capplan.verbs.statement.options import Door, Field, words_at
from capplan.verbs.statement.read import read_field
from capplan.wording import worded


def fields_by_key(fields: Iterable[Field], door: Door) -> dict[str, Field]:
    """Return the fields that a file of a door may hold, by their keys: the options' names with underscores."""
    return {field.file_key: field for field in fields if field.option.doors & door}


class KeyReader(Checker):
    """Reads fields from the keys of one file, and gathers what is refused."""

    def field(self, key: str, field: Field, value: Any, *, door: Door) -> Any:
        """Read one value; MISSING where it is refused, in the words that the field's option would be refused in.

        A bare number in a load file is read as the text that an option holds, because a quantity needs its unit there.
        """
        words = field.option.words
        if door is Door.LOAD and words is not None and words.is_number and type(value) in (int, float):
            value = str(value)
        try:
            return read_field(field, value, what="", door=door)
        except UsageError as error:
            self.refuse(key, str(error).removeprefix(":").strip().removesuffix("."))
            return MISSING

    def fields(self, tree: Mapping[str, Any], known: Mapping[str, Field], *, door: Door) -> dict[str, Any]:
        """Read every key that names a field, and return the values by the fields' names; others are refused."""
        self.unknown_keys(dict(tree), known, "")
        stated = {key: self.field(key, known[key], value, door=door) for key, value in tree.items() if key in known}
        return {known[key].name: value for key, value in stated.items() if value is not MISSING}


@contextmanager
def named_by_keys(shown: str, fields: Iterable[Field]) -> Iterator[None]:
    """Name a file and its keys in a refusal of what several keys state together."""
    try:
        yield
    except CapplanError as error:
        error.args = (f"{shown}: {worded(str(error), words_at(fields, Door.LOAD))}", *error.args[1:])
        raise
