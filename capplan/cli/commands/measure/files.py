"""`capplan measure --compare` and `--export`: measurement files compared, or shown in another form. No torch."""

from pathlib import Path

from capplan.app.measure.files import compare_files, stored_measurements
from capplan.cli.commands.measure.points import draw, render_measurements
from capplan.cli.output import Format, emit, laid_out, to_json, warn
from capplan.cli.progress import TERMINAL
from capplan.core.measurement.compare import Pairing
from capplan.core.measurement.types import Measurement


def export(path: Path, *, chosen: Format, output: Path | None, plot: Path | None = None) -> None:
    """Show a measurement file in another form.

    Args:
        path: The measurement file.
        chosen: How it is written.
        output: Where it is written; None is stdout.
        plot: Where its times are drawn; None draws nothing.

    Raises:
        UsageError: it holds no measurement.
    """
    points = stored_measurements(path, feedback=TERMINAL)
    emit(render_measurements(points, chosen, output), output=output)
    draw(points, plot)


def compare(first: Path, second: Path, *, chosen: Format, output: Path | None) -> None:
    """Show whether two runs differ beyond noise.

    Raises:
        UsageError: a file holds no measurement, or the two share no question.
    """
    pairing = compare_files(first, second, feedback=TERMINAL)
    emit(_render(pairing, chosen, output), output=output)
    for path, alone in ((first, pairing.only_first), (second, pairing.only_second)):
        if alone:
            warn(f"only in {path}: {', '.join(map(_short, alone))}.")


def _short(point: Measurement) -> str:
    return f"{point.model.words} at batch {point.workload.batch} in {point.workload.precision}"


def _render(pairing: Pairing, chosen: Format, output: Path | None) -> str:
    from capplan.report.documents.measurement import comparisons_document
    from capplan.report.text.measurement import pairing_sections

    if chosen is Format.JSON:
        return to_json(comparisons_document(pairing))
    return laid_out(pairing_sections(pairing), chosen, output=output)
