"""What default configs of transformers lack: values that an architecture cannot do without, and parts that must agree.

A default config describes no published model. Some leave open what every checkpoint sets, and composite ones put the
defaults of two parts together that were never meant for each other. Only default configs are completed, and each
completion gives way to an argument of the user's; a config file is taken as it is.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Content = Mapping[str, Any]
Completion = Callable[[Content], Any]
"""Makes a value from the whole config's content."""


def completed(kind: str, content: Content) -> Iterator[tuple[str, Any]]:
    """Give dotted arguments that a default config of an architecture needs beside its content."""
    yield from _agreeing(content, "")
    for name, value in _COMPLETIONS.get(kind, {}).items():
        yield name, value(content) if callable(value) else value


def _agreeing(content: Content, prefix: str) -> Iterator[tuple[str, Any]]:
    """Let vision parts put out what text parts take in."""
    text, vision = content.get("text_config"), content.get("vision_config")
    if isinstance(text, Mapping) and isinstance(vision, Mapping) and "hidden_size" in text:
        for key in ("out_hidden_size", "text_hidden_size"):
            if key in vision and vision[key] != text["hidden_size"]:
                yield f"{prefix}vision_config.{key}", text["hidden_size"]
    for key, part in content.items():
        if isinstance(part, Mapping) and key.endswith("_config"):
            yield from _agreeing(part, f"{prefix}{key}.")


def _of(path: str) -> Completion:
    """Take another part's value."""

    def take(content: Content) -> Any:
        value: Any = content
        for key in path.split("."):
            value = value[key]
        return value

    return take


def _ratio(path: str, by: str) -> Completion:
    return lambda content: _of(path)(content) // _of(by)(content)


def _first_dense(content: Content) -> list[str]:
    """A first layer without experts, and all others with."""
    return ["dense", *["sparse"] * (content["text_config"]["num_hidden_layers"] - 1)]


def _all_stages(count: int) -> dict[str, Any]:
    """Take features after every stage of a backbone."""
    stages = range(1, count + 1)
    return {
        "backbone_config.out_features": [f"stage{stage}" for stage in stages],
        "backbone_config.out_indices": list(stages),
    }


def _pixel_shuffled(path: str) -> Completion:
    """Take the width of a vision part's features once a pixel shuffle has merged them."""

    def width(content: Content) -> int:
        part = _of(path)(content)
        return int(part["hidden_size"] // part["pixel_shuffle_ratio"] ** 2)

    return width


_INTRACLASS = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    **{
        f"{kind}_{ratio}": [[rows or size, columns or size], [1, 1], [(rows or size) // 2, (columns or size) // 2]]
        for kind, rows, columns in (
            ("vertical_long_to_small_conv", 0, 1),
            ("horizontal_small_to_long_conv", 1, 0),
            ("symmetric_conv_long", 0, 0),
        )
        for ratio, size in (("longratio", 7), ("midratio", 5), ("shortratio", 3))
    },
}
"""Kernel, stride and padding of PaddleOCR's intra-class block (ppocr/modeling/necks/intracl.py)."""

_PADDLE_DETECTOR = {"intraclass_block_config": _INTRACLASS, "scale_factor_list": [1, 2, 4, 8], "kernel_list": [3, 2, 2]}
_SIGLIP_896 = {"image_size": 896, "patch_size": 14}


def _under(prefix: str, values: Content) -> dict[str, Any]:
    return {f"{prefix}.{key}": value for key, value in values.items()}


_COMPLETIONS: dict[str, dict[str, Any]] = {
    "autoformer": {"prediction_length": 24},
    "informer": {"prediction_length": 24},
    "time_series_transformer": {"prediction_length": 24},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_routed_experts": 8},
    "blip-2": {"image_token_index": 50000},
    "instructblip": {"image_token_index": 30000},
    "instructblipvideo": {"video_token_index": 30000},
    "gemma3": _under("vision_config", _SIGLIP_896),
    "shieldgemma2": _under("vision_config", _SIGLIP_896),
    "t5gemma2": _under("encoder.vision_config", _SIGLIP_896),
    "nemotron": {"num_key_value_heads": 8},
    "aria": _under("vision_config", {"image_size": 490, "patch_size": 14}),
    "chameleon": {"vocabulary_map": {"<image>": 8711, "IMGIMGAZ": 4}},
    "idefics3": {"vision_config.image_size": 384},
    "smolvlm": {"vision_config.image_size": 384},
    "modernvbert": {"vision_config.image_size": 512},
    "colmodernvbert": {"vlm_config.vision_config.image_size": 512},
    "qwen2_vl": {"vision_config.hidden_size": _of("text_config.hidden_size")},
    "colqwen2": {"vlm_config.vision_config.hidden_size": _of("vlm_config.text_config.hidden_size")},
    "janus": {"vision_config.projection_dim": _of("text_config.hidden_size")},
    "glm4v": {"text_config.rope_parameters.partial_rotary_factor": 0.5},
    "glm46v": {"text_config.rope_parameters.partial_rotary_factor": 0.5},
    "glmga": {"text_config.rope_parameters.partial_rotary_factor": 0.5},
    "glm4v_moe": {"text_config.rope_parameters.partial_rotary_factor": 0.5, "text_config.head_dim": 128},
    "hunyuan_vl": {
        "text_config.head_dim": _ratio("text_config.hidden_size", "text_config.num_attention_heads"),
        "text_config.rope_parameters.mrope_section": [16, 16, 16, 16],
    },
    "voxtral": {"audio_token_id": 24},
    "nemotron_h_omni": {"image_token_id": 18},
    "llama4": {
        "vision_config.intermediate_size": _pixel_shuffled("vision_config"),
        "vision_config.vision_output_dim": _of("vision_config.projector_output_dim"),
    },
    "emu3": {
        "vocabulary_map": {
            "<image>": 151642,
            "<|extra_200|>": 151846,
            **{f"<|visual token {index:06d}|>": 151854 + index for index in range(32768)},
        }
    },
    "dbrx": {"attn_config.rope_theta": 500000.0, "attn_config.clip_qkv": 8},
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    "hunyuan_v1_dense": {"head_dim": _ratio("hidden_size", "num_attention_heads")},
    "hunyuan_v1_moe": {"head_dim": _ratio("hidden_size", "num_attention_heads")},
    "ministral": {"head_dim": _ratio("hidden_size", "num_attention_heads")},
    "lfm2_moe": {
        "layer_types": lambda content: [
            "full_attention" if layer % 4 == 2 else "conv" for layer in range(content["num_hidden_layers"])
        ]
    },
    "moonshine_streaming": {"num_key_value_heads": _of("num_attention_heads")},
    "vitmatte": {
        "fusion_hidden_sizes": [256, 128, 64, 32],
        "hidden_size": _of("backbone_config.hidden_size"),
        "backbone_config.num_channels": 4,
        "backbone_config.image_size": 512,
    },
    "pp_ocrv5_server_det": _PADDLE_DETECTOR,
    "pp_ocrv6_medium_det": {
        **_PADDLE_DETECTOR,
        "backbone_config": {
            "model_type": "hgnet_v2",
            "arch": "L",
            "return_idx": [0, 1, 2, 3],
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
            "out_indices": [1, 2, 3, 4],
        },
    },
    "pp_ocrv6_small_det": {
        "backbone_config": {
            "model_type": "pp_lcnet_v3",
            "scale": 0.75,
            "divisor": 16,
            "out_features": ["stage2", "stage3", "stage4", "stage5"],
            "out_indices": [2, 3, 4, 5],
        },
    },
    "pp_doclayout_v2": {
        "class_thresholds": lambda content: [0.5] * len(content["id2label"]),
        "class_order": lambda content: list(range(len(content["id2label"]))),
    },
    "uvdoc": _all_stages(6),
    "edgetam": {"vision_config.backbone_config.architecture": "repvit_m1"},
    "deepseek_ocr2": {
        "text_config.mlp_layer_types": _first_dense,
        "text_config.n_routed_experts": 64,
        "text_config.num_experts_per_tok": 6,
        "vision_config.encoder_config.hidden_size": 896,
        "vision_config.encoder_config.num_attention_heads": 14,
        "vision_config.encoder_config.num_key_value_heads": 2,
    },
    "diffusion_gemma": {
        "text_config.num_experts": 128,
        "text_config.top_k_experts": 8,
        "text_config.moe_intermediate_size": 704,
    },
    "lw_detr": {"projector_scale_factors": [1.0]},
    "qwen3_asr": {"audio_config.output_dim": _of("text_config.hidden_size")},
    "deepseek_vl_hybrid": {"vision_config.image_size": 384},
    "ultravbert": {"vision_config.image_size": 512},
    "molmo2": {"adapter_config.text_hidden_size": _of("text_config.hidden_size")},
    "ovis2": {"hidden_size": _of("text_config.hidden_size")},
    "step3p7": {"text_config.sliding_window": 512},
    "perception_lm": {
        "projector_pooling_ratio": 2,
        "vision_config.architecture": "vit_pe_core_large_patch14_336",
        "vision_config.model_args": {
            "embed_dim": 1024,
            "img_size": [448, 448],
            "depth": 23,
            "global_pool": "",
            "use_post_transformer_norm": False,
            "init_values": 0.1,
            "ref_feat_shape": [32, 32],
        },
    },
    "cohere_compass": {
        "text_config.rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 50000.0}}
    },
}
"""By architecture, dotted arguments: values of its published checkpoints, or of another part of the config."""
