"""Layers of 2026: compressed attention, Kimi's delta attention, blocks chosen by an index, embeddings of layers."""

import pytest

from capplan.core.engine_names import Engine
from capplan.llm.core.kv import SplitPool, compressed_row_bytes, stage_cache
from capplan.llm.core.layers import Attention, CompressedAttention, GatedDeltaNet, Indexer, LatentAttention
from capplan.llm.core.memory_answer import default_kv
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.core.timing.stage_kernels import Formats, stage_kernels
from capplan.llm.core.training.flops import attention_flops_per_token
from capplan.llm.read.catalogue import find_in_catalogue
from capplan.specs import load_gpus

KIB = 1024


def model(name):
    return find_in_catalogue(name).architecture


@pytest.mark.parametrize(
    ("name", "total_billion", "active_billion"),
    [
        # totals and active parameters of the model cards, which round them
        ("deepseek-v4-flash", 284, 13),
        ("deepseek-v4-pro", 1600, 49),
        ("kimi-k3", 2800, 104),
        ("minimax-m3", 428, None),
        ("hy3-preview", 295, 21),
        ("glm-4.7-flash", 30, 3),
    ],
)
def test_totals_are_those_of_the_model_cards(name, total_billion, active_billion):
    architecture = model(name)
    embeddings = 2 * architecture.vocab_size * architecture.hidden_dim
    active = count_active_parameters(architecture)
    assert count_parameters(architecture) == pytest.approx(total_billion * 1e9, rel=0.02)
    if active_billion is not None:  # cards count embeddings or leave them out
        assert (active - embeddings) / 1e9 - 0.5 <= active_billion <= active / 1e9 + 0.5


@pytest.mark.parametrize(("name", "kib_a_token"), [("deepseek-v4-flash", 3.76), ("deepseek-v4-pro", 5.38)])
def test_compressed_cache_grows_as_vllm_stores_it(name, kib_a_token):
    """584 bytes a row and 132 of its index for 4 tokens, 584 for 128 tokens: a public reading of vLLM at 6accb77."""
    cache = stage_cache(model(name), sharding=Sharding(), element_bytes=1.0)
    grown = cache.sequence_bytes(1_048_576) - cache.sequence_bytes(524_288)
    assert grown / 524_288 / KIB == pytest.approx(kib_a_token, abs=0.005)


def test_a_short_sequence_keeps_its_window_in_full():
    layers = model("deepseek-v4-pro").layers
    cache = stage_cache(model("deepseek-v4-pro"), sharding=Sharding(tensor=8), element_bytes=2.0)
    window = 61 * 128 * 512 * 2
    compressed = sum(
        (512 * 2 + (132 if layer.mixer.indexer else 0)) / layer.mixer.ratio * 128
        for layer in layers
        if isinstance(layer.mixer, CompressedAttention)
    )
    assert cache.sequence_bytes(128) == pytest.approx(
        window + compressed
    )  # whole on every GPU: one row serves all heads


def test_rows_in_eight_bits_keep_the_rotated_part_in_sixteen():
    mixer = model("deepseek-v4-flash").layers[0].mixer
    assert compressed_row_bytes(mixer, 1.0) == 448 + 128 + 8
    assert compressed_row_bytes(mixer, 2.0) == 1024


def test_ratios_are_those_of_the_public_configurations():
    flash = [layer.mixer.ratio for layer in model("deepseek-v4-flash").layers]
    pro = [layer.mixer.ratio for layer in model("deepseek-v4-pro").layers]
    assert (flash.count(0), flash.count(4), flash.count(128)) == (2, 21, 20)
    assert (pro.count(0), pro.count(4), pro.count(128)) == (0, 30, 31)


def test_kimi_k3_keeps_454_megabytes_of_state_and_27_kilobytes_a_token():
    """NVIDIA's notes on TensorRT-LLM: 433.4 MiB of state, with one more input of the convolution; 27 KB a token."""
    cache = stage_cache(model("kimi-k3"), sharding=Sharding(), element_bytes=2.0, state_bytes=4.0)
    convolution = 69 * 3 * 96 * 128 * 2
    assert cache.state_bytes + convolution == pytest.approx(433.4 * 2**20, rel=0.0005)
    assert cache.bytes_per_token == 27 * KIB


def test_kimi_linear_has_seven_layers_of_latent_attention():
    mixers = [layer.mixer for layer in model("kimi-linear-48b-a3b-instruct").layers]
    assert [index + 1 for index, mixer in enumerate(mixers) if isinstance(mixer, LatentAttention)] == [
        4, 8, 12, 16, 20, 24, 27,
    ]  # fmt: skip
    assert sum(isinstance(mixer, GatedDeltaNet) for mixer in mixers) == 20


def test_a_sparse_layer_reads_its_blocks_and_no_more():
    sparse = [layer.mixer for layer in model("minimax-m3").layers if layer.mixer.indexer is not None]
    assert len(sparse) == 57
    assert isinstance(sparse[0], Attention)
    assert sparse[0].indexer == Indexer(heads=4, head_dim=128, top_k=16 * 128)
    # before 2,048 tokens a causal token sees half of them in the mean, long after it 2,048
    assert sparse[0].mean_keys(1000) == 500
    assert sparse[0].mean_keys(10**6) == pytest.approx(2048, rel=0.002)


def test_long_contexts_cost_deepseek_v4_a_quarter_of_v3_2():
    """The technical report: at a million tokens, V4-Pro takes 27 % of V3.2's FLOPs a token, V4-Flash 10 %."""

    def flops(name, sequence=1_048_576):
        architecture = model(name)
        attention = attention_flops_per_token(architecture, sequence=2 * sequence, is_causal=True)
        scores = 0.0
        for layer in architecture.layers:
            indexer = layer.mixer.indexer
            ratio = getattr(layer.mixer, "ratio", 1) or 1
            scores += 2.0 * indexer.heads * indexer.head_dim * sequence / ratio if indexer else 0.0
        read = 2.0 * 2048 * 128 * (2 * 512 + 64) * 61 if name == "deepseek-v3.2" else attention
        return 2.0 * count_active_parameters(architecture) + scores + read

    assert flops("deepseek-v4-pro") / flops("deepseek-v3.2") == pytest.approx(0.27, abs=0.08)
    assert flops("deepseek-v4-flash") / flops("deepseek-v3.2") == pytest.approx(0.10, abs=0.04)


def test_layers_with_embeddings_of_their_own_hold_them_once():
    e2b = model("gemma-4-e2b-it")
    assert (e2b.side_dim, e2b.side_rows) == (35 * 256, 262_144)
    shared = [layer for layer in e2b.layers if layer.mixer.kv_owner is not None]
    assert [layer.mlp.width for layer in shared] == [2 * 6144] * 20
    cache = stage_cache(e2b, sharding=Sharding(), element_bytes=2.0)
    assert cache.bytes_per_token == 2 * 2 * (
        12 * 256 + 3 * 512
    )  # 15 layers have a cache, every fifth of twice the width


@pytest.mark.parametrize(
    ("model", "gpu", "engine", "kv"),
    [
        ("deepseek-v4-flash", "h200-sxm-141gb", Engine.VLLM, "fp8"),  # 0.28 stops with `--kv-cache-dtype auto`
        ("deepseek-v4-flash", "h200-sxm-141gb", Engine.SGLANG, "fp8"),  # _deepseek_v4_kv_cache_dtype of 0.5.20
        ("deepseek-v3.2", "h200-sxm-141gb", Engine.VLLM, "fp8"),  # "DeepSeekV3.2 default to fp8" (vllm/config/cache.py)
        ("deepseek-v3.2", "mi300x", Engine.VLLM, "bf16"),
        # _set_default_nsa_kv_cache_dtype of SGLang: fp8_e4m3 from compute capability 10 on, else bfloat16
        ("deepseek-v3.2", "b200-sxm-180gb", Engine.SGLANG, "fp8"),
        ("deepseek-v3.2", "h200-sxm-141gb", Engine.SGLANG, "bf16"),
        ("deepseek-v3", "b200-sxm-180gb", Engine.VLLM, "bf16"),
    ],
)
def test_caches_of_sparse_and_compressed_attention_are_narrow_by_default(model, gpu, engine, kv):
    found = find_in_catalogue(model)
    assert default_kv(found, found.own_quantisation, engine, load_gpus()[gpu]) == kv


def test_narrow_rows_of_sparse_latent_attention_keep_rotated_elements_in_sixteen_bits():
    """`fp8_ds_mla` of vLLM: 512 in 8 bits, four 32-bit scales, 64 in 16 bits: 656 bytes; 132 of the indexer."""
    cache = stage_cache(model("deepseek-v3.2"), sharding=Sharding(), element_bytes=1.0)
    assert cache.bytes_per_token == 61 * (656 + 132)


def test_sglang_cuts_the_pool_of_layers_with_windows_by_a_fixed_share():
    """Start-up log of MiMo-V2-Flash with --tp-size 4 --page-size 64 (sglang#18039): 375,360 and 300,288 tokens."""
    cache = stage_cache(model("mimo-v2-flash"), sharding=Sharding(tensor=4), element_bytes=2.0)
    # nine layers with one head of 192 + 128 on each GPU, 39 with two; the log says 8.38 GB of keys for the latter
    windowed = 300_288 * 39 * 2 * 192 * 2
    assert windowed / 2**30 == pytest.approx(8.38, abs=0.005)
    pool_bytes = 375_360 * 9 * 320 * 2 + windowed * 320 / 192
    pool = SplitPool(cache, 64)
    assert pool.tokens(pool_bytes) == 375_360
    assert pool.sequences(pool_bytes, 8192) == 375_360 // 8192  # windows of 128 have room for more


def test_sglang_gives_states_nine_parts_to_ten_of_the_tokens():
    """`handle_max_mamba_cache`: states take rest · 0.9 / 1.9; five slots a sequence with the default strategy."""
    cache = stage_cache(model("qwen3-next-80b-a3b-instruct"), sharding=Sharding(), element_bytes=2.0)
    pool, pool_bytes = SplitPool(cache, 1), 40e9
    assert pool.tokens(pool_bytes) == int(pool_bytes / 1.9 / (12 * 2 * 2 * 256 * 2))
    states = pool_bytes * 0.9 / 1.9 / (36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2))
    assert pool.sequences(pool_bytes, 1024) == int(states) // 5


def test_four_tokens_of_qwen3_8_flash_next_are_scored_by_one_key_of_the_index():
    """Queries score mean keys of blocks of four tokens (Qwen4ExpTextQSAIndexer); SGLang's "pending index-key ring"."""
    formats = Formats(
        quantisation=find_in_catalogue("qwen3.8-flash-next").own_quantisation, cache_bytes=2.0, units=frozenset()
    )
    kernels = stage_kernels(model("qwen3.8-flash-next"), sharding=Sharding(), formats=formats)
    (kernel,) = {(item.index_flops, item.index_bytes, item.count) for item in kernels.attentions}
    assert kernel == (2 * 4 * 128 / 4, 128 * 2 / 4, 12)
