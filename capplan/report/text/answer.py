"""The short answer to a plan: one screen that says what the model needs, what to take, and what else there is."""

import textwrap
from collections import Counter
from collections.abc import Sequence

from capplan.core.plan.recommend import SHORTLIST_LENGTH, device_word
from capplan.core.plan.types import (
    CRITERION_WORDS,
    ConditionEffect,
    Constraint,
    Criterion,
    Fit,
    Plan,
    Recommendation,
    Rejection,
)
from capplan.report.sections import Column, Line, Span, Style, Table, figure, line, shape_columns, words
from capplan.report.text.gpus import local_words
from capplan.report.text.styled import fold_line, plain_text, styled_table
from capplan.shapes.plan import FIT, is_part_of_machine
from capplan.shapes.shape import View
from capplan.units import (
    counted,
    format_bytes,
    format_duration,
    format_flops,
    format_joules,
    format_parameters,
    format_rate,
    format_seconds,
    format_speedup,
    format_watts,
)
from capplan.wording import as_options

WIDTH = 100
MOST_LINES = 20
_LEAST_ROWS, _USUAL_WIDTH = 6, 80
"""GPUs that the table shows on a terminal of usual width, whatever the remarks take."""
_MOST_BATCH_COLUMNS = 4
_MOST_MISSES = 8
_WORTH_TELLING = 0.02
"""Changes that move the throughput by a smaller share are left out."""
_WORTH_SAVING = 0.95
"""Changes that leave a larger share of the memory are not called smaller."""
WORDS_HINT = "Words: capplan explain"
"""Ends a screen whose words that command explains."""
LABEL_WIDTH = 9
"""Width of the labels that lines begin with. [characters]"""


def _shown_ids(plan: Plan, room: int) -> list[str]:
    """Return the ids of the plan's short list in the plan's order, no more than there is room for."""
    ranked = list(dict.fromkeys(fit.gpu.id for fit in plan.fits))
    cpus = {fit.gpu.id for fit in plan.fits if fit.gpu.is_cpu}
    chosen = [gpu_id for gpu_id in plan.shortlist or ranked if gpu_id not in cpus or not plan.shortlist]
    shown = {*chosen[: max(1, room - len(cpus))], *(cpus if plan.shortlist else ())}
    return [gpu_id for gpu_id in ranked if gpu_id in shown][:room]


def answer_lines(plan: Plan, *, width: int = WIDTH, top: int | None = None) -> list[Line]:
    """Lay the short answer out in lines of at most `width` characters; of the first `top` GPUs, else a short list."""

    def folded(lines: Sequence[Line], indent: int = LABEL_WIDTH) -> list[Line]:
        return [part for content in lines for part in fold_line(content, width, indent=indent)]

    def around(ids: Sequence[str], *, brief: bool) -> tuple[list[Line], list[Line]]:
        take = _take_lines(plan, width, brief=brief)
        above = folded([*_model_lines(plan, width), *_caution_lines(plan), *_needs_lines(plan, width), *take])
        changes = [*_changes_lines(plan, width, brief=brief), *_fits_lines(plan, width)]
        below = folded([*job_lines(plan), *energy_lines(plan), *changes])
        return above, [*below, *folded(_remark_lines(plan, ids, width, brief=brief), indent=6)]

    def room(*, brief: bool) -> int:
        above, below = around(shortlist, brief=brief)
        return MOST_LINES - len(above) - len(below) - 2

    if top is not None:
        ids, brief = list(dict.fromkeys(fit.gpu.id for fit in plan.fits))[:top], False
    else:
        shortlist = _shown_ids(plan, SHORTLIST_LENGTH)
        least = min(_LEAST_ROWS if width >= _USUAL_WIDTH else 1, len(shortlist))
        brief = room(brief=False) < least
        ids = _shown_ids(plan, max(least, room(brief=brief)))
    above, below = around(ids, brief=brief)
    return [*above, *([] if brief or not ids else [line("")]), *_table(plan, ids, width=width), *below]


def render_answer(plan: Plan, *, width: int = WIDTH, top: int | None = None) -> str:
    """Write the short answer as plain text."""
    return plain_text(answer_lines(plan, width=width, top=top))


def labelled(label: str, *pieces: "str | Span") -> Line:
    """Return a line that begins with a label of fixed width."""
    return line(Span(text=label.ljust(LABEL_WIDTH), style=Style.HEADING), *pieces)


def _fitted(label: str, parts: Sequence[str], *, width: int, separator: str = ", ", rest: str = "") -> Line:
    """Join as many parts as a line holds; `rest` says that there are more, with {} for how many."""
    for count in range(len(parts), 0, -1):
        left = len(parts) - count
        text = separator.join(parts[:count]) + (rest.format(left) if left else "")
        if LABEL_WIDTH + len(text) <= width or count == 1:
            return labelled(label, text)
    return labelled(label)


def _model_lines(plan: Plan, width: int) -> list[Line]:
    """Write the question: the model, a sample's size, the batch, how it runs; on two lines where one is too short."""
    model = plan.model
    batches = asked_batches(plan)
    shown = ", ".join(map(str, batches)) if len(batches) <= _MOST_BATCH_COLUMNS else f"{batches[0]} to {batches[-1]}"
    words = "batch" if len(batches) == 1 else "batches"
    layout = "" if plan.workload.layout.value == "nchw" else ", channels_last"
    framework = "" if plan.workload.framework.value == "eager" else f", {plan.workload.framework.value}"
    together = "" if plan.workload.gpu_count == 1 else f" on {plan.workload.gpu_count} GPUs, this batch each"
    size = [model.input.short] if model.input.size else []
    parts = [
        *size,
        f"{words} {shown}",
        f"{plan.precision_label} {plan.workload.configuration.mode}{framework}{layout}{together}",
        f"{format_parameters(model.parameter_count)} parameters, {format_flops(model.flops_per_sample)}/{_unit(plan)}",
    ]
    lines = [model.name]
    for part in parts:
        if len(f"{lines[-1]} · {part}") <= width:
            lines[-1] = f"{lines[-1]} · {part}"
        else:
            lines.append(f"{' ' * LABEL_WIDTH}{part}")
    name = Span(text=model.name, style=Style.CHOSEN)
    return [line(name, lines[0].removeprefix(model.name)), *map(line, lines[1:])]


def _caution_lines(plan: Plan) -> list[Line]:
    """Write what makes all figures of this model uncertain before the figures."""
    return [labelled("Unsure", Span(text=plan.cautions[0], style=Style.UNSURE))] if plan.cautions else []


def _needs_lines(plan: Plan, width: int) -> list[Line]:
    best = plan.best()
    if best is None:
        return []
    largest = max((fit for fit in plan.fits if fit.gpu.id == best.gpu.id), key=lambda fit: fit.batch)
    memory = largest.memory
    parts = sorted(memory.all_parts, key=lambda part: -part.size_bytes.expected)
    shown = [
        f"{part.name} {format_bytes(part.size_bytes.expected)}" for part in parts if part.size_bytes.expected >= 2**20
    ]
    at_batch = f" at batch {largest.batch}" if _batches(plan) > 1 else ""
    room = format_bytes(best.gpu.memory_bytes)
    total = f"{format_bytes(memory.total_bytes.expected)} of {room} on {best.gpu.id}{at_batch}: "
    return [_fitted("Needs", [total + shown[0], *shown[1:]], width=width, rest=", …")]


def _unit(plan: Plan) -> str:
    """Return what a sample is called: an image, a sequence, what a pipeline makes; a sample where nothing says it."""
    return plan.model.input.unit if plan.pipeline is None else plan.pipeline.item


def energy_lines(plan: Plan) -> list[Line]:
    """Write what the recommended GPU draws, and what a sample or item costs there; nothing where nobody asked."""
    best = plan.best()
    energy = best.energy if best else None
    if best is None or energy is None:
        return []
    power, joules, gpus = energy.power_w, energy.joules_per_sample, best.gpus_together
    drawn = f"{format_watts(power.expected)} ({format_watts(power.low)} … {format_watts(power.high)})"
    cost = f"{format_joules(joules.expected)} ({format_joules(joules.low)} … {format_joules(joules.high)})"
    where = best.gpu.id if gpus == 1 else f"{gpus} × {best.gpu.id}"
    return [labelled("Energy", f"{where} at batch {best.batch}: {drawn}, {cost} per {_unit(plan)}; {energy.evidence}")]


def job_lines(plan: Plan) -> list[Line]:
    """Write how long the job takes on the recommended GPUs, what it costs, and what a training has to read."""
    best = plan.best()
    hours = plan.gpu_hours(best) if best else None
    if best is None or hours is None or plan.job is None:
        return []
    gpus, price = best.gpus_together, best.usd_per_million_samples
    low, expected, high = (format_duration(value * 3600 / gpus) for value in (hours.low, hours.expected, hours.high))
    parts = [f"{expected} ({low} … {high}) on {gpus} × {best.gpu.id}"]
    parts += [f"{price * plan.job.samples * plan.job.epochs / 1e6:,.4g} USD"] if price is not None else []
    if plan.workload.configuration.mode.value == "training":
        parts.append(f"if its data loader reads {format_rate(best.latency.throughput_per_s.expected)} {_unit(plan)}s/s")
    return [labelled("Job", ", ".join(parts))]


def _fits_lines(plan: Plan, width: int) -> list[Line]:
    """Describe how many GPUs fit, and name the nearest misses; where nothing fits, each miss on a line."""
    fitting = {fit.gpu.id for fit in plan.fits}
    asked = fitting | {miss.gpu.id for miss in plan.rejections}
    head = f"{len(fitting)} of {len(asked)} {device_word(plan)}{plan.limits.words}"
    nearest = list({miss.gpu.id: miss for miss in sorted(plan.rejections, key=_distance, reverse=True)}.values())[::-1]
    nearest = [miss for miss in nearest if miss.gpu.id not in fitting or len(asked) <= SHORTLIST_LENGTH]
    beyond_memory = [miss for miss in nearest if miss.constraint in (Constraint.LATENCY, Constraint.THROUGHPUT)]
    nearest = [*beyond_memory, *(miss for miss in nearest if miss not in beyond_memory)]
    if not plan.fits:
        return [labelled("Fits", head), *_all_misses(plan, nearest)]
    some = [f"{miss.gpu.id}{_at(plan, miss)} {_short_reason(miss)}" for miss in nearest if miss.needed]
    unable = Counter(miss.lacking or f"cannot run {plan.workload.precision}" for miss in nearest if not miss.needed)
    parts = [f"{head}; nearest misses: {some[0]}", *some[1:]] if some else [head]
    parts += [f"{count} {lacking}" for lacking, count in unable.most_common()]
    return [_fitted("Fits", parts, width=width, rest="; {} more", separator="; ")]


def _all_misses(plan: Plan, nearest: Sequence[Rejection]) -> list[Line]:
    lines = [
        labelled("Misses" if index == 0 else "", f"{rejection.gpu.id}{_at(plan, rejection)}: {rejection.reason}")
        for index, rejection in enumerate(nearest[:_MOST_MISSES])
    ]
    more = len(nearest) - len(lines)
    lines += [labelled("", f"{more} more: ⟨all⟩")] if more > 0 else []
    return lines + [labelled("Try", text) for text in _remedies(nearest)]


def _take_lines(plan: Plan, width: int, *, brief: bool) -> list[Line]:
    """Write one line per recommended GPU and batch, with all that it is best in; a brief answer names no machines."""
    grouped: dict[tuple[str, int], list[Recommendation]] = {}
    for recommendation in plan.recommended:
        grouped.setdefault((recommendation.fit.gpu.id, recommendation.fit.batch), []).append(recommendation)
    label_width = max((len(_gpu_label(plan, picks[0].fit)) for picks in grouped.values()), default=0)
    lines = [
        _take_line(plan, _gpu_label(plan, reasons[0].fit).ljust(label_width), reasons, is_first=index == 0, width=width)
        for index, reasons in enumerate(grouped.values())
    ]
    rented = {recommendation.fit.gpu.id: plan.offer_words(recommendation.fit) for recommendation in plan.recommended}
    if not brief and (offers := [f"{gpu}: {words}" for gpu, words in rented.items() if words]):
        lines.append(_fitted("Rent", offers, width=width, separator="; ", rest="; {} more: ⟨all⟩"))
    best = plan.best()
    if best is not None and (local := plan.local_cost(best)) is not None:
        lines.append(labelled(f"In {local.currency}", local_words(local)))
    if plan.offer_cautions:
        lines.append(labelled("But", Span(text="; ".join(plan.offer_cautions), style=Style.UNSURE)))
    return lines


def _take_line(plan: Plan, label: str, reasons: Sequence[Recommendation], *, is_first: bool, width: int) -> Line:
    """Write a recommendation; figures are left out from the last where the line is too long, a warning never."""
    fit = reasons[0].fit
    what = ", ".join(CRITERION_WORDS[reason.criterion] for reason in reasons)
    if len(reasons) == len(Criterion):
        what = "cheapest, fastest, smallest"
    warnings = "; ".join(dict.fromkeys(reason.warning for reason in reasons if reason.warning))
    warning = Span(text=f"; careful: {warnings}" if warnings else "", style=Style.UNSURE)
    figures = _figures(fit, plan, of_size=reasons[0].criterion is Criterion.SMALLEST)
    while len(figures) > 1 and LABEL_WIDTH + len(label) + len(f"  {what}: {', '.join(figures)}{warning.text}") > width:
        figures.pop()
    head = "Take" if is_first else "or"
    return labelled(head, Span(text=label, style=Style.CHOSEN), f"  {what}: {', '.join(figures)}", warning)


def _figures(fit: Fit, plan: Plan, *, of_size: bool) -> list[str]:
    """Return the figures of a recommendation, the most important first."""
    rate = f"{format_rate(fit.latency.throughput_per_s.expected)} {_unit(plan)}s/s"
    figures = [format_seconds(fit.latency.latency_s.expected), rate]
    if fit.rent is not None and fit.usd_per_million_samples is not None:
        busy = f" with all {fit.rent.instance_gpus} GPUs busy" if is_part_of_machine(fit, plan) else ""
        cost = f"{fit.usd_per_million_samples:.3g} USD per million {_unit(plan)}s{busy}"
        figures = [cost, f"{plan.usd_per_hour(fit):.2f} USD/h ({fit.rent.provider})", *figures]
    if (count := plan.gpus_for_rate(fit)) is not None:
        figures = [counted(count, "GPU"), *figures]
    return [format_bytes(fit.gpu.memory_bytes), *figures] if of_size else figures


def _gpu_label(plan: Plan, fit: Fit) -> str:
    return f"{fit.gpu.id} at batch {fit.batch}" if _batches(plan) > 1 else fit.gpu.id


def _batches(plan: Plan) -> int:
    return len({fit.batch for fit in plan.fits})


def _table(plan: Plan, ids: Sequence[str], *, width: int) -> list[Line]:
    if not ids:
        return []
    shown = [[fit for fit in plan.fits if fit.gpu.id == gpu_id] for gpu_id in ids]
    per_gpu = len({fit.batch for fits in shown for fit in fits}) == 1 or all(len(fits) == 1 for fits in shown)
    fits = [max(fits, key=lambda fit: fit.latency.throughput_per_s.expected) for fits in shown]
    batches = [] if per_gpu else _batch_columns([fit for fits in shown for fit in fits])
    left, most = ((), "") if per_gpu else (("batch", "latency_s", "latency_ends", "total_bytes"), "most ")
    found = shape_columns(
        FIT, fits, whole=plan, view=View.ANSWER, order=_ORDER, without=left, item=_unit(plan), most=most
    )
    chosen = {recommendation.fit.gpu.id for recommendation in plan.recommended}
    gpu: Column[Fit] = words(
        "GPU",
        lambda fit: fit.gpu.id,
        style=lambda fit: Style.CHOSEN if fit.gpu.id in chosen else Style.PLAIN,
    )
    return styled_table(Table([gpu, *batches, *found], fits), width=width)


_ORDER = (
    "latency_s", "latency_ends", "throughput_per_s", "total_bytes", "largest_batch", "fits", "gpu_hours",
    "gpus_for_rate", "power_w", "joules_per_sample", "usd_per_hour_words", "usd_per_million_samples",
)  # fmt: skip
"""The order of these columns; others stand where the shape has them."""


def _batch_columns(fits: Sequence[Fit]) -> list[Column[Fit]]:
    """Return the latency at each batch side by side, or at some of them, for a table with one row per GPU."""
    sizes = sorted({fit.batch for fit in fits})
    if len(sizes) > _MOST_BATCH_COLUMNS:
        sizes = [sizes[round(i * (len(sizes) - 1) / (_MOST_BATCH_COLUMNS - 1))] for i in range(_MOST_BATCH_COLUMNS)]
    times_s = {(fit.gpu.id, fit.batch): fit.latency.latency_s.expected for fit in fits}

    def at_batch(size: int) -> Column[Fit]:
        return figure(
            f"batch {size}", lambda fit: times_s.get((fit.gpu.id, size)), format_seconds, rank=1, unknown="no"
        )

    return [*map(at_batch, sizes)]


def worthwhile_changes(plan: Plan) -> list[ConditionEffect]:
    """Return the other conditions whose effect on the time is worth telling, the largest gain first."""
    is_training = plan.workload.training is not None
    told = [change for change in plan.changes if abs(change.speedup - 1) >= _WORTH_TELLING]
    gains = [change for change in told if change.speedup > 1 or not is_training]
    return sorted(gains, key=lambda change: -change.speedup)


def _changes_lines(plan: Plan, width: int, *, brief: bool) -> list[Line]:
    smaller = _smaller_lines(plan, width) if plan.workload.training is not None else ()
    changes = [change for change in worthwhile_changes(plan) if change.speedup > 1 or not brief]
    return [*_faster_lines(changes, width), *smaller]


def _smaller_lines(plan: Plan, width: int) -> list[Line]:
    """Write what other conditions would save of the memory of a training step."""
    saving = sorted(
        (change for change in plan.changes if change.memory_share < _WORTH_SAVING), key=lambda fit: fit.memory_share
    )
    if not saving:
        return []
    parts = [
        f"{fit.option} {format_bytes(fit.after.memory.total_bytes.expected)} (speed ×{fit.speedup:.2f})"
        for fit in saving
    ]
    where = f"on {saving[0].before.gpu.id}: "
    return [_fitted("Smaller?", [where + parts[0], *parts[1:]], width=width, separator="; ")]


def _faster_lines(changes: Sequence[ConditionEffect], width: int) -> list[Line]:
    """List the conditions that would save time, and how much."""
    if not changes:
        return []
    where = f"on {changes[0].before.gpu.id}: "
    parts = [f"{change.name} {_time(change)}, {format_speedup(change.speedup)} ({change.option})" for change in changes]
    if LABEL_WIDTH + len(where) + len("; ".join(parts)) > width:
        parts = [f"{change.option} {format_speedup(change.speedup)} ({_time(change)})" for change in changes]
    return [_fitted("Faster?", [where + parts[0], *parts[1:]], width=width, separator="; ")]


def _time(change: ConditionEffect) -> str:
    return format_seconds(change.after.latency.latency_s.expected)


def _at(plan: Plan, rejection: Rejection) -> str:
    return f" at batch {rejection.batch}" if len(asked_batches(plan)) > 1 else ""


def asked_batches(plan: Plan) -> list[int]:
    """Return the batches that a plan was asked for, the smallest first."""
    return sorted({*(fit.batch for fit in plan.fits), *(rejection.batch for rejection in plan.rejections)})


def _distance(rejection: Rejection) -> float:
    """Return by which factor a limit is missed; GPUs that cannot run the workload at all come last."""
    if not rejection.needed or not rejection.available:
        return float("inf")
    return rejection.needed / rejection.available


def _short_reason(rejection: Rejection) -> str:
    if rejection.needed is None or rejection.available is None:
        return "cannot run it"
    missing = rejection.needed - rejection.available
    if rejection.constraint is Constraint.MEMORY:
        return f"{format_bytes(missing)} short"
    if rejection.constraint is Constraint.LATENCY:
        return f"{format_seconds(missing)} too slow"
    if rejection.constraint is Constraint.POWER:
        return f"{format_watts(missing)} too much"
    return f"{format_rate(missing)}/s short"


def _remedies(nearest: Sequence[Rejection]) -> list[str]:
    """Return what would make the nearest miss fit: a GPU that holds the batch names the limit that binds."""
    first = nearest[0] if nearest else None
    if first is not None and first.constraint is Constraint.LATENCY and first.needed:
        least = f"⟨max-latency⟩ {format_seconds(first.needed).replace(' ', '')} is what {first.gpu.id} needs"
        return [f"{least} at batch {first.batch}; a smaller ⟨batch⟩ takes less"]
    if first is not None and first.constraint is Constraint.THROUGHPUT and first.needed:
        return [f"⟨rate⟩ {first.needed:g}/s instead, which counts the GPUs that carry it together"]
    by_memory = next((rejection for rejection in nearest if rejection.constraint is Constraint.MEMORY), None)
    if by_memory is None:
        return []
    found = []
    if by_memory.max_batch:
        found.append(f"⟨batch⟩ {by_memory.certain_batch or by_memory.max_batch} is the largest on {by_memory.gpu.id}")
    if by_memory.min_gpus:
        found.append(f"{by_memory.min_gpus} × {by_memory.gpu.id} at least, with the weights sharded")
    return found


def _remark_lines(plan: Plan, ids: Sequence[str], width: int, *, brief: bool) -> list[Line]:
    """Write a note where the answer is not brief, what is left out, and what the figures assume."""
    lines = [] if brief else _note_lines(plan, width)
    left = 0 if not brief else len([*plan.cautions[1:], *plan.notes])
    more = len({fit.gpu.id for fit in plan.fits} - set(ids))
    rest = more_words(more, notes=left)
    lines.append(line(Span(text=f"{rest}{_footer(plan, width - len(rest))}", style=Style.ASIDE)))
    return lines


def more_words(count: int, *, notes: int = 0) -> str:
    """Return words on the GPUs that fit and the notes that are not shown; empty where all are shown."""
    left = [f"{count} more {'GPU fits' if count == 1 else 'GPUs fit'}"] if count > 0 else []
    left += [counted(notes, "note")] if notes else []
    return f"{', '.join(left)}: ⟨all⟩{', ⟨top⟩ N' if count > 0 else ''}. " if left else ""


def price_days(plan: Plan) -> str:
    """Write the days between which a plan's prices lie; empty without prices."""
    days = sorted(fit.rent.date for fit in plan.fits if fit.rent)
    return " to ".join(map(str, dict.fromkeys((days[0], days[-1])))) if days else ""


def _note_lines(plan: Plan, width: int) -> list[Line]:
    """Write further notes on this model in two lines at most; conditions that hold for every plan are left out."""
    found = [*plan.cautions[1:], *plan.notes]
    if not found:
        return []
    more = f" ({len(found) - 1} more: ⟨all⟩)" if len(found) > 1 else ""
    texts = textwrap.wrap(
        as_options(f"Note: {found[0].rstrip('.')}.{more}"), width, subsequent_indent=" " * len("Note: ")
    )
    kept = [texts[0], " ".join([texts[1], *map(str.strip, texts[2:])])] if len(texts) > 1 else texts
    return [line(Span(text=text, style=Style.UNSURE)) for text in kept]


def _footer(plan: Plan, width: int) -> str:
    """Write what the figures assume, as much of it as fits the width."""
    timed = f" (timed: {plan.timed_release})" if plan.timed_release else ""
    assumed = f"Assumes {plan.workload.software}"
    if len(assumed + timed) + len(f". {WORDS_HINT}") <= width:
        assumed += timed
    pieces = [assumed, *([plan.host] if plan.host else [])]
    pieces += [f"{plan.limits.utilization_fraction:.0%} of memory"]
    pieces += [f"prices of {span}"] if (span := price_days(plan)) else []
    words = f". {WORDS_HINT}"
    while len(pieces) > 1 and len(", ".join(pieces)) + len(words) > width:
        pieces.pop()
    return f"{', '.join(pieces)}{words}"
