"""Waiting for hardware that is not sold yet: figures derived by hand, laws, and what a report says of them."""

from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from capplan.app.procurement.build import build_report
from capplan.app.procurement.wait import asked_wait
from capplan.core.economics.wait import LaterHardware, day_after, peers_of, range_of, years_until
from capplan.core.gpus.prices import Price, PriceTier, Term
from capplan.core.gpus.spec import PeakKind
from capplan.core.workload import BatchChoice, Batches
from capplan.errors import UsageError
from capplan.report.procurement.json import report_to_json
from capplan.report.procurement.types import Report, WaitOrBuy
from capplan.shapes.plan import read_plan
from capplan.specs import load_gpus
from capplan.specs.load import demand_without_load
from capplan.specs.prices import load_prices
from capplan.verbs.report import ReportQuestion, answer_report
from capplan.verbs.statement.local import LocalContext
from tests.report.procurement import made_up
from tests.report.procurement.made_up import CIRCUMSTANCES, EXAMPLES, html_of, markdown_of, plan_document, stated_demand

GPUS = load_gpus()
RUBIN, SOLD = "rubin-nvl72-288gb", "b300-sxm-288gb"
LATER = "2027-Q3"


def test_waiting_half_a_year_for_cheaper_hardware() -> None:
    # Now 100,000 a year, meanwhile 130,000, then 60,000, over 3 years, after half a year of waiting:
    # lost 30,000 / 2 = 15,000; saved 40,000 * 2.5 - 15,000 = 85,000; repaid 15,000 / 40,000 years after half a year;
    # it may take 3 * 40 / 70 years; and the new hardware may cost 100,000 - 15,000 / 2.5 = 94,000 a year.
    waiting = LaterHardware(now_usd=100e3, bridge_usd=130e3, new_usd=60e3, years=3)
    assert waiting.lost_usd(0.5) == 15e3
    assert waiting.saved_usd(0.5) == 85e3
    assert waiting.repaid_years(0.5) == 0.875
    assert waiting.longest_years == pytest.approx(3 * 40 / 70)
    assert waiting.break_even_usd(0.5) == 94e3


@pytest.mark.parametrize("wait_years", [0.0, 0.3, 1.0, 2.9])
@pytest.mark.parametrize("new_usd", [10e3, 60e3, 99e3])
def test_nothing_is_saved_at_the_longest_wait_and_at_the_break_even_price(new_usd: float, wait_years: float) -> None:
    waiting = LaterHardware(now_usd=100e3, bridge_usd=130e3, new_usd=new_usd, years=3)
    assert waiting.longest_years is not None
    assert waiting.saved_usd(waiting.longest_years) == pytest.approx(0, abs=1e-6)
    most = waiting.break_even_usd(wait_years)
    if most is not None:
        at_most = LaterHardware(now_usd=100e3, bridge_usd=130e3, new_usd=most, years=3)
        assert at_most.saved_usd(wait_years) == pytest.approx(0, abs=1e-6)
    assert waiting.saved_usd(wait_years) >= waiting.saved_usd(wait_years + 0.1)


def test_dearer_hardware_never_saves_and_waiting_the_whole_time_is_the_rent_until_then() -> None:
    waiting = LaterHardware(now_usd=100e3, bridge_usd=130e3, new_usd=100e3, years=3)
    assert waiting.longest_years is None
    assert waiting.repaid_years(0.0) is None
    assert waiting.saved_usd(3) == waiting.saved_usd(5) == -90e3
    assert waiting.break_even_usd(3) is None


def test_what_is_rented_by_the_hour_already_loses_nothing_by_waiting() -> None:
    waiting = LaterHardware(now_usd=100e3, bridge_usd=100e3, new_usd=60e3, years=3)
    assert waiting.lost_usd(2) == 0
    assert waiting.longest_years == 3
    assert waiting.repaid_years(2) == 2


def test_days_that_have_passed_are_no_wait() -> None:
    today = date(2026, 11, 21)
    assert years_until(date(2026, 10, 1), today) == 0
    assert day_after(today, years_until(date(2027, 6, 30), today)) == date(2027, 6, 30)


def offer(gpu: str, usd: float, **other: Any) -> Price:
    return Price(
        gpu=gpu, provider="p", region="r", term=Term.ON_DEMAND, usd_per_hour=usd, date=date(2026, 8, 1), source="s",
        **other,
    )  # fmt: skip


def test_a_price_range_is_that_of_peers_per_flop_and_per_byte() -> None:
    # Rubin: 4,000 TFLOP/s in fp16 and 22 TB/s. H100 SXM: 989.4 and 3.35, at 2 USD. B300: 2,250 and 8, at 7 USD.
    offers = {
        "h100-sxm5-80gb": offer("h100-sxm5-80gb", 2.0),
        SOLD: offer(SOLD, 7.0),
        "l4": offer("l4", 0.5),  # not of HBM
        "mi300x": offer("mi300x", 2.0),  # of another vendor
        "b200-sxm-180gb": offer("b200-sxm-180gb", 1.0, tier=PriceTier.HEARSAY),
        "h200-sxm-141gb": offer("h200-sxm-141gb", 1.0, is_marketplace=True),
    }
    peers = peers_of(GPUS[RUBIN], GPUS.values(), offers, kinds=(PeakKind.FP16,))
    assert [peer.gpu.id for peer in peers] == [SOLD, "h100-sxm5-80gb"]
    found = range_of(peers)
    by_flop = [7 * 4000 / 2250, 2 * 4000 / 989.4]
    by_byte = [7 * 22 / 8, 2 * 22 / 3.35]
    assert found.low == pytest.approx(min(by_flop))
    assert found.high == pytest.approx(max(by_byte))
    assert found.expected == pytest.approx((by_flop[0] + by_byte[1]) / 2)


def test_what_is_waited_for_is_read_from_one_word() -> None:
    announced = asked_wait(RUBIN, GPUS)
    assert (announced.usd_per_hour, announced.is_own_day) == (None, False)
    assert (announced.period.first, announced.period.last) == (date(2026, 10, 1), date(2026, 12, 31))
    own = asked_wait(f"{SOLD} = 6.5 @ 2027-03", GPUS)
    assert (own.gpu.id, own.usd_per_hour, own.period.last) == (SOLD, 6.5, date(2027, 3, 31))


@pytest.mark.parametrize(
    ("words", "says"),
    [("l4", "l4 is sold; say when it comes"), (f"{RUBIN}=0", "above 0"), (f"{RUBIN}=1/h", "write a GPU"),
     (f"{RUBIN}@soon", "write a GPU")],
)  # fmt: skip
def test_other_words_are_refused(words: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        asked_wait(words, GPUS)


@cache
def report(words: str, *, load: str | None = "image-service") -> Report:
    """A report on made-up speeds, of which the GPU that is waited for is ten times as fast as an H100."""
    prices = load_prices(GPUS)
    with patch.dict(made_up.SPEEDS, {SOLD: (0.002, 0.00002)}):
        plan = read_plan(plan_document(), where="toynet")
    return build_report(
        [plan],
        demand=stated_demand(EXAMPLES / f"{load}.load.yaml") if load else demand_without_load(),
        gpus=GPUS,
        rents=prices.hourly,
        purchases=prices.purchase,
        circumstances=replace(CIRCUMSTANCES, wait_for=asked_wait(words, GPUS)),
    )


def waited(made: Report) -> WaitOrBuy:
    (model,) = made.models
    assert model.wait is not None
    return model.wait


def test_a_report_prices_the_load_on_what_is_waited_for() -> None:
    made = report(f"{SOLD}=2@{LATER}")
    wait, (row,) = waited(made), waited(made).rows
    now = made.models[0].option(wait.now)
    assert now is not None
    assert wait.now == made.models[0].verdict.choice
    assert now.cost_usd_per_year == wait.now_usd_per_year
    # One GPU carries 500 a second, and one server is spare. The tests' prices know H100s in machines of eight, so that
    # two machines are 16 GPUs, at 2 USD for each of the 8,760 hours of a year.
    assert row.gpus == 16
    assert row.cost_usd_per_year == pytest.approx(16 * 8760 * 2)
    wait_years = (date(2027, 9, 30) - CIRCUMSTANCES.today).days / 365.25
    assert wait.bridge_usd_per_year is not None
    assert wait.now_usd_per_year is not None
    stay = wait.now_usd_per_year * wait.years
    go = wait.bridge_usd_per_year * wait_years + row.cost_usd_per_year * (wait.years - wait_years)
    assert row.saved_if_latest_usd == pytest.approx(stay - go)
    assert "price is yours" in (wait.price_is or "")


def test_half_the_price_costs_half_and_the_break_even_price_saves_nothing() -> None:
    whole = waited(report(f"{SOLD}=2@{LATER}"))
    half = waited(report(f"{SOLD}=1@{LATER}"))
    assert half.rows[0].cost_usd_per_year == pytest.approx(whole.rows[0].cost_usd_per_year / 2)
    assert half.rows[0].saved_if_latest_usd > whole.rows[0].saved_if_latest_usd
    most = whole.break_even_usd_per_hour
    assert most is not None
    saved_at = [wait.rows[0].saved_if_latest_usd for wait in (half, whole)]  # 1 and 2 USD an hour, linear between
    assert saved_at[0] + (most - 1) * (saved_at[1] - saved_at[0]) == pytest.approx(0, abs=1)


def test_a_range_has_three_prices_and_names_its_kind() -> None:
    made = report(f"{SOLD}@{LATER}")
    wait = waited(made)
    assert [row.price_end for row in wait.rows] == ["low end", "middle", "high end"]
    costs = [row.cost_usd_per_year for row in wait.rows]
    assert costs == sorted(costs)
    text = markdown_of(made)
    for words in ("### Wait or buy", wait.sentence, "no quote", "as you state"):
        assert words in text
    assert "Wait or buy</h2>" in html_of(made)
    assert report_to_json(made)["models"][0]["wait"]["rows"][0]["price_end"] == "low end"


def test_what_cannot_be_compared_says_why() -> None:
    alone = waited(report(f"{SOLD}=2@{LATER}", load=None))
    unplanned = waited(report(f"{RUBIN}=2"))
    assert (alone.rows, unplanned.rows) == ((), ())
    assert "state one" in alone.sentence
    assert f"capplan plan --gpu {RUBIN}" in unplanned.sentence


def test_a_report_without_it_has_no_such_part() -> None:
    made = made_up.made_report()
    assert "wait" not in report_to_json(made)["models"][0]
    assert "Wait or buy" not in markdown_of(made)


def test_an_announced_gpu_is_planned_and_compared_but_never_an_option(tmp_path: Any) -> None:
    load = tmp_path / "load.yaml"
    load.write_text("service:\n  peak: 200/s\n  mean: 100/s\n  latency: 100 ms\n")
    nets = EXAMPLES / "net.py"
    question = ReportQuestion(
        models=(f"{nets}:Net",), inputs=("x=3x32x32",), gpus=("l4",), load=load, wait_for=f"{RUBIN}=5@{LATER}",
        batches=Batches(choice=BatchChoice.LISTED, sizes=(1, 2)),
    )  # fmt: skip
    (model,) = answer_report(question, LocalContext()).models
    assert {option.gpu for option in model.options} == {"l4"}
    assert model.wait is not None
    assert [row.price_usd_per_hour for row in model.wait.rows] == [5.0]
    assert "announced, not sold yet" in (model.wait.status_is or "")
    assert model.wait.speed_is == "spec-sheet"
