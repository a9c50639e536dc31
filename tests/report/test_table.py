import csv
import io

import pytest

from capplan.report.render import csv_text, records, render
from capplan.report.sections import Column, Format, LineRole, Lines, Section, Table, data, figure, words

ROWS = [("a|b*<i>", "7"), ("=cmd|' /C calc'!A0", "-12")]
COLUMNS: list[Column[tuple[str, str]]] = [
    words("name", lambda row: row[0], name="name"),
    figure("size", lambda row: row[1], name="size"),
]
CONTENT = [Section([Table(COLUMNS, ROWS)])]


def test_text_aligns_numbers_right_and_cuts_nothing() -> None:
    assert render(CONTENT, Format.TABLE) == (
        "name                size\n------------------  ----\na|b*<i>                7\n=cmd|' /C calc'!A0   -12\n"
    )


def test_markdown_cells_are_text() -> None:
    row = render(CONTENT, Format.MD).splitlines()[2]
    assert row == "| a\\|b\\*&lt;i&gt; | 7 |"


def test_csv_defuses_formulas_but_keeps_numbers() -> None:
    rows = list(csv.reader(io.StringIO(render(CONTENT, Format.CSV))))
    assert rows[2] == ["'=cmd|' /C calc'!A0", "-12"]


def test_columns_without_a_name_or_a_heading_are_for_people_or_programs_alone() -> None:
    columns: list[Column[tuple[str, float]]] = [
        words("GPU", lambda row: row[0], name="gpu"),
        figure("latency", lambda row: row[1], lambda time_s: f"{1e3 * time_s:.1f} ms"),
        data("latency_s", lambda row: row[1]),
    ]
    table = Table(columns, [("l4", 0.0125)])
    assert render([Section([table])], Format.TABLE) == "GPU  latency\n---  -------\nl4   12.5 ms\n"
    assert render([Section([table])], Format.CSV) == "gpu,latency_s\nl4,0.0125\n"


def test_tables_of_one_csv_are_matched_by_the_names_of_their_columns() -> None:
    fits_columns: list[Column[str]] = [data("gpu", str), data("batch", len)]
    other_columns: list[Column[str]] = [data("why", lambda row: f"{row} is full"), data("gpu", str)]
    fits, others = Table(fits_columns, ["l4"]), Table(other_columns, ["t4"])
    assert render([Section([fits, others])], Format.CSV) == "gpu,batch,why\nl4,2,\nt4,,t4 is full\n"
    assert records([Section([fits, others])]) == {"gpu": ["l4", "t4"], "batch": [2, None], "why": [None, "t4 is full"]}


def test_parts_stand_apart_unless_they_are_attached() -> None:
    found = [
        Section([Lines(["one"], role=LineRole.TITLE), Lines(["a", "b"], role=LineRole.ITEM, is_attached=True)]),
        Section([Lines(["c"], role=LineRole.NOTE)], title="two"),
        Section([Lines(["only in a terminal"], only=Format.TABLE)]),
    ]
    assert render(found, Format.TABLE) == "one\na\nb\n\ntwo\n\n  · c\n\nonly in a terminal\n"
    assert render(found, Format.MD) == "**one**\n\n- a\n- b\n\n### two\n\n- c\n"


@pytest.mark.parametrize(
    ("cell", "said"), [(" =1+1", "' =1+1"), ("\uff1d1+1", "'\uff1d1+1"), ("\uff20SUM(A1)", "'\uff20SUM(A1)")]
)
def test_csv_defuses_what_spreadsheets_trim_or_widen(cell: str, said: str) -> None:
    """A leading blank is trimmed by some spreadsheets, and a full-width sign is read as the plain one."""
    assert list(csv.reader(io.StringIO(csv_text(["name"], [[cell]]))))[1] == [f"'{cell}"]


def test_a_name_makes_no_link_in_markdown() -> None:
    lines = Lines(["[x](javascript:alert(1)) runs in [1.0, 2.0] ms"], role=LineRole.TITLE)
    assert render([Section([lines])], Format.MD) == "**[x\\](javascript:alert(1)) runs in [1.0, 2.0] ms**\n"
