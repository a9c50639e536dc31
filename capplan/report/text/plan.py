"""A plan as sections: every GPU and batch with all figures, what was rejected, and what was assumed."""

from collections.abc import Callable, Mapping, Sequence

from capplan.core.plan.types import Plan
from capplan.report.sections import (
    Block,
    Column,
    Format,
    LineRole,
    Lines,
    Section,
    Table,
    figure,
    shape_columns,
    shape_data,
    words,
)
from capplan.report.text.answer import price_days
from capplan.report.text.pipelines import pipeline_blocks, pipeline_columns
from capplan.report.text.ways import ways_section
from capplan.shapes.plan import FIT, REJECTION
from capplan.shapes.saved import Change, CheckedLimit
from capplan.units import (
    format_bytes,
    format_count,
    format_flops,
    format_parameters,
    format_rate,
    format_seconds,
    format_speedup,
)


def plan_sections(plans: Sequence[Plan]) -> list[Section]:
    """Return whole plans, one after the other: every GPU and batch, what was rejected, and what was assumed."""
    if ways := [plan.ways for plan in plans if plan.ways is not None]:
        return [ways_section(one) for one in ways]
    fits = [(fit, plan) for plan in plans for fit in plan.fits]
    rejections = [(rejection, plan) for plan in plans for rejection in plan.rejections]
    tables = [Table(shape_data(FIT, fits), fits), Table(shape_data(REJECTION, rejections), rejections)]
    return [*map(_section, plans), Section(tables)]


def _section(plan: Plan) -> Section:
    blocks: list[Block] = [Lines([_headline(plan)], role=LineRole.TITLE)]
    if recommended := _recommended(plan):
        blocks.append(Lines(recommended, role=LineRole.ITEM, is_attached=True))
    if plan.pipeline is not None:
        blocks += pipeline_blocks(plan)
    if plan.fits:
        is_model = plan.pipeline is None
        shown = shape_columns(FIT, plan.fits, whole=plan) if is_model else pipeline_columns(plan, plan.fits)
        blocks.append(Table(shown, plan.fits))
    if plan.rejections:
        blocks.append(Lines([f"{len(plan.rejections)} rejected:"]))
        blocks.append(Table(shape_columns(REJECTION, plan.rejections), plan.rejections, is_attached=True))
    copies = host_copy_line(plan)
    if copies:
        blocks.append(Lines([copies]))
    blocks.append(Lines(_notes(plan), role=LineRole.NOTE, is_attached=bool(copies)))
    return Section(blocks)


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
    told = (
        *plan.cautions,
        *plan.offer_cautions,
        *plan.assumptions,
        *_usable_notes(plan),
        *_price_notes(plan),
        *changes,
        *plan.notes,
    )
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
