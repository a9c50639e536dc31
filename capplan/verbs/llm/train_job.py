"""`llm train memory` and `llm train estimate`: memory and speed of one job, and days and money of a whole run."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from capplan.verbs.llm.train_fields import OwnRunFields, RunFields, TrainingFilesFields, TrainingJobFields, stated_job
from capplan.verbs.llm.train_files import with_config
from capplan.verbs.statement.contract import Context, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import EnergyFields, in_answer
from capplan.verbs.statement.options import After

if TYPE_CHECKING:
    from capplan.core.numbers import Interval
    from capplan.llm.core.training.estimate import TrainingMemoryAnswer
    from capplan.llm.core.training.job import TrainingJob
    from capplan.llm.core.training.plan import PricedTraining


@dataclass(frozen=True, kw_only=True)
class LlmTrainEstimateQuestion(TrainingJobFields, RunFields, OwnRunFields, EnergyFields, TrainingFilesFields):
    """How long a training step takes, and a whole run."""

    launch: Annotated[bool, in_answer("Write a configuration for the framework.")] = False


def answer_llm_train_estimate(question: LlmTrainEstimateQuestion, context: Context) -> "PricedTraining":
    """Return how fast a job trains, and what a run over its tokens takes.

    Raises:
        CapplanError: a name is not known, or the job is not possible.
    """
    from capplan.app.deployments import on_demand_offers
    from capplan.llm.core.training.estimate import estimate_training
    from capplan.llm.core.training.plan import price_training
    from capplan.llm.core.training.search import run_offer
    from capplan.specs.rate_laws import load_rate_laws

    question, files = with_config(question)
    job, gpu, constants = stated_job(question, question, context)
    estimate = estimate_training(
        job,
        gpu,
        calibration=constants,
        laws=load_rate_laws(),
        network_bytes_per_s=question.network_bytes_per_s,
        own=question.own_run(),
        rollout=_rollout(question, job, context),
        law=question.limited_law(),
    )
    offers = on_demand_offers(context.price_list(question.specs)).get(gpu.id, ())
    offer = run_offer(offers, gpu, gpus=job.layout.gpus, network_bytes_per_s=question.network_bytes_per_s)
    priced = price_training(estimate, question.terms(), offer=offer, campaign=constants.campaign)
    return replace(priced, files=files)


def _rollout(question: LlmTrainEstimateQuestion, job: "TrainingJob", context: Context) -> "Interval | None":
    """Return the time in which an engine on the same GPUs generates the samples of a step; None where none are. [s]

    Every data-parallel rank generates its own at once, by vLLM with weights in 16 bits and as many GPUs as share every
    matrix, as fast as it serves so many clients.
    """
    if not job.parts.generates:
        return None
    from capplan.verbs.llm.estimate import LlmEstimateQuestion, answer_llm_estimate

    samples = job.micro_batch * job.accumulation
    served = LlmEstimateQuestion(
        model=question.model,
        gpu=question.gpu,
        tp=job.layout.tensor,
        input_len=job.sequence_tokens - job.completion_tokens,
        output_len=job.completion_tokens,
        concurrency=(samples,),
        utilization_fraction=question.rollout_fraction or None,
        specs=question.specs,
    )
    rate = answer_llm_estimate(served, context).points[-1].output_tokens_per_s
    return samples * job.completion_tokens / rate


LLM_TRAIN_ESTIMATE = Verb(
    path="llm train estimate",
    question=LlmTrainEstimateQuestion,
    summary="Estimate how fast a language model trains, with intervals, and the days and money of a run.",
    fails_if="it does not fit in memory",
    examples=(
        "capplan llm train estimate llama-3-8b-instruct --gpu h100-sxm5-80gb --gpus 8 --micro-batch 2 --tokens 10G",
        "capplan llm train estimate qwen3-8b --gpu l40s --method lora --micro-batch 4 --samples 50000 --epochs 3",
    ),
    answer=answer_llm_train_estimate,
    sections=laid_out_by(
        "capplan.report.text.llm.training:training_estimate_sections", shows_launch="launch", shows_power="energy"
    ),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_training:ESTIMATE"),
    outcome=lambda found: Outcome(exit_code=0 if found.estimate.memory.fits else 1),
    schema="llm-train-estimate",
    returns="capplan.llm.core.training.plan:PricedTraining",
)


@dataclass(frozen=True, kw_only=True)
class LlmTrainMemoryQuestion(TrainingJobFields, OwnRunFields, TrainingFilesFields):
    """How the memory of a GPU that trains is divided, and whether the job fits."""

    fits: Annotated[
        bool, After("measured_peak_bytes"), in_answer("Print the verdict alone; exit 1 if it does not fit.")
    ] = False


def answer_llm_train_memory(question: LlmTrainMemoryQuestion, context: Context) -> "TrainingMemoryAnswer":
    """Return how the memory of a GPU that trains is divided.

    Raises:
        CapplanError: a name is not known, or the job is not possible.
    """
    from capplan.llm.core.training.estimate import answer_training_memory
    from capplan.llm.core.training.job import recompute_choices

    question, files = with_config(question)
    job, gpu, constants = stated_job(question, question, context)
    answer = answer_training_memory(job, gpu, constants, own=question.own_run())
    alternatives = tuple(
        answer_training_memory(replace(job, recompute=choice), gpu, constants)
        for choice in recompute_choices(job)
        if choice is not job.recompute
    )
    return replace(answer, alternatives=alternatives, files=files)


LLM_TRAIN_MEMORY = Verb(
    path="llm train memory",
    question=LlmTrainMemoryQuestion,
    summary="Divide the memory of a GPU that trains or fine-tunes a language model, and check that it fits.",
    fails_if="it does not fit",
    examples=(
        "capplan llm train memory llama-3.1-8b-instruct --gpu rtx-4090 --method qlora --seq-len 2048",
        "capplan llm train memory llama-3-70b-instruct --gpu h100-sxm5-80gb --gpus 64 --tp 8 --micro-batch 2",
    ),
    answer=answer_llm_train_memory,
    sections=laid_out_by("capplan.report.text.llm.training:training_memory_sections", is_verdict_only="fits"),
    document=laid_out_by("capplan.shapes.llm_training:MEMORY_ANSWER"),
    outcome=lambda found: Outcome(exit_code=0 if found.fits else 1),
    schema="llm-train-memory",
    returns="capplan.llm.core.training.estimate:TrainingMemoryAnswer",
)
