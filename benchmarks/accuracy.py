"""Remake docs/accuracy.md: how far predictions lie from measurements that the fit had not seen.

    python benchmarks/accuracy.py ../shared/data/measured/latency-timm.csv.gz \\
        ../shared/data/measured/latency-curves.csv.gz ../shared/data/llm/op-gemm-vllm.csv.gz \\
        ../shared/data/llm/op-attention-prefill.csv.gz ../shared/data/measured/kernels-fp32.csv.gz \\
        -o docs/accuracy.md --calibration capplan/calibrations/default.yaml

Every model is traced once (kept in the cache of `capplan calibrate fit`); then the fit runs once on all rows, once
without each fold of families, and once without each GPU. The calibration is the one that `capplan calibrate fit` makes
of the same files.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capplan.core.calibrate.accuracy import error_statistics, faster_named_right, kendall_tau
from capplan.core.calibrate.dataset import TimedStep
from capplan.core.calibrate.fit import FittedCalibration, bias_spread, fit_calibration
from capplan.specs.calibration import dump_calibration

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


def make_page(rows: Sequence[Described], fitted: FittedCalibration) -> str:
    """Write the page from one fit and its held-out errors."""
    held, origin = fitted.held_out, fitted.calibration.origin
    assert origin is not None
    timm = [row.step.gpu in CUDA_REFERENCE and not row.curve for row in rows]
    parts = [
        "# How wrong the estimates are\n",
        f"Eager inference. Fitted on {origin.made} to {origin.rows:,} rows of {', '.join(origin.sources)}; remade by "
        "`python benchmarks/accuracy.py` (see its docstring). Errors are |predicted ÷ measured − 1|, in percent, on "
        "rows that the fit had not seen; bias is the median of predicted ÷ measured.\n",
        "Rows of one name family (`resnet*`, `vit_*`, …) are held out together. A GPU held out is predicted from its "
        "spec sheet: neither its factors nor its architecture's deviations are known then.\n",
        "## Saturated batches\n",
        _errors_table(rows, np.array(timm), {"family new": held.family, "GPU new": held.gpu, "both new": held.both}),
        "## Intervals of 90 %\n",
        "Each fold's coverage is counted with widths learnt from the other folds; an unseen GPU's with the spread of "
        "the other GPUs' biases.\n",
        _coverage_table(rows, np.array(timm), held.family, held.gpu),
        "## Ranks\n",
        _ranks(rows, np.array(timm), {"family new": held.family, "GPU new": held.gpu}),
        "## Batch curves\n",
        "Whole curves (one model, size, precision and GPU) held out; the GPU and its other curves are known.\n",
        _curves_table(rows, held.family),
        "## GPUs of which only curves and single kernels are known\n",
        "Every curve of a GPU held out with all that was measured on it: steps of 64 samples and more, and of 1 or 2, "
        "which wait for the host. Predictions are from the spec sheet and the other GPUs.\n",
        _few_rows_table(rows, held.gpu),
        "## Single kernels (LLM serving data in bf16, NeuSight's in fp32)\n",
        "All kernels of one class on one GPU are held out together.\n",
        _kernels_table(rows, held.family),
        "## What is weak\n",
        _WEAK,
    ]
    return "\n".join(parts)


_WEAK = """\
- Compiled graphs and training steps are not judged here (see accuracy-compile.md).
- Small batches wait for the host, and no row says which host: its speed is guessed from the GPU's year.
- Only three consumer and workstation GPUs have rows by the thousand, each of another architecture; data-centre GPUs
  have a few batch curves and single kernels.
- The power limit's effect rests on one capped card.
- Rules of the graph (which convolutions are grouped without a fast kernel, half-precision norms in timm's older tables)
  were found by looking at these rows, so that "family new" is a little too kind.
- Sustained clocks and the power rule were set with these three GPUs in sight: "GPU new" is a little too kind.
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
        for layout in ("nchw", "nhwc"):
            every = [i for key, members in groups.items() if key[1] == layout for i in members]
            lines.append(_error_line((f"**{kind}**", "all", layout, "all"), errors[every]))
        lines += [_error_line((kind, *key), errors[members]) for key, members in sorted(groups.items())]
    return "\n".join(lines) + "\n"


def _error_line(keys: Iterable[str], errors: FloatArray) -> str:
    if not len(errors):
        return "| " + " | ".join([*keys, "0", "–", "–", "–"]) + " |"
    found = error_statistics(errors)
    cells = [str(found.count), f"{100 * found.median:.1f}", f"{100 * found.p90:.1f}", f"{found.bias:.3f}"]
    return "| " + " | ".join([*keys, *cells]) + " |"


def _layout(row: Described) -> str:
    return row.step.cell.removeprefix("device ")


def _coverage_table(rows: Sequence[Described], chosen: NDArray[np.bool_], family: FloatArray, gpu: FloatArray) -> str:
    lines = ["| held out | layout | rows | covered | median ± |", "| --- | --- | ---: | ---: | ---: |"]
    rng = np.random.default_rng(0)
    names = sorted({row.step.family for row in rows})
    fold_of = dict(zip(names, rng.permutation(len(names)) % 5, strict=True))
    folds = np.array([fold_of[row.step.family] for row in rows])
    gpus = np.array([row.step.gpu for row in rows])
    layouts = np.array([_layout(row) for row in rows])
    for layout in ("nchw", "nhwc"):
        here = chosen & (layouts == layout) & np.isfinite(family)
        widths, covered = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
        for fold in range(5):
            inside = here & (folds == fold)
            widths[inside] = np.quantile(np.abs(family[here & (folds != fold)]), 0.9)
        covered[here] = np.abs(family[here]) <= widths[here]
        lines.append(_coverage_line("family new", layout, covered[here], widths[here]))
        biases = {g: float(np.median(gpu[here & (gpus == g)])) for g in CUDA_REFERENCE if (here & (gpus == g)).any()}
        for name in biases:
            others = [bias for other, bias in biases.items() if other != name]
            if not others:
                continue
            inside = here & (gpus == name) & np.isfinite(gpu)
            known = np.quantile(np.abs(family[here & (gpus != name)]), 0.9)
            width = float(np.hypot(known, bias_spread(others)))
            lines.append(
                _coverage_line(f"{name} new", layout, np.abs(gpu[inside]) <= width, np.full(int(inside.sum()), width))
            )
    return "\n".join(lines) + "\n"


def _coverage_line(kind: str, layout: str, covered: NDArray[np.bool_], widths: FloatArray) -> str:
    half = float(np.median(np.sinh(widths)))  # (high − low) ÷ 2 ÷ expected of a factor e^±w
    return f"| {kind} | {layout} | {len(covered)} | {100 * covered.mean():.1f} | {100 * half:.1f} |"


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
    return "\n".join(lines) + "\n"


def _few_rows_table(rows: Sequence[Described], errors: FloatArray) -> str:
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if not row.curve or not np.isfinite(errors[index]):
            continue
        size = "64 and more" if row.batch >= 64 else "1 and 2" if row.batch <= 2 else ""
        if size:
            groups[(row.step.gpu, row.step.levels["precision"], size)].append(index)
    lines = [
        "| GPU | precision | batch | rows | median | p90 | bias |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [_error_line(keys, errors[members]) for keys, members in sorted(groups.items())]
    return "\n".join(lines) + "\n"


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


def gather(paths: Sequence[Path], traces: Path | None) -> list[Described]:
    """Trace and describe every usable row of some files."""
    from capplan.app.calibration.calibrate import described_steps
    from capplan.core.calibrate.kernel_rows import kernel_step
    from capplan.specs import load_gpus
    from capplan.specs.measured.kernels import holds_kernels, read_kernels
    from capplan.specs.measured.steps import read_measured

    gpus, rows = load_gpus(), []
    for path in paths:
        if holds_kernels(path):
            for kernel in read_kernels(path):
                step = kernel_step(kernel, gpus[kernel.gpu])
                if step is not None:
                    rows.append(Described(step=step, model=step.family, input_size=0, batch=0))
            continue
        for measured, step in described_steps(read_measured(path).steps, gpus, traces):
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
    parser.add_argument("--calibration", type=Path, help="where the calibration goes, too")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    rows = gather(words.measured, words.traces)
    sources = [path.name for path in words.measured]
    command = f"capplan calibrate fit {' '.join(sources)} -o default.yaml"
    fitted = fit_calibration(
        [row.step for row in rows], name="capplan", made=words.made, command=command, sources=sources
    )
    words.output.write_text(make_page(rows, fitted))
    if words.calibration:
        words.calibration.write_text(dump_calibration(fitted.calibration))


if __name__ == "__main__":
    main()
