"""`capplan measure --methods` and `--pipeline`: errors without synchronising, and its cost."""

from pathlib import Path
from typing import TYPE_CHECKING

from capplan.cli.commands.measure.options import MeasureOptions
from capplan.cli.commands.measure.points import conclude
from capplan.cli.output import Format, emit, laid_out, to_json
from capplan.cli.progress import TERMINAL
from capplan.core.measurement.format import points_to_json
from capplan.core.measurement.types import Failure, Measurement, TimingMethod
from capplan.errors import UnknownNameError

if TYPE_CHECKING:
    from capplan.app.measure.request import MeasureRequest


def show_methods(request: "MeasureRequest", words: str, *, chosen: Format, output: Path | None) -> None:
    """Time the same batches by several methods and put them side by side.

    Raises:
        UsageError: an unknown method, or batches that are not listed.
        MeasurementError: the device has no events, and they were asked for.
    """
    from capplan.app.measure.methods import time_methods
    from capplan.report.text.measurement import method_sections

    points = time_methods(request, _methods(words), feedback=TERMINAL)
    if chosen is Format.JSON:
        emit(to_json(points_to_json(list(points))), output=output)
    else:
        measured = [point for point in points if isinstance(point, Measurement)]
        emit(laid_out(method_sections(measured), chosen, output=output), output=output)
    conclude([point for point in points if isinstance(point, Failure)])


def _methods(words: str) -> list[TimingMethod]:
    known = (TimingMethod.NAIVE, TimingMethod.SYNC, TimingMethod.EVENT)
    found = []
    for word in words.split(","):
        if word.strip() not in known:
            raise UnknownNameError("timing method", word.strip(), known, hint=f"Known: {', '.join(known)}.")
        found.append(TimingMethod(word.strip()))
    return found


def show_pipeline(words: str, how: MeasureOptions, *, chosen: Format, output: Path | None) -> None:
    """Time a pipeline's stages with and without synchronising after each.

    Raises:
        UsageError: no such file or function, or it returns no stages.
        MeasurementError: a stage failed.
    """
    from capplan.app.measure.methods import time_pipeline
    from capplan.report.documents.pipeline import pipelines_document
    from capplan.report.text.measurement import pipeline_sections

    timed = time_pipeline(words, curve=how.curve(), device=how.device, rules=how.rules())
    if chosen is Format.JSON:
        emit(to_json(pipelines_document(timed)), output=output)
        return
    emit(laid_out(pipeline_sections(timed), chosen, output=output), output=output)
