"""Estimates, simulations and validations of LLM serving as sections."""

from collections import Counter
from collections.abc import Callable, Sequence

from capplan.core.numbers import Interval
from capplan.llm.core.elastic.answer import ElasticSimulation
from capplan.llm.core.measured import Accuracy, JudgedCell
from capplan.llm.core.serving.accuracy import ServingValidation
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.llm.core.serving.estimate import ServingEstimate, ServingPoint, StepPart, total_s
from capplan.llm.core.simulation.load_answer import LoadAnswer, Simulation
from capplan.report.charts.look import Drawing
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.sections import (
    Block,
    Column,
    Format,
    Lines,
    Row,
    Section,
    Table,
    data,
    figure,
    people,
    shape_columns,
    shape_data,
    shown_as_data,
    words,
)
from capplan.report.text.llm.scale import llm_scale_sections
from capplan.shapes.llm_serving import LOAD, POINT, degrees_words
from capplan.units import (
    format_bytes,
    format_flops,
    format_fraction,
    format_joules,
    format_rate,
    format_seconds,
    format_watts,
)

_MOST_REASONS = 30


def llm_estimate_sections(estimate: ServingEstimate, *, explain: bool = False) -> list[Section]:
    """Return an estimate over concurrency."""
    notes = (f"Evidence: {estimate.points[-1].evidence}.", *estimate.notes)
    energy = shape_data(POINT, estimate.points, whole=estimate)
    blocks: list[Block] = [
        Lines([_headline(estimate)]),
        Table([*_points(estimate), *_DATA, *energy], estimate.points, is_attached=True),
        *_energy(estimate),
        *(Lines([note], is_attached=True) for note in notes),
    ]
    if explain:
        blocks += [*decode_step(estimate), *prefill_step(estimate)]
    return [Section(blocks)]


def _headline(estimate: ServingEstimate) -> str:
    sharding = estimate.sharding
    shared = degrees_words(sharding)
    return (
        f"{estimate.model} ({_billions(estimate.params)} parameters, {_billions(estimate.active_params)} active) "
        f"on {sharding.gpus} × {estimate.gpu}{f' ({shared})' if shared else ''}, {estimate.engine}, weights "
        f"{estimate.weights}, cache {estimate.kv}: {estimate.input_len:g} tokens in, {estimate.output_len:g} out, "
        f"{estimate.sequences_that_fit:,.0f} sequences fit"
    )


def _billions(count: int) -> str:
    return f"{count / 1e9:.3g} B"


def _points(estimate: ServingEstimate) -> list[Column[ServingPoint]]:
    gpus = estimate.sharding.gpus
    return [
        figure("clients", lambda point: point.concurrency),
        figure("TTFT", lambda point: point.ttft_s.expected, format_seconds),
        words("90 %", lambda point: _range(point.ttft_s, format_seconds) if point.ttft_is_known else "not known"),
        figure("TPOT", lambda point: point.tpot_s.expected, format_seconds),
        words("90 %", lambda point: _range(point.tpot_s, format_seconds)),
        figure("tokens/s", lambda point: point.output_tokens_per_s.expected, format_rate),
        words("90 %", lambda point: _range(point.output_tokens_per_s, format_rate)),
        figure("per GPU", lambda point: point.output_tokens_per_s.expected / gpus, format_rate, rank=1),
        figure("per user", lambda point: 1 / point.tpot_s.expected, format_rate, rank=2),
        figure("running", lambda point: point.running, "{:.0f}".format),
    ]


def _range(interval: Interval, to_text: Callable[[float], str]) -> str:
    return f"{to_text(interval.low)} to {to_text(interval.high)}"


def _ends(name: str, interval: Callable[[ServingPoint], Interval]) -> list[Column[ServingPoint]]:
    """Return an interval for programs: three columns of six digits."""
    return [
        data(f"{name}_low", lambda point: f"{interval(point).low:.6g}"),
        data(f"{name}_expected", lambda point: f"{interval(point).expected:.6g}"),
        data(f"{name}_high", lambda point: f"{interval(point).high:.6g}"),
    ]


_DATA: tuple[Column[ServingPoint], ...] = (
    data("concurrency", lambda point: point.concurrency),
    *_ends("ttft_s", lambda point: point.ttft_s),
    *_ends("tpot_s", lambda point: point.tpot_s),
    *_ends("output_tokens_per_s", lambda point: point.output_tokens_per_s),
    data("evidence", lambda point: point.evidence),
)


def _energy(estimate: ServingEstimate) -> list[Block]:
    """Return power and energy over concurrency, nothing where they were not computed."""
    rows = [(point, point.energy) for point in estimate.points if point.energy is not None]
    if not rows:
        return []
    columns: list[Column[tuple[ServingPoint, ServingEnergy]]] = [
        figure("clients", lambda row: row[0].concurrency),
        figure("power", lambda row: row[1].power_w.expected, format_watts),
        words("90 %", lambda row: _range(row[1].power_w, format_watts)),
        figure("per output token", lambda row: row[1].joules_per_output_token.expected, format_joules),
        words("from … to", lambda row: _range(row[1].joules_per_output_token, format_joules)),
    ]
    title = f"Power of all GPUs, without the host, and energy of an output token ({rows[-1][1].evidence})"
    return [Lines([title]), Table(columns, rows, is_attached=True)]


def decode_step(estimate: ServingEstimate) -> list[Block]:
    """Return the parts of a decode step at the last concurrency of an estimate."""
    running = estimate.points[-1].running
    return _step(f"One decode step of {running:.0f} sequences on one GPU of one pipeline stage", estimate.decode_parts)


def prefill_step(estimate: ServingEstimate) -> list[Block]:
    """Return the parts of a step that processes one prompt alone."""
    return _step(f"One step with a prompt of {estimate.input_len:g} tokens alone", estimate.prefill_parts)


def _step(title: str, parts: tuple[StepPart, ...]) -> list[Block]:
    whole = total_s(parts)
    columns: list[Column[StepPart]] = [
        words("part", lambda part: part.name),
        figure("time", lambda part: part.time_s, format_seconds),
        figure("share", lambda part: part.time_s / whole, format_fraction),
        figure("calls", lambda part: part.launches or None, "{:g}".format),
        figure("work", lambda part: part.flops or None, format_flops),
        figure("traffic", lambda part: part.traffic_bytes or None, format_bytes),
        figure("TFLOP/s", lambda part: part.flops / part.time_s / 1e12 if part.flops else None, format_rate),
        figure(
            "GB/s", lambda part: part.traffic_bytes / part.time_s / 1e9 if part.traffic_bytes else None, format_rate
        ),
    ]
    return [Lines([f"{title}: {format_seconds(whole)}"]), Table(columns, parts, is_attached=True)]


def estimate_chart(estimate: ServingEstimate) -> Drawing:
    """Draw tokens per second and GPU against tokens per second and user, a point for each concurrency."""
    gpus = estimate.sharding.gpus
    series = Series(
        label=f"{estimate.model} on {gpus} × {estimate.gpu}",
        points=[(1 / point.tpot_s.expected, point.output_tokens_per_s.expected / gpus) for point in estimate.points],
        band=[
            (point.output_tokens_per_s.low / gpus, point.output_tokens_per_s.high / gpus) for point in estimate.points
        ],
    )
    return series_chart(
        [series],
        title="Output tokens per second and GPU against speed for each user",
        axes=Axes(x_title="output tokens per second and user", y_title="output tokens per second and GPU"),
    )


def llm_validation_sections(validation: ServingValidation, *, by: Sequence[str]) -> list[Section]:
    """Return a validation; a CSV has a row per cell, errors as fractions."""
    overall = [(str(metric), accuracy) for metric, accuracy in validation.overall().items() if accuracy is not None]
    cells = validation.cells(by)
    metric: Column[tuple[str, Accuracy]] = words("metric", lambda row: row[0])

    def key(name: str) -> Column[JudgedCell]:
        return words(name, lambda cell: cell.key[name], name=name)

    keys = [*map(key, by), words("metric", lambda cell: str(cell.metric), name="metric")]
    blocks: list[Block] = [
        Table([metric, *people(_ranked_columns(lambda row: row[1]))], overall),
        Table([*keys, *_ranked_columns(lambda cell: cell.accuracy)], cells),
    ]
    return [Section([*blocks, *skipped_blocks([row.reason for row in validation.skipped])])]


def skipped_blocks(reasons: Sequence[str]) -> list[Block]:
    """Return why rows of a validation were not predicted, the commonest reasons first; nothing where all were."""
    if not reasons:
        return []
    columns: list[Column[tuple[str, int]]] = [
        figure("rows", lambda row: row[1]),
        words("reason", lambda row: row[0]),
    ]
    lines = Lines([f"{len(reasons)} rows were not predicted"])
    return [lines, Table(columns, Counter(reasons).most_common(_MOST_REASONS))]


def accuracy_columns(accuracy: Callable[[Row], Accuracy]) -> list[Column[Row]]:
    """Return the columns of errors, for people and, with six digits, for programs."""

    def rounded(name: str) -> Column[Row]:
        return data(name, lambda row: f"{getattr(accuracy(row), name):.6g}")

    n: Column[Row] = data("n", lambda row: accuracy(row).n)
    return [
        figure("n", lambda row: accuracy(row).n),
        figure("median", lambda row: accuracy(row).mdape, format_fraction),
        figure("p90", lambda row: accuracy(row).p90, format_fraction),
        figure("bias", lambda row: accuracy(row).bias, "{:.2f}".format),
        figure("coverage", lambda row: accuracy(row).coverage, format_fraction),
        figure("high/low", lambda row: accuracy(row).width, "{:.2f}".format),
        n,
        *map(rounded, ("mdape", "p90", "bias", "coverage", "width")),
    ]


def _ranked_columns(accuracy: Callable[[Row], Accuracy]) -> list[Column[Row]]:
    """Return the columns of errors, with how well values are ranked."""

    def spearman(row: Row) -> str | None:
        found = accuracy(row).spearman
        return None if found is None else f"{found:.6g}"

    return [
        *accuracy_columns(accuracy),
        figure("spearman", lambda row: accuracy(row).spearman, "{:.3f}".format),
        figure("within 2×", lambda row: accuracy(row).within_factor_two, format_fraction),
        data("spearman", spearman),
    ]


_NEAR = 0.85
"""Share of the saturation rate from which a replica is called near saturation."""


def simulation_sections(simulation: Simulation) -> list[Section]:
    """Return simulated loads: where the replica is full, a row per load, and what the times mean."""
    head = (
        f"{simulation.model} on one replica of {simulation.gpus} × {simulation.gpu}, {simulation.engine}: "
        f"{simulation.sequences_that_fit:,.0f} sequences fit, full at {simulation.saturation_rate_per_s:.3g} requests/s"
    )
    notes = [
        "TTFT from arrival to the first token; TPOT = (end to end − TTFT) ÷ (output tokens − 1), per request; "
        "ITL between any two tokens; end to end ÷ output tokens (inclusive TPOT) is in --json.",
        saturation_line(simulation),
        *simulation.notes,
    ]
    return [
        Section(
            [
                Lines([head], only=Format.TABLE),
                Table(load_columns(simulation), simulation.answers),
                Lines(notes, is_attached=True, only=Format.TABLE),
            ]
        ),
        *(llm_scale_sections(simulation.elastic) if isinstance(simulation, ElasticSimulation) else []),
    ]


def saturation_line(simulation: Simulation) -> str:
    """Return in one sentence from which load on the replica is saturated."""
    overload = simulation.saturated_from_per_s
    if overload is not None:
        return (
            f"From {overload:.3g} requests/s on, work piles up: the replica is saturated, and the times say how long "
            "the simulation was, not what users see."
        )
    highest = max(
        (simulation.load_fraction(answer) for answer in simulation.answers if answer.clients is None), default=0.0
    )
    if highest >= _NEAR:
        return f"The highest load is near saturation ({format_fraction(highest)} of the full replica's rate)."
    return "The replica keeps up with every load."


def load_columns(simulation: Simulation) -> list[Column[LoadAnswer]]:
    """Return the columns of simulated loads; those without values are left out."""
    last = ("power_w", "joules_per_output_token", "goodput_fraction", "preemptions", "is_steady")
    columns = shape_columns(LOAD, simulation.answers, whole=simulation, order=last)
    filled = [column for column in columns if any(column.cell(load) for load in simulation.answers)]
    energy = shape_data(LOAD, simulation.answers, whole=simulation)
    return [*(shown_as_data(column) for column in filled), *energy]


def simulation_chart(simulation: Simulation) -> Drawing:
    """Draw TTFT, TPOT and their limits over the load, on logarithmic axes."""
    loads = [(float(answer.clients or 0) or answer.rate_per_s, answer) for answer in simulation.answers]
    curves = [
        ("TTFT, mean", [(x, load.ttft_s.mean) for x, load in loads]),
        ("TTFT, p99", [(x, load.ttft_s.p99) for x, load in loads]),
        ("TPOT, mean", [(x, load.tpot_s.mean) for x, load in loads]),
        ("TPOT, p99", [(x, load.tpot_s.p99) for x, load in loads]),
    ]
    series = [Series(label=label, points=[(x, y) for x, y in points if x > 0 and y > 0]) for label, points in curves]
    ends = (min(x for x, _ in loads), max(x for x, _ in loads))
    limits = (("limit of TTFT", simulation.limits.ttft_s), ("limit of TPOT", simulation.limits.tpot_s))
    for label, limit in limits:
        if limit is not None:
            series.append(Series(label=label, points=[(x, limit) for x in ends], has_dots=False))
    kind = "clients" if any(answer.clients for answer in simulation.answers) else "requests per second"
    return series_chart(
        [sery for sery in series if sery.points],
        title=f"{simulation.model} on {simulation.gpus} × {simulation.gpu}: times over load",
        axes=Axes(x_title=f"{kind} of one replica", y_title="seconds"),
    )
