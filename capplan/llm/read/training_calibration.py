"""Read and write the calibration of training: the shipped YAML, or a user's own."""

from pathlib import Path
from types import MappingProxyType
from typing import Any

from capplan.core.records import NumberRange
from capplan.llm.core.training.accuracy import TrainingCalibration, TrainingEvidence
from capplan.specs.values import YamlRecordReader


def _ratios(given: Any) -> dict[TrainingEvidence, tuple[float, ...]]:
    found: dict[TrainingEvidence, tuple[float, ...]] = {}
    for key, values in given.items():
        ratios = tuple(map(float, values))
        if len(ratios) < 2 or list(ratios) != sorted(ratios) or not 0 < ratios[0] <= ratios[-1] < float("inf"):
            raise ValueError(f"{key} must be two or more ratios above 0, the lowest first")
        found[TrainingEvidence(key)] = ratios
    return found


class _TrainingReader(YamlRecordReader):
    shipped = "llm-training.yaml"
    what = "a calibration of LLM training"
    version = 2
    usual_range = NumberRange(high=1e18, is_open=True)
    optional = (TrainingEvidence.MEASURED_HERE,)
    parsers = MappingProxyType({TrainingCalibration: {"peak_ratios": _ratios}})


SHIPPED = _TrainingReader.shipped


def load_training_calibration(path: Path | None = None) -> TrainingCalibration:
    """Read a calibration of training; the shipped one where no path is given.

    Args:
        path: A calibration file of the user's.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    return _TrainingReader.load(TrainingCalibration, path)


def dump_training_calibration(calibration: TrainingCalibration) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text."""
    return _TrainingReader.dump(calibration, digits=4)
