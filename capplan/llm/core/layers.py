"""The kinds of layer that open language models are built of: attention, linear attention, MLP and experts.

Each type holds the sizes that its formulas need and nothing else. Widths are in elements, ranks too.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """The selector of sparse attention: small heads that score which tokens, or blocks of them, the attention reads.

    `top_k` is the number of cached tokens that a query attends to after the selection. `pool` tokens share one row that
    is scored, made by a learned gate where it is more than one (GLM-5.3-Flash).
    """

    heads: int
    head_dim: int
    top_k: int
    pool: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Softmax attention with separate keys and values: multi-head, grouped-query or multi-query.

    `window` is the number of latest tokens that the layer attends to, None for all of them; `chunked` says
    that the window is a fixed block of positions (Llama 4) instead of a sliding one. `output_gate` doubles the
    query projection. `keys_are_values` means that one projection serves as keys and values (Gemma 4); the cache holds
    both, because keys are normed and rotated and values are not. `kv_owner` is the index of an earlier layer whose
    cache this layer reads instead of its own. `joins_embedding` says that it attends to the embedding of a token beside
    the hidden state, so that queries, keys and values have twice as many inputs (EAGLE-3).
    A layer with an `indexer` reads only the tokens of the blocks that it selects (MiniMax-M3).
    `query_norm` and `key_norm` are the parameters of the norms on queries and keys; `sinks` counts learned
    attention-sink logits. `head_gate` scales the output of each head by a projection of the hidden state.
    """

    query_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    chunked: bool = False
    output_gate: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    query_norm: int = 0
    key_norm: int = 0
    sinks: int = 0
    keys_are_values: bool = False
    kv_owner: int | None = None
    indexer: Indexer | None = None
    joins_embedding: bool = False
    head_gate: bool = False

    def mean_keys(self, sequence: int) -> float:
        """Return the keys that a causal token attends to, in the mean over the tokens of a sequence.

        s/2 without a window, w·(1 − w/2s) behind one that slides or is selected, and w/2 within chunks.
        """
        seen = min(sequence, self.window or sequence, self.indexer.top_k if self.indexer is not None else sequence)
        return seen / 2 if self.chunked else seen * (1 - seen / (2 * sequence))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA): keys and values are rebuilt from one compressed row per token.

    `query_rank` is None where queries are projected directly. The cache holds `kv_rank + rope_dim` elements
    per token, whatever the number of heads. A gate of the output has `gate_width` elements, 0 without one. `sparse`
    layers read the rows that an indexer chose, their own or that of a layer before.
    """

    query_heads: int
    query_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    indexer: Indexer | None = None
    gate_width: int = 0
    sparse: bool = False

    @property
    def cached_dim(self) -> int:
        """Return the elements that one token keeps in the cache of this layer."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention:
    """Attention of DeepSeek-V4: one row of `head_dim` elements per token is the key and the value of all heads.

    The latest `window` tokens are kept as they are, and every `ratio` tokens add one compressed row; `ratio` is 0 where
    the layer sees its window alone. With an indexer a query reads at most `top_k` compressed rows, else all of them.
    The output passes `output_groups` projections to `output_rank` elements each. (DeepSeek-V4 technical report, 2.3.)

    DeepSeek-V4.1 has `plain_rows`: they do not overlap, have no biases of positions, and are keys of the indexer behind
    a projection. Layers there share: one that does not `write_rows` reads those of the layer before it that does, and
    one that does not `select` takes the choice of the last indexer. (`modular_deepseek_v41.py` of transformers.)
    """

    query_heads: int
    query_rank: int
    head_dim: int
    rope_dim: int
    output_groups: int
    output_rank: int
    window: int
    ratio: int = 0
    indexer: Indexer | None = None
    plain_rows: bool = False
    write_rows: bool = True
    select: bool = True

    def mean_keys(self, sequence: int) -> float:
        """Return the rows that a causal token attends to, in the mean: its window, and compressed rows before it."""
        near = min(sequence, self.window)
        near_mean = near * (1 - near / (2 * sequence))
        if not self.ratio:
            return near_mean
        far = sequence / 2 / self.ratio
        return near_mean + (min(far, self.indexer.top_k) if self.indexer is not None else far)

    @property
    def overlap(self) -> int:
        """Return the blocks of tokens that a compressed row is made of: two where an indexer chooses rows."""
        return 2 if self.indexer is not None and not self.plain_rows else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramTable:
    """Rows that the hashes of the latest tokens choose, projected into the residual streams of a layer.

    A token reads `lookups` of the `rows`, each of `row_dim` elements of `row_bits`, scales included. A projection makes
    a key for each of `streams` residual streams and a value of them (the engram of DeepSeek-V4.1), which a normed
    convolution of `conv_kernel` tokens may follow (the PLE of Qwen3.8-Flash-Next).
    """

    rows: int
    row_dim: int
    lookups: int
    streams: int
    row_bits: float
    conv_kernel: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaNet:
    """Linear attention with a delta rule: a constant state per sequence, no KV cache.

    Qwen3-Next and Qwen3.5 have one decay per head (`decay_rank` None). Kimi delta attention has one per channel of the
    keys, from a projection of rank `decay_rank`, 0 for a direct one. `gate_rank` is the rank of the output gate's
    projection, None for a direct one.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    decay_rank: int | None = None
    gate_rank: int | None = None

    @property
    def conv_channels(self) -> int:
        """Return the channels of the short convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """A Mamba-2 state-space layer: a constant state per sequence, no KV cache; the gated output may be normed."""

    heads: int
    head_dim: int
    state_dim: int
    groups: int
    conv_kernel: int
    gate_norm: bool = True

    @property
    def inner_dim(self) -> int:
        """Return the width between the input and the output projection."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        """Return the channels of the short convolution: inputs, B and C."""
        return self.inner_dim + 2 * self.groups * self.state_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortConv:
    """A gated short convolution, as LFM2 has, whose state is the latest inputs of a sequence; it has no KV cache."""

    conv_channels: int
    conv_kernel: int
    bias: bool = False


Mixer = Attention | LatentAttention | CompressedAttention | GatedDeltaNet | Mamba2 | ShortConv
"""What mixes information between tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMlp:
    """A feed-forward block; a gated one has three matrices, a plain one two."""

    width: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts: a router chooses `per_token` of `count` feed-forward blocks of width `width`.

    `shared_width` is the total width of the experts that every token passes; `shared_gate` says that a gate of
    one output scales them. `latent_dim` is the width of the experts' inputs where they work on a projection of
    the hidden state, None where they work on the hidden state itself, and `latent_norm` says that it is normed.
    `router_bias` counts as one parameter per expert.
    `router_extra` counts further vectors of the router. `dense` is an ordinary MLP beside the experts (Gemma 4).
    """

    count: int
    per_token: int
    width: int
    gated: bool = True
    bias: bool = False
    shared_width: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    router_extra: int = 0
    latent_dim: int | None = None
    latent_norm: bool = False
    dense: DenseMlp | None = None


Mlp = DenseMlp | Experts
"""What works on each token alone."""
