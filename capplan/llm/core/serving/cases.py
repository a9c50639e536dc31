"""A serving run, measured or to be predicted: a deployment, its requests, how they come, and what was timed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from capplan.llm.core.serving.asked import Sampling
from capplan.llm.core.serving.energy import MeasuredEnergy
from capplan.llm.core.serving.evidence import ModelKind
from capplan.llm.core.serving.load_curve import open_load
from capplan.llm.core.serving.service import (
    Demand,
    ServedDeployment,
    ServingTimes,
    closed_loop,
    fixed_batch,
    offline,
    steady_load,
)
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.engine_rules import DEFAULT_FLAGS, SchedulerFlags
from capplan.llm.core.timing.machine import Machine
from capplan.llm.core.timing.work import Kernels


class Serving(StrEnum):
    """How requests come: clients that wait for answers, arrivals at a rate, all at once, or one static batch.

    Under steady load as many sequences run all the time, and the time between tokens is the median one, of a step
    without prompts.
    """

    CLOSED_LOOP = "closed loop"
    OPEN_LOAD = "open load"
    OFFLINE = "offline"
    FIXED_BATCH = "fixed batch"
    STEADY = "steady load"


class Metric(StrEnum):
    TTFT = "ttft"
    TPOT = "tpot"
    OUTPUT_TOKENS_PER_S = "output_tokens_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCase:
    """A deployment of `replicas` equal replicas and what it is asked.

    `clients` are those of all replicas together: the batch of a static one, the concurrency of a closed loop.
    """

    kernels: Kernels
    machine: Machine
    engine: str
    demand: Demand
    serving: Serving
    clients: float = 1.0
    rate_per_s: float = 0.0
    replicas: int = 1
    flags: SchedulerFlags = DEFAULT_FLAGS
    drafter: Kernels | None = None

    @property
    def in_step(self) -> bool:
        """Return True for clients whose answers are equally long, so that they stay in step."""
        return self.serving is Serving.CLOSED_LOOP and not self.demand.spread


def answer(case: ServingCase, constants: Constants) -> ServingTimes:
    """Predict a run; tokens per second are those of all replicas."""
    service = ServedDeployment(
        kernels=case.kernels, machine=case.machine, engine=case.engine, constants=constants, flags=case.flags,
        drafter=case.drafter,
    )  # fmt: skip
    each = case.clients / case.replicas
    match case.serving:
        case Serving.CLOSED_LOOP:
            times = closed_loop(service, case.demand, clients=each)
        case Serving.OPEN_LOAD:
            times = open_load(service, case.demand, rate_per_s=case.rate_per_s / case.replicas)
        case Serving.OFFLINE:
            times = offline(service, case.demand)
        case Serving.FIXED_BATCH:
            times = fixed_batch(service, case.demand, batch=each)
        case Serving.STEADY:
            times = steady_load(service, case.demand, running=each)
    return replace(times, output_tokens_per_s=times.output_tokens_per_s * case.replicas)


def metric_of(times: ServingTimes, metric: Metric) -> float:
    values = {Metric.TTFT: times.ttft_s, Metric.TPOT: times.tpot_s}
    return values.get(metric, times.output_tokens_per_s)


def width_name(metric: Metric, serving: Serving, *, kind: ModelKind, is_finite: bool = False) -> str:
    """Return the name of the interval widths of a metric: those of a queue differ from those of a single prompt.

    Tokens per second of a closed loop are as uncertain as the time between tokens, until they have a beginning and
    an end: those of `requests` stated are as uncertain as an offline run's.
    """
    if metric is not Metric.TTFT and kind == "experts of 4 bits":
        kind = "experts"
    if metric is Metric.OUTPUT_TOKENS_PER_S:
        return f"tpot, {kind}" if serving is Serving.CLOSED_LOOP and not is_finite else f"tokens, {kind}"
    if metric is Metric.TTFT and serving is Serving.FIXED_BATCH:
        return "ttft, fixed batch"
    return f"{metric}, {kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One measured run of a deployment of `replicas` equal replicas.

    Lengths are means [tokens]; each request drew its own from ± `spread` around them, or log-normally with `cv` as
    deviation ÷ mean. `clients` is None where all
    requests came at once, `rate_per_s` None where clients waited for their answers, and `requests` None where nobody
    states how many a run had. `sampling` is greedy where nobody states it, as in most benchmarks. `weights`,
    `kv` and `version` are empty where they are not stated. `values` are seconds and output tokens per second of all
    replicas. `quality` is A, B or C as the file states it. `file` and `line` say where it was read.
    `energy` is None where no power meter ran. `publisher` is who published the run, and `year` when, None where nobody
    says. `receive_interval` is how often the engine was set to look for new requests, None for its default.
    `power_limit_w` was set on each GPU; None where they had their own. [W] `speculation` names what drafted tokens,
    empty where nothing did.
    """

    input_len: float
    output_len: float
    serving: Serving
    clients: float | None
    rate_per_s: float | None
    values: Mapping[Metric, float]
    quality: str
    file: str
    line: int
    model: str = ""
    gpu: str = ""
    engine: str = ""
    version: str = ""
    weights: str = ""
    kv: str = ""
    sharding: Sharding = field(default_factory=Sharding)
    replicas: int = 1
    spread: float = 0.0
    cv: float = 0.0
    requests: float | None = None
    energy: MeasuredEnergy | None = None
    sampling: Sampling = Sampling.GREEDY
    publisher: str = ""
    year: int | None = None
    receive_interval: int | None = None
    power_limit_w: float | None = None
    speculation: str = ""

    @property
    def block(self) -> str:
        """Name the runs whose errors this one shares: same model, GPU, engine, version and formats."""
        return "|".join((self.model, self.gpu, self.engine, self.version, self.weights, self.kv))

    @property
    def deployment(self) -> str:
        """Name the runs of one deployment that were made in one way: those of a block with the same parallelism."""
        sizes = self.sharding
        parallel = f"tp{sizes.tensor} pp{sizes.pipeline} ep{sizes.expert} dp{sizes.data}"
        return f"{self.block}|{parallel}|{self.serving}"

    def demand(self, *, capacity: float) -> Demand:
        return Demand(
            input_len=self.input_len,
            output_len=self.output_len,
            capacity=max(1.0, capacity),
            spread=self.spread,
            cv=self.cv,
            requests=self.requests / self.replicas if self.requests else None,
        )
