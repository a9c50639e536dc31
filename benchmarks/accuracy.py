"""Remake docs/evidence/latency.md and the shipped calibrations: errors on measurements that the fit had not seen.

    python benchmarks/accuracy.py ../shared/data/measured/latency-timm.csv.gz \\
        ../shared/data/measured/latency-curves.csv.gz ../shared/data/llm/op-gemm-vllm.csv.gz \\
        ../shared/data/llm/op-attention-prefill.csv.gz ../shared/data/measured/kernels-fp32.csv.gz \\
        -o docs/evidence/latency.md --calibrations capplan/calibrations

Every model is traced once (kept in the cache of `capplan calibrate fit`); then eager inference, compiled graphs and
training steps are fitted, each once on all its rows, once without each fold of families, and once without each GPU.
Compiled graphs and training steps are those of the first file. The fit of training steps is kept under
benchmarks/calibrations/, and `accuracy_training.py` adds steps of other GPUs. `--keep FOLDER` keeps rows and fits.
"""

import argparse
import pickle
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capplan.app.calibration.measured_models import group_runs
from capplan.core.calibrate.dataset import TimedStep
from capplan.core.calibrate.fit import (
    OTHERS_90,
    FittedCalibration,
    HeldOutErrors,
    bias_spread,
    fit_calibration,
    sides,
    unseen_sd,
)
from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.calibrate.validation import error_statistics, faster_named_right, kendall_tau
from capplan.core.latency.lookup import workload_kind
from capplan.specs.calibration import dump_calibration
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

FloatArray = NDArray[np.float64]
CUDA_REFERENCE = ("rtx-3090", "rtx-4090", "rtx-pro-6000-blackwell-max-q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A step as the page speaks of it; `curve` names the batch curve that it is a point of."""

    step: TimedStep
    model: str
    input_size: int
    batch: int
    curve: str = ""

    @property
    def torch(self) -> str:
        return self.step.levels["torch"]


Fit = tuple[Sequence[Described], FittedCalibration]
"""Described steps of one kind, and what was fitted to them."""


def kept_section(page: Path, heading: str) -> list[str]:
    """Return a section that another script wrote into a page, empty where there is none."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    found = text.partition(f"{heading}\n\n")[2].partition("\n## ")[0]
    return [f"{heading}\n", found] if found else []


SPLITS = "## Splits like use"


def make_page(
    rows: Sequence[Described], fitted: FittedCalibration, others: Mapping[str, Fit], *, splits: Sequence[str]
) -> str:
    """Write the page from one fit and its held-out errors, and those of compiled graphs and training steps."""
    held, origin = fitted.held_out, fitted.calibration.origin
    assert origin is not None
    timm = [row.step.gpu in CUDA_REFERENCE and not row.curve for row in rows]
    parts = [
        "# How wrong the estimates are\n",
        f"Eager inference. Fitted on {origin.made} to {origin.rows:,} rows of {', '.join(origin.sources)}; remade by "
        "`python benchmarks/accuracy.py` (see its docstring). Errors are |predicted ÷ measured − 1|, in percent, on "
        "rows that the fit had not seen; bias is the median of predicted ÷ measured.\n",
        "Rows of one name family (`resnet*`, `vit_*`, …) are held out together. Of a GPU held out no timed step is "
        'known, neither its factors nor its architecture\'s deviations: "GPU new" has the microbenchmarks that its '
        'spec holds (matrix products, copies, a clock under load), "sheet alone" none of them.\n',
        "## Saturated batches\n",
        _errors_table(rows, np.array(timm), _kinds(held)),
        "## Intervals of 90 % by class of evidence\n",
        "Each fold's coverage is counted with widths learnt from the other folds; an unseen GPU's with the spread of "
        "the other GPUs' biases, and with what an estimate adds for a torch version that only that GPU was timed with. "
        "Below it: the measured time is shorter than the interval's low end.\n",
        _coverage_table(rows, np.array(timm), held, "eager"),
        *splits,
        "## By family of models\n",
        f"Families of {_FEWEST_OF_FAMILY} rows and more whose median error, held out, is over {_WEAK_FAMILY:.0%}.\n",
        _families_table(rows, np.array(timm), held.family),
        "## Ranks\n",
        _ranks(rows, np.array(timm), {"family new": held.family, "GPU new": held.gpu}),
        "## Batch curves\n",
        "Whole curves (one model, size, precision and GPU) held out; the GPU and its other curves are known.\n",
        _curves_table(rows, held.family),
        "## GPUs of which only curves and single kernels are known\n",
        "Every curve of a GPU held out with all that was measured on it: steps of 64 samples and more, and of 1 or 2, "
        "which wait for the host. Predictions are from microbenchmarks, spec sheet and the other GPUs; so are the "
        "widths of the intervals whose coverage is counted.\n",
        _few_rows_table(rows, held),
        "## Single kernels (LLM serving data in bf16, NeuSight's in fp32)\n",
        "All kernels of one class on one GPU are held out together.\n",
        _kernels_table(rows, held.family),
        *(part for kind, (steps, fit) in others.items() for part in _other_kind(kind, steps, fit)),
        "## What is weak\n",
        _WEAK,
    ]
    return "\n".join(parts)


_TITLES = {"compile": "Compiled graphs", "training": "Training steps"}


def _other_kind(kind: str, rows: Sequence[Described], fitted: FittedCalibration) -> list[str]:
    """Return the errors and coverage of another kind of steps, by class of evidence."""
    everything = np.ones(len(rows), dtype=bool)
    return [
        f"## {_TITLES[kind]}: errors and intervals by class of evidence\n",
        "As above; compile.md says what is in these rows.\n",
        _errors_table(rows, everything, _kinds(fitted.held_out)),
        _coverage_table(rows, everything, fitted.held_out, kind),
    ]


def _kinds(held: HeldOutErrors) -> dict[str, FloatArray]:
    return {"family new": held.family, "GPU new": held.gpu, "sheet alone": held.sheet, "both new": held.both}


_WEAK = """\
- The widths that ship are learnt from more cards than the three of these tables (`benchmarks/interval_widths.py`).
- What is in the rows of compiled graphs and training steps stands on a page of its own (compile.md).
- Rules that were chosen while GPUs were left out, so that "GPU new" is a little too kind: that kernels lose by their
  bytes per clock and multiprocessor, and how much; that pointwise kernels add their instructions to their traffic; how
  much of grouped convolutions and of attention is issued beside tensor cores; and that single precision takes the
  arithmetic of GPUs that were timed in it where a GPU has rows in 16 bits alone. Their constants are chosen by
  `benchmarks/rate_laws.py`, by the errors of GPUs left out, and stand in rates.yaml. The spread of GPUs beyond those
  held out is that of the rates of matrix products and copies on GPUs left out (sustained.md), both alike: copies' alone
  was tried and covered 85 % of the rows whose family and GPU were left out.
- Against the fit before, in which unaligned batched products lost the same on every GPU, fused attention multiplied
  heads no wider than they are, CLIP's towers had norms in half precision before torch 2.9, and NVIDIA's mean latencies
  held their first steps: families came from 3.0 / 9.0 and 3.0 / 10.6 (median / p90, row-major and channels-last) to
  2.9 / 8.8 and 2.9 / 10.5, GPUs left out from 4.3 / 11.2 and 4.5 / 11.8 to 4.3 / 11.0 and 3.8 / 10.7, both left out
  from 4.8 / 13.2 to 4.1 / 12.2, batch curves from 7.7 / 21.0 to 7.0 / 18.9. Worse became single kernels in the middle
  (11.6 / 33.2 to 12.1 / 32.9) and curves of GPUs left out at the 90th percentile (11.8 / 29.7 to 10.1 / 30.3).
- Batched products of odd lengths lose what tensor cores gain, however long they are: AITemplate's ViT-L of 577 tokens,
  which is in no fit, came from 0.92 to 1.27 of its time on A100 and MI250, its ViT-B of 197 from 0.78 to 1.0 and 0.87.
- Tried and dropped, for no gain on what was held out: a factor of each GPU's own host (curves 21.8 at the 90th
  percentile for 20.2), wider deviations of torch versions, no cuDNN's cost of a convolution on AMD's cards, and what
  batched products lose by alignment for linear layers and convolutions, too.
- Of torch 2.4 compiled graphs were timed on the RTX 4090 alone, so that "GPU new" there has never seen the version
  either.
- Grouped convolutions in channels-last under torch 1.13 and 2.1 hang on cuDNN's version and on the width of a group:
  they are taken as fast where it is a power of two up to 64 or a multiple of 64. tresnet in torch 1.13 is three times
  too fast: timm ran it with the package inplace_abn then, whose kernels are row-major, and no longer does.
- Channels-last 3x3 depthwise convolutions of channels that are no multiple of 8 take several times as long in cuDNN.
  The factor is fitted to few families (rexnet most of all), so that a family held out of that kind is still too fast.
- Depthwise channels-last convolutions of 2³¹ elements and more, which torch 2 no longer splits, have a law of their own
  (rates.yaml): one number for all, though what such a kernel takes for an output differs threefold among them.
- Conditional convolutions (efficientnet_cc) come out at 0.82 of the measured time in eager mode: which of cuDNN's
  grouped kernels run for a thousand wide groups was not found out. Compiled, talking heads (cait), F.fold (volo)
  and LSTMs (sequencer) are 0.8 to 0.9, gated layers (gmlp) 1.2 of it.
- Steps in bf16 without autocast, compiled, are up to 1.7 times slower than with it where channels are few and uneven
  (hrnet, dla46_c) and 1.2 times in ResNet-18: such convolutions have a law (`slow_convolutions` in rates.yaml), known
  of one GPU. The tables of eager steps were made before groups of two and three channels had a class.
- V100 under AMP and channels-last: three models' curves under torch 1.9 are all that is known, see the tables above.
  MI250 stands alone for its vendor's libraries in 16 bits: left out, nothing tells that they reach 0.7 of the rate that
  the others lead one to expect, and a GPU whose architecture has no timed relative gets a wider interval for it.
- Small batches wait for the host, and no row says which host: its speed is guessed from the GPU's year and
  segment, unless `capplan calibrate host` measured it. Compiled graphs of one image, and CUDA graphs, were not timed.
- Attention kernels and matrix products of LLM shapes are 10 to 25 % off on a GPU whose own were not seen.
- Only three consumer and workstation GPUs have rows by the thousand, each of another architecture; data-centre GPUs
  have a few batch curves and single kernels, and intervals of their own. Compiled rows are of two of them.
- Of GPUs with more than 13.4 bytes of bandwidth per clock and multiprocessor (GH200, H200, B200) no whole model was
  timed. What kernels stream there is the same law carried on; by what it slows them beyond 13.4 their intervals widen.
- The power limit's effect on whole steps is seen on one capped card; on matrix products, on 63 GPUs (sustained.md).
  Cards of 70 to 75 W throttle under long fp32 loads to less than their short kernels tell (P4).
- Rules of the graph (which convolutions are grouped without a fast kernel, half-precision norms in timm's older
  tables, what a layer norm of short rows costs) were found by looking at these rows, so that "family new" is a little
  too kind.
- Of detectors only peaks of memory were published, none of their times: that a quarter of the candidates stay
  (`--selected-share`) rests on a few readings of one framework.
- Of maxvit, fastvit, efficientvit, regnetz and hiera no row was timed (of hiera only SAM 2's encoders are at hand).
  What stands behind them: their operators are those of families that were timed, and their compiled graphs have the
  kernels that Inductor would generate and move their bytes within a few percent (compile.md). hiera's
  attention of five dimensions is that of nest and twins, which were timed.
- Training steps of xcit come out at 1.17 of the measured time since its norms are traced as autocast runs them.
- ecaresnext50t_32x4d is timed at 0.6 of what is predicted on every GPU: presumably another model bore that name then.
- The constants of the power law know the microbenchmarks of all GPUs, also in "sheet alone".
"""


def _errors_table(rows: Sequence[Described], chosen: NDArray[np.bool_], kinds: Mapping[str, FloatArray]) -> str:
    lines = [
        "| held out | GPU | layout | torch | rows | median | p90 | bias |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for kind, errors in kinds.items():
        groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index, row in enumerate(rows):
            if chosen[index] and np.isfinite(errors[index]):
                groups[(row.step.gpu, _layout(row), row.torch)].append(index)
        for layout in sorted({key[1] for key in groups}):
            every = [i for key, members in groups.items() if key[1] == layout for i in members]
            lines.append(_error_line((f"**{kind}**", "all", layout, "all"), errors[every]))
        lines += [_error_line((kind, *key), errors[members]) for key, members in sorted(groups.items())]
    return "\n".join(lines) + "\n"


_FEWEST_OF_FAMILY, _WEAK_FAMILY = 10, 0.08


def _families_table(rows: Sequence[Described], chosen: NDArray[np.bool_], errors: FloatArray) -> str:
    """Return the families with the largest errors, by layout."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if chosen[index] and np.isfinite(errors[index]):
            groups[row.step.family, _layout(row)].append(index)
    found = {key: np.abs(np.expm1(errors[members])) for key, members in groups.items()}
    weak = [key for key, each in found.items() if len(each) >= _FEWEST_OF_FAMILY and np.median(each) > _WEAK_FAMILY]
    lines = ["| family | layout | rows | median | p90 | bias |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    weak.sort(key=lambda key: -float(np.median(found[key])))
    return "\n".join([*lines, *(_error_line(key, errors[groups[key]]) for key in weak)]) + "\n"


def _error_line(keys: Iterable[str], errors: FloatArray) -> str:
    if not len(errors):
        return "| " + " | ".join([*keys, "0", "–", "–", "–"]) + " |"
    found = error_statistics(errors)
    cells = [str(found.count), f"{100 * found.median:.1f}", f"{100 * found.p90:.1f}", f"{found.bias:.3f}"]
    return "| " + " | ".join([*keys, *cells]) + " |"


def _layout(row: Described) -> str:
    return row.step.cell.removeprefix("device ")


def _coverage_table(rows: Sequence[Described], chosen: NDArray[np.bool_], held: HeldOutErrors, kind: str) -> str:
    lines = ["| evidence | layout | rows | covered | below it | above it | median ± |"]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    rng = np.random.default_rng(0)
    names = sorted({row.step.family for row in rows})
    fold_of = dict(zip(names, rng.permutation(len(names)) % 5, strict=True))
    folds = np.array([fold_of[row.step.family] for row in rows])
    gpus = np.array([row.step.gpu for row in rows])
    layouts, versions = np.array([_layout(row) for row in rows]), np.array([row.torch for row in rows])
    laws = load_rate_laws()
    of_version = laws.transfer.torch_half_width[kind]
    for layout in sorted(set(layouts[chosen].tolist())):
        here = chosen & (layouts == layout) & np.isfinite(held.family)
        found = np.full((3, len(rows)), np.nan)
        for fold in range(5):
            inside = here & (folds == fold)
            below, above, _ = sides(held.family[here & (folds != fold)])
            found[:, inside] = [held.family[inside], np.full(inside.sum(), below), np.full(inside.sum(), above)]
        lines.append(_coverage_line("family new, GPU measured", layout, found[:, here]))
        for what, errors in (
            ("own microbenchmarks", held.gpu), ("spec sheet alone", held.sheet), ("family and GPU new", held.both),
        ):  # fmt: skip
            lines += _unseen_lines(
                what, layout=layout, errors=errors, family=held.family, here=here, gpus=gpus, prior=unseen_sd(laws),
                of_version=np.where(_is_timed_elsewhere(gpus, versions, here), 0.0, of_version),
            )  # fmt: skip
    return "\n".join(lines) + "\n"


def _unseen_lines(
    what: str,
    *,
    layout: str,
    errors: FloatArray,
    family: FloatArray,
    here: NDArray[np.bool_],
    gpus: NDArray[np.str_],
    prior: float,
    of_version: FloatArray,
) -> list[str]:
    """Return coverage on each GPU held out, with sides learnt from the other GPUs, and on all of them.

    `of_version` is what a row's interval adds for a torch version that no other GPU was timed with.
    """
    lines, every = [], []
    known = here & np.isfinite(errors)
    biases = {name: float(np.median(errors[known & (gpus == name)])) for name in np.unique(gpus[known]).tolist()}
    for name in biases:
        others = [bias for other, bias in biases.items() if other != name]
        inside = known & (gpus == name)
        below, above, _ = sides(family[here & (gpus != name)])
        spread = bias_spread(others, prior)
        more = np.hypot(spread, of_version[inside])
        found = np.stack([errors[inside], np.hypot(below, more), np.hypot(above, more)])
        every.append(found)
        lines.append(_coverage_line(f"{what}: {name} new", layout, found))
    return [_coverage_line(f"**{what}**", layout, np.hstack(every)), *lines] if every else []


def _is_timed_elsewhere(
    gpus: NDArray[np.str_], versions: NDArray[np.str_], here: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return of each row whether another GPU was timed with its torch version among some rows."""
    timed = set(zip(gpus[here].tolist(), versions[here].tolist(), strict=True))
    found = [
        any(gpu != own and other == version for gpu, other in timed)
        for own, version in zip(gpus.tolist(), versions.tolist(), strict=True)
    ]
    return np.array(found)


def _coverage_line(kind: str, layout: str, found: FloatArray) -> str:
    """Return one line: shares of measurements inside, below and above intervals of [error, below, above]."""
    errors, below, above = found
    under, over = errors > below, errors < -above
    half = float(np.median((np.exp(above) - np.exp(-below)) / 2))
    cells = [f"{100 * share:.1f}" for share in (1 - under.mean() - over.mean(), under.mean(), over.mean(), half)]
    return f"| {kind} | {layout} | {len(errors)} | " + " | ".join(cells) + " |"


def _ranks(rows: Sequence[Described], chosen: NDArray[np.bool_], kinds: Mapping[str, FloatArray]) -> str:
    lines = [
        "| held out | Kendall tau between models on one GPU | faster of two GPUs named right (≥ 10 % apart) |",
        "| --- | ---: | ---: |",
    ]
    for kind, errors in kinds.items():
        by_gpu: dict[tuple[str, ...], list[int]] = defaultdict(list)
        by_model: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index, row in enumerate(rows):
            if chosen[index] and np.isfinite(errors[index]):
                by_gpu[(row.step.gpu, _layout(row), row.torch)].append(index)
                by_model[(row.model, str(row.input_size), _layout(row))].append(index)
        measured = np.array([row.step.latency_s / row.batch if row.batch else np.nan for row in rows])
        predicted = measured * np.exp(errors)
        taus = [kendall_tau(predicted[members].tolist(), measured[members].tolist()) for members in by_gpu.values()]
        pairs = np.array(
            [
                faster_named_right(predicted[members].tolist(), measured[members].tolist())
                for members in by_model.values()
                if len(members) > 1
            ]
        )
        right, every = pairs.sum(axis=0)
        tau = np.average(
            [t for t in taus if t is not None],
            weights=[len(m) for m, t in zip(by_gpu.values(), taus, strict=True) if t is not None],
        )
        lines.append(f"| {kind} | {tau:.3f} | {100 * right / every:.1f} % of {every} |")
    return "\n".join(lines) + "\n"


def _curves_table(rows: Sequence[Described], errors: FloatArray) -> str:
    groups: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.curve and np.isfinite(errors[index]):
            groups[row.curve].append(index)
    lines = ["| curve | batch 1 | knee | largest |", "| --- | ---: | ---: | ---: |"]
    first, knee, last = [], [], []
    for curve, members in sorted(groups.items()):
        ordered = sorted(members, key=lambda index: rows[index].batch)
        at_knee = _measured_knee(rows, ordered)
        values = [np.expm1(errors[index]) for index in (ordered[0], at_knee, ordered[-1])]
        for store, value in zip((first, knee, last), values, strict=True):
            store.append(abs(value))
        lines.append(f"| {curve} | " + " | ".join(f"{100 * value:+.0f} %" for value in values) + " |")
    summary = [f"{100 * np.median(values):.1f} %" for values in (first, knee, last)]
    lines.insert(2, "| **median of absolute errors** | " + " | ".join(summary) + " |")
    return _curves_by_precision(rows, errors) + "\n" + "\n".join(lines) + "\n"


def _curves_by_precision(rows: Sequence[Described], errors: FloatArray) -> str:
    """Return the errors of all points of curves held out whole, by GPU and precision."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.curve and np.isfinite(errors[index]):
            for key in (("**all**", ""), ("**all**", row.step.levels["precision"]),
                        (row.step.gpu, row.step.levels["precision"])):  # fmt: skip
                groups[key].append(index)
    lines = ["| GPU | precision | points | median | p90 | bias |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    return "\n".join([*lines, *(_error_line(key, errors[members]) for key, members in sorted(groups.items()))]) + "\n"


def _few_rows_table(rows: Sequence[Described], held: HeldOutErrors) -> str:
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.curve and np.isfinite(held.gpu[index]) and (size := _size(row)):
            groups[(row.step.gpu, row.step.levels["precision"], size)].append(index)
    lines = [
        "| GPU | precision | batch | rows | median | p90 | bias | covered |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    covered = _few_rows_covered(rows, held)
    lines += [
        f"{_error_line(keys, held.gpu[members])} {100 * covered[members].mean():.0f} % |"
        for keys, members in sorted(groups.items())
    ]
    every = [index for members in groups.values() for index in members]
    lines.append(f"{_error_line(('**all**', '', ''), held.gpu[every])} {100 * covered[every].mean():.0f} % |")
    return "\n".join(lines) + "\n"


_LARGE = "64 and more"


def _size(row: Described) -> str:
    return _LARGE if row.batch >= 64 else "1 and 2" if row.batch <= 2 else ""


def _few_rows_covered(rows: Sequence[Described], held: HeldOutErrors) -> NDArray[np.bool_]:
    """Return which curves' points lie in intervals that were learnt from the other GPUs, as a new GPU's would be."""
    gpus, sizes = np.array([row.step.gpu for row in rows]), np.array([_size(row) for row in rows])
    curves = np.array([bool(row.curve) for row in rows]) & np.isfinite(held.gpu)
    architectures = {row.step.gpu: row.step.levels["architecture"] for row in rows}
    is_cuda = np.array([architectures[name][0].isdigit() for name in gpus.tolist()])
    inside, laws = np.zeros(len(rows), dtype=bool), load_rate_laws()
    for name in np.unique(gpus[curves]).tolist():
        biases = [
            float(np.median(held.gpu[curves & (gpus == other)]))
            for other in np.unique(gpus[curves & is_cuda]).tolist() if other != name
        ]  # fmt: skip
        more = bias_spread(biases, unseen_sd(laws), quantile=OTHERS_90)
        if architectures[name] not in {key for other, key in architectures.items() if other != name}:
            unseen, libraries = laws.unseen_architecture_half_width, laws.unseen_libraries_half_width
            more = float(np.hypot(more, unseen if architectures[name][0].isdigit() else libraries))
        for size in np.unique(sizes).tolist():
            below, above, _ = sides(held.family[curves & (gpus != name) & (sizes == size)])
            here = curves & (gpus == name) & (sizes == size)
            inside[here] = (held.gpu[here] <= np.hypot(below, more)) & (held.gpu[here] >= -np.hypot(above, more))
    return inside


def unseen_libraries(rows: Sequence[Described], held: HeldOutErrors) -> float:
    """Return how far GPUs lie of whose vendor nothing else was timed: the spread of their biases at large batches."""
    biases = group_biases(
        np.array([error if _size(row) == _LARGE else np.nan for row, error in zip(rows, held.gpu, strict=True)]),
        ["" if row.step.levels["architecture"][0].isdigit() else row.step.gpu for row in rows],
    )
    return bias_spread([bias for gpu, bias in biases.items() if gpu], unseen_sd(load_rate_laws()))


def _measured_knee(rows: Sequence[Described], ordered: Sequence[int]) -> int:
    """The point of a measured curve from which doubling gains under 10 %."""
    for here, after in pairwise(ordered):
        doublings = np.log2(rows[after].batch / rows[here].batch)
        rate, later = (rows[index].batch / rows[index].step.latency_s for index in (here, after))
        if (later / rate) ** (1 / doublings) < 1.1:
            return here
    return ordered[-1]


def _kernels_table(rows: Sequence[Described], errors: FloatArray) -> str:
    groups: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.step.cell == "kernels" and np.isfinite(errors[index]):
            groups[row.step.family].append(index)
    lines = ["| kernels | rows | median | p90 | bias |", "| --- | ---: | ---: | ---: | ---: |"]
    lines += [_error_line((name,), errors[members]) for name, members in sorted(groups.items())]
    return "\n".join(lines) + "\n"


def described_rows(
    dataset: Path | None, paths: Sequence[Path], traces: Path | None, *, serves: str, at_most: int | None
) -> list[Described]:
    """Return the rows kept in a file; without one, describe them, and keep them there."""
    if dataset and dataset.exists():
        kept: list[Described] = pickle.loads(dataset.read_bytes())
        return kept
    rows = gather(paths, traces, serves=serves, at_most=at_most)
    if dataset:
        dataset.write_bytes(pickle.dumps(rows))
    return rows


def drawn(steps: Sequence[MeasuredStep], at_most: int | None, serves: str) -> Sequence[MeasuredStep]:
    """Return the steps of models drawn at random until there are as many as asked for."""
    if at_most is None:
        return steps
    groups = list(group_runs([step for step in steps if workload_kind(step.workload) == serves]).values())
    random.Random(1).shuffle(groups)
    chosen: list[MeasuredStep] = []
    for members in groups:
        if len(chosen) >= at_most:
            break
        chosen += members
    return chosen


CHANGED = ("timm:ecaresnext50t_32x4d",)
"""Models that timm built otherwise for its tables: two blocks a stage up to 1.0.22, (3, 4, 6, 3) today (resnet.py)."""


def gather(
    paths: Sequence[Path], traces: Path | None, *, serves: str = "eager", at_most: int | None = None
) -> list[Described]:
    """Trace and describe every usable row of some files, or at most so many of the first."""
    from capplan.app.calibration.calibrate import described_steps
    from capplan.core.calibrate.kernels import kernel_step
    from capplan.specs import load_gpus
    from capplan.specs.kernels import holds_kernels, read_kernels
    from capplan.specs.measurements import read_measured

    gpus, rows = load_gpus(), []
    for path in paths:
        if holds_kernels(path):
            for kernel in read_kernels(path):
                step = kernel_step(kernel, gpus[kernel.gpu], load_rate_laws())
                if step is not None:
                    rows.append(Described(step=step, model=step.family, input_size=0, batch=0))
            continue
        for measured, step in described_steps(
            drawn(read_measured(path).steps, at_most if path == paths[0] else None, serves), gpus, traces, serves=serves
        ):
            if measured.model in CHANGED:
                continue
            size = measured.input_size[-1] if measured.input_size else 0
            curve = (
                f"{measured.model} {size} {measured.workload.precision} {measured.gpu}" if "curve" in path.name else ""
            )
            rows.append(Described(step=step, model=measured.model, input_size=size, batch=measured.batch, curve=curve))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--calibrations", type=Path, help="the folder where the calibrations go, too")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    parser.add_argument("--keep", type=Path, help="keep rows and fits in this folder, or go on from those kept there")
    parser.add_argument("--only", choices=tuple(_FILES), help="describe and fit this kind alone, and keep it")
    parser.add_argument(
        "--at-most", type=int, metavar="N", help="trace and fit at most N rows of the first file, drawn"
    )
    words = parser.parse_args()
    fits = {kind: fit_of(kind, words) for kind in ((words.only,) if words.only else tuple(_FILES))}
    if words.only:
        return
    rows, fitted = fits.pop("eager")
    words.output.write_text(make_page(rows, fitted, fits, splits=kept_section(words.output, SPLITS)))
    if words.calibrations:
        for kind, (_, each) in {"eager": (rows, fitted), **fits}.items():
            folder = KEPT_FOR_MORE_ROWS if kind == "training" else words.calibrations
            (folder / _FILES[kind]).write_text(dump_calibration(each.calibration))
        laws = replace(load_rate_laws(), unseen_libraries_half_width=unseen_libraries(rows, fitted.held_out))
        origin = LawsOrigin(
            sections=("unseen_libraries_half_width",), made=words.made, command=_command(words),
            data="latency-curves.csv.gz: steps of 64 samples and more on GPUs that are no CUDA devices, left out",
        )  # fmt: skip
        replace_sections(words.calibrations / RATES_FILE, laws, origin)


_FILES = {"eager": "default.yaml", "compile": "compile.yaml", "training": "training-timm.yaml"}
KEPT_FOR_MORE_ROWS = Path(__file__).parent / "calibrations"


def _command(words: argparse.Namespace) -> str:
    command = f"python benchmarks/accuracy.py {' '.join(path.name for path in words.measured)}"
    return command + (f" --at-most {words.at_most}" if words.at_most else "")


def fit_of(kind: str, words: argparse.Namespace) -> Fit:
    """Return one kind's described rows and its fit, kept or made."""
    kept = words.keep / f"{kind}.fit.pkl" if words.keep else None
    if kept and kept.exists():
        found: Fit = pickle.loads(kept.read_bytes())
        return found
    paths = words.measured if kind == "eager" else words.measured[:1]
    dataset = words.keep / f"{kind}.rows.pkl" if words.keep else None
    rows = described_rows(dataset, paths, words.traces, serves=kind, at_most=words.at_most)
    sources = [path.name for path in paths]
    steps = [row.step for row in rows]
    fitted = fit_calibration(
        steps, name="capplan", made=words.made, command=_command(words), sources=sources, serves=kind,
        laws=load_rate_laws(),
    )  # fmt: skip
    if kept:
        kept.write_bytes(pickle.dumps((rows, fitted)))
    return rows, fitted


def group_biases(errors: FloatArray, groups: Sequence[str]) -> dict[str, float]:
    """Return the median log error of each group whose rows were predicted.

    Args:
        errors: log(predicted ÷ measured), nan where not tried.
        groups: each row's group.
    """
    names = np.array(groups)
    tried = np.isfinite(errors)
    return {
        name: float(np.median(errors[tried & (names == name)]))
        for name in np.unique(names[tried]).tolist()
    }  # fmt: skip


if __name__ == "__main__":
    main()
