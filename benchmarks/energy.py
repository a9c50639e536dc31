"""Fit the law of power to served language models: `python benchmarks/energy.py LLM-ENERGY.csv.gz --write`.

The rows are runs of vLLM with the power of the GPUs (ML.ENERGY benchmark). The work of a mean step is counted from the
model and the run's batch; its time is batch ÷ (output tokens per second). Prompt lengths are not stated by run: those
of `PROMPTS` are assumed. Rows of chat and of reasoning are fitted, whose prompts are short beside their answers. Rows
with images, video and code completion are judged only, because the prompts that dominate their work are not known.

Without --write the held-out errors are printed alone. With it `capplan/calibrations/energy.yaml` and the tables of
`docs/energy.md` are written.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.core.energy.power import CardWork, PowerConstants, PowerLaw, rate_shares, step_power_w
from capplan.core.gpus.spec import GpuSpec
from capplan.core.origin import Origin
from capplan.errors import CapplanError
from capplan.llm.answer.deployments import Deployments
from capplan.llm.core.deployment import DeploymentWords
from capplan.llm.core.serving.energy import ServedTokens, card_work
from capplan.llm.core.sharding import Sharding
from capplan.specs import load_gpus
from capplan.specs.power_law import ENERGY_FILE, dump_power_law

ROOT = Path(__file__).parents[1]
PROMPTS = {"lm-arena-chat": 300, "gpqa": 300, "sourcegraph-fim": 3000, "image-chat": 1500, "video-chat": 5000}
"""Mean prompt by task, from the description of the data: some hundred, some hundred, some thousand, image tokens."""
FITTED = ("lm-arena-chat", "gpqa")
NARROW_WEIGHTS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
COVERAGE = 0.9
START, END = "<!-- figures -->", "<!-- end of figures -->"


@dataclass(frozen=True, kw_only=True)
class PowerRow:
    """A measured run: the card, its work in a mean step, and the mean power of one card. [W]"""

    model: str
    task: str
    gpu: GpuSpec
    work: CardWork
    measured_w: float


def read_rows(path: Path) -> tuple[list[PowerRow], Counter[str]]:
    """Read the runs; the second part counts, by reason, those whose model cannot be counted."""
    deployments = Deployments(gpus=load_gpus())
    rows, skipped = [], Counter[str]()
    for run in pd.read_csv(path).itertuples():
        # Tensor and expert parallelism share the same GPUs; the file states the latter alone where experts are spread.
        sharding = Sharding(tensor=int(run.gpus) // int(run.dp), data=int(run.dp), expert=int(run.ep))
        words = DeploymentWords(model=str(run.model), gpu=str(run.gpu), engine="vllm", sharding=sharding)
        try:
            found = deployments.find(words)
        except CapplanError as error:
            skipped[str(error).split(";")[0]] += 1
            continue
        tokens = ServedTokens(
            running=float(run.avg_batch), input_len=PROMPTS[str(run.task)], output_len=float(run.avg_output_tokens)
        )
        work = card_work(found.kernels, found.gpu, sharding, tokens, output_tokens_per_s=float(run.output_tokens_per_s))
        rows.append(
            PowerRow(
                model=str(run.model),
                task=str(run.task),
                gpu=found.gpu,
                work=work,
                measured_w=float(run.power_w_all_gpus) / int(run.gpus),
            )
        )
    return rows, skipped


def fit_constants(rows: Sequence[PowerRow], *, narrow_weight: float) -> tuple[PowerConstants, float]:
    """Fit by least squares of relative errors, no constant below zero; return the mean squared error, too."""
    shares = [rate_shares(row.gpu, row.work, narrow_weight=narrow_weight) for row in rows]
    measured = np.array([row.measured_w / _limit_w(row) for row in rows])
    terms = np.array([[1.0, share.memory, share.compute**0.5] for share in shares]) / measured[:, None]
    kept = [0, 1, 2]
    while True:
        solved = np.linalg.lstsq(terms[:, kept], np.ones(len(rows)), rcond=None)[0]
        if (solved >= 0).all():
            break
        kept = [term for term, value in zip(kept, solved, strict=True) if value > 0]
    values = np.zeros(3)
    values[kept] = solved
    error = float(np.mean((terms @ values - 1) ** 2))
    base, memory, compute = (round(float(value), 4) for value in values)
    return PowerConstants(
        base_fraction=base, memory_fraction=memory, compute_fraction=compute, log_half_width=0.0
    ), error


def fit_law(rows: Sequence[PowerRow]) -> PowerLaw:
    """Fit constants by architecture and for all others; widths are left at zero."""
    architectures = sorted({row.gpu.architecture for row in rows})
    groups = {name: [row for row in rows if row.gpu.architecture == name] for name in architectures}

    def error(weight: float) -> float:
        return sum(fit_constants(group, narrow_weight=weight)[1] * len(group) for group in groups.values())

    weight = min(NARROW_WEIGHTS, key=error)
    return PowerLaw(
        architectures={name: fit_constants(group, narrow_weight=weight)[0] for name, group in groups.items()},
        others=fit_constants(rows, narrow_weight=weight)[0],
        narrow_weight=weight,
        origin=Origin(made=datetime.now(UTC).date(), command="", sources=(), rows=len(rows)),
    )


def predicted_w(row: PowerRow, law: PowerLaw) -> float:
    """Return the expected power of one card. [W]"""
    power = step_power_w(row.gpu, row.work, law)
    assert power is not None
    return power.expected


def held_out_logs(rows: Sequence[PowerRow], keys: Sequence[str]) -> np.ndarray:
    """Return log(measured ÷ predicted) of each row with a law that saw no row of its key."""
    logs = np.full(len(rows), np.nan)
    for key in sorted(set(keys)):
        law = fit_law([row for row, other in zip(rows, keys, strict=True) if other != key])
        for index in [index for index, other in enumerate(keys) if other == key]:
            logs[index] = np.log(rows[index].measured_w / predicted_w(rows[index], law))
    return logs


def half_width(logs: np.ndarray) -> float:
    """Return the half-width that covers the stated share of held-out rows."""
    return round(float(np.quantile(np.abs(logs), COVERAGE)), 4)


def errors_of(logs: np.ndarray) -> dict[str, float]:
    """Return the median and 90th percentile of |predicted ÷ measured − 1|, the bias, and the rows."""
    relative = np.abs(np.exp(-logs) - 1)
    return {
        "median": round(float(np.median(relative)), 4),
        "p90": round(float(np.quantile(relative, 0.9)), 4),
        "bias": round(exp(float(-np.median(logs))), 4),
        "rows": float(len(logs)),
    }


def judge(rows: Sequence[PowerRow], *, command: str, source: str) -> PowerLaw:
    """Fit the law and its widths, and judge it on rows left out by model, by task and by GPU, and on other tasks."""
    fitted = [row for row in rows if row.task in FITTED]
    by_model = held_out_logs(fitted, [row.model for row in fitted])
    by_task = held_out_logs(fitted, [row.task for row in fitted])
    by_gpu = held_out_logs(fitted, [row.gpu.id for row in fitted])
    law = fit_law(fitted)
    errors = {"model": errors_of(by_model), "task": errors_of(by_task), "gpu": errors_of(by_gpu)}
    for name in sorted({row.gpu.id for row in fitted}):
        errors[f"model, {name}"] = errors_of(by_model[[row.gpu.id == name for row in fitted]])
    for task in sorted({row.task for row in rows} - set(FITTED)):
        others = [row for row in rows if row.task == task]
        logs = np.array([np.log(row.measured_w / predicted_w(row, law)) for row in others])
        errors[f"not fitted, {task}"] = errors_of(logs)
    return PowerLaw(
        architectures={
            name: PowerConstants(
                base_fraction=constants.base_fraction,
                memory_fraction=constants.memory_fraction,
                compute_fraction=constants.compute_fraction,
                log_half_width=half_width(by_model[[row.gpu.architecture == name for row in fitted]]),
            )
            for name, constants in law.architectures.items()
        },
        others=PowerConstants(
            base_fraction=law.others.base_fraction,
            memory_fraction=law.others.memory_fraction,
            compute_fraction=law.others.compute_fraction,
            log_half_width=half_width(by_gpu),
        ),
        narrow_weight=law.narrow_weight,
        origin=Origin(
            made=law.origin.made, command=command, sources=(source,), rows=len(fitted), held_out_errors=errors
        ),
    )


def tables(law: PowerLaw) -> str:
    """Return the constants and the held-out errors as Markdown."""
    lines = ["| architecture | base | memory | compute | 90 % interval |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, found in [*sorted(law.architectures.items()), ("others", law.others)]:
        lines.append(
            f"| {name} | {found.base_fraction:.3f} | {found.memory_fraction:.3f} | {found.compute_fraction:.3f} "
            f"| ×÷ {exp(found.log_half_width):.2f} |"
        )
    lines += ["", f"Operations narrower than 16 bits count {law.narrow_weight:g} times their share of the peak.", ""]
    lines += ["| left out | rows | median error | 90th percentile | predicted ÷ measured |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |"]
    for name, found in law.origin.held_out_errors.items():
        lines.append(
            f"| {name} | {found['rows']:.0f} | {100 * found['median']:.1f} % | {100 * found['p90']:.1f} % "
            f"| {found['bias']:.2f} |"
        )
    return "\n".join(lines)


def _limit_w(row: PowerRow) -> float:
    assert row.gpu.tdp_w is not None
    return row.gpu.tdp_w


def main() -> None:
    """Print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows, skipped = read_rows(options.rows)
    command = f"python benchmarks/energy.py {options.rows.name} --write"
    law = judge(rows, command=command, source=options.rows.name)
    print(tables(law))
    for reason, count in skipped.most_common():
        print(f"{count} rows left out: {reason}")
    if options.write:
        (ROOT / "capplan" / "calibrations" / ENERGY_FILE).write_text(dump_power_law(law), encoding="utf-8")
        page = ROOT / "docs" / "energy.md"
        text = page.read_text(encoding="utf-8")
        head, rest = text.split(START)
        page.write_text(f"{head}{START}\n{tables(law)}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
