"""`llm simulate`: what requests see at a load, by simulating one replica iteration by iteration."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.llm.fields import (
    CLIENTS,
    CardPowerFields,
    ConversationFields,
    LoadFileFields,
    MeasuredRunFields,
    Word,
)
from capplan.verbs.llm.scale import ScaledReplicaFields, ScalerFields, follow_week
from capplan.verbs.statement.contract import Context, Effort, Verb, drawn_by, laid_out_by
from capplan.verbs.statement.fields import from_fields, picture_file
from capplan.verbs.statement.options import HERE, After, Option
from capplan.verbs.statement.words import Words, checking_pictures

if TYPE_CHECKING:
    from capplan.llm.core.fleet.token_load import TokenLoad
    from capplan.llm.core.simulation.arrivals import Arrivals
    from capplan.llm.core.simulation.load_answer import Simulation

MOST_RATE_PER_S = 100_000.0


def _numbers(given: Any) -> list[float]:
    """Return numbers of a text parted by commas, or of a list; none where they are not numbers."""
    pieces = given.split(",") if isinstance(given, str) else [given] if isinstance(given, int | float) else given
    try:
        return [float(piece) for piece in pieces]
    except (ValueError, TypeError):
        return []


def _doublings(text: str) -> list[float]:
    ends = [value for part in text.split("..") for value in _numbers(part)]
    if len(ends) != 2:
        return []
    low, high = ends
    rates: list[float] = []
    while 0 < low <= high and len(rates) < 64:
        rates.append(low)
        low *= 2
    return [*rates, high] if rates else []


def _read_rates(given: Any, what: str) -> tuple[float, ...]:
    rates = _doublings(given) if isinstance(given, str) and ".." in given else _numbers(given)
    if not rates or not all(0 < rate <= MOST_RATE_PER_S for rate in rates):
        raise UsageError(
            f"{what} {given}: write 2, 0.5,1,2 or 1..16, each above 0 and at most {MOST_RATE_PER_S:g} per s."
        )
    return tuple(sorted(set(rates)))


def _read_day(given: Any, what: str) -> tuple[float, ...]:
    parts = _numbers(given)
    if not 2 <= len(parts) <= 96 or not all(0 <= part < 1e12 for part in parts) or not sum(parts) > 0:
        raise UsageError(f"{what} {given}: write 2 to 96 numbers of at least 0, one for each part of the day: 1,3,5,2.")
    return tuple(parts)


def _write_numbers(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


_NUMBERS = Annotated[list[float], Meta(max_length=96)] | Word
RATES = Words(
    python="float | Sequence[float] | str", read=_read_rates, write=_write_numbers, wire=float | _NUMBERS, to_wire=list
)
"""Rates of requests: 2, 0.5,1,2 or 1..16 for doublings. [1/s]"""
DAY = Words(python="Sequence[float] | str", read=_read_day, write=_write_numbers, wire=_NUMBERS, to_wire=list)
"""The shape of a day: numbers in any unit, one for each part of 24 hours, such as 24 hourly counts."""


@dataclass(frozen=True, kw_only=True)
class LlmSimulateQuestion(
    MeasuredRunFields, ConversationFields, ScaledReplicaFields, CardPowerFields, LoadFileFields,
):  # fmt: skip
    """Percentiles of what requests see when one replica serves a load, and its goodput; a fleet over a week."""

    rates_per_s: Annotated[
        tuple[float, ...] | None, After("measured"),
        Option(
            is_usual=True,
            help="Requests per second to one replica: 2, 1,2,4 or 1..16.", flags=("--rate",), metavar="PER_S",
            words=RATES,
        ),
    ] = None  # fmt: skip
    concurrency: Annotated[
        tuple[int, ...] | None,
        Option(
            is_usual=True,
            help="Clients that wait for answers, instead of a rate.", flags=("--concurrency", "-c"), metavar="N",
            words=CLIENTS,
        ),
    ] = None  # fmt: skip
    in_bursts: Annotated[
        bool,
        Option(
            help="Clients send together, and again when the last of them has its answer, as many benchmarks do.",
            flags=("--bursts",),
        ),
    ] = False
    lengths: Annotated[
        Path | None,
        Option(
            help="Requests with input_len, output_len and, if known, arrival_s and cached_len; or a trace of Azure, "
            "BurstGPT or Mooncake.",
            flags=("--lengths", "--trace"), metavar="FILE", doors=HERE,
        ),
    ] = None  # fmt: skip
    daily: Annotated[
        tuple[float, ...] | None,
        Option(help="Shape of a day: requests in each part of it, in any unit.", metavar="N,N,...", words=DAY),
    ] = None
    requests: Annotated[
        int, Meta(ge=100, le=200_000), Option(help="Requests to simulate at each load.", shows_default=True)
    ] = 5000
    plot: Annotated[Path | None, picture_file("Plot times over the load.")] = None

    def check_scaling(self) -> None:
        """Refuse how a fleet scales where no load of a week is stated that it would follow."""
        scales = any(getattr(self, field.name) != field.default for field in fields(ScalerFields))
        if not self.states_week and (scales or self.states_start):
            raise UsageError(
                "starts and scaling are of a fleet that follows a week: state it by ⟨week⟩ or ⟨requests-per-day⟩."
            )


def answer_llm_simulate(question: LlmSimulateQuestion, context: Context) -> "Simulation":
    """Return what requests see at each load, by simulating a replica.

    Raises:
        CapplanError: a name is not known, the model does not fit, or no load is stated.
    """
    from capplan.llm.core.elastic.answer import ElasticSimulation
    from capplan.llm.core.search.simulate import SimulatedLoads, simulate_serving
    from capplan.llm.read.calibrations import load_time_calibration
    from capplan.llm.read.requests import read_requests

    question = _with_load(question)
    question.check_scaling()
    elastic = follow_week(question, context, question.week_load()) if question.states_week else None
    if elastic is not None and not (question.rates_per_s or question.concurrency or question.lengths):
        question = replace(question, rates_per_s=(elastic.load.peak_per_s / elastic.standing.replicas,))
    trace = None if question.lengths is None else read_requests(question.lengths)
    law = question.power_law()
    deployments, model = question.deployments(context, law), context.language_model(question.model)
    served = deployments.model(model)
    words = question.words(model, question.named_drafter(context))
    asked = SimulatedLoads(
        loads=tuple(question.with_task(load, served) for load in _loads(question, context, trace)),
        limits=question.limits(),
        requests=question.requests,
        trace=trace,
        sessions=question.sessions(),
        day=question.daily or (),
        flags=question.flags(),
    )
    measured = question.measured_runs()
    with context.feedback.progress("simulating"):
        calibration = load_time_calibration(question.calibration)
        found = simulate_serving(
            deployments.find, words, asked, calibration=calibration, measured=measured, power_law=law
        )
    return found if elastic is None else from_fields(ElasticSimulation, found, elastic=elastic)


def _with_load(question: LlmSimulateQuestion) -> LlmSimulateQuestion:
    """Return the question with what its load file states; the file's rate, or its day, where the question has none.

    The rate of a load file is that of all replicas; a simulation has one, which then carries all of it. Where the file
    holds the rates of a day, each of its hours is simulated at its own.
    """
    if question.load_file is None:
        return question
    from capplan.specs.week import observed_hours
    from capplan.verbs.llm.load_file import read_load_file, with_load

    path, stated = question.load_file, read_load_file(question.load_file, model=question.model)
    asked = replace(with_load(question, path, model=question.model), load_file=None)
    has_load = asked.rates_per_s or question.concurrency or asked.lengths is not None
    if has_load:
        return asked
    clients, rate, day = stated.concurrency, stated.rate_per_s, asked.daily
    if day is None and rate is not None and (day := observed_hours(path, "daily_per_s", 24)) is not None:
        rate = sum(day) / len(day)
    return replace(
        asked,
        rates_per_s=None if rate is None else (rate,),
        concurrency=None if clients is None else (round(clients),),
        daily=day,
    )


def _loads(question: LlmSimulateQuestion, context: Context, trace: "Arrivals | None") -> "tuple[TokenLoad, ...]":
    """Return the loads to simulate: rates, numbers of clients, or the one of a file with arrival times."""
    rates, clients = question.rates_per_s or (), question.concurrency or ()
    if question.turns > 1 and (clients or trace is not None):
        raise UsageError("⟨turns⟩ draws conversations that begin at a ⟨rate⟩; it takes no clients and no file.")
    if question.in_bursts and not clients:
        raise UsageError("⟨bursts⟩ says when clients send; state how many there are by ⟨concurrency⟩.")
    if rates and clients:
        raise UsageError("state the load by one of ⟨rate⟩ (requests per second) and ⟨concurrency⟩ (clients).")
    if trace is not None and trace.has_times and not clients:
        rates = (trace.rate_per_s,)
    if not rates and not clients:
        raise UsageError(
            "state the load by ⟨rate⟩ (requests per second), ⟨concurrency⟩ (clients), or ⟨trace⟩ with arrival_s."
        )
    loads = [question.load(context, rate_per_s=rate, concurrency=None) for rate in rates]
    closed = (question.load(context, rate_per_s=None, concurrency=count) for count in clients)
    loads += [replace(load, in_bursts=question.in_bursts) for load in closed]
    if trace is None:
        return tuple(loads)
    means = float(trace.prompts.mean()), float(trace.answers.mean())
    cached = question.prefix_fraction if trace.cached is None else float(trace.cached.sum() / trace.prompts.sum())
    return tuple(replace(load, input_len=means[0], output_len=means[1], prefix_fraction=cached) for load in loads)


LLM_SIMULATE = Verb(
    path="llm simulate",
    question=LlmSimulateQuestion,
    summary="Simulate continuous batching under a load: percentiles of TTFT, TPOT, ITL and end-to-end time, and "
    "goodput.",
    examples=("capplan llm simulate qwen3-32b --gpu h100-sxm5-80gb --tp 2 --rate 1..8 --max-ttft 1s --max-tpot 50ms",),
    answer=answer_llm_simulate,
    effort=Effort.LONG,
    finalize=checking_pictures("plot"),
    sections=laid_out_by("capplan.report.text.llm.serving:simulation_sections"),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_serving:SIMULATION"),
    files=drawn_by(plot="capplan.report.text.llm.serving:simulation_chart"),
    for_service=_with_load,
    schema="llm-simulate",
    returns="capplan.llm.core.simulation.load_answer:Simulation",
)
