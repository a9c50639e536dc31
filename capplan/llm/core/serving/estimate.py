"""The estimate of a deployment: what clients see at each concurrency, and what the time of its steps is made of."""

from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import Interval
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.llm.core.serving.evidence import is_known
from capplan.llm.core.serving.service import ServedDeployment
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.step_time import class_names, step_table, step_time
from capplan.llm.core.timing.work import Load, step_work


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """One share of a step on one GPU: its kernels together. [s, FLOP, bytes]

    `flops` and `traffic_bytes` are None for what is not a kernel. `launches` counts kernels or collectives.
    """

    name: str
    time_s: float
    flops: float | None = None
    traffic_bytes: float | None = None
    launches: float | None = None


def explain_step(service: ServedDeployment, load: Load, *, drafting_s: float = 0.0) -> tuple[StepPart, ...]:
    """Return the parts of a step on one GPU of one pipeline stage, the longest first, with what drafting takes."""
    layout = service.constants.layout
    table = step_table(service.kernels, load, machine=service.machine, layout=layout, engine=service.engine)
    times, works = step_time(table, service.constants), [step_work(service.kernels, load)]
    if service.kernels.host is not None:
        works.append(step_work(service.kernels.host, load))
    flops, traffic = (np.concatenate([getattr(work, item)[0] for work in works]) for item in ("flops", "traffic_bytes"))
    parts: dict[str, list[float]] = {}
    for index, kernel in enumerate(class_names(table)):
        name = kernel if index < works[0].count.shape[1] else f"{kernel}, host"
        count = float(table.count[0, index])
        sums = parts.setdefault(name, [0.0, 0.0, 0.0, 0.0])
        found = (float(times.kernels_s[0, index]), count * float(flops[index]), count * float(traffic[index]), count)
        parts[name] = [old + new for old, new in zip(sums, found, strict=True)]
    kernels = [
        StepPart(name=name, time_s=time, flops=flops, traffic_bytes=traffic, launches=launches)
        for name, (time, flops, traffic, launches) in parts.items()
        if launches
    ]
    calls = float(table.collectives.calls[0].sum())
    exposed = float(times.total_s[0] - times.device_s[0] - times.engine_s[0]) if times.launch_s[0] else 0.0
    others = [
        StepPart(name="norms, activations, residuals", time_s=float(times.elementwise_s[0])),
        StepPart(name="quantisation of inputs", time_s=float(times.quantisation_s[0])),
        StepPart(name="sorting of logits", time_s=float(times.sampling_s[0])),
        StepPart(name="collectives", time_s=float(times.collectives_s[0]), launches=calls),
        StepPart(name="engine and host", time_s=float(times.engine_s[0])),
        StepPart(name="drafting", time_s=drafting_s),
        StepPart(name="waiting for launches", time_s=max(exposed, 0.0)),
    ]
    shown = [*kernels, *(part for part in others if part.time_s > 0)]
    return tuple(sorted(shown, key=lambda part: -part.time_s))


def total_s(parts: tuple[StepPart, ...]) -> float:
    return float(np.sum([part.time_s for part in parts]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPoint:
    """The answer at one concurrency; `running` sequences are processed at a time and the others wait. [s, s, 1/s]

    `energy` is None where nobody asked for it, and where the card's power limit is not known.
    """

    concurrency: int
    ttft_s: Interval
    tpot_s: Interval
    output_tokens_per_s: Interval
    requests_per_s: float
    running: float
    evidence: str
    energy: ServingEnergy | None = None

    @property
    def ttft_is_known(self) -> bool:
        """Return True unless the interval of the time to the first token is so wide that it says nothing."""
        return is_known(self.ttft_s)

    @property
    def queued(self) -> bool:
        """Return True if clients wait because no more sequences fit."""
        return self.running < self.concurrency

    @property
    def e2e_s(self) -> float:
        """Return the expected time of a whole answer by Little's law: clients ÷ requests per second. [s]"""
        return self.concurrency / self.requests_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEstimate:
    """The answers of one replica at all concurrencies, the steps of the last one, and what was assumed.

    `sequences_that_fit` counts sequences of prompt and answer in memory. `measured_factor` is what measured runs
    of this deployment change TPOT by, None without any.
    """

    model: str
    params: int
    active_params: int
    gpu: str
    engine: str
    version: str
    sharding: Sharding
    weights: str
    kv: str
    input_len: float
    output_len: float
    sequences_that_fit: float
    points: tuple[ServingPoint, ...]
    decode_parts: tuple[StepPart, ...]
    prefill_parts: tuple[StepPart, ...]
    calibration: str
    measured_factor: float | None = None
    measured_runs: int = 0
    notes: tuple[str, ...] = ()
