"""Lines that never exceed a width, and tables that give columns up for it."""

from capplan.report.table import Align
from capplan.report.text.styled import Span, Style, StyledColumn, cut_line, line, plain_text, styled_table


def column(title: str, *cells: str, rank: int = 0, align: Align = Align.RIGHT) -> StyledColumn:
    return StyledColumn(title=title, cells=tuple(Span(text=cell) for cell in cells), rank=rank, align=align)


def test_a_long_line_ends_in_an_ellipsis() -> None:
    whole = line("take ", Span(text="l4", style=Style.CHOSEN), " now")
    assert plain_text([cut_line(whole, 11)]) == "take l4 now\n"
    assert plain_text([cut_line(whole, 10)]) == "take l4 n…\n"
    assert plain_text([cut_line(whole, 6)]) == "take…\n"


def test_columns_align_and_the_least_important_go_first() -> None:
    columns = [
        column("GPU", "l4", "a100", align=Align.LEFT),
        column("ms", "20", "5", rank=1),
        column("memory", "1 GiB", "2 GiB", rank=2),
    ]
    assert plain_text(styled_table(columns, width=20)) == "GPU   ms  memory\nl4    20   1 GiB\na100   5   2 GiB\n"
    assert plain_text(styled_table(columns, width=15)) == "GPU   ms\nl4    20\na100   5\n"
    assert plain_text(styled_table(columns, width=3)) == "GPU\nl4\na100\n"


def test_a_name_cannot_break_a_line_or_move_the_cursor() -> None:
    assert plain_text([line("net\x1b[2J\nrm")]) == "net\\u001b[2J\\u000arm\n"
