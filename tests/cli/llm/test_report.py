"""`capplan report MODEL --llm LOAD.yaml` as a user calls it."""

import csv
import json
from pathlib import Path

import openpyxl
import pytest

import capplan
from capplan.app.deployments import Deployments
from capplan.llm.core.search.search import SearchSpace
from capplan.specs import load_gpus
from capplan.verbs.llm.load_file import KEYS, read_load_file
from capplan.verbs.llm.plan import search_space
from capplan.verbs.statement.local import LocalContext
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
SECTIONS = ("front", "load", "memory", "fleet", "sensitivity", "tokens", "launch", "m1-money", "assumptions")


@pytest.fixture
def load(tmp_path: Path) -> Path:
    path = tmp_path / "load.yaml"
    path.write_text(LOAD)
    return path


@pytest.mark.slow
def test_the_report_is_written_in_every_format_from_one_answer(run: Run, load: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"report.{each}" for each in ("html", "json", "md", "csv", "xlsx", "pdf")]
    done = run("report", "qwen3-8b", "--llm", load, *(word for path in outputs for word in ("-o", path)))
    assert done.exit_code == 0, done.stderr
    page, document, markdown, sheet, _, pdf = outputs
    found = json.loads(document.read_text())
    best = found["plan"]["recommended"]
    html = page.read_text()
    assert all(f'<section id="{key}"' in html for key in SECTIONS)
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "https://" not in html
    assert "<script" not in html
    for text in (html, markdown.read_text()):
        assert best["words"] in text
        assert "limit of TTFT" in html
    rows, decision = list(csv.DictReader(sheet.read_text().splitlines())), found["decision"]
    assert [row["key"] for row in rows if row["recommended"] == "True"] == [decision["verdict"]["choice"]]
    assert next(row["gpu"] for row in rows if row["recommended"] == "True") == best["gpu"]
    assert {option["key"] for option in decision["options"]} <= {row["key"] for row in rows}
    assert not found["is_whole"]
    assert len({fit["gpu"] for fit in found["plan"]["fits"]}) == len(found["plan"]["fits"])
    assert pdf.read_bytes().startswith(b"%PDF")
    names = openpyxl.load_workbook(tmp_path / "report.xlsx").sheetnames
    assert {"Decision", "Options", "Cash by year", "Prices"} <= set(names)
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
    assert "Nothing searched keeps --max-tpot" in (tmp_path / "report.md").read_text()


def test_a_load_without_limits_holds_what_a_reader_waits_for(load: Path) -> None:
    """As `llm plan` does: the cheapest fleet of all has requests wait for minutes."""

    def question(text: str) -> SearchSpace:
        load.write_text(f"{text}\ngpu: l4\n")
        asked = read_load_file(load, model="qwen3-8b")
        return search_space(asked, LocalContext(), deployments=Deployments(gpus=load_gpus()), rents={})

    held = question("rate: 5/s")
    assert (held.limits.ttft_s, held.limits.tpot_s, held.certainty_fraction) == (10.0, 0.2, 0.5)
    assert question("rate: 5/s\ncertainty: 95%").certainty_fraction == 0.95
    asked = question("rate: 5/s\nlimits: {tpot: 40 ms}")
    assert (asked.limits.ttft_s, asked.limits.tpot_s, asked.certainty_fraction) == (None, 0.04, 0.9)
    assert not question("prompts: 1000\nwithin: 8h").limits.are_set  # a job may wait


def test_the_charts_over_the_load_are_of_the_replica_that_the_file_states(run: Run, load: Path, tmp_path: Path) -> None:
    load.write_text("rate: 5/s\ninput_len: 1000\noutput_len: 200\ngpu: l40s\nengine: vllm\ntp: 1\nutilization: 0.6\n")
    run("report", "qwen3-8b", "--llm", load, "-o", tmp_path / "report.json")
    # `capplan llm memory qwen3-8b --gpu l40s --utilization 0.6 --max-len 1200`: 59 sequences fit, 145 by default:
    # of 0.6 · 44.5 GiB are left 9.75 beside 15.3 of weights, 0.55 of activations and 1.15 of other; each takes 0.165
    assert int(json.loads((tmp_path / "report.json").read_text())["simulation"]["sequences_that_fit"]) == 59


@pytest.mark.slow
def test_rents_of_a_report_follow_the_hours_of_use(run: Run, load: Path, tmp_path: Path) -> None:
    load.write_text(f"{LOAD}\nhours: 8-18\ndays_per_week: 5\n")
    run("report", "qwen3-8b", "--llm", load, "-o", tmp_path / "report.json", "-o", tmp_path / "report.md")
    # 50 h a week are 2,607.14 h a year; five starts a week, 260.71 a year, of 300 s are 21.73 h.
    money = json.loads((tmp_path / "report.json").read_text())["plan"]["money"]
    assert money["rented_hours_per_year"] == pytest.approx(2628.87, abs=0.01)
    words = (tmp_path / "report.md").read_text()
    assert "2,607 of 8,760 hours a year have load" in words
    assert "Who should check what before signing" in words


def test_a_load_file_has_the_options_of_a_plan() -> None:
    own = {
        "model",
        "measured",
        "power_calibration",
        "launch",
        "launch_files",
        "here",
        "kubernetes",
        "load_file",
        "everything",
        "specs",
        "calibration",
    }
    # of `--compare-ways`, which looks at a week of its own file and at how long replicas take to start
    own |= {"compare_ways", "plot", "week_file", "requests_per_day", "days_in_use"}
    own |= {"provision_s", "image_bytes", "pull_bytes_per_s", "storage_bytes_per_s"}
    assert {field.name for field in KEYS.values()} == {field.name for field in find_verb("llm plan").fields} - own


def test_a_load_file_asks_what_options_ask(load: Path) -> None:
    lines = (
        "rate: 120/min", "images: 2", "image_size: 512x512", "network: 25 GB/s", "kv_offload: 64GiB", "cpu: epyc-9654",
        "region: [eu]", "currency: EUR", "prefix_hits: 30 %", "api_price: {input: 1, output: 2}", "limits: {e2e: 20 s}",
    )  # fmt: skip
    load.write_text("\n".join(lines))
    asked = read_load_file(load, model="qwen3-8b")
    # 120 a minute are 2 a second; 64 GiB are 64 · 2^30 bytes
    assert (asked.rate_per_s, asked.images, asked.image_size, asked.prefix_fraction) == (2.0, 2, (512, 512), 0.3)
    assert (asked.network_bytes_per_s, asked.kv_offload_bytes, asked.cpu) == (25e9, 64 * 2**30, "epyc-9654")
    assert (asked.regions, asked.currency, asked.api_usd_per_million_tokens, asked.max_e2e_s) == (
        ("eu",),
        "EUR",
        (1, 2),
        20,
    )


def test_the_report_is_a_verb_of_its_own(run: Run, load: Path, tmp_path: Path) -> None:
    load.write_text("rate: 2/s\ngpu: l40s\nengine: vllm\ntp: 1\nweights: fp8\n")
    report, alias = tmp_path / "report.md", tmp_path / "alias.md"
    assert run("llm", "report", "qwen3-8b", "--load", load, "-o", report).exit_code == 0
    assert run("report", "qwen3-8b", "--llm", load, "-o", alias).exit_code == 0
    assert report.read_text().splitlines()[:-1] == alias.read_text().splitlines()[:-1]  # the last names the command
    asked = capplan.llm.report("qwen3-8b", load=load)
    assert asked.fleet.plan.recommended is not None
    assert str(asked).startswith("# GPUs for serving qwen3-8b")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rate: 0/s", "load.yaml: rate must be at least 1e-9 requests per second; a load of zero needs no GPU."),
        ("input_len: 5", "state the load by one of rate (requests per second) and concurrency (clients)"),
        ("rate: 1/s\nconcurrency: 3", "state the load by one of rate (requests per second) and concurrency (clients)"),
        ("rate: 1/s\nimput_len: 5", "unknown key; did you mean input_len"),
        ("rate: 1/s\nlimits: {ttft: fast}", "fast"),
        ("rate: 1/s\npercentile: 42", "percentile: 42: write one of mean, 50, 90, 95 and 99"),
        ("rate: 1/s\nprefix_hits: 2", "prefix_hits: expected a number from 0 to 0.999, not 2"),
        ("rate: 1/s\ndraft_tokens: 3", "speculation needs both draft_tokens and acceptance"),
        ("rate: 1/s\napi_price: 3", "api_price: 3: write USD per million input and output tokens"),
        ("rate: 1/s\ntp: [0]", "tp: expected a whole number from 1 to 10,000,000, not 0"),
        ("rate: 1/s\nhours: 8-30", "hours_of_use 8-30: write whole hours of a day such as 8-18 or 22-6."),
        ("rate: 1/s\ndays_per_week: 9", "days_per_week: expected a whole number from 1 to 7, not 9"),
        (
            "rate: 1/s\ndraft_tokens: 100000000\nacceptance: 0.5",
            "draft_tokens: expected a whole number from 0 to 32, not",
        ),
        ("rate: 1/s\nspread: 0.5\ninput_cv: 0.3", "load.yaml: spread contradicts input_cv, input_p99 and output_cv"),
        ("rate: 1/s\nutilization: 0", "utilization: expected a number from 0.01 to 1, not 0"),
        ("rate: 1/s\ncertainty: 0.5%", "certainty: expected a number from 0.01 to 0.999, not 0.005"),
        ("rate: 1/s\nkv: banana", "kv: unknown KV cache format 'banana'. Known: fp32"),
        ("rate: 1/s\ntask: embedd", "task: unknown task 'embedd'; did you mean embed?"),
        ("rate: 1/s\ngpus: l4\ngpu: t4", "gpu: is given twice"),
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


def test_ways_leave_out_gpus_that_the_buyer_denies(run: Run, tmp_path: Path) -> None:
    load, saved = tmp_path / "load.yaml", tmp_path / "report.json"
    load.write_text("input_len: 1024\noutput_len: 256\ndeny: {gpus: [l4]}\n")
    asked = ("--load", load, "--gpu", "l4", "--gpu", "rtx-4090", "--requests-per-day", "100000", "-o", saved)
    result = run("llm", "report", "qwen3-8b", *asked)
    assert result.exit_code == 0, result.stderr
    text = saved.read_text()
    assert "× rtx-4090" in text
    assert "× l4 by the second" not in text
