"""Answer questions about served language models, as `capplan llm` answers them."""

import re
from typing import TYPE_CHECKING

from capplan.errors import UsageError
from capplan.llm.core.serving.clients import read_clients
from capplan.serve.planning.answer import Case, to_json, work_out
from capplan.serve.planning.replies import Reply
from capplan.serve.questions.llm import Deployed, LlmEstimateQuestion, LlmMemoryQuestion, LlmPlanQuestion
from capplan.units import SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.llm.core.fleet.planned import PlannedFleet
    from capplan.llm.core.memory_answer import MemoryAnswer
    from capplan.llm.core.serving.estimate import ServingEstimate
    from capplan.llm.core.sharding import Sharding
    from capplan.llm.core.simulation.load_answer import LatencyLimits

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


def _checked(model: str) -> str:
    """Return a name of the catalogue, or of none; never one of a file or of the hub.

    Raises:
        UsageError: it could name a file or a repository.
    """
    if not _NAME.fullmatch(model):
        raise UsageError(
            f"{model!r} is not taken here: name a model of `capplan llm models`; the service reads no files and "
            "downloads nothing."
        )
    return model


def _sharding(question: Deployed) -> "Sharding":
    from capplan.llm.core.sharding import Sharding

    return Sharding(tensor=question.tp, pipeline=question.pp, expert=question.ep, data=question.dp)


def answer_llm_memory(question: LlmMemoryQuestion, case: Case) -> "MemoryAnswer":
    """Return how a GPU's memory is divided.

    Raises:
        CapplanError: a name is not known, or the deployment is not possible.
    """
    from capplan.llm.answer.memory import MemoryWords, answer_memory_words

    return answer_memory_words(
        MemoryWords(
            model=_checked(question.model),
            gpu=question.gpu,
            sharding=_sharding(question),
            weights=question.weights or None,
            kv=question.kv or None,
            engine=question.engine,
            version=question.engine_version,
            sequence_tokens=question.max_len,
            fraction=question.utilization_fraction,
            batched_tokens=question.max_num_batched_tokens,
            max_sequences=question.max_num_seqs,
            specs=case.data.overlays,
        )
    )


@work_out.register
def _memory(question: LlmMemoryQuestion, case: Case) -> Reply:
    from capplan.report.documents.llm.memory import llm_memory_document
    from capplan.report.render import render
    from capplan.report.sections import Format
    from capplan.report.text.llm.memory import llm_memory_sections

    found = answer_llm_memory(question, case)
    return case.spell(
        {
            "json": lambda: to_json(llm_memory_document(found)),
            "table": lambda: render(llm_memory_sections(found), Format.TABLE),
            "csv": lambda: render(llm_memory_sections(found), Format.CSV),
            "md": lambda: render(llm_memory_sections(found), Format.MD),
        },
        exit_code=0 if found.fits else 1,
    )


def answer_llm_estimate(question: LlmEstimateQuestion, case: Case) -> "ServingEstimate":
    """Return how fast a deployment answers over concurrency.

    Raises:
        CapplanError: a name is not known, or the model does not fit.
    """
    from capplan.llm.answer.deployments import Deployments
    from capplan.llm.answer.estimate_serving import ServingQuestion, estimate_serving
    from capplan.llm.core.deployment import DeploymentWords
    from capplan.llm.read.time_calibration import load_time_calibration

    words = DeploymentWords(
        model=_checked(question.model),
        gpu=question.gpu,
        engine=question.engine,
        version=question.engine_version or "",
        sharding=_sharding(question),
        weights=question.weights or "",
        kv=question.kv or "",
    )
    return estimate_serving(
        ServingQuestion(
            words=words,
            concurrencies=read_clients(question.concurrency),
            input_len=question.input_len,
            output_len=question.output_len,
        ),
        deployments=Deployments(gpus=case.data.gpus),
        calibration=load_time_calibration(None),
    )


@work_out.register
def _estimate(question: LlmEstimateQuestion, case: Case) -> Reply:
    from capplan.report.documents.llm.serving import llm_estimate_document
    from capplan.report.render import render
    from capplan.report.sections import Format
    from capplan.report.text.llm.serving import llm_estimate_sections

    found = answer_llm_estimate(question, case)
    return case.spell(
        {
            "json": lambda: to_json(llm_estimate_document(found)),
            "table": lambda: render(llm_estimate_sections(found), Format.TABLE),
            "csv": lambda: render(llm_estimate_sections(found), Format.CSV),
            "md": lambda: render(llm_estimate_sections(found), Format.MD),
        }
    )


def answer_llm_plan(question: LlmPlanQuestion, case: Case) -> "PlannedFleet":
    """Return the deployments that carry a load within limits, the cheapest first.

    Raises:
        CapplanError: a name is not known, or the load is empty or too long for the model.
    """
    from capplan.llm.answer.deployments import Deployments
    from capplan.llm.answer.fleet_money import MoneyQuestion
    from capplan.llm.answer.plan_serving import plan_fleet
    from capplan.llm.answer.rents import on_demand_offers, searched_gpus
    from capplan.llm.core.fleet.candidates import ShardingChoice
    from capplan.llm.core.fleet.token_load import TokenLoad
    from capplan.llm.core.search.search import DEFAULT_ENGINES, PlanQuestion
    from capplan.llm.read.time_calibration import load_time_calibration

    rents = on_demand_offers(case.data.prices)
    gpus = case.data.gpus
    return plan_fleet(
        PlanQuestion(
            model=_checked(question.model),
            load=TokenLoad(
                rate_per_s=question.rate,
                concurrency=question.concurrency,
                input_len=float(question.input_len),  # as the command line has it, to which images add tokens
                output_len=question.output_len,
            ),
            limits=_limits(question),
            gpus=tuple(gpus.find(name).id for name in question.gpus) or searched_gpus(gpus, rents),
            engines=tuple(question.engines) or DEFAULT_ENGINES,
            weights=tuple(question.weights or ("",)),
            kv=question.kv or "",
            choice=ShardingChoice(
                tensor=tuple(question.tp),
                pipeline=tuple(question.pp),
                expert=tuple(question.ep),
                data=tuple(question.dp),
            ),
            redundancy=question.redundancy,
            rents=rents,
        ),
        deployments=Deployments(gpus=gpus),
        calibration=load_time_calibration(None),
        prices=case.data.prices,
        money=MoneyQuestion(),
    )


@work_out.register
def _plan(question: LlmPlanQuestion, case: Case) -> Reply:
    from capplan.report.documents.llm.plan import llm_plan_document
    from capplan.report.render import render
    from capplan.report.sections import Format
    from capplan.report.text.llm.plan import llm_plan_sections

    found = answer_llm_plan(question, case)
    return case.spell(
        {
            "json": lambda: to_json(llm_plan_document(found)),
            "table": lambda: render(llm_plan_sections(found), Format.TABLE),
            "csv": lambda: render(llm_plan_sections(found), Format.CSV),
            "md": lambda: render(llm_plan_sections(found), Format.MD),
        },
        exit_code=0 if found.plan.fits else 1,
    )


def _limits(question: LlmPlanQuestion) -> "LatencyLimits":
    """Read the limits of what requests see.

    Raises:
        UsageError: one is not a time above 0, or there is no such percentile.
    """
    from capplan.llm.core.simulation.load_answer import LatencyLimits, Statistic

    named = {each.value.lstrip("p"): each for each in Statistic}
    if question.percentile.lstrip("p") not in named:
        raise UsageError(f"percentile {question.percentile}: write one of {', '.join(named)}.")

    def read(text: str | None, what: str) -> float | None:
        if not text:
            return None
        value = parse_quantity(text, SECONDS, what=what)
        if value <= 0:
            raise UsageError(f"{what} {text}: write a time above 0, such as 500ms.")
        return value

    return LatencyLimits(
        ttft_s=read(question.max_ttft, "max_ttft"),
        tpot_s=read(question.max_tpot, "max_tpot"),
        e2e_s=read(question.max_e2e, "max_e2e"),
        statistic=named[question.percentile.lstrip("p")],
    )
