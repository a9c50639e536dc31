"""Fit the constants of inference engines to measured steps, and judge them on GPUs and models that were held out.

Usage:
    python benchmarks/accuracy_engines.py ../shared/data/measured/latency-other.csv.gz [FOLDER_FOR_TRACES]

Transformers are BERT in TensorRT 7 to 10, and ViT and Swin in FasterTransformer's engines, in fp16 and int8. Networks
of convolutions are ResNet-50 in TensorRT as Paddle calls it, four classifiers as mmdeploy calls it, and YOLOv8 as
Ultralytics calls it (where ultralytics is installed). Of ONNX Runtime there is BERT in fp16, as Triton calls it: it
reaches a share of TensorRT's efficiencies. Prints the constants fitted to all rows, and the errors of rows
whose GPU, or whose model, was left out of the fit; then ResNet-50 in AITemplate, to which nothing was fitted, and
MLPerf's offline rates, whose submitters choose number format, batch and streams, so that they are ceilings.
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration, EngineConstants
from capplan.core.latency.device import DeviceRates, Unsupported, device_rates
from capplan.core.latency.engines import engine_calibration
from capplan.core.latency.op_table import KernelTable, kernel_table
from capplan.core.latency.predict import estimate_latencies, time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Framework, Precision, Workload
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration
from capplan.specs.engine_calibration import load_engines

GPUS = {
    "T4": "t4", "A100-SXM?-40GB": "a100-sxm4-40gb", "A100-SXM?": "a100-sxm4-40gb", "L40S": "l40s", "A10": "a10",
    "V100-SXM2?-16GB": "v100-sxm2-16gb", "V100-SXM2?": "v100-sxm2-16gb", "A100-SXM?-80GB": "a100-sxm4-80gb",
    "A100-SXM": "a100-sxm4-80gb", "V100-SXM2?-32GB": "v100-sxm2-32gb",
}  # fmt: skip
LARGE = ["hidden_size=1024", "num_hidden_layers=24", "num_attention_heads=16", "intermediate_size=4096"]
NETWORKS = Path(__file__).with_name("engine_networks.py")
DETECTORS = {f"yolov8{size}": f"{NETWORKS}:yolov8{size}" for size in "nsmlx"}
MODELS: Mapping[str, tuple[str, dict[str, object]]] = {
    "bert base": ("hf:bert", {}),
    "bert large": ("hf:bert", {"arg": LARGE}),
    "vit-b_16": ("timm:vit_base_patch16_224", {"input_size": "3x384x384", "arg": ["img_size=384"]}),
    "vit-b_16-224": ("timm:vit_base_patch16_224", {}),
    "swin-tiny": ("timm:swin_tiny_patch4_window7_224", {}),
    "swin-base": ("timm:swin_base_patch4_window7_224", {}),
    "bert+triton/large": ("hf:bert", {"arg": LARGE}),
    "bert+triton/dist6l": ("hf:bert", {"arg": ["num_hidden_layers=6"]}),
    "rn50v1.5": ("torchvision:resnet50", {}),
    "resnet50_8xb32_in1k": ("torchvision:resnet50", {}),
    "resnet-50 |": ("torchvision:resnet50", {}),
    "resnet-50 | _pt = pytorch 1.12 eager_": ("torchvision:resnet50", {}),
    "resnext50-32x4d_8xb32_in1k": ("torchvision:resnext50_32x4d", {}),
    "seresnet50_8xb32_in1k": ("timm:seresnet50", {}),
    "shufflenet-v2-1x_16xb64_in1k": ("torchvision:shufflenet_v2_x1_0", {}),
    **{name: (words, {"input_size": "3x640x640"}) for name, words in DETECTORS.items()},
}
TRANSFORMERS = ("hf:bert", "timm:vit", "timm:swin")
ONNXRUNTIME = "ONNX Runtime (Triton)"
ENGINES_OF_ROWS = {
    r"tensorrt (7\.2\.3\.4|8\.0\.1\.6|8\.4\.3|8\.5\.1|10\.[\d.]+)": "TensorRT",
    r"fastertransformer.*": "FasterTransformer",
    r"paddle\+tensorrt\(heading\)": "TensorRT (Paddle)",
    r"tensorrt 7\.2\.3\.4 \(mmdeploy\)": "TensorRT (mmdeploy)",
    r"tensorrt": "TensorRT (Ultralytics)",
    r"aitemplate": "AITemplate",
    r"triton\+ONNX Runtime": ONNXRUNTIME,
}
PRECISIONS = {"fp32": Precision.FP32_IEEE, "tf32": Precision.TF32, "fp16": Precision.FP16, "int8": Precision.INT8}
CEILINGS = {
    "T4": "t4", "A100-SXM": "a100-sxm4-40gb", "A100-PCIe": "a100-pcie-40gb", "L40S": "l40s",
    "H100-PCIe": "h100-pcie-80gb", "H100-SXM": "h100-sxm5-80gb", "H100-NVL": "h100-nvl-94gb",
}  # fmt: skip
TRITONS_TOKENS = 384
"""What BERT is fed for SQuAD, where a row does not say it."""
MANY = (64, 128, 256, 512, 1024)
GRIDS = {
    "product": np.arange(0.6, 1.31, 0.1), "attention": np.array([0.5, 0.7, 1.0, 1.4]),
    "elementwise": np.array([0.7, 1.0, 1.4]), "kernel_s": np.array([2, 3, 4, 5, 6]) * 1e-6,
}  # fmt: skip
START = EngineConstants(
    product=1.0, attention=1.0, elementwise=1.0, convolution=1.0, kernel_s=4e-6, convolution_s=5e-6, half_width=0.5,
    convolution_half_width=0.5,
)  # fmt: skip
"""Where the search begins: as fast as compiled kernels."""
SHARES = np.arange(0.3, 1.01, 0.05)
CONVOLUTION_GRIDS = {"convolution": np.arange(0.9, 2.01, 0.1), "convolution_s": np.arange(0, 15) * 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Measured times of one model, sequence, precision, engine and GPU over batches. [s]"""

    engine: str
    model: str
    gpu: GpuSpec
    step: ExecutedStep
    table: KernelTable
    rates: DeviceRates
    measured_s: np.ndarray

    @property
    def format(self) -> str:
        return str(self.step.workload.precision).removesuffix("-ieee")

    @property
    def is_transformer(self) -> bool:
        return self.model.startswith(TRANSFORMERS)


def read_rows(path: Path, traces: Path) -> list[Rows]:
    """Read the engines' rows as tables of kernels, one for each curve over batches."""
    found = pd.read_csv(path, low_memory=False)
    engines = pd.Series(index=found.index, dtype=object)
    for pattern, engine in ENGINES_OF_ROWS.items():
        engines[found.framework.astype(str).str.fullmatch(pattern)] = engine
    found = found.assign(
        engine=engines, model=found.model.str.lower().str.strip(), gpu=found.gpu.map(GPUS),
        length=found.img_or_seq.fillna("").astype(str),
    )  # fmt: skip
    found = found[
        found.engine.notna() & found.model.isin(MODELS) & found.gpu.notna() & found.precision.isin(PRECISIONS)
    ]
    is_bert = found.model.str.startswith("bert")
    is_nvidias = is_bert | found.engine.eq("FasterTransformer")
    found = found[(found.quality == "A") | ~is_nvidias | found.engine.eq(ONNXRUNTIME)]
    if importlib.util.find_spec("ultralytics") is None:
        found = found[~found.model.isin(DETECTORS)]
    keys = ["engine", "model", "gpu", "precision", "length"]
    typical = found.groupby([*keys, "batch"]).latency_ms.median().reset_index()
    return [made_rows(key, curve, traces) for key, curve in typical.groupby(keys)]


def made_rows(key: tuple[str, str, str, str, str], curve: pd.DataFrame, traces: Path) -> Rows:
    """Make the rows of one curve."""
    engine, model, gpu, precision, length = key
    known = load_gpus()[gpu]
    framework = Framework.ONNXRUNTIME if engine == ONNXRUNTIME else Framework.TENSORRT
    workload = Workload(precision=PRECISIONS[precision], framework=framework)
    tokens = int(float(length or TRITONS_TOKENS)) if model.startswith("bert") else None
    recording = trace_of(model, tokens, workload.configuration, traces).recording(workload.configuration)
    step = ExecutedStep.of(recording, workload, calibration=load_calibration())
    rates = device_rates(known, workload, step.laws)
    assert isinstance(rates, DeviceRates)
    return Rows(
        engine=engine, model=name_of(model), gpu=known, step=step, rates=rates,
        table=kernel_table(step, batches=tuple(int(each) for each in curve.batch)),
        measured_s=curve.latency_ms.to_numpy() / 1e3,
    )  # fmt: skip


def name_of(model: str) -> str:
    """Return a model's words, with what tells its variant."""
    words, _options = MODELS[model]
    more = {
        "bert large": " large", "bert base": " base", "vit-b_16": " 384", "bert+triton/large": " large",
        "bert+triton/dist6l": " 6 layers",
    }.get(model, "")  # fmt: skip
    return f"{words.removeprefix(f'{NETWORKS}:')}{more}"


def trace_of(model: str, tokens: int | None, configuration: Configuration, folder: Path) -> Trace:
    """Trace a model in one configuration, or read the trace kept from an earlier run."""
    words, options = MODELS[model]
    path = folder / f"{name_of(model).replace(' ', '-').replace(':', '-')}-{tokens}-{configuration.variant}.trace.json"
    if path.exists():
        return load_trace(path.read_bytes(), where=str(path))
    target = load_target(words, request=parse_request(**{**options, "seq_len": tokens}))
    trace = trace_target(target, configurations=[configuration])
    path.write_bytes(dump_trace(trace, compress=False))
    return trace


def predicted_s(row: Rows, base: Calibration, constants: EngineConstants) -> np.ndarray:
    """Predict the times of a curve with some constants. [s]"""
    step = replace(row.step, calibration=engine_calibration(base, Framework.TENSORRT, constants))
    return time_kernels(step, row.table, devices=[(row.gpu, row.rates)]).step_s[0]


def errors(rows: Sequence[Rows], base: Calibration, constants: EngineConstants) -> list[np.ndarray]:
    """Return the logs of predicted over measured times, by curve."""
    return [np.log(predicted_s(row, base, constants) / row.measured_s) for row in rows]


class Fit:
    """Searches constants; those of transformers once for each set of rows that is left."""

    def __init__(self, base: Calibration) -> None:
        self._base = base
        self._found: dict[tuple[int, ...], EngineConstants] = {}

    def __call__(self, rows: Sequence[Rows]) -> EngineConstants:
        """Search the constants of transformers, then those of convolutions, that make the mean absolute error least."""
        transformers, networks = ([row for row in rows if row.is_transformer is kind] for kind in (True, False))
        key = tuple(map(id, transformers))
        if key not in self._found:
            self._found[key] = searched(transformers, self._base, START, GRIDS)
        return searched(networks, self._base, self._found[key], CONVOLUTION_GRIDS)


def searched(
    rows: Sequence[Rows], base: Calibration, held: EngineConstants, grids: Mapping[str, np.ndarray]
) -> EngineConstants:
    """Search one constant after the other, twice."""
    if not rows:
        return held
    for name, values in [*grids.items(), *grids.items()]:
        tried = [replace(held, **{name: float(value)}) for value in values]
        held = min(tried, key=lambda each: loss(rows, base, each))
    return held


def share_of(rows: Sequence[Rows], base: Calibration, held: EngineConstants) -> EngineConstants:
    """Search which share of TensorRT's efficiencies another engine reaches in transformers."""
    tried = [shared(held, float(share)) for share in SHARES]
    return min(tried, key=lambda each: loss(rows, base, each))


def shared(held: EngineConstants, share: float) -> EngineConstants:
    """Return constants with a share of the efficiencies."""
    return replace(
        held, product=share * held.product, attention=share * held.attention, elementwise=share * held.elementwise
    )


def loss(rows: Sequence[Rows], base: Calibration, constants: EngineConstants) -> float:
    return float(np.mean([np.abs(each).mean() for each in errors(rows, base, constants)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One curve's errors, in logs, and what was left out of the fit."""

    what: str
    row: Rows
    off: np.ndarray


def held_out(
    rows: Sequence[Rows], base: Calibration, fit: Callable[[Sequence[Rows]], EngineConstants]
) -> list[HeldOut]:
    """Leave each GPU and each model out of the fit in turn, and return the errors of its rows."""
    found = []
    for what, key in (("GPU", lambda row: row.gpu.id), ("model", lambda row: row.model)):
        for value in sorted({key(row) for row in rows}):
            inside, outside = [row for row in rows if key(row) != value], [row for row in rows if key(row) == value]
            off = errors(outside, base, fit(inside))
            found += [HeldOut(what=what, row=row, off=each) for row, each in zip(outside, off, strict=True)]
    return found


def print_table(title: str, found: Sequence[HeldOut], key: Callable[[HeldOut], str]) -> None:
    """Print errors by what a key says of each curve."""
    print(f"\n| {title} | rows | median error | 90 % within | bias |")
    print(f"|{' --- |' * (title.count('|') + 5)}")
    for name in sorted({key(each) for each in found}):
        off = np.concatenate([each.off for each in found if key(each) == name])
        print(
            f"| {name} | {len(off)} | {np.median(np.abs(off)):.1%} | {np.quantile(np.abs(off), 0.9):.1%} | "
            f"{np.mean(off):+.1%} |"
        )


def report(kind: str, found: Sequence[HeldOut]) -> None:
    """Print the tables of one kind of networks."""
    print(f"\n## {kind}")
    print_table(
        "held out", found, lambda each: f"{each.what} {each.row.gpu.id if each.what == 'GPU' else each.row.model}"
    )
    print_table(
        "held out | engine | format", found, lambda each: f"{each.what}s | {each.row.engine} | {each.row.format}"
    )
    every = np.abs(np.concatenate([each.off for each in found]))
    print(f"\nover all: median {np.median(every):.3f}, half-width of 90 % {np.quantile(every, 0.9):.3f}")


def print_ceilings(path: Path, traces: Path) -> None:
    """Print MLPerf's highest offline rates of ResNet-50 beside the estimates in int8."""
    rows = pd.read_csv(path, dtype=str)
    workload = Workload(framework=Framework.TENSORRT, precision=Precision.INT8)
    recording = trace_of("rn50v1.5", None, workload.configuration, traces).recording(workload.configuration)
    step = ExecutedStep.of(recording, workload, calibration=load_calibration())
    print("\n| GPU | highest offline rate | estimated in int8 | share |\n| --- | --- | --- | --- |")
    for label, gpu_id in CEILINGS.items():
        chosen = rows[(rows.model == "mlperf-resnet50") & (rows.gpu == label) & rows.note.str.contains("Offline")]
        if chosen.empty:
            continue
        ceiling = (chosen.samples_per_s.astype(float) / chosen.gpu_count.astype(float)).max()
        (answers,) = estimate_latencies(step, gpus=[load_gpus()[gpu_id]], batches=MANY)
        assert not isinstance(answers, Unsupported), answers.reason
        rate = max(each.batch / each.latency_s.expected for each in answers)
        print(f"| {gpu_id} | {ceiling:,.0f}/s | {rate:,.0f}/s | {rate / ceiling:.2f} |")


def main(path: Path, traces: Path) -> None:
    traces.mkdir(parents=True, exist_ok=True)
    every = read_rows(path, traces)
    unseen = [row for row in every if row.engine == "AITemplate"]
    others = [row for row in every if row.engine == ONNXRUNTIME]
    rows = [row for row in every if row.engine not in ("AITemplate", ONNXRUNTIME)]
    base = load_calibration().parts["compile"]
    print(f"{len(rows)} curves, {sum(len(row.measured_s) for row in rows)} rows")
    print("shipped:", f"{loss(rows, base, load_engines()['tensorrt'].constants):.3f}")
    fit = Fit(base)
    whole = fit(rows)
    print("all rows:", whole, f"{loss(rows, base, whole):.3f}", flush=True)
    found = held_out(rows, base, fit)
    report("Transformers", [each for each in found if each.row.is_transformer])
    report("Networks of convolutions", [each for each in found if not each.row.is_transformer])
    print("\nONNX Runtime:", share_of(others, base, whole))
    report("ONNX Runtime", held_out(others, base, lambda inside: share_of(inside, base, whole)))
    print("\nnot fitted to:")
    for row, off in zip(unseen, errors(unseen, base, whole), strict=True):
        shown = ", ".join(f"{batch}: {np.exp(each):.2f}" for batch, each in zip(row.table.batches, off, strict=True))
        print(f"{row.engine}, {row.model}, {row.gpu.id}, {row.format}: {shown}")
    print_ceilings(path, traces)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "engine-traces"))
