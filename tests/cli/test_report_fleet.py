"""Several services on one fleet, and owned GPUs, from the load file to every format."""

import json
from pathlib import Path

import jsonschema
import openpyxl
import pytest

from tests.cli.conftest import Run
from tests.report.procurement.made_up import plan_document

pytestmark = pytest.mark.slow

SERVICES = """
services:
  - {name: images, model: a.plan.json, service: {peak: 500/s, latency: 50 ms, growth_per_year: 20 %}}
  - {name: texts, model: b.plan.json, service: {peak: 120/s, latency: 80 ms}}
  - {name: nightly, model: a.plan.json, job: {samples: 1M, deadline: 6 h}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / f"{name}.plan.json").write_text(json.dumps(plan_document(f"net-{name}")))
    (tmp_path / "load.yaml").write_text(SERVICES)
    return tmp_path


@pytest.mark.nightly
def test_services_share_one_fleet_in_every_format(run: Run, folder: Path) -> None:
    outputs = [folder / f"r{extension}" for extension in (".html", ".pdf", ".xlsx", ".md", ".csv", ".json")]
    words = [word for path in outputs for word in ("-o", path)]
    result = run("report", "--batch", "1..32", "--load", folder / "load.yaml", *words)
    assert result.exit_code == 0, result.stderr
    document = json.loads(outputs[-1].read_text())
    schema = json.loads(run("schema", "report").stdout)
    jsonschema.validate(document, schema)
    fleet = document["fleet"]
    assert fleet["services"] == ["images", "texts", "nightly"]
    assert [model["service"] for model in document["models"]] == fleet["services"]
    assert [model["demand"]["load"]["kind"] for model in document["models"]] == ["service", "service", "job"]
    chosen = next(option for option in fleet["options"] if option["key"] == fleet["choice"])
    placed = {each["service"] for members in chosen["shared"] for each in members} | set(chosen["whole"])
    assert placed == set(fleet["services"])
    assert chosen["needed"] == sum(chosen["whole"].values()) + len(chosen["shared"])
    assert fleet["sentence"] in outputs[3].read_text().replace("\\", "")
    assert fleet["sentence"] in outputs[0].read_text()
    assert_services_share_a_workbook(outputs[2])


def assert_services_share_a_workbook(path: Path) -> None:
    """What the services have in common stands in one cell, what differs in one for each; each begins a page."""
    book = openpyxl.load_workbook(path)
    labels = {row[0].value: row[1].value for row in book["Assumptions"].iter_rows(min_row=2) if row[0].value}
    assert labels["Peak today, samples per second: images"] == 500
    assert labels["Peak today, samples per second: texts"] == 120
    assert labels[
        "Rate that keeps the deadline with the start-up as stated, samples per second: nightly"
    ] == pytest.approx(1e6 / (6 * 3600 - 300))
    assert "in_rent_price_factor" in book.defined_names
    assert {f"in_peak_per_s_{index}" for index in (1, 2, 3)} <= set(book.defined_names)
    assert len(book["Decision"].row_breaks.brk) == 4  # before each of three services, and before their operation
    assert [name for name in book.sheetnames if name.startswith(("Estimates", "Model", "Other"))] == [
        "Estimates", "Model", "Other offers",
    ]  # fmt: skip


def test_owned_gpus_are_used_first(run: Run, folder: Path) -> None:
    load, out = folder / "load.yaml", folder / "r.json"
    load.write_text(SERVICES + "inventory:\n  - {gpu: H100 SXM5 80GB, count: 16}\n")
    assert run("report", "--batch", "1..32", "--load", load, "-o", out).exit_code == 0
    fleet = json.loads(out.read_text())["fleet"]
    [owned] = fleet["inventory"]
    assert (owned["gpu"], owned["count"]) == ("h100-sxm5-80gb", 16)
    assert owned["services"]
    assert owned["load_factor"] > 1
    assert "nothing has to be bought or rented" in fleet["sentence"]


def test_an_inventory_stands_beside_a_single_load(run: Run, folder: Path) -> None:
    load, out = folder / "one.yaml", folder / "r.json"
    load.write_text("service: {peak: 500/s, latency: 50 ms}\ninventory:\n  - {gpu: l4, count: 1}\n")
    assert run("report", folder / "a.plan.json", "--batch", "1..32", "--load", load, "-o", out).exit_code == 0
    assert json.loads(out.read_text())["fleet"]["services"] == ["net-a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: []\n", "services: must be a list"),
        ("services: [{name: a, service: {peak: 5/s, latency: 1 s}}]\n", "services[0].model: is missing"),
        ("services: [{name: a, model: a.plan.json}]\n", "must hold exactly one of service, job"),
        (SERVICES.replace("texts", "images"), "'images' stands twice"),
        (SERVICES + "inventory: [{gpu: l4, count: 0}]\n", "inventory[0].count: must be a whole number"),
        (SERVICES + "inventory: [{gpu: l44, count: 1}]\n", "unknown GPU 'l44'"),
        (SERVICES + "inventory: [{gpu: l4, count: 1}, {gpu: NVIDIA L4, count: 2}]\n", "l4 is stated 2 times"),
        (SERVICES + "assumptions: {rent_price_factor: 0}\n", "rent_price_factor: 0 leaves no price"),
    ],
)
def test_bad_fleets_are_refused(run: Run, folder: Path, text: str, message: str) -> None:
    (folder / "load.yaml").write_text(text)
    result = run("report", "--batch", "1..32", "--load", folder / "load.yaml")
    assert result.exit_code == 2
    assert message in result.stderr


def test_models_stand_in_one_place(run: Run, folder: Path) -> None:
    both = run("report", folder / "a.plan.json", "--batch", "8", "--load", folder / "load.yaml")
    assert (both.exit_code, "name no model on the command line" in both.stderr) == (2, True)
    none = run("report", "--batch", "8")
    assert (none.exit_code, "name a model" in none.stderr) == (2, True)
