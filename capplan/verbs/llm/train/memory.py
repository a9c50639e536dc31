"""`llm train memory`: the memory of one GPU that trains a language model, part by part, and whether it fits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from capplan.verbs.llm.fields import LanguageModelFields, ReplicaGpuFields
from capplan.verbs.llm.train.fields import (
    OwnRunFields,
    TrainingFilesFields,
    TrainingLayoutFields,
    TrainingMethodFields,
    build_job,
    find_parts,
    load_constants,
)
from capplan.verbs.statement.contract import Context, Outcome, Verb
from capplan.verbs.statement.options import ANYWHERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.llm.core.training.estimate import TrainingMemoryAnswer
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class _VerdictFields:
    fits: Annotated[
        bool,
        Option(
            help="Print the verdict alone; exit 1 if it does not fit.", topic=Topic.ANSWER,
            doors=ANYWHERE & ~Door.PYTHON,
        ),
    ] = False  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LlmTrainMemoryQuestion(
    LanguageModelFields, ReplicaGpuFields, TrainingMethodFields, TrainingLayoutFields, OwnRunFields, _VerdictFields,
    TrainingFilesFields,
):  # fmt: skip
    """How the memory of a GPU that trains is divided, and whether the job fits."""


def answer_llm_train_memory(question: LlmTrainMemoryQuestion, context: Context) -> "TrainingMemoryAnswer":
    """Return how the memory of a GPU that trains is divided.

    Args:
        question: the model, the GPU, what is trained, and how GPUs share it.
        context: how the door finds models and GPUs.

    Raises:
        CapplanError: a name is not known, or the job is not possible.
    """
    from capplan.llm.core.training.estimate import answer_training_memory, least_recompute
    from capplan.llm.core.training.job import check_job, recompute_choices

    model, gpu = find_parts(question, question.model, question.gpu, context)
    constants = load_constants(question)
    job = build_job(question, question, model, gpu)
    check_job(job)
    if question.recompute is None:
        job = least_recompute(job, gpu, constants)
    answer = answer_training_memory(job, gpu, constants, own=question.own_run())
    alternatives = tuple(
        answer_training_memory(replace(job, recompute=choice), gpu, constants)
        for choice in recompute_choices(job)
        if choice is not job.recompute
    )
    return replace(answer, alternatives=alternatives)


def _sections(answers: "Sequence[TrainingMemoryAnswer]", question: LlmTrainMemoryQuestion) -> "Iterable[Section]":
    from capplan.report.text.llm.training import training_memory_sections

    return training_memory_sections(answers[0], is_verdict_only=question.fits)


def _document(answers: "Sequence[TrainingMemoryAnswer]", _question: LlmTrainMemoryQuestion) -> Any:
    from capplan.report.documents.llm.training import training_memory_document

    return training_memory_document(answers[0])


LLM_TRAIN_MEMORY = Verb(
    path="llm train memory",
    question=LlmTrainMemoryQuestion,
    summary="Divide the memory of a GPU that trains or fine-tunes a language model, and check that it fits.\n\n"
    "Exit 1 if it does not fit.",
    examples=(
        "capplan llm train memory llama-3.1-8b-instruct --gpu rtx-4090 --method qlora --seq-len 2048",
        "capplan llm train memory llama-3-70b-instruct --gpu h100-sxm5-80gb --gpus 64 --tp 8 --micro-batch 2",
    ),
    answer=answer_llm_train_memory,
    sections=_sections,
    document=_document,
    outcome=lambda found: Outcome(exit_code=0 if found.fits else 1),
    schema="llm-train-memory",
    returns="capplan.llm.core.training.estimate:TrainingMemoryAnswer",
)
