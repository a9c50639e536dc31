"""How fast capplan itself is: figures that depend on the machine, so that no test asks for them.

Run `python benchmarks/speed.py` on an idle machine. Each line gives what was reached and what is wanted; the exit code
is 1 if something missed its target. All but the last four need no model library.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.allocator import replay
from capplan.core.memory.fit import largest_fitting_batch
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.types import UNCALIBRATED
from capplan.core.workload import TimingMethod, Workload
from capplan.probe.measure.timing import Rounds
from tests.core.memory.test_memory import MIB, chain, gpu
from tests.probe.measure.simulated import SimulatedDevice

ROOT = Path(__file__).parents[1]


def allocator_events_per_s() -> float:
    """Replay 50,000 random allocations and frees."""
    generator = random.Random(0)
    sizes: list[int] = []
    events: list[int] = []
    live: list[int] = []
    while len(events) < 50_000:
        if live and generator.random() < 0.49:
            events.append(~live.pop(generator.randrange(len(live))))
        else:
            sizes.append(int(2 ** generator.uniform(4, 27)))
            live.append(len(sizes) - 1)
            events.append(len(sizes) - 1)
    start_s = time.process_time()
    replay(sizes, events)
    return len(events) / (time.process_time() - start_s)


def largest_batch_s() -> float:
    """Search the largest batch of a chain of 500 operators."""
    trace, card = chain(*[10 * MIB] * 500), gpu()
    assert isinstance(card, GpuSpec)
    start_s = time.process_time()
    model = MemoryModel(trace=trace, workload=Workload(), calibration=UNCALIBRATED)
    largest_fitting_batch(model, gpu=card, available_bytes=24 * 1024 * MIB)
    return time.process_time() - start_s


class HostClock(SimulatedDevice):
    """The real clock of the host, and nothing else."""

    def now_s(self) -> float:
        return time.perf_counter()

    def synchronize(self) -> None: ...


def harness_s_per_repetition() -> float:
    """Time empty work: what a repetition costs beside what it measures."""
    rounds = Rounds(HostClock(), lambda: None, method=TimingMethod.EVENT, flush=False)
    rounds(1000)
    best_s = float("inf")
    for _ in range(10):
        begun_s = time.perf_counter()
        rounds(1000)
        best_s = min(best_s, time.perf_counter() - begun_s)
    return best_s / 1000


def _reported_s(code: str, *arguments: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return float(done.stdout.splitlines()[-1])


def memory_command_s() -> float:
    """Answer `capplan memory` from a trace file, the interpreter's own start left out. [CPU seconds]"""
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "net.trace.json")
        words = [sys.executable, "-m", "capplan", "trace", "examples/net.py:Net", "--input", "x=3x224x224", "-o", trace]
        subprocess.run(words, check=True, cwd=ROOT)
        code = (
            "import sys, time; start = time.process_time(); from capplan.cli.main import app\n"
            "try: app(['memory', sys.argv[1], '--batch', '32', '--gpu', 'l4'])\n"
            "except SystemExit: pass\n"
            "print(time.process_time() - start)"
        )
        return _reported_s(code, trace)


def _child_s(*words: str) -> float:
    """Return what a process takes, the least of five. [CPU seconds]"""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def over_bare_start(*words: str) -> float:
    """Return what a command that was asked before takes over what Python with numpy and typer takes to start."""
    subprocess.run([sys.executable, "-m", "capplan", *words], capture_output=True, check=True, cwd=ROOT)
    return _child_s("-m", "capplan", *words) / _child_s("-c", "import numpy, typer")


def build_70_billion_s() -> float:
    """Build Llama 70B on the meta device. [CPU seconds]"""
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
        "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        code = (
            "import sys, time, torch\n"
            "from capplan.probe.inputs.grammar import parse_request\n"
            "from capplan.probe.target.resolve import load_target\n"
            "target = load_target('hf:' + sys.argv[1], request=parse_request())\n"
            "started = time.process_time()\n"
            "with torch.device('meta'): target.build()\n"
            "print(time.process_time() - started)"
        )
        return _reported_s(code, folder)


def main() -> int:
    """Print every figure beside its target."""
    at_most: list[tuple[str, Callable[[], float], float]] = [
        ("largest batch of 500 operators [CPU s]", largest_batch_s, 0.25),
        ("harness per repetition [s]", harness_s_per_repetition, 20e-6),
        ("capplan memory from a trace [CPU s]", memory_command_s, 0.5),
        ("warm plan over a bare start [ratio]", partial(over_bare_start, "plan", "resnet50", "--batch", "32"), 5.0),
        ("gpus over a bare start [ratio]", partial(over_bare_start, "gpus"), 2.1),
        ("Llama 70B on the meta device [CPU s]", build_70_billion_s, 2.0),
    ]
    rate = allocator_events_per_s()
    print(f"{'allocator replay [events/s]':42s} {rate:12,.0f}   at least 200,000")
    missed = rate < 200_000
    for name, measure, limit in at_most:
        reached = measure()
        print(f"{name:42s} {reached:12.3g}   at most {limit:g}")
        missed |= reached > limit
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
