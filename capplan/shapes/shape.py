"""Shapes: an answer is stated once, as an ordered list of figures of a value of `core` or `llm.core`.

A figure has a name with its unit, how it is read from the value, and what it means. Its type is that of the attribute
or function that it is read by. From the list are derived the document (a struct, which reads saved answers back, and
its JSON Schema), the columns of a CSV and of a table, and the flat values that a sweep's row holds.

    MEMORY = Shape("PlannedMemory", MemoryEstimate, "Peak memory of one process. [bytes]", (
        figure("total_bytes", meaning="what nvidia-smi would show", show=column("peak memory", format_bytes)),
        figure("usable_bytes", "usable!.expected"),
    ))
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from functools import cached_property, partial
from inspect import getattr_static, signature
from keyword import iskeyword
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.shapes.codec import from_plain

REQUIRED: Final = object()
"""The default of a figure that every document has."""


class View(StrEnum):
    """A table beside that of all figures: the page's, of the short answer, of pipelines, of `compare`, of reports."""

    PAGE = "page"
    ANSWER = "answer"
    PIPELINE = "pipeline"
    COMPARED = "compare"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """Where a figure stands besides its document.

    Attributes:
        csv: What a CSV has of it, in order: "expected", and of an interval "low", "high" and "bound"; "NAME=low" where
            the column's name does not follow from the figure's.
        title: Heading in tables for people; None where they lack it.
        form: Writes a value for people, with its unit; of an interval, the expected value.
        rank: Columns of the highest rank are the first to be left out on a terminal.
        unknown: What people see for None.
        in_document: False if the document lacks it.
        usual: Tables and CSVs lack the column where all rows have this value; REQUIRED if they always have it.
        if_varied: True if tables lack the column where all rows have one value.
        unsure: The values that are marked as unsure.
        is_number: True if words stand right in tables, as numbers do.
        in_sweeps: True if the rows of a sweep have it, too, as the last of their columns.
        views: How other tables show it; those that are absent lack it.
    """

    csv: tuple[str, ...] = ()
    title: str | None = None
    form: Callable[[Any], str] = str
    rank: int = 0
    unknown: str = ""
    in_document: bool = True
    usual: Any = REQUIRED
    if_varied: bool = False
    unsure: tuple[Any, ...] = ()
    is_number: bool = False
    in_sweeps: bool = False
    views: "Mapping[View, Show]" = field(default_factory=dict)

    def right(self) -> "Show":
        """Return the same for words that stand right in tables, as numbers do."""
        return replace(self, is_number=True)

    def swept(self) -> "Show":
        """Return the same for a figure that rows of sweeps have, too."""
        return replace(self, in_sweeps=True)

    def on_page(self, title: str | None = None, form: Callable[[Any], str] | None = None) -> "Show":
        """Return the same for a figure that the page's table has, too, as `seen` does for any table."""
        return self.seen(View.PAGE, title=title, form=form or self.form, unknown="unknown")

    def seen(self, *views: View, title: str | None = None, **changed: Any) -> "Show":
        """Return the same for a figure that other tables have, too; what is said of it later does not hold there.

        Args:
            views: The tables.
            title: The heading there, with {item} for what a sample is called; None for that of the table of all.
            changed: What else is otherwise there: any attribute.
        """
        shown = replace(self, title=title or self.title, **changed)
        return replace(self, views={**self.views, **dict.fromkeys(views, shown)})

    def everywhere(self) -> "Show":
        """Return the same for a figure that all tables and the rows of sweeps have."""
        return self.seen(*View).swept()

    def alone(self) -> "Show":
        """Return the same for a figure that no document has."""
        return replace(self, in_document=False)

    def where_known(self) -> "Show":
        """Return the same for a column that is left out where no row has a value."""
        return replace(self, usual=None)

    def is_left_out(self, values: Sequence[Any]) -> bool:
        """Return True if a table of these values lacks the column."""
        if self.if_varied and len(set(values)) <= 1:
            return True
        return self.usual is not REQUIRED and all(value == self.usual for value in values)


NOWHERE: Final = Show()
CSV: Final = Show(csv=("expected",))


def column(title: str, form: Callable[[Any], str] = str, *, csv: str = "", rank: int = 0, unknown: str = "") -> Show:
    """Return that a figure is a column of tables for people.

    Args:
        title: The heading.
        form: Writes a value, with its unit; of an interval, the expected value.
        csv: What a CSV has of it, such as "expected low high"; empty where it has nothing.
        rank: Columns of the highest rank are the first to be left out on a terminal.
        unknown: What people see for None.
    """
    return Show(csv=tuple(csv.split()), title=title, form=form, rank=rank, unknown=unknown)


def ends_of(name: str, middle: str = "") -> str:
    """Return what a CSV has of an interval, in columns whose names end in the end: power_w_low, power_w, power_w_high."""
    return f"{name}_low=low {name}{middle}=expected {name}_high=high"


@dataclass(frozen=True, slots=True)
class Nested:
    """A value that has a shape of its own, or several of them, and how it is read."""

    shape: "Shape"
    read: "str | Callable[..., Any] | Typed | None"


@dataclass(frozen=True, slots=True)
class Typed:
    """A function that reads a figure, and the type that it returns; `reads` makes it."""

    kind: Any
    function: Callable[..., Any]


def reads(kind: Any, function: Callable[..., Any]) -> Typed:
    """Return how a figure is read where a function without annotations does, such as a lambda.

    Args:
        kind: The type that it returns.
        function: Takes the value, or the value and the whole answer.
    """
    return Typed(kind, function)


def itself(kind: Any) -> Typed:
    """Return that a part's figures are read from the value itself, which is of a type."""
    return reads(kind, lambda value: value)


Reader = str | Callable[..., Any] | Typed | Nested | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFigure:
    """One figure of an answer; `figure` makes it."""

    name: str
    read: "str | Callable[..., Any] | Typed"
    meaning: Meta | None
    show: Show
    default: Any
    shape: "Shape | None"

    @property
    def meaning_words(self) -> str:
        """Return what it means; empty where its name says it."""
        return (self.meaning and self.meaning.description) or ""

    @property
    def field(self) -> str:
        """Return the name of its field in Python, where `class` is not a name."""
        return f"{self.name}_" if iskeyword(self.name) else self.name


def figure(
    name: str, read: "Reader | Shape" = None, meaning: str | Meta = "", show: Show = NOWHERE, default: Any = REQUIRED
) -> AnswerFigure:
    """Return a figure of an answer.

    Args:
        name: Its name in documents, with the unit.
        read: The path of attributes that leads to it ("memory.total_bytes"; "rent!.date" where `rent` is not None), a
            function of the value, or of the value and the whole answer; a shape, or `shape.at(path)`, where it has
            figures of its own. None for the attribute of its name.
        meaning: What it is, in words, or with its bounds.
        show: Where it stands besides the document.
        default: Its value in saved documents that lack it; UNSET if documents leave it out where it is None, or, of a
            reader whose type has UNSET, where that is what it returns.
    """
    shape: Shape | None = None
    if isinstance(read, Shape):
        shape, read = read, None
    elif isinstance(read, Nested):
        shape, read = read.shape, read.read
    described = meaning if isinstance(meaning, Meta) else Meta(description=meaning) if meaning else None
    path = name if read is None else read
    return AnswerFigure(name=name, read=path, meaning=described, show=show, default=default, shape=shape)


@dataclass(frozen=True)
class Shape:
    """The figures of one kind of value, in order.

    Attributes:
        name: Name of the document's type in schemas and in Python.
        of: The type of the value.
        doc: What the value is, in a sentence.
        figures: The figures.
    """

    name: str
    of: Any
    doc: str
    figures: tuple[AnswerFigure, ...]

    def at(self, read: "str | Callable[..., Any] | Typed") -> Nested:
        """Return that a figure is, or holds, values of this shape."""
        return Nested(self, read)

    @property
    def is_answer(self) -> bool:
        """Return True if it is a whole answer, which its parts read from, also where another answer holds it."""
        return any(one.name == "schema_version" for one in self.figures)

    @cached_property
    def readers(self) -> tuple["ReadFigure", ...]:
        """Return how each figure is read, with its type."""
        return tuple(_reader(self, each) for each in self.figures)

    def fields(self) -> Iterator[tuple[str, Any, bool]]:
        """Return the fields of the document: names in Python, types, and whether saved ones may lack them."""
        for reader in self.readers:
            if reader.figure.show.in_document:
                yield reader.figure.field, reader.document_hint, reader.figure.default is not REQUIRED

    def parts(self) -> "Iterator[Shape]":
        """Return the shapes that its figures have, and itself last."""
        for each in self.figures:
            if each.shape is not None:
                yield from each.shape.parts()
        yield self

    @cached_property
    def struct(self) -> type[msgspec.Struct]:
        """Return the type of the document."""
        defaults = {each.field: each.default for each in self.figures}
        fields: list[Any] = [
            (name, hint, _default(defaults[name])) if may_lack else (name, hint)
            for name, hint, may_lack in self.fields()
        ]
        renamed = {each.field: each.name for each in self.figures}
        return msgspec.defstruct(
            self.name,
            fields,
            frozen=True,
            kw_only=True,
            module=_TYPES,
            namespace={"__doc__": self.doc},
            rename=renamed,
        )

    @cached_property
    def _written(self) -> tuple[tuple[str, Callable[[Any, Any], Any]], ...]:
        return tuple(
            (reader.figure.field, reader.document) for reader in self.readers if reader.figure.show.in_document
        )

    def document(self, value: Any, whole: Any = None) -> Any:
        """Return a value as its document.

        Args:
            value: The value.
            whole: The answer that it is part of, which readers of two arguments take; None for the answer itself.
        """
        whole = value if whole is None else whole
        return self.struct(**{field: read(value, whole) for field, read in self._written})

    def read(self, plain: object, *, where: str, noun: str) -> Any:
        """Return the document that plain JSON values describe; fields that it does not know are ignored.

        Args:
            plain: What a JSON parser returned.
            where: Name of the file, which begins the error message.
            noun: What the document is called in the error message, such as "plan".
        """
        return from_plain(plain, self.struct, where=where, noun=noun)

    def flat(self, value: Any, whole: Any = None) -> dict[str, Any]:
        """Return all figures by the names of their columns, those of an interval with its ends."""
        return {one.name: one.value(value, whole) for one in self.flat_columns}

    @cached_property
    def flat_columns(self) -> tuple["FlatColumn", ...]:
        """Return a column for each figure, and for both ends and the bound of an interval."""
        return tuple(self._columns(all_ends=True))

    @cached_property
    def csv(self) -> tuple["FlatColumn", ...]:
        """Return the columns of a CSV, those of its parts in their place."""
        return tuple(self._columns(all_ends=False))

    def _columns(self, *, all_ends: bool) -> Iterator["FlatColumn"]:
        for reader in self.readers:
            one = reader.figure
            if one.shape is not None and not reader.is_interval:
                for part in one.shape._columns(all_ends=all_ends) if reader.is_single else ():
                    yield replace(part, value=_of_part(reader.value, part.value))
                continue
            ends = one.show.csv
            if all_ends:
                ends = (*_ENDS, *(("bound",) if reader.has_bound else ())) if reader.is_interval else ("expected",)
            for words in ends:
                name, _, end = words.rpartition("=")
                yield FlatColumn(
                    name=name or column_name(one.name, end),
                    value=_cell(reader, end),
                    if_known=one.show.usual is None,
                    reader=reader,
                )

    def table(self, view: View | None = None) -> Iterator["ReadFigure"]:
        """Return the figures that are columns of a table for people, those of its parts in their place.

        Args:
            view: Which table; None for that of all figures. Rows of a report's are documents.
        """
        for reader in self.readers:
            one = reader.figure
            show = one.show if view is None else one.show.views.get(view)
            value = reader.value if view is not View.REPORT else _of_document(one.field)
            if show is not None and show.title is not None:
                yield replace(reader, figure=replace(one, show=show), value=value)
            elif one.shape is not None and reader.is_single and not reader.is_interval:
                for part in one.shape.table(view):
                    yield replace(part, value=_of_part(value, part.value))


_ENDS = ("low", "expected", "high")
_TYPES = "capplan.shapes.types"
"""The module that documents are found in by their names, so that they can be pickled."""


def _default(default: Any) -> Any:
    """Return a default as a struct takes it: of a shape, a document of its defaults alone."""
    if isinstance(default, Shape):
        return default.struct()
    return default


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatColumn:
    """A column of values in base units: its name, how it is read from a value and the whole answer, and of what figure."""

    name: str
    value: Callable[[Any, Any], Any]
    reader: "ReadFigure"
    if_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFigure:
    """A figure with its type and how it is read.

    Attributes:
        figure: The figure.
        hint: The type of what is read.
        value: Reads it from a value and the whole answer.
        document: Reads it as its document holds it.
        document_hint: The type that its document holds.
        is_interval: True if it has low, expected and high.
        has_bound: True if it has a bound besides.
        is_single: True if it is one value, which may be None.
    """

    figure: AnswerFigure
    hint: Any
    value: Callable[[Any, Any], Any]
    document: Callable[[Any, Any], Any]
    document_hint: Any
    is_interval: bool
    has_bound: bool
    is_single: bool

    @property
    def is_text(self) -> bool:
        """Return True if it stands left in a table, as words do."""
        if self.figure.show.is_number:
            return False
        kinds = [kind for kind in get_args(self.hint) or (self.hint,) if kind is not NoneType]
        return all(isinstance(kind, type) and issubclass(kind, str) for kind in kinds)

    def cell(self, value: Any, whole: Any) -> str:
        """Return the text that a table for people has of it."""
        found = self.value(value, whole)
        if found is not None and self.is_interval:
            found = found.expected
        return self.figure.show.unknown if found is None else self.figure.show.form(found)


def _reader(shape: Shape, one: AnswerFigure) -> ReadFigure:
    try:
        value, hint = _reading(shape.of, one.read)
        held, convert = _as_document(hint, one.shape)
    except (KeyError, AttributeError, TypeError) as error:
        raise TypeError(f"{shape.name}.{one.name}: {error}") from error
    document = value if convert is None else _converted(value, convert)
    if one.default is UNSET and UnsetType not in get_args(hint):
        held = _without_none(held) | UnsetType
        document = _unset_for_none(document)
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType] if is_union(hint) else [hint]
    kinds = [kind.__origin__ if get_origin(kind) is Annotated else kind for kind in kinds]
    names = {name for kind in kinds if isinstance(kind, type) for name in get_type_hints(kind)}
    return ReadFigure(
        figure=one,
        hint=hint,
        value=value,
        document=document,
        document_hint=held if one.meaning is None else Annotated[held, one.meaning],
        is_interval=set(_ENDS) <= names,
        has_bound="bound" in names,
        is_single=all(get_origin(kind) is None for kind in kinds),
    )


def _reading(owner: Any, read: "str | Callable[..., Any] | Typed") -> tuple[Callable[[Any, Any], Any], Any]:
    """Return what reads a figure from a value and the whole answer, and the type of what it reads."""
    if not isinstance(read, str):
        hint, read = (read.kind, read.function) if isinstance(read, Typed) else (get_type_hints(read)["return"], read)
        return (read, hint) if len(signature(read).parameters) > 1 else (_of_value(read), hint)
    hint, may_be_none = owner, False
    for step in read.split("."):
        if is_union(hint):
            hint, may_be_none = _without_none(hint), True
        hint = _attribute_hint(hint, step.rstrip("!"))
        if step.endswith("!"):
            hint = _without_none(hint)
    path = read.replace("!", "")
    if not may_be_none:
        return _of_value(attrgetter(path)), hint
    return _none_safe(path.split(".")), hint if is_union(hint) and NoneType in get_args(hint) else hint | None


def _attribute_hint(owner: Any, name: str) -> Any:
    """Return the type of an attribute: of a field, or of what a property returns; of one of several types, of each."""
    if is_union(owner):
        return Union[tuple(_attribute_hint(kind, name) for kind in get_args(owner))]  # noqa: UP007  # of a list
    kind = get_origin(owner) or owner
    static = getattr_static(kind, name, None)
    function = static.fget if isinstance(static, property) else getattr(static, "func", None)
    if function is not None:
        return get_type_hints(function)["return"]
    hints = get_type_hints(kind)
    if name not in hints:
        raise KeyError(f"{kind.__name__} has no {name!r}")
    return hints[name]


def is_union(hint: Any) -> bool:
    """Return True if a type is one of several."""
    return get_origin(hint) in (Union, UnionType)


def _without_none(hint: Any) -> Any:
    if not is_union(hint):
        return hint
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return Union[tuple(kinds)]  # noqa: UP007  # of a list that is known when the program runs


def _of_value(read: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, _whole: read(value)


def _of_document(field: str) -> Callable[[Any, Any], Any]:
    def read(document: Any, _whole: Any) -> Any:
        found = getattr(document, field)
        return None if found is UNSET else found

    return read


def _none_safe(steps: Sequence[str]) -> Callable[[Any, Any], Any]:
    def read(value: Any, _whole: Any) -> Any:
        for step in steps:
            if value is None:
                return None
            value = getattr(value, step)
        return value

    return read


def _of_part(part: Callable[[Any, Any], Any], read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def value(whole_value: Any, whole: Any) -> Any:
        found = part(whole_value, whole)
        return None if found is None else read(found, whole)

    return value


def _converted(read: Callable[[Any, Any], Any], convert: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, whole: convert(read(value, whole), whole)


def _unset_for_none(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def value(of: Any, whole: Any) -> Any:
        found = read(of, whole)
        return UNSET if found is None else found

    return value


def _as_document(hint: Any, shape: Shape | None) -> tuple[Any, Callable[[Any, Any], Any] | None]:
    """Return the type that a document holds for a type, and what converts a value; None where it stays as it is."""
    if shape is not None and hint == shape.of:
        return shape.struct, (lambda value, _whole: shape.document(value)) if shape.is_answer else shape.document
    origin, arguments = get_origin(hint), get_args(hint)
    if is_union(hint):
        parts = [_as_document(kind, shape) for kind in arguments]
        held: Any = Union[tuple(kind for kind, _ in parts)]  # noqa: UP007  # of a list that is known when the program runs
        converts = [convert for _, convert in parts if convert is not None]
        return held, partial(_unless_none, converts[0]) if converts else None
    is_class = isinstance(origin, type)
    if is_class and issubclass(origin, Mapping):
        held, convert = _as_document(arguments[1], shape)
        return dict.__class_getitem__((arguments[0], held)), partial(_each_value, convert)
    if is_class and issubclass(origin, Sequence) and arguments[1:] in ((), (Ellipsis,)):
        held, convert = _as_document(arguments[0], shape)
        return tuple.__class_getitem__((held, ...)), partial(_each, convert)
    return hint, None


_Convert = Callable[[Any, Any], Any]


def _unless_none(convert: _Convert, value: Any, whole: Any) -> Any:
    return None if value is None else convert(value, whole)


def _each_value(convert: _Convert | None, value: Any, whole: Any) -> Any:
    return dict(value) if convert is None else {key: convert(part, whole) for key, part in value.items()}


def _each(convert: _Convert | None, value: Any, whole: Any) -> Any:
    return tuple(value) if convert is None else tuple(convert(part, whole) for part in value)


_UNIT = re.compile(r"(_per_\w+|_s|_bytes|_w)$")


def column_name(name: str, end: str) -> str:
    """Return the name of a column: "latency_low_s" for the low end of "latency_s"."""
    return name if end == "expected" else _UNIT.sub(rf"_{end}\1", name)


def _cell(reader: ReadFigure, end: str) -> Callable[[Any, Any], Any]:
    is_bytes = reader.figure.name.endswith("_bytes")

    def value(of: Any, whole: Any) -> Any:
        found = reader.value(of, whole)
        if found is None:
            return None
        if reader.is_interval:
            found = getattr(found, end)
        if isinstance(found, Enum):
            return found.value
        return round(found) if is_bytes and found is not None else found

    return value
