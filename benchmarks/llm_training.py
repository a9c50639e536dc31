"""Fit the constants of LLM training to measured runs, with errors on sources and GPUs that were left out.

    python benchmarks/llm_training.py ../shared/data/training/llm-training.csv.gz --write

prints the errors, and with `--write` writes `capplan/calibrations/llm-training.yaml`; `--page FILE` writes the accuracy
page from the same run. Runs of quality A and B are fitted; runs of one source weigh at most as much as 40 of another.
Every constant has a prior from the literature, in logarithms, so that what no run tells stays where it was published.
"""

import argparse
import csv
import gzip
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.numbers import BoolArray, FloatArray, Interval
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
from capplan.llm.core.training.estimate import usual_recompute
from capplan.llm.core.training.frameworks import Family
from capplan.llm.core.training.memory import MemoryConstants, MemoryScope, count_job, memory_of
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
_FROM_ALL = 3
"""Steps of a fit without a group, which starts at the constants of all runs."""
_MOST_OF_A_SOURCE = 40
_SMALLEST_WIDTH = 512
"""Models of Megatron's continuous integration have this width: their steps wait for the host, their peaks are exact."""

MEMORY_PRIOR = MemoryConstants(
    activations=dict.fromkeys(Family, 1.0),
    logit_bytes=dict.fromkeys(Family, 12.0),
    workspace_bytes=0.15 * GIB,
    base_extra_bytes=0.3 * GIB,
    reserved_share=1.1,
    context_bytes=0.6 * GIB,
    network_bytes=2.0 * GIB,
)
"""Counted activations as they are; a logit in 16 bits, in fp32 and its gradients; beside a base in 4 bits what its
library's buffers take."""
MEMORY_SPREAD = {
    "activations": 0.3, "logit_bytes": 0.4, "workspace_bytes": 0.7, "base_extra_bytes": 0.5, "reserved_share": 0.03,
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
    attention_start_s=7.4e-13,
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
    "partial_waves": 0.4, "filling_rows": 0.4, "attention_start_s": 0.1,
    "products": 0.12, "grouped": 0.3, "attention": 0.12, "stream_fused": 0.3, "stream_eager": 0.3, "misaligned": 0.2,
    "links": 0.1, "exposed_tensor": 0.3, "exposed_pipeline": 0.4, "exposed_expert": 0.3, "exposed_context": 0.5,
    "exposed_shard": 0.4, "exposed_gradient": 0.4, "kernel_s": 0.4, "doubling": 0.5, "families": 0.07,
}  # fmt: skip

"""Attention's share is what FlashAttention-2 and 3 report of forward and backward passes on A100 and H100, known better
than the few runs of some classes tell; what it takes to start is the mean of `attention_starts`."""

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


def keys_of(constants: Any) -> list[StrEnum | None]:
    """Return the class that each constant is of, as `flatten` orders them; None for those of every run."""
    found: list[StrEnum | None] = []
    for item in fields(constants):
        given = getattr(constants, item.name)
        found += list(given) if isinstance(given, Mapping) else [None]
    return found


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

    `classes` are those of each run, so that constants of other classes need not be tried on it.
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
    classes: Sequence[frozenset[StrEnum]]

    def errors(self, constants: Any, chosen: BoolArray) -> FloatArray:
        """Return the logarithms of predicted over measured of chosen runs."""
        at = np.flatnonzero(chosen)
        return self.predict(constants, at.tolist()) - self.measured[at]

    def fit(self, chosen: BoolArray, *, iterations: int = 6, start: Any = None) -> Any:
        """Fit the constants to chosen runs by damped Gauss-Newton steps with Huber's weights and the priors.

        `start` are the constants of other runs, from which fewer steps are needed.
        """
        prior, deviation = flatten(self.prior, self.spread)
        vector = prior.copy() if start is None else flatten(start, self.spread)[0]
        at = np.flatnonzero(chosen).tolist()
        measured, weights = self.measured[at], self.weights[at]
        for _ in range(iterations):
            now = self.predict(rebuild(self.prior, vector), at)
            columns = []
            for index, key in enumerate(keys_of(self.prior)):
                moved, column = vector.copy(), np.zeros(len(at))
                moved[index] += 0.03
                concerned = [place for place, run in enumerate(at) if key is None or key in self.classes[run]]
                if concerned:
                    tried = self.predict(rebuild(self.prior, moved), [at[place] for place in concerned])
                    column[concerned] = (tried - now[concerned]) / 0.03
                columns.append(column)
            slopes, missing = np.stack(columns, axis=1), measured - now
            kept = np.where(self.bounds[at] == 0, True, missing * self.bounds[at] > 0)
            held = (
                kept * weights * np.minimum(1.0, 1.5 * self.noise / np.maximum(np.abs(missing), 1e-9)) / self.noise**2
            )
            square = (slopes * held[:, None]).T @ slopes + np.diag(deviation**-2.0)
            right = (slopes * held[:, None]).T @ missing - (vector - prior) * deviation**-2.0
            vector = vector + np.clip(np.linalg.solve(square, right), -0.4, 0.4)
        return rebuild(self.prior, vector)


_TIMED = {
    "a100_sxm": "a100-sxm4-80gb", "h100_sxm": "h100-sxm5-80gb", "b200_sxm": "b200-sxm-180gb", "gb200": "gb200-186gb",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
}  # fmt: skip
"""GPUs of the table of timed kernels, by their names there."""


def attention_starts(path: Path) -> str:
    """Fit the rise of attention's rate with the sequence to timed kernels, each GPU and engine judged by the others.

    Forward kernels in 16 bits, heads of 128, at least 4,096 tokens and 16 heads, no window: the time is
    (F/R + c·F/k)/a of F FLOPs over k keys a query, R being the GPU's sustained rate.
    """
    gpus, laws = load_gpus(), load_rate_laws()
    groups: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            tokens, keys = int(row["batch_size"]) * int(row["isl"]), int(row["isl"]) / 2
            formats = {row["attn_dtype"], row["kv_cache_dtype"]}
            is_like_training = tokens >= 4096 and int(row["num_heads"]) >= 16 and int(row["isl"]) >= 256
            is_plain = formats == {"bfloat16"} and row["head_dim"] == "128" and float(row["window_size"] or 0) == 0
            if row["gpu"] in _TIMED and is_like_training and is_plain:
                of_one_key = 2.0 * tokens * int(row["num_heads"]) * 256
                found = (of_one_key * keys, of_one_key, float(row["latency_ms"]) / 1e3)
                groups.setdefault((row["gpu"], row["framework"]), []).append(found)
    fitted: dict[tuple[str, str], tuple[float, FloatArray]] = {}
    for (gpu, engine), rows in groups.items():
        timed = np.array(rows)
        rate = training_gpu(gpus.find(_TIMED[gpu]), laws).half_flops_per_s
        scaled = timed[:, :2] / np.array([rate, 1.0]) / timed[:, 2:]
        slope, start = np.linalg.lstsq(scaled, np.ones(len(rows)), rcond=None)[0].tolist()
        fitted[gpu, engine] = start / slope, scaled
    lines_ = ["| GPU, engine | kernels | start, s | error with the others' start | with one share |"]
    lines_.append("| --- | ---: | ---: | ---: | ---: |")
    for key, (start, scaled) in fitted.items():
        others = math.exp(np.mean([math.log(other) for name, (other, _) in fitted.items() if name[0] != key[0]]))
        errors = [
            np.abs(np.expm1(law - np.median(law)))
            for law in (np.log(scaled[:, 0] + others * scaled[:, 1]), np.log(scaled[:, 0]))
        ]
        shown = " | ".join(f"{np.median(error):.1%}, p90 {np.quantile(error, 0.9):.0%}" for error in errors)
        lines_.append(f"| {key[0]}, {key[1]} | {len(scaled)} | {start:.2e} | {shown} |")
    mean = math.exp(np.mean([math.log(start) for start, _ in fitted.values()]))
    return "\n".join(lines_) + f"\n\nThe geometric mean of all starts is {mean:.2e} s."


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
    counted = [count_job(run.job) for run in chosen]

    def predict(constants: MemoryConstants, at: Sequence[int]) -> FloatArray:
        kinds = [chosen[index].peak_kind if index < len(exact) else MemoryScope.DEVICE for index in at]
        return np.asarray(
            np.log([memory_of(counted[index], constants).peak(kind) for index, kind in zip(at, kinds, strict=True)])
        )

    return Problem(
        chosen,
        np.log([*(run.peak_bytes or 0.0 for run in exact), *usable]),
        weights_of(chosen),
        predict,
        MEMORY_PRIOR,
        MEMORY_SPREAD,
        0.1,
        np.array([*(0.0 for _ in exact), *(1.0 if run.ran_out else -1.0 for run in limits)]),
        [frozenset({run.job.framework.family}) for run in chosen],
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
        job = run.job if run.recompute_is_stated else usual_recompute(run.job, gpu, shipped)
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
        [_classes(run, work) for run, work in zip(chosen, works, strict=True)],
    )


def _classes(run: MeasuredTraining, work: TrainingStepWork) -> frozenset[StrEnum]:
    links = (getattr(work, item.name) for item in fields(work) if item.name.endswith("_link"))
    return frozenset({run.job.framework.family, work.product, ProductClass.WIDE, work.attention,
                      CollectiveLink.HOST, *links})  # fmt: skip


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


def rank_held_out(problem: Problem, split: "HeldOut") -> list[JobRanking]:
    """Return the choice among layouts of every job, each run predicted by constants fitted without it."""
    speeds = np.exp(problem.measured[split.at] + split.errors).tolist()
    return rank_layouts([problem.runs[index] for index in split.at.tolist()], speeds)


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


@dataclass(slots=True)
class Report:
    """The errors of all tests by name, for the calibration's origin and the page."""

    rows: dict[str, dict[str, float]]

    def add(self, name: str, errors: FloatArray, within: BoolArray | None = None) -> None:
        """Add the errors of a test, if there are any, and the share of it that lies within its intervals."""
        if errors.size:
            self.rows[name] = described(errors)
            if within is not None:
                self.rows[name]["coverage"] = float(within.mean())

    def markdown(self) -> str:
        """Return a table of all tests."""
        has_coverage = any("coverage" in row for row in self.rows.values())
        lines = ["| test | rows | median | p90 | bias |", "| --- | ---: | ---: | ---: | ---: |"]
        if has_coverage:
            lines = [f"{lines[0]} in the interval |", f"{lines[1]} ---: |"]
        for name, row in self.rows.items():
            errors = f"{row['median']:.1%} | {row['p90']:.1%} | {row['bias']:.2f}"
            inside = f" {row['coverage']:.0%} |" if has_coverage else ""
            lines.append(f"| {name} | {row['rows']:.0f} | {errors} |{inside}")
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


@dataclass(frozen=True, slots=True)
class Fold:
    """Runs that are predicted by constants of others: which are left out, and which constants are fitted to."""

    out: BoolArray
    kept: BoolArray


def folds_by(labels: Sequence[str]) -> list[Fold]:
    """Return a fold for each label, or eight folds of labels where there are more than 24."""
    names = sorted(set(labels))
    order = {name: index % _FOLDS if len(names) > _MOST_GROUPS else index for index, name in enumerate(names)}
    at = np.array([order[label] for label in labels])
    return [Fold(at == fold, at != fold) for fold in sorted(set(at.tolist()))]


def folds_of_both(first: Sequence[str], second: Sequence[str]) -> list[Fold]:
    """Return a fold for each pair of labels, predicted by runs that share neither of the two."""
    one, two = np.array(first), np.array(second)
    pairs = sorted(set(zip(first, second, strict=True)))
    return [Fold((one == left) & (two == right), (one != left) & (two != right)) for left, right in pairs]


def folds_of_later(years: Sequence[str]) -> list[Fold]:
    """Return a fold for each year but the first, predicted by runs of earlier years."""
    at = np.array([int(year or 0) for year in years])
    known = sorted(set(at[at > 0].tolist()))
    return [Fold(at == year, (at > 0) & (at < year)) for year in known[1:]]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The errors of runs that were left out, as logarithms of predicted over measured, with how far each was."""

    split: str
    at: FloatArray
    errors: FloatArray
    evidence: Sequence[TrainingEvidence]


Near: TypeAlias = Callable[[BoolArray], Callable[[MeasuredTraining], TrainingEvidence]]
"""What tells, of runs that are kept, how far another one is from them."""
_FEWEST_KEPT = 30
"""Runs that a fold must leave, so that constants of the fewer are not judged."""


def hold_out(
    problem: Problem,
    split: str,
    folds: Sequence[Fold],
    *,
    start: Any,
    near: Near,
) -> HeldOut:
    """Judge runs by constants that were fitted without them; `near` says how far a run is from those that were kept."""
    at: list[int] = []
    errors: list[float] = []
    evidence: list[TrainingEvidence] = []
    for fold in folds:
        out = fold.out & (problem.bounds == 0)
        if int(fold.kept.sum()) < _FEWEST_KEPT or not out.any():
            continue
        constants = problem.fit(fold.kept, iterations=_FROM_ALL, start=start)
        chosen, distance = np.flatnonzero(out).tolist(), near(fold.kept)
        at += chosen
        errors += problem.errors(constants, out).tolist()
        evidence += [distance(problem.runs[index]) for index in chosen]
    return HeldOut(split, np.array(at, dtype=int), np.array(errors), evidence)


def all_splits(problem: Problem, gpus: Gpus, *, start: Any, near: Near) -> list[HeldOut]:
    """Judge runs by every split, the easiest first."""
    runs = problem.runs
    sources, frameworks = [run.source for run in runs], [run.framework for run in runs]
    generations = [_generation(gpus, run) for run in runs]
    splits = {
        "model and GPU of a source": folds_by([f"{run.source} {run.model} {run.gpu}" for run in runs]),
        "source": folds_by(sources),
        "GPU": folds_by([run.gpu for run in runs]),
        "generation of chips": folds_by(generations),
        "framework": folds_by(frameworks),
        "year, from earlier ones": folds_of_later([run.month[:4] for run in runs]),
        "source and generation": folds_of_both(sources, generations),
        "framework and generation": folds_of_both(frameworks, generations),
    }
    return [hold_out(problem, name, folds, start=start, near=near) for name, folds in splits.items()]


def _generation(gpus: Gpus, run: MeasuredTraining) -> str:
    """Return the generation of a run's chip: the family without the size of the chip, such as "gh" of gh100."""
    family = gpus.find(run.gpu).design.family
    return family[:2] if gpus.find(run.gpu).vendor == "NVIDIA" else family


def speed_distance(problem: Problem, gpus: Gpus, draft: TrainingCalibration) -> Near:
    """Return how far a run's speed is from runs that were kept."""

    def near(kept: BoolArray) -> Callable[[MeasuredTraining], TrainingEvidence]:
        known = [run for run, is_kept in zip(problem.runs, kept, strict=True) if is_kept]
        seen = replace(draft, **speeds_known(known, gpus))
        return lambda run: seen.evidence(gpu=gpus.find(run.gpu), framework=run.framework)

    return near


def memory_distance(problem: Problem, gpus: Gpus, draft: TrainingCalibration) -> Near:
    """Return how far a run's peak is from runs that were kept."""

    def near(kept: BoolArray) -> Callable[[MeasuredTraining], TrainingEvidence]:
        exact = kept & (problem.bounds == 0)
        known = [run for run, is_kept in zip(problem.runs, exact, strict=True) if is_kept]
        seen = replace(draft, **peaks_known(known, gpus))
        return lambda run: seen.memory_evidence(gpu=gpus.find(run.gpu), framework=run.job.framework)

    return near


def speeds_known(runs: Sequence[MeasuredTraining], gpus: Gpus) -> dict[str, Any]:
    """Return what speeds were measured of."""
    found = [gpus.find(run.gpu) for run in runs]
    return {
        "measured_gpus": frozenset(gpu.id for gpu in found),
        "measured_chips": frozenset(gpu.design.family for gpu in found),
        "measured_vendors": frozenset(gpu.vendor for gpu in found),
        "measured_frameworks": frozenset(run.framework for run in runs),
    }


def peaks_known(runs: Sequence[MeasuredTraining], gpus: Gpus) -> dict[str, Any]:
    """Return what peaks were measured of."""
    return {
        "memory_frameworks": frozenset(run.framework for run in runs),
        "memory_vendors": frozenset(gpus.find(run.gpu).vendor for run in runs),
    }


_LEVELS = (
    TrainingEvidence.MEASURED, TrainingEvidence.TRANSFERRED, TrainingEvidence.EXTRAPOLATED, TrainingEvidence.FAR,
)  # fmt: skip
_COVERED, _FEWEST_OF_A_SPLIT = 0.9, 10


def widths_of(
    problem: Problem, splits: Sequence[HeldOut], part: BoolArray, *, of_each: float = 0.0
) -> dict[TrainingEvidence, float]:
    """Return the width at each distance, which 90 % of the errors at it lie within, and a share of those of each split.

    Every source weighs alike in a split, as a job is of a source that is not known; splits of ten runs and more count.
    A distance at which no run was held out takes the width of the next one, or of the one before and some more.
    """
    found: dict[TrainingEvidence, float] = {}
    for level in _LEVELS:
        errors, weights = _pooled(problem, splits, part, level)
        if errors.size:
            sizes = np.abs(errors)
            order = np.argsort(sizes)
            share = np.cumsum(weights[order]) / weights.sum()
            hardest = [
                float(np.quantile(np.abs(each), of_each))
                for split in splits
                if (each := _pooled(problem, [split], part, level)[0]).size >= _FEWEST_OF_A_SPLIT
            ]
            found[level] = math.exp(max(float(sizes[order][np.searchsorted(share, _COVERED)]), *hardest, 0.0))
    widths: dict[TrainingEvidence, float] = {}
    before = 1.0
    for index, level in enumerate(_LEVELS):
        farther = [found[other] for other in _LEVELS[index:] if other in found]
        before = widths[level] = max(before, farther[0] if farther else before * _UNSEEN)
    return widths


def _pooled(
    problem: Problem, splits: Sequence[HeldOut], part: BoolArray, level: TrainingEvidence
) -> tuple[FloatArray, FloatArray]:
    """Return the errors at a distance in all splits, and the weight of each."""
    errors: list[float] = []
    weights: list[float] = []
    for split in splits:
        chosen = [
            (problem.runs[index].source, error)
            for index, error, found in zip(split.at.tolist(), split.errors.tolist(), split.evidence, strict=True)
            if part[index] and found is level
        ]
        counts = Counter(source for source, _ in chosen)
        errors += [error for _, error in chosen]
        weights += [1.0 / counts[source] for source, _ in chosen]
    return np.array(errors), np.array(weights)


def peak_ratios(
    problem: Problem, splits: Sequence[HeldOut], part: BoolArray
) -> dict[TrainingEvidence, tuple[float, ...]]:
    """Return quantiles of measured over predicted peaks at every distance; those of the one before where none was."""
    found: dict[TrainingEvidence, tuple[float, ...]] = {}
    ratios: tuple[float, ...] = ()
    for level in _LEVELS:
        errors, weights = _pooled(problem, splits, part, level)
        if errors.size >= _QUANTILES:
            measured = np.exp(-errors)
            order = np.argsort(measured)
            share = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
            ratios = tuple(np.interp(np.linspace(0.0, 1.0, _QUANTILES), share, measured[order]).tolist())
        found[level] = ratios
    return found


def fit_all(path: Path) -> tuple[TrainingCalibration, Report, list[tuple[str, str]]]:
    """Fit all constants and judge them on what was left out; the last are further tables by title."""
    runs = [run for run in read_training(path).runs if run.quality in "AB"]
    gpus, laws = load_gpus(), load_rate_laws()
    report = Report({})
    memory = memory_problem(runs, gpus)
    memory_constants = memory.fit(np.ones(len(memory.runs), dtype=bool))
    flat = dict.fromkeys(_LEVELS, 1.0)
    draft = TrainingCalibration(
        name="capplan llm train",
        memory=memory_constants,
        time=TIME_PRIOR,
        widths=Widths(dense=flat, adapters=flat, experts=flat, memory=flat),
        campaign=campaign_factor(),
        **speeds_known([], gpus),
        **peaks_known([run for run, bound in zip(memory.runs, memory.bounds, strict=True) if not bound], gpus),
    )
    near_peaks = memory_distance(memory, gpus, draft)
    peaks = all_splits(memory, gpus, start=memory_constants, near=near_peaks)
    real = ~_parts(memory)["tiny models"] & (memory.bounds == 0)
    speed = time_problem(runs, gpus=gpus, laws=laws, shipped=draft)
    time_constants = speed.fit(np.ones(len(speed.runs), dtype=bool), iterations=8)
    speeds = all_splits(speed, gpus, start=time_constants, near=speed_distance(speed, gpus, draft))
    parts = _parts(speed)
    alone = parts["adapters on one GPU"]
    widths = Widths(
        dense=widths_of(speed, speeds, parts["dense"] & ~alone),
        adapters=widths_of(speed, speeds, alone, of_each=0.85),  # few rows, of few sources
        experts=widths_of(speed, speeds, parts["experts"]),
        memory=widths_of(memory, peaks, real),
    )
    widths = replace(widths, memory_bytes=constant_width(memory, peaks, widths))
    add_splits(report, "tokens/s", speeds, speed, widths)
    add_splits(report, "memory", peaks, memory, widths)
    calibration = replace(
        draft,
        time=time_constants,
        widths=widths,
        peak_ratios=peak_ratios(memory, peaks, real),
        **speeds_known(speed.runs, gpus),
        origin=Origin(
            made=datetime.now(tz=UTC).date(),
            command=f"python benchmarks/llm_training.py {path.name} --write",
            sources=(path.name,),
            rows=int((memory.bounds == 0).sum()) + len(speed.runs),
            held_out_errors=report.rows,
        ),
    )
    rankings = {f"{split.split} left out": rank_held_out(speed, split) for split in speeds[:2]}
    sources = Report({})
    for metric, splits, problem in (("tokens/s", speeds, speed), ("memory", peaks, memory)):
        by_source = next(split for split in splits if split.split == "source")
        for source in sorted({problem.runs[index].source for index in by_source.at}):
            chosen = np.array([problem.runs[index].source == source for index in by_source.at])
            sources.add(f"{metric}, {source}", by_source.errors[chosen])
    return (
        calibration,
        report,
        [("Layouts of one job", ranking_table(rankings)), ("By source, each left out", sources.markdown())],
    )


_UNSEEN = 1.15
"""By how much intervals widen at a distance of which no run was held out, over the distance before."""


def add_splits(report: Report, metric: str, splits: Sequence[HeldOut], problem: Problem, widths: Widths) -> None:
    """Add the errors of every split, and the share that lies within the interval of its distance."""
    for name, part in _parts(problem).items():
        for split in splits:
            chosen = part[split.at]
            if not chosen.any():
                continue
            found = [
                _interval(widths, metric, problem.runs[index], math.exp(error), level)
                for index, error, level in zip(split.at.tolist(), split.errors.tolist(), split.evidence, strict=True)
            ]
            within = [interval.low <= 1.0 <= interval.high for interval in found]
            report.add(f"{metric}, {name}: {split.split} left out", split.errors[chosen], np.array(within)[chosen])


def constant_width(problem: Problem, splits: Sequence[HeldOut], widths: Widths) -> float:
    """Return the bytes that 90 % of tiny models, their source left out, need beside the share of a peak."""
    split = next(split for split in splits if split.split == "source")
    tiny = _parts(problem)["tiny models"]
    missing = [0.0]
    for index, error, level in zip(split.at.tolist(), split.errors.tolist(), split.evidence, strict=True):
        if tiny[index] and (peak_bytes := problem.runs[index].peak_bytes):
            squared = (math.exp(abs(error)) - 1.0) ** 2 - (widths.memory[level] - 1.0) ** 2
            missing.append(peak_bytes * math.exp(error) * math.sqrt(max(squared, 0.0)))
    return float(np.quantile(missing, _COVERED))


def _interval(widths: Widths, metric: str, run: MeasuredTraining, ratio: float, level: TrainingEvidence) -> Interval:
    """Return the interval of a prediction that is `ratio` times the measured value, over that value."""
    if metric == "memory":
        relative = replace(widths, memory_bytes=widths.memory_bytes / (run.peak_bytes or math.inf))
        return relative.around_peak(ratio, level)
    return Interval.around(ratio, _width(widths, run, level))


def _width(widths: Widths, run: MeasuredTraining, level: TrainingEvidence) -> float:
    if run.job.architecture.is_moe:
        return widths.experts[level]
    return (widths.adapters if "one GPU" in kind_of(run) else widths.dense)[level]


@dataclass(frozen=True, slots=True)
class Campaign:
    """A published campaign: the GPU hours that it took, its tokens, and the rate of its steps on one GPU."""

    gpu_hours: float
    tokens: float
    tokens_per_s: float

    @property
    def factor(self) -> float:
        """Return what the campaign took over its steps alone."""
        return self.gpu_hours * 3600.0 * self.tokens_per_s / self.tokens


_RECOMPUTED = 8.0
"""FLOPs per parameter and token with whole layers computed again, as these reports count their rates."""
CAMPAIGNS = {
    # arXiv 2211.05100: 1,082,990 hours for 366 B tokens; GENCI's report: 156 TFLOP/s; both read 2026-11-27
    "BLOOM 176B": Campaign(1_082_990, 366e9, 156e12 / (_RECOMPUTED * 176.2e9)),
    # From memory: two months of 992 A100s for 300 B tokens at 147 TFLOP/s (arXiv 2205.01068 and its logbook)
    "OPT 175B": Campaign(992 * 62 * 24, 300e9, 147e12 / (_RECOMPUTED * 175e9)),
    # From memory: 60 days of 768 A100s for 400 B tokens at 135 TFLOP/s (arXiv 2210.02414)
    "GLM-130B": Campaign(768 * 60 * 24, 400e9, 135e12 / (_RECOMPUTED * 130e9)),
    # From memory: 1,022,362 hours for 1.4 T tokens at 380 tokens/s (arXiv 2302.13971)
    "LLaMA 65B": Campaign(1_022_362, 1.4e12, 380.0),
    # foundation-model-stack/fms-fsdp, README: 162 k hours for 2.2 T tokens at 3,700 tokens/s; read 2026-11
    "fms-fsdp 7B": Campaign(162_000, 2.2e12, 3700.0),
}


def campaign_factor() -> Interval:
    """Return the least, the median and the most of what published campaigns took over their steps, at least 1."""
    factors = [campaign.factor for campaign in CAMPAIGNS.values()]
    return Interval(low=max(1.0, min(factors)), expected=float(np.median(factors)), high=max(factors))


def main() -> None:
    """Fit, print the errors, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="measured training runs, CSV or .gz")
    parser.add_argument("--write", action="store_true", help="write the shipped calibration")
    parser.add_argument("--attention", type=Path, help="timed attention kernels, CSV.gz: judge the law of their rate")
    parser.add_argument("--page", type=Path, help="write the accuracy page")
    arguments = parser.parse_args()
    calibration, report, further = fit_all(arguments.runs)
    if arguments.attention:
        further.append(("Attention's rate", attention_starts(arguments.attention)))
    print(report.markdown())
    for title, each in further:
        print(f"\n{title}\n\n{each}")
    if arguments.write:
        Path(str(calibration_file(SHIPPED))).write_text(dump_training_calibration(calibration), encoding="utf-8")
    if arguments.page:
        arguments.page.write_text(page(calibration, report, further), encoding="utf-8")


_EXPLAINED = {
    "Attention's rate": (
        "Timed forward kernels (ai-dynamo/aiconfigurator): what a query takes to start, by GPU and engine, "
        "and the errors where that of the other GPUs is taken, beside those of one share for all lengths.\n\n"
    ),
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
        for evidence in _LEVELS
    )
    tables = "\n\n".join(f"## {title}\n\n{_EXPLAINED.get(title, '')}{each}" for title, each in further)
    return (
        "# Accuracy of LLM training estimates\n\n"
        f"Made on {origin.made} by `{origin.command.replace(' --write', '')} --page docs/evidence/llm-training.md`: "
        f"{origin.rows} measured values of quality A and B. Errors are |predicted ÷ measured − 1|, bias is the median "
        "of predicted ÷ measured. Each row is predicted by constants that were fitted without it, in splits from the "
        "easiest to the hardest: without all rows of its model and GPU in its source, its whole source, its GPU, its "
        "generation of chips, its framework, all of its year and later, and two of these together. All runs are of "
        "NVIDIA's GPUs: what is said of other vendors is as far as it gets, and no split tells its error. Runs whose "
        "source says that their speed includes warm-up are judged by their memory alone.\n\n"
        f"{report.markdown()}\n\n## Intervals\n\n"
        "Half widths of 90 % intervals, by how far a job is from all measured runs: the 90th percentile of the errors "
        "of held-out runs that were as far, every source weighing alike, and of adapters no less than the 85th of "
        "each split of ten runs and more. Of speeds, *measured*: GPU and framework were measured; *transferred*: "
        "another GPU of the chip's family, and the framework; *extrapolated*: either of the two; *far*: neither, or no "
        "GPU of the vendor. Of peaks, *measured*: the framework; *transferred*: another of its kernels; "
        "*extrapolated*: neither; *far*: no GPU of the vendor, which nobody measured here. Beside its "
        f"share a peak is uncertain by {calibration.widths.memory_bytes / 1e9:.1f} GB: with them 90 % of tiny models "
        "lie inside whose source is left out.\n\n"
        "| evidence | tokens/s, dense | adapters on one GPU | experts | peak memory |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        f"{widths}\n\n{tables}\n"
    )


if __name__ == "__main__":
    main()
