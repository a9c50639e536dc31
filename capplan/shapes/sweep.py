"""The shape of what a sweep did: counts, rates, and failures by their reason."""

from operator import attrgetter
from typing import Any, Final

from capplan.core.sweep.overview import Standing, SweepOverview, SweepPreview
from capplan.shapes.shape import AnswerFigure, Shape, Typed, figure, reads


def _standing(of: str) -> tuple[AnswerFigure, ...]:
    """Return the figures of how far a sweep is, read from the value, or from its attribute "standing."."""

    def rounded(name: str, digits: int, kind: Any = float | None) -> Typed:
        def read(value: object) -> float | None:
            found = attrgetter(of + name)(value)
            return None if found is None else round(found, digits)

        return reads(kind, read)

    return (
        *(figure(name, of + name) for name in ("models", "finished")),
        figure("kept", f"{of}kept", "models that needed nothing new"),
        *(figure(name, of + name) for name in ("failed", "rows")),
        figure("elapsed_s", rounded("elapsed_s", 3, float)),
        figure("rows_per_s", rounded("rows_per_s", 1), "null before the first row"),
        figure("remaining_s", rounded("remaining_s", 1), "null before the first model"),
    )


# fmt: off
STANDING: Final = Shape("StandingDocument", Standing, "How far a sweep is; rates count what this run computed.", _standing(""))
SWEEP: Final = Shape("SweepDocument", SweepOverview, "What `capplan sweep --json` writes at the end.", (
    *_standing("standing."),
    figure("folder"),
    figure("gpus"),
    figure("workloads"),
    figure("dataset_rows", "rows", "rows of the whole table, those of earlier runs included"),
    figure("files"),
    figure("answered", meaning="pairs of model and workload that have an answer"),
    figure("measured", meaning="rows that were timed on a device"),
    figure("failures", meaning="the largest group first"),
    figure("notes"),
))
PREVIEW: Final = Shape("SweepPreviewDocument", SweepPreview, "What `capplan sweep --dry-run --json` writes: counts, and an estimate from the rates of earlier sweeps.", (
    figure("folder"),
    figure("models"),
    figure("gpus"),
    figure("workloads"),
    figure("batches", meaning="batches of all workloads together"),
    figure("cells", meaning="rows of the whole table"),
    figure("kept_cells", meaning="rows that the folder holds already"),
    figure("files"),
    figure("pairs", meaning="pairs of model and workload to plan"),
    figure("to_plan", meaning="rows to plan"),
    figure("to_serve", meaning="rows of served language models to compute"),
    figure("models_to_trace", meaning="models to plan that are no trace files"),
    figure("traced_models", meaning="those of which every trace is in the cache"),
    figure("traces", meaning="traces that they need"),
    figure("kept_traces", meaning="traces that are in the cache"),
    figure("unknown", meaning="why names stand for no model; their rows will be failures"),
    figure("notes"),
    figure("cpu_s", meaning="processor time of what is left, over all cores [s]"),
    figure("result_bytes", meaning="space of the whole results folder [bytes]"),
    figure("trace_bytes", meaning="space of traces added to the cache [bytes]"),
))
# fmt: on
