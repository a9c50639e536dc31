"""Latency estimates: the bound, the expected value with its interval, and what binds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.numbers import Bounded, Interval

ABOVE_PRINTED_CLOCK = 1 / 6
"""How far below the bound a time can lie: cards run up to 15 % above the clocks that their peaks are printed for."""


class Binding(StrEnum):
    """What the time of a run is mostly spent waiting for."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    LAUNCHES = "launches"


class Evidence(StrEnum):
    """What an estimate of one GPU rests on, from the strongest evidence to the weakest.

    `MEASURED`: whole steps were timed on this GPU, in these number formats, this mode and this way of running.
    `OTHER_PRECISION`: steps were, in other number formats. `MICROBENCHMARKS`: matrix products or copies were, no steps.
    `ARCHITECTURE`: nothing was timed on this GPU, but on others of its architecture. `SEGMENT`: only on GPUs of related
    architectures. `TRANSFERRED`: nothing in this engine, number format or way of running; what others take is
    carried over. `SPEC_SHEET`: none of these.
    """

    MEASURED = "measured"
    OTHER_PRECISION = "other-precision"
    MICROBENCHMARKS = "microbenchmarks"
    ARCHITECTURE = "architecture"
    SEGMENT = "segment"
    TRANSFERRED = "transferred"
    SPEC_SHEET = "spec-sheet"


EVIDENCE_WORDS = {
    Evidence.MEASURED: "whole models",
    Evidence.OTHER_PRECISION: "other dtype",
    Evidence.MICROBENCHMARKS: "its kernels",
    Evidence.ARCHITECTURE: "similar GPU",
    Evidence.SEGMENT: "distant GPU",
    Evidence.TRANSFERRED: "other setup",
    Evidence.SPEC_SHEET: "data sheet",
}
"""What an estimate rests on, in words for tables whose column is named `EVIDENCE_TITLE`."""

EVIDENCE_TITLE = "speed from"
UNSURE_EVIDENCE = (Evidence.SPEC_SHEET, Evidence.TRANSFERRED, Evidence.SEGMENT)

EVIDENCE_MEANINGS = {
    Evidence.MEASURED: "whole models were timed on this GPU, in this kind of number format",
    Evidence.OTHER_PRECISION: "whole models were timed on this GPU, in another number format",
    Evidence.MICROBENCHMARKS: "parts of models (kernels) were timed on this GPU, no whole model",
    Evidence.ARCHITECTURE: "nothing was timed on this GPU; GPUs of the same architecture were",
    Evidence.SEGMENT: "nothing was timed on this GPU; GPUs of a related architecture were",
    Evidence.TRANSFERRED: "another engine, number format or architecture was timed",
    Evidence.SPEC_SHEET: "nothing was timed; only what the vendor prints is known",
}
"""What the words of tables mean, the surest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvidence:
    """The class of evidence for one GPU, and the reason in words."""

    evidence: Evidence
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyEstimate:
    """Time of one batch on one GPU: what cannot be beaten, what is expected, and between what. [s]

    `calibration` names what the interval was learnt from; None where nothing was measured for this
    cell, and then the interval is a statement of ignorance, not of coverage. A training step may accumulate
    gradients over several `micro_batches` of the batch; its time is theirs together. On several GPUs each of
    `gpu_count` takes such a batch; `gpus_per_batch` share one. `evidence` says what the GPU's
    speed rests on, `evidence_reason` names it. `waits_s` is how long the device waits for the host's launches within
    the expected time. `slowdown` is by what factor a power limit lengthens the expected time. `interval_s` is the time
    from one batch to the next where batches overlap; None where one starts when the last is over. `idle_s` is how long
    the GPU waits for the CPU's own work or for weights, which no limit of the GPU's power lengthens.
    """

    batch: int
    bound_s: float
    latency_s: Interval
    bound_by: Binding
    share_by_binding: tuple[tuple[Binding, float], ...]
    calibration: str | None
    notes: tuple[str, ...] = ()
    micro_batches: int = 1
    gpu_count: int = 1
    gpus_per_batch: int = 1
    evidence: Evidence = Evidence.SPEC_SHEET
    evidence_reason: str = ""
    waits_s: float = 0.0
    slowdown: float = 1.0
    interval_s: Interval | None = None
    idle_s: float = 0.0

    @property
    def samples(self) -> int:
        """Samples that one timed step takes, on all GPUs together."""
        return self.batch * self.micro_batches * self.gpu_count

    @property
    def samples_per_s(self) -> float:
        """Expected throughput alone, where curves of many GPUs are compared. [1/s]"""
        return self.samples / (self.interval_s or self.latency_s).expected

    @property
    def throughput_per_s(self) -> Interval:
        """Samples per second; the low end belongs to the high latency. [1/s]"""
        return self.samples / (self.interval_s or self.latency_s)

    @property
    def bounded_s(self) -> Bounded:
        """Time of one batch with its bound. [s]"""
        return self.latency_s.beside(self.bound_s)

    @property
    def bounded_per_s(self) -> Bounded:
        """Samples per second with what cannot be beaten; None for a model that neither computes nor moves. [1/s]"""
        share = self.interval_s.expected / self.latency_s.expected if self.interval_s else 1.0
        return self.throughput_per_s.beside(self.samples / (self.bound_s * share) if self.bound_s else None)

    @property
    def shares(self) -> Mapping[Binding, float]:
        """Share of the time by what binds it."""
        return dict(self.share_by_binding)
