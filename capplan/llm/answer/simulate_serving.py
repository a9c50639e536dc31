"""Simulate one replica of a language model under a load, request by request."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import numpy as np

from capplan.errors import UsageError
from capplan.files import read_file
from capplan.llm.answer.deployments import Deployments
from capplan.llm.core.deployment import DeploymentWords, ServingDeployment
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.images import encoder_s
from capplan.llm.core.search.replica import simulate_replica
from capplan.llm.core.serving.load_curve import load_curve
from capplan.llm.core.serving.service import Service
from capplan.llm.core.simulation.arrivals import Arrivals, hourly_rates
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.llm.core.simulation.simulation import Simulation
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.core.timing.engine_rules import DEFAULT_FLAGS, SchedulerFlags

MOST_REQUESTS = 1_000_000
_COLUMNS = ("input_len", "output_len")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationQuestion:
    """A deployment and the loads of one replica.

    `trace` are requests with lengths and, where the file states them, arrival times; they replace drawn ones. `day` is
    the shape of a day: how many requests come in each of its parts, relative to the others.
    """

    words: DeploymentWords
    loads: tuple[TokenLoad, ...]
    limits: LatencyLimits
    requests: int
    trace: Arrivals | None = None
    day: tuple[float, ...] = ()
    flags: SchedulerFlags = DEFAULT_FLAGS


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
        flags=question.flags,
    )
    capacity = _check_memory(question, deployment)
    first = question.loads[0]
    images_s = encoder_s(deployment, service.constants, first)
    curve = load_curve(service, first.demand(capacity, encoder_s=images_s))
    answers = tuple(
        simulate_replica(
            service,
            deployment,
            load,
            limits=question.limits,
            requests=question.requests,
            trace=question.trace,
            label=label,
        )
        for label, load in _parts(question)
    )
    return Simulation(
        model=deployment.model.architecture.name,
        gpu=deployment.gpu.id,
        gpus=question.words.sharding.gpus,
        engine=deployment.engine,
        sequences_that_fit=capacity,
        saturation_rate_per_s=max(point.rate_per_s for point in curve) * service.of_engine("offline_scale"),
        answers=answers,
        limits=question.limits,
        notes=_notes(question),
    )


def _check_memory(question: SimulationQuestion, deployment: ServingDeployment) -> float:
    first, longest = question.loads[0], deployment.model.architecture.max_positions
    tokens = first.input_len + first.output_len
    if longest is not None and tokens > longest:
        raise UsageError(
            f"{question.words.model} handles at most {longest} tokens; {tokens:.0f} of prompt and answer are more: "
            "shorten --input-len or --output-len."
        )
    capacity = deployment.sequences_that_fit(first.cached_len)
    if capacity < 1:
        raise UsageError(
            f"{question.words.model} with {tokens:.0f} tokens does not fit on "
            f"{question.words.sharding.gpus} × {deployment.gpu.id}; use more GPUs (--tp) or narrower weights."
        )
    return capacity


def _parts(question: SimulationQuestion) -> Iterator[tuple[str, TokenLoad]]:
    """Yield the loads to simulate, a day in its parts."""
    for load in question.loads:
        if not question.day or load.rate_per_s is None:
            yield "", load
            continue
        width = 24 / len(question.day)
        for part, rate in enumerate(hourly_rates(load.rate_per_s, question.day)):
            label = f"{part * width:02.0f} to {(part + 1) * width:02.0f} h"
            if rate > 0:
                yield label, replace(load, rate_per_s=rate)


def _notes(question: SimulationQuestion) -> tuple[str, ...]:
    notes = []
    if question.trace is not None and question.trace.has_times:
        notes.append("Requests come at the times of the file; --rate is not used.")
    if question.day:
        notes.append("Each part of the day is simulated on its own, from an empty replica.")
    clients = [load for load in question.loads if load.concurrency is not None]
    if clients:
        notes.append(
            "TTFT is that of the steady state, without the first requests of the clients, which start at once."
        )
    if clients and question.trace is None and all(_is_equal(load) for load in clients):
        notes.append(
            "Requests of equal length keep the clients in step, so that prompts come in bursts; --spread 0.11 varies "
            "them as `capplan llm estimate` does."
        )
    return tuple(notes)


def _is_equal(load: TokenLoad) -> bool:
    return not (load.spread or load.input_cv or load.output_cv)


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
    cached = [
        _number(path, number, row, "cached_len", least=0) if row.get("cached_len") else 0.0 for number, row in rows
    ]
    for (number, _), prompt, known in zip(rows, prompts, cached, strict=True):
        if known > prompt:
            raise UsageError(f"{path}: line {number}: cached_len {known:g} is more than input_len {prompt:g}.")
    return Arrivals(
        at_s=np.array(times),
        prompts=np.array(prompts),
        answers=np.array(answers, dtype=np.int64),
        cached=np.array(cached) if any(cached) else None,
    )


def _read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        text = read_file(path).decode("utf-8-sig")
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
