"""What configs of transformers and their forward methods do not say, by architecture and family.

A default config describes no published model. Some leave open what every checkpoint sets, and composite ones put the
defaults of two parts together that were never meant for each other. Only default configs are completed, and each
completion gives way to an argument of the user's; a config file is taken as it is.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from capplan.probe.transformers.architecture import (
    PADDLE_DETECTOR,
    SIGLIP_896,
    Content,
    FamilyFacts,
    SpectrogramOrder,
    all_stages,
    first_layer_dense,
    one_in,
    one_per_square,
    packed,
    patch_count,
    pixel_shuffled,
    quotient_of,
    scaled_by_downsample_ratio,
    stated,
    two_by_two_tiles,
    under,
    value_of,
    width_after_pixel_shuffle,
)

AUDIO: Mapping[str, FamilyFacts] = {
    "audioflamingo3": FamilyFacts(frames_per_token=4),
    "clvp": FamilyFacts(inputs=("input_ids", "input_features"), spectrogram=SpectrogramOrder.BINS_FIRST),
    "csm": FamilyFacts(inputs=("input_ids",)),
    "dac": FamilyFacts(has_audio_channel=True),
    "fastspeech2_conformer": FamilyFacts(inputs=("input_ids",)),
    "fun_asr_nano": FamilyFacts(frames=166, stacked_frames=7, frames_per_token=1),
    "glmasr": FamilyFacts(spectrogram=SpectrogramOrder.BINS_FIRST, frames=3000, frames_per_token=8),
    "granite_speech5_ctc": FamilyFacts(stacked_frames=4),
    "moonshine_streaming": FamilyFacts(completions={"num_key_value_heads": value_of("num_attention_heads")}),
    "moss_transcribe_diarize": FamilyFacts(frames_per_token=8),
    "musicflamingo": FamilyFacts(frames_per_token=4),
    "nemo_speechlm": FamilyFacts(frames_per_token=8),
    "neucodec": FamilyFacts(has_audio_channel=True, spectrogram=SpectrogramOrder.TIME_FIRST, frames=500),
    "pe_audio": FamilyFacts(has_audio_channel=True),
    "pe_audio_encoder": FamilyFacts(has_audio_channel=True),
    "pe_audio_video": FamilyFacts(
        inputs=("pixel_values_videos", "input_values"), image_side=336, has_audio_channel=True
    ),
    "qwen3_asr": FamilyFacts(
        spectrogram=SpectrogramOrder.BINS_FIRST,
        frames_per_token=100 / 13,
        completions={"audio_config.output_dim": value_of("text_config.hidden_size")},
    ),
    "seamless_m4t": FamilyFacts(spectrogram=SpectrogramOrder.TIME_FIRST),
    "seamless_m4t_v2": FamilyFacts(spectrogram=SpectrogramOrder.TIME_FIRST),
    "speech-encoder-decoder": FamilyFacts(inputs=("input_values", "decoder_input_ids")),
    "speech_to_text": FamilyFacts(spectrogram=SpectrogramOrder.TIME_FIRST),
    "vibevoice_acoustic_tokenizer": FamilyFacts(has_audio_channel=True),
    "voxtral": FamilyFacts(frames_per_token=8, completions={"audio_token_id": 24}),
    "voxtral_realtime": FamilyFacts(spectrogram=SpectrogramOrder.BINS_FIRST),
    "wav2vec2-bert": FamilyFacts(spectrogram=SpectrogramOrder.TIME_FIRST),
    "xcodec": FamilyFacts(has_audio_channel=True),
    "xcodec2": FamilyFacts(has_audio_channel=True, spectrogram=SpectrogramOrder.TIME_FIRST, frames=500),
}


DETECTION: Mapping[str, FamilyFacts] = {
    "conditional_detr": FamilyFacts(image_side=800),
    "d_fine": FamilyFacts(image_side=640),
    "dab-detr": FamilyFacts(image_side=800),
    "deformable_detr": FamilyFacts(image_side=800),
    "deimv2": FamilyFacts(image_side=640),
    "detr": FamilyFacts(image_side=800),
    "grounding-dino": FamilyFacts(image_side=800),
    "lw_detr": FamilyFacts(image_side=640, completions={"projector_scale_factors": [1.0]}),
    "mm-grounding-dino": FamilyFacts(image_side=800),
    "omdet-turbo": FamilyFacts(image_side=640),
    "rf_detr": FamilyFacts(image_side=560),
    "rt_detr": FamilyFacts(image_side=640),
    "rt_detr_v2": FamilyFacts(image_side=640),
    "table-transformer": FamilyFacts(image_side=800),
}


DOCUMENTS: Mapping[str, FamilyFacts] = {
    "deepseek_ocr2": FamilyFacts(
        image_side=1024,
        image_tokens=one_per_square(step=64, beside=1),
        completions={
            "text_config.mlp_layer_types": first_layer_dense,
            "text_config.n_routed_experts": 64,
            "text_config.num_experts_per_tok": 6,
            "vision_config.encoder_config.hidden_size": 896,
            "vision_config.encoder_config.num_attention_heads": 14,
            "vision_config.encoder_config.num_key_value_heads": 2,
        },
    ),
    "dots3_note": FamilyFacts(takes_patch_grid=True),
    "florence2": FamilyFacts(image_side=768, image_tokens=one_per_square(step=32, beside=1)),
    "got_ocr2": FamilyFacts(image_tokens=one_in(16)),
    "granite_docling": FamilyFacts(images=1, image_tokens=one_in(16)),
    "layoutlmv2": FamilyFacts(inputs=("input_ids", "bbox", "image")),
    "lighton_ocr": FamilyFacts(takes_image_sizes=True, image_tokens=pixel_shuffled),
    "paddleocr_vl": FamilyFacts(takes_patch_grid=True, has_unfolded_patches=True),
    "pix2struct": FamilyFacts(inputs=("flattened_patches", "decoder_input_ids")),
    "pp_chart2table": FamilyFacts(image_tokens=one_in(16)),
    "pp_doclayout_v2": FamilyFacts(
        completions={
            "class_thresholds": lambda content: [0.5] * len(content["id2label"]),
            "class_order": lambda content: list(range(len(content["id2label"]))),
        }
    ),
    "pp_ocrv5_server_det": FamilyFacts(completions=PADDLE_DETECTOR),
    "pp_ocrv6_medium_det": FamilyFacts(
        completions={
            **PADDLE_DETECTOR,
            "backbone_config": {
                "model_type": "hgnet_v2",
                "arch": "L",
                "return_idx": [0, 1, 2, 3],
                "out_features": ["stage1", "stage2", "stage3", "stage4"],
                "out_indices": [1, 2, 3, 4],
            },
        }
    ),
    "pp_ocrv6_small_det": FamilyFacts(
        completions={
            "backbone_config": {
                "model_type": "pp_lcnet_v3",
                "scale": 0.75,
                "divisor": 16,
                "out_features": ["stage2", "stage3", "stage4", "stage5"],
                "out_indices": [2, 3, 4, 5],
            }
        }
    ),
    "qianfan_ocr": FamilyFacts(image_tokens=scaled_by_downsample_ratio),
    "unlimited_ocr": FamilyFacts(image_side=1024, image_tokens=one_per_square(step=64, line_break=1, beside=1)),
    "uvdoc": FamilyFacts(image_side=512, completions=all_stages(6)),
}


RETRIEVAL: Mapping[str, FamilyFacts] = {
    "colmodernvbert": FamilyFacts(images=1, completions={"vlm_config.vision_config.image_size": 512}),
    "colqwen2": FamilyFacts(
        inputs=("input_ids", "padded_patches", "image_grid_thw"),
        completions={"vlm_config.vision_config.hidden_size": value_of("vlm_config.text_config.hidden_size")},
    ),
    "lxmert": FamilyFacts(inputs=("input_ids", "visual_feats", "visual_pos")),
    "modernvbert": FamilyFacts(
        images=1,
        image_tokens=lambda config, image: image.patches // config.pixel_shuffle_factor**2,
        completions={"vision_config.image_size": 512},
    ),
    "perceiver": FamilyFacts(inputs=("inputs",)),
    "siglip2": FamilyFacts(inputs=("input_ids", "pixel_values", "pixel_attention_mask", "spatial_shapes")),
    "siglip2_vision_model": FamilyFacts(inputs=("pixel_values", "pixel_attention_mask", "spatial_shapes")),
    "ultravbert": FamilyFacts(images=1, image_tokens=pixel_shuffled, completions={"vision_config.image_size": 512}),
    "visual_bert": FamilyFacts(inputs=("input_ids", "visual_embeds")),
}


SERIES_AND_ACTIONS: Mapping[str, FamilyFacts] = {
    "autoformer": FamilyFacts(completions={"prediction_length": 24}),
    "decision_transformer": FamilyFacts(inputs=("states", "actions", "rewards", "returns_to_go", "timesteps")),
    "informer": FamilyFacts(completions={"prediction_length": 24}),
    "pi0": FamilyFacts(
        inputs=("action_embeds", "input_ids", "pixel_values", "pixel_attention_mask"),
        images=1,
        image_tokens=lambda _config, _image: 256,
    ),
    "time_series_transformer": FamilyFacts(completions={"prediction_length": 24}),
}


TEXT: Mapping[str, FamilyFacts] = {
    "blt": FamilyFacts(inputs=("input_ids",)),
    "canine": FamilyFacts(inputs=("input_ids",)),
    "dbrx": FamilyFacts(completions={"attn_config.rope_theta": 500000.0, "attn_config.clip_qkv": 8}),
    "deepseek_v2": FamilyFacts(completions={"num_experts_per_tok": 2, "n_routed_experts": 8}),
    "diffusion_gemma": FamilyFacts(
        completions={
            "text_config.num_experts": 128,
            "text_config.top_k_experts": 8,
            "text_config.moe_intermediate_size": 704,
        }
    ),
    "dots1": FamilyFacts(completions={"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6}),
    "esm": FamilyFacts(completions={"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32}),
    "hunyuan_v1_dense": FamilyFacts(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "hunyuan_v1_moe": FamilyFacts(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "lfm2_moe": FamilyFacts(
        completions={
            "layer_types": lambda content: [
                "full_attention" if layer % 4 == 2 else "conv" for layer in range(content["num_hidden_layers"])
            ]
        }
    ),
    "ministral": FamilyFacts(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "nemotron": FamilyFacts(completions={"num_key_value_heads": 8}),
    "reformer": FamilyFacts(inputs=("input_ids",)),
    "roc_bert": FamilyFacts(inputs=("input_ids", "input_shape_ids", "input_pronunciation_ids")),
    "xmod": FamilyFacts(inputs=("input_ids", "lang_ids")),
}


VIDEO: Mapping[str, FamilyFacts] = {
    "pe_video": FamilyFacts(image_side=336),
    "pe_video_encoder": FamilyFacts(image_side=336),
    "timesformer": FamilyFacts(takes_clips=True),
    "tvp": FamilyFacts(images=16),
    "videomae": FamilyFacts(takes_clips=True),
    "videoprism": FamilyFacts(takes_clips=True),
    "videoprism_vision_model": FamilyFacts(takes_clips=True),
    "vivit": FamilyFacts(takes_clips=True),
    "vjepa2": FamilyFacts(takes_clips=True),
    "xclip": FamilyFacts(takes_clips=True),
}


VISION: Mapping[str, FamilyFacts] = {
    "depth_pro": FamilyFacts(image_side=1536),
    "edgetam": FamilyFacts(image_side=1024, completions={"vision_config.backbone_config.architecture": "repvit_m1"}),
    "edgetam_vision_model": FamilyFacts(image_side=1024),
    "efficientloftr": FamilyFacts(image_side=480, images=2),
    "glpn": FamilyFacts(image_side=480),
    "lightglue": FamilyFacts(image_side=480, images=2),
    "mask2former": FamilyFacts(image_side=384),
    "maskformer": FamilyFacts(image_side=384),
    "oneformer": FamilyFacts(image_side=512),
    "sam2": FamilyFacts(image_side=1024),
    "sam2_vision_model": FamilyFacts(image_side=1024),
    "sam3": FamilyFacts(inputs=("pixel_values", "input_ids"), image_side=1008),
    "sam3_tracker": FamilyFacts(image_side=1008),
    "segformer": FamilyFacts(image_side=512),
    "superglue": FamilyFacts(image_side=480, images=2),
    "superpoint": FamilyFacts(image_side=480),
    "upernet": FamilyFacts(image_side=512),
    "vitmatte": FamilyFacts(
        image_side=512,
        completions={
            "fusion_hidden_sizes": [256, 128, 64, 32],
            "hidden_size": value_of("backbone_config.hidden_size"),
            "backbone_config.num_channels": 4,
            "backbone_config.image_size": 512,
        },
    ),
}


VISION_LANGUAGE: Mapping[str, FamilyFacts] = {
    "aria": FamilyFacts(
        image_tokens=lambda config, image: int(config.projector_patch_to_query_dict[image.patches]),
        completions=under("vision_config", {"image_size": 490, "patch_size": 14}),
    ),
    "aya_vision": FamilyFacts(image_tokens=pixel_shuffled),
    "blip-2": FamilyFacts(inputs=("pixel_values", "blip_input_ids"), completions={"image_token_index": 50000}),
    "chameleon": FamilyFacts(
        image_tokens=one_per_square(step=16), completions={"vocabulary_map": {"<image>": 8711, "IMGIMGAZ": 4}}
    ),
    "cohere2_vision": FamilyFacts(image_tokens=pixel_shuffled),
    "cohere_compass": FamilyFacts(
        completions={"text_config.rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 50000.0}}}
    ),
    "cosmos3_edge": FamilyFacts(takes_patch_grid=True),
    "deepseek_vl_hybrid": FamilyFacts(
        image_tokens=lambda _config, _image: 576, completions={"vision_config.image_size": 384}
    ),
    "emu3": FamilyFacts(
        image_side=256,
        takes_image_sizes=True,
        image_tokens=one_per_square(step=8, line_break=1),
        completions={
            "vocabulary_map": lambda _content: {
                "<image>": 151642,
                "<|extra_200|>": 151846,
                **{f"<|visual token {index:06d}|>": 151854 + index for index in range(32768)},
            }
        },
    ),
    "ernie4_5_vl_moe": FamilyFacts(takes_patch_grid=True),
    "fast_vlm": FamilyFacts(image_side=1024, image_tokens=one_per_square(step=64)),
    "fuyu": FamilyFacts(inputs=("input_ids",)),
    "gemma3": FamilyFacts(image_tokens=stated("mm_tokens_per_image"), completions=under("vision_config", SIGLIP_896)),
    "gemma3n": FamilyFacts(image_side=768, image_tokens=stated("vision_soft_tokens_per_image")),
    "glm46v": FamilyFacts(completions={"text_config.rope_parameters.partial_rotary_factor": 0.5}),
    "glm4v": FamilyFacts(completions={"text_config.rope_parameters.partial_rotary_factor": 0.5}),
    "glm4v_moe": FamilyFacts(
        completions={"text_config.rope_parameters.partial_rotary_factor": 0.5, "text_config.head_dim": 128}
    ),
    "glm_image": FamilyFacts(inputs=("input_ids", "pixel_values", "source_grids"), takes_patch_grid=True),
    "glmga": FamilyFacts(completions={"text_config.rope_parameters.partial_rotary_factor": 0.5}),
    "hunyuan_vl": FamilyFacts(
        completions={
            "text_config.head_dim": quotient_of("text_config.hidden_size", "text_config.num_attention_heads"),
            "text_config.rope_parameters.mrope_section": [16, 16, 16, 16],
        }
    ),
    "idefics": FamilyFacts(inputs=("input_ids", "pixel_values", "image_attention_mask"), images=1),
    "idefics2": FamilyFacts(images=1, image_tokens=stated("perceiver_config", "resampler_n_latents")),
    "idefics3": FamilyFacts(images=1, image_tokens=pixel_shuffled, completions={"vision_config.image_size": 384}),
    "inkling2": FamilyFacts(takes_patch_grid=True),
    "instructblip": FamilyFacts(
        inputs=("pixel_values", "qformer_input_ids", "blip_input_ids"), completions={"image_token_index": 30000}
    ),
    "instructblipvideo": FamilyFacts(images=4, completions={"video_token_index": 30000}),
    "internvl": FamilyFacts(image_tokens=scaled_by_downsample_ratio),
    "janus": FamilyFacts(
        image_tokens=patch_count, completions={"vision_config.projection_dim": value_of("text_config.hidden_size")}
    ),
    "kimi_k25": FamilyFacts(takes_patch_grid=True, has_unfolded_patches=True),
    "kosmos-2": FamilyFacts(inputs=("pixel_values", "input_ids", "image_embeds_position_mask")),
    "lfm2_vl": FamilyFacts(image_tokens=packed),
    "llama4": FamilyFacts(
        image_tokens=one_in(4),
        completions={
            "vision_config.intermediate_size": width_after_pixel_shuffle("vision_config"),
            "vision_config.vision_output_dim": value_of("vision_config.projector_output_dim"),
        },
    ),
    "llava": FamilyFacts(
        image_tokens=lambda config, image: image.patches + (config.vision_feature_select_strategy == "full")
    ),
    "llava_next": FamilyFacts(images=5, is_tiled=True, takes_image_sizes=True, image_tokens=two_by_two_tiles),
    "llava_next_video": FamilyFacts(images=5, is_tiled=True, takes_image_sizes=True, image_tokens=two_by_two_tiles),
    "llava_onevision": FamilyFacts(images=5, is_tiled=True, takes_image_sizes=True, image_tokens=two_by_two_tiles),
    "mistral3": FamilyFacts(takes_image_sizes=True, image_tokens=pixel_shuffled),
    "mistral_large4": FamilyFacts(takes_image_sizes=True, image_tokens=pixel_shuffled),
    "mllama": FamilyFacts(inputs=("input_ids",)),
    "molmo2": FamilyFacts(
        inputs=("input_ids", "crops"),
        image_tokens=lambda config, _image: (
            (config.vision_config.image_size[0] // config.vision_config.patch_size // 2 + 1) ** 2
        ),
        completions={"adapter_config.text_hidden_size": value_of("text_config.hidden_size")},
    ),
    "muse_glimmer": FamilyFacts(takes_patch_grid=True),
    "muse_spark": FamilyFacts(takes_patch_grid=True),
    "nemotron_h_omni": FamilyFacts(takes_patch_grid=True, completions={"image_token_id": 18}),
    "neomme": FamilyFacts(takes_patch_grid=True),
    "ovis2": FamilyFacts(completions={"hidden_size": value_of("text_config.hidden_size")}),
    "perception_lm": FamilyFacts(
        image_side=448,
        images=1,
        image_tokens=one_per_square(step=28),
        completions={
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
    ),
    "qwen2_vl": FamilyFacts(completions={"vision_config.hidden_size": value_of("text_config.hidden_size")}),
    "shieldgemma2": FamilyFacts(
        image_tokens=stated("mm_tokens_per_image"), completions=under("vision_config", SIGLIP_896)
    ),
    "smolvlm": FamilyFacts(images=1, image_tokens=pixel_shuffled, completions={"vision_config.image_size": 384}),
    "step3p7": FamilyFacts(image_tokens=one_in(16), completions={"text_config.sliding_window": 512}),
    "t5gemma2": FamilyFacts(completions=under("encoder.vision_config", SIGLIP_896)),
    "t5gemma2_encoder": FamilyFacts(image_tokens=stated("mm_tokens_per_image")),
    "video_llama_3": FamilyFacts(takes_patch_grid=True),
    "vision-encoder-decoder": FamilyFacts(inputs=("pixel_values", "decoder_input_ids")),
}


FAMILIES: Mapping[str, Mapping[str, FamilyFacts]] = {
    "audio": AUDIO,
    "detection": DETECTION,
    "documents": DOCUMENTS,
    "retrieval": RETRIEVAL,
    "series_and_actions": SERIES_AND_ACTIONS,
    "text": TEXT,
    "video": VIDEO,
    "vision": VISION,
    "vision_language": VISION_LANGUAGE,
}
"""Declarations by family; an architecture stands in one family only."""

_UNDECLARED = FamilyFacts()


@cache
def _declared() -> Mapping[str, FamilyFacts]:
    return {kind: facts for family in FAMILIES.values() for kind, facts in family.items()}


def architecture(kind: str) -> FamilyFacts:
    """Return what is declared of an architecture; an empty declaration where nothing is."""
    return _declared().get(kind, _UNDECLARED)


def completed(kind: str, content: Content) -> Iterator[tuple[str, Any]]:
    """Yield the dotted arguments that an architecture's default config needs in addition to its content."""
    yield from _agreeing(content, "")
    for name, value in architecture(kind).completions.items():
        yield name, value(content) if callable(value) else value


def _agreeing(content: Content, prefix: str) -> Iterator[tuple[str, Any]]:
    """Make vision parts output the width that text parts take."""
    text, vision = content.get("text_config"), content.get("vision_config")
    if isinstance(text, Mapping) and isinstance(vision, Mapping) and "hidden_size" in text:
        for key in ("out_hidden_size", "text_hidden_size"):
            if key in vision and vision[key] != text["hidden_size"]:
                yield f"{prefix}vision_config.{key}", text["hidden_size"]
    for key, part in content.items():
        if isinstance(part, Mapping) and key.endswith("_config"):
            yield from _agreeing(part, f"{prefix}{key}.")
