"""Simulate one replica of a language model under an open load, request by request."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np

from capplan.app.llm.deployments import Deployments, DeploymentWords
from capplan.app.llm.validate_serving import constants_of
from capplan.core.llm.serving.deployment_plan import TokenLoad
from capplan.core.llm.serving.load_answer import LatencyLimits, LoadAnswer, summarise
from capplan.core.llm.serving.open_loop import Admission, Arrivals, Lengths, random_arrivals, simulate_open
from capplan.core.llm.serving.service import Demand, Service, most_running, step_seconds
from capplan.core.llm.serving.simulation import Simulation
from capplan.core.llm.timing.calibration import LlmCalibration
from capplan.errors import UsageError

MOST_REQUESTS = 1_000_000
_COLUMNS = ("input_len", "output_len")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationQuestion:
    """A deployment and the loads of one replica.

    `trace` are requests with lengths and, where the file states them, arrival times; they replace drawn ones.
    """

    words: DeploymentWords
    loads: tuple[TokenLoad, ...]
    limits: LatencyLimits
    requests: int
    trace: Arrivals | None = None


def simulate_serving(
    question: SimulationQuestion, *, deployments: Deployments, calibration: LlmCalibration
) -> Simulation:
    """Simulate a deployment at every load.

    Args:
        question: The deployment and its loads.
        deployments: Where deployments are found.
        calibration: The constants of the time model.

    Raises:
        CapplanError: Something is not known, or does not fit.
    """
    deployment = deployments.find(question.words)
    service = Service(
        kernels=deployment.kernels,
        machine=deployment.machine,
        engine=deployment.engine,
        constants=constants_of(calibration),
    )
    first = question.loads[0]
    capacity = deployment.sequences_that_fit(first.input_len + first.output_len)
    if capacity < 1:
        raise UsageError(
            f"{question.words.model} with {first.input_len + first.output_len:.0f} tokens does not fit on "
            f"{question.words.sharding.gpus} × {deployment.gpu.id}; use more GPUs (--tp) or narrower weights."
        )
    answers = tuple(
        simulate_replica(
            service,
            Demand(input_len=load.input_len, output_len=load.output_len, capacity=capacity, spread=load.spread),
            load,
            limits=question.limits,
            requests=question.requests,
            trace=question.trace,
        )
        for load in question.loads
    )
    return Simulation(
        model=deployment.model.architecture.name,
        gpu=deployment.gpu.id,
        gpus=question.words.sharding.gpus,
        engine=deployment.engine,
        sequences_that_fit=capacity,
        answers=answers,
        limits=question.limits,
    )


def simulate_replica(
    service: Service,
    demand: Demand,
    load: TokenLoad,
    *,
    limits: LatencyLimits,
    requests: int,
    trace: Arrivals | None = None,
) -> LoadAnswer:
    """Simulate one replica at a load, with what clients and servers add to the first token.

    Args:
        service: The deployment.
        demand: Mean lengths and capacity.
        load: Rate and lengths of the requests of this replica.
        limits: Limits that count as good service.
        requests: Requests to draw, where `trace` does not give them.
        trace: Requests with their lengths; without arrival times of its own (all 0), these are drawn at the rate.
    """
    arrivals = _arrivals(load, requests, trace)
    admission = Admission(
        capacity=most_running(service, demand),
        token_budget=service.scheduling.token_budget * service.kernels.data_parallel,
        mixes=service.scheduling.mixes,
    )
    times = simulate_open(arrivals, admission, step_seconds(service, demand))
    return summarise(arrivals, times, limits)


def _arrivals(load: TokenLoad, requests: int, trace: Arrivals | None) -> Arrivals:
    lengths = Lengths(input_len=load.input_len, output_len=load.output_len, spread=load.spread)
    if trace is None:
        return random_arrivals(rate_per_s=load.rate_per_s, count=requests, lengths=lengths, gap_scv=load.gap_scv)
    if trace.at_s[-1] > 0:
        return trace
    drawn = random_arrivals(rate_per_s=load.rate_per_s, count=len(trace.at_s), lengths=lengths, gap_scv=load.gap_scv)
    return Arrivals(at_s=drawn.at_s, prompts=trace.prompts, answers=trace.answers)


def read_requests(path: Path) -> Arrivals:
    """Read requests from a CSV with the columns input_len and output_len, and arrival_s where times are known.

    Raises:
        UsageError: The file cannot be read, lacks a column, or holds a value that cannot be.
    """
    rows = _read_rows(path)
    prompts = [_number(path, number, row, "input_len", least=1) for number, row in rows]
    answers = [_number(path, number, row, "output_len", least=1) for number, row in rows]
    times = [_number(path, number, row, "arrival_s", least=0) if row.get("arrival_s") else 0.0 for number, row in rows]
    _check_order(path, times, [number for number, _ in rows])
    return Arrivals(at_s=np.array(times), prompts=np.array(prompts), answers=np.array(answers, dtype=np.int64))


def _read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a CSV of requests ({error}).") from error
    reader = csv.DictReader(StringIO(text))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise UsageError(f"{path}: lacks the column {missing[0]}; a CSV of requests has {', '.join(_COLUMNS)}.")
    rows = [(number, row) for number, row in enumerate(reader, start=2)]
    if not 1 <= len(rows) <= MOST_REQUESTS:
        raise UsageError(f"{path}: holds {len(rows):,} requests; 1 to {MOST_REQUESTS:,} can be simulated.")
    return rows


def _number(path: Path, number: int, row: dict[str, str], name: str, *, least: float) -> float:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = float("nan")
    if not least <= value < 1e12:
        raise UsageError(f"{path}: line {number}: {name} must be a number of at least {least:g}, not {row[name]!r}.")
    return value


def _check_order(path: Path, times: Sequence[float], lines: Sequence[int]) -> None:
    for before, after, line in zip(times, times[1:], lines[1:], strict=False):
        if after < before:
            raise UsageError(f"{path}: line {line}: arrives at {after:g} s, before the line above; sort by arrival_s.")
