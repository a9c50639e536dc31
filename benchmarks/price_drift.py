"""Learn how far prices move as they age, from offers of the built-in list whose price is known of several days.

    python benchmarks/price_drift.py            # prints what it finds
    python benchmarks/price_drift.py --write    # and writes capplan/calibrations/prices.yaml

Of each offer (GPU, provider, machine, region, term; of purchases GPU and whether a server is included) consecutive
days at least 30 days apart make a pair. Two regions of a provider never make one: their prices differ without moving.
The spread after a year is taken from the tail of |ln(later ÷ earlier)| ÷ √years over 1.645, as of a normal
distribution. Of list rents nine in ten stand still and the others jump, so that their largest move is the end of the
interval; of purchases, which all move, the 90th percentile.
Held out: each GPU in turn; the share of its pairs within the 90 % interval of the others.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from capplan.core.gpus.prices import PriceTier
from capplan.specs import load_gpus
from capplan.specs.prices import load_prices

FILE = Path(__file__).parents[1] / "capplan" / "calibrations" / "prices.yaml"
_LEAST_DAYS = 30
_Z_90 = 1.6449

Row = tuple[tuple[str, ...], str, date, float]


def pairs(rows: Iterable[Row]) -> list[tuple[str, float, float]]:
    """Return for each pair of days of an offer who asks, the years between, and the logarithm of the prices' ratio."""
    held: dict[tuple[tuple[str, ...], str], dict[date, list[float]]] = defaultdict(lambda: defaultdict(list))
    for key, who, day, usd in rows:
        held[key, who][day].append(usd)
    found = []
    for (_, who), days in held.items():
        ordered = sorted(days)
        for first, second in pairwise(ordered):
            if (second - first).days >= _LEAST_DAYS:
                ratio = fmean(days[second]) / fmean(days[first])
                found.append((who, (second - first).days / 365.25, math.log(ratio)))
    return found


def sigma(found: list[tuple[str, float, float]], share: float) -> float:
    """Return the spread of a price's logarithm after a year, from the move that a share of the pairs keeps within."""
    moves = sorted(abs(log) / math.sqrt(years) for _, years, log in found)
    return moves[math.ceil(share * len(moves)) - 1] / _Z_90


def covered(found: list[tuple[str, float, float]], share: float) -> float:
    """Return the share of pairs within the 90 % interval that the pairs of others give."""
    inside = 0
    for who in {each[0] for each in found}:
        spread = sigma([each for each in found if each[0] != who], share)
        mine = [each for each in found if each[0] == who]
        inside += sum(abs(log) <= _Z_90 * spread * math.sqrt(years) for _, years, log in mine)
    return inside / len(found)


def main() -> None:
    """Learn the spreads, print them, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    prices = load_prices(load_gpus())
    rents = pairs(
        (
            (price.provider, price.instance or "", str(price.instance_gpus), price.term.value, price.region),
            price.gpu,
            price.date,
            price.usd_per_hour,
        )
        for price in prices.hourly
        if price.is_orderable and not price.is_marketplace and price.tier is not PriceTier.HEARSAY
    )
    purchases = pairs(
        ((str(price.includes_server),), price.gpu, price.date, price.usd)
        for price in prices.purchase
        if price.tier is not PriceTier.HEARSAY
    )
    lines = [
        "schema_version: 1",
        f"origin: {{made: '{date.today()}', command: python benchmarks/price_drift.py --write, "
        "data: 'gpu_specs/prices: offers whose price is known of several days at least 30 days apart'}",
    ]
    for name, found, share in (("rents", rents, 1.0), ("purchases", purchases, 0.9)):
        spread, held = sigma(found, share), covered(found, share)
        row = f"{{sigma: {spread:.3f}, pairs: {len(found)}, held_out_coverage_of_90: {held:.3f}}}"
        lines.append(f"{name}: {row}")
        print(name, row)
    if parser.parse_args().write:
        FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
