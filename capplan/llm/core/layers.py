"""The kinds of layer that open language models are built of: attention, linear attention, MLP and experts.

Each type holds the sizes that its formulas need and nothing else. Widths are in elements, ranks too.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Softmax attention with separate keys and values: multi-head, grouped-query or multi-query.

    `window` is the number of latest tokens that the layer attends to, None for all of them; `chunked` says
    that the window is a fixed block of positions (Llama 4) instead of a sliding one. `output_gate` doubles the
    query projection. `keys_are_values` means that one projection serves as keys and values (Gemma 4); the cache holds
    both, because keys are normed and rotated and values are not. `kv_owner` is the index of an earlier layer whose
    cache this layer reads instead of its own.
    `query_norm` and `key_norm` are the parameters of the norms on queries and keys; `sinks` counts learned
    attention-sink logits.
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

    def mean_keys(self, sequence: int) -> float:
        """Return the keys that a causal token attends to, in the mean over the tokens of a sequence.

        s/2 without a window, w·(1 − w/2s) behind one that slides, and w/2 within chunks.
        """
        seen = min(sequence, self.window or sequence)
        return seen / 2 if self.chunked else seen * (1 - seen / (2 * sequence))


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """The selector of DeepSeek's sparse attention: small heads that score which tokens the attention reads.

    `top_k` is the number of cached tokens that a query attends to after the selection.
    """

    heads: int
    head_dim: int
    top_k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA): keys and values are rebuilt from one compressed row per token.

    `query_rank` is None where queries are projected directly. The cache holds `kv_rank + rope_dim` elements
    per token, whatever the number of heads.
    """

    query_heads: int
    query_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    indexer: Indexer | None = None

    @property
    def cached_dim(self) -> int:
        """Return the elements that one token keeps in the cache of this layer."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaNet:
    """Linear attention of the Qwen3-Next and Qwen3.5 families: a constant state per sequence, no KV cache."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int

    @property
    def conv_channels(self) -> int:
        """Return the channels of the short convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """A Mamba-2 state-space layer: a constant state per sequence, no KV cache."""

    heads: int
    head_dim: int
    state_dim: int
    groups: int
    conv_kernel: int

    @property
    def inner_dim(self) -> int:
        """Return the width between the input and the output projection."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        """Return the channels of the short convolution: inputs, B and C."""
        return self.inner_dim + 2 * self.groups * self.state_dim


Mixer = Attention | LatentAttention | GatedDeltaNet | Mamba2
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
    the hidden state, None where they work on the hidden state itself. `router_bias` counts as one parameter per expert.
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
    dense: DenseMlp | None = None


Mlp = DenseMlp | Experts
"""What works on each token alone."""
