"""Learn the constants of step times from measured serving runs, with priors where the runs say little.

Answers are combinations of two steps, so that thousands of runs are one table and a fit takes seconds. What the closed
form of a closed loop misses is found by stepping through it with the constants of the round before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from capplan.core.calibrate.residuals import Jacobian, LeastSquares, minimise
from capplan.core.numbers import BoolArray, FloatArray
from capplan.llm.core.serving.cases import Metric, Serving, ServingCase, answer, metric_of
from capplan.llm.core.serving.closed_loop import LoopTimes
from capplan.llm.core.serving.load_curve import open_waiting, seen_requests
from capplan.llm.core.serving.service import ServedDeployment, Waiting, loop_times, waiting_names, waiting_parts
from capplan.llm.core.serving.serving_point import (
    Requests,
    TwoSteps,
    lone_prefill,
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
_PARTS = 5
_USUAL_TOKEN_S = 0.02
"""Time between tokens by which the requests that run under arrivals are counted where it was not measured."""


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
class Tabulated:
    """Observations as tables of steps, by which constants are fitted and answers follow from constants.

    `closed` are the places of observations with a closed form, in the order of `points`; `waiting` those of times to
    the first token in loops and under arrivals, whose lone prompts and steps are in turn those of `aside`.
    """

    observations: Sequence[Observation]
    layout: ConstantsVector
    prior: Prior
    closed: IntArray
    steps: StepTable
    points: "_Points"
    waiting: IntArray
    aside: "tuple[StepTable, _Points] | None"
    near: tuple[FloatArray, Jacobian] | None = None

    @classmethod
    def of(cls, observations: Sequence[Observation], *, layout: ConstantsVector, prior: Prior) -> "Tabulated":
        closed = np.array([_is_closed_form(item) for item in observations])
        waits = compress(observations, ~closed)
        steps, points = _tabulate([_two_steps(item) for item in compress(observations, closed)], layout)
        beside = [part for item in waits for part in (_lone_steps(item), _two_steps(item))]
        return cls(
            observations=observations,
            layout=layout,
            prior=prior,
            closed=np.flatnonzero(closed),
            steps=steps,
            points=points,
            waiting=np.flatnonzero(~closed),
            aside=_tabulate(beside, layout) if beside else None,
        )

    def logs(self, vector: FloatArray) -> FloatArray:
        return _log_answers(self.steps, self.points, self.layout.view(vector))

    def aside_logs(self, vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.aside is None:
            return np.zeros(0), np.zeros(0)
        found = _log_answers(*self.aside, self.layout.view(vector))
        return found[0::2], found[1::2]

    def fit(self, base: "FullFit", kept: BoolArray) -> FloatArray:
        """Find the most probable constants of the observations that are kept, near those of a fit to all of them.

        What loops and finite runs differ from their closed forms by stays that of the fit to all.
        """
        problem = _problem(self, base, kept[self.closed])
        residuals, jacobian = problem.derivatives(base.vector) if self.near is None else self.near
        near = replace(
            problem,
            residuals=lambda vector: residuals + jacobian @ (vector - base.vector),
            derivatives=lambda vector: (residuals + jacobian @ (vector - base.vector), jacobian),
        )
        vector = minimise(near, base.vector, iterations=20, tolerance=1e-4)
        return _fit_waiting(self, base, minimise(problem, vector, iterations=1), kept)

    def around(self, base: "FullFit") -> "Tabulated":
        """Return the same tables with the slopes of all answers at a fit, from which fits without some runs start."""
        everything = np.ones(self.closed.size, dtype=bool)
        return replace(self, near=_problem(self, base, everything).derivatives(base.vector))

    def predict(self, base: "FullFit", vector: FloatArray) -> FloatArray:
        """Predict all observations with constants near those of a fit. [s or 1/s]

        Of what waits, the parts of a loop move as its lone prompt and its step do.
        """
        found = np.zeros(len(self.observations))
        found[self.closed] = np.exp(self.logs(vector) + base.correction)
        parts, known = _waiting_moved(self, base, vector)
        constants = self.layout.view(vector)
        for row, place in enumerate(self.waiting):
            item = self.observations[place]
            engine = self.layout.engines.index(item.case.engine)
            factors = [constants.engine(name)[engine] for name in waiting_names(in_step=item.case.in_step)]
            found[place] = known[row] + float(parts[row] @ factors)
        return found


@dataclass(frozen=True, slots=True)
class FullFit:
    """A fit to all observations, what was followed with its constants, and what that adds to closed forms.

    By the identity of a case, `loops` are those that were stepped through, and `waiting` is what the times to the first
    token of loops and of arrivals are sums of.
    """

    vector: FloatArray
    loops: Mapping[int, LoopTimes]
    waiting: Mapping[int, Waiting]
    correction: FloatArray

    def queue_s(self, case: ServingCase) -> float:
        loop = self.loops.get(id(case))
        return 0.0 if loop is None else loop.queue_s


def followed_fit(table: Tabulated, vector: FloatArray) -> FullFit:
    """Follow the closed loops and finite runs of all observations with fitted constants."""
    constants = table.layout.view(vector)
    cases = {id(item.case): item.case for item in table.observations}
    waited = {id(item.case) for item in table.observations if not _is_closed_form(item)}
    loops = {
        key: loop_times(_service(case, constants), case.demand, clients=case.clients / case.replicas)
        for key, case in cases.items()
        if case.serving is Serving.CLOSED_LOOP
    }
    waiting = {key: waiting_parts(loop) for key, loop in loops.items()}
    for key, case in cases.items():
        if key in waited and case.serving is Serving.OPEN_LOAD:
            rate_per_s = case.rate_per_s / case.replicas
            waiting[key] = open_waiting(_service(case, constants), case.demand, rate_per_s=rate_per_s)
    finite = {key: answer(case, constants).output_tokens_per_s for key, case in cases.items() if _is_finite(case)}
    items = [table.observations[place] for place in table.closed]
    # Compute by what logarithm stepped loops, finite offline runs and power limits differ from closed forms.
    closed = table.logs(vector)
    found = np.zeros(len(items))
    for index, item in enumerate(items):
        if item.case.serving is Serving.CLOSED_LOOP:
            found[index] = np.log(loops[id(item.case)].tpot_s) - closed[index]
        elif _is_finite(item.case):
            found[index] = np.log(finite[id(item.case)]) - closed[index]
        elif item.case.machine.cap is not None:
            # The logarithm by which a power limit changes an answer.
            freely = replace(item.case, machine=replace(item.case.machine, cap=None))
            limited, free = (metric_of(answer(case, constants), item.metric) for case in (item.case, freely))
            found[index] = float(np.log(limited / free))
    return FullFit(vector, loops, waiting, found)


def fit_constants(table: Tabulated) -> FullFit:
    """Find the most probable constants, as logarithms in the order of the layout.

    The fit starts at the prior's mean, so that constants that no observation moves stay there.
    """
    everything = np.ones(len(table.observations), dtype=bool)
    base = followed_fit(table, table.prior.mean)
    for _ in range(ROUNDS):
        problem = _problem(table, base, everything[table.closed])
        base = followed_fit(table, minimise(problem, base.vector, iterations=20, tolerance=1e-3))
    vector = _fit_waiting(table, base, base.vector, everything)
    return replace(base, vector=vector)


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


@dataclass(frozen=True, slots=True)
class _Point:
    """Two steps of a case, and the tokens that are divided by their time, 0 for a time."""

    case: ServingCase
    steps: TwoSteps
    tokens: float = 0.0


def _lone_steps(item: Observation) -> _Point:
    case = item.case
    rules = scheduling_on(case.engine, case.machine, data=case.kernels.data_parallel, flags=case.flags)
    requests = Requests(input_len=case.demand.input_len, output_len=1.0, batch=1.0, token_budget=rules.token_budget)
    pipeline = case.kernels.pipeline_parallel
    return _Point(case, lone_prefill(requests, pipeline=pipeline, fills_pipeline=rules.fills_pipeline))


def _two_steps(item: Observation) -> _Point:
    """Return the steps of an answer; of a time to the first token in a loop, those of its time between tokens."""
    case, kernels = item.case, item.case.kernels
    rules = scheduling_on(case.engine, case.machine, data=kernels.data_parallel, flags=case.flags)
    demand, data, stages = case.demand, item.case.kernels.data_parallel, item.case.kernels.pipeline_parallel
    running = max(1.0, min(demand.capacity, rules.most_sequences * data))
    if case.serving is Serving.OPEN_LOAD:  # as many requests run as come while one answer is made
        token_s = item.value if item.metric is Metric.TPOT else _USUAL_TOKEN_S
        held = case.rate_per_s / case.replicas * demand.output_len * token_s
        running = float(seen_requests(min(held, running), most=running))
    elif case.serving not in (Serving.OFFLINE, Serving.STEADY):
        running = min(running, case.clients / case.replicas)
    if case.serving in (Serving.FIXED_BATCH, Serving.STEADY):
        running = case.clients / case.replicas
    lone = case.serving is Serving.FIXED_BATCH and item.metric is Metric.TTFT
    requests = Requests(
        input_len=demand.input_len,
        output_len=1.0 if lone else demand.output_len,
        batch=running,
        spread=bool(demand.spread),
        token_budget=rules.token_budget,
    )
    if case.serving is Serving.FIXED_BATCH:
        return _Point(case, static_batch(requests, pipeline=stages), 0.0 if lone else running * demand.output_len)
    if case.serving is Serving.OFFLINE:
        steps = saturated(requests, pipeline=stages, data=data, mixes=rules.mixes)
        return _Point(case, steps, running * case.replicas)
    steps = steady_state(requests, pipeline=kernels.pipeline_parallel, data=data, mixes=rules.mixes)
    return _Point(case, replace(steps, prefills=0.0) if case.serving is Serving.STEADY else steps)


def _tabulate(parts: Sequence[_Point], layout: ConstantsVector) -> tuple[StepTable, _Points]:
    tables: list[StepTable] = []
    rows: list[tuple[float, ...]] = []
    for part in parts:
        case, steps = part.case, part.steps
        for load in (steps.decode, steps.mixed):
            tables.append(step_table(case.kernels, load, machine=case.machine, layout=layout, engine=case.engine))
        offline = float(case.serving is Serving.OFFLINE)
        prefills = float(np.max(steps.prefills))  # an observation is one point
        rows.append((steps.decodes, prefills, steps.beside, float(np.max(steps.shared)), part.tokens, offline))
    return stack(tables), _Points(*np.array(rows, dtype=float).T)


def _answers(
    times: FloatArray, points: _Points, engine: IntArray, constants: Constants
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return logarithms of answers, and how they move with the times of their decode and mixed steps. [1/s]"""
    decode, mixed = times[0::2], times[1::2]
    share = points.prefills * (1.0 + points.shared * (constants.engine("prefill_share")[engine] - 1.0))
    adds = mixed > points.beside * decode + 1e-9
    seconds = points.decodes * decode + share * np.where(adds, mixed - points.beside * decode, 1e-9)
    sign = np.where(points.tokens > 0, -1.0, 1.0)
    scale = points.offline * np.log(constants.engine("offline_scale")[engine])
    tokens = np.where(points.tokens > 0, np.log(np.maximum(points.tokens, 1e-9)) + scale, 0.0)
    by_decode = sign * (points.decodes - share * points.beside * adds) / seconds
    return tokens + sign * np.log(seconds), by_decode, sign * share * adds / seconds


def _log_answers(steps: StepTable, points: _Points, constants: Constants) -> FloatArray:
    return _answers(step_time(steps, constants).total_s, points, steps.engine[0::2], constants)[0]


def block_weights(blocks: Sequence[str], *, correlation: float) -> FloatArray:
    """Weigh rows by the knowledge they add: n rows of one block count as n ÷ (1 + (n − 1)·ρ) independent ones."""
    _, inverse, counts = np.unique(np.array(blocks), return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (1.0 + (counts[inverse] - 1) * correlation))


def _problem(table: Tabulated, base: FullFit, kept: BoolArray) -> LeastSquares:
    """Return the least squares of the closed forms that are kept."""
    items, layout, steps, points = table.observations, table.layout, table.steps, table.points
    closed = [items[place] for place in table.closed]
    observed = np.log([item.value for item in closed]) - base.correction
    spread = np.array([_SPREADS[item.metric] for item in closed])

    def residuals(vector: FloatArray) -> FloatArray:
        return np.asarray((_log_answers(steps, points, layout.view(vector)) - observed) / spread)

    def derivatives(vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        return residuals(vector), _jacobian(steps, points, vector, layout) / spread[:, None]

    weights = np.zeros(len(closed))
    weights[kept] = block_weights([item.block for item in compress(closed, kept)], correlation=CORRELATION)
    return LeastSquares(
        residuals=residuals,
        derivatives=derivatives,
        row_weight=weights,
        prior_mean=table.prior.mean,
        prior_sd=table.prior.deviation,
        huber=1.5,
    )


def _jacobian(steps: StepTable, points: _Points, vector: FloatArray, layout: ConstantsVector) -> FloatArray:
    """Compute how the logarithms of answers move with the constants: kernels exactly, the others by differences.

    A row feels the constants of one engine and of one kind of link, so that those of all are moved at once.
    """
    constants, engine = layout.view(vector), steps.engine[0::2]
    parts = step_time(steps, constants)
    logs, by_decode, by_mixed = _answers(parts.total_s, points, engine, constants)
    felt = (parts.device_s**2 / np.cbrt(parts.device_s**3 + parts.launch_s**3) ** 2)[:, None]
    jacobian = np.zeros((logs.size, vector.size))
    kernels, factors = kernel_slopes_s(steps, constants) * felt, factor_slopes_s(steps, constants) * felt
    last = vector.size - factors.shape[1]
    for start, slopes in ((0, kernels), (last, factors)):
        moves = by_decode[:, None] * slopes[0::2] + by_mixed[:, None] * slopes[1::2]
        jacobian[:, start : start + slopes.shape[1]] = moves
    rows, names = np.arange(engine.size), layout.names
    together: dict[str, list[int]] = {}
    for index in range(kernels.shape[1], last):
        kind, _, constant = names[index].split("/")
        together.setdefault(f"{kind}/{constant}", []).append(index)
    which = {"engine": engine, "link": steps.collectives.link[0::2, 0], "device": np.zeros_like(engine)}
    for name, columns in together.items():
        moved = vector.copy()
        moved[columns] += _STEP
        kernels_s = None if name.startswith("device/") else parts.kernels_s
        other = layout.view(moved)
        times = step_time(steps, other, kernels_s=kernels_s).total_s
        slopes = (_answers(times, points, engine, other)[0] - logs) / _STEP
        jacobian[rows, np.array(columns)[which[name.partition("/")[0]]]] = slopes
    return jacobian


def _service(case: ServingCase, constants: Constants) -> ServedDeployment:
    return ServedDeployment(
        kernels=case.kernels, machine=case.machine, engine=case.engine, constants=constants, flags=case.flags
    )


def _waiting_moved(table: Tabulated, base: FullFit, vector: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the parts of all times to the first token [row, part], and what is known of them, with other constants.

    Prompts, and what is waited for them, take as many times as long as a lone prompt; the wait for a step and for
    memory as many times as long as a step.
    """
    before, now = table.aside_logs(base.vector), table.aside_logs(vector)
    lone, step = np.exp(now[0] - before[0]), np.exp(now[1] - before[1])
    items = [table.observations[place] for place in table.waiting]
    waiting = [base.waiting[id(item.case)] for item in items]
    is_open = np.array([item.case.serving is Serving.OPEN_LOAD for item in items], dtype=bool)
    parts = np.array([each.parts for each in waiting], dtype=float).reshape(len(items), _PARTS)
    parts[:, 0] *= lone
    parts[:, 1] *= np.where(is_open, step, lone)
    parts[:, 2] *= lone
    parts[:, 3] *= step
    queue = np.array([base.queue_s(item.case) for item in items]) * step
    for row, item in enumerate(items):
        polled = item.case.flags.receive_steps
        if polled is not None:
            queue[row] += polled * parts[row, 3]
            parts[row, 3] = 0.0
    return parts, queue


def _fit_waiting(table: Tabulated, base: FullFit, vector: FloatArray, kept: BoolArray) -> FloatArray:
    """Fit how the time to the first token follows from the stepped loop, by engine and kind of arrivals.

    A generation of an engine without such times takes the constants of another.
    """
    fitted, names = vector.copy(), list(table.layout.names)
    parts, known = _waiting_moved(table, base, vector)
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for row, place in enumerate(table.waiting):
        if kept[place]:
            case = table.observations[place].case
            groups.setdefault((case.engine, waiting_names(in_step=case.in_step)), []).append(row)
    for (engine, terms), rows in groups.items():
        which = [names.index(f"engine/{engine}/{name}") for name in terms]
        items = [table.observations[table.waiting[row]] for row in rows]
        fitted[which] = _fit_sum(
            parts[rows],
            known[rows],
            np.log([item.value for item in items]),
            block_weights([item.block for item in items], correlation=WAITING_CORRELATION),
            mean=table.prior.mean[which],
            deviation=table.prior.deviation[which],
        )
    # The generations of engines and kinds of arrivals of which no time to the first token is kept.
    every = [(engine, waiting_names(in_step=in_step)) for engine in table.layout.engines for in_step in (True, False)]
    for engine, terms in [group for group in every if group not in groups]:
        near = next((name for name, of in groups if of == terms and name.split()[0] == engine.split()[0]), None)
        which = [names.index(f"engine/{engine}/{name}") for name in terms]
        neighbour = None if near is None else [names.index(f"engine/{near}/{name}") for name in terms]
        fitted[which] = table.prior.mean[which] if neighbour is None else fitted[neighbour]
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
