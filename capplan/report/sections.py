"""Answers as documents: sections of sentences, tables and charts, which one renderer per format writes.

Every verb has a function that returns the sections of its answer, such as `plan_sections(plans)`, and nothing else that
lays it out. Whoever writes an answer, be it the command line, the service or a notebook, calls

    render(plan_sections(plans), Format.MD)                 # TABLE, MD or CSV, by `capplan.report.render`
    render(plan_sections(plans), Format.TABLE, width=80)    # laid out for a terminal of 80 characters
    records(plan_sections(plans))                           # columns of values in base units, as pandas takes them

JSON is the answer itself and not a layout: `capplan.shapes` has its types.

A `Table` has typed columns. Each says once what it shows to people (heading, format, alignment), what it is called in a
CSV, and how a row fills both. A column without a heading is for programs alone, one without a name for people alone; a
table without a column for a format is left out there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from capplan.printable import printable_line
from capplan.shapes.shape import FlatColumn, ReadFigure, Shape, View
from capplan.wording import as_options

Row = TypeVar("Row")
Value = TypeVar("Value")


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"


class Medium(StrEnum):
    """A file that a report is written as for people."""

    HTML = "html"
    PDF = "pdf"
    MD = "md"
    XLSX = "xlsx"


EVERYWHERE = frozenset(Medium)


class Align(StrEnum):
    """Where a column's cells stand; numbers stand right."""

    LEFT = "left"
    RIGHT = "right"


class Style(StrEnum):
    """What a span stands for."""

    PLAIN = "plain"
    HEADING = "heading"
    CHOSEN = "chosen"
    UNSURE = "unsure"
    FAILED = "failed"
    ASIDE = "aside"
    CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a line in one style."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]


def line(*pieces: "str | Span") -> Line:
    """Make a line of plain texts and spans; what a terminal would obey or break at is escaped."""
    spans = (piece if isinstance(piece, Span) else Span(text=piece) for piece in pieces)
    return tuple(Span(text=printable_line(span.text), style=span.style) for span in spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[Row]):
    """One column of a table; `words`, `figure` and `data` make them.

    Attributes:
        title: Heading for people; None leaves the column out for them.
        name: Heading for programs, with the unit; None leaves the column out of a CSV.
        cell: Text of a row for people.
        value: Value of a row for programs, in base units; None where it is unknown.
        align: Where the cells stand.
        rank: Columns of the highest rank are the first to be left out on a terminal.
        style: Returns the style of a row's cell, for colour; None where all are plain.
    """

    title: str | None
    name: str | None
    cell: Callable[[Row], str]
    value: Callable[[Row], object]
    align: Align = Align.LEFT
    rank: int = 0
    style: Callable[[Row], Style] | None = None


def words(
    title: str,
    value: Callable[[Row], str | None],
    *,
    name: str | None = None,
    rank: int = 0,
    unknown: str = "",
    style: Callable[[Row], Style] | None = None,
) -> Column[Row]:
    """Return a column of text."""

    def cell(row: Row) -> str:
        found = value(row)
        return unknown if found is None else found

    return Column(title=title, name=name, cell=cell, value=value, rank=rank, style=style)


def figure(
    title: str,
    value: Callable[[Row], Value | None],
    form: Callable[[Value], str] = str,
    *,
    name: str | None = None,
    rank: int = 0,
    unknown: str = "",
) -> Column[Row]:
    """Return a column of numbers, which stand right."""

    def cell(row: Row) -> str:
        found = value(row)
        return unknown if found is None else form(found)

    return Column(title=title, name=name, cell=cell, value=value, align=Align.RIGHT, rank=rank)


def data(name: str, value: Callable[[Row], object]) -> Column[Row]:
    """Return a column for programs alone."""
    return Column(title=None, name=name, cell=str, value=value)


def shape_columns(
    shape: Shape,
    rows: Sequence[Any],
    *,
    whole: Any = None,
    view: View | None = None,
    order: Sequence[str] = (),
    without: Sequence[str] = (),
    **heading: str,
) -> list[Column[Any]]:
    """Return the columns for people that a shape has.

    Args:
        shape: The shape of a row.
        rows: The rows; of a report's table, documents.
        whole: The answer that they are part of.
        view: Which table; None for that of all figures.
        order: Names of figures that stand side by side in this order, at the place of the first of them.
        without: Names of figures that are left out.
        heading: What stands in headings for {item} and the like.
    """

    def column(one: ReadFigure) -> Column[Any]:
        show = one.figure.show
        return Column(
            title=(show.title or "").format(**heading),
            name=one.figure.name if view is View.PAGE else None,
            cell=lambda row: one.cell(row, whole),
            value=lambda row: one.value(row, whole),
            align=Align.LEFT if one.is_text else Align.RIGHT,
            rank=show.rank,
            style=(lambda row: Style.UNSURE if one.value(row, whole) in show.unsure else Style.PLAIN)
            if show.unsure
            else None,
        )

    found = [
        one
        for one in shape.table(view)
        if one.figure.name not in without and not one.figure.show.is_left_out([one.value(row, whole) for row in rows])
    ]
    return [column(one) for one in _side_by_side(found, lambda one: one.figure.name, order)]


def _side_by_side(found: Sequence[Value], name: Callable[[Value], str | None], order: Sequence[str]) -> list[Value]:
    """Put those that `order` names side by side, at the place of the first of them."""
    place = next((index for index, one in enumerate(found) if name(one) in order), 0)
    named = {name(one): one for one in found}
    rest = [one for one in found if name(one) not in order]
    return [*rest[:place], *(named[each] for each in order if each in named), *rest[place:]]


def shape_data(shape: Shape, rows: Sequence[Any], *, whole: Any = None, order: Sequence[str] = ()) -> list[Column[Any]]:
    """Return the columns for programs that a shape has."""

    def value(one: FlatColumn, row: Any) -> Any:
        return one.value(*row) if whole is None else one.value(row, whole)

    def column(one: FlatColumn) -> Column[Any]:
        return data(one.name, lambda row: value(one, row))

    found = [column(one) for one in shape.csv if not one.if_known or any(value(one, row) is not None for row in rows)]
    return _side_by_side(found, lambda one: one.name, order)


def read_from(column: Column[Any], read: Callable[[Row], Any]) -> Column[Row]:
    """Return a column of other rows: of each, `read` returns the row of the column."""
    return replace(column, cell=lambda row: column.cell(read(row)), value=lambda row: column.value(read(row)))


def people(columns: Sequence[Column[Row]]) -> list[Column[Row]]:
    """Return the columns that people see."""
    return [column for column in columns if column.title is not None]


def shown_as_data(column: Column[Row]) -> Column[Row]:
    """Return a column of which a CSV has the heading and the texts that people see."""
    return replace(column, name=column.title, value=column.cell)


def plain_columns(*titles: str, numbers: Sequence[str] = (), is_data: bool = True) -> tuple[Column[Sequence[str]], ...]:
    """Return columns of rows that are texts already, where headings are known only with the answer."""

    def column(index: int, title: str) -> Column[Sequence[str]]:
        align = Align.RIGHT if title in numbers else Align.LEFT
        name = title if is_data else None
        return Column(title=title, name=name, cell=lambda row: row[index], value=lambda row: row[index], align=align)

    return tuple(column(index, title) for index, title in enumerate(titles))


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Rows of one type and the columns that show them.

    Attributes:
        columns: The columns from left to right.
        rows: What each row shows.
        caption: A line that a report sets above the table.
        is_attached: True if no empty line stands between the table and what is above it in plain text.
        most: How many rows plain text shows; None for all, as other formats do.
        only: The one format for people that has the table; None if all have.
    """

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    caption: str = ""
    is_attached: bool = False
    most: int | None = None
    only: Format | None = None


def text_of(content: str | Line) -> str:
    """Return a line without its styles; what no door has worded has the words of the command line."""
    return as_options(content if isinstance(content, str) else "".join(span.text for span in content))


def sentence(content: str) -> str:
    """Return words as a sentence: with a capital letter and a full stop."""
    return f"{content[:1].upper()}{content[1:]}."


class LineRole(StrEnum):
    """What lines are, which decides how a format marks them; the last five stand in pages alone."""

    PLAIN = "plain"
    TITLE = "title"
    ITEM = "item"
    NOTE = "note"
    LIST = "list"
    SUBJECT = "subject"
    VERDICT = "verdict"
    PART_VERDICT = "part verdict"
    WARNING = "warning"
    SMALL = "small"


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences, one a line.

    Attributes:
        texts: The lines.
        role: What they are: Markdown sets a title bold, and makes lists of items and notes; plain text marks notes
            and lists.
        is_attached: True if no empty line stands above them in plain text.
        only: The one format that has them; None if all have.
        look: Name of their style in a page, beside that of their role.
        on: The files that have them.
    """

    texts: Sequence[str | Line]
    role: LineRole = LineRole.PLAIN
    is_attached: bool = False
    only: Format | None = None
    look: str = ""
    on: frozenset[Medium] = EVERYWHERE


@dataclass(frozen=True, slots=True)
class Listing:
    """A text that stands as it is, such as a command or a file."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart as SVG, and what it shows for those who do not see it; formats of text leave it out."""

    svg: str
    shows: str


AnyTable = Table[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBlock:
    """What only a page holds; `on` are the files that have it."""

    on: frozenset[Medium] = EVERYWHERE


Block: TypeAlias = "Lines | AnyTable | Listing | Picture | PageBlock | Section"


@dataclass(frozen=True, slots=True)
class Section:
    """One part of an answer: its heading, if it has one, and what stands below.

    Attributes:
        blocks: What the section holds, in order.
        title: The heading; empty for an answer's first part.
        key: Name of the section in the addresses of a page and in file names.
        level: Level of the heading in a page, 2 or 3.
        on: The files that have the section.
        titled_on: The files that show the heading.
        entry: What a page's list of contents calls it; None leaves it out.
        look: Names of its styles in a page.
        is_live: True if the page's script works the section's figures out anew.
        is_flipped: True if it stands on sheets of its own in a PDF, wider than high.
        starts_sheet: True if it begins on a new sheet of a PDF.
        sheet: Name of the sheet of a workbook that it fills; empty where it stands with others.
    """

    blocks: "Sequence[Block]"
    title: str = ""
    key: str = ""
    level: int = 2
    on: frozenset[Medium] = EVERYWHERE
    titled_on: frozenset[Medium] = EVERYWHERE
    entry: str | None = None
    look: str = ""
    is_live: bool = False
    is_flipped: bool = False
    starts_sheet: bool = False
    sheet: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """One figure of a report's summary: what it is, its value, and its range or basis.

    `is_risky` says that the range reaches beyond what is allowed.
    """

    label: str
    figure: str
    note: str
    is_risky: bool = False
