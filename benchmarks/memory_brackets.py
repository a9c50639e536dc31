"""Predicted largest batches against measured brackets: a batch that ran, and the next of the ladder that failed.

timm's benchmark lowers the batch along a ladder until the model runs, so that each of its rows brackets the largest
batch of a model on a GPU. A sample of these models is traced (kept in a folder, so that a second run is quick), the
largest batch predicted, and the two compared in steps of the ladder.

    python benchmarks/memory_brackets.py --traces FOLDER [--models 150] [--seconds 600] [--fit] [--write]
"""

import argparse
import csv
import gzip
import hashlib
import itertools
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path

from pages import EVIDENCE, write_section

from capplan.core.memory.fit import largest_fitting_batch
from capplan.core.memory.index_limit import index_limit_batch
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.types import ConvolutionWorkspaces, MemoryCalibration
from capplan.core.numbers import Interval
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Framework, Layout, Optimizer, Precision, Training, Workload
from capplan.errors import CapplanError
from capplan.specs import Gpus, load_gpus
from capplan.specs.calibration import load_memory_calibration

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT.parent / "shared" / "data" / "measured" / "memory.csv.gz"
DOCUMENT = EVIDENCE / "memory.md"
CALIBRATION = ROOT / "capplan" / "calibrations" / "memory.yaml"
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


class Cause(StrEnum):
    """Why the next batch failed, as far as can be told."""

    MEMORY = "memory"
    INDEX = "a tensor of 2^31 elements or more"
    COMPILED = "memory of compiled graphs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A bracket with the batch that was predicted; `steps` above zero is too high, by steps of the ladder."""

    bracket: Bracket
    predicted: int
    steps: int
    cause: Cause


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
    word = text.split(maxsplit=1)[0]
    if word in _TORCH:
        return _TORCH[word]
    digits = word.removeprefix("pt")  # pt112 is 1.12, pt240 is 2.4.0
    return (1, int(digits[1:])) if digits[0] == "1" else (2, int(digits[1:-1]))


def trace_path(model: str, size: int, configuration: Configuration, *, folder: Path) -> Path:
    """Where a trace is kept."""
    name = f"{model.replace(':', '-')}-{size}-{str(configuration).replace('/', '-')}"
    return folder / f"{name}.trace.json.gz"


def obtain(model: str, size: int, configuration: Configuration, *, folder: Path) -> Trace | None:
    """Read a trace from the folder or make it; None where the model could not be traced, which is kept too."""
    from capplan.probe.inputs.grammar import parse_request
    from capplan.probe.target.resolve import load_target
    from capplan.probe.trace.tracer import trace_target

    path = trace_path(model, size, configuration, folder=folder)
    refused = path.with_suffix(".txt")
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


def gather(brackets: Iterable[Bracket], *, folder: Path, seconds: float) -> Iterator[tuple[Bracket, Trace]]:
    """Pair brackets with traces; stop making new ones after a time, and use what is there."""
    started = time.monotonic()
    for key, rows in itertools.groupby(brackets, key=lambda bracket: bracket.traced_as):
        held = trace_path(*key, folder=folder).exists()
        trace = obtain(*key, folder=folder) if held or time.monotonic() - started < seconds else None
        if trace is not None:
            yield from ((bracket, trace) for bracket in rows)


def compare(pairs: Iterable[tuple[Bracket, Trace]], calibration: MemoryCalibration, gpus: Gpus) -> Iterator[Compared]:
    """Predict each bracket's largest batch."""
    models: dict[tuple[str, int, Workload], MemoryModel] = {}
    for bracket, trace in pairs:
        key = (bracket.model, bracket.size, bracket.workload)
        if key not in models:
            models.clear()
            models[key] = MemoryModel(trace=trace, workload=bracket.workload, calibration=calibration)
        gpu = gpus.find(bracket.gpu)
        predicted = largest_fitting_batch(models[key], gpu=gpu, available_bytes=gpu.expected_usable_bytes)
        yield Compared(
            bracket=bracket, predicted=predicted, steps=_steps(bracket, predicted), cause=_cause(bracket, trace)
        )


def _cause(bracket: Bracket, trace: Trace) -> Cause:
    limit = index_limit_batch(trace.recording(bracket.workload.configuration))
    if limit is not None and bracket.failed > limit:
        return Cause.INDEX
    return Cause.MEMORY if bracket.workload.framework is Framework.EAGER else Cause.COMPILED


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
    mode = "training" if workload.training else "inference"
    return f"{bracket.gpu}, {mode}, {workload.framework}, {workload.layout}"


def summary(compared: Sequence[Compared], cause: Cause) -> str:
    """Write the shares of rows inside their bracket, within one step, and off by more, as a Markdown table."""
    groups: dict[str, list[int]] = {}
    for row in compared:
        if row.cause is cause:
            mode = "training" if row.bracket.workload.training else "inference"
            for name in (kind(row.bracket), f"**all, {mode}**", "**all**"):
                groups.setdefault(name, []).append(row.steps)
    lines = [
        "| rows | count | inside | within one step | low by more | high by more |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, steps in sorted(groups.items(), key=lambda item: (item[0].startswith("*"), item[0])):
        shares = [
            sum(step == 0 for step in steps),
            sum(abs(step) <= 1 for step in steps),
            sum(step < -1 for step in steps),
            sum(step > 1 for step in steps),
        ]
        lines.append(f"| {name} | {len(steps)} | " + " | ".join(f"{100 * s / len(steps):.1f} %" for s in shares) + " |")
    return "\n".join(lines) + "\n"


def exceptions(compared: Sequence[Compared]) -> str:
    """List what is off by more than one step where memory was the cause, a line per model, release and layout."""
    found: dict[str, list[Compared]] = {}
    for row in compared:
        if abs(row.steps) > 1 and row.cause is Cause.MEMORY:
            b = row.bracket
            found.setdefault(
                f"{b.model} at {b.size}, {kind(b)}, torch {'.'.join(map(str, b.workload.torch_version))}", []
            ).append(row)
    lines = [
        f"- {name}: {rows[0].steps:+d} steps (predicted {rows[0].predicted}, ran {rows[0].bracket.ran}, "
        f"failed {rows[0].bracket.failed})"
        for name, rows in sorted(found.items())
    ]
    return "\n".join(lines or ["- none"]) + "\n"


def too_low(compared: Sequence[Compared]) -> str:
    """Count the compiled rows that ran at a batch above the prediction: an index limit cannot excuse these."""
    compiled = [row for row in compared if row.bracket.workload.framework is not Framework.EAGER]
    refuted = sum((row.bracket.ran or 0) > row.predicted for row in compiled)
    return f"Of {len(compiled)} compiled rows {refuted} ran at a batch above the predicted one.\n"


def learnt_from(pairs: Iterable[tuple[Bracket, Trace]]) -> list[tuple[Bracket, Trace]]:
    """Take the rows that the shares are fitted on."""
    return [
        pair
        for pair in pairs
        if _is_learnt(pair[0]) and pair[0].workload.training is None and _cause(*pair) is Cause.MEMORY
    ]


def fit(pairs: Sequence[tuple[Bracket, Trace]], calibration: MemoryCalibration, gpus: Gpus) -> MemoryCalibration:
    """Choose the shares of cuDNN's workspaces on every other model's inference, NCHW first; the rest are for judging.

    Training does not tell: its peaks stand where no convolution needs more than what is free.
    """
    learnt = learnt_from(pairs)
    best, best_score = calibration, -1.0
    for nchw_half, other in ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (1.0, 0.15), (1.0, 0.3)):
        shares = ConvolutionWorkspaces(
            nchw_half=Interval(low=0, expected=nchw_half, high=max(1.0, nchw_half)),
            other=Interval(low=0, expected=other, high=1.0),
        )
        tried = replace(calibration, convolution_workspaces=shares)
        steps = [row.steps for row in compare(learnt, tried, gpus)]
        score = sum(step == 0 for step in steps) / len(steps)
        print(f"nchw_half {nchw_half} other {other}: {100 * score:.1f} % of {len(steps)} inside", flush=True)
        if score > best_score:
            best, best_score = tried, score
    return best


def _is_learnt(bracket: Bracket) -> bool:
    return hashlib.sha256(bracket.model.encode()).digest()[-1] % 2 == 0


def write_calibration(calibration: MemoryCalibration, *, rows: int, models: int) -> None:
    """Put the fitted shares into the calibration file, with the data, the date and the command."""
    text = CALIBRATION.read_text()
    for name in ("nchw_half", "other"):
        share: Interval = getattr(calibration.convolution_workspaces, name)
        line = f"  {name}: {{low: {share.low:.1f}, expected: {share.expected:.2f}, high: {share.high:.2f}}}"
        text = re.sub(rf"^  {name}: .*$", line, text, flags=re.MULTILINE)
    text = re.sub(r"^  made: .*$", f"  made: {date.today()}", text, flags=re.MULTILINE)
    told = f"{rows} brackets of {models} models in memory.csv.gz (timm, RTX 3090 and 4090), every other one of a sample"
    CALIBRATION.write_text(re.sub(r"^  data: .*$", f"  data: {told}", text, flags=re.MULTILINE))


def write_document(compared: Sequence[Compared]) -> None:
    """Renew the tables of the document between their markers."""
    held = [row for row in compared if not _is_learnt(row.bracket)]
    parts = {
        "memory": summary(compared, Cause.MEMORY),
        "held-out": summary(held, Cause.MEMORY),
        "index": summary(compared, Cause.INDEX),
        "compiled": summary(compared, Cause.COMPILED),
        "exceptions": exceptions(compared),
        "too-low": too_low(compared),
    }
    for name, content in parts.items():
        write_section(DOCUMENT, f"brackets-{name}", content)


def main() -> None:
    """Trace a sample, compare, print; `--fit` renews the calibration, `--write` the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="folder that keeps the traces")
    parser.add_argument("--models", type=int, default=150, help="models in the sample")
    parser.add_argument("--seconds", type=float, default=3600, help="time for making traces")
    parser.add_argument("--task", choices=("inference", "training"))
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--write", action="store_true")
    words = parser.parse_args()
    words.traces.mkdir(parents=True, exist_ok=True)
    chosen = [
        bracket
        for bracket in sample(read_brackets(), models=words.models)
        if words.task is None or (words.task == "training") == (bracket.workload.training is not None)
    ]
    pairs = list(gather(chosen, folder=words.traces, seconds=words.seconds))
    if not pairs:
        sys.exit("nothing could be compared")
    gpus, calibration = load_gpus(), load_memory_calibration()
    if words.fit:
        calibration = fit(pairs, calibration, gpus)
        learnt = [bracket for bracket, _ in learnt_from(pairs)]
        write_calibration(calibration, rows=len(learnt), models=len({bracket.model for bracket in learnt}))
    compared = list(compare(pairs, calibration, gpus))
    print(f"{len(compared)} of {len(chosen)} rows, {len({row.bracket.model for row in compared})} models")
    for cause in Cause:
        print(f"\n{cause}\n{summary(compared, cause)}")
    print(exceptions(compared))
    if words.write:
        write_document(compared)


if __name__ == "__main__":
    main()
