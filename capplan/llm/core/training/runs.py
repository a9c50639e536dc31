"""Measured training runs: what was run, and what was measured of it."""

from dataclasses import dataclass

from capplan.llm.core.training.job import TrainingJob
from capplan.llm.core.training.memory import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTraining:
    """One measured run.

    `recompute_is_stated` is False where the source does not say what is computed again: the least that fits is then
    assumed. `tokens_per_s` is per GPU. `peak_bytes` is the peak of a kind, None where none was read. `ran_out` says
    that the run ended out of memory. `network_bytes_per_s` is one GPU's share of its node's network, one direction.
    """

    job: TrainingJob
    gpu: str
    model: str
    source: str
    framework: str
    quality: str
    line: int
    row: str
    recompute_is_stated: bool
    tokens_per_s: float | None
    peak_bytes: float | None
    peak_kind: Kind
    ran_out: bool
    network_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedTraining:
    """A row that is not predicted, and why."""

    file: str
    line: int
    model: str
    gpu: str
    reason: str
