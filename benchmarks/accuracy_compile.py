"""Remake docs/evidence/compile.md: the held-out errors of the shipped fits, and the gain of compiling against timings.

    python benchmarks/accuracy_compile.py ../shared/data/measured/latency-timm.csv.gz -o docs/evidence/compile.md

The fits' errors are read from the shipped files, where `capplan calibrate fit --serves compile|training` wrote them;
gains are estimated anew for some models, drawn at random. Fusion is compared with Inductor's as
`python benchmarks/fusion_inductor.py` does it; `--no-fusion` leaves that out.
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from accuracy import SPLITS, kept_section

from capplan.app.calibration.measured_models import group_runs, recording_for, trace_folder
from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.workload import Framework, Precision
from capplan.errors import CapplanError
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration
from capplan.specs.measurements import read_measured

TRAINING = Path(__file__).parent / "calibrations" / "training-timm.yaml"
_HEAD = """\
# How wrong the estimates of compiled graphs and training steps are

Remade by `python benchmarks/accuracy_compile.py` (see its docstring). Errors are |predicted ÷ measured − 1| in percent,
on rows that the fit had not seen; bias is the median of predicted ÷ measured. They stand in the shipped files'
`origin`, and a fit prints them again:

    capplan calibrate fit latency-timm.csv.gz --serves compile -o compile.yaml
    capplan calibrate fit latency-timm.csv.gz --serves training -o training-timm.yaml

`python benchmarks/accuracy.py` makes all calibrations together; latency.md has the intervals by class of evidence.

Families are name families of models (`resnet*`, `vit_*`, …), held out in five folds. Of a GPU held out ("gpu") no timed
step is known, only the microbenchmarks in its spec; "sheet" leaves these out, too. "both" holds out families and GPU;
"launches" are steps that the host decides.
"""
_COMPILE = """\
AMP in fp16 and bf16 and pure bf16, saturated batches: RTX 4090 under torch 2.4 and 2.9, RTX PRO 6000 Max-Q (300 W)
under 2.9. Two GPUs only, so that "gpu" says what one tells of the other. A published study of the same rows reached 6.5
and 16.1 on unseen families, 7.2 and 17.3 on an unseen GPU, 7.1 and 16.6 on both; its folds are not ours. The fusion's
rules were chosen while looking at these rows, so that the figures for families are somewhat flattered; the same holds
for the rules of grouped convolutions, forward and in gradients.
"""
_GAIN = """\
Eager over compiled time per sample, estimated with the shipped constants, which know these rows.
"""
_WRONG = """\
What is known to be wrong:

* Families that lie off whenever they are held out: ghostnetv2 and v3, sequencer, volo, poolformer, cait (0.75 to 0.9 of
  the measured time), gmlp, dpn, pnasnet (1.15 to 1.25). Inductor's lists of gmlp and ghostnetv2 agree in kernels and
  bytes, so that the libraries' share is off there.
* Under torch 2.4 networks of depthwise convolutions (mobilenetv3, spnasnet) take 0.76 to 0.9 of the time of torch 2.9
  on the same GPU. Constants that never saw 2.4 cannot know it: where that GPU is held out, its rows of 2.4 come out too
  slow.
* Convolutions of volumes in 16 bits under torch 2.9, which PyTorch runs without cuDNN: lambda layers.
* Groups of two and three channels in channels-last have no fast kernel (`conv grouped narrow nhwc`, which few families
  tell).
* What convolutions of few or uneven channels take in 16 bits without autocast (`slow_convolutions` in rates.yaml, by
  `benchmarks/host_laws.py`) is known of one GPU in bf16: hrnet, res2net, dla, every first layer of 7x7 pixels.
  Where the families that tell it are left out, ghostnet, repghostnet and tresnet come out 1.4 to 1.7 times too slow.
* Instructions of activations are fitted on cards of 60 to 90 fp32 FLOP per byte of bandwidth. Data-centre cards have 10
  to 20: there compiled chains with GELU or SiLU may be estimated too slow. No compiled row of such a card was at hand.
* Small batches and CUDA graphs (`compile-graphs`) were not measured. What a kernel takes beyond its work is fitted at
  saturated batches and is a third of what TensorRT's kernels take at small ones. So a kernel of a CUDA graph takes at
  least as long as a small one of TensorRT, which launches its kernels alike (engines.yaml: 5 µs, a convolution 13, at
  1.5 GHz). That is transferred, and compared with no timed graph.
* A model whose graph breaks where values are read is estimated subgraph by subgraph, and a note says so; what a new
  graph costs Python is not in it, and breaks that a trace cannot show (code that Dynamo does not understand) are not
  seen.
* Convolutions in max-autotune's epilogues, and attention written out by hand that Inductor would recognise, are not
  modelled.
* A compiled training step takes fused kernels from the compiled constants and gradients from the training ones, with a
  wider interval: no such row was at hand.
"""
_FUSION = """\
`python benchmarks/fusion_inductor.py` asks Inductor (torch 2.13) which kernels it would generate for a GPU: it lowers
and schedules the graph on fake CUDA tensors and is stopped before it would call Triton, so that neither a GPU nor
Triton is needed. Counted at batch 256 are generated and library kernels, and the bytes that the generated ones read and
write. What this showed, and what was changed for it:

* An elementwise result is stored only if a library reads it, if it leaves the graph, if several kernels read it and it
  reads more than four buffers itself, or if it reads more than eight. Otherwise each kernel that reads it computes it
  (gated layers, branches of re-parameterised blocks, residual sums, gates of squeeze-and-excitation).
* An activation that is computed in fp32 (SiLU, GELU, hardswish) after a norm of images makes the norm stored, in fp32:
  the conversion to 16 bits and back is dropped.
* Loops are reordered, so that such a norm of channels-last images and the mean over positions that reads it are one
  kernel (regnetz and other networks with squeeze-and-excitation, at large batches). 2.13 does so by default; it is
  taken so from 2.8 on. Rows of 2.9 fit it better than two kernels, rows of 2.4 fit two kernels better.
* Attention whose operands do not have four dimensions is taken by no fused kernel (five with a dimension of windows in
  hiera, nest and twins; three in SAM's encoder). Its composite operator is compiled instead: query and key are scaled
  and written, since torch 2.5 in fp32, and two batched products run around a softmax.
* Padding such an activation (TensorFlow's "same") is a kernel of its own that reads the norm in fp32.
* Sums over fewer than eight elements, such as over the paths of selective kernels, are written out as additions.
* A pointwise result that one reduction alone reads is computed in it, also across the order of channels-last images
  (filter response norms).
* Groups that grow with the batch (conditional convolutions) are groups, for the choice of the layout, too.
* Sums over the channels of images (RMS norms of mobilenetv5) run along memory between channels-last convolutions, so
  that such a norm is one kernel (convnext_atto_rms from 1.08 to 1.04 of the measured time); one head of keys for many
  of queries is written for each of them, in fp32.

Known to differ: Inductor splits reductions of few results (under 8,192 on this GPU) in two kernels, the second of which
moves little, and computes nothing in them; that matters at small batches. Query, key and value of written-out attention
are written by one kernel here and by up to three there, which move the same bytes.
"""
_TRAINING = """\
AMP in fp16, SGD with momentum, RTX 3090, torch 1.12. One GPU and one version: how the constants carry to other cards,
with steps of those added, is on training.md. Grouped convolutions' gradients under channels-last are the
worst: where cuDNN has no fast kernel (more than 32 channels a group, or groups that are no multiple of 32) a step takes
up to eight times as long.

Coverage: of the 778 models of timm's training tables 769 are traced under AMP; the nine others are names that today's
timm does not have. Of torchvision's 121 models 109 are; the twelve detectors ask for targets (`--inputs-from`).
"""


def held_out_table(calibration: Calibration) -> str:
    """The errors that a fit found on rows held out."""
    assert calibration.origin is not None
    lines = ["| held out | rows | median | p90 | bias |", "| --- | ---: | ---: | ---: | ---: |"]
    for cell, found in calibration.origin.held_out_errors.items():
        if cell.startswith(("card ", "drawn, ")):  # those of interval_widths.py and step_splits.py
            continue
        figures = f"{100 * found['median']:.1f} | {100 * found['p90']:.1f} | {found['bias']:.3f}"
        lines.append(f"| {cell.replace('device ', '')} | {found['rows']:.0f} | {figures} |")
    return "\n".join(lines) + "\n"


def gain_table(steps: Sequence[MeasuredStep], *, models: int, seed: int) -> str:
    """Measured and estimated gains of compiling, by GPU and torch version."""
    pairs = _pairs(steps, models=models, seed=seed)
    errors: dict[str, list[float]] = defaultdict(list)
    gains: dict[str, list[float]] = defaultdict(list)
    for (_, _, gpu, torch), pair in pairs.items():
        estimated = {framework: _estimate_s(step) for framework, step in pair.items()}
        if None in estimated.values():
            continue
        measured, predicted = _gain({f: s.latency_s / s.batch for f, s in pair.items()}), _gain(estimated)
        for key in (f"{gpu}, torch {torch[0]}.{torch[1]}", "**all**"):
            errors[key].append(abs(predicted / measured - 1))
            gains[key].append(measured)
    lines = ["| pairs of | count | measured, median | error, median | p90 |", "| --- | ---: | ---: | ---: | ---: |"]
    for key in sorted(errors, reverse=True):
        middle, far = np.quantile(errors[key], [0.5, 0.9])
        lines.append(
            f"| {key} | {len(errors[key])} | ×{np.median(gains[key]):.2f} | {100 * middle:.1f} | {100 * far:.1f} |"
        )
    return "\n".join(lines) + "\n"


Pair = dict[Framework, MeasuredStep]


def _pairs(
    steps: Sequence[MeasuredStep], *, models: int, seed: int
) -> dict[tuple[str, object, str, tuple[int, int]], Pair]:
    eligible = [
        step for step in steps
        if step.workload.training is None and step.workload.precision is Precision.AMP_FP16
        and step.workload.layout.value == "nchw"
    ]  # fmt: skip
    found: dict[tuple[str, object, str, tuple[int, int]], Pair] = defaultdict(dict)
    for step in eligible:
        key = (step.model, step.input_size, step.gpu, step.workload.torch_version)
        found[key][step.workload.framework] = step
    whole = {key: pair for key, pair in found.items() if len(pair) == 2}
    names = sorted({key[0] for key in whole})
    chosen = set(random.Random(seed).sample(names, min(models, len(names))))
    return {key: pair for key, pair in whole.items() if key[0] in chosen}


def _estimate_s(step: MeasuredStep) -> float | None:
    """The expected time per sample of a measured step. [s]"""
    ((run, _),) = group_runs([step]).items()
    try:
        recording = recording_for(trace_folder(None).obtain(run), run, step)
    except CapplanError:
        return None
    gpu = load_gpus()[step.gpu]
    (found,) = estimate_latencies(
        ExecutedStep.of(recording, step.workload, calibration=load_calibration()), gpus=[gpu], batches=[step.batch]
    )
    return None if isinstance(found, Unsupported) else found[0].latency_s.expected / step.batch


def _gain(times_s: Mapping[Framework, float | None]) -> float:
    eager, compiled = times_s[Framework.EAGER], times_s[Framework.COMPILE]
    assert eager is not None
    assert compiled is not None
    return eager / compiled


def fusion_lines() -> str:
    """Return what `benchmarks/fusion_inductor.py` prints."""
    from fusion_inductor import MODELS, comparison, heading

    return "```\n" + "\n".join([heading(), *map(comparison, MODELS)]) + "\n```\n"


def kept_fusion(page: Path) -> str:
    """Return the table of fusion that a page holds; empty where there is none."""
    if not page.exists():
        return ""
    _, fence, after = page.read_text().partition("```\n")
    return fence + after.partition("```\n")[0] + fence if fence else ""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-fusion", action="store_true", help="keep the table that the page has")
    words = parser.parse_args()
    parts = load_calibration().parts
    steps = read_measured(words.measured).steps
    page = [
        _HEAD, "## Compiled graphs (`--framework compile`)\n", _COMPILE, held_out_table(parts["compile"]),
        *kept_section(words.output, SPLITS),
        "## The gain of compiling\n", _GAIN, gain_table(steps, models=words.models, seed=words.seed), _WRONG,
        "## Fusion beside Inductor's\n", _FUSION, kept_fusion(words.output) if words.no_fusion else fusion_lines(),
        "## Training steps\n", _TRAINING, held_out_table(load_calibration(TRAINING).parts["training"]),
    ]  # fmt: skip
    words.output.write_text("\n".join(page))


if __name__ == "__main__":
    main()
