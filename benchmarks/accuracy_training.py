"""Remake docs/accuracy-training.md and training.yaml: training steps on GPUs that the fit had not seen.

    python benchmarks/accuracy_training.py ../shared/data/training/lambda-training.csv.gz \\
        ../shared/data/training/llm-training.csv.gz -o docs/accuracy-training.md --calibrations capplan/calibrations

Steps of one RTX 3090 by the thousand (timm's tables) fix the classes of kernels: `benchmarks/accuracy.py` fits them and
keeps the constants in benchmarks/calibrations/training-timm.yaml. The rows of `training_rows.py` are added to them, and
a GPU, its chip, its architecture or a model are left out in turn. Also fitted are what several GPUs of a machine cost
(`data_parallel` in rates.yaml) and what an architecture adds that was not timed (`unseen_architecture_half_width`).
"""

import argparse
import csv
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
from accuracy import group_biases
from training_rows import COLUMNS, mapped

from capplan.app.calibration.calibrate import described_steps
from capplan.app.calibration.measured_models import group_runs, trace_folder
from capplan.core.calibrate.dataset import FitRows, TimedStep
from capplan.core.calibrate.fit import (
    HeldOutErrors,
    bias_spread,
    fit_rows,
    predict_without,
    sides,
    unseen_sd,
)
from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.calibrate.residuals import LatencyFit
from capplan.core.calibrate.validation import error_statistics
from capplan.core.gpus.rate_laws import DataParallelLaws, RateLaws
from capplan.core.latency.calibration import Calibration, IntervalWidth
from capplan.core.latency.data_parallel import Link, all_reduce_s, gradient_bytes, link_of
from capplan.core.numbers import BoolArray, FloatArray
from capplan.core.origin import Origin
from capplan.specs import Gpus, load_gpus
from capplan.specs.calibration import dump_calibration, load_calibration
from capplan.specs.measurements import read_measured
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

_DEVIATIONS: Mapping[str, float] = {"architecture": 0.05, "torch": 0.07, "precision": 0.3}
"""How far versions may deviate of which a few steps each are added to a calibration; GPUs may by 0.06."""
BASE = Path(__file__).parent / "calibrations" / "training-timm.yaml"
_COMMAND = "python benchmarks/accuracy_training.py lambda-training.csv.gz llm-training.csv.gz"
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
    together: Sequence[MeasuredStep]
    gradients: Mapping[tuple[object, ...], int]


def read_rows(paths: Iterable[Path], gpus: Gpus, traces: Path | None) -> Rows:
    """Map, trace and describe the rows of some files."""
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
        together=tuple(step for step in steps if step.workload.gpu_count > 1),
        gradients={
            (run.model, run.arguments, run.configuration): gradient_bytes(
                store.obtain(run).recording(run.configuration)
            )
            for run in group_runs(steps)
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The fit to all rows, and its errors with groups left out: by GPU, chip, architecture, model, and two of them."""

    fit: LatencyFit
    constants: FloatArray
    gpu: HeldOutErrors
    chip: HeldOutErrors
    architecture: HeldOutErrors
    model: HeldOutErrors
    gpu_and_model: HeldOutErrors
    chip_and_model: HeldOutErrors
    names: Mapping[str, Sequence[str]]


def judge(rows: Rows, base: Calibration, laws: RateLaws) -> Judged:
    """Fit the rows and leave groups of them out in turn."""
    steps = [step for _, step in rows.alone]
    numbers = fit_rows(steps, laws)

    def make(chosen: FitRows) -> LatencyFit:
        return LatencyFit(chosen, gpu_sd=0.06, deviation_sd=_DEVIATIONS, known=base)

    names = {
        "gpu": [step.gpu for step in steps], "chip": [chip(step.gpu) for step in steps],
        "architecture": [step.levels["architecture"] for step in steps],
        "model": [" ".join((each.model, *each.arguments)) for each, _ in rows.alone],
    }  # fmt: skip
    fit = make(numbers)
    best = fit.fit()
    found = {name: without_groups(numbers, make, start=best, groups=groups) for name, groups in names.items()}
    for name in ("gpu", "chip"):
        found[f"{name}_and_model"] = without_both(numbers, make, start=best, one=names[name], other=names["model"])
    return Judged(fit=fit, constants=best, names=names, **found)


def spread_of(errors: FloatArray, groups: Sequence[str], *, without: str = "") -> float:
    """Return the half-width that holds 90 % of groups' biases, which one group takes no part in."""
    biases = group_biases(errors, groups)
    return bias_spread([bias for name, bias in biases.items() if name != without], unseen_sd(load_rate_laws()))


def unseen_architecture(judged: Judged) -> float:
    """Return what an architecture that was not timed adds in square: architectures left out against GPUs left out."""
    by_gpu = [spread_of(each.gpu, judged.names["gpu"]) for each in (judged.architecture, judged.gpu)]
    return float(np.sqrt(max(0.0, by_gpu[0] ** 2 - by_gpu[1] ** 2)))


def calibration_of(judged: Judged, base: Calibration, rows: Rows, *, made: date, sources: Sequence[str]) -> Calibration:
    """Return the base with what the rows added, and widths that were learnt from what was left out."""
    found = judged.fit.calibration(judged.constants, name=base.name)
    between = spread_of(judged.gpu.gpu, judged.names["gpu"])
    sheets = max(between, spread_of(judged.gpu.sheet, judged.names["gpu"]))
    cells = widths_of(judged, base, rows)
    names = np.array(judged.names["gpu"])
    statistics = {f"chip of {name} left out": judged.chip.gpu[names == name] for name in found.gpus}
    for name, held in (("gpu", judged.gpu), ("chip", judged.chip), ("architecture", judged.architecture)):
        statistics[f"{name} left out"] = held.gpu
    errors = {name: error_statistics(each) for name, each in statistics.items()}
    assert base.origin is not None
    old = base.origin.held_out_errors
    return replace(
        base,
        constants=found.constants,
        classes=found.classes,
        gpus={**base.gpus, **found.gpus},
        deviations={**base.deviations, **found.deviations},
        widths={name: with_spreads(cell, between, sheets) for name, cell in cells.items()},
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
    below, above, count = sides(judged.model.gpu[single])
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
    biases = group_biases(judged.gpu.gpu, judged.names["gpu"])
    within = judged.gpu.gpu - np.array([biases[name] for name in judged.names["gpu"]])
    found = {}
    for name, cell in cells.items():
        below, above, count = sides(within[is_single(rows) == (name == "device single")])
        found[name] = replace(cell, below=below, above=above, rows=count)
    return found


def with_spreads(cell: IntervalWidth, between: float, sheets: float) -> IntervalWidth:
    """Return a cell with the spread of GPUs that were left out, which here are of all architectures."""
    return replace(
        cell, between_gpus=between, between_others=between, between_sheets=sheets, between_other_sheets=sheets
    )


def covered(
    judged: Judged, errors: FloatArray, rows: Rows, widths: Mapping[str, IntervalWidth]
) -> tuple[FloatArray, FloatArray]:
    """Return which errors lie in an unseen GPU's interval, of the spread that the others tell, and half its width."""
    inside, half = [], []
    for index, (_, step) in enumerate(rows.alone):
        between = spread_of(judged.gpu.gpu, judged.names["gpu"], without=step.gpu)
        cell = widths[step.cell]
        below, above = float(np.hypot(cell.below, between)), float(np.hypot(cell.above, between))
        inside.append(-above <= errors[index] <= below)
        half.append((np.exp(above) - np.exp(-below)) / 2)
    return np.array(inside, dtype=float), np.array(half)


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


def make_page(judged: Judged, rows: Rows, widths: Mapping[str, IntervalWidth], pairs: str, added: float) -> str:
    """Write the page."""
    inside, half = covered(judged, judged.gpu.gpu, rows, widths)
    learnt = {name: widths[name] for name in ("device nchw", "device single")}
    within = {**widths, **widths_within(judged, rows, learnt)}
    by_class = {"gpu": judged.gpu.gpu, "both": judged.gpu_and_model.both}
    near = {name: 100 * covered(judged, errors, rows, within)[0].mean() for name, errors in by_class.items()}
    narrow = covered(judged, judged.gpu.gpu, rows, within)[1]
    keys = {
        "GPU": judged.names["gpu"], "model": judged.names["model"],
        "precision": [each.workload.precision.value for each, _ in rows.alone],
        "torch": ["{}.{}".format(*each.workload.torch_version) for each, _ in rows.alone],
    }  # fmt: skip
    return "\n".join([
        _HEAD,
        "| left out | rows | median | p90 | bias | covered |", "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"{_line(f'each {name}', errors)} {100 * covered(judged, errors, rows, widths)[0].mean():.0f} |"
            for name, errors in (
                ("GPU", judged.gpu.gpu), ("chip", judged.chip.gpu), ("architecture", judged.architecture.gpu),
                ("GPU and network", judged.gpu_and_model.both), ("chip and network", judged.chip_and_model.both),
                ("GPU, and no microbenchmark of it known", judged.gpu.sheet),
            )
        ),
        f"{_line('each network, its GPU known', judged.model.gpu)} – |",
        _COVERED.format(half=100 * np.median(half), added=added, narrow=100 * np.median(narrow), **near),
        "## Each GPU left out\n",
        "| by | | rows | median | p90 | bias | covered | median ± |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {kind} {_line(name, judged.gpu.gpu[here])} {100 * inside[here].mean():.0f} | "
            f"{100 * np.median(half[here]):.0f} |"
            for kind, names in keys.items()
            for name in sorted(set(names))
            if (here := np.array([each == name for each in names])).any()
        ),
        "\n## Several GPUs of one machine\n",
        pairs,
        _WEAK,
    ]) + "\n"  # fmt: skip


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
3090 itself is left out. accuracy-compile.md has the errors of families of models on that card.
"""
_COVERED = """
Covered is the share of rows within the interval of 90 % of a GPU left out, in percent, with the spread that the other
GPUs tell; half of its width is {half:.0f} % of the estimate in the middle. An architecture that was not timed adds
{added:.2f} in square, in logs. Intervals are as wide as one needs who asks for a network and a chip of which no step
was timed. The first line knows more: each of the three networks from other GPUs and, of most GPUs, the chip from a
sister card, so that it is covered too well. Widths learnt from the first line alone would be {narrow:.0f} % in the
middle and cover {gpu:.0f} % of it, but {both:.0f} % where the network was not timed either.
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
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--calibrations", type=Path, help="the folder where training.yaml and rates.yaml are written")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    gpus, laws = load_gpus(), load_rate_laws()
    base = load_calibration(BASE).parts["training"]
    rows = read_rows(words.measured, gpus, words.traces)
    judged = judge(rows, base, laws)
    found = calibration_of(judged, base, rows, made=words.made, sources=[path.name for path in words.measured])
    pairs = pairs_of(rows)
    near = [pair for pair in pairs if not is_linkless(pair.together)]
    parallel, added = fit_pairs(near, gpus), unseen_architecture(judged)
    words.output.write_text(make_page(judged, rows, found.widths, pairs_table(pairs, parallel, gpus), added))
    if words.calibrations:
        (words.calibrations / "training.yaml").write_text(dump_calibration(found))
        replace_sections(
            words.calibrations / RATES_FILE,
            replace(laws, data_parallel=parallel, unseen_architecture_half_width=added),
            LawsOrigin(
                sections=("unseen_architecture_half_width", "data_parallel"), made=words.made, command=_COMMAND,
                data=f"{len(rows.alone)} steps on one GPU, {len(near)} on 2, 4 and 8 GPUs",
            ),
        )  # fmt: skip


def without_groups(
    rows: FitRows, make: Callable[[FitRows], LatencyFit], *, start: FloatArray, groups: Sequence[str]
) -> HeldOutErrors:
    """Predict each group of rows by a fit of the others, with and without its GPUs' microbenchmarks.

    Args:
        rows: the measured steps.
        make: the fit of some rows.
        start: the constants of the fit to all rows.
        groups: each row's group: its GPU, its chip, its architecture or its model.

    Returns:
        The errors, as those of GPUs held out.
    """
    none = np.full(len(groups), np.nan)
    errors, sheet = none.copy(), none.copy()
    names = np.array(groups)
    for name in np.unique(names).tolist():
        here = names == name
        predict_without(rows, make, here, here, errors, start=start, sheet=sheet)
    return HeldOutErrors(family=none, gpu=errors, sheet=sheet, both=none)


def without_both(
    rows: FitRows, make: Callable[[FitRows], LatencyFit], *, start: FloatArray, one: Sequence[str], other: Sequence[str]
) -> HeldOutErrors:
    """Predict rows by a fit that knows neither their group of one kind nor that of another.

    Args:
        rows: the measured steps.
        make: the fit of some rows.
        start: the constants of the fit to all rows.
        one: each row's group of one kind: its GPU or its chip.
        other: each row's group of the other kind: its model.

    Returns:
        The errors, as those of families and a GPU left out together.
    """
    none = np.full(len(one), np.nan)
    errors, ones, others = none.copy(), np.array(one), np.array(other)
    for first in np.unique(ones).tolist():
        for second in np.unique(others[ones == first]).tolist():
            in_first, in_second = ones == first, others == second
            predict_without(rows, make, in_first | in_second, in_first & in_second, errors, start=start)
    return HeldOutErrors(family=none, gpu=none, sheet=none, both=errors)


if __name__ == "__main__":
    main()
