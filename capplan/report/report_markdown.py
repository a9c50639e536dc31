"""The report as Markdown, short enough for a pull request; names are text, never markup."""

from collections.abc import Sequence

from capplan.report import figures
from capplan.report.report_types import ModelReport, OptionRow, Report
from capplan.report.report_verdict import describe_load
from capplan.report.table import Table, escape_markdown, render_markdown, table

_SHOWN = 12


def render_report_markdown(report: Report) -> str:
    """Write the decision, the options and the assumptions."""
    parts = [
        f"# {escape_markdown(report.title)}",
        f"Load: {escape_markdown(describe_load(report.demand.load))}. Amounts in {report.currency} before tax; "
        f"estimates unless called measured; made {report.created} by capplan {report.version}.",
    ]
    for model in report.models:
        parts += _model(model)
    parts += ["## Assumptions", render_markdown(_assumptions(report))]
    parts += [f"Made by `{_code(report.command)}`."]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _code(text: str) -> str:
    return text.replace("`", "'").replace("\r", " ").replace("\n", " ")


def _model(model: ModelReport) -> list[str]:
    verdict = model.verdict
    parts = [f"## {escape_markdown(model.subject.name)}", f"**{escape_markdown(verdict.sentence)}**"]
    if verdict.reasons:
        parts.append("\n".join(f"- {escape_markdown(reason)}" for reason in verdict.reasons))
    if verdict.changes_if:
        parts.append("This changes if")
        parts.append("\n".join(f"- {escape_markdown(change)}" for change in verdict.changes_if))
    parts.append(render_markdown(_options(model.options[:_SHOWN])))
    if len(model.options) > _SHOWN:
        parts.append(f"{len(model.options) - _SHOWN} more options are in the other formats of this report.")
    if model.refusals:
        rows = [(each.gpu_name, each.constraint, each.reason) for each in model.refusals]
        parts += ["### Rejected", render_markdown(table("GPU | by | reason", rows))]
    return parts


def _options(options: Sequence[OptionRow]) -> Table:
    rows = [
        (
            f"{row.gpu_name} {row.term}",
            figures.offer(row),
            str(row.price_date or ""),
            str(row.batch),
            str(row.gpus),
            figures.seconds(row.latency_s.expected),
            figures.fraction(row.headroom_fraction),
            figures.money(row.cost_usd_per_year),
            figures.money(row.total_usd),
            figures.money(row.usd_per_million),
            "front" if row.on_front else "",
        )
        for row in options
    ]
    heading = (
        "option | offer | price of | batch> | GPUs> | latency> | head-room> | USD/year> | USD in all> "
        "| USD/million samples> | Pareto"
    )
    return table(heading, rows)


def _assumptions(report: Report) -> Table:
    rows = [
        (each.label, f"{each.value:g}", f"{each.low:g} to {each.high:g}", each.unit, each.basis, each.source)
        for each in report.assumptions
    ]
    return table("assumption | value> | range> | unit | basis | source", rows)
