"""`capplan measure MODEL`: the points of a model, shown when the run has ended, for whatever reason."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from capplan.cli.output import Format, emit, laid_out, to_json, warn, write_plot
from capplan.cli.progress import TERMINAL
from capplan.core.measurement.format import points_to_json
from capplan.core.measurement.types import Failure, Measurement
from capplan.errors import MeasurementError

if TYPE_CHECKING:
    from capplan.app.measure.request import MeasureRequest
    from capplan.app.measure.run import MeasureAnswer


def measure_points(request: "MeasureRequest", *, chosen: Format, output: Path | None, plot: Path | None = None) -> None:
    """Measure the batches asked for, show and plot them, and end with the exit code that fits.

    Args:
        request: What is measured, and how.
        chosen: How it is written.
        output: Where it is written; None is stdout.
        plot: Where the times are drawn; None draws nothing.

    Raises:
        CapplanError: nothing could be measured at all, or something ended the run before its last point.
    """
    from capplan.app.measure.run import measure

    made = measure(request, feedback=TERMINAL)
    if made.points or made.ended_by is None or isinstance(made.ended_by, KeyboardInterrupt):
        _emit(made, chosen, output)
        draw([point for point in made.points if isinstance(point, Measurement)], plot)
    if isinstance(made.ended_by, KeyboardInterrupt):
        kept = f" in {request.lines}; --resume goes on" if request.lines else ""
        warn(f"capplan: interrupted; {len(made.points)} point(s) are kept{kept}.")
        raise typer.Exit(130) from None
    if made.ended_by is not None:
        raise made.ended_by
    conclude(made.failures)


def draw(points: Sequence[Measurement], plot: Path | None) -> None:
    """Plot measurements over the batch; without a file or without measurements nothing is drawn."""
    if plot is None or not points:
        return
    from capplan.report.charts.measurement import measurement_chart

    write_plot(measurement_chart(points), plot)


def conclude(failures: Sequence[Failure]) -> None:
    """Name the points that failed, and exit with 4 where there are any."""
    for failure in failures:
        warn(f"capplan: {failure.message}")
    if failures:
        raise typer.Exit(MeasurementError.exit_code)


def _emit(made: "MeasureAnswer", chosen: Format, output: Path | None) -> None:
    from capplan.report.documents.measurement import profiles_document
    from capplan.report.text.measurement import measurement_sections

    if chosen is Format.JSON:
        profiled = {"profiles": profiles_document(made.profiles)} if made.profiles else {}
        emit(to_json({**points_to_json(list(made.points)), **profiled}), output=output)
        return
    measured = [point for point in made.points if isinstance(point, Measurement)]
    if measured or (made.profiles and chosen is not Format.CSV):
        emit(laid_out(measurement_sections(measured, made.profiles), chosen, output=output), output=output)


def render_measurements(points: Sequence[Measurement], chosen: Format, output: Path | None) -> str:
    """Return measurements as a table, Markdown, CSV or JSON."""
    from capplan.report.text.measurement import measurement_sections

    if chosen is Format.JSON:
        return to_json(points_to_json(list(points)))
    return laid_out(measurement_sections(points), chosen, output=output)
