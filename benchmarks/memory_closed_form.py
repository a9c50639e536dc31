"""The closed form over batches against fresh traces at batch 1 and at random batches: equal, byte for byte?

What is compared is the peak of live bytes, FLOPs, and the bytes that operators read and write. Each model's outcome is
a row of a file, written as it is made; models that the file holds are not run again.

    python benchmarks/memory_closed_form.py [--models 100 --seed 0] [--batches 10] [--output FILE.csv]
"""

import argparse
import collections
import contextlib
import csv
import functools
import gc
import hashlib
import random
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from pages import EVIDENCE

from capplan.core.memory.schedule import live_curve
from capplan.core.ops.flops import kernel_flops
from capplan.core.trace.types import Recording
from capplan.core.workload import Configuration
from capplan.errors import CapplanError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.target.sources.image_zoos import timm_names, torchvision_names
from capplan.probe.trace.tracer import Remake, trace_module

OUTPUT = EVIDENCE / "memory-closed-form.csv"
LARGEST_BATCH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model's outcome: `equal`, `differs` (where, and how), `equal but at 1` (ten random batches are equal, batch 1
    is not), `one batch` (no closed form is claimed), or `not traced`. `batches` are the random ones.
    """

    model: str
    outcome: str
    batches: int
    detail: str


def main() -> None:
    """Compare the models that the file lacks; print the shares over all it then holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=None, help="how many, chosen by --seed; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = list(read_rows(words.output))
    held = {row.model for row in rows}
    for model in chosen(seed=words.seed, models=words.models):
        if model not in held:
            started = time.monotonic()
            rows.append(compare(model, count=words.batches))
            append_row(words.output, rows[-1])
            print(f"{model}: {rows[-1].outcome} {rows[-1].detail} ({time.monotonic() - started:.1f} s)", flush=True)
            gc.collect()
    print(summary(rows))


def chosen(*, seed: int, models: int | None) -> list[str]:
    """Put all names of timm and torchvision in the seed's order, and take the first."""
    names = [f"timm:{name}" for name in timm_names()] + [f"torchvision:{name}" for name in torchvision_names()]
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}{name}".encode()).hexdigest())[:models]


def compare(model: str, *, count: int) -> Row:
    """Compare one model's closed form at random batches with fresh traces, each of the model as it was built."""
    row = functools.partial(Row, model=model)
    try:
        target = load_target(model, request=parse_request())
        with torch.device("meta"):
            module = target.build()
        trace = functools.partial(
            trace_module, module, target.make_inputs, name=target.name, remake=Remake(rebuild=target.build)
        )
        closed = trace(exact_batch=target.only_batch).recording(Configuration())
        if closed.exact_batch is not None:
            return row(outcome="one batch", batches=0, detail="does not grow evenly with the batch, and says so")
        for batch in (*random.Random(model).sample(range(2, LARGEST_BATCH + 1), count), 1):
            fresh = trace(exact_batch=batch).recording(Configuration())
            if told := difference(closed, fresh, batch):
                return row(
                    outcome="equal but at 1" if batch == 1 else "differs",
                    batches=count,
                    detail=f"at batch {batch}: {told}",
                )
    except CapplanError as error:
        return row(outcome="not traced", batches=0, detail=str(error)[:200])
    return row(outcome="equal", batches=count, detail="")


def difference(closed: Recording, fresh: Recording, batch: int) -> str:
    """Say in what two recordings differ at a batch, by closed form and as traced; nothing if they do not."""
    pairs = {name: (measure(closed, batch), measure(fresh, batch)) for name, measure in MEASURES.items()}
    return ", ".join(f"{name} {one} {other}" for name, (one, other) in pairs.items() if one != other)


def peak_bytes(recording: Recording, batch: int) -> int:
    return live_curve(recording).peak_bytes(batch)


def flops(recording: Recording, batch: int) -> int:
    counts = zip(recording.kernels, recording.calls_per_kernel(), strict=True)
    return sum(count * kernel_flops(kernel, batch) for kernel, count in counts)


def traffic_bytes(recording: Recording, batch: int) -> int:
    counts = zip(recording.kernels, recording.calls_per_kernel(), strict=True)
    return sum(
        count * sum(operand.size_bytes(batch) for operand in (*kernel.inputs, *kernel.outputs))
        for kernel, count in counts
    )


MEASURES = {"peak": peak_bytes, "FLOPs": flops, "traffic": traffic_bytes}


def read_rows(path: Path) -> Iterator[Row]:
    with contextlib.suppress(FileNotFoundError), path.open(newline="") as file:
        for row in csv.DictReader(file):
            yield Row(model=row["model"], outcome=row["outcome"], batches=int(row["batches"]), detail=row["detail"])


def append_row(path: Path, row: Row) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(asdict(row))


def summary(rows: Sequence[Row]) -> str:
    """Count the outcomes by zoo, as a Markdown table."""
    if not rows:
        sys.exit("no model could be compared")
    lines = [
        "| zoo | models run | equal at ten random batches | differ | no closed form claimed | not traced "
        "| of the equal, another peak at batch 1 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for zoo in ("timm", "torchvision", ""):
        found = [row for row in rows if row.model.startswith(zoo)]
        counts = collections.Counter(row.outcome for row in found)
        equal = counts["equal"] + counts["equal but at 1"]
        share = f"{equal} ({100 * equal / max(1, len(found)):.1f} %)"
        peaks = sum(row.outcome == "equal but at 1" and "peak" in row.detail for row in found)
        cells = (len(found), share, counts["differs"], counts["one batch"], counts["not traced"], peaks)
        lines.append(f"| {zoo or 'both'} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
