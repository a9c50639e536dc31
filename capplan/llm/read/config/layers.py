"""Build the attention, the MLP or the experts of each layer from a model's configuration."""

from dataclasses import replace
from itertools import count
from math import isqrt

from capplan.llm.core.layers import (
    Attention,
    CompressedAttention,
    DenseMlp,
    Experts,
    GatedDeltaNet,
    Indexer,
    LatentAttention,
    Mamba2,
    Mixer,
    Mlp,
    NgramTable,
    ShortConv,
)
from capplan.llm.read.config.fields import LARGEST_SIZE, Fields
from capplan.llm.read.config.traits import Traits, UnusualModelError
from capplan.units import whole_number

_WINDOW_NAMES = ("sliding_window", "sliding_window_size")
_LAYER_KINDS = (
    "full_attention", "attention", "sliding_attention", "chunked_attention", "linear_attention", "mamba",
    "conv", "deepseek_sparse_attention", "indexed_attention", "minimax_m3_sparse",
)  # fmt: skip


def read_mixers(fields: Fields, traits: Traits, *, layer_count: int) -> list[Mixer | None]:
    """Return the mixer of every layer."""
    if fields.has("o_lora_rank"):
        return _compressed_mixers(fields, layer_count)
    kinds = _layer_kinds(fields, layer_count)
    if fields.has("kv_lora_rank"):
        return _latent_mixers(fields, traits, kinds or ["full_attention"] * layer_count)
    attention = read_attention(fields, traits)
    if fields.has("indexer_n_heads"):  # Qwen3.8-Flash-Next's selector of blocks of tokens
        names = ("indexer_n_heads", "indexer_head_dim", "indexer_budget", "indexer_compress_ratio")
        heads, width, budget, block = map(fields.size, names)
        fields.understood("indexer_kv_heads", "output_gate_type")
        attention = replace(attention, indexer=Indexer(heads=heads, head_dim=width, top_k=budget, pool=block))
    local = _local_layers(fields, traits, layer_count=layer_count, kinds=kinds)
    window = _window(fields, traits) if any(local) else None
    if fields.raw("use_sliding_window") is False:
        fields.understood("max_window_layers", *_WINDOW_NAMES)
    if kinds is not None or traits.windows != "none":
        fields.understood(*_WINDOW_NAMES)
    mixers: list[Mixer | None] = []
    for index, is_local in enumerate(local):
        if kinds is not None and kinds[index] in ("linear_attention", "mamba"):
            mixers.append(read_mamba(fields) if fields.has("mamba_n_heads") else _delta_net(fields))
        elif kinds is not None and kinds[index] == "conv":
            kernel, bias = fields.size("conv_L_cache"), fields.flag("conv_bias")
            mixers.append(ShortConv(conv_channels=fields.size("hidden_size"), conv_kernel=kernel, bias=bias))
        elif kinds is not None and kinds[index] == "minimax_m3_sparse":
            # MiniMax-M3's selector of blocks; published configurations state it in an object with its own names.
            stated = fields.object("sparse_attention_config")
            names = ("index_n_heads", "index_head_dim", "index_topk_blocks", "index_block_size")
            if stated is not None:
                names = ("sparse_num_index_heads", "sparse_index_dim", "sparse_topk_blocks", "sparse_block_size")
            heads, width, blocks, block = map((stated or fields).size, names)
            fields.understood("index_local_blocks")
            mixers.append(replace(attention, indexer=Indexer(heads=heads, head_dim=width, top_k=blocks * block)))
        elif is_local:
            mixers.append(_windowed_attention(attention, window, fields, traits))
        else:
            mixers.append(_global_attention(attention, fields, traits))
    _apply_layer_sizes(mixers, fields, traits)
    return _share_caches(mixers, fields, kinds, layer_count)


_PATTERNS = (
    "sliding_window_pattern", "_sliding_window_pattern", "no_rope_layer_interval", "no_rope_layers",
    "hybrid_layer_pattern", "max_window_layers", "sliding_window_layers", "use_sliding_window",
    "prefix_dense_sliding_window_pattern",
)  # fmt: skip
"""Patterns of layers that a list of layers outranks."""
_DELTA_SIZES = (
    "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
    "linear_conv_kernel_dim",
)  # fmt: skip


def _layer_kinds(fields: Fields, layer_count: int) -> list[str] | None:
    """Return the kind of every layer where the configuration lists them or states how often full attention comes.

    `full_attention_interval` n makes every nth layer full attention and the others linear, as Qwen3-Next's and
    Qwen3.5's code does; `layer_types` outranks it. `attn_type_list` marks layers of full attention (1) and of lightning
    attention (0).
    """
    marks = fields.sizes("attn_type_list", length=layer_count)
    if marks is not None and any(mark != 1 for mark in marks):
        raise UnusualModelError(
            f"{fields.where}: attn_type_list has layers of lightning attention, which no memory formula here covers, "
            "so nothing is guessed."
        )
    interval = fields.optional_size("full_attention_interval", "layer_group_size")
    kinds = fields.words("layer_types", length=layer_count, known=_LAYER_KINDS) or _numbered(fields, layer_count)
    if kinds is None and fields.has("full_attn_idxs"):
        full = fields.indexes("full_attn_idxs", length=layer_count)
        kinds = ["full_attention" if index in full else "conv" for index in range(layer_count)]
    sparse = fields.object("sparse_attention_config")
    if kinds is None and sparse is not None:
        marks = sparse.sizes("sparse_attention_freq", length=layer_count) or [1] * layer_count
        kinds = ["minimax_m3_sparse" if mark else "full_attention" for mark in marks]
    if kinds is None and interval is not None:
        kinds = ["linear_attention" if (index + 1) % interval else "full_attention" for index in range(layer_count)]
    if kinds is not None:
        fields.understood(*_PATTERNS)
        if not {"linear_attention", "mamba"} & set(kinds):
            fields.understood(*_DELTA_SIZES)
    return kinds


def _numbered(fields: Fields, layer_count: int) -> list[str] | None:
    """Return the kind of every layer where the configuration numbers them from 1, as Kimi's do."""
    stated = fields.object("linear_attn_config")
    if stated is None:
        return None
    lists = [stated.raw(name) or [] for name in ("full_attn_layers", "kda_layers")]
    if not all(isinstance(numbers, list) and all(type(number) is int for number in numbers) for numbers in lists):
        raise stated.error("full_attn_layers and kda_layers must be lists of numbers of layers")
    full, linear = map(set, lists)
    if full & linear or full | linear != set(range(1, layer_count + 1)):
        raise stated.error(f"full_attn_layers and kda_layers must number each of the {layer_count} layers once")
    return ["full_attention" if index + 1 in full else "linear_attention" for index in range(layer_count)]


_OF_LAYERS = {"head_dim", "num_attention_heads", "num_key_value_heads"}


def _apply_layer_sizes(mixers: list[Mixer | None], fields: Fields, traits: Traits) -> None:
    """Apply the head sizes of single layers that `per_layer_config` states, as recent transformers write it."""
    stated = fields.object("per_layer_config")
    for name in sorted(stated.names()) if stated is not None else ():
        sizes = stated.object(name) if stated is not None else None
        index = whole_number(name)  # transformers writes "05"
        if sizes is None or index is None or index >= len(mixers):
            continue
        mixer = mixers[index]
        if not isinstance(mixer, Attention) or not sizes.names() <= _OF_LAYERS:
            raise sizes.error(f"sizes of single layers other than {', '.join(sorted(_OF_LAYERS))} are not covered")
        width = sizes.size("head_dim", default=mixer.key_dim)
        sized = _sized_attention(
            fields,
            traits,
            query_heads=sizes.size("num_attention_heads", default=mixer.query_heads),
            kv_heads=sizes.size("num_key_value_heads", default=mixer.kv_heads),
            key_dim=width,
            value_dim=width,
        )
        mixers[index] = replace(sized, window=mixer.window, keys_are_values=mixer.keys_are_values)


def head_dim(fields: Fields) -> int:
    """Return the width of a head: stated, or the hidden width divided by the heads."""
    hidden, heads = fields.size("hidden_size", "n_embd", "d_model"), fields.size("num_attention_heads", "n_head")
    stated = fields.optional_size("head_dim", "attention_head_dim", "kv_channels")
    if stated is None and hidden % heads:
        raise fields.error(
            f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}, and head_dim is not stated"
        )
    return stated or hidden // heads


def read_attention(fields: Fields, traits: Traits) -> Attention:
    """Return full attention as the configuration states it, without windows."""
    heads = fields.size("num_attention_heads", "n_head")
    return _sized_attention(
        fields,
        traits,
        query_heads=heads,
        kv_heads=_kv_heads(fields, traits, heads),
        key_dim=head_dim(fields),
        value_dim=fields.size("v_head_dim", default=head_dim(fields)),
    )


def _kv_heads(fields: Fields, traits: Traits, heads: int) -> int:
    if traits.kv_heads == "as many as query heads":
        return heads
    if traits.kv_heads != "stated" and not fields.flag("new_decoder_architecture"):
        return 1 if fields.flag("multi_query", default=True) else heads
    return fields.size("num_key_value_heads", "num_kv_heads", "num_attention_groups", default=heads)


def _sized_attention(
    fields: Fields, traits: Traits, *, query_heads: int, kv_heads: int, key_dim: int, value_dim: int
) -> Attention:
    if kv_heads > query_heads or query_heads % kv_heads:
        raise fields.error(f"{query_heads} query heads are not a multiple of {kv_heads} key-value heads")
    stated_bias = fields.flag("attention_bias", default=any(map(fields.flag, ("bias", "use_bias", "use_qkv_bias"))))
    query_norm, key_norm = _query_key_norms(fields, traits, query_heads, kv_heads, key_dim)
    return Attention(
        query_heads=query_heads,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        output_gate=traits.output_gate and fields.flag("attn_output_gate", default=True),
        qkv_bias=stated_bias if traits.qkv_bias is None else traits.qkv_bias,
        output_bias=stated_bias if traits.output_bias is None else traits.output_bias,
        query_norm=query_norm,
        key_norm=key_norm,
        sinks=query_heads if traits.sinks else 0,
        head_gate=traits.head_gate
        and all(fields.flag(name, default=True) for name in ("use_attention_gate", "use_head_wise_attn_gate")),
    )


def _query_key_norms(fields: Fields, traits: Traits, query_heads: int, kv_heads: int, key_dim: int) -> tuple[int, int]:
    kind = traits.query_key_norm
    default = traits.query_key_norm_default
    if default is not None and not fields.flag("use_qk_norm", default=default):
        kind = "none"
    if kind == "all heads":
        return query_heads * key_dim, kv_heads * key_dim
    return (key_dim, key_dim) if kind == "per head" else (0, 0)


def _window(fields: Fields, traits: Traits) -> int | None:
    """Return how many tokens local layers attend to, None for all; a window as long as the context limits nothing."""
    names = ("attention_chunk_size",) if traits.chunked else _WINDOW_NAMES
    window = fields.optional_size(*names, least=0) or None
    if window is not None:
        fields.understood(*_WINDOW_NAMES, "attention_chunk_size")
    if window is None and traits.windows != "all":
        raise fields.error("layers have a sliding window, but sliding_window is not stated")
    longest = fields.optional_size("max_position_embeddings", "n_positions")
    return None if window is not None and longest is not None and window >= longest else window


def _local_layers(fields: Fields, traits: Traits, *, layer_count: int, kinds: list[str] | None) -> list[bool]:
    if kinds is not None:
        return [kind in ("sliding_attention", "chunked_attention") for kind in kinds]
    for pattern in ("hybrid_layer_pattern", "sliding_window_layers"):
        marks = fields.sizes(pattern, length=layer_count)
        if marks is not None:
            return [mark == 1 for mark in marks]
    no_rope = fields.sizes("no_rope_layers", length=layer_count)
    if no_rope is not None and traits.chunked:
        return [mark == 1 for mark in no_rope]  # layers without rotary embedding (0) attend to everything
    match traits.windows:
        case "none":
            return [False] * layer_count
        case "all":
            return [True] * layer_count
        case "alternating":
            return [index % 2 == 0 for index in range(layer_count)]
        case "all but every nth":
            names = ("sliding_window_pattern", "_sliding_window_pattern", "no_rope_layer_interval")
            period = fields.size(*names, default=traits.window_period)
            return [(index + 1) % period != 0 for index in range(layer_count)]
        case "from max_window_layers on, if use_sliding_window":
            first = fields.size("max_window_layers", default=layer_count, least=0)
            enabled = fields.flag("use_sliding_window")
            return [enabled and index >= first for index in range(layer_count)]


def _windowed_attention(attention: Attention, window: int | None, fields: Fields, traits: Traits) -> Attention:
    """Return a layer with a window, which may have head sizes of its own (MiMo-V2, Step 3.5 and 3.7)."""
    own, prefix = (fields, "swa_") if fields.has("swa_head_dim") else (fields.object("attention_other_setting"), "")
    if own is not None:
        width = own.size(f"{prefix}head_dim", default=attention.key_dim)
        kv_heads = own.size(f"{prefix}num_key_value_heads", "num_attention_groups", default=attention.kv_heads)
        attention = _sized_attention(
            fields,
            traits,
            query_heads=own.size(f"{prefix}num_attention_heads"),
            kv_heads=kv_heads,
            key_dim=width,
            value_dim=own.size(f"{prefix}v_head_dim", default=width),
        )
    sinks = attention.query_heads if fields.flag("add_swa_attention_sink_bias") else attention.sinks
    return replace(attention, window=window, chunked=window is not None and traits.chunked, sinks=sinks)


def _global_attention(attention: Attention, fields: Fields, traits: Traits) -> Attention:
    """Return a layer without a window, which may have head sizes of its own (Gemma 4)."""
    if fields.has("global_head_dim"):
        width = fields.size("global_head_dim")
        attention = _sized_attention(
            fields,
            traits,
            query_heads=attention.query_heads,
            kv_heads=fields.size("num_global_key_value_heads", default=attention.kv_heads)
            if fields.flag("attention_k_eq_v")
            else attention.kv_heads,
            key_dim=width,
            value_dim=width,
        )
        return replace(attention, keys_are_values=fields.flag("attention_k_eq_v"))
    if fields.flag("add_full_attention_sink_bias"):
        return replace(attention, sinks=attention.query_heads)
    return attention


def _share_caches(
    mixers: list[Mixer | None], fields: Fields, kinds: list[str] | None, layer_count: int
) -> list[Mixer | None]:
    """Make the last `num_kv_shared_layers` layers read the cache of the last earlier layer of their kind."""
    shared = fields.optional_size("num_kv_shared_layers", least=0) or 0
    if not shared:
        return mixers
    first = layer_count - shared
    if first < 1 or kinds is None:
        raise fields.error(f"num_kv_shared_layers {shared} leaves no layer with a cache of its own")
    for index in range(first, layer_count):
        mixer = mixers[index]
        owner = max((i for i in range(first) if kinds[i] == kinds[index]), default=None)
        if owner is None or not isinstance(mixer, Attention):
            raise fields.error(f"layer {index} shares the cache of a layer of its kind, but there is none before it")
        mixers[index] = replace(mixer, kv_owner=owner)
    return mixers


def _latent_mixers(fields: Fields, traits: Traits, kinds: list[str]) -> list[Mixer | None]:
    """Return latent attention in every layer but those of linear attention, which are Kimi's delta attention."""
    heads, layer_count = fields.size("num_attention_heads"), len(kinds)
    gate = heads if traits.head_gate else 0
    if fields.flag("mla_use_output_gate"):
        gate = heads * fields.size("v_head_dim")
    attention = LatentAttention(
        gate_width=gate,
        query_heads=heads,
        query_rank=fields.optional_size("q_lora_rank"),
        kv_rank=fields.size("kv_lora_rank"),
        nope_dim=fields.size("qk_nope_head_dim"),
        rope_dim=fields.size("qk_rope_head_dim", least=0),
        value_dim=fields.size("v_head_dim"),
    )
    mixers = _indexed(attention, fields, layer_count)
    if "linear_attention" in kinds:
        linear = _kimi_delta(fields, traits)
        return [linear if kind == "linear_attention" else mixer for kind, mixer in zip(kinds, mixers, strict=True)]
    return mixers


def _indexed(attention: LatentAttention, fields: Fields, layer_count: int) -> list[Mixer | None]:
    """Return latent attention for every layer, with the selector of its tokens where a layer has one of its own."""
    if not fields.has("index_n_heads"):
        return [attention] * layer_count
    if fields.raw("indexer_types") is not None:
        fields.understood("index_topk_freq")
    scored = fields.words("indexer_types", length=layer_count, known=("full", "shared")) or ["full"] * layer_count
    fields.understood("index_kpool_always_select_tail", "index_kpool_compress")
    attention = replace(attention, sparse=True)
    selecting = replace(attention, indexer=_indexer(fields, pool=fields.size("index_kpool", default=1)))
    return [selecting if kind == "full" else attention for kind in scored]


def _indexer(fields: Fields, *, pool: int = 1) -> Indexer:
    return Indexer(
        heads=fields.size("index_n_heads"),
        head_dim=fields.size("index_head_dim"),
        top_k=fields.size("index_topk"),
        pool=pool,
    )


_RATIOS = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
"""Tokens of a compressed row by kind of layer, as transformers 5.23 reads DeepSeek-V4's `layer_types`."""


def _compressed_mixers(fields: Fields, layer_count: int) -> list[Mixer | None]:
    """Return DeepSeek-V4's attention: published configurations list ratios, with one more for each drafting layer.

    V4.1 lists the layers that write compressed rows and those that choose among them; the others read what is there.
    """
    ratios, is_shared = fields.raw("compress_ratios"), fields.has("kv_source_layer_ids")
    kinds = None if is_shared else fields.words("layer_types", length=layer_count, known=_RATIOS)
    known = (0, 1, 2) if is_shared else tuple(_RATIOS.values())
    if isinstance(ratios, list) and len(ratios) >= layer_count:
        ratios = ratios[:layer_count]
    else:
        ratios = [_RATIOS[kind] for kind in kinds or ()]
    if len(ratios) != layer_count or not set(ratios) <= set(known):
        wanted = f"{known[0]}, {known[1]} or {known[2]}"
        raise fields.error(f"compress_ratios must hold {wanted} for each of the {layer_count} layers")
    fields.understood("compress_rates", "candidate_source_layer_id", "candidate_topk_blocks", "candidate_block_size")
    indexer = _indexer(fields)
    window_only = CompressedAttention(
        query_heads=fields.size("num_attention_heads"),
        query_rank=fields.size("q_lora_rank"),
        head_dim=fields.size("head_dim"),
        rope_dim=fields.size("qk_rope_head_dim", default=64),
        output_groups=fields.size("o_groups"),
        output_rank=fields.size("o_lora_rank"),
        window=fields.size("sliding_window"),
        plain_rows=is_shared,
    )
    if is_shared:
        writing, selecting = (
            fields.indexes(f"{what}_source_layer_ids", length=layer_count) for what in ("kv", "index")
        )
        return [
            replace(window_only, ratio=ratio, indexer=indexer, write_rows=i in writing, select=i in selecting)
            if ratio
            else window_only
            for i, ratio in enumerate(ratios)
        ]
    return [
        replace(window_only, ratio=ratio, indexer=indexer if ratio == _RATIOS["compressed_sparse_attention"] else None)
        for ratio in ratios
    ]


def read_ngrams(fields: Fields, layer_count: int) -> dict[int, NgramTable]:
    """Return the n-gram tables by layer: a token looks up a row for each head and length of n-gram from two on.

    DeepSeek-V4.1 keeps rows in 8 bits with an 8-bit scale for 32 elements, Qwen3.8-Flash-Next in 16 bits.
    """
    if fields.has("ple_layer_ids"):
        return _embedded_ngrams(fields, layer_count)
    layers = sorted(fields.indexes("engram_layer_ids", length=layer_count))
    fields.understood("engram_vocab_size", "engram_compressed_vocab_size", "engram_pad_id", "engram_pad_token_id")
    if not layers:
        return {}
    rows = fields.sizes("engram_num_embeddings", length=len(layers))
    if rows is None or not all(0 < count < LARGEST_SIZE for count in rows):
        raise fields.error("engram_num_embeddings must hold the rows of each layer in engram_layer_ids")
    return {
        layer: NgramTable(
            rows=count,
            row_dim=fields.size("engram_head_dim"),
            lookups=fields.size("engram_n_heads") * (fields.size("engram_max_ngram_size", least=2) - 1),
            streams=fields.size("hc_mult"),
            row_bits=8 + 8 / 32,
        )
        for layer, count in zip(layers, rows, strict=True)
    }


_MOST_HASHES = 256


def _embedded_ngrams(fields: Fields, layer_count: int) -> dict[int, NgramTable]:
    """Return Qwen4-Exp's tables by layer, which it numbers from 1: each hash has as many rows as the next prime."""
    layers = sorted(layer - 1 for layer in fields.indexes("ple_layer_ids", length=layer_count + 1))
    lookups = fields.size("heads_per_ngram", default=8) * (fields.size("ngram_size", default=3, least=2) - 1)
    if lookups * len(layers) > _MOST_HASHES:
        raise fields.error(f"{lookups * len(layers)} hashes of n-grams are above {_MOST_HASHES}")
    divisor = fields.size("make_ngram_vocab_size_divisible_by", default=128)
    fields.understood("split_ngram_parts", "seed")
    found, prime = {}, fields.size("ngram_vocab_size_base", default=20_000_000) - 1
    for layer in layers:
        sizes = []
        for _ in range(lookups):
            prime = next(number for number in count(prime + 1) if all(number % d for d in range(2, isqrt(number) + 1)))
            sizes.append(prime)
        found[layer] = NgramTable(
            rows=-(-sum(sizes) // divisor) * divisor,
            row_dim=fields.size("ple_embed_dim", "hidden_size") // lookups,
            lookups=lookups,
            streams=fields.size("hc_count"),
            row_bits=16.0,
            conv_kernel=fields.size("ple_conv_kernel_size", default=4),
        )
    return found


def _kimi_delta(fields: Fields, traits: Traits) -> GatedDeltaNet:
    """Return Kimi's delta attention: published configurations state it in an object, transformers' own at the top."""
    stated = fields.object("linear_attn_config")
    if stated is None:
        names = ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
        heads, width, kernel = map(fields.size, names)
    else:
        heads, width, kernel = map(stated.size, ("num_heads", "head_dim", "short_conv_kernel_size"))
    is_full = traits.full_rank_gates
    return GatedDeltaNet(
        key_heads=heads,
        value_heads=heads,
        key_dim=width,
        value_dim=width,
        conv_kernel=kernel,
        decay_rank=0 if is_full else width,
        gate_rank=None if is_full or (stated is not None and stated.flag("use_full_rank_gate")) else width,
    )


def _delta_net(fields: Fields) -> GatedDeltaNet:
    return GatedDeltaNet(
        key_heads=fields.size("linear_num_key_heads"),
        value_heads=fields.size("linear_num_value_heads"),
        key_dim=fields.size("linear_key_head_dim"),
        value_dim=fields.size("linear_value_head_dim"),
        conv_kernel=fields.size("linear_conv_kernel_dim"),
    )


def read_mamba(fields: Fields) -> Mamba2:
    """Return the Mamba-2 layer of a hybrid model's configuration."""
    return Mamba2(
        heads=fields.size("mamba_num_heads", "mamba_n_heads"),
        head_dim=fields.size("mamba_head_dim", "mamba_d_head"),
        state_dim=fields.size("ssm_state_size", "mamba_d_state"),
        groups=fields.size("n_groups", "mamba_n_groups"),
        conv_kernel=fields.size("conv_kernel", "mamba_d_conv"),
        gate_norm=fields.flag("mamba_rms_norm", default=True),
    )


_EXPERT_COUNTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_PER_TOKEN = (
    "num_experts_per_tok",
    "experts_per_token",
    "top_k_experts",
    "num_experts_per_token",
    "moe_k",
    "moe_topk",
    "moe_top_k",
)
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
_OF_EXPERTS = (
    *_PER_TOKEN, *_SHARED, "moe_intermediate_size", "shared_expert_intermediate_size",
    "first_k_dense_replace", "moe_layer_freq", "decoder_sparse_step", "mlp_only_layers",
)  # fmt: skip
"""Fields that decide nothing where a configuration states no number of experts, or one."""


def read_mlps(fields: Fields, traits: Traits, *, layer_count: int) -> list[Mlp | None]:
    """Return the MLP or the experts of every layer."""
    count = fields.optional_size(*_EXPERT_COUNTS, least=0) or 0
    if count <= 1 or fields.raw("enable_moe_block") is False:
        fields.understood(*_OF_EXPERTS)
        return [read_dense(fields, traits)] * layer_count
    experts = read_experts(fields, traits)
    routed = _routed_layers(fields, layer_count)
    dense = None if all(routed) else read_dense(fields, traits)
    kinds, hashed = fields.raw("mlp_layer_types"), fields.size("num_hash_layers", default=0, least=0)
    by_hash = [index < hashed for index in range(layer_count)]
    if isinstance(kinds, list) and len(kinds) == layer_count:
        by_hash = [kind == "hash_moe" for kind in kinds]
    fixed = replace(experts, router_bias=False)  # DeepSeek-V4: a table of tokens chooses the experts
    return [
        (fixed if is_hashed else experts) if is_routed else dense
        for is_routed, is_hashed in zip(routed, by_hash, strict=True)
    ]


def read_dense(fields: Fields, traits: Traits) -> DenseMlp:
    """Return the ordinary MLP of a layer."""
    hidden = fields.size("hidden_size", "n_embd", "d_model")
    width = fields.optional_size(*traits.mlp_widths)
    if width is None:
        if traits.gated:
            raise fields.error("the configuration has no intermediate_size")
        width = 4 * hidden  # GPT-2, GPT-J and Falcon leave it out where it is four times the hidden width
    if fields.flag("block_auto_adjust_ff_dim"):  # LFM2: two thirds, rounded up
        share, unit = fields.raw("block_ffn_dim_multiplier") or 1.0, fields.size("block_multiple_of")
        width = -(-int(share * int(2 * width / 3)) // unit) * unit
    stated_bias = fields.flag("mlp_bias", default=fields.flag("bias") or fields.flag("use_bias"))
    return DenseMlp(width=width, gated=traits.gated, bias=stated_bias if traits.mlp_bias is None else traits.mlp_bias)


def read_experts(fields: Fields, traits: Traits) -> Experts:
    """Return the experts of a layer, with the shared ones and the dense part next to them."""
    count, per_token = fields.size(*_EXPERT_COUNTS), fields.size(*_PER_TOKEN)
    if per_token > count:
        raise fields.error(f"{per_token} experts per token are more than the {count} experts")
    width = fields.size("intermediate_size" if traits.plain_expert_width else "moe_intermediate_size")
    fields.understood("moe_intermediate_size")
    beside = read_dense(fields, traits) if fields.flag("enable_moe_block") else None
    hidden = fields.size("hidden_size")
    return Experts(
        count=count,
        per_token=per_token,
        width=width,
        gated=traits.gated,
        bias=traits.expert_bias,
        shared_width=_shared_width(fields, traits, width),
        shared_gate=fields.has("shared_expert_intermediate_size"),
        router_bias=traits.router_bias,
        # Gemma 4: one scale per input and one per expert
        router_extra=hidden + count if beside else count if traits.image_router_bias else 0,
        latent_dim=fields.optional_size("moe_latent_size", "routed_expert_hidden_size"),
        latent_norm=fields.flag("latent_moe_use_norm"),
        dense=beside,
    )


def _shared_width(fields: Fields, traits: Traits, width: int) -> int:
    if traits.one_shared_expert:
        fields.understood(*_SHARED)
        return width
    stated = fields.optional_size(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
        least=0,
    )
    if stated is not None:
        fields.understood(*_SHARED)
        return stated
    return (fields.optional_size(*_SHARED, least=0) or 0) * width


def _routed_layers(fields: Fields, layer_count: int) -> list[bool]:
    kinds = fields.words("mlp_layer_types", length=layer_count, known=("dense", "sparse", "moe", "hash_moe"))
    if kinds is not None:
        fields.understood(
            "moe_layer_freq", "first_k_dense_replace", "num_dense_layers", "interleave_moe_layer_step", "moe_layers"
        )
        return [kind != "dense" for kind in kinds]
    marks = fields.sizes("moe_layer_freq", length=layer_count)
    if marks is not None:
        return [mark == 1 for mark in marks]
    chosen = fields.raw("moe_layers") or fields.raw("moe_layers_enum")
    if isinstance(chosen, str):
        chosen = [index for text in chosen.split(",") if (index := whole_number(text.strip())) is not None]
    if isinstance(chosen, list):
        fields.understood("interleave_moe_layer_step")
        return [index in chosen for index in range(layer_count)]
    if fields.has("interleave_moe_layer_step"):
        step = fields.size("interleave_moe_layer_step")
        return [(index + 1) % step == 0 for index in range(layer_count)]
    if fields.has("decoder_sparse_step"):
        step, dense_only = fields.size("decoder_sparse_step"), fields.indexes("mlp_only_layers", length=layer_count)
        return [(index + 1) % step == 0 and index not in dense_only for index in range(layer_count)]
    first = fields.size("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", default=0, least=0)
    step = fields.size("moe_layer_freq", "moe_layer_interval", default=1)
    last = fields.size("moe_layer_end_index", default=layer_count - 1, least=0)
    return [first <= index <= last and index % step == 0 for index in range(layer_count)]
