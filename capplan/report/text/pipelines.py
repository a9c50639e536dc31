"""Answers about pipelines in the words of what they make: seconds, money, memory and errors of estimates."""

from collections.abc import Sequence

from capplan.core.memory.types import MemoryEstimate, MemoryPart
from capplan.core.pipelines.measured import PipelineValidation
from capplan.core.pipelines.prepared import PipelineMemory
from capplan.core.pipelines.types import ON_ANOTHER, ON_GPU, ON_STREAM
from capplan.core.plan.types import (
    CRITERION_WORDS,
    ConditionEffect,
    Criterion,
    Fit,
    PartTime,
    PipelineFacts,
    Plan,
    Rejection,
)
from capplan.report.sections import (
    Block,
    Column,
    Line,
    Lines,
    Section,
    Span,
    Style,
    Table,
    figure,
    line,
    shape_columns,
    shape_data,
    words,
)  # fmt: skip
from capplan.report.text.answer import (
    LABEL_WIDTH,
    WORDS_HINT,
    asked_batches,
    energy_lines,
    job_lines,
    labelled,
    more_words,
    price_days,
)
from capplan.report.text.styled import fold_line, styled_table
from capplan.shapes.pipelines import ERRORS, JUDGED_ROW, PLACED_MEMORY
from capplan.shapes.plan import (
    FIT,
    OFFLOAD_WORDS,
    PART,
    PIPELINE_PART,
    item_seconds,
    item_time,
    usd_per_thousand,
    weights_place,
)
from capplan.shapes.shape import View
from capplan.units import (
    format_bytes,
    format_flops,
    format_fraction,
    format_parameters,
    format_seconds,
    format_speedup,
)  # fmt: skip

_MOST_GPUS = 8
_MOST_MISSES = 4


def _facts(plan: Plan) -> PipelineFacts:
    assert plan.pipeline is not None
    return plan.pipeline


def pipeline_lines(plan: Plan, *, width: int, top: int | None = None) -> list[Line]:
    """Lay the short answer out, in lines of at most `width` characters."""
    ranked = list(dict.fromkeys(fit.gpu.id for fit in plan.fits))
    chosen = [gpu_id for gpu_id in ranked if not plan.shortlist or gpu_id in plan.shortlist]
    ids = ranked[:top] if top is not None else chosen[:_MOST_GPUS]
    fits = [fit for fit in plan.fits if fit.gpu.id in ids]
    lines = [_head(plan), *_takes(plan)]
    if fits:
        lines += [
            line(""),
            *styled_table(Table(pipeline_columns(plan, fits, without=_SHORT_WITHOUT), fits), width=width),
            line(""),
        ]
    lines += [*_parts(plan, width), *job_lines(plan), *energy_lines(plan), *_changes(plan, width), *_misses(plan)]
    more = len(ranked) - len(ids)
    lines.append(line(Span(text=f"{more_words(more)}{_footer(plan)}", style=Style.ASIDE)))
    return [folded for content in lines for folded in fold_line(content, width, indent=LABEL_WIDTH)]


def _head(plan: Plan) -> Line:
    facts, model = _facts(plan), plan.model
    shown = ", ".join(map(str, asked_batches(plan)))
    several = f" on {facts.gpu_count} GPUs ({facts.sharing})" if facts.sharing else ""
    framework = "" if plan.workload.framework.value == "eager" else f", {plan.workload.framework.value}"
    return line(
        Span(text=model.name.removeprefix("diffusers:").rpartition("/")[2], style=Style.CHOSEN),
        f" · {_size(facts)} · batch {shown}{several} · {plan.precision_label}{framework} · "
        f"{format_parameters(model.parameter_count)} parameters, {format_flops(model.flops_per_sample)}/{facts.item}",
    )


def _size(facts: PipelineFacts) -> str:
    """Return an item's size and steps, or its parameters as they are set."""
    values = dict(facts.parameters)
    pieces = []
    if "height" in values and "width" in values:
        pieces.append(f"{values.pop('width'):.0f}×{values.pop('height'):.0f}")
    if "frames" in values:
        pieces.append(f"{values.pop('frames'):.0f} frames")
    if "steps" in values:
        pieces.append(f"{values.pop('steps'):.0f} steps")
    if not pieces:
        pieces = [f"{name} {value:g}" for name, value in list(values.items())[:4]]
    return ", ".join(pieces) or facts.item


def _takes(plan: Plan) -> list[Line]:
    """Write one line per recommended GPU, with the time and cost of an item."""
    item = _facts(plan).item
    reasons: dict[tuple[str, int], list[str]] = {}
    fits: dict[tuple[str, int], Fit] = {}
    named = {**CRITERION_WORDS, Criterion.SMALLEST: "smallest"}
    for recommendation in plan.recommended:
        key = recommendation.fit.gpu.id, recommendation.fit.batch
        reasons.setdefault(key, []).append(named[recommendation.criterion])
        fits[key] = recommendation.fit
    lines = []
    for index, (key, why) in enumerate(reasons.items()):
        fit = fits[key]
        cost = usd_per_thousand(fit)
        money = "" if cost is None or fit.rent is None else (
            f", {cost:.3g} USD per 1,000 ({fit.rent.provider})"
        )  # fmt: skip
        weights = "" if (placed := weights_place(fit)) == OFFLOAD_WORDS["none"] else f", weights {placed}"
        label = Span(text=key[0], style=Style.CHOSEN)
        text = f"  {', '.join(why)}: {item_time(item_seconds(fit))} per {item}{weights}{money}"
        lines.append(labelled("Take" if index == 0 else "or", label, text))
    return lines


def pipeline_columns(plan: Plan, fits: Sequence[Fit], *, without: Sequence[str] = ()) -> list[Column[Fit]]:
    """Return the columns of a table of a pipeline's fits."""
    return shape_columns(
        FIT, fits, whole=plan, view=View.PIPELINE, order=_ORDER, without=without, item=_facts(plan).item
    )


_ORDER = (
    "item_s", "item_span", "real_time_factor", "items_per_hour", "usd_per_thousand", "total_bytes", "weights_place",
    "fits", "largest_batch", "evidence", "gpu_hours_span", "power_w", "joules_per_sample",
)  # fmt: skip
"""The order of these columns; others stand where the shape has them."""
_SHORT_WITHOUT = ("gpu_hours_span", "power_w", "joules_per_sample")
"""Columns that the short answer writes as lines."""


def _parts(plan: Plan, width: int) -> list[Line]:
    """Write what share of the time each part takes on the recommended GPU, the largest first."""
    best = plan.best()
    if best is None or len(best.parts) < 2:
        return []
    total = sum(part.total_s for part in best.parts) or 1.0
    shown = sorted(best.parts, key=lambda part: -part.total_s)
    pieces = [f"{part.name} {100 * part.total_s / total:.3g} % ({_runs(part)})" for part in shown if part.times]
    return _wrapped("Parts", f"on {best.gpu.id}: ", pieces, width)


def _wrapped(label: str, head: str, pieces: Sequence[str], width: int) -> list[Line]:
    """Write pieces after a label, on as many lines as they need."""
    rows, row = [], head
    for index, piece in enumerate(pieces):
        text = piece + (", " if index < len(pieces) - 1 else "")
        if len(row) > len(head) and LABEL_WIDTH + len(row + text.rstrip()) > width:
            rows.append(row.rstrip())
            row = ""
        row += text
    return [labelled("" if index else label, text) for index, text in enumerate([*rows, row])]


_PLACES = {ON_STREAM: "a stream of its own", ON_ANOTHER: "another GPU"}


def _runs(part: PartTime) -> str:
    each_s = part.compute_s / part.times
    moved = f" + {format_seconds(part.moving_s)} moving" if part.moving_s else ""
    place = "" if part.on == ON_GPU else f" on {_PLACES.get(part.on, part.on)}"
    return f"{part.times:g} × {format_seconds(each_s)}{moved}{place}"


def _changes(plan: Plan, width: int) -> list[Line]:
    if not plan.changes:
        return []
    ordered = sorted(plan.changes, key=lambda change: -change.speedup)
    pieces = [f"{change.option} {_changed(change)}" for change in ordered]
    return _wrapped("Faster?", f"on {plan.changes[0].before.gpu.id}: ", pieces, width)


def _changed(change: ConditionEffect) -> str:
    moved = change.after.offload != change.before.offload
    stays = f", weights {OFFLOAD_WORDS[change.after.offload]}" if moved else ""
    return f"{format_speedup(change.speedup)} ({item_time(item_seconds(change.after))}{stays})"


def _misses(plan: Plan) -> list[Line]:
    """Write which GPUs do not make it, whatever waits on the host, and why."""
    asked = {*(fit.gpu.id for fit in plan.fits), *(rejection.gpu.id for rejection in plan.rejections)}
    fitting = {fit.gpu.id for fit in plan.fits}
    whole = sum(1 for gpu_id in fitting if any(fit.offload == "none" for fit in plan.fits if fit.gpu.id == gpu_id))
    head = f"{len(fitting)} of {len(asked)} GPUs, {whole} with all weights on the GPU"
    missed: dict[str, Rejection] = {}
    for rejection in plan.rejections:
        missed.setdefault(rejection.gpu.id, rejection)
    names = [gpu_id for gpu_id in missed if gpu_id not in fitting]
    if fitting:
        rest = f"; not {', '.join(names[:_MOST_MISSES])}" + (
            f" and {len(names) - _MOST_MISSES} more" if len(names) > _MOST_MISSES else ""
        )
        return [labelled("Fits", head + (rest if names else ""))]
    return [
        labelled("Fits", head),
        *(labelled("", f"{name}: {missed[name].reason}") for name in names[:_MOST_MISSES]),
    ]


def _footer(plan: Plan) -> str:
    span = price_days(plan)
    pieces = [f"Assumes {plan.workload.software}", f"{plan.limits.utilization_fraction:.0%} of memory"]
    return ", ".join([*pieces, *([f"prices of {span}"] if span else [])]) + f". {WORDS_HINT}"


def pipeline_blocks(plan: Plan) -> list[Block]:
    """Return the parts of a pipeline, and their times on the recommended GPU, as tables."""
    facts, best = _facts(plan), plan.best()
    blocks: list[Block] = [
        Lines([f"{facts.item}: " + ", ".join(f"{name} {value:g}" for name, value in facts.parameters.items())]),
        Table(shape_columns(PIPELINE_PART, facts.parts), facts.parts, is_attached=True),
    ]
    if best is not None and best.parts:
        total = sum(part.total_s for part in best.parts) or 1.0
        share: Column[PartTime] = figure("share", lambda part: part.total_s / total, format_fraction)
        where = f"on {best.gpu.id} at batch {best.batch}, weights {OFFLOAD_WORDS[best.offload]}:"
        blocks += [Lines([where]), Table([*shape_columns(PART, best.parts), share], best.parts, is_attached=True)]
    return blocks


def pipeline_memory_sections(answer: PipelineMemory) -> list[Section]:
    """Return the memory of a pipeline; a CSV has a row for each GPU and place of its weights."""
    first = answer.places[0]
    where = f" on {first.gpu.id}" if first.gpu is not None else ""
    total, moment = format_bytes(first.worst.total_bytes.expected), first.worst.peak_module
    weights = OFFLOAD_WORDS[first.offload.value]
    blocks: list[Block] = [
        Lines([f"{answer.name}, batch {answer.batch}{where}: {total}, weights {weights}, at its worst in {moment}"]),
        Table(shape_columns(PLACED_MEMORY, answer.places), answer.places),
        Lines([f"while a part runs{where}, weights {weights}:"]),
        Table(_MOMENTS, tuple(first.moments.items()), is_attached=True),
        Lines(["the worst moment:"]),
        Table(_MEMORY_PARTS, first.worst.all_parts, is_attached=True),
        Table(shape_columns(PIPELINE_PART, answer.facts.parts), answer.facts.parts),
    ]
    return [Section(blocks), Section([Table(shape_data(PLACED_MEMORY, answer.places, whole=answer), answer.places)])]


_MOMENTS: tuple[Column[tuple[str, MemoryEstimate]], ...] = (
    words("part", lambda moment: moment[0]),
    figure("allocated", lambda moment: moment[1].peak_allocated_bytes.expected, format_bytes),
    figure("reserved", lambda moment: moment[1].peak_reserved_bytes.expected, format_bytes),
    figure("process", lambda moment: moment[1].total_bytes.expected, format_bytes),
)
_MEMORY_PARTS: tuple[Column[MemoryPart], ...] = (
    words("holds", lambda part: part.name),
    figure("low", lambda part: part.size_bytes.low, format_bytes),
    figure("expected", lambda part: part.size_bytes.expected, format_bytes),
    figure("high", lambda part: part.size_bytes.high, format_bytes),
)


def pipeline_validation_sections(validation: PipelineValidation, *, worst: int) -> list[Section]:
    """Return the errors of estimates of pipelines by cell, and the worst rows."""
    cells = validation.cells()
    blocks: list[Block] = [Table(shape_columns(ERRORS, cells), cells)]
    if worst and validation.rows:
        ranked = sorted(validation.rows, key=lambda row: -abs(row.log_error))[:worst]
        blocks += [Lines(["worst rows"]), Table(shape_columns(JUDGED_ROW, ranked), ranked)]
    if validation.skipped:
        blocks.append(Lines([f"{count} rows skipped: {reason}" for reason, count in validation.skipped.items()]))
    return [Section(blocks), Section([Table(shape_data(ERRORS, cells, whole=validation), cells)])]
