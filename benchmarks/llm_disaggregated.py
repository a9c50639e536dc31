"""Judge prefill and decode apart on published runs: `python benchmarks/llm_disaggregated.py SERVING-OTHER.csv.gz`.

Rows are taken whose notes state the replicas of both kinds in full, such as P:1x(tp4,dp1,bs1) D:4x(tp8,dp1,bs16), with
their clients. They are of quality C: speculation is not excluded, and the network is not stated. The formulas are those
of `capplan llm plan`: a decode step without prompts, the queue M/D/1 before the prefill replicas, and the cache moved
at 50 GB/s per GPU. Two constants were taken from rows of this file: what handing a request over takes at light load,
and the latency of a collective between two servers, whose errors are therefore in sample and of one deployment. The
share of the network's bandwidth and how the latency grows with the servers are assumed.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.app.deployments import Deployments
from capplan.core.assumed import NETWORK_BYTES_PER_S
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment
from capplan.llm.core.fleet.disaggregated import HANDOVER_S
from capplan.llm.core.serving.service import Demand, ServedDeployment, decode_step_s, lone_ttft_s
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.constants import Constants, constants_of
from capplan.llm.core.timing.step_time import NETWORK, step_table, step_time
from capplan.llm.core.timing.work import Load
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus

_REPLICAS = re.compile(r"P:(\d+)x\(tp(\d+),dp(\d+),bs\d+\) D:(\d+)x\(tp(\d+),dp(\d+),bs\d+\)")
_TP16 = r"D:\d*x\(tp16,"
_MOST_BUSY = 0.95
_ROUNDS = 50


@dataclass(frozen=True)
class Predicted:
    """What clients see, and how busy the prefill replicas are. [s]"""

    ttft_s: float
    tpot_s: float
    busy: float


def deployment_of(row: pd.Series, deployments: Deployments, *, tensor: int, data: int) -> ServingDeployment:
    """Return the deployment of one kind of replicas; experts are spread over the ranks of data parallelism."""
    sharding = Sharding(tensor=tensor, data=data, expert=tensor * data if data > 1 else 1)
    kv = row.kv if isinstance(row.kv, str) else ""
    words = NamedDeployment(
        model=row.model, gpu=row.gpu, engine=row.engine, sharding=sharding, weights=row.weights, kv=kv
    )
    return deployments.find(words)


def predict(row: pd.Series, deployments: Deployments, constants: Constants) -> Predicted:
    """Predict a closed loop of the row's clients: Little's law gives the rate, as a fixed point."""
    found = _REPLICAS.search(row.note)
    assert found is not None
    prefills, p_tensor, p_data, decodes, d_tensor, d_data = map(int, found.groups())
    share = 0.9 if str(row.lengths).startswith("uniform") else 1.0
    prompt, answer = row.input_len * share, row.output_len * share
    sides = [
        deployment_of(row, deployments, tensor=tensor, data=data)
        for tensor, data in ((p_tensor, p_data), (d_tensor, d_data))
    ]
    prefill, decode = (
        ServedDeployment(kernels=each.kernels, machine=each.machine, engine=each.engine, constants=constants)
        for each in sides
    )
    demand = Demand(input_len=prompt, output_len=answer, capacity=1.0)
    prompt_s = lone_ttft_s(prefill, demand)
    memory = sides[1].stage
    moved_s = prompt * memory.cache.bytes_per_token / NETWORK_BYTES_PER_S
    ttft_s, tpot_s, busy = prompt_s, 0.01, 0.0
    for _ in range(_ROUNDS):
        whole_s = ttft_s + (answer - 1) * tpot_s
        rate = min(float(row.concurrency) / whole_s, _MOST_BUSY * prefills / prompt_s)
        running = np.array([max(1.0, rate * answer * tpot_s / decodes / d_data)])
        tpot_s = 0.5 * tpot_s + 0.5 * float(decode_step_s(decode, demand, running)[0])
        busy = rate * prompt_s / prefills
        ttft_s = prompt_s * (1 + busy / (2 * (1 - busy))) + moved_s + 1.5 * tpot_s + HANDOVER_S
    return Predicted(ttft_s, tpot_s, busy)


def two_servers(rows: pd.DataFrame, deployments: Deployments, constants: Constants) -> None:
    """Print decode on 16 H100 in two servers beside its prediction, and the network's latency that the rows ask for.

    What a step takes beyond one of which the network takes no time, over the number of collectives, is the latency of a
    collective between two servers. The source does not exclude speculation. Rows that are faster than a step without
    network time are taken for speculation and left out, which pushes the latency up: a row is left out, too, where the
    step itself is predicted too slow. The median of all rows is printed beside that of the kept ones.
    """
    both = rows[(rows.gpu == "h100-sxm5-80gb") & (rows.engine == "sglang") & rows.note.fillna("").str.contains(_TP16)]
    words = NamedDeployment(
        model="deepseek-r1", gpu="h100-sxm5-80gb", engine="sglang", weights="fp8_block", sharding=Sharding(tensor=16)
    )
    found = deployments.find(words)
    print("\n| lengths | clients | TPOT | predicted | latency asked for |\n| --- | ---: | ---: | ---: | ---: |")
    kept, asked = [], []
    for _, row in both.sort_values(["input_len", "output_len", "concurrency"]).iterrows():
        load = Load.of(decoding=float(row.concurrency), context=row.input_len + row.output_len / 2)
        table = step_table(found.kernels, load, machine=found.machine, layout=constants.layout, engine=found.engine)
        calls, step_s = float(table.collectives.calls[0, 1]), float(step_time(table, constants).total_s[0])
        asked_s = (row.tpot_ms / 1e3 - step_s) / calls + NETWORK.latency_s
        asked.append(asked_s)
        if asked_s > 0:
            kept.append((asked_s, step_s * 1e3 / row.tpot_ms))
            print(
                f"| {row.input_len:.0f}/{row.output_len:.0f} | {row.concurrency:.0f} | {row.tpot_ms:.1f} ms | "
                f"{step_s * 1e3:.1f} ms | {asked_s * 1e6:.0f} us |"
            )
    table = np.array(kept)
    errors = np.abs(table[:, 1] - 1)
    print(
        f"\n16 H100 in two servers, {len(table)} of {len(both)} rows: median latency "
        f"{np.median(table[:, 0]) * 1e6:.0f} us ({np.median(asked) * 1e6:.0f} us of all {len(both)}); TPOT "
        f"median error {np.median(errors):.1%}, p90 {np.quantile(errors, 0.9):.1%}, in sample"
    )


def main() -> None:
    """Print each row with its prediction, and the median errors."""
    rows = pd.read_csv(Path(sys.argv[1]))
    two_servers(rows, Deployments(gpus=load_gpus(), assumes_narrow_cache=True), constants_of(load_time_calibration()))
    stated = rows.note.fillna("").map(lambda note: _REPLICAS.search(note) is not None)
    rows = rows[stated & rows.concurrency.notna()]
    deployments = Deployments(gpus=load_gpus(), assumes_narrow_cache=True)
    constants = constants_of(load_time_calibration())
    print("| model | GPU, engine | lengths | clients | TTFT | predicted | TPOT | predicted |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    ratios = []
    for _, row in rows.iterrows():
        found = predict(row, deployments, constants)
        ratios.append((found.ttft_s * 1e3 / row.ttft_ms, found.tpot_s * 1e3 / row.tpot_ms, found.busy))
        print(
            f"| {row.model} {row.weights} | {row.gpu}, {row.engine} | {row.input_len:.0f}/{row.output_len:.0f} | "
            f"{float(row.concurrency):.0f} | {row.ttft_ms:.0f} ms | {found.ttft_s * 1e3:.0f} ms | "
            f"{row.tpot_ms:.1f} ms | {found.tpot_s * 1e3:.1f} ms |"
        )
    table = np.array(ratios)
    free = table[table[:, 2] < 0.8]
    for name, part in (("all", table), ("prefill less than 80 % busy", free)):
        errors = np.abs(part[:, :2] - 1)
        twice = np.mean(np.abs(np.log(part[:, 0])) <= np.log(2))
        print(
            f"\n{name}, {len(part)} rows: TPOT median error {np.median(errors[:, 1]):.1%} (predicted ÷ measured "
            f"{np.median(part[:, 1]):.2f}), TTFT {np.median(errors[:, 0]):.0%} ({np.median(part[:, 0]):.2f}), within a "
            f"factor of two {twice:.0%}"
        )


if __name__ == "__main__":
    main()
