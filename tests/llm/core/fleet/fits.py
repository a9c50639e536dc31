"""A deployment with round figures."""

from datetime import date
from typing import Any

from capplan.core.gpus.machines import MachineType
from capplan.core.gpus.prices import Price, Term
from capplan.core.gpus.spec import Source, SourceKind
from capplan.core.numbers import Interval
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, ReplicaMemory
from capplan.llm.core.serving.load_curve import LoadPoint
from capplan.llm.core.sharding import Sharding

CURVE = (
    LoadPoint(running=1, rate_per_s=1.0, ttft_s=0.1, tpot_s=0.010),
    LoadPoint(running=4, rate_per_s=3.0, ttft_s=0.2, tpot_s=0.012),
    LoadPoint(running=16, rate_per_s=5.0, ttft_s=0.4, tpot_s=0.030),
)
MEMORY = ReplicaMemory(
    weights_bytes=40 << 30,
    activation_bytes=1 << 30,
    other_bytes=1 << 30,
    kv_pool_bytes=30 << 30,
    usable_bytes=80 << 30,
    kv_bytes_per_token=1000.0,
    sequences_that_fit=100,
)


def rented(usd_per_hour: float, *, gpus: int = 1, joined: int = 1, networked: bool = False) -> Price:
    """Return an offer of machines of some GPUs by the price of one. [USD]"""
    source = Source(kind=SourceKind.MEASURED, title="made up")
    network = MachineType(provider="one", name="m", gpu="g", gpus=gpus, source=source, network_bytes_per_s=1e9)
    return Price(
        gpu="some-gpu",
        provider="one",
        region="",
        term=Term.ON_DEMAND,
        usd_per_hour=usd_per_hour,
        date=date(2026, 1, 1),
        source="made up",
        instance_gpus=gpus,
        joined=joined,
        machine=network if networked else None,
    )


def fit(**changes: Any) -> DeploymentFit:
    """Return four replicas of two GPUs that carry 16 requests/s of 1,000 tokens in and 100 out, for 10 USD/h.

    They stand in four machines of two joined GPUs.
    """
    given: dict[str, Any] = {
        "gpu": "some-gpu",
        "sharding": Sharding(tensor=2),
        "engine": "vllm",
        "weights": "bf16",
        "kv": "bf16",
        "needed": 4,
        "replicas": 4,
        "max_rate_per_s": 4.0,
        "rate_per_s": 16.0,
        "input_len": 1000.0,
        "output_len": 100.0,
        "running": 3.0,
        "batch_limit": 16,
        "ttft_s": Interval(low=0.1, expected=0.2, high=0.4),
        "tpot_s": Interval(low=0.01, expected=0.02, high=0.04),
        "e2e_s": Interval(low=1.0, expected=2.0, high=4.0),
        "prefill_fraction": 0.25,
        "memory": MEMORY,
        "curve": CURVE,
        "evidence": "measured",
        "holds_at_worst": True,
        "rent": rented(1.25, gpus=2, joined=2),
        "tdp_w": 700.0,
    }
    return DeploymentFit(**{**given, **changes})
