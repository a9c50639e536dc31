"""Turn a Hugging Face `config.json` into the architecture of a language model, or say why that is not possible."""

from collections.abc import Mapping, Sequence
from typing import Any

from capplan.errors import UnknownNameError
from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.layers import Attention, DenseMlp, Experts, GatedDeltaNet, LatentAttention, Mamba2, Mixer, Mlp
from capplan.llm.read.config.fields import Fields
from capplan.llm.read.config.layers import (
    head_dim,
    read_attention,
    read_dense,
    read_experts,
    read_mamba,
    read_mixers,
    read_mlps,
)
from capplan.llm.read.config.traits import TRAITS, LayerLayout, Traits
from capplan.llm.read.config.unusual import refuse_unread, refuse_unusual
from capplan.llm.read.config.vision import read_vision

_POSITIONS = ("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length")
_TEXT_FAMILIES = {"qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2"}
"""Multimodal families whose older configurations hold the language model's fields at the top level."""
_DRAFTS = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers")
MOST_LAYERS = 4096
"""No model has more layers; a larger number is damage or an attack."""


def parse_config(config: Mapping[str, Any], *, name: str, where: str | None = None) -> Architecture:
    """Return the architecture that a model configuration describes.

    Args:
        config: The parsed `config.json`. Fields that decide nothing here are not read.
        name: What the answer calls the model.
        where: The file that error messages name; the model's name where it is None.

    Raises:
        SpecError: A field is missing or absurd.
        UnknownNameError: The family is not one of those whose implementation is known here.
        UnusualModelError: A layer is of a kind that no formula covers.
    """
    where = where or name
    root = Fields(config, where=where)
    nested = config.get("text_config") or config.get("llm_config") or config.get("language_config")
    values = nested if isinstance(nested, dict) else config
    fields = Fields(values, where=where)
    refuse_unusual(fields)
    family = _family(fields, root)
    traits = TRAITS[family]
    fields = Fields(values, where=where, defaults={**traits.defaults, "model_type": family})
    fields.understood("model_type")
    layers = _layers(fields, traits)
    hidden = fields.size("hidden_size", "n_embd", "d_model")
    vision, vision_note = read_vision(root, hidden_dim=hidden)
    return Architecture(
        name=name,
        family=family,
        hidden_dim=hidden,
        vocab_size=fields.size("vocab_size"),
        layers=layers,
        tied_embeddings=_tied(fields, root, traits),
        max_positions=fields.optional_size(*_POSITIONS),
        rope_dim=_rope_dim(fields, layers) if traits.rotary else 0,
        rope_rows=_rope_rows(fields, root, traits),
        norm_parameters=hidden * (2 if traits.norm_bias else 1) if traits.final_norm else 0,
        head_bias=traits.head_bias or fields.flag("lm_head_bias"),
        position_rows=fields.size(*_POSITIONS) + traits.extra_positions if traits.learned_positions else 0,
        vision=vision,
        vision_note=vision_note,
        draft_layers=fields.optional_size(*_DRAFTS, least=0) or 0,
        state_bytes=_state_bytes(fields, layers),
        ignored_fields=refuse_unread(fields),
    )


_STATE_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}


def _state_bytes(fields: Fields, layers: Sequence[Layer]) -> float | None:
    """Return the bytes of an element of recurrent states that the configuration states."""
    if not any(isinstance(layer.mixer, GatedDeltaNet | Mamba2) for layer in layers):
        return None
    word = fields.word("mamba_ssm_cache_dtype") or fields.word("mamba_ssm_dtype")
    return _STATE_BYTES.get((word or "").removeprefix("torch."))


def _family(fields: Fields, root: Fields) -> str:
    for source in (fields, root):
        stated = source.word("model_type")
        family = _TEXT_FAMILIES.get(stated or "", stated)
        if family is not None and family in TRAITS:
            return family
    family = fields.word("model_type") or root.word("model_type")
    if family is None:
        raise root.error("the configuration has no model_type")
    raise UnknownNameError(
        f"model_type in {root.where}:",
        family,
        TRAITS,
        hint="Its layers are not guessed; see docs/llm-memory.md for the families whose layers are known.",
    )


def _tied(fields: Fields, root: Fields, traits: Traits) -> bool:
    for source in (fields, root):
        if source.raw("tie_word_embeddings") is not None:
            return source.flag("tie_word_embeddings")
    return traits.tied


def _layers(fields: Fields, traits: Traits) -> tuple[Layer, ...]:
    if traits.layout is LayerLayout.PATTERN:
        return _pattern_layers(fields, traits)
    count = fields.size("num_hidden_layers", "n_layer")
    if count > MOST_LAYERS:
        raise fields.error(f"num_hidden_layers {count} is above {MOST_LAYERS}")
    if traits.layout is LayerLayout.BLOCKS:
        return _block_layers(fields, count)
    mixers = read_mixers(fields, traits, layer_count=count)
    mlps = read_mlps(fields, traits, layer_count=count)
    return tuple(_layer(mixer, mlp, fields, traits) for mixer, mlp in zip(mixers, mlps, strict=True))


def _layer(mixer: Mixer | None, mlp: Mlp | None, fields: Fields, traits: Traits) -> Layer:
    hidden = fields.size("hidden_size", "n_embd", "d_model")
    count = traits.norms
    if traits.parallel_flag is not None and not fields.flag("new_decoder_architecture"):
        name, default = traits.parallel_flag
        count = 1 if fields.flag(name, default=default) else count
    norms = count * hidden * (2 if traits.norm_bias else 1)
    if isinstance(mlp, Experts) and mlp.dense is not None:
        norms += 3 * hidden  # Gemma 4 norms the experts' input and both outputs
    return Layer(mixer=mixer, mlp=mlp, norm_parameters=norms + traits.layer_scalars)


_PATTERN = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_PATTERN_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}


def _pattern_layers(fields: Fields, traits: Traits) -> tuple[Layer, ...]:
    """Return the layers of Nemotron-H, each of which holds one mixer or one MLP."""
    kinds = fields.raw("layers_block_type")
    if kinds is None:
        pattern = fields.word("hybrid_override_pattern")
        if pattern is None:
            raise fields.error("the configuration has no hybrid_override_pattern")
        kinds = [_PATTERN.get(letter, letter) for letter in pattern]
    if isinstance(kinds, list):
        kinds = [_PATTERN_WORDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    if not isinstance(kinds, list) or len(kinds) > MOST_LAYERS or any(k not in _PATTERN.values() for k in kinds):
        raise fields.error(f"layers must be of the kinds {', '.join(_PATTERN.values())}, at most {MOST_LAYERS}")
    stated = fields.optional_size("num_hidden_layers")
    if stated is not None and stated != len(kinds):
        raise fields.error(f"num_hidden_layers is {stated}, but the pattern has {len(kinds)} layers")
    hidden = fields.size("hidden_size")
    built: dict[str, Layer] = {}
    for kind in dict.fromkeys(kinds):
        mixer: Mixer | None = None
        mlp: Mlp | None = None
        if kind == "mamba":
            mixer = read_mamba(fields)
        elif kind == "attention":
            mixer = read_attention(fields, traits)
        else:
            mlp = read_experts(fields, traits) if kind == "moe" else read_dense(fields, traits)
        built[kind] = Layer(mixer=mixer, mlp=mlp, norm_parameters=hidden)
    return tuple(built[kind] for kind in kinds)


def _block_layers(fields: Fields, count: int) -> tuple[Layer, ...]:
    """Return the layers of a pruned Llama (Nemotron NAS), each of which has sizes of its own."""
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    return tuple(
        _pruned_layer(block, hidden=hidden, heads=heads, head_width=head_dim(fields))
        for block in fields.objects("block_configs", length=count)
    )


def _pruned_layer(block: Fields, *, hidden: int, heads: int, head_width: int) -> Layer:
    mixer: Mixer | None = None
    mlp: Mlp | None = None
    attention, ffn = block.object("attention"), block.object("ffn")
    if attention is None or ffn is None:
        raise block.error("a block needs attention and ffn")
    for part in (attention, ffn):
        for unusual in ("replace_with_linear", "sparsify", "num_sink_tokens", "window_length"):
            if part.has(unusual):
                raise part.error(f"{unusual} is not covered by any formula here")
    if not attention.flag("no_op"):
        group = attention.size("n_heads_in_group")
        mixer = Attention(query_heads=heads, kv_heads=heads // group, key_dim=head_width, value_dim=head_width)
    if not ffn.flag("no_op"):
        mlp = DenseMlp(width=_pruned_width(ffn, hidden))
    return Layer(mixer=mixer, mlp=mlp, norm_parameters=hidden * ((mixer is not None) + (mlp is not None)))


def _pruned_width(ffn: Fields, hidden: int) -> int:
    """Return two thirds of `ffn_mult` times the hidden width, rounded up to 256, as the published code does."""
    factor = ffn.raw("ffn_mult")
    if not isinstance(factor, int | float) or not 0 < factor < 1000:
        raise ffn.error("ffn_mult must be a number above 0")
    width = int(2 * factor * hidden / 3)
    return -(-width // 256) * 256


def _rope_rows(fields: Fields, root: Fields, traits: Traits) -> int:
    """Return the rows of all rotary tables, as vLLM builds them.

    Linear scaling stretches a table by its factor. Gemma 3 and 4 keep one table for global and one for local
    layers. `rope_scaling` is the spelling of older configurations; newer ones state `rope_parameters`, by kind of layer
    where kinds differ. The multimodal sizes of Gemma 3 scale the global table by 8, also where the configuration states
    neither.
    """
    longest = fields.optional_size(*_POSITIONS) or 0
    parameters = fields.object("rope_parameters")
    if parameters is not None and parameters.has("full_attention"):
        parameters = parameters.object("full_attention")
    scaling = fields.object("rope_scaling") or parameters
    factor = 8.0 if scaling is None and root.word("model_type") == "gemma3" else 1.0
    if scaling is not None and "linear" in (scaling.raw("rope_type"), scaling.raw("type")):
        stated = scaling.raw("factor")
        factor = stated if isinstance(stated, int | float) and 1 <= stated <= 1024 else factor
    return int(longest * factor) + (longest if traits.local_rope else 0)


def _rope_dim(fields: Fields, layers: tuple[Layer, ...]) -> int:
    """Return the width that rotary embedding turns, 0 where no layer has attention."""
    for layer in layers:
        if isinstance(layer.mixer, LatentAttention):
            return layer.mixer.rope_dim
        if isinstance(layer.mixer, Attention):
            stated = fields.optional_size("rotary_dim")
            share = fields.raw("partial_rotary_factor") or 1
            if not isinstance(share, int | float) or not 0 < share <= 1:
                raise fields.error("partial_rotary_factor must be above 0 and at most 1")
            return stated or int(layer.mixer.key_dim * share)
    return 0
