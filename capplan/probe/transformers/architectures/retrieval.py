"""Retrieval, and models that attend to given features: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture
from capplan.probe.transformers.completions import value_of
from capplan.probe.transformers.image_tokens import pixel_shuffled

ARCHITECTURES = {
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
