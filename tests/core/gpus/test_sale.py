"""Announced GPUs: when they are expected, that nothing takes them unasked, and what is new."""

from dataclasses import replace
from datetime import date

import pytest

import capplan
from capplan.app.deployments import searched_gpus
from capplan.app.gpu_choice import GpuFilters, GpuRequest, find_gpus
from capplan.core.gpus.sale import expected_period, is_announced, is_new, period_of, sale_note, sold_since
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import UsageError
from capplan.specs import load_gpus
from capplan.specs.gpus.rules import contradictions
from capplan.specs.prices import load_prices
from tests.seen import at_least

GPUS = load_gpus()
ANNOUNCED = [gpu for gpu in GPUS.values() if is_announced(gpu)]


@pytest.mark.parametrize(
    ("text", "first", "last", "words"),
    [
        ("2027", date(2027, 1, 1), date(2027, 12, 31), "in 2027"),
        ("2026-H2", date(2026, 7, 1), date(2026, 12, 31), "in the second half of 2026"),
        ("2026-Q4", date(2026, 10, 1), date(2026, 12, 31), "in the fourth quarter of 2026"),
        ("2027-Q1", date(2027, 1, 1), date(2027, 3, 31), "in the first quarter of 2027"),
        ("2028-02", date(2028, 2, 1), date(2028, 2, 29), "in 2028-02"),  # a leap year
    ],
)
def test_a_period_is_read_to_its_first_and_last_day(text: str, first: date, last: date, words: str) -> None:
    period = period_of(text)
    assert (period.first, period.last, period.words) == (first, last, words)


@pytest.mark.parametrize("text", ["", "soon", "2026-Q5", "2026-13", "2026-H3", "1999"])
def test_another_period_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no period such as 2027"):
        period_of(text)


def test_what_is_announced_says_when_it_is_expected_and_has_no_price() -> None:
    prices = load_prices(GPUS)
    priced = {price.gpu for price in (*prices.hourly, *prices.purchase)}
    for gpu in at_least(6, ANNOUNCED):
        assert expected_period(gpu) is not None
        assert sold_since(gpu) is None
        assert gpu.id not in priced


def test_no_question_about_all_gpus_is_about_announced_ones() -> None:
    chosen = {gpu.id for gpu in find_gpus(GpuRequest(database=GPUS)).chosen}
    assert len(chosen) == len(GPUS) - len(ANNOUNCED)
    assert not chosen & {gpu.id for gpu in ANNOUNCED}
    every = dict.fromkeys(GPUS, ())
    assert not {gpu.id for gpu in ANNOUNCED} & set(searched_gpus(GPUS, every))


def test_filters_that_leave_announced_ones_alone_say_so() -> None:
    request = GpuRequest(database=GPUS, filters=GpuFilters(architectures=("Rubin",)))
    with pytest.raises(UsageError, match="announced, not sold yet, expected in the fourth quarter of 2026"):
        find_gpus(request)


def test_a_named_one_is_answered_with_the_sentence_and_from_its_spec_sheet() -> None:
    note = sale_note(GPUS["rubin-nvl72-288gb"])
    assert note is not None
    assert note.startswith("rubin-nvl72-288gb: announced, not sold yet, expected in the fourth quarter of 2026")
    plan = capplan.plan("torchvision:resnet50", gpus=["rubin"], batch=8)
    assert note in plan.notes
    assert [fit.latency.evidence.value for fit in plan.fits] == ["spec-sheet"]
    assert note in plan.fits[0].latency.notes
    answer = capplan.llm.estimate("qwen3-8b", gpu="mi455x", concurrency=(8,))
    assert any("announced, not sold yet" in found for found in answer.notes)


def test_a_released_figure_of_rubin_is_dense() -> None:
    # NVIDIA prints 2,520 PFLOP/s of dense NVFP4, 1,260 of FP8, 20.7 TB and 1,580 TB/s for 72 GPUs.
    rubin = GPUS["rubin-nvl72-288gb"]
    peaks = {kind.value: rate for kind, rate in rubin.peak_flops_per_s.items() if rate}
    assert 72 * peaks["fp4"] == pytest.approx(2520e15)
    assert 72 * peaks["fp8"] == pytest.approx(1260e15)
    assert 72 * rubin.memory_bandwidth_bytes_per_s == pytest.approx(1580e12, rel=0.005)


def test_figures_of_the_mi455x_make_its_rack() -> None:
    # AMD prints Helios, 72 of them, with up to 2.9 EFLOP/s of MXFP4, 31 TB and 1.7 PB/s.
    mi455x = GPUS["mi455x"]
    peaks = {kind.value: rate for kind, rate in mi455x.peak_flops_per_s.items() if rate}
    assert 72 * peaks["fp4"] == pytest.approx(2.9e18, rel=0.01)
    assert 72 * mi455x.memory_bandwidth_bytes_per_s == pytest.approx(1.7e15, rel=0.02)


def test_new_is_counted_from_the_day_of_sale_else_of_the_release() -> None:
    gpu = replace(GPUS["l4"], release_date=date(2026, 1, 1), sold_since=None)
    assert is_new(gpu, within_days=31, on=date(2026, 2, 1))
    assert not is_new(gpu, within_days=30, on=date(2026, 2, 1))
    assert not is_new(gpu, within_days=30, on=date(2025, 12, 31))  # not yet released
    assert is_new(replace(gpu, sold_since=date(2026, 1, 15)), within_days=30, on=date(2026, 2, 1))
    assert not is_new(
        replace(GPUS["rubin-nvl72-288gb"], release_date=date(2026, 1, 31)), within_days=9, on=date(2026, 2, 1)
    )


@pytest.mark.parametrize(
    ("gpu", "changes", "key"),
    [
        ("rubin-nvl72-288gb", {"expected": None}, "expected"),
        ("rubin-nvl72-288gb", {"sold_since": date(2026, 11, 1)}, "sold_since"),
        ("l4", {"expected": "2026-Q4"}, "expected"),
        ("l4", {"sold_since": date(2026, 1, 2), "end_of_sale": date(2026, 1, 1)}, "end_of_sale"),
    ],
)
def test_facts_of_sale_that_exclude_each_other_are_found(gpu: str, changes: dict[str, object], key: str) -> None:
    def keys(spec: GpuSpec) -> set[str]:
        found = contradictions(spec, GPUS.architectures[spec.architecture_id], GPUS.sheets[spec.id])
        return {problem.key for problem in found}

    assert key not in keys(GPUS[gpu])
    assert key in keys(replace(GPUS[gpu], **changes))
