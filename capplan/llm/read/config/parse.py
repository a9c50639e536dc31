"""Turn a Hugging Face `config.json` into the architecture of a language model, or say why that is not possible."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from capplan.errors import UnknownNameError
from capplan.llm.core.architecture import Architecture, DraftHead, Layer, RotaryPositions, VisionTower
from capplan.llm.core.drafting import EAGLE3_STATES, joined
from capplan.llm.core.layers import (
    Attention,
    CompressedAttention,
    DenseMlp,
    Experts,
    GatedDeltaNet,
    LatentAttention,
    Mamba2,
    Mixer,
    Mlp,
)
from capplan.llm.read.config.fields import Fields
from capplan.llm.read.config.layers import (
    head_dim,
    read_attention,
    read_dense,
    read_experts,
    read_mamba,
    read_mixers,
    read_mlps,
    read_ngrams,
)
from capplan.llm.read.config.traits import Traits, families, refuse_unread, refuse_unusual

_POSITIONS = ("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length")
_TEXT_FAMILIES = {"qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "minimax_m3_vl": "minimax_m3"}
"""Multimodal families whose published configurations state no family of the language model apart."""
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
    traits = families()[family]
    fields = Fields(values, where=where, defaults={**traits.defaults, "model_type": family})
    fields.understood("model_type")
    layers, draft_head = _layers(fields, traits), _draft_head(fields)
    if draft_head is not None and not draft_head.is_parallel:
        layers = tuple(replace(layer, mixer=joined(layer.mixer)) for layer in layers)
    hidden = fields.size("hidden_size", "n_embd", "d_model")
    vision, vision_note = read_vision(root, hidden_dim=hidden)
    return Architecture(
        name=name,
        family=family,
        hidden_dim=hidden,
        vocab_size=fields.size("vocab_size"),
        layers=layers,
        tied_embeddings=_tied(fields, root, traits),
        max_positions=_longest(fields),
        rope_dim=_rope_dim(fields, layers) if traits.rotary else 0,
        rope_rows=_rope_rows(fields, root, traits),
        norm_parameters=_final_parameters(fields, traits, hidden),
        head_bias=traits.head_bias or fields.flag("lm_head_bias"),
        position_rows=fields.size(*_POSITIONS) + traits.extra_positions if traits.learned_positions else 0,
        side_rows=fields.optional_size("vocab_size_per_layer_input") or 0,
        vision=vision,
        vision_note=vision_note,
        draft_layers=fields.optional_size(*_DRAFTS, least=0) or 0,
        state_bytes=_state_bytes(fields, layers),
        own_code=traits.own_code,
        draft_head=draft_head,
        rotary=_rotary(fields, traits) if traits.rotary else None,
        ignored_fields=refuse_unread(fields),
    )


def _final_parameters(fields: Fields, traits: Traits, hidden: int) -> int:
    """Return the parameters of the last norm, and of what joins residual streams before it."""
    streams = fields.optional_size("hc_mult") or 0
    norm = hidden * (2 if traits.norm_bias else 1) if traits.final_norm else 0
    if (rank := fields.optional_size("hc_lowrank")) is not None:
        return norm + fields.size("hc_count") * hidden * (2 * rank + 1)
    return norm + (_stream_parameters(streams, hidden, 1, 1) if streams and traits.joins_streams else 0)


def _draft_head(fields: Fields) -> DraftHead | None:
    """Return what makes a configuration that of a head that drafts: EAGLE-3's vocabulary of drafts, or DFlash's.

    EAGLE-3's heads join three hidden states (Li et al., arXiv 2503.01840), DFlash's those of `target_layer_ids`.
    """
    if (block := fields.object("dflash_config")) is not None:
        places = block.raw("target_layer_ids")
        fields.understood("block_size", "num_target_layers")
        return DraftHead(fused=len(places) if isinstance(places, list) and places else 1, is_parallel=True)
    rows = fields.optional_size("draft_vocab_size")
    fields.understood("eagle_config")
    return None if rows is None else DraftHead(fused=EAGLE3_STATES, rows=rows)


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
        if family is not None and family in families():
            return family
    family = fields.word("model_type") or root.word("model_type")
    if family is None:
        raise root.error("the configuration has no model_type")
    raise UnknownNameError(
        f"model_type in {root.where}:",
        family,
        families(),
        hint="Its layers are not guessed; see docs/llm-memory.md for the families whose layers are known.",
    )


def _tied(fields: Fields, root: Fields, traits: Traits) -> bool:
    for source in (fields, root):
        for name in ("tie_embedding", "tie_word_embeddings"):
            if source.raw(name) is not None:
                return source.flag(name)
    return traits.tied


def _layers(fields: Fields, traits: Traits) -> tuple[Layer, ...]:
    if traits.layout == "a mixer or an MLP in each, as a pattern states":
        return _pattern_layers(fields, traits)
    count = fields.size("num_hidden_layers", "n_layer")
    if count > MOST_LAYERS:
        raise fields.error(f"num_hidden_layers {count} is above {MOST_LAYERS}")
    if traits.layout == "sizes of every block":
        # The layers of a pruned Llama (Nemotron NAS), each of which has sizes of its own.
        hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
        return tuple(
            _pruned_layer(block, hidden=hidden, heads=heads, head_width=head_dim(fields))
            for block in fields.objects("block_configs", length=count)
        )
    mixers = read_mixers(fields, traits, layer_count=count)
    mlps = read_mlps(fields, traits, layer_count=count)
    if fields.flag("use_double_wide_mlp"):
        mlps = [
            replace(mlp, width=2 * mlp.width)
            if isinstance(mixer, Attention) and mixer.kv_owner is not None and isinstance(mlp, DenseMlp)
            else mlp
            for mixer, mlp in zip(mixers, mlps, strict=True)
        ]
    layers = tuple(_layer(mixer, mlp, fields, traits) for mixer, mlp in zip(mixers, mlps, strict=True))
    tables = read_ngrams(fields, count)
    layers = tuple(replace(layer, ngrams=tables.get(index)) for index, layer in enumerate(layers))
    if not traits.mamba_beside:
        return layers
    beside = Layer(mixer=read_mamba(fields), mlp=None, norm_parameters=0)  # both see the input behind one norm
    return tuple(part for layer in layers for part in (beside, layer))


def _layer(mixer: Mixer | None, mlp: Mlp | None, fields: Fields, traits: Traits) -> Layer:
    hidden = fields.size("hidden_size", "n_embd", "d_model")
    count = traits.norms if fields.flag("use_sandwich_norm", default=True) else 2
    if traits.parallel_flag is not None and not fields.flag("new_decoder_architecture"):
        name, default = traits.parallel_flag
        count = 1 if fields.flag(name, default=default) else count
    norms = count * hidden * (2 if traits.norm_bias else 1)
    if isinstance(mlp, Experts) and mlp.dense is not None:
        norms += 3 * hidden  # Gemma 4 norms the experts' input and both outputs
    streams = fields.optional_size("hc_mult") or 0
    mixed = 2 * _stream_parameters(streams, hidden, 2 + streams, 3) if streams else 0
    side = fields.optional_size("hidden_size_per_layer_input", least=0) or 0
    norms += mixed + traits.layer_scalars + (hidden if side else 0)
    norms += traits.expert_norms * hidden if isinstance(mlp, Experts) else 0
    mixing: tuple[tuple[int, int], ...] = ()
    if (rank := fields.optional_size("hc_lowrank")) is not None:  # Qwen4-Exp mixes before attention and before the MLP
        joint = fields.size("hc_count") * hidden
        mixing, norms = 2 * ((joint, rank), (rank, joint), (joint, joint // hidden)), norms + 2 * joint
    return Layer(mixer=mixer, mlp=mlp, norm_parameters=norms, side_dim=side, mixing=mixing)


def _stream_parameters(streams: int, hidden: int, outputs: int, scales: int) -> int:
    """Return the parameters that mix the residual streams of hyper-connections: a projection, a bias and scales.

    DeepSeek-V4 technical report, 2.2: each of `outputs` numbers per stream is a product with all streams.
    """
    return outputs * streams * (streams * hidden + 1) + scales


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
        if heads % group:
            raise attention.error(f"{heads} query heads are not a multiple of n_heads_in_group {group}")
        mixer = Attention(query_heads=heads, kv_heads=heads // group, key_dim=head_width, value_dim=head_width)
    if not ffn.flag("no_op"):
        # Two thirds of `ffn_mult` times the hidden width, rounded up to 256, as the published code does.
        factor = ffn.raw("ffn_mult")
        if not isinstance(factor, int | float) or not 0 < factor < 1000:
            raise ffn.error("ffn_mult must be a number above 0")
        width = int(2 * factor * hidden / 3)
        pruned_width = -(-width // 256) * 256
        mlp = DenseMlp(width=pruned_width)
    return Layer(mixer=mixer, mlp=mlp, norm_parameters=hidden * ((mixer is not None) + (mlp is not None)))


def _rope_scaling(fields: Fields) -> Fields | None:
    parameters = fields.object("rope_parameters")
    if parameters is not None and parameters.has("full_attention"):
        parameters = parameters.object("full_attention")
    return fields.object("rope_scaling") or parameters


def _longest(fields: Fields) -> int | None:
    """Return the most positions: those stated, or by YaRN its factor times the original ones where that is more.

    So engines derive it (`_get_and_verify_max_len` of vLLM); model cards name the factor for contexts that the
    published configuration does not state.
    """
    stated, scaling = fields.optional_size(*_POSITIONS), _rope_scaling(fields)
    if stated is None or scaling is None or "yarn" not in (scaling.raw("rope_type"), scaling.raw("type")):
        return stated
    factor, original = scaling.raw("factor"), scaling.optional_size("original_max_position_embeddings")
    if not isinstance(factor, int | float) or not 1 <= factor <= 1024:
        return stated
    return max(stated, int(original * factor)) if original else stated


def _rotary(fields: Fields, traits: Traits) -> RotaryPositions | None:
    """Return the positions that YaRN can stretch: those of one plain rotary embedding of all layers."""
    parameters, longest = fields.object("rope_parameters"), fields.optional_size(*_POSITIONS)
    if longest is None or traits.local_rope or fields.object("rope_scaling") is not None:
        return None
    if parameters is not None and parameters.raw("rope_type") not in (None, "default"):
        return None
    kept = ((name, (parameters or fields).raw(name)) for name in ("rope_theta", "partial_rotary_factor"))
    settings = tuple((name, value) for name, value in kept if isinstance(value, int | float))
    return RotaryPositions(trained=traits.trained_positions.get(str(longest), longest), settings=settings)


def _rope_rows(fields: Fields, root: Fields, traits: Traits) -> int:
    """Return the rows of all rotary tables, as vLLM builds them.

    Linear scaling stretches a table by its factor. Gemma 3 and 4 keep one table for global and one for local
    layers. `rope_scaling` is the key of older configurations; newer ones state `rope_parameters`, by kind of layer
    where kinds differ. The multimodal sizes of Gemma 3 scale the global table by 8, also where the configuration states
    neither.
    """
    longest, scaling = _longest(fields) or 0, _rope_scaling(fields)
    factor = 8.0 if scaling is None and root.word("model_type") == "gemma3" else 1.0
    if scaling is not None and "linear" in (scaling.raw("rope_type"), scaling.raw("type")):
        stated = scaling.raw("factor")
        factor = stated if isinstance(stated, int | float) and 1 <= stated <= 1024 else factor
    return int(longest * factor) + (longest if traits.local_rope else 0)


def _rope_dim(fields: Fields, layers: tuple[Layer, ...]) -> int:
    """Return the width that rotary embedding turns, 0 where no layer has attention."""
    for layer in layers:
        if isinstance(layer.mixer, LatentAttention | CompressedAttention):
            return layer.mixer.rope_dim
        if isinstance(layer.mixer, Attention):
            stated = fields.optional_size("rotary_dim")
            share = fields.raw("partial_rotary_factor") or 1
            if not isinstance(share, int | float) or not 0 < share <= 1:
                raise fields.error("partial_rotary_factor must be above 0 and at most 1")
            return stated or int(layer.mixer.key_dim * share)
    return 0


def read_vision(root: Fields, *, hidden_dim: int) -> tuple[VisionTower | None, str | None]:
    """Return the image encoder with its projector, or a note where no formula covers it."""
    fields = root.object("vision_config")
    family = root.word("model_type") or ""
    if fields is None:
        classes = root.raw("architectures")
        multimodal = isinstance(classes, list) and any("ForConditionalGeneration" in str(name) for name in classes)
        return None, f"the image encoder of {family} is not in the configuration" if multimodal else None
    encoder = _ENCODERS.get(family)
    if encoder is None:
        return None, f"the image encoder of {family} is not counted"
    parameters = encoder.count(fields, hidden_dim)
    if encoder.projects_chosen_layers:
        layers = root.raw("vision_feature_layer")
        taken = len(layers) if isinstance(layers, list) else 1
        parameters += taken * fields.size("hidden_size") * hidden_dim
    parameters += hidden_dim if encoder.learns_line_end else 0
    hidden = fields.size(*encoder.width_fields)
    layer_count = fields.size("depth") if fields.raw("depth") else fields.size("num_hidden_layers")
    widths = _attention_widths(encoder.reach, fields, hidden=hidden, layer_count=layer_count)
    return VisionTower(kind=family, parameters=parameters, layers=layer_count, **widths), None


_Reach = Literal["image", "windows", "tile"]
"""How far an image encoder attends: the image, windows but in `fullatt_block_indexes`, a tile of `image_size`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoder:
    """What one family's image encoder is: how its parameters are counted, and what else its code fixes.

    `width_fields` may state the width of layers. `projects_chosen_layers` says that the projector takes the layers of
    `vision_feature_layer` side by side, `learns_line_end` that it learns an end of line.
    """

    count: Callable[[Fields, int], int]
    reach: _Reach = "image"
    width_fields: tuple[str, ...] = ("hidden_size",)
    projects_chosen_layers: bool = False
    learns_line_end: bool = False


def _attention_widths(reach: _Reach, fields: Fields, *, hidden: int, layer_count: int) -> dict[str, int]:
    match reach:
        case "image":
            return {"attention_width": layer_count * hidden}
        case "windows":
            whole = fields.indexes("fullatt_block_indexes", length=layer_count)
            side = fields.size("window_size", default=112) // fields.size("patch_size")
            return {
                "attention_width": len(whole) * hidden,
                "window_width": (layer_count - len(whole)) * hidden,
                "window_patches": side * side,
            }
        case "tile":
            side = fields.size("image_size") // fields.size("patch_size")
            return {"window_width": layer_count * hidden, "window_patches": side * side}


def _encoder_block(hidden: int, width: int) -> int:
    """Return the parameters of one ViT block with biases: four projections, two MLP matrices, two layer norms."""
    return 4 * (hidden * hidden + hidden) + 2 * hidden * width + width + hidden + 4 * hidden


def _siglip(fields: Fields, hidden_dim: int) -> int:
    """Count SigLIP with Gemma 3's projector: patches with a bias, learned positions, a last layer norm."""
    hidden, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    patch, side = fields.size("patch_size"), fields.size("image_size")
    patches = hidden * 3 * patch * patch + hidden
    positions = (side // patch) ** 2 * hidden
    blocks = layers * _encoder_block(hidden, fields.size("intermediate_size"))
    return patches + positions + blocks + 2 * hidden + hidden + hidden * hidden_dim


def _pixtral(fields: Fields, hidden_dim: int) -> int:
    """Count Pixtral with Mistral 3's projector: no biases, gated MLPs, RMS norms, patches merged two by two."""
    hidden, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    width, patch = fields.size("intermediate_size"), fields.size("patch_size")
    blocks = layers * (4 * hidden * hidden + 3 * hidden * width + 2 * hidden)
    merger = 4 * hidden * hidden
    projector = hidden + merger + hidden * hidden_dim + hidden_dim * hidden_dim
    return hidden * 3 * patch * patch + hidden + blocks + projector


def _qwen_vl(fields: Fields, hidden_dim: int) -> int:
    """Count Qwen3-VL and Qwen3.5: learned positions, a merger of patches, one more for each deep-stack layer."""
    hidden, width = fields.size("hidden_size"), fields.size("intermediate_size")
    patch, merge = fields.size("patch_size"), fields.size("spatial_merge_size") ** 2
    times, channels = fields.size("temporal_patch_size"), fields.size("in_channels", default=3)
    out = fields.size("out_hidden_size", default=hidden_dim)
    patches = hidden * channels * times * patch * patch + hidden
    positions = fields.size("num_position_embeddings") * hidden
    blocks = fields.size("depth") * _encoder_block(hidden, width)
    merged = hidden * merge
    products = merged * merged + merged + merged * out + out
    deep = fields.indexes("deepstack_visual_indexes", length=fields.size("depth"))
    return patches + positions + blocks + (2 * hidden + products) + len(deep) * (2 * merged + products)


def _llava(fields: Fields, hidden_dim: int) -> int:
    """Count CLIP or SigLIP of LLaVA with its projector, but for the matrix whose inputs are the chosen layers."""
    hidden, patch = fields.size("hidden_size"), fields.size("patch_size")
    side = fields.size("image_size") // patch
    blocks = fields.size("num_hidden_layers") * _encoder_block(hidden, fields.size("intermediate_size"))
    patches = hidden * 3 * patch * patch + hidden_dim * hidden_dim + 2 * hidden_dim
    if fields.word("model_type") == "clip_vision_model":
        return patches + hidden + (side * side + 1) * hidden + blocks + 4 * hidden
    return patches + hidden + side * side * hidden + blocks + 2 * hidden


def _qwen2_vl(fields: Fields, hidden_dim: int) -> int:
    """Count Qwen2-VL: no positions, a merger of 2 × 2 patches."""
    hidden, patch = fields.size("embed_dim"), fields.size("patch_size")
    times, channels = fields.size("temporal_patch_size", default=2), fields.size("in_channels", "in_chans", default=3)
    merged = hidden * fields.size("spatial_merge_size", default=2) ** 2
    blocks = fields.size("depth") * _encoder_block(hidden, hidden * fields.size("mlp_ratio", default=4))
    products = merged * merged + merged + merged * hidden_dim + hidden_dim
    return hidden * channels * times * patch * patch + blocks + 2 * hidden + products


def _qwen25_vl(fields: Fields, hidden_dim: int) -> int:
    """Count Qwen2.5-VL: RMS norms and gated MLPs with biases."""
    hidden, width, patch = fields.size("hidden_size"), fields.size("intermediate_size"), fields.size("patch_size")
    times, channels = fields.size("temporal_patch_size", default=2), fields.size("in_channels", "in_chans", default=3)
    merged = hidden * fields.size("spatial_merge_size", default=2) ** 2
    mlp = 3 * hidden * width + 2 * width + hidden
    blocks = fields.size("depth") * (4 * hidden * hidden + 4 * hidden + mlp + 2 * hidden)
    out = fields.size("out_hidden_size", default=hidden_dim)
    return hidden * channels * times * patch * patch + blocks + hidden + merged * merged + merged + merged * out + out


def _llama4(fields: Fields, hidden_dim: int) -> int:
    """Count Llama 4: a class token, an adapter of two matrices, and one projection."""
    hidden, patch = fields.size("hidden_size"), fields.size("patch_size")
    side = fields.size("image_size") // patch
    blocks = fields.size("num_hidden_layers") * _encoder_block(hidden, fields.size("intermediate_size"))
    inner, outer = fields.size("projector_input_dim"), fields.size("projector_output_dim")
    adapter = fields.size("intermediate_size") * inner + outer * outer
    ends = hidden + (side * side + 1) * hidden + 4 * hidden
    return hidden * 3 * patch * patch + blocks + ends + adapter + fields.size("vision_output_dim") * hidden_dim


_ENCODERS: Mapping[str, _Encoder] = {
    "llava": _Encoder(count=_llava, projects_chosen_layers=True),
    "llava_next": _Encoder(count=_llava, projects_chosen_layers=True, learns_line_end=True),
    "qwen2_vl": _Encoder(count=_qwen2_vl, width_fields=("embed_dim", "hidden_size")),
    "qwen2_5_vl": _Encoder(count=_qwen25_vl, reach="windows"),
    "llama4": _Encoder(count=_llama4, reach="tile"),
    "gemma3": _Encoder(count=_siglip),
    "mistral3": _Encoder(count=_pixtral),
    "qwen3_vl": _Encoder(count=_qwen_vl),
    "qwen3_vl_moe": _Encoder(count=_qwen_vl),
    "qwen3_5": _Encoder(count=_qwen_vl),
    "qwen3_5_moe": _Encoder(count=_qwen_vl),
    "qwen4_exp": _Encoder(count=_qwen_vl),
}
"""Image encoders by `model_type` of the whole configuration."""
