"""`llm fleet`: several language models on one fleet."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from capplan.verbs.contract import Context, Outcome, Verb
from capplan.verbs.fields import OwnSpecs
from capplan.verbs.llm.fields import TIME_CALIBRATION
from capplan.verbs.options import HERE, Option, Topic

if TYPE_CHECKING:
    from capplan.llm.answer.shared_fleet import FleetAnswer
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class LlmFleetQuestion:
    """Which fleet serves several language models together, the cheapest first."""

    file: Annotated[
        Path,
        Option(
            help="models: a list of loads, each with its model.", metavar="FLEET.yaml", topic=Topic.MODEL,
            is_argument=True, doors=HERE,
        ),
    ]  # fmt: skip
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
    from capplan.llm.answer.shared_fleet import plan_shared_fleet
    from capplan.llm.read.load_file import read_fleet_file
    from capplan.llm.read.time_calibration import load_time_calibration

    with context.feedback.progress("planning every model"):
        return plan_shared_fleet(
            read_fleet_file(question.file),
            gpus=context.gpu_database(question.specs),
            prices=context.price_list(question.specs),
            calibration=load_time_calibration(question.calibration),
            shares_gpus=question.share_gpus,
        )


def _sections(answers: "Sequence[FleetAnswer]", _question: LlmFleetQuestion) -> "Iterable[Section]":
    from capplan.report.text.llm.fleet import shared_fleet_sections

    return shared_fleet_sections(answers[0].plans, answers[0].fleets)


def _document(answers: "Sequence[FleetAnswer]", _question: LlmFleetQuestion) -> Any:
    from capplan.report.documents.llm.fleet import fleet_document

    return fleet_document(answers[0].plans, answers[0].fleets)


LLM_FLEET = Verb(
    path="llm fleet",
    question=LlmFleetQuestion,
    summary="Find the fleet that serves several language models together, on one kind of GPU or mixed, the cheapest "
    "first.\n\nExit 1 if none does.",
    examples=("capplan llm fleet FLEET.yaml",),
    answer=answer_llm_fleet,
    sections=_sections,
    document=_document,
    outcome=lambda found: Outcome(exit_code=0 if found.fleets else 1),
    schema="llm-fleet",
    returns="capplan.llm.answer.shared_fleet:FleetAnswer",
)
