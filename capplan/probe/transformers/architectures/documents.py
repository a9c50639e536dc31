"""Documents and OCR: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture
from capplan.probe.transformers.completions import PADDLE_DETECTOR, all_stages, first_layer_dense
from capplan.probe.transformers.image_tokens import one_in, one_per_square, pixel_shuffled, scaled_by_downsample_ratio

ARCHITECTURES = {
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
