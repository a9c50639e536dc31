"""Which numbers of GPUs can share a model, with the reason where they cannot."""

import pytest

from capplan.errors import UsageError
from capplan.llm.core.sharding import Sharding, check_sharding, stage_layers
from capplan.llm.read.config.parse import parse_config
from tests.llm.core import architectures as cases


def possible(config, **sharding):
    try:
        check_sharding(parse_config(config, name="model"), Sharding(**sharding))
    except UsageError:
        return False
    return True


def test_tensor_parallelism_divides_the_query_heads_and_fits_the_key_value_heads():
    # 40 query heads and 8 key-value heads: 5 divides 40 but not 8, 16 does not divide 40
    assert [n for n in range(1, 17) if possible(cases.QWEN3_14B, tensor=n)] == [1, 2, 4, 8]


def test_the_refusal_names_what_would_do():
    with pytest.raises(UsageError, match=r"⟨tp⟩ 5 is not possible because .* possible are 1, 2, 4, 8\.") as caught:
        check_sharding(parse_config(cases.QWEN3_14B, name="qwen3-14b"), Sharding(tensor=5))
    assert str(caught.value).startswith("qwen3-14b: ")


def test_a_multiple_of_the_key_value_heads_repeats_them():
    assert possible(cases.LLAMA_70B, tensor=16)
    assert possible(cases.DEEPSEEK_V3, tensor=128)


def test_experts_need_experts_and_a_divisor_of_the_stage():
    assert not possible(cases.LLAMA_70B, tensor=8, expert=8)
    assert possible(cases.DEEPSEEK_V3, tensor=8, expert=8)
    assert possible(cases.DEEPSEEK_V3, data=8, expert=8)
    assert not possible(cases.DEEPSEEK_V3, tensor=8, expert=3)
    # 16 GPUs and 8 experts: Mixtral's cannot be spread further
    assert not possible(cases.MIXTRAL_8X7B, tensor=16, expert=16)


def test_an_expert_whose_width_does_not_divide_is_refused_unless_whole():
    # 32 · 64 heads of 1408-wide experts: 1408 / 64 = 22, / 128 = 11
    config = {**cases.DEEPSEEK_V3, "moe_intermediate_size": 1400}
    assert not possible(config, tensor=16)
    assert possible(config, tensor=16, expert=16)


def test_pipelines_give_spare_layers_to_the_stages_before_the_last():
    # vLLM's get_pp_indices: 61 layers on 4 stages are 15, 15, 16, 15
    assert [len(each) for each in stage_layers(61, 4)] == [15, 15, 16, 15]
    assert [len(each) for each in stage_layers(62, 4)] == [15, 16, 16, 15]
    assert stage_layers(3, 1) == [range(3)]
    assert not possible(cases.LLAMA_8B, pipeline=33)
