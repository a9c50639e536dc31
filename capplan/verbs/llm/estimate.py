"""`llm estimate`: time to first token, time between tokens and tokens per second over concurrency."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from capplan.verbs.llm.fields import (
    CLIENTS,
    CardPowerFields,
    FilesHereFields,
    MeanLengthFields,
    MeasuredRunFields,
    PrefixFields,
    ReplicaFields,
    SpeculationFields,
)
from capplan.verbs.statement.contract import Context, Look, Verb, drawn_by, laid_out_by
from capplan.verbs.statement.fields import in_answer, picture_file
from capplan.verbs.statement.options import ANYWHERE, After, Door, Option
from capplan.verbs.statement.words import check_pictures

if TYPE_CHECKING:
    from capplan.llm.core.serving.estimate import ServingEstimate

_UP_TO_256 = tuple(2**power for power in range(9))


@dataclass(frozen=True, kw_only=True)
class LlmEstimateQuestion(
    ReplicaFields, MeasuredRunFields, MeanLengthFields, PrefixFields, SpeculationFields, CardPowerFields,
    FilesHereFields,
):  # fmt: skip
    """Time to first token, time per output token and tokens per second over concurrency."""

    concurrency: Annotated[
        tuple[int, ...], After("measured"),
        Option(
            is_usual=True,
            help="Clients: 8, 1,8,32 or 1..256 (powers of two).", flags=("--concurrency", "-c"), words=CLIENTS,
            metavar="CLIENTS", shows_default=True, doors=ANYWHERE | Door.SWEEP,
        ),
    ] = _UP_TO_256  # fmt: skip
    first_burst: Annotated[
        bool,
        After("power_calibration"),
        Option(help="Count the first requests of all clients, sent at once, in TTFT, as benchmark tools do."),
    ] = False
    explain: Annotated[bool, in_answer("Write out what the steps are made of.", is_usual=True)] = False
    plot: Annotated[Path | None, picture_file("Plot the curve.")] = None


def answer_llm_estimate(question: LlmEstimateQuestion, context: Context) -> "ServingEstimate":
    """Return how fast a deployment answers over concurrency.

    Raises:
        CapplanError: a name is not known, or the model does not fit.
    """
    from capplan.llm.core.search.estimate import estimate_serving
    from capplan.llm.core.search.room import served_demand
    from capplan.llm.read.calibrations import load_time_calibration

    law = question.power_law()
    words = question.words(context.language_model(question.model), question.named_drafter(context))
    measured, deployments = question.measured_runs(), question.deployments(context, law)
    calibration = load_time_calibration(question.calibration)
    deployment = deployments.find(words)
    demand = served_demand(
        deployments.find,
        words,
        input_len=question.input_len,
        output_len=question.output_len,
        prefix_fraction=question.prefix_fraction,
        counts_burst=question.first_burst,
        speculation=question.speculation(context),
    )
    return estimate_serving(
        deployment,
        demand,
        question.concurrency,
        calibration=calibration,
        measured=measured,
        flags=question.flags(),
        power_law=law,
    )


def _finalize(question: LlmEstimateQuestion, look: Look) -> LlmEstimateQuestion:
    check_pictures(question.plot)
    return replace(question, explain=question.explain and look.format == "table")


LLM_ESTIMATE = Verb(
    path="llm estimate",
    question=LlmEstimateQuestion,
    summary="Estimate how fast a served language model answers, with intervals and the evidence behind them.",
    examples=(
        "capplan llm estimate qwen3-32b --gpu h100-sxm5-80gb --tp 2 --concurrency 1..256",
        "capplan llm estimate llama-3.1-8b-instruct --gpu l40s --weights fp8 -c 32 --explain",
    ),
    answer=answer_llm_estimate,
    finalize=_finalize,
    sections=laid_out_by("capplan.report.text.llm.serving:llm_estimate_sections", explain="explain"),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_serving:ESTIMATE"),
    files=drawn_by(plot="capplan.report.text.llm.serving:estimate_chart"),
    schema="llm-estimate",
    returns="capplan.llm.core.serving.estimate:ServingEstimate",
)
