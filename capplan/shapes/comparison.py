"""The shape of a comparison: base units, fractions from 0 to 1, intervals with their ends."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from msgspec import UNSET, Meta

from capplan.core.latency.types import EVIDENCE_TITLE, EVIDENCE_WORDS, UNSURE_EVIDENCE
from capplan.core.memory.types import FitStatus
from capplan.core.plan.comparison import ComparedModel, Comparison, ComparisonRow
from capplan.core.plan.types import Fit, ModelFacts
from capplan.core.workload import precision_label
from capplan.shapes.common import SIGNED, torch_version
from capplan.shapes.plan import FIT, largest_batch, latency_ends
from capplan.shapes.shape import (
    CSV,
    NOWHERE,
    AnswerFigure,
    Shape,
    Show,
    Typed,
    View,
    column,
    ends_of,
    figure,
    itself,
    reads,
)
from capplan.units import format_bytes, format_joules, format_rate, format_seconds, format_watts


def row_status(row: ComparisonRow) -> Literal["fits", "borderline", "does not fit", "failed"]:
    """Return whether a row's model fits, or why it has no figures."""
    if row.fit is not None:
        return "fits" if row.fit.status is FitStatus.FITS else "borderline"
    return "does not fit" if row.rejection else "failed"


def _max_batch(row: ComparisonRow) -> int | None:
    answer = row.fit or row.rejection
    return answer.max_batch if answer else None


def _facts(row: ComparisonRow, comparison: Comparison) -> ModelFacts:
    return next(model.facts for model in comparison.models if model.label == row.model)


def _precision_label(row: ComparisonRow, comparison: Comparison) -> str:
    return precision_label(row.workload.precision, _facts(row, comparison).dtype)


def _figures_of_fits() -> Iterator[AnswerFigure]:
    """Return the figures of a fit that rows of comparisons have, too."""
    for reader in FIT.readers:
        if View.COMPARED in reader.figure.show.views:
            read = reads(reader.hint | None, partial(_read_fit, reader.value))
            yield replace(reader.figure, read=read, default=None)


def _read_fit(read: Callable[[Any, Any], Any], row: ComparisonRow, comparison: Comparison) -> Any:
    return None if row.fit is None else read(row.fit, comparison)


def _of_fit(write: Callable[[Fit], str]) -> Typed:
    return reads(str | None, lambda row: None if row.fit is None else write(row.fit))


def _compared(title: str, form: Callable[[Any], str] = str, *, csv: str = "", rank: int = 0) -> Show:
    """Return that a figure is a column of the CSV, and of the table under a title."""
    return Show(csv=tuple(csv.split())).seen(View.COMPARED, title=title, form=form, rank=rank)


def _fits_words(row: ComparisonRow) -> str:
    if row.fit is None:
        return "no"
    return "borderline" if row.fit.status is FitStatus.BORDERLINE else "yes"


# fmt: off
COMPARED_MODEL: Final = Shape("ComparedModelDocument", ComparedModel, "One of the models compared.", (
    figure("name", "label"),
    figure("target"),
    figure("class", "facts.class_name"),
    figure("params", "facts.parameter_count"),
    figure("macs_per_sample", "facts.macs_per_sample"),
    figure("flops_per_sample", "facts.flops_per_sample"),
    figure("weight_bytes", "facts.weight_bytes"),
    figure("uncounted", "facts.uncounted"),
))
CONDITIONS: Final = Shape("ComparisonConditions", Comparison, "The conditions that all rows share.", (
    figure("mode", "workload.configuration.mode"),
    figure("torch", reads(str, lambda comparison: torch_version(comparison.workload))),
    figure("host", "host.words"),
    figure("utilization_fraction", "limits.utilization_fraction"),
    figure("max_latency_s", "limits.max_latency_s"),
    figure("min_throughput_per_s", "limits.min_throughput_per_s"),
))
COMPARED_MEMORY: Final = Shape("ComparedMemory", Fit, "Peak memory of one process. [bytes]", (
    figure("peak_allocated_bytes", "memory.peak_allocated_bytes", show=CSV),
    figure("peak_reserved_bytes", "memory.peak_reserved_bytes", show=CSV),
    figure("total_bytes", "memory.total_bytes",
        show=_compared("memory", format_bytes, csv="expected low high", rank=3)),
))
COMPARISON_ROW: Final = Shape("ComparisonRowDocument", ComparisonRow, "One model under one set of conditions on a GPU at a batch; figures are null where it does not fit.", (
    figure("model", show=_compared("model", csv="expected")),
    figure("precision", "workload.precision", show=CSV),
    figure("precision_label", _precision_label, show=_compared("precision").alone()),
    figure("framework", "workload.framework", show=_compared("framework", csv="expected")),
    figure("layout", "workload.layout", show=CSV.seen(View.COMPARED, title="layout", if_varied=True)),
    figure("gpu", "gpu.id", show=CSV.seen(View.COMPARED, title="GPU", if_varied=True)),
    figure("batch", show=CSV),
    figure("batch_words", reads(str, lambda row: "" if row.batch is None else f"{row.batch:,}"),
        show=NOWHERE.alone().seen(View.COMPARED, title="batch", if_varied=True)),
    figure("fits", _fits_words, show=NOWHERE.alone().seen(View.COMPARED, title="fits", usual="yes")),
    figure("status", row_status, show=CSV),
    figure("reason", show=CSV),
    figure("params", reads(int, lambda row, comparison: _facts(row, comparison).parameter_count), show=CSV.alone()),
    figure("flops_per_sample", reads(int, lambda row, comparison: _facts(row, comparison).flops_per_sample), show=CSV.alone()),
    figure("latency_s", "fit.latency.bounded_s", show=_compared("latency", format_seconds, csv="bound low expected high")),
    figure("latency_ends", _of_fit(latency_ends), show=NOWHERE.right().alone().seen(View.COMPARED, title="from … to", rank=6)),
    figure("throughput_per_s", "fit.latency.throughput_per_s",
        show=_compared("samples/s", format_rate, csv="expected", rank=1)),
    figure("gain", meaning="Throughput as a multiple of that of the first row of the same GPU and batch.",
        show=_compared("×", "{:.2f}".format, csv="expected", rank=2)),
    figure("bound_by", "fit.latency.bound_by", show=CSV),
    figure("memory", COMPARED_MEMORY.at("fit")),
    figure("max_batch", _max_batch, show=CSV),
    figure("safe_batch", _of_fit(largest_batch), show=NOWHERE.right().alone().seen(View.COMPARED, title="safe batch", rank=8)),
    figure("usd_per_hour", "fit.rent.usd_per_hour", show=CSV),
    figure("usd_per_million_samples", show=_compared("USD/M", "{:.3g}".format, csv="expected", rank=4)),
    figure("evidence", "fit.latency.evidence", show=CSV.seen(
        View.COMPARED, title=EVIDENCE_TITLE, form=EVIDENCE_WORDS.__getitem__, rank=5, unsure=UNSURE_EVIDENCE)),
    figure("evidence_reason", "fit.latency.evidence_reason"),
    *_figures_of_fits(),
    figure("power_w", "fit.energy.power_w", "of all GPUs, without their host; --energy",
        column("power", format_watts, csv=ends_of("power_w"), rank=7).where_known().seen(View.COMPARED), default=UNSET),
    figure("joules_per_sample", "fit.energy.joules_per_sample",
        show=column("per sample", format_joules, csv=ends_of("joules_per_sample"), rank=3).where_known()
            .seen(View.COMPARED), default=UNSET),
    figure("power_evidence", "fit.energy.evidence", show=CSV.where_known(), default=UNSET),
))
COMPARISON: Final = Shape("ComparisonDocument", Comparison, "What `capplan compare --format json` writes. Fractions run from 0 to 1.", (
    *SIGNED,
    figure("models", COMPARED_MODEL, Meta(min_length=1)),
    figure("conditions", CONDITIONS.at(itself(Comparison))),
    figure("rows", COMPARISON_ROW),
    figure("notes"),
    figure("local", "local_cost", "a million samples of the cheapest row in the currency asked for", default=None),
))
# fmt: on
