"""What a serving report says is cheapest under another load is what a plan for that load finds."""

import json
from pathlib import Path

import pytest

from capplan.verbs.llm.load_file import read_load_tree
from capplan.verbs.llm.plan import answer_llm_plan
from capplan.verbs.llm.report import LlmReportQuestion, answer_llm_report
from capplan.verbs.statement.local import LocalContext

pytestmark = pytest.mark.slow

MODEL = "qwen3-8b"
ASKED = {
    "rate": "6/s", "input_len": 1500, "output_len": 300, "limits": {"ttft": "300 ms", "tpot": "30 ms"},
    "engine": "vllm",
    "gpu": ["h100-sxm5-80gb", "a100-sxm4-80gb"], "tp": [1],
}  # fmt: skip
LENGTHS = {"length of prompts": "input_len", "length of answers": "output_len"}


def test_the_cheapest_then_is_that_of_a_plan_for_the_load_then(tmp_path: Path) -> None:
    """With prompts twice as long a report once named 27 GPUs where four of another kind cost less than half."""
    load = tmp_path / "chat.load.yaml"
    load.write_text(json.dumps(ASKED))
    report = answer_llm_report(LlmReportQuestion(model=MODEL, load=load), LocalContext())
    varied = [variation for variation in report.variations if variation.group in LENGTHS]
    assert len(varied) == 4
    for variation in varied:
        tree = {**ASKED, LENGTHS[variation.group]: int(variation.label.removesuffix(" tokens"))}
        best = answer_llm_plan(read_load_tree(tree, shown="load", model=MODEL), LocalContext()).plan.recommended
        assert best is not None
        assert best.usd_per_hour is not None
        if variation.best is None:
            assert variation.fit is not None
            assert variation.fit.usd_per_hour == pytest.approx(best.usd_per_hour)
        else:
            assert variation.best.startswith(f"{best.gpu}, {best.words}")
            assert variation.best.endswith(f"{best.usd_per_hour:,.2f} USD/h")
    assert any(variation.best for variation in varied), "under none of these loads another deployment is cheaper"
