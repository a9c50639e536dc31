"""Lines that never exceed a width, and tables that give columns up for it."""

from capplan.report.sections import Column, Span, Style, Table, figure, line, words
from capplan.report.text.styled import cut_line, plain_text, styled_table


def test_a_long_line_ends_in_an_ellipsis() -> None:
    whole = line("take ", Span(text="l4", style=Style.CHOSEN), " now")
    assert plain_text([cut_line(whole, 11)]) == "take l4 now\n"
    assert plain_text([cut_line(whole, 10)]) == "take l4 n…\n"
    assert plain_text([cut_line(whole, 6)]) == "take…\n"


def test_columns_align_and_the_least_important_go_first() -> None:
    columns: list[Column[tuple[str, str, str]]] = [
        words("GPU", lambda row: row[0]),
        figure("ms", lambda row: row[1], rank=1),
        figure("memory", lambda row: row[2], rank=2),
    ]
    table = Table(columns, [("l4", "20", "1 GiB"), ("a100", "5", "2 GiB")])
    assert plain_text(styled_table(table, width=20)) == "GPU   ms  memory\nl4    20   1 GiB\na100   5   2 GiB\n"
    assert plain_text(styled_table(table, width=15)) == "GPU   ms\nl4    20\na100   5\n"
    assert plain_text(styled_table(table, width=3)) == "GPU\nl4\na100\n"


def test_the_first_column_stays_where_none_has_a_rank() -> None:
    columns: list[Column[tuple[str, str]]] = [words("GPU", lambda row: row[0]), figure("USD/h", lambda row: row[1])]
    table = Table(columns, [("a100-sxm4-80gb", "1.20")])
    assert plain_text(styled_table(table, width=12)) == "GPU\na100-sxm4-80gb\n"


def test_a_name_cannot_break_a_line_or_move_the_cursor() -> None:
    assert plain_text([line("net\x1b[2J\nrm")]) == "net\\u001b[2J\\u000arm\n"
