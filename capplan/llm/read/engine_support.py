"""Read what serving engines run on: one shipped file that every verb about a served model asks."""

from functools import lru_cache
from typing import Any

from capplan.core.serving_engines import Engine
from capplan.errors import SpecError
from capplan.llm.core.engines import EngineRuns, EngineSupport, Versions, parse_version
from capplan.specs.folders import calibration_file
from capplan.specs.yaml.strict import read_yaml

_NAME = "engine-support.yaml"
_SCHEMA_VERSION = 1


@lru_cache(maxsize=1)
def load_engine_support() -> EngineSupport:
    """Read the families of GPUs that engines run on, and the formats that they have kernels for.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or names a family that it does not list.
    """
    where = f"calibrations/{_NAME}"
    document = read_yaml(calibration_file(_NAME), shown=where)
    if document.get("schema_version") != _SCHEMA_VERSION:
        raise SpecError(f"{where} is not a table of engines of schema_version {_SCHEMA_VERSION}.")
    try:
        hardware = {str(family): str(name) for family, name in document["hardware"].items()}
        engines = {Engine(name): _runs(row, hardware, f"{where}: {name}") for name, row in document["engines"].items()}
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"{where}: {error}.") from error
    return EngineSupport(hardware=hardware, engines=engines)


def _runs(row: dict[str, Any], hardware: dict[str, str], where: str) -> EngineRuns:
    formats = {name: frozenset(map(str, families)) for name, families in row["formats"].items()}
    families = {str(family): _versions(bounds) for family, bounds in row["runs"].items()}
    unknown = sorted(set(families).union(*formats.values()) - set(hardware))
    if unknown:
        raise SpecError(f"{where}: {unknown[0]} is not listed under hardware.")
    return EngineRuns(families=families, formats=formats)


def _versions(bounds: dict[str, Any]) -> Versions:
    since, before = (bounds.get(key) for key in ("since", "before"))
    return Versions(
        since=None if since is None else parse_version(str(since)),
        before=None if before is None else parse_version(str(before)),
    )
