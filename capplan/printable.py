"""Escape what a text may do to a terminal: control characters, escape sequences and hidden changes of direction.

Names come from traces, specs, measurements and other people's models. No answer, in any format, and no message
carries such a character as it is: it stands there as its code, in the form that JSON knows.
"""

import re
from typing import Any

from capplan.wording import with_texts

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
    """Return a value in which every text, however deep in dataclasses, structs, tuples and mappings, stays on one
    line.
    """
    return with_texts(value, printable_line)


def _code(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
