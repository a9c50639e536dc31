"""`llm fleet`: several language models on one fleet."""

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from capplan.errors import UsageError
from capplan.verbs.llm.fields import TIME_CALIBRATION, CardPowerFields, MeasuredRunFields, SpendFields
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import CurrencyFields, DrawFields, OwnSpecs
from capplan.verbs.statement.file_keys import named_by_keys
from capplan.verbs.statement.options import HERE, Door, Option, Topic, fields_of

if TYPE_CHECKING:
    from capplan.llm.core.fleet.shared_fleet import FleetAnswer
    from capplan.llm.core.search.search import SearchSpace
    from capplan.llm.core.simulation.load_answer import LatencyLimits


@dataclass(frozen=True, kw_only=True)
class LlmFleetQuestion(MeasuredRunFields, CurrencyFields, SpendFields, CardPowerFields, DrawFields):
    """Which fleet serves several language models together, the cheapest first."""

    file: Annotated[
        Path | None,
        Option(
            help="models: a list of loads, each with its model.", metavar="FLEET.yaml", topic=Topic.MODEL,
            is_argument=True, doors=HERE,
        ),
    ] = None  # fmt: skip
    fleet: Annotated[
        dict[str, Any] | None, Option(help="What a FLEET.yaml holds: models, each with its load.", doors=Door.HTTP)
    ] = None
    share_gpus: Annotated[
        bool, Option(help="Also put several models on the same GPUs where that is cheaper (estimate).")
    ] = False
    specs: OwnSpecs = ()
    calibration: Annotated[Path | None, TIME_CALIBRATION] = None


def answer_llm_fleet(question: LlmFleetQuestion, context: Context) -> "FleetAnswer":
    """Return the plans of all models of a file, and the fleets that serve them together.

    Raises:
        CapplanError: the file is refused, or a model or GPU is not known.
    """
    from capplan.app.deployments import Deployments, on_demand_offers
    from capplan.llm.core.fleet.limits import PATIENCE_FILE_WORDS
    from capplan.llm.core.fleet.shared_fleet import FleetAnswer, shared_fleets
    from capplan.llm.core.search.plan import plan_deployments, with_patience_note
    from capplan.llm.read.calibrations import load_time_calibration
    from capplan.verbs.llm.load_file import KEYS, read_fleet
    from capplan.verbs.llm.plan import search_space
    from capplan.verbs.llm.plan_question import LlmPlanQuestion

    shown = "fleet" if question.file is None else str(question.file)
    prices = question.offered(context.price_list(question.specs))
    deployments = Deployments(gpus=context.gpu_database(question.specs), power_law=question.power_law())
    rents = on_demand_offers(prices)

    def asked_of(load: LlmPlanQuestion) -> "tuple[SearchSpace, LatencyLimits]":
        deployments.model(context.language_model(load.model))  # refuses an unknown one by its name alone
        with named_by_keys(shown, KEYS.values()):
            return search_space(load, context, deployments=deployments, rents=rents), load.limits()

    asked = [asked_of(load) for load in read_fleet(_content(question), shown=shown, apart=_apart())]
    with context.feedback.progress("planning every model"):
        calibration, measured = load_time_calibration(question.calibration), question.named_runs()
        searches = [deployments.search(space, calibration=calibration, measured=measured) for space, _ in asked]
        plans = tuple(
            with_patience_note(plan_deployments(search), stated, words=PATIENCE_FILE_WORDS)
            for search, (_, stated) in zip(searches, asked, strict=True)
        )
        fleets = shared_fleets(plans, shares_gpus=question.share_gpus)
    if (most_w := question.max_power_draw_w) is not None:
        fleets = tuple(fleet for fleet in fleets if (fleet.power_w or inf) <= most_w)
    if (most_usd := question.most_usd_per_hour()) is not None:
        fleets = tuple(fleet for fleet in fleets if (fleet.usd_per_hour or inf) <= most_usd)
    return FleetAnswer(plans=plans, fleets=fleets, local=question.local_currency())


def _apart() -> dict[str, str]:
    """Return the keys of load files that a fleet states for all of its models, and those of a plan's money."""
    own = {field.file_key: "is an option of llm fleet, for all of its models" for field in fields_of(LlmFleetQuestion)}
    hours = "is read where one model is planned, by llm plan or report: fleets cost USD per hour"
    return {**own, "hours_of_use": hours, "days_per_week": hours}


def _content(question: LlmFleetQuestion) -> dict[str, Any]:
    """Return what the file holds that a question names, or hands over."""
    from capplan.specs.strict_yaml import read_yaml

    if question.fleet is not None:
        return question.fleet
    if question.file is None:
        raise UsageError("name models with loads in `fleet`, such as {models: [{model: qwen3-8b, rate: 5/s}]}.")
    return read_yaml(question.file)


def _for_service(question: LlmFleetQuestion) -> LlmFleetQuestion:
    """Replace the name of the file by its content."""
    return replace(question, file=None, fleet=_content(question))


LLM_FLEET = Verb(
    path="llm fleet",
    question=LlmFleetQuestion,
    summary="Find the fleet that serves several language models together, on one kind of GPU or mixed, the cheapest "
    "first.",
    fails_if="none does",
    examples=("capplan llm fleet FLEET.yaml",),
    answer=answer_llm_fleet,
    effort=Effort.LONG,
    sections=laid_out_by("capplan.report.text.llm.money:shared_fleet_sections"),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_fleet:FLEETS"),
    outcome=lambda found: Outcome(exit_code=0 if found.fleets else 1),
    for_service=_for_service,
    schema="llm-fleet",
    returns="capplan.llm.core.fleet.shared_fleet:FleetAnswer",
)
