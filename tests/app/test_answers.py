"""A plan as Python callers meet it: its short form, its frame, and the example notebook."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import capplan
from capplan.core.plan.types import Plan
from tests.cli.conftest import EXAMPLES, NET

NOTEBOOK = EXAMPLES / "plan.ipynb"


@pytest.fixture(scope="module")
def answer() -> Any:
    return capplan.plan(NET, inputs=["x=3x224x224"], batches=[8, 100_000], gpus=["t4", "l4"], precision="fp32")


def test_a_plan_is_short_in_a_prompt(answer: Any) -> None:
    first, *_, last = repr(answer).splitlines()
    assert first.startswith("Net · 3x224x224")
    whole = [text for text in str(answer).splitlines() if text.strip()]
    assert last == f"… {len(whole) - 5} more lines; print() shows them all"
    assert repr(answer).splitlines()[:5] == [cut(text) for text in whole[:5]]


def cut(text: str) -> str:
    """Cut a line as narrow tables are cut: at 100 characters, with an ellipsis."""
    return text if len(text) <= 100 else f"{text[:99].rstrip()}…"


def test_a_frame_has_a_row_for_each_gpu_and_batch(answer: Any) -> None:
    frame = answer.to_frame()
    assert set(zip(frame.gpu, frame.batch, strict=True)) == {(g, b) for g in ("t4", "l4") for b in (8, 100_000)}
    rejected = frame[frame.status == "does not fit"]
    assert rejected.latency_s.isna().all()
    (fit,) = [each for each in answer.fits if each.gpu.id == "t4"]
    row = frame[(frame.gpu == "t4") & (frame.batch == 8)].iloc[0]
    assert row.latency_s == fit.latency.latency_s.expected
    assert row.usd_per_hour == 0.5


def test_a_notebook_shows_the_short_answer(answer: Any) -> None:
    html = answer._repr_html_()
    assert html.startswith("<pre")
    assert html.count("\n") < 20
    assert "t4" in html
    assert "\x1b" not in html


def test_a_models_name_cannot_write_html(answer: Any) -> None:
    from dataclasses import replace

    named = replace(answer, model=replace(answer.model, name="<script>"))
    assert "<script>" not in named._repr_html_()
    assert "&lt;script&gt;" in named._repr_html_()


@pytest.mark.slow
def test_the_example_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    names: dict[str, object] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in code_cells(NOTEBOOK)]
    assert isinstance(names["plan"], Plan)
    assert all(each is not None for each in shown)


def code_cells(path: Path) -> list[dict[str, list[str]]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, object]) -> object:
    """Run a cell and return what it shows: the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_advice_under_a_power_limit_is_what_the_change_makes_under_the_same_limit() -> None:
    asked = {"inputs": ["x=3x224x224"], "batches": [1024], "gpus": ["l4"], "power_limit_w": 40.0}
    (now,) = capplan.estimate(NET, **asked, precision="fp32").reports
    (half,) = capplan.estimate(NET, **asked, precision="fp16").reports
    assert "a limit of 40.0 W" in now.curve[0].notes[0]
    (told,) = [advice for advice in now.advice if "precision fp16" in advice.change]
    assert told.speedup == pytest.approx(now.curve[0].latency_s.expected / half.curve[0].latency_s.expected)


@pytest.mark.slow
def test_all_parts_of_an_estimate_are_under_the_power_limit() -> None:
    asked = {"inputs": ["x=3x224x224"], "batches": [1024], "gpus": ["l4"], "precision": "fp32"}
    answer = capplan.estimate(NET, **asked, power_limit_w=40.0, compare_frameworks=True)
    (free,) = capplan.estimate(NET, **asked).reports
    (now,) = answer.reports
    step_s, parts = now.curve[0].latency_s.expected, now.breakdown
    assert step_s > free.curve[0].latency_s.expected
    assert parts.step_s == pytest.approx(step_s)
    assert sum(kernel.time_s for kernel in parts.kernels) == pytest.approx(parts.device_s)
    assert (parts.device_s**4 + parts.host_s**4) ** 0.25 == pytest.approx(step_s, rel=0.02)
    assert answer.compared["l4"][0].estimate.latency_s == now.curve[0].latency_s
    # the clock of arithmetic falls and that of memory stays, so that the share of arithmetic grows
    assert dict(now.curve[0].share_by_binding)["compute"] > dict(free.curve[0].share_by_binding)["compute"]
    assert sum(share for _, share in now.curve[0].share_by_binding) == pytest.approx(1)
