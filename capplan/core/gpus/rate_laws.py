"""What a GPU sustains of its printed rates: the laws that hold for all GPUs, and estimates by them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from capplan.core.gpus.software import SoftwareSupport
from capplan.core.gpus.spec import GpuSpec, MeasuredRate, Microbenchmark, PeakKind, Quality, Regime, Segment
from capplan.core.numbers import NORMAL_90, Interval


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
    """What GPUs sustain of their printed rates, as `half_share` and the functions beside it read it.

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
    """What a training step takes longer on several GPUs of one machine: see `capplan.core.latency.data_parallel`.

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
    relatives were, `unseen_generation_half_width` what one adds that is newer than all that were timed;
    `unseen_libraries_half_width` where no relative was, so that its vendor's libraries were not either.
    `unsplit_flops` is the arithmetic of one output of a depthwise convolution of 2³¹ elements and more, for each
    element of an image's row. [FLOP] `slow_convolutions` says how many times as long the arithmetic of channels-last
    convolutions takes whose channels suit no fast kernel, by the name that their class has in row-major order.
    `unpacking` is how many kernels widen a scheme's weight: the first reads the packed one, the others its wide copy.
    `gathered_bytes` is what reading one element counts as where channels-last images are written row-major. `cuda_call`
    is how many times as long a call of PyTorch takes on CUDA tensors as on those of the CPU: its allocator, streams,
    cuDNN's plans and the model's own Python. `block_bytes` is what one thread block streams at most in a clock in 16
    bits, half of what it does in fp32. [bytes] `software` says which frameworks, formats and operators run on which
    devices.
    """

    sustained: SustainedLaws
    streaming: StreamingCost
    issue_share: Mapping[str, float]
    serial_step_s: float
    hosts: HostAges
    desktop_share: float
    older_torch_half_width: float
    unseen_architecture_half_width: float
    unseen_generation_half_width: float
    unseen_libraries_half_width: float
    unsplit_flops: float
    slow_convolutions: Mapping[str, float]
    unpacking: Mapping[str, float]
    gathered_bytes: float
    cuda_call: float
    block_bytes: float
    transfer: Transfer
    quantised: QuantisedLaws
    data_parallel: DataParallelLaws = field(default_factory=DataParallelLaws)
    software: SoftwareSupport = field(default_factory=SoftwareSupport)


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
    unseen_generation_half_width=0.2,
    unseen_libraries_half_width=0.35,
    unsplit_flops=0.05,
    slow_convolutions={"conv": 3.0, "conv stem": 2.0},
    unpacking={},
    gathered_bytes=8.0,
    cuda_call=4.0,
    block_bytes=10.0,
    transfer=Transfer(rich_weight=1.0, common_weight=1.0, torch_half_width={}),
    quantised=QuantisedLaws(),
)
"""Engineering guesses in round numbers, for a calculation without any calibration file."""

_CONSUMER = ("geforce", "radeon", "titan", "gtx", "arc a", "arc b")
_SHARPNESS = 4
"""How suddenly the power limit takes over: the exponent that joins the two regimes."""

_SUSTAINED_SD, _BURST_SD, _CLOCK_SD, _COPY_SD = 0.06, 0.12, 0.10, 0.04
"""Log standard deviations of one published measurement: eight cards of a kind differ by 7 % in one test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a GPU sustains of a printed rate: the share, and the standard deviation of its log.

    `is_own` says that a microbenchmark of this GPU is part of it.
    """

    fraction: float
    log_sd: float
    is_own: bool


def is_consumer(gpu: GpuSpec) -> bool:
    """Return True for cards made for players, which run above their printed boost clock."""
    if gpu.segment is not None:
        return gpu.segment in (Segment.CONSUMER, Segment.LAPTOP)
    return any(brand in gpu.name.lower() for brand in _CONSUMER)


def is_board(gpu: GpuSpec) -> bool:
    """Return True for a module whose own cores launch its kernels and whose memory they share."""
    return gpu.segment is Segment.EMBEDDED


def half_peak(gpu: GpuSpec) -> float | None:
    """Return the faster of the two printed 16-bit tensor rates, which differ on few GPUs. [FLOP/s]"""
    return max((rate for kind in (PeakKind.FP16, PeakKind.BF16) if (rate := gpu.peak(kind))), default=None)


def half_share(gpu: GpuSpec, laws: SustainedLaws, *, use_own: bool = True) -> Share:
    """Estimate the share of the printed 16-bit tensor rate that long matrix products sustain."""
    printed = half_peak(gpu)
    model = _modelled(laws.half, gpu, printed)
    if not printed or not use_own:
        return model
    share = _joined(model, gpu.measured.get(Microbenchmark.MATMUL_HALF), printed, exponent=laws.burst.half)
    if share.is_own or not gpu.boost_clock_hz:
        return share
    clock = gpu.measured.get(Microbenchmark.LOADED_CLOCK)
    if clock is None:
        return model
    return _weighed(model, math.log(laws.issued_at_clock * clock.value / gpu.boost_clock_hz), _CLOCK_SD)


def single_share(gpu: GpuSpec, laws: SustainedLaws, *, use_own: bool = True) -> Share:
    """Estimate the share of the printed fp32 rate that long matrix products without tensor cores sustain."""
    printed = gpu.peak(PeakKind.FP32_MATRIX) or gpu.peak(PeakKind.FP32)
    model = _modelled(laws.single, gpu, printed)
    if not printed or not use_own:
        return model
    return _joined(model, gpu.measured.get(Microbenchmark.MATMUL_FP32), printed, exponent=laws.burst.single)


def vector_share(gpu: GpuSpec, laws: SustainedLaws) -> Share:
    """Estimate the share of the printed fp32 rate that instructions outside matrix products sustain: clock alone."""
    model = _modelled(laws.single, gpu, gpu.peak(PeakKind.FP32))
    ceiling = laws.single.ceiling.get(gpu.design.family, laws.single.ceiling[""])
    return Share(fraction=model.fraction / ceiling, log_sd=model.log_sd, is_own=False)


def copy_share(gpu: GpuSpec, laws: SustainedLaws, *, use_own: bool = True) -> Share:
    """Estimate the share of the printed memory bandwidth that a copy sustains. A power limit does not touch it."""
    shares = laws.copies
    shared = shares.by_memory.get(gpu.memory_type or "", shares.by_memory[""])
    by_architecture = shares.by_architecture.get(gpu.architecture_id, 1.0)
    model = Share(fraction=shared * by_architecture, log_sd=shares.log_sd, is_own=False)
    own = gpu.measured.get(Microbenchmark.COPY)
    if own is None or not use_own or own.quality is Quality.C:
        return model
    return _weighed(model, math.log(own.value / gpu.memory_bandwidth_bytes_per_s), _COPY_SD)


def sustained_rates(gpu: GpuSpec, laws: SustainedLaws) -> dict[Microbenchmark, Interval]:
    """Return what one card measures in a minute: 16-bit and fp32 products, and a copy. [FLOP/s, bytes/s]

    From the low end of a long run to the high end of a burst, each with the spread of cards of a kind, for 90 %.
    """
    single = gpu.peak(PeakKind.FP32_MATRIX) or gpu.peak(PeakKind.FP32)
    estimates = (
        (Microbenchmark.MATMUL_HALF, half_peak(gpu), half_share(gpu, laws), _BURST_SD, laws.burst.half),
        (Microbenchmark.MATMUL_FP32, single, single_share(gpu, laws), _BURST_SD, laws.burst.single),
        (Microbenchmark.COPY, gpu.memory_bandwidth_bytes_per_s, copy_share(gpu, laws), _COPY_SD, 1.0),
    )
    return {
        kind: Interval(
            low=printed * share.fraction * math.exp(-NORMAL_90 * math.hypot(share.log_sd, min(sd, _SUSTAINED_SD))),
            expected=printed * share.fraction,
            high=printed
            * max(share.fraction, share.fraction ** (1 / burst))
            * math.exp(NORMAL_90 * math.hypot(share.log_sd, sd)),
        )
        for kind, printed, share, sd, burst in estimates
        if printed
    }


def streaming_share(gpu: GpuSpec, cost: StreamingCost, *, in_half: bool) -> float:
    """Estimate what kernels of models stream, as a share of what a long copy does; 1 on a typical consumer GPU.

    By Little's law a multiprocessor must keep its bytes per clock times the memory's latency under way. Kernels of
    models keep a fixed number under way, so that GPUs with much bandwidth per multiprocessor and clock lose more.
    Vector loads of PyTorch's pointwise kernels hold four elements, so that half as many bytes are under way in 16 bits
    as in fp32. The law goes on beyond the GPUs that it was chosen on: ResNet-50's training on A100s, left out with all
    GPUs of more demand than a V100, is predicted at 0.93 of its time, and at 0.89 if the law ended with the V100. A
    stream of one load a thread reaches 0.65 of an H200's printed bandwidth, long copies 0.84 (te42kyfo/gpu-benches,
    gpu-stream/h200.txt, read 2026-11-27).
    """
    return _streamed(_demand(gpu), cost, in_half=in_half)


def streaming_doubt(gpu: GpuSpec, cost: StreamingCost, *, in_half: bool) -> float:
    """Return by how much the law of streaming slows a GPU beyond the one of most demand that was timed, in logs.

    No step tells how far it goes on there: an interval adds this in square. 0 for GPUs of less demand.
    """
    beyond = max(_demand(gpu), cost.most_demand)
    ratio = _streamed(cost.most_demand, cost, in_half=in_half) / _streamed(beyond, cost, in_half=in_half)
    return max(0.0, math.log(ratio))


def _demand(gpu: GpuSpec) -> float:
    """Return the bytes per clock and multiprocessor of a GPU's memory, 0 where it has or states no multiprocessors."""
    if not gpu.unit_count or not gpu.boost_clock_hz:
        return 0.0
    demand = gpu.memory_bandwidth_bytes_per_s / (gpu.unit_count * gpu.boost_clock_hz)
    return demand if demand <= _MOST_OF_MULTIPROCESSOR else 0.0


def _streamed(demand: float, cost: StreamingCost, *, in_half: bool) -> float:
    if not demand:
        return 1.0
    per_byte = cost.in_half if in_half else cost.in_single
    return (1 + per_byte * cost.typical_demand) / (1 + per_byte * demand)


_MOST_OF_MULTIPROCESSOR = 64.0
"""More bytes than an L2 hands one multiprocessor a clock: an A100's reads 5,120 for 108 of them (NVIDIA's A100
whitepaper, from memory). Units that would take more are none, such as Gaudi's matrix engines. [bytes]"""


def power_law(law: SustainedShareLaw, *, family: str, consumer: bool, flops_per_s: float, tdp_w: float) -> float:
    """Return the log of the share that a power limit leaves of a printed rate.

    log share = log(clock · ceiling) − slope/4 · log(1 + (density ÷ capacity)⁴), with the density of printed FLOP/s per
    watt of limit: 0 slope below the family's capacity, the fitted slope above.
    """
    clock = law.clock_consumer if consumer else law.clock_other
    ceiling = law.ceiling.get(family, law.ceiling[""])
    density = math.log(flops_per_s / tdp_w / law.capacity_flops_per_joule.get(family, law.capacity_flops_per_joule[""]))
    return math.log(clock * ceiling) - law.slope / _SHARPNESS * math.log1p(math.exp(_SHARPNESS * density))


def _modelled(law: SustainedShareLaw, gpu: GpuSpec, printed: float | None) -> Share:
    family, consumer = gpu.design.family, is_consumer(gpu)
    spread = law.log_sd_consumer if consumer else law.log_sd_other
    if not family or family not in law.capacity_flops_per_joule:  # "" holds what is typical of all families
        spread = max(spread, law.log_sd_unknown)
    if not printed or gpu.tdp_w is None:
        ceiling = law.ceiling.get(family, law.ceiling[""])
        clock = law.clock_consumer if consumer else law.clock_other
        return Share(fraction=clock * ceiling, log_sd=spread, is_own=False)
    log = power_law(law, family=family, consumer=consumer, flops_per_s=printed, tdp_w=gpu.tdp_w)
    return Share(fraction=math.exp(log), log_sd=spread, is_own=False)


def _joined(model: Share, own: MeasuredRate | None, printed: float, *, exponent: float) -> Share:
    """Weigh a GPU's own measurement with the model by their variances."""
    if own is None or own.quality is Quality.C:
        return model
    log, spread = math.log(own.value / printed), _SUSTAINED_SD
    if own.regime is Regime.BURST:
        log, spread = min(log, exponent * log), _BURST_SD
    return _weighed(model, log, spread)


def _weighed(model: Share, log: float, sd: float) -> Share:
    weight = model.log_sd**2 / (model.log_sd**2 + sd**2)
    fraction = math.exp(weight * log + (1 - weight) * math.log(model.fraction))
    return Share(fraction=fraction, log_sd=model.log_sd * math.sqrt(1 - weight), is_own=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrobenchRow:
    """One published result: what was run on which GPU, and by whom. [FLOP/s, bytes/s, s or Hz by kind]

    `source` is the repository or page, so that many rows of one script count once. `dtype` is the number format of
    matrix products.
    """

    gpu: str
    kind: Microbenchmark
    value: float
    quality: Quality
    regime: Regime
    source: str
    dtype: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedRate:
    rate: MeasuredRate
    sources: tuple[str, ...]


def summarise(rows: Iterable[MicrobenchRow]) -> dict[str, dict[Microbenchmark, SourcedRate]]:
    """Summarise rows by GPU and kind: the median over sources of each source's median.

    Rows of quality C are upper bounds and are left out. Sustained runs are used where there are any, bursts otherwise.
    """
    groups: dict[tuple[str, Microbenchmark], list[MicrobenchRow]] = defaultdict(list)
    for row in rows:
        if row.quality is not Quality.C:
            groups[row.gpu, row.kind].append(row)
    found: dict[str, dict[Microbenchmark, SourcedRate]] = {}
    for gpu in sorted({gpu for gpu, _ in groups}):
        found[gpu] = {kind: _summary(groups[gpu, kind]) for kind in Microbenchmark if (gpu, kind) in groups}
    return found


def _summary(rows: list[MicrobenchRow]) -> SourcedRate:
    sustained = [row for row in rows if row.regime is Regime.SUSTAINED]
    chosen = sustained or rows
    by_source: dict[str, list[MicrobenchRow]] = defaultdict(list)
    for row in chosen:
        by_source[row.source].append(row)
    value = median(median(row.value for row in members) for members in by_source.values())
    best = min(row.quality for row in chosen)
    rate = MeasuredRate(value=value, quality=best, regime=Regime.SUSTAINED if sustained else Regime.BURST)
    return SourcedRate(rate=rate, sources=tuple(sorted(by_source)))


Summaries = Mapping[str, Mapping[Microbenchmark, SourcedRate]]
