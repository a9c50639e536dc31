"""Several models on one fleet, and replicas packed into servers."""

import pytest

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.shared_fleet import pack, shared_fleets
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LatencyLimits
from tests.llm.core.fleet.fits import fit, rented


def plan(model: str, *fits: DeploymentFit) -> DeploymentPlan:
    return DeploymentPlan(
        model=model,
        params=1,
        active_params=1,
        load=TokenLoad(rate_per_s=1.0, input_len=1.0, output_len=1.0),
        limits=LatencyLimits(),
        fits=fits,
        rejections=(),
        assumptions=(),
    )


def of(gpu: str, *, replicas: int, tensor: int, usd: float) -> DeploymentFit:
    rent = rented(usd, gpus=tensor, joined=tensor)
    return fit(gpu=gpu, replicas=replicas, needed=replicas, sharding=Sharding(tensor=tensor), rent=rent)


@pytest.mark.parametrize(
    ("sizes", "servers"),
    [
        ([], 0),
        ([1] * 8, 1),
        ([4, 4, 4], 2),
        ([8, 1], 2),
        ([4, 2, 2, 4, 4], 2),
        ([5, 5], 2),
        ([16, 8], 3),
    ],
)
def test_replicas_are_packed_into_servers_of_eight_and_never_cut(sizes: list[int], servers: int) -> None:
    assert pack(sizes, slots=8) == servers


def test_the_cheapest_fleet_comes_first_and_a_mixed_one_stands_beside() -> None:
    # On a: 2 x 4 and 4 x 1 GPUs at 2 USD = 24. On b: 4 x 4 and 2 x 1 at 1 USD = 18. Mixed: 16 on a, 2 on b = 18.
    large = plan("large", of("b", replicas=4, tensor=4, usd=1.0), of("a", replicas=2, tensor=4, usd=2.0))
    small = plan("small", of("b", replicas=2, tensor=1, usd=1.0), of("a", replicas=4, tensor=1, usd=2.0))
    found = shared_fleets([large, small])
    assert [(each.gpu, each.gpus, each.usd_per_hour) for each in found] == [("b", 18, 18.0), ("a", 12, 24.0)]
    # The machines that are rented hold four GPUs for the large model and one for the small one.
    assert found[0].servers == 6
    assert found[0].words == "18 GPUs in 6 servers = 16 × b for large (4 × 4) + 2 × b for small (2 × 1)"


def test_models_without_a_common_gpu_are_mixed() -> None:
    found = shared_fleets(
        [plan("one", of("a", replicas=1, tensor=2, usd=1.0)), plan("two", of("b", replicas=1, tensor=1, usd=3.0))]
    )
    assert [(each.gpu, each.gpus, each.usd_per_hour, each.servers) for each in found] == [(None, 3, 5.0, 2)]


def test_a_model_that_nothing_carries_leaves_no_fleet() -> None:
    assert shared_fleets([plan("one", of("a", replicas=1, tensor=1, usd=1.0)), plan("two")]) == ()
