"""Read and write the memory rules of serving engines: the shipped YAML, or a user's own."""

from pathlib import Path
from typing import Any

import yaml

from capplan.core.serving_engines import Engine
from capplan.errors import SpecError
from capplan.llm.core.engines import ActivationConstants, EngineMemoryRules, LlmMemoryConstants, PoolRule, parse_version
from capplan.llm.core.memory_fit import FittedMemory
from capplan.llm.read.engine_support import load_engine_support
from capplan.specs.folders import calibration_file
from capplan.specs.yaml.strict import read_yaml
from capplan.units import BYTES, parse_quantity

SCHEMA_VERSION = 1
_DEFAULT = "llm-memory.yaml"
_KEYS = {
    "engine", "since", "rule", "fraction", "block_tokens", "activation", "other", "stage_other", "graphs",
    "uncertain_fraction", "uncertain", "evidence", "source",
}  # fmt: skip


def load_llm_memory(path: Path | None = None) -> LlmMemoryConstants:
    """Read the memory rules of engines; the shipped ones where no path is given.

    Args:
        path: A calibration file of the user's.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or has unknown or missing keys.
    """
    if path is not None:
        return _constants(read_yaml(path), str(path))
    shown = f"calibrations/{_DEFAULT}"
    return _constants(read_yaml(calibration_file(_DEFAULT), shown=shown), shown)


def _constants(document: dict[str, Any], where: str) -> LlmMemoryConstants:
    if document.get("schema_version") != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of LLM memory of schema_version {SCHEMA_VERSION}.")
    try:
        engines = tuple(_engine(row, where) for row in document["engines"])
        origin = document["origin"]
        missing = [each.value for each in Engine if not any(row.engine is each for row in engines)]
        if missing:
            raise SpecError(f"{where}: there is no entry for {', '.join(missing)}.")
        return LlmMemoryConstants(
            engines=engines, origin=f"{origin['made']}: {origin['data']}", support=load_engine_support()
        )
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"{where}: {error}.") from error


def _engine(row: dict[str, Any], where: str) -> EngineMemoryRules:
    if unknown := sorted(set(row) - _KEYS):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}.")
    fraction = row["fraction"]
    return EngineMemoryRules(
        engine=Engine(row["engine"]),
        since=parse_version(str(row["since"])),
        rule=PoolRule(row["rule"]),
        fraction=None if fraction == "auto" else float(fraction),
        block_tokens=int(row["block_tokens"]),
        activation=_activation(row["activation"]),
        other_bytes={int(ranks): _bytes(size) for ranks, size in row["other"].items()},
        stage_other_bytes=_bytes(row["stage_other"]),
        graph_bytes=_bytes(row["graphs"]),
        uncertain_fraction=float(row["uncertain_fraction"]),
        uncertain_bytes=_bytes(row["uncertain"]),
        evidence=str(row["evidence"]),
        source=str(row["source"]),
    )


def _activation(row: dict[str, Any]) -> ActivationConstants:
    return ActivationConstants(
        sampler_bytes_per_vocab=float(row["sampler_bytes_per_vocab"]),
        sampler_bytes_per_hidden=float(row["sampler_bytes_per_hidden"]),
        forward_mlp=float(row["forward_mlp"]),
        forward_hidden=float(row["forward_hidden"]),
        fixed_bytes=_bytes(row["fixed"]),
        expert_workspaces=float(row["expert_workspaces"]),
        vision_bytes=_bytes(row["vision"]),
        stage_bytes=None if row["stage"] == "none" else _bytes(row["stage"]),
    )


def _bytes(text: str) -> float:
    return parse_quantity(text, BYTES, what="size")


def render_fitted_memory(
    fitted: FittedMemory, *, base: Path | None, engine: Engine, since: str, made: str, data: str
) -> str:
    """Return a calibration file in which one engine's entry holds fitted constants and the others stay.

    Args:
        fitted: The constants.
        base: The file to start from, None for the shipped one.
        engine: Whose entry is replaced.
        since: First version that the entry holds for.
        made: Day of the fit.
        data: What was fitted on.

    Raises:
        SpecError: The base has no entry of the engine.
    """
    document = _base_document(base)
    rows = [row for row in document["engines"] if row["engine"] == engine.value]
    if not rows:
        raise SpecError(f"{base or _DEFAULT}: there is no entry of {engine.value} to start from.")
    entry = next((row for row in rows if str(row["since"]) == since), None)
    if entry is None:
        entry = {**rows[-1], "activation": dict(rows[-1]["activation"]), "since": since}
        document["engines"].insert(document["engines"].index(rows[-1]) + 1, entry)
    _put(entry, fitted)
    entry["evidence"] = "measured"
    entry["source"] = f"{fitted.rows} starts; {data}"
    document["origin"] = {"made": made, "data": data}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def _base_document(base: Path | None) -> dict[str, Any]:
    return read_yaml(calibration_file(_DEFAULT), shown=_DEFAULT) if base is None else read_yaml(base)


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
