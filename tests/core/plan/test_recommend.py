"""Recommendations on hand-made fits: what is cheapest, fastest and smallest, and what keeps an option from it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from capplan.core.gpus.prices import Price, Term
from capplan.core.gpus.spec import GpuSpec, Segment, Status
from capplan.core.latency.types import Evidence, LatencyEstimate
from capplan.core.memory.types import FitStatus
from capplan.core.numbers import Interval
from capplan.core.plan.recommend import with_recommendations
from capplan.core.plan.types import Cheaper, Criterion, Fit, Plan
from capplan.report.text.answer import render_answer
from tests.core.plan.test_plan import gpu, planned

GIB = 2**30
TODAY = date(2026, 9, 30)
BASE = planned([gpu("base", memory_gib=16)], "8")


def test_a_cheaper_one_that_only_third_parties_rent_is_named_with_the_reason() -> None:
    spare = fit(card("players-card"), usd_per_hour=0.2)
    assert spare.rent is not None
    spare = replace(spare, rent=replace(spare.rent, is_marketplace=True))
    plan = with_recommendations(replace(BASE, fits=(spare, fit(card("sure"), usd_per_hour=1.0))), named=(), on=TODAY)
    cheapest = next(made for made in plan.recommended if made.criterion is Criterion.CHEAPEST)
    assert cheapest.fit.gpu.id == "sure"
    assert cheapest.cheaper == (Cheaper(fit=spare, why_not="only marketplaces rent it"),)
    said = " ".join(render_answer(plan).split())
    assert "cheaper, but not taken: players-card (only marketplaces rent it)" in said


def card(name: str, *, memory_gib: int = 16, segment: Segment = Segment.DATA_CENTRE, **others: object) -> GpuSpec:
    return replace(gpu(name, memory_gib=memory_gib), segment=segment, **others)  # type: ignore[arg-type]


def fit(
    spec: GpuSpec,
    *,
    latency_s: float = 0.008,
    usd_per_hour: float | None = None,
    evidence: Evidence = Evidence.MEASURED,
    status: FitStatus = FitStatus.FITS,
) -> Fit:
    """Serve 8 samples in a time: 1,000 samples a second in 8 ms."""
    estimate = replace(BASE.fits[0].latency, latency_s=Interval.exact(latency_s), evidence=evidence)
    rent = usd_per_hour and Price(
        gpu=spec.id, provider="p", region="r", term=Term.ON_DEMAND, usd_per_hour=usd_per_hour, date=date(2026, 1, 1),
        source="made up",
    )  # fmt: skip
    assert isinstance(estimate, LatencyEstimate)
    return replace(BASE.fits[0], gpu=spec, latency=estimate, rent=rent or None, status=status)


def recommended(fits: Sequence[Fit], *named: str) -> Plan:
    return with_recommendations(replace(BASE, fits=tuple(fits)), named=named, on=TODAY)


def test_cheapest_fastest_and_smallest_by_hand() -> None:
    # 3.6 USD/h at 1,000/s is 1 USD per million samples; 18 USD/h at 4,000/s is 1.25; 1.8 USD/h at 400/s is 1.25.
    fits = [
        fit(card("fast", memory_gib=80), latency_s=0.002, usd_per_hour=18),
        fit(card("fair", memory_gib=24), latency_s=0.008, usd_per_hour=3.6),
        fit(card("small", memory_gib=16), latency_s=0.020, usd_per_hour=1.8),
    ]
    made = recommended(fits)
    assert {each.criterion: each.fit.gpu.id for each in made.recommended} == {
        Criterion.CHEAPEST: "fair", Criterion.FASTEST_PRICED: "fast", Criterion.SMALLEST: "small",
    }  # fmt: skip
    assert all(each.warning is None for each in made.recommended)
    assert "1 USD per million samples" in made.recommended[0].reason
    assert made.best() == fits[1]
    assert made.best("smallest") == fits[2]


def test_where_each_gpu_has_a_batch_of_its_own_the_smallest_of_all_is_named() -> None:
    large = replace(fit(card("large", memory_gib=80)), batch=128)
    small = replace(fit(card("small", memory_gib=16)), batch=8)
    assert recommended([large, small]).best("smallest") == small


def test_of_several_batches_the_smallest_must_hold_the_largest() -> None:
    large, small = card("large", memory_gib=80), card("small", memory_gib=16)
    fits = [replace(fit(large), batch=batch) for batch in (8, 128)] + [replace(fit(small), batch=8)]
    assert recommended(fits).best("smallest") == fits[1]


def test_without_a_price_only_the_smallest_is_recommended() -> None:
    made = recommended([fit(card("a", memory_gib=24)), fit(card("b", memory_gib=16))])
    assert [(each.criterion, each.fit.gpu.id) for each in made.recommended] == [(Criterion.SMALLEST, "b")]


def test_weak_evidence_is_passed_over_and_named() -> None:
    unsure = fit(card("unsure"), latency_s=0.004, usd_per_hour=1, evidence=Evidence.SPEC_SHEET)
    made = recommended([unsure, fit(card("sure"), usd_per_hour=2)])
    cheapest = made.recommended[0]
    assert cheapest.fit.gpu.id == "sure"
    assert "unsure promises more, but its latency rests on the spec sheet alone" in cheapest.reason


def test_weak_evidence_alone_is_recommended_with_a_warning() -> None:
    made = recommended([fit(card("unsure"), usd_per_hour=1, evidence=Evidence.SEGMENT)])
    assert made.recommended[0].warning == "it was timed only on GPUs of related architectures"


def test_a_borderline_fit_is_recommended_only_where_nothing_fits_for_sure() -> None:
    tight = fit(card("tight", memory_gib=8), usd_per_hour=1, status=FitStatus.BORDERLINE)
    sure = fit(card("sure", memory_gib=16), usd_per_hour=2)
    assert {each.fit.gpu.id for each in recommended([tight, sure]).recommended} == {"sure"}
    assert {each.warning for each in recommended([tight]).recommended} == {"the fit is borderline"}


def test_cards_at_their_end_of_sale_are_taken_only_where_they_are_named_and_told_where_they_are_cheaper() -> None:
    fits = [
        fit(card("player", segment=Segment.CONSUMER, memory_gib=8), usd_per_hour=0.2),
        fit(card("old", status=Status.END_OF_SALE, memory_gib=4), usd_per_hour=0.1),
        fit(card("server"), usd_per_hour=3),
    ]
    made = recommended(fits)
    assert {each.fit.gpu.id for each in made.recommended} == {"player"}
    assert made.shortlist == ("player", "server")
    (cheapest,) = (each for each in made.recommended if each.criterion is Criterion.CHEAPEST)
    assert cheapest.cheaper == (Cheaper(fit=fits[1], why_not="no longer sold"),)
    named = recommended(fits, "player", "old")
    assert {each.criterion: each.fit.gpu.id for each in named.recommended} == {
        Criterion.CHEAPEST: "old", Criterion.FASTEST_PRICED: "old", Criterion.SMALLEST: "old",
    }  # fmt: skip
    assert set(named.shortlist) == {"player", "old"}


def test_a_geforce_card_is_recommended_with_what_its_licence_forbids() -> None:
    fits = [fit(replace(card("geforce"), name="NVIDIA GeForce RTX 4090"), usd_per_hour=0.1)]
    assert all("not licensed for datacenter" in (each.licence or "") for each in recommended(fits).recommended)
    assert not any(each.licence for each in recommended([fit(card("server"), usd_per_hour=1)]).recommended)


def test_of_equally_fast_gpus_the_cheaper_is_the_fastest_with_a_price() -> None:
    fits = [
        fit(card("dear"), latency_s=0.00400, usd_per_hour=16),
        fit(card("fair"), latency_s=0.00404, usd_per_hour=5),
        fit(card("slow"), latency_s=0.00800, usd_per_hour=1),
    ]
    assert recommended(fits).best("fastest_priced") == fits[1]


def test_the_short_list_holds_one_variant_of_each_family_and_the_most_offered_first() -> None:
    fits = [
        fit(card("a100-pcie-40gb")),
        fit(card("a100-sxm4-80gb")),
        fit(card("l4", memory_gib=8)),
        fit(card("h100-pcie-80gb")),
    ]
    offers = {"a100-sxm4-80gb": 9, "a100-pcie-40gb": 3, "h100-pcie-80gb": 5}
    made = with_recommendations(replace(BASE, fits=tuple(fits)), offers=offers, on=TODAY)
    assert made.shortlist == ("l4", "a100-sxm4-80gb", "h100-pcie-80gb")  # the smallest is recommended


def test_nothing_fits_and_nothing_is_recommended() -> None:
    made = recommended([])
    assert (made.recommended, made.shortlist, made.best()) == ((), (), None)
