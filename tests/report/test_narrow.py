"""Tables and sentences in narrow terminals: expected layouts are written by hand."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from capplan.report.narrow import Grid, Heading, wrapped_lines
from capplan.report.render import plain_grid
from capplan.report.sections import Align


def laid_out(content: Grid, width: int | None) -> str:
    """Return a table as it is shown on a terminal of a width."""
    return plain_grid(content, width=width)


def table(titles: str, rows: Sequence[Sequence[str]]) -> Grid:
    """Return a table from headings parted by `|`: `cost>` stands right, each `?` before it raises its rank."""
    columns = tuple(
        Heading(
            title=title.strip("?>"),
            align=Align.RIGHT if title.endswith(">") else Align.LEFT,
            rank=title.count("?"),
        )
        for title in titles.split("|")
    )
    return Grid(columns=columns, rows=tuple(map(tuple, rows)))


def test_long_texts_are_folded_between_words_before_anything_else() -> None:
    content = table(
        "part|size>|from", [("weights", "97.5 MiB", "trace of the model, replayed"), ("context", "350 MiB", "t4")]
    )
    assert laid_out(content, 39) == (
        "part         size  from\n"
        "-------  --------  -------------------\n"
        "weights  97.5 MiB  trace of the model,\n"
        "                   replayed\n"
        "context   350 MiB  t4\n"
    )


def test_headings_take_two_lines_where_their_numbers_are_short() -> None:
    content = table("GPU|USD/M samples>|max batch>", [("t4", "0.362", "895")])
    assert laid_out(content, 19) == (
        "GPU    USD/M    max\n     samples  batch\n---  -------  -----\nt4     0.362    895\n"
    )


def test_columns_stand_one_blank_apart_where_that_makes_them_fit() -> None:
    content = table("a>|b>|c>", [("1000", "2000", "3000")])
    assert laid_out(content, 14).splitlines()[2] == "1000 2000 3000"


def test_a_column_with_a_rank_is_left_out_and_named() -> None:
    content = table("GPU|???bound>|?rent>|memory>", [("t4", "44.2 ms", "0.53", "16 GiB")])
    head, _, remark = laid_out(content, 14).partition("t4   16 GiB\n")
    assert head == "GPU  memory\n---  ------\n"
    assert " ".join(remark.split()) == "Left out for want of room: bound, rent."


def test_of_two_columns_of_one_title_the_one_left_out_is_named() -> None:
    content = table("GPU|90 %>|?90 %>", [("t4", "1.00 s", "2.00 s")])
    _, _, remark = laid_out(content, 11).partition("t4   1.00 s\n")
    assert " ".join(remark.split()) == "Left out for want of room: 90 %."


def test_a_short_table_goes_on_below_with_its_first_column() -> None:
    content = table("GPU|latency>|throughput>", [("t4", "79.2 ms", "404 1/s")])
    assert laid_out(content, 14) == (
        "GPU  latency\n---  -------\nt4   79.2 ms\n\nGPU throughput\n--- ----------\nt4     404 1/s\n"
    )


def test_a_long_table_loses_its_last_columns_and_says_so() -> None:
    content = table("GPU|latency>|throughput>", [(f"g{index}", "79.2 ms", "404 1/s") for index in range(31)])
    shown = laid_out(content, 14)
    assert shown.splitlines()[2] == "g0   79.2 ms"
    _, _, remark = shown.partition("g30  79.2 ms\n")
    assert " ".join(remark.split()) == "Left out for want of room: throughput."


def test_without_a_terminal_nothing_is_folded() -> None:
    content = table("a|b", [("x", "a long text " * 30)])
    assert len(plain_grid(content).splitlines()) == 3


def test_sentences_break_between_words_and_hang() -> None:
    assert wrapped_lines("  note: one two three\nshort\n\n", 14) == "  note: one\n    two three\nshort\n\n"


CELLS = st.text(st.characters(min_codepoint=48, max_codepoint=122), min_size=1, max_size=12)
TEXTS = st.lists(CELLS, min_size=1, max_size=8).map(" ".join)


@given(rows=st.lists(st.tuples(CELLS, TEXTS, CELLS, TEXTS), min_size=1, max_size=30), width=st.integers(34, 90))
def test_every_word_of_a_short_table_is_shown_within_the_width(
    rows: list[tuple[str, str, str, str]], width: int
) -> None:
    shown = laid_out(table("name|text|number>|why", rows), width)
    assert all(len(line) <= width for line in shown.splitlines())
    assert {word for row in rows for cell in row for word in cell.split()} <= set(shown.split())
