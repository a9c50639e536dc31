"""Every weight of a language model as a matrix with its sizes, its role and how tensor parallelism cuts it.

The same list serves three questions: how many parameters there are, how many bytes a GPU holds, and which
matrix products a step runs. Formulas follow the published implementations; they reproduce the parameter
totals that publishers state.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.layers import (
    Attention,
    CompressedAttention,
    DenseMlp,
    Experts,
    GatedDeltaNet,
    LatentAttention,
    Mamba2,
    Mixer,
    ShortConv,
)


class WeightRole(StrEnum):
    """What a weight is for; quantisation formats treat roles differently."""

    EMBEDDING = "embedding"
    HEAD = "head"
    ATTENTION = "attention"
    INDEXER = "indexer"
    LINEAR_ATTENTION = "linear attention"
    MLP = "mlp"
    EXPERT = "expert"
    SHARED_EXPERT = "shared expert"
    ROUTER = "router"
    VECTOR = "vector"
    CONVOLUTION = "convolution"
    VISION = "vision"
    NGRAMS = "n-gram table"


class Split(StrEnum):
    """How tensor parallelism divides a weight among GPUs.

    `OUTPUTS` and `INPUTS` cut one side of the matrix, `KV_HEADS` cuts the outputs by heads until each GPU has one and
    then repeats them, `VOCABULARY` pads the rows before it cuts them, `NONE` leaves a whole copy on each GPU.
    """

    NONE = "none"
    OUTPUTS = "outputs"
    INPUTS = "inputs"
    KV_HEADS = "kv heads"
    VOCABULARY = "vocabulary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One weight matrix [outputs, inputs], or `copies` equal ones; a vector has one input.

    `product` names the matrix product that engines run for it: tensors of one layer with the same product are
    concatenated (queries, keys and values; gate and up). It is empty for what is not a matrix product.
    `heads` is the number of heads along a side that is cut by heads. `own_bits` is None where the format of the weights
    decides.
    """

    name: str
    role: WeightRole
    inputs: int
    outputs: int
    split: Split
    product: str = ""
    copies: int = 1
    heads: int = 1
    own_bits: float | None = None

    @property
    def parameters(self) -> int:
        """Return the number of parameters of all copies."""
        return self.inputs * self.outputs * self.copies


def _vector(name: str, size: int, *, split: Split = Split.NONE, copies: int = 1) -> Iterator[Tensor]:
    if size:
        yield Tensor(name=name, role=WeightRole.VECTOR, inputs=1, outputs=size, split=split, copies=copies)


def _attention_tensors(attention: Attention, hidden: int) -> Iterator[Tensor]:
    """Yield the projections of softmax attention; a layer that reads another one's cache has only queries."""
    queries = attention.query_heads * attention.key_dim * (2 if attention.output_gate else 1)
    keys = attention.kv_heads * attention.key_dim
    values = 0 if attention.keys_are_values else attention.kv_heads * attention.value_dim
    mixed = attention.query_heads * attention.value_dim
    owns_cache, seen = attention.kv_owner is None, hidden * (2 if attention.joins_embedding else 1)
    yield _matrix("q", WeightRole.ATTENTION, seen, queries, Split.OUTPUTS, "qkv", heads=attention.query_heads)
    if owns_cache:
        yield _matrix("k", WeightRole.ATTENTION, seen, keys, Split.KV_HEADS, "qkv", heads=attention.kv_heads)
        if values:
            yield _matrix("v", WeightRole.ATTENTION, seen, values, Split.KV_HEADS, "qkv", heads=attention.kv_heads)
    yield _matrix("o", WeightRole.ATTENTION, mixed, hidden, Split.INPUTS, "o", heads=attention.query_heads)
    if attention.qkv_bias:
        yield from _vector("qkv bias", queries + (keys + values if owns_cache else 0), split=Split.OUTPUTS)
    yield from _vector("o bias", hidden if attention.output_bias else 0)
    if attention.head_gate:
        heads = attention.query_heads
        yield _matrix("gate", WeightRole.ATTENTION, hidden, heads, Split.OUTPUTS, "gate", heads=heads)
    yield from _vector("q norm", attention.query_norm)
    yield from _vector("k norm", attention.key_norm if owns_cache else 0)
    yield from _vector("sinks", attention.sinks, split=Split.OUTPUTS)
    if (indexer := attention.indexer) is not None:
        rows = (indexer.heads + 1) * indexer.head_dim
        yield _matrix("indexer qk", WeightRole.INDEXER, hidden, rows, Split.NONE, "indexer qk")
        yield from _vector("indexer norms", 2 * indexer.head_dim)


def _matrix(  # noqa: PLR0917 - a table of matrices reads best by position
    name: str,
    role: WeightRole,
    inputs: int,
    outputs: int,
    split: Split,
    product: str,
    *,
    heads: int = 1,
    copies: int = 1,
) -> Tensor:
    return Tensor(
        name=name, role=role, inputs=inputs, outputs=outputs, split=split, product=product, heads=heads, copies=copies
    )


def _latent_tensors(attention: LatentAttention, hidden: int) -> Iterator[Tensor]:
    """Yield the projections of latent attention: the compressing ones are whole on every GPU."""
    heads, query_dim = attention.query_heads, attention.nope_dim + attention.rope_dim
    if attention.query_rank is None:
        yield _matrix("q", WeightRole.ATTENTION, hidden, heads * query_dim, Split.OUTPUTS, "q", heads=heads)
    else:
        rank = attention.query_rank
        yield _matrix("q_a", WeightRole.ATTENTION, hidden, rank, Split.NONE, "q_a kv_a")
        yield from _vector("q_a norm", rank)
        yield _matrix("q_b", WeightRole.ATTENTION, rank, heads * query_dim, Split.OUTPUTS, "q_b", heads=heads)
    yield _matrix("kv_a", WeightRole.ATTENTION, hidden, attention.cached_dim, Split.NONE, "q_a kv_a")
    yield from _vector("kv_a norm", attention.kv_rank)
    rebuilt = heads * (attention.nope_dim + attention.value_dim)
    yield _matrix("kv_b", WeightRole.ATTENTION, attention.kv_rank, rebuilt, Split.OUTPUTS, "kv_b", heads=heads)
    yield _matrix("o", WeightRole.ATTENTION, heads * attention.value_dim, hidden, Split.INPUTS, "o", heads=heads)
    if attention.gate_width:
        yield _matrix("gate", WeightRole.ATTENTION, hidden, attention.gate_width, Split.OUTPUTS, "gate", heads=heads)
    if attention.indexer is not None:
        indexer, query_rank = attention.indexer, attention.query_rank or hidden
        queries = indexer.heads * indexer.head_dim
        yield _matrix("indexer q", WeightRole.INDEXER, query_rank, queries, Split.NONE, "indexer q")
        yield _matrix("indexer k", WeightRole.INDEXER, hidden, indexer.head_dim, Split.NONE, "indexer k")
        yield _matrix("indexer weights", WeightRole.INDEXER, hidden, indexer.heads, Split.NONE, "indexer k")
        yield from _vector("indexer norm", 2 * indexer.head_dim)
        if indexer.pool > 1:
            yield _matrix("indexer pool", WeightRole.INDEXER, hidden, indexer.head_dim, Split.NONE, "indexer k")
            yield from _vector("indexer positions", indexer.pool * indexer.head_dim)


def _compressed_tensors(attention: CompressedAttention, hidden: int) -> Iterator[Tensor]:
    """Yield the projections of compressed attention, of its compressor and of the indexer's own compressor."""
    heads, width, rank = attention.query_heads, attention.head_dim, attention.query_rank
    groups, role = attention.output_groups, WeightRole.ATTENTION
    yield _matrix("q_a", role, hidden, rank, Split.NONE, "q_a kv")
    yield _matrix("kv", role, hidden, width, Split.NONE, "q_a kv")
    yield from _vector("q_a and kv norms", rank + width)
    yield _matrix("q_b", role, rank, heads * width, Split.OUTPUTS, "q_b", heads=heads)
    output = groups * attention.output_rank
    yield _matrix("o_a", role, heads * width // groups, output, Split.OUTPUTS, "o_a", heads=groups)
    yield _matrix("o_b", role, output, hidden, Split.INPUTS, "o_b", heads=groups)
    yield from _vector("sinks", heads, split=Split.OUTPUTS)
    if attention.ratio and attention.write_rows:
        yield from _compressor_tensors("compressor", role, hidden, width, attention)
    if attention.indexer is not None and attention.select:
        indexer = attention.indexer
        if not attention.plain_rows:
            yield from _compressor_tensors("indexer k", WeightRole.INDEXER, hidden, indexer.head_dim, attention)
        elif attention.write_rows:
            yield _matrix("indexer k", WeightRole.INDEXER, width, indexer.head_dim, Split.NONE, "indexer k")
            yield from _vector("indexer k norm", indexer.head_dim)
        queries = indexer.heads * indexer.head_dim
        yield _matrix("indexer q", WeightRole.INDEXER, rank, queries, Split.NONE, "indexer q")
        yield _matrix("indexer weights", WeightRole.INDEXER, hidden, indexer.heads, Split.NONE, "indexer weights")


def _compressor_tensors(
    name: str, role: WeightRole, hidden: int, width: int, attention: CompressedAttention
) -> Iterator[Tensor]:
    """Yield the rows and their gates before they are summed, a bias for each position of a block, and a norm."""
    rows, positions = attention.overlap * width, 0 if attention.plain_rows else attention.ratio
    gated = 2 if attention.ratio > 1 else 1  # a row of one token needs no gate
    yield _matrix(name, role, hidden, gated * rows, Split.NONE, name)
    yield from _vector(f"{name} positions and norm", positions * rows + width)


def _delta_tensors(mixer: GatedDeltaNet, hidden: int) -> Iterator[Tensor]:
    """Yield the weights of gated delta attention: queries, keys, values, an output gate, write strengths and decays."""
    keys, values = mixer.key_heads * mixer.key_dim, mixer.value_heads * mixer.value_dim
    role, heads = WeightRole.LINEAR_ATTENTION, mixer.value_heads
    direct = 2 * keys + (2 if mixer.gate_rank is None else 1) * values + (keys if mixer.decay_rank == 0 else 0)
    yield _matrix("in", role, hidden, direct, Split.OUTPUTS, "in", heads=mixer.key_heads)
    by_head = heads * (2 if mixer.decay_rank is None else 1)
    yield _matrix("gates", role, hidden, by_head, Split.OUTPUTS, "gates", heads=heads)
    for name, rank, width in (("decay", mixer.decay_rank, keys), ("gate", mixer.gate_rank, values)):
        if rank:
            yield _matrix(f"{name} a", role, hidden, rank, Split.NONE, "gates a")
            yield _matrix(f"{name} b", role, rank, width, Split.OUTPUTS, f"{name} b", heads=heads)
    yield Tensor(
        name="conv",
        role=WeightRole.CONVOLUTION,
        inputs=mixer.conv_kernel,
        outputs=mixer.conv_channels,
        split=Split.OUTPUTS,
    )
    yield _matrix("out", role, values, hidden, Split.INPUTS, "out", heads=heads)
    yield from _vector("decay", heads + (heads if mixer.decay_rank is None else keys), split=Split.OUTPUTS)
    yield from _vector("gate norm", mixer.value_dim)


def _mamba_tensors(mixer: Mamba2, hidden: int) -> Iterator[Tensor]:
    """Yield the weights of a Mamba-2 layer; the convolution has a bias."""
    inner, role = mixer.inner_dim, WeightRole.LINEAR_ATTENTION
    outputs = 2 * inner + 2 * mixer.groups * mixer.state_dim + mixer.heads
    yield _matrix("in", role, hidden, outputs, Split.OUTPUTS, "in", heads=mixer.groups)
    yield Tensor(
        name="conv",
        role=WeightRole.CONVOLUTION,
        inputs=mixer.conv_kernel + 1,
        outputs=mixer.conv_channels,
        split=Split.OUTPUTS,
    )
    yield _matrix("out", role, inner, hidden, Split.INPUTS, "out", heads=mixer.heads)
    yield from _vector("decay", 3 * mixer.heads, split=Split.OUTPUTS)
    yield from _vector("gate norm", inner if mixer.gate_norm else 0, split=Split.OUTPUTS)


def _conv_tensors(mixer: ShortConv, hidden: int) -> Iterator[Tensor]:
    """Yield the projection to two gates and the input, the convolution of each channel, and the projection back."""
    width, role = mixer.conv_channels, WeightRole.LINEAR_ATTENTION
    yield _matrix("in", role, hidden, 3 * width, Split.OUTPUTS, "in")
    yield Tensor(name="conv", role=WeightRole.CONVOLUTION, inputs=mixer.conv_kernel, outputs=width, split=Split.OUTPUTS)
    yield _matrix("out", role, width, hidden, Split.INPUTS, "out")
    yield from _vector("conv biases", 4 * width + hidden if mixer.bias else 0)


def _block_tensors(
    name: str, role: WeightRole, hidden: int, width: int, *, gated: bool, bias: bool, copies: int = 1
) -> Iterator[Tensor]:
    """Yield the matrices of one feed-forward block: up, its gate, and down."""
    if not width:
        return
    first = f"{name} gate_up" if gated else f"{name} up"
    up = (2 if gated else 1) * width
    yield _matrix(first, role, hidden, up, Split.OUTPUTS, first, heads=up, copies=copies)
    yield _matrix(f"{name} down", role, width, hidden, Split.INPUTS, f"{name} down", heads=width, copies=copies)
    if bias:
        yield from _vector(f"{name} up bias", up, split=Split.OUTPUTS, copies=copies)
        yield from _vector(f"{name} down bias", hidden, copies=copies)


def _dense_tensors(mlp: DenseMlp, hidden: int) -> Iterator[Tensor]:
    return _block_tensors("mlp", WeightRole.MLP, hidden, mlp.width, gated=mlp.gated, bias=mlp.bias)


def _expert_tensors(mlp: Experts, hidden: int) -> Iterator[Tensor]:
    """Yield the router, the experts, the shared experts and the dense block next to them."""
    yield _matrix("router", WeightRole.ROUTER, hidden, mlp.count, Split.NONE, "router")
    yield from _vector("router bias", mlp.count if mlp.router_bias else 0)
    yield from _vector("router scales", mlp.router_extra)
    inner = mlp.latent_dim or hidden
    yield from _vector("latent norm", inner if mlp.latent_norm else 0)
    if mlp.latent_dim is not None:
        yield _matrix("latent in", WeightRole.SHARED_EXPERT, hidden, inner, Split.NONE, "latent in")
        yield _matrix("latent out", WeightRole.SHARED_EXPERT, inner, hidden, Split.NONE, "latent out")
    yield from _block_tensors(
        "expert", WeightRole.EXPERT, inner, mlp.width, gated=mlp.gated, bias=mlp.bias, copies=mlp.count
    )
    yield from _block_tensors("shared", WeightRole.SHARED_EXPERT, hidden, mlp.shared_width, gated=mlp.gated, bias=False)
    if mlp.shared_gate:
        yield _matrix("shared gate", WeightRole.ROUTER, hidden, 1, Split.NONE, "shared gate")
    if mlp.dense is not None:
        yield from _dense_tensors(mlp.dense, hidden)


def _mixer_tensors(mixer: Mixer, hidden: int) -> Iterator[Tensor]:
    match mixer:
        case Attention():
            return _attention_tensors(mixer, hidden)
        case LatentAttention():
            return _latent_tensors(mixer, hidden)
        case CompressedAttention():
            return _compressed_tensors(mixer, hidden)
        case GatedDeltaNet():
            return _delta_tensors(mixer, hidden)
        case Mamba2():
            return _mamba_tensors(mixer, hidden)
        case ShortConv():
            return _conv_tensors(mixer, hidden)


def layer_tensors(layer: Layer, *, hidden_dim: int) -> tuple[Tensor, ...]:
    tensors: list[Tensor] = []
    if layer.mixer is not None:
        tensors += _mixer_tensors(layer.mixer, hidden_dim)
    if layer.mlp is not None:
        mlp = layer.mlp
        tensors += _dense_tensors(mlp, hidden_dim) if isinstance(mlp, DenseMlp) else _expert_tensors(mlp, hidden_dim)
    if layer.side_dim:
        tensors.append(_matrix("side gate", WeightRole.MLP, hidden_dim, layer.side_dim, Split.NONE, "side gate"))
        tensors.append(_matrix("side out", WeightRole.MLP, layer.side_dim, hidden_dim, Split.NONE, "side out"))
    if (table := layer.ngrams) is not None:
        tensors.append(
            Tensor(
                name="n-grams", role=WeightRole.NGRAMS, inputs=table.row_dim, outputs=table.rows, split=Split.OUTPUTS,
                own_bits=table.row_bits,
            )
        )  # fmt: skip
        found, written = table.lookups * table.row_dim, (table.streams + 1) * hidden_dim
        tensors.append(_matrix("n-gram kv", WeightRole.ATTENTION, found, written, Split.NONE, "n-gram kv"))
        vectors = 3 + table.conv_kernel if table.conv_kernel else 2
        tensors += _vector("n-gram scales", vectors * table.streams * hidden_dim)
    for index, (inputs, outputs) in enumerate(layer.mixing):
        tensors.append(_matrix(f"streams {index}", WeightRole.ROUTER, inputs, outputs, Split.NONE, f"streams {index}"))
    tensors += _vector("norms", layer.norm_parameters)
    return tuple(tensors)


def embedding_tensors(architecture: Architecture) -> tuple[Tensor, ...]:
    """List the token and position embeddings, which the first pipeline stage holds.

    A head that drafts has the embeddings of the model it drafts for, and a matrix that joins that model's hidden
    states, once a step for the tokens that were accepted.
    """
    vocab, hidden = architecture.vocab_size, architecture.hidden_dim
    if architecture.draft_head is not None:
        fused = architecture.draft_head.fused * hidden
        return (Tensor(name="fusion", role=WeightRole.ATTENTION, inputs=fused, outputs=hidden, split=Split.NONE),)
    tensors = [
        Tensor(name="embedding", role=WeightRole.EMBEDDING, inputs=hidden, outputs=vocab, split=Split.VOCABULARY)
    ]
    tensors += _vector("positions", architecture.position_rows * hidden)
    if (side := architecture.side_dim) and architecture.side_rows:
        rows = architecture.side_rows
        tensors += [
            Tensor(
                name="layers' embeddings", role=WeightRole.EMBEDDING, inputs=side, outputs=rows, split=Split.VOCABULARY
            ),
            _matrix("layers' inputs", WeightRole.MLP, hidden, side, Split.NONE, ""),
            *_vector("layers' inputs norm", architecture.layers[0].side_dim),
        ]
    return tuple(tensors)


def head_tensors(architecture: Architecture) -> tuple[Tensor, ...]:
    """List the last norm and the output head, which the last pipeline stage holds; a tied head is the embedding."""
    vocab, hidden, draft = architecture.output_rows, architecture.hidden_dim, architecture.draft_head
    tensors = [*_vector("final norm", architecture.norm_parameters)]
    if draft is not None and draft.rows is None:
        return tuple(tensors)
    if not architecture.tied_embeddings:
        tensors.append(_matrix("lm_head", WeightRole.HEAD, hidden, vocab, Split.VOCABULARY, "lm_head"))
    tensors += _vector("lm_head bias", vocab if architecture.head_bias else 0, split=Split.VOCABULARY)
    return tuple(tensors)


def all_tensors(architecture: Architecture) -> Iterator[Tensor]:
    """Yield every weight of the language model, layer by layer, without the vision tower and draft layers."""
    yield from embedding_tensors(architecture)
    for layer in architecture.layers:
        yield from layer_tensors(layer, hidden_dim=architecture.hidden_dim)
    yield from head_tensors(architecture)


def count_parameters(architecture: Architecture) -> int:
    """Count the parameters of the language model, without the vision tower and draft layers."""
    outside = sum(tensor.parameters for tensor in (*embedding_tensors(architecture), *head_tensors(architecture)))
    return outside + sum(
        count * sum(tensor.parameters for tensor in layer_tensors(layer, hidden_dim=architecture.hidden_dim))
        for layer, count in architecture.layer_kinds
    )


def count_active_parameters(architecture: Architecture) -> int:
    """Count the parameters that one token passes: chosen experts and rows of n-grams only, with embeddings and head."""
    tables = [layer.ngrams for layer in architecture.layers if layer.ngrams is not None]
    idle = sum((table.rows - table.lookups) * table.row_dim for table in tables)
    for _, experts in architecture.expert_layers():
        for tensor in _expert_tensors(experts, architecture.hidden_dim):
            if tensor.copies == experts.count and tensor.name.startswith("expert"):
                idle += tensor.parameters * (experts.count - experts.per_token) // experts.count
    return count_parameters(architecture) - idle
