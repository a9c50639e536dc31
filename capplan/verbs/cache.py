"""`cache` and `cache clear`: the traces kept from earlier runs, listed and forgotten."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Effort, Verb, laid_out_by
from capplan.verbs.statement.fields import Name, NoFields
from capplan.verbs.statement.options import HERE, Option

if TYPE_CHECKING:
    from capplan.app.trace_cache import CachedTrace, TraceCache
    from capplan.report.sections import Column, Section


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTraces:
    """The folder of kept traces, and each of them, the oldest first."""

    folder: str
    entries: "tuple[CachedTrace, ...]"


def answer_cache(_question: NoFields, _context: Context) -> KeptTraces:
    """Return the traces that are kept."""
    kept = _cache()
    return KeptTraces(folder=str(kept.folder), entries=tuple(kept.entries()))


def _sections(answers: Sequence[KeptTraces], _question: NoFields) -> "Iterable[Section]":
    from capplan.report.sections import Format, Lines, Section, Table, figure, words
    from capplan.units import format_bytes

    entries = answers[0].entries
    size = format_bytes(sum(entry.size_bytes for entry in entries))
    columns: list[Column[CachedTrace]] = [
        words("model", lambda entry: entry.words, name="model"),
        words("options", lambda entry: " ".join(entry.options), name="options"),
        words("recordings", lambda entry: ", ".join(entry.configurations), name="recordings"),
        figure("size", lambda entry: format_bytes(entry.size_bytes), name="size"),
        words("made", lambda entry: entry.made, name="made"),
    ]
    head = Lines([f"{len(entries)} traces, {size}, in {answers[0].folder}"], only=Format.TABLE)
    return [Section([head, Table(columns, entries, is_attached=True, only=None if entries else Format.MD)])]


CACHE = Verb(
    path="cache",
    question=NoFields,
    summary="Show the traces kept from earlier runs.",
    examples=("capplan cache", "capplan cache clear resnet50"),
    answer=answer_cache,
    sections=_sections,
    document=laid_out_by("capplan.shapes.gpus:CACHE"),
    schema="cache",
    is_local=True,
    effort=Effort.SHORT,
)


@dataclass(frozen=True, kw_only=True)
class ForgetQuestion:
    """Kept traces to forget."""

    model: Annotated[
        Name | None, Option(help="Only this model's.", metavar="[MODEL]", is_argument=True, doors=HERE)
    ] = None


def answer_forget(question: ForgetQuestion, _context: Context) -> int:
    """Forget all kept traces, or those of one model, and return how many."""
    count = _cache().clear(words=question.model)
    if question.model is not None and not count:
        raise UsageError(f"no trace of {question.model!r} is kept; `capplan cache` lists those that are.")
    return count


CACHE_CLEAR = Verb(
    path="cache clear",
    question=ForgetQuestion,
    summary="Forget all kept traces, or those of one model.",
    examples=("capplan cache clear", "capplan cache clear resnet50"),
    answer=answer_forget,
    text=lambda count, _: f"forgot {count} {'trace' if count == 1 else 'traces'}\n",
    printed_only=True,
    is_local=True,
    effort=Effort.SHORT,
)


def _cache() -> "TraceCache":
    from capplan.app.trace_cache import default_cache

    kept = default_cache()
    if kept is None:
        raise UsageError("CAPPLAN_CACHE is off: no traces are kept.")
    return kept
