"""What a sweep did as a typed document: counts, rates, and failures by their reason."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from capplan.core.sweep.overview import FailureGroup, Standing, SweepOverview


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
