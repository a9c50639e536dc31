"""Time of an image encoder: cut by tensor parallelism in the engines whose source says so."""

import pytest

from capplan.app.deployments import Deployments
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.fleet.token_load import Images, TokenLoad
from capplan.llm.core.search.images import encoder_s
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus

LOAD = TokenLoad(rate_per_s=1.0, input_len=1000, output_len=100, images=Images(count=2, tokens=1024.0, patches=4096.0))


def seconds(engine: str, tensor: int, *, link_bytes_per_s: float | None = None) -> float:
    words = NamedDeployment(
        model="qwen3-vl-8b-instruct", gpu="h100-sxm5-80gb", engine=engine, sharding=Sharding(tensor=tensor),
        link_bytes_per_s=link_bytes_per_s,
    )  # fmt: skip
    deployment = Deployments(gpus=load_gpus()).find(words)
    return encoder_s(deployment, constants_of(load_time_calibration(None)), LOAD)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_gpus_share_the_encoder_and_wait_for_its_all_reduces(engine: str) -> None:
    alone, shared = seconds(engine, 1), seconds(engine, 4)
    assert alone / 4 < shared < alone
    # 27 layers with two all-reduces of 2 · 4,096 patches of 1,152 numbers of two bytes: a ring over four GPUs moves
    # 2 · 3/4 of 1.019 GB, which takes 22.2 ms longer over 64 GB/s than over 900 GB/s if all of the link were reached
    bytes_moved = 2 * 0.75 * 27 * 2 * 2 * 4096 * 1152 * 2
    least_s = bytes_moved / 64e9 - bytes_moved / 900e9
    assert seconds(engine, 4, link_bytes_per_s=64e9) - seconds(engine, 4, link_bytes_per_s=900e9) > least_s


def test_an_encoder_of_tensorrt_llm_is_taken_as_whole_on_every_gpu() -> None:
    assert seconds("trtllm", 4) == seconds("trtllm", 1)
