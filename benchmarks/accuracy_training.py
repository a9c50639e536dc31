"""Remake docs/evidence/training.md and training.yaml: training steps on GPUs that the fit had not seen.

    python benchmarks/accuracy_training.py ../shared/data/training/lambda-training.csv.gz \\
        ../shared/data/training/llm-training.csv.gz --anchors ../shared/data/measured/latency-timm.csv.gz \\
        -o docs/evidence/training.md --calibrations capplan/calibrations

Steps of one RTX 3090 by the thousand (timm's tables) fix the classes of kernels: `benchmarks/accuracy.py` fits them and
keeps the constants in benchmarks/calibrations/training-timm.yaml. The rows of `training_rows.py` are added to them, and
a GPU, its chip, its architecture, its generation with all later ones, or a model are left out in turn, alone and
together. Each row's distance from what is left decides which width its interval has: its architecture was timed on
another GPU, it was not, or it is newer than all that were. Each width is the smallest that covers 90 % of the rows at
its distance over all splits, and 85 % in the hardest of them.

`--anchors` adds steps of some small models of timm's tables again, so that a law that training-timm.yaml was fitted
without (`block_bytes`) moves what other GPUs take and not the RTX 3090. Also fitted are what several GPUs of a machine
cost (`data_parallel` in rates.yaml) and, with `--choose-blocks`, `block_bytes`: the best of `BLOCK_BYTES` where
chips are left out, and later generations with a network.
"""

import argparse
import csv
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path

import numpy as np
from accuracy import group_biases
from numpy.typing import NDArray
from training_rows import COLUMNS, mapped

from capplan.app.calibration.calibrate import described_steps
from capplan.app.calibration.measured_models import group_runs, trace_folder
from capplan.core.calibrate.dataset import FitRows, TimedStep
from capplan.core.calibrate.fit import (
    StringArray,
    fit_rows,
    predict_without,
    sides,
)
from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.calibrate.residuals import LatencyFit
from capplan.core.calibrate.validation import error_statistics
from capplan.core.gpus.rate_laws import DataParallelLaws, RateLaws
from capplan.core.latency.calibration import Calibration, IntervalWidth
from capplan.core.latency.data_parallel import Link, all_reduce_s, gradient_bytes, link_of
from capplan.core.numbers import BoolArray, FloatArray, IntArray
from capplan.core.origin import Origin
from capplan.specs import Gpus, load_gpus
from capplan.specs.calibration import dump_calibration, load_calibration
from capplan.specs.measurements import read_measured
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

_DEVIATIONS: Mapping[str, float] = {"architecture": 0.05, "torch": 0.07, "precision": 0.3}
"""How far versions may deviate of which a few steps each are added to a calibration; GPUs may by 0.06."""
BASE = Path(__file__).parent / "calibrations" / "training-timm.yaml"
_COMMAND = (
    "python benchmarks/accuracy_training.py lambda-training.csv.gz llm-training.csv.gz --anchors latency-timm.csv.gz"
)
ANCHORS = frozenset(
    f"timm:{name}"
    for name in (
        "cspresnet50", "densenet121", "dla34", "efficientnet_b0", "efficientnet_lite0", "ese_vovnet39b", "fbnetc_100",
        "ghostnet_100", "hardcorenas_a", "mobilenetv2_100", "mobilenetv3_large_100", "regnetx_016", "regnety_032",
        "repvgg_b0", "res2net50_26w_4s", "resnet18", "resnet26d", "resnet50", "resnext50_32x4d", "semnasnet_100",
        "spnasnet_100", "tf_efficientnetv2_b0", "vgg16_bn", "vovnet39a",
    )
)  # fmt: skip
"""Small convolutional networks of timm's tables, with batch norms of 8 to 2,048 channels."""
BLOCK_BYTES = (4.0, 5.7, 8.0, 11.3, 16.0, 1e9)
"""Candidates: bytes that one thread block streams in a clock in 16 bits, half of those in fp32. [bytes]"""
CHIPS = {
    "a100": "GA100", "h100": "GH100", "v100": "GV100", "quadro-rtx-5000": "TU104", "quadro-rtx": "TU102",
    "rtx-3070": "GA104", "rtx-a4000": "GA104", "rtx-a": "GA102", "a10": "GA102", "rtx-30": "GA102", "rtx-4090": "AD102",
    "gtx-1080-ti": "GP102",
}  # fmt: skip
"""Chips by the longest beginning of a GPU's id."""
_LINKLESS = ("a100-sxm4-40gb", "a100-sxm4-80gb")
"""Systems of 2022 (`results`) whose GPUs did not reach one another: eight took up to six times as long as one."""


def chip(gpu: str) -> str:
    """Return the chip of a GPU: several cards, in other editions and at other power limits, share one."""
    return max((stem for stem in CHIPS if gpu.startswith(stem)), key=len, default=gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Steps on one GPU as they were measured and as the fit sees them, those on several, and the sizes of gradients."""

    alone: Sequence[tuple[MeasuredStep, TimedStep]]
    anchors: Sequence[TimedStep]
    together: Sequence[MeasuredStep]
    gradients: Mapping[tuple[object, ...], int]


def read_rows(paths: Iterable[Path], anchors: Path | None, gpus: Gpus, traces: Path | None) -> Rows:
    """Map, trace and describe the rows of some files, and the anchors among those of timm's tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "training-rows.csv"
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(mapped(paths))
        steps = read_measured(path).steps
    store = trace_folder(traces)
    return Rows(
        alone=tuple(
            described_steps([step for step in steps if step.workload.gpu_count == 1], gpus, traces, serves="training")
        ),
        anchors=tuple(anchor_steps(anchors, gpus, traces)) if anchors else (),
        together=tuple(step for step in steps if step.workload.gpu_count > 1),
        gradients={
            (run.model, run.arguments, run.configuration): gradient_bytes(
                store.obtain(run).recording(run.configuration)
            )
            for run in group_runs(steps)
        },
    )


def anchor_steps(path: Path, gpus: Gpus, traces: Path | None) -> Iterator[TimedStep]:
    """Yield the anchors as steps of a GPU of their own, so that they tell nothing of another's factors."""
    steps = [step for step in read_measured(path).steps if step.model in ANCHORS]
    for _, step in described_steps(steps, gpus, traces, serves="training"):
        yield replace(step, gpu=_ANCHOR)


_ANCHOR = "anchor"


class Distance(StrEnum):
    """How far a row is from what was not left out, by its GPU's architecture."""

    TIMED = "timed on another GPU"
    UNTIMED = "not timed"
    NEWER = "newer than all that were timed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way of leaving rows out: their log errors, and each row's distance from what was left; "" is its own GPU."""

    errors: FloatArray
    distances: NDArray[np.object_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The fit to all rows, and its errors with groups left out, from the easiest split to the hardest."""

    fit: LatencyFit
    constants: FloatArray
    splits: Mapping[str, Split]
    sheet: FloatArray
    names: Mapping[str, StringArray]


GPU, CHIP, ARCHITECTURE, LATER = "each GPU", "each chip", "each architecture", "each generation and all later ones"
GPU_MODEL, CHIP_MODEL, LATER_MODEL = (f"{name}, and the network" for name in (GPU, CHIP, LATER))
MODEL = "each network, its GPU known"
_BASE_ARCHITECTURE, _BASE_GPU = "8.6", "rtx-3090"


def judge(rows: Rows, base: Calibration, laws: RateLaws, *, only: Sequence[str] = ()) -> Judged:
    """Fit the rows and leave groups of them out in turn, in all splits or those named."""
    numbers = fit_rows([*(step for _, step in rows.alone), *rows.anchors], laws)
    names = names_of(rows)

    def make(chosen: FitRows) -> LatencyFit:
        return LatencyFit(chosen, gpu_sd=0.06, deviation_sd=_DEVIATIONS, known=base)

    fit = make(numbers)
    best = fit.fit()
    capability = np.array([tuple(map(int, name.split("."))) for name in names["architecture"]])
    order = capability @ (100, 1)
    splits, sheet = {}, np.full(len(order), np.nan)
    for name, removed, asked in left_out(names, order):
        if only and name not in only:
            continue
        split = splits.setdefault(
            name, Split(errors=np.full(len(order), np.nan), distances=np.full(len(order), "", dtype=object))
        )
        into = np.full(len(numbers.latency_s), np.nan)
        own = np.zeros(len(into), dtype=bool)
        own[: len(order)] = removed
        wanted = np.zeros(len(into), dtype=bool)
        wanted[: len(order)] = asked
        bare = np.full(len(into), np.nan) if name == GPU else None
        predict_without(numbers, make, own, wanted, into, start=best, sheet=bare)
        split.errors[asked] = into[: len(order)][asked]
        split.distances[asked] = [_distance(names, order, removed, row) for row in np.flatnonzero(asked)]
        if bare is not None:
            sheet[asked] = bare[: len(order)][asked]
    return Judged(fit=fit, constants=best, splits=splits, sheet=sheet, names=names)


def names_of(rows: Rows) -> dict[str, StringArray]:
    """Return the GPU, chip, architecture and network of each step on one GPU."""
    steps = [step for _, step in rows.alone]
    found = {
        "gpu": [step.gpu for step in steps], "chip": [chip(step.gpu) for step in steps],
        "architecture": [step.levels["architecture"] for step in steps],
        "model": [" ".join((each.model, *each.arguments)) for each, _ in rows.alone],
    }  # fmt: skip
    return {name: np.array(each) for name, each in found.items()}


def left_out(names: Mapping[str, StringArray], order: IntArray) -> Iterator[tuple[str, BoolArray, BoolArray]]:
    """Yield splits' names with the rows that a fit does not see, and those that are asked of it.

    The RTX 3090's other steps stay known, so that its own generation starts with the GPUs beside it.
    """
    models = np.unique(names["model"])
    for name in models:
        yield MODEL, names["model"] == name, names["model"] == name
    for one, other, kind in ((GPU, GPU_MODEL, "gpu"), (CHIP, CHIP_MODEL, "chip"), (ARCHITECTURE, "", "architecture")):
        for name in np.unique(names[kind]):
            here = names[kind] == name
            yield one, here, here
            for model in models if other else ():
                yield other, here | (names["model"] == model), here & (names["model"] == model)
    for first, last in _GENERATIONS:
        later = order >= first
        asked = later & (order <= last) & (names["gpu"] != _BASE_GPU)
        yield LATER, later, asked
        for model in models:
            yield LATER_MODEL, later | (names["model"] == model), asked & (names["model"] == model)


_GENERATIONS = ((705, 705), (800, 806), (809, 900))
"""Compute capabilities, as numbers, of Turing; of Ampere; of Ada and Hopper, which came in one year."""


def _distance(names: Mapping[str, StringArray], order: IntArray, removed: BoolArray, row: int) -> Distance | str:
    if not removed[names["gpu"] == names["gpu"][row]].all():
        return ""
    left = {*names["architecture"][~removed].tolist(), *([_BASE_ARCHITECTURE] if order[row] < 809 else [])}
    if names["architecture"][row] in left:
        return Distance.TIMED
    newest = max(int(np.dot(tuple(map(int, name.split("."))), (100, 1))) for name in left)
    return Distance.NEWER if order[row] > newest else Distance.UNTIMED


def spreads(judged: Judged, rows: Rows, cells: Mapping[str, IntervalWidth], *, without: str = "") -> dict[str, float]:
    """Return by distance the smallest half-width of GPUs that covers 90 % of rows, and 85 % in the hardest split.

    Args:
        judged: the errors of all splits.
        rows: the rows, whose cells have sides of their own.
        cells: these sides.
        without: a GPU whose rows do not count.
    """
    below, above = sides_of(rows, cells)
    counted = judged.names["gpu"] != without
    found: dict[str, float] = {"": 0.0}
    least = 0.0
    for distance in Distance:
        by_split = [
            (split.errors[here], below[here], above[here])
            for split in judged.splits.values()
            if (here := (split.distances == distance) & np.isfinite(split.errors) & counted).any()
        ]
        least = next(x for x in np.arange(least, 1.0, 0.005) if _covers(by_split, float(x)))
        found[distance] = float(least)
    return found


_COVERAGE, _LEAST_COVERAGE, _FEWEST = 0.9, 0.85, 20
"""The share of all rows at a distance that intervals cover, of those of each split, and from how many rows on."""


def _covers(by_split: Sequence[tuple[FloatArray, FloatArray, FloatArray]], spread: float) -> bool:
    """Return True if intervals with a spread of GPUs cover what they should, over all splits and in the hardest."""
    inside = [
        (errors <= np.hypot(below, spread)) & (errors >= -np.hypot(above, spread)) for errors, below, above in by_split
    ]
    hardest = min((each.mean() for each in inside if len(each) >= _FEWEST), default=1.0)
    return bool(np.concatenate(inside).mean() >= _COVERAGE and hardest >= _LEAST_COVERAGE)


def sides_of(rows: Rows, cells: Mapping[str, IntervalWidth]) -> tuple[FloatArray, FloatArray]:
    """Return the sides of each row's cell."""
    found = [cells[step.cell] for _, step in rows.alone]
    return np.array([cell.below for cell in found]), np.array([cell.above for cell in found])


def chosen_blocks(rows: Rows, base: Calibration, laws: RateLaws) -> float:
    """Return the bytes of a block with the least 90th percentile: chips, and generations with a network, left out."""

    def score(size: float) -> float:
        alone = [(each, restretched(step, laws.block_bytes / size)) for each, step in rows.alone]
        anchors = [restretched(step, laws.block_bytes / size) for step in rows.anchors]
        judged = judge(replace(rows, alone=alone, anchors=anchors), base, laws, only=(CHIP, LATER_MODEL))
        print(f"block of {size:g} bytes:", *(_line(name, split.errors) for name, split in judged.splits.items()))
        errors = [split.errors[np.isfinite(split.errors)] for split in judged.splits.values()]
        return float(np.mean([error_statistics(each).p90 for each in errors]))

    return min(BLOCK_BYTES, key=score)


def restretched(step: TimedStep, ratio: float) -> TimedStep:
    """Return a step as if a block streamed less by a ratio: a stretch is √(1 + x²), with x ∝ 1 ÷ the block's bytes."""
    stretch = np.sqrt(1 + ratio**2 * (step.work.stretch**2 - 1))
    return replace(step, work=replace(step.work, stretch=stretch))


def calibration_of(judged: Judged, base: Calibration, rows: Rows, *, made: date, sources: Sequence[str]) -> Calibration:
    """Return the base with what the rows added, and widths that were learnt from what was left out."""
    found = judged.fit.calibration(judged.constants, name=base.name)
    cells = widths_of(judged, base, rows)
    between = spreads(judged, rows, cells)[Distance.TIMED]
    own_gpus = {name: factors for name, factors in found.gpus.items() if name != _ANCHOR}
    names, by_chip = judged.names["gpu"], judged.splits[CHIP].errors
    statistics = {f"chip of {name} left out": by_chip[names == name] for name in own_gpus}
    statistics |= {f"{name} left out": split.errors for name, split in judged.splits.items()}
    errors = {name: error_statistics(each[np.isfinite(each)]) for name, each in statistics.items()}
    assert base.origin is not None
    old = base.origin.held_out_errors
    return replace(
        base,
        constants=found.constants,
        classes=found.classes,
        gpus={**base.gpus, **own_gpus},
        deviations={**base.deviations, **found.deviations},
        widths={name: with_spread(cell, between) for name, cell in cells.items()},
        origin=Origin(
            made=made,
            command=_COMMAND,
            sources=(*base.origin.sources, *sources),
            rows=base.origin.rows + len(rows.alone),
            held_out_errors={
                **old,
                **{
                    name: {"median": each.median, "p90": each.p90, "bias": each.bias, "rows": float(each.count)}
                    for name, each in sorted(errors.items())
                },
            },
        ),
    )


def widths_of(judged: Judged, base: Calibration, rows: Rows) -> dict[str, IntervalWidth]:
    """Return the sides of intervals by cell, as if half of what is asked were networks that were timed.

    Networks that were not timed lie as far off as families of timm's models that were left out, in single precision as
    models that were; those that were timed lie off as within a GPU that was left out.
    """
    single = is_single(rows)
    below, above, count = sides(judged.splits[MODEL].errors[single])
    unknown = {
        "device nchw": base.widths["device nchw"],
        "device single": replace(base.widths["device nchw"], below=below, above=above, rows=count),
    }
    near = widths_within(judged, rows, unknown)
    return {
        **base.widths,
        **{
            name: replace(
                cell,
                below=float(np.sqrt((cell.below**2 + near[name].below ** 2) / 2)),
                above=float(np.sqrt((cell.above**2 + near[name].above ** 2) / 2)),
                rows=cell.rows + near[name].rows,
            )
            for name, cell in unknown.items()
        },
    }


def is_single(rows: Rows) -> BoolArray:
    """Return which steps on one GPU ran in single precision."""
    return np.array([step.levels["precision"] == "single" for _, step in rows.alone])


def widths_within(judged: Judged, rows: Rows, cells: Mapping[str, IntervalWidth]) -> dict[str, IntervalWidth]:
    """Return cells with the sides of timed networks on a GPU left out, whose bias is taken off."""
    errors, names = judged.splits[GPU].errors, judged.names["gpu"].tolist()
    biases = group_biases(errors, names)
    within = errors - np.array([biases[name] for name in names])
    found = {}
    for name, cell in cells.items():
        below, above, count = sides(within[is_single(rows) == (name == "device single")])
        found[name] = replace(cell, below=below, above=above, rows=count)
    return found


def with_spread(cell: IntervalWidth, between: float) -> IntervalWidth:
    """Return a cell with the spread of GPUs that were left out, which here are of all architectures."""
    return replace(
        cell, between_gpus=between, between_others=between, between_sheets=between, between_other_sheets=between
    )


def covered(
    judged: Judged, split: Split, rows: Rows, cells: Mapping[str, IntervalWidth]
) -> tuple[FloatArray, FloatArray]:
    """Return which errors lie in their intervals, of spreads that the other GPUs tell, and half their widths."""
    below, above = sides_of(rows, cells)
    tried = np.isfinite(split.errors)
    inside, half = np.full(len(tried), np.nan), np.full(len(tried), np.nan)
    for gpu in np.unique(judged.names["gpu"][tried]).tolist():
        found = spreads(judged, rows, cells, without=gpu)
        for row in np.flatnonzero(tried & (judged.names["gpu"] == gpu)):
            spread = found[split.distances[row]]
            low, high = float(np.hypot(below[row], spread)), float(np.hypot(above[row], spread))
            inside[row] = -high <= split.errors[row] <= low
            half[row] = (np.exp(high) - np.exp(-low)) / 2
    return inside, half


STEP_SHARES = tuple(np.arange(0.0, 0.031, 0.0025).tolist())
LINK_SHARES = tuple(np.geomspace(0.03, 1.0, 33).round(3).tolist())
LINK_HALF_WIDTHS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0)
_LITTLE, _LINKS_COVERED = 0.03, 0.9
_FAR = 0.2
"""Beyond this log error a row counts no more: a few systems measure something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A step on several GPUs and the same on one of them. [s]"""

    together: MeasuredStep
    alone_s: float
    size_bytes: int


def pairs_of(rows: Rows) -> list[Pair]:
    """Return the steps on several GPUs whose GPU was timed alone with the same software at the same batch."""
    alone = {_same(step): step.latency_s for step, _ in rows.alone}
    return [
        Pair(
            together=step, alone_s=alone[_same(step)],
            size_bytes=rows.gradients[step.model, step.arguments, step.workload.configuration],
        )
        for step in rows.together if _same(step) in alone
    ]  # fmt: skip


def _same(step: MeasuredStep) -> tuple[object, ...]:
    return step.gpu, step.model, step.arguments, replace(step.workload, gpu_count=1), step.batch


def is_linkless(step: MeasuredStep) -> bool:
    """Return True for the systems whose GPUs did not reach one another."""
    return step.gpu in _LINKLESS and step.workload.torch_version == (1, 13)


def pair_errors(pairs: Sequence[Pair], laws: DataParallelLaws, gpus: Gpus) -> FloatArray:
    """Return log(predicted ÷ measured) of steps on several GPUs, given the step on one."""
    found = []
    for pair in pairs:
        step = pair.together
        more_s = all_reduce_s(
            size_bytes=pair.size_bytes, gpu=gpus.find(step.gpu), gpu_count=step.workload.gpu_count, laws=laws
        )
        found.append(np.log((pair.alone_s * (1 + laws.step_share) + more_s) / step.latency_s))
    return np.array(found)


def fit_pairs(pairs: Sequence[Pair], gpus: Gpus) -> DataParallelLaws:
    """Choose what several GPUs cost, by the mean of capped errors, and learn its half-width."""

    def cost(laws: DataParallelLaws) -> float:
        return float(np.minimum(np.abs(pair_errors(pairs, laws, gpus)), _FAR).mean())

    best = min((_with_best_links(share, pairs, gpus) for share in STEP_SHARES), key=cost)
    errors, shares = np.abs(pair_errors(pairs, best, gpus)), added_shares(pairs, best, gpus)
    near = float(np.quantile(errors[shares < _LITTLE], 0.9))
    for link in LINK_HALF_WIDTHS:
        found = replace(best, half_width=near, link_half_width=link)
        if (errors <= np.hypot(near, link * shares)).mean() >= _LINKS_COVERED:
            break
    return found


def _with_best_links(step_share: float, pairs: Sequence[Pair], gpus: Gpus) -> DataParallelLaws:
    """Choose the share of each kind of link by the rows of its GPUs."""
    links = {}
    for link in Link:
        members = [pair for pair in pairs if link_of(gpus.find(pair.together.gpu)) is link]
        laws = [DataParallelLaws(step_share=step_share, link_share={link.value: share}) for share in LINK_SHARES]
        errors = [float(np.minimum(np.abs(pair_errors(members, each, gpus)), _FAR).mean()) for each in laws]
        links[link.value] = LINK_SHARES[int(np.argmin(errors))]
    return DataParallelLaws(step_share=step_share, link_share=links)


def added_shares(pairs: Sequence[Pair], laws: DataParallelLaws, gpus: Gpus) -> FloatArray:
    """Return the share of each step that several GPUs wait for one another."""
    found = []
    for pair in pairs:
        gpu, count = gpus.find(pair.together.gpu), pair.together.workload.gpu_count
        more_s = all_reduce_s(size_bytes=pair.size_bytes, gpu=gpu, gpu_count=count, laws=laws)
        found.append(more_s / (pair.alone_s * (1 + laws.step_share) + more_s))
    return np.array(found)


def make_page(judged: Judged, rows: Rows, cells: Mapping[str, IntervalWidth], pairs: str) -> str:
    """Write the page."""
    found = {name: covered(judged, split, rows, cells) for name, split in judged.splits.items()}
    by_gpu, (inside, half) = judged.splits[GPU].errors, found[GPU]
    keys = {
        "GPU": judged.names["gpu"].tolist(), "model": judged.names["model"].tolist(),
        "precision": [each.workload.precision.value for each, _ in rows.alone],
        "torch": ["{}.{}".format(*each.workload.torch_version) for each, _ in rows.alone],
    }  # fmt: skip
    learnt = spreads(judged, rows, cells)
    return "\n".join([
        _HEAD,
        "| left out | rows | median | p90 | bias | covered | median ± |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"{_line(name, split.errors)} {_covered_cells(*found[name])} |"
            for name, split in judged.splits.items()
        ),
        f"{_line('each GPU, and no microbenchmark of it known', judged.sheet)} – | – |",
        _COVERED,
        "| the GPU's architecture | of all rows left out | covered | median ± | adds in logs |",
        "| --- | ---: | ---: | ---: | ---: |",
        *_by_distance(judged, found, learnt),
        "\n## Each GPU left out\n",
        "| by | | rows | median | p90 | bias | covered | median ± |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {kind} {_line(name, by_gpu[here])} {_covered_cells(inside[here], half[here])} |"
            for kind, names in keys.items()
            for name in sorted(set(names))
            if (here := np.array([each == name for each in names])).any()
        ),
        "\n## Several GPUs of one machine\n",
        pairs,
        _WEAK,
    ]) + "\n"  # fmt: skip


def _covered_cells(inside: FloatArray, half: FloatArray) -> str:
    return f"{100 * np.nanmean(inside):.0f} | {100 * np.nanmedian(half):.0f}"


def _by_distance(
    judged: Judged, found: Mapping[str, tuple[FloatArray, FloatArray]], learnt: Mapping[str, float]
) -> list[str]:
    """Return a line for each distance: its share of the rows that were left out, what is covered, and the widths."""
    every = np.concatenate([split.distances for split in judged.splits.values()])
    tried = np.concatenate([np.isfinite(split.errors) for split in judged.splits.values()])
    inside, half = (np.concatenate([found[name][part] for name in judged.splits]) for part in (0, 1))
    lines = []
    for name, words in (("", "timed, on this GPU, too"), *((each, each.value) for each in Distance)):
        here = tried & (every == name)
        lines.append(
            f"| {words} | {100 * here.sum() / tried.sum():.0f} % | {_covered_cells(inside[here], half[here])} | "
            f"{learnt[name]:.3f} |"
        )
    return lines


def _line(name: str, errors: FloatArray) -> str:
    found = error_statistics(errors[np.isfinite(errors)])
    return f"| {name} | {found.count} | {100 * found.median:.1f} | {100 * found.p90:.1f} | {found.bias:.3f} |"


def pairs_table(pairs: Sequence[Pair], laws: DataParallelLaws, gpus: Gpus) -> str:
    """Write the errors of steps on several GPUs against the same GPU alone, constants learnt from other GPUs."""
    near = [pair for pair in pairs if not is_linkless(pair.together)]
    errors, plain = np.full(len(near), np.nan), np.array([np.log(p.alone_s / p.together.latency_s) for p in near])
    for name in sorted({pair.together.gpu for pair in near}):
        here = np.array([pair.together.gpu == name for pair in near])
        others = fit_pairs([pair for pair, is_here in zip(near, here, strict=True) if not is_here], gpus)
        errors[here] = pair_errors([pair for pair, is_here in zip(near, here, strict=True) if is_here], others, gpus)
    far = np.array([np.log(p.alone_s / p.together.latency_s) for p in pairs if is_linkless(p.together)])
    lines = [
        f"A step takes {100 * laws.step_share:g} % longer than on one GPU, and what a ring all-reduce of the gradients "
        f"takes at {100 * laws.link_share['switched']:g} % of the printed rate one way of switched links, "
        f"{100 * laws.link_share['host']:g} % of PCIe, {100 * laws.link_share['consumer']:g} % of it where cards for "
        "players have no peer access. Errors against the measured step on "
        "one GPU, with each GPU's rows left out of the choice of both numbers:\n",
        "| steps on | rows | median | p90 | bias |", "| --- | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for link in Link:
        here = np.array([link_of(gpus.find(p.together.gpu)) is link for p in near])
        lines.append(_line(f"GPUs with {link.value} links", errors[here]))
    for count in (2, 4, 8):
        lines.append(_line(f"{count} GPUs", errors[np.array([p.together.workload.gpu_count == count for p in near])]))
    few = np.array([p.together.workload.gpu_count <= 8 for p in near])
    lines += [
        _line("2 to 8 GPUs", errors[few]),
        _line("all", errors),
        _line("all, if several GPUs cost nothing", plain),
    ]
    lines.append(
        f"\nTwo systems of A100s rented in 2022 are left out: there {len(far)} steps took "
        f"{np.exp(-np.median(far)):.1f} times (at most {np.exp(-far.min()):.1f}) as long as on one GPU. Their GPUs "
        "presumably did not reach one another (no peer access in a virtual machine), which no spec sheet tells. BERT "
        "base under O2 on 8 GPUs was timed 1.2 to 1.4 times as fast as on one, for which no reason is known; these "
        "rows count like the others.\n"
    )
    return "\n".join(lines)


_HEAD = """\
# How wrong the estimates of training steps are on other GPUs

Remade by `python benchmarks/accuracy_training.py` (see its docstring; `training_rows.py` says what each source ran).
Errors are |predicted ÷ measured − 1| in percent, bias the median of predicted ÷ measured.

ResNet-50, BERT base and large on 21 kinds of GPU under torch 1.7, 1.13 and 2.5, one GPU at a time. Of what is left out
no step is known; the RTX 3090's steps of timm's tables, which fix the classes of kernels, stay known also where the
3090 itself is left out. compile.md has the errors of families of models on that card.
"""
_COVERED = """
Covered is the share of rows within their intervals of 90 %, in percent, and ± half of the width in the middle. A
question is given the width of its distance from what was timed, which is learnt from all splits together, without the
GPU that is judged:
"""
_WEAK = """
## What is weak

- Three networks alone were timed on most cards. What other families take there rests on the RTX 3090.
- BERT's "amp" is apex's level O2 here: the model in fp16, not autocast. Autocast adds its casts and fp32 softmax: the
  same steps estimated as amp-fp16 come out 1.2 to 1.3 times as long. Whoever runs torch.autocast should ask for
  amp-fp16, whoever converts the model for fp16.
- Laptop GPUs of the same source are not in the database, and V100s of unknown memory are left out.
- SSD300, BERT's pretraining with LAMB and dozens of accumulated batches, LoRA and 8-bit optimizers are not judged.
- Clipping gradients, scaling the loss and label smoothing add kernels of a few percent, which are in the fitted
  constants of these rows, not in the graph.
- Over several machines nothing was fitted.
"""


def main() -> None:
    """Fit, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", nargs="+", type=Path)
    parser.add_argument("--anchors", type=Path, help="timm's tables, of which some models stay in the fit")
    parser.add_argument("--choose-blocks", action="store_true", help="try `BLOCK_BYTES` and print their errors")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--calibrations", type=Path, help="the folder where training.yaml and rates.yaml are written")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    gpus, laws = load_gpus(), load_rate_laws()
    base = load_calibration(BASE).parts["training"]
    rows = read_rows(words.measured, words.anchors, gpus, words.traces)
    if words.choose_blocks:
        print("block_bytes:", chosen_blocks(rows, base, laws))
        return
    judged = judge(rows, base, laws)
    found = calibration_of(judged, base, rows, made=words.made, sources=[path.name for path in words.measured])
    pairs = pairs_of(rows)
    near = [pair for pair in pairs if not is_linkless(pair.together)]
    parallel, learnt = fit_pairs(near, gpus), spreads(judged, rows, found.widths)
    words.output.write_text(make_page(judged, rows, found.widths, pairs_table(pairs, parallel, gpus)))
    if words.calibrations:
        (words.calibrations / "training.yaml").write_text(dump_calibration(found))
        added = {name: float(np.sqrt(learnt[name] ** 2 - learnt[Distance.TIMED] ** 2)) for name in Distance}
        replace_sections(
            words.calibrations / RATES_FILE,
            replace(
                laws, data_parallel=parallel, unseen_architecture_half_width=added[Distance.UNTIMED],
                unseen_generation_half_width=added[Distance.NEWER],
            ),
            LawsOrigin(
                sections=(
                    "unseen_architecture_half_width", "unseen_generation_half_width", "block_bytes", "data_parallel",
                ),
                made=words.made, command=_COMMAND,
                data=f"{len(rows.alone)} steps on one GPU, {len(near)} on 2, 4 and 8 GPUs",
            ),
        )  # fmt: skip


if __name__ == "__main__":
    main()
