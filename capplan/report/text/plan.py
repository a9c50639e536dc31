"""A plan for people: text for the terminal, Markdown for a pull request, CSV for a sheet."""

from collections.abc import Sequence

from capplan.core.memory.fit import usable_memory
from capplan.core.memory.types import FitStatus
from capplan.core.numbers import Interval
from capplan.core.plan.types import Fit, Plan, Rejection
from capplan.report.table import Table, render_csv, render_markdown, render_text, table
from capplan.report.text.answer import EVIDENCE_WORDS, largest_batch
from capplan.units import (
    format_bytes,
    format_count,
    format_flops,
    format_fraction,
    format_rate,
    format_seconds,
    format_speedup,
)

_FIT_TITLES = (
    "GPU|batch>|?fits|peak memory>|???of usable>|?largest batch>|??recommended>|latency>|??interval>|???bound>|"
    "samples/s>|???bound by|?USD/hour>|USD/M samples>|evidence"
)
_REJECTION_TITLES = "GPU|batch>|why not|largest batch>|GPUs needed>"


def render_plan_text(plan: Plan) -> str:
    """Lay a plan out for the terminal."""
    pieces = [_headline(plan), *_recommended(plan), ""]
    if plan.fits:
        pieces += [render_text(_fit_table(plan))]
    if plan.rejections:
        pieces += [f"{len(plan.rejections)} rejected:", render_text(_rejection_table(plan))]
    if copies := host_copy_line(plan):
        pieces += [copies]
    pieces += [f"  · {line}" for line in _notes(plan)]
    return "\n".join(pieces) + "\n"


def render_plan_markdown(plan: Plan) -> str:
    """Lay a plan out as GitHub-flavoured Markdown."""
    pieces = [f"**{_headline(plan)}**", "", *(f"- {each}" for each in _recommended(plan)), ""]
    if plan.fits:
        pieces += [render_markdown(_fit_table(plan))]
    if plan.rejections:
        pieces += ["Rejected:", "", render_markdown(_rejection_table(plan))]
    if copies := host_copy_line(plan):
        pieces += [copies, ""]
    pieces += [f"- {line}" for line in _notes(plan)]
    return "\n".join(pieces) + "\n"


_CSV_TITLES = (
    "model|gpu|batch|status|reason|peak_allocated_bytes|peak_reserved_bytes|total_bytes|total_low_bytes|total_high_bytes|"
    "usable_bytes|max_batch|recommended_batch|latency_bound_s|latency_low_s|latency_s|latency_high_s|throughput_per_s|"
    "bound_by|host_copy_s|usd_per_hour|usd_per_million_samples|min_gpus|evidence|recommended_as"
)


def render_plans_csv(plans: list[Plan]) -> str:
    """Write one row per model, GPU and batch in base units; what is unknown is empty."""
    columns = plan_columns(plans)
    rows = [tuple(map(_csv_value, row)) for row in zip(*columns.values(), strict=True)]
    return render_csv(table(_CSV_TITLES, rows))


def plan_columns(plans: Sequence[Plan]) -> dict[str, list[object]]:
    """Return a column of values in base units for each title of the CSV, fits first; None is unknown."""
    rows = [_fit_values(plan, fit) for plan in plans for fit in plan.fits]
    rows += [_rejection_values(plan, rejection) for plan in plans for rejection in plan.rejections]
    return {title: [row[index] for row in rows] for index, title in enumerate(_CSV_TITLES.split("|"))}


def _fit_values(plan: Plan, fit: Fit) -> tuple[object, ...]:
    memory, latency = fit.memory, fit.latency
    total = memory.total_bytes
    return (
        plan.model.name, fit.gpu.id, fit.batch, fit.status.value, None,
        round(memory.peak_allocated_bytes.expected), round(memory.peak_reserved_bytes.expected),
        round(total.expected), round(total.low), round(total.high), round(usable_memory(fit.gpu).expected),
        fit.max_batch, fit.recommended_batch, latency.bound_s, latency.latency_s.low, latency.latency_s.expected,
        latency.latency_s.high, latency.throughput_per_s.expected, latency.bound_by.value, fit.host_copy_s,
        fit.rent.usd_per_hour if fit.rent else None, fit.usd_per_million_samples, None,
        fit.latency.evidence.value, " ".join(each.criterion for each in plan.recommended if each.fit is fit),
    )  # fmt: skip


def _rejection_values(plan: Plan, rejection: Rejection) -> tuple[object, ...]:
    reason = f"{rejection.constraint.value}: {rejection.reason}"
    head = (plan.model.name, rejection.gpu.id, rejection.batch, FitStatus.DOES_NOT_FIT.value, reason)
    return (*head, *[None] * 6, rejection.max_batch, *[None] * 10, rejection.min_gpus, None, None)


def _csv_value(value: object) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _headline(plan: Plan) -> str:
    model = plan.model
    counted = f"{format_flops(model.flops_per_sample)} = {format_count(model.macs_per_sample)} MACs/sample"
    sizes = f"{model.parameter_count:,} parameters ({format_bytes(model.weight_bytes)})"
    buffers = f"{model.buffer_count:,} buffer elements, activation peak {format_bytes(model.activation_peak_bytes)}"
    conditions = f"{plan.precision_label} {plan.workload.configuration.mode}"
    return f"{model.name} ({model.class_name}): {sizes}, {buffers}, {counted}; {conditions}"


def _recommended(plan: Plan) -> list[str]:
    """Return a sentence for each recommendation."""
    lines = []
    for each in plan.recommended:
        warning = f" (careful: {each.warning})" if each.warning else ""
        name = each.criterion.value.replace("_", " ").replace("priced", "with a price")
        lines.append(f"{name}: {each.fit.gpu.id} at batch {each.fit.batch}, {each.reason}{warning}")
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


def _fit_table(plan: Plan) -> Table:
    if plan.job is None:
        return table(_FIT_TITLES, [_fit_row(fit) for fit in plan.fits])
    return table(f"{_FIT_TITLES}|GPU-hours>", [(*_fit_row(fit), _hours(plan.gpu_hours(fit))) for fit in plan.fits])


def _hours(hours: Interval | None) -> str:
    return f"{hours.expected:,.3g} ({hours.low:,.3g} to {hours.high:,.3g})" if hours else ""


def _fit_row(fit: Fit) -> tuple[str, ...]:
    memory, latency = fit.memory.total_bytes, fit.latency.latency_s
    share = format_fraction(memory.expected / usable_memory(fit.gpu).expected)
    return (
        fit.gpu.id,
        str(fit.batch),
        {FitStatus.FITS: "yes", FitStatus.BORDERLINE: "borderline"}[fit.status],
        format_bytes(memory.expected),
        share if fit.memory.usable_bytes else f"~{share}",
        largest_batch(fit),
        "none" if fit.recommended_batch is None else f"{fit.recommended_batch:,}",
        format_seconds(latency.expected),
        _span(latency),
        format_seconds(fit.latency.bound_s),
        format_rate(fit.latency.throughput_per_s.expected),
        fit.latency.bound_by.value,
        f"{fit.rent.usd_per_hour:.2f}" if fit.rent else "",
        "" if fit.usd_per_million_samples is None else f"{fit.usd_per_million_samples:.3g}",
        EVIDENCE_WORDS[fit.latency.evidence],
    )


def _price_notes(plan: Plan) -> tuple[str, ...]:
    rents = [fit.rent for fit in plan.fits if fit.rent]
    if not rents:
        return ()
    days = sorted(rent.date for rent in rents)
    span = f"{days[0]}" if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    return (
        f"USD/hour is the lowest on-demand price known per GPU, dated or read {span}; `gpus show ID` names its source",
    )


def _usable_notes(plan: Plan) -> tuple[str, ...]:
    if all(fit.memory.usable_bytes for fit in plan.fits):
        return ()
    return ("~ marks GPUs whose usable memory nobody reported: the share usual among cards of their kind is taken",)


def _span(latency: Interval) -> str:
    return f"{format_seconds(latency.low)} to {format_seconds(latency.high)}"


def _rejection_table(plan: Plan) -> Table:
    rows = [
        (
            rejection.gpu.id,
            str(rejection.batch),
            f"{rejection.constraint.value}: {rejection.reason}",
            f"{rejection.max_batch:,}",
            "" if rejection.min_gpus is None else f"at least {rejection.min_gpus}",
        )
        for rejection in plan.rejections
    ]
    return table(_REJECTION_TITLES, rows)


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
