"""Count the bytes of the KV cache layer by layer: what a token adds, what a sequence keeps, what a pool holds."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, inf

from capplan.core.engine_names import Engine
from capplan.errors import UnknownNameError
from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.layers import Attention, CompressedAttention, GatedDeltaNet, LatentAttention, Mamba2, ShortConv
from capplan.llm.core.sharding import Sharding, stage_layers

INDEXER_BYTES_PER_TOKEN = 132.0
"""Bytes that a sparse-attention indexer keeps per token and layer: 128 fp8 elements and one fp32 scale."""
_KV_FORMATS = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "int8": 1.0,
    "int8_per_token_head": 1.0,
    "fp8_per_token_head": 1.0,
    "q8_0": 1.0625,
    "q5_0": 0.6875,
    "q4_0": 0.5625,
    "nvfp4": 0.5625,
}


def kv_element_bytes(name: str, *, head_dim: float = inf) -> float:
    """Return the bytes of one cached element in a number format, scales included: of 32 bits for each token and head.

    Such scales lie in the cache's pages (`AttentionSpec.page_size_bytes` of vLLM at 001cabc, read 2026-11-27).
    """
    word = name.lower().replace("-", "_")
    found = _KV_FORMATS.get(word)
    if found is None:
        raise UnknownNameError("KV cache format", name, _KV_FORMATS, hint=f"Known: {', '.join(_KV_FORMATS)}.")
    return found + (4.0 / head_dim if word.endswith("_per_token_head") else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """What one layer keeps on one GPU.

    `token_bytes` is what each cached token takes, `window` the most tokens that are kept (None for all), and
    `state_bytes` what a sequence takes whatever its length. [bytes]
    """

    token_bytes: float = 0.0
    window: int | None = None
    state_bytes: float = 0.0


@dataclass(frozen=True)
class StageCache:
    layers: tuple[LayerCache, ...]

    @cached_property
    def bytes_per_token(self) -> float:
        """Return what one token adds while it is in every layer's window. [bytes]"""
        return sum(layer.token_bytes for layer in self.layers)

    @cached_property
    def state_bytes(self) -> float:
        """Return what a sequence takes whatever its length. [bytes]"""
        return sum(layer.state_bytes for layer in self.layers)

    @cached_property
    def windows(self) -> frozenset[int]:
        return frozenset(layer.window for layer in self.layers if layer.window is not None)

    def sequence_bytes(self, tokens: int, *, block: int = 1) -> float:
        """Return what a sequence keeps: every layer at most its window, rounded up to blocks."""
        return self.state_bytes + sum(
            layer.token_bytes * _blocks(min(tokens, layer.window or tokens), block) * block for layer in self.layers
        )


def state_element_bytes(architecture: Architecture, engine: Engine, *, version: tuple[int, ...] | None) -> float:
    """Return the bytes of an element of recurrent states in an engine. [bytes]

    vLLM keeps what `mamba_ssm_cache_dtype` or `mamba_ssm_dtype` of the configuration says, 32 bits for Nemotron-H where
    it says nothing, and the model's 16 bits otherwise (MambaStateDtypeCalculator and model_executor/models/config.py of
    vLLM 0.33). Before 0.14 it is taken to keep 16 bits always, other engines 32 bits where nothing is stated.
    """
    if engine is not Engine.VLLM:
        return architecture.state_bytes or 4.0
    return 2.0 if version is not None and version < (0, 14) else architecture.state_bytes or 2.0


def stage_cache(
    architecture: Architecture, *, sharding: Sharding, element_bytes: float, state_bytes: float = 4.0, stage: int = 0
) -> StageCache:
    indices = stage_layers(len(architecture.layers), sharding.pipeline)[stage]
    every = (layer_caches(architecture.layers[index], sharding.tensor, element_bytes, state_bytes) for index in indices)
    return StageCache(layers=tuple(cache for caches in every for cache in caches))


def layer_caches(layer: Layer, tensor: int, element_bytes: float, state_bytes: float) -> tuple[LayerCache, ...]:
    """Describe what one layer keeps on one GPU: mostly one cache, two where it has a window beside compressed rows."""
    match layer.mixer:
        case Attention() as mixer:
            if mixer.kv_owner is not None:
                return ()
            heads = max(1.0, mixer.kv_heads / tensor)
            width = heads * (mixer.key_dim + mixer.value_dim)
            width += mixer.indexer.head_dim if mixer.indexer is not None else 0
            return (LayerCache(token_bytes=width * element_bytes, window=mixer.window),)
        case LatentAttention() as mixer:
            index = INDEXER_BYTES_PER_TOKEN / mixer.indexer.pool if mixer.indexer is not None else 0.0
            return (LayerCache(token_bytes=latent_row_bytes(mixer, element_bytes) + index),)
        case CompressedAttention() as mixer:
            row = compressed_row_bytes(mixer, element_bytes)
            near = LayerCache(token_bytes=row, window=mixer.window)
            if not mixer.ratio or not mixer.write_rows:
                return (near,)
            index = INDEXER_BYTES_PER_TOKEN if mixer.indexer is not None else 0.0
            return near, LayerCache(token_bytes=(row + index) / mixer.ratio)
        case GatedDeltaNet() as mixer:
            state = state_bytes * mixer.value_heads * mixer.key_dim * mixer.value_dim
            return (LayerCache(state_bytes=(state + _conv_bytes(mixer)) / tensor),)
        case Mamba2() as mixer:
            state = state_bytes * mixer.heads * mixer.head_dim * mixer.state_dim
            return (LayerCache(state_bytes=(state + _conv_bytes(mixer)) / tensor),)
        case ShortConv() as mixer:
            return (LayerCache(state_bytes=_conv_bytes(mixer) / tensor),)
        case None:
            return ()


def latent_row_bytes(mixer: LatentAttention, element_bytes: float) -> float:
    """Return the bytes of one row of latent attention; sparse kernels keep the rotated part of narrow ones in 16 bits.

    656 bytes of 512 + 64 elements: 8 bits each, a 32-bit scale for 128 of them, 16 bits of the rotated ones
    (`fp8_ds_mla` of vLLM, the quantised cache of SGLang's sparse attention).
    """
    if not mixer.sparse or element_bytes >= 2.0:
        return mixer.cached_dim * element_bytes
    return mixer.kv_rank * (element_bytes + 4 / 128) + 2.0 * mixer.rope_dim


def compressed_row_bytes(mixer: CompressedAttention, element_bytes: float) -> float:
    """Return the bytes of one row of keys and values; narrow formats keep the rotated part in 16 bits, and scales.

    8 bits: one byte an element, two of those that are rotated, and a scale for 64 of the others padded to 8 bytes:
    584 bytes of 512 elements (`fp8_ds_mla`, `MLAAttentionSpec.real_page_size_bytes` of vLLM at 6accb77).
    """
    if element_bytes >= 2.0:
        return mixer.head_dim * element_bytes
    straight = mixer.head_dim - mixer.rope_dim
    return straight * element_bytes + 2.0 * mixer.rope_dim + ceil(straight / 64 / 8) * 8


def _conv_bytes(mixer: GatedDeltaNet | Mamba2 | ShortConv) -> float:
    """Return the 16-bit inputs that the short convolution keeps. [bytes]"""
    return 2.0 * mixer.conv_channels * (mixer.conv_kernel - 1)


def _blocks(tokens: int, block: int) -> int:
    return -(-tokens // block)


@dataclass(frozen=True)
class PagedPool:
    """vLLM's cache of equal pages, shared by layers of different kinds.

    Layers of one kind form groups of equal size; a page holds one block of tokens for all layers of a group, and
    groups that lack layers are padded. Layers with a constant state take one page per sequence, for which the
    block of the attention layers is made larger until their pages are as large.
    """

    cache: StageCache
    block: int = 16

    @cached_property
    def _kinds(self) -> dict[LayerCache, int]:
        kinds: dict[LayerCache, int] = {}
        for layer in self.cache.layers:
            kinds[layer] = kinds.get(layer, 0) + 1
        return kinds

    @cached_property
    def group_size(self) -> int:
        """Return the layers of one group: those of the rarest kind, or of the commonest if it is hardly more."""
        counts = self._kinds.values()
        fewest, most = min(counts), max(counts)
        return most if most < 1.25 * fewest else fewest

    @cached_property
    def groups(self) -> tuple[LayerCache, ...]:
        return tuple(layer for layer, count in self._kinds.items() for _ in range(ceil(count / self.group_size)))

    @cached_property
    def block_tokens(self) -> int:
        """Return the tokens of a block after it was made large enough for a constant state."""
        widest = max(layer.token_bytes for layer in self.cache.layers)
        states = max(layer.state_bytes for layer in self.cache.layers)
        if not states or not widest:
            return self.block
        return self.block * max(1, ceil(states / (widest * self.block)))

    @cached_property
    def page_bytes(self) -> float:
        return max(layer.token_bytes for layer in self.cache.layers) * self.block_tokens

    def pages(self, pool_bytes: float) -> int:
        return floor(pool_bytes / (self.page_bytes * self.group_size))

    def tokens(self, pool_bytes: float, *, length: int | None = None) -> int:
        """Return what vLLM logs as the size of its cache: pages that every group gets, times the block.

        For groups that differ it logs a longest length times how many such sequences fit, where one is given.
        """
        if length is not None and len(self.groups) > 1:
            return int(self.pages(pool_bytes) * length / self.sequence_pages(length))
        return self.pages(pool_bytes) // len(self.groups) * self.block_tokens

    def sequence_pages(self, tokens: int) -> int:
        """Return the pages that a sequence keeps; a window that slides touches one block more than it fills."""
        total = 0
        for layer in self.groups:
            if layer.state_bytes:
                total += 1
                continue
            # The tokens of a page in one layer: layers with narrower rows get longer blocks of equal bytes.
            block = int(self.page_bytes // layer.token_bytes)
            every = _blocks(tokens, block)
            total += every if layer.window is None else min(every, _blocks(layer.window, block) + 1)
        return total


STATE_SHARE, STATE_SLOTS = 0.9, 5
"""SGLang's --mamba-full-memory-ratio, and the states that a running sequence takes with its cache of prefixes
(docs.sglang.io, Qwen3.8-27B, read 2026-11-28: `extra_buffer`, the default)."""
WINDOW_SHARE, COMPRESSED_WINDOW_SHARE = 0.8, 0.1
"""SGLang's --swa-full-tokens-ratio, and what it is with DeepSeek-V4's attention."""


@dataclass(frozen=True)
class SplitPool:
    """SGLang's cache of layers that differ: a pool for each kind, cut by fixed shares when the server starts.

    Layers with a window have room for `window_share` of the tokens of the others, and recurrent states take
    `STATE_SHARE` of the bytes that tokens take (`handle_max_mamba_cache`, `swa_full_tokens_ratio` of 0.5).
    """

    cache: StageCache
    block: int
    window_share: float = WINDOW_SHARE

    @cached_property
    def windowed_share(self) -> float:
        """Return the share of the tokens for which layers with a window have room: all of them where no others are."""
        keep_all = any(layer.token_bytes and layer.window is None for layer in self.cache.layers)
        return self.window_share if keep_all else 1.0

    def tokens(self, pool_bytes: float) -> int:
        """Return the tokens of layers without a window, as SGLang logs them (`max_total_num_tokens`)."""
        share = 1 / (1 + STATE_SHARE) if self.cache.state_bytes else 1.0
        windowed = sum(layer.token_bytes for layer in self.cache.layers if layer.window is not None)
        cell = self.cache.bytes_per_token - windowed * (1 - self.windowed_share)
        return floor(pool_bytes * share / cell / self.block) * self.block

    def sequences(self, pool_bytes: float, tokens: int) -> int:
        held = self.tokens(pool_bytes)
        found = held // max(1, tokens) if self.windowed_share < 1 or not self.cache.windows else held
        if self.cache.windows:
            found = min(found, int(held * self.windowed_share) // max(1, min(tokens, max(self.cache.windows))))
        if self.cache.state_bytes:
            states = pool_bytes * STATE_SHARE / (1 + STATE_SHARE) / self.cache.state_bytes
            found = min(found, floor(states) // STATE_SLOTS)
        return found


def uniform_tokens(cache: StageCache, pool_bytes: float, *, block: int) -> int:
    """Return the tokens that a pool of blocks holds if every layer keeps every token."""
    return floor(pool_bytes / (cache.bytes_per_token * block)) * block
