"""Fit the law of power: `python benchmarks/energy.py llm-energy.csv.gz diffusion-energy.csv.gz --write`.

The rows are runs of vLLM and of diffusion pipelines with the power of the GPUs (ML.ENERGY benchmark). The work of a
mean step is counted from the model and the run's batch; its time is the measured one. Prompts of served runs are not
stated: those of each task are chosen from `PROMPTS` with the rest of the fit, and so again without the rows that it is
judged on, by every split of `energy_widths.py`. The form of the law is chosen by errors on models left out (a model is
left out in all its formats).

Without --write the held-out errors are printed alone. With it `capplan/calibrations/energy.yaml` and the tables of
`docs/energy.md` are written. With --own-factor it prints what a factor of a card's own is worth.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import exp, hypot
from pathlib import Path
from statistics import geometric_mean

import numpy as np
from energy_widths import (
    GENERATION,
    SPLITS,
    Prediction,
    Widths,
    hold_out_all,
    is_served,
    is_stated,
    judge_widths,
    learn_widths,
    table_of_splits,
)
from pages import write_section

from capplan.app.deployments import Deployments
from capplan.app.pipelines.validate import MeasuredParts
from capplan.core.calibrate.residuals import LeastSquares, minimise
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import BoolArray, FloatArray
from capplan.core.origin import Origin
from capplan.core.power import PeakDensity, PowerConstants, PowerLaw, PowerNovelty, RateShares, rate_shares
from capplan.llm.core.search.judged_runs import prepare_all, validate_serving, words_of
from capplan.llm.core.serving.cases import MeasuredRun
from capplan.llm.core.serving.energy import EnergyMetric, ServedTokens, card_work
from capplan.llm.read.calibrations import load_time_calibration
from capplan.llm.read.serving_rows import read_serving
from capplan.specs import load_gpus
from capplan.specs.fitted import ENERGY_FILE, dump_power_law, load_pipeline_calibration, load_power_law
from capplan.specs.measurements import read_measured_pipelines

ROOT = Path(__file__).parents[1]
PROMPTS = (100, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 8000)
ALLOWED = {
    "lm-arena-chat": (100, 700),
    "gpqa": (100, 700),
    "image-chat": (300, 8000),
    "video-chat": (300, 8000),
    "sourcegraph-fim": (1000, 8000),
}
"""What the description of the tasks leaves open: some hundred tokens, some thousand, and image tokens on top."""
DESCRIBED = {"lm-arena-chat": 300, "gpqa": 300, "image-chat": 1500, "video-chat": 5000, "sourcegraph-fim": 3000}
"""Prompts by the description of the tasks, where the fit starts. A task that was seen in no other run keeps them."""
DIFFUSION = "diffusion"
COVERAGE = 0.9
SPREAD = 0.1
"""The spread of a row's logarithm that residuals are measured in; beyond one and a half of it they count linearly."""


@dataclass(frozen=True, kw_only=True)
class PowerRow:
    """A measured run: the card, its rates by assumed prompt, and its mean power as a share of the limit.

    Rates of a diffusion run do not depend on a prompt.
    """

    model: str
    family: str
    task: str
    gpu: GpuSpec
    shares: Mapping[int, RateShares]
    measured_fraction: float
    run: MeasuredRun | None = None


def read_served(path: Path, deployments: Deployments) -> tuple[list[PowerRow], Counter[str]]:
    """Read the served runs; the second part counts, by reason, those whose model cannot be counted."""
    prepared, skipped = prepare_all(read_serving(path).runs, deployments.find, qualities="AB")
    rows = []
    for item in prepared:
        run, energy, gpu = item.run, item.run.energy, item.deployment.gpu
        assert energy is not None
        assert energy.running is not None
        assert energy.output_tokens_per_s is not None
        assert energy.power_w is not None
        shares = {}
        for prompt in PROMPTS:
            tokens = ServedTokens(running=energy.running, input_len=prompt, output_len=run.output_len)
            rate = energy.output_tokens_per_s
            work = card_work(item.deployment.kernels, gpu, run.sharding, tokens, output_tokens_per_s=rate)
            shares[prompt] = rate_shares(gpu, work)
        rows.append(
            PowerRow(
                model=run.model,
                family=run.model.removesuffix("-FP8"),
                task=energy.task,
                gpu=gpu,
                shares=shares,
                measured_fraction=energy.power_w / run.sharding.gpus / _limit_w(gpu),
                run=run,
            )
        )
    return rows, Counter(row.reason.split(";")[0] for row in skipped)


def read_diffusion(path: Path) -> list[PowerRow]:
    """Read the runs of diffusion pipelines; their work is counted from traces of all their parts."""
    runs, _ = read_measured_pipelines(path)
    parts = MeasuredParts({run.gpu for run in runs}, pipelines=load_pipeline_calibration())
    rows = []
    for run in runs:
        gpu = parts.gpus[run.gpu]
        work = parts.of(run).peak_seconds(gpu, [run.batch])[0]
        assert work is not None
        assert run.power_w is not None
        rows.append(
            PowerRow(
                model=run.pipeline,
                family=run.pipeline,
                task=DIFFUSION,
                gpu=gpu,
                shares=dict.fromkeys(PROMPTS, work.over(run.latency_s)),
                measured_fraction=run.power_w / run.degrees.gpu_count / _limit_w(gpu),
            )
        )
    return rows


# --- the fit ----------------------------------------------------------------------------------------------------------

NAMES = ("base_fraction", "memory", "cache", "compute", "narrow_weight", "left")
"""What is fitted, as logarithms; `left` is what the top leaves of the limit."""
PRIOR = np.log([0.2, 1.0, 1.0, 8.0, 2.5, 0.04])
PRIOR_SD = np.array([0.4, 0.7, 0.7, 0.5, 0.4, 0.5])
"""Idle cards draw a tenth to a third of their limit; a card at a third of its peaks comes near the limit. Beyond that
the priors say little: about 500 rows stand against them."""


def _with_cache(values: FloatArray) -> FloatArray:
    return values


def _one_memory(values: FloatArray) -> FloatArray:
    """Count the bytes of attention like all others."""
    return np.array([*values[:2], values[1], *values[3:]])


def _to_the_limit(values: FloatArray) -> FloatArray:
    """Let the mean come up to the limit itself."""
    return np.array([*values[:5], np.log(1e-6)])


FORMS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "cache apart, top free": _with_cache,
    "all bytes alike": _one_memory,
    "top at the limit": _to_the_limit,
}
SHIPPED_FORM = "top at the limit"


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What is chosen and fitted: the form, prompts by task, and constants by architecture and of all others.

    Densities are those of the cards that taught them; `density` is that of all, None to take no heed of it.
    """

    form: str
    prompts: Mapping[str, int]
    constants: Mapping[str, FloatArray]
    others: FloatArray
    densities: Mapping[str, PeakDensity]
    density: PeakDensity | None

    def fractions(self, rows: Sequence[PowerRow], *, as_others: bool = False) -> FloatArray:
        """Return the expected shares of the limit; with the constants of others where asked for."""
        found = _fractions(_table(rows, self.prompts, self.density), self.others)
        for name, logs in () if as_others else self.constants.items():
            mine = [index for index, row in enumerate(rows) if row.gpu.architecture == name]
            if mine:
                table = _table([rows[index] for index in mine], self.prompts, self.densities[name])
                found[mine] = _fractions(table, logs)
        return found


def density_of(rows: Sequence[PowerRow]) -> PeakDensity:
    """Return the density of the cards of some rows: the geometric mean, each card once."""
    gpus = {row.gpu.id: row.gpu for row in rows}.values()
    return PeakDensity(
        bytes_per_j=round(geometric_mean(gpu.memory_bandwidth_bytes_per_s / _limit_w(gpu) for gpu in gpus)),
        flops_per_j=round(geometric_mean((gpu.peak(PeakKind.FP16) or 0.0) / _limit_w(gpu) for gpu in gpus)),
    )


def _table(rows: Sequence[PowerRow], prompts: Mapping[str, int], density: PeakDensity | None) -> FloatArray:
    """Return the shares of the peaks as cards of a density would demand them [row, kind]."""
    table = []
    for row in rows:
        share = row.shares[prompts.get(row.task, DESCRIBED.get(row.task, 300))]
        than = density.of(row.gpu) if density else None
        memory, compute = (than.bytes_per_j, than.flops_per_j) if than else (1.0, 1.0)
        table.append([memory * share.memory, memory * share.cache, compute * share.wide, compute * share.narrow])
    return np.array(table)


def _fractions(table: FloatArray, logs: FloatArray) -> FloatArray:
    base, memory, cache, compute, narrow, left = np.exp(logs)
    demand = memory * table[:, 0] + cache * table[:, 1] + compute * (table[:, 2] + narrow * table[:, 3])
    return np.asarray(base + (1.0 - left - base) * (1.0 - np.exp(-demand)))


def fit_constants(rows: Sequence[PowerRow], form: str, prompts: Mapping[str, int]) -> FloatArray:
    """Fit the constants of one architecture; served runs and diffusion runs weigh the same in sum."""
    table = _table(rows, prompts, density_of(rows))
    measured = np.log([row.measured_fraction for row in rows])
    is_diffusion = np.array([row.task == DIFFUSION for row in rows])
    counts = np.where(is_diffusion, is_diffusion.sum(), (~is_diffusion).sum())
    freed = FORMS[form]

    def residuals(logs: FloatArray) -> FloatArray:
        return np.asarray((np.log(_fractions(table, freed(logs))) - measured) / SPREAD)

    def derivatives(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        middle = residuals(logs)
        columns = [(residuals(logs + step) - middle) / 1e-5 for step in 1e-5 * np.eye(len(logs))]
        return middle, np.stack(columns, axis=1)

    problem = LeastSquares(
        residuals=residuals,
        derivatives=derivatives,
        row_weight=len(rows) / counts / len(set(counts)),
        prior_mean=PRIOR,
        prior_sd=PRIOR_SD,
        huber=1.5,
    )
    return freed(minimise(problem, PRIOR, iterations=40))


def fit_form(rows: Sequence[PowerRow], form: str) -> Fitted:
    """Fit one form: constants with a first prompt, then the prompts, then the constants again."""
    architectures = sorted({row.gpu.architecture for row in rows})
    density = density_of(rows)
    tasks = sorted({row.task for row in rows} - {DIFFUSION})

    def fitted(prompts: Mapping[str, int]) -> Fitted:
        groups = {name: [row for row in rows if row.gpu.architecture == name] for name in architectures}
        return Fitted(
            form=form,
            prompts=prompts,
            constants={name: fit_constants(group, form, prompts) for name, group in groups.items()},
            others=fit_constants(rows, form, prompts),
            densities={name: density_of(group) for name, group in groups.items()},
            density=density,
        )

    def error(law: Fitted, task: str, prompt: int) -> float:
        group = [row for row in rows if row.task == task]
        return float(np.mean(np.abs(logs_of(group, replace(law, prompts={task: prompt})))))

    prompts: dict[str, int] = {}
    for _ in range(2):
        law = fitted(prompts)
        prompts = {task: min(_open_prompts(task), key=partial(error, law, task)) for task in tasks}
    return fitted(prompts)


def _open_prompts(task: str) -> list[int]:
    least, most = ALLOWED[task]
    return [prompt for prompt in PROMPTS if least <= prompt <= most]


def logs_of(rows: Sequence[PowerRow], law: Fitted, *, as_others: bool = False) -> FloatArray:
    """Return log(measured ÷ predicted)."""
    measured = np.array([row.measured_fraction for row in rows])
    return np.asarray(np.log(measured / law.fractions(rows, as_others=as_others)))


def held_out(
    rows: Sequence[PowerRow],
    keys: Sequence[str],
    fit: Callable[[Sequence[PowerRow]], Fitted],
    *,
    as_others: bool = False,
) -> tuple[FloatArray, dict[str, Fitted]]:
    """Return log(measured ÷ predicted) of each row with a law that saw no row of its key, and these laws."""
    logs, laws = np.full(len(rows), np.nan), {}
    for key in sorted(set(keys)):
        laws[key] = fit([row for row, other in zip(rows, keys, strict=True) if other != key])
        mine = [index for index, other in enumerate(keys) if other == key]
        logs[mine] = logs_of([rows[index] for index in mine], laws[key], as_others=as_others)
    return logs, laws


def choose(rows: Sequence[PowerRow]) -> Fitted:
    """Choose the form by the errors on models left out of the given rows, and fit it to all of them."""
    families = [row.family for row in rows]

    def error(form: str) -> float:
        return float(np.mean(np.abs(held_out(rows, families, lambda some: fit_form(some, form))[0])))

    return fit_form(rows, min(FORMS, key=error))


# --- the judgement ----------------------------------------------------------------------------------------------------


def errors_of(logs: FloatArray) -> dict[str, float]:
    """Return the median and 90th percentile of |predicted ÷ measured − 1|, the bias, and the rows."""
    relative = np.abs(np.exp(-logs) - 1)
    return {
        "median": round(float(np.median(relative)), 4),
        "p90": round(float(np.quantile(relative, 0.9)), 4),
        "bias": round(exp(float(-np.median(logs))), 4),
        "rows": float(len(logs)),
    }


def constants_of_logs(logs: FloatArray, density: PeakDensity | None, *, log_half_width: float) -> PowerConstants:
    """Return fitted constants as the law holds them."""
    base, memory, cache, compute, narrow, left = (float(value) for value in np.exp(logs))
    return PowerConstants(
        base_fraction=round(base, 4),
        top_fraction=round(1.0 - left, 4),
        memory=round(memory, 4),
        cache=round(cache, 4),
        compute=round(compute, 4),
        narrow_weight=round(narrow, 4),
        log_half_width=log_half_width,
        density=density,
    )


def law_of(fitted: Fitted, widths: Widths) -> PowerLaw:
    """Return a law without an origin and without what was learnt of joules."""
    added = widths.added[GENERATION]
    return PowerLaw(
        architectures={
            name: constants_of_logs(
                logs, fitted.densities[name], log_half_width=round(widths.base.get(name, widths.whole), 4)
            )
            for name, logs in fitted.constants.items()
        },
        others=constants_of_logs(fitted.others, fitted.density, log_half_width=round(hypot(widths.whole, added), 4)),
        capping=load_power_law().capping,
        widths={
            novelty: round(widths.added[novelty], 4)
            for novelty in (PowerNovelty.MARKET, PowerNovelty.WORK, PowerNovelty.REQUESTS)
        },
        task_prompts={task: prompt for task, prompt in sorted(fitted.prompts.items()) if task != DIFFUSION},
        origin=Origin(made=datetime.now(UTC).date(), command="", sources=(), rows=0),
    )


@dataclass(frozen=True, kw_only=True)
class Joules:
    """Joules per token with the time predicted, too: log(measured ÷ predicted), and half-widths on both sides.

    `is_hybrid` says of which rows the model has recurrent layers beside attention.
    """

    logs: FloatArray
    sides: FloatArray
    is_hybrid: BoolArray

    def beyond(self, side: int) -> FloatArray:
        """Return how many half-widths of the lower (0) or upper side (1) each measured value is away."""
        return np.asarray((-self.logs, self.logs)[side] / self.sides[:, side])

    def coverage(self, widening: Mapping[str, float]) -> float:
        """Return the share inside intervals whose sides are widened."""
        return float(((self.beyond(0) <= widening["low"]) & (self.beyond(1) <= widening["high"])).mean())


def end_to_end(groups: Sequence[tuple[Sequence[PowerRow], PowerLaw]], deployments: Deployments) -> Joules:
    """Judge joules per token of the served rows of groups with known requests, each by a law that did not see it."""
    calibration, answers = load_time_calibration(None), []
    for rows, law in groups:
        runs = [
            replace(row.run, input_len=law.task_prompts.get(row.task, DESCRIBED[row.task]), values={})
            for row in rows
            if row.run is not None
        ]
        found = validate_serving(runs, find=deployments.find, calibration=calibration, power_law=law)
        answers += [item for item in found.answers if item.metric is EnergyMetric.JOULES]
    logs = np.array([np.log(item.measured / item.predicted.expected) for item in answers])
    sides = [
        [np.log(item.predicted.expected / item.predicted.low), np.log(item.predicted.high / item.predicted.expected)]
        for item in answers
    ]
    hybrid = {
        model: bool(deployments.find(words_of(run)).kernels.states)
        for model, run in {item.run.model: item.run for item in answers}.items()
    }
    return Joules(logs=logs, sides=np.array(sides), is_hybrid=np.array([hybrid[item.run.model] for item in answers]))


USUAL = ("model", "model family")
"""Splits by whose joules the interval is widened: both of cards whose generation was measured."""
JOULE_SPLITS = ("a fifth of the deployments", "model", "model family", "GPU and generation", "GPU, and model")


def judge(rows: Sequence[PowerRow], deployments: Deployments, *, command: str, sources: tuple[str, ...]) -> PowerLaw:
    """Fit the law, its widths and what joules are widened by, and judge all on what the fit did not see."""
    fitted = choose(rows)
    found, laws = hold_out_all(rows, partial(fit_form, form=fitted.form), logs_of)
    halves = judge_widths(rows, found)
    widths = learn_widths(rows, found, np.ones(found.errors.size, dtype=bool))
    law = law_of(fitted, widths)
    errors = errors_by_split(rows, found, halves)
    joules = {}
    for split in JOULE_SPLITS:
        groups = []
        for key, other in laws[split].items():
            mine = [rows[place] for place in found.places[(found.split == split) & (found.group == "|".join(key))]]
            groups.append((mine, law_of(other, widths)))
        joules[split] = end_to_end(groups, deployments)
    below, above = (np.concatenate([joules[split].beyond(side) for split in USUAL]) for side in (0, 1))
    widening = {
        "low": round(max(1.0, float(np.quantile(below, (1 + COVERAGE) / 2))), 3),
        "high": round(max(1.0, float(np.quantile(above, (1 + COVERAGE) / 2))), 3),
    }
    usual = joules["model"]
    errors["joules of chat and reasoning, time predicted"] = errors_of(usual.logs[~usual.is_hybrid])
    errors["joules of hybrid models, time predicted"] = errors_of(usual.logs[usual.is_hybrid])
    for split, judged in joules.items():
        width = float(np.median(judged.sides[:, 1])) * widening["high"]
        inside = {"coverage": round(judged.coverage(widening), 3), "width": round(width, 3)}
        errors[f"joules, {split}"] = errors_of(judged.logs) | inside
    return replace(
        law,
        served_widening=widening,
        origin=Origin(made=law.origin.made, command=command, sources=sources, rows=len(rows), held_out_errors=errors),
    )


def errors_by_split(rows: Sequence[PowerRow], found: Prediction, halves: FloatArray) -> dict[str, dict[str, float]]:
    """Return the errors of power by split and kind of rows, and of models left out by task and GPU."""
    of = [rows[place] for place in found.places]
    served, stated = np.array([is_served(row) for row in of]), np.array([is_stated(row) for row in of])
    by_model = found.split == "model"
    errors = {
        "served models": errors_of(found.errors[by_model & served]),
        "diffusion models": errors_of(found.errors[by_model & ~served]),
    }
    for task in sorted({row.task for row in of} - {DIFFUSION}):
        errors[f"model, {task}"] = errors_of(found.errors[by_model & [row.task == task for row in of]])
    for gpu in sorted({row.gpu.id for row in of}):
        errors[f"model, {gpu}"] = errors_of(found.errors[by_model & [row.gpu.id == gpu for row in of]])
    kinds = {"served": served & stated, "served, requests not stated": served & ~stated, "diffusion": ~served}
    for split in SPLITS:
        for kind, those in kinds.items():
            mine = (found.split == split) & those & ~np.isnan(halves)
            if mine.any():
                inside = np.abs(found.errors[mine]) <= halves[mine]
                widths = {"coverage": round(float(inside.mean()), 3), "width": round(float(np.median(halves[mine])), 3)}
                errors[f"{split}, {kind}"] = errors_of(found.errors[mine]) | widths
    return errors


def with_own_factor(rows: Sequence[PowerRow], form: str, *, models: int, draws: int = 60) -> dict[str, float]:
    """Return the errors on a GPU that no law saw and of which some models were measured to learn its factor.

    Args:
        rows: The rows.
        form: The form of the law.
        models: How many models the factor is learnt from, as `capplan calibrate power` does; the others are judged.
        draws: How often these are drawn for each GPU.
    """
    gpus, families = np.array([row.gpu.id for row in rows]), np.array([row.family for row in rows])
    errors = held_out(rows, list(gpus), lambda some: fit_form(some, form), as_others=True)[0]
    random, judged = np.random.default_rng(0), []
    for gpu in sorted(set(gpus)):
        mine = gpus == gpu
        for _ in range(draws):
            chosen = random.choice(sorted(set(families[mine])), models, replace=False)
            factor = np.mean([errors[mine & (families == family)].mean() for family in chosen])
            judged.append(errors[mine & ~np.isin(families, chosen)] - factor)
    return errors_of(np.concatenate(judged))


def tables(law: PowerLaw) -> str:
    """Return the constants and the held-out errors as Markdown."""
    lines = ["| architecture | base | top | memory | cache | compute | narrow | 90 % interval |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, found in [*sorted(law.architectures.items()), ("others", law.others)]:
        lines.append(
            f"| {name} | {found.base_fraction:.2f} | {found.top_fraction:.2f} | {found.memory:.2f} | {found.cache:.2f} "
            f"| {found.compute:.2f} | {found.narrow_weight:.2f} | ×÷ {exp(found.log_half_width):.2f} |"
        )
    added = ", ".join(f"{novelty.value} ×÷ {exp(width):.2f}" for novelty, width in sorted(law.widths.items()))
    lines += ["", f"What is added in square to the logarithm of an interval's half-width: {added}."]
    lines += ["", *table_of_splits(law.origin.held_out_errors)]
    lines += ["", "| model left out | rows | median error | 90th percentile | predicted ÷ measured |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |"]
    for name, errors in law.origin.held_out_errors.items():
        if "coverage" in errors:
            continue
        lines.append(
            f"| {name} | {errors['rows']:.0f} | {100 * errors['median']:.1f} % | {100 * errors['p90']:.1f} % "
            f"| {errors['bias']:.2f} |"
        )
    prompts = ", ".join(f"{prompt:,} for {task}" for task, prompt in law.task_prompts.items())
    lines += ["", f"Prompts that were chosen, in tokens: {prompts}."]
    return "\n".join(lines)


def _limit_w(gpu: GpuSpec) -> float:
    assert gpu.tdp_w is not None
    return gpu.tdp_w


def main() -> None:
    """Print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("served", type=Path, help="llm-energy.csv.gz")
    parser.add_argument("diffusion", type=Path, help="diffusion-energy.csv.gz")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--own-factor", action="store_true", help="what a factor of a card's own is worth, alone")
    options = parser.parse_args()
    deployments = Deployments(gpus=load_gpus())
    served, skipped = read_served(options.served, deployments)
    files = (options.served.name, options.diffusion.name)
    rows = [*served, *read_diffusion(options.diffusion)]
    if options.own_factor:
        for models in (1, 2, 4, 8):
            print(f"a factor from {models} models of a GPU: {with_own_factor(rows, SHIPPED_FORM, models=models)}")
        return
    law = judge(
        rows,
        deployments,
        command=f"python benchmarks/energy.py {' '.join(files)} --write",
        sources=files,
    )
    print(tables(law))
    print(f"Joules are widened by {law.served_widening}.")
    for reason, count in skipped.most_common():
        print(f"{count} rows left out: {reason}")
    if options.write:
        (ROOT / "capplan" / "calibrations" / ENERGY_FILE).write_text(dump_power_law(law), encoding="utf-8")
        write_section(ROOT / "docs" / "energy.md", "figures", tables(law))


if __name__ == "__main__":
    main()
