"""One fleet and one amount: over random loads every format shows what the headline asks to sign."""

import csv
import io
import random
import re
import shutil
import subprocess
from pathlib import Path

import openpyxl
import pytest

from capplan.core.gpus.machines import LocalCurrency
from capplan.report.procurement import figures
from capplan.report.procurement.render import render_report
from capplan.report.procurement.types import Report
from capplan.shapes.types import OptionRow
from tests.report.procurement.made_up import made_report

pytestmark = pytest.mark.slow

near = pytest.approx
DAILY, NIGHTLY = 4, 300
CURRENCIES = (None, ("EUR", 1.16), ("GBP", 1.34), ("JPY", 0.0065))
"""Currencies that a report's cost also stands in, with their price in USD at a rate of the buyer's."""


def random_load(seed: int) -> str:
    """A load file: service, job or training, with growth, spares, hours, terms, regions, certainty and money varied."""
    draw = random.Random(seed)
    kind = ("service", "service", "job", "training")[seed % 4]
    growth = draw.choice(["0 %", "20 %", "60 %"])
    if kind == "service":
        peak = round(10 ** draw.uniform(1.5, 4), 1)
        lines = [f"peak: {peak}/s", f"mean: {peak * draw.uniform(0.2, 0.9):.1f}/s", f"growth_per_year: {growth}"]
        lines += [f"latency: {draw.choice([30, 50, 200])} ms", f"spares: {draw.randrange(3)}"]
        if draw.random() < 0.3:
            lines += [f"hours: {draw.randrange(6, 10)}-{draw.randrange(16, 23)}", "days_per_week: 5"]
        if draw.random() < 0.3:
            lines += ["availability: 99.9 %", "zones: 2"]
    else:
        deadline_h = draw.choice([4, 24, 100])
        lines = [f"samples: {round(10 ** draw.uniform(7, 10))}", f"deadline: {deadline_h} h"]
        lines += [f"runs_per_year: {draw.choice([runs for runs in (6, 52, 300) if runs * deadline_h <= 8760])}"]
        lines += [f"growth_per_year: {growth}"] if kind == "job" else ["epochs: 1"]
    if draw.random() < 0.3:
        lines.append("allow_spot: true")
    rest = [f"certainty: {draw.choice([0.5, 0.8, 0.9, 0.99])}", f"terms: {draw.choice(['rent', 'both'])}"]
    if draw.random() < 0.3:
        rest.append(f"allow: {{regions: [{draw.choice(['us', 'eu', 'europe'])}]}}")
    rest += ["assumptions:", f"  years: {draw.choice([3, 5])}", f"  discount_fraction: {draw.choice([0.03, 0.1])}"]
    return "\n".join([f"{kind}:", *(f"  {line}" for line in lines), *rest]) + "\n"


@pytest.mark.parametrize(
    "seed", [*range(DAILY), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(DAILY, NIGHTLY))]
)
def test_the_amount_of_the_headline_stands_in_every_format_and_inside_its_interval(seed: int, tmp_path: Path) -> None:
    load = tmp_path / "random.load.yaml"
    load.write_text(random_load(seed))
    currency = CURRENCIES[seed // 4 % len(CURRENCIES)]
    local = currency and LocalCurrency(code=currency[0], usd_per_unit=currency[1])
    report = made_report(load, mode="training" if seed % 4 == 3 else "inference", local=local)
    [model] = report.models
    choice = model.option(model.verdict.choice)
    if choice is None:
        _assert_nothing_is_signed(report)
        return
    amount = choice.cost_usd_per_year
    assert amount is not None
    verdict = model.verdict
    assert verdict.cost_p10_usd is not None
    assert verdict.cost_p90_usd is not None
    assert verdict.cost_p10_usd <= amount <= verdict.cost_p90_usd
    shown = f"{figures.headline_money(amount)} USD"
    assert f"{choice.gpus} × {choice.gpu_name}" in verdict.sentence
    assert shown in verdict.sentence
    assert f"{choice.gpus} × {choice.gpu_name}" in verdict.in_short
    assert shown in verdict.in_short
    _assert_every_fleet_is_sized_for_what_is_asked(report, model.options)
    _assert_in_csv_and_json(report, choice)
    _assert_in_tables(report, choice)
    _assert_in_workbook(report, choice)
    if shutil.which("pdftotext"):
        _assert_in_pdf(report, choice, tmp_path)
    if local is not None:
        own = f"{figures.headline_money(amount / local.usd_per_unit)} {local.code}"
        assert all(own in str(render_report(report, extension)) for extension in (".html", ".md"))


def _assert_nothing_is_signed(report: Report) -> None:
    """Where no option keeps what is admitted, every format has the one sentence that says so, and no amount to sign."""
    sentence = report.models[0].verdict.sentence
    assert sentence.startswith("No option for toynet")
    assert sentence in str(render_report(report, ".md"))
    assert sentence in str(render_report(report, ".html"))
    rows = csv.DictReader(io.StringIO(str(render_report(report, ".csv"))))
    assert not [row for row in rows if row["recommended"] == "True"]


def _assert_in_pdf(report: Report, choice: OptionRow, folder: Path) -> None:
    """Page one names the fleet and its amount, and the line for the signature; no page is blank."""
    content = render_report(report, ".pdf")
    assert isinstance(content, bytes)
    (folder / "report.pdf").write_bytes(content)
    done = subprocess.run(["pdftotext", str(folder / "report.pdf"), "-"], capture_output=True, check=True, text=True)
    pages = done.stdout.split("\f")[:-1]
    first = " ".join(pages[0].split())
    assert f"{choice.gpus} × {choice.gpu_name}" in first
    assert f"{figures.headline_money(choice.cost_usd_per_year)} USD" in first
    assert "Approved by" in first
    assert min(len(page.split()) for page in pages) > 10  # the foot of a page has ten words at most


def _assert_every_fleet_is_sized_for_what_is_asked(report: Report, options: tuple[OptionRow, ...]) -> None:
    share = report.demand.constraints.certainty_fraction
    for option in options:
        sure = (option.carried_fraction or 0.0) >= share - 2e-3
        assert sure or "carries the load in too few scenarios" in option.concerns, option.key
        assert option.stated_gpus <= option.gpus
        if option.cost_usd_per_year is not None:
            assert option.total_usd == near(sum(option.yearly_usd))


def _assert_in_csv_and_json(report: Report, choice: OptionRow) -> None:
    text = render_report(report, ".csv")
    assert isinstance(text, str)
    [row] = [row for row in csv.DictReader(io.StringIO(text)) if row["recommended"] == "True"]
    assert float(row["cost_usd_per_year"]) == choice.cost_usd_per_year
    assert int(row["gpus"]) == choice.gpus
    assert sum(float(row[f"yearly_usd_{year}"]) for year in range(report.demand.money.years + 1)) == near(
        choice.total_usd
    )


def _assert_in_tables(report: Report, choice: OptionRow) -> None:
    """The row that is recommended, in the table of page one, holds the headline's GPUs and its amount."""
    page, text = render_report(report, ".html"), render_report(report, ".md")
    assert isinstance(page, str)
    assert isinstance(text, str)
    amount = choice.cost_usd_per_year or 0.0
    [row] = re.findall(r"<tr><th scope=\"row\">[^<]*\(recommended\)</th>.*?</tr>", page, re.DOTALL)
    cells = re.findall(r">([^<>]*)</t[dh]>", row)
    assert figures.whole(choice.gpus) in cells
    assert any(cell and cell[0].isdigit() and _number(cell) == near(amount, abs=0.51) for cell in cells), cells
    name = figures.option_name(choice)
    rows = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    assert any(_number(cell) == near(amount, abs=0.51) for line in rows for cell in line.split("|")), rows


def _number(cell: str) -> float:
    words = cell.strip().replace(",", "")
    return float(words) if re.fullmatch(r"[\d.]+", words) else -1.0


def _assert_in_workbook(report: Report, choice: OptionRow) -> None:
    """The live block of the first sheet, as it was written, shows the headline's fleet and amounts."""
    content = render_report(report, ".xlsx")
    assert isinstance(content, bytes)
    sheet = openpyxl.load_workbook(io.BytesIO(content), data_only=True).worksheets[0]
    found = {str(row[0].value): row[1].value for row in sheet.iter_rows(max_row=40) if row[0].value and len(row) > 1}
    assert found["GPU"] == choice.gpu_name
    assert found["GPUs in the first year"] == choice.gpus
    assert found["USD per year"] == near(choice.cost_usd_per_year)


@pytest.mark.office
@pytest.mark.parametrize(
    "seed", [0, 3, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, *range(4, 24)))]
)
def test_the_workbook_worked_out_anew_gives_the_headline_untouched(seed: int, tmp_path: Path) -> None:
    from tests.report.procurement.test_report_xlsx import decision, recalculate, with_sentinels

    load = tmp_path / "random.load.yaml"
    load.write_text(random_load(seed))
    report = made_report(load, mode="training" if seed % 4 == 3 else "inference")
    [model] = report.models
    choice = model.option(model.verdict.choice)
    assert choice is not None
    content = render_report(report, ".xlsx")
    assert isinstance(content, bytes)
    shown = decision(recalculate(with_sentinels(content, {}), tmp_path))
    assert shown["GPU"] == choice.gpu_name
    assert shown["GPUs in the first year"] == choice.gpus
    assert shown["USD per year"] == near(choice.cost_usd_per_year, rel=1e-9)
