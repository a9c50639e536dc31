"""Wait or buy: what a model's load costs on hardware that comes later, against what its report recommends now."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from capplan.core.economics.constraints import Constraints, NameLists
from capplan.core.economics.decide import Answer, decide
from capplan.core.economics.options import ProcurementOption, server_slots
from capplan.core.economics.wait import LaterHardware, Peer, day_after, peers_of, range_of, years_until
from capplan.core.gpus.prices import Price, Term, cheapest_on_demand
from capplan.core.gpus.sale import EXPECTED, Period, expected_period, looked_up, period_of, sale_note
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.serving.load import OneGpu
from capplan.core.serving.response import Candidate
from capplan.errors import UsageError
from capplan.report.procurement.types import WaitOrBuy, WaitRow
from capplan.report.procurement.wait import wait_sentence
from capplan.shapes.plan import cause
from capplan.shapes.types import PlanDocument
from capplan.specs import Gpus

_ASKED = re.compile(rf"(?P<gpu>[^=@]+)(=\s*(?P<usd>\d+(\.\d+)?)\s*)?(@\s*(?P<day>{EXPECTED})\s*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor:
    """The hardware that may be waited for: its price of one GPU for an hour if stated [USD], and when it is there."""

    gpu: GpuSpec
    usd_per_hour: float | None
    period: Period
    is_own_day: bool

    @property
    def day_words(self) -> str:
        """Return when the hardware is there, and who says so."""
        if self.is_own_day:
            return f"{self.period.words}, as you state"
        read = looked_up(self.gpu, "expected")
        return f"{self.period.words}, as its vendor announced" + (f" (read {read})" if read else "")


def asked_wait(text: str, gpus: Gpus) -> WaitFor:
    """Read what is waited for: GPU, GPU=USD an hour, GPU@WHEN or GPU=USD@WHEN."""
    read = _ASKED.fullmatch(text)
    if read is None:
        raise UsageError(
            f"⟨wait-for⟩ {text}: write a GPU, its price in USD an hour and when it comes: mi455x, mi455x=12.5, "
            "mi455x=12.5@2027-Q2 or mi455x@2027-03."
        )
    gpu = gpus.find(read["gpu"].strip())
    usd = float(read["usd"]) if read["usd"] else None
    if usd is not None and usd <= 0:
        raise UsageError(f"⟨wait-for⟩ {text}: a price must be above 0.")
    period = period_of(read["day"]) if read["day"] else expected_period(gpu)
    if period is None:
        raise UsageError(
            f"⟨wait-for⟩ {text}: {gpu.id} is sold; say when it comes, such as {gpu.id}@2027-Q2, or name a GPU that "
            "`capplan gpus --announced` lists."
        )
    return WaitFor(gpu=gpu, usd_per_hour=usd, period=period, is_own_day=bool(read["day"]))


def wait_or_buy(
    plan: PlanDocument,
    answer: Answer,
    candidates: Sequence[Candidate],
    asked: WaitFor,
    *,
    gpus: Sequence[GpuSpec],
    rents: Sequence[Price],
    kinds: Sequence[PeakKind],
) -> WaitOrBuy:
    """Compare waiting with what the report recommends."""
    gpu = asked.gpu
    empty = WaitOrBuy(
        gpu=gpu.id, gpu_name=gpu.name, expected_first=asked.period.first, expected_last=asked.period.last,
        day_is=asked.day_words, status_is=sale_note(gpu), sentence="",
    )  # fmt: skip
    choice = answer.recommendation.choice
    candidate = next((one for one in candidates if one.gpu == gpu.id), None)
    peers = peers_of(gpu, gpus, cheapest_on_demand(rents), kinds=kinds)
    if isinstance(answer.demand.load, OneGpu):
        return replace(empty, sentence="Waiting is compared for a load: state one.")
    if choice is None or choice.cost is None:
        return replace(empty, sentence="No option that is sold has a price, so that there is nothing to compare with.")
    if candidate is None:
        return replace(empty, sentence=_unplanned(plan, gpu))
    if asked.usd_per_hour is None and not peers:
        words = f"No GPU like {gpu.name} has a dated price on demand: state what it costs, such as {gpu.id}=10."
        return replace(empty, sentence=words)
    new = _on_new_hardware(candidate, asked, answer, peers)
    if isinstance(new, str):
        return replace(empty, sentence=f"{gpu.name} does not carry the load: {new}.")
    return _compared(empty, answer, choice, new, asked=asked, peers=peers)


def _unplanned(plan: PlanDocument, gpu: GpuSpec) -> str:
    """Return why a plan holds no time of a GPU."""
    refused = next((rejection for rejection in plan.rejections if rejection.gpu == gpu.id), None)
    if refused is not None:
        return f"{gpu.name} does not carry the load: {cause(refused)}."
    return f"The saved plan holds no estimate of {gpu.name}: plan it with `capplan plan --gpu {gpu.id}` too."


def _machine(gpu: GpuSpec, answer: Answer, peers: Sequence[Peer]) -> int:
    """Return the GPUs of the smallest machine: that of the newest peer of the form factor, else of the newest peer."""
    alike = [peer for peer in peers if peer.gpu.form_factor == gpu.form_factor] or peers
    if alike:
        return alike[0].offer.instance_gpus
    slots, is_full = server_slots(gpu.form_factor, answer.demand.money)
    return slots if is_full else 1


def _on_new_hardware(
    candidate: Candidate, asked: WaitFor, answer: Answer, peers: Sequence[Peer]
) -> ProcurementOption | str:
    """Return the load on the new hardware, sized as all options are; why not where it does not carry it."""
    gpu, standards = asked.gpu, answer.standards
    admitted = Constraints(
        terms=frozenset({Term.ON_DEMAND}),
        allow=NameLists(gpus=frozenset({gpu.id})),
        certainty_fraction=standards.constraints.certainty_fraction,
        any_vendor=True,
    )
    price = Price(
        gpu=gpu.id,
        provider="any",
        region="any",
        term=Term.ON_DEMAND,
        usd_per_hour=_middle_usd(asked, peers),
        date=standards.today,
        source="stated" if asked.usd_per_hour else "range of peers",
        instance_gpus=_machine(gpu, answer, peers),
    )
    held = decide(
        [replace(candidate, not_sold=None)],
        demand=replace(answer.demand, constraints=admitted),
        rents=(price,),
        purchases=(),
        standards=replace(standards, constraints=admitted),
    )
    option = next((option for option in held.options if option.cost is not None), None)
    return option or next((one.reason for one in held.infeasible), "no number of GPUs does")


def _compared(
    empty: WaitOrBuy,
    answer: Answer,
    choice: ProcurementOption,
    new: ProcurementOption,
    *,
    asked: WaitFor,
    peers: Sequence[Peer],
) -> WaitOrBuy:
    today, years = answer.standards.today, float(answer.demand.money.years)
    bridge = next((one for one in (choice, *answer.ranked) if one.term is Term.ON_DEMAND and one.cost), None)
    if bridge is None:
        words = "No option on demand carries the load until then: waiting means no service until then."
        return replace(empty, now=choice.key, now_usd_per_year=choice.cost_per_year, sentence=words)
    soonest, latest = (years_until(day, today) for day in (asked.period.first, asked.period.last))
    per_dollar = (new.cost_per_year or 0.0) / _middle_usd(asked, peers)
    prices = {"stated by you": asked.usd_per_hour} if asked.usd_per_hour else _range_words(peers)
    rows = []
    for words, usd in prices.items():
        waiting = LaterHardware(
            now_usd=choice.cost_per_year or 0.0,
            bridge_usd=bridge.cost_per_year or 0.0,
            new_usd=per_dollar * usd,
            years=years,
        )
        rows.append(_row(waiting, words, usd, new, today=today, soonest=soonest, latest=latest))
    break_even = waiting.break_even_usd(latest)
    compared = replace(
        empty,
        now=choice.key,
        now_usd_per_year=waiting.now_usd,
        bridge=bridge.key,
        bridge_usd_per_year=waiting.bridge_usd,
        lost_usd=waiting.lost_usd(latest),
        years=years,
        break_even_usd_per_hour=break_even / per_dollar if break_even is not None else None,
        price_is=_price_words(asked, peers),
        speed_is=new.sizing.capacity.candidate.speed.value,
        machine_gpus=new.rent.instance_gpus if new.rent else None,
        rows=tuple(rows),
    )
    return replace(compared, sentence=wait_sentence(compared))


def _row(
    waiting: LaterHardware,
    words: str,
    usd: float,
    new: ProcurementOption,
    *,
    today: date,
    soonest: float,
    latest: float,
) -> WaitRow:
    longest, repaid = waiting.longest_years, waiting.repaid_years(latest)
    return WaitRow(
        price_usd_per_hour=usd,
        price_end=words,
        gpus=new.fleet.gpus,
        cost_usd_per_year=waiting.new_usd,
        saved_if_soonest_usd=waiting.saved_usd(soonest),
        saved_if_latest_usd=waiting.saved_usd(latest),
        saves_if_sold_by=None if longest is None else day_after(today, longest),
        paid_back_on=None if repaid is None else day_after(today, repaid),
    )


def _middle_usd(asked: WaitFor, peers: Sequence[Peer]) -> float:
    """Return the price at which the fleet is costed; rents are in proportion to it. [USD/h]"""
    return asked.usd_per_hour or range_of(peers).expected


def _range_words(peers: Sequence[Peer]) -> dict[str, float]:
    """Return the ends and the middle of what a GPU may cost, each with its words. [USD/h]"""
    found = range_of(peers)
    return {"low end": found.low, "middle": found.expected, "high end": found.high}


def _price_words(asked: WaitFor, peers: Sequence[Peer]) -> str:
    if asked.usd_per_hour:
        return "the price is yours"
    days = [peer.offer.date for peer in peers]
    names = ", ".join(dict.fromkeys(peer.gpu.id for peer in peers))
    return (
        f"the price is a range, no quote: at the price per FLOP/s at peak and per GB/s of {names}, each at its "
        f"cheapest dated offer on demand ({min(days)} to {max(days)})"
    )
