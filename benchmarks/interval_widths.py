"""Learn how far cards lie that nobody timed, and single precision, from every whole step at hand.

    python benchmarks/interval_widths.py ../shared/data/measured/latency-other.csv.gz

writes the widths of steps that the device decides into default.yaml and compile.yaml; `accuracy.py` writes what the
three GPUs of its rows tell of cards, and this comes after it. Two things are learnt:

* The spread of cards. A bias is the median log error of one card that a fit had not seen: cards whose chips were left
  out of training steps (their calibration keeps these errors), and cards without any step in the eager fit, or without
  one in single precision, whose steps in it other projects published (accuracy_other.py, accuracy_fp32.py; steps that
  the device decides). The half-width is exceeded by a tenth of them. Where families and a card were both left out, a
  cell's errors may be larger than those of families and of cards together: what is more counts as the card's.
* Single precision: the sides within a card of published steps in fp32 and TF32, the card's bias taken off where nothing
  of it was fitted in single precision, because an interval adds the spread of cards there. Its cards lie as far in
  other architectures as in those of the consumer cards, so that all share one spread: with each unfitted card left out
  of it, the intervals cover as many of its steps as with two spreads.

Cards of other architectures than the reference's get at least the spread that the eager fit's own cards of few rows
showed when they were left out (A100, V100, T4: 0.23). Cards left out of training steps have sisters that stayed, and a
spread of 0.1 alone; no compiled step of such a card was timed. `--kept` learns nothing anew and takes the biases and
the sides of single precision that default.yaml keeps.

Steps whose timer held the copy of images are left out: what copies take is not the card's.
"""

import argparse
import csv
import gzip
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import group_biases
from accuracy_fp32 import cases
from accuracy_other import COLUMNS, mapped

from capplan.app.calibration.validate import validate
from capplan.core.calibrate.fit import sides
from capplan.core.calibrate.validation import JudgedStep, error_statistics
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration, IntervalWidth
from capplan.core.latency.lookup import LAUNCHES, REFERENCE_ARCHITECTURES, architecture_key, precision_key
from capplan.core.latency.types import Binding
from capplan.core.numbers import BoolArray, FloatArray
from capplan.specs import load_gpus
from capplan.specs.calibration import dump_calibration, load_calibration
from capplan.specs.folders import calibration_file

SINGLE = "device single"
_HOSTS_SHARE = 0.3
_FEWEST_STEPS = 2
_COMMAND = "python benchmarks/interval_widths.py latency-other.csv.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Log errors of steps that other projects published: the GPU, and whether the step is in single precision."""

    gpus: tuple[str, ...]
    errors: FloatArray
    is_single: BoolArray


def published(path: Path, traces: Path | None) -> Published:
    """Predict published steps, and keep those that the device decides."""
    with gzip.open(path, "rt", newline="") as stream:
        rows = [found for row in csv.DictReader(stream) if not isinstance(found := mapped(row), str)]
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "mapped.csv"
        with kept.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        judged = [row for row in validate((kept,), traces=traces).judged if _by_device(row)]
    transformers = list(cases(path))
    return Published(
        gpus=(*(row.step.gpu for row in judged), *(case.gpu for case in transformers)),
        errors=np.array([*(row.log_error for row in judged), *(case.log_error for case in transformers)]),
        is_single=np.array(
            [*(precision_key(row.step.workload) == "single" for row in judged), *([True] * len(transformers))]
        ),
    )


def _by_device(row: JudgedStep) -> bool:
    return not row.step.includes_copy and dict(row.estimate.share_by_binding)[Binding.LAUNCHES] < _HOSTS_SHARE


def card_biases(found: Published, eager: Calibration, training: Calibration) -> dict[str, float]:
    """Return the median log errors of cards that a fit had not seen, by kind of steps and card."""
    assert training.origin is not None
    held = training.origin.held_out_errors.items()
    biases = {
        f"training, chip left out: {name.split()[2]}": float(np.log(each["bias"]))
        for name, each in held if name.startswith("chip of ")
    }  # fmt: skip
    for single in (False, True):
        chosen = (found.is_single == single) & np.array([not _is_fitted(eager, gpu, single) for gpu in found.gpus])
        names = [gpu for gpu, is_in in zip(found.gpus, chosen, strict=True) if is_in]
        kind = "single" if single else "half"
        biases |= {
            f"{kind}: {gpu}": bias
            for gpu, bias in group_biases(found.errors[chosen], names).items() if names.count(gpu) >= _FEWEST_STEPS
        }  # fmt: skip
    return biases


def _is_fitted(eager: Calibration, gpu: str, single: bool) -> bool:
    """Return True if the fit knows a card in a precision: to the intervals of others, the spread of cards is added."""
    factors = eager.gpus.get(gpu)
    return factors is not None and factors.rows > 0 and (not single or factors.single_rows > 0)


def spread(biases: list[float]) -> float:
    """Return the half-width that a tenth of cards exceeds, with one card more than there are."""
    return float(np.quantile(np.abs(biases), min(1.0, 0.9 * (1 + 1 / len(biases)))))


def single_errors(found: Published, eager: Calibration) -> FloatArray:
    """Return the errors of steps in single precision, less the bias of cards that were not fitted in it."""
    names = [gpu for gpu, is_in in zip(found.gpus, found.is_single, strict=True) if is_in]
    errors = found.errors[found.is_single]
    biases = group_biases(errors, names)
    own = [0.0 if _is_fitted(eager, gpu, True) else biases[gpu] for gpu in names]
    return np.asarray(errors - np.array(own))


def unseen_single(found: Published, eager: Calibration, training: Calibration) -> tuple[float, float]:
    """Return how many steps in single precision of unfitted cards lie in intervals learnt without the card.

    Args:
        found: published steps.
        eager: the calibration whose fit says which cards it knows.
        training: the calibration that keeps the biases of chips left out.

    Returns:
        The share of steps that are covered, and the median half-width relative to the estimate.
    """
    gpus, covered, half_widths = np.array(found.gpus), [], []
    for gpu in sorted({name for name, single in zip(gpus.tolist(), found.is_single, strict=True) if single}):
        if _is_fitted(eager, gpu, True):
            continue
        kept = gpus != gpu
        others = Published(
            gpus=tuple(gpus[kept].tolist()), errors=found.errors[kept], is_single=found.is_single[kept]
        )  # fmt: skip
        biases = card_biases(others, eager, training)
        between = spread([bias for name, bias in biases.items() if name.rpartition(" ")[2] != gpu])
        within_below, within_above, _ = sides(single_errors(others, eager))
        below, above = np.hypot(within_below, between), np.hypot(within_above, between)
        own = found.errors[~kept & found.is_single]
        covered += ((own < below) & (own > -above)).tolist()
        half_widths += [float(np.exp(above) - np.exp(-below)) / 2] * len(own)
    return float(np.mean(covered)), float(np.median(half_widths))


def widened(
    part: Calibration,
    biases: dict[str, float],
    single: IntervalWidth,
    gpus: dict[str, GpuSpec],
    *,
    fewest: float,
    within: Mapping[str, float],
) -> Calibration:
    """Return a calibration whose widths of steps that the device decides follow the spread of all cards.

    Args:
        part: the calibration.
        biases: by card, as `card_biases` has them.
        single: the sides of single precision.
        gpus: the cards.
        fewest: the least spread of cards of other architectures.
        within: the statistics of single precision within a card.
    """
    others = [
        bias for name, bias in biases.items()
        if architecture_key(gpus[name.rpartition(" ")[2]]) not in REFERENCE_ARCHITECTURES
    ]  # fmt: skip
    between = spread(list(biases.values()))
    assert part.origin is not None
    held = dict(part.origin.held_out_errors)
    for name, bias in sorted(biases.items()):
        error = error_statistics(np.array([bias]))
        held.setdefault(
            f"card {name}", {"median": error.median, "p90": error.p90, "bias": error.bias, "rows": 1.0}
        )  # fmt: skip
    held.setdefault("card within, single", dict(within))
    widths = {**part.widths, SINGLE: replace(part.widths["device nchw"], **_sides_of(single))}
    for name, cell in widths.items():
        if name.startswith("device"):
            beyond = between if name == SINGLE else max(between, spread(others), fewest)
            widths[name] = _spread_out(cell, max(between, _of_both(part, name)), beyond)
    made = part.origin.command.partition("; widths: ")[0]
    origin = replace(part.origin, command=f"{made}; widths: {_COMMAND}", held_out_errors=held)
    return replace(part, widths=widths, origin=origin, parts={}, engines={})


def without_cards(part: Calibration) -> Calibration:
    """Return a calibration without the errors of cards that were learnt before."""
    assert part.origin is not None
    held = {name: each for name, each in part.origin.held_out_errors.items() if not name.startswith("card ")}
    return replace(part, origin=replace(part.origin, held_out_errors=held))


def _sides_of(cell: IntervalWidth) -> dict[str, Any]:
    return {"below": cell.below, "above": cell.above, "rows": cell.rows}


def kept_biases(eager: Calibration) -> dict[str, float]:
    """Return the biases of cards that a calibration keeps."""
    assert eager.origin is not None
    found = eager.origin.held_out_errors.items()
    return {
        name.removeprefix("card "): float(np.log(each["bias"]))
        for name, each in found if name.startswith("card ") and ": " in name
    }  # fmt: skip


def _of_both(part: Calibration, cell: str) -> float:
    """Return what families and a card left out together are off beyond families alone, in square; 0 where not tried."""
    assert part.origin is not None
    both, family = (part.origin.held_out_errors.get(f"{kind}: {cell}") for kind in ("both", "family"))
    if both is None or family is None:
        return 0.0
    return float(np.sqrt(max(0.0, np.log1p(both["p90"]) ** 2 - np.log1p(family["p90"]) ** 2)))


def _spread_out(cell: IntervalWidth, between: float, others: float) -> IntervalWidth:
    return replace(
        cell, between_gpus=between, between_sheets=max(between, cell.between_sheets), between_others=others,
        between_other_sheets=others,
    )  # fmt: skip


def main() -> None:
    """Learn the widths and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--kept", action="store_true", help="learn nothing anew: take what default.yaml keeps")
    words = parser.parse_args()
    calibration = load_calibration()
    training = calibration.parts["training"]
    gpus = load_gpus()
    if words.kept:
        assert calibration.origin is not None
        biases, cell = kept_biases(calibration), calibration.widths[SINGLE]
        within: Mapping[str, float] = calibration.origin.held_out_errors["card within, single"]
    else:
        found = published(words.measured, words.traces)
        biases, errors = card_biases(found, calibration, training), single_errors(found, calibration)
        below, above, count = sides(errors)
        cell = replace(calibration.widths["device nchw"], below=below, above=above, rows=count)
        each = error_statistics(errors)
        within = {"median": each.median, "p90": each.p90, "bias": each.bias, "rows": float(each.count)}
        print(
            "single precision, cards left out: covered, half-width", unseen_single(found, calibration, training)
        )  # fmt: skip
    print(len(biases), {name: round(bias, 3) for name, bias in biases.items()})
    known = {name.rpartition(" ")[2]: gpus.find(name.rpartition(" ")[2]) for name in biases}
    fewest = calibration.widths[LAUNCHES].between_others  # the fit's own: what cards of few rows were off
    for file, part in (("default.yaml", calibration), ("compile.yaml", calibration.parts["compile"])):
        made = widened(part if words.kept else without_cards(part), biases, cell, known, fewest=fewest, within=within)
        calibration_file(file).write_text(dump_calibration(made))
        print(file, made.widths)


if __name__ == "__main__":
    main()
