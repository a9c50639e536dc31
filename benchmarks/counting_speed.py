"""Time and memory of counting a model, beside thop and fvcore: models built included, in one run.

    python benchmarks/counting_speed.py --output docs/evidence/coverage.md

takes ten minutes on one core. Each counter builds the model its own way (ours without weights) and counts it at batch
1; ours traces at its usual three batches, so that every batch is answered. CPU seconds, the least of `--repeat`.
"""

import argparse
import gc
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

from pages import write_section

MODELS = (
    "torchvision:alexnet", "torchvision:vgg16", "torchvision:resnet18", "torchvision:resnet50",
    "torchvision:resnet152", "torchvision:densenet121", "torchvision:googlenet", "torchvision:mobilenet_v2",
    "torchvision:mobilenet_v3_large", "torchvision:efficientnet_b0", "torchvision:efficientnet_b4",
    "torchvision:regnet_y_8gf", "torchvision:convnext_tiny", "torchvision:swin_t", "torchvision:vit_b_16",
    "torchvision:maxvit_t", "torchvision:deeplabv3_resnet50", "torchvision:r3d_18", "timm:resnet50",
    "timm:efficientnet_b0", "timm:vit_base_patch16_224", "timm:deit_tiny_patch16_224", "timm:convnext_base",
    "timm:mixer_b16_224", "timm:beit_base_patch16_224", "timm:swin_tiny_patch4_window7_224", "hf:bert", "hf:distilbert",
    "hf:gpt2", "hf:vit",
)  # fmt: skip
MEMORY_MODELS = ("torchvision:resnet50", "torchvision:vit_b_16", "hf:bert", "hf:llama")
Counter = Callable[[str], None]


def ours(words: str) -> None:
    from capplan.core.ops.analysis import analyze_trace
    from capplan.core.workload import Configuration
    from capplan.probe.inputs.grammar import parse_request
    from capplan.probe.target.resolve import load_target
    from capplan.probe.trace.tracer import trace_target

    trace = trace_target(load_target(words, request=parse_request()))
    analyze_trace(trace, configuration=Configuration(), batch=1)


def thop(words: str) -> None:
    from thop import profile

    from capplan.probe.counters import positional, values
    from capplan.probe.inputs.grammar import parse_request
    from capplan.probe.target.resolve import load_target

    target = load_target(words, request=parse_request())
    inputs = target.make_inputs(1, device="cpu")
    profile(positional(target.build().eval(), inputs), inputs=values(inputs), verbose=False)


def fvcore(words: str) -> None:
    from fvcore.nn import FlopCountAnalysis

    from capplan.probe.counters import positional, values
    from capplan.probe.inputs.grammar import parse_request
    from capplan.probe.target.resolve import load_target

    target = load_target(words, request=parse_request())
    inputs = target.make_inputs(1, device="cpu")
    analysis = FlopCountAnalysis(positional(target.build().eval(), inputs), values(inputs))
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none").total()


def cpu_seconds(counter: Counter, words: str, *, repeat: int) -> float:
    taken = []
    for _ in range(repeat):
        gc.collect()
        started = time.process_time()
        counter(words)
        taken.append(time.process_time() - started)
    return min(taken)


MEMORY_SCRIPT = """
import pathlib, re, sys
import torch
from capplan.probe.foreign.libraries import import_torchvision
library = sys.argv[1].partition(":")[0]
if library == "torchvision":
    import_torchvision()
else:
    from capplan.probe.inputs.grammar import parse_request
    from capplan.probe.target.resolve import load_target
    load_target(sys.argv[1], request=parse_request())
def peak():
    return int(re.search("VmHWM:\\\\s*(\\\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1000
before = peak()
sys.path.insert(0, sys.argv[2])
import counting_speed
counting_speed.ours(sys.argv[1])
print(before, peak())
"""


def memory_rows() -> Iterable[str]:
    for words in MEMORY_MODELS:
        command = [sys.executable, "-c", MEMORY_SCRIPT, words, str(Path(__file__).parent)]
        before, after = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
        print(f"{words} {before:.0f} MB, {after - before:+.0f} MB", file=sys.stderr)
        yield f"| {words} | {before:.0f} | {after - before:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("docs/evidence/coverage.md"))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    for counter in (ours, thop, fvcore):
        counter("torchvision:alexnet")
        counter("hf:bert")
        counter("timm:resnet50")
    rows, ratios = [], []
    for words in MODELS:
        own, its, other = (cpu_seconds(counter, words, repeat=options.repeat) for counter in (ours, thop, fvcore))
        ratios.append((own / its, own / other))
        rows.append(f"| {words} | {own:.3f} | {its:.3f} | {other:.3f} | {own / its:.2f} | {own / other:.2f} |")
        print(rows[-1], file=sys.stderr)
    to_thop, to_fvcore = zip(*ratios, strict=True)
    lines = [
        f"Made by `python benchmarks/counting_speed.py` with torch {torch.__version__}, Python "
        f"{platform.python_version()}, one thread; CPU seconds, models built included, the least of {options.repeat}.",
        "",
        f"Median over {len(rows)} models: {statistics.median(to_thop):.2f} of thop's time "
        f"(at most {max(to_thop):.2f}), {statistics.median(to_fvcore):.2f} of fvcore's (at most {max(to_fvcore):.2f}).",
        "",
        "| model | capplan | thop | fvcore | of thop | of fvcore |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        "Peak memory of a process that imports torch and the model's library, and what counting adds [MB]:",
        "",
        "| model | imports | counting adds |",
        "|---|---|---|",
        *memory_rows(),
    ]
    write_section(options.output, "counting_speed.py", "\n".join(lines))


if __name__ == "__main__":
    main()
