"""`calibrate fit`: learn efficiencies of kernels from measurements."""

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from capplan.units import format_fraction
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb
from capplan.verbs.statement.fields import Name
from capplan.verbs.statement.options import HERE, Option
from capplan.verbs.validate import MeasuredFields

if TYPE_CHECKING:
    from capplan.core.calibrate.fit import FittedCalibration


@dataclass(frozen=True, kw_only=True)
class CalibrateQuestion(MeasuredFields):
    """The latency model fitted to measurements."""

    name: Annotated[
        Name, Option(help="Name of the calibration, as estimates report it.", shows_default=True, doors=HERE)
    ] = "own"
    made: Annotated[date | None, Option(help="Its date; today by default.", metavar="YYYY-MM-DD", doors=HERE)] = None
    only_traced: Annotated[
        bool, Option(help="Use only rows whose models are traced in the folder of --traces.", doors=HERE)
    ] = False
    folds: Annotated[
        int, Meta(ge=2), Option(help="Folds of families held out in turn.", shows_default=True, doors=HERE)
    ] = 5
    serves: Annotated[
        Literal["eager", "compile", "training"],
        Option(
            help="What it is for.", metavar="eager|compile|training", shows_default=True, doors=HERE
        ),
    ] = "eager"  # fmt: skip

    def command(self) -> str:
        """Return the command that makes the calibration again."""
        chosen = f" --serves {self.serves}" if self.serves != "eager" else ""
        return f"capplan calibrate fit {' '.join(path.name for path in self.measured)}{chosen}"


def answer_calibrate(question: CalibrateQuestion, context: Context) -> "FittedCalibration":
    """Return the calibration, and the errors that it was judged by: log(predicted ÷ measured) of held-out rows.

    Args:
        question: files as for `validate`, and tables of single kernels; only rows of what it is for are used.
        context: where progress is shown.

    Raises:
        UsageError: a file cannot be read, or fewer than 20 rows are usable.
    """
    from capplan.app.calibration.calibrate import CalibrateRequest, calibrate

    request = CalibrateRequest(
        measured=question.measured,
        name=question.name,
        made=question.made or date.today(),
        command=question.command(),
        serves=question.serves,
        folds=question.folds,
        overlays=question.specs,
        traces=question.traces,
        allows_code=question.allow_code,
        only_traced=question.only_traced,
    )
    return calibrate(request, feedback=context.feedback)


def _text(fitted: "FittedCalibration", _question: CalibrateQuestion) -> str:
    from capplan.specs.calibration import dump_calibration

    return dump_calibration(fitted.calibration)


def _outcome(fitted: "FittedCalibration") -> Outcome:
    """Return a warning with the errors of the calibration on held-out rows."""
    name = fitted.calibration.name
    if not fitted.statistics:
        return Outcome(warnings=(f"{name}: no row could be held out, all are of one family of models on one GPU",))
    lines = [f"{name}: median and 90th percentile of errors on rows held out"]
    lines += [
        f"  {cell}: {format_fraction(errors.median)}, {format_fraction(errors.p90)} of {errors.count} rows, "
        f"bias {errors.bias:.3f}"
        for cell, errors in fitted.statistics.items()
    ]
    return Outcome(warnings=("\n".join(lines),))


CALIBRATE_FIT = Verb(
    path="calibrate fit",
    question=CalibrateQuestion,
    summary="Fit the latency model to measurements, and learn its errors from GPUs and families held out.\n\n"
    "MEASURED are files as for `capplan validate`, and tables of single kernels (op-*.csv.gz). Only rows of what it is "
    "for are used: eager inference, compiled graphs, or training steps.",
    examples=("capplan calibrate fit measured.csv -o mine.yaml",),
    answer=answer_calibrate,
    text=_text,
    outcome=_outcome,
    effort=Effort.LONG,
    returns="capplan.core.calibrate.fit:FittedCalibration",
)
