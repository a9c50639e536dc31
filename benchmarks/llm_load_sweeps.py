"""Judge the simulation of LLM serving on measured load sweeps: `python benchmarks/llm_load_sweeps.py SERVING.csv.gz`.

Rows with a request rate are simulated with as many requests as were sent. Rows below nine tenths of saturation are of
those that the constants of the time model were learnt from; `capplan llm fit --cross` judges them with their model or
GPU left out.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.app.deployments import Deployments
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.simulate import SimulatedLoads, simulate_serving
from capplan.llm.core.serving.closed_loop import step_grid
from capplan.llm.core.serving.service import Demand, ServedDeployment, most_running, step_seconds
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.arrivals import Lengths, all_at_once
from capplan.llm.core.simulation.continuous_batching import Admission, simulate_requests
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus

REQUESTS = 500
VARIATION = 0.6
"""Coefficient of variation of lengths; the source states their means only."""


def variation_of(tokens: float) -> float:
    """Return how answers vary: not where their mean is a power of two, which is a length that was set."""
    return 0.0 if np.log2(tokens).is_integer() else VARIATION


@dataclass(frozen=True)
class Point:
    """One measured row beside its simulation, times in milliseconds."""

    model: str
    lengths: str
    rate: float
    ttft: float
    ttft_simulated: float
    itl: float
    itl_simulated: float


def words_of(row: pd.Series) -> NamedDeployment:
    """Return the deployment of a row."""
    return NamedDeployment(
        model=row.model, gpu=row.gpu, engine=row.engine, version=str(row.version),
        sharding=Sharding(tensor=int(row.tp), pipeline=int(row.pp)), weights=row.weights, kv=row.kv,
    )  # fmt: skip


def main() -> None:
    table = pd.read_csv(Path(sys.argv[1]))
    rows = table[table.request_rate.notna() & table.quality.isin(["A", "B"])]
    deployments, calibration = Deployments(gpus=load_gpus()), load_time_calibration(None)
    points: list[Point] = []
    saturations: list[tuple[str, str, float, float]] = []
    for (model, inputs, outputs), group in rows.groupby(["model", "input_len", "output_len"], sort=False):
        lengths = f"{inputs}/{outputs}"
        full = group[np.isinf(group.request_rate)].iloc[0]
        measured = full.output_tokens_per_s / outputs
        saturations.append((model, lengths, measured, saturated_rate(full, deployments, calibration)))
        below = group[group.request_rate < 0.9 * measured]
        found = simulate_serving(
            deployments.find,
            words_of(full),
            SimulatedLoads(
                loads=tuple(
                    TokenLoad(
                        rate_per_s=rate,
                        input_len=inputs,
                        output_len=outputs,
                        input_cv=VARIATION,
                        output_cv=variation_of(outputs),
                    )
                    for rate in below.request_rate
                ),
                limits=LatencyLimits(),
                requests=REQUESTS,
            ),
            calibration=calibration,
        )
        for (_, row), answer in zip(below.iterrows(), found.answers, strict=True):
            assert answer.itl_s is not None
            times = 1e3 * answer.ttft_s.mean, row.itl_ms, 1e3 * answer.itl_s.mean
            points.append(Point(model, lengths, row.request_rate, row.ttft_ms, *times))
    report(points, saturations)


def saturated_rate(row: pd.Series, deployments: Deployments, calibration: object) -> float:
    """Return the requests per second at which all requests, sent at once, are served."""
    deployment = deployments.find(words_of(row))
    service = ServedDeployment(
        kernels=deployment.kernels, machine=deployment.machine, engine=deployment.engine,
        constants=constants_of(calibration),
    )  # fmt: skip
    tokens = row.input_len + row.output_len
    demand = Demand(
        input_len=row.input_len, output_len=row.output_len, capacity=deployment.sequences_that_fit(float(tokens))
    )
    drawn = all_at_once(
        REQUESTS,
        Lengths(
            input_len=row.input_len,
            output_len=row.output_len,
            input_cv=VARIATION,
            output_cv=variation_of(row.output_len),
        ),
    )
    admission = Admission(
        capacity=most_running(service, demand), token_budget=service.scheduling.token_budget,
        mixes=service.scheduling.mixes, pool_tokens=demand.capacity * tokens,
        queued_factor=1.0 / service.of_engine("offline_scale"),
    )  # fmt: skip
    most = admission.most_running(REQUESTS)
    grid = step_grid(most, admission.token_budget, step_seconds(service, demand))
    times = simulate_requests(drawn, admission, grid, clients=None)
    return float(drawn.answers.sum() / times.span_s / row.output_len)


def report(points: list[Point], saturations: list[tuple[str, str, float, float]]) -> None:
    """Print the tables of the documentation."""
    print("| model | lengths | requests/s | TTFT measured | simulated | ITL measured | simulated |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for each in points:
        print(
            f"| {each.model} | {each.lengths} | {each.rate:g} | {each.ttft:.0f} ms | {each.ttft_simulated:.0f} ms | "
            f"{each.itl:.0f} ms | {each.itl_simulated:.1f} ms |"
        )
    ttft = np.array([abs(each.ttft_simulated / each.ttft - 1) for each in points])
    itl = np.array([abs(each.itl_simulated / each.itl - 1) for each in points])
    print(
        f"\nBelow saturation, {len(points)} rows: TTFT median {np.median(ttft):.1%}, p90 {np.quantile(ttft, 0.9):.1%}; "
    )
    print(f"ITL median {np.median(itl):.1%}, p90 {np.quantile(itl, 0.9):.1%}.\n")
    print("| model | lengths | saturation measured | simulated | error |")
    print("| --- | --- | ---: | ---: | ---: |")
    for model, lengths, measured, simulated in saturations:
        print(f"| {model} | {lengths} | {measured:.1f}/s | {simulated:.1f}/s | {simulated / measured - 1:+.0%} |")
    errors = [abs(simulated / measured - 1) for _, _, measured, simulated in saturations]
    print(f"\nSaturation: median {np.median(errors):.0%}, worst {max(errors):.0%}.")


if __name__ == "__main__":
    main()
