"""Fit the constants of LLM training to measured runs, with errors on sources and GPUs that were left out.

    python benchmarks/llm_training.py ../shared/data/training/llm-training.csv.gz --write

prints the errors, and with `--write` writes `capplan/calibrations/llm-training.yaml`; `--page FILE` writes the accuracy
page from the same run. Runs of quality A and B are fitted; runs of one source weigh at most as much as 40 of another.
Every constant has a prior from the literature, in logarithms, so that what no run tells stays where it was published.
"""

import argparse
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.numbers import BoolArray, FloatArray
from capplan.core.origin import Origin
from capplan.errors import CapplanError
from capplan.llm.core.training.accuracy import (
    JobRanking,
    MeasuredTraining,
    TrainingCalibration,
    TrainingEvidence,
    Widths,
    kind_of,
    rank_layouts,
)
from capplan.llm.core.training.estimate import least_recompute
from capplan.llm.core.training.frameworks import Family
from capplan.llm.core.training.memory import MemoryConstants, MemoryScope, estimate_memory
from capplan.llm.core.training.step_time import TimeConstants, step_time
from capplan.llm.core.training.work import (
    AttentionClass,
    CollectiveLink,
    ProductClass,
    TrainingStepWork,
    step_work,
    training_gpu,
)
from capplan.llm.read.training_calibration import SHIPPED, dump_training_calibration
from capplan.llm.read.training_rows import read_training
from capplan.specs import Gpus, load_gpus
from capplan.specs.folders import calibration_file
from capplan.specs.rate_laws import load_rate_laws

GIB = 2.0**30
_FOLDS, _MOST_GROUPS = 8, 24
"""Groups beyond 24 are left out in eight folds, so that the whole takes minutes."""
_MOST_OF_A_SOURCE = 40
_SMALLEST_WIDTH = 512
"""Models of Megatron's continuous integration have this width: their steps wait for the host, their peaks are exact."""

MEMORY_PRIOR = MemoryConstants(
    activations=dict.fromkeys(Family, 1.0),
    logit_bytes=dict.fromkeys(Family, 12.0),
    workspace_bytes=0.15 * GIB,
    base_extra_bytes=0.1,
    reserved_share=1.06,
    context_bytes=0.6 * GIB,
    network_bytes=2.0 * GIB,
)
"""Counted activations as they are; a logit in 16 bits, in fp32 and its gradients; bitsandbytes' 0.1 B per parameter."""
MEMORY_SPREAD = {
    "activations": 0.3, "logit_bytes": 0.4, "workspace_bytes": 0.7, "base_extra_bytes": 0.5, "reserved_share": 0.02,
    "context_bytes": 0.05, "network_bytes": 0.5,
}  # fmt: skip
"""Standard deviations of the priors' logarithms."""

TIME_PRIOR = TimeConstants(
    products={ProductClass.WIDE: 0.85, ProductClass.FP8: 1.05, ProductClass.FP4: 1.05},
    grouped=0.55,
    attention={
        AttentionClass.EAGER: 0.3,
        AttentionClass.FLASH1: 0.45,
        AttentionClass.FLASH1_ON_NEWER: 0.27,
        AttentionClass.FLASH: 0.7,
        AttentionClass.FLASH_ON_NEWER: 0.45,
        AttentionClass.TUNED: 0.6,
    },
    stream_fused=0.8,
    stream_eager=0.6,
    misaligned=1.5,
    partial_waves=0.5,
    filling_rows=600.0,
    links={CollectiveLink.FAST: 0.7, CollectiveLink.HOST: 0.6, CollectiveLink.NETWORK: 0.8},
    exposed_tensor=0.7,
    exposed_pipeline=0.5,
    exposed_expert=0.5,
    exposed_context=0.3,
    exposed_shard=0.2,
    exposed_gradient=0.3,
    kernel_s=8e-6,
    doubling=0.005,
    families=dict.fromkeys(Family, 1.0),
)
TIME_SPREAD = {
    "partial_waves": 0.4, "filling_rows": 0.4,
    "products": 0.12, "grouped": 0.3, "attention": 0.3, "stream_fused": 0.3, "stream_eager": 0.3, "misaligned": 0.2,
    "links": 0.1, "exposed_tensor": 0.3, "exposed_pipeline": 0.4, "exposed_expert": 0.3, "exposed_context": 0.5,
    "exposed_shard": 0.4, "exposed_gradient": 0.4, "kernel_s": 0.4, "doubling": 0.5, "families": 0.07,
}  # fmt: skip

Constants = TypeVar("Constants", MemoryConstants, TimeConstants)


def flatten(constants: Constants, spread: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of all constants, and the standard deviation of the prior of each."""
    values: list[float] = []
    widths: list[float] = []
    for item in fields(constants):
        given = getattr(constants, item.name)
        found = list(given.values()) if isinstance(given, Mapping) else [given]
        values += found
        widths += [spread[item.name]] * len(found)
    return np.log(values), np.array(widths)


def rebuild(like: Constants, vector: FloatArray) -> Constants:
    """Return constants from their logarithms, in the form of others."""
    values = iter(np.exp(vector).tolist())
    made: dict[str, Any] = {}
    for item in fields(like):
        given = getattr(like, item.name)
        made[item.name] = {key: next(values) for key in given} if isinstance(given, Mapping) else next(values)
        if item.name.startswith("exposed"):
            made[item.name] = min(1.0, made[item.name])
    assert is_dataclass(like)
    return replace(like, **made)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is fitted: runs with the logarithms of what was measured, weights, and a prediction from constants.

    `bounds` is 0 where a value was measured, −1 where it is known to be less, as of a run that fitted on its GPU, and 1
    where it is known to be more.
    """

    runs: Sequence[MeasuredTraining]
    measured: FloatArray
    weights: FloatArray
    predict: Callable[[Any, Sequence[int]], FloatArray]
    prior: Any
    spread: Mapping[str, float]
    noise: float
    bounds: FloatArray

    def errors(self, constants: Any, chosen: BoolArray) -> FloatArray:
        """Return the logarithms of predicted over measured of chosen runs."""
        at = np.flatnonzero(chosen)
        return self.predict(constants, at.tolist()) - self.measured[at]

    def fit(self, chosen: BoolArray, *, iterations: int = 6) -> Any:
        """Fit the constants to chosen runs by damped Gauss-Newton steps with Huber's weights and the priors."""
        start, deviation = flatten(self.prior, self.spread)
        vector, at = start.copy(), np.flatnonzero(chosen).tolist()
        measured, weights = self.measured[at], self.weights[at]
        for _ in range(iterations):
            now = self.predict(rebuild(self.prior, vector), at)
            columns = []
            for index in range(vector.size):
                moved = vector.copy()
                moved[index] += 0.03
                columns.append((self.predict(rebuild(self.prior, moved), at) - now) / 0.03)
            slopes, missing = np.stack(columns, axis=1), measured - now
            kept = np.where(self.bounds[at] == 0, True, missing * self.bounds[at] > 0)
            held = (
                kept * weights * np.minimum(1.0, 1.5 * self.noise / np.maximum(np.abs(missing), 1e-9)) / self.noise**2
            )
            square = (slopes * held[:, None]).T @ slopes + np.diag(deviation**-2.0)
            right = (slopes * held[:, None]).T @ missing - (vector - start) * deviation**-2.0
            vector = vector + np.clip(np.linalg.solve(square, right), -0.4, 0.4)
        return rebuild(self.prior, vector)

    def held_out(self, group_of: Callable[[MeasuredTraining], str]) -> FloatArray:
        """Return the errors of all runs, each predicted by constants fitted without its group, in at most 8 folds."""
        groups = [group_of(run) for run in self.runs]
        order = {group: index % _FOLDS for index, group in enumerate(sorted(set(groups)))}
        folds = np.array([order[group] if len(order) > _MOST_GROUPS else groups.index(group) for group in groups])
        found = np.zeros(len(self.runs))
        for fold in sorted(set(folds.tolist())):
            out = folds == fold
            found[out] = self.errors(self.fit(~out, iterations=4), out)
        return found

    def held_out_twice(self, chip_of: Callable[[MeasuredTraining], str]) -> FloatArray:
        """Return the errors of all runs, each predicted by constants fitted without its source and its chip family."""
        found = np.zeros(len(self.runs))
        sources, chips = np.array([run.source for run in self.runs]), np.array([chip_of(run) for run in self.runs])
        for source, chip in sorted(set(zip(sources.tolist(), chips.tolist(), strict=True))):
            out = (sources == source) & (chips == chip)
            found[out] = self.errors(self.fit((sources != source) & (chips != chip), iterations=4), out)
        return found


def weights_of(runs: Sequence[MeasuredTraining]) -> FloatArray:
    """Return the weight of every run; all runs of a source weigh at most as much as 40."""
    counts = Counter(run.source for run in runs)
    tiny = np.array([0.3 if run.job.architecture.hidden_dim <= _SMALLEST_WIDTH else 1.0 for run in runs])
    return tiny * np.array([min(1.0, _MOST_OF_A_SOURCE / counts[run.source]) for run in runs])


def memory_problem(runs: Sequence[MeasuredTraining], gpus: Gpus) -> Problem:
    """Return the fit of peaks, of runs that state what they compute again; others fitted on their GPU, or did not."""
    stated = [run for run in runs if run.recompute_is_stated]
    limits = [run for run in stated if not run.peak_bytes and run.job.architecture.hidden_dim > _SMALLEST_WIDTH]
    exact = [run for run in stated if run.peak_bytes]
    chosen = [*exact, *limits]
    usable = [gpus.find(run.gpu).expected_usable_bytes for run in limits]

    def predict(constants: MemoryConstants, at: Sequence[int]) -> FloatArray:
        kinds = [chosen[index].peak_kind if index < len(exact) else MemoryScope.DEVICE for index in at]
        peaks = [
            estimate_memory(chosen[index].job, constants).peak(kind) for index, kind in zip(at, kinds, strict=True)
        ]
        return np.asarray(np.log(peaks))

    return Problem(
        chosen,
        np.log([*(run.peak_bytes or 0.0 for run in exact), *usable]),
        weights_of(chosen),
        predict,
        MEMORY_PRIOR,
        MEMORY_SPREAD,
        0.1,
        np.array([*(0.0 for _ in exact), *(1.0 if run.ran_out else -1.0 for run in limits)]),
    )


def time_problem(
    runs: Sequence[MeasuredTraining], *, gpus: Gpus, laws: RateLaws, shipped: TrainingCalibration
) -> Problem:
    """Return the fit of speeds; a run that does not state what it computes again takes the least that fits."""
    chosen: list[MeasuredTraining] = []
    works: list[TrainingStepWork] = []
    for run in runs:
        if not run.tokens_per_s or run.job.architecture.hidden_dim <= _SMALLEST_WIDTH:
            continue
        try:
            gpu = gpus.find(run.gpu)
            machine = training_gpu(gpu, laws, network_bytes_per_s=run.network_bytes_per_s)
        except CapplanError:
            continue
        job = run.job if run.recompute_is_stated else least_recompute(run.job, gpu, shipped)
        chosen.append(run)
        works.append(step_work(job, machine))

    def predict(constants: TimeConstants, at: Sequence[int]) -> FloatArray:
        times = [step_time(works[index], constants, chosen[index].job.framework.family).total_s for index in at]
        tokens = [chosen[index].job.step_tokens / chosen[index].job.layout.gpus for index in at]
        return np.asarray(np.log(tokens) - np.log(times))

    return Problem(
        chosen,
        np.log([run.tokens_per_s for run in chosen]),
        weights_of(chosen),
        predict,
        TIME_PRIOR,
        TIME_SPREAD,
        0.12,
        np.zeros(len(chosen)),
    )


def described(errors: FloatArray) -> dict[str, float]:
    """Return the median and 90th percentile of the relative error, the median ratio, and the number of rows."""
    size = np.abs(np.expm1(errors))
    return {
        "median": float(np.median(size)),
        "p90": float(np.quantile(size, 0.9)),
        "bias": float(np.exp(np.median(errors))),
        "rows": float(errors.size),
    }


_QUANTILES = 21
"""How many quantiles of measured over predicted peaks are kept: every twentieth of the held-out runs."""


def peak_ratios(errors: FloatArray) -> tuple[float, ...]:
    """Return the quantiles of measured over predicted peaks from the logarithms of predicted over measured."""
    return tuple(np.quantile(np.exp(-errors), np.linspace(0.0, 1.0, _QUANTILES)).tolist())


def rank_held_out(problem: Problem, errors: FloatArray) -> list[JobRanking]:
    """Return the choice among layouts of every job, each run predicted by constants fitted without it."""
    speeds = np.exp(problem.measured + errors).tolist()
    return rank_layouts(problem.runs, speeds)


def ranking_table(rankings: Mapping[str, Sequence[JobRanking]]) -> str:
    """Return a table of how much is lost by the layouts that predictions choose, and by layouts drawn by chance."""
    lines = [
        "| test | jobs | layouts | median | p90 | fastest chosen | by chance, median |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, jobs in rankings.items():
        regrets, chances = ([getattr(job, field) for job in jobs] for field in ("regret", "chance"))
        lines.append(
            f"| {name} | {len(jobs)} | {sum(job.layouts for job in jobs)} | {np.median(regrets):.1%} "
            f"| {np.quantile(regrets, 0.9):.1%} | {np.mean(np.array(regrets) == 0):.0%} | {np.median(chances):.1%} |"
        )
    return "\n".join(lines)


def half_width(errors: FloatArray, least: float) -> float:
    """Return the factor that 90 % of held-out errors lie within, up or down."""
    return max(least, math.exp(float(np.quantile(np.abs(errors), 0.9))))


@dataclass(slots=True)
class Report:
    """The errors of all tests by name, for the calibration's origin and the page."""

    rows: dict[str, dict[str, float]]

    def add(self, name: str, errors: FloatArray) -> None:
        """Add the errors of a test, if there are any."""
        if errors.size:
            self.rows[name] = described(errors)

    def markdown(self) -> str:
        """Return a table of all tests."""
        lines = ["| test | rows | median | p90 | bias |", "| --- | ---: | ---: | ---: | ---: |"]
        for name, row in self.rows.items():
            errors = f"{row['median']:.1%} | {row['p90']:.1%} | {row['bias']:.2f}"
            lines.append(f"| {name} | {row['rows']:.0f} | {errors} |")
        return "\n".join(lines)


def _parts(problem: Problem) -> dict[str, BoolArray]:
    is_moe = np.array([run.job.architecture.is_moe for run in problem.runs])
    is_tiny = np.array([run.job.architecture.hidden_dim <= _SMALLEST_WIDTH for run in problem.runs])
    single = np.array(["one GPU" in kind_of(run) for run in problem.runs])
    known = problem.bounds == 0
    return {
        "dense": ~is_moe & ~is_tiny & known,
        "experts": is_moe & ~is_tiny & known,
        "adapters on one GPU": single & ~is_tiny & known,
        "tiny models": is_tiny & known,
    }


def run_of(run: MeasuredTraining) -> str:
    """Name the runs that share source, model and GPU, which are left out together."""
    return f"{run.source} {run.model} {run.gpu}"


def fit_all(path: Path) -> tuple[TrainingCalibration, Report, list[tuple[str, str]]]:
    """Fit all constants and judge them on what was left out; the last are further tables by title."""
    runs = [run for run in read_training(path).runs if run.quality in "AB"]
    gpus, laws = load_gpus(), load_rate_laws()
    report, sources = Report({}), Report({})
    memory = memory_problem(runs, gpus)
    every = np.ones(len(memory.runs), dtype=bool)
    memory_constants = memory.fit(every)
    by_run, by_source = memory.held_out(run_of), memory.held_out(lambda run: run.source)
    for name, part in _parts(memory).items():
        report.add(f"memory, {name}: model and GPU of a source left out", by_run[part])
        report.add(f"memory, {name}: source left out", by_source[part])
    known = memory.bounds == 0
    for source in sorted({run.source for run in memory.runs}):
        sources.add(f"memory, {source}", by_source[known & np.array([run.source == source for run in memory.runs])])
    real = ~_parts(memory)["tiny models"] & known
    memory_widths = {
        TrainingEvidence.MEASURED: half_width(by_run[real], 1.15),
        TrainingEvidence.TRANSFERRED: half_width(by_source[real], 1.25),
        TrainingEvidence.EXTRAPOLATED: half_width(by_source[real], 1.25),
    }
    draft = TrainingCalibration(
        name="capplan llm train",
        memory=memory_constants,
        time=TIME_PRIOR,
        widths=Widths(dense=memory_widths, adapters=memory_widths, experts=memory_widths, memory=memory_widths),
        measured_gpus=frozenset(),
        measured_chips=frozenset(),
        measured_frameworks=frozenset(),
        peak_ratios={
            TrainingEvidence.MEASURED: peak_ratios(by_run[real]),
            TrainingEvidence.TRANSFERRED: peak_ratios(by_source[real]),
            TrainingEvidence.EXTRAPOLATED: peak_ratios(by_source[real]),
        },
        memory_frameworks=frozenset(
            run.framework for run, is_known in zip(memory.runs, known, strict=True) if is_known
        ),
    )
    speed = time_problem(runs, gpus=gpus, laws=laws, shipped=draft)
    every = np.ones(len(speed.runs), dtype=bool)
    time_constants = speed.fit(every, iterations=8)
    by_run, by_source = speed.held_out(run_of), speed.held_out(lambda run: run.source)
    by_gpu = speed.held_out(lambda run: run.gpu)
    for name, part in _parts(speed).items():
        report.add(f"tokens/s, {name}: model and GPU of a source left out", by_run[part])
        report.add(f"tokens/s, {name}: source left out", by_source[part])
        report.add(f"tokens/s, {name}: GPU left out", by_gpu[part])
    for source in sorted({run.source for run in speed.runs}):
        sources.add(f"tokens/s, {source}", by_source[np.array([run.source == source for run in speed.runs])])
    parts = _parts(speed)
    far = np.maximum(np.abs(by_source), np.abs(by_gpu))
    both = speed.held_out_twice(lambda run: gpus.find(run.gpu).design.family)
    for name, part in parts.items():
        report.add(f"tokens/s, {name}: source and chip family left out", both[part])

    def widths(part: BoolArray, least: float) -> dict[TrainingEvidence, float]:
        return {
            TrainingEvidence.MEASURED: half_width(by_run[part], least),
            TrainingEvidence.TRANSFERRED: half_width(far[part], least * 1.05),
            TrainingEvidence.EXTRAPOLATED: max(half_width(both[part], least * 1.1), half_width(far[part], least)),
        }

    calibration = replace(
        draft,
        time=time_constants,
        widths=Widths(
            dense=widths(parts["dense"] & ~parts["adapters on one GPU"], 1.2),
            adapters=widths(parts["adapters on one GPU"], 1.3),
            experts=widths(parts["experts"], 1.4),
            memory=memory_widths,
        ),
        measured_gpus=frozenset(run.gpu for run in speed.runs),
        measured_chips=frozenset(gpus.find(run.gpu).design.family for run in speed.runs),
        measured_frameworks=frozenset(run.framework for run in speed.runs),
        origin=Origin(
            made=datetime.now(tz=UTC).date(),
            command=f"python benchmarks/llm_training.py {path.name} --write",
            sources=(path.name,),
            rows=int(known.sum()) + len(speed.runs),
            held_out_errors=report.rows,
        ),
    )
    rankings = {
        "model and GPU of a source left out": rank_held_out(speed, by_run),
        "source left out": rank_held_out(speed, by_source),
    }
    return (
        calibration,
        report,
        [("Layouts of one job", ranking_table(rankings)), ("By source, each left out", sources.markdown())],
    )


def main() -> None:
    """Fit, print the errors, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="measured training runs, CSV or .gz")
    parser.add_argument("--write", action="store_true", help="write the shipped calibration")
    parser.add_argument("--page", type=Path, help="write the accuracy page")
    arguments = parser.parse_args()
    calibration, report, further = fit_all(arguments.runs)
    print(report.markdown())
    for title, each in further:
        print(f"\n{title}\n\n{each}")
    if arguments.write:
        Path(str(calibration_file(SHIPPED))).write_text(dump_training_calibration(calibration), encoding="utf-8")
    if arguments.page:
        arguments.page.write_text(page(calibration, report, further), encoding="utf-8")


_EXPLAINED = {
    "Layouts of one job": (
        "Jobs that a source measured in several layouts, with the same model, GPUs, batch, sequences and formats. "
        "The layout that is predicted to be the fastest takes so much longer than the fastest measured one; beside it, "
        "what a layout drawn by chance loses.\n\n"
    ),
}


def page(calibration: TrainingCalibration, report: Report, further: Sequence[tuple[str, str]]) -> str:
    """Return the accuracy page."""
    origin = calibration.origin
    assert origin is not None
    widths = "\n".join(
        f"| {evidence} | ×/÷ {calibration.widths.dense[evidence]:.2f} "
        f"| ×/÷ {calibration.widths.adapters[evidence]:.2f} "
        f"| ×/÷ {calibration.widths.experts[evidence]:.2f} "
        f"| ×/÷ {calibration.widths.memory[evidence]:.2f} |"
        for evidence in (TrainingEvidence.MEASURED, TrainingEvidence.TRANSFERRED, TrainingEvidence.EXTRAPOLATED)
    )
    tables = "\n\n".join(f"## {title}\n\n{_EXPLAINED.get(title, '')}{each}" for title, each in further)
    return (
        "# Accuracy of LLM training estimates\n\n"
        f"Made on {origin.made} by `{origin.command.replace(' --write', '')} --page docs/accuracy-llm-training.md`: "
        f"{origin.rows} measured values of quality A and B. Errors are |predicted ÷ measured − 1|, bias is the median "
        "of predicted ÷ measured. Each row is predicted by constants that were fitted without it: without all rows of "
        "its model and GPU in its source, without its whole source, or without its GPU. Runs whose source says that "
        "their speed includes warm-up are judged by their memory alone.\n\n"
        f"{report.markdown()}\n\n## Intervals\n\n"
        "Half widths of 90 % intervals, the 90th percentile of the held-out errors. *measured*: the GPU and the "
        "framework were measured; *transferred*: the chip family was; *extrapolated*: other chips only.\n\n"
        "| evidence | tokens/s, dense | adapters on one GPU | experts | peak memory |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        f"{widths}\n\n{tables}\n"
    )


if __name__ == "__main__":
    main()
