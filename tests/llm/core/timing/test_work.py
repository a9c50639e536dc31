"""FLOPs and bytes of a step, against published counts and counts by hand."""

import numpy as np
import pytest

from capplan.core.weights import find_weight_format
from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.kv import kv_element_bytes, stage_cache
from capplan.llm.core.layers import Attention
from capplan.llm.core.quantisation import Quantisation, default_quantisation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import WeightRole
from capplan.llm.core.timing.calibration import KernelClass
from capplan.llm.core.timing.stage_kernels import Formats, stage_kernels
from capplan.llm.core.timing.work import (
    Arithmetic,
    AttentionKernel,
    Kernels,
    Load,
    chunk_keys,
    experts_touched,
    kernel_classes,
    padded_rows,
    step_work,
    weight_kernel,
)
from capplan.llm.read.config.parse import parse_config
from tests.llm.core.architectures import DEEPSEEK_V3, GPT_OSS_120B, LLAMA_8B, LLAMA_70B, NEMOTRON_LAYER

ALL_UNITS = frozenset(Arithmetic)


def test_mxfp4_weights_multiply_at_the_rate_of_fp8_and_only_where_there_are_fp4_units() -> None:
    # kind::mxf8f6f4 has the throughput of fp8 (NVIDIA CUTLASS, "Blackwell SM100 GEMMs"); Hopper has no such units
    stored = default_quantisation(parse_config(GPT_OSS_120B, name="model"), find_weight_format("mxfp4"))
    found = [
        weight_kernel(stored, WeightRole.EXPERT, units=units).arithmetic
        for units in (ALL_UNITS, ALL_UNITS - {Arithmetic.FP4})
    ]
    assert found == [Arithmetic.FP8, Arithmetic.HALF]


def kernels(
    config: dict[str, object], *, weights: str = "bf16", kv: str = "bf16", sharding: Sharding | None = None
) -> Kernels:
    architecture = parse_config(config, name="model")
    formats = Formats(
        quantisation=default_quantisation(architecture, find_weight_format(weights)),
        cache_bytes=kv_element_bytes(kv),
        units=ALL_UNITS,
    )
    return stage_kernels(architecture, sharding=sharding or Sharding(), formats=formats)


def total(kernels_: Kernels, load: Load) -> tuple[float, float]:
    work = step_work(kernels_, load)
    return float((work.flops * work.count).sum()), float((work.traffic_bytes * work.count).sum())


@pytest.mark.parametrize(
    ("experts", "per_token", "tokens", "expected"),
    [
        # E·(1 − (1 − k/E)^T); oracle values printed to two or four digits
        (8, 2, [1, 2, 4, 8, 16], [2, 3.5, 5.47, 7.2, 7.92]),
        (256, 8, [1, 8, 32, 64, 128], [8, 57.4, 163.3, 222.4, 251.6]),
    ],
)
def test_experts_touched_by_uniform_routing(
    experts: float, per_token: float, tokens: list[int], expected: list[float]
) -> None:
    found = experts_touched(experts=experts, per_token=per_token, tokens=np.array(tokens, float))
    assert found == pytest.approx(expected, rel=2e-3)


def test_rows_of_experts_are_rounded_up_to_whole_tiles() -> None:
    # 2 rows in each of 8 experts: half of a tile of 16 and the 2 rows again; 1,000 rows: half of a tile of 128
    found = padded_rows(rows=np.array([16.0, 8000.0]), experts=np.array([8.0, 8.0]))
    assert list(found) == [16 + 8 * (8 + 2), 8000 + 8 * 64]


def test_padding_adds_no_flops_to_the_count_but_to_what_is_multiplied() -> None:
    work = step_work(kernels(GPT_OSS_120B), Load.of(decoding=1, context=0))
    assert sorted(set(np.round(work.padding[0], 6))) == [1.0, pytest.approx(1 + 8 + 1)]


def test_elements_between_products_of_llama_70b_are_cut_with_its_products() -> None:
    # per layer and width of 8,192: in and out of qkv (1 + 1.25), of the projection (1 + 1), of gate and up (1 + 7),
    # of down (3.5 + 1); four widths stay whole, the others are divided by eight
    assert kernels(LLAMA_70B).bordering_elements == pytest.approx(80 * 8192 * 16.75)
    cut = kernels(LLAMA_70B, sharding=Sharding(tensor=8)).bordering_elements
    assert cut == pytest.approx(80 * 8192 * (4 + 12.75 / 8))


def test_inputs_of_narrow_products_alone_are_quantised() -> None:
    # per layer: the inputs of qkv, of the projection, of gate and up, and of down (28,672)
    assert kernels(LLAMA_70B, weights="fp8").quantised_elements == 80 * (3 * 8192 + 28672)
    cut = kernels(LLAMA_70B, weights="fp8", sharding=Sharding(tensor=8)).quantised_elements
    assert cut == 80 * (2 * 8192 + (8192 + 28672) / 8)
    assert kernels(LLAMA_70B).quantised_elements == 0
    # weights of four bits multiply 16-bit inputs
    assert kernels(LLAMA_70B, weights="awq").quantised_elements == 0


def test_prefill_of_llama_70b_counts_its_linear_layers_and_causal_attention() -> None:
    # 2 · 68,451,041,280 · 1,024 = 140.19 TFLOP; attention 4 · 64 · 128 · 1024²/2 · 80 = 1.37 TFLOP;
    # the head runs on one row: 2 · 128,256 · 8,192 = 2.1 GFLOP
    flops, _ = total(kernels(LLAMA_70B, weights="fp8"), Load.of(prefilled=1024, prompts=1))
    assert flops == pytest.approx(2 * 68_451_041_280 * 1024 + 1.3744e12 + 2.1e9, rel=1e-4)


def test_decode_reads_the_weights_once_and_the_cache_of_every_sequence() -> None:
    # FP8 on 4 GPUs: 68.45 GB of linear weights ÷ 4 and a 16-bit head of 2.10 GB ÷ 4 (the embedding is not read whole);
    # 64 sequences of 1,536 tokens at 40,960 bytes each per GPU: 4.03 GB
    four = kernels(LLAMA_70B, weights="fp8", kv="fp8", sharding=Sharding(tensor=4))
    _, one = total(four, Load.of(decoding=1, context=0))
    _, many = total(four, Load.of(decoding=64, context=1536))
    assert one == pytest.approx((68.451e9 + 2.101e9) / 4, rel=2e-3)
    work = step_work(four, Load.of(decoding=64, context=1536))
    attention = [index for index, kind in enumerate(work.kernel_class) if work.traffic_bytes[0, index] > 4.9e7]
    assert pytest.approx(4.03e9, rel=1e-3) == 64 * 1536 * 40_960
    assert many - one > 4.03e9
    assert attention


def test_keys_and_values_are_repeated_where_there_are_fewer_heads_than_gpus() -> None:
    # 8 KV heads on 16 GPUs: one head each, 2 · 128 · 2 bytes per layer, not half a head
    sixteen = kernels(LLAMA_70B, sharding=Sharding(tensor=16))
    assert sixteen.attentions[0].cache_bytes == 2 * 128 * 2


def test_latent_attention_is_not_divided_by_tensor_parallelism() -> None:
    # (512 + 64) elements of one byte per token and layer, whatever TP
    for tensor in (1, 8):
        found = kernels(DEEPSEEK_V3, kv="fp8", sharding=Sharding(tensor=tensor, expert=tensor))
        assert found.attentions[0].cache_bytes == 576


def test_a_stage_of_a_pipeline_holds_its_share_of_every_kernel() -> None:
    whole, half = kernels(LLAMA_8B), kernels(LLAMA_8B, sharding=Sharding(pipeline=2))
    lone = Load.of(prefilled=512, prompts=1)
    assert total(half, lone)[0] == pytest.approx(total(whole, lone)[0] / 2)
    assert half.layers == 16


def test_a_full_pipeline_waits_for_the_stage_with_the_output_head() -> None:
    # eight rows of a head of 128,256 × 4,096 on the last of two stages, beside half of the layers
    whole, half = kernels(LLAMA_8B), kernels(LLAMA_8B, sharding=Sharding(pipeline=2))
    load, head = Load.of(decoding=8, context=512), 2.0 * 8 * 128_256 * 4096
    assert total(half, load)[0] == pytest.approx((total(whole, load)[0] - head) / 2 + head)


def test_tensor_parallelism_divides_the_flops_of_a_dense_model() -> None:
    load = Load.of(decoding=8, context=512)
    one, eight = total(kernels(LLAMA_8B), load), total(kernels(LLAMA_8B, sharding=Sharding(tensor=8)), load)
    assert eight[0] == pytest.approx(one[0] / 8)


def test_experts_of_a_few_tokens_read_only_those_touched() -> None:
    # one token reads 8 of 256 experts of 3 · 7168 · 2048 weights in 58 layers
    found = kernels(DEEPSEEK_V3, weights="fp8_block", kv="fp8")
    work = step_work(found, Load.of(decoding=1, context=0))
    moe = list(range(len(found.products), len(found.products) + len(found.experts)))
    read = float((work.traffic_bytes[0, moe] * work.count[0, moe]).sum())
    assert read == pytest.approx(58 * 8 * 3 * 7168 * 2048 * 1.002, rel=0.01)


@pytest.mark.parametrize(("gpus", "tokens"), [(4, 1), (4, 8), (8, 4), (8, 64)])
def test_experts_on_several_gpus_wait_for_the_one_that_most_tokens_chose(gpus: int, tokens: int) -> None:
    # Drawn: each token chooses 8 of 256 experts, which lie on the GPUs in equal parts; the most that one of them reads.
    rng = np.random.default_rng(1)
    most = []
    for _ in range(400):
        chosen = np.concatenate([rng.choice(256, 8, replace=False) for _ in range(tokens)])
        most.append(max(len(set(part)) for part in (chosen[chosen % gpus == gpu] for gpu in range(gpus))))
    found = kernels(DEEPSEEK_V3, weights="fp8_block", kv="fp8", sharding=Sharding(tensor=gpus, expert=gpus))
    work = step_work(found, Load.of(decoding=tokens, context=0))
    moe = list(range(len(found.products), len(found.products) + len(found.experts)))
    read = float((work.traffic_bytes[0, moe] * work.count[0, moe]).sum())
    assert read == pytest.approx(58 * np.mean(most) * 3 * 7168 * 2048, rel=0.1)


def test_a_sparse_layer_scores_every_cached_token_and_attends_to_the_chosen_ones() -> None:
    # DeepSeek-V3.2: 64 index heads of 128 score 8,192 cached tokens, whose keys take 132 bytes each; attention reads
    # the 2,048 chosen rows of 512 + 64 elements. Each of two kinds of layers has five kernels more, two of projections.
    sparse = {
        **DEEPSEEK_V3,
        "model_type": "deepseek_v32",
        "index_n_heads": 64,
        "index_head_dim": 128,
        "index_topk": 2048,
    }
    load = Load.of(decoding=2, context=8192)
    dense, found = (step_work(kernels(config), load) for config in (DEEPSEEK_V3, sparse))
    assert found.traffic_bytes.shape[1] - dense.traffic_bytes.shape[1] == 2 * (3 + 2)
    flops, traffic = found.flops[0].tolist(), found.traffic_bytes[0].tolist()
    assert 2 * 8192 * 2 * 64 * 128 in flops
    assert 2 * 8192 * 132 in traffic
    assert 2 * 2048 * 576 * 2 in traffic
    assert 2 * 8192 * 576 * 2 not in traffic


def test_a_window_bounds_what_decoding_reads() -> None:
    # gpt-oss: half of the layers keep 128 tokens; 2 · 8 heads · 64 elements of two bytes for each
    found = kernels(GPT_OSS_120B)
    work = step_work(found, Load.of(decoding=1, context=4096))
    read = {item.window: float(work.traffic_bytes[0, column]) for item, column in _attention_columns(found)}
    assert read == {128.0: 128 * 2 * 8 * 64 * 2, 1e12: 4096 * 2 * 8 * 64 * 2}


def test_a_long_answer_reads_half_a_chunk_and_a_short_context_all_of_it() -> None:
    def read(context: float, answered: float) -> float:
        return float(chunk_keys(chunk=8192.0, context=np.array([context]), answered=answered)[0])

    # From 1,000 to 2,000 tokens all lie in the first chunk; 20 chunks are read half in the mean, wherever they begin.
    assert read(1500, 1000) == pytest.approx(1500)
    assert read(100_000, 20 * 8192) == pytest.approx(4096)
    # 8,192 ± 500: 500 tokens see 7,692 to 8,192 keys, 500 see 0 to 500: (7,942 + 250) / 2
    assert read(8192, 1000) == pytest.approx(4096)
    # 9,192 ± 2,000: 1,000 tokens see 7,192 to 8,192 keys, 3,000 see 0 to 3,000
    assert read(9192, 4000) == pytest.approx((1000 * 7692 + 3000 * 1500) / 4000)
    # one token behind the chunk does not halve what an answer reads
    assert read(8193, 1000) == pytest.approx(read(8192, 1000), rel=0.01)


def test_a_chunked_layer_decodes_within_its_chunk() -> None:
    # 8 key-value heads of 128 in 16 bits: 4,096 bytes a key; a context of 10,192 tokens is 2,000 tokens into a chunk
    mixer = Attention(query_heads=40, kv_heads=8, key_dim=128, value_dim=128, window=8192, chunked=True)
    layer = Layer(mixer=mixer, mlp=None, norm_parameters=0)
    made = Architecture(
        name="chunked", family="llama4", hidden_dim=64, vocab_size=64, layers=(layer,), tied_embeddings=True,
        max_positions=None,
    )  # fmt: skip
    formats = Formats(
        quantisation=default_quantisation(made, find_weight_format("bf16")), cache_bytes=2.0, units=ALL_UNITS
    )
    found = stage_kernels(made, sharding=Sharding(), formats=formats)
    work = step_work(found, Load.of(decoding=3, context=10_192, answered=100))
    ((_, column),) = _attention_columns(found)
    assert float(work.traffic_bytes[0, column]) == pytest.approx(3 * 2000 * 4096)


def _attention_columns(found: Kernels) -> list[tuple[AttentionKernel, int]]:
    first = len(found.products) + len(found.experts)
    return [(item, first + index) for index, item in enumerate(found.attentions)]


"""One state-space layer of NVIDIA-Nemotron-Nano-9B-v2."""


def state_work(load: Load) -> tuple[list[float], list[float]]:
    """Return FLOPs and bytes of the update and of the scan of the layer's states."""
    found = kernels(NEMOTRON_LAYER)
    work = step_work(found, load)
    return [float(item) for item in work.flops[0, -2:]], [float(item) for item in work.traffic_bytes[0, -2:]]


def test_a_state_space_layer_updates_its_states_while_decoding() -> None:
    # 128 heads × 80 × 128 = 1,310,720 elements: h = a·h + x·b takes 4 FLOPs, y = c·h two; read and written in fp32
    flops, traffic = state_work(Load.of(decoding=3, context=100))
    assert flops == [3 * 6 * 1_310_720, 0]
    assert traffic == [3 * 2 * 4 * 1_310_720, 0]
    found = kernels(NEMOTRON_LAYER)
    assert KernelClass.SSM_UPDATE in kernel_classes(found)


def test_prompts_of_a_state_space_layer_are_computed_in_blocks() -> None:
    # A block of 256 tokens: C·Bᵀ in 8 groups 2·256²·128, its product with X in 128 heads 2·256²·80, the block's own
    # state and the output of the state before it 2·256·128·80 each (Mamba-2, section 6).
    block = 8 * 2 * 256**2 * 128 + 128 * (2 * 256**2 * 80 + 2 * 2 * 256 * 128 * 80)
    flops, traffic = state_work(Load.of(prefilled=512, prompts=1))
    assert flops == [0, pytest.approx(2 * block)]
    # One state is read and written in the end, two blocks' states are written and read twice.
    assert traffic == [0, pytest.approx(4 * 1_310_720 * (2 + 2 * 4))]


def test_decoding_reads_keys_and_values_of_one_projection_apart() -> None:
    # Gemma 4's full layers project once, but norm and rotate keys alone, so that engines cache both:
    # 4 heads · (512 + 512) elements · 2 bytes a token.
    mixer = Attention(query_heads=32, kv_heads=4, key_dim=512, value_dim=512, keys_are_values=True)
    model = Architecture(
        name="model", family="gemma4", hidden_dim=5376, vocab_size=1024, max_positions=None, tied_embeddings=True,
        layers=(Layer(mixer=mixer, mlp=None, norm_parameters=0),),
    )  # fmt: skip
    formats = Formats(
        quantisation=default_quantisation(model, find_weight_format("bf16")), cache_bytes=2.0, units=ALL_UNITS
    )
    (attention,) = stage_kernels(model, sharding=Sharding(), formats=formats).attentions
    assert attention.cache_bytes == 4 * 1024 * 2
    assert attention.cache_bytes == stage_cache(model, sharding=Sharding(), element_bytes=2.0).bytes_per_token


def test_a_checkpoint_of_mixed_precision_multiplies_each_role_in_its_own_format() -> None:
    # NVIDIA's Qwen3.6 checkpoints: attention in fp8, experts in NVFP4
    narrow = find_weight_format("nvfp4")
    mixed = ((WeightRole.ATTENTION, find_weight_format("fp8")), (WeightRole.EXPERT, narrow))
    stored = Quantisation(format=narrow, roles=frozenset(), mixed=mixed)
    attention = weight_kernel(stored, WeightRole.ATTENTION, units=ALL_UNITS)
    assert (attention.gemm, attention.weight_bytes) == (KernelClass.GEMM_FP8, 1.0)
    assert weight_kernel(stored, WeightRole.EXPERT, units=ALL_UNITS).moe is KernelClass.MOE_NVFP4
    assert weight_kernel(stored, WeightRole.ROUTER, units=ALL_UNITS).gemm is KernelClass.GEMM_16
