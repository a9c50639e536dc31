"""What configs of transformers and their forward methods do not say, by architecture and family."""

from collections.abc import Mapping

from capplan.probe.transformers.architecture import Architecture, SpectrogramOrder
from capplan.probe.transformers.completions import (
    PADDLE_DETECTOR,
    SIGLIP_896,
    all_stages,
    first_layer_dense,
    quotient_of,
    under,
    value_of,
    width_after_pixel_shuffle,
)
from capplan.probe.transformers.image_tokens import (
    one_in,
    one_per_square,
    packed,
    patch_count,
    pixel_shuffled,
    scaled_by_downsample_ratio,
    stated,
    two_by_two_tiles,
)

AUDIO: Mapping[str, Architecture] = {
    "audioflamingo3": Architecture(frames_per_token=4),
    "clvp": Architecture(inputs=("input_ids", "input_features"), spectrogram=SpectrogramOrder.BINS_FIRST),
    "csm": Architecture(inputs=("input_ids",)),
    "dac": Architecture(has_audio_channel=True),
    "fastspeech2_conformer": Architecture(inputs=("input_ids",)),
    "fun_asr_nano": Architecture(frames=166, stacked_frames=7, frames_per_token=1),
    "glmasr": Architecture(spectrogram=SpectrogramOrder.BINS_FIRST, frames=3000, frames_per_token=8),
    "granite_speech5_ctc": Architecture(stacked_frames=4),
    "moonshine_streaming": Architecture(completions={"num_key_value_heads": value_of("num_attention_heads")}),
    "moss_transcribe_diarize": Architecture(frames_per_token=8),
    "musicflamingo": Architecture(frames_per_token=4),
    "nemo_speechlm": Architecture(frames_per_token=8),
    "neucodec": Architecture(has_audio_channel=True, spectrogram=SpectrogramOrder.TIME_FIRST, frames=500),
    "pe_audio": Architecture(has_audio_channel=True),
    "pe_audio_encoder": Architecture(has_audio_channel=True),
    "pe_audio_video": Architecture(
        inputs=("pixel_values_videos", "input_values"), image_side=336, has_audio_channel=True
    ),
    "qwen3_asr": Architecture(
        spectrogram=SpectrogramOrder.BINS_FIRST,
        frames_per_token=100 / 13,
        completions={"audio_config.output_dim": value_of("text_config.hidden_size")},
    ),
    "seamless_m4t": Architecture(spectrogram=SpectrogramOrder.TIME_FIRST),
    "seamless_m4t_v2": Architecture(spectrogram=SpectrogramOrder.TIME_FIRST),
    "speech-encoder-decoder": Architecture(inputs=("input_values", "decoder_input_ids")),
    "speech_to_text": Architecture(spectrogram=SpectrogramOrder.TIME_FIRST),
    "vibevoice_acoustic_tokenizer": Architecture(has_audio_channel=True),
    "voxtral": Architecture(frames_per_token=8, completions={"audio_token_id": 24}),
    "voxtral_realtime": Architecture(spectrogram=SpectrogramOrder.BINS_FIRST),
    "wav2vec2-bert": Architecture(spectrogram=SpectrogramOrder.TIME_FIRST),
    "xcodec": Architecture(has_audio_channel=True),
    "xcodec2": Architecture(has_audio_channel=True, spectrogram=SpectrogramOrder.TIME_FIRST, frames=500),
}


DETECTION: Mapping[str, Architecture] = {
    "conditional_detr": Architecture(image_side=800),
    "d_fine": Architecture(image_side=640),
    "dab-detr": Architecture(image_side=800),
    "deformable_detr": Architecture(image_side=800),
    "deimv2": Architecture(image_side=640),
    "detr": Architecture(image_side=800),
    "grounding-dino": Architecture(image_side=800),
    "lw_detr": Architecture(image_side=640, completions={"projector_scale_factors": [1.0]}),
    "mm-grounding-dino": Architecture(image_side=800),
    "omdet-turbo": Architecture(image_side=640),
    "rf_detr": Architecture(image_side=560),
    "rt_detr": Architecture(image_side=640),
    "rt_detr_v2": Architecture(image_side=640),
    "table-transformer": Architecture(image_side=800),
}


DOCUMENTS: Mapping[str, Architecture] = {
    "deepseek_ocr2": Architecture(
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
    "dots3_note": Architecture(takes_patch_grid=True),
    "florence2": Architecture(image_side=768, image_tokens=one_per_square(step=32, beside=1)),
    "got_ocr2": Architecture(image_tokens=one_in(16)),
    "granite_docling": Architecture(images=1, image_tokens=one_in(16)),
    "layoutlmv2": Architecture(inputs=("input_ids", "bbox", "image")),
    "lighton_ocr": Architecture(takes_image_sizes=True, image_tokens=pixel_shuffled),
    "paddleocr_vl": Architecture(takes_patch_grid=True, has_unfolded_patches=True),
    "pix2struct": Architecture(inputs=("flattened_patches", "decoder_input_ids")),
    "pp_chart2table": Architecture(image_tokens=one_in(16)),
    "pp_doclayout_v2": Architecture(
        completions={
            "class_thresholds": lambda content: [0.5] * len(content["id2label"]),
            "class_order": lambda content: list(range(len(content["id2label"]))),
        }
    ),
    "pp_ocrv5_server_det": Architecture(completions=PADDLE_DETECTOR),
    "pp_ocrv6_medium_det": Architecture(
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
    "pp_ocrv6_small_det": Architecture(
        completions={
            "backbone_config": {
                "model_type": "pp_lcnet_v3",
                "scale": 0.75,
                "divisor": 16,
                "out_features": ["stage2", "stage3", "stage4", "stage5"],
                "out_indices": [2, 3, 4, 5],
            },
        }
    ),
    "qianfan_ocr": Architecture(image_tokens=scaled_by_downsample_ratio),
    "unlimited_ocr": Architecture(image_side=1024, image_tokens=one_per_square(step=64, line_break=1, beside=1)),
    "uvdoc": Architecture(image_side=512, completions=all_stages(6)),
}


RETRIEVAL: Mapping[str, Architecture] = {
    "colmodernvbert": Architecture(images=1, completions={"vlm_config.vision_config.image_size": 512}),
    "colqwen2": Architecture(
        inputs=("input_ids", "padded_patches", "image_grid_thw"),
        completions={"vlm_config.vision_config.hidden_size": value_of("vlm_config.text_config.hidden_size")},
    ),
    "lxmert": Architecture(inputs=("input_ids", "visual_feats", "visual_pos")),
    "modernvbert": Architecture(
        images=1,
        image_tokens=lambda config, image: image.patches // config.pixel_shuffle_factor**2,
        completions={"vision_config.image_size": 512},
    ),
    "perceiver": Architecture(inputs=("inputs",)),
    "siglip2": Architecture(inputs=("input_ids", "pixel_values", "pixel_attention_mask", "spatial_shapes")),
    "siglip2_vision_model": Architecture(inputs=("pixel_values", "pixel_attention_mask", "spatial_shapes")),
    "ultravbert": Architecture(images=1, image_tokens=pixel_shuffled, completions={"vision_config.image_size": 512}),
    "visual_bert": Architecture(inputs=("input_ids", "visual_embeds")),
}


SERIES_AND_ACTIONS: Mapping[str, Architecture] = {
    "autoformer": Architecture(completions={"prediction_length": 24}),
    "decision_transformer": Architecture(inputs=("states", "actions", "rewards", "returns_to_go", "timesteps")),
    "informer": Architecture(completions={"prediction_length": 24}),
    "pi0": Architecture(
        inputs=("action_embeds", "input_ids", "pixel_values", "pixel_attention_mask"),
        images=1,
        image_tokens=lambda _config, _image: 256,
    ),
    "time_series_transformer": Architecture(completions={"prediction_length": 24}),
}


TEXT: Mapping[str, Architecture] = {
    "blt": Architecture(inputs=("input_ids",)),
    "canine": Architecture(inputs=("input_ids",)),
    "dbrx": Architecture(completions={"attn_config.rope_theta": 500000.0, "attn_config.clip_qkv": 8}),
    "deepseek_v2": Architecture(completions={"num_experts_per_tok": 2, "n_routed_experts": 8}),
    "diffusion_gemma": Architecture(
        completions={
            "text_config.num_experts": 128,
            "text_config.top_k_experts": 8,
            "text_config.moe_intermediate_size": 704,
        }
    ),
    "dots1": Architecture(completions={"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6}),
    "esm": Architecture(completions={"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32}),
    "hunyuan_v1_dense": Architecture(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "hunyuan_v1_moe": Architecture(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "lfm2_moe": Architecture(
        completions={
            "layer_types": lambda content: [
                "full_attention" if layer % 4 == 2 else "conv" for layer in range(content["num_hidden_layers"])
            ]
        }
    ),
    "ministral": Architecture(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "nemotron": Architecture(completions={"num_key_value_heads": 8}),
    "reformer": Architecture(inputs=("input_ids",)),
    "roc_bert": Architecture(inputs=("input_ids", "input_shape_ids", "input_pronunciation_ids")),
    "xmod": Architecture(inputs=("input_ids", "lang_ids")),
}


VIDEO: Mapping[str, Architecture] = {
    "pe_video": Architecture(image_side=336),
    "pe_video_encoder": Architecture(image_side=336),
    "timesformer": Architecture(takes_clips=True),
    "tvp": Architecture(images=16),
    "videomae": Architecture(takes_clips=True),
    "videoprism": Architecture(takes_clips=True),
    "videoprism_vision_model": Architecture(takes_clips=True),
    "vivit": Architecture(takes_clips=True),
    "vjepa2": Architecture(takes_clips=True),
    "xclip": Architecture(takes_clips=True),
}


VISION: Mapping[str, Architecture] = {
    "depth_pro": Architecture(image_side=1536),
    "edgetam": Architecture(image_side=1024, completions={"vision_config.backbone_config.architecture": "repvit_m1"}),
    "edgetam_vision_model": Architecture(image_side=1024),
    "efficientloftr": Architecture(image_side=480, images=2),
    "glpn": Architecture(image_side=480),
    "lightglue": Architecture(image_side=480, images=2),
    "mask2former": Architecture(image_side=384),
    "maskformer": Architecture(image_side=384),
    "oneformer": Architecture(image_side=512),
    "sam2": Architecture(image_side=1024),
    "sam2_vision_model": Architecture(image_side=1024),
    "sam3": Architecture(inputs=("pixel_values", "input_ids"), image_side=1008),
    "sam3_tracker": Architecture(image_side=1008),
    "segformer": Architecture(image_side=512),
    "superglue": Architecture(image_side=480, images=2),
    "superpoint": Architecture(image_side=480),
    "upernet": Architecture(image_side=512),
    "vitmatte": Architecture(
        image_side=512,
        completions={
            "fusion_hidden_sizes": [256, 128, 64, 32],
            "hidden_size": value_of("backbone_config.hidden_size"),
            "backbone_config.num_channels": 4,
            "backbone_config.image_size": 512,
        },
    ),
}


VISION_LANGUAGE: Mapping[str, Architecture] = {
    "aria": Architecture(
        image_tokens=lambda config, image: int(config.projector_patch_to_query_dict[image.patches]),
        completions=under("vision_config", {"image_size": 490, "patch_size": 14}),
    ),
    "aya_vision": Architecture(image_tokens=pixel_shuffled),
    "blip-2": Architecture(inputs=("pixel_values", "blip_input_ids"), completions={"image_token_index": 50000}),
    "chameleon": Architecture(
        image_tokens=one_per_square(step=16), completions={"vocabulary_map": {"<image>": 8711, "IMGIMGAZ": 4}}
    ),
    "cohere2_vision": Architecture(image_tokens=pixel_shuffled),
    "cohere_compass": Architecture(
        completions={"text_config.rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 50000.0}}}
    ),
    "cosmos3_edge": Architecture(takes_patch_grid=True),
    "deepseek_vl_hybrid": Architecture(
        image_tokens=lambda _config, _image: 576, completions={"vision_config.image_size": 384}
    ),
    "emu3": Architecture(
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
    "ernie4_5_vl_moe": Architecture(takes_patch_grid=True),
    "fast_vlm": Architecture(image_side=1024, image_tokens=one_per_square(step=64)),
    "fuyu": Architecture(inputs=("input_ids",)),
    "gemma3": Architecture(image_tokens=stated("mm_tokens_per_image"), completions=under("vision_config", SIGLIP_896)),
    "gemma3n": Architecture(image_side=768, image_tokens=stated("vision_soft_tokens_per_image")),
    "glm46v": Architecture(completions={"text_config.rope_parameters.partial_rotary_factor": 0.5}),
    "glm4v": Architecture(completions={"text_config.rope_parameters.partial_rotary_factor": 0.5}),
    "glm4v_moe": Architecture(
        completions={"text_config.rope_parameters.partial_rotary_factor": 0.5, "text_config.head_dim": 128}
    ),
    "glm_image": Architecture(inputs=("input_ids", "pixel_values", "source_grids"), takes_patch_grid=True),
    "glmga": Architecture(completions={"text_config.rope_parameters.partial_rotary_factor": 0.5}),
    "hunyuan_vl": Architecture(
        completions={
            "text_config.head_dim": quotient_of("text_config.hidden_size", "text_config.num_attention_heads"),
            "text_config.rope_parameters.mrope_section": [16, 16, 16, 16],
        }
    ),
    "idefics": Architecture(inputs=("input_ids", "pixel_values", "image_attention_mask"), images=1),
    "idefics2": Architecture(images=1, image_tokens=stated("perceiver_config", "resampler_n_latents")),
    "idefics3": Architecture(images=1, image_tokens=pixel_shuffled, completions={"vision_config.image_size": 384}),
    "inkling2": Architecture(takes_patch_grid=True),
    "instructblip": Architecture(
        inputs=("pixel_values", "qformer_input_ids", "blip_input_ids"), completions={"image_token_index": 30000}
    ),
    "instructblipvideo": Architecture(images=4, completions={"video_token_index": 30000}),
    "internvl": Architecture(image_tokens=scaled_by_downsample_ratio),
    "janus": Architecture(
        image_tokens=patch_count, completions={"vision_config.projection_dim": value_of("text_config.hidden_size")}
    ),
    "kimi_k25": Architecture(takes_patch_grid=True, has_unfolded_patches=True),
    "kosmos-2": Architecture(inputs=("pixel_values", "input_ids", "image_embeds_position_mask")),
    "lfm2_vl": Architecture(image_tokens=packed),
    "llama4": Architecture(
        image_tokens=one_in(4),
        completions={
            "vision_config.intermediate_size": width_after_pixel_shuffle("vision_config"),
            "vision_config.vision_output_dim": value_of("vision_config.projector_output_dim"),
        },
    ),
    "llava": Architecture(
        image_tokens=lambda config, image: image.patches + (config.vision_feature_select_strategy == "full")
    ),
    "llava_next": Architecture(images=5, is_tiled=True, takes_image_sizes=True, image_tokens=two_by_two_tiles),
    "llava_next_video": Architecture(images=5, is_tiled=True, takes_image_sizes=True, image_tokens=two_by_two_tiles),
    "llava_onevision": Architecture(images=5, is_tiled=True, takes_image_sizes=True, image_tokens=two_by_two_tiles),
    "mistral3": Architecture(takes_image_sizes=True, image_tokens=pixel_shuffled),
    "mistral_large4": Architecture(takes_image_sizes=True, image_tokens=pixel_shuffled),
    "mllama": Architecture(inputs=("input_ids",)),
    "molmo2": Architecture(
        inputs=("input_ids", "crops"),
        image_tokens=lambda config, _image: (
            (config.vision_config.image_size[0] // config.vision_config.patch_size // 2 + 1) ** 2
        ),
        completions={"adapter_config.text_hidden_size": value_of("text_config.hidden_size")},
    ),
    "muse_glimmer": Architecture(takes_patch_grid=True),
    "muse_spark": Architecture(takes_patch_grid=True),
    "nemotron_h_omni": Architecture(takes_patch_grid=True, completions={"image_token_id": 18}),
    "neomme": Architecture(takes_patch_grid=True),
    "ovis2": Architecture(completions={"hidden_size": value_of("text_config.hidden_size")}),
    "perception_lm": Architecture(
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
    "qwen2_vl": Architecture(completions={"vision_config.hidden_size": value_of("text_config.hidden_size")}),
    "shieldgemma2": Architecture(
        image_tokens=stated("mm_tokens_per_image"), completions=under("vision_config", SIGLIP_896)
    ),
    "smolvlm": Architecture(images=1, image_tokens=pixel_shuffled, completions={"vision_config.image_size": 384}),
    "step3p7": Architecture(image_tokens=one_in(16), completions={"text_config.sliding_window": 512}),
    "t5gemma2": Architecture(completions=under("encoder.vision_config", SIGLIP_896)),
    "t5gemma2_encoder": Architecture(image_tokens=stated("mm_tokens_per_image")),
    "video_llama_3": Architecture(takes_patch_grid=True),
    "vision-encoder-decoder": Architecture(inputs=("pixel_values", "decoder_input_ids")),
}
