"""`llm train plan`: which GPUs, how many, and which layout train a language model cheapest, fastest, on fewest GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.llm.core.training.objective import OBJECTIVES
from capplan.verbs.llm.fields import names_of
from capplan.verbs.llm.train_fields import RunFields, TrainingFilesFields, TrainingMethodFields
from capplan.verbs.llm.train_files import TrainedModelFields, with_config
from capplan.verbs.statement.contract import Context, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import CurrencyFields, EnergyFields, LaunchFilesFields, Name, in_answer
from capplan.verbs.statement.options import After, Option, Topic
from capplan.verbs.statement.words import AMOUNT, SHARE, TIME_LIMIT

if TYPE_CHECKING:
    from capplan.llm.core.training.plan import TrainingPlan


_MOST_GPUS = 2**17
_Count = Annotated[int, Meta(ge=1, le=_MOST_GPUS)]


@dataclass(frozen=True, kw_only=True)
class LlmTrainPlanQuestion(
    TrainedModelFields, TrainingMethodFields, RunFields, CurrencyFields, EnergyFields, LaunchFilesFields,
    TrainingFilesFields,
):  # fmt: skip
    """Which GPUs, how many, and which layout train a language model."""

    gpus: Annotated[
        tuple[Name, ...], After("spot_per_hour"),
        Meta(max_length=100),
        Option(
            is_usual=True,
            help="Only this GPU; repeatable. All rented data-centre GPUs by default.", flags=("--gpu",), metavar="ID",
            topic=Topic.GPUS, completes="gpus",
        ),
    ] = ()  # fmt: skip
    counts: Annotated[
        tuple[_Count, ...],
        Meta(max_length=16),
        Option(
            is_usual=True,
            help="GPUs of a job; repeatable. By default powers of two up to ⟨max-gpus⟩, and what a ⟨deadline⟩ needs.",
            flags=("--gpus", "-n"), topic=Topic.GPUS,
        ),
    ] = ()  # fmt: skip
    max_gpus: Annotated[
        int,
        Meta(ge=1, le=_MOST_GPUS),
        Option(is_usual=True, help="Most GPUs of a job.", topic=Topic.GPUS, shows_default=True),
    ] = 64
    global_batch: Annotated[
        int | None,
        Meta(ge=1, le=10**7),
        Option(
            help="Sequences of an optimizer step; by default 4 M tokens, give or take a tenth, and 64 sequences for "
            "adapters.",
            topic=Topic.WORKLOAD,
        ),
    ] = None  # fmt: skip
    deadline_s: Annotated[
        float | None,
        Meta(gt=0, le=1e12),
        Option(is_usual=True, help="Longest run, such as 14d.", flags=("--deadline",), metavar="TIME", words=TIME_LIMIT,
               topic=Topic.LIMITS),
    ] = None  # fmt: skip
    budget_usd: Annotated[
        float | None,
        Meta(gt=0, le=1e15),
        Option(
            is_usual=True,
            help="Most money, such as 250k.",
            flags=("--budget",),
            metavar="USD",
            words=AMOUNT,
            topic=Topic.LIMITS,
        ),
    ] = None
    certainty_fraction: Annotated[
        float,
        Meta(ge=0.01, le=0.999),
        Option(
            help="Probability with which the deadline and the budget are kept, as the intervals say.",
            flags=("--certainty",), metavar="SHARE", words=SHARE, topic=Topic.LIMITS, shows_default=True,
        ),
    ] = 0.5  # fmt: skip
    everything: Annotated[bool, in_answer("Show every GPU and count.", "--all")] = False
    launch: Annotated[bool, in_answer("Write a configuration of the cheapest run for the framework.")] = False


_SEARCHED_VENDORS = ("NVIDIA", "AMD")
"""Vendors whose GPUs the known frameworks run on; others are tried where they are named."""
_BATCH_SLACK = 0.1
"""By how much a step of as many tokens may move, so that it divides among GPUs."""
_BATCH_TOKENS, _ADAPTER_BATCH = 4 * 2**20, 64
"""Tokens of an optimizer step where none are stated, as Llama 3 8B and many models since use, and sequences of one for
adapters."""


def answer_llm_train_plan(question: LlmTrainPlanQuestion, context: Context) -> "TrainingPlan":
    """Return the runs that keep limits on time and money: the cheapest, the fastest, the one on fewest GPUs.

    Raises:
        CapplanError: a name is not known.
    """
    from capplan.app.deployments import on_demand_offers, searched_gpus
    from capplan.llm.core.training.plan import PlanConstraints, plan_training
    from capplan.specs.rate_laws import load_rate_laws
    from capplan.units import counted

    question, files = with_config(question)
    if (question.deadline_s or question.budget_usd) and question.tokens is None and question.samples is None:
        raise UsageError("⟨deadline⟩ and ⟨budget⟩ limit a whole run; add ⟨tokens⟩ or ⟨samples⟩.")
    if OBJECTIVES[question.objective].generates:
        raise UsageError(
            f"⟨objective⟩ {question.objective.value} generates samples in every step, which a plan does not search; "
            "ask `llm train estimate` with a GPU, a count and a layout."
        )
    prices = question.offered(context.price_list(question.specs))
    gpus = context.gpu_database(question.specs)
    model = question.found_model(context, question.model)
    rented = searched_gpus(gpus, on_demand_offers(prices))
    named = names_of(question.gpus) or tuple(name for name in rented if gpus[name].vendor in _SEARCHED_VENDORS)
    job = question.method_job(model)
    counts = question.counts or tuple(2**power for power in range(18) if 2**power <= question.max_gpus)
    slack = 0.0 if question.global_batch or job.is_adapted else _BATCH_SLACK
    default = _ADAPTER_BATCH if job.is_adapted else max(1, _BATCH_TOKENS // question.seq_len)
    batch = question.global_batch or max(default, max(counts) if not job.is_adapted else default)
    with context.feedback.progress(f"searching layouts on {counted(len(named), 'GPU')}"):
        found = plan_training(
            job,
            gpus=[gpus.find(name) for name in named],
            asked=PlanConstraints(
                counts=counts,
                global_batch=batch,
                is_stated=bool(question.counts),
                batch_slack=slack,
                deadline_s=question.deadline_s,
                budget_usd=question.budget_usd,
                network_bytes_per_s=question.network_bytes_per_s,
                certainty_fraction=question.certainty_fraction,
            ),
            terms=question.terms(),
            offers=on_demand_offers(prices),
            calibration=question.constants(),
            laws=load_rate_laws(),
            law=question.limited_law(),
        )
    return replace(found, local=question.local_currency(), files=files)


def _files(answers: "Sequence[TrainingPlan]", question: LlmTrainPlanQuestion) -> Mapping[Path, bytes]:
    """Return the files that start the run that is shown first, where they are asked for."""
    from capplan.llm.core.training.launch import training_files
    from capplan.specs.shipped import LAUNCH_FORMS

    best = answers[0].safer or answers[0].cheapest or answers[0].fastest
    if best is None or question.launch_files is None:
        return {}
    return question.in_folder(training_files(best, LAUNCH_FORMS.load()))


LLM_TRAIN_PLAN = Verb(
    path="llm train plan",
    question=LlmTrainPlanQuestion,
    summary="Search GPUs, counts, layouts, micro-batches and recomputation for a training run: the cheapest, the "
    "fastest, and the one on fewest GPUs.",
    fails_if="none fits or keeps the limits",
    take_it="Take it for training or fine-tuning a language model; for other models take `plan` with `train`.",
    verdict=("cheapest", "nearest"),
    examples=(
        "capplan llm train plan llama-3-8b-instruct --tokens 1T --max-gpus 256 --deadline 30d",
        "capplan llm train plan llama-3.1-8b-instruct --method qlora --samples 50k --mean-len 500 --seq-len 2048 --gpu "
        "rtx-4090 --gpu l40s",
    ),
    answer=answer_llm_train_plan,
    sections=laid_out_by(
        "capplan.report.text.llm.training:training_plan_sections",
        everything="everything",
        shows_launch="launch",
        shows_power="energy",
    ),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_training:PLAN"),
    files=_files,
    outcome=lambda found: Outcome(exit_code=0 if found.kept else 1),
    schema="llm-train-plan",
    returns="capplan.llm.core.training.plan:TrainingPlan",
)
