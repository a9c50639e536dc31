"""Read and write `rates.yaml`: the laws that hold for all GPUs, each section with the data and the command of its own.

The file's sections are made by different commands from different data. A command replaces its sections and leaves the
others as they are.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from capplan.core.gpus.rate_laws import (
    BurstExponents,
    CopyShares,
    DataParallelLaws,
    HostAges,
    QuantisedLaws,
    RateLaws,
    StreamingCost,
    SustainedLaws,
    SustainedShareLaw,
    Transfer,
)
from capplan.core.gpus.software import DtypeGap, Emulated, FrameworkRuns, OperatorHome, SoftwareSupport
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.quantisation.schemes import SCHEMES
from capplan.core.records import NumberRange, RecordRules
from capplan.core.workload import Framework
from capplan.files import Stamp, stamp
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import Tree, dump_yaml, read_versioned
from capplan.specs.values import RecordFile, YamlRecordReader

SCHEMA_VERSION = 1
RATES_FILE = "rates.yaml"
_PARTS: Mapping[str, type] = {
    "half": SustainedShareLaw, "single": SustainedShareLaw, "copies": CopyShares, "burst": BurstExponents,
    "streaming": StreamingCost, "hosts": HostAges, "transfer": Transfer, "quantised": QuantisedLaws,
    "data_parallel": DataParallelLaws,
}  # fmt: skip
_LAWS_NUMBERS = (
    "serial_step_s", "desktop_share", "older_torch_half_width", "unseen_architecture_half_width",
    "unseen_generation_half_width", "unseen_libraries_half_width", "unsplit_flops", "gathered_bytes", "cuda_call",
    "block_bytes",
)  # fmt: skip
_SINGLE_NUMBERS = ("issued_at_clock", *_LAWS_NUMBERS)
_ISSUE, _SLOW, _UNPACKING = "issue_share", "slow_convolutions", "unpacking"
SECTIONS = (*_PARTS, *_SINGLE_NUMBERS, _ISSUE, _SLOW, _UNPACKING)
"""The keys beside `schema_version` and `origins`."""
_OTHER = "other"
"""How the file writes the empty name, which stands for whatever has no entry of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawsOrigin:
    """What some sections of the file were made from: the command that makes them again, and its data."""

    sections: tuple[str, ...]
    made: date
    command: str
    data: str


def load_rate_laws(path: Path | None = None) -> RateLaws:
    """Read the laws of all GPUs; the shipped ones where no path is given.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    file = path or calibration_file(RATES_FILE)
    return _load_as_of(file, stamp(file))


@lru_cache(maxsize=16)
def _load_as_of(path: Path, _stamp: Stamp) -> RateLaws:
    return _read(path)[0]


def load_origins(path: Path) -> tuple[LawsOrigin, ...]:
    """Return what each section of a file was made from."""
    return _read(path)[1]


def _read(path: Path) -> tuple[RateLaws, tuple[LawsOrigin, ...]]:
    shown = f"calibrations/{path.name}"
    document = read_versioned(path, what="a file of rate laws", version=SCHEMA_VERSION, shown=shown)
    laws, origins = _LawReader(shown, RecordRules(takes_defaults=False)).laws(document)
    return replace(laws, software=load_software_support()), origins


_SOFTWARE = RecordFile(
    kind=SoftwareSupport,
    shipped="software-support.yaml",
    what="a table of software",
    optional=tuple(Framework),
    retired=dict.fromkeys((FrameworkRuns, DtypeGap, OperatorHome, Emulated), ("source",)),
)


@lru_cache(maxsize=1)
def load_software_support() -> SoftwareSupport:
    """Read the frameworks, number formats and operators that devices run.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or has unknown or missing keys.
    """
    return _SOFTWARE.load()


def dump_rate_laws(laws: RateLaws, origins: tuple[LawsOrigin, ...]) -> str:
    """Write laws as YAML, numbers to five significant digits; the same ones give the same text."""
    sustained = laws.sustained
    document = {
        "schema_version": SCHEMA_VERSION,
        "origins": [{**asdict(origin), "sections": list(origin.sections)} for origin in origins],
        **{name: asdict(getattr(sustained, name)) for name in ("half", "single", "copies", "burst")},
        "issued_at_clock": sustained.issued_at_clock,
        "streaming": asdict(laws.streaming),
        _ISSUE: dict(laws.issue_share),
        _SLOW: dict(laws.slow_convolutions),
        _UNPACKING: dict(laws.unpacking),
        **{name: getattr(laws, name) for name in _LAWS_NUMBERS},
        **{name: asdict(getattr(laws, name)) for name in ("hosts", "transfer", "quantised", "data_parallel")},
    }
    return dump_yaml(_named(document), digits=5)


def replace_sections(path: Path, laws: RateLaws, origin: LawsOrigin) -> None:
    """Write laws over a file and set the origin of the sections that a command made; other origins stay."""
    others = [other for other in load_origins(path) if not set(other.sections) <= set(origin.sections)]
    origins = sorted([*others, origin], key=lambda origin: SECTIONS.index(origin.sections[0]))
    path.write_text(dump_rate_laws(laws, tuple(origins)))


class _LawReader(YamlRecordReader):
    """Gathers the laws and all that is wrong with their file."""

    def laws(self, document: Tree) -> tuple[RateLaws, tuple[LawsOrigin, ...]]:
        """Read the whole file.

        Raises:
            SpecError: something in it is wrong; all of it at once.
        """
        self.unknown_keys(document, ("origins", *SECTIONS), "")
        for name in ("origins", *SECTIONS):
            if name not in document:
                self.refuse(name, "is missing")
        parts = {name: self.record(kind, document.get(name, {}), name) for name, kind in _PARTS.items()}
        numbers = {name: self.number(name, document.get(name), self.rules.usual_range) for name in _SINGLE_NUMBERS}
        issue = self.mapping_of(float, document.get(_ISSUE, {}), _ISSUE, NumberRange(high=1.0))
        slow = self.mapping_of(float, document.get(_SLOW, {}), _SLOW, NumberRange(low=1.0))
        wide = self.mapping_of(float, document.get(_UNPACKING, {}), _UNPACKING, NumberRange(low=1.0))
        for name, found, known in (
            (_ISSUE, issue, ALL_CLASSES),
            (_SLOW, slow, ALL_CLASSES),
            (_UNPACKING, wide, SCHEMES),
        ):
            self.unknown_keys(found, known, f"{name}.")
        origins = self._origins(document.get("origins", []))
        self.finish({})
        sustained = SustainedLaws(
            **{name: parts.pop(name) for name in ("half", "single", "copies", "burst")},  # type: ignore[arg-type]
            issued_at_clock=float(numbers["issued_at_clock"]),
        )
        laws = RateLaws(
            sustained=sustained, issue_share=issue, slow_convolutions=slow, unpacking=wide,
            **{name: float(numbers[name]) for name in _LAWS_NUMBERS},  # type: ignore[arg-type]  # as in `_LAWS_NUMBERS`
            **parts,  # type: ignore[arg-type]  # each part has the type that its name has in `_PARTS`
        )  # fmt: skip
        return laws, origins

    def mapping_of(self, kind: Any, given: object, where: str, allowed: NumberRange) -> dict[str, Any]:
        """Read values by their names, of which one word stands for the empty name."""
        values = super().mapping_of(kind, given, where, allowed)
        return {"" if name == _OTHER else name: value for name, value in values.items()}

    def _origins(self, given: object) -> tuple[LawsOrigin, ...]:
        if not isinstance(given, list):
            self.refuse("origins", f"must be a list of sections with made, command and data, not {given!r}")
            return ()
        rows = (self.record(LawsOrigin, row, f"origins.{index}") for index, row in enumerate(given))
        origins = tuple(origin for origin in rows if origin is not None)
        named = [name for origin in origins for name in origin.sections]
        for name in SECTIONS:
            if named.count(name) != 1 and not self.problems:
                self.refuse("origins", f"name the section {name} {named.count(name)} times; each has one origin")
        return origins


def _named(value: Any) -> Any:
    """Return a document in which the empty name is written as a word."""
    return {key or _OTHER: _named(item) for key, item in value.items()} if isinstance(value, Mapping) else value
