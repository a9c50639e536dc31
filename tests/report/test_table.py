import csv
import io

from capplan.report.table import render_csv, render_markdown, render_text, table

CONTENT = table("name|size>", [("a|b*<i>", "7"), ("=cmd|' /C calc'!A0", "-12")])


def test_text_aligns_numbers_right_and_cuts_nothing() -> None:
    assert render_text(CONTENT) == (
        "name                size\n------------------  ----\na|b*<i>                7\n=cmd|' /C calc'!A0   -12\n"
    )


def test_markdown_cells_are_text() -> None:
    row = render_markdown(CONTENT).splitlines()[2]
    assert row == "| a\\|b\\*&lt;i&gt; | 7 |"


def test_csv_defuses_formulas_but_keeps_numbers() -> None:
    rows = list(csv.reader(io.StringIO(render_csv(CONTENT))))
    assert rows[2] == ["'=cmd|' /C calc'!A0", "-12"]
