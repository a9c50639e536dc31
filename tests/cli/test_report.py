"""`capplan report`, `diff` and `check` as a user meets them."""

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from capplan.report.schemas import schema_of
from tests.cli.conftest import EXAMPLES, Run
from tests.nightly import mostly_nightly
from tests.report.procurement.made_up import plan_document
from tests.snapshot import assert_is_snapshot

pytestmark = pytest.mark.slow

SERVICE = EXAMPLES / "image-service.load.yaml"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "toy.plan.json"
    path.write_text(json.dumps(plan_document()))
    return path


def schema(name: str) -> Any:
    return schema_of(name)


def test_all_formats_at_once_from_a_saved_plan(run: Run, plan: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"report{extension}" for extension in (".html", ".pdf", ".xlsx", ".md", ".csv", ".json")]
    words = [word for path in outputs for word in ("-o", path)]
    result = run("report", plan, "--batch", "1..32", "--load", SERVICE, *words)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert all(path.stat().st_size > 1000 for path in outputs)
    jsonschema.validate(json.loads(outputs[-1].read_text()), schema("report"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("load", mostly_nightly(["image-service", "nightly-job", "training"], daily=["image-service"]))
def test_the_whole_report_with_the_fixture_prices(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")  # 2026-01-01
    mode = "training" if load == "training" else "inference"
    Path("toy.plan.json").write_text(json.dumps(plan_document(mode=mode)))
    words = ("report", "toy.plan.json", "--batch", "1..32", "--load", EXAMPLES / f"{load}.load.yaml")
    monkeypatch.setattr("sys.argv", ["capplan", "report", "toy.plan.json"])
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    assert_is_snapshot(f"report-{load}.md", result.stdout)


def test_markdown_goes_to_stdout(run: Run, plan: Path) -> None:
    result = run("report", plan, "--batch", "8", "--load", SERVICE, "--gpu", "l4", "--gpu", "t4")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("# GPUs for toynet\n")
    assert "NVIDIA L4" in result.stdout
    assert "H100 SXM5" not in result.stdout


def test_ways_to_serve_the_hours_of_a_service_are_a_section(run: Run, tmp_path: Path) -> None:
    load, page, saved = tmp_path / "load.yaml", tmp_path / "report.md", tmp_path / "report.json"
    load.write_text(f"service: {{daily: {[5.0] * 6 + [50.0] * 18}, latency: 100 ms}}\n")
    words = ("--load", load, "--compare-ways", "--gpu", "l4", "--batch", "1..8")
    result = run("report", "torchvision:resnet18", *words, "-o", page, "-o", saved)
    assert result.exit_code == 0, result.stderr
    text = page.read_text()
    assert "### Ways to serve the load of a week" in text
    assert all(f"| {way} |" in text for way in ("standing", "autoscaled", "serverless", "API"))
    document = json.loads(saved.read_text())
    jsonschema.validate(document, schema("report"))
    ways = document["models"][0]["ways"]
    assert ways["requests_per_day"] == pytest.approx(3600 * (6 * 5 + 18 * 50))
    assert ways["peak_per_s"] == 50.0


def test_ways_rest_on_the_gpus_and_prices_that_a_load_admits(run: Run, tmp_path: Path) -> None:
    load, saved = tmp_path / "load.yaml", tmp_path / "report.json"
    own = "{currency: USD, provider: mine, date: 2026-11-01, source: {kind: example, title: contract}, hourly: ["
    own += "{gpu: t4, instance: m1, gpus: 1, pricing: on-demand, region: any, per_hour: 0.02}]}"
    load.write_text(f"service: {{peak: 50/s, latency: 200 ms}}\ndeny: {{gpus: [l4]}}\nprices: [{own}]\n")
    asked = ("--load", load, "--compare-ways", "--gpu", "l4", "--gpu", "t4", "--batch", "1..8")
    result = run("report", "torchvision:resnet18", *asked, "-o", saved)
    assert result.exit_code == 0, result.stderr
    ways = json.loads(saved.read_text())["models"][0]["ways"]["costs"]
    assert all("× l4" not in way["words"] for way in ways)
    (standing,) = (way for way in ways if way["way"] == "standing")
    assert standing["usd_per_month"]["expected"] == pytest.approx(0.02 * 730, rel=0.01)


def test_ways_need_a_service_and_a_model(run: Run, plan: Path) -> None:
    assert "--compare-ways" in run("report", plan, "--load", SERVICE, "--provision", "90s").stderr
    result = run("report", plan, "--load", SERVICE, "--compare-ways")
    assert result.exit_code == 2
    assert "whose model is named, not of a saved plan" in result.stderr


def test_without_a_load_gpus_compare_by_cost_per_sample(run: Run, plan: Path) -> None:
    result = run("report", plan, "--batch", "8", "--gpu", "t4")
    assert "lowest cost per sample" in result.stdout


def test_own_prices_replace_listed_ones(run: Run, plan: Path, tmp_path: Path) -> None:
    prices = tmp_path / "own.yaml"
    prices.write_text(
        "provider: us\ncurrency: USD\ndate: 2026-11-20\n"
        "source: {kind: example, title: our contract}\n"
        "hourly:\n  - {gpu: t4, instance: box, gpus: 1, pricing: on-demand, region: here, per_hour: 0.01}\n"
    )
    result = run("report", plan, "--batch", "32", "--load", SERVICE, "--prices", prices, "--gpu", "t4")
    assert "on-demand (us, box, here)" in result.stdout
    assert "our contract" in result.stdout


def test_offers_can_be_narrowed_to_providers(run: Run, plan: Path) -> None:
    words = ("report", plan, "--batch", "32", "--load", SERVICE, "--gpu", "l4")
    assert "on-demand (aws, g6.xlarge, us-east-1)" in run(*words, "--provider", "aws").stdout
    unknown = run(*words, "--provider", "awz")
    assert (unknown.exit_code, "did you mean aws" in unknown.stderr) == (2, True)


def test_terms_names_and_caps_stand_in_the_load_file(run: Run, plan: Path, tmp_path: Path) -> None:
    load = tmp_path / "load.yaml"
    load.write_text(
        SERVICE.read_text()
        + "terms: [on-demand, reserved-1y]\nallow: {providers: [aws, gcp]}\ndeny: {gpus: [t4]}\n"
        + "budget: {capex: 250k USD, per_year: 900000}\nsite: {power: 20 kW, rack_units: 16}\n"
        + "certainty: 75 %\nmax_price_age: 1000 d\n"
    )
    out = tmp_path / "out.json"
    assert run("report", plan, "--batch", "8..32", "--load", load, "-o", out).exit_code == 0
    document = json.loads(out.read_text())
    jsonschema.validate(document, schema("report"))
    stated = document["demand"]["constraints"]
    assert stated["terms"] == ["on-demand", "reserved-1y"]
    assert (stated["max_capex_usd"], stated["max_usd_per_year"]) == (250_000, 900_000)
    assert (stated["max_power_w"], stated["max_rack_units"]) == (20_000, 16)
    assert (stated["certainty_fraction"], stated["max_price_age_days"]) == (0.75, 1000)
    model = document["models"][0]
    feasible = (
        option for option in model["options"] if "carries the load in too few scenarios" not in option["concerns"]
    )
    assert all(option["carried_fraction"] >= 0.748 for option in feasible)
    assert not any(
        "old price" in option["concerns"] for option in model["options"]
    )  # those of the fixtures are of 2026
    assert {option["term"] for option in model["options"]} <= {"on-demand", "reserved-1y", "no price"}
    assert {option["provider"] for option in model["options"]} <= {"aws", "gcp", None}
    assert "t4" not in {option["gpu"] for option in model["options"]}
    assert {each["gpu"]: each["reason"] for each in model["refusals"]}["t4"] == "denied by name"
    assert "term not admitted: buy" in {each["reason"] for each in model["left_out"]}


def test_regions_of_a_load_file_and_of_the_command_line_name_one_currency(run: Run, plan: Path, tmp_path: Path) -> None:
    """Germany by `allow` gave dollars alone, and by --region euros beside them."""
    stated = tmp_path / "stated.load.yaml"
    stated.write_text(SERVICE.read_text() + "allow: {regions: [de]}\n")
    rate = ("--currency", "EUR=1.25")
    ways = [("--load", stated), ("--load", SERVICE, "--region", "de")]
    answers = [run("report", plan, "--batch", "8", *way, *more) for way in ways for more in ((), rate)]
    lines = [[line for line in answer.stdout.splitlines() if "Cost per year in EUR" in line] for answer in answers]
    assert lines[:2] == lines[2:]
    assert [len(found) for found in lines] == [1] * 4


def test_terms_names_and_caps_stand_on_the_command_line(run: Run, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ("--terms", "buy", "--max-capex", "30k", "--max-power", "20kW", "--max-rack-units", "10", "-o", out)
    more = ("--certainty", "95%", "--max-price-age", "30")
    assert run("report", plan, "--batch", "8..32", "--load", SERVICE, *words, *more).exit_code == 1
    document = json.loads(out.read_text())
    assert [option["cost_usd_per_year"] is None for option in document["models"][0]["options"]] == sorted(
        option["cost_usd_per_year"] is None for option in document["models"][0]["options"]
    )  # what has no price stands last
    stated = document["demand"]["constraints"]
    assert (stated["certainty_fraction"], stated["max_price_age_days"]) == (0.95, 30)
    assert document["models"][0]["verdict"]["choice"] is None
    assert "keeps the terms and caps" in document["models"][0]["verdict"]["sentence"]
    exceeded = {option["gpu"]: option["violations"] for option in document["models"][0]["options"]}
    assert exceeded["rtx-a5000"] == ["capex 35,840 USD over the cap of 30,000 USD"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--certainty", "95"), "--certainty: '95' is not a share; write 95% or 0.95."),
        (("--certainty", "most"), "--certainty: 'most' is not a share; write 95% or 0.95."),
        (("--terms", "lease"), "--terms 'lease' is not a term; use rent, buy, both"),
        (("--deny-gpu", "t44"), "unknown GPU 't44'"),
        (("--deny-provider", "awz"), "did you mean aws"),
        (("--segment", "datacenter"), "unknown segment 'datacenter'"),
        (("--max-capex", "lots"), "--max-capex: 'lots' is not an amount"),
        (("--max-power", "20"), "--max-power"),
    ],
)
def test_bad_constraints_are_refused_in_one_sentence(
    run: Run, plan: Path, words: tuple[str, ...], message: str
) -> None:
    result = run("report", plan, "--batch", "8", "--load", SERVICE, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("terms: lease", "'lease' is not a term"),
        ("allow: {segments: [gamer]}", "unknown segment 'gamer'"),
        ("allow: {colours: [red]}", "allow.colours: unknown key"),
        ("budget: {capex: -5}", "budget.capex: -5 is not an amount; write US dollars"),
        ("site: {power: 20}", "site.power: '20' is not a power; write it with its unit"),
        ("marketplaces: maybe", "marketplaces: expected true or false, not 'maybe'"),
    ],
)
def test_bad_sections_of_a_load_file_are_refused(
    run: Run, plan: Path, tmp_path: Path, section: str, message: str
) -> None:
    load = tmp_path / "load.yaml"
    load.write_text(SERVICE.read_text() + section + "\n")
    result = run("report", plan, "--batch", "8", "--load", load)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_day_can_be_fixed(run: Run, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")  # 2026-01-01
    assert "made 2026-01-01" in run("report", plan, "--batch", "8", "--gpu", "t4").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "x.docx"), "x.docx: the extension names no format; known are .html, .pdf, .xlsx, .md, .csv, .json."),
        (("-o", "/nowhere/x.html"), "cannot write /nowhere/x.html"),
        (("--batch", "auto"), "a report compares listed batches"),
        (("--gpu", "h101"), "unknown GPU 'h101'"),
        (("--gpu", "rtx-4090"), "no GPU is left"),
        (("--batch", "7"), "no GPU is left"),
        (("--load", "missing.yaml"), "missing.yaml: cannot be read"),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(run: Run, plan: Path, words: tuple[str, ...], message: str) -> None:
    base = () if "--batch" in words else ("--batch", "8")
    result = run("report", plan, *base, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_training_purchase_needs_a_plan_of_training(run: Run, plan: Path) -> None:
    result = run("report", plan, "--batch", "8", "--load", EXAMPLES / "training.load.yaml")
    assert result.exit_code == 2
    assert "add --train" in result.stderr


def test_a_missing_library_is_named(run: Run, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    monkeypatch.delitem(sys.modules, "capplan.report.pages.pdf", raising=False)
    outputs = ("-o", tmp_path / "a.md", "-o", tmp_path / "b.pdf")
    result = run("report", plan, "--batch", "8", "--gpu", "t4", *outputs)
    assert result.exit_code == 2
    assert "capplan[report]" in result.stderr
    assert not (tmp_path / "a.md").exists()


def test_existing_files_are_kept_unless_forced(run: Run, plan: Path, tmp_path: Path) -> None:
    kept = tmp_path / "report.md"
    kept.write_text("mine")
    words = ("report", plan, "--batch", "8", "--gpu", "t4", "-o", kept)
    refused = run(*words)
    assert (refused.exit_code, kept.read_text()) == (2, "mine")
    assert "add --force" in refused.stderr
    assert run(*words, "--force").exit_code == 0
    assert kept.read_text().startswith("# GPUs for toynet")


def test_a_load_that_nothing_carries_exits_with_one(run: Run, plan: Path, tmp_path: Path) -> None:
    load = tmp_path / "fast.yaml"
    load.write_text("service:\n  peak: 100/s\n  latency: 1 ms\n")
    result = run("report", plan, "--batch", "8", "--load", load)
    assert result.exit_code == 1
    assert "No GPU carries the load with toynet." in result.stdout
    assert "exceeds 1 ms even almost idle" in result.stdout


def test_a_damaged_plan_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"fits": [{}], "model": {}, "schema_version": 1}))
    result = run("report", path, "--batch", "8")
    assert result.exit_code == 2
    assert "a damaged plan" in result.stderr


def test_check_keeps_and_fails(run: Run, plan: Path) -> None:
    # The made-up L4 takes 3 + 32 × 1.2 = 41.4 ms for 32: 773/s; a quarter longer at its bad end.
    words = ("check", plan, "--gpu", "l4", "--batch", "32")
    assert run(*words, "--utilization", "0.5", "--max-latency", "42ms", "--min-throughput", "770").exit_code == 0
    failed = run(*words, "--max-latency", "41ms")
    assert failed.exit_code == 1
    assert "FAILED" in failed.stdout
    assert run(*words, "--max-latency", "42ms", "--sure").exit_code == 1
    assert run(*words, "--max-latency", "52ms", "--sure").exit_code == 0


def test_check_as_json_keeps_its_schema(run: Run, plan: Path) -> None:
    result = run("check", plan, "--gpu", "NVIDIA L4", "--batch", "32", "--min-throughput", "1000", "--json")
    document = json.loads(result.stdout)
    jsonschema.validate(document, schema("check"))
    assert (result.exit_code, document["kept"]) == (1, False)
    assert document["outcomes"][0]["value"] == pytest.approx(32 / 0.0414)


def test_check_fails_on_a_rejected_gpu_and_refuses_what_the_plan_lacks(run: Run, plan: Path) -> None:
    rejected = run("check", plan, "--gpu", "jetson-nano-4gb", "--batch", "32", "--utilization", "0.9")
    assert rejected.exit_code == 1
    assert "rejected by memory" in rejected.stdout
    assert run("check", plan, "--gpu", "l4", "--batch", "33", "--utilization", "0.9").exit_code == 2
    assert run("check", plan, "--gpu", "l4", "--batch", "32").exit_code == 2


def test_diff_of_plans_tells_what_changed(run: Run, plan: Path, tmp_path: Path) -> None:
    other = plan_document()
    other["fits"][0]["latency_s"]["expected"] *= 2
    other["fits"][0]["status"] = "borderline"
    other["fits"].pop()
    changed = tmp_path / "other.json"
    changed.write_text(json.dumps(other))
    document = json.loads(run("diff", plan, changed, "--json").stdout)
    jsonschema.validate(document, schema("diff"))
    found = {(each["where"], each["what"]): each for each in document["changes"]}
    assert found["t4, batch 1", "latency_s"]["relative"] == pytest.approx(1.0)
    assert found["t4, batch 1", "status"]["after"] == "borderline"
    assert found["mi300x, batch 32", "status"]["after"] is None
    assert run("diff", plan, plan).stdout == "no change\n"
    assert run("diff", plan, changed, "--format", "md").stdout.startswith("| where |")


@pytest.mark.parametrize("figure", [[], {"a": 1}, float("inf"), float("nan"), 10**400])
def test_diff_refuses_what_is_not_a_figure(figure: Any, run: Run, plan: Path, tmp_path: Path) -> None:
    document = json.loads(plan.read_text())
    document["model"]["params"] = figure
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(document))
    result = run("diff", plan, changed)
    told = f"capplan: {changed} is damaged: params of model is not a figure.\n"
    assert (result.exit_code, result.stderr) == (2, told)


def test_diff_of_reports_tells_the_changed_choice(run: Run, plan: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    words = ("report", plan, "--batch", "32", "--load", SERVICE)
    assert run(*words, "--gpu", "t4", "-o", before).exit_code == 0
    assert run(*words, "--gpu", "l4", "-o", after).exit_code == 0
    result = run("diff", before, after)
    assert result.exit_code == 0
    choice = next(line for line in result.stdout.splitlines() if " choice " in line)
    assert "t4/on-demand" in choice
    assert "l4/on-demand" in choice
    assert run("diff", before, plan).exit_code == 2


@pytest.mark.parametrize("latency", ["1 ms", "50 ms"])
def test_every_format_says_that_nothing_serves_or_has_a_price(
    run: Run, plan: Path, tmp_path: Path, latency: str
) -> None:
    load = tmp_path / "load.yaml"
    load.write_text(f"service:\n  peak: 100/s\n  latency: {latency}\n")
    outputs = [tmp_path / f"report{extension}" for extension in (".html", ".pdf", ".xlsx", ".md", ".csv", ".json")]
    words = [word for path in outputs for word in ("-o", path)]
    unpriced = ("--gpu", "l4", "--provider", "azure")  # which rents none
    result = run("report", plan, "--batch", "8", "--load", load, *unpriced, *words)
    assert result.exception is None or result.exit_code == 1, result.stderr
    assert result.exit_code == (1 if latency == "1 ms" else 0)
    assert all(path.exists() for path in outputs)
    markdown = outputs[3].read_text()
    assert ("No GPU carries the load" if latency == "1 ms" else "has a price") in markdown


def test_check_leaves_a_board_what_its_system_holds(run: Run, tmp_path: Path) -> None:
    """A Jetson's GPU shares its memory with Linux, which `plan` sets aside: `check` compares with the same bytes."""
    words = ("--gpu", "jetson-nano-4gb", "--batch", "1")
    document = json.loads(run("plan", "torchvision:resnet18", *words, "--json").stdout)
    path, earlier = tmp_path / "plan.json", tmp_path / "earlier.json"
    path.write_text(json.dumps(document))
    usable = document["fits"][0]["memory"]["usable_bytes"]
    document["fits"][0]["memory"]["usable_bytes"] = None
    earlier.write_text(json.dumps(document))  # as plans of earlier releases have it
    bounds = [
        json.loads(run("check", each, *words, "--utilization", "0.5", "--json").stdout)["outcomes"][0]["bound"]
        for each in (path, earlier)
    ]
    assert usable <= 3 * 2**30  # 4 GiB less the 1 GiB that JetPack is taken to hold, and less what drivers keep
    assert bounds == [pytest.approx(0.5 * usable)] * 2
