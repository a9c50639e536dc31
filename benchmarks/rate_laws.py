"""Choose the laws that no single row tells: what is lost beside tensor cores, to latency, to an old host.

    python benchmarks/rate_laws.py ../shared/data/measured/latency-timm.csv.gz \\
        ../shared/data/measured/latency-curves.csv.gz ../shared/data/llm/op-gemm-vllm.csv.gz \\
        ../shared/data/llm/op-attention-prefill.csv.gz ../shared/data/measured/kernels-fp32.csv.gz

writes its sections of `capplan/calibrations/rates.yaml` and prints every candidate's score. Models are drawn from the
first file until `--rows` are reached. A candidate's score is the median error on each GPU of the steps that the device
decides, fitted without that GPU, averaged over GPUs; the age of hosts is scored on steps that wait for the host. Single
kernels (the files from the third on) are fitted with the steps and not scored.
Candidates are tried one law after another, each with the best of those before. A law stays as it is, or moves as little
as it can, among the candidates within `--least` of the best: a score's standard error, of so many rows, is above that.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
from accuracy import CUDA_REFERENCE, drawn

from capplan.app.calibration.measured_models import group_runs, recording_for, trace_folder
from capplan.core.calibrate.dataset import TimedStep, held_out_together, timed_step
from capplan.core.calibrate.fit import fit_rows
from capplan.core.calibrate.kernels import MeasuredKernel, MeasuredOperator, kernel_step
from capplan.core.calibrate.measured import MeasuredStep
from capplan.core.calibrate.residuals import LatencyFit
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import prior_calibration
from capplan.core.latency.lookup import workload_kind
from capplan.core.latency.op_table import KernelTable, kernel_table
from capplan.core.latency.step import ExecutedStep
from capplan.core.numbers import BoolArray, FloatArray
from capplan.core.trace.types import Recording
from capplan.errors import CapplanError
from capplan.specs import Gpus, load_gpus
from capplan.specs.folders import calibration_file
from capplan.specs.kernels import read_kernels
from capplan.specs.measurements import read_measured
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

SECTIONS = ("streaming", "issue_share", "serial_step_s", "hosts", "transfer")
_COMMAND = (
    "python benchmarks/rate_laws.py latency-timm.csv.gz latency-curves.csv.gz op-gemm-vllm.csv.gz "
    "op-attention-prefill.csv.gz kernels-fp32.csv.gz"
)
_FEWEST_LAUNCH_BOUND = 2
"""Steps up to this batch wait for the host."""
_FIRST_ITERATIONS, _MORE_ITERATIONS = 20, 6
"""Of a fit from the guesses, and of one from the constants that the first laws left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabled:
    """A measured step with its kernels tabulated, which no law changes."""

    measured: MeasuredStep
    table: KernelTable
    recording: Recording
    gpu: GpuSpec
    family: str
    is_curve: bool

    def under(self, laws: RateLaws) -> TimedStep | None:
        """Return the step as the fit sees it under some laws."""
        return timed_step(
            self.table, self.recording, self.measured.workload, gpu=self.gpu, column=0,
            latency_s=self.measured.latency_s, family=self.family, laws=laws,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A single kernel, which is fitted and not scored."""

    kernel: MeasuredKernel | MeasuredOperator
    gpu: GpuSpec

    def under(self, laws: RateLaws) -> TimedStep | None:
        """Return the kernel as the fit sees it under some laws."""
        return kernel_step(self.kernel, self.gpu, laws)


def tabled(steps: Sequence[MeasuredStep], gpus: Gpus, traces: Path | None, *, is_curve: bool) -> list[Tabled]:
    """Trace and tabulate steps; those whose model cannot be traced are left out."""
    store, found = trace_folder(traces), []
    known = replace(prior_calibration(), laws=load_rate_laws())
    for run, members in group_runs(steps).items():
        try:
            trace = store.obtain(run)
        except CapplanError:
            continue
        for step in members:
            gpu = gpus.find_or_none(step.gpu)
            if gpu is None or gpu.is_cpu:
                continue
            executed = ExecutedStep.of(recording_for(trace, run, step), step.workload, calibration=known)
            found.append(
                Tabled(
                    measured=step, table=kernel_table(executed, batches=[step.batch]), recording=executed.recording,
                    gpu=gpu, family=held_out_together(step, is_rich=not is_curve), is_curve=is_curve,
                )
            )  # fmt: skip
    return found


@dataclass(slots=True)
class Judge:
    """Scores laws by fits without whole GPUs."""

    rows: Sequence[Tabled | Alone]
    starts: dict[str, FloatArray] = field(default_factory=dict)

    def score(self, laws: RateLaws, gpus: Sequence[str], chosen: BoolArray) -> float:
        """Return the median error of some rows of each GPU, fitted without the GPU, averaged over GPUs.

        Args:
            laws: the candidate.
            gpus: the GPUs that are left out in turn.
            chosen: the rows that count.
        """
        steps = [row.under(laws) for row in self.rows]
        assert all(step is not None for step in steps)
        rows = fit_rows([step for step in steps if step is not None], laws)
        on = np.array([row.gpu.id for row in self.rows])
        errors = []
        for gpu in gpus:
            fit = LatencyFit(rows.select(np.flatnonzero(on != gpu)))
            asked = rows.select(np.flatnonzero((on == gpu) & chosen))
            start = self.starts.get(gpu)
            found = fit.fit(start=start, iterations=_FIRST_ITERATIONS if start is None else _MORE_ITERATIONS)
            self.starts.setdefault(gpu, found)
            logs = np.log(fit.predicted_s(found, asked) / asked.latency_s)
            errors.append(float(np.median(np.abs(logs))))
        return float(np.mean(errors))


Candidates = Sequence[tuple[str, RateLaws]]


def device_candidates() -> Sequence[Callable[[RateLaws], Candidates]]:
    """Return what to try, law by law, for steps that the device decides."""

    def streaming(now: RateLaws) -> Candidates:
        costs = (0.0, 0.0125, 0.025, 0.0375, 0.05)
        return [
            (f"streaming {cost}", replace(now, streaming=replace(now.streaming, in_half=cost, in_single=cost / 2)))
            for cost in costs
        ]

    def issue(label: str) -> Callable[[RateLaws], Candidates]:
        return lambda now: [
            (f"issue share of {label} {share}", replace(now, issue_share={**now.issue_share, label: share}))
            for share in (0.0, 0.25, 0.5, 0.75, 1.0)
        ]

    def serial(now: RateLaws) -> Candidates:
        times_s = (1e-7, 2e-7, 3e-7, 5e-7)
        return [(f"serial step {time_s:.1e} s", replace(now, serial_step_s=time_s)) for time_s in times_s]

    return (streaming, issue("conv grouped"), issue("attention"), serial)


def host_candidates() -> Sequence[Callable[[RateLaws], Candidates]]:
    """Return what to try for steps that wait for the host."""

    def ages(now: RateLaws) -> Candidates:
        return [
            (f"hosts halve in {years} years", replace(now, hosts=replace(now.hosts, halving_years=years)))
            for years in (3.0, 4.0, 6.0, 10.0, 100.0)
        ]

    return (ages,)


def transfer_candidates() -> Sequence[Callable[[RateLaws], Candidates]]:
    """Return what to try of the weights of measured GPUs for others."""

    def rich(now: RateLaws) -> Candidates:
        return [
            (f"rich weight {weight}", replace(now, transfer=replace(now.transfer, rich_weight=weight)))
            for weight in (1.0, 3.0, 10.0)
        ]

    def common(now: RateLaws) -> Candidates:
        return [
            (f"common weight {weight}", replace(now, transfer=replace(now.transfer, common_weight=weight)))
            for weight in (0.3, 1.0, 3.0)
        ]

    return (rich, common)


def chosen(
    laws: RateLaws,
    candidates: Sequence[Callable[[RateLaws], Candidates]],
    score: Callable[[RateLaws], float],
    *,
    least: float,
) -> RateLaws:
    """Try candidates law by law; of those within `least` of the best, take what stood, else the one next to it.

    Args:
        laws: where to start.
        candidates: what to try of each law, in ascending order.
        score: the error of a candidate.
        least: differences up to this are taken as chance.
    """
    print(f"as it was: {score(laws):.4f}", flush=True)
    for propose in candidates:
        tried = [(score(each), name, each) for name, each in propose(laws)]
        for found, name, _ in tried:
            print(f"{name}: {found:.4f}", flush=True)
        lowest = min(found for found, *_ in tried)
        good = [index for index, (found, *_) in enumerate(tried) if found <= lowest + least]
        stood = next((index for index, (*_, each) in enumerate(tried) if each == laws), good[0])
        laws = tried[min(good, key=lambda index: abs(index - stood))][2]
    return laws


def with_demands(laws: RateLaws, steps: Sequence[Tabled]) -> RateLaws:
    """Set the bytes per clock and multiprocessor of the reference GPUs (median), and the most of any with timed steps.

    GPUs of which only single kernels were timed do not count: the cost is chosen on steps and holds as far as these go.
    """
    known = {row.gpu.id: row.gpu for row in steps}
    demands = {
        name: gpu.memory_bandwidth_bytes_per_s / (gpu.unit_count * gpu.boost_clock_hz)
        for name, gpu in known.items()
        if gpu.unit_count and gpu.boost_clock_hz
    }
    typical = float(np.median([demand for name, demand in demands.items() if name in CUDA_REFERENCE]))
    return replace(laws, streaming=replace(laws.streaming, typical_demand=typical, most_demand=max(demands.values())))


def version_half_width(steps: Sequence[MeasuredStep], kind: str) -> float | None:
    """Return the 90th percentile of how far steps moved from one torch 2 release in the data to the next, in logs.

    Releases before 2.0 are left out: they ran other attention kernels, and the nearest of the known 2.x ones serves.

    Args:
        steps: what was measured.
        kind: the kind of steps; None is returned where fewer than 100 were timed under two releases.
    """
    times: dict[tuple[object, ...], dict[tuple[int, int], float]] = defaultdict(dict)
    for step in steps:
        if workload_kind(step.workload) == kind and step.workload.torch_version >= (2, 0):
            work = replace(step.workload, torch_version=(0, 0))
            per_sample_s = step.latency_s / step.batch
            times[step.gpu, step.model, step.input_size, work][step.workload.torch_version] = per_sample_s
    logs = [
        abs(float(np.log(by_version[other] / by_version[one])))
        for by_version in times.values()
        for one, other in pairwise(sorted(by_version))
    ]
    return float(np.quantile(logs, 0.9)) if len(logs) >= 100 else None


def single_kernels(paths: Sequence[Path], gpus: Gpus) -> list[Alone]:
    """Return the single kernels of some tables; those whose timing beats the roofline are left out."""
    found = [Alone(kernel=each, gpu=gpus[each.gpu]) for path in paths for each in read_kernels(path)]
    return [each for each in found if each.under(load_rate_laws()) is not None]


def _waits(row: Tabled | Alone) -> bool:
    return isinstance(row, Tabled) and row.is_curve and row.measured.batch <= _FEWEST_LAUNCH_BOUND


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=Path)
    parser.add_argument("curves", type=Path)
    parser.add_argument("kernels", type=Path, nargs="*")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--least", type=float, default=0.002)
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    gpus, path = load_gpus(), calibration_file(RATES_FILE)
    measured = read_measured(words.steps).steps
    steps = [
        *tabled(drawn(measured, words.rows, "eager"), gpus, words.traces, is_curve=False),
        *tabled(read_measured(words.curves).steps, gpus, words.traces, is_curve=True),
    ]
    steps = [row for row in steps if workload_kind(row.measured.workload) == "eager" and row.under(load_rate_laws())]
    rows: list[Tabled | Alone] = [*steps, *single_kernels(words.kernels, gpus)]
    waits = np.array([_waits(row) for row in rows])
    decides = np.array([isinstance(row, Tabled) for row in rows]) & ~waits
    few = sorted({row.gpu.id for row in steps if row.is_curve})
    judge, laws = Judge(rows), with_demands(load_rate_laws(path), steps)

    def by_device(each: RateLaws) -> float:
        return judge.score(each, [*CUDA_REFERENCE, *few], decides)

    laws = chosen(laws, device_candidates(), by_device, least=words.least)
    laws = chosen(laws, host_candidates(), lambda each: judge.score(each, few, waits), least=words.least)
    laws = chosen(laws, transfer_candidates(), by_device, least=words.least)
    moved = {kind: version_half_width(measured, kind) for kind in ("eager", "compile", "training")}
    widest = max(each for each in moved.values() if each is not None)
    half_widths = {kind: widest if each is None else each for kind, each in moved.items()}
    print("other torch versions", half_widths, flush=True)
    laws = replace(laws, transfer=replace(laws.transfer, torch_half_width=half_widths))
    names = ", ".join(path.name for path in (words.steps, words.curves, *words.kernels))
    data = f"{names}: {len(rows)} rows, whole GPUs left out"
    replace_sections(path, laws, LawsOrigin(sections=SECTIONS, made=words.made, command=_COMMAND, data=data))


if __name__ == "__main__":
    main()
