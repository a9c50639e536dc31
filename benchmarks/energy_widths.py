"""Widths of the law of power by distance, and its errors by splits that are like use; `energy.py` runs it.

Rows are held out by more than models: a number format, a task, a GPU and with it its generation, a kind of work (served
models or diffusion pipelines, and with it the engine), and combinations. One width is learnt of a model that nobody
measured on a generation that was, and what each further novelty adds in square, from the errors of all splits together.
A row is judged by widths that are learnt without its group.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from capplan.core.numbers import BoolArray, FloatArray
from capplan.core.power import PowerNovelty
from capplan.llm.core.serving.fit import CORRELATION, block_weights
from capplan.llm.core.serving.learn import COVERED, width_steps

if TYPE_CHECKING:
    from energy import Fitted, PowerRow

GENERATION = "generation"
STEPS = (GENERATION, PowerNovelty.WORK, PowerNovelty.REQUESTS)
"""What adds to the width of a model that nobody measured. Of other markets no row exists; they add twice, in
square, what a generation does whose peaks are not scaled to its limit."""
_LEAST_KEPT = 0.3
"""Share of the rows that a split must leave to learn from."""
_FOLDS = 5
_FEWEST_SHOWN = 20
"""Rows that must show what a step of distance adds."""

_OF_TWO = 1.5**0.5
"""What one group shows of the next, of two: the spread about a mean that is itself known from two, √(1 + 1/2)."""

Fit = Callable[[Sequence["PowerRow"]], "Fitted"]


def is_served(row: "PowerRow") -> bool:
    """Return True for a row of a served model."""
    return row.run is not None


def is_stated(row: "PowerRow") -> bool:
    """Return True for a row whose requests are stated, or whose work does not depend on them."""
    return row.run is None or row.run.energy is None or row.run.energy.is_timed


def _format(row: "PowerRow") -> str:
    """Return the width of the weights: of served models by their names, of pipelines 16 bits."""
    narrow = next((word for word in ("FP8", "gpt-oss", "DeepSeek") if word in row.model), None)
    return narrow or "16 bits"


def _publisher(row: "PowerRow") -> str:
    """Return the first word of a model's name, which its family shares."""
    found = re.match(r"[A-Za-z]+", row.model.rsplit("/", maxsplit=1)[-1])
    return found[0].lower() if found else row.model


def _deployment(row: "PowerRow") -> str:
    return f"{row.model}|{row.gpu.id}|{row.run.sharding if row.run else ''}|{row.task}"


SPLITS: Mapping[str, Callable[["PowerRow"], tuple[str, ...]]] = {
    "a fifth of the deployments": lambda row: (str(crc32(_deployment(row).encode()) % _FOLDS),),
    "model": lambda row: (row.family,),
    "model family": lambda row: (_publisher(row),),
    "number format": lambda row: (_format(row),),
    "task": lambda row: (row.task,) if is_stated(row) else (),
    "GPU and generation": lambda row: (row.gpu.id,),
    "GPU, and model": lambda row: (row.gpu.id, row.family),
    "engine and kind of work": lambda row: ("served" if is_served(row) else "diffusion",),
    "GPU, and kind of work": lambda row: (row.gpu.id, "served" if is_served(row) else "diffusion"),
}
"""By what rows are held out, the easiest first. With two names all rows that share one of them are left out."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Held-out rows by their places in all rows: log(measured ÷ predicted), split, group, and what was new of each.

    `as_shares` are the errors if all cards took the same share of their limit at their peaks.
    """

    places: FloatArray
    errors: FloatArray
    as_shares: FloatArray
    split: FloatArray
    group: FloatArray
    levels: FloatArray


def _others(rows: Sequence["PowerRow"], keys: Sequence[tuple[str, ...]], key: tuple[str, ...]) -> list["PowerRow"]:
    """Return the rows that share no name with a group."""
    return [row for row, own in zip(rows, keys, strict=True) if not any(a == b for a, b in zip(own, key, strict=False))]


def hold_out_all(
    rows: Sequence["PowerRow"], fit: Fit, logs_of: Callable[..., FloatArray]
) -> tuple[Prediction, dict[str, dict[tuple[str, ...], "Fitted"]]]:
    """Predict the rows of every group of every split by laws that did not see it; return the laws, too."""
    parts: list[tuple[list[int], FloatArray, str, tuple[str, ...], FloatArray, FloatArray]] = []
    laws: dict[str, dict[tuple[str, ...], Fitted]] = {}
    for split, keys_of in SPLITS.items():
        keys = [keys_of(row) for row in rows]
        laws[split] = {}
        for key in sorted(set(keys) - {()}):
            kept = _others(rows, keys, key)
            if len(kept) < _LEAST_KEPT * len(rows):
                continue
            law = laws[split][key] = fit(kept)
            mine = [index for index, own in enumerate(keys) if own == key]
            group = [rows[index] for index in mine]
            as_shares = logs_of(group, replace(law, density=None))
            parts.append((mine, logs_of(group, law), split, key, _levels(group, kept), as_shares))
    joined = Prediction(
        places=np.concatenate([part[0] for part in parts]),
        errors=np.concatenate([part[1] for part in parts]),
        as_shares=np.concatenate([part[5] for part in parts]),
        split=np.concatenate([np.full(len(part[0]), part[2]) for part in parts]),
        group=np.concatenate([np.full(len(part[0]), "|".join(part[3])) for part in parts]),
        levels=np.concatenate([part[4] for part in parts]),
    )
    return joined, laws


def _levels(group: Sequence["PowerRow"], kept: Sequence["PowerRow"]) -> FloatArray:
    """Return which steps of distance each row of a group passes [row, step]."""
    architectures = {row.gpu.architecture for row in kept}
    kinds = {is_served(row) for row in kept}
    return np.array(
        [
            [
                row.gpu.architecture not in architectures,
                is_served(row) not in kinds,
                not is_stated(row),
            ]
            for row in group
        ],
        dtype=float,
    )


@dataclass(frozen=True, kw_only=True)
class Widths:
    """Half-widths of logarithms: of a model left out, by architecture and of all, and what is added in square."""

    base: Mapping[str, float]
    whole: float
    added: Mapping[str, float]

    def half(self, architecture: str, levels: FloatArray) -> FloatArray:
        """Return the half-width of each row."""
        squares = np.array([self.added[step] ** 2 for step in STEPS])
        return np.asarray(np.sqrt(self.base.get(architecture, self.whole) ** 2 + levels @ squares))


def learn_widths(rows: Sequence["PowerRow"], found: Prediction, kept: BoolArray) -> Widths:
    """Learn the widths from some predictions: every split and kind of work weighs the same.

    Rows of one model and task share their weight. Of generations and of kinds of work two were measured, so that each
    is judged by the other alone; another kind adds at least what a generation does
    whose peaks are not scaled to its limit.
    """
    errors, architectures = np.abs(found.errors), np.array([rows[place].gpu.architecture for place in found.places])
    near = kept & (found.split == "model") & ~found.levels.any(axis=1)
    whole = float(np.quantile(errors[near], COVERED))
    base = {
        str(name): float(np.quantile(errors[near & (architectures == name)], COVERED))
        for name in np.unique(architectures[near])
    }
    blocks = [
        f"{split}|{rows[place].family}|{rows[place].task}|{rows[place].gpu.id}"
        for split, place in zip(found.split, found.places, strict=True)
    ]
    weights = block_weights(blocks, correlation=CORRELATION) * kept
    kinds = np.array([f"{split}|{is_served(rows[at])}" for split, at in zip(found.split, found.places, strict=True)])
    for kind in np.unique(kinds[kept]):
        weights[kinds == kind] /= weights[kinds == kind].sum()
    bases = np.array(
        [
            whole if levels[0] else base.get(name, whole)
            for name, levels in zip(architectures, found.levels, strict=True)
        ]
    )
    steps = width_steps(errors[kept], bases[kept], found.levels[kept], weights[kept])
    added = dict(zip(STEPS, np.sqrt(steps).tolist(), strict=True))
    added[GENERATION] *= _OF_TWO
    new = kept & (found.split == "GPU and generation")
    as_shares = float(np.quantile(np.abs(found.as_shares[new]), COVERED)) if new.any() else whole
    unscaled = max(_OF_TWO * max(as_shares**2 - whole**2, 0.0) ** 0.5, added[GENERATION])
    added[PowerNovelty.MARKET] = 2**0.5 * unscaled  # of its generation, whose share is not scaled, and of its memory
    added[PowerNovelty.WORK] = max(_OF_TWO * added[PowerNovelty.WORK], unscaled)
    return Widths(base=base, whole=whole, added=added)


def judge_widths(rows: Sequence["PowerRow"], found: Prediction) -> FloatArray:
    """Return the half-width of each prediction, from widths that were learnt without the rows of its group.

    It is not a number where too few of the other rows show what its distance adds.
    """
    halves = np.full(found.errors.size, np.nan)
    for split, group in sorted(set(zip(found.split.tolist(), found.group.tolist(), strict=True))):
        mine = (found.split == split) & (found.group == group)
        kept = ~np.isin(found.places, found.places[mine])
        widths = learn_widths(rows, found, kept)
        once = np.zeros(len(rows))[:, None] + np.zeros(len(STEPS))
        np.maximum.at(once, found.places[kept], found.levels[kept])
        shown = once.sum(axis=0) >= _FEWEST_SHOWN
        for place in np.flatnonzero(mine):
            levels, architecture = found.levels[place], rows[found.places[place]].gpu.architecture
            if (shown | (levels == 0)).all():
                halves[place] = widths.half("" if levels[0] else architecture, levels)
    return halves


def table_of_splits(errors: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the errors by split as lines of Markdown, the easiest split first."""
    lines = [
        "| left out | rows | median error | 90th percentile | predicted ÷ measured | inside 90 % interval | width |"
    ]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, found in errors.items():
        if "coverage" not in found:
            continue
        lines.append(
            f"| {name} | {found['rows']:.0f} | {100 * found['median']:.1f} % | {100 * found['p90']:.1f} % "
            f"| {found['bias']:.2f} | {100 * found['coverage']:.0f} % | ×÷ {np.exp(found['width']):.2f} |"
        )
    return lines
