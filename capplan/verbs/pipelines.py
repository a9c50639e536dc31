"""Open what a question names, a model or a pipeline: for `plan`, `estimate`, `memory` and `report` alike."""

from typing import TYPE_CHECKING

from capplan.core.pipelines.types import Part
from capplan.core.workload import Workload
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context
from capplan.verbs.statement.fields import (
    InputFields,
    ModelFields,
    PipelineFields,
    PipelineItemFields,
    RecordingFields,
    StrictFields,
    from_fields,
)

if TYPE_CHECKING:
    from capplan.app.models import ModelSource
    from capplan.app.pipelines.answer import PipelineRequest
    from capplan.app.plan import Opened, PlanContext


def refuse_options_of_models(question: "ModelFields") -> None:
    """Refuse options that say nothing of a pipeline."""
    given = {
        "⟨arg⟩": question.arguments, "⟨input⟩": question.inputs, "⟨input-size⟩": question.input_size,
        "⟨seq-len⟩": question.seq_len, "⟨inputs-from⟩": question.inputs_from, "⟨prepare⟩": question.prepare,
        "⟨freeze⟩": question.freeze, "⟨activations⟩": question.activations,
    }  # fmt: skip
    if stated := [name for name, value in given.items() if value]:
        raise UsageError(
            f"{question.model} is a pipeline: {', '.join(stated)} belongs to a model; set its parameters with ⟨set⟩, "
            "or write a file in which its parts have them."
        )


def open_asked(question: "ModelFields", context: Context, workload: Workload, shared: "PlanContext") -> "Opened":
    """Return the model or the pipeline that a question names, opened."""
    from capplan.app.models import open_model
    from capplan.app.pipelines.diffusers import names_pipeline
    from capplan.app.plan import OpenedModel

    assert isinstance(question, PipelineFields)
    if names_pipeline(question.model):
        from capplan.app.pipelines.answer import OpenedPipeline

        return OpenedPipeline.of(pipeline_request(question, context, workload), shared)
    question.refuse_pipeline_options(question.model)
    return OpenedModel(
        model=open_model(context.model(question), feedback=context.feedback),
        context=shared,
        tries_half=isinstance(question, RecordingFields) and question.precision is None,
        is_strict=isinstance(question, StrictFields) and question.strict,
    )


def pipeline_request(question: PipelineItemFields, context: Context, workload: Workload) -> "PipelineRequest":
    """Return the request for a pipeline; without words where a question names several models, as a report does."""
    from capplan.app.pipelines.answer import PipelineRequest
    from capplan.core.pipelines.sharing import Degrees
    from capplan.specs.pipeline_file import settings_of

    def source(part: Part) -> "ModelSource":
        fields = ModelFields(model=part.model, arguments=dict(part.arguments), inputs=part.inputs, prepare=part.prepare)
        return context.model(fields)

    assert isinstance(question, InputFields)
    words, degrees = "", Degrees()
    if isinstance(question, PipelineFields):
        degrees = Degrees(ulysses=question.ulysses, ring=question.ring)
    if isinstance(question, ModelFields):
        refuse_options_of_models(question)
        words = context.pipeline_words(question.model)
    return from_fields(
        PipelineRequest,
        question,
        words=words,
        settings=settings_of(question.settings),
        workload=workload,
        states_precision=getattr(question, "precision", None) is not None,
        degrees=degrees,
        source=source,
    )
