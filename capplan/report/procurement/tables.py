"""The report's tables of text, the same in the page, the PDF and the workbook."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from capplan.core.economics.concerns import Concern
from capplan.core.economics.constraints import Assumption
from capplan.core.gpus.prices import Term
from capplan.core.numbers import Interval
from capplan.core.serving.load import Job, OneGpu, Service, TrainingPurchase
from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.charts.money import compared
from capplan.report.procurement.money_tables import local_cards, obligation_card, total_card
from capplan.report.procurement.types import InfeasibleGpu, ModelReport, Report, Verdict
from capplan.report.procurement.verdict import share_of_scenarios
from capplan.report.render import grid
from capplan.report.sections import Column, KeyFigure, figure, plain_columns, read_from, shape_columns, words
from capplan.shapes.common import conditions_in_words
from capplan.shapes.plan import FIT, fits_on
from capplan.shapes.procurement import has_reserve
from capplan.shapes.shape import View
from capplan.shapes.types import Measured, OptionRow, PlanDocument, PlannedFit, SpecSource
from capplan.units import (
    counted,
    format_bytes,
    format_count,
    format_flops,
    format_fraction,
    format_parameters,
    format_rate,
    format_seconds,
)

CONVENTIONS = (
    "Every fleet is sized for so much more than the stated load that it suffices in the share of scenarios asked for "
    "(certainty). 'As stated' is the fleet that would do if every estimate were right.",
    "Amounts are US dollars before tax, at today's prices; flows fall at year ends.",
    "Cost per year is the equivalent annual cost: net present cost over the annuity factor. Total cost is "
    "undiscounted: all outlays less the residual value.",
    "A bought fleet is bought at once for the last year's peak; a rented one grows year by year.",
    "Energy is the mean draw × PUE × 8,760 h; rent includes it. A GPU draws what the law of power says of the batches "
    "that it runs at each hour's rate, its server what the assumptions state, idle hours included.",
    "Nameplate is every GPU at its limit and every server at full load; caps on power hold for it. The draw predicted "
    "for the busiest hour stands beside it.",
    "Space is nameplate kW × 12 × the price of a kW and month. Staff, energy, space, support and licences are counted "
    "for bought servers; rent includes them, except the staff that runs your software, which is the same for both.",
    "A commitment is paid for every hour, used or not; its fleet is what the last year of its term needs.",
    "Payback sums what was paid, undiscounted and without residual value, against the rent paid by then.",
    "Each GPU serves a random share of the arrivals (Poisson unless burstiness is stated) from its own queue and takes "
    "what waits, up to its largest batch; the latency percentile is simulated event by event with a fixed seed.",
    "The load ceiling applies to the load factor, arrivals over what full batches could do; a GPU may be busy nearly "
    "all the time at a lower load.",
    "Spares are counted in servers or rented instances: one failure takes all GPUs of one.",
    "Jobs and trainings are charged from the start of their machines to the end of the work, and at least for a "
    "provider's shortest charge.",
)


def cards(report: Report, model: ModelReport) -> tuple[KeyFigure, ...]:
    """Return the key figures that summarise a decision."""
    row, verdict, load = model.option(model.verdict.choice), model.verdict, report.demand.load
    if row is None or row.cost_usd_per_year is None:
        return ()
    if isinstance(load, OneGpu):
        # What one GPU costs and does, where no load is stated.
        time_s = row.batch_latency_s
        rate = f"{format_rate(row.rate_per_gpu_per_s)}/s"
        usable = f"of {format_bytes(row.usable_bytes)} usable" if row.usable_bytes else "usable memory unknown"
        return (
            _unit_cost(model, row),
            KeyFigure(label="Throughput", figure=rate, note=f"at batch {row.batch}"),
            KeyFigure(
                label="Time of a batch", figure=format_seconds(time_s.expected),
                note=_between(format_seconds(time_s.low), format_seconds(time_s.high)),
            ),
            KeyFigure(label="Memory", figure=format_bytes(row.memory_bytes.expected), note=usable),
        )  # fmt: skip
    shown = [
        _cost_card(row, verdict),
        total_card(row.total_usd or 0.0, row.present_usd, report.demand.money),
        obligation_card(
            row.term, row.yearly_usd,
            upfront_fraction=row.upfront_fraction, residual_usd=row.residual_usd,
        ),
        _fleet_card(row, load),
    ]  # fmt: skip
    if model.planned is not None and model.planned.pipeline is not None:
        shown.append(_unit_cost(model, row))
    shown += model.figures
    if isinstance(load, Service) and not load.words:
        shown.append(_latency_card(row, load))
    elif not isinstance(load, Service) and row.finish_s is not None:
        shown.insert(0, _finish_card(row, load))
    shown.append(_scenarios_card(verdict))
    shown += local_cards(report.local, row.cost_usd_per_year or 0.0, row.country)
    return (*shown, *([_stated_card(row)] if has_reserve(row) else []))


def _stated_card(row: OptionRow) -> KeyFigure:
    """Return the fleet that carries the load where every estimate is right, beside the larger one of the report."""
    cost = figures.headline_money(row.stated_cost_usd_per_year)
    note = f"{cost} USD a year; the fleet of this report has a reserve for estimates that are off"
    return KeyFigure(label="If every estimate is right", figure=counted(row.stated_gpus, "GPU"), note=note)


def _cost_card(row: OptionRow, verdict: Verdict) -> KeyFigure:
    """Return what the choice costs in a year, and between what that lies."""
    ends = (figures.headline_money(verdict.cost_p10_usd), figures.headline_money(verdict.cost_p90_usd))
    spread = f"{_between(*ends)} in 80 % of scenarios, with this fleet"
    return KeyFigure(label="Cost per year", figure=f"{figures.headline_money(row.cost_usd_per_year)} USD", note=spread)


def _fleet_card(row: OptionRow, load: Service | Job | TrainingPurchase) -> KeyFigure:
    """Return how many GPUs the choice takes, and what for."""
    spare = row.spares * (row.gpus // row.servers)
    when = " by the end of the first year" if load.growth_per_year_fraction > 0 else ""
    failing = "a server fails" if load.spares == 1 else f"{load.spares} servers fail"
    why = f"{spare} spare in case {failing} (spares: {load.spares})" if spare else "none spare"
    if isinstance(load, Service) and load.words:
        why = "spare replicas included"
    fleet = f"{row.gpus_needed} needed{when}, {why}; {row.servers} {_domain(row)}"
    if row.gpus_by_year[-1] != row.gpus:
        fleet += f"; {row.gpus_by_year[-1]} in the last year"
    return KeyFigure(label="GPUs", figure=figures.whole(row.gpus), note=fleet)


def _latency_card(row: OptionRow, load: Service) -> KeyFigure:
    """Return the latency percentile at peak against its limit, and what it were at the ends of the estimate.

    It is that of the GPUs that the load as stated needs, also where the fleet has more.
    """
    slow_s = row.latency_if_slow_s
    is_risky = slow_s is None or slow_s > load.latency_limit_s
    limit = (
        f"limit {format_seconds(load.latency_limit_s)}{', may be exceeded' * is_risky}; "
        f"{format_seconds(row.latency_if_fast_s)} to {figures.seconds(slow_s)}"
        f"{', with the GPUs that the load as stated needs' * has_reserve(row)}"
    )
    label, figure = f"{load.percentile:g}th percentile at peak", format_seconds(row.latency_s.expected)
    return KeyFigure(label=label, figure=figure, note=limit, is_risky=is_risky)


def _scenarios_card(verdict: Verdict) -> KeyFigure:
    """Return how many scenarios the fleet carries, and what varies in them."""
    best = f"cheapest in {share_of_scenarios(verdict.probability_cheapest, verdict.scenarios)}"
    varied = "too" if "Load" in verdict.varies else "does not"
    note = f"{best}; latency, prices and costs vary, the load {varied}"
    carried = figures.fraction(verdict.probability_carried)
    return KeyFigure(label="Scenarios carried", figure=carried, note=note)


def _finish_card(row: OptionRow, load: Job | TrainingPurchase) -> KeyFigure:
    """Describe how long a run takes against the deadline, and what it were at the ends of the estimate."""
    batch, finish_s = row.batch_latency_s, row.finish_s or 0.0
    ends = [figures.duration(finish_s * end / batch.expected) for end in (batch.low, batch.high)]
    allowed = figures.duration(load.deadline_s)
    is_risky = finish_s * batch.high / batch.expected > load.deadline_s
    words = f"of {allowed}{', may be exceeded' * is_risky}; {_between(*ends)}"
    return KeyFigure(label="Finishes in", figure=figures.duration(finish_s), note=words, is_risky=is_risky)


def _unit_cost(model: ModelReport, row: OptionRow) -> KeyFigure:
    """Return the cost of a million samples, or of a thousand of what a pipeline makes."""
    million = row.usd_per_million
    if model.plan.pipeline is None:
        return KeyFigure(label="Per million samples", figure=f"{figures.money(million)} USD", note=figures.price(row))
    thousand = None if million is None else million / 1000
    label = f"Per thousand {model.items}"
    return KeyFigure(label=label, figure=f"{figures.money(thousand)} USD", note=figures.price(row))


def _between(low: str, high: str) -> str:
    return f"{low} to {high}"


def _domain(row: OptionRow) -> str:
    noun = "server" if row.term == Term.BUY else "instance"
    return noun if row.servers == 1 else f"{noun}s"


def latency_words(report: Report) -> str:
    """Describe which time the tables hold."""
    load = report.demand.load
    if isinstance(load, Service):
        if load.words:
            return "the time of a whole answer at the load"
        return f"the {load.percentile:g}th percentile at peak, simulated, with only the needed GPUs up"
    if isinstance(load, Job | TrainingPurchase):
        return "how long one run takes with all GPUs but the spare ones"
    return "the time of one full batch"


def compared_table(report: Report, model: ModelReport) -> Grid:
    """Return the few options that page one compares, with the payback of a purchase."""
    best = "best alone" if report.fleet else "recommended"
    marks = {model.verdict.runner_up: " (runner-up)", model.verdict.choice: f" ({best})"}
    shown, years = compared(model), report.demand.money.years
    amount, pace = _amounts(shown), figures.time_cell(shown, figures.pace_s)
    columns: list[Column[OptionRow]] = [
        words("option", lambda row: f"{figures.option_name(row)}{marks.get(row.key, '')}"),
        words("offer", figures.offer),
        words("speed / price", figures.evidence),
    ]
    if isinstance(report.demand.load, OneGpu):
        columns += [
            figure(f"{model.items} per s", lambda row: row.rate_per_gpu_per_s, format_rate),
            figure("latency", pace),
            figure("USD per hour or GPU", lambda row: figures.money(row.price_usd)),
            amount("USD per million", "usd_per_million"),
        ]
        return grid(columns, shown)
    columns += [
        figure("GPUs", lambda row: figures.whole(row.gpus)),
        figure(figures.pace_head(report.demand.load), pace),
        _HEADROOM,
        amount("USD per year", "cost_usd_per_year"),
        amount(f"USD in {counted(years, 'year')}", "total_usd"),
        *_as_stated(shown),
    ]
    if any(row.term == Term.BUY for row in shown):
        columns.append(words("pays off", _break_even))
    return grid(columns, shown)


def _as_stated(rows: Sequence[OptionRow]) -> list[Column[OptionRow]]:
    """Return the columns of the fleets for the load as stated; none where all fleets are these."""
    if not any(has_reserve(row) for row in rows):
        return []
    digits = figures.amount_digits(rows)["cost_usd_per_year"]
    return [
        figure("GPUs as stated", lambda row: figures.whole(row.stated_gpus)),
        figure("USD/year as stated", lambda row: figures.fixed(row.stated_cost_usd_per_year, digits)),
    ]


_HEADROOM: Column[OptionRow] = figure("spare capacity", figures.headroom)


def _amounts(rows: Sequence[OptionRow]) -> Callable[[str, str], Column[OptionRow]]:
    """Return what makes a column of amounts by its title and the name of the amount, with the decimals of its kind."""
    digits = figures.amount_digits(rows)
    return lambda title, name: figure(title, lambda row: figures.fixed(getattr(row, name), digits[name]))


def option_table(report: Report, model: ModelReport) -> Grid:
    """Show the leading options with what they take and cost; all of them where none leads."""
    leading = [row for row in model.options if row.is_leading] or list(model.options)
    amount, pace = _amounts(leading), figures.time_cell(leading, figures.pace_s)
    columns: list[Column[OptionRow]] = [
        words("option", figures.option_name),
        words("offer", figures.offer),
        words("price of", lambda row: str(row.price_date or "")),
        figure("price", figures.price),
        figure("batch", lambda row: row.batch),
        figure("GPUs", lambda row: figures.whole(row.gpus)),
        figure(figures.pace_head(report.demand.load), pace),
        *([] if isinstance(report.demand.load, OneGpu) else [_HEADROOM]),
        amount("USD/year", "cost_usd_per_year"),
        amount(f"USD, {counted(report.demand.money.years, 'year')}", "total_usd"),
        amount("USD/million", "usd_per_million"),
        *_as_stated(leading),
        *_planned(model, leading),
        words("speed / price", figures.evidence),
        words("none cheaper and faster", lambda row: "yes" if row.on_front else ""),
    ]
    return grid(columns, leading)


def _planned(model: ModelReport, rows: Sequence[OptionRow]) -> list[Column[OptionRow]]:
    """Return what reports show of the plan's estimates, beside what options state themselves."""
    if model.planned is None:
        return []
    fits = {(fit.gpu, fit.batch): fit for fit in model.planned.fits}
    shown = [fits[row.gpu, row.batch] for row in rows]
    columns = shape_columns(FIT, shown, view=View.REPORT, without=("gpu_name", "batch", "bound_by"))
    return [read_from(one, lambda row: fits[row.gpu, row.batch]) for one in columns]


def _break_even(row: OptionRow) -> str:
    if row.term != Term.BUY:
        return ""
    if row.break_even_hours_per_year is None:
        return "no on-demand price to compare"
    share = row.break_even_hours_per_year / 8760
    if share > 1:
        return f"never against {row.break_even_against}"
    return f"above {format_fraction(share)} use, against {row.break_even_against}"


def power_table(model: ModelReport) -> Grid:
    """List power, carbon and failure of the leading options."""
    return grid(_POWER, model.options[:10])


def _kilowatts(power_w: float) -> str:
    return f"{power_w / 1000:,.2f}"


_POWER: tuple[Column[OptionRow], ...] = (
    words("option", figures.option_name),
    figure("nameplate kW", lambda row: row.nameplate_w, _kilowatts, unknown=figures.UNKNOWN),
    figure("predicted at peak, kW", lambda row: row.predicted_peak_w, _kilowatts, unknown=figures.UNKNOWN),
    figure("mean kW", lambda row: row.average_w, _kilowatts, unknown=figures.UNKNOWN),
    figure("kWh per year", lambda row: figures.whole(row.energy_kwh_per_year)),
    figure("kg CO2e per year", lambda row: figures.whole(row.carbon_kg_per_year)),
    figure("kg CO2e embodied", lambda row: figures.whole(row.embodied_kg)),
    figure("availability", lambda row: figures.percent(row.availability_fraction, 4)),
    figure("months until full", lambda row: row.months_until_full, "{:.0f}".format),
)


def operation_table(report: Report, model: ModelReport) -> Grid | None:
    """List latency and load of the leading options as they run, with one server down, and at twice the load."""
    if not isinstance(report.demand.load, Service) or report.demand.load.words:
        return None
    shown = model.options[:10]

    def times(title: str, case: Callable[[OptionRow], float | None]) -> Column[OptionRow]:
        return figure(title, figures.time_cell(shown, case))

    columns: list[Column[OptionRow]] = [
        words("option", figures.option_name),
        figure("GPUs", lambda row: figures.whole(row.gpus)),
        times("latency, all up", lambda row: row.all_up_latency_s),
        figure("load", lambda row: figures.percent(row.all_up_load_fraction, 1)),
        times("one server down", lambda row: row.one_down_latency_s),
        figure("load", lambda row: figures.percent(row.one_down_load_fraction, 1)),
        times("only those needed", lambda row: row.latency_s.expected),
        times("load doubled", lambda row: row.doubled_latency_s),
    ]
    return grid(columns, shown)


def host_table(report: Report, model: ModelReport) -> Grid | None:
    """Show what the leading options ask of their hosts: input over PCIe, and CPU time for a sample."""
    cores = next((assumption.value for assumption in report.assumptions if assumption.key == "cpu_cores_per_gpu"), None)
    per_sample = model.made.input_bytes
    rows = [row for row in model.options[:10] if row.pcie_per_s]
    if not rows:
        return None
    columns: list[Column[OptionRow]] = [
        words("option", figures.option_name),
        figure(f"{model.items} per s of one GPU", lambda row: row.rate_per_gpu_per_s, format_rate),
        figure("input, GB/s", lambda row: f"{row.rate_per_gpu_per_s * per_sample / 1e9:.3f}"),
        figure("of PCIe's printed rate", _pcie_share),
        figure(
            f"ms of CPU time per {model.made.item}, {cores:g} cores",
            lambda row: f"{1e3 * cores / row.rate_per_gpu_per_s:.2f}" if cores else figures.UNKNOWN,
        ),
        words("limited by", lambda row: f"{row.host_limit} of the host" if row.is_host_bound else "the GPU"),
    ]
    return grid(columns, rows)


def _pcie_share(row: OptionRow) -> str:
    pcie_per_s = row.pcie_per_s
    return figures.percent(row.rate_per_gpu_per_s / pcie_per_s if pcie_per_s else None, 2)


HOST_WORDS = (
    "Inputs cross PCIe once; copies run beside the GPU's work and are no part of its latency. The time that the CPU "
    "needs to read and prepare a sample is counted only where the load file states cpu_ms_per_sample."
)


def wins_table(model: ModelReport) -> Grid | None:
    """Return how often each option is the cheapest when everything uncertain varies."""
    columns: list[Column[tuple[str, float]]] = [
        words("option", lambda win: figures.option_name(model.option(win[0]))),
        figure("share of scenarios", lambda win: figures.percent(win[1], 1)),
    ]
    return grid(columns, list(model.verdict.wins.items())) if model.verdict.wins else None


def measured_table(model: ModelReport) -> Grid | None:
    """Return measured times with the estimates for the same GPU and batch; None without measurements."""

    def estimate(row: Measured) -> PlannedFit | None:
        return next((fit for fit in fits_on(model.plan, row.gpu) if fit.batch == row.batch), None)

    def interval(row: Measured) -> Interval | None:
        fit = estimate(row)
        return fit.latency_s.interval if fit else None

    def over_measured(row: Measured) -> str | None:
        fit = estimate(row)
        return format_fraction(fit.latency_s.expected / row.latency_s - 1) if fit else None

    columns: list[Column[Measured]] = [
        words("GPU", lambda row: row.gpu),
        figure("batch", lambda row: row.batch),
        figure("measured", lambda row: row.latency_s, format_seconds),
        figure(
            "estimated", estimate, lambda fit: fit.latency_s.interval.to_text(format_seconds), unknown=figures.UNKNOWN
        ),
        figure("estimate over measured", over_measured),
        words("source", lambda row: row.source),
    ]
    return grid(columns, model.measured) if model.measured else None


def refusal_table(model: ModelReport, *, named: int | None = None) -> Grid:
    """List the GPUs that cannot serve; many that the same reason excludes share a row."""
    alike: dict[tuple[str, int | None, str], list[InfeasibleGpu]] = {}
    for refusal in model.refusals:
        alike.setdefault((refusal.constraint, refusal.batch, refusal.reason), []).append(refusal)
    rows: list[InfeasibleGpu] = []
    for (_, _, reason), refusals in alike.items():
        if len(refusals) <= _REFUSED_APART:
            rows += refusals
        else:
            names = ", ".join(refusal.gpu_name for refusal in refusals[:named]) + ", …" * (named is not None)
            rows.append(replace(refusals[0], gpu_name=f"{len(refusals)} GPUs", reason=f"{reason}: {names}"))
    return grid(_REFUSALS, rows)


_REFUSED_APART = 2
"""GPUs that one reason excludes and that still have a row each."""


_REFUSALS: tuple[Column[InfeasibleGpu], ...] = (
    words("GPU", lambda refusal: refusal.gpu_name),
    words("by", lambda refusal: refusal.constraint),
    figure("batch", lambda refusal: refusal.batch or None),
    words("reason", lambda refusal: refusal.reason),
)


def facts_table(plan: PlanDocument) -> Grid:
    """List the facts of the model that hold on any GPU."""
    model = plan.model
    rows = [
        ("class", model.class_),
        ("target", plan.provenance.target),
        *([("one sample", f"{model.input}, {model.input_source}".rstrip(", "))] if model.input else []),
        ("parameters", f"{format_parameters(model.params)} ({model.params:,})"),
        ("weights", format_bytes(model.weight_bytes)),
        (
            "work per sample",
            f"{format_flops(model.flops_per_sample)} ({format_count(model.macs_per_sample)} MACs)",
        ),
        ("uncounted operators", ", ".join(model.uncounted) or "none"),
        *conditions_in_words(plan.workload).items(),
        ("memory that may be filled", format_fraction(plan.limits.utilization_fraction)),
        ("calibration", plan.provenance.calibration or "none"),
    ]
    return grid(plain_columns("fact", "value"), rows)


def alone_words(report: Report) -> str:
    """Return the condition under which a service's own part holds where several share a fleet; empty elsewhere."""
    return "if this service had a fleet of its own" if report.fleet else ""


def workload_words(plan: PlanDocument) -> str:
    """Describe in one phrase what one sample is and how the model runs."""
    given = conditions_in_words(plan.workload)
    shown = [given.get(word, "") for word in ("precision", "mode", "framework")]
    size = f"{plan.model.input} ({plan.model.input_source})" if plan.model.input_source else plan.model.input
    return ", ".join([*filter(None, [size]), *shown, f"torch {given.get('torch', '')}"])


def offers_words(model: ModelReport) -> str:
    """Return how many options have a price, how many are listed apart, and how many offers no option rests on."""
    unpriced = sum(row.price_usd is None for row in model.options)
    parts = [counted(len(model.options) - unpriced, "priced option")]
    if unpriced:
        verb = "is" if unpriced == 1 else "are"
        parts.append(f"{counted(unpriced, 'GPU')} without a known price {verb} listed without cost")
    if rest := sum(not row.is_leading for row in model.options):
        parts.append(f"{counted(rest, 'option')} {'is' if rest == 1 else 'are'} listed apart, each with its reason")
    if left := len(model.left_out):
        parts.append(f"{counted(left, 'other offer')} of these GPUs {'is' if left == 1 else 'are'} left out")
    return f"{'; '.join(parts)}."


def assumption_table(report: Report) -> Grid:
    """Return every assumption with its range and source; those in which services differ once for each."""
    found: dict[str, dict[Assumption, list[str]]] = {}
    for model in report.models:
        for assumption in report.of(model).assumptions:
            found.setdefault(assumption.key, {}).setdefault(assumption, []).append(model.service or model.made.model)
    rows = [
        assumption
        if len(names) == len(report.models)
        else replace(assumption, label=f"{assumption.label} ({', '.join(names)})")
        for held in found.values()
        for assumption, names in held.items()
    ]
    return grid(_ASSUMPTIONS, rows)


_ASSUMPTIONS: tuple[Column[Assumption], ...] = (
    words("assumption", lambda assumption: assumption.label),
    figure("value", lambda assumption: assumption.value, "{:,.6g}".format),
    figure("low", lambda assumption: assumption.low, "{:,.6g}".format),
    figure("high", lambda assumption: assumption.high, "{:,.6g}".format),
    words("unit", lambda assumption: assumption.unit),
    words("basis", lambda assumption: assumption.basis),
    words("source", lambda assumption: assumption.source),
)


def _age_mark(row: OptionRow) -> str:
    """Mark a price that is old, has expired, or whose day is not known."""
    aged = (Concern.OLD_PRICE, Concern.UNDATED_PRICE, Concern.EXPIRED_QUOTE)
    marks = [concern for concern in row.concerns if concern in aged]
    return f" ({', '.join(marks)})" if marks else ""


def price_table(report: Report) -> Grid:
    """Return every price used, with what a quote states besides it where one does."""
    found: dict[str, OptionRow] = {}
    for model in report.models:
        for row in model.options:
            if row.price_usd is not None:
                found.setdefault(row.key, row)
    rows = list(found.values())
    quote: Column[OptionRow] = words("quote", figures.quote_terms)
    return grid([*_PRICES, *([quote] if any(map(figures.quote_terms, rows)) else [])], rows)


_PRICES: tuple[Column[OptionRow], ...] = (
    words("GPU", lambda row: row.gpu_name),
    words("term", lambda row: figures.term_words(row.term)),
    words("offer", figures.offer),
    figure("price", figures.price),
    words("day", lambda row: f"{row.price_date}{_age_mark(row)}"),
    words("source", lambda row: row.price_source),
)


def spec_table(report: Report) -> Grid:
    """Return where the GPUs' figures were read."""
    return grid(_SPECS, report.spec_sources)


_SPECS: tuple[Column[SpecSource], ...] = (
    words("GPU", lambda source: source.gpu),
    words("figure", lambda source: source.field),
    words("value", lambda source: source.figure),
    words("source", lambda source: f"{source.source}{f': {source.url}' if source.url else ''}"),
    words("read", lambda source: str(source.retrieved or "")),
)


def versions_words(report: Report) -> str:
    """Return the versions behind the traces."""
    found: dict[str, str] = {}
    for model in report.models:
        found |= dict(model.planned.provenance.versions) if model.planned else {}
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))
