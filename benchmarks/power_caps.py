"""Fit how speed follows a power cap: `python benchmarks/power_caps.py microbench.csv.gz --write`.

The rows are matrix products and clocks of cards under several power limits. Of each card the highest limit is the
measure of the others: speed ÷ its speed = ((limit − base) ÷ (its limit − base))^exponent, with the base of the law of
power. The exponent is the geometric mean of the cards'; each card is judged by that of the others.

With --write the exponent is written into `capplan/calibrations/energy.yaml`, and the table into `docs/energy.md`.
"""

import argparse
import csv
import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

import numpy as np
from pages import write_section

from capplan.core.power import CapLaw
from capplan.specs import load_gpus
from capplan.specs.fitted import ENERGY_FILE, dump_power_law, load_power_law

ROOT = Path(__file__).parents[1]
_READING = re.compile(r"(\d+)(?: MHz)? at (\d+) W")
COVERAGE = 0.9


@dataclass(frozen=True, kw_only=True)
class Point:
    """Logarithms of power above the base, and of speed, against those at a card's highest limit."""

    card: str
    power: float
    speed: float

    @property
    def exponent(self) -> float:
        """The exponent of this point alone."""
        return self.speed / self.power


def read_points(path: Path) -> list[Point]:
    """Read the cards under several limits: TFLOP/s, clocks under load, or speed as a share of that at another limit."""
    speeds: dict[tuple[str, str], dict[float, float]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            group = speeds.setdefault((row["gpu"], f"{row['size']}, {row['software']}"), {})
            if row["regime"] == "power_sweep":
                group[float(row["power_limit_w"])] = float(row["value"])
            elif row["regime"] == "clock" and row["unit"] == "MHz" and row["power_limit_w"]:
                readings = {float(watts): float(clock) for clock, watts in _READING.findall(row["note"])}
                if readings:
                    group |= readings
                    group[float(row["power_limit_w"])] = float(row["value"])
            elif match := re.fullmatch(r"of (\d+) W", row["unit"]):
                group |= {float(row["power_limit_w"]): float(row["value"]), float(match[1]): 1.0}
    gpus, law, points = load_gpus(), load_power_law(), []
    swept = {gpu for (gpu, what), group in speeds.items() if "gpu_burn -tc, driver" in what and len(group) > 1}
    for (name, what), group in speeds.items():
        if len(group) < 2 or (name in swept and what.startswith("clock")):  # clocks of a sweep whose rates are known
            continue
        gpu = gpus.find(name)
        assert gpu.tdp_w is not None
        base_w, most_w = law.of(gpu).base_fraction * gpu.tdp_w, max(group)
        points += [
            Point(card=name, power=log((limit_w - base_w) / (most_w - base_w)), speed=log(speed / group[most_w]))
            for limit_w, speed in sorted(group.items())
            if limit_w < most_w
        ]
    return points


def fit_exponent(points: Sequence[Point]) -> float:
    """Return the geometric mean of the cards' exponents, each fitted to the logarithms of its own points."""
    logs = []
    for card in sorted({point.card for point in points}):
        power, speed = (
            np.array([getattr(point, name) for point in points if point.card == card]) for name in ("power", "speed")
        )
        logs.append(np.log((power * speed).sum() / (power**2).sum()))
    return float(np.exp(np.mean(logs)))


def judge(points: Sequence[Point], *, command: str) -> CapLaw:
    """Fit the exponent to all cards; its interval holds nine of ten points by the exponents that did not see them."""
    errors: dict[str, Mapping[str, float]] = {}
    relative, ratios = [], []
    for card in sorted({point.card for point in points}):
        mine = [point for point in points if point.card == card]
        without = fit_exponent([point for point in points if point.card != card])
        off = [abs(exp(without * point.power - point.speed) - 1) for point in mine]
        errors[card] = {"exponent": round(fit_exponent(mine), 3), "median": round(float(np.median(off)), 4),
                        "most": round(max(off), 4), "rows": float(len(mine))}  # fmt: skip
        relative += off
        ratios += [abs(log(point.exponent / without)) for point in mine]
    errors["all"] = {"median": round(float(np.median(relative)), 4),
                     "p90": round(float(np.quantile(relative, 0.9)), 4), "rows": float(len(points))}  # fmt: skip
    expected, width = fit_exponent(points), exp(float(np.quantile(ratios, COVERAGE)))
    return CapLaw(
        low=round(expected / width, 3),
        exponent=round(expected, 3),
        high=round(min(0.95, expected * width), 3),
        command=command,
        rows=len(points),
        held_out_errors=errors,
    )


def table(law: CapLaw) -> str:
    """Return the exponents and errors as Markdown."""
    lines = ["| card left out | points | own exponent | median error of speed | largest |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |"]
    for card, found in law.held_out_errors.items():
        if card != "all":
            lines.append(
                f"| {card} | {found['rows']:.0f} | {found['exponent']:.2f} | {100 * found['median']:.0f} % "
                f"| {100 * found['most']:.0f} % |"
            )
    total = law.held_out_errors["all"]
    return "\n".join(
        [
            *lines,
            "",
            f"The exponent of all cards is {law.exponent:.2f}, between {law.low:.2f} and {law.high:.2f}. "
            f"Cards left out, speed is {100 * total['median']:.0f} % off in the middle and "
            f"{100 * total['p90']:.0f} % at the 90th percentile, of {total['rows']:.0f} points.",
        ]
    )


def main() -> None:
    """Print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, help="microbench.csv.gz")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = judge(read_points(options.rows), command=f"python benchmarks/power_caps.py {options.rows.name} --write")
    print(table(found))
    if options.write:
        law = replace(load_power_law(), capping=found)
        (ROOT / "capplan" / "calibrations" / ENERGY_FILE).write_text(dump_power_law(law), encoding="utf-8")
        write_section(ROOT / "docs" / "energy.md", "caps", table(found))


if __name__ == "__main__":
    main()
