"""What a report on serving a language model has beside the tables of every report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan, load_front
from capplan.llm.core.fleet.money import ServingReport, Variation
from capplan.llm.core.serving.asked import Statistic
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.report.charts.picture import vector
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.sections import (
    EVERYWHERE,
    Block,
    Column,
    KeyFigure,
    Lines,
    Listing,
    Medium,
    Picture,
    Section,
    Table,
    figure,
    words,
)
from capplan.report.text.gpus import local_words
from capplan.report.text.llm.money import LAUNCH_OPTIONS, money_lines
from capplan.report.text.llm.plan import FRONT, disaggregation_line, headline, load_words, plan_columns
from capplan.report.text.llm.serving import load_columns, saturation_line, simulation_chart
from capplan.report.text.ways import ways_report
from capplan.shapes.llm_serving import shared_words
from capplan.units import format_bytes, format_rate, format_seconds

Value = TypeVar("Value")
_SHOWN = 15
_NOT_PRINTED = EVERYWHERE - {Medium.PDF}
"""The files that hold what nobody signs: memory, commands, and the front of all deployments."""


def serving_figures(report: ServingReport) -> tuple[KeyFigure, ...]:
    """Return the key figures that only serving has: times of requests, cost of tokens, and how sure they are."""
    best = report.fleet.plan.recommended
    if best is None:
        return ()
    cost, simulated = best.usd_per_million_output_tokens, best.simulated
    tokens = () if cost is None else (
        KeyFigure(label="Per million output tokens", figure=f"{cost:.3g} USD", note=f"on demand; {best.words}"),
    )  # fmt: skip
    return (
        *tokens,
        KeyFigure(
            label="TTFT",
            figure=format_seconds(best.ttft_s.expected),
            note=f"p99 {format_seconds(simulated.ttft_s.p99)}" if simulated else "",
        ),
        KeyFigure(
            label="TPOT",
            figure=format_seconds(best.tpot_s.expected),
            note=f"p99 {format_seconds(simulated.tpot_s.p99)}" if simulated else "",
        ),
        KeyFigure(
            label="Highest load",
            figure=f"{best.max_rate_per_s * best.replicas:.3g} requests/s",
            note=f"{format_rate(best.output_tokens_per_s_per_gpu)} output tokens/s per GPU at the load",
        ),
        KeyFigure(
            label="Evidence",
            figure=best.evidence.partition(":")[0],
            note="limits hold at the worst" if best.holds_at_worst else "limits may break at the worst",
        ),
    )


def serving_sections(report: ServingReport) -> tuple[Section, ...]:
    """Return what a report on serving has beside the tables of every report; nothing where nothing carries the load."""
    plan, ways = report.fleet.plan, report.fleet.ways
    if not plan.fits:
        return ()
    line = "The recommended deployment with one assumption changed; the others stay."
    varied = Table(_VARIATIONS, report.variations, caption="Lengths, prefix-cache hits, load and price")
    found = [
        _fleet(report),
        _front(plan),
        *_over_load(report),
        _memory(plan.fits),
        Section([Lines([line]), varied], key="sensitivity", title="What changes if the load is another"),
        _money(report),
        *([] if ways is None else [ways_report(ways)]),
        *_handover(report),
    ]
    return tuple(replace(section, entry=section.title) for section in found)


def served_words(plan: DeploymentPlan) -> str:
    """Describe the load of a plan and its limits."""
    return f"{load_words(plan.load)}; limits: {limit_words(plan.limits)}"


DEFINITIONS = (
    "TTFT is from arrival to the first token, TPOT = (end to end − TTFT) ÷ (output tokens − 1), ITL the time between "
    "any two tokens. Estimates rest on step times fitted to measured runs; intervals are in the JSON."
)


def limit_words(limits: LatencyLimits) -> str:
    """Return limits in words, with the percentile that keeps them."""
    pairs = (("TTFT", limits.ttft_s), ("TPOT", limits.tpot_s), ("whole answer", limits.e2e_s))
    words = [f"{name} {format_seconds(value)}" for name, value in pairs if value is not None]
    if not words:
        return "none"
    statistic = limits.statistic
    of = "in the mean" if statistic is Statistic.MEAN else f"at the {statistic.value[1:]}th percentile"
    return f"{', '.join(words)} {of}"


def _front(plan: DeploymentPlan) -> Section:
    caption = "The points that no other beats in both; output tokens/s per user and per GPU"
    return Section(
        [
            Lines(["Every point is a deployment with so many requests at a time; up and to the right is better."]),
            Picture(svg=front_svg(plan), shows="output tokens per second per GPU against per user"),
            Table(FRONT, load_front(plan.fits)[:_SHOWN], caption=caption),
        ],
        key="front",
        title="Tokens per GPU against tokens per user",
        on=_NOT_PRINTED,
    )


def _over_load(report: ServingReport) -> Iterator[Section]:
    simulation = report.simulation
    drawn = None if simulation is None else vector(simulation_chart(simulation))
    if simulation is None or drawn is None:
        return
    yield Section(
        [
            Lines([saturation_line(simulation)]),
            Picture(svg=drawn, shows="mean and 99th percentile of TTFT and TPOT over requests per second"),
            Table(load_columns(simulation), simulation.answers, caption="Simulated request by request"),
        ],
        key="load",
        title="TTFT and TPOT over the load of one replica",
    )


def _memory(fits: Sequence[DeploymentFit]) -> Section:
    line = "Of the GPU of a replica that has the least room; sequences are those of the load's length."
    held = Table(_MEMORY, fits[:_SHOWN], caption="Memory of the best deployments")
    return Section([Lines([line]), held], key="memory", title="Memory of one GPU", on=_NOT_PRINTED)


_MEMORY: tuple[Column[DeploymentFit], ...] = (
    words("GPU", lambda fit: fit.gpu),
    words("shared", lambda fit: shared_words(fit.sharding)),
    words("weights", lambda fit: fit.weights),
    figure("weights take", lambda fit: fit.memory.weights_bytes, format_bytes),
    figure("activations", lambda fit: fit.memory.activation_bytes, format_bytes),
    figure("other", lambda fit: fit.memory.other_bytes, format_bytes),
    figure("KV cache", lambda fit: fit.memory.kv_pool_bytes, format_bytes),
    figure("usable", lambda fit: fit.memory.usable_bytes, format_bytes, unknown="unknown"),
    figure("sequences that fit", lambda fit: fit.memory.sequences_that_fit),
    figure("running", lambda fit: fit.running, "{:.0f}".format),
)


def _fleet(report: ServingReport) -> Section:
    plan, best = report.fleet.plan, report.fleet.plan.recommended
    blocks: list[Block] = []
    if best:  # the headline says how many replicas are needed and how many are spare
        blocks.append(Lines([headline(plan), disaggregation_line(plan)]))
    caption = "Deployments that carry the load, the cheapest first; output tokens/s per GPU and per user"
    blocks.append(Table(plan_columns(plan), plan.fits[:_SHOWN], caption=caption))
    return Section(blocks, key="fleet", title="Fleet")


def _of_fit(value: Callable[[DeploymentFit], Value | None]) -> Callable[[Variation], Value | None]:
    """Return what the deployment of a variation has; None where it does not carry the load."""
    return lambda variation: None if variation.fit is None else value(variation.fit)


_VARIATIONS: tuple[Column[Variation], ...] = (
    words("what", lambda variation: variation.group),
    words("value", lambda variation: variation.label),
    figure("GPUs", _of_fit(lambda fit: fit.gpus), unknown="does not carry it"),
    figure("TTFT", _of_fit(lambda fit: fit.ttft_s.expected), format_seconds),
    figure("TPOT", _of_fit(lambda fit: fit.tpot_s.expected), format_seconds),
    figure("USD/h", _of_fit(lambda fit: fit.usd_per_hour), "{:,.2f}".format),
    figure("USD/M output tokens", _of_fit(lambda fit: fit.usd_per_million_output_tokens), "{:.3g}".format),
    words("cheapest then", lambda variation: variation.best),
)


def _money(report: ServingReport) -> Section:
    lines = [f"{line.rstrip('.')}." for line in money_lines(report.fleet)]
    if local := report.fleet.local_cost:
        lines.append(f"In {local.currency}: {local_words(local)}.")
    return Section([Lines(lines)], key="tokens", title="Tokens, energy and an API")


def _handover(report: ServingReport) -> Iterator[Section]:
    launch, manifest = report.fleet.launch, report.fleet.launch_files.get("kubernetes.yaml")
    if launch is None:
        return
    listings = (*launch.commands, *(f"# {name}\n{text}" for name, text in launch.files), manifest or "")
    options = Table(LAUNCH_OPTIONS, launch.options, caption="Each option of the command, and why")
    yield Section(
        [Lines(launch.notes), options, *map(Listing, listings)],
        key="launch",
        title="Launch",
        on=_NOT_PRINTED,
    )


_MOST_CURVES = 5


def front_svg(plan: DeploymentPlan) -> str:
    """Draw output tokens per second per GPU against per user, for the best deployments and the front of all."""
    shown: dict[tuple[str, str], DeploymentFit] = {}
    for fit in plan.fits:
        shown.setdefault((fit.gpu, fit.weights), fit)
    series = [
        Series(label=f"{fit.gpu}, {shared_words(fit.sharding)}, {fit.weights}", points=_curve(fit))
        for fit in list(shown.values())[:_MOST_CURVES]
    ]
    best = [(point.per_user, point.per_gpu) for point in load_front(plan.fits)]
    drawn = series_chart(
        [*series, Series(label="front of all deployments", points=best, has_dots=False)],
        title="Throughput of a GPU against speed for a user",
        axes=Axes(x_title="output tokens per second and user", y_title="output tokens per second and GPU"),
    )
    return vector(drawn)


def _curve(fit: DeploymentFit) -> list[tuple[float, float]]:
    each = fit.sharding.gpus
    return [(1 / point.tpot_s, point.rate_per_s * fit.output_len / each) for point in fit.curve]
