"""`llm models`: the catalogue of language models, listed, filtered and shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.llm.fields import DOWNLOAD
from capplan.verbs.statement.contract import Context, Look, Verb
from capplan.verbs.statement.fields import Name
from capplan.verbs.statement.options import Door, Option, Topic

if TYPE_CHECKING:
    from capplan.llm.core.model_query import LanguageModel
    from capplan.report.sections import Line, Section


@dataclass(frozen=True, kw_only=True)
class LlmModelsQuestion:
    """Which language models are known, and what they are made of."""

    names: Annotated[
        tuple[Name, ...],
        Meta(max_length=400),
        Option(
            help="Show these only: catalogue names or hf: files.", metavar="[MODEL]...", topic=Topic.MODEL,
            is_argument=True,
        ),
    ] = ()  # fmt: skip
    where: Annotated[
        tuple[Name, ...],
        Meta(max_length=64),
        Option(
            help="'params < 40B', 'moe = yes and context >= 128k', 'attention = mla'; repeatable.",
            metavar="CONDITION",
        ),
    ] = ()  # fmt: skip
    ids: Annotated[bool, Option(help="Print names only, one per line.", flags=("--ids", "-q"), doors=Door.COMMAND)] = (
        False
    )
    download: Annotated[bool, DOWNLOAD] = False


def answer_llm_models(question: LlmModelsQuestion, context: Context) -> "tuple[LanguageModel, ...]":
    """Return the language models that a question names, or all that are known, as far as they meet its conditions.

    Args:
        question: names and conditions.
        context: how the door finds models.

    Raises:
        CapplanError: a name is not known, or a condition cannot be read.
    """
    from capplan.llm.core.model_query import select_models
    from capplan.llm.read.catalogue import load_catalogue
    from capplan.llm.read.sources import find_model

    named = [find_model(context.language_model(name), download=question.download) for name in question.names]
    return tuple(select_models(named or list(load_catalogue().values()), question.where))


def _settle(question: LlmModelsQuestion, look: Look) -> LlmModelsQuestion:
    """Refuse a format for names alone.

    Raises:
        UsageError: one is asked for.
    """
    if question.ids and look.format != "table":
        raise UsageError(f"--ids prints names alone, one per line; leave out it or the format {look.format}.")
    return question


def _sections(answers: "Sequence[tuple[LanguageModel, ...]]", _question: LlmModelsQuestion) -> "Iterable[Section]":
    from capplan.report.text.llm.memory import llm_model_sections

    return llm_model_sections(answers[0])


def _lines(
    answers: "Sequence[tuple[LanguageModel, ...]]", question: LlmModelsQuestion, _look: Look
) -> "list[Line] | None":
    from capplan.report.sections import line

    return [line(model.architecture.name) for model in answers[0]] if question.ids else None


def _document(answers: "Sequence[tuple[LanguageModel, ...]]", _question: LlmModelsQuestion) -> Any:
    from capplan.report.documents.llm.memory import llm_models_document

    return llm_models_document(answers[0])


LLM_MODELS = Verb(
    path="llm models",
    question=LlmModelsQuestion,
    summary="List the language models that capplan knows, with filters.",
    examples=(
        "capplan llm models --where 'params < 40B'",
        "capplan llm models deepseek-v3 hf:path/to/config.json --json",
    ),
    answer=answer_llm_models,
    settle=_settle,
    sections=_sections,
    is_one_screen=True,
    lines=_lines,
    document=_document,
    schema="llm-models",
    returns="capplan.llm.core.model_query:LanguageModel[]",
)
