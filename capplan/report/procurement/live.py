"""The parts of the report's page that its script changes: the settings, the options, and what it computes with."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from msgspec import UNSET

from capplan.core.economics.concerns import DEFAULT_MAX_PRICE_AGE_DAYS, PRICE_CONCERNS, Concern
from capplan.core.economics.constraints import DEFAULT_CERTAINTY, Constraints
from capplan.core.economics.decide import MORE_EXPENSIVE, factor_of
from capplan.core.gpus.prices import COMMITMENT_YEARS, LASTING_TERMS, Term
from capplan.core.serving.load import Job, Load, OneGpu, Service, TrainingPurchase
from capplan.report.charts.picture import compiled
from capplan.report.pages.blocks import Chart, Live
from capplan.report.pages.html import environment_of
from capplan.report.procurement import figures
from capplan.report.procurement.charts.money import compared, front_ends, front_points, most_pace
from capplan.report.procurement.choosable import choosable, choosable_at_another_price
from capplan.report.procurement.formulas import script
from capplan.report.procurement.tables import latency_words
from capplan.report.procurement.types import ModelReport, Report
from capplan.shapes.codec import to_plain
from capplan.shapes.procurement import is_bought
from capplan.shapes.types import OptionRow
from capplan.units import counted

SHOWN = 15
"""Options that the page shows before all are asked for."""


class LiveParts:
    """The live parts of a report's page, as the list of its sections asks for them; each is safe HTML."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._figures: dict[str, Any] = {"fleet": {}}
        self._kept: dict[str, str] = {}

    @cached_property
    def _macros(self) -> Any:
        environment = environment_of("capplan.report.procurement")
        environment.filters["percent"] = lambda fraction: f"{100 * fraction:.10g}"
        return environment.get_template("live.html.j2").module

    def changed(self) -> str:
        """Return the line that says what was changed, with the words as generated."""
        return str(self._macros.changed())

    def fleet(self, charts: Sequence[Chart]) -> None:
        """Add what draws the charts of the fleet for all services."""
        self._figures["fleet"] = _specs(charts)

    def options(self, model: ModelReport, identity: str, charts: Sequence[Chart]) -> str:
        """Return a model's settings and options, and add what its charts and figures follow."""
        report = self.report.of(model)
        written, load, factors = _columns(model), report.demand.load, _factors(report)
        rows = [_option(option, model, written, factors) for option in model.options]
        parts = {
            "id": identity,
            "money": report.demand.money,
            "one_gpu": isinstance(load, OneGpu),
            "growth": load.growth_per_year_fraction,
            "spares": load.spares,
            **_start_up_limits(load),
            "rent_factor": factors[0],
            "purchase_factor": factors[1],
            "latency_words": latency_words(report),
            "pace_head": figures.capitalised(figures.pace_head(load)),
            "signed": report.fleet is None,
            "currency": report.currency,
            "batches": sorted({pick.batch for pick in model.picks}),
            "terms": [(term, figures.term_words(term)) for term in sorted({option.term for option in model.options})],
            "count": len(rows),
            "shown": SHOWN,
            "heads": _heads(report),
        }
        self._figures[identity] = {"data": _data(report, model), "specs": _specs(charts)}
        self._kept[f"{identity}-rows"] = str(self._macros.option_rows(parts, rows[SHOWN:], True))
        return str(self._macros.options(parts, rows[:SHOWN]))

    def live(self) -> Live:
        """Return what the script computes with."""
        return Live(figures=self._figures, kept=self._kept, script=_file("report.js").replace("/*FORMULAS*/", script()))


def _file(name: str) -> str:
    return (resources.files("capplan.report.procurement") / "templates" / name).read_text(encoding="utf-8")


def _specs(charts: Sequence[Chart]) -> dict[str, Any]:
    return {chart.identity: compiled(chart.drawing) for chart in charts}


def _heads(report: Report) -> list[str]:
    """Return the headings of the table of options after its first, as each row of a narrow window repeats them."""
    years = counted(report.demand.money.years, "year")
    pace = figures.capitalised(figures.pace_head(report.demand.load))
    money = ["USD per year", f"USD in {years}", "USD per million"]
    return ["Offer", "Price", "Batch", "GPUs", pace, "Spare capacity", *money]


_SHOWN_CONCERNS = frozenset(
    {
        Concern.UNDATED_PRICE,
        Concern.OLD_PRICE,
        Concern.EXPIRED_QUOTE,
        Concern.OUTDATED_PRICE,
        Concern.MARKETPLACE,
        Concern.END_OF_SALE,
        Concern.DRIVER_LICENCE,
        Concern.OTHER_VENDOR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnFormats:
    """How the columns of the page's table are written: one unit for all times, fixed decimals for each amount."""

    pace: figures.TimeScale
    year: int
    total: int
    million: int


def _columns(model: ModelReport) -> _ColumnFormats:
    digits = figures.amount_digits(model.options)
    return _ColumnFormats(
        pace=figures.time_scale(map(figures.pace_s, model.options)),
        year=digits["cost_usd_per_year"],
        total=digits["total_usd"],
        million=digits["usd_per_million"],
    )


def _option(
    row: OptionRow, model: ModelReport, written: _ColumnFormats, factors: tuple[float, float]
) -> dict[str, Any]:
    tags = (
        ["no cheaper and faster option"] * row.on_front
        + ["borderline memory"] * (not row.certain_fit)
        + [f"speed: {row.speed_tier}"]
        + ([f"price: {row.price_known_by}"] if row.price_known_by else [])
        + [concern for concern in row.concerns if concern in _SHOWN_CONCERNS]
        + list(row.violations)
    )
    return {
        "key": row.key,
        "name": row.gpu_name,
        "term": row.term,
        "term_words": figures.option_term(row),
        "chosen": row.key == model.verdict.choice,
        "runner_up": row.key == model.verdict.runner_up,
        "warnings": {"borderline memory", *row.concerns, *row.violations},
        "tags": tags,
        "price_tags": {f"price: {row.price_known_by}", *PRICE_CONCERNS},
        "offer": figures.offer(row),
        "price": None if row.price_usd is None else f"{_listed(row, factors):.{0 if is_bought(row) else 3}f}",
        "price_unit": row.price_unit,
        "price_unit_short": "/GPU" if row.term == Term.BUY else "/h",
        "price_date": row.price_date or "",
        "batch": row.batch,
        "gpus": _shown_gpus(row),
        "gpus_words": figures.whole(_shown_gpus(row)),
        "latency": figures.pace_s(row),
        "latency_words": written.pace.write(figures.pace_s(row)),
        "headroom": row.headroom_fraction,
        "headroom_words": figures.headroom(row),
        "year": _blank(row.cost_usd_per_year),
        "year_words": figures.fixed(row.cost_usd_per_year, written.year),
        "total": _blank(row.total_usd),
        "total_words": figures.fixed(row.total_usd, written.total),
        "million": _blank(row.usd_per_million),
        "million_words": figures.fixed(row.usd_per_million, written.million),
    }


def _factors(report: Report) -> tuple[float, float]:
    """Return the factors on rents and on purchase prices that the assumptions state."""
    rent, purchase = (factor_of(report.assumptions, f"{kind}_price_factor") for kind in ("rent", "purchase"))
    return rent, purchase


def _listed(row: OptionRow, factors: tuple[float, float]) -> float:
    """Return an option's price as it is listed, before the factors of the assumptions. [USD]"""
    return (row.price_usd or 0.0) / factors[row.term == Term.BUY]


def _shown_gpus(row: OptionRow) -> int:
    return row.gpus_by_year[-1] if row.term == Term.BUY else row.gpus


def _blank(value: float | None) -> float | str:
    return "" if value is None else value


def _data(report: Report, model: ModelReport) -> dict[str, Any]:
    """Return what the page computes with; its formulas are those of the core."""
    load = report.demand.load
    times = {(fit.gpu, fit.batch): fit.latency_s.expected for fit in model.plan.fits}
    picks: dict[str, dict[str, Any]] = {}
    for pick in model.picks:
        picks.setdefault(pick.gpu, {})[str(pick.batch)] = {
            "batch": pick.batch, "rate": pick.rate_per_gpu_per_s, "capacity": pick.capacity_per_s,
            "rates": pick.parallel_rates_per_s, "loads": _rounded(pick.loads, 12),
            "percentiles": _rounded(pick.percentiles_s, 9), "time": times[pick.gpu, pick.batch],
        }  # fmt: skip
    labels = {point["key"]: point["label"] for point in front_points(report, model)}
    others = _other_offers(model)
    factors = _factors(report)
    pool, elsewhere = choosable(report, model), choosable_at_another_price(report, model)
    peak = load.peak_per_s if isinstance(load, Service) else 0 if isinstance(load, OneGpu) else load.rate_per_s
    return {
        "kind": load.kind,
        "alone": model.service,
        "shown": SHOWN,
        "peak": peak,
        "mean": 0 if isinstance(load, OneGpu) else load.mean_per_s,
        "growth": load.growth_per_year_fraction,
        "spares": load.spares,
        "ceiling": load.utilization_ceiling_fraction,
        "money": to_plain(report.demand.money),
        **_run_of(load),
        "minimums": {row.provider: row.minimum_s for row in model.options if row.minimum_s},
        "written": to_plain(_columns(model)),
        "choice": model.verdict.choice,
        "runnerUp": model.verdict.runner_up,
        "frontEnds": front_ends(report, model) if labels else None,
        "limit": most_pace(load),
        "compared": [option.key for option in compared(model)],
        "load": _load_words(report),
        "constraintLines": _constraint_lines(report.demand.constraints),
        "picks": picks,
        "hours": list(load.daily_shares) if isinstance(load, Service) else [1.0],
        "draws": _draws(model),
        "options": [
            {
                "key": row.key, "gpu": row.gpu, "name": row.gpu_name, "term": row.term,
                "termWords": figures.option_term(row),
                "price": None if row.price_usd is None else _listed(row, factors),
                "slots": row.server_slots, "full": row.full_servers, "tdp": row.tdp_w,
                "idle": row.card_watts[0] if row.card_watts else row.tdp_w,
                "board": row.is_board, "includesServer": row.includes_server, "batch": row.batch,
                "rate": row.rate_per_gpu_per_s, "rates": _parallel(row),
                "latency": row.latency_s.expected, "label": labels.get(row.key, ""),
                "offer": figures.offer(row), "spares": row.spares, "provider": row.provider,
                "reserve": row.reserve_factor,
                "others": _others_of(row, others),
                "commitment": COMMITMENT_YEARS.get(Term(row.term), 0) if row.price_usd is not None else 0,
                "aged": row.aged_factor,
                "eligible": row.key in pool, "eligibleElsewhere": row.key in elsewhere, "quote": _quote(row),
            }
            for row in model.options
        ],
    }  # fmt: skip


def _start_up_limits(load: Load) -> dict[str, float | None]:
    """Return the start-up of machines and the longest that may be set; None where nothing starts anew. [min]"""
    if isinstance(load, Job | TrainingPurchase):
        return {"start_up_min": load.start_up_s / 60, "most_start_up_min": 0.9 * load.deadline_s / 60}
    if isinstance(load, Service) and load.levels:
        return {"start_up_min": load.start_up_s / 60, "most_start_up_min": 60.0}
    return {"start_up_min": None, "most_start_up_min": None}


def _run_of(load: Load) -> dict[str, Any]:
    """Return the deadline and the start-up of a run [s], the runs of a year, and the levels of a service's hours."""
    if isinstance(load, OneGpu):
        return {"deadline": None, "startUp": 0.0, "runs": 1.0}
    if isinstance(load, Service):
        levels = [[level.peak_fraction, level.hours_per_year, level.starts_per_year] for level in load.levels]
        return {"deadline": None, "startUp": load.start_up_s, "runs": 1.0, "levels": levels}
    return {"deadline": load.deadline_s, "startUp": load.start_up_s, "runs": load.runs_per_year}


def _draws(model: ModelReport) -> dict[str, list[tuple[int, float, float]]]:
    """Return batch, rate and power of a full batch on every GPU, smallest first; the limit where power is unknown."""
    limits = {option.gpu: option.tdp_w for option in model.options}
    found: dict[str, list[tuple[int, float, float]]] = {}
    for fit in sorted(model.plan.fits, key=lambda fit: fit.batch):
        if (limit_w := limits.get(fit.gpu)) is not None:
            watts = limit_w if fit.power_w is UNSET else fit.power_w.expected
            found.setdefault(fit.gpu, []).append((fit.batch, fit.batch / fit.latency_s.expected, watts))
    return found


def _others_of(row: OptionRow, others: "_Others") -> list[dict[str, Any]]:
    """Return the other offers that may stand in for an option's own; none for one that stands beside a sound one."""
    return [] if row.is_beside_sound or row.is_own_beside else others.get((row.gpu, row.term, row.is_marketplace), [])


def _rounded(values: Sequence[float], digits: int) -> list[float]:
    """Shorten figures that a page interpolates between: the digits beyond would make it a tenth larger."""
    return [float(f"{value:.{digits}g}") for value in values]


def _quote(row: OptionRow) -> dict[str, Any] | None:
    """Return what a load file must hold besides the price of an option that the page changes; None without a price."""
    if row.price_usd is None:
        return None
    return {
        "day": str(row.price_date), "dateIs": row.price_date_is, "tier": row.price_tier,
        "provider": row.provider, "marketplace": row.is_marketplace, "region": row.region,
        "instance": row.instance, "includesServer": row.includes_server, "serverGpus": row.server_gpus,
    }  # fmt: skip


def _parallel(row: OptionRow) -> tuple[float, float, float] | None:
    """Return one GPU's rates alone, with others of its server, and across servers; None but for training. [1/s]"""
    if row.rate_alone_per_s is None or row.rate_within_server_per_s is None:
        return None
    return row.rate_alone_per_s, row.rate_within_server_per_s, row.rate_across_servers_per_s or 0.0


_Others = dict[tuple[str, str, bool], list[dict[str, Any]]]


def _other_offers(model: ModelReport) -> _Others:
    """Return the other offers of each GPU and term, so that a filter can find them and a price be changed."""
    found: _Others = {}
    for left_out in model.left_out:
        if left_out.reason == MORE_EXPENSIVE:
            offer = {
                "price": left_out.price_usd, "slots": left_out.instance_gpus, "sound": left_out.is_sound,
                "day": str(left_out.price_date), "dateIs": left_out.price_date_is, "tier": left_out.price_tier,
                "provider": left_out.provider, "marketplace": left_out.is_marketplace, "region": left_out.region,
                "instance": left_out.instance, "includesServer": left_out.includes_server,
            }  # fmt: skip
            kept = {name: value for name, value in offer.items() if value not in (None, False, "stated")}
            found.setdefault((left_out.gpu, left_out.term, left_out.is_marketplace), []).append(kept)
    return found


def _load_words(report: Report) -> dict[str, Any]:
    """Return the load's section of a load file; rates are per second, times in seconds."""
    load = report.demand.load
    if isinstance(load, OneGpu):
        return {}
    shared: dict[str, Any] = {
        "spares": load.spares, "utilization_ceiling": load.utilization_ceiling_fraction,
        "allow_spot": str(load.allow_spot).lower(),
    }  # fmt: skip
    if isinstance(load, Service):
        shared["growth_per_year"] = load.growth_per_year_fraction
        return {
            **_rate_words(load), "latency": f"{load.latency_limit_s * 1e3:.10g} ms",
            "percentile": load.percentile, "batching_window": f"{load.window_s * 1e3:.10g} ms",
            "burstiness": load.gap_scv, **shared, "zones": load.zones,
            **({} if load.availability_fraction is None else {"availability": load.availability_fraction}),
        }  # fmt: skip
    shared |= {"samples": load.samples, "deadline": f"{load.deadline_s:.10g} s", "runs_per_year": load.runs_per_year}
    shared["start_up"] = f"{load.start_up_s:.10g} s"
    if isinstance(load, Job):
        return {**shared, "growth_per_year": load.growth_per_year_fraction}
    return {**shared, "epochs": load.epochs, "scaling": load.scaling_fraction}


def _rate_words(load: Service) -> dict[str, Any]:
    """Return a service's rates and hours of use in the words of a load file."""
    daily = load.daily_per_s
    if not daily:
        return {"peak": load.peak_per_s, "mean": load.mean_per_s}
    found: dict[str, Any] = {"days_per_week": load.days_per_week, "scale_by_hour": str(load.scales_by_hour).lower()}
    if load.scales_by_hour:
        found["start_up"] = f"{load.start_up_s:.10g} s"
    used = sum(rate > 0 for rate in daily)
    if math.isclose(sum(daily) / used, load.mean_in_use_per_s, rel_tol=1e-9):
        return {"daily": daily, **found}
    # Another mean than the hours' own is stated with `hours` alone, which are consecutive.
    if used < len(daily):
        first = next(hour for hour, rate in enumerate(daily) if rate > 0 and not daily[hour - 1])
        found["hours"] = f"{first}-{(first + used) % len(daily)}"
    return {"peak": load.peak_per_s, "mean": load.mean_in_use_per_s, **found}


def _constraint_lines(constraints: Constraints) -> list[str]:
    """Write what the buyer admits as lines of a load file; JSON is YAML."""
    given = to_plain(constraints)
    lists = {name: {kind: sorted(names) for kind, names in given[name].items() if names} for name in ("allow", "deny")}
    lines = [f"{name}: {json.dumps(listed)}" for name, listed in lists.items() if listed]
    if constraints.terms != LASTING_TERMS:
        named = sorted(constraints.terms, key=lambda term: (term == Term.BUY, term))
        lines.append(f"terms: {json.dumps(named)}")
    budget = {"capex": constraints.max_capex_usd, "per_year": constraints.max_usd_per_year}
    power = constraints.max_power_w
    site = {"power": None if power is None else f"{power:.10g} W", "rack_units": constraints.max_rack_units}
    for name, caps in (("budget", budget), ("site", site)):
        if listed := {key: cap for key, cap in caps.items() if cap is not None}:
            lines.append(f"{name}: {json.dumps(listed)}")
    if constraints.certainty_fraction != DEFAULT_CERTAINTY:
        lines.append(f"certainty: {constraints.certainty_fraction:.10g}")
    if constraints.max_price_age_days != DEFAULT_MAX_PRICE_AGE_DAYS:
        lines.append(f"max_price_age: {constraints.max_price_age_days:.10g} d")
    admitted = {"marketplaces": constraints.marketplaces, "any_vendor": constraints.any_vendor}
    return [*lines, *(f"{name}: true" for name, value in admitted.items() if value)]
