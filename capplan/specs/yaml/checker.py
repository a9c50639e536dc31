"""Gather all errors of one file while its parts are read."""

import re
from collections.abc import Collection, Mapping
from datetime import date
from enum import StrEnum
from typing import TypeVar

from capplan.core.gpus.spec import Source, SourceKind
from capplan.errors import nearest_names
from capplan.specs.yaml.strict import Problem, SpecFileError, Tree

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
        self.problems.append(Problem(file=self.file, key=key, message=message))

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
                nearest = nearest_names(key, known)
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

    def group(self, tree: Tree, name: str) -> Tree:
        """Return a nested mapping with dotted keys."""
        inner = tree.get(name, {})
        if not isinstance(inner, dict):
            self.refuse(name, f"must be keys with values, not {inner!r}")
            return {}
        return {f"{name}.{key}": value for key, value in inner.items()}

    def words(self, tree: Tree, names: tuple[str, ...], *, prefix: str = "") -> dict[str, str]:
        """Read the keys that hold bare text."""
        found = {}
        for name in names:
            if name in tree:
                word = tree[name]
                if isinstance(word, str) and word.strip():
                    found[name] = word.strip()
                else:
                    self.refuse(prefix + name, f"must be text, not {word!r}; quote it if it looks like something else")
        return found

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
        group = tree.get("sources", {})
        if not isinstance(group, dict):
            self.refuse("sources", f"must be keys with values, not {group!r}")
            return {}
        return {
            name: source
            for name, given in group.items()
            if (source := self.source(f"sources.{name}", given)) is not None
        }

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
