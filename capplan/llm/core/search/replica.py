"""Simulate one replica of a deployment under a load, request by request."""

from dataclasses import dataclass, replace

import numpy as np

from capplan.core.serving_engines import Engine, find_engine
from capplan.llm.core.deployment import ServingDeployment
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.images import encoder_s
from capplan.llm.core.serving.service import Demand, Service, step_seconds
from capplan.llm.core.simulation.arrivals import Arrivals, all_at_once, random_arrivals
from capplan.llm.core.simulation.continuous_batching import (
    Admission,
    RequestTimes,
    simulate_clients,
    simulate_open,
)
from capplan.llm.core.simulation.load_answer import LatencyLimits, LoadAnswer, summarise

_PREEMPTING = frozenset({Engine.VLLM, Engine.SGLANG})
"""Engines that admit a prompt by what it needs now and evict when the cache is full; others reserve whole answers."""
DELIVERY_STEPS = 0.6
"""Decode steps between the end of a prefill and the first token at the client: engines hand tokens out beside the next
step. Learnt from the load sweeps of an 8B model on one GPU; those of a 70B model on four are then 9 % off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How an engine is set to schedule; None stands for its default.

    `mixes` says that prompt tokens share steps with decoding sequences. `token_budget` is the most tokens of a step,
    `max_sequences` the most sequences at a time.
    """

    mixes: bool | None = None
    token_budget: int | None = None
    max_sequences: int | None = None


def simulate_replica(
    service: Service,
    deployment: ServingDeployment,
    load: TokenLoad,
    *,
    limits: LatencyLimits,
    requests: int,
    trace: Arrivals | None = None,
    scheduling: Scheduling | None = None,
    label: str = "",
) -> LoadAnswer:
    """Simulate one replica at a load.

    Args:
        service: The deployment's times.
        deployment: Its memory.
        load: Rate or clients, and lengths of the requests of this replica.
        limits: Limits that count as good service.
        requests: Requests to draw, where `trace` does not give them.
        trace: Requests with their lengths; without arrival times of its own (all 0), these are drawn at the rate.
        scheduling: Settings of the engine; its defaults if None.
        label: Name of the load.
    """
    demand = load.demand(
        deployment.sequences_that_fit(load.cached_len), encoder_s=encoder_s(deployment, service.constants, load)
    )
    admission = _admission(service, deployment, demand, scheduling or Scheduling())
    seconds = step_seconds(service, demand)
    if load.concurrency is not None:
        clients = max(1, round(load.concurrency))
        drawn = _lengths_of(trace) or all_at_once(max(min(requests, 50 * clients), 3 * clients), load.lengths)
        times = simulate_clients(drawn, admission, seconds, clients=clients)
        return summarise(drawn, _delivered(times), limits, clients=clients, label=label)
    drawn = _arrivals(load, requests, trace)
    return summarise(drawn, _delivered(simulate_open(drawn, admission, seconds)), limits, label=label)


def _admission(service: Service, deployment: ServingDeployment, demand: Demand, scheduling: Scheduling) -> Admission:
    """Return what the engine admits: its pool in tokens of mean sequences, so that windows and states count."""
    data, rules = service.kernels.data_parallel, service.scheduling
    most = rules.most_sequences * data
    for limit in (scheduling.max_sequences, deployment.words.max_sequences):
        most = most if limit is None else min(most, float(limit))
    own = demand.prefill_len * demand.prompts + demand.output_len
    return Admission(
        capacity=most,
        token_budget=(scheduling.token_budget or rules.token_budget) * data,
        mixes=rules.mixes if scheduling.mixes is None else scheduling.mixes,
        pool_tokens=demand.capacity * own,
        preempts=find_engine(deployment.words.engine) in _PREEMPTING,
        tokens_per_step=demand.tokens_per_step,
        queued_factor=1.0 / service.of_engine("offline_scale"),
    )


def _delivered(times: RequestTimes) -> RequestTimes:
    """Add the way of the first token to the client."""
    some = times.gap_weights.sum()
    step_s = float((times.gaps_s * times.gap_weights).sum() / some) if some else 0.0
    delivery_s = DELIVERY_STEPS * step_s
    return replace(times, ttft_s=times.ttft_s + delivery_s, e2e_s=times.e2e_s + delivery_s)


def _lengths_of(trace: Arrivals | None) -> Arrivals | None:
    return None if trace is None else replace(trace, at_s=np.zeros_like(trace.at_s))


def _arrivals(load: TokenLoad, requests: int, trace: Arrivals | None) -> Arrivals:
    if trace is not None and trace.has_times:
        return trace
    count = requests if trace is None else len(trace.at_s)
    drawn = random_arrivals(rate_per_s=load.rate_per_s or 1.0, count=count, lengths=load.lengths, gap_scv=load.gap_scv)
    return drawn if trace is None else replace(trace, at_s=drawn.at_s)
