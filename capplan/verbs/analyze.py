"""`analyze`: parameters, MACs, FLOPs and bytes of a model, by operator and by module."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Look, Verb, laid_out_by
from capplan.verbs.statement.fields import (
    ModelFields,
    RecordingFields,
    StrictFields,
    TrainingFields,
    in_answer,
    one_batch,
)
from capplan.verbs.statement.options import HERE, After, Option, Topic

if TYPE_CHECKING:
    from capplan.core.ops.counters import AnalyzeAnswer, CounterComparison


@dataclass(frozen=True, kw_only=True)
class AnalyzeQuestion(ModelFields, RecordingFields, TrainingFields, StrictFields):
    """What a model counts: parameters, MACs, FLOPs and bytes, by operator and by module."""

    depth: Annotated[
        int | None,
        Meta(ge=0),
        Option(
            is_usual=True, help="Depth of the module view; by default 2 in tables, whole in data.", topic=Topic.ANSWER
        ),
    ] = None
    top: Annotated[
        int,
        Meta(ge=0),
        in_answer("Rows by module and operator in tables; 0 leaves them out.", shows_default=True, is_usual=True),
    ] = 20
    compare: Annotated[
        bool,
        Option(
            is_usual=True,
            help="Compare with thop, fvcore and torch's counter, differences explained.", topic=Topic.ANSWER,
            doors=HERE,
        ),
    ] = False  # fmt: skip
    batch: Annotated[
        int | None,
        After("config"),
        Meta(ge=1, le=LARGEST_BATCH),
        one_batch("Batch size of all counts; 1, or what a file is fixed to."),
    ] = None


def answer_analyze(question: AnalyzeQuestion, context: Context) -> "AnalyzeAnswer":
    """Return what a model counts at a batch.

    Raises:
        UsageError: there is no such model; or other counters are asked for of a trace or of training steps.
        TraceError: the model could not be traced, or is refused by `strict`.
    """
    from capplan.app.models import open_model, refuse_uncertain
    from capplan.core.ops.analysis import analyze_trace
    from capplan.core.ops.counters import AnalyzeAnswer

    configuration = question.configuration(question.default_precision(), training=question.training())
    source = context.model(question)
    if question.compare and configuration.training is not None:
        raise UsageError("⟨compare⟩ compares counts of inference: drop ⟨train⟩.")
    model = open_model(source, feedback=context.feedback)
    batch = question.batch or model.usual_batch(configuration)
    trace = model.trace_at(configuration, batch)
    if question.strict:
        refuse_uncertain(model.words, trace.recording(configuration))
    comparisons: tuple[CounterComparison, ...] = ()
    if question.compare:
        target = model.target()
        with context.feedback.progress(f"counting {model.words} by other counters"):
            from capplan.probe.counters import compare_counters

            comparisons = compare_counters(target, trace, trace.recording(configuration), batch=batch)
    return AnalyzeAnswer(
        analysis=analyze_trace(trace, configuration=configuration, batch=batch, depth=question.depth),
        parameter_count=trace.parameter_count,
        comparisons=comparisons,
    )


def _finalize(question: AnalyzeQuestion, look: Look) -> AnalyzeQuestion:
    if question.compare and look.format == "csv":
        raise UsageError("⟨compare⟩ cannot be written as CSV: use table, md or json.")
    is_for_people = look.format in ("table", "md")
    return replace(question, depth=2) if question.depth is None and is_for_people else question


ANALYZE = Verb(
    path="analyze",
    question=AnalyzeQuestion,
    summary="Count a model's parameters, MACs, FLOPs and bytes.",
    examples=("capplan analyze resnet50", "capplan analyze hf:bert --seq-len 128 --format json"),
    answer=answer_analyze,
    finalize=_finalize,
    sections=laid_out_by("capplan.report.text.counts:counted_sections", depth="depth", top="top"),
    document=laid_out_by("capplan.shapes.analysis:ANALYSIS"),
    schema="analyze",
    returns="capplan.core.ops.counters:AnalyzeAnswer",
)
