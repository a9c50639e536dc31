"""Predicted largest batches against measured brackets: a batch that ran, and the next of the ladder that failed.

timm's benchmark lowers the batch along a ladder until the model runs, so that each of its rows brackets the largest
batch of a model on a GPU. A sample of these models is traced (kept in a folder, so that a second run is quick), the
largest batch predicted, and the two compared in steps of the ladder.

    python benchmarks/memory_brackets.py --traces FOLDER [--models 150] [--seconds 600] [--write]
"""

import argparse
import csv
import gzip
import hashlib
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from capplan.core.memory_model import MemoryModel
from capplan.core.memory_search import largest_fitting_batch
from capplan.core.trace import Trace
from capplan.core.trace_format import dump_trace, load_trace
from capplan.core.workload import Configuration, Framework, Layout, Optimizer, Precision, Training, Workload
from capplan.errors import CapplanError
from capplan.specs import load_gpus
from capplan.specs.memory_calibration import load_memory_calibration

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT.parent / "shared" / "data" / "measured" / "memory.csv.gz"
DOCUMENT = ROOT / "docs" / "memory-accuracy.md"
LADDER = (2048, 1536, 1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
_TORCH = {"pt19x?": (1, 9), "pt291": (2, 9)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """One measured row: `ran` is None where even the smallest batch tried failed; `start` is the first batch tried."""

    model: str
    size: int
    gpu: str
    workload: Workload
    ran: int | None
    failed: int
    start: int

    @property
    def traced_as(self) -> tuple[str, int, Configuration]:
        """What must be traced to predict it."""
        return self.model, self.size, self.workload.configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A bracket with the batch that was predicted; `steps` above zero is too high, by steps of the ladder."""

    bracket: Bracket
    predicted: int
    steps: int


def read_brackets(path: Path = MEASURED) -> Iterator[Bracket]:
    """Read timm's rows that tell where memory ended."""
    with gzip.open(path, "rt", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["library"] == "timm"]
    starts: dict[str, int] = {}
    for row in rows:
        tried = max(int(number) for number in re.findall(r"@(\d+)", row["bound_type"]))
        starts[row["source_file"]] = max(tried, starts.get(row["source_file"], 0))
    for row in rows:
        if "fails" in row["bound_type"]:
            bounds = dict(re.findall(r"(fits|fails)@(\d+)", row["bound_type"]))
            training = Training(optimizer=Optimizer.MOMENTUM) if row["task"] == "train" else None
            yield Bracket(
                model=row["model_ref"],
                size=int(row["img_or_seq"]),
                gpu=row["gpu_id"],
                workload=Workload(
                    precision=Precision(row["precision"]),
                    layout=Layout(row["layout"]),
                    framework=Framework.COMPILE if "compile" in row["framework"] else Framework.EAGER,
                    training=training,
                    torch_version=_torch_version(row["date_or_version"]),
                ),
                ran=int(bounds["fits"]) if "fits" in bounds else None,
                failed=int(bounds["fails"]),
                start=starts[row["source_file"]],
            )


def _torch_version(text: str) -> tuple[int, int]:
    word = text.split()[0]
    if word in _TORCH:
        return _TORCH[word]
    digits = word.removeprefix("pt")  # pt112 is 1.12, pt240 is 2.4.0
    return (1, int(digits[1:])) if digits[0] == "1" else (2, int(digits[1:-1]))


def obtain(model: str, size: int, configuration: Configuration, *, folder: Path) -> Trace | None:
    """Read a trace from the folder or make it; None where the model could not be traced, which is kept too."""
    from capplan.probe.inputs import parse_request
    from capplan.probe.target import load_target
    from capplan.probe.trace import trace_target

    name = f"{model.replace(':', '-')}-{size}-{str(configuration).replace('/', '-')}"
    path, refused = folder / f"{name}.trace.json.gz", folder / f"{name}.txt"
    if path.exists():
        return load_trace(path.read_bytes(), where=str(path))
    if refused.exists():
        return None
    try:
        request = parse_request(input_size=f"3x{size}x{size}")
        trace = trace_target(load_target(model, request=request), configurations=[configuration])
    except (CapplanError, RuntimeError, ValueError, TypeError, AssertionError, AttributeError) as error:
        refused.write_text(f"{type(error).__name__}: {error}")
        return None
    path.write_bytes(dump_trace(trace, compress=True))
    return trace


def sample(brackets: Iterable[Bracket], *, models: int) -> list[Bracket]:
    """Take all rows of some models, chosen by a hash of their name: the same ones at every run."""
    brackets = list(brackets)
    names = sorted({b.model for b in brackets}, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    chosen = set(names[:models])
    order = {name: index for index, name in enumerate(names)}
    return sorted((b for b in brackets if b.model in chosen), key=lambda b: (order[b.model], str(b.traced_as)))


def compare(brackets: Iterable[Bracket], *, folder: Path, seconds: float) -> list[Compared]:
    """Predict each bracket's largest batch; stop tracing after a time, and use what is there."""
    gpus, calibration = load_gpus(), load_memory_calibration()
    started = time.monotonic()
    compared: list[Compared] = []
    traces: dict[tuple[str, int, Configuration], Trace | None] = {}
    models: dict[tuple[str, int, Workload], MemoryModel] = {}
    for bracket in brackets:
        key = bracket.traced_as
        if key not in traces:
            traces.clear()
            models.clear()
            name = f"{key[0].replace(':', '-')}-{key[1]}-{str(key[2]).replace('/', '-')}.trace.json.gz"
            if time.monotonic() - started > seconds and not (folder / name).exists():
                traces[key] = None
            else:
                traces[key] = obtain(*key, folder=folder)
        trace = traces[key]
        if trace is None:
            continue
        model_key = (bracket.model, bracket.size, bracket.workload)
        if model_key not in models:
            models[model_key] = MemoryModel(trace=trace, workload=bracket.workload, calibration=calibration)
        gpu = gpus.find(bracket.gpu)
        predicted = largest_fitting_batch(models[model_key], gpu=gpu, available_bytes=gpu.expected_usable_bytes)
        compared.append(Compared(bracket=bracket, predicted=predicted, steps=_steps(bracket, predicted)))
    return compared


def _steps(bracket: Bracket, predicted: int) -> int:
    """Steps of the ladder from the measured to the predicted rung; the start of the ladder caps the prediction."""
    measured = LADDER.index(bracket.ran) if bracket.ran else _below(bracket.failed)
    rungs = [index for index, batch in enumerate(LADDER) if batch <= min(predicted, bracket.start)]
    reached = rungs[0] if rungs else len(LADDER)
    return measured - reached


def _below(failed: int) -> int:
    return LADDER.index(failed) + 1


def kind(bracket: Bracket) -> str:
    """Group rows whose errors have one cause."""
    workload = bracket.workload
    return f"{bracket.gpu} {'training' if workload.training else 'inference'} {workload.framework} {workload.layout}"


def summary(compared: list[Compared]) -> str:
    """Write the shares of rows inside their bracket, within one step, and too high by more than one."""
    groups: dict[str, list[int]] = {}
    for row in compared:
        for name in (kind(row.bracket), f"all {row.bracket.workload.framework}"):
            groups.setdefault(name, []).append(row.steps)
    lines = [f"{'rows':52}{'count':>6}{'inside':>9}{'±1 step':>9}{'low >1':>9}{'high >1':>9}  median"]
    for name, steps in sorted(groups.items()):
        count = len(steps)
        shares = [
            sum(s == 0 for s in steps), sum(abs(s) <= 1 for s in steps), sum(s < -1 for s in steps), sum(s > 1 for s in steps),
        ]  # fmt: skip
        middle = sorted(steps)[count // 2]
        lines.append(
            f"{name:52}{count:6}" + "".join(f"{100 * share / count:8.1f}%" for share in shares) + f"{middle:+7}"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Trace a sample, compare, print; `--write` renews the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--models", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--task", choices=("inference", "training"))
    parser.add_argument("--worst", type=int, default=0)
    words = parser.parse_args()
    words.traces.mkdir(parents=True, exist_ok=True)
    chosen = [
        b
        for b in sample(read_brackets(), models=words.models)
        if words.task is None or (words.task == "training") == (b.workload.training is not None)
    ]
    compared = compare(chosen, folder=words.traces, seconds=words.seconds)
    print(f"{len(compared)} of {len(chosen)} rows")
    if not compared:
        sys.exit("nothing could be compared")
    print(summary(compared))
    for row in sorted(compared, key=lambda row: -abs(row.steps))[: words.worst]:
        b = row.bracket
        print(
            f"{row.steps:+3} {row.predicted:6} ran {b.ran} failed {b.failed} {b.model} {b.size} {kind(b)} {b.workload.precision} {b.workload.torch_version}"
        )


if __name__ == "__main__":
    main()
