"""The report on serving says what is signed: amounts recomputed by hand, the age of the price, and the signature."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from capplan.core.gpus.prices import Term
from capplan.errors import CapplanError
from capplan.llm.core.fleet.money import ServingReport
from capplan.report.procurement.figures import headline_money
from capplan.verbs.llm.report import LLM_REPORT, LlmReportQuestion, answer_llm_report
from capplan.verbs.statement.local import LocalContext

pytestmark = pytest.mark.slow

ASKED = {
    "rate": "6/s", "input_len": 750, "output_len": 300, "limits": {"ttft": "300 ms", "tpot": "30 ms"}, "engine": "vllm",
    "tp": [1], "growth": "50 %", "years": 3,
}  # fmt: skip


def made(folder: Path, *, gpu: str = "a100-sxm4-80gb") -> tuple[LlmReportQuestion, ServingReport]:
    load = folder / "chat.load.yaml"
    load.write_text(json.dumps({**ASKED, "gpu": [gpu]}))
    question = LlmReportQuestion(model="qwen3-8b", load=load)
    return question, answer_llm_report(question, LocalContext())


def test_page_one_has_the_amounts_that_are_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs of each year times 8,760 hours at the offer's price, discounted at 8 % and spread over three years."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(datetime(2026, 11, 26, tzinfo=UTC).timestamp())))
    question, report = made(tmp_path)
    choice, money = report.decided.recommendation.choice, report.fleet.money
    rented = next(each for each in report.decided.options if each.rent and each.rent.term is Term.ON_DEMAND)
    assert rented.rent is not None
    assert choice is not None
    assert money is not None
    slots = rented.rent.instance_gpus
    rents = [-(-year.gpus // slots) * slots * 8760 * rented.rent.usd_per_hour for year in money.years[1:]]
    annual = sum(rent / 1.08**year for year, rent in enumerate(rents, start=1)) * 0.08 / (1 - 1.08**-3)
    page = LLM_REPORT.files_in["html"]([report], question)
    assert isinstance(page, str)
    assert f"{sum(rents):,.0f}" in page
    assert f"{annual:,.0f}" in page
    assert f"{headline_money(choice.cost_per_year)} USD" in page
    assert "in 80 % of scenarios, with this fleet" in page
    assert "net present cost" in page
    assert "Approved by" in page


@pytest.mark.parametrize(
    ("day", "words"),
    [((2026, 1, 20), None), ((2026, 11, 26), "old price"), ((2028, 11, 26), "price of over two years")],
)
def test_the_age_of_the_price_is_said(
    day: tuple[int, int, int], words: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(datetime(*day, tzinfo=UTC).timestamp())))
    question, report = made(tmp_path, gpu="h100-sxm5-80gb")  # offered on 2026-01-01
    text = LLM_REPORT.files_in["md"]([report], question)
    assert isinstance(text, str)
    warned = [line for line in text.splitlines() if line.startswith("**") and "before signing" in line]
    assert bool(warned) == (words is not None)
    assert words is None or words in warned[0]


def test_a_load_states_what_the_buyer_admits_as_a_procurement_does(tmp_path: Path) -> None:
    """A denied GPU is not searched, and a cap that nothing keeps ends in exit code 1; spot machines need a word."""
    load, gpus = tmp_path / "chat.load.yaml", ["a100-sxm4-80gb", "h100-sxm5-80gb"]
    stated = {"allow": {"gpus": gpus, "regions": ["us"]}, "deny": {"gpus": ["a100"], "providers": ["azure"]}}
    load.write_text(json.dumps({**ASKED, **stated, "terms": "rent", "budget": {"per_year": "1k"}}))
    question = LlmReportQuestion(model="qwen3-8b", load=load)
    report = answer_llm_report(question, LocalContext())
    assert {fit.gpu for fit in report.fleet.plan.fits} == {"h100-sxm5-80gb"}
    # of the offers on demand only that of AWS is admitted: eight GPUs for 64 USD/h, 8,760 hours in each of three years
    costs = {
        (option.rent.provider, round(option.cost_per_year or 0.0))
        for option in report.decided.options
        if option.rent and option.rent.term is Term.ON_DEMAND
    }
    assert costs == {("aws", 64 * 8760)}
    assert not any(option.purchase for option in report.decided.options)
    assert report.decided.recommendation.choice is None
    assert LLM_REPORT.outcome(report).exit_code == 1
    for words in ({}, {"allow_spot": True}):
        load.write_text(json.dumps({**ASKED, "growth": 0, "allow": {"gpus": gpus[1:]}, "terms": "rent", **words}))
        costs = {
            option.key: option.cost_per_year for option in answer_llm_report(question, LocalContext()).decided.ranked
        }
        # GCP's spot machine of one GPU for 6 USD/h, which may be chosen where the load says so
        assert costs.get("h100-sxm5-80gb/spot") == (pytest.approx(6 * 8760) if words else None)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"allow_spot": "maybe"}, "allow_spot: must be true or false, not 'maybe'"),
        ({"deny": {"gpus": ["h10"]}}, "unknown GPU 'h10'"),
        ({"terms": "lease"}, "terms 'lease' is not a term"),
        ({"budget": {"monthly": 1}}, "budget.monthly: unknown key"),
    ],
)
def test_what_a_buyer_admits_is_refused_before_a_search(keys: dict[str, object], sentence: str, tmp_path: Path) -> None:
    load = tmp_path / "chat.load.yaml"
    load.write_text(json.dumps({**ASKED, **keys}))
    with pytest.raises(CapplanError, match=re.escape(sentence)):
        answer_llm_report(LlmReportQuestion(model="qwen3-8b", load=load), LocalContext())


@pytest.mark.parametrize(("stated", "runs"), [({}, 365), ({"runs_per_year": 12}, 12)])
def test_a_job_is_paid_for_its_runs(stated: dict[str, int], runs: int, tmp_path: Path) -> None:
    """A run of 200,000 requests at the replica's highest rate, and the 300 s until its machine works, is paid."""
    load = tmp_path / "job.load.yaml"
    job = {"prompts": 200_000, "within": "8h", "input_len": 750, "output_len": 300, "gpu": ["a100-sxm4-80gb"]}
    load.write_text(json.dumps({**job, "engine": "vllm", "tp": [1], **stated}))
    report = answer_llm_report(LlmReportQuestion(model="qwen3-8b", load=load), LocalContext())
    option = next(each for each in report.decided.options if each.rent and each.rent.term is Term.ON_DEMAND)
    assert option.rent is not None
    assert option.finish_s is not None
    hours = option.finish_s / 3600 * option.rent.instance_gpus * option.fleet.servers
    assert option.cost_per_year == pytest.approx(runs * hours * option.rent.usd_per_hour)
    known = next(each for each in report.decided.demand.assumptions if each.key == "runs_per_year")
    assert (known.value, known.basis) == (runs, "yours" if stated else "judgement")
