"""Read and write the calibration of training: the shipped YAML, or a user's own."""

from typing import Any

from capplan.core.records import NumberRange
from capplan.llm.core.training.accuracy import TrainingCalibration, TrainingEvidence, Widths
from capplan.specs.values import RecordFile


def _ratios(given: Any) -> dict[TrainingEvidence, tuple[float, ...]]:
    found: dict[TrainingEvidence, tuple[float, ...]] = {}
    for key, values in given.items():
        ratios = tuple(map(float, values))
        if len(ratios) < 2 or list(ratios) != sorted(ratios) or not 0 < ratios[0] <= ratios[-1] < float("inf"):
            raise ValueError(f"{key} must be two or more ratios above 0, the lowest first")
        found[TrainingEvidence(key)] = ratios
    return found


SHIPPED = "llm-training.yaml"
_CALIBRATION = RecordFile(
    kind=TrainingCalibration,
    shipped=SHIPPED,
    what="a calibration of LLM training",
    version=2,
    usual_range=NumberRange(high=1e18, is_open=True),
    ranges={Widths: {"memory_bytes": NumberRange(high=1e18)}},
    optional=(TrainingEvidence.MEASURED_HERE,),
    parsers={TrainingCalibration: {"peak_ratios": _ratios}},
    digits=4,
)
load_training_calibration, dump_training_calibration = _CALIBRATION.load, _CALIBRATION.dump
