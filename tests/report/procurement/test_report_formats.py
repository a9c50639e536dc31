"""Every rendering says the same, and names with markup in them stay names."""

import csv
import io
import json
import re
import subprocess
from dataclasses import replace
from shutil import which

import jsonschema
import msgspec
import openpyxl
import pytest

from capplan.report.procurement.csv import render_report_csv
from capplan.report.procurement.json import report_to_json
from capplan.report.procurement.render import render_report
from capplan.report.procurement.types import Report
from capplan.report.procurement.xlsx import render_report_xlsx
from capplan.report.schemas import schema_of
from capplan.shapes.types import PlannedFit
from tests.nightly import mostly_nightly
from tests.report.procurement.made_up import figures_of, html_of, made_report, markdown_of, pdf_of, whole

pytestmark = pytest.mark.slow

near = pytest.approx
LOADS = ["image-service", "nightly-job", "training", None]
NASTY = [
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "@SUM(1)",
    "**bold** [x](http://e.x) | `c`",
    '#panic("run") $x^2$ @ref \\ *b*',
    "</script><img src=x onerror=alert(1)>",
    "a\tb\nc",
    "日本 ünï 🚀",
]
DAILY_NAMES = [NASTY[0], NASTY[1], NASTY[5]]
"""One that each format could take for its own: the page, the workbook and the PDF."""


def renamed_fit(fit: PlannedFit, name: str) -> PlannedFit:
    (_, first), *others = fit.memory.parts.items()
    memory = msgspec.structs.replace(fit.memory, parts={name: first, **dict(others)})
    return msgspec.structs.replace(fit, gpu_name=name, memory=memory)


def renamed(report: Report, name: str) -> Report:
    """The report with a name put wherever a user's words may stand."""
    models = []
    for model in report.models:
        options = tuple(
            msgspec.structs.replace(option, gpu_name=name, provider=name, price_source=name) for option in model.options
        )
        refusals = tuple(replace(refusal, gpu_name=name, reason=name) for refusal in model.refusals)
        plan = msgspec.structs.replace(
            model.plan,
            model=msgspec.structs.replace(model.plan.model, name=name, class_=name),
            fits=tuple(renamed_fit(each, name) for each in model.plan.fits),
            notes=(name,),
        )
        verdict = replace(model.verdict, sentence=name, reasons=(name,), changes_if=(name,))
        models.append(
            replace(
                model,
                options=options,
                refusals=refusals,
                planned=plan,
                made=model.made._replace(model=name),
                verdict=verdict,
            )
        )
    return replace(report, title=name, command=name, models=tuple(models))


@pytest.fixture(scope="module")
def report() -> Report:
    return made_report("image-service", names=("toynet", "other"))


@pytest.fixture(scope="module")
def usual_page(report) -> str:
    return html_of(report)


@pytest.mark.parametrize("load", mostly_nightly(LOADS, daily=["image-service", "training"]))
def test_json_keeps_its_schema(load):
    schema = schema_of("report")
    document = json.loads(json.dumps(report_to_json(made_report(load)), allow_nan=False))
    jsonschema.validate(document, schema, format_checker=jsonschema.FormatChecker())


def test_a_document_of_the_leading_options_can_be_sent_by_mail(report):
    text = str(render_report(report, ".json", everything=False))
    document, whole_document = json.loads(text), json.loads(str(render_report(report, ".json")))
    jsonschema.validate(document, schema_of("report"), format_checker=jsonschema.FormatChecker())
    assert len(text.encode()) < 1_000_000
    assert (document["is_whole"], whole_document["is_whole"]) == (False, True)
    for model, whole_model in zip(document["models"], whole_document["models"], strict=True):
        shown = {option["key"]: option for option in model["options"]}
        assert {model["verdict"]["choice"], model["verdict"]["runner_up"]} <= {*shown, None}
        assert shown == {option["key"]: option for option in whole_model["options"] if option["key"] in shown}
        assert {option["key"] for option in whole_model["options"] if option["is_leading"]} <= set(shown)
        assert {(option["gpu"], option["batch"]) for option in model["options"]} == {
            (fit["gpu"], fit["batch"]) for fit in model["plan"]["fits"]
        }


def test_all_formats_agree_to_the_last_digit(report, usual_page):
    document = report_to_json(report)
    rows = list(csv.DictReader(io.StringIO(render_report_csv(report))))
    book = openpyxl.load_workbook(io.BytesIO(render_report_xlsx(report)), data_only=True)
    page, markdown = usual_page, markdown_of(report)
    assert len(rows) == sum(len(model["options"]) for model in document["models"])
    for index, model in enumerate(document["models"], start=1):
        sheet = book[f"Options {index}"]
        heads = [cell.value for cell in sheet[3]]
        cells = [dict(zip(heads, [cell.value for cell in row], strict=True)) for row in sheet.iter_rows(min_row=4)]
        mine = [row for row in rows if row["model"] == model["name"]]
        for option, row, cell in zip(model["options"], mine, cells, strict=True):
            assert row["key"] == option["key"]
            if option["cost_usd_per_year"] is not None:
                assert float(row["cost_usd_per_year"]) == option["cost_usd_per_year"]
                assert cell["USD per year"] == near(option["cost_usd_per_year"], rel=1e-15)  # XLSX keeps 16 digits
                assert float(row["total_usd"]) == option["total_usd"]
                assert cell["USD in all"] == near(option["total_usd"], rel=1e-15)
                assert f'data-cell="year" data-value="{option["cost_usd_per_year"]}"' in page
            assert float(row["latency_expected_s"]) == option["latency_s"]["expected"]
            assert cell["latency, s"] == near(option["latency_s"]["expected"], rel=1e-15)
        assert model["verdict"]["sentence"] in markdown.replace("\\", "")
        assert model["verdict"]["sentence"] in page


def of_one(report: Report) -> Report:
    """The report on its first model alone: nine names would draw eighteen times the charts of two."""
    return replace(report, models=report.models[:1])


@pytest.mark.parametrize("name", mostly_nightly(NASTY, daily=DAILY_NAMES))
def test_a_name_stays_a_name_in_the_page(report, usual_page, name):
    page = html_of(renamed(of_one(report), name))
    assert page.count("<script") == usual_page.count("<script")
    assert "<img" not in page
    assert "<img" not in whole(page)
    assert figures_of(page)["m1"]["data"]["options"][0]["name"] == name


@pytest.mark.nightly
def test_a_name_stays_a_name_in_a_page_on_two_models(report):
    page = html_of(renamed(report, NASTY[0]))
    assert [figures_of(page)[model]["data"]["options"][0]["name"] for model in ("m1", "m2")] == [NASTY[0]] * 2


@pytest.mark.parametrize("name", mostly_nightly(NASTY, daily=DAILY_NAMES))
def test_a_name_stays_a_name_in_the_workbook(report, name):
    book = openpyxl.load_workbook(io.BytesIO(render_report_xlsx(renamed(report, name))))
    assert book["Decision"]["A1"].value == name
    formulas = [
        str(cell.value) for sheet in book for row in sheet.iter_rows() for cell in row
        if cell.data_type == "f" and "Options" not in sheet.title
    ]  # fmt: skip
    own = re.compile(r"=(0|SUM\(|INDEX\('Options|'Options)")  # those of the decision and of cash by year
    assert [formula for formula in formulas if not own.match(formula)] == []
    assert not any(cell.hyperlink for sheet in book for row in sheet.iter_rows() for cell in row)
    options = next(sheet for sheet in book if sheet.title.startswith("Options"))
    assert options["A4"].data_type == "s"


@pytest.mark.parametrize("name", mostly_nightly(NASTY, daily=DAILY_NAMES))
def test_a_name_stays_a_name_in_csv(report, name):
    rows = list(csv.DictReader(io.StringIO(render_report_csv(renamed(report, name)))))
    for cell in (value for row in rows for value in row.values()):
        if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n"):
            float(cell)  # only numbers may begin so


def column_counts(text: str) -> set[int]:
    return {len(re.split(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| ")}


@pytest.mark.parametrize("name", mostly_nightly(NASTY, daily=DAILY_NAMES))
def test_a_name_stays_a_name_in_markdown(report, name):
    text = markdown_of(renamed(report, name))
    assert "<script" not in text
    assert "<img" not in text
    assert "**bold**" not in text
    assert "[x](" not in text
    assert column_counts(text) == column_counts(markdown_of(report))  # no name adds a column


@pytest.mark.parametrize("name", mostly_nightly(NASTY, daily=DAILY_NAMES))
def test_a_name_stays_a_name_in_the_pdf(report, name, tmp_path):
    content = pdf_of(renamed(of_one(report), name))
    assert content.startswith(b"%PDF")
    if which("pdftotext"):
        (tmp_path / "r.pdf").write_bytes(content)
        text = subprocess.run(
            ["pdftotext", "-l", "1", str(tmp_path / "r.pdf"), "-"], capture_output=True, text=True, check=True
        ).stdout
        words = re.sub(r"\s+", "", name)
        if words.isascii():
            assert words in re.sub(r"\s+", "", text)


@pytest.mark.nightly
def test_the_pdf_is_the_same_every_time(report):
    assert pdf_of(report) == pdf_of(report)


def test_csv_numbers_stay_numbers():
    rows = list(csv.DictReader(io.StringIO(render_report_csv(made_report("image-service")))))
    assert all(float(row["headroom_fraction"]) > -1 for row in rows)
    assert {row["recommended"] for row in rows} == {"True", "False"}


@pytest.mark.poppler
@pytest.mark.parametrize("load", mostly_nightly(LOADS, daily=["image-service", "training"]))
def test_the_decision_fits_one_page(load, tmp_path):
    (tmp_path / "r.pdf").write_bytes(pdf_of(made_report(load)))
    pages = subprocess.run(
        ["pdftotext", str(tmp_path / "r.pdf"), "-"], capture_output=True, text=True, check=True
    ).stdout.split("\f")
    assert "The leading options" in pages[0]
    assert pages[1].startswith("All options")
    assert len(pages) - 1 <= 10  # text ends with a form feed
