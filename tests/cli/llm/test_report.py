"""`capplan report MODEL --llm LOAD.yaml` as a user calls it."""

import json
from pathlib import Path

import openpyxl
import pytest

from capplan.llm.answer.plan_serving import question_of
from capplan.llm.core.search.search import SearchSpace
from capplan.llm.read.load_file import LARGEST, read_serving_load
from capplan.specs import load_gpus
from capplan.verbs.statement.registry import find_verb
from tests.cli.conftest import Run

LOAD = """
rate: 20/s
input_len: 1024
output_len: 256
limits: {ttft: 1 s, tpot: 40 ms}
gpu: [h100-sxm5-80gb, l40s]
tp: [1]
redundancy: 1
growth: 50 %
api_price: {input: 0.6, output: 2.4}
"""
SECTIONS = ("front", "load", "memory", "fleet", "sensitivity", "money", "launch", "assumptions")


@pytest.fixture
def load(tmp_path: Path) -> Path:
    path = tmp_path / "load.yaml"
    path.write_text(LOAD)
    return path


def test_the_report_is_written_in_every_format_from_one_answer(run: Run, load: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"report.{each}" for each in ("html", "json", "md", "csv", "xlsx", "pdf")]
    done = run("report", "qwen3-8b", "--llm", load, *(word for path in outputs for word in ("-o", path)))
    assert done.exit_code == 0, done.stderr
    page, document, markdown, sheet, _, pdf = outputs
    found = json.loads(document.read_text())
    best = found["plan"]["recommended"]
    html = page.read_text()
    assert all(f'<section id="{key}">' in html for key in SECTIONS)
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "https://" not in html
    assert "<script" not in html
    for text in (html, markdown.read_text()):
        assert best["words"] in text
        assert "limit of TTFT" in html
    assert len(sheet.read_text().splitlines()) == len(found["plan"]["fits"]) + 1
    assert pdf.read_bytes().startswith(b"%PDF")
    names = openpyxl.load_workbook(tmp_path / "report.xlsx").sheetnames
    assert "Summary" in names
    assert "money 1" in names
    groups = {each["group"] for each in found["sensitivity"]}
    assert {"load", "length of prompts", "length of answers", "prefix-cache hits"} <= groups
    assert found["plan"]["money"]["years"][-1]["rate_per_s"] == pytest.approx(20 * 1.5**3)
    rates = [each["rate_per_s"] for each in found["simulation"]["loads"]]
    assert rates == sorted(rates)
    # The last simulated load is 5 % beyond what the full replica serves.
    assert found["simulation"]["loads"][-1]["load_fraction"] == pytest.approx(1.05, rel=0.05)


def test_more_hits_and_less_load_never_take_more_gpus(run: Run, load: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    run("report", "qwen3-8b", "--llm", load, "-o", path)
    by_group: dict[str, list[int]] = {}
    for each in json.loads(path.read_text())["sensitivity"]:
        by_group.setdefault(each["group"], []).append(each["gpus"])
    assert by_group["prefix-cache hits"] == sorted(by_group["prefix-cache hits"], reverse=True)
    assert by_group["load"] == sorted(by_group["load"])
    assert by_group["length of prompts"] == sorted(by_group["length of prompts"])


def test_a_load_that_nothing_carries_is_reported_with_reasons(run: Run, load: Path, tmp_path: Path) -> None:
    load.write_text(LOAD.replace("tpot: 40 ms", "tpot: 1 us"))
    done = run("report", "qwen3-8b", "--llm", load, "-o", tmp_path / "report.md")
    assert done.exit_code == 1
    assert "nothing searched keeps --max-tpot" in (tmp_path / "report.md").read_text()


def test_a_load_without_limits_holds_what_a_reader_waits_for(load: Path) -> None:
    """As `llm plan` does: the cheapest fleet of all has requests wait for minutes."""

    def question(text: str) -> SearchSpace:
        load.write_text(f"{text}\ngpu: l4\n")
        return question_of("qwen3-8b", read_serving_load(load), gpus=load_gpus(), rents={})

    held = question("rate: 5/s")
    assert (held.limits.ttft_s, held.limits.tpot_s, held.certainty_fraction) == (10.0, 0.2, 0.5)
    assert question("rate: 5/s\ncertainty: 95%").certainty_fraction == 0.95
    asked = question("rate: 5/s\nlimits: {tpot: 40 ms}")
    assert (asked.limits.ttft_s, asked.limits.tpot_s, asked.certainty_fraction) == (None, 0.04, 0.9)
    assert not question("prompts: 1000\nwithin: 8h").limits.are_set  # a job may wait


def test_the_charts_over_the_load_are_of_the_replica_that_the_file_states(run: Run, load: Path, tmp_path: Path) -> None:
    load.write_text("rate: 5/s\ninput_len: 1000\noutput_len: 200\ngpu: l40s\nengine: vllm\ntp: 1\nutilization: 0.6\n")
    run("report", "qwen3-8b", "--llm", load, "-o", tmp_path / "report.json")
    # `capplan llm memory qwen3-8b --gpu l40s --utilization 0.6 --max-len 1200`: 64 sequences fit, 145 by default
    assert int(json.loads((tmp_path / "report.json").read_text())["simulation"]["sequences_that_fit"]) == 64


def test_rents_of_a_report_follow_the_hours_of_use(run: Run, load: Path, tmp_path: Path) -> None:
    load.write_text(f"{LOAD}\nhours: 8-18\ndays_per_week: 5\n")
    run("report", "qwen3-8b", "--llm", load, "-o", tmp_path / "report.json", "-o", tmp_path / "report.md")
    # 50 h a week are 2,607.14 h a year; five starts a week, 260.71 a year, of 300 s are 21.73 h.
    money = json.loads((tmp_path / "report.json").read_text())["plan"]["money"]
    assert money["rented_hours_per_year"] == pytest.approx(2628.87, abs=0.01)
    words = (tmp_path / "report.md").read_text()
    assert "2,607 of 8,760 hours a year have load" in words
    assert "Who should check what before signing" in words


def test_a_load_file_has_the_bounds_of_the_options() -> None:
    fields = {field.name: field for field in find_verb("llm plan").fields}
    bounds = {key: fields[key].bounds for key in LARGEST if fields[key].bounds is not None}
    assert {key: bound.le for key, bound in bounds.items()} == {key: LARGEST[key] for key in bounds}
    assert set(LARGEST) - set(bounds) == {"years"}  # which another sentence refuses


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rate: 0/s", "must be above 0"),
        ("input_len: 5", "state the load by one of rate (20/s) and concurrency (64)"),
        ("rate: 1/s\nconcurrency: 3", "state the load by one of rate (20/s) and concurrency (64)"),
        ("rate: 1/s\nimput_len: 5", "unknown key; did you mean input_len"),
        ("rate: 1/s\nlimits: {ttft: fast}", "fast"),
        ("rate: 1/s\npercentile: 42", "must be one of mean, 50, 90, 95, 99"),
        ("rate: 1/s\nprefix_hits: 2", "must lie from 0 to 0.999"),
        ("rate: 1/s\ndraft_tokens: 3", "needs acceptance as well"),
        ("rate: 1/s\napi_price: 3", "must have input and output"),
        ("rate: 1/s\ntp: [0]", "must be a whole number of at least 1"),
        ("rate: 1/s\nhours: 8-30", "must be whole hours of a day such as 8-18 or 22-6, not '8-30'"),
        ("rate: 1/s\ndays_per_week: 9", "must be at most 7, not 9"),
        ("rate: 1/s\ndraft_tokens: 100000000\nacceptance: 0.5", "must be at most 32, not 1e+08"),
    ],
)
def test_a_bad_load_file_is_refused(run: Run, load: Path, text: str, sentence: str) -> None:
    load.write_text(text + "\n")
    done = run("report", "qwen3-8b", "--llm", load)
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_an_option_that_the_report_would_not_read_is_refused(run: Run, load: Path) -> None:
    done = run("report", "qwen3-8b", "--llm", load, "--gpu", "l40s", "--currency", "EUR", "--max-capex", "9")
    assert done.exit_code == 2
    assert "would not read --max-capex, --currency; drop that" in done.stderr


def test_several_models_are_refused(run: Run, load: Path) -> None:
    done = run("report", "qwen3-8b", "qwen3-4b", "--llm", load)
    assert done.exit_code == 2
    assert "--llm reports on one model" in done.stderr
