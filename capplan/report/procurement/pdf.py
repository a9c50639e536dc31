"""The report as a PDF by Typst: its figures travel as data, so nothing in a name can become markup."""

import json
import re
from dataclasses import replace
from importlib import resources
from typing import Any

import typst

from capplan.core.serving.load import OneGpu
from capplan.report.charts.look import HEIGHT, Drawing
from capplan.report.charts.picture import vector
from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.charts.money import charts
from capplan.report.procurement.charts.speed import fleets_chart
from capplan.report.procurement.checks import CHECKS_TITLE, checks_table
from capplan.report.procurement.fleet import SHARING_WORDS, fleet_cards, fleet_table, inventory_table, sharing_table
from capplan.report.procurement.money_tables import (
    TERMS_TITLE,
    appendix_table,
    breakdown_table,
    cash_table,
    terms_table,
)
from capplan.report.procurement.tables import (
    CONVENTIONS,
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
from capplan.report.procurement.types import Chart, ModelReport, Report
from capplan.report.procurement.verdict import load_words, varies_words
from capplan.shapes.codec import to_plain
from capplan.units import counted

_FAMILY = re.compile(r'font-family="[^"]*"')
_LONGEST = 40
_WIDTH, _SHRINK = 330, 0.54
"""Width of a chart [pixels], and what is left of its height."""
_BRIEF = 7
"""Rows of a table of a fleet's report, whose page one holds the decision and each service two pages."""
_LEADING = 12
_LEADING_CHARTS = ("years", "sensitivity")


def render_report_pdf(report: Report) -> bytes:
    """Format the report as a tagged PDF; the same report gives the same bytes."""
    document, pictures = _document(report)
    files: dict[str, bytes] = {
        "main.typ": (resources.files("capplan.report.procurement") / "templates" / "report.typ").read_bytes(),
        "data.json": json.dumps(document, ensure_ascii=False).encode(),
        **pictures,
    }
    # The stubs of typst 0.15 leave out that the input may be a mapping of files.
    options: Any = {
        "format": "pdf",
        "pdf_standards": "ua-1",
        "timestamp": report.timestamp,
        "ignore_system_fonts": True,
    }
    try:
        return bytes(typst.compile(files, **options))
    except typst.TypstError as error:
        if "could not be displayed" not in str(error):
            raise
        shown = {name: _displayable(content.decode()).encode() for name, content in files.items()}
        return bytes(typst.compile(shown, **options))


def _displayable(words: str) -> str:
    """Replace what the font may lack by a question mark: all beyond Latin, Greek, Cyrillic and common signs."""
    return "".join(
        character if ord(character) < 0x500 or 0x2010 <= ord(character) <= 0x2265 else "?" for character in words
    )


def _document(report: Report) -> tuple[dict[str, Any], dict[str, bytes]]:
    pictures: dict[str, bytes] = {}
    models = [
        _model(report.of(model), model, f"m{index}", pictures) for index, model in enumerate(report.models, start=1)
    ]
    prices = price_table(_of_leading(report, _BRIEF if report.fleet else _LONGEST))
    leading = {
        option.gpu
        for model in _of_leading(report, _BRIEF if report.fleet else _LEADING).models
        for option in model.options
    }
    all_specs = spec_table(report)
    specs = replace(all_specs, rows=tuple(row for row in all_specs.rows if row[0] in leading))
    document = {
        "title": report.title,
        "load": figures.capitalised(load_words(report)),
        "made": f"{report.created} · amounts in {report.currency} before tax, over "
        f"{counted(report.demand.money.years, 'year')} · capplan {report.version}",
        "day": report.created.isoformat(),
        "models": models,
        "fleet": _fleet(report, pictures),
        "assumptions": to_plain(assumption_table(report)),
        "conventions": list(CONVENTIONS),
        "prices": to_plain(prices),
        "prices_note": _left_out(prices, price_table(report), "prices", "Prices"),
        "specs": to_plain(specs),
        "specs_note": _left_out(specs, all_specs, "figures", "Specifications"),
        "checks": to_plain(checks_table(report)),
        "checks_title": CHECKS_TITLE,
        "command": report.command,
        "versions": versions_words(report),
    }
    return document, pictures


def _fleet(report: Report, pictures: dict[str, bytes]) -> dict[str, Any] | None:
    fleet = report.fleet
    if fleet is None:
        return None
    return {
        "sentence": fleet.sentence,
        "cards": [to_plain(card) for card in fleet_cards(report)],
        "sharing": to_plain(sharing_table(fleet)),
        "inventory": to_plain(inventory_table(fleet)),
        "options": to_plain(_cut(fleet_table(fleet), _BRIEF)),
        "words": SHARING_WORDS,
        "chart": _picture(chart, pictures) if (chart := fleets_chart(report)) else None,
    }


def _picture(chart: Chart, pictures: dict[str, bytes]) -> dict[str, Any]:
    """Draw a chart for paper among the pictures, and return what stands around it."""
    name = f"{chart.identity}.svg"
    pictures[name] = for_paper(vector(smaller(chart.drawing))).encode()
    return {"title": chart.title, "caption": chart.caption, "file": name, "alt": chart.description}


def _model(report: Report, model: ModelReport, identity: str, pictures: dict[str, bytes]) -> dict[str, Any]:
    drawn = []
    for chart in charts(report, model, prefix=identity) if model.options else ():
        leads = chart.identity.removeprefix(f"{identity}-") in _LEADING_CHARTS
        drawn.append({**_picture(chart, pictures), "leads": leads})
    rows = _BRIEF if report.fleet else _LONGEST
    best = model.option(model.verdict.choice) or (model.options[0] if model.options else None)
    has_price = any(option.money.cost_usd_per_year is not None for option in model.options)
    return {
        "subject": " · ".join(filter(None, (model.name, workload_words(model.plan), alone_words(report)))),
        "sentence": model.verdict.sentence,
        "warning": model.verdict.warning,
        "cards": [to_plain(card) for card in cards(report, model)],
        "reasons": list(model.verdict.reasons),
        "changes": list(model.verdict.changes_if),
        "compared": to_plain(compared_table(report, model)) if has_price else None,
        "interval": figures.seconds_range(best.speed.batch_latency_s) if best else figures.UNKNOWN,
        "calibration": model.plan.provenance.calibration,
        "signed": has_price and report.fleet is None and not isinstance(report.demand.load, OneGpu),
        "brief": report.fleet is not None,
        "options": to_plain(_cut(option_table(report, model), rows)),
        "options_note": f"Latency is {latency_words(report)}. {offers_words(model)}",
        "charts": drawn,
        "money": _money(report, model, rows),
        "power": to_plain(_cut(power_table(model), rows)),
        "operation": to_plain(_cut(operation, rows) if (operation := operation_table(report, model)) else None),
        "host": to_plain(host_table(report, model)),
        "wins": to_plain(wins_table(model)),
        "varies": varies_words(model.verdict.varies),
        "measured": to_plain(measured_table(model)),
        "refused": to_plain(_cut(refusal_table(model, named=5 if report.fleet else None), rows)),
        "appendix": to_plain(appendix_table(report, model)),
        "facts": to_plain(facts_table(model.plan)),
        "notes": [*model.plan.assumptions, *model.plan.notes],
    }


def _money(report: Report, model: ModelReport, rows: int) -> list[dict[str, Any]]:
    """Return the tables of money that the load allows, with their titles."""
    made = (
        (TERMS_TITLE, terms_table(report, model)), ("Cash by year", cash_table(report, model)),
        ("Where the money goes", breakdown_table(report, model)),
    )  # fmt: skip
    return [{"title": title, "table": to_plain(_cut(content, rows))} for title, content in made if content is not None]


def _cut(content: Grid, most: int) -> Grid:
    """Keep what a reader of paper needs; the other formats hold all."""
    return Grid(columns=content.columns, rows=content.rows[:most])


def _of_leading(report: Report, most: int) -> Report:
    """Return the report with the first options of each model alone; paper has no room for all."""
    return replace(report, models=tuple(replace(model, options=model.options[:most]) for model in report.models))


def _left_out(shown: Grid, content: Grid, what: str, sheet: str) -> str:
    """Return a sentence on where the rest of a shortened table is, or an empty text for a whole table."""
    left = len(content.rows) - len(shown.rows)
    return f"The other {left} {what} are in the workbook, sheet {sheet}." if left else ""


def smaller(drawing: Drawing) -> Drawing:
    """Return a chart that is drawn smaller, so that its type is legible in half the width of a page."""
    height = drawing.spec["height"]
    shrunk = {"width": _WIDTH, "height": round(_SHRINK * height) if height == HEIGHT else height}
    return replace(drawing, spec={**drawing.spec, **shrunk})


def for_paper(picture: str) -> str:
    """Set a chart in the document's font, because the program that sets it has no other."""
    return _FAMILY.sub('font-family="Libertinus Serif"', picture)
