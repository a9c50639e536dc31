"""Read published steps of inference engines as tables of kernels, which `accuracy_engines.py` fits and judges.

Transformers are BERT in TensorRT 7 to 10, and BERT, ViT and Swin in FasterTransformer, in fp16, int8, TF32 and fp32.
Networks of convolutions are ResNet-50 in TensorRT as Paddle calls it, four classifiers as mmdeploy calls it, and YOLOv8
as Ultralytics calls it. Of ONNX Runtime there is BERT in fp16, as Triton calls it.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import DeviceRates, device_rates
from capplan.core.latency.op_table import KernelTable, kernel_table
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Framework, Precision, Workload
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration

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
    "bert-base (12 layers, hidden 768)": ("hf:bert", {}),
    "bert large": ("hf:bert", {"arg": LARGE}),
    "vit-b_16": ("timm:vit_base_patch16_224", {"input_size": "3x384x384", "arg": ["img_size=384"]}),
    "vit-b_16-224": ("timm:vit_base_patch16_224", {}),
    "swin-tiny": ("timm:swin_tiny_patch4_window7_224", {}),
    "swin-base": ("timm:swin_base_patch4_window7_224", {}),
    "vit | vit_base_patch16_224": ("timm:vit_base_patch16_224", {}),
    "bert | sequence length 128": ("hf:bert", {}),
    "bert | sequence length 384": ("hf:bert", {}),
    "bert+triton/large": ("hf:bert", {"arg": LARGE}),
    "bert+triton/dist6l": ("hf:bert", {"arg": ["num_hidden_layers=6"]}),
    "rn50v1.5": ("torchvision:resnet50", {}),
    "resnet50_8xb32_in1k": ("torchvision:resnet50", {}),
    "resnet-50 | _pt = pytorch 1.12 eager_": ("torchvision:resnet50", {}),
    "resnext50-32x4d_8xb32_in1k": ("torchvision:resnext50_32x4d", {}),
    "seresnet50_8xb32_in1k": ("timm:seresnet50", {}),
    "shufflenet-v2-1x_16xb64_in1k": ("torchvision:shufflenet_v2_x1_0", {}),
    **{name: (words, {"input_size": "3x640x640"}) for name, words in DETECTORS.items()},
}
VARIANTS = {
    "bert large": " large", "bert base": " base", "bert-base (12 layers, hidden 768)": " base", "vit-b_16": " 384",
    "bert+triton/large": " large", "bert+triton/dist6l": " 6 layers", "bert | sequence length 128": " base",
    "bert | sequence length 384": " base",
}  # fmt: skip
TRANSFORMERS = ("hf:bert", "timm:vit", "timm:swin")
ONNXRUNTIME, AITEMPLATE, FASTER = "ONNX Runtime (Triton)", "AITemplate", "FasterTransformer"
OLD_TENSORRT = "TensorRT 7"
ENGINES = {
    r"tensorrt 7\.2\.3\.4": OLD_TENSORRT,
    r"tensorrt (8\.0\.1\.6|8\.4\.3|8\.5\.1|10\.[\d.]+)": "TensorRT 8 to 10",
    r"fastertransformer": FASTER,
    r"paddle\+tensorrt\(heading\)": "TensorRT (Paddle)",
    r"tensorrt 7\.2\.3\.4 \(mmdeploy\)": "TensorRT 7 (mmdeploy)",
    r"tensorrt": "TensorRT (Ultralytics)",
    r"aitemplate": AITEMPLATE,
    r"triton\+ONNX Runtime": ONNXRUNTIME,
}
PRECISIONS = {"fp32": Precision.FP32_IEEE, "tf32": Precision.TF32, "fp16": Precision.FP16, "int8": Precision.INT8}
TRITONS_TOKENS = 384
"""What BERT is fed for SQuAD, where a row does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Measured times of one model, sequence, precision, engine and GPU over batches. [s]"""

    engine: str
    model: str
    tokens: int | None
    gpu: GpuSpec
    step: ExecutedStep
    table: KernelTable
    rates: DeviceRates
    measured_s: np.ndarray

    @property
    def format(self) -> str:
        return str(self.step.workload.precision).removesuffix("-ieee")

    @property
    def chip(self) -> str:
        """The cards of one chip, which are held out together."""
        return self.gpu.id.split("-")[0]

    @property
    def size(self) -> str:
        """The tokens of a sequence, in words; nothing of images."""
        return f", {self.tokens} tokens" if self.tokens else ""

    @property
    def family(self) -> str:
        """The models that are held out together: all sizes of YOLOv8."""
        return "yolov8" if self.model.startswith("yolov8") else self.model

    @property
    def is_int8(self) -> bool:
        return self.step.traced is not None

    @property
    def is_transformer(self) -> bool:
        return self.model.startswith(TRANSFORMERS)


def has_detectors() -> bool:
    """Return True if YOLOv8's rows can be traced: that needs ultralytics."""
    return importlib.util.find_spec("ultralytics") is not None


def read_rows(path: Path, traces: Path) -> list[Rows]:
    """Read the engines' rows as tables of kernels, one for each curve over batches."""
    found = pd.read_csv(path, low_memory=False)
    engines = pd.Series(index=found.index, dtype=object)
    for pattern, engine in ENGINES.items():
        engines[found.framework.astype(str).str.fullmatch(pattern)] = engine
    found = found.assign(
        engine=engines, model=found.model.str.lower().str.strip(), gpu=found.gpu.map(GPUS),
        length=found.img_or_seq.fillna("").astype(str),
    )  # fmt: skip
    found = found[
        found.engine.notna() & found.model.isin(MODELS) & found.gpu.notna() & found.precision.isin(PRECISIONS)
    ]
    is_nvidias = found.model.str.startswith("bert") | found.engine.eq(FASTER)
    found = found[(found.quality == "A") | ~is_nvidias | found.engine.eq(ONNXRUNTIME)]
    if not has_detectors():
        found = found[~found.model.isin(DETECTORS)]
    keys = ["engine", "model", "gpu", "precision", "length"]
    typical = found.groupby([*keys, "batch"]).latency_ms.median().reset_index()
    return [made_rows(key, curve, traces) for key, curve in typical.groupby(keys)]


def made_rows(key: tuple[str, str, str, str, str], curve: pd.DataFrame, traces: Path) -> Rows:
    """Make the rows of one curve."""
    engine, model, gpu_id, precision, length = key
    gpu = load_gpus()[gpu_id]
    framework = Framework.ONNXRUNTIME if engine == ONNXRUNTIME else Framework.TENSORRT
    workload = Workload(precision=PRECISIONS[precision], framework=framework)
    tokens = int(float(length or TRITONS_TOKENS)) if model.startswith("bert") else None
    recording = trace_of(model, tokens, workload.configuration, traces).recording(workload.configuration)
    step = ExecutedStep.of(recording, workload, calibration=load_calibration()).on(gpu)
    rates = device_rates(gpu, workload, step.laws)
    assert isinstance(rates, DeviceRates)
    return Rows(
        engine=engine, model=name_of(model), tokens=tokens, gpu=gpu, step=step, rates=rates,
        table=kernel_table(step, batches=tuple(int(each) for each in curve.batch)),
        measured_s=curve.latency_ms.to_numpy() / 1e3,
    )  # fmt: skip


def name_of(model: str) -> str:
    """Return a model's words, with what tells its variant."""
    words, _options = MODELS[model]
    return f"{words.removeprefix(f'{NETWORKS}:')}{VARIANTS.get(model, '')}"


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
