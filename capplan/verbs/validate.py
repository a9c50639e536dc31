"""`validate`: how wrong the predictions are on anyone's measurements."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.calibrate.measured import CELL_KEYS
from capplan.verbs.statement.contract import Context, Verb, drawn_by, laid_out_by, outcome_of_judged
from capplan.verbs.statement.fields import CalibrationFields, OwnSpecs, picture_file
from capplan.verbs.statement.options import HERE, Door, Option, Topic
from capplan.verbs.statement.words import NAMES, checking_pictures

if TYPE_CHECKING:
    from capplan.app.calibration.validate import ValidateAnswer
    from capplan.core.pipelines.measured import PipelineValidation


@dataclass(frozen=True, kw_only=True)
class MeasuredFields:
    """Files of measurements, and how their models are traced."""

    measured: Annotated[
        tuple[Path, ...],
        Option(
            help="Measurements: CSV, .csv.gz, Parquet or .jsonl of measure.", metavar="MEASURED...", topic=Topic.MODEL,
            is_argument=True, doors=HERE,
        ),
    ]  # fmt: skip
    specs: OwnSpecs = ()
    traces: Annotated[
        Path | None,
        Option(help="Keep traces here; by default in the user's cache.", metavar="DIR", doors=HERE),
    ] = None
    allow_code: Annotated[
        bool,
        Option(help="Import the Python files and packages that rows name; else these are skipped.", doors=HERE),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ValidateQuestion(MeasuredFields, CalibrationFields):
    """How wrong predictions of steps are."""

    by: Annotated[
        tuple[str, ...],
        Option(help="Columns that make a cell.", words=NAMES, shows_default=True, doors=HERE, metavar="A,B,..."),
    ] = CELL_KEYS
    host_copy: Annotated[
        bool, Option(help="The timers held the copy of the inputs from the host, too.", doors=HERE)
    ] = False
    worst: Annotated[
        int,
        Meta(ge=0),
        Option(
            help="How many of the worst rows to show.", topic=Topic.ANSWER, shows_default=True, doors=Door.COMMAND
        ),
    ] = 15  # fmt: skip
    plot: Annotated[Path | None, picture_file("Plot predicted against measured.")] = None


def answer_validate(question: ValidateQuestion, context: Context) -> "ValidateAnswer | PipelineValidation":
    """Return the errors of predictions by cell and over all rows, and every row with its prediction.

    Raises:
        UsageError: a file is missing, unreadable or lacks a column.
        UnknownNameError: `by` does not name a column.
    """
    from capplan.app.calibration.validate import validate
    from capplan.specs.measurements import holds_pipelines

    if any(holds_pipelines(path) for path in question.measured):
        from capplan.app.pipelines.validate import validate_pipelines

        return validate_pipelines(
            question.measured,
            calibration=question.calibration,
            feedback=context.feedback,
            allow_code=question.allow_code,
        )
    return validate(
        question.measured,
        keys=question.by,
        calibration=question.calibration,
        overlays=question.specs,
        traces=question.traces,
        allows_code=question.allow_code,
        with_copies=question.host_copy,
    )


VALIDATE = Verb(
    path="validate",
    question=ValidateQuestion,
    summary="Compare predictions with measurements: error, bias, coverage and ranks per cell, and the worst rows.\n\n"
    "Columns: model, gpu, framework, torch, precision, layout, task, batch (of one GPU), input_size or seq_len, "
    "latency_ms or samples_per_s (of all GPUs); optionally optimizer (momentum unless named), gpus (of one machine, "
    "each with a batch of its own), power_w (the mean draw, below the card's limit), reparam and fast_norm (timm's "
    "switches), peak_allocated_bytes, arg (KEY=VALUE for constructor or config, such as attn_implementation=eager) "
    "and host_copy (1 where the timer held the copy of the inputs). Rows of pipelines have the columns model, gpu, "
    "batch and batch_latency_s; optionally ulysses_degree, ring_degree, steps, height, width, frames, weights. Files "
    "of `capplan measure` (.jsonl) are read, too.",
    examples=(
        "capplan validate measured.csv",
        "capplan validate measured.csv.gz --by gpu,layout --format json -o errors.json",
    ),
    answer=answer_validate,
    finalize=checking_pictures("plot"),
    sections=laid_out_by(
        "capplan.report.text.validation:validation_sections",
        part="validation",
        others={
            "PipelineValidation": laid_out_by(
                "capplan.report.text.pipelines:pipeline_validation_sections", worst="worst"
            )
        },
        by="by",
        worst="worst",
        calibration="calibration",
    ),
    document=laid_out_by(
        "capplan.shapes.validation:VALIDATION",
        part="validation",
        others={"PipelineValidation": laid_out_by("capplan.shapes.pipelines:VALIDATION")},
    ),
    files=drawn_by(
        part="validation",
        others={"PipelineValidation": drawn_by()},
        plot="capplan.report.text.validation:validation_chart",
    ),
    outcome=lambda answer: outcome_of_judged(answer.judged, answer.cautions),
    schema="validate",
    returns="capplan.app.calibration.validate:ValidateAnswer",
)
