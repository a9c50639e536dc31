"""A measured serving run: what was served, how, and what was timed."""

from collections.abc import Mapping
from dataclasses import dataclass

from capplan.llm.core.serving.asked import Sampling
from capplan.llm.core.serving.cases import Metric, Serving
from capplan.llm.core.serving.energy import MeasuredEnergy
from capplan.llm.core.serving.service import Demand
from capplan.llm.core.sharding import Sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One measured run of a deployment of `replicas` equal replicas.

    Lengths are means [tokens]; each request drew its own from ± `spread` around them. `clients` is None where all
    requests came at once, `rate_per_s` None where clients waited for their answers, and `requests` None where nobody
    states how many an offline run had. `sampling` is greedy where nobody states it, as in most benchmarks. `weights`,
    `kv` and `version` are empty where they are not stated. `values` are seconds and output tokens per second of all
    replicas. `quality` is A, B or C as the file states it. `file` and `line` say where it was read.
    `energy` is None where no power meter ran.
    """

    model: str
    gpu: str
    engine: str
    version: str
    weights: str
    kv: str
    sharding: Sharding
    replicas: int
    input_len: float
    output_len: float
    spread: float
    serving: Serving
    clients: float | None
    rate_per_s: float | None
    values: Mapping[Metric, float]
    quality: str
    file: str
    line: int
    requests: float | None = None
    energy: MeasuredEnergy | None = None
    sampling: Sampling = Sampling.GREEDY

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
        """Return what one replica was asked.

        Args:
            capacity: Sequences of its length that fit in the memory of a replica.
        """
        return Demand(
            input_len=self.input_len,
            output_len=self.output_len,
            capacity=max(1.0, capacity),
            spread=self.spread,
            requests=self.requests / self.replicas if self.requests else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRun:
    """A row that cannot be read or predicted, with the reason."""

    file: str
    line: int
    model: str
    gpu: str
    reason: str
