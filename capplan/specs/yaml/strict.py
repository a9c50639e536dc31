"""Read YAML without its surprises: no anchors, tags or repeated keys, and no word that YAML means otherwise.

Plain YAML keeps the last of two equal keys, reads `no` as false and `1e12` as text, and expands
anchors without bound. Here each of these is refused, with its key.
"""

import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from capplan.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to mend in a file; `key` is dotted, empty where the file as a whole is meant."""

    file: str
    key: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.key, self.message) if part)


class SpecFileError(SpecError):
    """A file of specs that was refused whole; its message lists every problem, one per line.

    A problem that several keys have is one line, at the place of the first.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        alike: dict[tuple[str, str], list[Problem]] = {}
        for problem in self.problems:
            alike.setdefault((problem.file, problem.message), []).append(problem)
        super().__init__("\n".join(_line(group) for group in alike.values()))


_MOST_ALIKE = 3
"""Keys with the same problem that each have a line of their own."""


def _line(group: Sequence[Problem]) -> str:
    if len(group) <= _MOST_ALIKE:
        return "\n".join(map(str, group))
    keys = [problem.key for problem in group[1:]]
    return f"{group[0]}; so at {len(keys)} further keys: {', '.join(keys[:_MOST_ALIKE])}, ..."


MAX_FILE_BYTES = 1_000_000
_MAX_DEPTH = 12
_LARGEST_NUMBER = 1e30

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:e[+-][0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER_LIKE = re.compile(
    r"[+-]?(?:[0-9][0-9_]*)?\.?[0-9_]*(?:[eE][+-]?[0-9]+)?|0[xob][0-9a-fA-F_]+|[0-9]+(?::[0-9]+)+"
)
_CONSTANTS = {"null": None, "true": True, "false": False}
_MISREAD = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", ".inf", "-.inf", "+.inf", ".nan"}

_NO_ANCHORS = "anchors and aliases (&, *) are not read; write the value out"
_SCALAR = yaml.ScalarEvent

Tree = dict[str, Any]


def read_yaml(path: Path, *, shown: str | None = None) -> Tree:
    """Read a file whose top level is a mapping.

    Returns:
        Mappings, lists, text, numbers, booleans, dates and None, nothing else.

    Raises:
        SpecFileError: the file cannot be read, is too large, or is not this strict YAML; all that is
            wrong with it at once, as far as it can be read.
    """
    name = shown or str(path)
    text = _read_text(path, name)
    reader = _Reader(name, text)
    try:
        tree = reader.read()
    except yaml.YAMLError as error:
        raise SpecFileError([*reader.problems, Problem(file=name, key="", message=_syntax(error, text))]) from error
    if reader.problems:
        raise SpecFileError(reader.problems)
    if not isinstance(tree, dict):
        raise SpecFileError([Problem(file=name, key="", message="the top level must be keys with values")])
    return tree


def _read_text(path: Path, name: str) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(name, "is not a file")
        if status.st_size > MAX_FILE_BYTES:
            raise _refusal(name, f"{status.st_size:,} bytes; a file of specs has at most {MAX_FILE_BYTES:,}")
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _refusal(name, f"cannot be read ({error.strerror or error})") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _refusal(name, f"line {line}: byte {content[error.start]:#04x} is no UTF-8; save it as UTF-8") from error


def _refusal(name: str, message: str) -> SpecFileError:
    return SpecFileError([Problem(file=name, key="", message=message)])


def _syntax(error: yaml.YAMLError, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark is None:
        return str(problem)
    line = "".join(text.split("\n")[mark.line : mark.line + 1])
    if "\t" in line[: len(line) - len(line.lstrip())]:
        problem = "a tab indents; indent with blanks"
    return f"line {mark.line + 1}: {problem}"


class _Reader:
    """Builds plain values from the parser's events and notes what it refuses, by the path of keys that leads there."""

    def __init__(self, name: str, text: str) -> None:
        self.problems: list[Problem] = []
        self._name = name
        self._path: list[str] = []
        self._next: Callable[[], Any] = _LOADER(text).get_event

    def read(self) -> object:
        """Read the only document."""
        tree: object = None
        documents = 0
        while (event := self._next()) is not None:
            if type(event) is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    self._refuse("a second document begins; a file holds one")
                    break
                tree = self._value(self._next())
        return tree

    def _refuse(self, message: str) -> None:
        self.problems.append(Problem(file=self._name, key=".".join(self._path).replace(".[", "["), message=message))

    def _value(self, event: Any) -> object:
        kind = type(event)
        if kind is _SCALAR:
            return self._scalar(event)
        if kind is yaml.AliasEvent or event.anchor is not None:
            self._refuse(_NO_ANCHORS)
        if kind is yaml.AliasEvent:
            return None
        if event.tag is not None:
            self._refuse(f"tags are not read; drop {event.tag!r}")
        if len(self._path) >= _MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem="nested too deep", problem_mark=event.start_mark)
        return self._mapping() if kind is yaml.MappingStartEvent else self._sequence()

    def _mapping(self) -> Tree:
        tree: Tree = {}
        following, path = self._next, self._path
        while type(event := following()) is not yaml.MappingEndEvent:
            if type(event) is not _SCALAR:
                self._refuse("a key must be a word")
                self._value(event)
                self._value(following())
                continue
            word = event.value
            path.append(word)
            value = self._value(following())
            if word in tree:
                self._refuse("is given twice; keep one")
            else:
                tree[word] = value
            path.pop()
        return tree

    def _sequence(self) -> list[object]:
        items: list[object] = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            self._path.append(f"[{len(items)}]")
            items.append(self._value(event))
            self._path.pop()
        return items

    def _scalar(self, event: Any) -> object:
        text: str = event.value
        if event.anchor is not None:
            self._refuse(_NO_ANCHORS)
        if event.tag is not None:
            self._refuse(f"tags are not read; drop {event.tag!r}")
        if not event.implicit[0]:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if not text:
            self._refuse("is empty; write a value, null for unsupported, or leave the key out")
            return None
        first = text[0]
        if first in "0123456789+-.":
            return self._number_or_text(text)
        if first in "yYnNoOtTfF~" and text.lower() in _MISREAD:
            self._refuse(f"YAML does not read {text!r} as text; quote it, or write true, false or null")
        return text

    def _number_or_text(self, text: str) -> object:
        if _INTEGER.fullmatch(text) and len(text) < 20:
            return int(text)
        if _DECIMAL.fullmatch(text) and len(text) < 30:
            value = float(text)
            if abs(value) > _LARGEST_NUMBER or (value and abs(value) < 1 / _LARGEST_NUMBER):
                self._refuse(f"{text} is out of range; numbers lie between 1e-30 and 1e+30")
            return value
        if _DATE.fullmatch(text):
            try:
                return date.fromisoformat(text)
            except ValueError:
                self._refuse(f"{text} is not a day of the calendar")
                return None
        if text.lower() in _MISREAD or _NUMBER_LIKE.fullmatch(text):
            self._refuse(f"{text} is not a plain number; write it like 12, 0.5 or 1.0e+12, or quote it if it is text")
        return text
