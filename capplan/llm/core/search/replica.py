"""Simulate one replica of a deployment under loads, request by request."""

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from capplan.core.engine_names import Engine, find_engine
from capplan.core.numbers import FloatArray
from capplan.llm.core.deployment import ServingDeployment
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.images import encoder_s
from capplan.llm.core.serving.asked import MOST_CLIENTS
from capplan.llm.core.serving.cases import MeasuredRun, ServingCase
from capplan.llm.core.serving.closed_loop import StepGrid, step_grid
from capplan.llm.core.serving.service import Demand, ServedDeployment, Waiting, first_token_s, step_seconds
from capplan.llm.core.simulation.arrivals import Arrivals, all_at_once, random_arrivals
from capplan.llm.core.simulation.continuous_batching import Admission, RequestTimes, simulate_requests
from capplan.llm.core.simulation.load_answer import LatencyLimits, LoadAnswer, summarise
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.engine_rules import SchedulerFlags

_PREEMPTING = frozenset({Engine.VLLM, Engine.SGLANG})
"""Engines that admit a prompt by what it needs now and evict when the cache is full; others reserve whole answers."""


@dataclass(slots=True)
class Replica:
    """A replica of a deployment that is simulated under several loads; what its steps take is computed once.

    Attributes:
        service: The deployment's times.
        demand: Lengths and capacity of the replica, whatever the rate.
    """

    service: ServedDeployment
    deployment: ServingDeployment
    demand: Demand
    _grids: dict[int, StepGrid] = field(default_factory=dict)
    _lone: tuple[FloatArray, FloatArray] | None = None

    @classmethod
    def of(cls, service: ServedDeployment, deployment: ServingDeployment, load: TokenLoad) -> "Replica":
        capacity = deployment.sequences_that_fit(load.cached_len)
        return cls(service, deployment, request_demand(deployment, service.constants, load, capacity=capacity))

    def simulate(
        self, load: TokenLoad, *, limits: LatencyLimits, requests: int, trace: Arrivals | None = None, label: str = ""
    ) -> LoadAnswer:
        admission, kept = self._admission(), self.deployment.host_cache
        trace = None if trace is None else trace.with_cache(admission.pool_tokens, kept.tokens if kept else 0.0)
        clients, in_step = None, False
        if load.concurrency is not None:
            clients = max(1, round(load.concurrency))
            wanted = max(min(requests, 50 * clients), 3 * clients)
            if trace is None:
                drawn = all_at_once(wanted, load.lengths)
            elif len(trace.at_s) < wanted:  # requests are drawn again and again
                drawn = trace.sampled(wanted)
            else:
                drawn = replace(trace, at_s=np.zeros_like(trace.at_s))
            in_step = load.in_bursts or not (load.spread or load.input_cv or load.output_cv or trace)
        else:
            drawn = _arrivals(load, requests, trace)
        loading_s = np.zeros(len(drawn.at_s)) if kept is None else kept.waits_s(drawn.at_s, drawn.loaded_tokens)
        if clients is not None and kept is not None:  # clients send one by one: their copies follow on one another
            loading_s = drawn.loaded_tokens * kept.token_s
        elif kept is not None:
            order = np.argsort(drawn.at_s + loading_s, kind="stable")
            drawn, loading_s = drawn.later(loading_s, order), loading_s[order]
        grid = self._grid(admission, len(drawn.at_s))
        times = simulate_requests(drawn, admission, grid, clients=clients, in_bursts=load.in_bursts)
        seen = self._delivered(times, drawn, loading_s, clients=clients, in_step=in_step)
        return summarise(drawn, seen, limits, clients=clients, label=label)

    def steps(self, requests: int) -> tuple[Admission, StepGrid]:
        """Return what the engine admits, and the times of its steps for so many requests."""
        admission = self._admission()
        return admission, self._grid(admission, requests)

    def _grid(self, admission: Admission, requests: int) -> StepGrid:
        most = admission.most_running(requests)
        if most not in self._grids:
            self._grids[most] = step_grid(most, admission.token_budget, step_seconds(self.service, self.demand))
        return self._grids[most]

    def _admission(self) -> Admission:
        """Return what the engine admits: its pool in tokens of mean sequences, so that windows and states count."""
        service, deployment, demand = self.service, self.deployment, self.demand
        data, rules = service.kernels.data_parallel, service.scheduling
        most = min(rules.most_sequences * data, float(deployment.words.max_sequences or inf))
        own = demand.prefill_len * demand.prompts + demand.output_len
        return Admission(
            capacity=most,
            token_budget=rules.token_budget * data,
            mixes=rules.mixes,
            pool_tokens=demand.capacity * own,
            preempts=find_engine(deployment.words.engine) in _PREEMPTING,
            tokens_per_step=demand.tokens_per_step,
            queued_factor=1.0 / service.of_engine("offline_scale"),
        )

    def _delivered(
        self, times: RequestTimes, arrivals: Arrivals, loading_s: FloatArray, *, clients: int | None, in_step: bool
    ) -> RequestTimes:
        """Return what clients see; what servers add to first tokens follows from the constants that estimates use.

        A client of a closed loop asks again when its answer is whole, so that what servers add lengthens the load.
        """
        some = times.gap_weights.sum()
        step_s = float((times.gaps_s * times.gap_weights).sum() / some) if some else 0.0
        # The time that each prompt takes on an idle replica, in steps of the token budget. [s]
        cached = 0.0 if arrivals.cached is None else arrivals.cached
        prompts = np.maximum(arrivals.prompts - cached, 1.0)
        budget = self.service.scheduling.token_budget * self.service.kernels.data_parallel
        if self._lone is None:
            sizes = np.append(np.geomspace(1.0, budget, 32), budget)
            self._lone = sizes, step_seconds(self.service, self.demand)(np.zeros_like(sizes), sizes)
        chunks, table = self._lone
        full, rest = np.divmod(prompts, budget)
        lone_s = np.asarray(full * table[-1] + np.where(rest > 0, np.interp(rest, chunks, table), 0.0))
        rules = self.service.scheduling
        waited_s = times.ttft_s - lone_s + (rules.arrival_steps * times.met_work + rules.return_steps) * step_s
        waiting = Waiting(
            lone_s=lone_s, later_s=np.maximum(waited_s, 0.0), polled_s=times.met_work.astype(float) * step_s
        )
        ttft_s = loading_s + np.asarray(first_token_s(self.service, waiting, in_step=in_step))
        added_s = ttft_s - times.ttft_s
        longer = 1.0 if not clients or not times.span_s else 1.0 + float(added_s.sum()) / clients / times.span_s
        return replace(
            times,
            ttft_s=ttft_s,
            e2e_s=times.e2e_s + ttft_s - times.ttft_s,
            span_s=times.span_s * longer,
            mean_running=times.mean_running / longer,
            busy_fraction=times.busy_fraction / longer,
        )


def request_demand(deployment: ServingDeployment, constants: Constants, load: TokenLoad, *, capacity: float) -> Demand:
    """Return the demand on one replica, with the times of its image encoder and of prefixes from host memory."""
    encoding_s, loaded_s = encoder_s(deployment, constants, load), deployment.loaded_s(load.prefix_len)
    return load.demand(capacity, encoder_s=encoding_s, loaded_s=loaded_s)


def _arrivals(load: TokenLoad, requests: int, trace: Arrivals | None) -> Arrivals:
    if trace is not None and trace.has_times:
        return trace
    drawn = random_arrivals(
        rate_per_s=load.rate_per_s or 1.0, count=requests, lengths=load.lengths, gap_scv=load.gap_scv
    )
    return drawn if trace is None else replace(trace.sampled(requests), at_s=drawn.at_s)


def case_of_run(run: MeasuredRun, deployment: ServingDeployment) -> ServingCase:
    """Return what a run asked of its deployment.

    Where no request of the run's length fits by the defaults, memory sets no limit: the run did take place, so that
    its settings must have left more room.
    """
    capacity = deployment.sequences_that_fit(run.input_len + run.output_len)
    return ServingCase(
        kernels=deployment.kernels,
        machine=deployment.machine,
        engine=deployment.engine,
        demand=run.demand(capacity=capacity if capacity >= 1 else MOST_CLIENTS),
        serving=run.serving,
        clients=run.clients or 1.0,
        rate_per_s=run.rate_per_s or 0.0,
        replicas=run.replicas,
        flags=SchedulerFlags(receive_interval=run.receive_interval, token_budget=deployment.step_tokens),
    )
