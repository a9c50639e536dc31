"""What the page asks: the state of its form, which is also its address."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any
from urllib.parse import urlencode

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH
from capplan.serve.questions import check_bounds
from capplan.verbs.plan import PLAN, PlanQuestion
from capplan.verbs.statement.fields import Text
from capplan.verbs.statement.options import Door, Field, Option, renamed_options
from capplan.verbs.statement.read import changed_fields, read_question

MOST_MODELS = 4


@dataclass(frozen=True, kw_only=True)
class _PageFields:
    """The fields of the form that no other door has."""

    models: Annotated[tuple[Text, ...], Meta(max_length=MOST_MODELS), Option(flags=("--model",), doors=Door.PAGE)] = ()
    batch: Annotated[int, Meta(ge=1, le=LARGEST_BATCH), Option(doors=Door.PAGE, label="Batch")] = 32
    load: Annotated[float | None, Meta(ge=0.0, le=1e15), Option(doors=Door.PAGE, label="Load")] = None
    every: Annotated[bool, Option(doors=Door.PAGE)] = False
    explain: Annotated[Text, Option(doors=Door.PAGE)] = ""


@dataclass(frozen=True, kw_only=True)
class PageQuestion(_PageFields):
    """The state of the form.

    `options` are the fields that the question of a plan has on the page, in words, by their names in the form; those
    that are empty are left out.
    """

    options: Mapping[str, str] = field(default_factory=dict)

    def plan_of(self, model: str) -> PlanQuestion:
        """Return the plan that is asked of one model.

        Args:
            model: its words.

        Raises:
            UsageError: a field of the form cannot be read.
        """
        asked = {**self.options, "model": model, "batches": [self.batch]}
        return read_question(
            PlanQuestion, asked, door=Door.HTTP, name_of=lambda field: field.option.label, is_text=True
        )


@cache
def form_fields() -> Mapping[str, Field]:
    """Return the fields of a plan's question that the form shows, by their names there."""
    fields = [field for field in PLAN.fields_at(Door.PAGE) if not field.option.is_argument]
    return {field.name if field.is_list else field.key.replace("-", "_"): field for field in fields}


def by_labels(sentence: str) -> str:
    """Return a sentence that calls fields as the form does, where it named options of the command line."""
    return renamed_options(sentence, form_fields().values(), door=Door.PAGE)


FIRST_FIELDS = ("precision", "gpus", "max_latency")
"""The fields that most questions need, which the form shows first; the others stand behind *More settings*."""


def question_of_page(pairs: Sequence[tuple[str, str]]) -> PageQuestion:
    """Read the state of the form from the pairs of a query string.

    Args:
        pairs: names and values; models are repeated or parted by commas.

    Raises:
        UsageError: a field is unknown, or cannot be read.
    """
    own: dict[str, Any] = {}
    options: dict[str, str] = {}
    for name, value in pairs:
        if not value:
            continue
        if name in form_fields():
            options[name] = f"{options[name]},{value}" if name in options else value
        elif name in ("model", "models"):
            own.setdefault("models", []).extend(piece.strip() for piece in value.split(",") if piece.strip())
        else:
            own[name] = value
    check_bounds({**own, **options})
    state = read_question(
        _PageFields, own, door=Door.PAGE, name_of=lambda field: field.option.label or field.name, is_text=True
    )
    question = PageQuestion(**vars(state), options=options)
    question.plan_of("")
    return question


def address(question: PageQuestion, **changed: Any) -> str:
    """Return the address of a state of the form: what differs from the defaults.

    Args:
        question: the state.
        **changed: fields that are to differ; those of `options` in words.
    """
    options = {**question.options, **{name: str(value) for name, value in changed.items() if name in form_fields()}}
    own = {name: value for name, value in changed.items() if name not in form_fields()}
    state = replace(question, options=options, **own)
    usual = PageQuestion()
    pairs = [("model", model) for model in state.models]
    pairs += [("batch", str(state.batch))] * (state.batch != usual.batch)
    pairs += [(name, value) for name, value in state.options.items() if value and value != usual_words(name)]
    pairs += [("load", _spelt(state.load))] * (state.load is not None)
    pairs += [("every", "true")] * state.every
    pairs += [("explain", state.explain)] * bool(state.explain)
    return _query(pairs)


def usual_words(name: str) -> str:
    """Return the words of a form field's default; empty where it has none."""
    default = form_fields()[name].default
    return "" if default in (None, False, ()) else str(getattr(default, "value", default))


def form_address(question: Any, **changed: Any) -> str:
    """Return the address of a state of another form: what differs from the defaults of its type.

    Args:
        question: the state.
        **changed: fields that are to differ.
    """
    fields = changed_fields(replace(question, **changed), door=Door.HTTP)
    return _query([(field.name, _spelt(value)) for field, value in fields.items()])


def _query(pairs: list[tuple[str, str]]) -> str:
    return f"?{urlencode(pairs)}" if pairs else "?"


def _spelt(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


_SERVING_LABELS = {"--tp": "“GPUs per replica”", "--weights": "“Weights”", "--kv": "“KV cache”", "--engine": "“Engine”"}
"""What the form about served models calls fields whose names on the command line say something else."""


def by_serving_labels(sentence: str, fields: Iterable[Field]) -> str:
    """Return a sentence that names fields as the form about served models, or else the API, does instead of options.

    Args:
        sentence: a note, a reason or an error, which may name options of the command line.
        fields: the fields whose options are replaced.
    """
    for flag, label in _SERVING_LABELS.items():
        sentence = re.sub(rf"{flag}(?![\w-])", label, sentence)
    return renamed_options(sentence, fields, door=Door.HTTP)
