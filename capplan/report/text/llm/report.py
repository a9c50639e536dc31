"""The report on LLM serving: its sections of sentences, tables and charts, and the figures that decide."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import TypeVar

from capplan.core.economics.evidence import Standards
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan, load_front
from capplan.llm.core.fleet.disaggregated import DisaggregatedFit
from capplan.llm.core.fleet.limits import PATIENCE_FILE_WORDS
from capplan.llm.core.fleet.money import PaymentOption, ServingReport, Variation
from capplan.llm.core.serving.asked import Statistic
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.report.charts.picture import vector
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.pages.blocks import Cards, Page, SigningLine
from capplan.report.procurement.checks import CHECKS, CHECKS_TITLE, Check
from capplan.report.procurement.figures import headline_money
from capplan.report.procurement.money_tables import local_cards, obligation_card
from capplan.report.sections import (
    Bar,
    BarPart,
    Bars,
    Block,
    Column,
    KeyFigure,
    LineRole,
    Lines,
    Listing,
    Medium,
    Picture,
    Section,
    Table,
    figure,
    sentence,
    words,
)
from capplan.report.text.gpus import local_words
from capplan.report.text.llm.money import GROWTH, LAUNCH_OPTIONS, PAYMENTS, money_lines
from capplan.report.text.llm.plan import (
    FRONT,
    disaggregation_line,
    headline,
    load_words,
    nearest_rejections,
    plan_columns,
    why_rejected,
)
from capplan.report.text.llm.serving import load_columns, saturation_line, simulation_chart
from capplan.report.text.ways import ways_report
from capplan.shapes.llm_serving import shared_words
from capplan.units import counted, format_bytes, format_fraction, format_rate, format_seconds

Value = TypeVar("Value")
_SHOWN = 15


def serving_page(report: ServingReport) -> Page:
    """Return the report as a page."""
    figures = _cards(report)
    in_front = Section([Cards(figures=figures)], on=frozenset({Medium.PDF, Medium.XLSX}))
    sections = [replace(section, entry=section.title) for section in _sections(report, figures)]
    made = Lines([f"Made {report.created}."], on=frozenset({Medium.HTML}))
    return Page(
        title=report.title, created=report.created, lead=[made], sections=[in_front, *sections], is_landscape=True
    )


def serving_data(report: ServingReport) -> list[Section]:
    """Return the deployments that carry the load, for a CSV."""
    plan = report.fleet.plan
    return [Section([Table(plan_columns(plan), plan.fits)])]


def _cards(report: ServingReport) -> tuple[KeyFigure, ...]:
    """Return the figures that decide: GPUs, cost, times, and how sure they are."""
    best = report.fleet.plan.recommended
    if best is None:
        return ()
    cost, simulated = best.usd_per_million_output_tokens, best.simulated
    return (
        KeyFigure(label="Fleet", figure=f"{best.gpus} × {best.gpu}", note=best.words),
        KeyFigure(
            label="Cost",
            figure="no known price" if best.usd_per_hour is None else f"{best.usd_per_hour:,.2f} USD/h",
            note="" if cost is None else f"{cost:.3g} USD per million output tokens",
        ),
        *_yearly_cards(report),
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


def _as_rented(report: ServingReport) -> PaymentOption | None:
    """Return what the recommended offer comes to over the years; None without an offer."""
    best, money = report.fleet.plan.recommended, report.fleet.money
    if best is None or best.rent is None or money is None:
        return None
    return next((payment for payment in money.payments if payment.term is best.rent.term), None)


def _yearly_cards(report: ServingReport) -> Iterator[KeyFigure]:
    """Yield what is signed: the cost of a year and of all years as the load grows, and what is owed."""
    paid, best, money = _as_rented(report), report.fleet.plan.recommended, report.fleet.money
    if paid is None or best is None or best.rent is None or money is None:
        return
    last = money.years[-1].gpus
    grown = f"; {last} GPUs in the last year, as the load grows" if last != best.gpus else ""
    yield KeyFigure(
        label="Cost per year",
        figure=f"{headline_money(paid.usd_per_year)} USD",
        note=f"in the mean of {counted(money.counted_years, 'year')}{grown}; offer of {paid.seller}, {paid.day}",
    )
    yield KeyFigure(
        label=f"Total over {counted(money.counted_years, 'year')}",
        figure=f"{headline_money(paid.cost.total)} USD",
        note=f"net present cost {headline_money(paid.cost.present)} USD",
    )
    yield obligation_card(
        best.rent.term.value, paid.cost.yearly, upfront_fraction=best.rent.upfront_fraction, residual_usd=None
    )
    yield from local_cards(report.fleet.local, paid.usd_per_year, best.rent.country)


def _price_warning(report: ServingReport) -> Iterator[str]:
    """Yield what speaks against relying on the recommended offer's price on the day of the report."""
    best = report.fleet.plan.recommended
    if best is None or best.rent is None:
        return
    today = date.fromisoformat(report.created)
    concerns = Standards(certain_fits=frozenset(), today=today).concerns_of_price(best.rent)
    if concerns:
        yield (
            f"The price of {best.rent.provider} is of {best.rent.date}: {', '.join(concerns)}. Ask for a quote before "
            "signing."
        )


def _sections(report: ServingReport, figures: Sequence[KeyFigure]) -> tuple[Section, ...]:
    plan = report.fleet.plan
    found = [_summary(report, figures)]
    if plan.fits:
        found += [
            _front(plan),
            *_over_load(report),
            _memory(plan.fits),
            _fleet(report),
            Section(
                [
                    Lines(["The recommended deployment with one assumption changed; the others stay."]),
                    Table(_VARIATIONS, report.variations, caption="Lengths, prefix-cache hits, load and price"),
                ],
                key="sensitivity",
                title="What changes if the load is another",
            ),
        ]
        ways = report.fleet.ways
        found += [_money(report), *([] if ways is None else [ways_report(ways)]), *_handover(report)]
    if plan.rejections:
        found.append(_rejections(plan))
    if best := plan.recommended:
        found.append(
            Section([Table(CHECKS, list(_checks(best)), caption=CHECKS_TITLE)], key="checks", title=CHECKS_TITLE)
        )
    return (*found, _assumptions(report))


def _checks(best: DeploymentFit) -> Iterator[Check]:
    """Yield what is left to be checked of the recommended deployment."""
    yield Check(
        "engineering",
        f"speed of {best.words} on {best.gpu}: {best.evidence}",
        "rent it for an hour, run the engine's own benchmark at this load and pass its file to ⟨measured⟩",
    )
    yield Check(
        "engineering",
        "rate, lengths of prompts and answers, prefix hits, the limits on TTFT and TPOT",
        "compare with a week of your own logs; change them in the load file",
    )
    if best.rent is not None and best.usd_per_hour is not None:
        yield Check(
            "procurement",
            f"price of {best.rent.provider} {best.rent.instance or ''}: {best.rent.usd_per_hour:,.3f} USD/GPU-h of "
            f"{best.rent.date}, {best.rent.known_by}",
            "ask for a written quote with its validity; capplan prices import reads it",
        )
        yield Check(
            "operations",
            f"quota for {best.gpus} GPUs in {best.rent.region or 'a region of yours'}",
            "ask how long it takes to get them, and whether data may be processed there",
        )
    else:
        yield Check("procurement", f"no price of {best.gpu} is known", "ask for a quote; ⟨prices⟩ reads it")
    yield Check(
        "finance", "years, growth, tax: amounts are before tax and in USD", "state your own; add VAT and depreciation"
    )


def _summary(report: ServingReport, figures: Sequence[KeyFigure]) -> Section:
    plan = report.fleet.plan
    lines = [
        headline(plan),
        f"Load: {load_words(plan.load)}. Limits: {limit_words(plan.limits)}{_sure_words(plan)}.",
    ]
    lines += [sentence(note) for note in plan.notes if note == PATIENCE_FILE_WORDS]
    if plan.fits:
        lines.append(disaggregation_line(plan))
    blocks: list[Block] = [
        Lines(lines[:1], look="verdict"),
        Lines(list(_price_warning(report)), role=LineRole.WARNING),
        Lines(lines[1:]),
        Cards(figures=figures, on=frozenset({Medium.HTML, Medium.MD})),
        SigningLine(on=frozenset({Medium.HTML, Medium.PDF}) if plan.fits else frozenset()),
    ]
    return Section(blocks, key="summary", title="Recommendation")


def limit_words(limits: LatencyLimits) -> str:
    """Return limits in words, with the percentile that keeps them."""
    pairs = (("TTFT", limits.ttft_s), ("TPOT", limits.tpot_s), ("whole answer", limits.e2e_s))
    words = [f"{name} {format_seconds(value)}" for name, value in pairs if value is not None]
    if not words:
        return "none"
    statistic = limits.statistic
    of = "in the mean" if statistic is Statistic.MEAN else f"at the {statistic.value[1:]}th percentile"
    return f"{', '.join(words)} {of}"


def _sure_words(plan: DeploymentPlan) -> str:
    return (
        f", with a certainty of {plan.certainty_fraction:.0%}"
        if plan.limits.are_set and plan.certainty_fraction > 0.5
        else ""
    )


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
    )


def _over_load(report: ServingReport) -> Iterator[Section]:
    drawn = vector(simulation_chart(report.simulation)) if report.simulation is not None else None
    if report.simulation is None or drawn is None:
        return
    simulation = report.simulation
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
    return Section(
        [
            Lines([line]),
            Bars([_memory_bar(fit) for fit in fits[:_SHOWN]]),
            Table(_MEMORY, fits[:_SHOWN], caption="Memory of the best deployments"),
        ],
        key="memory",
        title="Memory of one GPU",
    )


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


def _memory_bar(fit: DeploymentFit) -> Bar:
    memory = fit.memory
    parts = {
        "weights": memory.weights_bytes,
        "activations": memory.activation_bytes,
        "other": memory.other_bytes,
        "KV cache": memory.kv_pool_bytes,
    }
    whole = max(sum(parts.values()), memory.usable_bytes or 0)
    parts["left"] = whole - sum(parts.values())
    return Bar(
        name=f"{fit.gpu}, {shared_words(fit.sharding)}, {fit.weights}",
        parts=[
            BarPart(name=name, size=f"{format_bytes(size)} ({format_fraction(size / whole)})", fraction=size / whole)
            for name, size in parts.items()
        ],
    )


def _fleet(report: ServingReport) -> Section:
    plan, money, best = report.fleet.plan, report.fleet.money, report.fleet.plan.recommended
    blocks: list[Block] = []
    if best:
        spare = best.replicas - best.needed
        blocks.append(Lines([f"{best.words}: {best.needed} needed for the load, {spare} spare."]))
    caption = "Deployments that carry the load, the cheapest first; output tokens/s per GPU and per user"
    blocks.append(Table(plan_columns(plan), plan.fits[:_SHOWN], caption=caption))
    if money is not None:
        blocks.append(Table(GROWTH, money.years, caption="The fleet as the load grows"))
    if plan.disaggregated:
        caption = "Prefill and decode on replicas of their own"
        blocks.append(Table(_DISAGGREGATED, plan.disaggregated, caption=caption))
    return Section(blocks, key="fleet", title="Fleet")


_DISAGGREGATED: tuple[Column[DisaggregatedFit], ...] = (
    words("GPU", lambda fit: fit.gpu_words),
    words("fleet", lambda fit: fit.words),
    figure("prefill ÷ decode GPUs", lambda fit: fit.ratio, "{:.2g}".format),
    figure("cache moved in", lambda fit: fit.transfer_s, format_seconds),
    figure("TTFT", lambda fit: fit.ttft_s, format_seconds),
    figure("TPOT", lambda fit: fit.tpot_s, format_seconds),
    figure("USD/h", lambda fit: fit.usd_per_hour, "{:,.2f}".format),
)


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
    money = report.fleet.money
    if money is None:
        return Section([], key="money", title="Money")
    lines = [f"{line.rstrip('.')}." for line in money_lines(report.fleet)]
    if local := report.fleet.local_cost:
        lines.append(f"In {local.currency}: {local_words(local)}.")
    caption = f"Ways to pay, over {counted(money.counted_years, 'year')}"
    return Section([Lines(lines), Table(PAYMENTS, money.payments, caption=caption)], key="money", title="Money")


def _handover(report: ServingReport) -> Iterator[Section]:
    launch, manifest = report.fleet.launch, report.fleet.launch_files.get("kubernetes.yaml")
    if launch is None:
        return
    listings = (*launch.commands, *(f"# {name}\n{text}" for name, text in launch.files), manifest or "")
    options = Table(LAUNCH_OPTIONS, launch.options, caption="Each option of the command, and why")
    yield Section([Lines(launch.notes), options, *map(Listing, listings)], key="launch", title="Launch")


def _rejections(plan: DeploymentPlan) -> Section:
    rows = [(gpu, sentence(why_rejected(rejection))) for gpu, rejection in nearest_rejections(plan).items()]
    count = len(plan.rejections)
    line = f"{count} deployments fail; the JSON of this report names each. The nearest of each GPU without any:"
    columns: list[Column[tuple[str, str]]] = [words("GPU", lambda row: row[0]), words("why", lambda row: row[1])]
    table = Table(columns, rows, caption="GPUs without a deployment that carries the load")
    return Section([Lines([line]), *([table] if rows else [])], key="rejected", title="What does not carry the load")


def _assumptions(report: ServingReport) -> Section:
    plan = report.fleet.plan
    lines = [sentence(told.rstrip(".")) for told in (*plan.assumptions, *plan.notes)]
    lines.append(
        "TTFT is from arrival to the first token, TPOT = (end to end − TTFT) ÷ (output tokens − 1), ITL the time "
        "between any two tokens. Estimates rest on step times fitted to measured runs; intervals are in the JSON."
    )
    lines.append(f"Made {report.created} from {report.load_file} by {report.command}.")
    return Section([Lines(lines)], key="assumptions", title="Assumptions")


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
