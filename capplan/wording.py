"""Names of fields inside messages: lower layers mark them, and each door words them once.

A message of `core` does not know how people write a field. It marks the field's key, as in "⟨max-latency⟩ must be above
0": the command line then prints --max-latency, Python max_latency_s, a service the name in its JSON, the page the label
of its form, and a file its key. A mark is as long as the option, so that text which is laid out before it is worded
keeps its lines on the command line.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

_MARK = re.compile(r"⟨([a-z][a-z0-9-]*)⟩")

WordOf = Callable[[str], str]
"""Returns a door's word for the field of a key."""


def worded(text: str, word_of: WordOf) -> str:
    """Return a text in which every marked key has become a door's word for its field."""
    return _MARK.sub(lambda mark: word_of(mark[1]), text) if "⟨" in text else text


def option_of(key: str) -> str:
    """Return the option of the command line for the field of a key."""
    return f"--{key}"


def as_options(text: str) -> str:
    """Return a text in which marked keys are options of the command line."""
    return worded(text, option_of)


def as_keys(text: str) -> str:
    """Return a text in which marked keys are those of a file, such as max_latency."""
    return worded(text, lambda key: key.replace("-", "_"))


def worded_fields(value: Any, word_of: WordOf, *, skipped: tuple[type, ...] = ()) -> Any:
    """Return a value in which every text has a door's words, however deep in dataclasses, structs, tuples and
    mappings.
    """
    return with_texts(value, lambda text: worded(text, word_of), skipped=skipped)


def with_texts(value: Any, change: Callable[[str], str], *, skipped: tuple[type, ...] = ()) -> Any:
    """Return a value with every text changed, however deep in dataclasses, structs, lists, tuples and mappings.

    A part that stays the same is returned as it is, not copied; one that is held twice is changed once.
    """
    made: dict[int, Any] = {}

    def parts_changed(part: Any) -> Any:
        if isinstance(part, list):
            items = [changed(item) for item in part]
            return part if all(map(operator.is_, items, part)) else items
        if isinstance(part, tuple):
            items = [changed(item) for item in part]
            if all(map(operator.is_, items, part)):
                return part
            return type(part)(*items) if hasattr(part, "_fields") else tuple(items)
        if isinstance(part, Mapping):
            pairs = {changed(key): changed(item) for key, item in part.items()}
            same = all(map(operator.is_, pairs, part)) and all(map(operator.is_, pairs.values(), part.values()))
            return part if same else pairs
        if is_dataclass(part) and not isinstance(part, type):
            names = [field.name for field in fields(part) if field.init]
            renewed = {name: new for name in names if (new := changed(old := getattr(part, name))) is not old}
            return replace(part, **renewed) if renewed else part
        if held := getattr(type(part), "__struct_fields__", ()):
            renewed = {name: changed(getattr(part, name)) for name in held}
            return part if all(renewed[name] is getattr(part, name) for name in held) else type(part)(**renewed)
        return part

    def changed(part: Any) -> Any:
        if type(part) is str:
            return change(part)
        if part is None or isinstance(part, (int, float, str, *skipped)):
            return part
        if id(part) not in made:
            made[id(part)] = parts_changed(part)
        return made[id(part)]

    return changed(value)
