"""CPU time of answers, as ratios to a bare typer program: machine speed and load cancel out.

python benchmarks/plan_speed.py [TRACE ...] [--runs N]

Prints, for each trace (by default one of resnet50 that it makes), the time to plan all GPUs at eleven batches, and for
`capplan --help`, `capplan gpus`, a mistyped model name and a warm plan the time of the whole command, each over the
time of a typer program that prints one line. The marks: help and gpus 2, the mistyped name 1 s, a plan of ResNet-50
0.3 s and of any timm model 1 s, the warm command 0.6 s.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from capplan.core.plan.planner import Prepared, make_plan
from capplan.core.plan.types import Limits
from capplan.core.trace.format import load_trace
from capplan.core.workload import Workload, parse_batches
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration, load_memory_calibration

BARE = """
import typer
app = typer.Typer(add_completion=False)
@app.command()
def hello(name: str = "you") -> None:
    typer.echo(f"hello {name}")
app()
"""


def command_cpu_s(arguments: list[str], runs: int) -> float:
    """Return the least CPU time, user and system, of a command over several runs. [s]"""
    times = []
    for _ in range(runs):
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run(arguments, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = getrusage(RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def plan_cpu_s(path: Path, runs: int) -> tuple[float, int, int]:
    """Return the least CPU time of a plan of all GPUs at 11 batches, and how many GPUs and batches these were. [s]"""
    trace = load_trace(path.read_bytes(), where=str(path))
    exact = trace.recording(Workload().configuration).exact_batch
    batches = parse_batches(str(exact) if exact else "1..1024")
    gpus = list(load_gpus().values())
    calibration, memory_calibration = load_calibration(), load_memory_calibration()
    times = []
    for _ in range(runs):
        start = time.process_time()
        prepared = Prepared.of(trace, Workload(), calibration=calibration, memory_calibration=memory_calibration)
        make_plan(prepared, gpus=gpus, batches=batches, limits=Limits())
        times.append(time.process_time() - start)
    return min(times), len(gpus), len(batches.sizes)


def main() -> None:
    """Print times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    words = parser.parse_args()
    capplan = [sys.executable, "-m", "capplan"]
    bare = command_cpu_s([sys.executable, "-c", BARE], words.runs)
    print(f"bare typer program {bare:.3f} CPU-s = 1.00")
    for arguments in (
        ["--help"],
        ["plan", "--help"],
        ["gpus"],
        ["plan", "resnet5O"],
        ["plan", "resnet50", "--batch", "32"],
    ):
        taken = command_cpu_s([*capplan, *arguments], words.runs)
        print(f"capplan {' '.join(arguments)}: {taken:.3f} CPU-s = {taken / bare:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        traces = words.traces or [Path(folder) / "resnet50.trace.json"]
        if not words.traces:
            subprocess.run([*capplan, "trace", "resnet50", "-o", str(traces[0])], check=True, capture_output=True)
        for path in traces:
            taken, gpus, batches = plan_cpu_s(path, words.runs)
            print(f"plan {path.name}, {gpus} GPUs × {batches} batches: {taken:.3f} CPU-s = {taken / bare:.2f}")


if __name__ == "__main__":
    main()
