"""`analyze`: parameters, MACs, FLOPs and bytes of a model, by operator and by module."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Look, Verb
from capplan.verbs.statement.fields import EVERYWHERE, ModelFields, RecordingFields, StrictFields, TrainingFields
from capplan.verbs.statement.options import ANYWHERE, HERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.app.analyze import AnalyzeAnswer
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class _CountedBatchFields:
    batch: Annotated[
        int | None,
        Meta(ge=1, le=LARGEST_BATCH),
        Option(
            help="Batch size of all counts; 1, or what a file is fixed to.", flags=("--batch", "-b"),
            topic=Topic.WORKLOAD, doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AnalyzeQuestion(ModelFields, _CountedBatchFields, RecordingFields, TrainingFields, StrictFields):
    """What a model counts: parameters, MACs, FLOPs and bytes, by operator and by module."""

    depth: Annotated[
        int | None,
        Meta(ge=0),
        Option(help="Depth of the module view; by default 2 in tables, whole in data.", topic=Topic.ANSWER),
    ] = None
    top: Annotated[
        int,
        Meta(ge=0),
        Option(
            help="Rows by module and operator in tables; 0 leaves them out.", topic=Topic.ANSWER, shows_default=True,
            doors=ANYWHERE & ~Door.PYTHON,
        ),
    ] = 20  # fmt: skip
    compare: Annotated[
        bool,
        Option(
            help="Compare with thop, fvcore and torch's counter, differences explained.", topic=Topic.ANSWER,
            doors=HERE,
        ),
    ] = False  # fmt: skip


def answer_analyze(question: AnalyzeQuestion, context: Context) -> "AnalyzeAnswer":
    """Return what a model counts at a batch.

    Args:
        question: the model, batch and recording.
        context: how the door finds models.

    Raises:
        UsageError: there is no such model; or other counters are asked for of a trace or of training steps.
        TraceError: the model could not be traced, or is refused by `strict`.
    """
    from capplan.app.analyze import analyze

    return analyze(
        context.model(question),
        batch=question.batch,
        configuration=question.configuration(question.default_precision(), training=question.training()),
        depth=question.depth,
        compares_counters=question.compare,
        is_strict=question.strict,
        feedback=context.feedback,
    )


def _settle(question: AnalyzeQuestion, look: Look) -> AnalyzeQuestion:
    if question.compare and look.format == "csv":
        raise UsageError("--compare cannot be written as CSV: use table, md or json.")
    is_for_people = look.format in ("table", "md")
    return replace(question, depth=2) if question.depth is None and is_for_people else question


def _sections(answers: "Sequence[AnalyzeAnswer]", question: AnalyzeQuestion) -> "Iterable[Section]":
    from capplan.report.text.counts import analysis_sections, counter_sections

    answer = answers[0]
    sections = analysis_sections(answer.analysis, depth=question.depth, top=question.top)
    if question.compare:
        sections += counter_sections(answer.comparisons, macs=answer.analysis.macs, params=answer.parameter_count)
    return sections


def _document(answers: "Sequence[AnalyzeAnswer]", question: AnalyzeQuestion) -> Any:
    from capplan.report.documents.analysis import analysis_document

    answer = answers[0]
    comparisons = answer.comparisons if question.compare else None
    return analysis_document(answer.analysis, comparisons=comparisons, depth=question.depth)


ANALYZE = Verb(
    path="analyze",
    question=AnalyzeQuestion,
    summary="Count a model's parameters, MACs, FLOPs and bytes.",
    examples=("capplan analyze resnet50", "capplan analyze hf:bert --seq-len 128 --format json"),
    answer=answer_analyze,
    settle=_settle,
    sections=_sections,
    document=_document,
    schema="analyze",
    returns="capplan.app.analyze:AnalyzeAnswer",
)
