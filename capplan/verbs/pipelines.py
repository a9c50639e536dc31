"""Turn a verb's question about a pipeline into a request: for `plan`, `estimate` and `memory` alike."""

from typing import TYPE_CHECKING, Protocol

from capplan.core.pipelines.types import Part
from capplan.core.workload import Workload
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context
from capplan.verbs.statement.fields import ModelFields, PipelineFields

if TYPE_CHECKING:
    from capplan.app.models import ModelSource
    from capplan.app.pipelines.answer import PipelineRequest, SourceOf
    from capplan.core.workload import Precision


class PipelineQuestion(Protocol):
    """What the verbs that answer for pipelines ask alike."""

    @property
    def precision(self) -> "Precision | None":
        """The number formats that the question states."""


def refuse_options_of_models(question: "ModelFields") -> None:
    """Refuse options that say nothing of a pipeline.

    Args:
        question: the pipeline's words, and the options beside them.

    Raises:
        UsageError: there are such options.
    """
    given = {
        "--arg": question.arguments, "--input": question.inputs, "--input-size": question.input_size,
        "--seq-len": question.seq_len, "--inputs-from": question.inputs_from, "--prepare": question.prepare,
        "--freeze": question.freeze, "--activations": question.activations,
    }  # fmt: skip
    if stated := [name for name, value in given.items() if value]:
        raise UsageError(
            f"{question.model} is a pipeline: {', '.join(stated)} belongs to a model; set its parameters with --set, "
            "or write a file in which its parts have them."
        )


def part_source(context: Context) -> "SourceOf":
    """Return how a door finds the model of a pipeline's part."""

    def source(part: Part) -> "ModelSource":
        fields = ModelFields(model=part.model, arguments=dict(part.arguments), inputs=part.inputs, prepare=part.prepare)
        return context.model(fields)

    return source


def pipeline_request(question: "ModelFields", context: Context, workload: Workload) -> "PipelineRequest":
    """Return the request for a pipeline.

    Args:
        question: a question with the fields of models and of pipelines.
        context: how the door finds the models of parts.
        workload: the conditions.

    Raises:
        UsageError: options of a model that say nothing of a pipeline, or a setting that is not a number.
    """
    from capplan.app.pipelines.answer import PipelineRequest
    from capplan.core.pipelines.sharing import Degrees
    from capplan.specs.pipeline_file import settings_of

    assert isinstance(question, PipelineFields)
    refuse_options_of_models(question)

    return PipelineRequest(
        words=context.pipeline_words(question.model),
        settings=settings_of(question.settings),
        part_settings=question.part_settings,
        workload=workload,
        states_precision=getattr(question, "precision", None) is not None,
        weights=question.weights,
        offload=question.offload,
        degrees=Degrees(ulysses=question.ulysses, ring=question.ring),
        source=part_source(context),
    )
