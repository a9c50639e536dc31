"""CPU time and memory of a trace beside thop's and fvcore's counts, models built included, on thirty models.

`python benchmarks/tracing.py [-o FILE.csv]`: each model by all three in turn, best of two, on one thread, in one
process; then the peak memory of a trace above the imports, each in a process of its own.
"""

import argparse
import csv
import logging
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

MODELS = (
    "alexnet", "vgg16_bn", "resnet18", "resnet50", "resnet152", "resnext50_32x4d", "wide_resnet50_2", "densenet121",
    "googlenet", "inception_v3", "squeezenet1_0", "mobilenet_v2", "mobilenet_v3_large", "mnasnet1_0",
    "shufflenet_v2_x1_0", "efficientnet_b0", "efficientnet_b4", "efficientnet_v2_s", "regnet_y_400mf",
    "regnet_x_8gf", "convnext_tiny", "convnext_base", "vit_b_16", "vit_l_16", "swin_t", "swin_b", "swin_v2_t",
    "maxvit_t", "timm:deit_small_patch16_224", "timm:mixer_b16_224",
)  # fmt: skip
LARGE = ("resnet50", "vit_b_16", "vit_h_14", "hf:llama")

MEMORY_PROGRAM = """
import sys
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
def peak_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
target = load_target(sys.argv[1], request=InputRequest())
before = peak_mib()
trace_target(target)
print(before, peak_mib())
"""


def trace_once(words: str) -> None:
    from capplan.probe.inputs.grammar import InputRequest
    from capplan.probe.target.resolve import load_target
    from capplan.probe.trace.tracer import trace_target

    trace_target(load_target(words, request=InputRequest()))


def built(words: str) -> tuple[object, object]:
    from capplan.probe.inputs.grammar import InputRequest
    from capplan.probe.target.resolve import load_target

    target = load_target(words, request=InputRequest())
    return target.build().eval(), target.make_inputs(1, device="cpu").args


def count_with_thop(words: str) -> None:
    import thop

    module, inputs = built(words)
    thop.profile(module, inputs=inputs, verbose=False)


def count_with_fvcore(words: str) -> None:
    from fvcore.nn import FlopCountAnalysis

    module, inputs = built(words)
    FlopCountAnalysis(module, inputs).unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


TOOLS: dict[str, Callable[[str], None]] = {
    "capplan": trace_once,
    "thop": count_with_thop,
    "fvcore": count_with_fvcore,
}


def seconds(tool: Callable[[str], None], words: str) -> float:
    import torch

    started = time.process_time()
    with torch.no_grad():
        tool(words)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--skip-memory", action="store_true")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for tool in TOOLS.values():  # imports and first calls are nobody's cost
        seconds(tool, "alexnet")
    rows = []
    for words in arguments.models:
        times = {name: min(seconds(tool, words) for _ in range(2)) for name, tool in TOOLS.items()}
        rows.append({"model": words, **times})
        print(words, *(f"{name} {time_s:.3f} s" for name, time_s in times.items()), flush=True)
    for other in ("thop", "fvcore"):
        ratios = [row["capplan"] / row[other] for row in rows]
        print(f"of {other}'s time: median {statistics.median(ratios):.2f}, at most {max(ratios):.2f}")
    if arguments.output:
        with arguments.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["model", *TOOLS])
            writer.writeheader()
            writer.writerows(rows)
    if not arguments.skip_memory:
        for words in LARGE:
            ran = subprocess.run(
                [sys.executable, "-c", MEMORY_PROGRAM, words], check=True, capture_output=True, text=True
            )
            before, after = map(float, ran.stdout.split())
            print(f"{words}: {before:.0f} MiB imported, {after:.0f} MiB traced: {after - before:+.0f} MiB")


if __name__ == "__main__":
    main()
