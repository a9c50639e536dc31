"""`llm validate`: how wrong predictions of serving runs are on anyone's measurements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from capplan.errors import UnknownNameError, UsageError
from capplan.verbs.llm.fields import TIME_CALIBRATION
from capplan.verbs.statement.contract import Context, Look, Outcome, Verb
from capplan.verbs.statement.fields import OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic
from capplan.verbs.statement.words import NAMES

if TYPE_CHECKING:
    from capplan.llm.core.serving.accuracy import ServingValidation
    from capplan.report.sections import Section

MEASURED = Option(
    help="Measured runs: CSV, plain or .gz.", metavar="SERVING.csv...", topic=Topic.MODEL, is_argument=True,
    doors=HERE,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LlmValidateQuestion:
    """How wrong predictions of serving runs are."""

    measured: Annotated[tuple[Path, ...], MEASURED]
    by: Annotated[
        tuple[str, ...],
        Option(help="Columns that make a cell.", words=NAMES, shows_default=True, doors=Door.COMMAND),
    ] = ("gpu", "engine", "model")
    quality: Annotated[
        str,
        Option(
            help="Qualities that are judged; rows without one count as B.", metavar="LETTERS", shows_default=True
        ),
    ] = "AB"  # fmt: skip
    specs: OwnSpecs = ()
    calibration: Annotated[Path | None, TIME_CALIBRATION] = None


def answer_llm_validate(question: LlmValidateQuestion, context: Context) -> "ServingValidation":
    """Return predictions of measured serving runs beside the measurements.

    Args:
        question: the files of measured runs, and which of them are judged.
        context: how the door finds GPUs.

    Raises:
        CapplanError: a file cannot be read.
    """
    from capplan.llm.answer.deployments import Deployments
    from capplan.llm.answer.validate_serving import validate_serving
    from capplan.llm.read.calibrations import load_time_calibration
    from capplan.llm.read.serving_rows import read_serving
    from capplan.specs.fitted import load_power_law

    files = [read_serving(path) for path in question.measured]
    return validate_serving(
        [run for file in files for run in file.runs],
        unreadable=[row for file in files for row in file.skipped],
        deployments=Deployments(gpus=context.gpu_database(question.specs), assumes_narrow_cache=True),
        calibration=load_time_calibration(question.calibration),
        power_law=load_power_law(),
        qualities=question.quality.upper(),
    )


def _settle(question: LlmValidateQuestion, _look: Look) -> LlmValidateQuestion:
    from capplan.llm.core.serving.accuracy import CELL_COLUMNS

    for name in question.by:
        if name not in CELL_COLUMNS:
            raise UnknownNameError("column", name, CELL_COLUMNS, hint=f"Known: {', '.join(CELL_COLUMNS)}.")
    return question


def _sections(answers: "Sequence[ServingValidation]", question: LlmValidateQuestion) -> "Iterable[Section]":
    from capplan.report.text.llm.serving import llm_validation_sections

    return llm_validation_sections(answers[0], by=question.by)


def _document(answers: "Sequence[ServingValidation]", question: LlmValidateQuestion) -> Any:
    from capplan.report.documents.llm.serving import llm_validation_document

    return llm_validation_document(answers[0], by=question.by)


def _outcome(found: "ServingValidation") -> Outcome:
    """A validation that judged nothing ends as a wrong question does."""
    if found.answers:
        return Outcome()
    warning = "capplan: no row could be predicted; see the skipped rows."
    return Outcome(exit_code=UsageError.exit_code, warnings=(warning,))


LLM_VALIDATE = Verb(
    path="llm validate",
    question=LlmValidateQuestion,
    summary="Compare predicted with measured TTFT, TPOT, output tokens per second, power and energy.\n\n"
    "Rows that cannot be predicted are listed with the reason. A KV format that is not stated is taken as fp8 where "
    "weights are narrower than 16 bits, since published runs are mostly so. power_w is predicted at the measured "
    "rate and batch, power_w_end_to_end and joules_per_output_token from the deployment alone.",
    examples=(
        "capplan llm validate serving.csv.gz --by gpu,engine",
        "capplan llm validate runs.csv --quality ABC --json",
    ),
    answer=answer_llm_validate,
    settle=_settle,
    sections=_sections,
    document=_document,
    outcome=_outcome,
    schema="llm-validate",
    returns="capplan.llm.core.serving.accuracy:ServingValidation",
)
