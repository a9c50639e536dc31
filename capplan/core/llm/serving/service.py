"""Predict what clients of a deployment see: time to first token, time between tokens, tokens per second."""

from dataclasses import dataclass

import numpy as np

from capplan.core.llm.serving.closed_loop import ClosedLoop, LoopTimes, StepSeconds, simulate
from capplan.core.llm.serving.serving_point import Requests, TwoSteps, lone_prefill, saturated, static_batch
from capplan.core.llm.timing.constants import Constants
from capplan.core.llm.timing.engine_rules import SCHEDULING, Scheduling
from capplan.core.llm.timing.machine import Machine
from capplan.core.llm.timing.step_time import StepTime, step_table, step_time
from capplan.core.llm.timing.work import Kernels, Load
from capplan.core.numbers import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A deployment ready to be asked: its kernels on a GPU, the engine, and fitted constants.

    `data` is the number of ranks of attention data parallelism, `pipeline` the number of stages.
    """

    kernels: Kernels
    machine: Machine
    engine: str
    constants: Constants

    @property
    def scheduling(self) -> Scheduling:
        """Return how the engine fills its steps."""
        return SCHEDULING[self.engine]

    @property
    def engine_index(self) -> int:
        """Return the engine's index in the constants."""
        return self.constants.layout.engines.index(self.engine)

    def step(self, load: Load) -> StepTime:
        """Compute the parts of the time of steps on one pipeline stage."""
        table = step_table(self.kernels, load, machine=self.machine, engine=self.engine_index)
        return step_time(table, self.constants)

    def of_engine(self, name: str) -> float:
        """Return a constant of the engine."""
        return float(self.constants.engine(name)[self.engine_index])


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one replica is asked: mean lengths [tokens], their spread, and how many sequences fit in its memory.

    Lengths are drawn from ± `spread` around the means. Each client sends `waves` requests, all the first at once.
    """

    input_len: float
    output_len: float
    capacity: float
    spread: float = 0.0
    waves: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingTimes:
    """What the clients of one replica see. [s, s, 1/s]

    `running` sequences are processed at a time, fewer than the clients where memory or the engine hold no more.
    """

    ttft_s: float
    tpot_s: float
    output_tokens_per_s: float
    running: float


def _combine(service: Service, steps: TwoSteps) -> float:
    decode, mixed = (float(service.step(load).total_s[0]) for load in (steps.decode, steps.mixed))
    share = service.of_engine("prefill_share") if steps.shared else 1.0
    added = max(mixed - steps.beside * decode, 0.0)
    return steps.decodes * decode + steps.prefills * share * added


def step_seconds(service: Service, demand: Demand) -> StepSeconds:
    """Return a function for the time of a step of one replica by decoding sequences and prompt tokens."""
    data, stages = service.kernels.data_parallel, service.kernels.pipeline_parallel
    context, share = demand.input_len + demand.output_len / 2, service.of_engine("prefill_share")

    def seconds(running: FloatArray, chunk: FloatArray) -> FloatArray:
        counts, places = np.unique(running, return_inverse=True)
        zeros = np.zeros_like(counts)
        alone = Load(
            decoding=counts / data / stages,
            context=zeros + context,
            prefilled=zeros,
            prompts=zeros,
            pairs=zeros,
        )
        decode_s = service.step(alone).total_s[places]
        prefilled = chunk[chunk > 0] / data
        load = Load(
            decoding=running[chunk > 0] / data / stages,
            context=np.full_like(prefilled, context),
            prefilled=prefilled,
            prompts=np.maximum(prefilled / demand.input_len, 1e-6),
            pairs=prefilled * demand.input_len / 2,
        )
        step_s = decode_s.copy()
        step_s[chunk > 0] = service.step(load).total_s
        felt_s = np.where(running > 0, decode_s + share * (step_s - decode_s), step_s)
        return np.asarray(stages * felt_s)

    return seconds


def closed_loop(service: Service, demand: Demand, *, clients: float) -> ServingTimes:
    """Predict a closed loop: each client sends its next request when it has its answer.

    Args:
        service: The deployment.
        demand: Lengths and capacity of one replica.
        clients: Clients of one replica.
    """
    times = loop_times(service, demand, clients=clients)
    parts = (*waiting_parts(times), 1.0)
    names = waiting_names(spread=demand.spread)
    ttft_s = sum(service.of_engine(name) * part for name, part in zip(names, parts, strict=True))
    whole_s = ttft_s + max(demand.output_len - 1.0, 0.0) * times.tpot_s
    return ServingTimes(
        ttft_s=ttft_s,
        tpot_s=times.tpot_s,
        output_tokens_per_s=clients * demand.output_len / whole_s,
        running=min(clients, _most_running(service, demand)),
    )


def waiting_names(*, spread: float) -> tuple[str, str, str, str]:
    """Return the engine's constants that the time to the first token is summed with.

    Args:
        spread: Relative half-width of the lengths; 0 for equal ones.
    """
    if spread:
        return "ttft_scale", "ttft_burst", "ttft_steps", "ttft_offset_s"
    return "lockstep_scale", "lockstep_burst", "lockstep_steps", "lockstep_offset_s"


def waiting_parts(loop: LoopTimes) -> tuple[float, float, float]:
    """Return what the time to the first token is a sum of: later waves, the first beyond them, decode steps. [s]"""
    return loop.later_ttft_s, max(loop.first_wave_ttft_s - loop.later_ttft_s, 0.0), loop.tpot_s


def loop_times(service: Service, demand: Demand, *, clients: float) -> LoopTimes:
    """Step through a closed loop of one replica, without what clients and servers add to the first token."""
    loop = ClosedLoop(
        clients=max(1, round(clients)),
        input_len=demand.input_len,
        output_len=demand.output_len,
        spread=demand.spread,
        capacity=_most_running(service, demand),
        token_budget=service.scheduling.token_budget * service.kernels.data_parallel,
        mixes=service.scheduling.mixes,
    )
    return simulate(loop, step_seconds(service, demand))


def _most_running(service: Service, demand: Demand) -> float:
    most = service.scheduling.most_sequences * service.kernels.data_parallel
    return max(1.0, min(demand.capacity, most))


def offline(service: Service, demand: Demand) -> ServingTimes:
    """Predict an offline run: all requests wait from the start, and memory or the engine decides the batch.

    TTFT is that of a lone prompt, because that of an offline run depends on how many requests wait.
    """
    data, stages = service.kernels.data_parallel, service.kernels.pipeline_parallel
    batch = _most_running(service, demand)
    requests = _requests(service, demand, batch)
    steps = saturated(requests, pipeline=stages, data=data, mixes=service.scheduling.mixes)
    step_s = _combine(service, steps)
    return ServingTimes(
        ttft_s=lone_ttft_s(service, demand),
        tpot_s=step_s,
        output_tokens_per_s=batch / step_s * service.of_engine("offline_scale"),
        running=batch,
    )


def fixed_batch(service: Service, demand: Demand, *, batch: float) -> ServingTimes:
    """Predict a static batch: all prompts at once, then one step for every further token."""
    stages = service.kernels.pipeline_parallel
    requests = _requests(service, demand, batch)
    whole_s = _combine(service, static_batch(requests, pipeline=stages))
    first = Requests(input_len=demand.input_len, output_len=1.0, batch=batch)
    first_s = _combine(service, static_batch(first, pipeline=stages))
    return ServingTimes(
        ttft_s=first_s,
        tpot_s=max(whole_s - first_s, 0.0) / max(demand.output_len - 1.0, 1.0),
        output_tokens_per_s=batch * demand.output_len / whole_s,
        running=batch,
    )


def open_load(service: Service, demand: Demand, *, rate_per_s: float) -> ServingTimes:
    """Predict Poisson arrivals at a rate: the number of requests in the replica by Little's law, as a fixed point.

    A rate that the replica cannot keep up with is answered as an offline run whose requests wait.

    Args:
        service: The deployment.
        demand: Lengths and capacity of one replica.
        rate_per_s: Requests per second to one replica.
    """
    full = offline(service, demand)
    if rate_per_s * demand.output_len >= full.output_tokens_per_s:
        return full
    low, high = 1.0, max(2.0, full.running)
    for _ in range(12):
        clients = (low * high) ** 0.5
        times = _smooth(service, demand, batch=clients)
        served = clients / (times.ttft_s + demand.output_len * times.tpot_s)
        low, high = (clients, high) if served < rate_per_s else (low, clients)
    return ServingTimes(
        ttft_s=_queued_ttft_s(service, demand, rate_per_s=rate_per_s, running=clients, tpot_s=times.tpot_s),
        tpot_s=times.tpot_s,
        output_tokens_per_s=rate_per_s * demand.output_len,
        running=clients,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One replica under Poisson arrivals: requests per second, and what a request sees. [1/s, s]"""

    running: float
    rate_per_s: float
    ttft_s: float
    tpot_s: float

    def e2e_s(self, output_len: float) -> float:
        """Return the mean time of a whole answer. [s]"""
        return self.ttft_s + max(output_len - 1.0, 0.0) * self.tpot_s


def load_curve(service: Service, demand: Demand) -> tuple[LoadPoint, ...]:
    """Follow one replica from an idle one to a full one, by the number of requests in it.

    At each number of running requests, Little's law gives the rate; TTFT and TPOT are those of `open_load`.

    Args:
        service: The deployment.
        demand: Lengths and capacity of one replica.
    """
    most = _most_running(service, demand)
    sizes = np.unique(np.round(np.geomspace(1.0, most, 14), 3))
    return tuple(_load_point(service, demand, running=float(size)) for size in sizes)


def _load_point(service: Service, demand: Demand, *, running: float) -> LoadPoint:
    times = _smooth(service, demand, batch=running)
    rate_per_s = running / (times.ttft_s + demand.output_len * times.tpot_s)
    ttft_s = _queued_ttft_s(service, demand, rate_per_s=rate_per_s, running=running, tpot_s=times.tpot_s)
    return LoadPoint(running=running, rate_per_s=rate_per_s, ttft_s=ttft_s, tpot_s=times.tpot_s)


def _queued_ttft_s(service: Service, demand: Demand, *, rate_per_s: float, running: float, tpot_s: float) -> float:
    """Compute the time to the first token of a prompt that waits for the prefills before it, as in M/D/1. [s]"""
    busy = min(rate_per_s * _prefill_cost_s(service, demand, batch=running), 0.95)
    return lone_ttft_s(service, demand) * (1.0 + busy / (2.0 * (1.0 - busy))) + 1.5 * tpot_s


def most_running(service: Service, demand: Demand) -> float:
    """Return how many requests one replica processes at a time, by memory and by the engine."""
    return _most_running(service, demand)


def _smooth(service: Service, demand: Demand, *, batch: float) -> ServingTimes:
    data, stages = service.kernels.data_parallel, service.kernels.pipeline_parallel
    requests = _requests(service, demand, batch)
    steps = saturated(requests, pipeline=stages, data=data, mixes=service.scheduling.mixes)
    step_s = _combine(service, steps)
    return ServingTimes(
        ttft_s=lone_ttft_s(service, demand), tpot_s=step_s, output_tokens_per_s=batch / step_s, running=batch
    )


def _prefill_cost_s(service: Service, demand: Demand, *, batch: float) -> float:
    alone = _smooth(service, demand, batch=batch).tpot_s
    context = demand.input_len + demand.output_len / 2
    per_pass = batch / service.kernels.data_parallel / service.kernels.pipeline_parallel
    decode_s = float(service.step(Load.of(decoding=per_pass, context=context)).total_s[0])
    return (alone - decode_s * service.kernels.pipeline_parallel) * demand.output_len / batch


def lone_ttft_s(service: Service, demand: Demand) -> float:
    """Compute the time to the first token of one prompt on an idle replica. [s]"""
    steps = lone_prefill(_requests(service, demand, 1.0), pipeline=service.kernels.pipeline_parallel)
    return _combine(service, steps)


def _requests(service: Service, demand: Demand, batch: float) -> Requests:
    return Requests(
        input_len=demand.input_len,
        output_len=demand.output_len,
        batch=batch,
        token_budget=service.scheduling.token_budget,
    )
