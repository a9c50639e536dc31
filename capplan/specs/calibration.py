"""Read and write calibration files, of kernels, engines and memory: the package's YAML, or a user's own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from capplan.core.gpus.rate_laws import GUESSED_LAWS
from capplan.core.latency.calibration import (
    Calibration,
    ClassConstants,
    DeviceFactors,
    EngineCalibration,
    EngineEfficiency,
    EngineFactors,
    EngineWidths,
    GlobalConstants,
    HostCosts,
    IntervalWidth,
)
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.memory.types import CommunicationSize, CpuWorkspaces, CudaSize, MemoryCalibration
from capplan.core.numbers import ENDS, Interval
from capplan.core.origin import Origin
from capplan.core.power import FEWEST_TIMES, MOST_TIMES, CardPower
from capplan.core.records import NumberRange, RecordRules, as_plain
from capplan.core.workload import Framework
from capplan.errors import SpecError
from capplan.files import Stamp, stamp
from capplan.specs.folders import calibration_file
from capplan.specs.kept_values import kept_value
from capplan.specs.rate_laws import RATES_FILE, load_rate_laws
from capplan.specs.strict_yaml import Tree, dump_yaml, read_versioned
from capplan.specs.values import RecordFile, YamlRecordReader
from capplan.units import BYTES, parse_quantity

_FACTOR = NumberRange(high=1000.0, is_open=True)
_SECONDS = NumberRange(high=1.0, is_open=True)
_CALL = NumberRange(high=1.0)
_HALF_WIDTH = NumberRange(high=10.0)
"""In units of log(predicted ÷ measured): e^10 is a factor of 22,000."""
_COUNT = NumberRange(high=1e12)
_FRACTION = NumberRange(high=1.0)

_RANGES: Mapping[type, Mapping[str, NumberRange]] = {
    ClassConstants: {
        "compute": _FACTOR, "bandwidth": _FACTOR, "half_k": NumberRange(high=1e6), "misaligned": _HALF_WIDTH,
        "layout_passes": NumberRange(), "write_weight": NumberRange(), "strided": NumberRange(),
        "fixed_s": _CALL,
    },
    GlobalConstants: {
        "l2_hit": _FRACTION, "l2_reach": _FACTOR, "l2_sharpness": _FACTOR, "tile_power": NumberRange(high=10.0),
        "kernel_s": _SECONDS, "call_s": _SECONDS, "launch_s": _SECONDS, "convolution_s": _CALL,
        "cores": NumberRange(low=1.0, high=1e5),
    },
    DeviceFactors: {
        "compute": _FACTOR, "bandwidth": _FACTOR, "rows": _COUNT, "single_rows": _COUNT, "single_steps": _COUNT,
    },
    IntervalWidth: {
        "below": _HALF_WIDTH, "above": _HALF_WIDTH, "between_gpus": _HALF_WIDTH, "between_sheets": _HALF_WIDTH,
        "between_others": _HALF_WIDTH, "between_other_sheets": _HALF_WIDTH, "rows": _COUNT,
        "coverage_fraction": NumberRange(high=1.0, is_open=True),
    },
    EngineEfficiency: {
        "product": _FACTOR, "attention": _FACTOR, "norm": _FACTOR, "elementwise": _FACTOR, "convolution": _FACTOR,
        "kernel_s": _SECONDS, "convolution_s": _CALL,
    },
    EngineFactors: {"wide": _FACTOR, "int8": _FACTOR, "rows": _COUNT},
    CardPower: {
        "factor": NumberRange(low=FEWEST_TIMES, high=MOST_TIMES), "log_half_width": _HALF_WIDTH, "rows": _COUNT,
        "models": _COUNT,
    },
    EngineWidths: {"models": _HALF_WIDTH, "gpus": _HALF_WIDTH},
    HostCosts: dict.fromkeys(("call_s", "launch_s", "operators_s"), _CALL),
    Calibration: {"deviations": _FACTOR},
    Origin: dict.fromkeys(("rows", "held_out_errors"), _COUNT),
}  # fmt: skip
"""Ranges by type and field: wide enough for any hardware, too narrow for another unit or a wrong sign."""


_RULES = RecordRules(
    ranges=_RANGES,
    usual_range=NumberRange(low=-1e12, high=1e12),
    older={Calibration: {"origin": None}, Origin: {"command": "", "sources": ()}},
    retired={GlobalConstants: ("cuda_graph_kernel_s",)},
)


SCHEMA_VERSION = 2
_SHIPPED = {
    "eager": "default.yaml",
    "compile": "compile.yaml",
    "training": "training.yaml",
    "cpu": "cpu.yaml",
    "cpu half": "cpu_half.yaml",
}


def load_calibration(path: Path | None = None) -> Calibration:
    """Read the shipped calibrations; a user's own takes over what its parts serve, the shipped ones serve the rest.

    Raises:
        SpecError: the file is missing, no YAML, of a newer schema, or holds unknown or missing keys.
    """
    files = tuple(calibration_file(file) for file in (*_SHIPPED.values(), ENGINES_FILE, RATES_FILE))
    return _load_as_of(path, tuple((file, stamp(file)) for file in files), None if path is None else stamp(path))


@lru_cache(maxsize=16)
def _load_as_of(path: Path | None, shipped: tuple[tuple[Path, Stamp], ...], _own: Stamp) -> Calibration:
    """Read the files again only after one has changed: a service asks for them with every question."""
    if path is None:
        return kept_value("calibration", Calibration, (file for file, _ in shipped), lambda: _read_all(None))
    return _read_all(path)


def _read_all(path: Path | None) -> Calibration:
    laws = load_rate_laws()
    shipped = {name: replace(_read(None, file), laws=laws) for name, file in _SHIPPED.items()}
    parts = {name: part for name, part in shipped.items() if name != "eager"}
    engines = load_engines()
    if path is None:
        return replace(shipped["eager"], parts=parts, engines=engines)
    own = replace(_read(path, path.name), laws=laws)
    own_parts = {name: replace(part, laws=laws) for name, part in own.parts.items()}
    served = {"eager": shipped["eager"], **parts, **own_parts, own.serves: replace(own, parts={})}
    return replace(served.pop("eager"), parts=served, engines=engines, power=own.power)


def _read(path: Path | None, name: str) -> Calibration:
    where = str(path) if path else f"calibrations/{name}"
    file = path or calibration_file(name)
    document = read_versioned(file, what="a calibration", version=SCHEMA_VERSION, shown=where)
    others = document.pop(_PARTS, {})
    first = _read_calibration(document, where)
    if not isinstance(others, dict) or not all(isinstance(other, dict) for other in others.values()):
        raise SpecError(f"{where}: {_PARTS} must be calibrations by what they serve, such as 'cpu half'.")
    parts = {}
    for serves, tree in others.items():
        part = _read_calibration(tree, f"{where}: {_PARTS}.{serves}")
        if part.serves != serves or serves == first.serves:
            raise SpecError(f"{where}: {_PARTS}.{serves} serves {part.serves!r}; a file holds one part for each use.")
        parts[serves] = part
    return replace(first, parts=parts)


def dump_calibration(calibration: Calibration, *, parts: Sequence[Calibration] = ()) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text.

    Args:
        calibration: what to write; its own `parts` are left out, and its laws, which have a file of their own.
        parts: calibrations that the same file holds beside it, each of which serves something else.
    """
    document = {"schema_version": SCHEMA_VERSION, **_document(calibration)}
    if parts:
        document["parts"] = {part.serves: _document(part) for part in parts}
    return dump_yaml(document, digits=4)


def dump_with_own_parts(calibration: Calibration) -> str:
    """Write a calibration with those of its parts that are not the shipped ones, such as a base file's own."""
    shipped = load_calibration(None).parts
    own = [part for serves, part in calibration.parts.items() if part != shipped.get(serves)]
    return dump_calibration(calibration, parts=own)


def _document(calibration: Calibration) -> Tree:
    """Return the keys of one calibration, without its parts."""
    absent = [*_APART, *([] if calibration.host else ["host"]), *([] if calibration.power else ["power"])]
    return {name: value for name, value in as_plain(calibration).items() if name not in absent}


_PARTS = "parts"
"""The key of calibrations that a file holds beside its first, by what they serve."""
_APART: Mapping[str, object] = MappingProxyType({_PARTS: {}, "engines": {}, "laws": GUESSED_LAWS})
"""Fields of a calibration that its mapping in a file does not hold."""


def _read_calibration(document: Tree, where: str) -> Calibration:
    reader = YamlRecordReader(where, _RULES)
    serves = document.get("serves", "eager")
    if not isinstance(serves, str) or serves not in _SHIPPED:
        reader.refuse("serves", f"{serves!r} is not known; use {', '.join(_SHIPPED)}")
    calibration = reader.record(Calibration, document, "", read=_APART)
    if calibration is not None:
        reader.unknown_keys(dict(calibration.classes), ALL_CLASSES, "classes.")
        for label, factors in calibration.deviations.items():
            reader.unknown_keys(dict(factors), ALL_CLASSES, f"deviations.{label}.")
        if calibration.host is not None:
            reader.unknown_keys(dict(calibration.host.operators_s), ALL_CLASSES, "host.operators_s.")
            if not calibration.host.operators_s:
                reader.refuse("host.operators_s", "holds no operator")
    return reader.finished(calibration)


ENGINES_FILE = "engines.yaml"
_ENGINES = tuple(framework.value for framework in Framework if framework.is_engine)


_ENGINE_FILE = RecordFile(
    kind=EngineCalibration,
    shipped=ENGINES_FILE,
    what="a calibration of engines",
    ranges=_RANGES,
    usual_range=_RULES.usual_range,
    older=_RULES.older,
)


def load_engines() -> dict[str, EngineCalibration]:
    """Read the calibrations of inference engines, by the framework's name.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or holds unknown or missing keys.
    """
    reader, document = _ENGINE_FILE.opened()
    reader.unknown_keys(document, ("engines",), "")
    engines = reader.mapping(document, "engines")
    reader.unknown_keys(engines, _ENGINES, "engines.")
    return reader.finished(reader.mapping_of(EngineCalibration, engines, "engines", _RULES.usual_range))


def dump_engines(engines: Mapping[str, EngineCalibration]) -> str:
    """Write the calibrations of engines as YAML, numbers to four significant digits."""
    return dump_yaml({"schema_version": _ENGINE_FILE.version, "engines": as_plain(engines)}, digits=4)


def _sized(row: Tree) -> Tree:
    """Return a row with its sizes as one value and its sources as one text."""
    ends = {name: row[name] for name in ENDS if name in row}
    others = {name: value for name, value in row.items() if name not in ends}
    return {"size_bytes": ends, **others}


def _sizes(ends: Mapping[str, str]) -> Interval:
    return Interval(**{end.value: parse_quantity(ends[end], BYTES, what=end) for end in ENDS})


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


load_memory_calibration = RecordFile(
    kind=MemoryCalibration,
    shipped="memory.yaml",
    what="a memory calibration",
    takes_defaults=False,
    usual_range=NumberRange(high=1e12),
    forms={CudaSize: _sized, CommunicationSize: _sized},
    keys={
        CudaSize: {"since": "torch_since", "capabilities": "compute_capability", "origin": "sources"},
        CommunicationSize: {"origin": "sources"},
        CpuWorkspaces: {"origin": "sources"},
    },
    parsers={
        CudaSize: {
            "since": _version,
            "capabilities": lambda ends: tuple(map(_version, ends)),
            "size_bytes": _sizes,
            "origin": "; ".join,
        },
        CommunicationSize: {"size_bytes": _sizes, "origin": "; ".join},
        CpuWorkspaces: {"origin": "; ".join},
        MemoryCalibration: {"origin": lambda given: f"calibration of {given['made']}: {given['data']}"},
    },
    ranges={
        MemoryCalibration: {
            **dict.fromkeys(
                ("uncertain_fraction", "compiled_fraction", "graph_pool_fraction", "least_kept_fraction"), _FRACTION
            ),
            "assumed_share_factor": NumberRange(low=1, high=100),
        }
    },
).load
