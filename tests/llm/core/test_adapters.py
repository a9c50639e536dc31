"""LoRA adapters: bytes and products that they add, by hand."""

import pytest

from capplan.core.weights import find_weight_format
from capplan.llm.core.quantisation import default_quantisation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.stage_kernels import Formats, stage_kernels
from capplan.llm.core.timing.work import Arithmetic, Load, step_work
from capplan.llm.core.weights import Adapters, adapter_bytes
from capplan.llm.read.config.parse import parse_config
from tests.llm.core import architectures as cases

LLAMA_8B = parse_config(cases.LLAMA_8B, name="llama")


def test_an_adapter_of_llama_8b_has_the_parameters_that_peft_prints() -> None:
    # r = 16 on all linear layers: "trainable params: 41,943,040"; 16 bits each
    one = adapter_bytes(LLAMA_8B, sharding=Sharding(), adapters=Adapters(count=1, rank=16), stage=0)
    assert one == 2 * 41_943_040


def test_tensor_parallelism_cuts_the_side_that_it_cuts_of_the_matrix() -> None:
    # per layer on two GPUs: q 4096 + 2048, k and v 4096 + 512, o 2048 + 4096, gate and up 4096 + 7168, down 7168 + 4096
    half = adapter_bytes(LLAMA_8B, sharding=Sharding(tensor=2), adapters=Adapters(count=20, rank=16), stage=0)
    assert half == 20 * 2 * 16 * 32 * (6144 + 2 * 4608 + 6144 + 3 * 11264)


def test_one_sequence_computes_its_own_adapter_alone() -> None:
    def flops(adapters: Adapters | None) -> float:
        formats = Formats(
            quantisation=default_quantisation(LLAMA_8B, find_weight_format("bf16")),
            cache_bytes=2.0,
            units=frozenset({Arithmetic.HALF}),
            adapters=adapters,
        )
        work = step_work(stage_kernels(LLAMA_8B, sharding=Sharding(), formats=formats), Load.of(decoding=1, context=1))
        return float((work.flops * work.count).sum())

    # 2 FLOPs for each of the 41.9 M elements of one adapter, however many are resident
    assert flops(Adapters(count=20, rank=16)) - flops(None) == pytest.approx(2 * 41_943_040)


def test_each_rank_of_attention_computes_the_adapters_of_its_own_sequences() -> None:
    def flops(ranks: int) -> float:
        formats = Formats(
            quantisation=default_quantisation(LLAMA_8B, find_weight_format("bf16")),
            cache_bytes=2.0,
            units=frozenset({Arithmetic.HALF}),
            adapters=Adapters(count=4, rank=16),
        )
        kernels = stage_kernels(LLAMA_8B, sharding=Sharding(data=ranks), formats=formats)
        work = step_work(kernels, Load.of(decoding=8, context=1))
        return float((work.flops * work.count).sum())

    # a rank decodes 8 sequences, whatever the others do: a dense model exchanges no tokens between ranks
    assert flops(4) == flops(1)
