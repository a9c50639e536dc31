"""Turn steps into a whole run: tokens of a data set, failures, checkpoints, days and GPU hours."""

import math
from dataclasses import dataclass

from capplan.core.assumed import COPIED_FRACTION, STORAGE_OF_SERVER_BYTES_PER_S, UNKNOWN_PCIE_BYTES_PER_S
from capplan.core.numbers import NORMAL_90, Interval
from capplan.errors import UsageError
from capplan.llm.core.tensors import count_parameters
from capplan.llm.core.training.job import TrainingJob
from capplan.llm.core.training.parameters import adapter_parameters
from capplan.units import counted, format_seconds

GPU_HOURS_BETWEEN_FAILURES = 50_700.0
"""Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 H100s (arXiv 2407.21783, section 3.3.4)."""
_MOST_FAILURES = 30.0
"""Failures that are expected while a job restarts and works up to its next checkpoint, beyond which it never gets
there: the probability that none comes is e⁻³⁰."""
CHECKPOINT_BYTES_PER_PARAMETER = 14.0
"""A checkpoint that training resumes from: 16-bit weights, an fp32 master copy and two fp32 moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What is trained on: `tokens` in all, or `samples` of `mean_tokens` each, `epochs` times.

    `lengths` are tokens of samples that are equally frequent, in ascending order, instead of their mean. Packed samples
    fill sequences. Others are padded to a whole sequence, or to the longest one of their micro-batch where lengths are
    known, and padding costs time, too.
    """

    tokens: float | None = None
    samples: float | None = None
    mean_tokens: float | None = None
    lengths: tuple[int, ...] = ()
    epochs: float = 1.0
    is_packed: bool = True

    def processed_tokens(self, sequence_tokens: int, *, micro_batch: int = 1) -> float | None:
        """Return the tokens that pass the model, padding included; None where no size is stated."""
        if self.samples is not None:
            if self.lengths:
                # The expected longest of some samples drawn at random, each cut to a sequence. [tokens] Of n equally
                # frequent lengths in ascending order, the i-th is the longest of b draws with (i/n)^b − ((i−1)/n)^b.
                together = 1 if self.is_packed else micro_batch
                count = len(self.lengths)
                length = math.fsum(
                    min(length, sequence_tokens) * ((index / count) ** together - ((index - 1) / count) ** together)
                    for index, length in enumerate(self.lengths, start=1)
                )
            else:
                length = (self.mean_tokens or sequence_tokens) if self.is_packed else sequence_tokens
            return self.samples * min(float(sequence_tokens), length) * self.epochs
        return None if self.tokens is None else self.tokens * self.epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReliability:
    """How often a run fails and what that costs.

    `hours_between_failures` are GPU hours. A checkpoint is written to storage of `storage_bytes_per_s` in all, None for
    what every server usually has of it, while the job waits, or beside it where checkpoints are `asynchronous`, None
    for what the framework does. A restart takes `restart_s`. `spot_interruptions_per_hour` is the rate at which a
    provider takes one server back.
    """

    hours_between_failures: float = GPU_HOURS_BETWEEN_FAILURES
    storage_bytes_per_s: float | None = None
    asynchronous: bool | None = None
    restart_s: float = 900.0
    spot_interruptions_per_hour: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """A whole run. [s, bytes]

    `ideal_s` is the time of its steps alone. `wall_s` holds the 5th percentile, the expected value and the 95th, from
    the uncertainty of the step and the number of failures, of which checkpoints take `checkpoints_s` and restarts with
    the work that is lost `restarts_s`. `campaign_s` is what whole campaigns took that were published, evaluation,
    stalls of data, slower servers and changes by hand included. `checkpoint_interval_s` is Daly's optimum, and
    `storage_bytes_per_s` what a checkpoint is written to.
    """

    tokens: float
    steps: float
    ideal_s: float
    wall_s: Interval
    checkpoints_s: float
    restarts_s: float
    campaign_s: Interval
    storage_bytes_per_s: float
    is_asynchronous: bool
    checkpoint_bytes: float
    checkpoint_interval_s: float
    failures: float
    gpus: int

    @property
    def goodput_fraction(self) -> float:
        return self.ideal_s / self.wall_s.expected

    @property
    def gpu_hours(self) -> Interval:
        return self.wall_s * (self.gpus / 3600.0)

    @property
    def campaign_gpu_hours(self) -> Interval:
        return self.campaign_s * (self.gpus / 3600.0)


def young_interval_s(*, checkpoint_s: float, mean_time_between_failures_s: float) -> float:
    """Compute Young's interval between checkpoints, √(2·δ·M) (Young 1974). [s]"""
    return math.sqrt(2.0 * checkpoint_s * mean_time_between_failures_s)


def daly_interval_s(*, checkpoint_s: float, mean_time_between_failures_s: float) -> float:
    """Compute Daly's interval between checkpoints (Daly 2006, equation 37). [s]

    √(2·δ·M)·[1 + ⅓·√(δ/2M) + ⅑·δ/2M] − δ while δ < 2·M, and M beyond.
    """
    delta, mean = checkpoint_s, mean_time_between_failures_s
    if delta >= 2 * mean:
        return mean
    ratio = delta / (2 * mean)
    return (
        young_interval_s(checkpoint_s=delta, mean_time_between_failures_s=mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9)
        - delta
    )


def daly_wall_s(
    *, work_s: float, interval_s: float, checkpoint_s: float, restart_s: float, mean_time_between_failures_s: float
) -> float:
    """Compute the expected wall time of work with failures and checkpoints (Daly 2006, equation 20). [s]

    M·e^{R/M}·(e^{(τ+δ)/M} − 1)·T/τ.
    """
    mean = mean_time_between_failures_s
    interval = min(interval_s, work_s)
    return mean * math.exp(restart_s / mean) * math.expm1((interval + checkpoint_s) / mean) * work_s / interval


def checkpoint_bytes(job: TrainingJob) -> float:
    """Return the size of a checkpoint: 14 bytes per trained parameter. [bytes]"""
    model = job.architecture
    trained = adapter_parameters(model, job.adapter) if job.is_adapted else count_parameters(model)
    return CHECKPOINT_BYTES_PER_PARAMETER * trained


def plan_run(
    job: TrainingJob, *, step_s: Interval, tokens: float, reliability: RunReliability, campaign: Interval
) -> TrainingRun:
    """Return the time of a whole run with failures and checkpoints.

    An asynchronous checkpoint stops the job for its copy to the hosts, is written before the next one starts, and is
    lost with what was done meanwhile where a failure comes first.
    """
    steps = max(1.0, tokens / job.step_tokens)
    size = checkpoint_bytes(job)
    gpus, servers = job.layout.gpus, math.ceil(job.layout.gpus / job.layout.gpus_per_node)
    storage = reliability.storage_bytes_per_s or servers * STORAGE_OF_SERVER_BYTES_PER_S
    is_async = job.framework.checkpoints_aside if reliability.asynchronous is None else reliability.asynchronous
    aside_s = size / storage if is_async else 0.0
    write_s = size / gpus / (COPIED_FRACTION * UNKNOWN_PCIE_BYTES_PER_S) if is_async else size / storage
    restart_s = reliability.restart_s + aside_s
    per_s = gpus / (reliability.hours_between_failures * 3600.0)
    per_s += servers * reliability.spot_interruptions_per_hour / 3600.0
    between = 1.0 / per_s
    interval = max(aside_s, daly_interval_s(checkpoint_s=write_s, mean_time_between_failures_s=between))

    def wall(step: float) -> float:
        lasting = max(interval, step)
        if (restart_s + lasting + write_s) / between > _MOST_FAILURES:
            raise UsageError(
                f"{counted(gpus, 'GPU')} fail every {format_seconds(between)} on average (⟨failure-hours⟩, "
                f"⟨spot-per-hour⟩), but a restart takes {format_seconds(reliability.restart_s)} (⟨restart⟩), a "
                f"checkpoint {format_seconds(write_s + aside_s)} (⟨storage⟩) and a step {format_seconds(step)}: it "
                "never ends. State fewer failures or shorter restarts."
            )
        pauses = {"checkpoint_s": write_s, "restart_s": restart_s, "mean_time_between_failures_s": between}
        return daly_wall_s(work_s=steps * step, interval_s=lasting, **pauses)

    ideal = steps * step_s.expected
    expected = wall(step_s.expected)
    failures = expected * per_s
    # A failure costs a restart and half an interval; their number is Poisson's.
    spread = NORMAL_90 * math.sqrt(failures) * (restart_s + interval / 2)
    low, high = max(ideal * step_s.low / step_s.expected, wall(step_s.low) - spread), wall(step_s.high) + spread
    wall_s = Interval(low=min(low, expected), expected=expected, high=max(high, expected))
    checkpoints_s = write_s * ideal / min(max(interval, step_s.expected), ideal)
    return TrainingRun(
        tokens=tokens,
        steps=steps,
        ideal_s=ideal,
        wall_s=wall_s,
        checkpoints_s=checkpoints_s,
        restarts_s=max(0.0, expected - ideal - checkpoints_s),
        campaign_s=_campaign_s(wall_s, ideal, campaign),
        storage_bytes_per_s=storage,
        is_asynchronous=is_async,
        checkpoint_bytes=size,
        checkpoint_interval_s=interval,
        failures=failures,
        gpus=gpus,
    )


def _campaign_s(wall_s: Interval, ideal_s: float, campaign: Interval) -> Interval:
    """Return the time of a campaign: no less than the run of tuned steps, errors of both being independent. [s]"""
    expected = max(wall_s.expected, ideal_s * campaign.expected)
    above = math.hypot(math.log(wall_s.high / wall_s.expected), math.log(campaign.high / campaign.expected))
    return Interval(
        low=min(wall_s.low * expected / wall_s.expected, expected), expected=expected, high=expected * math.exp(above)
    )
