"""The one list of what a procurement report holds, from which every file for people is made.

What a file leaves out, or shortens, stands here beside what the others hold. The report of a fleet is brief on paper:
page one has the decision for all services, each service its decision and the tables that it rests on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile

from capplan.core.scaling.answer import ServingWays
from capplan.core.serving.load import OneGpu
from capplan.report.narrow import Grid, Heading
from capplan.report.pages.blocks import (
    Cards,
    Chart,
    Charts,
    Drawn,
    Folded,
    GridTable,
    LivePart,
    Page,
    SideBySide,
    SigningLine,
)
from capplan.report.procurement import figures
from capplan.report.procurement.charts.money import charts
from capplan.report.procurement.charts.speed import fleets_chart
from capplan.report.procurement.checks import CHECKS_TITLE, checks_table
from capplan.report.procurement.fleet import SHARING_WORDS, fleet_cards, fleet_table, inventory_table, sharing_table
from capplan.report.procurement.in_short import budget_words
from capplan.report.procurement.live import SHOWN, LiveParts
from capplan.report.procurement.money_tables import (
    TERMS_TITLE,
    appendix_table,
    breakdown_table,
    cash_table,
    constraint_words,
    offers_table,
    software_words,
    terms_table,
)
from capplan.report.procurement.tables import (
    CONVENTIONS,
    HOST_WORDS,
    alone_words,
    assumption_table,
    cards,
    compared_table,
    facts_table,
    host_table,
    latency_words,
    measured_table,
    offers_words,
    operation_table,
    option_table,
    power_table,
    price_table,
    refusal_table,
    spec_table,
    versions_words,
    wins_table,
    workload_words,
)
from capplan.report.procurement.types import FleetRow, ModelReport, Report, WaitOrBuy
from capplan.report.procurement.verdict import load_words, varies_words
from capplan.report.procurement.wait import WAIT_TITLE, wait_table, wait_words
from capplan.report.sections import EVERYWHERE, Align, Block, LineRole, Lines, Medium, Section, Span, Style, line
from capplan.report.text.ways import ways_report
from capplan.units import counted, format_seconds

HTML, PDF, MD, XLSX = (frozenset({medium}) for medium in Medium)
NOWHERE = frozenset[Medium]()
_LONG, _BRIEF, _IN_MARKDOWN, _OF_SEVERAL = 12, 7, 15, 5
"""Rows of a table in a PDF of one decision, in one of a fleet, in Markdown, and in a workbook of several models."""
_PRINTED_PRICES = 25
"""Prices that a page of a fleet prints."""


def procurement_page(report: Report, serving: Sequence[Section] = ()) -> Page:
    """Return the report as the list of all that it holds.

    `serving` is what only a served language model has; nothing of its page is worked out anew by a script.
    """
    live = None if serving else LiveParts(report)
    identities = [f"m{index}" for index in range(1, len(report.models) + 1)]
    models = list(zip(report.models, identities, strict=True))
    sections = [
        *([_fleet(report, report.fleet, live)] if report.fleet and live else []),
        *(_model(report.of(model), model, identity, live, serving) for model, identity in models),
        *(_in_operation(report.of(model), model) for model in report.models),
        *_closing(report),
    ]
    return Page(
        title=report.title,
        created=report.created.isoformat(),
        timestamp=report.timestamp,
        lead=list(_lead(report)),
        sections=sections,
        close=list(_close(report)),
        look="brief" if report.fleet else "",
        live=live.live if live else None,
    )


def _lead(report: Report) -> Iterator[Block]:
    load, years = load_words(report), counted(report.demand.money.years, "year")
    made = f"{report.created} · amounts in {report.currency} before tax, over {years} · capplan {report.version}"
    yield Lines([f"{figures.capitalised(load)}."], on=HTML | PDF)
    yield Lines([made], role=LineRole.SMALL, on=HTML | PDF)
    stated = figures.capitalised(load) if isinstance(report.demand.load, OneGpu) else f"Load: {load}"
    yield Lines(
        [
            f"{stated}. Amounts in {report.currency} before tax; estimates unless called measured; made "
            f"{report.created} by capplan {report.version}."
        ],
        on=MD,
    )
    if words := constraint_words(report.demand.constraints):
        yield Lines([words], on=MD)
    yield Lines([load], role=LineRole.SMALL, on=XLSX)


def _close(report: Report) -> Iterator[Block]:
    command, versions = Span(text=report.command, style=Style.CODE), versions_words(report)
    sure = "Bounds cannot be beaten, estimates rest on stated assumptions, measurements were timed."
    traced = f"; traced with {versions}" * bool(versions)
    made = line("Made by ", command, f" with capplan {report.version}{traced}. {sure}")
    yield Lines([made], role=LineRole.SMALL, on=HTML | PDF)
    yield Lines([f"Made by {report.command}."], on=MD)
    yield Lines([f"Made {report.created} by {report.command}"], role=LineRole.SMALL, on=XLSX)


def _fleet(report: Report, fleet: FleetRow, live: LiveParts) -> Section:
    """Return the decision for all services together."""
    figures_shown = fleet_cards(report)

    @cache
    def drawn() -> list[Chart]:
        chart = fleets_chart(report)
        live.fleet([chart] if chart else [])
        return [chart] if chart else []

    blocks: list[Block] = [
        Lines(["One fleet for all services, as generated"], role=LineRole.TITLE, on=XLSX),
        Lines([fleet.sentence], role=LineRole.VERDICT),
        Cards(figures=figures_shown),
        Charts(charts=drawn, look="half", on=HTML | PDF),
        SigningLine(on=HTML | PDF if figures_shown else NOWHERE),
    ]
    for title, caption, content in (
        (
            "Where each service runs",
            "Whole and shared GPUs of the recommended fleet, and what sharing does to latency",
            sharing_table(fleet),
        ),
        ("Owned GPUs", "What owned GPUs carry, how much more, and for how long", inventory_table(fleet)),
    ):
        if content is not None:
            blocks.append(_titled(title, GridTable(content=content, caption=caption, is_stacked=True)))
    table = GridTable(
        content=fleet_table(fleet), caption="One fleet of each kind of GPU, best first; amounts in USD",
        is_stacked=True, most={Medium.PDF: _BRIEF}, points=7,
    )  # fmt: skip
    blocks += [
        _titled("Fleets for all services", table),
        Lines([SHARING_WORDS], role=LineRole.SMALL, on=EVERYWHERE - XLSX),
    ]
    return Section(blocks, key="fleet", title="One fleet", entry="One fleet", titled_on=MD)


def _titled(title: str, *blocks: Block, on: frozenset[Medium] = EVERYWHERE, look: str = "") -> Section:
    """Return blocks under a small heading, which a workbook leaves out."""
    return Section(blocks, title=title, level=3, on=on, look=look, titled_on=EVERYWHERE - XLSX)


def _model(
    report: Report, model: ModelReport, identity: str, live: LiveParts | None, serving: Sequence[Section]
) -> Section:
    """Return one model's decision, and what it rests on."""
    starts, is_alone = identity == "m1" and report.fleet is None, len(report.models) == 1
    drawn = cache(lambda: charts(report, model, prefix=identity) if model.options else ())
    parts = [
        *([_brief(report, model)] if report.fleet else []),
        *serving,
        _all_options(report, model, identity, live, drawn),
        _charts(report, model, identity, drawn),
        _money(report, model, identity),
        *([_wait(model, model.wait, identity)] if model.wait is not None else []),
        *([_ways(model.ways, identity)] if model.ways is not None else []),
        _power(report, model, identity),
        *_rejected(model, identity),
        _appendix(report, model, identity),
    ]
    blocks: list[Block] = [
        *_decision(report, model, drawn, live),
        *(part if is_alone else replace(part, entry=None) for part in parts),
    ]
    return Section(
        blocks, key=identity, title=model.name, titled_on=MD, entry="Decision" if is_alone else model.name,
        look="" if starts else "page", is_live=live is not None, starts_sheet=not starts,
    )  # fmt: skip


def _decision(report: Report, model: ModelReport, drawn: Drawn, live: LiveParts | None) -> Iterator[Block]:
    """Yield what page one of a model holds."""
    verdict, plan, is_brief = model.verdict, model.planned, report.fleet is not None
    workload = workload_words(plan) if plan else f"{model.items} of a language model that is served"
    name = f"{model.name} ({plan.model.class_})" if plan and plan.model.class_ else model.name
    alone, shown = alone_words(report), cards(report, model)
    has_price = any(option.cost_usd_per_year is not None for option in model.options)
    yield Lines([" · ".join(filter(None, (name, workload, alone)))], role=LineRole.SUBJECT, on=HTML | PDF)
    yield Lines([f"Planned for {workload}."], on=MD)
    yield Lines(["As generated"], role=LineRole.TITLE, on=XLSX)
    yield Lines([verdict.sentence], role=LineRole.PART_VERDICT if is_brief else LineRole.VERDICT)
    if live:
        yield LivePart(markup=live.changed, on=HTML)
    yield Lines([verdict.warning] if verdict.warning else [], role=LineRole.WARNING)
    changes = Lines(verdict.changes_if, role=LineRole.ITEM)
    words = constraint_words(report.demand.constraints)
    yield SideBySide(
        left=[
            Cards(figures=shown),
            Lines([words] if words else [], role=LineRole.SMALL),
            *([_titled("This changes if", changes, look="generated")] if verdict.changes_if else []),
        ],
        right=[Charts(charts=lambda: drawn()[:1])],
        on=HTML,
    )
    yield Cards(figures=shown, on=EVERYWHERE - HTML)
    yield Lines([verdict.in_short] if verdict.in_short else [], look="in-short")
    is_load = not isinstance(report.demand.load, OneGpu)
    signed_on = (HTML if shown else NOWHERE) | (PDF if has_price and is_load else NOWHERE)
    budget = budget_words(report.demand.constraints)
    yield SigningLine(budget=budget, on=NOWHERE if is_brief else signed_on)
    licences = software_words([option for option in model.options if option.is_leading])
    listed = Lines(licences, role=LineRole.ITEM, look="licence")
    yield replace(listed, on=HTML)
    why = Lines(verdict.reasons, role=LineRole.ITEM, look="why")
    if verdict.reasons:
        yield _titled("Why", why, look="generated", on=HTML)
        sides = ([_titled("Why", why)], [_titled("This changes if", changes)])
        yield SideBySide(left=sides[0], right=sides[1], widths=("1.7fr", "1fr"), on=PDF)
    yield replace(why, on=MD)
    yield Lines(["This changes if"] if verdict.changes_if else [], on=MD)
    yield replace(changes, on=MD)
    yield replace(listed, on=MD)
    yield Section([why], title="Why", level=3, on=XLSX)
    yield Section([changes], title="This changes if", level=3, on=XLSX)
    content = compared_table(report, model)
    count = len(content.columns)
    leading = GridTable(
        content=content, caption=f"Leading options; amounts in {report.currency}", is_stacked=True,
        widths=("2.2fr", "1.7fr", "1.8fr", *("auto",) * min(5, count - 3), *("1fr",) * max(0, count - 8)),
    )  # fmt: skip
    yield _titled("The leading options", leading, look="generated", on=HTML | PDF | XLSX if has_price else HTML)
    yield Lines([_trust(model)], role=LineRole.SMALL, on=HTML | PDF)
    if is_brief:
        beside = ("-years", "-sensitivity")
        yield Charts(
            charts=lambda: [chart for chart in drawn() if chart.identity.endswith(beside)], share="72%", on=PDF
        )


def _trust(model: ModelReport) -> str:
    """Return how far the speeds can be trusted."""
    best = model.option(model.verdict.choice) or (model.options[0] if model.options else None)
    interval = best.batch_latency_s.to_text(format_seconds) if best else figures.UNKNOWN
    if model.planned is None:
        return f"Speeds and memory are estimates, {best.speed_evidence}; measure before signing." if best else ""
    calibration = model.planned.provenance.calibration
    rests = f"Calibration: {calibration}." if calibration else "No calibration: intervals are statements of ignorance."
    return (
        "Speeds and memory are estimates; measure before signing. The interval of the leading GPU's batch time is "
        f"{interval}. {rests}"
    )


def _all_options(report: Report, model: ModelReport, identity: str, live: LiveParts | None, drawn: Drawn) -> Section:
    """Return every option, which a page lets its reader change."""
    content, words, count = option_table(report, model), offers_words(model), len(model.options)
    rest = f"The other options, {count} in all, are in the workbook (.xlsx) and in the CSV file of this report."
    in_pdf = NOWHERE if report.fleet else PDF
    widths = _option_widths(content, ("2fr", "2fr"), words="1.4fr", last="0.8fr")
    most = {Medium.PDF: _LONG, Medium.MD: _IN_MARKDOWN}
    changing: list[Block] = []
    if live is not None:
        changing = [
            LivePart(markup=lambda: live.options(model, identity, drawn()), on=HTML),
            Lines([rest] if count > SHOWN else [], role=LineRole.SMALL, look="paper unscripted", on=HTML),
        ]
    table_on = MD | in_pdf | (HTML | XLSX if live is None else NOWHERE)
    blocks: list[Block] = [
        *changing,
        GridTable(content=content, most=most, points=7, widths=widths, on=table_on),
        Lines([f"Latency is {latency_words(report)}. {words}"], role=LineRole.SMALL, on=in_pdf),
        Lines([words], role=LineRole.SMALL, on=HTML | MD),
    ]
    return Section(
        blocks, key=f"{identity}-options", title="All options", entry="All options", titled_on=HTML | PDF,
        on=HTML | MD | in_pdf | table_on, look="page", is_flipped=True,
    )  # fmt: skip


def _option_widths(content: Grid, names: tuple[str, ...], *, words: str, last: str) -> tuple[str, ...]:
    """Return the widths of the table of options on paper: figures by their content, texts in shares of the rest."""

    def width(column: Heading) -> str:
        if column.align is Align.RIGHT or column.title == "price of":
            return "auto"
        return last if column.title.startswith("none") else words

    return (*names, *map(width, content.columns[len(names) :]))


def _brief(report: Report, model: ModelReport) -> Section:
    """Return what a PDF of a fleet shows of one service beside its decision."""
    options, operation = option_table(report, model), operation_table(report, model)
    note = (
        f"Latency is {latency_words(report)}. {offers_words(model)} The other options, charts and tables are in the "
        "page and in the workbook, all rejected GPUs in its sheet Model."
    )
    parts: list[tuple[str, Grid | None, tuple[str, ...]]] = [
        ("The options that may be taken", options, _option_widths(options, ("2.2fr",), words="1.8fr", last="1fr"))
    ]
    for title, _, money in money_tables(report, model)[:1]:
        parts.append((title, money, ("1.8fr", *("1fr",) * (len(money.columns) - 2), "2fr")))
    parts += [(_OPERATION, operation, _EVEN), (_POWER, power_table(model), _EVEN)]
    if (refused := refusal_table(model, named=5)).rows:
        parts.append((_REJECTED, refused, _REFUSAL_WIDTHS))
    sections: list[Section] = []
    for title, content, widths in parts:
        if content is not None:
            table = GridTable(content=content, widths=widths, points=7, most={Medium.PDF: _BRIEF})
            notes = [] if sections else [Lines([note], role=LineRole.SMALL)]
            sections.append(_titled(title, table, *notes))
    return Section(sections, on=PDF)


def _charts(report: Report, model: ModelReport, identity: str, drawn: Drawn) -> Section:
    """Return the charts that do not stand on page one."""
    blocks = [
        Charts(charts=lambda: drawn()[1:], look="charts", on=HTML),
        Charts(charts=drawn, on=PDF),
    ]
    return Section(
        blocks, key=f"{identity}-charts", title="Charts", entry="Charts", look="page detail",
        on=HTML | _whole(report) if model.options else HTML,
    )  # fmt: skip


def money_tables(report: Report, model: ModelReport) -> list[tuple[str, str, Grid]]:
    """Return the tables of money that the load allows, with their titles and captions."""
    terms = "Cost of each leading GPU’s fleet per year under every term, with the provider"
    cash = (
        "What is paid on the first day (capex) and at the end of each year (opex); the residual value is taken off the "
        "last"
    )
    made = (
        (TERMS_TITLE, terms, terms_table(report, model)),
        ("Cash by year", cash, cash_table(report, model)),
        (
            "Where the money goes",
            "Total cost by part over the years counted, undiscounted",
            breakdown_table(report, model),
        ),
    )
    return [(title, caption, content) for title, caption, content in made if content is not None]


def _money(report: Report, model: ModelReport, identity: str) -> Section:
    """Return where the money goes, and in Markdown the options beside the main table."""
    made, appendix = money_tables(report, model), appendix_table(report, model)
    on = MD | (HTML | _whole(report) if made else NOWHERE)
    blocks: list[Block] = []
    for title, caption, content in [*made, *([("Other options", "", appendix)] if appendix else [])]:
        table = GridTable(
            content=content, caption=caption, most={Medium.PDF: _LONG, Medium.MD: _IN_MARKDOWN}, counts_rest=True,
            widths=("2.2fr", "1fr"),
        )  # fmt: skip
        look = "" if title == TERMS_TITLE else "detail"
        blocks.append(_titled(title, table, look=look, on=MD if content is appendix else EVERYWHERE))
    return Section(
        blocks, key=f"{identity}-money", title="Money", titled_on=HTML | PDF, look="page generated",
        entry="Money" if cash_table(report, model) else None, on=on, starts_sheet=True,
    )  # fmt: skip


def _ways(ways: ServingWays, identity: str) -> Section:
    section = ways_report(ways)
    return replace(section, key=f"{identity}-ways", entry=section.title)


def _wait(model: ModelReport, wait: WaitOrBuy, identity: str) -> Section:
    """Return what waiting for hardware that comes later saves or costs."""
    content = wait_table(wait)
    caption = "What waiting saves over the years counted, by the price that the new hardware comes at; below 0 it costs"
    blocks: list[Block] = [Lines([wait.sentence])]
    if content is not None:
        blocks.append(GridTable(content=content, caption=caption, widths=_EVEN))
    blocks.append(Lines(wait_words(model, wait), role=LineRole.ITEM))
    return Section(
        blocks, key=f"{identity}-wait", title=WAIT_TITLE, entry=WAIT_TITLE, look="page generated",
    )  # fmt: skip


def _whole(report: Report) -> frozenset[Medium]:
    """Return a PDF where it holds the whole report, not the brief one of a fleet."""
    return NOWHERE if report.fleet else PDF


_OPERATION, _POWER, _REJECTED = "In operation", "Power, failure and growth", "Rejected GPUs"
_EVEN = ("2.4fr", "1fr")
_REFUSAL_WIDTHS = ("1.2fr", "auto", "auto", "3fr")


def _power(report: Report, model: ModelReport, identity: str) -> Section:
    """Return power, operation and hosts of the leading options, and how sure the choice is."""
    varies = varies_words(model.verdict.varies)
    scenarios = f"Share of {model.verdict.scenarios} scenarios in which an option is the cheapest. {varies}"
    operation = (
        "Latency percentile and load at today’s peak: as the fleet runs, with one server down, with only the needed "
        "GPUs, and at twice the load"
    )
    power = "Leading options: power and carbon of the whole fleet, and how often enough of it is up"
    host = "Input over PCIe, and the CPU time that is left for each sample"
    blocks: list[Block] = [GridTable(content=power_table(model), caption=power, most={Medium.PDF: _LONG}, widths=_EVEN)]
    if (content := operation_table(report, model)) is not None:
        table = GridTable(content=content, caption=operation, most={Medium.PDF: _LONG}, widths=_EVEN)
        blocks.append(_titled(_OPERATION, table))
    if (content := host_table(report, model)) is not None:
        table = GridTable(content=content, caption=host, widths=_EVEN)
        blocks.append(_titled("What the host must do", table, Lines([HOST_WORDS], role=LineRole.SMALL), look="detail"))
    if (content := wins_table(model)) is not None:
        told = Lines([scenarios], role=LineRole.SMALL, on=PDF)
        table = GridTable(content=content, caption=scenarios)
        blocks.append(_titled("How sure the choice is", told, table, look="detail"))
    if (content := measured_table(model)) is not None:
        table = GridTable(content=content, caption="Measured times beside the estimates")
        blocks.append(_titled("Theory beside measurement", table, look="detail"))
    return Section(
        blocks, key=f"{identity}-power", title=_POWER, entry="Power and failure",
        look="page generated", on=HTML | _whole(report), starts_sheet=True,
    )  # fmt: skip


def _rejected(model: ModelReport, identity: str) -> list[Section]:
    """Return the GPUs that cannot serve."""
    content = refusal_table(model)
    table = GridTable(
        content=content, caption="GPUs that cannot serve, and why", is_stacked=True, widths=_REFUSAL_WIDTHS,
    )  # fmt: skip
    none = Lines(["None: every GPU asked about carries the load."])
    blocks: list[Block] = [table if content.rows else none]
    part = Section(blocks, key=f"{identity}-rejected", title=_REJECTED, entry="Rejected", on=HTML)
    return [part, *([Section(blocks, title="Rejected", on=MD)] if content.rows else [])]


def _appendix(report: Report, model: ModelReport, identity: str) -> Section:
    """Return the options outside the main table, the offers left out, and the facts of the model."""
    blocks: list[Block] = []
    title, appendix = "Options outside the main table", appendix_table(report, model)
    if appendix is not None:
        table = GridTable(
            content=appendix, caption="Other options, each with why it is not in the main table", is_stacked=True,
            widths=("1.8fr", "2fr", "auto", "auto", "2.4fr"),
        )  # fmt: skip
        summary, key = f"{title} ({len(appendix.rows)})", f"{identity}-outside" if report.fleet else ""
        blocks.append(Folded(summary=summary, blocks=[table], heading=title, key=key, on=HTML))
    if (offers := offers_table(model)) is not None:
        count = len(offers.rows)
        told = f"{count} offers that no option rests on are listed on screen, each with its reason."
        blocks += [
            Lines([told], role=LineRole.SMALL, look="paper", on=HTML),
            Folded(
                summary=f"Offers that no option rests on ({count})", blocks=list(_left_out(report, model, offers)),
                key=f"{identity}-offers", on=HTML,
            ),
        ]  # fmt: skip
    facts = f"Facts about {model.name}"
    held: list[Block] = [Lines(model.notes, role=LineRole.ITEM)]
    if plan := model.planned:
        held = [
            GridTable(content=facts_table(plan), caption="Model facts and conditions", widths=("1fr", "3fr")),
            Lines([*plan.assumptions, *plan.notes], role=LineRole.ITEM),
        ]
    blocks += [
        Folded(summary=facts, blocks=held, heading=facts, on=HTML),
        Section(held, title="Facts about the model", on=PDF),
    ]
    return Section(
        blocks, key=f"{identity}-appendix", title="Appendix", entry="Appendix", titled_on=HTML, look="detail",
        on=HTML | _whole(report),
    )  # fmt: skip


def _left_out(report: Report, model: ModelReport, offers: Grid) -> Iterator[Block]:
    """Yield the offers that no option rests on and that the models before have not listed: most are the same."""
    before = takewhile(lambda other: other is not model, report.models)
    listed = {row for other in before if (table := offers_table(other)) for row in table.rows}
    rows = tuple(row for row in offers.rows if row not in listed)
    if again := len(offers.rows) - len(rows):
        yield Lines([f"{again} of them are listed with the models above."], role=LineRole.SMALL)
    if rows:
        content = Grid(columns=offers.columns, rows=rows)
        yield GridTable(content=content, caption="Offers left out, each with the reason")


def _in_operation(report: Report, model: ModelReport) -> Section:
    """Return what the first sheet of a workbook holds below the decisions: fewer rows for each of several models."""
    is_one = len(report.models) == 1
    tables = (power_table(model), operation_table(report, model), host_table(report, model))
    most = {} if is_one else {Medium.XLSX: _OF_SEVERAL}
    return Section(
        [GridTable(content=content, most=most) for content in tables if content is not None],
        title="" if is_one else f"In operation: {model.service or model.made.model}", on=XLSX,
    )  # fmt: skip


def _closing(report: Report) -> Iterator[Section]:
    """Yield what holds for all models: assumptions, sources, and who should check what."""
    checks = checks_table(report)
    if checks is not None:
        lines = Lines([": ".join(cells) for cells in checks.rows], role=LineRole.ITEM)
        yield Section([lines], title=CHECKS_TITLE, level=3, on=XLSX)
    assumptions = GridTable(
        content=assumption_table(report), caption="Every input of the money and the load, with its range and source",
        is_stacked=True, widths=("1.6fr", "auto", "auto", "auto", "1fr", "auto", "2.4fr"), on=EVERYWHERE - XLSX,
    )  # fmt: skip
    conventions = Lines(CONVENTIONS, role=LineRole.ITEM)
    yield Section(
        [
            assumptions, replace(conventions, on=HTML | PDF),
            replace(conventions, role=LineRole.SMALL, on=XLSX),
        ],
        key="assumptions", title="Assumptions", entry="Assumptions", titled_on=EVERYWHERE - XLSX,
        starts_sheet=True,
    )  # fmt: skip
    yield from _sources(report)
    if checks is not None:
        table = GridTable(content=checks, caption=CHECKS_TITLE, is_stacked=True, widths=("auto", "2fr", "2fr"))
        yield Section([table], key="checks", title=CHECKS_TITLE, entry="Before signing", on=EVERYWHERE - XLSX)
    yield from _sheets(report)


def _sources(report: Report) -> Iterator[Section]:
    """Yield where prices and GPUs' figures were read; a PDF names the files that have them."""
    prices, specs = price_table(report), spec_table(report)
    rest = len(prices.rows) - _PRINTED_PRICES
    more = [f"The other {rest} prices are in the workbook, sheet Prices."] if report.fleet and rest > 0 else []
    all_prices = GridTable(content=prices, caption="Every price used, with its day and source", is_stacked=True)
    paper = Lines(more, role=LineRole.SMALL, look="paper")
    all_specs = GridTable(content=specs, caption="Figures of the GPUs and where they were read")
    folded = [
        Folded(summary="Prices", blocks=[all_prices, paper], heading="Prices"),
        Folded(summary="GPU specifications", blocks=[all_specs], key="specs"),
    ]
    yield Section(folded, key="sources", title="Sources", entry="Sources", on=HTML)
    yield Section([Lines([_ELSEWHERE], role=LineRole.SMALL)], on=PDF)


_ELSEWHERE = (
    "Rejected GPUs, options outside the main table, the offers left out, and the sources of all prices and GPU figures "
    "are in the page (.html) and the workbook (.xlsx) of this report; launch and memory of a served model in the page."
)


def _sheets(report: Report) -> Iterator[Section]:
    """Yield the sheets of a workbook that stand behind the decision, each once for all models."""
    facts: list[Block] = []
    for model in report.models:
        if len(report.models) > 1:
            facts.append(Lines([model.name], role=LineRole.TITLE))
        about = GridTable(content=facts_table(model.planned)) if model.planned else Lines(model.notes)
        facts += [about, GridTable(content=refusal_table(model))]
    yield Section(facts, sheet="Model", on=XLSX)
    offers = [content for model in report.models if (content := offers_table(model))]
    if offers:
        rows = tuple(dict.fromkeys(row for content in offers for row in content.rows))
        table = GridTable(content=Grid(columns=offers[0].columns, rows=rows))
        yield Section([table], sheet="Other offers", on=XLSX)
    yield Section([GridTable(content=price_table(report))], sheet="Prices", on=XLSX)
    yield Section([GridTable(content=spec_table(report))], sheet="Specifications", on=XLSX)
