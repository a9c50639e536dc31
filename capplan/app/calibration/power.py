"""Learn the power of a user's own GPUs from files of measurements, and write it into a calibration."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capplan.app.calibration.cpu import CPU_AT_HAND
from capplan.app.calibration.validate import predict_steps
from capplan.app.feedback import SILENCE, Feedback
from capplan.core.calibrate.power import FEWEST_ROWS, LearntPower, learn_power
from capplan.core.energy.power import FEWEST_TIMES, MOST_TIMES
from capplan.errors import UsageError
from capplan.specs import load_gpus
from capplan.specs.calibration import dump_with_own_parts, load_calibration
from capplan.specs.measured.steps import read_measured
from capplan.specs.power_law import load_power_law
from capplan.units import format_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAnswer:
    """What was learnt of each GPU, and the content of a calibration file that holds it."""

    cards: tuple[LearntPower, ...]
    calibration: str


def calibrate_power(
    measured: Sequence[Path],
    *,
    overlays: Sequence[Path] = (),
    traces: Path | None = None,
    allows_code: bool = False,
    base: Path | None = None,
    feedback: Feedback = SILENCE,
) -> PowerAnswer:
    """Learn by what factor GPUs draw more or less than the law of power says.

    Args:
        measured: files as for `validate`; rows without `power_w` are left out.
        overlays: own GPU specs.
        traces: where traces are kept; None for the user's cache.
        allows_code: whether Python files and packages that rows name are imported.
        base: the calibration that the factors are written into; None for the shipped one.
        feedback: where progress and rows left out are shown.

    Raises:
        UsageError: a file cannot be read, no GPU has enough rows that state power, or a factor is beyond belief.
    """
    gpus = load_gpus(overlays=overlays)
    files = [read_measured(path, allow_code=allows_code) for path in measured]
    steps = [step for file in files for step in file.steps if step.power_w and step.gpu != CPU_AT_HAND]
    calibration = load_calibration(base)
    with feedback.progress(f"estimating the power of {len(steps)} rows"):
        judged, refused = predict_steps(steps, gpus=gpus, calibration=replace(calibration, power={}), folder=traces)
    skipped = [row for file in files for row in file.skipped] + refused
    if skipped:
        feedback.warn(f"{len(skipped)} rows left out, the first because {skipped[0].reason}")
    law = load_power_law()
    cards = learn_power(judged, law, {row.step.gpu: gpus.find(row.step.gpu) for row in judged})
    if not cards:
        raise UsageError(
            f"{len(judged)} usable rows state power_w, and no GPU has {FEWEST_ROWS} of them; `capplan measure` on an "
            "NVIDIA GPU writes such rows."
        )
    for found in cards:
        if not FEWEST_TIMES <= found.card.factor <= MOST_TIMES:
            raise UsageError(
                f"{found.gpu} drew {format_fraction(found.card.factor)} of what the law of power says: another card "
                "was measured, or power_w is not in watts."
            )
    power = {**calibration.power, **{found.gpu: found.card for found in cards}}
    return PowerAnswer(cards=cards, calibration=dump_with_own_parts(replace(calibration, power=power)))
