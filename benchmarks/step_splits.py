"""Give steps the widths that unseen families of models ask for, each family weighing alike.

    python benchmarks/step_splits.py ../shared/data/measured/latency-timm.csv.gz --write

comes after `accuracy.py` and `interval_widths.py` and changes widths of default.yaml and compile.yaml alone, and the
sections "Splits like use" of latency.md and compile.md in docs/evidence. Constants are fitted again to a part of the
rows (`_DRAWN` compiled ones, models drawn at random, and the eager ones of the same models and inputs), without whole
groups: a fifth of the families of models, and half of them.

Nobody knows the family of a question, and the families of many rows (ResNets, vision transformers) are predicted better
than others. So every family weighs alike, however many rows it has. The sides of a cell are the wider quantiles of what
both splits tell, half of what is outside below and half above, and never narrower than before. The page states what
lies within where widths are learnt from the other half of the families.

`--gpus` leaves out GPUs instead, each with a fifth of the families, in eager mode and in both layouts: the eager rows
of one model of each family, drawn at random. GPUs and families weigh alike. What lies further off than the sides of a
cell is the spread of GPUs (`between_gpus`, and what rests on it), never less than before.

`--curves latency-curves.csv.gz op-gemm-vllm.csv.gz op-attention-prefill.csv.gz kernels-fp32.csv.gz` leaves out models
of batch curves, each on all GPUs, models weighing alike: `accuracy.py` leaves out one curve at a time, whose model
other GPUs still tell. It widens the sides of steps in single precision, of GPUs of few rows, and of those that wait for
the host.
"""

import argparse
import pickle
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
from accuracy import CHANGED, Described, drawn, gather
from pages import EVIDENCE, write_section

from capplan.app.calibration.calibrate import described_steps
from capplan.app.calibration.measured_models import group_runs
from capplan.core.calibrate import residuals
from capplan.core.calibrate.dataset import TimedStep, model_family
from capplan.core.calibrate.fit import FITS, family_folds, fit_rows, predict_without
from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.calibrate.validation import error_statistics
from capplan.core.latency import lookup
from capplan.core.latency.calibration import Calibration, IntervalWidth
from capplan.core.latency.lookup import FEW_ROWS, LAUNCHES, workload_kind
from capplan.core.numbers import BoolArray, FloatArray, IntArray
from capplan.specs import load_gpus
from capplan.specs.calibration import dump_calibration, load_calibration
from capplan.specs.folders import calibration_file
from capplan.specs.measurements import read_measured
from capplan.specs.rate_laws import load_rate_laws

_DRAWN = 880
_CELL, _FILES = "device nchw", {"compile": "compile.yaml", "eager": "default.yaml"}
_COMMAND = f"python benchmarks/step_splits.py latency-timm.csv.gz, {_DRAWN} rows drawn"
PAGES = {"compile": EVIDENCE / "compile.md", "eager": EVIDENCE / "latency.md"}
FIFTH, HALF = "a fifth of the families", "half of the families"
GPU_FIFTH = "a GPU and a fifth of the families"
_GPUS_COMMAND = "python benchmarks/step_splits.py latency-timm.csv.gz --gpus"
_CURVES_COMMAND = f"{_GPUS_COMMAND.removesuffix('gpus')}curves"
_ROWS_WITH_CURVES = 150
_FEWEST_ROWS = 60
"""Rows from which on a GPU speaks for others here: of one model of each family it has fewer than of all models."""
_OUTSIDE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Log errors by split, NaN where a step was not asked for, and each step's weight and half of the families."""

    errors: Mapping[str, FloatArray]
    weight: FloatArray
    half: IntArray


def groups_out(steps: list[TimedStep]) -> Iterator[tuple[str, BoolArray, BoolArray]]:
    """Yield splits' names with the rows that a fit does not see, and those that are asked of it."""
    families = [step.family for step in steps]
    for name, fold in ((FIFTH, family_folds(families, 5)), (HALF, family_folds(families, 2))):
        for index in np.unique(fold):
            yield name, fold == index, fold == index


def judge(steps: list[TimedStep], *, serves: str) -> Judged:
    """Fit all steps, then without each group, and weigh families alike."""
    rows, make = fit_rows(steps, load_rate_laws()), FITS[serves]
    fit = make(rows)
    best = fit.fit()
    errors: dict[str, FloatArray] = {}
    for name, without, asked in groups_out(steps):
        into = errors.setdefault(name, np.full(len(steps), np.nan))
        predict_without(rows, make, without, asked, into, start=best)
        print(name, error_statistics(into[np.isfinite(into)]), flush=True)
    by_host = fit.host_decides(best)
    families = np.unique([step.family for step in steps], return_inverse=True)[1]
    weight = np.where(by_host, 0.0, 1.0 / np.bincount(families)[families])
    return Judged(errors=errors, weight=weight, half=family_folds([step.family for step in steps], 2))


def quantile(values: FloatArray, weight: FloatArray, level: float) -> float:
    """Return the least value that a share of the weight does not exceed."""
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weight[order]) / weight.sum(), level)])


def widths(judged: Judged, kept: BoolArray) -> tuple[float, float]:
    """Return both sides of a cell, as some rows tell them."""
    below, above = (
        max(
            quantile(sign * errors[use], judged.weight[use], 1.0 - _OUTSIDE / 2)
            for errors in judged.errors.values()
            if (use := kept & np.isfinite(errors)).any()
        )
        for sign in (1.0, -1.0)
    )
    return max(0.0, below), max(0.0, above)


def share_inside(judged: Judged, name: str, sides: list[tuple[BoolArray, tuple[float, float]]]) -> float:
    """Return the share of a split's weight that lies in intervals, of some sides for some rows each."""
    errors = judged.errors[name]
    inside = np.zeros(len(errors), dtype=bool)
    for rows, (below, above) in sides:
        inside |= rows & (errors <= below) & (errors >= -above)
    weight = np.where(np.isfinite(errors), judged.weight, 0.0)
    return float(weight[inside].sum() / weight.sum())


def table(judged: Judged, before: tuple[float, float]) -> str:
    """Return the errors of each split, and the shares inside: by given sides, and by those of the other families."""
    halves = [(judged.half == index, widths(judged, judged.half != index)) for index in np.unique(judged.half)]
    lines = [
        "| left out | steps | median | p90 | bias | inside before | inside, widths of other families |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, errors in judged.errors.items():
        use = np.isfinite(errors) & (judged.weight > 0)
        size, weight = np.abs(np.expm1(errors[use])), judged.weight[use]
        cells = (
            f"{use.sum()}", f"{100 * quantile(size, weight, 0.5):.1f}", f"{100 * quantile(size, weight, 0.9):.1f}",
            f"{np.exp(quantile(errors[use], weight, 0.5)):.3f}",
            f"{100 * share_inside(judged, name, [(judged.half >= 0, before)]):.0f}",
            f"{100 * share_inside(judged, name, halves):.0f}",
        )  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
    shown = " and ".join(f"{50 * (np.exp(above) - np.exp(-below)):.0f}" for _, (below, above) in halves)
    return "\n".join(lines) + f"\n\nWhat either half of the families tells of the other is ± {shown} %.\n"


def widened(part: Calibration, learnt: tuple[float, float], judged: Judged) -> Calibration:
    """Return the calibration with sides that are no narrower than before, and the errors that made them."""
    assert part.origin is not None
    cell = part.widths[_CELL]
    wider = replace(cell, below=max(learnt[0], cell.below), above=max(learnt[1], cell.above))
    held = dict(part.origin.held_out_errors)
    for name, errors in judged.errors.items():
        found = error_statistics(errors[np.isfinite(errors)])
        held[f"drawn, {name}"] = {
            "median": found.median, "p90": found.p90, "bias": found.bias, "rows": float(found.count),
        }  # fmt: skip
    made = part.origin.command.partition(f"; {_COMMAND}")[0]
    origin = replace(part.origin, command=f"{made}; {_COMMAND}", held_out_errors=held)
    return replace(part, widths={**part.widths, _CELL: wider}, origin=origin)


def drawn_steps(path: Path, traces: Path | None, *, serves: str) -> list[TimedStep]:
    """Return the described steps of the models that are drawn for compiled steps, by their families."""
    steps = read_measured(path).steps
    runs = set(group_runs(drawn(steps, _DRAWN, "compile")))
    groups = group_runs([step for step in steps if workload_kind(step.workload) == serves])
    chosen = [step for run, members in groups.items() if run in runs for step in members]
    return [
        replace(timed, family=model_family(measured.model))
        for measured, timed in described_steps(chosen, load_gpus(), traces, serves=serves)
        if measured.model not in CHANGED
    ]


def main() -> None:
    """Judge the splits, print or write the sections, and write the widths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--keep", type=Path, help="keep errors in this folder, or go on from those kept there")
    parser.add_argument("--only", choices=tuple(_FILES), help="judge this kind alone, and keep it")
    parser.add_argument("--curves", type=Path, nargs="+", help="leave out models of the batch curves of the first file")
    parser.add_argument("--gpus", action="store_true", help="leave out GPUs, each with a fifth of the families")
    parser.add_argument("--write", action="store_true")
    words = parser.parse_args()
    calibration = load_calibration()
    if words.curves:
        rows = gather([words.measured, *words.curves], words.traces, at_most=_ROWS_WITH_CURVES)
        eager, section = judge_curves(rows, replace(calibration, parts={}, engines={}))
        print(section)
        if words.write:
            write_section(PAGES["eager"], "step_splits.py --curves", section)
            calibration_file(_FILES["eager"]).write_text(dump_calibration(eager), encoding="utf-8")
        return
    if words.gpus:
        wanted = [step for step in read_measured(words.measured).steps if workload_kind(step.workload) == "eager"]
        steps = [
            replace(timed, family=model_family(step.model))
            for step, timed in described_steps(of_each_family(wanted), load_gpus(), words.traces, serves="eager")
        ]
        eager, section = judge_gpus(steps, replace(calibration, parts={}, engines={}))
        print(section)
        if words.write:
            write_section(PAGES["eager"], "step_splits.py --gpus", section)
            calibration_file(_FILES["eager"]).write_text(dump_calibration(eager), encoding="utf-8")
        return
    parts = {"eager": calibration, "compile": calibration.parts["compile"]}
    for serves in (words.only,) if words.only else tuple(_FILES):
        kept = words.keep / f"{serves}.splits.pkl" if words.keep else None
        if kept is not None and kept.exists():
            judged: Judged = pickle.loads(kept.read_bytes())
        else:
            judged = judge(drawn_steps(words.measured, words.traces, serves=serves), serves=serves)
            if kept is not None:
                kept.write_bytes(pickle.dumps(judged))
        part = replace(parts[serves], parts={}, engines={})
        cell = part.widths[_CELL]
        learnt = widths(judged, np.ones(len(judged.weight), dtype=bool))
        section = table(judged, (cell.below, cell.above))
        print(serves, learnt, section, sep="\n")
        if words.write:
            write_section(PAGES[serves], "step_splits.py", section)
            made = dump_calibration(widened(part, learnt, judged))
            calibration_file(_FILES[serves]).write_text(made, encoding="utf-8")


def of_each_family(steps: Sequence[MeasuredStep]) -> list[MeasuredStep]:
    """Return the steps of one model of each family, drawn at random by the family's name."""
    by_family: dict[str, dict[str, list[MeasuredStep]]] = defaultdict(lambda: defaultdict(list))
    for step in steps:
        by_family[model_family(step.model)][step.model].append(step)
    chosen: list[MeasuredStep] = []
    for family, models in sorted(by_family.items()):
        names = sorted(models)
        random.Random(family).shuffle(names)
        chosen += models[names[0]]
    return chosen


def errors_without_gpus(steps: Sequence[TimedStep]) -> FloatArray:
    """Return the log errors of steps whose GPU and a fifth of the families a fit has not seen."""
    rows, make = fit_rows(steps, load_rate_laws()), FITS["eager"]
    start, errors = make(rows).fit(), np.full(len(steps), np.nan)
    fold, gpus = family_folds([step.family for step in steps], 5), np.array([step.gpu for step in steps])
    with (
        mock.patch.object(residuals, "MANY_ROWS", _FEWEST_ROWS), mock.patch.object(lookup, "MANY_ROWS", _FEWEST_ROWS)
    ):  # fmt: skip
        for gpu in np.unique(gpus):
            for index in np.unique(fold):
                unseen, asked = (gpus == gpu) | (fold == index), (gpus == gpu) & (fold == index)
                predict_without(rows, make, unseen, asked, errors, start=start)
    return errors


def alike(steps: Sequence[TimedStep]) -> FloatArray:
    """Return weights of steps that let GPUs weigh alike, and families on each."""
    families = np.unique([f"{step.gpu} {step.cell} {step.family}" for step in steps], return_inverse=True)[1]
    on_gpu = np.unique([f"{step.gpu} {step.cell}" for step in steps], return_inverse=True)[1]
    weight = 1.0 / np.bincount(families)[families]
    return np.asarray(weight / np.bincount(on_gpu, weight)[on_gpu])


def judge_gpus(steps: Sequence[TimedStep], part: Calibration) -> tuple[Calibration, str]:
    """Return a calibration whose spread of GPUs covers GPUs and families left out together, and the page's table."""
    errors, weight = errors_without_gpus(steps), alike(steps)
    assert part.origin is not None
    made, held = dict(part.widths), dict(part.origin.held_out_errors)
    lines = [
        "| layout | GPU left out | steps | median | p90 | bias | inside before | inside now |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in ("device nchw", "device nhwc"):
        cell, here = part.widths[name], np.array([step.cell == name for step in steps])
        below, above = (quantile(sign * errors[here], weight[here], 1.0 - _OUTSIDE / 2) for sign in (1.0, -1.0))
        more = max(below**2 - cell.below**2, above**2 - cell.above**2, cell.between_gpus**2) ** 0.5
        made[name] = replace(
            cell, between_gpus=more, between_sheets=max(more, cell.between_sheets),
            between_others=max(more, cell.between_others), between_other_sheets=max(more, cell.between_other_sheets),
        )  # fmt: skip
        found = error_statistics(errors[here])
        held[f"drawn, {GPU_FIFTH}: {name}"] = {
            "median": found.median, "p90": found.p90, "bias": found.bias, "rows": float(found.count),
        }  # fmt: skip
        for gpu in ("", *sorted({step.gpu for step, chosen in zip(steps, here, strict=True) if chosen})):
            use = here & np.array([gpu in ("", step.gpu) for step in steps])
            size, each = np.abs(np.expm1(errors[use])), weight[use]
            cells = (
                name.removeprefix("device "), gpu or "**all**", f"{use.sum()}",
                f"{100 * quantile(size, each, 0.5):.1f}", f"{100 * quantile(size, each, 0.9):.1f}",
                f"{np.exp(quantile(errors[use], each, 0.5)):.3f}",
                *(f"{100 * share_of_unseen(errors[use], each, width):.0f}" for width in (cell, made[name])),
            )  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    command = f"{part.origin.command.partition(f'; {_GPUS_COMMAND}')[0]}; {_GPUS_COMMAND}"
    origin = replace(part.origin, command=command, held_out_errors=held)
    return replace(part, widths=made, origin=origin), "\n".join(lines) + "\n"


def judge_curves(rows: Sequence[Described], part: Calibration) -> tuple[Calibration, str]:
    """Return a calibration whose sides cover curves of models that were left out, and the page's table."""
    steps, make = [row.step for row in rows], FITS["eager"]
    laid = fit_rows(steps, load_rate_laws())
    fit, errors = make(laid), np.full(len(steps), np.nan)
    best = fit.fit()
    models = np.array([row.model if row.curve else "" for row in rows])
    for model in sorted(set(models.tolist()) - {""}):
        predict_without(laid, make, models == model, models == model, errors, start=best)
    waits, of_curve = fit.host_decides(best), models != ""
    single = np.array([step.levels["precision"] == "single" for step in steps])
    assert part.origin is not None
    made, held = dict(part.widths), dict(part.origin.held_out_errors)
    lines = [
        "| steps | count | median | p90 | bias | sides before | sides that 90 % ask for |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, title, here in (
        (FEW_ROWS, "16 bits, the device decides", of_curve & ~single & ~waits),
        ("device single", "single precision, the device decides", of_curve & single & ~waits),
        (LAUNCHES, "the host decides", of_curve & waits),
    ):
        cell, weight = part.widths[name], 1.0 / np.unique(models[here], return_counts=True)[1]
        weight = weight[np.unique(models[here], return_inverse=True)[1]]
        below, above = (quantile(sign * errors[here], weight, 1.0 - _OUTSIDE / 2) for sign in (1.0, -1.0))
        made[name] = replace(cell, below=max(below, cell.below), above=max(above, cell.above))
        found, size = error_statistics(errors[here]), np.abs(np.expm1(errors[here]))
        held[f"drawn, a curve's model: {name}"] = {
            "median": found.median, "p90": found.p90, "bias": found.bias, "rows": float(found.count),
        }  # fmt: skip
        shown = [f"{100 * np.expm1(-one):.0f} to +{100 * np.expm1(two):.0f} %"
                 for one, two in ((cell.below, cell.above), (below, above))]  # fmt: skip
        middle, most = (100 * quantile(size, weight, level) for level in (0.5, 0.9))
        bias = np.exp(quantile(errors[here], weight, 0.5))
        lines.append(
            f"| {title} | {here.sum()} | {middle:.1f} | {most:.1f} | {bias:.3f} | {shown[0]} | {shown[1]} |"
        )  # fmt: skip
    command = f"{part.origin.command.partition(f'; {_CURVES_COMMAND}')[0]}; {_CURVES_COMMAND}"
    origin = replace(part.origin, command=command, held_out_errors=held)
    return replace(part, widths=made, origin=origin), "\n".join(lines) + "\n"


def share_of_unseen(errors: FloatArray, weight: FloatArray, cell: IntervalWidth) -> float:
    """Return the share of the weight inside the interval of a GPU with microbenchmarks that was not timed."""
    below, above = np.hypot(cell.below, cell.between_gpus), np.hypot(cell.above, cell.between_gpus)
    return float(weight[(errors <= below) & (errors >= -above)].sum() / weight.sum())


if __name__ == "__main__":
    main()
