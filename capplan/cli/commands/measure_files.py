"""What `capplan measure` does with files alone: compare two, show one in another form. No torch."""

from dataclasses import asdict
from pathlib import Path

from capplan.app.measurement_store import read_measurements
from capplan.cli.output import Format, emit, to_json, warn
from capplan.core.measurement.compare import Pairing, compare_runs
from capplan.core.measurement.format import MeasurementFile
from capplan.core.measurement.types import Measurement
from capplan.errors import UsageError


def export_file(path: Path, *, spelling: Format, output: Path | None) -> None:
    """Show a measurement file in another form.

    Raises:
        UsageError: it holds no measurement.
    """
    from capplan.cli.measure_run import spell_measurements

    found = _read(path)
    emit(spell_measurements(found.measurements, spelling), output=output)


def compare_files(first: Path, second: Path, *, spelling: Format, output: Path | None) -> None:
    """Tell whether two runs differ beyond noise.

    Raises:
        UsageError: a file holds no measurement, or the two share no question.
    """
    pairing = compare_runs(_read(first).measurements, _read(second).measurements)
    if not pairing.pairs:
        raise UsageError(f"{first} and {second} have no model, input size, batch and precision in common.")
    emit(_spell(pairing, spelling), output=output)
    for path, alone in ((first, pairing.only_first), (second, pairing.only_second)):
        if alone:
            warn(f"only in {path}: {', '.join(map(_short, alone))}.")


def _short(point: Measurement) -> str:
    return f"{point.model.words} at batch {point.workload.batch} in {point.workload.precision}"


def _read(path: Path) -> MeasurementFile:
    found = read_measurements(path)
    if found.is_cut:
        warn(f"warning: {path}: the last line is cut off and left out.")
    if not found.measurements:
        raise UsageError(f"{path} holds no measurement.")
    return found


def _spell(pairing: Pairing, spelling: Format) -> str:
    from capplan.cli.measure_run import spell_table
    from capplan.report.text.measurement import comparison_table

    if spelling is Format.JSON:
        return to_json({"comparisons": [_comparison(pairing, index) for index in range(len(pairing.pairs))]})
    return spell_table(comparison_table(pairing), spelling)


def _comparison(pairing: Pairing, index: int) -> dict[str, object]:
    pair = pairing.pairs[index]
    return {
        "model": pair.first.model.words,
        "batch": pair.first.workload.batch,
        "precision": pair.first.workload.precision.value,
        "framework": pair.first.workload.framework.value,
        "layout": pair.first.workload.layout.value,
        "first_median_s": pair.first.latency.median,
        "second_median_s": pair.second.latency.median,
        "ratio": asdict(pair.ratio),
        "verdict": pair.verdict.value,
    }
