"""Escape what a text may do to a terminal: control characters, escape sequences and hidden changes of direction.

Names come from traces, specs, measurements and other people's models. No answer, in any format, and no message
carries such a character as it is: it stands there as its code, in the form that JSON knows.
"""

import operator
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed, the 8-bit ones included
    "\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"  # line separators and changes of direction
    "\ud800-\udfff"  # half characters, which no file can hold: Python's stand-ins for bytes that are not UTF-8
    "]"
)
_UNSAFE_IN_ONE_LINE = re.compile(f"{_UNSAFE.pattern}|[\t\n]")


def printable(text: str) -> str:
    r"""Return a text with every unsafe character as its code, such as \u001b; tabs and line feeds stay."""
    return _UNSAFE.sub(_code, text)


def printable_line(text: str) -> str:
    r"""Return a text that stays on one line: tabs and line feeds are escaped as well."""
    return _UNSAFE_IN_ONE_LINE.sub(_code, text) if _UNSAFE_IN_ONE_LINE.search(text) else text


def printable_fields(value: Any) -> Any:
    """Return a value in which every text, however deep in dataclasses, structs, tuples and mappings, stays on one line.

    A part that holds no unsafe text is returned as it is, not copied.
    """
    if isinstance(value, str):
        return printable_line(value) if type(value) is str else value
    if isinstance(value, tuple):
        made = tuple(map(printable_fields, value))
        return value if all(map(operator.is_, made, value)) else made
    if isinstance(value, Mapping):
        escaped = {printable_fields(key): printable_fields(item) for key, item in value.items()}
        same = all(map(operator.is_, escaped, value)) and all(map(operator.is_, escaped.values(), value.values()))
        return value if same else escaped
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        changed = {name: made for name, old in held.items() if (made := printable_fields(old)) is not old}
        return replace(value, **changed) if changed else value
    if names := getattr(type(value), "__struct_fields__", ()):
        parts = {name: printable_fields(getattr(value, name)) for name in names}
        return value if all(part is getattr(value, name) for name, part in parts.items()) else type(value)(**parts)
    return value


def _code(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
