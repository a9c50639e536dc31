"""The report as one HTML file: no network, no dependencies, readable without script, on paper and by keyboard."""

import json
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from capplan.core.economics.evidence import Concern
from capplan.core.gpus.prices import COMMITMENT_YEARS, Term
from capplan.core.serving.load import OneGpu, Service
from capplan.report.documents.codec import to_plain
from capplan.report.procurement import figures
from capplan.report.procurement.chart_money import charts
from capplan.report.procurement.tables import (
    CONVENTIONS,
    assumption_table,
    cards,
    compared_table,
    facts_table,
    latency_words,
    measured_table,
    offers_words,
    operation_table,
    power_table,
    price_table,
    refusal_table,
    spec_table,
    versions_words,
    wins_table,
    workload_words,
)
from capplan.report.procurement.types import ModelReport, OptionRow, Report
from capplan.report.procurement.verdict import describe_load

SHOWN = 15
LOAD_FACTORS = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 5, 10)


def render_report_html(report: Report) -> str:
    """Format the report as a page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["percent"] = lambda fraction: f"{100 * fraction:.10g}"
    template = environment.from_string(_file("report.html.j2"))
    return template.render(
        report=report,
        css=Markup(_file("report.css")),
        js=Markup(_file("report.js")),
        load_words=figures.capitalised(describe_load(report.demand.load)),
        latency_words=latency_words(report),
        money=report.demand.money,
        one_gpu=isinstance(report.demand.load, OneGpu),
        load_factors=LOAD_FACTORS,
        shown=SHOWN,
        models=[_model(report, model, f"m{index}") for index, model in enumerate(report.models, start=1)],
        assumptions=assumption_table(report),
        conventions=CONVENTIONS,
        prices=price_table(report),
        specs=spec_table(report),
        versions=versions_words(report),
    )


def _file(name: str) -> str:
    return (resources.files("capplan.report.procurement") / "templates" / name).read_text(encoding="utf-8")


def _model(report: Report, model: ModelReport, identity: str) -> dict[str, Any]:
    best = model.option(model.verdict.choice) or (model.options[0] if model.options else None)
    return {
        "id": identity,
        "name": model.plan.model.name,
        "class_name": model.plan.model.class_name,
        "workload": workload_words(model.plan),
        "verdict": model.verdict,
        "cards": cards(report, model),
        "compared": compared_table(report, model),
        "interval": figures.seconds_range(best.batch_latency_s) if best else figures.UNKNOWN,
        "calibration": model.plan.provenance.calibration,
        "batches": sorted({pick.batch for pick in model.picks}),
        "terms": sorted({option.term for option in model.options}),
        "options": [_option(option, model) for option in model.options],
        "offers_words": offers_words(model),
        "charts": [_with_markup(chart) for chart in charts(report, model, prefix=identity)] if model.options else [],
        "power": power_table(model),
        "operation": operation_table(report, model),
        "wins": wins_table(model),
        "measured": measured_table(model),
        "refused": refusal_table(model),
        "facts": facts_table(model.plan),
        "notes": [*model.plan.assumptions, *model.plan.notes],
        "data": _json(_data(report, model)),
    }


def _with_markup(chart: Any) -> dict[str, Any]:
    return {"title": chart.title, "caption": chart.caption, "picture": Markup(chart.picture), "data": chart.data}


_OF_THE_DAY = frozenset({Concern.UNDATED_PRICE.value, Concern.OLD_PRICE.value})


def _option(row: OptionRow, model: ModelReport) -> dict[str, Any]:
    tags = ["recommended"] * (row.key == model.verdict.choice) + ["runner-up"] * (row.key == model.verdict.runner_up)
    tags += (
        ["no cheaper and faster option"] * row.on_front
        + ["borderline memory"] * (not row.firm_fit)
        + [f"speed: {row.speed_tier}"]
        + ([f"price: {row.price_tier}"] if row.price_tier else [])
        + [concern for concern in row.concerns if concern in _OF_THE_DAY]
    )
    return {
        "key": row.key,
        "name": row.gpu_name,
        "term": row.term,
        "search": " ".join((row.gpu, row.gpu_name, row.term, figures.offer(row), *tags)).lower(),
        "chosen": row.key == model.verdict.choice,
        "tags": tags,
        "offer": figures.offer(row),
        "price": None if row.price_usd is None else f"{row.price_usd:.10g}",
        "price_unit": row.price_unit,
        "price_unit_short": "/GPU" if row.term == Term.BUY else "/h",
        "price_date": row.price_date or "",
        "batch": row.batch,
        "gpus": _shown_gpus(row),
        "gpus_words": figures.whole(_shown_gpus(row)),
        "latency": row.latency_s.expected,
        "latency_words": figures.seconds(row.latency_s.expected),
        "headroom": row.headroom_fraction,
        "headroom_words": figures.fraction(row.headroom_fraction),
        "year": _blank(row.cost_usd_per_year),
        "year_words": figures.money(row.cost_usd_per_year),
        "total": _blank(row.total_usd),
        "total_words": figures.money(row.total_usd),
        "million": _blank(row.usd_per_million),
        "million_words": figures.money(row.usd_per_million),
    }


def _shown_gpus(row: OptionRow) -> int:
    return row.gpus_last_year if row.term == Term.BUY else row.gpus


def _blank(value: float | None) -> float | str:
    return "" if value is None else value


def _data(report: Report, model: ModelReport) -> dict[str, Any]:
    """Return what the page computes with; its formulas are those of the core."""
    load = report.demand.load
    times = {(each.gpu, each.batch): each.latency_s.expected for each in model.plan.fits}
    picks: dict[str, dict[str, Any]] = {}
    for pick in model.picks:
        picks.setdefault(pick.gpu, {})[str(pick.batch)] = {
            "batch": pick.batch, "rate": pick.rate_per_gpu_per_s, "capacity": pick.capacity_per_s,
            "loads": pick.loads, "percentiles": pick.percentiles_s, "time": times[pick.gpu, pick.batch],
        }  # fmt: skip
    peak = load.peak_per_s if isinstance(load, Service) else 0 if isinstance(load, OneGpu) else load.rate_per_s
    return {
        "kind": load.kind,
        "shown": SHOWN,
        "peak": peak,
        "mean": 0 if isinstance(load, OneGpu) else load.mean_per_s,
        "growth": load.growth_per_year_fraction,
        "spares": load.spares,
        "ceiling": load.utilization_ceiling_fraction,
        "money": to_plain(report.demand.money),
        "picks": picks,
        "options": [
            {
                "key": row.key, "gpu": row.gpu, "name": row.gpu_name, "term": row.term, "price": row.price_usd,
                "slots": row.server_slots, "full": row.full_servers, "tdp": row.tdp_w,
                "includesServer": row.includes_server, "batch": row.batch, "rate": row.rate_per_gpu_per_s,
                "latency": row.latency_s.expected,
                "commitment": COMMITMENT_YEARS.get(Term(row.term), 0) if row.price_usd is not None else 0,
                "eligible": row.cost_usd_per_year is not None and row.firm_fit and not row.concerns
                and not row.violations and (load.allow_spot or row.term != Term.SPOT),
            }
            for row in model.options
        ],
    }  # fmt: skip


def _json(value: object) -> Markup:
    """Write JSON that cannot end the script element that holds it."""
    words = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        words = words.replace(character, f"\\u{ord(character):04x}")
    return Markup(words)
