"""Read and write the calibration file of inference engines, whose constants stand beside those of compiled steps."""

from collections.abc import Mapping
from dataclasses import asdict

import yaml

from capplan.core.latency.calibration import EngineCalibration, EngineConstants, EngineFactors, EngineWidths
from capplan.core.workload import Framework
from capplan.errors import SpecError
from capplan.specs.calibration_parts import PartReader, rounded_numbers
from capplan.specs.folders import calibration_file
from capplan.specs.yaml.strict import read_yaml

SCHEMA_VERSION = 1
ENGINES_FILE = "engines.yaml"
_KEYS = ("constants", "gpus", "transformers", "convolutions", "origin")
_ENGINES = tuple(framework.value for framework in Framework if framework.is_engine)


def load_engines() -> dict[str, EngineCalibration]:
    """Read the calibrations of inference engines, by the framework's name.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or holds unknown or missing keys.
    """
    where = f"calibrations/{ENGINES_FILE}"
    document = read_yaml(calibration_file(ENGINES_FILE), shown=where)
    version = document.pop("schema_version", None)
    if type(version) is not int or version != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of engines of schema_version {SCHEMA_VERSION}.")
    reader = _Reader(where, where)
    reader.unknown_keys(document, ("engines",), "")
    engines = reader.mapping(document, "engines")
    reader.unknown_keys(engines, _ENGINES, "engines.")
    found = {name: reader.engine(given, f"engines.{name}") for name, given in engines.items()}
    reader.finish({})
    return {name: engine for name, engine in found.items() if engine is not None}


def dump_engines(engines: Mapping[str, EngineCalibration]) -> str:
    """Write the calibrations of engines as YAML, numbers to four significant digits.

    Args:
        engines: the calibrations by the framework's name; the same ones give the same text.
    """
    document = {
        "schema_version": SCHEMA_VERSION,
        "engines": {name: rounded_numbers(asdict(engine)) for name, engine in engines.items()},
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


class _Reader(PartReader):
    """Gathers engines and all that is wrong with their file."""

    def engine(self, given: object, where: str) -> EngineCalibration | None:
        """Read one engine; None where something of it is refused."""
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with values, not {given!r}")
            return None
        self.unknown_keys(given, _KEYS, f"{where}.")
        constants = self.part(EngineConstants, given.get("constants", {}), f"{where}.constants")
        gpus = {
            name: self.part(EngineFactors, factors, f"{where}.gpus.{name}")
            for name, factors in self.mapping(given, "gpus", prefix=f"{where}.").items()
        }
        transformers = self.part(EngineWidths, given.get("transformers", {}), f"{where}.transformers")
        convolutions = self.part(EngineWidths, given.get("convolutions", {}), f"{where}.convolutions")
        origin = self.read_origin(given.get("origin"), where=f"{where}.origin")
        if constants is None or transformers is None or convolutions is None or origin is None:
            return None
        return EngineCalibration(
            constants=constants, gpus={name: each for name, each in gpus.items() if each is not None},
            transformers=transformers, convolutions=convolutions, origin=origin,
        )  # fmt: skip
