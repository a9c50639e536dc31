"""The report on LLM serving as Markdown, and its deployments as CSV."""

from capplan.llm.core.fleet.serving_report import ServingReport
from capplan.report.serving.sections import Section, sections
from capplan.report.table import escape_markdown, render_csv, render_markdown
from capplan.report.text.llm.plan import plan_table


def serving_markdown(report: ServingReport) -> str:
    """Return the report as Markdown, without its charts."""
    parts = [f"# {escape_markdown(report.title)}", *(text for each in sections(report) for text in _section(each))]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _section(section: Section) -> list[str]:
    parts = [f"## {section.title}"]
    if section.lines:
        parts.append("\n\n".join(escape_markdown(line) for line in section.lines))
    for sheet in section.sheets:
        parts += [f"**{escape_markdown(sheet.caption)}**", render_markdown(sheet.content)]
    parts += [f"```\n{listing.rstrip()}\n```" for listing in section.code]
    return parts


def serving_csv(report: ServingReport) -> str:
    """Return the deployments that carry the load for a sheet."""
    return render_csv(plan_table(report.fleet.plan, most=None))
