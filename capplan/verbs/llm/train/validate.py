"""`llm train validate`: how wrong predictions of training runs are on anyone's measurements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from capplan.errors import UnknownNameError, UsageError
from capplan.verbs.llm.train.fields import CALIBRATION
from capplan.verbs.statement.contract import Context, Look, Outcome, Verb
from capplan.verbs.statement.fields import OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic
from capplan.verbs.statement.words import NAMES

if TYPE_CHECKING:
    from capplan.llm.core.training.accuracy import TrainingValidation
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class LlmTrainValidateQuestion:
    """How wrong predictions of training runs are."""

    measured: Annotated[
        tuple[Path, ...],
        Option(
            help="Measured runs: CSV, plain or .gz.", metavar="TRAINING.csv...", topic=Topic.MODEL, is_argument=True,
            doors=HERE,
        ),
    ]  # fmt: skip
    by: Annotated[
        tuple[str, ...],
        Option(help="Columns that make a cell.", words=NAMES, shows_default=True, doors=Door.COMMAND),
    ] = ("kind", "gpu", "framework")
    quality: Annotated[
        str,
        Option(help="Qualities that are judged; rows without one count as B.", metavar="LETTERS", shows_default=True),
    ] = "AB"
    each: Annotated[
        bool,
        Option(help="Show every row instead of cells.", flags=("--rows",), topic=Topic.ANSWER, doors=Door.COMMAND),
    ] = False
    specs: OwnSpecs = ()
    calibration: Annotated[Path | None, CALIBRATION] = None


def answer_llm_train_validate(question: LlmTrainValidateQuestion, context: Context) -> "TrainingValidation":
    """Return predictions of measured training runs beside the measurements.

    Args:
        question: the files of measured runs, and which of them are judged.
        context: how the door finds GPUs.

    Raises:
        CapplanError: a file cannot be read.
    """
    from capplan.llm.answer.train_validate import validate_training
    from capplan.llm.read.training_calibration import load_training_calibration
    from capplan.specs.rate_laws import load_rate_laws

    return validate_training(
        question.measured,
        gpus=context.gpu_database(question.specs),
        calibration=load_training_calibration(question.calibration),
        laws=load_rate_laws(),
        qualities=question.quality.upper(),
    )


def _settle(question: LlmTrainValidateQuestion, _look: Look) -> LlmTrainValidateQuestion:
    from capplan.llm.core.training.accuracy import CELL_COLUMNS

    for name in question.by:
        if name not in CELL_COLUMNS:
            raise UnknownNameError("column", name, CELL_COLUMNS, hint=f"Known: {', '.join(CELL_COLUMNS)}.")
    return question


def _sections(answers: "Sequence[TrainingValidation]", question: LlmTrainValidateQuestion) -> "Iterable[Section]":
    from capplan.report.text.llm.training import training_validation_sections

    return training_validation_sections(answers[0], by=question.by, shows_rows=question.each)


def _document(answers: "Sequence[TrainingValidation]", question: LlmTrainValidateQuestion) -> Any:
    from capplan.report.documents.llm.training import training_validation_document

    return training_validation_document(answers[0], by=question.by)


def _outcome(found: "TrainingValidation") -> Outcome:
    """A validation that judged nothing ends as a wrong question does."""
    if found.answers or found.fits:
        return Outcome()
    return Outcome(
        exit_code=UsageError.exit_code, warnings=("capplan: no row could be predicted; see the skipped rows.",)
    )


LLM_TRAIN_VALIDATE = Verb(
    path="llm train validate",
    question=LlmTrainValidateQuestion,
    summary="Compare predicted with measured speed and memory of training runs.\n\n"
    "Where a row does not state what it computes again, the least that fits is assumed. Rows that cannot be predicted "
    "are listed with the reason.",
    examples=(
        "capplan llm train validate llm-training.csv.gz --by kind,gpu",
        "capplan llm train validate runs.csv --rows --format csv",
    ),
    answer=answer_llm_train_validate,
    settle=_settle,
    sections=_sections,
    document=_document,
    outcome=_outcome,
    schema="llm-train-validate",
    returns="capplan.llm.core.training.accuracy:TrainingValidation",
)
