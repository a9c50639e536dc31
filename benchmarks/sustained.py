"""Refit what GPUs sustain of their printed rates, and judge the fit by GPUs and families left out.

    python benchmarks/sustained.py -o docs/sustained.md --microbench ../shared/data/microbench/microbench.csv.gz

reads the `measured:` blocks of gpu_specs/, writes its sections of `capplan/calibrations/rates.yaml` and the page. The
table of microbenchmarks comes into the blocks by `capplan gpus import-microbench FILE -o gpu_specs`; without it what
bursts tell of long runs is kept.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np

from capplan.core.calibrate import sustained as fitting
from capplan.core.gpus.rate_laws import (
    BurstExponents,
    CopyShares,
    MicrobenchRow,
    SustainedLaws,
    SustainedShareLaw,
    half_peak,
    summarise,
)
from capplan.core.gpus.spec import GpuSpec, Microbenchmark, PeakKind, Regime
from capplan.specs import Gpus, load_gpus
from capplan.specs.folders import calibration_file
from capplan.specs.gpus.microbench import read_microbench
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

_PAGE = """\
# What GPUs sustain of their printed rates

Remade by `python benchmarks/sustained.py -o docs/sustained.md` from the `measured:` blocks of `gpu_specs/` (large
matrix products, copies, clocks under load; each with its source, quality and regime). The constants are in
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
_COMMAND = "python benchmarks/sustained.py -o docs/sustained.md --microbench microbench.csv.gz"
_DATA = "the measured blocks of gpu_specs/; bursts against long runs from microbench.csv.gz"

LeftOuts = Sequence[fitting.HeldOutShare]


def refitted(gpus: Gpus, before: SustainedLaws, table: Path | None) -> tuple[SustainedLaws, LeftOuts, LeftOuts]:
    """Fit all laws, and return with them the GPUs left out, in 16 bits and in fp32.

    Args:
        gpus: the database with its microbenchmarks.
        before: laws whose burst exponents serve where there is no table.
        table: all microbenchmarks, of which the database holds one for each GPU and kind.
    """
    known = list(gpus.values())
    burst = burst_exponents(gpus, table) if table else before.burst
    at_clock, families = fitting.issued_at_clock(known), fitting.chip_families(known)
    half_seen = fitting.half_observations(known, burst=burst, issued_at_clock=at_clock)
    single_seen = fitting.single_observations(known, burst=burst)
    half_out = fitting.leave_out(half_seen, families, fitting.fit_half)
    single_out = fitting.leave_out(single_seen, families, fitting.fit_single)
    laws = SustainedLaws(
        half=with_spreads(fitting.fit_half(half_seen, families), half_out),
        single=with_spreads(fitting.fit_single(single_seen, families), single_out),
        copies=fitting.fit_copies(known), burst=burst, issued_at_clock=at_clock,
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


def with_spreads(law: SustainedShareLaw, found: Sequence[fitting.HeldOutShare]) -> SustainedShareLaw:
    """Give a law the spreads of GPUs left out."""
    consumer, other, unknown = fitting.spreads(found)
    return replace(law, log_sd_consumer=consumer, log_sd_other=other, log_sd_unknown=unknown)


def spread_table(
    half: Sequence[fitting.HeldOutShare], single: Sequence[fitting.HeldOutShare], copies: CopyShares
) -> str:
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


def _error(each: fitting.HeldOutShare) -> float:
    return each.without_gpu - each.observation.log_share


def left_out_table(found: Sequence[fitting.HeldOutShare]) -> str:
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
