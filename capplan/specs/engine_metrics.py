"""Read which metrics of Prometheus hold what, by engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from capplan.specs.strict_yaml import read_versioned

_FILE = Path(__file__).with_name("engine_metrics.yaml")
QUANTITIES = (
    "requests", "failed", "prompt_tokens", "answer_tokens", "prompt_total", "answer_total", "ttft_s", "tpot_s", "e2e_s",
    "prefix_hits", "prefix_asked", "running", "waiting",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetric:
    """A metric: its name as Prometheus stores it, and the series of it that count, as a matcher of labels."""

    name: str
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics:
    """The metrics of an engine by quantity, the newest name first."""

    engine: str
    prefix: str
    metrics: Mapping[str, tuple[EngineMetric, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMetrics:
    """The metrics of an exporter of GPUs."""

    utilisation_percent: str
    power_w: str
    model_label: str


@cache
def load_engine_metrics() -> tuple[EngineMetrics, ...]:
    """Return the metrics of every engine that is known."""
    tree = read_versioned(_FILE, what="a file of metrics", version=1, shown=_FILE.name)
    return tuple(
        EngineMetrics(
            engine=engine,
            prefix=rows["prefix"],
            metrics={
                quantity: tuple(EngineMetric(name=row["name"], where=row.get("where", "")) for row in rows[quantity])
                for quantity in QUANTITIES
                if quantity in rows
            },
        )
        for engine, rows in tree["engines"].items()
    )


def load_gpu_metrics() -> GpuMetrics:
    """Return the metrics of the exporter of GPUs."""
    rows = read_versioned(_FILE, what="a file of metrics", version=1, shown=_FILE.name)["gpus"]
    return GpuMetrics(**{key: rows[key] for key in ("utilisation_percent", "power_w", "model_label")})
