"""Learn the constants of step times from measured serving runs, with priors where the runs say little.

Answers are combinations of two steps, so that thousands of runs are one table and a fit takes seconds. What the closed
form of a closed loop misses is found by stepping through it with the constants of the round before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.calibrate.residuals import LeastSquares, minimise
from capplan.core.numbers import FloatArray
from capplan.llm.core.serving.cases import Metric, Serving, ServingCase, answer
from capplan.llm.core.serving.closed_loop import LoopTimes
from capplan.llm.core.serving.load_curve import open_waiting
from capplan.llm.core.serving.service import ServedDeployment, loop_times, waiting_names, waiting_parts
from capplan.llm.core.serving.serving_point import (
    ArrivalPattern,
    Requests,
    TwoSteps,
    saturated,
    static_batch,
    steady_state,
)
from capplan.llm.core.timing.constants import Constants, ConstantsVector
from capplan.llm.core.timing.engine_rules import scheduling_on
from capplan.llm.core.timing.step_time import StepTable, factor_slopes_s, kernel_slopes_s, stack, step_table, step_time
from capplan.llm.core.timing.work import IntArray

ROUNDS = 2
CORRELATION = 0.15
"""Correlation of the errors of runs of one model, engine, version, format and GPU, by which blocks are weighed."""
WAITING_CORRELATION = 0.03
"""The same for times to the first token, which differ from run to run more than from block to block."""
_SPREADS = {Metric.TPOT: 0.12, Metric.OUTPUT_TOKENS_PER_S: 0.15, Metric.TTFT: 0.15}
_STEP = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One measured answer of a case, and the block of runs whose errors it shares. [s or 1/s]"""

    case: ServingCase
    metric: Metric
    value: float
    block: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is believed of the logarithms of the constants before any run is seen."""

    mean: FloatArray
    deviation: FloatArray


@dataclass(frozen=True, slots=True)
class Followed:
    """Cases that have no closed form, by the identity of the case: loops that were stepped through, and the tokens per
    second of offline runs with a stated number of requests. [1/s]"""

    loops: Mapping[int, LoopTimes]
    finite_tokens_per_s: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class FullFit:
    """A fit to all observations, and what was followed with its constants."""

    vector: FloatArray
    followed: Followed


def full_fit(observations: Sequence[Observation], vector: FloatArray, *, layout: ConstantsVector) -> FullFit:
    """Follow the closed loops and finite runs of all observations with fitted constants."""
    return FullFit(vector, _follow(observations, layout.view(vector)))


def fit_constants(
    observations: Sequence[Observation], *, layout: ConstantsVector, prior: Prior, known: FullFit | None = None
) -> FloatArray:
    """Find the most probable constants, as logarithms in the order of the layout.

    The fit starts at the prior's mean, so that constants that no observation moves stay there.
    """
    used = [item for item in observations if _is_closed_form(item)]
    steps, points = _tabulate(used, layout)
    vector = prior.mean.copy()
    base = vector if known is None else known.vector
    followed = _follow(observations, layout.view(base)) if known is None else known.followed
    for _ in range(ROUNDS if known is None else 1):
        correction = _corrections(used, followed, _log_answers(steps, points, layout.view(base)))
        vector = _minimise(used, steps, points, correction, layout=layout, prior=prior, start=vector)
        if known is None:
            base, followed = vector, _follow(observations, layout.view(vector))
    return _fit_waiting(observations, followed.loops, vector, layout=layout, prior=prior)


def _follow(observations: Sequence[Observation], constants: Constants) -> Followed:
    cases = {id(item.case): item.case for item in observations}
    return Followed(
        {
            key: loop_times(_service(case, constants), case.demand, clients=case.clients / case.replicas)
            for key, case in cases.items()
            if case.serving is Serving.CLOSED_LOOP
        },
        {key: answer(case, constants).output_tokens_per_s for key, case in cases.items() if _is_finite(case)},
    )


def _is_finite(case: ServingCase) -> bool:
    return case.serving is Serving.OFFLINE and case.demand.requests is not None


def _is_closed_form(item: Observation) -> bool:
    if item.case.serving in (Serving.CLOSED_LOOP, Serving.OPEN_LOAD):
        return item.metric is Metric.TPOT
    return item.case.serving in (Serving.OFFLINE, Serving.FIXED_BATCH, Serving.STEADY)


@dataclass(frozen=True, slots=True)
class _Points:
    """Answers as `decodes`·t[2i] + `prefills`·share·(t[2i + 1] − `beside`·t[2i]), or tokens ÷ that where positive."""

    decodes: FloatArray
    prefills: FloatArray
    beside: FloatArray
    shared: FloatArray
    tokens: FloatArray
    offline: FloatArray


def _two_steps(item: Observation) -> tuple[TwoSteps, float]:
    """Return the steps of an answer, and the tokens that are divided by their time, 0 for a time."""
    case, kernels = item.case, item.case.kernels
    rules = scheduling_on(case.engine, case.machine, data=kernels.data_parallel)
    demand, data, stages = case.demand, item.case.kernels.data_parallel, item.case.kernels.pipeline_parallel
    running = max(1.0, min(demand.capacity, rules.most_sequences * data))
    if case.serving is Serving.OPEN_LOAD:  # as many requests run as come while one answer is made
        running = max(1.0, case.rate_per_s / case.replicas * demand.output_len * item.value)
    elif case.serving not in (Serving.OFFLINE, Serving.STEADY):
        running = min(running, case.clients / case.replicas)
    if case.serving in (Serving.FIXED_BATCH, Serving.STEADY):
        running = case.clients / case.replicas
    lone = case.serving is Serving.FIXED_BATCH and item.metric is Metric.TTFT
    requests = Requests(
        input_len=demand.input_len,
        output_len=1.0 if lone else demand.output_len,
        batch=running,
        arrivals=ArrivalPattern.SPREAD if demand.spread else ArrivalPattern.LOCKSTEP,
        token_budget=rules.token_budget,
    )
    if case.serving is Serving.FIXED_BATCH:
        return static_batch(requests, pipeline=stages), 0.0 if lone else running * demand.output_len
    if case.serving in (Serving.OFFLINE, Serving.OPEN_LOAD):
        tokens = running * case.replicas if case.serving is Serving.OFFLINE else 0.0
        return saturated(requests, pipeline=stages, data=data, mixes=rules.mixes), tokens
    steps = steady_state(requests, pipeline=kernels.pipeline_parallel, data=data, mixes=rules.mixes)
    return (replace(steps, prefills=0.0) if case.serving is Serving.STEADY else steps), 0.0


def _tabulate(items: Sequence[Observation], layout: ConstantsVector) -> tuple[StepTable, _Points]:
    tables: list[StepTable] = []
    rows: list[tuple[float, ...]] = []
    for item in items:
        steps, tokens = _two_steps(item)
        for load in (steps.decode, steps.mixed):
            tables.append(
                step_table(item.case.kernels, load, machine=item.case.machine, layout=layout, engine=item.case.engine)
            )
        offline = float(item.case.serving is Serving.OFFLINE)
        prefills = float(np.max(steps.prefills))  # an observation is one point
        rows.append((steps.decodes, prefills, steps.beside, float(steps.shared), tokens, offline))
    return stack(tables), _Points(*np.array(rows, dtype=float).T)


@dataclass(frozen=True, slots=True)
class _Answers:
    """Logarithms of answers, and how they move with the times of their decode and mixed steps. [1/s]"""

    logs: FloatArray
    by_decode: FloatArray
    by_mixed: FloatArray


def _answers(times: FloatArray, points: _Points, engine: IntArray, constants: Constants) -> _Answers:
    decode, mixed = times[0::2], times[1::2]
    share = points.prefills * (1.0 + points.shared * (constants.engine("prefill_share")[engine] - 1.0))
    adds = mixed > points.beside * decode + 1e-9
    seconds = points.decodes * decode + share * np.where(adds, mixed - points.beside * decode, 1e-9)
    sign = np.where(points.tokens > 0, -1.0, 1.0)
    scale = points.offline * np.log(constants.engine("offline_scale")[engine])
    tokens = np.where(points.tokens > 0, np.log(np.maximum(points.tokens, 1e-9)) + scale, 0.0)
    return _Answers(
        tokens + sign * np.log(seconds),
        sign * (points.decodes - share * points.beside * adds) / seconds,
        sign * share * adds / seconds,
    )


def _log_answers(steps: StepTable, points: _Points, constants: Constants) -> FloatArray:
    return _answers(step_time(steps, constants).total_s, points, steps.engine[0::2], constants).logs


def block_weights(blocks: Sequence[str], *, correlation: float) -> FloatArray:
    """Weigh rows by the knowledge they add: n rows of one block count as n ÷ (1 + (n − 1)·ρ) independent ones."""
    _, inverse, counts = np.unique(np.array(blocks), return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (1.0 + (counts[inverse] - 1) * correlation))


def _minimise(
    items: Sequence[Observation],
    steps: StepTable,
    points: _Points,
    correction: FloatArray,
    *,
    layout: ConstantsVector,
    prior: Prior,
    start: FloatArray,
) -> FloatArray:
    observed = np.log([item.value for item in items]) - correction
    spread = np.array([_SPREADS[item.metric] for item in items])

    def residuals(vector: FloatArray) -> FloatArray:
        return np.asarray((_log_answers(steps, points, layout.view(vector)) - observed) / spread)

    def derivatives(vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        return residuals(vector), _jacobian(steps, points, vector, layout) / spread[:, None]

    problem = LeastSquares(
        residuals=residuals,
        derivatives=derivatives,
        row_weight=block_weights([item.block for item in items], correlation=CORRELATION),
        prior_mean=prior.mean,
        prior_sd=prior.deviation,
        huber=1.5,
    )
    return minimise(problem, start, iterations=20, tolerance=1e-3)


def _jacobian(steps: StepTable, points: _Points, vector: FloatArray, layout: ConstantsVector) -> FloatArray:
    """Compute how the logarithms of answers move with the constants: kernels exactly, the others by differences."""
    constants, engine = layout.view(vector), steps.engine[0::2]
    parts = step_time(steps, constants)
    found = _answers(parts.total_s, points, engine, constants)
    felt = (parts.device_s**2 / np.cbrt(parts.device_s**3 + parts.launch_s**3) ** 2)[:, None]
    jacobian = np.zeros((found.logs.size, vector.size))
    kernels, factors = kernel_slopes_s(steps, constants) * felt, factor_slopes_s(steps, constants) * felt
    last = vector.size - factors.shape[1]
    for start, slopes in ((0, kernels), (last, factors)):
        moves = found.by_decode[:, None] * slopes[0::2] + found.by_mixed[:, None] * slopes[1::2]
        jacobian[:, start : start + slopes.shape[1]] = moves
    for index, name in enumerate(layout.names[kernels.shape[1] : last], start=kernels.shape[1]):
        moved = vector.copy()
        moved[index] += _STEP
        kernels_s = None if name.startswith("device/") else parts.kernels_s
        other = layout.view(moved)
        times = step_time(steps, other, kernels_s=kernels_s).total_s
        jacobian[:, index] = (_answers(times, points, engine, other).logs - found.logs) / _STEP
    return jacobian


def _service(case: ServingCase, constants: Constants) -> ServedDeployment:
    return ServedDeployment(kernels=case.kernels, machine=case.machine, engine=case.engine, constants=constants)


def _corrections(items: Sequence[Observation], followed: Followed, closed: FloatArray) -> FloatArray:
    """Compute by what logarithm stepped loops and finite offline runs differ from their closed forms, 0 for others."""
    found = np.zeros(len(items))
    for index, item in enumerate(items):
        if item.case.serving is Serving.CLOSED_LOOP:
            found[index] = np.log(followed.loops[id(item.case)].tpot_s) - closed[index]
        elif _is_finite(item.case):
            found[index] = np.log(followed.finite_tokens_per_s[id(item.case)]) - closed[index]
    return found


def _fit_waiting(
    observations: Sequence[Observation],
    loops: Mapping[int, LoopTimes],
    vector: FloatArray,
    *,
    layout: ConstantsVector,
    prior: Prior,
) -> FloatArray:
    """Fit how the time to the first token follows from the stepped loop, by engine and kind of arrivals."""
    fitted = vector.copy()
    names, constants = list(layout.names), layout.view(vector)
    waiting = {key: waiting_parts(loop) for key, loop in loops.items()}
    groups: dict[tuple[str, tuple[str, ...]], list[Observation]] = {}
    for item in observations:
        if item.metric is not Metric.TTFT or item.case.serving is Serving.FIXED_BATCH:
            continue
        if item.case.serving is Serving.OPEN_LOAD:
            case = item.case
            rate_per_s = case.rate_per_s / case.replicas
            waiting[id(case)] = open_waiting(_service(case, constants), case.demand, rate_per_s=rate_per_s)
        key = (item.case.engine, waiting_names(in_step=item.case.in_step))
        groups.setdefault(key, []).append(item)
    for (engine, terms), items in groups.items():
        which = [names.index(f"engine/{engine}/{name}") for name in terms]
        fitted[which] = _fit_sum(
            np.array([waiting[id(item.case)].parts for item in items]),
            np.array([loops[id(item.case)].queue_s if id(item.case) in loops else 0.0 for item in items]),
            np.log([item.value for item in items]),
            block_weights([item.block for item in items], correlation=WAITING_CORRELATION),
            mean=prior.mean[which],
            deviation=prior.deviation[which],
        )
    return fitted


def _fit_sum(
    parts: FloatArray,
    known: FloatArray,
    observed: FloatArray,
    weight: FloatArray,
    *,
    mean: FloatArray,
    deviation: FloatArray,
) -> FloatArray:
    """Fit log(known + Σ parts·e^θ) to observed logarithms."""

    def derivatives(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        terms = parts * np.exp(theta)
        total = known + terms.sum(axis=1)
        return (np.log(total) - observed) / 0.3, terms / total[:, None] / 0.3

    problem = LeastSquares(
        residuals=lambda theta: derivatives(theta)[0],
        derivatives=derivatives,
        row_weight=weight,
        prior_mean=mean,
        prior_sd=deviation,
        huber=1.5,
    )
    return minimise(problem, mean.copy(), iterations=60, tolerance=1e-5)
