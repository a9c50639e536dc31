"""Set predicted beside measured times of thirty models on the CPU at hand, calibrated by its operators alone.

Usage:
    OMP_NUM_THREADS=1 python benchmarks/accuracy_cpu.py docs/evidence/cpus.csv [MODEL...] [--write-calibrations]

One thread, and the time that the thread spends on the processor. Other programs still slow it down, through shared
caches and cores, so that a matrix product and a copy are timed before each run of a model, and the model's time is
divided by how much slower they were than at the calibration; the median of several runs. First the CPU's operators are
timed and a calibration fitted to them, then whole models are run, which the fit has not seen. `--write-calibrations`
replaces the shipped constants of CPUs by this fit.
"""

import csv
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import torch

from capplan.app.calibration.cpu import cpu_at_hand, cpu_calibrations
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.lookup import CPU, CPU_HALF
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.workload import Precision, Workload
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.inputs.tensors import map_tensors
from capplan.probe.measure.facts import torch_release
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from capplan.specs.calibration import dump_calibration
from capplan.specs.folders import calibration_file

COLUMNS = ("model", "batch", "precision", "measured_s", "predicted_s", "low_s", "high_s")
MODELS = (
    *(f"torchvision:{name}" for name in (
        "alexnet", "vgg11", "resnet18", "resnet50", "resnext50_32x4d", "densenet121", "mobilenet_v2",
        "mobilenet_v3_large", "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet1_0", "efficientnet_b0", "regnet_y_400mf",
        "regnet_x_800mf", "googlenet", "inception_v3", "convnext_tiny", "vit_b_32", "swin_t",
    )),
    *(f"timm:{name}" for name in (
        "vit_small_patch16_224", "deit_tiny_patch16_224", "mixer_s16_224", "resmlp_12_224", "gmlp_s16_224",
        "ghostnet_100", "repvgg_a0", "poolformer_s12", "mobilevit_s", "coat_lite_mini",
    )),
    "hf:bert", "hf:gpt2",
)  # fmt: skip
BATCHES = (1, 4)
PRECISIONS = (Precision.FP32, Precision.BF16)


class Yardstick:
    """A matrix product and a copy, timed now and again to see how much other programs slow this one down."""

    def __init__(self) -> None:
        self._first, self._second = torch.randn(512, 512), torch.randn(512, 512)
        self._from = torch.randn(2**22)
        self._to = torch.empty_like(self._from)
        self.undisturbed_s = median(self.once_s() for _ in range(60))

    def once_s(self) -> float:
        before = time.thread_time()
        torch.mm(self._first, self._second)
        self._to.copy_(self._from)
        return time.thread_time() - before


def main(path: Path, models: tuple[str, ...], *, writes: bool) -> None:
    torch.set_num_threads(1)
    cpu = cpu_at_hand(clock=time.thread_time)
    fitted = cpu_calibrations(
        cpu, made=date.today(), command="python benchmarks/accuracy_cpu.py", clock=time.thread_time
    )
    if writes:
        for serves, file in ((CPU, "cpu.yaml"), (CPU_HALF, "cpu_half.yaml")):
            calibration_file(file).write_text(dump_calibration(fitted.parts[serves]))
    yardstick = Yardstick()
    rows = []
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for name in models:
            for precision in PRECISIONS:
                for row in compare(name, precision, cpu.spec, fitted, yardstick):
                    rows.append(row)
                    writer.writerow(row)
                    file.flush()
    summarise(rows)


def compare(
    name: str, precision: Precision, cpu: GpuSpec, fitted: Calibration, yardstick: Yardstick
) -> list[dict[str, object]]:
    """Return a row for each batch of one model."""
    target = load_target(name, request=parse_request(seq_len=128 if name.startswith("hf:") else None))
    workload = Workload(precision=precision, torch_version=torch_release())
    trace = trace_target(target, configurations=[workload.configuration])
    step = ExecutedStep.of(trace.recording(workload.configuration), workload, calibration=fitted)
    (answers,) = estimate_latencies(step, gpus=[cpu], batches=BATCHES)
    torch.manual_seed(0)
    dtype = torch.bfloat16 if precision is Precision.BF16 else torch.float32
    module = target.build().eval().to(dtype)
    rows: list[dict[str, object]] = []
    for batch, estimate in zip(BATCHES, answers, strict=True):
        made = target.make_inputs(batch, device="cpu")
        args, kwargs = map_tensors(
            (made.args, dict(made.kwargs)), lambda each: each.to(dtype) if each.is_floating_point() else each
        )
        measured_s = typical_model_s(lambda args=args, kwargs=kwargs: module(*args, **kwargs), yardstick)
        found = estimate.latency_s
        rows.append(
            {
                "model": name, "batch": batch, "precision": str(precision), "measured_s": f"{measured_s:.6g}",
                "predicted_s": f"{found.expected:.6g}", "low_s": f"{found.low:.6g}", "high_s": f"{found.high:.6g}",
            }
        )  # fmt: skip
        print(
            f"{name:32} {batch} {precision!s:5} {1e3 * measured_s:8.2f} ms, {found.expected / measured_s:.2f}",
            flush=True,
        )
    return rows


def typical_model_s(call: Callable[[], object], yardstick: Yardstick) -> float:
    """Return the median processor time of a call, other programs' slowdown taken out. [s]"""
    found = []
    with torch.inference_mode():
        call()
        started = time.perf_counter()
        for count in range(50):
            slowdown = (yardstick.once_s() + yardstick.once_s()) / 2 / yardstick.undisturbed_s
            before = time.thread_time()
            call()
            found.append((time.thread_time() - before) / slowdown)
            if count >= 6 and time.perf_counter() - started > 4:
                break
    return median(found)


def summarise(rows: list[dict[str, object]]) -> None:
    """Print median and 90th percentile of the errors, and how many lie within their interval."""
    for precision in map(str, PRECISIONS):
        for batch in BATCHES:
            kept = [row for row in rows if row["precision"] == precision and row["batch"] == batch]
            ratios = np.array([float(str(row["predicted_s"])) / float(str(row["measured_s"])) for row in kept])
            errors = np.abs(ratios - 1)
            inside = np.mean(
                [float(str(row["low_s"])) <= float(str(row["measured_s"])) <= float(str(row["high_s"])) for row in kept]
            )
            print(
                f"{precision} batch {batch}: {len(kept)} models, median error {np.median(errors):.1%}, 90th percentile "
                f"{np.quantile(errors, 0.9):.1%}, bias {np.median(ratios):.2f}, within the interval {inside:.0%}"
            )


if __name__ == "__main__":
    arguments = [each for each in sys.argv[1:] if not each.startswith("--")]
    main(Path(arguments[0]), tuple(arguments[1:]) or MODELS, writes="--write-calibrations" in sys.argv)
