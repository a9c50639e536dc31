"""What a verb is: a question with typed fields, the function that answers it, and the formats of its answer.

A verb is one module of this folder. Its question is a frozen dataclass whose fields are in base units and enumerations;
each field's annotation holds an `Option`, which says how people write the field, and a `msgspec.Meta` with its bounds.
Nothing else declares the name, help, bounds or default of an option: the command line, the Python function, the HTTP
route, the configuration file, the sweep file and the page read them from here.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from capplan.app.feedback import SILENCE, Feedback
from capplan.errors import UsageError
from capplan.verbs.statement.fields import GpuFields, ModelFields
from capplan.verbs.statement.options import Door, Field, fields_of
from capplan.wording import WordOf, worded_fields

if TYPE_CHECKING:
    from pathlib import Path

    from capplan.app.feedback import Watcher
    from capplan.app.gpu_choice import GpuRequest
    from capplan.app.models import ModelSource
    from capplan.report.sections import Line, Section
    from capplan.specs import Gpus
    from capplan.specs.prices import Prices

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Context(ABC):
    """What a question is answered from: how models and GPUs that it names are found at this door.

    The command line and Python find files and packages of this machine; a service finds what it holds.
    """

    feedback: Feedback = SILENCE

    @abstractmethod
    def model(self, question: ModelFields) -> "ModelSource":
        """Return the model that a question names."""

    def watcher(self, choice: str) -> "Watcher":
        """Return what shows the progress of a sweep."""
        from capplan.app.feedback import Watcher

        del choice
        return Watcher()

    def held(self, words: str) -> Any:
        """Return the object of this process that words stand for, or the words themselves."""
        return words

    @abstractmethod
    def command(self, verb: "Verb[Any, Any]", question: Any) -> str:
        """Return the command that asks a question, as a report prints it."""

    def names_gpus(self, question: GpuFields) -> bool:
        """Return True if a question is about some GPUs, not about all of the database."""
        return question.narrows

    @abstractmethod
    def gpus(self, question: GpuFields) -> "GpuRequest":
        """Return the request for the GPUs that a question names."""

    @abstractmethod
    def gpu_database(self, specs: "Sequence[Path]" = ()) -> "Gpus":
        """Return the GPUs that are known here."""

    @abstractmethod
    def price_list(self, specs: "Sequence[Path]" = ()) -> "Prices":
        """Return the prices that are known here."""

    def pipeline_words(self, words: str) -> str:
        """Return the words that name a pipeline, where they may be looked up here."""
        return words

    @abstractmethod
    def language_model(self, words: str) -> str:
        """Return the words that name a language model, where they may be looked up here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How an answer is laid out.

    Attributes:
        format: table, json, csv, md, html, pdf or xlsx.
        width: characters in a line of a short answer.
        table_width: the room of a terminal, which tables are fitted to; None leaves lines whole. [characters]
    """

    format: str = "table"
    width: int = 100
    table_width: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What ends an answer: the exit code of a command, and what it warns of."""

    exit_code: int = 0
    warnings: tuple[str, ...] = ()


def outcome_of_judged(judged: Sequence[object], cautions: Sequence[str] = ()) -> Outcome:
    """Return what ends a validation: one that judged nothing ends as a wrong question does."""
    if judged:
        return Outcome(warnings=tuple(cautions))
    sentence = "capplan: no row could be predicted; see the skipped rows."
    return Outcome(exit_code=UsageError.exit_code, warnings=(*cautions, sentence))


class Effort(StrEnum):
    """How long an answer takes: a list needs no model, a search or a report takes seconds."""

    SHORT = "short"
    ORDINARY = "ordinary"
    LONG = "long"


Layout = Callable[[Sequence[Any], Any], Any]
"""Lays answers to a question out: as sections, as a document, or as files."""


def laid_out_by(
    path: str, *, part: str = "", of_all: bool = False, others: Mapping[str, Layout] = MappingProxyType({}),
    **asked: str,
) -> Layout:  # fmt: skip
    """Return a function that lays an answer out by a function of `report`, imported when the first one is laid out."""

    def lay_out(answers: Sequence[Any], question: Any) -> Any:
        answer = answers[0]
        if (other := others.get(type(answer).__name__)) is not None:
            return other(answers, question)
        options = {parameter: getattr(question, field) for parameter, field in asked.items()}
        parts = [getattr(answer, name) for name in part.split(",")] if part else [answers if of_all else answer]
        made = _imported(path)
        return getattr(made, "document", made)(*parts, **options)

    return lay_out


def drawn_by(*, part: str = "", others: Mapping[str, Layout] = MappingProxyType({}), **charts: str) -> Layout:
    """Return a function that draws an answer into the files that a question names."""

    def draw(answers: Sequence[Any], question: Any) -> "Mapping[Path, bytes]":
        from capplan.report.charts.picture import picture

        answer, files = answers[0], {}
        if (other := others.get(type(answer).__name__)) is not None:
            drawn: Mapping[Path, bytes] = other(answers, question)
            return drawn
        named = ((getattr(question, field), chart) for field, chart in charts.items())
        for path, chart in ((path, chart) for path, chart in named if path is not None):
            drawn = getattr(answer, part) if part else answer
            if drawn is not None and (drawing := _imported(chart)(drawn)) is not None:
                files[path] = picture(drawing, suffix=path.suffix)
        return files

    return draw


def report_files(write: Callable[..., str | bytes]) -> "dict[str, Callable[[Sequence[Any], Any], str | bytes]]":
    """Return the files of a report by their formats; `write` takes the answers, the question and the extension."""
    return {name: partial(write, extension=f".{name}") for name in ("html", "pdf", "xlsx", "md", "csv", "json")}


def _imported(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def ids_as_text(question: Any, look: Look) -> Any:
    """Return a question whose field `ids` asks for names alone, which are plain text."""
    if question.ids and look.format != "table":
        raise UsageError(f"⟨ids⟩ prints names alone, one per line; leave out ⟨ids⟩ or the format {look.format}.")
    return question


def to_json(document: object) -> str:
    """Format a document as indented JSON; NaN and infinity are bugs."""
    from capplan.shapes.codec import to_plain

    return json.dumps(to_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def worded_answer(answer: Answer, word_of: WordOf) -> Answer:
    """Return an answer whose notes, reasons and advice name fields by a door's words."""
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.trace.types import Recording

    made: Answer = worded_fields(answer, word_of, skipped=(GpuSpec, Recording))
    return made


TEXT_FORMATS = ("table", "csv", "md")
"""The formats that sections are written in by `capplan.report.render`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb(Generic[Question, Answer]):
    """A question that capplan answers.

    Attributes:
        path: the command's words, such as "plan" or "llm plan".
        question: the dataclass of its fields.
        summary: help: what the verb does, in a sentence or two.
        take_it: when to ask this question rather than its neighbours, for assistants.
        fails_if: what ends the command with exit code 1.
        verdict: the keys of the document that hold the verdict, which an answer that is cut short keeps before others.
        examples: commands that can be copied.
        answer: answers a question from what a door provides.
        sections: lays answers out, one for each model asked about; they are written as table, Markdown and CSV.
        document: the answers as JSON holds them: structs, or plain values.
        lines: the short answer in colours; None, or where it returns None, the table stands for it.
        text: the answer as one text of a format of its own, such as a calibration file; it then has no other format.
        files_in: further formats by name (html, pdf, xlsx), each with the function that writes it.
        outcome: the exit code and warnings that answers end with.
        takes_several: the command line takes several models, each of which is asked about alone.
        finalize: returns the question with what the format decides, before anything is worked out, or refuses it.
        files: the files besides the answer that a command writes, such as plots, with their contents.
        for_service: puts the contents of files in the place of their names, for a service that cannot read them.
        schema: the JSON Schema of the answer's document.
        in_python: what a Python caller receives in the place of the answer.
        returns: the type of that, as "module:Name", for the stub that editors read; "module:Name[]" for a tuple of
            such.
        appends_to: returns the question that appends to a file what is worked out, where -o names such a file; None
            where it names a file for the answer.
        printed_only: the answer is a sentence on what was done or found, which is printed and not written into a file.
        is_local: the answer is about the machine that works it out, so that no service gives it.
        effort: how long an answer takes, by which a service orders what waits.
        defer_hints: an answer is whole without the traces of remarks beside it, which a service makes afterwards.
        fits_one_screen: tables keep to the width of a short answer in a pipe, a file and a service, too.
    """

    path: str
    question: type[Question]
    summary: str
    take_it: str = ""
    fails_if: str = ""
    verdict: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    answer: Callable[[Question, Context], Answer]
    sections: "Callable[[Sequence[Answer], Question], Iterable[Section]] | None" = None
    document: Callable[[Sequence[Answer], Question], Any] | None = None
    lines: "Callable[[Sequence[Answer], Question, Look], list[Line] | None] | None" = None
    text: Callable[[Answer, Question], str] | None = None
    files_in: Mapping[str, Callable[[Sequence[Answer], Question], str | bytes]] = field(default_factory=dict)
    outcome: Callable[[Answer], Outcome] = lambda _: Outcome()
    takes_several: bool = False
    finalize: Callable[[Question, Look], Question] = lambda question, _: question
    files: "Callable[[Sequence[Answer], Question], Mapping[Path, bytes]] | None" = None
    for_service: Callable[[Question], Question] = lambda question: question
    schema: str | None = None
    in_python: Callable[[Answer], Any] | None = None
    returns: str = ""
    appends_to: "Callable[[Question, Path], Question | None] | None" = None
    printed_only: bool = False
    is_local: bool = False
    effort: Effort = Effort.ORDINARY
    defer_hints: bool = False
    fits_one_screen: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the question's fields."""
        return fields_of(self.question)

    def fields_at(self, door: Door) -> tuple[Field, ...]:
        """Return the fields that may be written at a door."""
        return tuple(field for field in self.fields if field.option.doors & door)

    @property
    def is_served(self) -> bool:
        """Return True if a service may answer: no field that must be given names what only one machine has."""
        named = all(field.option.doors & Door.HTTP for field in self.fields if field.is_required)
        return named and not self.is_local

    @property
    def goes_to_files(self) -> bool:
        """Return True if the answer is written into files whose extensions name its format, as a report is."""
        return bool(self.files_in) and self.sections is None and self.text is None

    @property
    def formats(self) -> tuple[str, ...]:
        """Return the formats that answers are written in."""
        text = TEXT_FORMATS if self.sections is not None else ("table",) if self.lines is not None else ()
        return (*(("json",) if self.document is not None else ()), *text, *self.files_in)

    def write(self, answers: Sequence[Answer], question: Question, look: Look) -> "str | bytes | list[Line]":
        """Return answers in a format; the short answer as lines of styled words, which the door colours or not."""
        if self.text is not None:
            return self.text(answers[0], question)
        if look.format in self.files_in:
            return self.files_in[look.format](answers, question)
        if look.format == "json" and self.document is not None:
            return to_json(self.document(answers, question))
        if look.format == "table" and self.lines is not None:
            lines = self.lines(answers, question, look)
            if lines is not None:
                return lines
        if look.format not in TEXT_FORMATS or self.sections is None:
            raise UsageError(f"this answer has no format {look.format!r}; use {', '.join(self.formats)}.")
        from capplan.report.render import render
        from capplan.report.sections import Format

        room = look.table_width or (look.width if self.fits_one_screen else None)
        return render(self.sections(answers, question), Format(look.format), width=room)
