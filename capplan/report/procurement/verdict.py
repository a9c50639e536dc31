"""Describe the decision: what to take, why, and what would change it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from capplan.core.economics.concerns import AGE_CONCERNS, Concern
from capplan.core.economics.cost import CostBreakdown, OwnedCost
from capplan.core.economics.decide import Answer, Payback
from capplan.core.formulas import HOURS_PER_YEAR
from capplan.core.gpus.prices import Term
from capplan.core.serving.load import DAYS_PER_WEEK, HOURS_PER_DAY, Job, Load, OneGpu, Service, TrainingPurchase
from capplan.core.serving.response import PCIE
from capplan.core.serving.sizing import exact_mean_s
from capplan.report.procurement import figures
from capplan.report.procurement.figures import (
    duration,
    headline_money,
    money,
    offer,
    option_name,
    price,
    quote_terms,
    term_words,
)
from capplan.report.procurement.in_short import in_short
from capplan.report.procurement.money_tables import PARTS
from capplan.report.procurement.types import AskedModel, Report, Verdict
from capplan.shapes.procurement import has_reserve, is_bought
from capplan.shapes.types import OptionRow
from capplan.units import SECONDS, counted, format_fraction, format_rate, format_seconds


def format_usd(amount: float) -> str:
    """Write an amount of USD of a sentence, rounded to what is known of it."""
    return f"{headline_money(amount)} USD"


def describe_load(load: Load, items: str) -> str:
    """Describe the load in one phrase; `items` are what is asked for, in the plural."""
    if isinstance(load, Service):
        return load.words or (
            f"{format_rate(load.peak_per_s)} {items}/s at peak ({format_rate(load.mean_in_use_per_s)}/s on average), "
            f"{load.percentile:g} % of them within {format_seconds(load.latency_limit_s)}"
            f"{_use_words(load)}{_up_words(load)}"
        )
    if isinstance(load, Job):
        return f"{load.samples:,.0f} {items} within {_hours(load.deadline_s)}, {_times_a_year(load.runs_per_year)}"
    if isinstance(load, TrainingPurchase):
        return (
            f"training {load.epochs:g} epoch{'s' * (load.epochs != 1)} of {load.samples:,.0f} samples within "
            f"{_hours(load.deadline_s)}, {_times_a_year(load.runs_per_year)}"
        )
    return "no load stated: one GPU of each kind, always busy"


def _use_words(load: Service) -> str:
    """Describe the hours of use; nothing where a service is used all the time."""
    hours = sum(rate > 0 for rate in load.daily_per_s) or HOURS_PER_DAY
    found = "" if hours == HOURS_PER_DAY else f", {hours} hours a day"
    return found + (f", {load.days_per_week} days a week" if load.days_per_week < DAYS_PER_WEEK else "")


def _up_words(load: Service) -> str:
    """Describe for which share of the time enough servers must be up; nothing where none is stated."""
    if load.availability_fraction is None:
        return ""
    return f", for {100 * load.availability_fraction:.6g} % of the time, in {counted(load.zones, 'zone')}"


def load_words(report: Report) -> str:
    """Describe what a report answers: the load, or every service's."""
    if report.fleet is None:
        return describe_load(report.demand.load, report.items)
    return "; ".join(
        f"{model.service}: {describe_load((model.demand or report.demand).load, model.items)}"
        for model in report.models
    )


_SPEED_WORDS = {
    "measured": "estimated from steps timed on this GPU",
    "transferred": "transferred from other timings",
    "spec-sheet": "from the spec sheet alone",
}


def _largest_part(pair: Payback) -> str:
    """Name what takes most of a purchase's cost; beside staff, where it would cost more even without."""
    parts = pair.bought.cost.breakdown if isinstance(pair.bought.cost, OwnedCost) else CostBreakdown()
    paid = {
        name: amount
        for name, field in PARTS
        if (amount := getattr(parts, field)) > 0 and (field != "staff_usd" or pair.staff_usd)
    }
    largest = max(paid, key=lambda name: paid[name])
    share = format_fraction(paid[largest] / sum(paid.values()))
    return f"{largest}: {share} of {'its cost' if pair.staff_usd else 'the rest'}"


def _payback_words(pair: Payback, years: int) -> str:
    bought, rented = pair.bought, pair.rented
    against = (
        f"{bought.fleets[-1].gpus} × {bought.sizing.capacity.candidate.name} bought, against "
        f"{rented.sizing.capacity.candidate.name} rented ({term_words(rented.term or '')})"
    )
    staff = "it would cost more a year even without staff"
    if pair.staff_usd is not None:
        staff = f"it costs less a year where a server takes under {format_usd(pair.staff_usd)} of staff"
    staff += f" ({_largest_part(pair)})"
    if pair.years is None:
        return f"The best purchase does not pay off within {counted(years, 'year')}: {against}; {staff}."
    return f"The best purchase pays off after {pair.years:.1f} years: {against}; {staff}."


def share_of_scenarios(fraction: float | None, scenarios: int) -> str:
    """Write a share of scenarios; one in which none was counted is below what so many scenarios can show.

    >>> share_of_scenarios(0.25, 400), share_of_scenarios(0.0, 400)
    ('25.0 % of 400', 'fewer than 1 of 400')
    """
    if fraction == 0:
        return f"fewer than 1 of {scenarios}"
    return f"{figures.fraction(fraction)} of {scenarios}"


def varies_words(labels: Sequence[str]) -> str:
    """Describe what differs from scenario to scenario."""
    load = "They vary the load, too." if "Load" in labels else "The load is taken as stated."
    return f"Scenarios vary the latency estimate, the prices and the assumptions about money. {load}"


def _hours(time_s: float) -> str:
    """Write a deadline in hours, from two days on in days."""
    if time_s >= 2 * SECONDS["d"]:
        return f"{time_s / SECONDS['d']:g} days"
    return f"{time_s / SECONDS['h']:g} hour{'s' * (time_s != SECONDS['h'])}"


def _times_a_year(times: float) -> str:
    return "once a year" if times == 1 else f"{times:g} times a year"


def make_verdict(made: AskedModel, answer: Answer, rows: Sequence[OptionRow], *, service: str | None = None) -> Verdict:
    """Describe the decision in words and numbers."""
    by_key = {row.key: row for row in rows}
    found = answer.recommendation
    choice = by_key[found.choice.key] if found.choice else None
    other = by_key[found.runner_up.key] if found.runner_up else None
    confidence = answer.confidence
    return Verdict(
        sentence=_sentence(made.model, answer, choice, len(rows), service),
        in_short=in_short(choice, answer.demand, cost_p90_usd=confidence.cost_p90_usd if confidence else None)
        if choice
        else "",
        reasons=tuple(_reasons(made, answer, choice, other, rows)) if choice else (),
        changes_if=(*_limit_words(answer), *(_changes(answer, choice, other, by_key) if choice else ())),
        choice=choice.key if choice else None,
        runner_up=other.key if other else None,
        probability_cheapest=confidence.cheapest if confidence else None,
        probability_carried=confidence.carried if confidence else None,
        probability_carried_error=confidence.carried_error if confidence else None,
        expected_excess_usd_per_year=confidence.expected_excess_usd_per_year if confidence else None,
        cost_p10_usd=confidence.cost_p10_usd if confidence else None,
        cost_p90_usd=confidence.cost_p90_usd if confidence else None,
        wins=dict(confidence.wins) if confidence else {},
        scenarios=confidence.scenarios if confidence else 0,
        warning=_warning(answer, by_key),
        cheaper=found.cheaper.key if found.cheaper else None,
        varies=confidence.varies if confidence else (),
    )


def certainty_words(row: OptionRow, share: float, error: float | None) -> str:
    """Describe how far the fleet is larger than the load as stated asks for, and what that costs."""
    if (row.carried_fraction or 0.0) < share - _NEARLY:
        return (
            f"No number of this GPU suffices in {format_fraction(share)} of the scenarios, only in "
            f"{format_fraction(row.carried_fraction or 0.0)}: its latency may exceed the limit."
        )
    within = f" (known to ±{100 * error:.1f} points)" if error else ""
    words = f"The fleet suffices in {format_fraction(row.carried_fraction or 0.0)} of the scenarios{within}; "
    words += f"{format_fraction(share)} is asked for"
    if not has_reserve(row):
        return f"{words}."
    enough, usd = counted(row.stated_gpus, "GPU"), row.stated_cost_usd_per_year
    return f"{words}. If every estimate were right, {enough} would do, for {format_usd(usd or 0.0)} a year."


_NEARLY = 0.005


def _drawback(concerns: Sequence[Concern]) -> str:
    if Concern.PLAINER_NEARBY in concerns:
        return "and less plain"
    return "and less sure" if set(concerns) == {Concern.FEW_SCENARIOS} else "on weaker evidence"


def _warning(answer: Answer, by_key: Mapping[str, OptionRow]) -> str | None:
    """Describe what speaks against the choice, or a cheaper option of weaker evidence; None if nothing does."""
    found = answer.recommendation
    if found.concerns and AGE_CONCERNS.issuperset(found.concerns) and found.choice:
        return " ".join(filter(None, (_aged_words(answer, by_key[found.choice.key]), _cheaper_words(answer, by_key))))
    if found.concerns:
        return (
            f"No option of full evidence carries the load: {', '.join(found.concerns)}. Measure the GPU, and ask for a "
            "quote, before signing."
            + (f" {by_key[found.choice.key].licence}" if found.choice and by_key[found.choice.key].licence else "")
        )
    return _cheaper_words(answer, by_key) or _beyond_the_caps(answer, by_key)


def _cheaper_words(answer: Answer, by_key: Mapping[str, OptionRow]) -> str | None:
    """Name an option that is cheaper than the choice on weaker evidence; None if there is none."""
    found = answer.recommendation
    if found.cheaper is None or found.choice is None:
        return None
    row = by_key[found.cheaper.key]
    choice = by_key[found.choice.key]
    mine, theirs = _worths(answer, choice, row)
    saving = 1 - theirs / mine if mine else 0.0
    return (
        f"{row.gpu_name} {_how(row)} would be {format_fraction(saving)} cheaper, "
        f"{_drawback(found.cheaper_concerns)}: {', '.join(found.cheaper_concerns)}."
    )


def _aged_words(answer: Answer, choice: OptionRow) -> str:
    """Return the warning of an old price, with the best option whose price is current."""
    risen = choice.aged_factor - 1
    words = (
        f"It rests on an {', '.join(choice.concerns)} of {choice.price_date}, which is ranked as if it "
        f"had risen by {format_fraction(risen)} since it was current: ask for a quote before signing."
    )
    current = next((option for option in answer.ranked if not answer.standards.concerns(option)), None)
    if current is None or not choice.cost_usd_per_year or not current.cost_per_year:
        return words
    extra = current.cost_per_year / choice.cost_usd_per_year - 1
    name = current.sizing.capacity.candidate.name
    return (
        f"{words} With a current price, {name} {term_words(current.term.value if current.term else '')} costs "
        f"{format_fraction(abs(extra))} {'more' if extra >= 0 else 'less'}."
    )


def _beyond_the_caps(answer: Answer, by_key: Mapping[str, OptionRow]) -> str | None:
    """Report that a cheaper option of full evidence exceeds a cap; None if there is none."""
    choice = answer.recommendation.choice
    if choice is None or choice.cost_per_year is None or isinstance(answer.demand.load, OneGpu):
        return None
    beyond = [
        row
        for option in answer.options
        if (row := by_key[option.key]).violations and not row.concerns and row.term != Term.SPOT
        and (option.cost_per_year or 0.0) < choice.cost_per_year
    ]  # fmt: skip
    best = min(beyond, key=lambda row: row.cost_usd_per_year or 0.0, default=None)
    if best is None:
        return None
    saving = 1 - (best.cost_usd_per_year or 0.0) / choice.cost_per_year
    return (
        f"{best.gpu_name} {_how(best)} would be {format_fraction(saving)} cheaper and exceeds a cap: "
        f"{'; '.join(best.violations)}."
    )


def _sentence(name: str, answer: Answer, choice: OptionRow | None, count: int, service: str | None) -> str:
    if choice is None or choice.cost_usd_per_year is None:
        if not count and answer.not_considered and not answer.infeasible:
            return f"No GPU that the constraints admit is left for {name}."
        if not count:
            return f"No GPU carries the load with {name}."
        if any(option.cost for option in answer.options):
            return f"No option for {name} keeps the terms and caps stated; the appendix says what each exceeds."
        return f"No option for {name} has a price; GPUs are compared by speed and memory only."
    if isinstance(answer.demand.load, OneGpu):
        return (
            f"{choice.gpu_name} {_how(choice)} runs {name} at the lowest cost per sample: "
            f"{format_usd(choice.usd_per_million or 0)} per million at batch {choice.batch}."
        )
    grown = f", {choice.gpus_by_year[-1]} by the last year" if choice.gpus_by_year[-1] != choice.gpus else ""
    verb = "Buy" if is_bought(choice) else "Rent"
    if service is not None:
        verb = f"On a fleet of its own, {service} would {verb.lower()}"
    yearly = _yearly_words(answer, choice.cost_usd_per_year)
    return (
        f"{verb} {choice.gpus} × {choice.gpu_name} {_how(choice)}{grown}: "
        f"{_finish_words(answer.demand.load, choice.finish_s)}{yearly} for {name}.{_validity(answer, choice)}"
    )


def _validity(answer: Answer, choice: OptionRow) -> str:
    """Describe until when the price counts as current, and whether a whole step was ever timed on the GPU."""
    words = ""
    if choice.price_date and not choice.concerns:
        option = answer.recommendation.choice
        quoted = (option.rent or option.purchase) if option else None
        until = quoted.quote.valid_until if quoted else None
        last = until or choice.price_date + timedelta(days=answer.demand.constraints.max_price_age_days)
        words = f" Its price is of {choice.price_date} and counts as current until {last}."
    if choice.speed_tier != "measured":
        words += " No whole step was timed on this GPU."
    return words


def _yearly_words(answer: Answer, cost_usd_per_year: float) -> str:
    """Write a cost per year with the range that it has in most scenarios."""
    words = f"{format_usd(cost_usd_per_year)} per year"
    sure = answer.confidence
    if sure is None:
        return words
    low, high = headline_money(sure.cost_p10_usd), headline_money(sure.cost_p90_usd)
    return f"{words} ({low} to {high})" if low != high else words


def _finish_words(load: Load, finish_s: float | None) -> str:
    """Describe how long a run takes against its deadline; nothing for a service."""
    if not isinstance(load, Job | TrainingPurchase) or finish_s is None:
        return ""
    what = "training finishes" if isinstance(load, TrainingPurchase) else "a run finishes"
    return f"{what} in {duration(finish_s)} of the {duration(load.deadline_s)} allowed, "


def _how(row: OptionRow) -> str:
    if row.term == Term.BUY:
        return f"({row.provider})"
    return f"{term_words(row.term)} ({offer(row)})"


def _reasons(
    made: AskedModel, answer: Answer, choice: OptionRow, other: OptionRow | None, rows: Sequence[OptionRow]
) -> list[str]:
    load = answer.demand.load
    speed = _SPEED_WORDS[choice.speed_tier]
    return [
        *_load_reasons(answer, load, choice, f"{made.item}s"),
        _rank_words(load, rows),
        *_runner_up_words(answer, choice, other),
        *_certainty_reasons(answer, load, choice, {row.key: row for row in rows}),
        *_price_reasons(choice),
        *_host_words(made, choice),
        f"Its speed is {speed}{choice.speed_evidence and f' ({choice.speed_evidence})'}.",
    ]


def _load_reasons(answer: Answer, load: Load, choice: OptionRow, items: str) -> list[str]:
    """Describe what one GPU carries, and how many the load needs; nothing without a load."""
    if isinstance(load, OneGpu):
        return []
    if isinstance(load, Service):
        return _service_reasons(answer, load, choice, items)
    rate, need = format_rate(choice.rate_per_gpu_per_s), choice.gpus_needed
    words = f"Each GPU processes {rate} {items}/s at batch {choice.batch}"
    return [f"{words}; the deadline needs {counted(need, 'GPU')}.", *_parallel_words(choice)]


def _rank_words(load: Load, rows: Sequence[OptionRow]) -> str:
    """Describe among how many options the choice is the cheapest."""
    priced = sum(row.cost_usd_per_year is not None for row in rows)
    if isinstance(load, OneGpu):
        return f"Cheapest per sample of {priced} priced options, of {len(rows)} that hold the model."
    unpriced = len(rows) - priced
    more = f"; {unpriced} more carry the load and have no known price" if unpriced else ""
    return f"Cheapest of {priced} options with a price, those of full evidence first{more}."


def _runner_up_words(answer: Answer, choice: OptionRow, other: OptionRow | None) -> list[str]:
    if other is None or not other.cost_usd_per_year or not choice.cost_usd_per_year:
        return []
    mine, theirs = _worths(answer, choice, other)
    against = ", ".join(answer.recommendation.runner_up_concerns)
    more = f", and {against}" if against else ""
    extra = f"{format_fraction(theirs / mine - 1)} more expensive" if theirs > mine else "as expensive"
    return [f"Nearest alternative: {other.gpu_name} {_how(other)}, {extra}{more}."]


def _certainty_reasons(answer: Answer, load: Load, choice: OptionRow, by_key: Mapping[str, OptionRow]) -> list[str]:
    """Describe how sure the choice is, what more certainty costs, when a purchase pays off, and doubtful memory."""
    reasons = []
    if (sure := answer.confidence) and not isinstance(load, OneGpu):
        first, share = sure.wins[0] if sure.wins else (choice.key, 1.0)
        named = f" ({by_key[first].gpu_name} {_how(by_key[first])} in {format_fraction(share)})"
        other = "" if first == choice.key else named
        reasons.append(
            f"Cheapest in {share_of_scenarios(sure.cheapest, sure.scenarios)} scenarios{other}. "
            f"{varies_words(sure.varies)}"
        )
        share = answer.demand.constraints.certainty_fraction
        reasons.append(certainty_words(choice, share, sure.carried_error))
    if (pair := answer.payback) and not isinstance(load, OneGpu):
        reasons.append(_payback_words(pair, answer.case.money.years))
    if not choice.certain_fit:
        reasons.append("Its memory is borderline: the estimate's interval straddles what may be filled.")
    return reasons


def _price_reasons(choice: OptionRow) -> list[str]:
    """Describe the price, its day and source, and what its quote states besides."""
    if not choice.price_date:
        return []
    advice = "; ask again before signing" if choice.concerns else ""
    words = (
        f"Its price, {price(choice)}, is known from: {choice.price_known_by}, as of {choice.price_date}: "
        f"{choice.price_source}{advice}."
    )
    terms = quote_terms(choice)
    return [words, f"Its quote: {terms}."] if terms else [words]


def _parallel_words(choice: OptionRow) -> list[str]:
    """Describe what training beside other GPUs leaves of one GPU's rate, and over which link."""
    if choice.link is None or choice.scaling_fraction is None or choice.rate_alone_per_s is None:
        return []
    return [
        f"Alone a GPU trains {format_rate(choice.rate_alone_per_s)} samples/s; beside the others it keeps "
        f"{format_fraction(choice.scaling_fraction)} of that, with gradients exchanged over {choice.link}."
    ]


_HARDLY = 1e-3


def _host_words(made: AskedModel, choice: OptionRow) -> list[str]:
    """Describe what the host must do for one GPU, and where it is the limit."""
    if choice.pcie_per_s is None or choice.host_per_s is None:
        return []
    taken = choice.rate_per_gpu_per_s * made.input_bytes / 1e9
    used = choice.rate_per_gpu_per_s / choice.pcie_per_s
    every = format_seconds(1 / choice.rate_per_gpu_per_s)
    copies = f"{taken:.3g} GB/s to each GPU, {format_fraction(used)} of PCIe,"
    if used < _HARDLY:
        copies = "under a thousandth of what PCIe carries to each GPU,"
    item = made.item
    words = f"Its host copies {copies} and prepares {'an' if item[0] in 'aeiou' else 'a'} {item} every {every}"
    if choice.is_host_bound:
        return [
            f"{words}. The host is the limit: {choice.host_limit} feed{'s' * (choice.host_limit == PCIE)} one GPU "
            f"{format_rate(choice.host_per_s)} {item}s/s at most."
        ]
    return [f"{words}."]


def _service_reasons(answer: Answer, load: Service, choice: OptionRow, items: str) -> list[str]:
    sizing = next(sizing for sizing in answer.case.sizings if sizing.gpu == choice.gpu)
    rate = f"{format_rate(choice.rate_per_gpu_per_s)} {items}/s"
    batch = choice.batch
    takes = f"batches of up to {batch}" if batch > 1 else f"{items} one at a time"
    if load.words:
        size = sizing.capacity.candidate.replica_gpus
        each = f"A replica of {counted(size, 'GPU')} takes up to {counted(batch, items.removesuffix('s'))} at a time"
        rate = format_rate(choice.rate_per_gpu_per_s * size / choice.reserve_factor)
        count = sizing.capacity.candidate.spare_replicas
        spare = f", {counted(count, 'spare replica')} included" if count else ""
        return [
            f"{each} and carries {rate} {items}/s: {counted(sizing.need, 'GPU')} needed at today's peak{spare}.",
            *([_scaling_words(answer, load)] if load.levels else []),
        ]
    reasons = [
        f"Each GPU takes {takes} and carries {rate}: {sizing.need} needed at today's peak if every estimate is right.",
        f"{load.percentile:g} % are answered within {format_seconds(choice.latency_s.expected)} at peak; "
        f"{format_seconds(load.latency_limit_s)} is allowed.",
    ]
    exact_s = exact_mean_s(load, sizing)
    if exact_s is not None and sizing.response and sizing.response.mean_s:
        mean = sizing.response.mean_s
        reasons[-1] = (
            f"{reasons[-1][:-1]}. The mean is {format_seconds(mean.expected)} simulated, "
            f"{format_seconds(exact_s)} by formula."
        )
    if load.levels:
        reasons.append(_scaling_words(answer, load))
    if (mix := answer.day_mix) and (mix.reserved or not load.levels):
        held = f"{mix.reserved} reserved and the rest by the hour" if mix.reserved else "all by the hour"
        cost = format_usd(mix.usd_per_year)
        most = counted(mix.most, "GPU")
        reasons.append(f"Scaled along the day, {held}, up to {most} would cost {cost} a year at least.")
    return reasons


def _scaling_words(answer: Answer, load: Service) -> str:
    """Describe which options follow the hours of use, and how many of the hours the choice pays for."""
    words = (
        f"What is rented by the hour follows the hours of use, and starts {format_seconds(load.start_up_s)} before it "
        "is needed; reserved and bought machines cost all hours."
    )
    choice = answer.recommendation.choice
    if choice is None or not choice.follows_hours:
        return words
    paid = choice.gpu_hours_by_year[0] / (choice.fleet.gpus * HOURS_PER_YEAR)
    return (
        f"{words} The choice pays for {format_fraction(paid)} of the hours of its {counted(choice.fleet.gpus, 'GPU')}."
    )


def _worths(answer: Answer, choice: OptionRow, other: OptionRow) -> tuple[float, float]:
    if isinstance(answer.demand.load, OneGpu):
        return choice.usd_per_million or 0.0, other.usd_per_million or 0.0
    return choice.cost_usd_per_year or 0.0, other.cost_usd_per_year or 0.0


def _limit_words(answer: Answer) -> list[str]:
    """Describe what each constraint costs: what would be chosen without it, and at which cost."""
    found, choice = [], answer.recommendation.choice
    for constraint, option in answer.limits.items():
        cost, offered = option.cost_per_year or 0.0, option.rent or option.purchase
        where = option.rent.offer_words if option.rent else option.purchase.seller if option.purchase else ""
        name = option.sizing.capacity.candidate.name
        less = ""
        if choice is not None and choice.cost_per_year and cost and offered:
            less = f", {format_fraction(1 - cost / choice.cost_per_year)} less"
        term = term_words(option.term.value) if option.term else ""
        found.append(
            f"{constraint} {'are' if constraint.endswith('s') else 'is'} not constrained: "
            f"{option.fleets[-1].gpus} × {name} {term} ({where}), {format_usd(cost)} a year{less}."
        )
    return found


def _changes(answer: Answer, choice: OptionRow, other: OptionRow | None, by_key: Mapping[str, OptionRow]) -> list[str]:
    changes = []
    factor = answer.switching_price_factor
    rival = option_name(other)
    if other and (other.gpu, other.term) == (choice.gpu, choice.term) and "(" not in rival:
        rival = f"{rival} ({other.provider})"  # the same GPU and term of another provider
    if other and factor and factor > 1 and choice.price_usd:
        price = choice.price_usd * factor
        unit = "a GPU-hour" if choice.term != Term.BUY else "a GPU"
        changes.append(
            f"its price rises above {money(price)} USD {unit} (+{format_fraction(factor - 1)}): choose {rival}."
        )
    for direction in (1, -1):
        times = next((factor for factor in answer.load_switches if (factor > 1) == (direction > 0)), None)
        if times:
            cheapest = by_key.get(answer.load_switches[times])
            changes.append(f"the load is {times:g} × what is stated: choose {option_name(cheapest)}.")
    flips = [bar for key, bar in answer.tornado_bars.items() if key not in ("peak_factor", "rent_price_factor")]
    for bar in flips:
        for end, winner in ((bar.low, bar.winner_low), (bar.high, bar.winner_high)):
            if winner and winner != choice.key:
                label = bar.label if bar.label[:2].isupper() else f"{bar.label[:1].lower()}{bar.label[1:]}"
                instead = f"{_amount(end)} {bar.unit} instead of {_amount(bar.value)}"
                changes.append(f"{label} is {instead}: choose {option_name(by_key.get(winner))}.")
    return changes[:5] or ["nothing within the stated ranges, each moved alone."]


def _amount(value: float) -> str:
    """Write a setting with three significant digits and thousands separated: 5,000, 0.75."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
