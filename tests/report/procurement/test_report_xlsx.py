"""The workbook's formulas, recalculated by LibreOffice, against Python."""

import io
import re
import subprocess
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from capplan.report.procurement.figures import term_words
from capplan.report.procurement.xlsx import render_report_xlsx
from tests.nightly import mostly_nightly
from tests.report.procurement.made_up import EXAMPLES, made_report
from tests.seen import at_least
from tests.skips import find_office

pytestmark = pytest.mark.slow

near = pytest.approx

ALWAYS_RECALCULATE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="OOXMLRecalcMode" oor:op="fuse">
<value>0</value></prop></item></oor:items>"""


def rows_of(content: bytes, *, formulas: bool = False) -> list[dict]:
    sheet = openpyxl.load_workbook(io.BytesIO(content), data_only=not formulas)["Options"]
    heads = [cell.value for cell in sheet[3]]
    return [dict(zip(heads, [cell.value for cell in row], strict=True)) for row in sheet.iter_rows(min_row=4)]


def with_sentinels(content: bytes, changes: dict[str, float]) -> bytes:
    """Forget every computed value, and change some assumptions."""
    book = openpyxl.load_workbook(io.BytesIO(content))
    for row in book["Assumptions"].iter_rows(min_row=2):
        if row[0].value in changes:
            row[1].value = changes[row[0].value]
    stream = io.BytesIO()
    book.save(stream)  # openpyxl keeps no computed values
    return stream.getvalue()


def recalculate(content: bytes, folder: Path) -> bytes:
    office = find_office()
    assert office, "a test that recalculates is marked `office`"
    profile = folder / "profile" / "user"
    profile.mkdir(parents=True)
    (profile / "registrymodifications.xcu").write_text(ALWAYS_RECALCULATE)
    (folder / "in").mkdir()
    (folder / "in" / "report.xlsx").write_bytes(content)
    command = [office, f"-env:UserInstallation=file://{folder / 'profile'}", "--headless", "--convert-to", "xlsx"]
    subprocess.run(
        [*command, "--outdir", str(folder / "out"), str(folder / "in" / "report.xlsx")],
        check=True, capture_output=True, timeout=500,
    )  # fmt: skip
    return (folder / "out" / "report.xlsx").read_bytes()


def assert_agrees(rows: list[dict], options) -> None:
    assert len(rows) == len(options)
    checked = 0
    for row, option in zip(rows, options, strict=True):
        expected = {
            "GPUs, year 1": option.gpus_by_year[0],
            "servers, year 3": option.servers_by_year[2],
            "GPU-hours, year 3": option.gpu_hours_by_year[2],
            "kWh per year": option.energy_kwh_per_year,
            "USD on the first day": option.initial_usd,
            "USD in all": option.total_usd,
            "USD net present": option.present_usd,
            "USD per year": option.cost_usd_per_year,
            "USD per million samples": option.usd_per_million,
        }
        assert row["GPU"] == option.gpu_name
        for head, value in expected.items():
            if value is not None:
                assert row[head] == near(value, rel=1e-9), (option.key, head)
                checked += 1
    assert checked > 50


@pytest.mark.parametrize("load", ["image-service", "nightly-job", "training", None])
def test_computed_values_travel_with_the_formulas(load):
    report = made_report(load)
    content = render_report_xlsx(report)
    assert_agrees(rows_of(content), report.models[0].options)
    spelled = rows_of(content, formulas=True)
    priced = at_least(10, (row for row in spelled if row["term"] != "no price"))
    assert all("in_discount_fraction" in str(row["USD per year"]) for row in priced)


@pytest.mark.office
@pytest.mark.parametrize(
    "load", mostly_nightly(["image-service", "nightly-job", "training", None], daily=["image-service"])
)
def test_libreoffice_recalculates_the_same(load, tmp_path):
    report = made_report(load)
    content = recalculate(with_sentinels(render_report_xlsx(report), {}), tmp_path)
    assert_agrees(rows_of(content), report.models[0].options)


def decision(content: bytes) -> dict[str, Any]:
    sheet = openpyxl.load_workbook(io.BytesIO(content), data_only=True)["Decision"]
    return {row[0].value: row[1].value for row in sheet.iter_rows(max_row=30) if row[0].value}


def test_shaded_cells_are_those_that_formulas_take():
    book = openpyxl.load_workbook(io.BytesIO(render_report_xlsx(made_report("image-service"))))
    formulas = " ".join(str(cell.value) for row in book["Options"].iter_rows() for cell in row if cell.data_type == "f")
    names = {name: defined.attr_text for name, defined in book.defined_names.items()}
    for name, place in names.items():
        cell = book["Assumptions"][place.split("!")[1].replace("$", "")]
        is_shaded = cell.fill.fgColor.rgb == "FFFFF6D6"
        assert is_shaded == bool(re.search(rf"\b{name}\b", formulas)), name
    assert {"in_rent_price_factor", "in_purchase_price_factor", "in_usd_per_kwh", "in_peak_per_s"} <= names.keys()


LISTS = ("Options", "Estimates", "Other offers", "Prices", "Specifications")


def test_every_list_prints_on_one_page_and_nothing_is_wider_than_the_paper():
    book = openpyxl.load_workbook(io.BytesIO(render_report_xlsx(made_report("image-service"))))
    for sheet in book:
        assert sheet.page_setup.orientation == "landscape", sheet.title
        assert sheet.sheet_properties.pageSetUpPr.fitToPage, sheet.title
        assert sheet.page_setup.fitToWidth in (None, 1), sheet.title  # 1 is what a file without it means
        assert (sheet.page_setup.fitToHeight in (None, 1)) == (sheet.title in (*LISTS, "Assumptions")), sheet.title
        assert bool(sheet.print_area) == (sheet.title in LISTS), sheet.title
    assert len(book["Decision"]._charts) == 1
    assert len(book["Cash"]._charts) == 1


def test_a_long_list_says_how_much_of_it_is_printed():
    book = openpyxl.load_workbook(io.BytesIO(render_report_xlsx(made_report("image-service"))))
    sheet = book["Estimates"]  # seven GPUs at six batches and the heading
    assert sheet.max_row == 43
    last = int(sheet.print_area.rsplit("$", 1)[1])
    words = f"Estimates: the first {last} of 43 rows, the others are in the file" if last < 43 else "&A"
    assert sheet.oddFooter.center.text.replace("&A", "Estimates") == words.replace("&A", "Estimates")


def test_what_is_printed_of_the_options_is_what_a_decision_needs():
    sheet = openpyxl.load_workbook(io.BytesIO(render_report_xlsx(made_report("image-service"))))["Options"]
    area = sheet[sheet.print_area.rpartition("!")[2]]
    heads = [cell.value for cell in area[2]]
    assert heads == [
        "GPU", "term", "offer", "price of", "listed price, USD per GPU-hour or GPU", "GPUs, year 1", "GPUs, year 3",
        "latency, s", "USD on the first day", "USD per year", "USD in all", "GPUs as stated", "USD per year as stated",
        "USD per million samples", "may be recommended",
    ]  # fmt: skip
    assert len(area) == sheet.max_row


@pytest.mark.nightly
def test_models_that_share_their_load_share_the_cells_of_its_assumptions():
    book = openpyxl.load_workbook(io.BytesIO(render_report_xlsx(made_report("image-service", names=("a", "b")))))
    assert {"Options 1", "Options 2", "Cash 1", "Cash 2", "Assumptions", "Estimates", "Model"} <= set(book.sheetnames)
    assert {"in_rent_price_factor", "in_peak_per_s"} <= set(book.defined_names)
    assert not any(name.endswith(("_1", "_2")) for name in book.defined_names)
    assert any("in_peak_per_s" in str(cell.value) for cell in book["Options 2"][4])
    services = {row[0].value for row in book["Estimates"].iter_rows(min_row=2)}
    assert services == {"a", "b"}


@pytest.mark.office
def test_the_decision_follows_the_rent_factor_as_in_python(tmp_path):
    changed = tmp_path / "changed.load.yaml"
    load = (EXAMPLES / "image-service.load.yaml").read_text()
    changed.write_text(f"{load}assumptions:\n  rent_price_factor: 20\n")
    verdict = made_report(changed).models[0]
    python = verdict.option(verdict.verdict.choice)
    before = made_report("image-service").models[0]
    assert python.key != before.verdict.choice
    content = with_sentinels(render_report_xlsx(made_report("image-service")), {"Rent prices": 20})
    shown = decision(recalculate(content, tmp_path))
    assert (shown["GPU"], shown["Term"]) == (python.gpu_name, term_words(python.term))
    assert shown["USD per year"] == near(python.cost_usd_per_year, rel=1e-9)
    assert shown["USD in 3 years"] == near(python.total_usd, rel=1e-9)


CHANGED = {
    "Electricity": ("usd_per_kwh", 0.31),
    "Discount rate": ("discount_fraction", 0.0),
    "Residual value of hardware": ("residual_fraction", 0.05),
    "Power usage effectiveness": ("pue", 1.6),
    "Network adder": ("network_fraction", 0.2),
    "Server without its GPUs while they work at full load": ("power_fraction", 0.35),
    "Power of a GPU": ("card_power_factor", 0.8),
}


@pytest.mark.office
@pytest.mark.nightly
def test_changed_assumptions_move_the_totals_as_in_python(tmp_path):
    changed = tmp_path / "changed.load.yaml"
    lines = [f"  {key}: {value}" for key, value in CHANGED.values()]
    changed.write_text((EXAMPLES / "image-service.load.yaml").read_text() + "assumptions:\n" + "\n".join(lines) + "\n")
    content = with_sentinels(
        render_report_xlsx(made_report("image-service")), {label: value for label, (_, value) in CHANGED.items()}
    )
    rows = {(row["GPU"], row["term"]): row for row in rows_of(recalculate(content, tmp_path))}
    options = made_report(changed).models[0].options
    assert any(option.term == "buy" for option in options)
    for option in options:
        if option.cost_usd_per_year is not None:
            row = rows[option.gpu_name, term_words(option.term)]
            assert row["USD per year"] == near(option.cost_usd_per_year, rel=1e-9)
            assert row["USD in all"] == near(option.total_usd, rel=1e-9)
