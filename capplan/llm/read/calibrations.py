"""Read and write what was learnt of serving: memory rules of engines, what engines run on, and times of steps."""

from dataclasses import fields, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import yaml

from capplan.core.engine_names import Engine
from capplan.core.records import NumberRange
from capplan.errors import SpecError
from capplan.llm.core.engine_support import EngineRuns, EngineSupport, FormatKernels, ReleaseFacts, Versions
from capplan.llm.core.engines import ActivationConstants, EngineMemoryRules, LlmMemoryConstants, parse_version
from capplan.llm.core.memory_fit import FittedMemory
from capplan.llm.core.timing.calibration import (
    WIDTH_NAMES,
    DeviceConstants,
    KernelConstants,
    LinkConstants,
    LlmCalibration,
    Width,
)
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import read_yaml
from capplan.specs.values import RecordFile
from capplan.units import BYTES, parse_quantity

_LARGE = NumberRange(high=1e18)


def _bytes(text: str) -> float:
    return parse_quantity(text, BYTES, what="size")


def _version(given: object) -> tuple[int, ...] | None:
    return None if given is None else parse_version(str(given))


_MEMORY = RecordFile(
    kind=LlmMemoryConstants,
    shipped="llm-memory.yaml",
    what="a calibration of LLM memory",
    takes_defaults=False,
    usual_range=_LARGE,
    older={EngineMemoryRules: {"uncertain_graphs": "0 GiB"}},
    retired={EngineMemoryRules: ("fraction",)},
    keys={
        ActivationConstants: {"fixed_bytes": "fixed", "vision_bytes": "vision", "stage_bytes": "stage"},
        EngineMemoryRules: {
            "other_bytes": "other", "stage_other_bytes": "stage_other", "graph_bytes": "graphs",
            "uncertain_bytes": "uncertain", "uncertain_graph_bytes": "uncertain_graphs",
        },
    },
    parsers={
        ActivationConstants: {
            **dict.fromkeys(("sampler_bytes_per_vocab", "sampler_bytes_per_hidden"), float),
            **dict.fromkeys(("forward_mlp", "forward_hidden", "expert_workspaces"), float),
            **dict.fromkeys(("fixed_bytes", "vision_bytes"), _bytes),
            "stage_bytes": lambda text: None if text == "none" else _bytes(text),
        },
        EngineMemoryRules: {
            "since": _version,
            "other_bytes": lambda row: {int(ranks): _bytes(size) for ranks, size in row.items()},
            **dict.fromkeys(("stage_other_bytes", "graph_bytes", "uncertain_bytes", "uncertain_graph_bytes"), _bytes),
            "uncertain_fraction": float,
        },
        LlmMemoryConstants: {"origin": lambda given: f"{given['made']}: {given['data']}"},
    },
)  # fmt: skip
"""The memory rules of engines."""


def load_llm_memory(path: Path | None = None) -> LlmMemoryConstants:
    """Read the memory rules of engines; the shipped ones where no path is given.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or has unknown or missing keys.
    """
    constants = _MEMORY.load(path, support=load_engine_support())
    missing = [engine.value for engine in Engine if not any(row.engine is engine for row in constants.engines)]
    if missing:
        raise SpecError(f"{path or _MEMORY.shipped}: there is no entry for {', '.join(missing)}.")
    return constants


def render_fitted_memory(
    fitted: FittedMemory, *, base: Path | None, engine: Engine, since: str, made: str, data: str
) -> str:
    """Return a calibration file in which one engine's entry holds fitted constants and the others stay.

    Raises:
        SpecError: The base has no entry of the engine.
    """
    shipped = _MEMORY.shipped
    document = read_yaml(calibration_file(shipped), shown=shipped) if base is None else read_yaml(base)
    rows = [row for row in document["engines"] if row["engine"] == engine.value]
    if not rows:
        raise SpecError(f"{base or shipped}: there is no entry of {engine.value} to start from.")
    entry = next((row for row in rows if str(row["since"]) == since), None)
    if entry is None:
        entry = {**rows[-1], "activation": dict(rows[-1]["activation"]), "since": since}
        document["engines"].insert(document["engines"].index(rows[-1]) + 1, entry)
    _put(entry, fitted)
    entry["evidence"] = "measured"
    entry["source"] = f"{fitted.rows} starts; {data}"
    document["origin"] = {"made": made, "data": data}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def _put(entry: dict[str, Any], fitted: FittedMemory) -> None:
    activation = entry["activation"]
    activation["sampler_bytes_per_vocab"] = round(fitted.sampler_bytes_per_vocab, 4)
    activation["sampler_bytes_per_hidden"] = round(fitted.sampler_bytes_per_hidden, 4)
    activation["fixed"] = _gib(fitted.fixed_bytes)
    if fitted.vision_bytes is not None:
        activation["vision"] = _gib(max(0.0, fitted.vision_bytes))
    if fitted.stage_bytes is not None:
        activation["stage"] = _gib(fitted.stage_bytes)
    entry["other"] = {**entry["other"], **{str(ranks): _gib(size) for ranks, size in fitted.other_bytes.items()}}
    if fitted.stage_other_bytes is not None:
        entry["stage_other"] = _gib(fitted.stage_other_bytes)
    if fitted.graph_bytes is not None:
        entry["graphs"] = _gib(fitted.graph_bytes)


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.4g} GiB"


_FAMILIES = RecordFile(kind=EngineSupport, shipped="engine-support.yaml", what="a list of families of GPUs", version=2)
_RUNS = RecordFile(
    kind=EngineRuns,
    what="the facts of an engine",
    keys={EngineRuns: {"families": "runs"}},
    forms={EngineRuns: lambda held: {**held, "memory": _running(held.get("memory"))}},
    retired={EngineRuns: ("schema_version", "source"), FormatKernels: ("source",), ReleaseFacts: ("source",)},
    parsers={
        EngineRuns: {"newest": _version},
        Versions: {"since": _version, "before": _version},
        FormatKernels: {"since": _version, "experts_since": _version},
        ReleaseFacts: {"since": _version, "fraction": lambda given: None if given == "auto" else float(given)},
    },
)  # fmt: skip


def _running(rows: object) -> object:
    """Return facts of releases complete, each row with what earlier ones state and it does not change."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return rows
    return [reduce(lambda held, row: {**held, **row}, rows[:count]) for count in range(1, len(rows) + 1)]


@lru_cache(maxsize=1)
def load_engine_support() -> EngineSupport:
    """Read the families of GPUs that engines run on, and the formats that they have kernels for.

    Raises:
        SpecError: A file is missing, not strict YAML, of another schema, or names a family that is not listed.
    """
    families = _FAMILIES.load(engines={})
    engines = {engine: _RUNS.load(calibration_file(f"engine-{engine}.yaml")) for engine in Engine}
    for engine, runs in engines.items():
        rows = (
            row.on
            for kernels in (runs.formats, runs.caches, runs.attention)
            for named in kernels.values()
            for row in named
        )
        unknown = sorted(set(runs.families).union(*rows) - set(families.hardware))
        if unknown:
            raise SpecError(f"calibrations/engine-{engine}.yaml: {unknown[0]} is not listed in {_FAMILIES.shipped}.")
    return replace(families, engines=engines)


_ABOVE_0 = NumberRange(high=1e18, is_open=True)


_TIMES = RecordFile(
    kind=LlmCalibration,
    shipped="llm-time.yaml",
    what="a calibration of LLM step times",
    version=2,
    usual_range=_LARGE,
    ranges={
        KernelConstants: dict.fromkeys(("compute_fraction", "bandwidth_fraction"), _ABOVE_0),
        LinkConstants: dict.fromkeys(("bus_fraction", "bus_decline"), _ABOVE_0),
        DeviceConstants: dict.fromkeys([item.name for item in fields(DeviceConstants)], _ABOVE_0),
        Width: dict.fromkeys([item.name for item in fields(Width)], NumberRange(low=1.0, high=1e6))
        | dict.fromkeys(("above", "below"), _ABOVE_0),
    },
    digits=4,
)
dump_time_calibration = _TIMES.dump


def load_time_calibration(path: Path | None = None) -> LlmCalibration:
    """Read the shipped calibration of step times, or a user's own.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    reader, document = _TIMES.opened(path)
    found = reader.record(LlmCalibration, document, "")
    for name in WIDTH_NAMES:
        if found is not None and name not in found.widths:
            reader.refuse(f"widths.{name}", "is missing; make one with capplan llm fit --cross")
    return reader.finished(found)
