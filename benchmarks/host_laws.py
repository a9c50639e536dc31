"""Choose laws of hosts, torch versions and slow kernels: desktops, an old torch, what is not split, padded, gathered.

    python benchmarks/host_laws.py ../shared/data/measured/latency-timm.csv.gz \\
        ../shared/data/measured/latency-other.csv.gz

writes the sections `desktop_share`, `older_torch_half_width`, `unsplit_flops`, `slow_convolutions` and `gathered_bytes`
of `capplan/calibrations/rates.yaml`; `--only` writes one of the last two alone.

`desktop_share` is scored on torchvision's models on players' cards (see accuracy_other.py), those rows whose estimate
waits for the host for half of its time or more under the share of 1: the mean over GPUs of the median log error. It is
printed once more without each GPU in turn. Servers' hosts are those of the batch curves (rate_laws.py).
`older_torch_half_width` is the 90th percentile of how far steps without attention, whose kernels are known to have
changed, moved from torch 1.13 to the next release in the data.
`unsplit_flops` is scored on the channels-last rows of one GPU that hold such a convolution, and its error on the rows
of the other GPUs is printed: the median log error by GPU.
`slow_convolutions` is scored likewise, class by class, on compiled rows in bf16 without autocast of one model of each
family, drawn at random, that it makes 2 % longer and more, by the mean error: few rows hold such convolutions.
`gathered_bytes` is scored likewise on the channels-last rows that it makes 2 % longer and more, on GPUs of many such
rows; what each GPU alone would choose is printed.
"""

import argparse
import csv
import gzip
import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
from accuracy_other import COLUMNS, mapped
from step_splits import of_each_family

from capplan.app.calibration.measured_models import group_runs, trace_folder
from capplan.app.calibration.validate import predict_steps
from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.calibrate.validation import JudgedStep
from capplan.core.gpus.rate_laws import RateLaws, is_consumer
from capplan.core.latency.classes import ATTENTION, BATCHED_MATMUL, kernel_class
from capplan.core.latency.lookup import workload_kind
from capplan.core.latency.types import Binding
from capplan.core.numbers import FloatArray
from capplan.core.workload import Layout, Variant
from capplan.errors import CapplanError
from capplan.specs import Gpus, load_gpus
from capplan.specs.calibration import load_calibration
from capplan.specs.folders import calibration_file
from capplan.specs.measurements import read_measured
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

UNSPLIT = (0.0, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04)
SLOW = {"conv stem": (1.0, 1.25, 1.5, 2.0, 2.5), "conv": (1.0, 1.5, 2.0, 3.0, 4.0)}
GATHERED = (0.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0)
_LONGER = 1.02
_MANY = 20
"""Rows from which on a GPU's say what an unsplit convolution takes."""
SHARES = (1.0, 0.7, 0.6, 0.5, 0.4, 0.3)
_WAITS = 0.5
"""From this share of launches in an estimate on, a step waits for the host."""
_OLD, _NEXT = (1, 13), (2, 1)
_COMMAND = "python benchmarks/host_laws.py latency-timm.csv.gz latency-other.csv.gz"
_GATHERED, _SLOW = "gathered_bytes", "slow_convolutions"


def players_rows(path: Path, gpus: Gpus) -> list[MeasuredStep]:
    """Return the timed steps of players' cards among the rows of other projects.

    Args:
        path: latency-other.csv.gz.
        gpus: the database.
    """
    with gzip.open(path, "rt", newline="") as stream:
        found = [each for each in map(mapped, csv.DictReader(stream)) if not isinstance(each, str)]
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "mapped.csv"
        with kept.open("w", newline="") as out:
            writer = csv.DictWriter(out, COLUMNS)
            writer.writeheader()
            writer.writerows(found)
        steps = read_measured(kept).steps
    return [step for step in steps if (gpu := gpus.find_or_none(step.gpu)) is not None and is_consumer(gpu)]


def judged_under(laws: RateLaws, steps: list[MeasuredStep], gpus: Gpus, traces: Path | None) -> list[JudgedStep]:
    """Predict steps under some laws.

    Args:
        laws: the candidate.
        steps: what was timed.
        gpus: the database.
        traces: where traces are kept.
    """
    shipped = load_calibration()
    parts = {name: replace(part, laws=laws) for name, part in shipped.parts.items()}
    calibration = replace(shipped, laws=laws, parts=parts)
    return predict_steps(steps, gpus=gpus, calibration=calibration, folder=traces)[0]


def errors_by_gpu(steps: list[MeasuredStep], gpus: Gpus, traces: Path | None) -> dict[float, dict[str, float]]:
    """Return the median log error on each GPU of the steps that wait for the host, by share of desktops."""
    shipped = load_rate_laws()
    all_slow = judged_under(replace(shipped, desktop_share=1.0), steps, gpus, traces)
    waits = [
        each.step for each in all_slow if dict(each.estimate.share_by_binding)[Binding.LAUNCHES] >= _WAITS
    ]  # fmt: skip
    found: dict[float, dict[str, float]] = {}
    for share in SHARES:
        errors: dict[str, list[float]] = defaultdict(list)
        for each in judged_under(replace(shipped, desktop_share=share), waits, gpus, traces):
            errors[each.step.gpu].append(abs(each.log_error))
        found[share] = {gpu: float(np.median(logs)) for gpu, logs in errors.items()}
        print(f"desktop share {share}: {np.mean([*found[share].values()]):.3f}", found[share], flush=True)
    return found


def best_share(errors: dict[float, dict[str, float]], *, without: str = "") -> float:
    """Return the share of the smallest mean error over GPUs.

    Args:
        errors: median log errors by share and GPU.
        without: a GPU that does not count.
    """
    return min(errors, key=lambda share: np.mean([log for gpu, log in errors[share].items() if gpu != without]))


def best_of_law(
    law: str, values: tuple[float, ...], steps: list[MeasuredStep], gpus: Gpus, traces: Path | None, *, longer: float
) -> tuple[float, int]:
    """Return the value of a law of the smallest error on GPUs of many rows that it touches, and how many it touches.

    Args:
        law: the number of `RateLaws` that is chosen.
        values: the candidates; the first leaves the kernels in question as others are, the last slows them most.
        steps: what was timed.
        gpus: the database.
        traces: where traces are kept.
        longer: by more than this factor a step that counts takes longer under the last value.
    """
    shipped = load_rate_laws()
    first, last = (
        judged_under(replace(shipped, **{law: value}), steps, gpus, traces) for value in (values[0], values[-1])
    )  # fmt: skip
    held = [
        low.step for low, high in zip(first, last, strict=True)
        if high.estimate.latency_s.expected > longer * low.estimate.latency_s.expected
    ]  # fmt: skip
    many = {gpu for gpu, count in Counter(step.gpu for step in held).items() if count >= _MANY}
    by_value: dict[float, dict[str, float]] = {}
    for value in values:
        errors: dict[str, list[float]] = defaultdict(list)
        for judged in judged_under(replace(shipped, **{law: value}), held, gpus, traces):
            errors[judged.step.gpu].append(abs(judged.log_error))
        by_value[value] = {gpu: float(np.median(logs)) for gpu, logs in errors.items()}
        print(law, value, by_value[value], {gpu: len(logs) for gpu, logs in errors.items()}, flush=True)
    for gpu in sorted(many):
        print(f"{law}, {gpu} alone: {min(values, key=lambda value: by_value[value][gpu])}", flush=True)
    return min(values, key=lambda value: np.mean([by_value[value][gpu] for gpu in many])), len(held)


def channels_last_rows(path: Path) -> list[MeasuredStep]:
    """Return the channels-last rows of eager inference.

    Args:
        path: latency-timm.csv.gz.
    """
    steps = read_measured(path).steps
    return [
        step for step in steps if workload_kind(step.workload) == "eager" and step.workload.layout is Layout.NHWC
    ]  # fmt: skip


def slow_convolutions(steps: list[MeasuredStep], gpus: Gpus, traces: Path | None) -> tuple[dict[str, float], str]:
    """Return how many times as long each class of slow convolutions takes, and how many rows say so.

    Args:
        steps: what was timed.
        gpus: the database.
        traces: where traces are kept.
    """
    shipped, counts = load_rate_laws(), []
    found = dict.fromkeys(SLOW, 1.0)
    for label, values in SLOW.items():
        by_value = {
            value: judged_under(replace(shipped, slow_convolutions={**found, label: value}), steps, gpus, traces)
            for value in values
        }  # fmt: skip
        low, high = (by_value[end] for end in (values[0], values[-1]))
        touched = [
            index for index, (one, other) in enumerate(zip(low, high, strict=True))
            if other.estimate.latency_s.expected > _LONGER * one.estimate.latency_s.expected
        ]  # fmt: skip
        errors = {value: float(np.mean([abs(rows[i].log_error) for i in touched])) for value, rows in by_value.items()}
        print(_SLOW, label, errors, len(touched), flush=True)
        found[label] = min(errors, key=lambda value: errors[value])
        counts.append(f"{len(touched)} for {label}")
    return found, ", ".join(counts)


def version_moves(path: Path, traces: Path | None) -> FloatArray:
    """Return how far eager steps without attention moved from the last torch 1 release to the next one, in logs.

    Args:
        path: latency-timm.csv.gz.
        traces: where traces are kept.
    """
    store, moved = trace_folder(traces), []
    wanted = [step for step in read_measured(path).steps if step.workload.torch_version in (_OLD, _NEXT)]
    wanted = [step for step in wanted if workload_kind(step.workload) == "eager"]
    by_model: dict[object, dict[tuple[int, int], MeasuredStep]] = defaultdict(dict)
    for step in wanted:
        work = replace(step.workload, torch_version=(0, 0))
        by_model[step.gpu, step.model, step.input_size, work][step.workload.torch_version] = step
    for pair in by_model.values():
        if len(pair) < 2:
            continue
        run = next(iter(group_runs([pair[_NEXT]])))
        try:
            kernels = store.obtain(run).recording(run.configuration).kernels
        except CapplanError:
            continue
        if not any(kernel_class(kernel) in (ATTENTION, BATCHED_MATMUL) for kernel in kernels):
            old, new = (pair[version].latency_s / pair[version].batch for version in (_OLD, _NEXT))
            moved.append(abs(float(np.log(new / old))))
    return np.array(moved)


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=Path)
    parser.add_argument("others", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    parser.add_argument("--only", choices=(_GATHERED, _SLOW))
    words = parser.parse_args()
    gpus, path = load_gpus(), calibration_file(RATES_FILE)
    if words.only != _GATHERED:
        compiled = [step for step in read_measured(words.steps).steps if workload_kind(step.workload) == "compile"]
        compiled = of_each_family([step for step in compiled if step.workload.precision.variant is Variant.HALF])
        found, rows_of = slow_convolutions(compiled, gpus, words.traces)
        data = f"latency-timm.csv.gz: compiled rows in bf16 of one model of each family, {rows_of}"
        origin = LawsOrigin(sections=(_SLOW,), made=words.made, command=_COMMAND, data=data)
        replace_sections(path, replace(load_rate_laws(path), slow_convolutions=found), origin)
    if words.only == _SLOW:
        return
    rows = channels_last_rows(words.steps)
    gathered, count = best_of_law(_GATHERED, GATHERED, rows, gpus, words.traces, longer=_LONGER)
    replace_sections(
        path,
        replace(load_rate_laws(path), gathered_bytes=gathered),
        LawsOrigin(
            sections=(_GATHERED,), made=words.made, command=_COMMAND,
            data=f"latency-timm.csv.gz: {count} channels-last rows that copy channels-last images to row-major ones",
        ),
    )  # fmt: skip
    if not words.only:
        _choose_others(words, gpus, path, [step for step in rows if step.workload.torch_version >= _NEXT])


def _choose_others(words: argparse.Namespace, gpus: Gpus, path: Path, channels_last: list[MeasuredStep]) -> None:
    rows = players_rows(words.others, gpus)
    errors = errors_by_gpu(rows, gpus, words.traces)
    for gpu in errors[SHARES[0]]:
        print(f"without {gpu}: {best_share(errors, without=gpu)}", flush=True)
    moves = version_moves(words.steps, words.traces)
    unsplit, unsplit_rows = best_of_law("unsplit_flops", UNSPLIT, channels_last, gpus, words.traces, longer=1.0)
    laws = replace(
        load_rate_laws(path), desktop_share=best_share(errors), older_torch_half_width=float(np.quantile(moves, 0.9)),
        unsplit_flops=unsplit,
    )  # fmt: skip
    data = (
        f"latency-other.csv.gz: {len(rows)} rows of players' cards, those that wait for the host; "
        f"latency-timm.csv.gz: {len(moves)} pairs of torch 1.13 and 2.1, {unsplit_rows} rows of unsplit convolutions"
    )
    sections = ("desktop_share", "older_torch_half_width", "unsplit_flops")
    replace_sections(path, laws, LawsOrigin(sections=sections, made=words.made, command=_COMMAND, data=data))


if __name__ == "__main__":
    main()
