"""Answers as Python callers see them: a few lines in a prompt, the whole answer in a notebook, a frame for pandas.

An answer stays an instance of its own type. What it shows is laid out by the verb that gave it, as on a terminal.
"""

from collections.abc import Sequence, Sized
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from capplan.errors import UsageError
from capplan.verbs.statement.contract import Look, Verb

if TYPE_CHECKING:
    import pandas

    from capplan.report.sections import Line

REPR_LINES = 6
"""The most lines of a repr, with the one that says how many more there are."""
HTML_LINES = 150
"""The most lines of an answer in a notebook's cell, which a list of every price would fill for pages."""
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an answer is laid out from.

    Attributes:
        verb: the verb that answered.
        question: what was asked.
        whole: the answer where Python callers receive a part of it; None where they receive all.
    """

    verb: Verb[Any, Any]
    question: Any
    whole: Any = None


class Shown:
    """Mixed into the type of an answer, so that it shows itself as its verb lays it out."""

    __slots__ = ()

    def to_frame(self) -> "pandas.DataFrame":
        """Return the rows that the command writes as CSV: base units named by the columns, unknown values missing.

        Raises:
            UsageError: the answer is a text or a report, which has no rows.
        """
        import pandas

        from capplan.report.render import records

        asked: _Asked = _asked(self)
        if asked.verb.sections is None:
            raise UsageError(f"the answer of {asked.verb.path} has no rows to make a frame of; print() shows it.")
        return pandas.DataFrame(records(asked.verb.sections([_whole(self)], asked.question)))

    def __str__(self) -> str:
        from capplan.report.text.styled import plain_text

        return plain_text(_lines(self))

    def __repr__(self) -> str:
        from capplan.report.text.styled import cut_line, plain_text

        lines = [line for line in _lines(self) if any(span.text.strip() for span in line)]
        hidden = len(lines) - REPR_LINES + 1
        shown = lines if hidden <= 1 else lines[: REPR_LINES - 1]
        text = plain_text(cut_line(line, _WIDTH) for line in shown).rstrip()
        return text if hidden <= 1 else f"{text}\n… {hidden:,} more lines; print() shows them all"

    def _repr_html_(self) -> str:
        from capplan.report.sections import Span
        from capplan.report.text.styled import html_text

        lines = _lines(self)
        hidden = len(lines) - HTML_LINES
        more = [(Span(text=f"… {hidden:,} more lines; print() shows them all"),)] if hidden > 0 else []
        return html_text([*lines[:HTML_LINES], *more])

    def __eq__(self, other: object) -> bool:
        return self is other or bool(_bare(self) == (_bare(other) if isinstance(other, Shown) else other))

    def __hash__(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> Any:
        asked = _asked(self)
        return _remade, (_bare(self), asked.verb.path, asked.question, asked.whole)


def show_answer(answer: Any, verb: Verb[Any, Any], question: Any) -> Any:
    """Return what a Python caller receives: a dataclass or tuple that shows itself, anything else as it is.

    Args:
        answer: what the verb answered.
        verb: the verb.
        question: what was asked, in a form that the answer is shown for.
    """
    received = answer if verb.in_python is None else verb.in_python(answer)
    if not is_dataclass(received) and type(received) is not tuple:
        return received
    return _shown(received, _Asked(verb, question, None if received is answer else answer))


def _remade(bare: Any, path: str, question: Any, whole: Any) -> Any:
    """Return an answer that was pickled or copied."""
    from capplan.verbs.statement.registry import find_verb

    return _shown(bare, _Asked(find_verb(path), question, whole))


def _shown(received: Any, asked: _Asked) -> Any:
    kind = _shown_type(type(received), asked.verb.path)  # type: ignore[arg-type]  # mypy reads __hash__ of the instances
    answer = _copied(received, kind)
    object.__setattr__(answer, "_asked", asked)
    return answer


@cache
def _shown_type(kind: type[Any], path: str) -> type[Any]:
    """Return the type of a verb's answers that show themselves; it has the name of the type that it extends."""
    members = {"__module__": kind.__module__, "__doc__": kind.__doc__, "_path": path}
    return type(kind.__name__, (Shown, kind), members)


def _bare(answer: Shown) -> Any:
    """Return an answer in its own type."""
    return _copied(answer, type(answer).__mro__[2])


def _copied(value: Any, kind: type[Any]) -> Any:
    """Return a copy in another type with the same attributes; nothing is checked or computed again."""
    if isinstance(value, tuple):
        return tuple.__new__(kind, value)
    copy = object.__new__(kind)
    attributes = dict(getattr(value, "__dict__", {}))
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        attributes |= {name: getattr(value, name) for name in names if name[:2] != "__" and hasattr(value, name)}
    attributes.pop("_asked", None)
    for name, attribute in attributes.items():
        object.__setattr__(copy, name, attribute)
    return copy


def _asked(answer: Any) -> _Asked:
    """Return what an answer is laid out from; one that `dataclasses.replace` made has forgotten its question."""
    from capplan.verbs.statement.registry import find_verb

    if (asked := vars(answer).get("_asked")) is not None:
        return asked  # type: ignore[no-any-return]  # an instance's attributes have no types
    verb = find_verb(type(answer)._path)
    return _Asked(verb, verb.question(**{field.name: "" for field in verb.fields if field.is_required}))


def _whole(answer: Any) -> Any:
    asked = _asked(answer)
    return answer if asked.whole is None else asked.whole


def _lines(answer: Any) -> "Sequence[Line]":
    """Return the answer as a terminal shows it; a report as its Markdown, and what is only data by its attributes."""
    from capplan.report.sections import line

    asked = _asked(answer)
    shown_in = [name for name in ("table", "md") if name in asked.verb.formats]
    if not shown_in and asked.verb.text is None:
        return [line(f"{field.name}: {_summary(getattr(answer, field.name))}") for field in fields(answer)]
    look = Look(format=next(iter(shown_in), "table"), width=_WIDTH)
    try:
        question = asked.verb.settle(asked.question, look)
    except UsageError:  # it refuses a format that a command was to write, which showing an answer is not
        question = asked.question
    written = asked.verb.write([_whole(answer)], question, look)
    if isinstance(written, bytes):
        written = written.decode()
    return [line(text) for text in written.splitlines()] if isinstance(written, str) else written


def _summary(value: Any) -> str:
    """Return a value in a line; of a collection, how many it holds."""
    if isinstance(value, Sized) and not isinstance(value, str):
        return f"{len(value):,} {'entry' if len(value) == 1 else 'entries'}"
    return type(value).__name__ if is_dataclass(value) else str(value)
