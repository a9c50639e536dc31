"""The report as Markdown, short enough for a pull request; names are text, never markup."""

from collections.abc import Sequence

from capplan.core.serving.load import OneGpu
from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.checks import CHECKS_TITLE, checks_table
from capplan.report.procurement.fleet import SHARING_WORDS, fleet_cards, fleet_table, inventory_table, sharing_table
from capplan.report.procurement.money_tables import (
    TERMS_TITLE,
    appendix_table,
    breakdown_table,
    cash_table,
    constraint_words,
    software_words,
    terms_table,
)
from capplan.report.procurement.tables import (
    assumption_table,
    cards,
    offers_words,
    option_table,
    refusal_table,
    workload_words,
)
from capplan.report.procurement.types import FleetRow, ModelReport, Report
from capplan.report.procurement.verdict import load_words
from capplan.report.render import escape_markdown, markdown_grid
from capplan.report.sections import KeyFigure

_SHOWN = 15


def render_report_markdown(report: Report) -> str:
    """Write the decision, the options and the assumptions."""
    parts = [
        f"# {escape_markdown(report.title)}",
        f"{escape_markdown(_load(report))}. Amounts in {report.currency} before tax; "
        f"estimates unless called measured; made {report.created} by capplan {report.version}.",
    ]
    if words := constraint_words(report.demand.constraints):
        parts.append(escape_markdown(words))
    if report.fleet is not None:
        parts += _fleet(report, report.fleet)
    for model in report.models:
        parts += _model(report.of(model), model)
    parts += ["## Assumptions", markdown_grid(assumption_table(report))]
    if checks := checks_table(report):
        parts += [f"## {CHECKS_TITLE}", markdown_grid(checks)]
    parts += [f"Made by {escape_markdown(report.command)}."]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _load(report: Report) -> str:
    words = load_words(report)
    return figures.capitalised(words) if isinstance(report.demand.load, OneGpu) else f"Load: {words}"


def _key_figures(shown: Sequence[KeyFigure]) -> list[str]:
    """Write the figures of page one as a list."""
    lines = (f"- {escape_markdown(f'{card.label}: {card.figure} ({card.note})')}" for card in shown)
    return ["\n".join(lines)] if shown else []


def _fleet(report: Report, fleet: FleetRow) -> list[str]:
    parts = ["## One fleet", f"**{escape_markdown(fleet.sentence)}**", *_key_figures(fleet_cards(report))]
    for heading, content in (
        ("Where each service runs", sharing_table(fleet)),
        ("Owned GPUs", inventory_table(fleet)),
        ("Fleets for all services", fleet_table(fleet)),
    ):
        if content is not None:
            parts += [f"### {heading}", markdown_grid(content)]
    return [*parts, escape_markdown(SHARING_WORDS)]


def _model(report: Report, model: ModelReport) -> list[str]:
    verdict = model.verdict
    planned = f"Planned for {workload_words(model.plan)}."
    parts = [f"## {escape_markdown(model.name)}", escape_markdown(planned), f"**{escape_markdown(verdict.sentence)}**"]
    parts += [f"**{escape_markdown(verdict.warning)}**"] if verdict.warning else []
    parts += _key_figures(cards(report, model))
    if verdict.reasons:
        parts.append("\n".join(f"- {escape_markdown(reason)}" for reason in verdict.reasons))
    if verdict.changes_if:
        parts.append("This changes if")
        parts.append("\n".join(f"- {escape_markdown(change)}" for change in verdict.changes_if))
    if licences := software_words([option for option in model.options if option.evidence.is_leading]):
        parts += ["\n".join(f"- {escape_markdown(words)}" for words in licences)]
    options = option_table(report, model)
    parts.append(markdown_grid(Grid(columns=options.columns, rows=options.rows[:_SHOWN])))
    parts.append(escape_markdown(offers_words(model)))
    for heading, content in (
        (TERMS_TITLE, terms_table(report, model)),
        ("Cash by year", cash_table(report, model)),
        ("Where the money goes", breakdown_table(report, model)),
        ("Other options", appendix_table(report, model)),
    ):
        if content is not None:
            parts += [f"### {heading}", markdown_grid(Grid(columns=content.columns, rows=content.rows[:_SHOWN]))]
            if len(content.rows) > _SHOWN:
                parts.append(f"{len(content.rows) - _SHOWN} more rows are in the other formats of this report.")
    if model.refusals:
        parts += ["### Rejected", markdown_grid(refusal_table(model))]
    return parts
