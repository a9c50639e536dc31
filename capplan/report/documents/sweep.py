"""What a sweep did as a typed document: counts, rates, and failures by their reason."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from capplan.core.sweep.overview import FailureGroup, RateRange, Standing, SweepOverview, SweepPreview


class StandingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """How far a sweep is; rates count what this run computed."""

    models: int
    finished: int
    kept: Annotated[int, Meta(description="models that needed nothing new")]
    failed: int
    rows: int
    elapsed_s: float
    rows_per_s: Annotated[float | None, Meta(description="null before the first row")]
    remaining_s: Annotated[float | None, Meta(description="null before the first model")]


class SweepDocument(StandingDocument, frozen=True, kw_only=True):
    """What `capplan sweep --json` writes at the end."""

    folder: str
    gpus: int
    workloads: int
    dataset_rows: Annotated[int, Meta(description="rows of the whole table, those of earlier runs included")]
    files: int
    answered: Annotated[int, Meta(description="pairs of model and workload that have an answer")]
    measured: Annotated[int, Meta(description="rows that were timed on a device")]
    failures: Annotated[tuple[FailureGroup, ...], Meta(description="the largest group first")]
    notes: tuple[str, ...]


class SweepPreviewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan sweep --dry-run --json` writes: counts, and an estimate from the rates of earlier sweeps."""

    folder: str
    models: int
    gpus: int
    workloads: int
    batches: Annotated[int, Meta(description="batches of all workloads together")]
    cells: Annotated[int, Meta(description="rows of the whole table")]
    kept_cells: Annotated[int, Meta(description="rows that the folder holds already")]
    files: int
    pairs: Annotated[int, Meta(description="pairs of model and workload to plan")]
    to_plan: Annotated[int, Meta(description="rows to plan")]
    to_serve: Annotated[int, Meta(description="rows of served language models to compute")]
    models_to_trace: Annotated[int, Meta(description="models to plan that are no trace files")]
    traced_models: Annotated[int, Meta(description="those of which every trace is in the cache")]
    traces: Annotated[int, Meta(description="traces that they need")]
    kept_traces: Annotated[int, Meta(description="traces that are in the cache")]
    unknown: Annotated[tuple[str, ...], Meta(description="why names stand for no model; their rows will be failures")]
    notes: tuple[str, ...]
    cpu_s: Annotated[RateRange, Meta(description="processor time of what is left, over all cores [s]")]
    result_bytes: Annotated[RateRange, Meta(description="space of the whole results folder [bytes]")]
    trace_bytes: Annotated[RateRange, Meta(description="space of traces added to the cache [bytes]")]


def preview_document(preview: SweepPreview) -> SweepPreviewDocument:
    """Return what a sweep would take as a document.

    Args:
        preview: The counts.
    """
    values = {name: getattr(preview, name) for name in SweepPreviewDocument.__struct_fields__}
    return SweepPreviewDocument(**values)


def standing_document(standing: Standing) -> StandingDocument:
    """Return how far a sweep is as a document.

    Args:
        standing: The counts. [s, 1/s]
    """
    return StandingDocument(**_standing(standing))


def sweep_document(overview: SweepOverview) -> SweepDocument:
    """Return what a sweep did as a document.

    Args:
        overview: The sweep's counts and failures.
    """
    return SweepDocument(
        **_standing(overview.standing),
        folder=overview.folder,
        gpus=overview.gpus,
        workloads=overview.workloads,
        dataset_rows=overview.rows,
        files=overview.files,
        answered=overview.answered,
        measured=overview.measured,
        failures=overview.failures,
        notes=overview.notes,
    )


def _standing(standing: Standing) -> dict[str, Any]:
    rate, remaining = standing.rows_per_s, standing.remaining_s
    return {
        "models": standing.models,
        "finished": standing.finished,
        "kept": standing.kept,
        "failed": standing.failed,
        "rows": standing.rows,
        "elapsed_s": round(standing.elapsed_s, 3),
        "rows_per_s": None if rate is None else round(rate, 1),
        "remaining_s": None if remaining is None else round(remaining, 1),
    }
