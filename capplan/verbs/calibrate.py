"""`calibrate`: learn efficiencies of kernels from measurements, or of the device and the host at hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from msgspec import Meta

from capplan.errors import UsageError
from capplan.units import format_fraction
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import Name, OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option
from capplan.verbs.validate import MeasuredFields

if TYPE_CHECKING:
    from capplan.app.calibration.at_hand import DeviceAnswer, HostAnswer
    from capplan.app.calibration.calibrate import PowerAnswer
    from capplan.core.calibrate.fit import FittedCalibration


@dataclass(frozen=True, kw_only=True)
class CalibrateQuestion(MeasuredFields):
    """The latency model fitted to measurements."""

    name: Annotated[
        Name, Option(help="Name of the calibration, as estimates report it.", shows_default=True, doors=HERE)
    ] = "own"
    made: Annotated[date | None, Option(help="Its date; today by default.", metavar="YYYY-MM-DD", doors=HERE)] = None
    only_traced: Annotated[
        bool, Option(help="Use only rows whose models are traced in the folder of ⟨traces⟩.", doors=HERE)
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

    Raises:
        UsageError: a file cannot be read, or fewer than 20 rows are usable.
    """
    from capplan.app.calibration.calibrate import timed_steps
    from capplan.core.calibrate.fit import fit_calibration
    from capplan.specs.rate_laws import load_rate_laws

    steps = timed_steps(
        question.measured,
        serves=question.serves,
        overlays=question.specs,
        traces=question.traces,
        allows_code=question.allow_code,
        only_traced=question.only_traced,
        feedback=context.feedback,
    )
    with context.feedback.progress(f"fitting {len(steps)} rows"):
        return fit_calibration(
            steps,
            name=question.name,
            made=question.made or date.today(),
            command=question.command(),
            sources=[path.name for path in question.measured],
            folds=question.folds,
            serves=question.serves,
            laws=load_rate_laws(),
        )


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


@dataclass(frozen=True, kw_only=True)
class _CalibrationFileFields:
    base: Annotated[
        Path | None, Option(help="Calibration to lay the result over; the shipped one.", doors=Door.COMMAND)
    ] = None
    output: Annotated[
        Path | None, Option(help="Write the calibration here.", flags=("--output", "-o"), doors=Door.COMMAND)
    ] = None


_Made = TypeVar("_Made", bound=_CalibrationFileFields)


@dataclass(frozen=True, kw_only=True)
class DeviceQuestion(_CalibrationFileFields):
    """What the device at hand reaches: matrix products, copies, launches, memory."""

    device: Annotated[
        str | None, Option(help="cuda:0, xpu, mps, cpu; by default the first accelerator.", doors=Door.COMMAND)
    ] = None
    gpu: Annotated[
        str | None,
        Option(
            help="The device's GPU spec, if its name is unknown.", metavar="ID", completes="gpus", doors=Door.COMMAND
        ),
    ] = None
    specs: OwnSpecs = ()
    spec: Annotated[
        Path | None,
        Option(
            help="Write them as the GPU's measured block into a folder of specs.", metavar="FOLDER", doors=Door.COMMAND
        ),
    ] = None  # fmt: skip


def _finalize(question: _Made, _look: Look) -> _Made:
    if question.output is not None and not question.output.parent.is_dir():
        raise UsageError(f"cannot write {question.output}: there is no folder {question.output.parent}.")
    return question


def answer_device(question: DeviceQuestion, context: Context) -> "DeviceAnswer":
    """Return what the device at hand reaches, with the calibration and the spec that were asked for."""
    from capplan.app.calibration.at_hand import calibrate_device

    return calibrate_device(
        question.device,
        gpu=question.gpu,
        overlays=question.specs,
        base=question.base,
        output=question.output,
        folder=question.spec,
        command=context.command(CALIBRATE_DEVICE, question),
        feedback=context.feedback,
    )


def _file(
    answers: "Sequence[DeviceAnswer | HostAnswer | PowerAnswer]", question: _CalibrationFileFields
) -> Mapping[Path, bytes]:
    content = answers[0].calibration
    return {} if question.output is None or content is None else {question.output: content.encode()}


CALIBRATE_DEVICE = Verb(
    path="calibrate device",
    question=DeviceQuestion,
    summary="Measure what this device reaches in about a minute: matrix products, copies, launches, memory.\n\n"
    "With -o FILE.yaml, write a calibration with this GPU's factors, for ⟨calibration⟩ of other commands. With ⟨spec⟩ "
    "FOLDER, write what was measured as the `measured:` block of its spec, for ⟨specs⟩. A CPU that the database does "
    "not know gets a spec of its own there, and -o times about sixty operators on it, in fp32 and bf16.",
    examples=(
        "capplan calibrate device",
        "capplan calibrate device --device cuda:0 -o mine.yaml",
        "capplan calibrate device --device cpu --spec mine -o cpu.yaml",
    ),
    answer=answer_device,
    finalize=_finalize,
    sections=laid_out_by("capplan.report.text.devices:device_sections", part="benchmark"),
    document=lambda answers, _: answers[0].benchmark,
    files=_file,
    outcome=lambda answer: Outcome(warnings=answer.notes),
    is_local=True,
    returns="capplan.app.calibration.at_hand:DeviceAnswer",
)


def answer_host(question: _CalibrationFileFields, context: Context) -> "HostAnswer":
    """Return what calls into PyTorch cost on this host, with the calibration that was asked for."""
    from capplan.app.calibration.at_hand import calibrate_host

    command = context.command(CALIBRATE_HOST, question)
    return calibrate_host(base=question.base, command=command, feedback=context.feedback)


CALIBRATE_HOST = Verb(
    path="calibrate host",
    question=_CalibrationFileFields,
    summary="Measure what calls into PyTorch cost on this host, operator by operator, with or without a GPU.\n\n"
    "Small batches wait for the host. With -o FILE.yaml, write a calibration with these costs, for ⟨calibration⟩ of "
    "other commands.",
    examples=("capplan calibrate host", "capplan calibrate host -o mine.yaml"),
    answer=answer_host,
    finalize=_finalize,
    sections=laid_out_by("capplan.report.text.devices:host_sections", part="costs"),
    document=lambda answers, _: answers[0].costs,
    files=_file,
    is_local=True,
    returns="capplan.app.calibration.at_hand:HostAnswer",
)


@dataclass(frozen=True, kw_only=True)
class PowerQuestion(MeasuredFields, _CalibrationFileFields):
    """How much more or less one's own GPUs draw than the law of power says."""


def answer_power(question: PowerQuestion, context: Context) -> "PowerAnswer":
    """Return what was learnt of the power of each GPU, with the calibration that was asked for."""
    from capplan.app.calibration.calibrate import calibrate_power

    return calibrate_power(
        question.measured,
        overlays=question.specs,
        traces=question.traces,
        allows_code=question.allow_code,
        base=question.base,
        feedback=context.feedback,
    )


CALIBRATE_POWER = Verb(
    path="calibrate power",
    question=PowerQuestion,
    summary="Learn from measurements how much more or less your GPUs draw than the law of power says.\n\n"
    "MEASURED are files as for `capplan validate` whose rows state `power_w`; `capplan measure` on a GPU writes such. "
    "With -o FILE.yaml, write a calibration with one factor for each GPU, for ⟨calibration⟩ of other commands.",
    examples=("capplan calibrate power runs.jsonl -o mine.yaml",),
    answer=answer_power,
    finalize=_finalize,
    sections=laid_out_by("capplan.report.text.devices:power_sections", part="cards"),
    document=laid_out_by("capplan.shapes.validation:power_factors_document", part="cards"),
    files=_file,
    effort=Effort.LONG,
    returns="capplan.app.calibration.calibrate:PowerAnswer",
)
