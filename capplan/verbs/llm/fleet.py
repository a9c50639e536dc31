"""`llm fleet`: several language models on one fleet."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from capplan.errors import UsageError
from capplan.verbs.llm.fields import TIME_CALIBRATION, CardPowerFields, MeasuredRunFields
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import CurrencyFields, DrawFields, OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.llm.core.fleet.shared_fleet import FleetAnswer


@dataclass(frozen=True, kw_only=True)
class LlmFleetQuestion(MeasuredRunFields, CurrencyFields, CardPowerFields, DrawFields):
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

    Args:
        question: the file, and whether models may share GPUs.
        context: how the door finds GPUs and prices.

    Raises:
        CapplanError: the file is refused, or a model or GPU is not known.
    """
    from capplan.llm.answer.plan_serving import plan_shared_fleet
    from capplan.llm.read.calibrations import load_time_calibration
    from capplan.llm.read.load_file import read_fleet

    where = "fleet" if question.file is None else str(question.file)
    asked = read_fleet(_content(question), where=where)
    for model, _ in asked:
        context.language_model(model)
    with context.feedback.progress("planning every model"):
        found = plan_shared_fleet(
            asked,
            gpus=context.gpu_database(question.specs),
            prices=question.offered(context.price_list(question.specs)),
            calibration=load_time_calibration(question.calibration),
            shares_gpus=question.share_gpus,
            measured=question.named_runs(),
            power_law=question.power_law(),
            max_power_draw_w=question.max_power_draw_w,
        )
    return replace(found, local=question.local_currency())


def _content(question: LlmFleetQuestion) -> dict[str, Any]:
    """Return what the file holds that a question names, or hands over.

    Raises:
        UsageError: it does neither.
    """
    from capplan.specs.strict_yaml import read_yaml

    if question.fleet is not None:
        return question.fleet
    if question.file is None:
        raise UsageError("name models with loads in `fleet`, such as {models: [{model: qwen3-8b, rate: 5/s}]}.")
    return read_yaml(question.file)


def _for_service(question: LlmFleetQuestion) -> LlmFleetQuestion:
    """Put the content of the file in the place of its name."""
    return replace(question, file=None, fleet=_content(question))


LLM_FLEET = Verb(
    path="llm fleet",
    question=LlmFleetQuestion,
    summary="Find the fleet that serves several language models together, on one kind of GPU or mixed, the cheapest "
    "first.\n\nExit 1 if none does.",
    examples=("capplan llm fleet FLEET.yaml",),
    answer=answer_llm_fleet,
    effort=Effort.LONG,
    sections=laid_out_by("capplan.report.text.llm.money:shared_fleet_sections"),
    is_one_screen=True,
    document=laid_out_by("capplan.report.documents.llm.fleet:fleet_document"),
    outcome=lambda found: Outcome(exit_code=0 if found.fleets else 1),
    for_service=_for_service,
    schema="llm-fleet",
    returns="capplan.llm.core.fleet.shared_fleet:FleetAnswer",
)
