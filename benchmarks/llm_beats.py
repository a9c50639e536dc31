"""Compare plans with measured deployments: `python benchmarks/llm_beats.py SERVING.csv.gz [all] > page.md`.

For each model, format and pair of lengths with at least 15 measured online runs, and for each of several limits of TPOT
(a TTFT of 5 s beside it), the cheapest measured run per token that keeps them is taken, by the rents that plans use. A
plan for the same clients, and one for the same requests per second, under the same limits search the GPUs that were
measured with this model; with `all` as the second word, all rented data-centre GPUs. Rents per hour are compared: at
the same rate, costs per token differ as they do. Where a plan costs more, the table says whether its notes name a
deployment that is as cheap if it is as fast as the good end of its interval.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.app.deployments import Deployments, on_demand_offers, searched_gpus
from capplan.core.gpus.machines import BOARD_OF_EIGHT
from capplan.core.gpus.prices import Price
from capplan.errors import CapplanError
from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.rented import best_offer, machines_for, server_for
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.judged_runs import prepare
from capplan.llm.core.search.plan import plan_deployments
from capplan.llm.core.search.rescue import near_misses
from capplan.llm.core.search.search import SearchSpace
from capplan.llm.core.serving.cases import answer
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.llm.core.timing.constants import Constants, constants_of
from capplan.llm.read.calibrations import load_time_calibration
from capplan.llm.read.serving_rows import parse_run
from capplan.specs import load_gpus
from capplan.specs.prices import load_prices

FEWEST_RUNS = 15
TTFT_LIMIT_S = 5.0
TPOT_LIMITS_S = (0.02, 0.04, 0.1)
_NARROW = {"fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo"}


@dataclass(frozen=True)
class Comparison:
    """The cheapest measured run under a limit, and the plans for its clients and for its rate.

    `measured_usd` is the cost per million output tokens, `hourly_usd` the rent per hour, and `slower` the estimated
    TPOT of the measured run ÷ its measured one.
    """

    words: str
    limit_s: float
    run: str
    clients: float
    rate_per_s: float
    measured_usd: float
    hourly_usd: float
    slower: float
    by_clients: DeploymentPlan | None
    by_rate: DeploymentPlan | None


def hourly_usd(offers: Sequence[Price], gpus: int, pipeline: int) -> float:
    """Return the least rent of the machines that hold a run, by the rule of plans. [USD per hour]

    The GPUs of a stage exchange data in every layer, whether they share matrices, experts or both.
    """
    sharding = Sharding(tensor=gpus // pipeline, pipeline=pipeline)
    timed = server_for((offer.server for offer in offers), sharding, usual=BOARD_OF_EIGHT)
    held = best_offer(offers, sharding, 1, timed=timed)
    if held is not None:
        return (machines_for(held.server, sharding, 1, timed=timed) or 1) * held.usd_per_machine_hour
    return min(-(-gpus // offer.instance_gpus) * offer.usd_per_machine_hour for offer in offers)


def measured_runs(path: Path, rents: Mapping[str, Sequence[Price]]) -> pd.DataFrame:
    """Return the online runs with a cost per million output tokens at the rents of plans."""
    rows = pd.read_csv(path)
    rows = rows[(rows.serving == "online") & rows.quality.isin(["A", "B"]) & rows.gpu.isin(list(rents))]
    rows = rows[rows.ttft_ms.notna() & rows.tpot_ms.notna() & rows.concurrency.notna()].copy()
    rows["clients"] = rows.concurrency.astype(float)
    rows["share"] = np.where(rows.lengths.str.startswith("uniform"), 0.9, 1.0)
    tokens = rows.output_len * rows.share
    whole_s = (rows.ttft_ms + (tokens - 1) * rows.tpot_ms) / 1000
    rows["rate"] = rows.clients / whole_s
    rows["hourly"] = [
        hourly_usd(rents[gpu], int(count), max(1, int(stages)))
        for gpu, count, stages in zip(rows.gpu, rows.gpus, rows.pp.fillna(1), strict=True)
    ]
    rows["usd"] = rows.hourly / (rows.rate * tokens * 3600) * 1e6
    return rows


def estimated_tpot_s(row: pd.Series, deployments: Deployments, constants: Constants) -> float:
    """Estimate the TPOT of a measured run."""
    cells = {str(name): "" if pd.isna(cell) else str(cell) for name, cell in row.items()}
    prepared = prepare(parse_run(cells, file="measured", line=0), deployments.find)
    return answer(prepared.case, constants).tpot_s


def comparisons(path: Path, *, every_gpu: bool) -> Iterator[Comparison]:
    """Yield the comparison of every group and limit."""
    gpus = load_gpus()
    rents = on_demand_offers(load_prices(gpus))
    deployments, calibration = Deployments(gpus=gpus), load_time_calibration()
    measured, constants = Deployments(gpus=gpus, assumes_narrow_cache=True), constants_of(calibration)
    rows = measured_runs(path, rents)
    for (model, weights, prompt, reply), group in rows.groupby(
        ["model", "weights", "input_len", "output_len"], dropna=False
    ):
        if len(group) < FEWEST_RUNS:
            continue
        for limit_s in TPOT_LIMITS_S:
            kept = group[(group.tpot_ms <= limit_s * 1e3) & (group.ttft_ms <= TTFT_LIMIT_S * 1e3)]
            if kept.empty:
                continue
            best = kept.loc[kept.usd.idxmin()]
            stored = weights if isinstance(weights, str) else "bf16"
            lengths = {"input_len": float(prompt) * best.share, "output_len": round(float(reply) * best.share)}
            asked = SearchSpace(
                model=str(model),
                load=TokenLoad(rate_per_s=1.0, spread=0.11 if best.share < 1 else 0.0, **lengths),
                limits=LatencyLimits(ttft_s=TTFT_LIMIT_S, tpot_s=limit_s),
                gpus=searched_gpus(gpus, rents) if every_gpu else tuple(group.gpu.unique()),
                weights=(stored,),
                kv=best.kv if isinstance(best.kv, str) else ("fp8" if stored in _NARROW else ""),
                rents=rents,
            )

            def plan(load: TokenLoad, asked: SearchSpace = asked) -> DeploymentPlan | None:
                try:
                    return plan_deployments(deployments.search(replace(asked, load=load), calibration=calibration))
                except CapplanError as error:
                    print(f"<!-- {asked.model}: {error} -->")
                    return None

            yield Comparison(
                words=f"{model} {stored} {prompt}/{reply}",
                limit_s=limit_s,
                run=f"{best.gpus} × {best.gpu}, {best.engine}, TP {best.tp}",
                clients=best.clients,
                rate_per_s=best.rate,
                measured_usd=best.usd,
                hourly_usd=best.hourly,
                slower=estimated_tpot_s(best, measured, constants) * 1e3 / best.tpot_ms,
                by_clients=plan(replace(asked.load, rate_per_s=None, concurrency=best.clients)),
                by_rate=plan(replace(asked.load, rate_per_s=best.rate)),
            )


def verdict(plan: DeploymentPlan | None, measured_usd_per_hour: float) -> str:
    """Say whether a plan rents for as little as the measured run, else why not.

    Args:
        plan: The plan for the same clients or the same rate.
        measured_usd_per_hour: Rent of the measured run.
    """
    best = plan.recommended if plan is not None else None
    if plan is None or best is None or best.usd_per_hour is None:
        return "no deployment"
    if best.usd_per_hour <= measured_usd_per_hour * (1 + 1e-9):
        return "yes"
    misses = near_misses(plan.fits, plan.load, plan.limits)
    if misses and misses[0].usd_per_hour <= measured_usd_per_hour * (1 + 1e-9):
        return "no; the notes name one as cheap"
    return "no"


def main() -> None:
    """Print the comparisons as a Markdown table, and their counts."""
    heads = ["load", "TPOT within", "measured", "clients", "USD/h"]
    heads += [name for what in ("clients", "rate") for name in (f"plan for the {what}", "USD/h", "as cheap")]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    counts: dict[tuple[str, str], int] = {}
    slower: list[float] = []
    for each in comparisons(Path(sys.argv[1]), every_gpu="all" in sys.argv[2:]):
        cells = []
        slower.append(each.slower)
        for name, plan in (("clients", each.by_clients), ("rate", each.by_rate)):
            said = verdict(plan, each.hourly_usd)
            counts[name, said] = counts.get((name, said), 0) + 1
            best = plan.recommended if plan else None
            what = f"{best.gpus} × {best.gpu}, {best.engine}" if best else ""
            hourly = f"{best.usd_per_hour:.2f}" if best and best.usd_per_hour else ""
            cells.append(f"{what} | {hourly} | {said}")
        print(
            f"| {each.words} | {each.limit_s * 1e3:.0f} ms | {each.run} | {each.clients:.0f} | "
            f"{each.hourly_usd:.2f} | {' | '.join(cells)} |",
            flush=True,
        )
    print()
    for (name, said), count in sorted(counts.items()):
        print(f"- by {name}, {said}: {count}")
    print(f"- estimated TPOT of the measured runs ÷ measured: {np.median(slower):.3f} in the median")


if __name__ == "__main__":
    main()
