"""Predictions beside measurements on the device at hand, in one run of less than ten minutes.

    python benchmarks/device_results.py -o results.jsonl                        # predict, then measure
    python benchmarks/device_results.py --predict-only --gpu h200-sxm-141gb -o predictions.jsonl   # needs no device
    python benchmarks/device_results.py --predictions predictions.jsonl -o results.jsonl           # measures those
    python benchmarks/device_results.py --judge results.jsonl
    python benchmarks/device_results.py --device cpu --quick -o results.jsonl   # shows that it works

All predictions are in the file before the first point is measured. A line each: the run (device, driver, torch, date),
the predictions, the measurements and failures. Points come in the order of their worth, so that a run cut at
`--minutes` has all models. Steps that are predicted to take longer than half a second are left out.
"""

import argparse
import contextlib
import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import capplan
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.measurement.statistics import summarise
from capplan.core.memory.fit import usable_memory
from capplan.core.memory.model import MemoryModel
from capplan.core.numbers import Interval
from capplan.core.trace.types import Trace
from capplan.core.workload import Framework, Layout, Optimizer, Precision, Training, Workload
from capplan.errors import CapplanError, UsageError
from capplan.probe.inputs.grammar import ModelInputs, parse_request
from capplan.probe.measure.device import TorchDevice
from capplan.probe.measure.devices import devices_at_hand, open_device
from capplan.probe.measure.energy import open_nvml
from capplan.probe.measure.facts import device_facts, torch_release
from capplan.probe.measure.model import ReadyModel, half_dtype, numeric_settings, ready_model
from capplan.probe.measure.oom import PointError, surviving
from capplan.probe.measure.point import Bench, Rules, measure_point
from capplan.probe.measure.timing import StopRule, WarmUpRule
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target
from capplan.probe.trace.training import loss_of, make_optimizer
from capplan.specs.calibration import load_calibration, load_memory_calibration

MODELS = (
    "torchvision:resnet50", "timm:efficientnet_b0", "torchvision:vit_b_16", "hf:bert", "torchvision:convnext_tiny",
    "torchvision:mobilenet_v3_large", "torchvision:swin_t", "torchvision:vgg16", "torchvision:densenet121", "hf:gpt2",
    "torchvision:resnet18", "timm:vit_small_patch16_224", "timm:regnetx_032", "timm:tf_efficientnetv2_s",
    "timm:mixer_b16_224", "timm:hrnet_w18_small", "timm:ghostnet_100", "timm:mobilevit_s", "timm:poolformer_s12",
    "timm:resnet50d", "timm:deit_tiny_patch16_224", "torchvision:regnet_y_400mf", "hf:distilbert",
    "torchvision:resnext50_32x4d",
)  # fmt: skip
FEW = MODELS[:4]
QUICK_MODELS = ("timm:test_resnet", "timm:test_vit", "timm:test_efficientnet")
TEXT_TOKENS = 128
LONGEST_STEP_S = 0.5
RULES = Rules(
    warm_up=WarmUpRule(minimum=5, window=3, budget_s=0.5),
    stop=StopRule(minimum=20, maximum=300, budget_s=0.4, width_fraction=0.01),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One point: a model, its conditions and a batch."""

    model: str
    workload: Workload
    batch: int

    @property
    def key(self) -> dict[str, Any]:
        """What names it in a line of the file."""
        work = self.workload
        return {
            "model": self.model,
            "task": "train" if work.training else "infer",
            "precision": work.precision.value,
            "framework": work.framework.value,
            "layout": work.layout.value,
            "batch": self.batch,
        }


def workloads(models: tuple[str, ...], *, quick: bool) -> Iterator[tuple[str, Workload]]:
    """What is asked of which model, the most telling first."""
    release = torch_release()
    few = models[:1] if quick else FEW
    amp = Precision.AMP_BF16 if quick else Precision.AMP_FP16
    plain = Workload(torch_version=release)
    yield from ((model, replace(plain, precision=amp)) for model in models)
    yield from ((model, plain) for model in models)
    yield from ((model, replace(plain, precision=amp, layout=Layout.NHWC)) for model in few if "hf:" not in model)
    momentum = Training(optimizer=Optimizer.MOMENTUM)
    yield from ((model, replace(plain, precision=precision, training=momentum))
                for model in few for precision in (amp, Precision.FP32))  # fmt: skip
    yield from ((model, replace(plain, precision=Precision.BF16 if quick else Precision.FP16)) for model in models)
    if not quick:
        yield from ((model, replace(plain, precision=amp, framework=Framework.COMPILE)) for model in few)
        yield from ((model, replace(plain, precision=Precision.BF16)) for model in models)


def target_of(model: str) -> Target:
    request = parse_request(seq_len=TEXT_TOKENS) if model.startswith("hf:") else parse_request()
    return load_target(model, request=request)


# --- predictions --------------------------------------------------------------------------------------------------


def predictions(models: tuple[str, ...], gpu: GpuSpec | None, *, quick: bool) -> Iterator[dict[str, Any]]:
    """A line per point: what is expected of it, made from the model's trace; without a spec nothing is."""
    traces: dict[tuple[str, str], Trace] = {}
    batches = [1, 4] if quick else [4**power for power in range(7)]
    for model, workload in workloads(models, quick=quick):
        asked = batches[1:] if workload.training else batches
        if workload.framework is not Framework.EAGER:
            asked = [1, 64]
        if gpu is None:
            yield from ({"kind": "prediction", **Question(model=model, workload=workload, batch=each).key}
                        for each in asked)  # fmt: skip
            continue
        try:
            name = model, str(workload.configuration)
            if name not in traces:
                traces[name] = trace_target(target_of(model), configurations=[workload.configuration])
            yield from predicted(traces[name], Question(model=model, workload=workload, batch=1), gpu, asked)
        except CapplanError as error:
            print(f"{model}, {workload.configuration}: not predicted: {error}", file=sys.stderr)


def predicted(trace: Trace, first: Question, gpu: GpuSpec, batches: list[int]) -> Iterator[dict[str, Any]]:
    """Lines of one model's batches, up to what the device's memory holds and half a second."""
    recording = trace.recording(first.workload.configuration)
    if recording.exact_batch is not None:
        batches = [batch for batch in batches if batch == recording.exact_batch]
    (curve,) = estimate_latencies(
        ExecutedStep.of(recording, first.workload, calibration=load_calibration()), gpus=[gpu], batches=batches
    )
    if isinstance(curve, Unsupported):
        raise UsageError(curve.reason)
    model = MemoryModel(trace=trace, workload=first.workload, calibration=load_memory_calibration())
    for point in curve:
        memory = model.estimate(batch=point.batch, gpu=gpu)
        fits = memory.total_bytes.expected <= usable_memory(gpu).expected
        if fits and point.latency_s.expected <= LONGEST_STEP_S:
            yield {
                "kind": "prediction",
                **replace(first, batch=point.batch).key,
                "latency_s": {"bound": rounded(point.bound_s), **ends(point.latency_s)},
                "peak_allocated_bytes": ends(memory.peak_allocated_bytes),
                "peak_reserved_bytes": ends(memory.peak_reserved_bytes),
            }


def ends(interval: Interval) -> dict[str, float]:
    return {name: rounded(getattr(interval, name)) for name in ("low", "expected", "high")}


def rounded(value: float) -> float:
    return float(f"{value:.5g}")


# --- measurements -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """A model in training, in the place of a `ReadyModel`: its run is a whole step."""

    target: Target
    workload: Workload
    device: torch.device
    module: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def make_inputs(self, batch: int) -> ModelInputs:
        with torch.inference_mode(mode=False):
            return self.target.make_inputs(batch, device=self.device)

    def runner(self, inputs: ModelInputs) -> Callable[[], Any]:
        dtype = half_dtype(self.workload.precision)

        def step() -> Any:
            with torch.inference_mode(mode=False), torch.enable_grad():
                self.optimizer.zero_grad()
                with torch.autocast(self.device.type, dtype=dtype) if dtype else contextlib.nullcontext():
                    loss = loss_of(self.module(*inputs.args, **dict(inputs.kwargs)))
                loss.backward()
                self.optimizer.step()
                return loss.detach()

        return step


def make_ready(target: Target, workload: Workload, device: TorchDevice) -> ReadyModel:
    """Build a model for inference or for training on the device."""
    if workload.training is None:
        return ready_model(target, workload=workload, device=device.torch_device)
    with torch.device(device.torch_device):
        module = target.build().train()
    optimizer = make_optimizer(workload.training.optimizer, list(module.parameters()))
    made: Any = TrainedModel(
        target=target, workload=workload, device=device.torch_device, module=module, optimizer=optimizer
    )
    ready: ReadyModel = made
    return ready


def measured(questions: Iterable[Question], device: TorchDevice, *, until_s: float) -> Iterator[dict[str, Any]]:
    """A line per point; neighbours of the same conditions share the model that was built."""
    bench, held, ready = Bench(device=device), None, None
    for question in questions:
        if time.monotonic() > until_s:
            return
        conditions = question.model, question.workload
        try:
            if held != conditions:
                held, ready = conditions, None
                device.free_cached()
                target = target_of(question.model)
                ready = surviving(
                    device,
                    lambda target=target, question=question: make_ready(target, question.workload, device),
                    doing=f"building {question.model}",
                )
            if ready is None:
                continue
            with numeric_settings(question.workload.precision, autotune=False):
                point = measure_point(ready, question.batch, bench=bench, rules=RULES)
        except PointError as error:
            yield {"kind": "failure", **question.key, "failure": error.kind.value, "message": str(error)}
            continue
        except CapplanError as error:
            print(f"{question.model}: {error}", file=sys.stderr)
            continue
        found = summarise(point.samples_s)
        yield {
            "kind": "measurement",
            **question.key,
            "latency_s": {name: rounded(getattr(found, name)) for name in ("median", "mean", "std", "p90", "p99")},
            "repetitions": found.count,
            "method": point.method.value,
            "stable": point.warm_up.stable,
            "peak_allocated_bytes": point.memory.peak_allocated_bytes,
            "peak_reserved_bytes": point.memory.peak_reserved_bytes,
        }


def question_of(line: dict[str, Any]) -> Question:
    workload = Workload(
        precision=Precision(line["precision"]),
        framework=Framework(line["framework"]),
        layout=Layout(line["layout"]),
        training=Training(optimizer=Optimizer.MOMENTUM) if line["task"] == "train" else None,
        torch_version=torch_release(),
    )
    return Question(model=line["model"], workload=workload, batch=line["batch"])


def in_turns(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Order points: conditions as they come; of each, batches 1, 16, 256 before those between, neighbours together."""
    conditions = list(dict.fromkeys(_conditions(line) for line in lines))
    telling = {1, 4, 16, 64, 256} if len(conditions) < 10 else {1, 16, 64, 256}
    rank = {name: index for index, name in enumerate(conditions)}
    return sorted(lines, key=lambda line: (line["batch"] not in telling, rank[_conditions(line)]))


def _conditions(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in question_of(line).key.items() if name != "batch")


# --- the file, and what it says -----------------------------------------------------------------------------------


def header(device: TorchDevice, own: GpuSpec | None, gpu: GpuSpec | None) -> dict[str, Any]:
    facts = device_facts(device, nvml=open_nvml(device.torch_device), gpu=own.id if own else None)
    return {
        "kind": "run",
        "schema_version": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "capplan": capplan.__version__,
        "tokens": TEXT_TOKENS,
        "predicted_for": gpu.id if gpu else None,
        "device": asdict(facts),
    }


def judge(path: Path) -> None:
    """Print errors by conditions: median and 90th percentile of |predicted ÷ measured − 1|, coverage, memory."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    expected = {_key(line): line for line in lines if line["kind"] == "prediction" and "latency_s" in line}
    groups: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    points = [line for line in lines if line["kind"] == "measurement"]
    for line in points:
        if (before := expected.get(_key(line))) is not None:
            name = " ".join(str(line[key]) for key in ("task", "precision", "framework", "layout"))
            groups.setdefault(name, []).append((before, line))
            groups.setdefault("all", []).append((before, line))
    models = {line["model"] for line in points}
    failures = [line for line in lines if line["kind"] == "failure"]
    print(f"{len(points)} points of {len(models)} models measured, {len(failures)} failed, "
          f"{len(expected)} predicted before")  # fmt: skip
    for name, pairs in sorted(groups.items()):
        errors = np.array([abs(b["latency_s"]["expected"] / m["latency_s"]["median"] - 1) for b, m in pairs])
        held = sum(b["latency_s"]["low"] <= m["latency_s"]["median"] <= b["latency_s"]["high"] for b, m in pairs)
        beaten = sum(m["latency_s"]["median"] < b["latency_s"]["bound"] for b, m in pairs)
        memory = [
            abs(b["peak_allocated_bytes"]["expected"] / m["peak_allocated_bytes"] - 1)
            for b, m in pairs
            if m["peak_allocated_bytes"]
        ]
        told = f", allocated memory median error {100 * median(memory):.2f} %" if memory else ""
        print(
            f"{name:32} {len(pairs):4} points, median error {100 * np.median(errors):.1f} %, "
            f"90th percentile {100 * np.quantile(errors, 0.9):.1f} %, "
            f"in the interval {100 * held / len(pairs):.0f} %, below the bound {beaten}{told}"
        )


def _key(line: dict[str, Any]) -> str:
    return json.dumps(question_of(line).key)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--device", help="cuda:0, cpu; by default the first accelerator")
    parser.add_argument("--gpu", help="the GPU spec to predict for; by default the device's own")
    parser.add_argument("--quick", action="store_true", help="three tiny models at batches 1 and 4")
    parser.add_argument("--minutes", type=float, default=9.0, help="measure no longer than this, predictions included")
    parser.add_argument("--predict-only", action="store_true")
    parser.add_argument("--predictions", type=Path, help="take these instead of making them")
    parser.add_argument("--judge", type=Path, metavar="FILE")
    words = parser.parse_args()
    if words.judge:
        judge(words.judge)
        return 0
    if words.output is None:
        parser.error("say where the results go: -o FILE.jsonl")
    gc.freeze()
    try:
        return run(words, until_s=time.monotonic() + 60 * words.minutes)
    except CapplanError as error:
        print(f"device_results: {error}", file=sys.stderr)
        return error.exit_code


def run(words: argparse.Namespace, *, until_s: float) -> int:
    device = open_device(words.device)
    gpus = capplan.load_gpus()
    own = gpus.find_or_none(devices_at_hand()[str(device.torch_device)])
    gpu = gpus.find(words.gpu) if words.gpu else own
    models = QUICK_MODELS if words.quick else MODELS
    if words.predictions:
        kept = [json.loads(line) for line in words.predictions.read_text().splitlines()]
        expected = [line for line in kept if line["kind"] == "prediction"]
    else:
        expected = list(predictions(models, gpu, quick=words.quick))
    with words.output.open("w") as stream:

        def put(line: dict[str, Any]) -> None:
            stream.write(json.dumps(line, separators=(",", ":")) + "\n")
            stream.flush()

        put(header(device, own, gpu))
        for line in expected:
            put(line)
        print(f"{len(expected)} predictions for {gpu.id if gpu else 'no known GPU'} written", file=sys.stderr)
        if words.predict_only:
            return 0
        with device.current():
            device.check()
            for line in measured(map(question_of, in_turns(expected)), device, until_s=until_s):
                put(line)
    judge(words.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
