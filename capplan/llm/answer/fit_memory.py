"""Learn an engine's memory constants from its start-up logs and write them as a calibration file."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from capplan.core.serving_engines import Engine
from capplan.llm.core.memory_fit import FittedMemory, fit_memory
from capplan.llm.read.memory_calibration import render_fitted_memory
from capplan.llm.read.startup_logs import read_startup_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCalibration:
    """The fitted constants, the calibration file that holds them, and models that were left out."""

    fitted: FittedMemory
    text: str
    unknown_models: Mapping[str, int]


def fit_memory_file(path: Path, *, since: str, base: Path | None, made: date, data: str | None) -> FittedCalibration:
    """Fit vLLM's memory constants to its start-up logs.

    Args:
        path: The logs as CSV.
        since: First version of vLLM that the constants hold for.
        base: Calibration file to start from, None for the shipped one.
        made: Day of the fit.
        data: What the logs are, None for the file's name.

    Raises:
        UsageError: The logs cannot be read or are too few.
    """
    read = read_startup_logs(path)
    fitted = fit_memory(read.logs)
    text = render_fitted_memory(
        fitted, base=base, engine=Engine.VLLM, since=since, made=made.isoformat(), data=data or path.name
    )
    return FittedCalibration(fitted=fitted, text=text, unknown_models=read.unknown_models)
