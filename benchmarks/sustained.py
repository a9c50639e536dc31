"""Refit what GPUs sustain of their printed rates, and judge the fit by GPUs and families left out.

    python benchmarks/sustained.py -o docs/evidence/sustained.md --microbench microbench.csv.gz

reads the `measured:` blocks of gpu_specs/, writes its sections of `capplan/calibrations/rates.yaml` and the page. The
table of microbenchmarks comes into the blocks by `capplan gpus import-microbench FILE -o gpu_specs`; without it what
bursts tell of long runs is kept.

A GPU's share is its clock over the printed one until its density of printed FLOP/s per watt passes what its chip family
can do for a joule. Capacities of families follow the process and the kind of memory, with a deviation of their own.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np

from capplan.core.assumed import USUAL_PROCESS_M
from capplan.core.calibrate.residuals import LeastSquares, minimise
from capplan.core.gpus.rate_laws import (
    BurstExponents,
    CopyShares,
    MicrobenchRow,
    SustainedLaws,
    SustainedShareLaw,
    half_peak,
    is_consumer,
    power_law,
    summarise,
)
from capplan.core.gpus.spec import GpuSpec, Microbenchmark, PeakKind, Quality, Regime
from capplan.core.numbers import FloatArray
from capplan.specs import Gpus, load_gpus
from capplan.specs.folders import calibration_file
from capplan.specs.gpus.microbench import read_microbench
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

_SD_SUSTAINED, _SD_BURST, _SD_CLOCK = 0.08, 0.12, 0.12
_LAPTOPS_AND_BOARDS = ("Jetson",)


def _shrink(process_m: float) -> float:
    return math.log(12e-9 / process_m)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareObservation:
    """One GPU's measured share of a printed rate, and how far it is trusted; logs."""

    gpu: str
    family: str
    consumer: bool
    flops_per_s: float
    tdp_w: float
    log_share: float
    log_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFamily:
    """What the capacity of a chip family follows.

    Attributes:
        shrink: Log of how much smaller its process is than 12 nm.
        has_stacked_memory: It has HBM, which takes fewer joules a byte than GDDR and leaves more of the limit to
            arithmetic.
        has_shared_datapath: Half of its fp32 lanes also run integers; matrix products keep about two thirds busy.
    """

    shrink: float
    has_stacked_memory: bool
    has_shared_datapath: bool


def chip_families(gpus: Sequence[GpuSpec]) -> dict[str, ChipFamily]:
    """Return the families of a database's chips whose process is known, by name.

    Args:
        gpus: The database.
    """
    members: dict[str, list[GpuSpec]] = defaultdict(list)
    for gpu in gpus:
        if gpu.design.family and gpu.design.process_m:
            members[gpu.design.family].append(gpu)
    return {
        name: ChipFamily(
            shrink=_shrink(chips[0].design.process_m or USUAL_PROCESS_M),
            has_stacked_memory=any((chip.memory_type or "").startswith("HBM") for chip in chips),
            has_shared_datapath=chips[0].design.has_shared_datapath,
        )
        for name, chips in sorted(members.items())
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutShare:
    """One GPU's measured share, with predictions made without it and without its whole family."""

    observation: ShareObservation
    without_gpu: float
    without_family: float


def half_observations(
    gpus: Sequence[GpuSpec], *, burst: BurstExponents, issued_at_clock: float
) -> list[ShareObservation]:
    """Return the measured shares of 16-bit tensor rates; a clock under load stands in where no product was timed."""
    found = []
    for gpu in gpus:
        printed = half_peak(gpu)
        own = _observed(gpu, printed, Microbenchmark.MATMUL_HALF, burst.half)
        clock = gpu.measured.get(Microbenchmark.LOADED_CLOCK)
        if own is None and clock and gpu.boost_clock_hz:
            own = _observation(gpu, printed, math.log(issued_at_clock * clock.value / gpu.boost_clock_hz), _SD_CLOCK)
        found += [own] if own else []
    return found


def issued_at_clock(gpus: Sequence[GpuSpec]) -> float:
    """Return the share of the printed 16-bit rate at the clock under load that long products reach: the GPUs' median.

    Products cannot be faster than the clock lets them be: where they are, the clock was read under a heavier load, and
    the GPU is left out.

    Args:
        gpus: the database; those with a clock under load and a long run of matrix products count.
    """
    found = []
    for gpu in gpus:
        printed, timed = half_peak(gpu), gpu.measured.get(Microbenchmark.MATMUL_HALF)
        clock = gpu.measured.get(Microbenchmark.LOADED_CLOCK)
        if printed and timed and clock and gpu.boost_clock_hz and timed.regime is Regime.SUSTAINED:
            found.append(timed.value / printed / (clock.value / gpu.boost_clock_hz))
    possible = [share for share in found if share <= 1]
    return float(np.median(possible)) if possible else 1.0


def single_observations(gpus: Sequence[GpuSpec], *, burst: BurstExponents) -> list[ShareObservation]:
    """Return the measured shares of fp32 rates outside tensor cores, where matrix cores do not confuse them."""
    found = []
    for gpu in gpus:
        printed = single_peak(gpu)
        own = _observed(gpu, printed, Microbenchmark.MATMUL_FP32, burst.single)
        found += [own] if own else []
    return found


def _observed(gpu: GpuSpec, printed: float | None, kind: Microbenchmark, exponent: float) -> ShareObservation | None:
    own = gpu.measured.get(kind)
    if own is None or own.quality is Quality.C or not printed:
        return None
    log, sd = math.log(own.value / printed), _SD_SUSTAINED
    if own.regime is Regime.BURST:
        log, sd = min(log, exponent * log), _SD_BURST
    return _observation(gpu, printed, log, sd)


def _observation(gpu: GpuSpec, printed: float | None, log: float, sd: float) -> ShareObservation | None:
    family = gpu.design.family
    if not family or not printed or gpu.tdp_w is None or any(word in gpu.name for word in _LAPTOPS_AND_BOARDS):
        return None
    return ShareObservation(
        gpu=gpu.id, family=family, consumer=is_consumer(gpu), flops_per_s=printed, tdp_w=gpu.tdp_w,
        log_share=log, log_sd=sd,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The parameters of one law: their prior, and the law that a vector of them stands for."""

    mean: FloatArray
    sd: FloatArray
    law: Callable[[FloatArray], SustainedShareLaw]


def _half_layout(families: Mapping[str, ChipFamily]) -> _Layout:
    """Return the layout: clock shares, capacity, its growth with process and HBM, slope, deviations by family."""
    mean = np.array([math.log(1.04), math.log(0.95), math.log(0.3e12), 1.0, 0.4, math.log(0.7), *[0.0] * len(families)])
    sd = np.array([0.05, 0.04, 0.4, 0.5, 0.4, 0.2, *[0.25] * len(families)])

    def law(x: FloatArray) -> SustainedShareLaw:
        capacity = {
            name: float(np.exp(x[2] + x[3] * chip.shrink + x[4] * chip.has_stacked_memory + x[6 + index]))
            for index, (name, chip) in enumerate(families.items())
        }
        capacity[""] = float(np.exp(x[2] + x[3] * _shrink(USUAL_PROCESS_M)))
        return _law(x[0], x[1], x[5], capacity, {"": 1.0})

    return _Layout(mean=mean, sd=sd, law=law)


def _single_layout(families: Mapping[str, ChipFamily]) -> _Layout:
    """Return the layout: clock shares, ceilings of datapaths, capacity and its growth, slope, ceilings by family."""
    mean = np.array([
        math.log(1.05), 0.0, math.log(0.65), math.log(0.92), math.log(0.06e12), 1.0, math.log(0.7),
        *[0.0] * len(families),
    ])  # fmt: skip
    sd = np.array([0.05, 0.02, 0.1, 0.05, 0.5, 0.3, 0.2, *[0.07] * len(families)])

    def law(x: FloatArray) -> SustainedShareLaw:
        capacity = {name: float(np.exp(x[4] + x[5] * chip.shrink)) for name, chip in families.items()}
        capacity[""] = float(np.exp(x[4] + x[5] * _shrink(USUAL_PROCESS_M)))
        ceiling = {
            name: float(np.exp(x[2 if chip.has_shared_datapath else 3] + x[7 + index]))
            for index, (name, chip) in enumerate(families.items())
        }
        ceiling[""] = float(np.exp(x[3]))
        return _law(x[0], x[1], x[6], capacity, ceiling)

    return _Layout(mean=mean, sd=sd, law=law)


def _law(
    consumer: float, other: float, slope: float, capacity: dict[str, float], ceiling: dict[str, float]
) -> SustainedShareLaw:
    return SustainedShareLaw(
        clock_consumer=float(np.exp(consumer)), clock_other=float(np.exp(other)), slope=float(np.exp(slope)),
        capacity_flops_per_joule=capacity, ceiling=ceiling, log_sd_consumer=0.1, log_sd_other=0.1, log_sd_unknown=0.2,
    )  # fmt: skip


def fit_half(seen: Sequence[ShareObservation], families: Mapping[str, ChipFamily]) -> SustainedShareLaw:
    """Fit the law of 16-bit tensor rates; its spreads are placeholders until GPUs were left out."""
    return _fit(seen, _half_layout(families))


def fit_single(seen: Sequence[ShareObservation], families: Mapping[str, ChipFamily]) -> SustainedShareLaw:
    """Fit the law of fp32 rates outside tensor cores; its spreads are placeholders until GPUs were left out."""
    return _fit(seen, _single_layout(families))


def _fit(seen: Sequence[ShareObservation], layout: _Layout) -> SustainedShareLaw:
    measured, sd = np.array([each.log_share for each in seen]), np.array([each.log_sd for each in seen])

    def residuals(x: FloatArray) -> FloatArray:
        law = layout.law(x)
        return np.asarray((np.array([predicted(law, each) for each in seen]) - measured) / sd)

    def derivatives(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        here = residuals(x)
        steps = 1e-5 * np.eye(len(x))
        return here, np.stack([(residuals(x + step) - here) / 1e-5 for step in steps], axis=1)

    problem = LeastSquares(
        residuals=residuals, derivatives=derivatives, row_weight=np.ones(len(seen)), prior_mean=layout.mean,
        prior_sd=layout.sd, huber=2.0,
    )  # fmt: skip
    return layout.law(minimise(problem, layout.mean, iterations=60, tolerance=1e-7))


def predicted(law: SustainedShareLaw, each: ShareObservation) -> float:
    """Return the log share that a law gives a GPU."""
    return power_law(law, family=each.family, consumer=each.consumer, flops_per_s=each.flops_per_s, tdp_w=each.tdp_w)


def leave_out(
    seen: Sequence[ShareObservation],
    families: Mapping[str, ChipFamily],
    fit_law: Callable[[Sequence[ShareObservation], Mapping[str, ChipFamily]], SustainedShareLaw],
) -> list[HeldOutShare]:
    """Predict every GPU from a fit without it, and from one without its family."""

    def fit(kept: Sequence[ShareObservation]) -> SustainedShareLaw:
        return fit_law(kept, families)

    without_family = {
        family: fit([each for each in seen if each.family != family]) for family in {each.family for each in seen}
    }
    return [
        HeldOutShare(
            observation=each,
            without_gpu=predicted(fit([other for other in seen if other.gpu != each.gpu]), each),
            without_family=predicted(without_family[each.family], each),
        )
        for each in seen
    ]


def spreads(found: Sequence[HeldOutShare]) -> tuple[float, float, float]:
    """Return the log spreads of consumer GPUs and of others left out, and of GPUs whose whole family was."""
    consumer = [_error(held) for held in found if held.observation.consumer]
    other = [_error(held) for held in found if not held.observation.consumer]
    family = [each.without_family - each.observation.log_share for each in found if not each.observation.consumer]
    return _rms(consumer), _rms(other), max(_rms(family), _rms(other))


def fit_copies(gpus: Sequence[GpuSpec]) -> CopyShares:
    """Average copies by kind of memory and architecture, in logs, shrunk to all by one pseudo-observation each.

    The spread is that of GPUs left out in turn.
    """
    found = [
        (gpu.memory_type or "", gpu.architecture_id, math.log(own.value / gpu.memory_bandwidth_bytes_per_s))
        for gpu in gpus
        if (own := gpu.measured.get(Microbenchmark.COPY)) and own.quality is not Quality.C
    ]
    errors = []
    for index, (memory, architecture, log) in enumerate(found):
        rest = _copies(found[:index] + found[index + 1 :])
        errors.append(
            math.log(rest.by_memory.get(memory, rest.by_memory[""]) * rest.by_architecture.get(architecture, 1.0)) - log
        )
    whole = _copies(found)
    return CopyShares(by_memory=whole.by_memory, by_architecture=whole.by_architecture, log_sd=_rms(errors))


def _copies(found: Sequence[tuple[str, str, float]]) -> CopyShares:
    overall = float(np.mean([log for *_, log in found]))
    memories, architectures = defaultdict(list), defaultdict(list)
    for memory, _, log in found:
        memories[memory].append(log - overall)
    shared = {memory: overall + sum(logs) / (len(logs) + 1) for memory, logs in memories.items()}
    for memory, architecture, log in found:
        architectures[architecture].append(log - shared[memory])
    return CopyShares(
        by_memory={"": math.exp(overall), **{memory: math.exp(log) for memory, log in sorted(shared.items())}},
        by_architecture={name: math.exp(sum(logs) / (len(logs) + 1)) for name, logs in sorted(architectures.items())},
        log_sd=0.1,
    )


def _rms(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


_PAGE = """\
# What GPUs sustain of their printed rates

Remade by `python benchmarks/sustained.py -o docs/evidence/sustained.md` from the `measured:` blocks of `gpu_specs/`
(large matrix products, copies, clocks under load; each with its source, quality and regime). The constants are in
`capplan/calibrations/rates.yaml`. A GPU's own microbenchmarks come first, weighed with the model by their
variances; the model serves all others.

A printed rate is sustained, at the real clock, until its density of printed FLOP/s per watt of limit passes what the
chip family can do for a joule (its capacity):

    log share = log(clock · ceiling) − slope/4 · log(1 + (density ÷ capacity)⁴)

GeForce cards run fp16 with fp32 accumulation at half rate, so that their density stays low and nothing binds. Families
differ in process and kind of memory: HBM takes fewer joules a byte than GDDR. A copy is a share of the printed
bandwidth by kind of memory and architecture; published runs show that a power limit does not touch it.

Of a short run's best shape, {half_exponent} times its log (16 bits) or {single_exponent} times (fp32) is taken: the
median of GPUs with both kinds of runs. At the clock under load, products reach {at_clock:.2f} of the printed rate at
that clock. Spread is the root mean square of log errors.

{spreads}
## Tensor cores, 16 bits

clock {h.clock_consumer:.3f} (players' cards) and {h.clock_other:.3f} (others) of print, slope {h.slope:.2f}

{half}
## fp32 outside tensor cores

clock {s.clock_consumer:.3f} and {s.clock_other:.3f}, slope {s.slope:.2f}

{single}
## Copies

{copies}
"""


def main() -> None:
    """Refit, write the constants and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--microbench", type=Path, help="estimate what bursts tell of long runs from this table anew")
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    gpus, path = load_gpus(), calibration_file(RATES_FILE)
    before = load_rate_laws(path)
    laws, half_out, single_out = refitted(gpus, before.sustained, words.microbench)
    origin = LawsOrigin(sections=_SECTIONS, made=words.made, command=_COMMAND, data=_DATA)
    replace_sections(path, replace(before, sustained=laws), origin)
    words.output.write_text(
        _PAGE.format(
            half_exponent=f"{laws.burst.half:.2f}", single_exponent=f"{laws.burst.single:.2f}", h=laws.half,
            s=laws.single, spreads=spread_table(half_out, single_out, laws.copies), half=left_out_table(half_out),
            single=left_out_table(single_out), copies=copy_table(laws.copies), at_clock=laws.issued_at_clock,
        )
    )  # fmt: skip


_SECTIONS = ("half", "single", "copies", "burst", "issued_at_clock")
_COMMAND = "python benchmarks/sustained.py -o docs/evidence/sustained.md --microbench microbench.csv.gz"
_DATA = "the measured blocks of gpu_specs/; bursts against long runs from microbench.csv.gz"

LeftOuts = Sequence[HeldOutShare]


def refitted(gpus: Gpus, before: SustainedLaws, table: Path | None) -> tuple[SustainedLaws, LeftOuts, LeftOuts]:
    """Fit all laws, and return with them the GPUs left out, in 16 bits and in fp32.

    Args:
        gpus: the database with its microbenchmarks.
        before: laws whose burst exponents serve where there is no table.
        table: all microbenchmarks, of which the database holds one for each GPU and kind.
    """
    known = list(gpus.values())
    burst = burst_exponents(gpus, table) if table else before.burst
    at_clock, families = issued_at_clock(known), chip_families(known)
    half_seen = half_observations(known, burst=burst, issued_at_clock=at_clock)
    single_seen = single_observations(known, burst=burst)
    half_out = leave_out(half_seen, families, fit_half)
    single_out = leave_out(single_seen, families, fit_single)
    laws = SustainedLaws(
        half=with_spreads(fit_half(half_seen, families), half_out),
        single=with_spreads(fit_single(single_seen, families), single_out),
        copies=fit_copies(known), burst=burst, issued_at_clock=at_clock,
    )  # fmt: skip
    return laws, half_out, single_out


def burst_exponents(gpus: Gpus, table: Path) -> BurstExponents:
    """Estimate the power of a short run's share that long runs sustain, from GPUs with both kinds of runs."""
    rows = read_microbench(table)
    return BurstExponents(
        half=burst_exponent(gpus, rows, Microbenchmark.MATMUL_HALF, half_peak),
        single=burst_exponent(gpus, rows, Microbenchmark.MATMUL_FP32, single_peak),
    )


def burst_exponent(
    gpus: Gpus, rows: Sequence[MicrobenchRow], kind: Microbenchmark, peak: Callable[[GpuSpec], float | None]
) -> float:
    """Return the median over GPUs of log(long run's share) over log(short run's share)."""
    of_kind = [row for row in rows if row.kind is kind]
    by_regime = {regime: summarise(row for row in of_kind if row.regime is regime) for regime in Regime}
    long, short = by_regime[Regime.SUSTAINED], by_regime[Regime.BURST]
    ratios = []
    for name in sorted(set(long) & set(short)):
        gpu = gpus.find_or_none(name)
        printed = peak(gpu) if gpu else None
        if printed:
            held, reached = (each[name][kind].rate.value / printed for each in (long, short))
            ratios.append(math.log(held) / math.log(reached))
    return float(np.median(ratios))


def single_peak(gpu: GpuSpec) -> float | None:
    """Return the printed fp32 rate of matrix products outside tensor cores. [FLOP/s]"""
    return gpu.peak(PeakKind.FP32_MATRIX) or gpu.peak(PeakKind.FP32)


def with_spreads(law: SustainedShareLaw, found: Sequence[HeldOutShare]) -> SustainedShareLaw:
    """Give a law the spreads of GPUs left out."""
    consumer, other, unknown = spreads(found)
    return replace(law, log_sd_consumer=consumer, log_sd_other=other, log_sd_unknown=unknown)


def spread_table(half: Sequence[HeldOutShare], single: Sequence[HeldOutShare], copies: CopyShares) -> str:
    """Return the spreads by rate and by what was left out."""
    lines = ["| rate | left out | GPUs | median error | spread (log) |", "| --- | --- | ---: | ---: | ---: |"]
    for name, found in (("16 bits", half), ("fp32", single)):
        for what, errors in (
            ("the GPU, players' cards", [_error(each) for each in found if each.observation.consumer]),
            ("the GPU, others", [_error(each) for each in found if not each.observation.consumer]),
            ("its whole family", [each.without_family - each.observation.log_share for each in found]),
        ):
            middle, spread = np.median(np.abs(np.expm1(errors))), np.sqrt(np.mean(np.square(errors)))
            lines.append(f"| {name} | {what} | {len(errors)} | {100 * middle:.1f} % | {spread:.3f} |")
    return "\n".join([*lines, f"| copies | the GPU | | | {copies.log_sd:.3f} |"]) + "\n"


def _error(each: HeldOutShare) -> float:
    return each.without_gpu - each.observation.log_share


def left_out_table(found: Sequence[HeldOutShare]) -> str:
    """Return every GPU's measured share beside what was predicted without it."""
    lines = [
        "| GPU | TFLOP/s per W | measured | without it | without its family |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for each in found:
        seen = each.observation
        lines.append(
            f"| {seen.gpu} | {seen.flops_per_s / seen.tdp_w / 1e12:.2f} | {math.exp(seen.log_share):.2f} | "
            f"{math.exp(each.without_gpu):.2f} | {math.exp(each.without_family):.2f} |"
        )
    return "\n".join(lines) + "\n"


def copy_table(copies: CopyShares) -> str:
    """Return the shares of printed bandwidth by kind of memory."""
    lines = ["| memory | share of print |", "| --- | ---: |"]
    lines += [f"| {name or 'any other'} | {share:.2f} |" for name, share in copies.by_memory.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
