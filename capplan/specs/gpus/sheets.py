"""Check one file of specs and turn its figures into base units: a `Sheet`, not yet merged or complete."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capplan.specs.gpus.entries import Entries, EntryReader
from capplan.specs.gpus.fields import ARCHITECTURE_FIELDS, FIELDS, RULES
from capplan.specs.strict_yaml import Tree, read_yaml

GPU_WORDS = ("name", "architecture", "form_factor", "capped_from")
ARCHITECTURE_WORDS = ("name", "vendor", "unit")

_PEAK_KEYS = dict.fromkeys(key for key in FIELDS if key.startswith("peak."))
_MEASURED_KEYS = dict.fromkeys(key for key in FIELDS if key.startswith("measured."))
_GPU_KEYS = dict.fromkeys(
    (
        *(*GPU_WORDS, "aliases", *(key for key in FIELDS if "." not in key)),
        *("peak", "measured", "exemptions", "notes", "sources"),
    )
)
_OPERATION_KEYS = dict.fromkeys(key for key in ARCHITECTURE_FIELDS if "." in key)
_ARCHITECTURE_KEYS = dict.fromkeys(
    (
        *ARCHITECTURE_WORDS,
        *(key for key in ARCHITECTURE_FIELDS if "." not in key),
        *("operations_per_clock", "notes", "sources"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """A rule of validation that named keys of one file need not keep, and why."""

    rule: str
    keys: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What one file says; `entries` and `words` hold only the keys that it gives."""

    id: str
    file: str
    words: Mapping[str, str]
    aliases: tuple[str, ...] = ()
    entries: Entries = field(default_factory=Entries)
    exemptions: tuple[Exemption, ...] = ()
    notes: tuple[str, ...] = ()


def read_gpu_sheet(path: Path, *, shown: str, origin: str) -> Sheet:
    """Read a GPU's file; its stem is the id.

    Raises:
        SpecFileError: everything that is wrong with the file.
    """
    checker = _SheetReader(shown, origin)
    tree = read_yaml(path, shown=shown)
    checker.check_id(path.stem)
    sources = checker.sources(tree)
    peaks, measured = checker.group(tree, "peak"), checker.group(tree, "measured")
    sheet = Sheet(
        id=path.stem,
        file=shown,
        words=checker.words(tree, GPU_WORDS),
        aliases=checker.texts(tree, "aliases"),
        entries=checker.entries({**tree, **peaks, **measured}, FIELDS, sources),
        exemptions=checker.exemptions(tree),
        notes=checker.texts(tree, "notes"),
    )
    checker.unknown_keys(tree, _GPU_KEYS, "")
    checker.unknown_keys(peaks, _PEAK_KEYS, "")
    checker.unknown_keys(measured, _MEASURED_KEYS, "")
    checker.finish(sources)
    return sheet


def read_architecture_sheet(path: Path, *, shown: str, origin: str) -> Sheet:
    """Read an architecture's file; its stem is the id.

    Raises:
        SpecFileError: everything that is wrong with the file.
    """
    checker = _SheetReader(shown, origin)
    tree = read_yaml(path, shown=shown)
    checker.check_id(path.stem)
    sources = checker.sources(tree)
    operations = checker.group(tree, "operations_per_clock")
    sheet = Sheet(
        id=path.stem,
        file=shown,
        words=checker.words(tree, ARCHITECTURE_WORDS),
        entries=checker.entries({**tree, **operations}, ARCHITECTURE_FIELDS, sources),
        notes=checker.texts(tree, "notes"),
    )
    checker.unknown_keys(tree, _ARCHITECTURE_KEYS, "")
    checker.unknown_keys(operations, _OPERATION_KEYS, "")
    checker.missing_words(sheet.words, ("name", "vendor"))
    checker.finish(sources)
    return sheet


class _SheetReader(EntryReader):
    """Reads what only files of GPUs hold."""

    def exemptions(self, tree: Tree) -> tuple[Exemption, ...]:
        """Read the stated exceptions from the rules of validation."""
        items = tree.get("exemptions", [])
        if not isinstance(items, list):
            self.refuse("exemptions", "must be a list of rule, keys and reason")
            return ()
        return tuple(
            found
            for index, given in enumerate(items)
            if (found := self._exemption(f"exemptions[{index}]", given)) is not None
        )

    def _exemption(self, key: str, given: object) -> Exemption | None:
        if not isinstance(given, dict) or set(given) != {"rule", "keys", "reason"}:
            self.refuse(key, "must have exactly rule, keys and reason")
            return None
        if given["rule"] not in RULES:
            self.refuse(f"{key}.rule", f"{given['rule']!r} is not a rule; rules are {', '.join(RULES)}")
            return None
        keys, reason = given["keys"], given["reason"]
        if not isinstance(keys, list) or not all(isinstance(name, str) and name in FIELDS for name in keys):
            self.refuse(f"{key}.keys", f"must be a list of keys of this file, such as peak.bf16, not {keys!r}")
            return None
        if not isinstance(reason, str):
            self.refuse(f"{key}.reason", "must say why")
            return None
        return Exemption(rule=given["rule"], keys=tuple(keys), reason=reason)
