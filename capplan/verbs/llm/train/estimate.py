"""`llm train estimate`: the time of a training step, tokens per second, and days and money of a whole run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from capplan.verbs.llm.fields import LanguageModelFields, ReplicaGpuFields
from capplan.verbs.llm.train.fields import (
    OwnRunFields,
    RunFields,
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
    from capplan.llm.core.training.plan import PricedTraining
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class LlmTrainEstimateQuestion(
    LanguageModelFields, ReplicaGpuFields, TrainingMethodFields, TrainingLayoutFields, RunFields, OwnRunFields,
    TrainingFilesFields,
):  # fmt: skip
    """How long a training step takes, and a whole run."""

    launch: Annotated[
        bool,
        Option(help="Write a configuration for the framework.", topic=Topic.ANSWER, doors=ANYWHERE & ~Door.PYTHON),
    ] = False


def answer_llm_train_estimate(question: LlmTrainEstimateQuestion, context: Context) -> "PricedTraining":
    """Return how fast a job trains, and what a run over its tokens takes.

    Args:
        question: the model, the GPU, what is trained, how GPUs share it, and the tokens.
        context: how the door finds models, GPUs and prices.

    Raises:
        CapplanError: a name is not known, or the job is not possible.
    """
    from capplan.llm.answer.deployments import training_offers
    from capplan.llm.core.training.estimate import estimate_training, least_recompute
    from capplan.llm.core.training.job import check_job
    from capplan.llm.core.training.plan import price_training
    from capplan.specs.fitted import load_power_law
    from capplan.specs.rate_laws import load_rate_laws

    model, gpu = find_parts(question, question.model, question.gpu, context)
    constants = load_constants(question)
    job = build_job(question, question, model, gpu)
    check_job(job)
    if question.recompute is None:
        job = least_recompute(job, gpu, constants)
    estimate = estimate_training(
        job,
        gpu,
        calibration=constants,
        laws=load_rate_laws(),
        network_bytes_per_s=question.network_bytes_per_s,
        own=question.own_run(),
    )
    offers = training_offers(context.price_list(question.specs)).get(gpu.id)
    return price_training(estimate, question.terms(), offer=offers, law=load_power_law())


def _sections(answers: "Sequence[PricedTraining]", question: LlmTrainEstimateQuestion) -> "Iterable[Section]":
    from capplan.report.text.llm.training import training_estimate_sections

    return training_estimate_sections(answers[0], shows_launch=question.launch)


def _document(answers: "Sequence[PricedTraining]", _question: LlmTrainEstimateQuestion) -> Any:
    from capplan.report.documents.llm.training import training_estimate_document

    return training_estimate_document(answers[0])


LLM_TRAIN_ESTIMATE = Verb(
    path="llm train estimate",
    question=LlmTrainEstimateQuestion,
    summary="Estimate how fast a language model trains, with intervals, and the days and money of a run.\n\n"
    "Exit 1 if it does not fit in memory.",
    examples=(
        "capplan llm train estimate llama-3-8b-instruct --gpu h100-sxm5-80gb --gpus 8 --micro-batch 2 --tokens 10G",
        "capplan llm train estimate qwen3-8b --gpu l40s --method lora --micro-batch 4 --samples 50000 --epochs 3",
    ),
    answer=answer_llm_train_estimate,
    sections=_sections,
    is_one_screen=True,
    document=_document,
    outcome=lambda found: Outcome(exit_code=0 if found.estimate.memory.fits else 1),
    schema="llm-train-estimate",
    returns="capplan.llm.core.training.plan:PricedTraining",
)
