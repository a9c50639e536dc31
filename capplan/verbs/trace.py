"""`trace`: a model as a file of facts that needs neither torch nor the model afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH, Configuration, Layout, Precision
from capplan.verbs.statement.contract import Context, Outcome, Verb
from capplan.verbs.statement.fields import LAYOUT, ModelFields, TrainingFields
from capplan.verbs.statement.options import ANYWHERE, Door, Option, Topic
from capplan.wording import option_of, worded_fields

if TYPE_CHECKING:
    from capplan.core.trace.types import Trace


@dataclass(frozen=True, kw_only=True)
class TraceQuestion(ModelFields, TrainingFields):
    """A model as facts: shapes over the batch, operators with MACs and bytes, lifetimes of tensors; no weights."""

    precisions: Annotated[
        tuple[Precision, ...],
        Option(
            help="Number formats to record; repeatable; fp16 stands for bf16 too.", flags=("--precision",),
            metavar="|".join(Precision), topic=Topic.WORKLOAD,
        ),
    ] = (Precision.FP32,)  # fmt: skip
    layout: Annotated[Layout, replace(LAYOUT, doors=ANYWHERE, label="")] = Layout.NCHW
    exact_batch: Annotated[
        int | None,
        Meta(ge=1, le=LARGEST_BATCH),
        Option(
            help="Trace at this batch alone, for models that do not grow evenly.", flags=("--batch",),
            topic=Topic.WORKLOAD,
        ),
    ] = None  # fmt: skip
    anonymous: Annotated[
        bool, Option(help="Drop the names of modules and parameters.", flags=("--anonymize",), topic=Topic.ANSWER)
    ] = False
    formulas: Annotated[
        dict[str, Any],
        Option(
            help="Functions of an `OperatorCall` that count the FLOPs of operators that capplan does not know, by name "
            "(`my::op`).",
            doors=Door.PYTHON,
        ),
    ] = field(default_factory=dict)  # fmt: skip

    def configurations(self) -> tuple[Configuration, ...]:
        """Return the recordings that are asked for, one for each variant of the number formats."""
        training = self.training()
        halves = {precision.variant: precision.half_dtype or "bfloat16" for precision in reversed(self.precisions)}
        variants = dict.fromkeys(precision.variant for precision in self.precisions)
        return tuple(
            Configuration(variant=variant, layout=self.layout, training=training, half_dtype=halves[variant])
            for variant in variants
        )


def answer_trace(question: TraceQuestion, context: Context) -> "Trace":
    """Return the trace of a model on the meta device, with one recording for each variant of the number formats.

    Raises:
        UsageError: there is no such model, or it does not take these arguments and inputs.
        TraceError: the model could not be traced.
    """
    from capplan.app.models import open_model
    from capplan.core.trace.format import anonymize_trace

    model = open_model(context.model(question), feedback=context.feedback, formulas=question.formulas)
    trace = model.trace(question.configurations(), exact_batch=question.exact_batch)
    return anonymize_trace(trace) if question.anonymous else trace


def _written(answers: "Sequence[Trace]", _question: TraceQuestion, *, compress: bool) -> bytes:
    from capplan.core.trace.format import dump_trace
    from capplan.core.trace.types import Recording

    return dump_trace(worded_fields(answers[0], option_of, skipped=(Recording,)), compress=compress)


def _outcome(trace: "Trace") -> Outcome:
    """Show the notes of the trace, and what it holds."""
    notes = [f"note: {note}" for note in trace.provenance.notes]
    recordings = "; ".join(recording.configuration.words for recording in trace.recordings)
    return Outcome(warnings=(*notes, f"{trace.name}: {recordings}"))


TRACE = Verb(
    path="trace",
    question=TraceQuestion,
    summary="Trace a model into a file, from which everything else is arithmetic.",
    examples=(
        "capplan trace resnet50 -o resnet50.trace.json",
        "capplan trace timm:vit_base_patch16_224 --precision fp32 --precision fp16 -o vit.trace.json.gz",
    ),
    answer=answer_trace,
    files_in={"json": partial(_written, compress=False), "gz": partial(_written, compress=True)},
    outcome=_outcome,
    returns="capplan.core.trace.types:Trace",
)
