"""The report on LLM serving as one HTML file: no network, no script, readable on paper and in the dark."""

from importlib import resources

import jinja2
from markupsafe import Markup

from capplan.llm.core.fleet.serving_report import ServingReport
from capplan.report.serving.sections import cards, memory_shares, sections


def serving_html(report: ServingReport) -> str:
    """Return the report as a page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    folder = resources.files("capplan.report.serving") / "templates"
    template = environment.from_string((folder / "serving.html.j2").read_text(encoding="utf-8"))
    found = sections(report)
    return template.render(
        report=report,
        css=Markup((folder / "serving.css").read_text(encoding="utf-8")),
        cards=cards(report),
        sections=found,
        drawn={picture.shows: Markup(picture.svg) for each in found for picture in each.pictures},
        bars=memory_shares(report.fleet.plan.fits),
    )
