"""Vision-language models: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture
from capplan.probe.transformers.completions import SIGLIP_896, quotient_of, under, value_of, width_after_pixel_shuffle
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

ARCHITECTURES = {
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
