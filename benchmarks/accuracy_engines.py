"""Fit the constants of inference engines to measured steps, and judge them on GPUs and models that were held out.

Usage:
    python benchmarks/accuracy_engines.py ../shared/data/measured/latency-other.csv.gz [--traces FOLDER] [--write]

`benchmarks/engine_rows.py` says which rows. Constants are searched one by one. TensorRT 7 and FasterTransformer (GPU by
GPU) may take a factor longer than TensorRT 8 to 10, which estimates leave out. GPUs deviate by a factor in 16 bits and
up, and by one in int8, which TensorRT's rows tell; all factors are drawn towards 1 where few curves tell them. Errors
are those of rows whose GPU (with all cards of its chip), or whose model, was left out. AITemplate, to which nothing is
fitted, and MLPerf's offline rates, whose submitters choose number format, batch and streams, so that they are ceilings,
stand beside.

`--write` remakes capplan/calibrations/engines.yaml and docs/evidence/engines.md, and needs ultralytics for YOLOv8.
"""

import argparse
import importlib.metadata
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from engine_rows import AITEMPLATE, FASTER, OLD_TENSORRT, ONNXRUNTIME, Rows, has_detectors, read_rows, trace_of
from pages import EVIDENCE

from capplan.core.latency.calibration import (
    Calibration,
    EngineCalibration,
    EngineEfficiency,
    EngineFactors,
    EngineWidths,
)
from capplan.core.latency.device import Unsupported
from capplan.core.latency.inference_engines import engine_calibration
from capplan.core.latency.lookup import architecture_key
from capplan.core.latency.predict import estimate_latencies, time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.origin import Origin
from capplan.core.workload import Framework, Precision, Workload
from capplan.specs import load_gpus
from capplan.specs.calibration import dump_engines, load_calibration, load_engines

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = EVIDENCE / "engines.md"
CALIBRATION = ROOT / "capplan" / "calibrations" / "engines.yaml"
COMMAND = "python benchmarks/accuracy_engines.py latency-other.csv.gz --write"
CEILINGS = {
    "T4": "t4", "A100-SXM": "a100-sxm4-40gb", "A100-PCIe": "a100-pcie-40gb", "L40S": "l40s",
    "H100-PCIe": "h100-pcie-80gb", "H100-SXM": "h100-sxm5-80gb", "H100-NVL": "h100-nvl-94gb",
}  # fmt: skip
MANY = (64, 128, 256, 512, 1024)
START = EngineEfficiency(
    product=1.0, attention=1.0, norm=1.0, elementwise=1.0, convolution=1.0, kernel_s=4e-6, convolution_s=5e-6
)  # fmt: skip
"""Where the search begins: as fast as compiled kernels."""
GRIDS = {
    "product": np.arange(0.6, 1.51, 0.05), "attention": np.arange(0.2, 1.41, 0.1),
    "norm": np.arange(0.4, 2.01, 0.2), "kernel_s": np.arange(1.0, 12.1, 1.0) * 1e-6,
}  # fmt: skip
CONVOLUTION_GRIDS = {
    "convolution": np.arange(0.6, 2.01, 0.1), "convolution_s": np.arange(0, 15) * 1e-6,
    "elementwise": np.arange(0.4, 2.41, 0.2),
}  # fmt: skip
SHARES = np.arange(0.3, 1.01, 0.05)
SEARCHES = 2
PRIOR_CURVES = 4.0
"""How many curves without a deviation the prior of a GPU's or an older engine's factor counts as."""
SLOWER_CONVOLUTIONS = 1.67
"""The median of what ONNX Runtime takes longer than TensorRT for BERT on the same Triton: no convolution was timed."""
NOT_FITTED = frozenset({"timm:vit_base_patch16_224 384"})
"""577 tokens: FasterTransformer fuses attention up to 384 of them (`getAttentionType`), TensorRT 10 at any length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Constants, and how far GPUs and older engines deviate: factors on rates, and on times."""

    constants: EngineEfficiency = START
    wide: Mapping[str, float] = field(default_factory=dict)
    int8: Mapping[str, float] = field(default_factory=dict)
    older: Mapping[str, float] = field(default_factory=dict)
    faster_kernel_s: float = 6e-6

    def of_engine(self, engine: str) -> EngineEfficiency:
        """Return the constants of an engine of rows: FasterTransformer launches each kernel from the host."""
        return replace(self.constants, kernel_s=self.faster_kernel_s) if engine == FASTER else self.constants

    def factors(self, row: Rows) -> Mapping[str, float]:
        return self.int8 if row.is_int8 else self.wide

    def gpus(self, rows: Iterable[Rows]) -> dict[str, EngineFactors]:
        """Return the factors of the GPUs of some rows, with how many steps of each were timed."""
        specs = {row.gpu.id: row.gpu for row in rows}
        counts = Counter({gpu_id: sum(len(row.measured_s) for row in rows if row.gpu.id == gpu_id) for gpu_id in specs})
        return {
            gpu_id: EngineFactors(
                architecture=architecture_key(gpu), wide=self.wide.get(gpu_id, 1.0), int8=self.int8.get(gpu_id, 1.0),
                rows=counts[gpu_id],
            )
            for gpu_id, gpu in sorted(specs.items())
        }  # fmt: skip


class Predictor:
    """Predicts curves from constants and factors."""

    def __init__(self, whole: Calibration) -> None:
        self._whole = replace(whole, engines={})

    def errors(self, rows: Sequence[Rows], fitted: Fitted, gpus: Mapping[str, EngineFactors]) -> list[np.ndarray]:
        """Return the logs of predicted over measured times, by curve."""
        width = EngineWidths(models=0.1, gpus=0.1)
        made = {}
        for engine, framework in {(row.engine, row.step.workload.framework) for row in rows}:
            known = EngineCalibration(
                constants=fitted.of_engine(engine), gpus=gpus, transformers=width, convolutions=width,
                origin=Origin(made=date(2026, 1, 1), command="", sources=(), rows=0),
            )  # fmt: skip
            made[engine] = engine_calibration(replace(self._whole, engines={framework.value: known}), framework)
        return [self._errors(row, made[row.engine], fitted) for row in rows]

    def _errors(self, row: Rows, calibration: Calibration, fitted: Fitted) -> np.ndarray:
        step = replace(row.step, calibration=calibration)
        times_s = time_kernels(step, row.table, devices=[(row.gpu, row.rates)]).step_s[0]
        older = fitted.older.get(older_name(row), fitted.older.get(row.engine, 1.0))
        return np.log(times_s / row.measured_s) + np.log(older)

    def loss(self, rows: Sequence[Rows], fitted: Fitted) -> float:
        """Return the mean of the curves' mean absolute errors, weighted with the square root of their rows."""
        off = self.errors(rows, fitted, fitted.gpus(rows))
        return float(np.average([np.abs(each).mean() for each in off], weights=[len(each) ** 0.5 for each in off]))


class Fit:
    """Searches constants, and the factors of GPUs and older engines."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def __call__(self, rows: Sequence[Rows]) -> Fitted:
        """Search the constants of transformers, then those of convolutions, that make the mean absolute error least."""
        rows = [row for row in rows if row.model not in NOT_FITTED]
        transformers, networks = ([row for row in rows if row.is_transformer is kind] for kind in (True, False))
        found = Fitted()
        for _ in range(SEARCHES):
            found = self._searched(transformers, found, GRIDS)
            found = self._with_launches([row for row in transformers if row.engine == FASTER], found)
            found = self._searched(networks, found, CONVOLUTION_GRIDS)
            found = self._with_older(rows, found)
            found = self._with_gpus(rows, found)
        return found

    def _searched(self, rows: Sequence[Rows], held: Fitted, grids: Mapping[str, np.ndarray]) -> Fitted:
        if not rows:
            return held
        for name, values in grids.items():
            tried = [
                replace(held, constants=replace(held.constants, **{name: round(float(value), 9)})) for value in values
            ]
            held = min(tried, key=lambda each: self._predictor.loss(rows, each))
        return held

    def _with_launches(self, rows: Sequence[Rows], held: Fitted) -> Fitted:
        """Search what a kernel takes at least in FasterTransformer, whatever TensorRT does."""
        tried = [replace(held, faster_kernel_s=round(float(value), 9)) for value in GRIDS["kernel_s"]]
        return min(tried, key=lambda each: self._predictor.loss(rows, each)) if rows else held

    def _with_older(self, rows: Sequence[Rows], held: Fitted) -> Fitted:
        """Set the factors of older engines by their curves' mean errors."""
        bare = replace(held, older={})
        off = self._predictor.errors(rows, bare, bare.gpus(rows))
        found = {}
        for engine in (OLD_TENSORRT, FASTER):
            chosen = np.array([row.engine == engine for row in rows])
            found[engine] = float(np.exp(-drawn(off, chosen)))
            for chip in sorted({row.chip for row in rows if row.engine == FASTER}) if engine == FASTER else []:
                here = chosen & np.array([row.chip == chip for row in rows])
                rest = [each + np.log(found[engine]) for each in off]
                found[f"{engine} on {chip.upper()}"] = float(found[engine] * np.exp(-drawn(rest, here)))
        return replace(held, older=found)

    def _with_gpus(self, rows: Sequence[Rows], held: Fitted) -> Fitted:
        """Set the factors of GPUs by the mean errors of TensorRT's curves of transformers on them."""
        rows = [row for row in rows if row.is_transformer and row.engine != FASTER]
        bare = replace(held, wide={}, int8={})
        off = self._predictor.errors(rows, bare, bare.gpus(rows))
        is_int8 = np.array([row.is_int8 for row in rows])
        gpus = np.array([row.gpu.id for row in rows])
        return replace(
            held,
            wide={str(gpu): float(np.exp(drawn(off, (gpus == gpu) & ~is_int8))) for gpu in sorted(set(gpus))},
            int8={str(gpu): float(np.exp(drawn(off, (gpus == gpu) & is_int8))) for gpu in sorted(set(gpus))},
        )


def older_name(row: Rows) -> str:
    """Return the name of the factor of an older engine's rows: FasterTransformer's kernels were tuned GPU by GPU."""
    return f"{row.engine} on {row.chip.upper()}" if row.engine == FASTER else row.engine


def drawn(off: Sequence[np.ndarray], chosen: np.ndarray) -> float:
    """Return the mean error of some curves, drawn towards 0 where there are few."""
    means = np.array([each.mean() for each in off])[chosen]
    return float(means.sum() / (len(means) + PRIOR_CURVES))


def share_of(rows: Sequence[Rows], predictor: Predictor, held: Fitted) -> Fitted:
    """Search which share of TensorRT's efficiencies another engine reaches in transformers."""
    return min((shared(held, float(share)) for share in SHARES), key=lambda each: predictor.loss(rows, each))


def shared(held: Fitted, share: float) -> Fitted:
    """Return constants with a share of the efficiencies, and no factors."""
    constants = held.constants
    made = replace(
        constants,
        **{
            name: round(share * getattr(constants, name), 6) for name in ("product", "attention", "norm", "elementwise")
        },
        convolution=round(constants.convolution / SLOWER_CONVOLUTIONS, 4),
    )
    return Fitted(constants=made)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One curve's errors, in logs, and what was left out of the fit."""

    what: str
    row: Rows
    off: np.ndarray

    @property
    def name(self) -> str:
        return f"GPU {self.row.chip.upper()}" if self.what == "GPU" else self.row.family


def held_out(rows: Sequence[Rows], predictor: Predictor, fit: Callable[[Sequence[Rows]], Fitted]) -> list[HeldOut]:
    """Leave each chip and each model out of the fit in turn, and return the errors of its rows."""
    found = []
    for what, key in (("GPU", lambda row: row.chip), ("model", lambda row: row.family)):
        for value in sorted({key(row) for row in rows if row.model not in NOT_FITTED}):
            inside = [row for row in rows if key(row) != value]
            outside = [row for row in rows if key(row) == value and row.model not in NOT_FITTED]
            fitted = fit(inside)
            gpus = fitted.gpus([row for row in inside if what == "model" or row.chip != value])
            off = predictor.errors(outside, fitted, gpus)
            found += [HeldOut(what=what, row=row, off=each) for row, each in zip(outside, off, strict=True)]
            print(f"without {value}: median {np.median(np.abs(np.concatenate(off))):.3f}", file=sys.stderr, flush=True)
    return found


def table(title: str, found: Sequence[HeldOut], key: Callable[[HeldOut], str]) -> list[str]:
    """Return a table of errors by what a key says of each curve."""
    lines = [f"| {title} | rows | median error | 90 % within | bias |", f"|{' --- |' * (title.count('|') + 5)}"]
    for name in sorted({key(each) for each in found}):
        off = np.concatenate([each.off for each in found if key(each) == name])
        lines.append(
            f"| {name} | {len(off)} | {np.median(np.abs(off)):.1%} | {np.quantile(np.abs(off), 0.9):.1%} | "
            f"{np.mean(off):+.1%} |".replace("%", " %").replace("-", "−" if name.isascii() else "-")
        )
    return [line.replace("**", "") for line in lines]


def section(title: str, words: str, found: Sequence[HeldOut]) -> list[str]:
    """Return the tables of one kind of networks."""
    every = np.abs(np.concatenate([each.off for each in found]))
    head = f"{words} Median {np.median(every):.1%}, 90 % within {np.quantile(every, 0.9):.1%}.".replace("%", " %")
    by_format = table(
        "held out | engine | format", found, lambda each: f"{each.what}s | {each.row.engine} | {each.row.format}"
    )
    return [
        f"## {title}",
        "",
        head.replace("90  %", "90 %"),
        "",
        *table("held out", found, lambda each: each.name),
        "",
        *by_format,
        "",
    ]


def widths(found: Sequence[HeldOut]) -> EngineWidths:
    """Return the half-widths that hold 90 % of the rows held out with their models, and with their GPUs."""
    models, gpus = (
        float(np.quantile(np.abs(np.concatenate([each.off for each in found if each.what == what])), 0.9))
        for what in ("model", "GPU")
    )
    return EngineWidths(models=models, gpus=max(models, gpus))


def origin(rows: Sequence[Rows], found: Sequence[HeldOut], made: date) -> Origin:
    """Return what an engine's constants were made from."""
    counts = Counter(dict.fromkeys(sorted({row.engine for row in rows}), 0))
    for row in rows:
        counts[row.engine] += len(row.measured_s)
    whole = load_calibration().parts["compile"].origin
    assert whole is not None
    errors = {}
    for what in ("GPU", "model"):
        for kind, is_transformer in (("transformers", True), ("convolutions", False)):
            off = [each.off for each in found if each.what == what and each.row.is_transformer is is_transformer]
            if off:
                every = np.concatenate(off)
                errors[f"{kind}, {what}s held out"] = {
                    "median": float(np.median(np.abs(every))), "p90": float(np.quantile(np.abs(every), 0.9)),
                    "bias": float(np.exp(every.mean())), "rows": float(len(every)),
                }  # fmt: skip
    sources = [f"latency-other.csv.gz, {engine}, {count} rows" for engine, count in counts.items()]
    sources += [f"compile.yaml of {whole.made}", f"traces of torch {importlib.metadata.version('torch')}"]
    own = made.replace()  # a date that two origins share is written as an anchor, which is not read
    return Origin(made=own, command=COMMAND, sources=tuple(sources), rows=counts.total(), held_out_errors=errors)


def ceilings(path: Path, traces: Path) -> list[str]:
    """Return MLPerf's highest offline rates of ResNet-50 beside the estimates in int8."""
    rows = pd.read_csv(path, dtype=str)
    workload = Workload(framework=Framework.TENSORRT, precision=Precision.INT8)
    recording = trace_of("rn50v1.5", None, workload.configuration, traces).recording(workload.configuration)
    step = ExecutedStep.of(recording, workload, calibration=load_calibration())
    lines = ["| GPU | highest offline rate | estimated in int8 | share |", "| --- | --- | --- | --- |"]
    for label, gpu_id in CEILINGS.items():
        chosen = rows[(rows.model == "mlperf-resnet50") & (rows.gpu == label) & rows.note.str.contains("Offline")]
        if chosen.empty:
            continue
        ceiling = (chosen.samples_per_s.astype(float) / chosen.gpu_count.astype(float)).max()
        (answers,) = estimate_latencies(step, gpus=[load_gpus()[gpu_id]], batches=MANY)
        assert not isinstance(answers, Unsupported), answers.reason
        rate = max(each.batch / each.latency_s.expected for each in answers)
        lines.append(f"| {gpu_id} | {ceiling:,.0f}/s | {rate:,.0f}/s | {rate / ceiling:.2f} |")
    return lines


def constants_table(engines: Mapping[str, EngineCalibration], fitted: Fitted) -> list[str]:
    """Return the fitted constants as tables."""
    names = ("product", "attention", "norm", "elementwise", "convolution")
    lines = [
        "| engine | matrix products | attention | norms | elementwise | convolutions | a kernel | a convolution more |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, each in engines.items():
        factors = " | ".join(f"× {getattr(each.constants, key):.2f}" for key in names)
        times = " | ".join(f"{1e6 * value:.1f} µs" for value in (each.constants.kernel_s, each.constants.convolution_s))
        lines.append(f"| {name} | {factors} | {times} |")
    lines += ["", "| GPU | rows | rates in 16 bits and above | in int8 |", "| --- | --- | --- | --- |"]
    for gpu, factors in engines["tensorrt"].gpus.items():
        lines.append(f"| {gpu} | {factors.rows} | × {factors.wide:.2f} | × {factors.int8:.2f} |")
    told = ", ".join(f"{name} × {factor:.2f}" for name, factor in fitted.older.items())
    words = f"{told}; {1e6 * fitted.faster_kernel_s:.1f} µs a kernel of FasterTransformer, launched from a host."
    return [*lines, "", f"Times of older engines, which estimates leave out: {words}"]


def unseen_lines(rows: Sequence[Rows], off: Sequence[np.ndarray]) -> list[str]:
    """Return predicted over measured times of what nothing was fitted to."""
    lines = ["| engine | model | GPU | format | predicted ÷ measured, by batch |", "| --- | --- | --- | --- | --- |"]
    for row, each in zip(rows, off, strict=True):
        told = ", ".join(f"{batch}: {np.exp(value):.2f}" for batch, value in zip(row.table.batches, each, strict=True))
        lines.append(f"| {row.engine} | {row.model}{row.size} | {row.gpu.id} | {row.format} | {told} |")
    return lines


HEAD = """# Inference engines

How far estimates for `--framework tensorrt` and `--framework onnxruntime` lie from published times, with whole GPUs
(all cards of a chip) or whole models left out of the fit. Errors are logs of predicted over measured. Made by
`{command}`, which also
writes the constants, `capplan/calibrations/engines.yaml`; torch.compile's constants are what they are relative to.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--traces", type=Path, default=Path("engine-traces"), help="folder that keeps the traces")
    parser.add_argument("--made", type=date.fromisoformat, default=date.today(), help="the date to write; today")
    parser.add_argument("--write", action="store_true", help="remake the calibration and the page")
    words = parser.parse_args()
    if words.write and not has_detectors():
        sys.exit("--write needs the package ultralytics, which YOLOv8's rows are traced with.")
    words.traces.mkdir(parents=True, exist_ok=True)
    every = read_rows(words.measured, words.traces)
    others = [row for row in every if row.engine == ONNXRUNTIME]
    rows = [row for row in every if row.engine not in (AITEMPLATE, ONNXRUNTIME)]
    unseen = [row for row in every if row.engine == AITEMPLATE or row.model in NOT_FITTED]
    predictor = Predictor(load_calibration())
    fit = Fit(predictor)
    whole = fit(rows)
    print(whole, f"loss {predictor.loss(rows, whole):.4f}", file=sys.stderr, flush=True)
    found = held_out(rows, predictor, fit)
    runtime = share_of(others, predictor, whole)
    found_runtime = held_out(others, predictor, lambda inside: share_of(inside, predictor, whole))
    fitted_rows = [row for row in rows if row.model not in NOT_FITTED]
    kinds = [[each for each in found if each.row.is_transformer is kind] for kind in (True, False)]
    transformers, convolutions = map(widths, kinds)
    alone = widths(found_runtime)
    engines = {
        "tensorrt": EngineCalibration(
            constants=whole.constants, gpus=whole.gpus(fitted_rows), transformers=transformers,
            convolutions=convolutions, origin=origin(fitted_rows, found, words.made),
        ),
        "onnxruntime": EngineCalibration(
            constants=runtime.constants, gpus=runtime.gpus(others), transformers=alone,
            convolutions=EngineWidths(
                models=float(np.hypot(alone.models, convolutions.models)),
                gpus=float(np.hypot(alone.gpus, convolutions.gpus)),
            ),
            origin=origin(others, found_runtime, words.made),
        ),
    }  # fmt: skip
    if words.write:
        CALIBRATION.write_text(dump_engines(engines))
        assert load_engines().keys() == engines.keys()
    off = predictor.errors(unseen, replace(whole, older={}), whole.gpus(fitted_rows))
    page = [
        HEAD.format(command=COMMAND.replace("latency", "../shared/data/measured/latency")),
        "## Constants", "", *constants_table(engines, whole), "",
        *section("Transformers", "BERT in TensorRT; BERT, ViT and Swin in FasterTransformer.", kinds[0]),
        *section("Networks of convolutions", "ResNet-50, four classifiers at one image, and YOLOv8.", kinds[1]),
        *section("ONNX Runtime", "BERT large and its distilled half, in Triton.", found_runtime),
        "## What nothing was fitted to", "", *unseen_lines(unseen, off), "",
        "## Ceilings", "",
        "MLPerf's offline rates of ResNet-50 are ceilings: submitters choose number format, batch and streams.", "",
        *ceilings(words.measured, words.traces),
    ]  # fmt: skip
    text = "\n".join(page) + "\n"
    if words.write:
        DOCUMENT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
