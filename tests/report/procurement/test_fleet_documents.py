"""A report of several services: one decision, signed once, and every service with its own demand in every format."""

import csv
import io
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from capplan.app.procurement.build import Market, build_fleet_report
from capplan.core.economics.constraints import ReportLoad
from capplan.core.economics.fleet import Owned
from capplan.report.procurement.checks import checks_table
from capplan.report.procurement.csv import render_report_csv
from capplan.report.procurement.figures import offer
from capplan.report.procurement.json import report_to_json
from capplan.report.procurement.types import Report
from capplan.shapes.plan import read_plan
from capplan.shapes.saved import compare_documents
from capplan.specs import load_gpus
from capplan.specs.load import read_load_file
from capplan.specs.prices import load_prices
from capplan.verbs.constraints import admitting_as_stated
from tests.nightly import mostly_nightly
from tests.report.procurement.made_up import (
    CIRCUMSTANCES,
    EXAMPLES,
    html_of,
    made_report,
    markdown_of,
    pdf_of,
    plan_document,
)
from tests.report.procurement.test_report_html import drive
from tests.seen import at_least

pytestmark = pytest.mark.slow

near = pytest.approx


def fleet_report(*, owned: int = 0) -> Report:
    """The three services of the example on made-up speeds, with some A100 that are owned already."""
    gpus = load_gpus()
    prices = load_prices(gpus)
    stated = admitting_as_stated(read_load_file(EXAMPLES / "three-services.load.yaml"), shown="load")
    services = [(load, read_plan(plan_document(f"net{place}"), where="net")) for place, load in enumerate(stated.loads)]
    return build_fleet_report(
        services,
        market=Market(gpus=gpus, rents=prices.hourly, purchases=prices.purchase),
        inventory=[Owned(gpu="a100-sxm4-80gb", count=owned)] if owned else [],
        circumstances=CIRCUMSTANCES,
    )


@pytest.fixture(scope="module")
def report() -> Report:
    return fleet_report()


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return html_of(report)


def section(page: str, name: str) -> str:
    """The page's part on one service."""
    whole = page.split(f'<section id="{name}" data-model', 1)[1]
    return re.split(r'<section id="(?:m\d+|assumptions)"', whole, maxsplit=1)[0]


def demand(report: Report, place: int) -> ReportLoad:
    stated = report.models[place].demand
    assert stated is not None
    return stated


def test_only_the_fleet_is_signed_for(report: Report, page: str) -> None:
    assert page.count('class="approve"') == 1
    assert page.index('class="approve"') < page.index("data-model")
    for model in report.models:
        assert model.verdict.sentence.startswith(f"On a fleet of its own, {model.service} would ")
    assert not re.search(r"<h2[^>]*>(Rent|Buy) [^<]*</h2>", page.split("data-model", 1)[1])


@pytest.mark.poppler
def test_the_signature_of_the_pdf_stands_on_page_one(report: Report, tmp_path: Path) -> None:
    (tmp_path / "r.pdf").write_bytes(pdf_of(report))
    pages = subprocess.run(
        ["pdftotext", str(tmp_path / "r.pdf"), "-"], capture_output=True, text=True, check=True
    ).stdout.split("\f")[:-1]
    assert ["Approved by" in words for words in pages] == [True] + [False] * (len(pages) - 1)
    assert len(pages) <= 12


def chosen(report: Report) -> tuple[Any, Any, Any]:
    """Return the fleet of all services, its choice, and that option as the first service alone has it."""
    fleet = report.fleet
    assert fleet is not None
    choice = fleet.option(fleet.choice)
    assert choice is not None
    alone = report.models[0].option(choice.key)
    assert alone is not None
    return fleet, choice, alone


def test_the_decision_for_all_services_names_what_is_ordered(report: Report) -> None:
    """It named a GPU alone: neither provider nor machine nor region nor term could be ordered from it."""
    fleet, _, alone = chosen(report)
    asked = at_least(2, [word for word in (alone.provider, alone.instance, alone.region) if word])
    assert [word for word in asked if word not in fleet.sentence] == []


@pytest.mark.poppler
def test_no_letters_of_a_table_or_tile_are_below_seven_points(tmp_path: Path) -> None:
    """Tables of many columns were set in 6.25 pt, tiles in 6.6 pt and commands in 6 pt."""
    (tmp_path / "r.pdf").write_bytes(pdf_of(made_report("image-service")))
    words = ["pdftohtml", "-xml", "-stdout", "-i", "-zoom", "3", str(tmp_path / "r.pdf")]  # three pixels a point
    read = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    sizes = {font: int(size) for font, size in re.findall(r'<fontspec id="(\d+)" size="(\d+)"', read)}
    small: list[str] = []
    sheets = at_least(3, read.split("<page ")[1:])
    for sheet in sheets:
        if not re.search(r"<b>(Charts|Roofline)</b>", sheet):  # drawings have letters of their own
            texts = re.findall(r'<text [^>]*font="(\d+)">(.*)</text>', sheet)
            small += [text for font, text in texts if sizes[font] < 21]
    assert small == []


def test_what_is_to_be_checked_is_the_fleet_not_one_service(report: Report) -> None:
    _, choice, alone = chosen(report)
    machines = -(-choice.added_by_year[0] // alone.server_slots)
    table = checks_table(report)
    assert table is not None
    whats = [row[1] for row in table.rows]
    assert [what for what in whats if what.startswith("quota")] == [f"quota for {machines} × {offer(alone)}"]
    assert "samples, runs a year and growth of the job, its deadline" in whats, "the nightly job is a service, too"


def test_no_price_and_no_quota_is_to_be_checked_where_what_is_owned_suffices(report: Report) -> None:
    assert report.fleet is not None
    kept = tuple(structs.replace(option, added_by_year=(0, 0, 0)) for option in report.fleet.options)
    table = checks_table(replace(report, fleet=replace(report.fleet, options=kept)))
    assert table is not None
    assert not {"procurement", "operations"} & {row[0] for row in table.rows}, "no price, no quota, no site to ask for"


def test_a_difference_of_two_fleets_names_the_service_and_the_fleet(report: Report) -> None:
    before, after = (json.loads(json.dumps(report_to_json(report), default=str)) for _ in range(2))
    # Two services may run one model: what changes of the second is not taken for the first's.
    for document in (before, after):
        for model in document["models"]:
            model["name"] = "net"
    after["models"][1]["demand"]["load"]["peak_per_s"] *= 2
    after["models"][1]["options"][0]["gpus"] += 1
    after["fleet"]["choice"] = "other"
    changes = compare_documents(before, after, names=("a", "b"))
    service, key = report.models[1].service, report.models[1].options[0].key
    assert [(change.where, change.what) for change in changes] == [
        ("fleet", "choice"), (f"{service}: load", "peak_per_s"), (f"{service}: net, {key}", "gpus"),
    ]  # fmt: skip


def test_every_calculator_starts_from_its_own_service(report: Report, page: str) -> None:
    # the file states 20 % growth and one spare for images, 30 % and one for embeddings, nothing for the nightly job
    stated = [("20", "1"), ("30", "1"), ("0", "0")]
    for place, (growth, spares) in enumerate(stated, start=1):
        form = section(page, f"m{place}").split("</form>", 1)[0]
        assert f'name="growth" value="{growth}"' in form
        assert f'name="spares" value="{spares}"' in form
    assert "Latency" not in section(page, "m3").split("<thead>", 1)[1].split("</thead>", 1)[0].split("leading", 1)[0]
    assert '<button type="button">Finishes in</button>' in section(page, "m3")


@pytest.mark.browser
@pytest.mark.parametrize("place", mostly_nightly([0, 1, 2], daily=[1]))
def test_the_page_repeats_every_service_s_own_figures(report: Report, page: str, place: int, tmp_path: Path) -> None:
    model = report.models[place]
    # the driver reads the first part of a page: the parts before the service's are taken out
    parts = re.split(r'(?=<section id="m\d" data-model)', page)
    driven = drive(parts[0] + "".join(parts[place + 1 :]), [], tmp_path)
    checked = 0
    for option in model.options:
        if option.cost_usd_per_year is not None:
            cells = driven["seen"][0][option.key]
            assert float(cells["year"]["value"]) == near(option.cost_usd_per_year, rel=1e-9)
            assert float(cells["total"]["value"]) == near(option.total_usd, rel=1e-9)
            checked += 1
    assert checked > 5


def test_assumptions_in_which_services_differ_stand_once_for_each(report: Report, page: str) -> None:
    shown = page.split('<section id="assumptions"', 1)[1]
    markdown = markdown_of(report).split("## Assumptions", 1)[1]
    for words in (shown, markdown.replace("\\", "")):
        for label in ("Growth of the load (images)", "Growth of the load (embeddings)", "Growth of the load (nightly)"):
            assert label in words
        assert words.count("Power usage effectiveness") == 1
    assert demand(report, 1).load.growth_per_year_fraction == 0.3


def test_csv_names_fleets_and_services_and_recommends_once(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(render_report_csv(report))))
    fleets = [row for row in rows if row["fleet"] == "True"]
    assert report.fleet is not None
    assert [row["key"] for row in fleets] == [option.key for option in report.fleet.options]
    (recommended,) = (row for row in rows if row["recommended"] == "True")
    assert (recommended["fleet"], recommended["key"]) == ("True", report.fleet.choice)
    assert float(recommended["cost_usd_per_year"]) == near(report.fleet.option(report.fleet.choice).cost_usd_per_year)  # type: ignore[union-attr]
    alone = {row["service"]: row["key"] for row in rows if row["best_alone"] == "True"}
    assert alone == {model.service: model.verdict.choice for model in report.models}
    assert {row["model"] for row in rows if row["service"] == "nightly"} == {"net2"}
    assert not any(cell.startswith(("(", "[")) and "," in cell for row in rows for cell in row.values())
    assert float(recommended["yearly_usd_0"]) + float(recommended["yearly_usd_1"]) > 0


def test_page_one_says_what_a_signature_binds_to(report: Report, page: str) -> None:
    fleet = report.fleet
    assert fleet is not None
    chosen = fleet.option(fleet.choice)
    assert chosen is not None
    assert chosen.present_usd is not None
    head = page.split("data-model", 1)[0]
    # net present cost: each year's outlay over 1.08 to its year
    present = sum(paid / 1.08**year for year, paid in enumerate(chosen.yearly_usd))
    assert chosen.present_usd == near(present, rel=1e-9)
    for label in ("Cost per year", "Total over 3 years", "net present cost", "GPUs"):
        assert label in head
    assert json.loads(json.dumps(report_to_json(report)))["fleet"]["choice"] == fleet.choice


def test_a_fleet_that_is_owned_binds_to_nothing() -> None:
    page = html_of(fleet_report(owned=16))
    assert "what is owned suffices" in page.split("data-model", 1)[0]
