"""`llm validate` and `llm train validate`: how wrong predictions of serving and training are on measured runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from capplan.errors import CapplanError, UnknownNameError, UsageError
from capplan.verbs.llm.fields import TIME_CALIBRATION, TRAINING_CALIBRATION
from capplan.verbs.statement.contract import Context, Look, Verb, laid_out_by, outcome_of_judged
from capplan.verbs.statement.fields import OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic
from capplan.verbs.statement.words import NAMES

if TYPE_CHECKING:
    from capplan.llm.core.serving.accuracy import ServingValidation
    from capplan.llm.core.training.accuracy import JudgedFit, JudgedTraining, TrainingValidation

MEASURED = Option(
    help="Measured runs: CSV, plain or .gz.", metavar="[SERVING.csv...]", topic=Topic.MODEL, is_argument=True,
    doors=HERE,
)  # fmt: skip
EVIDENCE = Option(help="Measured runs that `capplan llm evidence update` has brought.", doors=HERE)
_CELLS = Option(
    help="Columns that make a cell.", words=NAMES, metavar="A,B,...", shows_default=True, doors=Door.COMMAND
)
_QUALITY = Option(help="Qualities that are judged; rows without one count as B.", metavar="LETTERS", shows_default=True)


@dataclass(frozen=True, kw_only=True)
class LlmValidateQuestion:
    """How wrong predictions of serving runs are."""

    measured: Annotated[tuple[Path, ...], MEASURED] = ()
    evidence: Annotated[bool, EVIDENCE] = False
    by: Annotated[tuple[str, ...], _CELLS] = ("gpu", "engine", "model")
    quality: Annotated[str, _QUALITY] = "AB"
    specs: OwnSpecs = ()
    calibration: Annotated[Path | None, TIME_CALIBRATION] = None


def answer_llm_validate(question: LlmValidateQuestion, context: Context) -> "ServingValidation":
    """Return predictions of measured serving runs beside the measurements.

    Raises:
        CapplanError: a file cannot be read.
    """
    from capplan.app.deployments import Deployments
    from capplan.llm.core.search.judged_runs import validate_serving
    from capplan.llm.read.calibrations import load_time_calibration
    from capplan.llm.read.serving_rows import read_serving
    from capplan.specs.fitted import load_power_law

    files = [read_serving(path) for path in measured_files(question.measured, with_evidence=question.evidence)]
    deployments = Deployments(gpus=context.gpu_database(question.specs), assumes_narrow_cache=True)
    return validate_serving(
        [run for file in files for run in file.runs],
        unreadable=[row for file in files for row in file.skipped],
        find=deployments.find,
        calibration=load_time_calibration(question.calibration),
        power_law=load_power_law(),
        qualities=question.quality.upper(),
    )


def measured_files(measured: tuple[Path, ...], *, with_evidence: bool) -> tuple[Path, ...]:
    """Return the tables that a question names, and those of the evidence where it asks for them."""
    from capplan.llm.read.evidence import evidence_files

    if not measured and not with_evidence:
        raise UsageError("name a table of measured runs, or ⟨evidence⟩ for those that were brought.")
    return (*measured, *(evidence_files() if with_evidence else ()))


def _check_columns(by: Sequence[str], known: Sequence[str]) -> None:
    """Refuse columns that make no cells."""
    for name in by:
        if name not in known:
            raise UnknownNameError("column", name, known, hint=f"Known: {', '.join(known)}.")


def _finalize(question: LlmValidateQuestion, _look: Look) -> LlmValidateQuestion:
    from capplan.llm.core.serving.accuracy import CELL_COLUMNS

    _check_columns(question.by, CELL_COLUMNS)
    if question.evidence and question.by == LlmValidateQuestion.by:
        return replace(question, by=("gpu", "engine", "version"))
    return question


LLM_VALIDATE = Verb(
    path="llm validate",
    question=LlmValidateQuestion,
    summary="Compare predicted with measured TTFT, TPOT, output tokens per second, power and energy.\n\n"
    "Rows that cannot be predicted are listed with the reason. A KV format that is not stated is taken as fp8 where "
    "weights are narrower than 16 bits, since published runs are mostly so. Evidence is judged by GPU, engine and "
    "version unless ⟨by⟩ says otherwise. power_w is predicted at the measured rate and batch, power_w_end_to_end and "
    "joules_per_output_token from the deployment alone.",
    examples=(
        "capplan llm validate serving.csv.gz --by gpu,engine",
        "capplan llm validate --evidence",
    ),
    answer=answer_llm_validate,
    finalize=_finalize,
    sections=laid_out_by("capplan.report.text.llm.serving:llm_validation_sections", by="by"),
    document=laid_out_by("capplan.shapes.llm_serving:VALIDATION", whole="by"),
    outcome=lambda validation: outcome_of_judged(validation.answers),
    schema="llm-validate",
    is_local=True,
    returns="capplan.llm.core.serving.accuracy:ServingValidation",
)


@dataclass(frozen=True, kw_only=True)
class LlmTrainValidateQuestion:
    """How wrong predictions of training runs are."""

    measured: Annotated[tuple[Path, ...], replace(MEASURED, metavar="TRAINING.csv...")]
    by: Annotated[tuple[str, ...], _CELLS] = ("kind", "gpu", "framework")
    quality: Annotated[str, _QUALITY] = "AB"
    each: Annotated[
        bool, Option(help="Show every row instead of cells.", flags=("--rows",), topic=Topic.ANSWER, doors=Door.COMMAND)
    ] = False
    specs: OwnSpecs = ()
    calibration: Annotated[Path | None, TRAINING_CALIBRATION] = None


def answer_llm_train_validate(question: LlmTrainValidateQuestion, context: Context) -> "TrainingValidation":
    """Return predictions of measured training runs beside the measurements.

    Raises:
        CapplanError: a file cannot be read.
    """
    from capplan.llm.core.measured import SkippedRun
    from capplan.llm.core.training.accuracy import TrainingValidation
    from capplan.llm.core.training.estimate import judge_fit, judge_training
    from capplan.llm.read.training_calibration import load_training_calibration
    from capplan.llm.read.training_rows import read_training
    from capplan.specs.rate_laws import load_rate_laws

    gpus, qualities = context.gpu_database(question.specs), question.quality.upper()
    calibration, laws = load_training_calibration(question.calibration), load_rate_laws()
    answers: list[JudgedTraining] = []
    fits: list[JudgedFit] = []
    skipped: list[SkippedRun] = []
    for path in question.measured:
        found = read_training(path)
        skipped += found.skipped
        for run in found.runs:
            if run.quality not in qualities:
                continue
            try:
                gpu = gpus.find(run.gpu)
                answers += judge_training(run, gpu, calibration=calibration, laws=laws)
                fits += judge_fit(run, gpu, calibration)
            except CapplanError as error:
                reason = str(error)
                skipped.append(SkippedRun(file=path.name, line=run.line, model=run.model, gpu=run.gpu, reason=reason))
    return TrainingValidation(answers=tuple(answers), fits=tuple(fits), skipped=tuple(skipped))


def _finalize_train(question: LlmTrainValidateQuestion, _look: Look) -> LlmTrainValidateQuestion:
    from capplan.llm.core.training.accuracy import CELL_COLUMNS

    _check_columns(question.by, CELL_COLUMNS)
    return question


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
    finalize=_finalize_train,
    sections=laid_out_by("capplan.report.text.llm.training:training_validation_sections", by="by", shows_rows="each"),
    document=laid_out_by("capplan.shapes.llm_training:VALIDATION", whole="by"),
    outcome=lambda validation: outcome_of_judged(validation.answers or validation.fits),
    schema="llm-train-validate",
    returns="capplan.llm.core.training.accuracy:TrainingValidation",
)
