"""The facts of a language model that decide its memory and its work: layers, widths, vocabulary, context."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from capplan.llm.core.layers import Attention, CompressedAttention, Experts, LatentAttention, Mixer, Mlp, NgramTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: at most one mixer and at most one MLP, and the parameters of its norms.

    Hybrid models alternate layers that hold only a mixer and layers that hold only an MLP. A layer with an embedding of
    its own adds `side_dim` elements of it per token by a gate and a projection (Gemma 4 E2B); `ngrams` is what one
    looks up for the latest tokens, and `mixing` the matrices [inputs, outputs] that mix its residual streams.
    """

    mixer: Mixer | None
    mlp: Mlp | None
    norm_parameters: int
    side_dim: int = 0
    ngrams: NgramTable | None = None
    mixing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTower:
    """The image encoder of a multimodal model with its projector. [parameters]

    It has `layers` layers. `attention_width` is the sum of the widths of those in which every patch attends to all of
    its image, and `window_width` that of those in which it attends to `window_patches` patches. [elements]
    """

    kind: str
    parameters: int
    layers: int = 0
    attention_width: int = 0
    window_width: int = 0
    window_patches: int = 0

    @property
    def hidden_dim(self) -> float:
        """Return the width of its layers, in the mean. [elements]"""
        return (self.attention_width + self.window_width) / max(self.layers, 1)

    def attention_flops(self, patches: float) -> float:
        """Compute the FLOPs of attention between the patches of one image: queries by keys, and weights by values."""
        windowed = self.window_width * min(patches, float(self.window_patches))
        return 4.0 * patches * (self.attention_width * patches + windowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftHead:
    """What makes a few layers a head that drafts tokens for another model, from whose hidden states it starts.

    A matrix joins the states of `fused` layers of that model. The head embeds tokens as that model does. `rows` are
    those of its output head, None where it uses that model's, too. `is_parallel` says that one pass drafts all tokens
    of a step, as DFlash does, instead of one.
    """

    fused: int
    rows: int | None = None
    is_parallel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryPositions:
    """Rotary positions of full attention: those of the training, what the configuration says of them besides, and by
    which factor YaRN stretches them, None where it does not.
    """

    trained: int
    settings: tuple[tuple[str, str | float], ...]
    factor: float | None = None


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A decoder-only language model.

    `name` is how the user finds it. `family` is the `model_type` of its configuration. `max_positions` is the
    longest context that the configuration allows, None where it does not state one. `rope_dim` is the width of the
    rotary embedding, 0 without one; engines keep it as tables of `rope_rows` rows in all.
    `position_rows` counts learned position embeddings, `side_rows` the tokens of embeddings that layers have of their
    own, 0 without such. `vision` is None for text models; `vision_note` names an
    encoder whose size is unknown. `draft_layers` counts layers for multi-token prediction, which engines load only for
    speculation; they are in no total here. `ignored_fields` are those of its configuration that decided nothing here.
    An element of recurrent states takes `state_bytes`, None where the configuration leaves it to the engine. `own_code`
    says that the model or its tokenizer is code of the checkpoint's repository. `draft_head` is None for models that
    answer by themselves, `rotary` where nothing is known of positions that can be stretched.
    """

    name: str
    family: str
    hidden_dim: int
    vocab_size: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    max_positions: int | None
    rope_dim: int = 0
    rope_rows: int = 0
    norm_parameters: int = 0
    head_bias: bool = False
    position_rows: int = 0
    side_rows: int = 0
    vision: VisionTower | None = None
    vision_note: str | None = None
    draft_layers: int = 0
    ignored_fields: tuple[str, ...] = ()
    publisher_id: str | None = None
    state_bytes: float | None = None
    own_code: bool = False
    draft_head: DraftHead | None = None
    rotary: RotaryPositions | None = None

    def __hash__(self) -> int:
        """Hash a few fields: searches look models up hundreds of thousands of times, and few have the same name."""
        return hash((self.name, self.family, self.hidden_dim, self.vocab_size, len(self.layers)))

    @property
    def output_rows(self) -> int:
        """Return the tokens that the output head chooses among."""
        own = None if self.draft_head is None else self.draft_head.rows
        return own or self.vocab_size

    @cached_property
    def layer_kinds(self) -> tuple[tuple[Layer, int], ...]:
        """Return the different layers of the model, each with how many there are of it."""
        runs: list[tuple[Layer, int]] = []
        for layer in self.layers:  # neighbours are mostly equal, and comparing them is quicker than hashing each
            if runs and (layer is runs[-1][0] or layer == runs[-1][0]):
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((layer, 1))
        kinds: dict[Layer, int] = {}
        for layer, count in runs:
            kinds[layer] = kinds.get(layer, 0) + count
        return tuple(kinds.items())

    def attention_layers(self) -> Iterator[tuple[int, Attention | LatentAttention | CompressedAttention]]:
        """Yield the index and the mixer of every layer with softmax attention."""
        for index, layer in enumerate(self.layers):
            if isinstance(layer.mixer, Attention | LatentAttention | CompressedAttention):
                yield index, layer.mixer

    def expert_layers(self) -> Iterator[tuple[int, Experts]]:
        """Yield the index and the experts of every mixture-of-experts layer."""
        for index, layer in enumerate(self.layers):
            if isinstance(layer.mlp, Experts):
                yield index, layer.mlp

    @property
    def special_attention(self) -> str:
        """Return the kind of attention for which engines need kernels of their own: empty for what all of them have."""
        mixers = [mixer for _, mixer in self.attention_layers()]
        if any(isinstance(mixer, CompressedAttention) for mixer in mixers):
            return "compressed"
        return "sparse latent" if any(isinstance(mixer, LatentAttention) and mixer.sparse for mixer in mixers) else ""

    @property
    def side_dim(self) -> int:
        """Return the elements of a token's embeddings that layers have of their own, over all layers."""
        return sum(layer.side_dim for layer in self.layers)

    @property
    def draft_index(self) -> int:
        """Return the index of the layer that a drafting one is like: the last with a KV cache of its own, if any."""
        own = (
            index
            for index, mixer in self.attention_layers()
            if not isinstance(mixer, Attention) or mixer.kv_owner is None
        )
        return max(own, default=len(self.layers) - 1)

    @property
    def is_moe(self) -> bool:
        return any(True for _ in self.expert_layers())

    @property
    def queries_per_head(self) -> float:
        """Return how many query heads share a key-value head, at most over all layers; 1 without such attention."""
        mixers = [layer.mixer for layer in self.layers if isinstance(layer.mixer, Attention)]
        return max((mixer.query_heads / mixer.kv_heads for mixer in mixers), default=1.0)

    @property
    def widest_mlp(self) -> int:
        """Return the largest width of an MLP, of an expert or of the shared experts."""
        widths = [
            max(mlp.width, mlp.shared_width) if isinstance(mlp, Experts) else mlp.width
            for mlp in (layer.mlp for layer in self.layers)
            if mlp is not None
        ]
        return max(widths, default=0)
