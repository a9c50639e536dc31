"""The decision in a few plain sentences for those who sign: what, from whom, for how long, at most, and what if."""

from capplan.core.economics.constraints import Constraints, ReportLoad
from capplan.core.gpus.prices import COMMITMENT_YEARS, KIND_WORDS, PriceKind, Term
from capplan.core.serving.load import Job, Load, OneGpu, Service, TrainingPurchase
from capplan.report.procurement import figures
from capplan.shapes.procurement import is_bought
from capplan.shapes.types import OptionRow
from capplan.units import counted, format_fraction, format_seconds


def in_short(choice: OptionRow, demand: ReportLoad, *, cost_p90_usd: float | None) -> str:
    """Describe what is bought, from whom, for how long, at most at which cost, what may go wrong, and what then.

    Empty where no load is stated: then nothing is signed.
    """
    if isinstance(demand.load, OneGpu) or choice.cost_usd_per_year is None:
        return ""
    parts = (
        _what(choice),
        _how_long(choice, demand.money.years),
        _at_most(choice, cost_p90_usd),
        _risk(choice, demand.load),
        _before(choice, demand.load),
    )
    return " ".join(part for part in parts if part)


def budget_words(constraints: Constraints) -> str:
    """Write the caps on money that the load states; empty without one."""
    caps = ((constraints.max_usd_per_year, "USD a year"), (constraints.max_capex_usd, "USD on the first day"))
    return ", ".join(f"up to {cap:,.0f} {unit}" for cap, unit in caps if cap is not None)


def _usd(amount: float | None) -> str:
    return f"{figures.headline_money(amount)} USD"


def _what(choice: OptionRow) -> str:
    count, last = choice.gpus, choice.gpus_by_year[-1]
    grown = f", {last} by the last year" if last != count else ""
    verb = "We buy" if is_bought(choice) else "We rent"
    return f"{verb} {count} × {choice.gpu_name} from {figures.offer(choice)}{grown}."


def _how_long(choice: OptionRow, years: int) -> str:
    usd, total = _usd(choice.cost_usd_per_year), _usd(choice.total_usd)
    whole = f"{usd} a year, {total} in {counted(years, 'year')} before tax"
    if is_bought(choice):
        first = _usd(choice.initial_usd)
        return f"It costs {whole}: {first} on the first day, then energy, space, support and staff."
    if bound := COMMITMENT_YEARS.get(Term(choice.term), 0):
        return f"It costs {whole}; we are bound for {counted(bound, 'year')}, whether the machines are used or not."
    return f"It costs {whole}, paid by the hour; we may stop at any time."


def _at_most(choice: OptionRow, cost_p90_usd: float | None) -> str:
    if cost_p90_usd is None or cost_p90_usd <= (choice.cost_usd_per_year or 0.0) * 1.001:
        return ""
    return f"In nine of ten scenarios it costs at most {_usd(cost_p90_usd)} a year."


def _risk(choice: OptionRow, load: Load) -> str:
    """Describe how often the fleet is too small, what is noticed then, and what another machine costs."""
    carried = choice.carried_fraction or 0.0
    slots = choice.gpus // choice.servers
    each = (choice.cost_usd_per_year or 0.0) / choice.gpus_by_year[-1] * slots
    more = "another server" if is_bought(choice) else "another machine"
    remedy = f"{more} of {counted(slots, 'GPU')} costs about {_usd(each)} a year"
    if isinstance(load, Service):
        missed = f"at peak more than {100 - load.percentile:g} % of requests wait longer than"
        missed = "a limit is broken at peak" if load.words else f"{missed} {format_seconds(load.latency_limit_s)}"
    else:
        missed = f"{'a training' if isinstance(load, TrainingPurchase) else 'a run'} ends after its deadline"
        remedy = f"with {more} it ends earlier, at about the same hours of GPUs" if isinstance(load, Job) else remedy
    words = "The fleet is large enough in all scenarios."
    if round(carried, 3) < 1:
        enough = f"The fleet is large enough in {format_fraction(carried)} of the scenarios"
        words = f"{enough}; in the others {missed}: {remedy}."
    if choice.term == Term.SPOT:
        words += " The provider may take spot machines back at any time; work that is not saved starts again."
    return words


_MANY_GPUS = 8
"""From so many GPUs on a provider is asked for a quota beforehand."""


def _before(choice: OptionRow, load: Load) -> str:
    """List what must be asked before signing: a quote, a quota for many GPUs, and zones."""
    last = choice.gpus_by_year[-1]
    if choice.price_date is None:
        return ""
    words = f"The price is of {choice.price_date} ({choice.price_known_by})"
    asked = []
    if choice.price_known_by != KIND_WORDS[PriceKind.QUOTE] or choice.concerns:
        asked.append("a written quote")
    if not is_bought(choice) and last >= _MANY_GPUS:
        asked.append(f"a quota of {last} GPUs")
    if not is_bought(choice) and isinstance(load, Service) and load.zones > 1:
        asked.append(f"proof of {load.zones} zones in {choice.region}")
    if not asked:
        return f"{words}."
    listed = ", ".join(asked[:-1]) + " and " * (len(asked) > 1) + asked[-1]
    return f"{words}: ask {choice.provider} for {listed} before signing."
