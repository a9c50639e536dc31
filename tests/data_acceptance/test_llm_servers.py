"""Replicas of several servers with the shipped constants, beside published runs."""

import numpy as np
import pytest

from capplan.app.deployments import Deployments
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.search.estimate import estimate_serving
from capplan.llm.core.search.room import served_demand
from capplan.llm.core.serving.service import Demand, ServedDeployment, decode_step_s
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus

DEPLOYMENTS = Deployments(gpus=load_gpus(), assumes_narrow_cache=True)
CALIBRATION = load_time_calibration()


def words(tensor: int, **changes: object) -> NamedDeployment:
    return NamedDeployment(
        model="deepseek-r1", gpu="h100-sxm5-80gb", engine="sglang", weights="fp8_block",
        sharding=Sharding(tensor=tensor), **changes,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(("clients", "tpot_ms"), [(1, 17.01), (8, 20.28), (32, 29.75), (64, 33.88)])
def test_decode_on_sixteen_h100_in_two_servers_is_met(clients: int, tpot_ms: float) -> None:
    # DeepSeek-R1 in fp8 with SGLang 0.5.8, 1,024 tokens in and 8,192 out, decode replicas of 16 H100 (InferenceX,
    # measured 2026-02-13); without the network's latency a step of one client would take 9.7 ms.
    found = DEPLOYMENTS.find(words(16))
    service = ServedDeployment(
        kernels=found.kernels, machine=found.machine, engine=found.engine, constants=constants_of(CALIBRATION)
    )
    demand = Demand(input_len=1024, output_len=8192, capacity=float(clients))
    step_s = float(decode_step_s(service, demand, np.array([float(clients)]))[0])
    assert step_s * 1e3 == pytest.approx(tpot_ms, rel=0.2)


def test_a_faster_network_is_never_slower_and_the_evidence_names_it() -> None:
    times = []
    for rate in (6.25e9, 50e9, 100e9):
        asked = words(16, network_bytes_per_s=rate)
        demand = served_demand(DEPLOYMENTS.find, asked, input_len=1024, output_len=256)
        (point,) = estimate_serving(DEPLOYMENTS.find(asked), demand, (64,), calibration=CALIBRATION).points
        times.append(point.tpot_s.expected)
        assert "an exchange between servers in every layer" in point.evidence
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.2 * times[1]
