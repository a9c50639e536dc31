"""Every price of a plan and of a report is that of whole machines which somebody rents, looked up in the price files.

With the questions of `llm plan` in `test_rentable.py` these are 200 random questions, of which every run asks 32.
"""

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from math import ceil
from pathlib import Path

import pytest
import yaml

import capplan
from capplan.core.gpus.prices import Price, Term, current_offers
from capplan.core.trace.types import Trace
from capplan.errors import UsageError
from capplan.shapes.types import OptionRow
from capplan.specs import load_gpus
from capplan.specs.prices import load_prices

EXAMPLES = Path(__file__).parents[2] / "examples"
PLACES = (None, None, None, "eu", "us", "north-america", "us-east-1", "aws", "gcp", "lambda")
PROVIDERS = frozenset({"aws", "gcp", "lambda"})


@pytest.fixture(scope="module")
def offers(shipped_data: None) -> tuple[Price, ...]:
    return current_offers(load_prices(load_gpus()).hourly)


@pytest.fixture(scope="module")
def small_net(shipped_data: None) -> Trace:
    return capplan.trace("resnet18")


def within(place: str | None) -> Mapping[str, list[str]]:
    if place is None:
        return {}
    return {"providers": [place]} if place in PROVIDERS else {"regions": [place]}


def stands_in(offer: Price, place: str | None) -> bool:
    return place is None or (offer.provider == place if place in PROVIDERS else offer.is_in(place))


@pytest.mark.parametrize("questions", [8, pytest.param(60, marks=pytest.mark.nightly)])
def test_random_plans_rent_whole_machines_that_are_offered(
    offers: tuple[Price, ...], small_net: Trace, questions: int
) -> None:
    source = random.Random(131)
    names = sorted({offer.gpu for offer in offers if offer.term is Term.ON_DEMAND})
    seen = 0
    for _ in range(questions):
        place, rate = source.choice(PLACES), source.choice([None, 50.0, 3e3, 1e5, 2e6])
        asked, batch, precision = source.sample(names, 10), source.choice([1, 16, 128]), source.choice(["fp32", "tf32"])
        try:
            answer = capplan.plan(
                small_net,
                batches=[batch],
                gpus=asked,
                rate_per_s=rate,
                precision=precision,
                **within(place),  # type: ignore[arg-type]
            )
        except UsageError:
            rented = [offer for offer in offers if offer.gpu in asked and offer.term is Term.ON_DEMAND]
            assert not any(stands_in(offer, place) for offer in rented)
            continue
        for fit in answer.fits:
            if fit.rent is None:
                continue
            # GPUs of a load at the slow end of each rate; machines are rented whole
            gpus = 1 if rate is None else ceil(rate / fit.latency.throughput_per_s.low - 1e-9)
            totals = [
                ceil(gpus / offer.instance_gpus) * offer.usd_per_hour * offer.instance_gpus
                for offer in offers
                if (offer.gpu, offer.term) == (fit.gpu.id, Term.ON_DEMAND)
                and stands_in(offer, place)
                and (fit.rent.is_marketplace or not offer.is_marketplace)
            ]
            assert fit.rent in offers
            assert stands_in(fit.rent, place)
            assert answer.usd_per_hour(fit) == pytest.approx(min(totals))
            seen += 1
    assert seen > 3 * questions


@pytest.mark.parametrize("questions", [4, pytest.param(100, marks=pytest.mark.nightly)])
def test_random_reports_take_offers_that_hold_their_fleets(
    offers: tuple[Price, ...], tmp_path: Path, questions: int
) -> None:
    source = random.Random(231)
    chosen = 0
    for index in range(questions):
        place, load = source.choice(PLACES), tmp_path / f"load{index}.yaml"
        load.write_text(yaml.safe_dump(random_load(source)))
        report = capplan.make_report(str(EXAMPLES / "resnet50.plan.json"), load=load, **within(place))  # type: ignore[arg-type]
        (model,) = report.models
        for row in model.options:
            if row.term not in ("buy", "no price"):
                assert_held(offers, row, place)
        chosen += model.verdict.choice is not None
    assert chosen > 0.6 * questions


def random_load(source: random.Random) -> dict[str, object]:
    if source.random() < 0.5:
        peak = source.choice([20, 700, 9000, 150_000])
        return {
            "service": {
                "peak": f"{peak}/s",
                "mean": f"{peak / 3:.6g}/s",
                "latency": source.choice(["30 ms", "200 ms"]),
                "spares": source.choice([0, 1, 2]),
                "growth_per_year": source.choice(["0 %", "40 %"]),
            }
        }
    return {"job": {"samples": source.choice([10**6, 10**9]), "deadline": source.choice(["1 h", "1 d"])}}


def assert_held(offers: tuple[Price, ...], row: OptionRow, place: str | None) -> None:
    """Assert that the row's offer stands in the price files, where it was asked for, and is rented whole."""
    held = [
        offer
        for offer in offers
        if (offer.gpu, offer.term.value) == (row.gpu, row.term)
        and (offer.provider, offer.region, offer.instance) == (row.provider, row.region, row.instance)
        and offer.usd_per_hour == pytest.approx(row.price_usd)
    ]
    assert held, (row.gpu, row.offer)
    assert any(offer.instance_gpus == row.server_slots for offer in held)
    assert all(stands_in(offer, place) for offer in held)
    for gpus, servers in zip(row.gpus_by_year, row.servers_by_year, strict=True):
        assert gpus == servers * row.server_slots


DAYS = tuple(date(2026, 11, 25) + timedelta(days=45 * step) for step in range(10))


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("image-service", 4),
        pytest.param("image-service", 1, marks=pytest.mark.nightly),
        pytest.param("nightly-job", 1, marks=pytest.mark.nightly),
    ],
)
def test_another_day_of_the_report_changes_the_decision_only_where_a_price_ends(
    name: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among current prices nothing changes with the day alone: the first choice, or what it beat, was current before.

    The list prices of 2026 count as current for 180 days. No price of 2024 wins afterwards. Once no current price wins,
    the first choice goes by what each old price may have risen to since its end, which differs between two of them from
    day to day: then another old price may win without any end in between.
    """
    before: frozenset[str] | None = None
    chosen: str | None = None
    for day in DAYS[::every]:
        moment = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(moment.timestamp())))
        report = capplan.make_report(str(EXAMPLES / "resnet50.plan.json"), load=EXAMPLES / f"{name}.load.yaml")
        (model,) = report.models
        row = next(row for row in model.options if row.key == model.verdict.choice)
        assert row.price_date is not None
        assert row.price_date.year >= 2026
        current = frozenset(row.key for row in model.options if "old price" not in row.concerns)
        assert chosen in (None, row.key) or current != before or not {chosen, row.key} & current
        if row.price_date + timedelta(days=180) >= day:
            assert "counts as current until" in model.verdict.sentence
        else:
            assert "old price" in (model.verdict.warning or "")
        before, chosen = current, row.key
