"""A fleet that follows its load, as sections."""

from capplan.core.numbers import Interval
from capplan.core.scaling.fleet import WEEKS_PER_MONTH
from capplan.llm.core.elastic.answer import ElasticAnswer
from capplan.llm.core.elastic.burst import BurstSeen
from capplan.llm.core.simulation.load_answer import Percentiles
from capplan.report.sections import Block, LineRole, Lines, Section, Table, figure, shape_columns, shape_data
from capplan.shapes.llm_scale import SETTING
from capplan.units import format_seconds


def llm_scale_sections(answer: ElasticAnswer) -> list[Section]:
    """Return the fleet beside the standing one, its settings, and a burst; a CSV has one row per setting."""
    columns = [*shape_columns(SETTING, answer.settings), *shape_data(SETTING, answer.settings, whole=answer)]
    columns.insert(2, figure("USD/month", lambda one: one.usd_per_week, _money))
    blocks: list[Block] = [Lines([_headline(answer), _verdict(answer)]), Table(columns, answer.settings)]
    if answer.burst is not None:
        blocks.append(Lines([_burst(answer.burst, answer)]))
    blocks.append(Lines([*answer.notes, _price(answer)], role=LineRole.LIST))
    return [Section(blocks)]


def _money(week: Interval) -> str:
    return (week * WEEKS_PER_MONTH).to_text(lambda usd: f"{usd:,.0f}")


def _headline(answer: ElasticAnswer) -> str:
    asked = answer.asked
    return (
        f"{answer.model} on {answer.gpus} × {answer.gpu} a replica, {answer.engine}: {answer.load.requests / 7:,.0f} "
        f"requests a day in the mean, {answer.load.peak_per_s:.3g}/s at most. {asked.name} by {asked.signal.value}; a "
        f"replica starts in {asked.start_s.to_text(format_seconds)}."
    )


def _verdict(answer: ElasticAnswer) -> str:
    best, standing = answer.best, answer.standing
    month = standing.usd_per_week * WEEKS_PER_MONTH
    saved = 1.0 - best.usd_per_week.expected / standing.usd_per_week
    word = "as much as" if abs(saved) < 0.005 else f"{abs(saved):.0%} {'less' if saved > 0 else 'more'} than"
    fleet = f"a standing fleet of {standing.replicas} for {month:,.0f} USD ({standing.inside:.1%} inside)"
    if answer.keeps:
        return f"Cheapest: {best.minimum} replicas at least, {_money(best.usd_per_week)} USD a month, {word} {fleet}."
    return (
        f"No setting keeps {answer.asked.share:.0%} of the requests inside; the best keeps {best.inside:.1%} for "
        f"{_money(best.usd_per_week)} USD a month, beside {fleet}."
    )


def _burst(burst: BurstSeen, answer: ElasticAnswer) -> str:
    ttft = Percentiles.of(burst.ttft_s)
    return (
        f"The peak at once on {answer.best.minimum} replicas, {len(burst.at_s):,} requests one by one: TTFT "
        f"{format_seconds(ttft.p50)} (p50), {format_seconds(ttft.p99)} (p99); {burst.inside_fraction:.1%} inside, "
        f"{burst.worst_minute:.1%} in the worst minute; all are from {format_seconds(burst.settled_s)} on."
    )


def _price(answer: ElasticAnswer) -> str:
    offer = answer.offer
    if offer is None:
        return "No price is known."
    price = f"{offer.usd_per_machine_hour:.4g} USD/h a machine"
    return f"Rent: {offer.machine_words}, {price}, {offer.known_by}, {offer.date}."
