"""Follow one replica of a deployment from an idle one to a full one: rate, time to first token, time between tokens.

At each number of running requests the time of a step follows, and Little's law gives the rate. All points of a curve
are computed at once.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.serving.service import (
    Demand,
    ServedDeployment,
    ServingTimes,
    Waiting,
    added_s,
    decode_step_s,
    drafting_step_s,
    first_token_s,
    lone_steps,
    most_running,
    offline,
    requests_of,
    step_times_s,
)
from capplan.llm.core.serving.serving_point import steady_state
from capplan.llm.core.timing.work import Load

_POINTS = 16
_FEWEST = 0.1
"""Requests in a replica on average at which its curve begins: nearly all of them are alone."""
_REST_OF_A_STEP = 0.5
"""Of the step that runs when a request comes at a random time, what is left on average."""
_MOST_BUSY = 0.95
"""Share of time with prefill beyond which the wait of M/D/1 is no longer followed; the rate is limited before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One replica under Poisson arrivals: requests per second, and what a request sees. [1/s, s]

    `running` requests are in the replica, and `prefill_fraction` of its time goes to prompts.
    """

    running: float
    rate_per_s: float
    ttft_s: float
    tpot_s: float
    prefill_fraction: float = 0.0

    def e2e_s(self, output_len: float) -> float:
        return self.ttft_s + max(output_len - 1.0, 0.0) * self.tpot_s


def load_curve(service: ServedDeployment, demand: Demand) -> tuple[LoadPoint, ...]:
    """Follow one replica from an idle one to a full one, by the number of requests in it."""
    sizes = np.unique(np.round(np.geomspace(_FEWEST, most_running(service, demand), _POINTS), 3))
    return load_points(service, demand, running=sizes)


def load_points(
    service: ServedDeployment, demand: Demand, *, running: FloatArray, seen: FloatArray | None = None
) -> tuple[LoadPoint, ...]:
    """Return a replica that holds so many requests on average; its steps hold `seen`, None for Poisson arrivals."""
    if demand.output_len <= 1:
        return _prompt_points(service, demand, running=running)
    rate_per_s, tpot_s, prefill_s, waiting = _loaded(service, demand, running, seen)
    first_s = np.asarray(first_token_s(service, waiting, in_step=False)) + demand.loaded_s
    ttft_s = np.broadcast_to(first_s, running.shape)
    return tuple(
        LoadPoint(
            running=float(running[index]),
            rate_per_s=float(rate_per_s[index]),
            ttft_s=float(ttft_s[index]),
            tpot_s=float(tpot_s[index]),
            prefill_fraction=float(prefill_s[index] / tpot_s[index]),
        )
        for index in range(running.size)
    )


def _loaded(
    service: ServedDeployment, demand: Demand, running: FloatArray, seen: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, Waiting]:
    """Return what follows from the number of requests, one entry a point: rate, times of a token and of its prompts.

    The rate is that of Little's law; prefill is a server of M/D/1. Under Poisson arrivals a request meets as many
    others as there are on average, so that its own steps hold one more; where the replica is full they hold its most.
    """
    data, stages = service.kernels.data_parallel, service.kernels.pipeline_parallel
    batch = seen_requests(running, most=most_running(service, demand)) if seen is None else seen
    requests = requests_of(service, demand, batch)
    steps = steady_state(requests, pipeline=stages, data=data, mixes=service.scheduling.mixes)
    images_s = running / demand.output_len * demand.encoder_s
    lone = lone_steps(service, demand)
    decode_s, mixed_s, prompt_s = step_times_s(service, steps.decode, steps.mixed, lone.mixed)
    if demand.speculation is not None:
        decode_s = decode_step_s(service, demand, steps.decode.decoding)
        mixed_s = mixed_s + steps.beside * drafting_step_s(service, demand, steps.decode.decoding)
    prefill_s = steps.prefills * added_s(service, steps, decode_s, mixed_s)
    tpot_s = steps.decodes * (decode_s / demand.tokens_per_step) + prefill_s + images_s
    prefill_s = prefill_s + images_s
    lone_s = float(lone.prefills * prompt_s[0]) + demand.encoder_s
    rate = running / (lone_s + demand.loaded_s + demand.output_len * tpot_s)
    busy = np.minimum(rate * prefill_s * demand.output_len / running, _MOST_BUSY)
    step_s, meets_work, rules = tpot_s * demand.tokens_per_step, 1.0 - np.exp(-running), service.scheduling
    unseen_s = meets_work * (_REST_OF_A_STEP + rules.arrival_steps) * step_s + rules.return_steps * step_s
    waiting = Waiting(
        lone_s=lone_s, later_s=lone_s * busy / (2.0 * (1.0 - busy)) + unseen_s, polled_s=meets_work * step_s
    )
    return rate, tpot_s, prefill_s, waiting


def seen_requests(running: FloatArray | float, *, most: float) -> FloatArray:
    """Return the requests in the steps of a request, itself among them, of a mean number that a replica holds."""
    return np.asarray(1.0 + running * (1.0 - 1.0 / most))


def open_waiting(service: ServedDeployment, demand: Demand, *, rate_per_s: float) -> Waiting:
    """Return what the time to the first token is a sum of at a rate."""
    running = open_load(service, demand, rate_per_s=rate_per_s).running
    *_, waiting = _loaded(service, demand, np.array([running]))
    return replace(waiting, later_s=float(np.sum(waiting.later_s)), polled_s=float(np.sum(waiting.polled_s)))


def _prompt_points(service: ServedDeployment, demand: Demand, *, running: FloatArray) -> tuple[LoadPoint, ...]:
    """Compute points of a replica whose answers are one token or one vector: embedding, reranking, classification.

    A full replica processes prompts in steps of the token budget; a lone one takes its own tokens alone. Between them
    the wait is that of M/D/1. All of the time goes to prompts, and the time per token is that of the answer.
    """
    data, stages = service.kernels.data_parallel, service.kernels.pipeline_parallel
    budget = service.scheduling.token_budget
    tokens = demand.prefill_len * demand.prompts
    sizes = np.array([min(tokens, budget), budget])
    past = demand.input_len - demand.prefill_len
    load = Load.of(prefilled=sizes, prompts=np.maximum(sizes / demand.prefill_len, 1e-6), past=past)
    lone_step_s, full_step_s = (float(time_s) for time_s in service.step(load).total_s)
    lone_s = stages * lone_step_s * max(1.0, tokens / budget) + demand.encoder_s
    most_per_s = 1.0 / (full_step_s * tokens / budget / data + demand.encoder_s)
    busy = np.clip(running / (running + most_per_s * lone_s), 0.0, _MOST_BUSY)
    return tuple(
        LoadPoint(
            running=float(share * most_per_s * ttft_s),
            rate_per_s=float(share * most_per_s),
            ttft_s=float(ttft_s),
            tpot_s=float(ttft_s),
            prefill_fraction=1.0,
        )
        for share, ttft_s in zip(busy, lone_s * (1.0 + busy / (2.0 * (1.0 - busy))), strict=True)
    )


def point_at_rate(curve: tuple[LoadPoint, ...], rate_per_s: float) -> LoadPoint:
    """Return what a replica does at a rate, between the points of its curve."""
    if rate_per_s <= curve[0].rate_per_s:
        # Below the first point requests are mostly alone: times stay, fewer requests are running.
        share = rate_per_s / curve[0].rate_per_s
        return replace(curve[0], running=share * curve[0].running, rate_per_s=rate_per_s)
    for below, above in pairwise(curve):
        if above.rate_per_s >= rate_per_s:
            span = above.rate_per_s - below.rate_per_s
            share = (rate_per_s - below.rate_per_s) / span if span > 0 else 1.0
            return between(below, above, min(1.0, max(0.0, share)))
    return curve[-1]


_FIELDS = tuple(LoadPoint.__dataclass_fields__)
_values = attrgetter(*_FIELDS)


def between(below: LoadPoint, above: LoadPoint, share: float) -> LoadPoint:
    """Return a point between two: 0 for the first, 1 for the second."""
    ends = zip(_FIELDS, _values(below), _values(above), strict=True)
    return LoadPoint(**{name: first + share * (second - first) for name, first, second in ends})


def open_load(service: ServedDeployment, demand: Demand, *, rate_per_s: float) -> ServingTimes:
    """Predict Poisson arrivals at a rate: the number of requests in the replica by Little's law, as a fixed point.

    A rate that the replica cannot keep up with is answered as an offline run whose requests wait.
    """
    full = offline(service, demand)
    if rate_per_s * demand.output_len >= full.output_tokens_per_s:
        return replace(full, is_saturated=True)
    low, high = _FEWEST, max(2.0, full.running)
    for _ in range(2):
        points = load_points(service, demand, running=np.geomspace(low, high, 32))
        above = next((index for index, point in enumerate(points) if point.rate_per_s >= rate_per_s), len(points) - 1)
        low, high = points[max(above - 1, 0)].running, points[above].running
    point = load_points(service, demand, running=np.array([(low * high) ** 0.5]))[0]
    return ServingTimes(
        ttft_s=point.ttft_s,
        tpot_s=point.tpot_s,
        output_tokens_per_s=rate_per_s * demand.output_len,
        running=point.running,
    )
