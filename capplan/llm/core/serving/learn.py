"""Make a calibration from measured runs: constants, and interval widths from runs that were held out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from capplan.core.numbers import BoolArray, FloatArray
from capplan.llm.core.engines import parse_version, version_of
from capplan.llm.core.serving.evidence import AskedCard, ServingEvidence, evidence_of
from capplan.llm.core.serving.fit import CORRELATION, FullFit, Observation, Tabulated, block_weights
from capplan.llm.core.serving.priors import PRIOR
from capplan.llm.core.timing.calibration import (
    DISTANCES,
    KernelClass,
    LlmCalibration,
    Novelty,
    Width,
    engine_width,
    factor_name,
    pair_name,
    vendor_name,
)
from capplan.llm.core.timing.work import IntArray, kernel_classes

COVERED = 0.9
POOLED_DEPLOYMENTS = 3.0
"""Deployments of an engine at which its own errors weigh as much as those of all engines in its interval widths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntRun:
    """An observation with the names that it can be held out by, and the name of its interval widths.

    `deployment` names the runs of the same model, GPUs, engine, formats and parallelism. `release` is that of the
    engine, and `publisher` and `year` say who published the run and when.
    """

    observation: Observation
    gpu: str
    model: str
    family: str
    width: str
    deployment: str
    segment: str = ""
    vendor: str = "NVIDIA"
    release: str = ""
    publisher: str = ""
    year: int | None = None

    @property
    def architecture(self) -> str:
        return self.observation.case.machine.architecture

    @property
    def engine(self) -> str:
        return self.observation.case.engine

    @property
    def engine_name(self) -> str:
        return self.engine.split(maxsplit=1)[0]

    @property
    def kernels(self) -> frozenset[KernelClass]:
        return kernel_classes(self.observation.case.kernels)


def learn(runs: Sequence[LearntRun], table: Tabulated, fit: FullFit, *, name: str) -> LlmCalibration:
    """Return the calibration of a fit to all runs; it has no interval widths yet."""
    constants = table.layout.view(fit.vector)
    switched, host = constants.links()
    calibration = LlmCalibration(
        name=name,
        kernels=constants.kernels(),
        engines=constants.engines(),
        switched=switched,
        host=host,
        device=constants.devices(),
        kernel_factors=constants.factors(),
    )
    return replace(known_by(runs, calibration), kernel_factors=calibration.kernel_factors)


def _line(run: LearntRun) -> str:
    return vendor_name(run.vendor, run.architecture, run.engine)


def known_by(runs: Sequence[LearntRun], calibration: LlmCalibration) -> LlmCalibration:
    """Return a calibration that says what some runs measured.

    An engine counts where more than one client was served.
    """
    releases: dict[str, list[tuple[tuple[int, ...], str]]] = {}
    for run in runs:
        if (version := version_of(run.release)) is not None:
            key = pair_name(run.architecture, run.engine)
            releases.setdefault(key, []).append((version, ".".join(map(str, version))))
    kernels = {
        factor_name(run.engine, run.architecture, kernel)
        for run in {id(run.observation.case): run for run in runs}.values()
        for kernel in run.kernels
    }
    return replace(
        calibration,
        measured_gpus=frozenset(pair_name(run.gpu, run.engine) for run in runs),
        measured_pairs=frozenset(pair_name(run.model, run.engine) for run in runs),
        measured_engines=frozenset(run.engine for run in runs if run.observation.case.clients > 1),
        measured_segments=frozenset(run.segment for run in runs if run.segment),
        measured_vendors=frozenset(map(_line, runs)),
        measured_releases={name: (min(found)[1], max(found)[1]) for name, found in sorted(releases.items())},
        single_streams=PRIOR.single_streams,
        kernel_factors=dict.fromkeys(kernels, 1.0),
    )


def evidence_of_run(run: LearntRun, calibration: LlmCalibration) -> ServingEvidence:
    return evidence_of(
        calibration,
        model=run.model,
        card=AskedCard(gpu=run.gpu, vendor=run.vendor, architecture=run.architecture, segment=run.segment or None),
        engine=run.engine,
        release=version_of(run.release),
        kernels=run.kernels,
    )


_NEWER = {"vllm": ("0.15", "0.23"), "sglang": ("0.5.9", "0.5.12"), "trtllm": ("1.0", "1.2")}
_OLDER = {"vllm": ("0.9", "0.14"), "sglang": ("0.5.9",), "trtllm": ("0.11", "1.0")}
"""Releases from which on runs are held out by the splits of engine releases, and those before which."""
_FOLDS = 5
_FEWEST_OF_TWO = 20
"""Runs that share both names of a split of two, from which on they are held out."""
_LEAST_KEPT = 0.3
"""Share of the runs that a split must leave to learn from."""

_ATTENTION = frozenset({
    KernelClass.DECODE_GQA, KernelClass.DECODE_VECTOR, KernelClass.PREFILL, KernelClass.PREFILL_FP8,
})  # fmt: skip
"""Classes that nearly all runs of an engine share, which leave nothing of it to learn from."""

SPLITS: Mapping[str, Callable[[LearntRun], Sequence[str]]] = {
    "deployment": lambda run: (str(crc32(run.deployment.encode()) % _FOLDS),),
    "model": lambda run: (run.model,),
    "family": lambda run: (run.family,),
    "gpu": lambda run: (run.gpu,),
    "architecture": lambda run: (run.architecture,),
    "vendor": lambda run: (run.vendor,),
    "release": lambda run: newer_than(run.engine_name, run.release),
    "older": lambda run: older_than(run.engine_name, run.release),
    "format": lambda run: [f"{item} | {run.engine_name}" for item in run.kernels if item not in _ATTENTION],
    "engine": lambda run: (run.engine_name,),
    "publisher": lambda run: (run.publisher,) if run.publisher else (),
    "year": lambda run: (str(run.year),) if run.year else (),
    "architecture and engine": lambda run: (f"{run.architecture}, {run.engine_name}",),
    "gpu and family": lambda run: (f"{run.gpu}, {run.family}",),
}
"""By what runs are held out together: the groups of a run, easiest split first.

Of the last two a run is predicted without all that shares the one *or* the other of its names."""


def newer_than(engine: str, release: str) -> tuple[str, ...]:
    """Return the names of the releases that a run is not older than, of those that are held out."""
    version, texts = version_of(release), _NEWER.get(engine, ())
    return tuple(f"{engine} {text}" for text in texts if version is not None and version >= parse_version(text))


def older_than(engine: str, release: str) -> tuple[str, ...]:
    """Return the names of the releases that a run is older than, of those before which runs are held out."""
    version, texts = version_of(release), _OLDER.get(engine, ())
    return tuple(f"{engine} before {text}" for text in texts if version is not None and version < parse_version(text))


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Runs that were predicted without their group: their places, logarithms of predicted ÷ measured, and evidence.

    `group` names the runs that are judged by widths which are learnt without them. Vendors are too few to learn the
    width of one from the others, so that it is their lines of GPUs with one generation of an engine.
    """

    rows: IntArray
    errors: FloatArray
    evidence: tuple[ServingEvidence, ...]
    group: NDArray[np.str_]

    def where(self, mine: BoolArray) -> "HeldOut":
        kept = [item for item, taken in zip(self.evidence, mine, strict=True) if taken]
        return HeldOut(self.rows[mine], self.errors[mine], tuple(kept), self.group[mine])


OWN_SPLITS: Mapping[str, Callable[[LearntRun], Sequence[str]]] = {
    "gpu": SPLITS["gpu"],
    "version": lambda run: (f"{run.engine_name} {run.release}",),
}
"""By what runs are held out that a user's own calibration is judged by."""


def hold_out(runs: Sequence[LearntRun], table: Tabulated, fit: FullFit, *, split: str) -> HeldOut:
    """Predict all runs of each group of a split with constants that are fitted without the group."""
    groups: dict[str, list[int]] = {}
    groups_of = {**OWN_SPLITS, **SPLITS}[split]
    for row, run in enumerate(runs):
        for group in groups_of(run):
            groups.setdefault(group, []).append(row)
    observed = np.log([run.observation.value for run in runs])
    parts: list[HeldOut] = []
    table = table.around(fit)
    for group, members in groups.items():
        if " and " in split and len(members) < _FEWEST_OF_TWO:
            continue
        kept = np.ones(len(runs), dtype=bool)
        kept[members] = False
        if " and " in split:
            names = list(zip(split.split(" and "), group.split(", "), strict=True))
            own = {"architecture": "architecture", "engine": "engine_name", "gpu": "gpu", "family": "family"}
            shares_neither = np.array([all(getattr(run, own[by]) != name for by, name in names) for run in runs])
            kept &= shares_neither
        if kept.mean() < _LEAST_KEPT:
            continue
        errors = np.log(table.predict(fit, table.fit(fit, kept))) - observed
        known = known_by([run for run, is_kept in zip(runs, kept, strict=True) if is_kept], PRIOR)
        evidence = tuple(evidence_of_run(runs[row], known) for row in members)
        part = [_line(runs[row]) if split == "vendor" else group for row in members]
        parts.append(HeldOut(np.array(members), errors[members], evidence, np.array(part)))
    parts = parts or [HeldOut(np.zeros(0, dtype=np.int64), np.zeros(0), (), np.zeros(0, dtype=str))]
    return HeldOut(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.errors for part in parts]),
        tuple(item for part in parts for item in part.evidence),
        np.concatenate([part.group for part in parts]),
    )


@dataclass(frozen=True, slots=True)
class WidthRows:
    """The held-out errors of all splits, one entry a prediction, from which interval widths are learnt.

    `levels` says which steps of distance the evidence of each passes [prediction, step], and `is_known` that none. The
    rows of one deployment in a split share the `weight` of one and a few more.
    """

    labels: "_Labels"
    within: FloatArray
    rows: IntArray
    errors: FloatArray
    levels: FloatArray
    is_known: BoolArray
    split: NDArray[np.str_]
    group: NDArray[np.str_]
    each: "_Labels"
    metric: NDArray[np.str_]
    weight: FloatArray

    @classmethod
    def of(cls, runs: Sequence[LearntRun], held_out: Mapping[str, HeldOut], within: FloatArray) -> "WidthRows":
        """Join the splits. `within` are logarithms of predicted ÷ measured in sample."""
        parts = [found for found in held_out.values() if found.rows.size]
        evidence = [item for found in parts for item in found.evidence]
        labels, rows = _Labels.of(runs), np.concatenate([found.rows for found in parts])
        each = labels.at(rows)
        split = [name for name, found in held_out.items() for _ in found.rows]
        blocks = [f"{name}|{of}" for name, of in zip(split, each.deployment, strict=True)]
        return cls(
            labels,
            within,
            rows,
            np.concatenate([found.errors for found in parts]),
            np.array([_levels(item.novelties) for item in evidence]),
            np.array([item.novelties <= {Novelty.ENGINE} for item in evidence]),
            np.array(split),
            np.concatenate([found.group for found in parts]),
            each,
            np.array([name.split(",", maxsplit=1)[0] for name in each.name]),
            block_weights(blocks, correlation=CORRELATION),
        )

    def widths(self, kept: BoolArray) -> dict[str, Width]:
        """Compute the half-widths of 90 % intervals from the held-out errors of all splits together.

        The squared logarithm of a half-width is that of a deployment whose model, GPU and engine were measured in other
        settings, by metric, kind of model and generation of the engine, and what each novelty adds, by metric and kind.
        The former is learnt where a publisher or a year was left out, the latter are chosen together, so that the
        quantile loss at 90 % over the rows of all splits is least, where every split weighs the same and the rows of
        one deployment count as in the fit.
        """
        known = kept & np.isin(self.split, _STILL_KNOWN) & self.is_known
        same = _half_widths(np.abs(self.errors[known]), self.labels.at(self.rows[known]))
        # How far each logarithm is from the mean of its deployment, as if that mean were known exactly. Deviations
        # from the mean of n runs are too small by √((n − 1) ÷ n); a deployment of one run says nothing, and its
        # deviation is taken as the median of the others.
        _, inverse, counts = np.unique(self.labels.deployment, return_inverse=True, return_counts=True)
        means = np.bincount(inverse, weights=self.within) / counts
        runs = counts[inverse]
        found = np.abs(self.within - means[inverse]) * np.sqrt(runs / np.maximum(runs - 1, 1))
        if (runs > 1).any():
            found[runs == 1] = np.median(found[runs > 1])
        within_deployments = np.asarray(found)
        inner = _half_widths(within_deployments, self.labels)
        names = np.unique(self.labels.name)
        for name in names:  # one that was never held out is as wide as in sample
            same.setdefault(str(name), inner[str(name)])
        added = {str(name): self._added(str(name), same, kept) for name in names}

        def whole(name: str) -> str:  # the name of the widths of all engines, of which that of one begins with it
            return max((of for of in added if name == of or name.startswith(f"{of}, ")), key=len)

        return {
            name: Width(
                same=float(np.exp(half)),
                within=float(np.exp(min(inner.get(name, half), half))),
                **added[whole(name)],
            )
            for name, half in same.items()
        }

    def _added(self, name: str, same: Mapping[str, float], kept: BoolArray) -> dict[str, float]:
        """Return what each novelty adds to the widths of one metric and kind, and how far they reach to either side.

        What is farther adds at least as much as what is nearer. A twentieth of the errors of the kind, in half-widths,
        lies beyond either side.
        """
        labels = self.each
        mine = kept & (self.metric == name.split(",", maxsplit=1)[0])
        weights = np.where(labels.name == name, 1.0, _OTHER_KINDS) * mine * self.weight
        for split in np.unique(self.split[mine]):
            weights[self.split == split] /= weights[self.split == split].sum()
        bases = np.zeros(self.errors.size)
        for of in np.unique(labels.name[mine]):
            for engine in np.unique(labels.engine[mine]):
                those = mine & (labels.name == of) & (labels.engine == engine)
                bases[those] = same.get(engine_width(str(of), str(engine)), same[str(of)])
        steps = width_steps(np.abs(self.errors[mine]), bases[mine], self.levels[mine], weights[mine])
        novelties = [novelty for row in DISTANCES.values() for novelty in row]
        totals = {novelty.value: float(np.exp(np.sqrt(steps @ _levels({novelty})))) for novelty in novelties}
        own = mine & (labels.name == name)
        reached = self.errors[own] / np.sqrt(bases[own] ** 2 + self.levels[own] @ steps)
        sides = {
            side: float(np.clip(_quantile(sign * reached, weights[own], (1.0 + COVERED) / 2.0), *_SIDES))
            for side, sign in (("above", -1.0), ("below", 1.0))
            if reached.size
        }
        return {**totals, Novelty.NETWORK.value: totals[Novelty.VENDOR], **sides}


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """Return the value below which a share of the weight lies."""
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(weights[order]), share * weights.sum()))
    return float(values[order][min(place, values.size - 1)])


_SIDES = 1.0, 2.0
"""Half-widths within which the ends of an interval lie, however the errors lean."""
_CANDIDATES = np.array([0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.3, 1.7])
_SWEEPS = 3
_STILL_KNOWN = ("publisher", "year")
"""Splits that leave runs whose model, GPU and engine are known: a question is never of a publisher that was fitted, nor
of a year. The other runs of a fitted publisher say less: they share its hosts, clients and ways of counting."""
_OTHER_KINDS = 0.25
"""Weight of a row of another kind of model of the same metric beside one of the kind itself."""


def _levels(novelties: frozenset[Novelty] | set[Novelty]) -> FloatArray:
    """Return which steps of distance some novelties pass: each includes the nearer ones of its row."""
    found: list[float] = []
    for row in DISTANCES.values():
        far = max((place + 1 for place, novelty in enumerate(row) if novelty in novelties), default=0)
        found += [1.0] * far + [0.0] * (len(row) - far)
    return np.array(found)


def width_steps(errors: FloatArray, bases: FloatArray, levels: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the squares that each step of distance adds, so that √(base² + Σ step·level) holds 90 % of the errors.

    Errors are absolute logarithms. One step after another is chosen until the quantile loss becomes no less.
    """
    patterns, which = np.unique(np.column_stack([bases, levels]), axis=0, return_inverse=True)

    def loss(steps: FloatArray) -> float:
        missing = errors - np.sqrt(patterns[:, 0] ** 2 + patterns[:, 1:] @ steps)[which.ravel()]
        return float(weights @ np.where(missing > 0, COVERED * missing, (COVERED - 1.0) * missing))

    steps = np.zeros(levels.shape[1])
    for _ in range(_SWEEPS):
        for place in np.flatnonzero(levels.any(axis=0))[::-1]:  # what is farther explains what it can
            tried = np.repeat(steps[None, :], len(_CANDIDATES), axis=0)
            tried[:, place] = _CANDIDATES**2
            steps = tried[int(np.argmin([loss(row) for row in tried]))]
    return steps


@dataclass(frozen=True, slots=True)
class _Labels:
    """What the widths of rows are learnt by: name of the metric and kind, generation of the engine, deployment."""

    name: NDArray[np.str_]
    engine: NDArray[np.str_]
    deployment: NDArray[np.str_]

    @classmethod
    def of(cls, runs: Sequence[LearntRun]) -> "_Labels":
        return cls(
            np.array([run.width for run in runs]),
            np.array([run.engine for run in runs]),
            np.array([f"{run.deployment}|{run.width}" for run in runs]),
        )

    def at(self, rows: IntArray) -> "_Labels":
        return _Labels(self.name[rows], self.engine[rows], self.deployment[rows])


def _half_widths(errors: FloatArray, labels: _Labels) -> dict[str, float]:
    """Return half-widths as logarithms by name, and by name and generation of the engine.

    The runs of one deployment share most of their errors, so that the few deployments of one engine say little of the
    next one. The squared width of an engine is the mean of its own and that of all engines, weighed by its number of
    deployments against `POOLED_DEPLOYMENTS`; that of a generation is made from its engine's in the same way.
    """
    found: dict[str, float] = {}
    engines = np.array([engine.split(maxsplit=1)[0] for engine in labels.engine])
    for name in np.unique(labels.name):
        of_name = labels.name == name
        found[str(name)] = whole = float(np.quantile(errors[of_name], COVERED))
        for engine in np.unique(engines[of_name]):
            of_engine = of_name & (engines == engine)
            width = _pooled(errors, labels, of_engine, whole)
            variants = np.unique(labels.engine[of_engine])
            for variant in variants:
                mine = of_engine & (labels.engine == variant)
                own = width if len(variants) == 1 else _pooled(errors, labels, mine, width)
                found[engine_width(str(name), str(variant))] = own
    return found


def _pooled(errors: FloatArray, labels: _Labels, mine: BoolArray, whole: float) -> float:
    """Return the half-width of some rows, drawn towards that of all the more, the fewer deployments they are of."""
    deployments = len(np.unique(labels.deployment[mine]))
    share = deployments / (deployments + POOLED_DEPLOYMENTS)
    own = float(np.quantile(errors[mine], COVERED))
    return float(np.sqrt(share * own**2 + (1.0 - share) * whole**2))
