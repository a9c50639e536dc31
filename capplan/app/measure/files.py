"""Compare two measurement files, or read one to be shown in another form; neither needs torch."""

from pathlib import Path

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.measure.store import read_measurements
from capplan.core.measurement.compare import Pairing, compare_runs
from capplan.core.measurement.types import Measurement
from capplan.errors import UsageError


def stored_measurements(path: Path, *, feedback: Feedback = SILENCE) -> tuple[Measurement, ...]:
    """Return the measurements of a file.

    Args:
        path: a measurement file.
        feedback: where a line that was cut off is reported.

    Raises:
        UsageError: it cannot be read, or holds no measurement.
        MeasurementFileError: it is damaged elsewhere than in a last line that was cut off.
    """
    found = read_measurements(path)
    if found.is_cut:
        feedback.warn(f"warning: {path}: the last line is cut off and left out.")
    if not found.measurements:
        raise UsageError(f"{path} holds no measurement.")
    return tuple(found.measurements)


def compare_files(first: Path, second: Path, *, feedback: Feedback = SILENCE) -> Pairing:
    """Return which questions two runs both answered, and whether their answers differ beyond noise.

    Args:
        first: a measurement file.
        second: another one.
        feedback: where lines that were cut off are reported.

    Raises:
        UsageError: a file holds no measurement, or the two share no question.
    """
    pairing = compare_runs(
        stored_measurements(first, feedback=feedback), stored_measurements(second, feedback=feedback)
    )
    if not pairing.pairs:
        raise UsageError(f"{first} and {second} have no model, input size, batch and precision in common.")
    return pairing
