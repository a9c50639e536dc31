"""Simulate one replica of a language model under a load, request by request."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from capplan.core.power import PowerLaw
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.measured_runs import check_runs, runs_of, time_adjustment
from capplan.llm.core.search.replica import Replica, request_demand
from capplan.llm.core.search.room import Find, room_of
from capplan.llm.core.serving.asked import drafting_words
from capplan.llm.core.serving.cases import MeasuredRun
from capplan.llm.core.serving.energy import ServedTokens, load_energy
from capplan.llm.core.serving.evidence import Adjustment
from capplan.llm.core.serving.load_curve import load_curve
from capplan.llm.core.serving.service import ServedDeployment
from capplan.llm.core.simulation.arrivals import Arrivals, Sessions, hourly_rates, session_arrivals
from capplan.llm.core.simulation.load_answer import LatencyLimits, LoadAnswer, Simulation
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.core.timing.engine_rules import DEFAULT_FLAGS, SchedulerFlags
from capplan.units import format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLoads:
    """The loads of one replica, and what is looked at.

    `trace` are requests with lengths and, where the file states them, arrival times; they replace drawn ones. `day` is
    the shape of a day: how many requests come in each of its parts, relative to the others. `sessions` are those
    conversations that requests are turns of, None for requests that have nothing in common.
    """

    loads: tuple[TokenLoad, ...]
    limits: LatencyLimits
    requests: int
    trace: Arrivals | None = None
    sessions: Sessions | None = None
    day: tuple[float, ...] = ()
    flags: SchedulerFlags = DEFAULT_FLAGS


def simulate_serving(
    find: Find,
    words: NamedDeployment,
    asked: SimulatedLoads,
    *,
    calibration: LlmCalibration,
    measured: Sequence[MeasuredRun] = (),
    power_law: PowerLaw | None = None,
) -> Simulation:
    deployment = find(words)
    constants = constants_of(calibration)
    check_runs(measured, deployment)
    learnt = time_adjustment(runs_of(measured, deployment), deployment, calibration, constants)
    service = deployment.service(constants, flags=asked.flags, time_factor=learnt.factor if learnt else 1.0)
    first = asked.loads[0]
    capacity = room_of(find, words, input_len=first.input_len, output_len=first.output_len, held_len=first.cached_len)
    curve = load_curve(service, request_demand(deployment, constants, first, capacity=capacity))
    answers = tuple(
        _with_energy(_simulated(asked, service, deployment, load, label=label), deployment, load, power_law)
        for label, load in _parts(asked)
    )
    return Simulation(
        model=deployment.model.architecture.name,
        gpu=deployment.gpu.id,
        gpus=words.sharding.gpus,
        engine=deployment.engine,
        sequences_that_fit=capacity,
        saturation_rate_per_s=max(point.rate_per_s for point in curve) * service.of_engine("offline_scale"),
        answers=answers,
        limits=asked.limits,
        notes=_notes(asked, deployment, learnt),
    )


def _simulated(
    asked: SimulatedLoads,
    service: ServedDeployment,
    deployment: ServingDeployment,
    load: TokenLoad,
    *,
    label: str,
) -> LoadAnswer:
    """Simulate one load; conversations are drawn for it, whose prompts are longer than those of their first turns."""
    trace = asked.trace
    if asked.sessions is not None and load.rate_per_s is not None:
        trace = session_arrivals(
            asked.sessions,
            rate_per_s=load.rate_per_s,
            count=asked.requests,
            lengths=load.lengths,
            longest=deployment.model.architecture.max_positions or 1e9,
        )
        load = replace(load, input_len=float(trace.prompts.mean()))
    replica = Replica.of(service, deployment, load)
    return replica.simulate(load, limits=asked.limits, requests=asked.requests, trace=trace, label=label)


def _with_energy(found: LoadAnswer, deployment: ServingDeployment, load: TokenLoad, law: PowerLaw | None) -> LoadAnswer:
    """Return an answer with the power of the replica and its joules per output token, where a law is given."""
    if law is None:
        return found
    requests_per_s = found.output_tokens_per_s / load.output_len
    tokens = ServedTokens(
        running=found.mean_running,
        input_len=found.input_tokens_per_s / requests_per_s * (1.0 - found.cached_fraction),
        output_len=load.output_len,
        speculation=load.speculation,
        drafter=deployment.drafter,
    )
    energy = load_energy(
        deployment.kernels,
        deployment.gpu,
        deployment.words.sharding,
        tokens,
        output_tokens_per_s=found.output_tokens_per_s,
        busy_fraction=found.busy_fraction,
        law=law,
    )
    return replace(found, energy=energy)


def _parts(asked: SimulatedLoads) -> Iterator[tuple[str, TokenLoad]]:
    """Yield the loads to simulate, a day in its parts."""
    for load in asked.loads:
        if not asked.day or load.rate_per_s is None:
            yield "", load
            continue
        width = 24 / len(asked.day)
        for part, rate in enumerate(hourly_rates(load.rate_per_s, asked.day)):
            label = f"{part * width:02.0f} to {(part + 1) * width:02.0f} h"
            if rate > 0:
                yield label, replace(load, rate_per_s=rate)


def _notes(asked: SimulatedLoads, deployment: ServingDeployment, learnt: Adjustment | None) -> tuple[str, ...]:
    notes = []
    if cap := deployment.machine.cap:
        notes.append(f"Times are those under a power limit of {cap.law.cap_w:g} W for each GPU.")
    if asked.trace is not None and asked.trace.has_times:
        notes.append("Requests come at the times of the file; ⟨rate⟩ is not used.")
    if asked.sessions is not None:
        notes.append(
            f"Requests are turns of conversations of {asked.sessions.turns}: prompts grow by what was said before, "
            "and what the cache still holds of that is not computed again."
        )
    if (kept := deployment.host_cache) is not None:
        where = (
            ""
            if asked.sessions is not None or (asked.trace and asked.trace.blocks)
            else ("; which part of the hits lies there is not known, so that all of them are taken to")
        )
        notes.append(
            f"Host memory keeps {kept.tokens:,.0f} tokens of prefixes more, of which 1,000 come back in "
            f"{format_seconds(1000 * kept.token_s)} over PCIe{where}."
        )
    if (drafter := deployment.words.drafter) is not None:
        notes.append(f"{drafting_words(drafter)}.")
    if asked.day:
        notes.append("Each part of the day is simulated on its own, from an empty replica.")
    clients = [load for load in asked.loads if load.concurrency is not None]
    if any(load.in_bursts for load in clients):
        notes.append(
            "Clients send together, and again when the last of them has its answer; tokens per second count the time "
            "in which only some still run."
        )
    elif clients:
        notes.append(
            "TTFT is that of the steady state, without the first requests of the clients, which start at once."
        )
    varied = any(load.in_bursts or load.spread or load.input_cv or load.output_cv for load in clients)
    if clients and asked.trace is None and not varied:
        notes.append(
            "Requests of equal length keep the clients in step, so that prompts come in bursts; ⟨spread⟩ 0.11 varies "
            "them as `capplan llm estimate` does."
        )
    if learnt is not None:
        notes.append(f"Measured runs ({learnt.runs}) change the time of steps by a factor of {learnt.factor:.3f}.")
    return tuple(notes)
