"""The report on LLM serving as sections of sentences, tables and charts, from which every format is made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.serving_report import ServingReport, Variation
from capplan.llm.core.simulation.load_answer import LatencyLimits, Statistic
from capplan.report.documents.llm.plan import manifest_of
from capplan.report.serving.charts import front_svg, times_svg
from capplan.report.table import Table, table
from capplan.report.text.llm.money import (
    api_line,
    growth_table,
    launch_table,
    money_lines,
    payment_table,
)
from capplan.report.text.llm.plan import (
    disaggregation_line,
    front_table,
    headline,
    load_words,
    nearest_rejections,
    plan_table,
    shared_words,
    why_rejected,
)
from capplan.report.text.llm.simulation import saturation_line, simulation_table
from capplan.units import format_bytes, format_fraction, format_rate, format_seconds

_SHOWN = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart as SVG, and what it shows for those who do not see it."""

    svg: str
    shows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table with its caption."""

    caption: str
    content: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the report. `code` are listings, such as a command."""

    key: str
    title: str
    lines: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    code: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One figure of the summary: what it is, its value, and its range or basis."""

    label: str
    figure: str
    note: str


def cards(report: ServingReport) -> tuple[Card, ...]:
    """Return the figures that decide: GPUs, cost, times, and how sure they are."""
    best = report.fleet.plan.recommended
    if best is None:
        return ()
    cost, simulated = best.usd_per_million_output_tokens, best.simulated
    return (
        Card(label="Fleet", figure=f"{best.gpus} × {best.gpu}", note=best.words),
        Card(
            label="Cost",
            figure="no known price" if best.usd_per_hour is None else f"{best.usd_per_hour:,.2f} USD/h",
            note="" if cost is None else f"{cost:.3g} USD per million output tokens",
        ),
        Card(
            label="TTFT",
            figure=format_seconds(best.ttft_s.expected),
            note=f"p99 {format_seconds(simulated.ttft_s.p99)}" if simulated else "",
        ),
        Card(
            label="TPOT",
            figure=format_seconds(best.tpot_s.expected),
            note=f"p99 {format_seconds(simulated.tpot_s.p99)}" if simulated else "",
        ),
        Card(
            label="Highest load",
            figure=f"{best.max_rate_per_s * best.replicas:.3g} requests/s",
            note=f"{format_rate(best.output_tokens_per_s_per_gpu)} output tokens/s per GPU at the load",
        ),
        Card(
            label="Evidence",
            figure=best.evidence.partition(":")[0],
            note="limits hold at the worst" if best.holds_at_worst else "limits may break at the worst",
        ),
    )


def sections(report: ServingReport) -> tuple[Section, ...]:
    """Return all sections of a report."""
    plan = report.fleet.plan
    found = [_summary(report)]
    if plan.fits:
        found += [
            _front(plan),
            *_over_load(report),
            _memory(plan.fits),
            _fleet(report),
            _sensitivity(report.variations),
        ]
        found += [_money(report), *_handover(report)]
    if plan.rejections:
        found.append(_rejections(plan))
    return (*found, _assumptions(report))


def _summary(report: ServingReport) -> Section:
    plan = report.fleet.plan
    lines = [f"{headline(plan)}", f"Load: {load_words(plan.load)}. Limits: {limit_words(plan.limits)}."]
    if plan.fits:
        lines.append(disaggregation_line(plan))
    return Section(key="summary", title="Recommendation", lines=tuple(lines))


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
    return Section(
        key="front",
        title="Tokens per GPU against tokens per user",
        lines=("Every point is a deployment with so many requests at a time; up and to the right is better.",),
        pictures=(Picture(svg=front_svg(plan), shows="output tokens per second per GPU against per user"),),
        sheets=(Sheet(caption="The points that no other beats in both", content=_cut(front_table(plan))),),
    )


def _over_load(report: ServingReport) -> Iterator[Section]:
    drawn = times_svg(report)
    if report.simulation is None or drawn is None:
        return
    yield Section(
        key="load",
        title="TTFT and TPOT over the load of one replica",
        lines=(saturation_line(report.simulation),),
        pictures=(Picture(svg=drawn, shows="mean and 99th percentile of TTFT and TPOT over requests per second"),),
        sheets=(Sheet(caption="Simulated request by request", content=simulation_table(report.simulation)),),
    )


def _memory(fits: Sequence[DeploymentFit]) -> Section:
    rows = [
        (
            fit.gpu,
            shared_words(fit.sharding),
            fit.weights,
            *(format_bytes(size) for size in _parts(fit)),
            "unknown" if fit.memory.usable_bytes is None else format_bytes(fit.memory.usable_bytes),
            str(fit.memory.sequences_that_fit),
            f"{fit.running:.0f}",
        )
        for fit in fits[:_SHOWN]
    ]
    heads = "GPU|shared|weights|weights take>|activations>|other>|KV cache>|usable>|sequences that fit>|running>"
    return Section(
        key="memory",
        title="Memory of one GPU",
        lines=("Of the GPU of a replica that has the least room; sequences are those of the load's length.",),
        sheets=(Sheet(caption="Memory of the best deployments", content=table(heads, rows)),),
    )


def _parts(fit: DeploymentFit) -> tuple[int, int, int, int]:
    memory = fit.memory
    return memory.weights_bytes, memory.activation_bytes, memory.other_bytes, memory.kv_pool_bytes


def _fleet(report: ServingReport) -> Section:
    plan, money = report.fleet.plan, report.fleet.money
    sheets = [
        Sheet(caption="Deployments that carry the load, the cheapest first", content=plan_table(plan, most=_SHOWN))
    ]
    if money is not None:
        sheets.append(Sheet(caption="The fleet as the load grows", content=growth_table(money)))
    if plan.disaggregated:
        sheets.append(Sheet(caption="Prefill and decode on replicas of their own", content=_disaggregated(plan)))
    best = plan.recommended
    lines = (f"{best.words}: {best.needed} needed for the load, {best.replicas - best.needed} spare.",) if best else ()
    return Section(key="fleet", title="Fleet", lines=lines, sheets=tuple(sheets))


def _disaggregated(plan: DeploymentPlan) -> Table:
    rows = [
        (
            each.gpu,
            each.words,
            f"{each.ratio:.2g}",
            format_seconds(each.transfer_s),
            format_seconds(each.ttft_s),
            format_seconds(each.tpot_s),
            "" if each.usd_per_hour is None else f"{each.usd_per_hour:,.2f}",
        )
        for each in plan.disaggregated
    ]
    return table("GPU|fleet|prefill ÷ decode GPUs>|cache moved in>|TTFT>|TPOT>|USD/h>", rows)


def _sensitivity(variations: Sequence[Variation]) -> Section:
    rows = [(each.group, each.label, *_varied(each.fit), each.best or "") for each in variations]
    return Section(
        key="sensitivity",
        title="What changes if the load is another",
        lines=("The recommended deployment with one assumption changed; the others stay.",),
        sheets=(
            Sheet(
                caption="Lengths, prefix-cache hits, load and price",
                content=table("what|value|GPUs>|TTFT>|TPOT>|USD/h>|USD/M output tokens>|cheapest then", rows),
            ),
        ),
    )


def _varied(fit: DeploymentFit | None) -> tuple[str, ...]:
    if fit is None:
        return ("does not carry it", "", "", "", "")
    cost = fit.usd_per_million_output_tokens
    return (
        str(fit.gpus),
        format_seconds(fit.ttft_s.expected),
        format_seconds(fit.tpot_s.expected),
        "" if fit.usd_per_hour is None else f"{fit.usd_per_hour:,.2f}",
        "" if cost is None else f"{cost:.3g}",
    )


def _money(report: ServingReport) -> Section:
    money = report.fleet.money
    if money is None:
        return Section(key="money", title="Money")
    lines = [line for line in money_lines(report.fleet) if line != api_line(money)]
    if money.api is not None:
        lines.append(api_line(money))
    return Section(
        key="money",
        title="Money",
        lines=tuple(f"{line.rstrip('.')}." for line in lines),
        sheets=(Sheet(caption=f"Ways to pay, over {money.counted_years} years", content=payment_table(money)),),
    )


def _handover(report: ServingReport) -> Iterator[Section]:
    launch, manifest = report.fleet.launch, manifest_of(report.fleet)
    if launch is None or manifest is None:
        return
    yield Section(
        key="launch",
        title="Launch",
        lines=launch.notes,
        sheets=(Sheet(caption="Each option of the command, and why", content=launch_table(launch)),),
        code=(launch.command, *(f"# {name}\n{text}" for name, text in launch.files), manifest),
    )


def _rejections(plan: DeploymentPlan) -> Section:
    rows = [(gpu, format_words(why_rejected(each))) for gpu, each in nearest_rejections(plan).items()]
    count = len(plan.rejections)
    return Section(
        key="rejected",
        title="What does not carry the load",
        lines=(f"{count} deployments fail; the JSON of this report names each. The nearest of each GPU without any:",),
        sheets=(Sheet(caption="GPUs without a deployment that carries the load", content=table("GPU|why", rows)),)
        if rows
        else (),
    )


def format_words(words: str) -> str:
    """Return words as a sentence."""
    return f"{words[:1].upper()}{words[1:]}."


def _assumptions(report: ServingReport) -> Section:
    plan = report.fleet.plan
    lines = [format_words(each.rstrip(".")) for each in (*plan.assumptions, *plan.notes)]
    lines.append(
        "TTFT is from arrival to the first token, TPOT = (end to end − TTFT) ÷ (output tokens − 1), ITL the time "
        "between any two tokens. Estimates rest on step times fitted to measured runs; intervals are in the JSON."
    )
    lines.append(f"Made {report.created} from {report.load_file} by {report.command}.")
    return Section(key="assumptions", title="Assumptions", lines=tuple(lines))


def _cut(content: Table) -> Table:
    return Table(columns=content.columns, rows=content.rows[:_SHOWN])


def memory_shares(fits: Sequence[DeploymentFit]) -> list[dict[str, object]]:
    """Return the parts of one GPU's memory as shares, for bars: a name, and a label with its share for each part."""
    bars: list[dict[str, object]] = []
    for fit in fits[:_SHOWN]:
        parts = dict(zip(("weights", "activations", "other", "KV cache"), _parts(fit), strict=True))
        whole = max(sum(parts.values()), fit.memory.usable_bytes or 0)
        parts["left"] = whole - sum(parts.values())
        bars.append(
            {
                "name": f"{fit.gpu}, {shared_words(fit.sharding)}, {fit.weights}",
                "parts": [
                    {"label": f"{label} {format_bytes(size)}", "kind": index, "share": f"{100 * size / whole:.2f}"}
                    for index, (label, size) in enumerate(parts.items())
                    if size > 0
                ],
                "words": ", ".join(
                    f"{label} {format_bytes(size)} ({format_fraction(size / whole)})" for label, size in parts.items()
                ),
            }
        )
    return bars
