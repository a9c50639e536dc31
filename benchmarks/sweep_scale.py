"""What the driver of a very large sweep does: how fast it keeps and commits answers, and what it holds.

python benchmarks/sweep_scale.py [--jobs N] [--gpus N]

Another process sends answers of a hundred made-up models under many names through a pipe, as workers do: no model is
planned, and what the sender takes is not counted. Prints rows per
second that one driver keeps and commits, bytes per row on the way and on disk, and the growth of the driver's memory
for each finished model.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from capplan.app.sweep import tables
from capplan.app.sweep.grid import Columns
from capplan.app.sweep.records import PARTIAL, Unit
from capplan.app.sweep.schema import PLANNED_COLUMNS, ColumnType
from capplan.app.sweep.store import ROWS_PER_FILE, WRITERS, SweepStore, Wanted
from capplan.processes.system import resident_bytes

BATCHES = [2**power for power in range(11)]
WORKLOAD = "fp32-eager-nchw-inference"


def made_up(gpus: list[str], seed: int) -> Columns:
    """Return rows that compress as little as real ones: every number differs."""
    rows = [(gpu, batch) for gpu in gpus for batch in BATCHES]
    columns: Columns = {}
    for each in PLANNED_COLUMNS:
        if each.kind is ColumnType.NUMBER:
            columns[each.name] = [1e-3 * (seed + 1) * (index + 1) ** 0.37 for index in range(len(rows))]
        elif each.kind is ColumnType.INTEGER:
            columns[each.name] = [2**20 * (index // 7) for index in range(len(rows))]
        elif each.kind is ColumnType.BOOLEAN:
            columns[each.name] = [True] * len(rows)
        else:
            columns[each.name] = ["measured"] * len(rows)
    return {**columns, "gpu": [gpu for gpu, _ in rows], "batch": [batch for _, batch in rows]}


DISTINCT = 100
"""Made-up models that the names share: more than one file of results holds, so that none compresses by repeats."""


def send(pipe: Connection, gpus: list[str], names: Sequence[str]) -> None:
    """Send the rows of each name; the pipe takes as much as its reader wants."""
    tables_sent = [
        tables.in_order(tables.planned_table(made_up(gpus, seed), model="", workload=WORKLOAD))
        for seed in range(min(DISTINCT, len(names)))
    ]
    place = tables_sent[0].schema.get_field_index("model")
    field = tables_sent[0].schema.field(place)
    for index, name in enumerate(names):
        table = tables_sent[index % DISTINCT]
        named = tables.arrow().array([name] * table.num_rows, field.type)
        pipe.send_bytes(tables.to_bytes(table.set_column(place, field, named)))


def main() -> None:
    """Print what the driver took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--gpus", type=int, default=500)
    words = parser.parse_args()
    gpus = [f"gpu-{index:03}" for index in range(words.gpus)]
    digests = {gpu: f"{index:024x}" for index, gpu in enumerate(gpus)}
    names = [f"timm:model_{index:06}" for index in range(words.jobs)]
    wanted = Wanted(units=frozenset((name, WORKLOAD) for name in names), gpus=digests, rents={})
    spawn = get_context("spawn")
    answers, sending = spawn.Pipe(duplex=False)
    sender = spawn.Process(target=send, args=(sending, gpus, names), daemon=True)
    sender.start()
    answers.poll(None)  # the sender has made its answers
    sent = 0
    rows_each = words.gpus * len(BATCHES)
    with tempfile.TemporaryDirectory() as folder, SweepStore(folder=Path(folder)) as store:
        before, started, uncommitted, most = resident_bytes_here(), time.process_time(), 0, 0
        here = time.thread_time()
        for name in names:
            answer = answers.recv_bytes()
            sent += len(answer)
            store.add(answer, [Unit(model=name, workload=WORKLOAD, key="0" * 24, gpus=digests)])
            uncommitted += rows_each
            if uncommitted >= ROWS_PER_FILE:
                store.commit_new(wanted, {"state": PARTIAL})
                uncommitted = 0
            most = max(most, resident_bytes_here())
        store.commit_all(wanted, {"state": PARTIAL}, rewrites=False)
        taken_s, here_s = time.process_time() - started, time.thread_time() - here
        files = store.contents.files.values()
        rows, size = sum(each.rows for each in files), sum(each.size_bytes for each in files)
        state = sum(path.stat().st_size for path in (Path(folder) / "_sweep").glob("*"))
    print(f"{words.jobs} models × {words.gpus} GPUs × {len(BATCHES)} batches = {rows:,} rows in {len(files)} files")
    print(
        f"kept and committed in {taken_s:.1f} CPU-s: {rows / taken_s:,.0f} rows/s, {words.jobs / taken_s:,.1f} models/s"
    )
    print(f"of it {here_s:.1f} CPU-s in the thread that receives: {rows / here_s:,.0f} rows/s beside {WRITERS} writers")
    print(f"{sent / rows:.0f} bytes a row on the way, {size / rows:.0f} on disk")
    print(f"{state / words.jobs:,.0f} bytes a model in _sweep")
    print(f"the driver grew by {(most - before) / 2**20:,.0f} MiB at most")


def resident_bytes_here() -> int:
    """Return the memory that this process holds. [bytes]"""
    return resident_bytes(os.getpid())


if __name__ == "__main__":
    main()
