"""Read YAML without its surprises: no anchors, tags or repeated keys; and all errors of a file gathered."""

import re
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import yaml

from capplan.core.gpus.spec import Source, SourceKind
from capplan.errors import SpecError, nearest_names
from capplan.specs.kept_trees import kept_trees
from capplan.wording import as_keys


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

YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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
    content = _read_content(path, name)
    kept = kept_trees(path)
    found = None if kept is None else kept.find(content)
    if found is not None:
        return found
    tree = _parsed(name, _text(content, name))
    if kept is not None:
        kept.keep(content, tree)
    return tree


def _parsed(name: str, text: str) -> Tree:
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


def read_versioned(path: Path, *, what: str, version: int, shown: str | None = None) -> Tree:
    """Read a file of a schema's version, and return what it holds besides the version.

    Raises:
        SpecError: it cannot be read, is not strict YAML, or is of another schema.
    """
    tree = read_yaml(path, shown=shown)
    stated = tree.pop("schema_version", None)
    if type(stated) is not int or stated != version:
        raise SpecError(f"{shown or path} is not {what} of schema_version {version}.")
    return tree


def stated_number(row: object, key: str, where: str, *, low: float, high: float) -> float:
    """Return a number that a row of a file states.

    Raises:
        SpecError: it is missing, no number, or out of range.
    """
    number = row.get(key) if isinstance(row, dict) else None
    if isinstance(number, bool) or not isinstance(number, int | float) or not low <= number <= high:
        raise SpecError(f"{where}.{key} must be a number from {low:g} to {high:g}.")
    return float(number)


def dump_yaml(document: Tree, *, digits: int | None = None) -> str:
    """Write a document as YAML; the same one gives the same text."""
    plain = document if digits is None else rounded_numbers(document, digits)
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def rounded_numbers(value: Any, digits: int) -> Any:
    """Return a document with its fractions rounded to some significant digits, and lists in the place of tuples."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {key: rounded_numbers(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded_numbers(item, digits) for item in value]
    return value


def _read_content(path: Path, name: str) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(name, "is not a file")
        if status.st_size > MAX_FILE_BYTES:
            raise _refusal(name, f"{status.st_size:,} bytes; a file of specs has at most {MAX_FILE_BYTES:,}")
        with path.open("rb") as stream:
            return stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _refusal(name, f"cannot be read ({error.strerror or error})") from error


def _text(content: bytes, name: str) -> str:
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
        self._next: Callable[[], Any] = YAML_LOADER(text).get_event

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
                self._refuse(
                    f"{text} is not a plain number; write it like 12, 0.5 or 1.0e+12, or quote it if it is text"
                )
            return text
        if first in "yYnNoOtTfF~" and text.lower() in _MISREAD:
            self._refuse(f"YAML does not read {text!r} as text; quote it, or write true, false or null")
        return text


_SOURCE_KEYS = ("kind", "title", "publisher", "url", "retrieved")
_ID = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")

Member = TypeVar("Member", bound=StrEnum)


class Checker:
    """Gathers the problems of one file; what cannot be read is refused and left out."""

    def __init__(self, file: str, origin: str) -> None:
        self.file = file
        self.origin = origin
        self.problems: list[Problem] = []
        self.used: set[str] = set()

    def refuse(self, key: str, message: str) -> None:
        """Note one problem."""
        self.problems.append(Problem(file=self.file, key=key, message=as_keys(message)))

    def check_id(self, stem: str) -> None:
        """Refuse an id with anything but small letters, digits and dashes."""
        if not _ID.fullmatch(stem):
            self.refuse("", f"the id {stem!r} (the file's stem) must be small letters, digits and single dashes")

    def finish(self, sources: Mapping[str, Source]) -> None:
        """Refuse unused sources, then the whole file if anything was noted."""
        for name in sources:
            if name not in self.used:
                self.refuse(f"sources.{name}", "is used by no value; drop it")
        if self.problems:
            raise SpecFileError(self.problems)

    def unknown_keys(self, tree: Tree, known: Collection[str], prefix: str) -> None:
        """Refuse keys that mean nothing here."""
        for key in tree:
            if key not in known:
                nearest = nearest_names(str(key), known)  # a mapping of Python may have keys that are not texts
                meant = f"did you mean {', '.join(nearest)}?" if nearest else f"known are {', '.join(known)}"
                self.refuse(f"{prefix}{key}", f"unknown key; {meant}")

    def missing_words(self, words: Mapping[str, str], names: tuple[str, ...]) -> None:
        """Refuse a file without the words that it must have."""
        for name in names:
            if name not in words:
                self.refuse(name, "is missing")

    def member(self, key: str, given: object, members: type[Member]) -> Member | None:
        """Read one of a fixed set of words."""
        try:
            return members(str(given))
        except ValueError:
            self.refuse(key, f"{given!r} is not known; use {', '.join(members)}")
            return None

    def mapping(self, tree: Tree, name: str) -> Tree:
        """Return a nested mapping, empty where it is missing or refused."""
        inner = tree.get(name, {})
        if not isinstance(inner, dict):
            self.refuse(name, f"must be keys with values, not {inner!r}")
            return {}
        return inner

    def group(self, tree: Tree, name: str) -> Tree:
        """Return a nested mapping with dotted keys."""
        return {f"{name}.{key}": value for key, value in self.mapping(tree, name).items()}

    def words(self, tree: Tree, names: tuple[str, ...], *, prefix: str = "") -> dict[str, str]:
        """Read the keys that hold bare text."""
        texts = {}
        for name in names:
            if name in tree:
                word = tree[name]
                if isinstance(word, str) and word.strip():
                    texts[name] = word.strip()
                else:
                    self.refuse(prefix + name, f"must be text, not {word!r}; quote it if it looks like something else")
        return texts

    def texts(self, tree: Tree, name: str) -> tuple[str, ...]:
        """Read a list of texts, none twice."""
        items = tree.get(name, [])
        if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
            self.refuse(name, f"must be a list of texts, not {items!r}")
            return ()
        if len(set(items)) < len(items):
            self.refuse(name, "holds the same text twice; keep one")
        return tuple(items)

    def sources(self, tree: Tree) -> dict[str, Source]:
        """Read the sources that values name."""
        group = self.mapping(tree, "sources").items()
        return {name: source for name, given in group if (source := self.source(f"sources.{name}", given)) is not None}

    def source(self, key: str, given: object) -> Source | None:
        """Read one source."""
        if not isinstance(given, dict):
            self.refuse(key, "must have kind and title")
            return None
        self.unknown_keys(given, _SOURCE_KEYS, f"{key}.")
        words = self.words(given, ("title", "publisher", "url"), prefix=f"{key}.")
        kind, retrieved = self.member(f"{key}.kind", given.get("kind"), SourceKind), given.get("retrieved")
        if kind is None:
            return None
        if "title" not in words:
            self.refuse(f"{key}.title", "a source needs a title")
            return None
        if retrieved is not None and type(retrieved) is not date:
            self.refuse(f"{key}.retrieved", f"must be a day as YYYY-MM-DD, not {retrieved!r}")
            return None
        if kind in (SourceKind.DATASHEET, SourceKind.SECONDARY) and retrieved is None:
            self.refuse(f"{key}.retrieved", "somebody else's document needs the day it was read, as YYYY-MM-DD")
        return Source(
            kind=kind,
            title=words["title"],
            publisher=words.get("publisher"),
            url=words.get("url"),
            retrieved=retrieved,
        )
