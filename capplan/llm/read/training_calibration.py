"""Read and write the calibration of training: the shipped YAML, or a user's own."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from capplan.core.records import NumberRange
from capplan.errors import SpecError
from capplan.llm.core.training.accuracy import TrainingCalibration, TrainingEvidence
from capplan.llm.read.calibrations import ConstantsReader, sound_content
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import dump_yaml, read_versioned

TRAINING_SCHEMA_VERSION = 1
SHIPPED = "llm-training.yaml"


class _TrainingReader(ConstantsReader):
    usual_range = NumberRange(high=1e18, is_open=True)
    optional = (TrainingEvidence.MEASURED_HERE,)


def load_training_calibration(path: Path | None = None) -> TrainingCalibration:
    """Read a calibration of training; the shipped one where no path is given.

    Args:
        path: A calibration file of the user's.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    where, what = str(path) if path else f"calibrations/{SHIPPED}", "a calibration of LLM training"
    file = path or calibration_file(SHIPPED)
    document = read_versioned(file, what=what, version=TRAINING_SCHEMA_VERSION, shown=where)
    ratios = document.pop("peak_ratios", {})
    reader = _TrainingReader(where, where)
    found = reader.record(TrainingCalibration, document, "")
    reader.finish({})
    assert found is not None  # whatever was not read was refused
    with sound_content(where):
        return replace(found, peak_ratios=_ratios(ratios, f"{where}: peak_ratios"))


def _ratios(document: Any, where: str) -> Mapping[TrainingEvidence, tuple[float, ...]]:
    found: dict[TrainingEvidence, tuple[float, ...]] = {}
    for key, values in dict(document).items():
        ratios = tuple(map(float, values))
        if len(ratios) < 2 or list(ratios) != sorted(ratios) or not 0 < ratios[0] <= ratios[-1] < float("inf"):
            raise SpecError(f"{where}.{key} must be two or more ratios above 0, the lowest first.")
        found[TrainingEvidence(key)] = ratios
    return found


def dump_training_calibration(calibration: TrainingCalibration) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text."""
    document = {
        "schema_version": TRAINING_SCHEMA_VERSION,
        "name": calibration.name,
        "origin": asdict(calibration.origin) if calibration.origin else None,
        "memory": _by_words(asdict(calibration.memory)),
        "time": _by_words(asdict(calibration.time)),
        "widths": _by_words(asdict(calibration.widths)),
        "measured_gpus": sorted(calibration.measured_gpus),
        "measured_chips": sorted(calibration.measured_chips),
        "measured_frameworks": sorted(calibration.measured_frameworks),
        "memory_frameworks": sorted(calibration.memory_frameworks),
        "peak_ratios": _by_words(calibration.peak_ratios),
    }
    return dump_yaml(document, digits=4)


def _by_words(document: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping, and mappings in it, with words in the place of the members that are their keys."""
    return {str(key): _by_words(value) if isinstance(value, Mapping) else value for key, value in document.items()}
