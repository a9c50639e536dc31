"""How fast a sweep from kept traces is, how its time grows, and how much memory it holds.

python benchmarks/sweep_speed.py TRACES [--models N] [--precision P] [--workers W] [--parts]
python benchmarks/sweep_speed.py --cold N [--precision P] [--workers W]

TRACES is a folder of trace files that hold the recording of the precision. The whole sweep covers N models, all GPUs
of the database and eleven batches; then models, GPUs and batches are halved and quartered, one at a time (--parts runs
these alone). --cold sweeps N models of torchvision and timm, spread over their names, with nothing in the cache, so
that each is traced first; it prints what 1,500 models would take at the same time a model. CPU time is that of all
processes of a sweep, so that it can be compared between machines under load; memory is the largest sum of what all of
them held at once.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from capplan.app.sweep.results import read_sweep
from capplan.processes.system import resident_bytes
from capplan.specs import load_gpus

BATCHES = [2**power for power in range(11)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One sweep: its models, GPUs and batches."""

    models: list[str]
    gpus: list[str]
    batches: list[int]
    is_cold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a sweep took: rows, time on the wall, CPU time [s], and the most memory [bytes]."""

    rows: int
    wall_s: float
    cpu_s: float
    memory_bytes: int


def run(case: Case, *, precision: str, workers: int) -> Taken:
    """Run a sweep of kept traces in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "models.txt").write_text("\n".join(case.models))
        (place / "sweep.yaml").write_text(
            f"models: [{place / 'models.txt'}]\ngpus: [{', '.join(case.gpus)}]\n"
            f"workloads:\n  - {{batch: {case.batches}, precision: {precision}}}\n"
        )
        words = [sys.executable, "-m", "capplan", "sweep", str(place / "sweep.yaml"), "-o", str(place / "out")]
        before, started = getrusage(RUSAGE_CHILDREN), time.monotonic()
        process = subprocess.Popen(
            [*words, "--workers", str(workers), "--progress", "none"],
            stdout=subprocess.DEVNULL,
            env={**os.environ, **({"XDG_CACHE_HOME": str(place / "cache")} if case.is_cold else {})},
        )
        peak = Peak(process.pid)
        status = process.wait()
        wall_s, after = time.monotonic() - started, getrusage(RUSAGE_CHILDREN)
        if status:
            raise SystemExit(f"the sweep ended with {status}")
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rows = len(read_sweep(place / "out"))
        return Taken(rows=rows, wall_s=wall_s, cpu_s=cpu_s, memory_bytes=peak.end())


class Peak:
    """Watches the memory of a process and all that it started."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._most = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self._most = max(self._most, sum(map(resident_bytes, tree_of(self._pid))))

    def end(self) -> int:
        """Return the most that was held. [bytes]"""
        self._stop.set()
        self._thread.join()
        return self._most


def tree_of(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(path.parent.name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def main() -> None:
    """Print a line for each sweep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="?")
    parser.add_argument("--parts", action="store_true", help="without the whole sweep")
    parser.add_argument("--cold", type=int, metavar="N", help="sweep N models that are traced first")
    parser.add_argument("--models", type=int, default=1500)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    words = parser.parse_args()
    gpus = list(load_gpus())
    print(f"{words.workers} workers, {words.precision}; rows/s on the wall, and per second of CPU time")
    if words.cold:
        cold(words.cold, gpus, precision=words.precision, workers=words.workers)
        return
    models = [str(path.resolve()) for path in sorted(words.traces.glob("*.trace.json*"))[: words.models]]
    step = max(1, len(models) // 64)
    few = models[::step]
    whole = Case(models=models, gpus=gpus, batches=BATCHES)
    part = Case(models=few, gpus=gpus, batches=BATCHES)
    cases = {
        **({} if words.parts else {"whole": whole}),
        f"{len(few)} models": part,
        "half the models": Case(models=few[::2], gpus=gpus, batches=BATCHES),
        "half the GPUs": Case(models=few, gpus=gpus[::2], batches=BATCHES),
        "a quarter of the GPUs": Case(models=few, gpus=gpus[::4], batches=BATCHES),
        "6 batches": Case(models=few, gpus=gpus, batches=BATCHES[::2]),
        "3 batches": Case(models=few, gpus=gpus, batches=BATCHES[::5]),
    }
    for name, case in cases.items():
        show(name, case, run(case, precision=words.precision, workers=words.workers))


def show(name: str, case: Case, taken: Taken) -> None:
    """Print what a sweep took."""
    size = f"{len(case.models)} models × {len(case.gpus)} GPUs × {len(case.batches)} batches"
    print(
        f"{name}: {size} = {taken.rows:,} rows in {taken.wall_s:.1f} s "
        f"({taken.rows / taken.wall_s:,.0f}/s), {taken.cpu_s:.1f} CPU-s "
        f"({taken.rows / taken.cpu_s:,.0f}/CPU-s), {taken.memory_bytes / 2**20:,.0f} MiB",
        flush=True,
    )


def cold(count: int, gpus: list[str], *, precision: str, workers: int) -> None:
    """Sweep models that nobody traced yet, and print what 1,500 of them would take."""
    from capplan.probe.target.names import source_names

    names = [f"{library}:{name}" for library in ("torchvision", "timm") for name in source_names(library)]
    taken_names = names[:: max(1, len(names) // count)][:count]
    case = Case(models=taken_names, gpus=gpus, batches=BATCHES, is_cold=True)
    taken = run(case, precision=precision, workers=workers)
    show("cold", case, taken)
    each = taken.cpu_s / len(taken_names)
    whole_min = 1500 * each / workers / 60
    print(f"{each:.2f} CPU-s a model with all that starts; 1,500 models: {whole_min:.0f} min on {workers} cores")


if __name__ == "__main__":
    main()
