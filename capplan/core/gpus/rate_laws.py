"""Types of the laws that hold for all GPUs, which the calibration file `rates.yaml` holds: what a GPU sustains of its
printed rates, and what it loses beside its tensor cores, to its memory's latency and to an old host.

Each section of the file names the data and the command that made it; nothing fitted stands here. `GUESSED_LAWS` serve
where no file was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedShareLaw:
    """How the sustained share of a printed rate falls with its density per watt, by chip family; "" is any other.

    Clocks are shares of the printed rate without a binding power limit, for players' cards and others. Spreads are
    logs: of GPUs left out among players' cards and others, and of a family left out.
    """

    clock_consumer: float
    clock_other: float
    slope: float
    capacity_flops_per_joule: Mapping[str, float]
    ceiling: Mapping[str, float]
    log_sd_consumer: float
    log_sd_other: float
    log_sd_unknown: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyShares:
    """Shares of printed bandwidth that copies reach by kind of memory, factors by architecture, and the log spread."""

    by_memory: Mapping[str, float]
    by_architecture: Mapping[str, float]
    log_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstExponents:
    """The power of a short run's share that a long one sustains, of 16-bit and of fp32 matrix products."""

    half: float
    single: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedLaws:
    """What GPUs sustain of their printed rates: see `capplan.core.gpus.sustained`.

    `issued_at_clock` is the share of the printed rate at the clock under load that matrix products reach.
    """

    half: SustainedShareLaw
    single: SustainedShareLaw
    copies: CopyShares
    burst: BurstExponents
    issued_at_clock: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingCost:
    """What a byte per clock and multiprocessor costs, as a share of the time, by the width of the elements.

    `typical_demand` is that of the GPUs whose steps were timed by the thousand, `most_demand` the most of any that was
    timed. [bytes per clock and multiprocessor]
    """

    in_half: float
    in_single: float
    typical_demand: float
    most_demand: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAges:
    """How the host's time of a call falls with the year of the GPU's release.

    It halves in `halving_years`, counts from `reference_year`, and is held outside of `first_year` to `last_year`,
    where no data lies.
    """

    halving_years: float
    reference_year: float
    first_year: float
    last_year: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """How much of what was measured elsewhere serves a GPU or a torch version that was not measured.

    `rich_weight` and `common_weight` are the weights of a GPU with many rows against one with few, and of what the
    reference GPUs have in common. `torch_half_width` is how far steps of another torch version may lie, in logs, by
    the kind of steps.
    """

    rich_weight: float
    common_weight: float
    torch_half_width: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedLaws:
    """Quantised products against 16-bit ones, by scheme, and attention of other libraries against PyTorch's, by name.

    `slowdown` is the time over that of the 16-bit kernel, times the ratio of their printed peaks, where arithmetic
    binds; `half_width` what such a kernel adds to an interval in square, in logs.
    """

    slowdown: Mapping[str, float] = field(default_factory=dict)
    half_width: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParallelLaws:
    """What a training step takes longer on several GPUs of one machine: see `capplan.core.latency.around`.

    `step_share` is the share of the step, `link_share` the rate at which gradients that the step waits for cross a
    link, as a share of its printed rate one way, by the kind of link. `half_width` is how far such steps may lie, and
    `link_half_width` how far the time on the link may, in logs.
    """

    step_share: float = 0.01
    link_share: Mapping[str, float] = field(
        default_factory=lambda: {"switched": 0.3, "mesh": 0.1, "host": 0.3, "consumer": 0.1}
    )
    half_width: float = 0.05
    link_half_width: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLaws:
    """All laws that hold across GPUs, hosts and number formats.

    `issue_share` is the share of the time of classes of kernels that goes to other units than tensor cores, on a
    GeForce card. `serial_step_s` is what one thread takes for a step that no other one can take over. [s]
    `desktop_share` is what a call takes on the host of a player's card against a server's of the same year: desktop
    CPUs have the higher clocks. `older_torch_half_width` is how far steps of a torch version before all that were timed
    may lie, in logs; `unseen_architecture_half_width` what an architecture adds in square that was not timed, its
    relatives were; `unseen_libraries_half_width` where no relative was, so that its vendor's libraries were not either.
    `unsplit_flops` is the arithmetic of one output of a depthwise convolution of 2³¹ elements and more, for each
    element of an image's row. [FLOP] `gathered_bytes` is what reading one element counts as where channels-last images
    are written row-major.
    """

    sustained: SustainedLaws
    streaming: StreamingCost
    issue_share: Mapping[str, float]
    serial_step_s: float
    hosts: HostAges
    desktop_share: float
    older_torch_half_width: float
    unseen_architecture_half_width: float
    unseen_libraries_half_width: float
    unsplit_flops: float
    gathered_bytes: float
    transfer: Transfer
    quantised: QuantisedLaws
    data_parallel: DataParallelLaws = field(default_factory=DataParallelLaws)


_ANY_CHIP = SustainedShareLaw(
    clock_consumer=1.0, clock_other=1.0, slope=0.7, capacity_flops_per_joule={"": 4e11}, ceiling={"": 1.0},
    log_sd_consumer=0.2, log_sd_other=0.2, log_sd_unknown=0.2,
)  # fmt: skip
_ANY_CHIP_SINGLE = SustainedShareLaw(
    clock_consumer=1.0, clock_other=1.0, slope=0.7, capacity_flops_per_joule={"": 1e11}, ceiling={"": 0.9},
    log_sd_consumer=0.2, log_sd_other=0.2, log_sd_unknown=0.2,
)  # fmt: skip
GUESSED_LAWS = RateLaws(
    sustained=SustainedLaws(
        half=_ANY_CHIP,
        single=_ANY_CHIP_SINGLE,
        copies=CopyShares(by_memory={"": 0.85}, by_architecture={}, log_sd=0.1),
        burst=BurstExponents(half=1.0, single=1.0),
        issued_at_clock=0.9,
    ),
    streaming=StreamingCost(in_half=0.0, in_single=0.0, typical_demand=1.0, most_demand=1.0),
    issue_share={},
    serial_step_s=3e-7,
    hosts=HostAges(halving_years=4.0, reference_year=2020.0, first_year=2020.0, last_year=2020.0),
    desktop_share=1.0,
    older_torch_half_width=0.1,
    unseen_architecture_half_width=0.15,
    unseen_libraries_half_width=0.35,
    unsplit_flops=0.05,
    gathered_bytes=8.0,
    transfer=Transfer(rich_weight=1.0, common_weight=1.0, torch_half_width={}),
    quantised=QuantisedLaws(),
)
"""Engineering guesses in round numbers, for a calculation without any calibration file."""
