"""Refit what GPUs sustain of their printed rates, and judge the fit by GPUs and families left out.

    python benchmarks/sustained.py -o docs/sustained.md

reads the `measured:` blocks of gpu_specs/, writes `capplan/core/gpus/sustained_constants.py` and the page. The table
of microbenchmarks comes into the blocks by `capplan gpus import-microbench FILE -o gpu_specs`.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from capplan.core.calibrate import sustained as fitting
from capplan.core.gpus import sustained_constants
from capplan.core.gpus.sustained_constants import BURST_EXPONENT, CopyShares, PowerLaw
from capplan.specs import load_gpus

_PAGE = """\
# What GPUs sustain of their printed rates

Remade by `python benchmarks/sustained.py -o docs/sustained.md` from the `measured:` blocks of `gpu_specs/` (large
matrix products, copies, clocks under load; each with its source, quality and regime). The constants are in
`capplan/core/gpus/sustained_constants.py`. A GPU's own microbenchmarks come first, weighed with the model by their
variances; the model serves all others.

A printed rate is sustained, at the real clock, until its density of printed FLOP/s per watt of limit passes what the
chip family can do for a joule (its capacity):

    log share = log(clock · ceiling) − slope/4 · log(1 + (density ÷ capacity)⁴)

GeForce cards run fp16 with fp32 accumulation at half rate, so that their density stays low and nothing binds. Families
differ in process and kind of memory: HBM takes fewer joules a byte than GDDR. A copy is a share of the printed
bandwidth by kind of memory and architecture; published runs show that a power limit does not touch it.

Of a short run's best shape, {half_exponent} times its log (16 bits) or {single_exponent} times (fp32) is taken: 21 GPUs
with both kinds of runs show it. Spread is the root mean square of log errors.

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
    words = parser.parse_args()
    gpus = list(load_gpus().values())
    half_seen, single_seen = fitting.half_observations(gpus), fitting.single_observations(gpus)
    half_out = fitting.leave_out(half_seen, fitting.fit_half)
    single_out = fitting.leave_out(single_seen, fitting.fit_single)
    half = with_spreads(fitting.fit_half(half_seen), half_out)
    single = with_spreads(fitting.fit_single(single_seen), single_out)
    copies = fitting.fit_copies(gpus)
    target = Path(sustained_constants.__file__)
    target.write_text(constants_text(target.read_text(), half, single, copies))
    words.output.write_text(
        _PAGE.format(
            half_exponent=BURST_EXPONENT["half"], single_exponent=BURST_EXPONENT["single"], h=half, s=single,
            spreads=spread_table(half_out, single_out, copies), half=left_out_table(half_out),
            single=left_out_table(single_out), copies=copy_table(copies),
        )
    )  # fmt: skip


def with_spreads(law: PowerLaw, found: Sequence[fitting.LeftOut]) -> PowerLaw:
    """Give a law the spreads of GPUs left out."""
    consumer, other, unknown = fitting.spreads(found)
    return replace(law, log_sd_consumer=consumer, log_sd_other=other, log_sd_unknown=unknown)


def constants_text(before: str, half: PowerLaw, single: PowerLaw, copies: CopyShares) -> str:
    """Return the module of constants with its values replaced."""
    head = before[: before.index("HALF = ")]
    return head + f"HALF = {_spelled_law(half)}\nSINGLE = {_spelled_law(single)}\nCOPY = {_spelled_copies(copies)}\n"


def _spelled_law(law: PowerLaw) -> str:
    return (
        f"PowerLaw(\n    clock_consumer={law.clock_consumer:.4g}, clock_other={law.clock_other:.4g}, "
        f"slope={law.slope:.4g},\n    capacity_flops_per_joule={_spelled(law.capacity_flops_per_joule)},\n"
        f"    ceiling={_spelled(law.ceiling)},\n    log_sd_consumer={law.log_sd_consumer:.3g}, "
        f"log_sd_other={law.log_sd_other:.3g}, log_sd_unknown={law.log_sd_unknown:.3g},\n)  # fmt: skip"
    )


def _spelled_copies(copies: CopyShares) -> str:
    return (
        f"CopyShares(\n    by_memory={_spelled(copies.by_memory)},\n"
        f"    by_architecture={_spelled(copies.by_architecture)},\n    log_sd={copies.log_sd:.3g},\n)  # fmt: skip"
    )


def _spelled(values: Mapping[str, float]) -> str:
    items = [f'"{name}": {value:.4g}' for name, value in values.items()]
    lines = [", ".join(items[start : start + 4]) for start in range(0, len(items), 4)]
    return "{\n        " + ",\n        ".join(lines) + ",\n    }"


def spread_table(half: Sequence[fitting.LeftOut], single: Sequence[fitting.LeftOut], copies: CopyShares) -> str:
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


def _error(each: fitting.LeftOut) -> float:
    return each.without_gpu - each.observation.log_share


def left_out_table(found: Sequence[fitting.LeftOut]) -> str:
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
