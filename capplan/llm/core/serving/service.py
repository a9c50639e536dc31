"""Predict what clients of a deployment see: time to first token, time between tokens, tokens per second."""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.core.power import PROBED_CLOCKS, CardCap, rate_shares
from capplan.llm.core.serving.asked import Speculation
from capplan.llm.core.serving.closed_loop import ClosedLoop, LoopTimes, StepSeconds, simulate
from capplan.llm.core.serving.energy import card_works
from capplan.llm.core.serving.serving_point import Requests, TwoSteps, lone_prefill, saturated, static_batch
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.engine_rules import DEFAULT_FLAGS, SchedulerFlags, Scheduling, scheduling_on
from capplan.llm.core.timing.machine import Machine
from capplan.llm.core.timing.step_time import StepTable, StepTime, step_table, step_time
from capplan.llm.core.timing.work import Kernels, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDeployment:
    """A deployment ready to be asked: its kernels on a GPU, the engine, and fitted constants.

    `flags` are the engine's options instead of its defaults. Its steps take `time_factor` times as long as the
    constants say, as measured runs of the deployment show. `drafter` are the kernels of a model or head that drafts,
    which reads prompts, too; None for none.
    """

    kernels: Kernels
    machine: Machine
    engine: str
    constants: Constants
    flags: SchedulerFlags = DEFAULT_FLAGS
    time_factor: float = 1.0
    drafter: Kernels | None = None

    @property
    def scheduling(self) -> Scheduling:
        ranks = self.kernels.data_parallel
        return scheduling_on(self.engine, self.machine, data=ranks, flags=self.flags)

    def step(self, load: Load) -> StepTime:
        layout = self.constants.layout
        table = step_table(self.kernels, load, machine=self.machine, layout=layout, engine=self.engine)
        times = step_time(table, self.constants)
        if self.time_factor != 1.0:
            times = times.scaled(self.time_factor)
        cap = self.machine.cap
        times = times if cap is None else times.scaled(self._slowdown(cap, load, table, times))
        if self.drafter is None:
            return times
        # The drafter reads the prompts of steps, so that its cache holds them.
        prompts = replace(load, decoding=np.zeros_like(load.decoding), drafted=0.0)
        return replace(times, drafter_s=np.where(load.prefilled > 0, self.drafter_pass_s(prompts), 0.0))

    def drafter_pass_s(self, load: Load) -> FloatArray:
        """Compute the time of passes of the drafter, each in one stage's share of a step. [s]

        The engine plans and samples once for a step, whose time holds that.
        """
        assert self.drafter is not None
        alone = replace(self, kernels=self.drafter, drafter=None)
        stages = self.kernels.pipeline_parallel
        return np.asarray((alone.step(load).total_s - self.time_factor * alone.of_engine("step_s")) / stages)

    def _slowdown(self, cap: CardCap, load: Load, table: StepTable, times: StepTime) -> FloatArray:
        """Return by what factor a power cap lengthens each step.

        What a kernel takes before and after its bytes and products are instructions, which follow the clock as well.
        """
        total_s, constants = times.total_s, self.constants
        fixed_s = table.count * constants.kernel("fixed_s")[table.kernel_class]

        def at(clock: float) -> FloatArray:
            machine, layout = self.machine.at_clock(clock), constants.layout
            slowed = step_table(self.kernels, load, machine=machine, layout=layout, engine=self.engine)
            parts = step_time(slowed, constants)
            parts = replace(parts, kernels_s=parts.kernels_s + fixed_s * (1.0 / clock - 1.0))
            return np.asarray(self.time_factor * parts.total_s / total_s)

        def probe() -> list[FloatArray]:
            return [at(clock) for clock in PROBED_CLOCKS]

        shares = [rate_shares(cap.gpu, work) for work in card_works(self.kernels, cap.gpu, load, total_s)]
        return cap.slowdowns(shares, probe)[cap.end]

    def of_engine(self, name: str) -> float:
        return float(self.constants.engine(name)[self.constants.layout.engines.index(self.engine)])


WAVES = 10.0
"""Requests that each client of a benchmark sends, as most tools do."""
_STEADY_REQUESTS = 600
"""Requests of all clients that the steady state is seen over; ten of each of a few clients are a small sample."""
BENCHMARK_SPREAD = 0.1 / 0.9
"""Relative half-width of the lengths of benchmarks that draw them from 0.8 to 1 times the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one replica is asked: mean lengths [tokens], their spread, and how many sequences fit in its memory.

    Lengths are drawn from ± `spread` around the means, or log-normally with `cv` as deviation ÷ mean. A run has
    `requests`; None where it is so long that its end does not matter, or each client sends `WAVES`.
    `counts_burst` says that these first requests count in the mean time to the first token, as in benchmarks.
    `prefix_fraction` of each prompt is found in the prefix cache. `speculation` is None where no tokens are drafted.
    The image encoder takes `encoder_s` for the images of a request, and its cached prefix comes from host memory in
    `loaded_s`, while others are served. [s] A request has `prompts` sequences of
    `input_len`, several where a query is ranked with several documents.
    """

    input_len: float
    output_len: float
    capacity: float
    spread: float = 0.0
    requests: float | None = None
    prefix_fraction: float = 0.0
    speculation: Speculation | None = None
    encoder_s: float = 0.0
    loaded_s: float = 0.0
    prompts: float = 1.0
    counts_burst: bool = True
    cv: float = 0.0

    def waves_of(self, clients: float) -> float:
        return WAVES if self.requests is None else max(1.0, self.requests / clients)

    @property
    def prefill_len(self) -> float:
        """Return the prompt tokens that are processed: those that the prefix cache does not hold. [tokens]"""
        return max(1.0, self.input_len * (1.0 - self.prefix_fraction))

    @property
    def tokens_per_step(self) -> float:
        return self.speculation.tokens_per_step if self.speculation else 1.0

    @property
    def drafted(self) -> float:
        """Return the drafted tokens that a decoding sequence verifies in a step."""
        return float(self.speculation.drafts) if self.speculation else 0.0

    @property
    def drafted_on_gpu(self) -> float:
        """Return the tokens that the GPU drafts for a sequence in a step."""
        return float(self.speculation.on_gpu) if self.speculation else 0.0

    def decoding(self, sequences: FloatArray, *, drafted: float = 0.0) -> Load:
        """Return steps of sequences that decode, each anywhere in its answer."""
        context = self.input_len + self.output_len / 2
        return Load.of(decoding=sequences, context=context, answered=self.output_len, drafted=drafted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingTimes:
    """What the clients of one replica see. [s, s, 1/s]

    `running` sequences are processed at a time, fewer than the clients where memory or the engine hold no more.
    `is_saturated` says that requests come faster than they are served, so that the wait grows as long as they do.
    """

    ttft_s: float
    tpot_s: float
    output_tokens_per_s: float
    running: float
    is_saturated: bool = False


def _combine(service: ServedDeployment, steps: TwoSteps) -> float:
    decode_s, mixed_s = step_times_s(service, steps.decode, steps.mixed)
    return float((steps.decodes * decode_s + steps.prefills * added_s(service, steps, decode_s, mixed_s))[0])


def step_times_s(service: ServedDeployment, *loads: Load) -> tuple[FloatArray, ...]:
    ends = np.cumsum([load.decoding.size for load in loads])
    return tuple(np.split(service.step(Load.joined(loads)).total_s, ends[:-1]))


def added_s(service: ServedDeployment, steps: TwoSteps, decode_s: FloatArray, mixed_s: FloatArray) -> FloatArray:
    """Compute what prompt tokens add to a step, as far as decoding sequences feel it. [s]"""
    share = 1.0 + steps.shared * (service.of_engine("prefill_share") - 1.0)
    return np.asarray(share * np.maximum(mixed_s - steps.beside * decode_s, 0.0))


def step_seconds(service: ServedDeployment, demand: Demand) -> StepSeconds:
    """Return a function for the time of a step of one replica by decoding sequences and prompt tokens."""
    data, stages = service.kernels.data_parallel, service.kernels.pipeline_parallel
    share, past = service.of_engine("prefill_share"), demand.input_len - demand.prefill_len
    prompt, budget = lone_steps(service, demand), service.scheduling.token_budget
    alone = prompt.prefills / ceil(demand.prefill_len / budget)  # passes of a part of a prompt

    def seconds(running: FloatArray, chunk: FloatArray) -> FloatArray:
        counts, places = np.unique(running, return_inverse=True)
        decoding = counts / data / stages
        decode_s = decode_step_s(service, demand, decoding)[places]
        drafting_s = drafting_step_s(service, demand, decoding)[places]
        prefilled = chunk[chunk > 0] / data
        load = replace(
            demand.decoding(running[chunk > 0] / data / stages, drafted=demand.drafted),
            prefilled=prefilled,
            prompts=np.maximum(prefilled / demand.prefill_len, 1e-6),
            pairs=prefilled * (past + demand.prefill_len / 2),
        )
        images_s = demand.encoder_s / stages * prefilled * data / demand.prefill_len
        step_s = decode_s.copy()
        step_s[chunk > 0] = service.step(load).total_s + images_s + np.where(running > 0, drafting_s, 0.0)[chunk > 0]
        felt = 1.0 + (1.0 - np.minimum(chunk / data / budget, 1.0)) * (share - 1.0)
        felt_s = np.where(running > 0, decode_s + felt * (step_s - decode_s), step_s)
        return np.asarray(np.where((running > 0) | (chunk <= 0), stages, alone) * felt_s)

    return seconds


def decode_step_s(service: ServedDeployment, demand: Demand, decoding: FloatArray) -> FloatArray:
    """Compute the time of decode steps on one pipeline stage, with what drafting and verifying add. [s]"""
    verified_s = service.step(demand.decoding(decoding, drafted=demand.drafted)).total_s
    return verified_s + drafting_step_s(service, demand, decoding)


def drafting_step_s(service: ServedDeployment, demand: Demand, decoding: FloatArray) -> FloatArray:
    """Compute the time in which the tokens of steps are drafted, prompt tokens beside them or not; 0 for nothing. [s]

    A draft takes one layer of the model and its output head, as the heads of EAGLE and of multi-token prediction do, or
    a pass of the model or head that drafts.
    """
    drafted = demand.drafted_on_gpu
    if not drafted:
        return np.zeros_like(decoding)
    if (drafter := service.drafter) is not None:
        passes, each = (1.0, drafted) if drafter.drafts_in_parallel else (drafted, 0.0)
        return passes * service.drafter_pass_s(demand.decoding(decoding, drafted=each))
    plain = service.step(demand.decoding(decoding))
    head_s = plain.kernels_s[:, len(service.kernels.products) - 1]
    return np.asarray(drafted * (plain.total_s / service.kernels.layers + head_s))


def closed_loop(service: ServedDeployment, demand: Demand, *, clients: float) -> ServingTimes:
    """Predict a closed loop: each client sends its next request when it has its answer."""
    times = loop_times(service, demand, clients=clients)
    waiting = waiting_parts(times, counts_burst=demand.counts_burst and demand.requests is None)
    ttft_s = times.queue_s + float(first_token_s(service, waiting, in_step=not demand.spread)) + demand.loaded_s
    tpot_s = times.tpot_s / demand.tokens_per_step
    whole_s = ttft_s + max(demand.output_len - 1.0, 0.0) * tpot_s
    tokens_per_s = clients * demand.output_len / whole_s
    if demand.requests is not None:
        ttft_s, span_s = _finite_loop(service, demand, times, later_ttft_s=ttft_s, waves=demand.waves_of(clients))
        tokens_per_s = demand.requests * demand.output_len / span_s
    return ServingTimes(
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        output_tokens_per_s=tokens_per_s,
        running=min(clients, _most_in_loop(service, demand)),
    )


def _finite_loop(
    service: ServedDeployment, demand: Demand, times: LoopTimes, *, later_ttft_s: float, waves: float
) -> tuple[float, float]:
    """Return the mean time to the first token of a loop of so many waves, and the time in which all is answered. [s]

    The engine's constants of waiting are those of a loop under way. A first wave meets an idle engine, so that it waits
    for the steps of the prompts before it and nothing else.
    """
    lone, *_, offset = (service.of_engine(name) for name in waiting_names(in_step=not demand.spread))
    first_s = times.first_wave_ttft_s + (lone - 1.0) * times.lone_ttft_s + offset + demand.loaded_s
    ttft_s = (first_s + (waves - 1.0) * later_ttft_s) / waves
    stepped_s = (times.first_wave_ttft_s + (waves - 1.0) * times.steady_ttft_s) / waves
    return ttft_s, times.span_s + waves * (ttft_s - stepped_s)


def _most_in_loop(service: ServedDeployment, demand: Demand) -> float:
    """Return how many requests run at a time: on average half of each answer is held by engines that evict."""
    most = most_running(service, demand)
    if not service.scheduling.evicts:
        return most
    own = demand.prefill_len
    whole, held = own + demand.output_len, own + demand.output_len / 2
    return min(most * whole / held, service.scheduling.most_sequences * service.kernels.data_parallel)


def waiting_names(*, in_step: bool) -> tuple[str, ...]:
    """Return the engine's constants that the time to the first token is summed with."""
    kind = "lockstep" if in_step else "ttft"
    return tuple(f"{kind}_{name}" for name in ("lone", "scale", "burst", "steps", "offset_s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What the time to the first token is a sum of, beside the wait for memory. [s]

    `lone_s` is that of a lone prompt, `later_s` what requests wait beyond it, `burst_s` what the first requests of all
    clients wait beyond those, and `polled_s` a decode step where the engine is at work when a request comes: it looks
    for new requests between steps.
    """

    lone_s: float | FloatArray
    later_s: float | FloatArray
    polled_s: float | FloatArray
    burst_s: float | FloatArray = 0.0

    @property
    def parts(self) -> tuple[float | FloatArray, ...]:
        """Return the parts in the order of the engine's constants; the last is a constant time."""
        return self.lone_s, self.later_s, self.burst_s, self.polled_s, 1.0


def first_token_s(service: ServedDeployment, waiting: Waiting, *, in_step: bool) -> float | FloatArray:
    """Compute the time to the first token from its parts with the engine's constants. [s]

    Estimates, simulations and plans all use it.
    """
    factors = [service.of_engine(name) for name in waiting_names(in_step=in_step)]
    if service.scheduling.receive_steps is not None:
        factors[3] = service.scheduling.receive_steps
    return sum(factor * part for factor, part in zip(factors, waiting.parts, strict=True))


def waiting_parts(loop: LoopTimes, *, counts_burst: bool = True) -> Waiting:
    """Return what the time to the first token in a closed loop is a sum of.

    Where memory is full the first wave waits less than later ones, which lowers the mean by its share of the waves.
    """
    mean_s = min(loop.later_ttft_s, loop.mean_ttft_s(WAVES)) if counts_burst else loop.steady_ttft_s
    later_s = max(mean_s - loop.lone_ttft_s - loop.queue_s, 0.0)
    burst_s = max(loop.first_wave_ttft_s - loop.later_ttft_s, 0.0) if counts_burst else 0.0
    return Waiting(lone_s=loop.lone_ttft_s, later_s=later_s, burst_s=burst_s, polled_s=loop.busy_share * loop.tpot_s)


def loop_times(service: ServedDeployment, demand: Demand, *, clients: float) -> LoopTimes:
    """Step through a closed loop of one replica, without what clients and servers add to the first token.

    With speculation an answer takes as many steps as it has tokens ÷ those that a step gives, and TPOT is that of a
    step.
    """
    scheduling, count = service.scheduling, max(1, round(clients))
    waves = int(WAVES) if demand.counts_burst else max(int(WAVES), ceil(_STEADY_REQUESTS / count))
    loop = ClosedLoop(
        clients=count,
        requests=count * waves if demand.requests is None else max(count, round(demand.requests)),
        cv=demand.cv,
        input_len=demand.prefill_len,
        output_len=max(1.0, demand.output_len / demand.tokens_per_step),
        spread=demand.spread,
        capacity=max(1.0, demand.capacity),
        most_sequences=scheduling.most_sequences * service.kernels.data_parallel,
        token_budget=scheduling.token_budget * service.kernels.data_parallel,
        mixes=scheduling.mixes,
        arrival_steps=scheduling.arrival_steps,
        return_steps=scheduling.return_steps,
        evicts=scheduling.evicts,
        drifts=scheduling.mixes and not demand.spread and demand.waves_of(clients) > 1.0,
    )
    times = simulate(loop, step_seconds(service, demand))
    return replace(times, lone_ttft_s=lone_ttft_s(service, demand))


def offline(service: ServedDeployment, demand: Demand) -> ServingTimes:
    """Predict an offline run: all requests wait from the start, and memory or the engine decides the batch.

    TTFT is that of a lone prompt, because that of an offline run depends on how many requests wait.
    """
    batch = most_running(service, demand)
    step_s = _saturated_step_s(service, demand, batch)
    tokens_per_s = batch / step_s if demand.requests is None else _finite_run(service, demand, demand.requests)
    return ServingTimes(
        ttft_s=lone_ttft_s(service, demand),
        tpot_s=step_s,
        output_tokens_per_s=tokens_per_s * service.of_engine("offline_scale"),
        running=batch,
    )


def _saturated_step_s(service: ServedDeployment, demand: Demand, batch: float) -> float:
    """Compute the time of a step of a full batch, with what the prompts that replace finished requests add. [s]"""
    data, stages = service.kernels.data_parallel, service.kernels.pipeline_parallel
    requests = requests_of(service, demand, batch)
    return _combine(service, saturated(requests, pipeline=stages, data=data, mixes=service.scheduling.mixes))


def _finite_run(service: ServedDeployment, demand: Demand, requests: float) -> float:
    """Compute the tokens per second of an offline run of so many requests. [1/s]

    Requests of equal length run in waves of a full batch. The last wave is what is left over: it decodes in a smaller
    batch, for as many steps as the others.
    """
    batch = min(most_running(service, demand), requests)
    waves, rest = divmod(requests, batch)
    steps_s = waves * _saturated_step_s(service, demand, batch)
    if rest:
        steps_s += _saturated_step_s(service, demand, rest)
    return requests / steps_s


def fixed_batch(service: ServedDeployment, demand: Demand, *, batch: float) -> ServingTimes:
    """Predict a static batch: all prompts at once, then one step for every further token.

    What does not fit in memory at once runs in waves, one after another.
    """
    held = min(batch, most_running(service, demand))
    waves, rest = divmod(batch, held)
    whole_s, first_s = _static_s(service, demand, held)
    rest_s = _static_s(service, demand, rest)[0] if rest else 0.0
    all_s = waves * whole_s + rest_s
    return ServingTimes(
        ttft_s=first_s + (waves - 1.0) / 2.0 * whole_s if not rest else first_s + waves / 2.0 * whole_s,
        tpot_s=max(whole_s - first_s, 0.0) / max(demand.output_len - 1.0, 1.0),
        output_tokens_per_s=batch * demand.output_len / all_s,
        running=held,
    )


def _static_s(service: ServedDeployment, demand: Demand, batch: float) -> tuple[float, float]:
    """Compute the time of a whole static batch that fits in memory, and that to its first tokens. [s]"""
    stages = service.kernels.pipeline_parallel
    whole_s = _combine(service, static_batch(requests_of(service, demand, batch), pipeline=stages))
    first = Requests(input_len=demand.input_len, output_len=1.0, batch=batch)
    return whole_s, _combine(service, static_batch(first, pipeline=stages))


def steady_load(service: ServedDeployment, demand: Demand, *, running: float) -> ServingTimes:
    """Predict a replica in which as many sequences run all the time; TPOT is that of a step without prompts."""
    data, stages = service.kernels.data_parallel, service.kernels.pipeline_parallel
    step_s = decode_step_s(service, demand, np.array([running / data / stages]))
    return ServingTimes(
        ttft_s=lone_ttft_s(service, demand),
        tpot_s=stages * float(step_s[0]),
        output_tokens_per_s=running / _saturated_step_s(service, demand, running),
        running=running,
    )


def most_running(service: ServedDeployment, demand: Demand) -> float:
    """Return how many requests one replica processes at a time, by memory and by the engine."""
    most = service.scheduling.most_sequences * service.kernels.data_parallel
    return max(1.0, min(demand.capacity, most))


def lone_ttft_s(service: ServedDeployment, demand: Demand) -> float:
    return _combine(service, lone_steps(service, demand))


def lone_steps(service: ServedDeployment, demand: Demand) -> TwoSteps:
    pipeline, fills = service.kernels.pipeline_parallel, service.scheduling.fills_pipeline
    return lone_prefill(requests_of(service, demand, 1.0), pipeline=pipeline, fills_pipeline=fills)


def requests_of(service: ServedDeployment, demand: Demand, batch: float | FloatArray) -> Requests:
    return Requests(
        input_len=demand.input_len,
        output_len=demand.output_len,
        batch=batch,
        token_budget=service.scheduling.token_budget,
        cached_len=demand.input_len - demand.prefill_len,
        drafted=demand.drafted,
    )
