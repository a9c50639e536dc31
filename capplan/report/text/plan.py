"""A plan as sections: every GPU and batch with all figures, what was rejected, and what was assumed."""

from collections.abc import Callable, Mapping, Sequence

from capplan.core.memory.fit import usable_memory
from capplan.core.memory.types import FitStatus
from capplan.core.numbers import Interval
from capplan.core.plan.types import Fit, Plan, Rejection
from capplan.report.documents.diff import Change, CheckedLimit
from capplan.report.sections import Block, Column, Format, LineRole, Lines, Section, Table, data, figure, words
from capplan.report.text.answer import EVIDENCE_WORDS, energy_columns, energy_data, largest_batches, price_days
from capplan.report.text.pipelines import columns as pipeline_columns
from capplan.report.text.pipelines import pipeline_blocks
from capplan.units import (
    format_bytes,
    format_count,
    format_flops,
    format_fraction,
    format_parameters,
    format_rate,
    format_seconds,
    format_speedup,
)


def plan_sections(plans: Sequence[Plan]) -> list[Section]:
    """Return whole plans, one after the other: every GPU and batch, what was rejected, and what was assumed."""
    fits = [(plan, fit) for plan in plans for fit in plan.fits]
    rejections = [(plan, rejection) for plan in plans for rejection in plan.rejections]
    energy = energy_data(lambda row: row[1].energy, fits)
    return [*map(_section, plans), Section([Table([*_FIT_DATA, *energy], fits), Table(_REJECTION_DATA, rejections)])]


def _section(plan: Plan) -> Section:
    blocks: list[Block] = [Lines([_headline(plan)], role=LineRole.TITLE)]
    if recommended := _recommended(plan):
        blocks.append(Lines(recommended, role=LineRole.ITEM, is_attached=True))
    if plan.pipeline is not None:
        blocks += pipeline_blocks(plan)
    if plan.fits:
        hours = [_hours_column(plan)] if plan.job else []
        shown = _FITS if plan.pipeline is None else pipeline_columns(plan, plan.fits)
        blocks.append(Table([*shown, *hours, *energy_columns(plan.fits)], plan.fits))
    if plan.rejections:
        blocks.append(Lines([f"{len(plan.rejections)} rejected:"]))
        blocks.append(Table(_REJECTIONS, plan.rejections, is_attached=True))
    copies = host_copy_line(plan)
    if copies:
        blocks.append(Lines([copies]))
    blocks.append(Lines(_notes(plan), role=LineRole.NOTE, is_attached=bool(copies)))
    return Section(blocks)


def _share_of_usable(fit: Fit) -> str:
    share = format_fraction(fit.memory.total_bytes.expected / usable_memory(fit.gpu).expected)
    return share if fit.memory.usable_bytes else f"~{share}"


def _interval(fit: Fit) -> str:
    latency = fit.latency.latency_s
    return f"{format_seconds(latency.low)} to {format_seconds(latency.high)}"


_FITS: tuple[Column[Fit], ...] = (
    words("GPU", lambda fit: fit.gpu.id),
    figure("batch", lambda fit: fit.batch),
    words("fits", lambda fit: "borderline" if fit.status is FitStatus.BORDERLINE else "yes", rank=1),
    figure("peak memory", lambda fit: fit.memory.total_bytes.expected, format_bytes),
    figure("of usable", _share_of_usable, rank=3),
    figure("largest batch", largest_batches, rank=1),
    figure("recommended", lambda fit: fit.recommended_batch, "{:,}".format, rank=2, unknown="none"),
    figure("latency", lambda fit: fit.latency.latency_s.expected, format_seconds),
    figure("interval", _interval, rank=2),
    figure("bound", lambda fit: fit.latency.bound_s, format_seconds, rank=3),
    figure("samples/s", lambda fit: fit.latency.throughput_per_s.expected, format_rate),
    words("bound by", lambda fit: fit.latency.bound_by.value, rank=3),
    figure("batching gains", lambda fit: fit.batching_gain, format_speedup, rank=3),
    figure("USD/GPU/h", lambda fit: fit.rent.usd_per_hour if fit.rent else None, "{:.2f}".format, rank=1),
    figure("GPUs a machine", lambda fit: fit.rent.instance_gpus if fit.rent else None, "{:,}".format, rank=3),
    figure("USD/M samples", lambda fit: fit.usd_per_million_samples, "{:.3g}".format),
    words("evidence", lambda fit: EVIDENCE_WORDS[fit.latency.evidence]),
)


def _hours_column(plan: Plan) -> Column[Fit]:
    def span(hours: Interval) -> str:
        return f"{hours.expected:,.3g} ({hours.low:,.3g} to {hours.high:,.3g})"

    return figure("GPU-hours", plan.gpu_hours, span)


_REJECTIONS: tuple[Column[Rejection], ...] = (
    words("GPU", lambda rejection: rejection.gpu.id),
    figure("batch", lambda rejection: rejection.batch),
    words("why not", lambda rejection: f"{rejection.constraint.value}: {rejection.reason}"),
    figure("largest batch", largest_batches),
    figure("GPUs needed", lambda rejection: rejection.min_gpus, "at least {}".format),
)


def _recommended_as(row: tuple[Plan, Fit]) -> str:
    plan, fit = row
    return " ".join(recommendation.criterion for recommendation in plan.recommended if recommendation.fit is fit)


_FIT_DATA: tuple[Column[tuple[Plan, Fit]], ...] = (
    data("model", lambda row: row[0].model.name),
    data("gpu", lambda row: row[1].gpu.id),
    data("batch", lambda row: row[1].batch),
    data("status", lambda row: row[1].status.value),
    data("reason", lambda _: None),
    data("peak_allocated_bytes", lambda row: round(row[1].memory.peak_allocated_bytes.expected)),
    data("peak_reserved_bytes", lambda row: round(row[1].memory.peak_reserved_bytes.expected)),
    data("total_bytes", lambda row: round(row[1].memory.total_bytes.expected)),
    data("total_low_bytes", lambda row: round(row[1].memory.total_bytes.low)),
    data("total_high_bytes", lambda row: round(row[1].memory.total_bytes.high)),
    data("usable_bytes", lambda row: round(usable_memory(row[1].gpu).expected)),
    data("max_batch", lambda row: row[1].max_batch),
    data("certain_batch", lambda row: row[1].certain_batch),
    data("recommended_batch", lambda row: row[1].recommended_batch),
    data("latency_bound_s", lambda row: row[1].latency.bound_s),
    data("latency_low_s", lambda row: row[1].latency.latency_s.low),
    data("latency_s", lambda row: row[1].latency.latency_s.expected),
    data("latency_high_s", lambda row: row[1].latency.latency_s.high),
    data("throughput_per_s", lambda row: row[1].latency.throughput_per_s.expected),
    data("bound_by", lambda row: row[1].latency.bound_by.value),
    data("host_copy_s", lambda row: row[1].host_copy_s),
    data("usd_per_hour", lambda row: row[1].rent.usd_per_hour if row[1].rent else None),
    data("usd_per_million_samples", lambda row: row[1].usd_per_million_samples),
    data("offer", lambda row: row[0].offer_words(row[1]) or None),
    data("offer_usd_per_hour", lambda row: row[0].usd_per_hour(row[1])),
    data("min_gpus", lambda _: None),
    data("gpus_for_rate", lambda row: row[0].gpus_for_rate(row[1])),
    data("batching_gain", lambda row: row[1].batching_gain),
    data("evidence", lambda row: row[1].latency.evidence.value),
    data("recommended_as", _recommended_as),
)
_REJECTION_DATA: tuple[Column[tuple[Plan, Rejection]], ...] = (
    data("model", lambda row: row[0].model.name),
    data("gpu", lambda row: row[1].gpu.id),
    data("batch", lambda row: row[1].batch),
    data("status", lambda _: FitStatus.DOES_NOT_FIT.value),
    data("reason", lambda row: f"{row[1].constraint.value}: {row[1].reason}"),
    data("max_batch", lambda row: row[1].max_batch),
    data("certain_batch", lambda row: row[1].certain_batch),
    data("min_gpus", lambda row: row[1].min_gpus),
)


def _headline(plan: Plan) -> str:
    model = plan.model
    counted = f"{format_flops(model.flops_per_sample)} = {format_count(model.macs_per_sample)} MACs/sample"
    sizes = f"{model.parameter_count:,} parameters ({format_bytes(model.weight_bytes)})"
    buffers = f"{model.buffer_count:,} buffer elements, activation peak {format_bytes(model.activation_peak_bytes)}"
    conditions = f"{plan.precision_label} {plan.workload.configuration.mode}"
    size = f" · {model.input}" if model.input.size else ""
    return f"{model.name} ({model.class_name}){size}: {sizes}, {buffers}, {counted}; {conditions}"


def _recommended(plan: Plan) -> list[str]:
    """Return a sentence for each recommendation."""
    lines = []
    for recommendation in plan.recommended:
        warning = f" (careful: {recommendation.warning})" if recommendation.warning else ""
        name = recommendation.criterion.value.replace("_", " ").replace("priced", "with a price")
        lines.append(
            f"{name}: {recommendation.fit.gpu.id} at batch {recommendation.fit.batch}, {recommendation.reason}{warning}"
        )
    return lines


def _notes(plan: Plan) -> tuple[str, ...]:
    """Return the notes below the tables."""
    changes = tuple(
        f"{change.name} ({change.option}) on {change.after.gpu.id} at batch {change.after.batch}: "
        f"{format_seconds(change.after.latency.latency_s.expected)} ({format_speedup(change.speedup)}), "
        f"{format_bytes(change.after.memory.total_bytes.expected)}"
        for change in plan.changes
    )
    told = (*plan.cautions, *plan.assumptions, *_usable_notes(plan), *_price_notes(plan), *changes, *plan.notes)
    return tuple(dict.fromkeys(told))


def _price_notes(plan: Plan) -> tuple[str, ...]:
    span = price_days(plan)
    words = f"prices are those of the offers whose whole machines cost least on demand, dated or read {span}"
    return (f"{words}; `capplan prices --gpu ID` lists all",) if span else ()


def _usable_notes(plan: Plan) -> tuple[str, ...]:
    if all(fit.memory.usable_bytes for fit in plan.fits):
        return ()
    return ("~ marks GPUs whose usable memory nobody reported: the share usual among cards of their kind is taken",)


def host_copy_line(plan: Plan) -> str | None:
    """Format the least time that copying the input from the host takes; it is not part of the latency."""
    known = [fit for fit in plan.fits if fit.host_copy_s]
    if not known:
        return None
    slowest = max(known, key=lambda fit: fit.host_copy_s or 0.0)
    size = format_bytes(plan.model.input_bytes_per_sample)
    time = format_seconds(slowest.host_copy_s or 0.0)
    where = f"{slowest.gpu.id} at batch {slowest.batch}"
    return f"Host copies (outside latency): {size} per sample over PCIe, at best {time} on {where}."


def change_sections(changes: Sequence[Change]) -> list[Section]:
    """Return what changed between two documents."""
    if not changes:
        return [Section([Lines(["no change"], only=Format.TABLE), Lines(["No change."], only=Format.MD)])]
    return [Section([Table(_CHANGES, changes)])]


def _value(what: str, value: float | str | None) -> str:
    """Write a figure in the unit that its name ends in, so that 8.17889e+08 of memory_bytes are 780 MiB."""
    if value is None or isinstance(value, str):
        return "absent" if value is None else value
    form = next((form for ending, form in _FORMS.items() if what.endswith(ending)), None)
    if form is not None:
        return form(value)
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}"


_FORMS: Mapping[str, Callable[[float], str]] = {
    "throughput_per_s": format_rate,
    "_per_s": lambda rate: f"{rate:.6g}",
    "_bytes": format_bytes,
    "_s": format_seconds,
    "flops_per_sample": format_flops,
    "params": lambda count: format_parameters(int(count)),
}
"""How figures are written, by the end of their names; the first that fits."""


_CHANGES: tuple[Column[Change], ...] = (
    words("where", lambda change: change.where),
    words("what", lambda change: change.what),
    figure("before", lambda change: _value(change.what, change.before)),
    figure("after", lambda change: _value(change.what, change.after)),
    figure("change", lambda change: change.relative, lambda relative: f"{100 * relative:+.3g} %"),
)


def outcome_sections(outcomes: Sequence[CheckedLimit]) -> list[Section]:
    """Return one line per limit that a plan was checked against."""
    return [Section([Table(_OUTCOMES, outcomes)])]


_OUTCOMES: tuple[Column[CheckedLimit], ...] = (
    words("outcome", lambda outcome: "kept" if outcome.is_kept else "FAILED"),
    words("model", lambda outcome: outcome.model),
    words("GPU", lambda outcome: outcome.gpu),
    words("limit", lambda outcome: outcome.limit),
    words("figures", lambda outcome: outcome.words),
)
