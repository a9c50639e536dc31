"""The report on serving says what is signed: amounts recomputed by hand, the age of the price, and the signature."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from capplan.core.gpus.prices import Term
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
